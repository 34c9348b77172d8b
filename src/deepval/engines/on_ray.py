"""Actors of a Ray cluster as workers (extra `ray`); the item of a lost actor or machine
goes back to the queue.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepval.engines.driver import Crew, Done, LostWorker, Worker, bound_memory, outcome
from deepval.errors import InputError, library, reason

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Settings of Ray: no usage statistics, a local cluster listens on this machine only,
and accelerators stay visible.
"""
LOOPBACK = "127.0.0.1"
ANSWER_S = 10.0
"""Seconds that a cluster may take to accept a connection; Ray itself would wait for
minutes without a message.
"""
START = ": start one with `ray start --head`, or leave --address out."


def _library() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = library("ray", purpose="The engine ray", extra="ray")
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray would mix its messages about lost workers into the output of the command; the
    # driver reports the losses.
    ray._private.worker.print_to_stdstream = lambda *lines, **options: None  # noqa: SLF001
    return ray


def _check_answers(address: str) -> None:
    """Raise where host:port accepts no connection; Ray resolves other forms of an
    address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"A Ray cluster must answer at {address}; {reason(error)}{START}"
        ) from error


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].rstrip(".")


class _Seat:
    """The class of an actor. Ray gives it one thread, as it has one processor."""

    def __init__(self, folder: str, memory_mb: int | None) -> None:
        os.chdir(folder)  # relative paths are relative to the folder of the driver
        if memory_mb is not None:
            bound_memory(memory_mb)

    def ready(self) -> bool:
        return True

    def outcome(
        self, work: Callable[[Any], Any], item: Any
    ) -> tuple[Any, BaseException | None]:
        return outcome(work, item)


class _Actor(Worker):
    """An actor and its pending result; the first one is the call of `ready`."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self.ray, self.handle = ray, handle
        self.result = self.handle.ready.remote()

    def begin(self, work: Callable[[Any], Any], item: Any) -> None:
        self.result = self.handle.outcome.remote(work, item)

    def dismiss(self) -> None:
        with suppress(Exception):
            self.ray.kill(self.handle)

    def outcome_at_end(self) -> Done | LostWorker:
        try:
            result, error = self.ray.get(self.result)
        except self.ray.exceptions.RayTaskError as error:
            # the actor failed before the work started
            message = (
                "An actor of the cluster cannot "
                f"take up its work: {_last_line(error)}. "
            )
            return Done(
                error=InputError(
                    message + "The same deepval must be installed on every machine."
                )
            )
        except self.ray.exceptions.RayError as error:
            self.dismiss()
            return LostWorker(f"with {type(error).__name__}")
        return Done(result, error)


class RayCrew(Crew):
    """Actors of one processor each.

    Ray's own retries are off: the driver's queue repeats items.

    Actors are requested without waiting: an actor starts as soon as a machine has room
    for it.
    """

    def __init__(
        self, workers: int, memory_mb: int | None = None, address: str | None = None
    ) -> None:
        self.size, self.memory_mb, self.address = workers, memory_mb, address
        self._ray: Any = None
        self._coming: list[_Actor] = []

    def __enter__(self) -> "RayCrew":
        self._ray = _library()
        settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            # "local": a new cluster, even where one is running on this machine.
            settings |= {"address": "local", "num_cpus": self.size}
            settings |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
        else:
            settings |= {"address": self.address}
            _check_answers(self.address)
        try:
            self._ray.init(**settings)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            where = self.address or "this machine"
            raise InputError(
                f"A Ray cluster must answer at {where}; {reason(error)}{START}"
            ) from error
        return self

    def __exit__(self, *how: Any) -> None:
        for actor in self._coming:
            actor.dismiss()
        self._coming = []
        self._ray.shutdown()

    def hire(self, number: int) -> Worker | None:
        """A ready actor; `number` actors are requested, without waiting for them."""
        seat = self._ray.remote(_Seat).options(
            num_cpus=1, max_restarts=0, max_task_retries=0
        )
        while len(self._coming) < number:
            self._coming.append(
                _Actor(self._ray, seat.remote(str(Path.cwd()), self.memory_mb))
            )
        ready, _ = self._ray.wait(
            [actor.result for actor in self._coming], num_returns=1, timeout=0
        )
        for actor in [actor for actor in self._coming if actor.result in ready]:
            self._coming.remove(actor)
            try:
                self._ray.get(actor.result)
            except self._ray.exceptions.RayError as error:
                self.trouble = (
                    "the last "
                    f"one did not start, {type(error).__name__}: {_last_line(error)}"
                )
                return None
            return actor
        self.trouble = "no machine of the cluster has a processor free"
        return None

    def wait(
        self, busy: Sequence[Worker], timeout_s: float
    ) -> list[tuple[Worker, Done | LostWorker]]:
        """Outcomes of the workers that ended."""
        actors = [worker for worker in busy if isinstance(worker, _Actor)]
        awaited = [actor.result for actor in (*actors, *self._coming)]
        if not awaited:
            time.sleep(timeout_s)
            return []
        ready, _ = self._ray.wait(awaited, num_returns=1, timeout=timeout_s)
        return [
            (actor, actor.outcome_at_end()) for actor in actors if actor.result in ready
        ]
