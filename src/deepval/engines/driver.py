"""A function and items -> its results in the order of the items, with any engine and in
spite of lost workers.

There is one queue: a free worker takes the next item, and the item of a lost worker
goes back to the front. So the results, and every byte computed from them, depend
neither on the engine nor on the number of workers. Workers of the local engine are
processes of this machine: work comes through a pipe, and the end of a process is
detected at once.
"""

import os
import signal
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from deepval.errors import InputError, InputWarning, UnfinishedError, reason
from deepval.files import reading


@dataclass(frozen=True)
class Done:
    """The result of a finished worker, or the error that stopped it."""

    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class LostWorker:
    """A worker was lost; `how` describes how it ended."""

    how: str


class Worker(ABC):
    """Works on one item at a time, in another process."""

    @abstractmethod
    def begin(self, work: Callable[[Any], Any], item: Any) -> None:
        """Start work on an item; `Crew.wait` reports the outcome."""

    @abstractmethod
    def dismiss(self) -> None:
        """End the worker, even during work."""


class Crew(AbstractContextManager["Crew"], ABC):
    """Workers of one kind.

    Attributes:
        size: Number of workers.
        memory_mb: Memory that each worker may take beyond its initial memory; None for
            no bound.
        trouble: Why the last call of `hire` returned no worker; None where the reason
            is unknown.
    """

    size: int
    memory_mb: int | None = None
    trouble: str | None = None

    @abstractmethod
    def hire(self, number: int) -> Worker | None:
        """Another worker; None where none is ready yet.

        `number` workers are needed besides the busy ones.
        """

    @abstractmethod
    def wait(
        self, busy: Sequence[Worker], timeout_s: float
    ) -> list[tuple[Worker, Done | LostWorker]]:
        """Outcomes of the workers that ended; empty after the timeout, or where a new
        worker became ready.
        """


Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to items and returns the results in their order: the built-in
`map`, or an engine's.
"""
ATTEMPTS = 3
"""Number of workers that an item may lose before the run stops."""
PATIENCE_S = 10.0
"""Seconds without a worker before a warning."""
GIVE_UP_S = 300.0
"""Seconds without a worker before the run stops."""


class Engine:
    """Maps functions over items, in this process where it has no crew; see
    `deepval.engines.engine`.
    """

    def __init__(self, crew: Any = None) -> None:
        self._crew: Crew | None = crew
        self._workers: list[Worker] = []

    def __enter__(self) -> "Engine":
        if self._crew is not None:
            self._crew.__enter__()
        return self

    def __exit__(self, *how: Any) -> None:
        for worker in self._workers:
            worker.dismiss()
        self._workers = []
        if self._crew is not None:
            self._crew.__exit__(*how)

    @property
    def here(self) -> bool:
        """Whether all work runs in this process."""
        return self._crew is None

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """The results in the order of the items; an error of the function is raised in
        place of its result.
        """
        if self._crew is None:
            yield from map(work, items)
            return
        item_list = list(items)
        shift = _Shift(self._crew, self._workers, work, item_list)
        try:
            for index in range(len(item_list)):
                while index not in shift.done:
                    shift.go_on()
                outcome = shift.done.pop(index)
                if outcome.error is not None:
                    raise outcome.error
                yield outcome.result
        finally:
            shift.end()


class _Shift:
    """One function over its items."""

    def __init__(
        self,
        crew: Crew,
        workers: list[Worker],
        work: Callable[[Any], Any],
        items: list[Any],
    ) -> None:
        self.crew, self.free, self.work, self.items = crew, workers, work, items
        self.waiting = deque(range(len(items)))
        self.busy: dict[int, tuple[Worker, int]] = {}
        self.lost: dict[int, int] = {}
        self.done: dict[int, Done] = {}
        self.reported = self.manned = time.monotonic()

    def go_on(self) -> None:
        """Start waiting items on free workers, and collect finished ones."""
        self._give_out()
        ended = self.crew.wait([worker for worker, _ in self.busy.values()], 1.0)
        for worker, outcome in ended:
            _, index = self.busy.pop(id(worker))
            if isinstance(outcome, Done):
                self.done[index] = self._with_memory_error(index, outcome)
                self.free.append(worker)
            else:
                self._put_back(index, outcome)
        now = time.monotonic()
        self.manned = now if self.busy or self.free else self.manned
        if ended or self.busy:
            self.reported = now
        elif now - self.reported > PATIENCE_S:
            self.reported = now
            self._report_no_worker(now)

    def _give_out(self) -> None:
        """Start waiting items while workers are free or can be hired."""
        while self.waiting:
            if not self.free and len(self.busy) < self.crew.size:
                hired = self.crew.hire(
                    min(len(self.waiting), self.crew.size - len(self.busy))
                )
                self.free += [] if hired is None else [hired]
            if not self.free:
                return
            worker, index = self.free.pop(), self.waiting.popleft()
            worker.begin(self.work, self.items[index])
            self.busy[id(worker)] = worker, index

    def _with_memory_error(self, index: int, outcome: Done) -> Done:
        """The outcome of an item; a MemoryError becomes an UnfinishedError with
        advice.
        """
        if not isinstance(outcome.error, MemoryError):
            return outcome
        bound = self.crew.memory_mb
        return Done(
            error=UnfinishedError(
                (
                    f"Work on {_item_name(self.items[index])} needs "
                    "more memory than a worker has"
                )
                + (
                    ""
                    if bound is None
                    else f", which is bounded to {bound:,} MB by --worker-memory"
                )
                + (
                    f" ({reason(outcome.error)}): give it more, with a larger "
                    "--worker-memory or fewer --workers; results that the command has "
                    "stored are not lost."
                )
            )
        )

    def _put_back(self, index: int, loss: LostWorker) -> None:
        """Put the item of a lost worker back to the front of the queue, or give it up
        after ATTEMPTS losses.
        """
        self.lost[index] = self.lost.get(index, 0) + 1
        item = _item_name(self.items[index])
        if self.lost[index] >= ATTEMPTS:
            bound = (
                ""
                if self.crew.memory_mb is None
                else (
                    f", which --worker-memory bounds to {self.crew.memory_mb:,} MB each"
                )
            )
            error = UnfinishedError(
                f"Work on {item} ended {ATTEMPTS} workers one after the other, the "
                f"last one {loss.how}: there may not be enough memory for it{bound}. "
                "Use fewer --workers, or one to see what happens; results that the "
                "command has stored are not lost."
            )
            self.done[index] = Done(error=error)
            return
        _warn(f"A worker was lost ({loss.how}); {item} is given to another.")
        self.waiting.appendleft(index)

    def _report_no_worker(self, now: float) -> None:
        """Warn that no worker is available; raise after GIVE_UP_S seconds."""
        why = "" if self.crew.trouble is None else f" ({self.crew.trouble})"
        alone, left = now - self.manned, len(self.waiting)
        if alone > GIVE_UP_S:
            raise UnfinishedError(
                f"No worker was available for {alone:.0f} s{why} and "
                f"{_units_are(left)} waiting: add a machine to the cluster, or run "
                "the command again where there is room; results that the command has "
                "stored are not lost."
            )
        _warn(
            f"No worker has been available for {alone:.0f} s{why}; {_units_are(left)} "
            f"waiting for a machine with room, and after {GIVE_UP_S:.0f} s without "
            "any the command ends."
        )

    def end(self) -> None:
        """Dismiss the busy workers, whose results are not needed any more."""
        for worker, _ in self.busy.values():
            worker.dismiss()
        self.busy.clear()


def _units_are(units: int) -> str:
    return "1 unit is" if units == 1 else f"{units:,} units are"


def _item_name(item: Any) -> str:
    text = (
        item
        if isinstance(item, str)
        else str(getattr(item, "unit", type(item).__name__))
    )
    return text if len(text) <= 60 else f"{text[:60]}..."


def _warn(text: str) -> None:
    warnings.warn(InputWarning(text), stacklevel=3)


ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that limit each worker to one thread: parallelism comes from
the number of workers.
"""


