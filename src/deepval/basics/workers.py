"""A function and units -> its results in the order of the units, computed by joblib: in
processes of this machine.

With one worker nothing is started and joblib is not imported. The results, and every
byte computed from them, do not depend on the number of workers. A lost worker costs
time only: what is missing is computed again by new workers.
"""

import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from deepval.basics.errors import (
    InputError,
    InputWarning,
    UnfinishedError,
    library,
    reason,
)

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to units and returns the results in their order: the built-in
`map`, or that of `mapping`.
"""
TRIES = 3
"""How often workers may be lost in a row, without any result in between."""
MANAGER = "ExecutorManagerThread"
"""Name of the thread that hands units to joblib's processes."""


@contextmanager
def mapping(workers: int = 1) -> Iterator[Map]:
    """A map over units; its workers end with the `with` statement.

    Args:
        workers: Number of units in work at once; 1 is the built-in `map`.
    """
    if workers == 1:
        yield map
        return

    with _processes(workers) as pool:
        yield partial(_results, pool)


class _Outcome(NamedTuple):
    """The result of a unit, or the error that stopped it."""

    number: int
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class _Pool:
    """Processes of this machine.

    Attributes:
        workers: Number of workers.
        losses: Errors that report lost workers.
    """

    workers: int
    losses: tuple[type[Exception], ...]

    def outcomes(
        self, work: Callable[[Any], Any], units: Mapping[int, Any]
    ) -> Generator[_Outcome, None, None]:
        """The outcomes of units, in the order in which they finish."""
        folder = str(Path.cwd())
        calls = [
            # the form of a call that joblib takes, as its `delayed` returns it
            (_outcome, (folder, work, number, unit), {})
            for number, unit in units.items()
        ]
        parallel = partial(
            library("joblib").Parallel,
            self.workers,
            backend="loky",
            max_nbytes=None,  # else large arrays would be read-only in workers
        )
        # On Windows the parent of a worker is not always the process that started it.
        if os.name == "posix":
            # Also a worker that never gets a unit must end with the command.
            parallel = partial(parallel, initializer=_end_with, initargs=(os.getpid(),))
        _start_processes(parallel, self.workers)
        outcomes = parallel(return_as="generator_unordered")(calls)
        try:
            # no `yield from`: it would close the generator before `finally`
            for outcome in outcomes:  # noqa: UP028
                yield outcome
        finally:
            with warnings.catch_warnings(), _aborted_pool():
                # joblib warns that units in work are cancelled
                warnings.simplefilter("ignore")
                outcomes.close()


@contextmanager
def _aborted_pool() -> Iterator[None]:
    """While a pool is aborted: its manager may look for units that were just dropped.

    It then ends by a KeyError, as it should end, and would print a traceback.
    """
    before = threading.excepthook

    def hook(error: threading.ExceptHookArgs) -> None:
        is_manager = error.thread is not None and error.thread.name == MANAGER
        if not (is_manager and error.exc_type is KeyError):
            before(error)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _results(
    pool: _Pool, work: Callable[[Any], Any], items: Iterable[Any]
) -> Iterator[Any]:
    """The results in the order of the items; an error of the function is raised in
    place of its result.
    """
    units = list(items)
    if len(units) < 2:
        yield from map(work, units)
        return

    missing = dict(enumerate(units))
    finished: dict[int, _Outcome] = {}
    next_index = 0
    lost = 0
    while missing:
        try:
            with closing(pool.outcomes(work, missing)) as outcomes:
                for outcome in outcomes:
                    del missing[outcome.number]
                    finished[outcome.number] = outcome
                    while next_index in finished:
                        next_outcome = finished.pop(next_index)
                        if next_outcome.error is not None:
                            raise next_outcome.error
                        yield next_outcome.result
                        next_index += 1
                        lost = 0
        except pool.losses as error:
            lost += 1
            _check_losses(lost, len(missing), error)


def _check_losses(lost: int, missing: int, error: Exception) -> None:
    """Warn of lost workers; raise if too many were lost in a row."""
    if lost == TRIES:
        raise UnfinishedError(
            f"Workers were lost {TRIES} times in a row: there may not be enough memory "
            "for so many. Use fewer workers, or one to see what happens; results "
            "that the command has stored are not lost."
        ) from error
    units = "1 unit is" if missing == 1 else f"{missing:,} units are"
    note = f"A worker was lost; {units} computed by new workers."
    warnings.warn(InputWarning(note), stacklevel=3)


def _outcome(
    folder: str,
    work: Callable[[Any], Any],
    number: int,
    unit: Any,
) -> _Outcome:
    """The outcome of a unit, computed in a worker."""
    try:
        os.chdir(folder)  # relative paths are relative to the folder of the command
        return _Outcome(number, work(unit))
    except MemoryError as error:
        return _Outcome(
            number,
            error=UnfinishedError(
                f"A worker has too little memory ({reason(error)}): use fewer "
                "workers; results that the command has stored are not lost."
            ),
        )
    except Exception as error:  # noqa: BLE001  (raised again where the result is read)
        if not isinstance(error, InputError):
            error.add_note("".join(traceback.format_exception(error)))
        return _Outcome(number, error=error)
    except SystemExit as end:
        # It would end the worker, and the unit would be tried again.
        error = RuntimeError(f"it ends the program ({end!r})")
        error.add_note("".join(traceback.format_exception(end)))
        return _Outcome(number, error=error)


@cache
def _end_with(parent: int) -> None:
    """End this process when its parent ends, even by a kill, after which joblib's
    workers would go on for minutes.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _processes(workers: int) -> Iterator[_Pool]:
    """Processes of this machine; joblib starts them when there is work."""
    loky = import_module("joblib.externals.loky")
    try:
        yield _Pool(workers, (loky.BrokenProcessPool,))
    finally:
        pool = loky.get_reusable_executor(workers, reuse=True)
        pool.shutdown(kill_workers=True)


def _start_processes(parallel: Callable[..., Any], workers: int) -> None:
    """Start joblib's processes, so that they ignore the interrupts of a terminal.

    Ctrl-C reaches every process of a command. The command itself ends its workers; one
    that is still starting would print a traceback of its own.
    """
    nothing = [(int, (), {}) for _ in range(workers)]
    # Only the main thread may say what a signal does; processes inherit it.
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if in_main_thread:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parallel()(nothing)
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)
