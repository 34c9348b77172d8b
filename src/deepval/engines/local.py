"""Processes of this machine as workers: each receives work through a pipe, and its end is detected at once."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from deepval.engines.driver import Crew, Done, LostWorker, Worker
from deepval.errors import InputError
from deepval.files import reading

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that limit each worker to one thread: parallelism comes from the number of workers."""


class _Process(Worker):
    """A process that waits for work at the other end of a pipe."""

    def __init__(self, memory_mb: int | None) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(theirs, memory_mb), daemon=True)
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
                f"by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"with exit code {code}"
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

    def wait(self, busy: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, Done | LostWorker]]:
        """Outcomes of the workers that ended."""
        processes = [worker for worker in busy if isinstance(worker, _Process)]
        ready = connection.wait([worker.pipe for worker in processes], timeout_s)
        return [(worker, worker.outcome_at_end()) for worker in processes if worker.pipe in ready]


def _serve(pipe: Any, memory_mb: int | None) -> None:
    """Work on the items that come through the pipe until it is closed; Ctrl-C is left to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    if memory_mb is not None:
        bound_memory(memory_mb)
    with suppress(EOFError):
        while True:
            work, item = pipe.recv()
            pipe.send(outcome(work, item))


def _end_with_parent() -> None:
    """End this process when its parent ends, for any reason: no other process takes its results."""
    parent = parent_process()

    def wait() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    if parent is not None:
        Thread(target=wait, daemon=True).start()


def check_memory(memory_mb: int | None) -> None:
    """Raise where the bound is not valid, or this system cannot bound the memory of a process."""
    if memory_mb is None:
        return
    if isinstance(memory_mb, bool) or not isinstance(memory_mb, int) or memory_mb < 1:
        raise InputError(f"Memory of a worker must be a whole number of MB; found {memory_mb!r}.")
    if sys.platform != "linux":
        raise InputError(f"Memory of workers is bounded on Linux alone, and this is {sys.platform}: leave it out.")


def bound_memory(most_mb: int) -> None:
    """Bound the memory of this process to `most_mb` beyond its present use; further allocation raises MemoryError."""
    import resource

    status = reading.text(Path("/proc/self/status"))
    (has_kb,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    bound = has_kb * 1024 + most_mb * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def outcome(work: Callable[[Any], Any], item: Any) -> tuple[Any, BaseException | None]:
    """The result of a function on an item, and the error that stopped it, in a form that can be pickled."""
    try:
        return work(item), None
    except InputError as error:
        return None, error
    except MemoryError as error:  # subclasses of some libraries cannot be pickled
        return None, MemoryError(str(error))
    except Exception as error:  # noqa: BLE001  (it is raised again where the result is read)
        error.add_note("".join(traceback.format_exception(error)))
        return None, error
