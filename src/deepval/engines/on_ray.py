"""Actors of a Ray cluster as workers (extra `ray`): what a lost actor or machine was at goes back to the queue."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from deepval.engines.crew import Crew, Done, LostWorker, Worker
from deepval.engines.local import ONE_THREAD, outcome
from deepval.errors import InputError

READY_S = 20.0
"""How long a new actor may take to answer before it counts as none."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DEDUP_LOGS": "1"}
"""Nothing is reported to anybody."""


def _library() -> Any:
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    try:
        import ray  # pyright: ignore[reportMissingImports]  (an extra)
    except ImportError as error:
        raise InputError(
            "The engine ray needs Ray, which is not installed: pip install 'deepval[ray]', or use --engine local."
        ) from error
    return ray


class _Seat:
    """What an actor is: it does what it is told."""

    def ready(self) -> bool:
        return True

    def outcome(self, work: Callable[[Any], Any], item: Any) -> tuple[Any, BaseException | None]:
        return outcome(work, item)


class _Actor(Worker):
    """An actor, and what it is at."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self.ray, self.handle, self.result = ray, handle, None

    def begin(self, work: Callable[[Any], Any], item: Any) -> None:
        self.result = self.handle.outcome.remote(work, item)

    def dismiss(self) -> None:
        with suppress(Exception):
            self.ray.kill(self.handle)

    def ended(self) -> Done | LostWorker:
        try:
            made, error = self.ray.get(self.result)
        except self.ray.exceptions.RayError as error:
            self.dismiss()
            return LostWorker(f"with {type(error).__name__}")
        return Done(made, error)


class RayCrew(Crew):
    """Actors of one processor each. Ray's own retries are off: the driver's queue decides what is done again."""

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.size, self.address = workers, address
        self._ray: Any = None

    def __enter__(self) -> "RayCrew":
        self._ray = _library()
        settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
        if self.address is None:
            settings |= {"num_cpus": self.size, "_node_ip_address": "127.0.0.1"}
        else:
            settings = {"address": self.address, "log_to_driver": False, "configure_logging": False}
        try:
            self._ray.init(**settings)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = self.address or "this machine"
            told = str(error).partition("\n")[0]
            raise InputError(f"A Ray cluster must answer at {where}; {type(error).__name__}: {told}") from error
        return self

    def __exit__(self, *how: Any) -> None:
        self._ray.shutdown()

    def hire(self) -> Worker | None:
        """Another actor, None where no machine has a processor free."""
        variables = {"env_vars": dict.fromkeys(ONE_THREAD, "1")}
        seat = self._ray.remote(_Seat).options(num_cpus=1, max_restarts=0, max_task_retries=0, runtime_env=variables)
        handle = seat.remote()
        ready = handle.ready.remote()
        try:
            done, _ = self._ray.wait([ready], timeout=READY_S)
            if done and self._ray.get(done[0]):
                return _Actor(self._ray, handle)
        except self._ray.exceptions.RayError:
            return None
        with suppress(Exception):
            self._ray.kill(handle)
        return None

    def wait(self, busy: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, Done | LostWorker]]:
        """What became of those that ended meanwhile."""
        actors = [worker for worker in busy if isinstance(worker, _Actor)]
        if not actors:
            return []
        ready, _ = self._ray.wait([actor.result for actor in actors], num_returns=1, timeout=timeout_s)
        return [(actor, actor.ended()) for actor in actors if actor.result in ready]