class _Process(Worker):
    """A process that waits for work at the other end of a pipe."""

    def __init__(self, memory_mb: int | None) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_serve, args=(theirs, memory_mb), daemon=True
        )
        self.process.start()
        theirs.close()

    def begin(self, work: Callable[[Any], Any], item: Any) -> None:
        with suppress(OSError):  # `outcome_at_end` reports a process that is gone
            self.pipe.send((work, item))

    def dismiss(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def outcome_at_end(self) -> Done | LostWorker:
        """The outcome that came through the pipe, or how the process ended."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            self.pipe.close()
            return LostWorker(
                f"by signal {-code} ({signal.strsignal(-code)})"
                if code < 0
                else f"with exit code {code}"
            )
        return Done(result, error)


class LocalCrew(Crew):
    """Processes of this machine; a lost process is replaced by a new one."""

    def __init__(self, workers: int, memory_mb: int | None = None) -> None:
        self.size, self.memory_mb = workers, memory_mb
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> "LocalCrew":
        self._before = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        return self

    def __exit__(self, *how: Any) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def hire(self, number: int) -> Worker:
        """Another worker."""
        return _Process(self.memory_mb)

    def wait(
        self, busy: Sequence[Worker], timeout_s: float
    ) -> list[tuple[Worker, Done | LostWorker]]:
        """Outcomes of the workers that ended."""
        processes = [worker for worker in busy if isinstance(worker, _Process)]
        ready = connection.wait([worker.pipe for worker in processes], timeout_s)
        return [
            (worker, worker.outcome_at_end())
            for worker in processes
            if worker.pipe in ready
        ]


def _serve(pipe: Any, memory_mb: int | None) -> None:
    """Work on the items that come through the pipe until it is closed; Ctrl-C is left
    to the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    if memory_mb is not None:
        bound_memory(memory_mb)
    with suppress(EOFError):
        while True:
            work, item = pipe.recv()
            pipe.send(outcome(work, item))


def _end_with_parent() -> None:
    """End this process when its parent ends, for any reason: no other process takes its
    results.
    """
    parent = parent_process()

    def wait() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    if parent is not None:
        Thread(target=wait, daemon=True).start()


def check_memory(memory_mb: int | None) -> None:
    """Raise where the bound is not valid, or this system cannot bound the memory of a
    process.
    """
    if memory_mb is None:
        return
    if isinstance(memory_mb, bool) or not isinstance(memory_mb, int) or memory_mb < 1:
        raise InputError(
            f"Memory of a worker must be a whole number of MB; found {memory_mb!r}."
        )
    if sys.platform != "linux":
        raise InputError(
            "Memory of workers is bounded on Linux alone, and this is "
            f"{sys.platform}: leave it out."
        )


def bound_memory(most_mb: int) -> None:
    """Bound the memory of this process to `most_mb` beyond its present use; further
    allocation raises MemoryError.
    """
    import resource

    status = reading.text(Path("/proc/self/status"))
    (has_kb,) = (
        int(line.split()[1])
        for line in status.splitlines()
        if line.startswith("VmData:")
    )
    bound = has_kb * 1024 + most_mb * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def outcome(work: Callable[[Any], Any], item: Any) -> tuple[Any, BaseException | None]:
    """The result of a function on an item, and the error that stopped it, in a form
    that can be pickled.
    """
    try:
        return work(item), None
    except InputError as error:
        return None, error
    except MemoryError as error:  # subclasses of some libraries cannot be pickled
        return None, MemoryError(str(error))
    except Exception as error:  # noqa: BLE001  (it is raised again where the result is read)
        error.add_note("".join(traceback.format_exception(error)))
        return None, error
