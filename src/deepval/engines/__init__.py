"""Where work on units is done: in processes of this machine or on a Ray cluster; nothing else knows of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal

from deepval.engines.crew import Crew
from deepval.engines.driver import Engine, Map
from deepval.engines.local import LocalCrew, check_memory
from deepval.engines.on_ray import RayCrew
from deepval.errors import InputError

EngineName = Literal["local", "ray"]
ENGINES: dict[str, Callable[[int, int | None, str | None], AbstractContextManager[Crew]]] = {
    "local": lambda workers, memory_mb, address: LocalCrew(workers, memory_mb),
    "ray": RayCrew,
}
"""Each engine's crew of so many workers with so much memory each, at an address where it has one."""

__all__ = ["ENGINES", "Engine", "EngineName", "Map", "engine"]


def engine(
    name: str = "local", *, workers: int = 1, memory_mb: int | None = None, address: str | None = None
) -> Engine:
    """An engine by its name, to be used in a `with` statement.

    Args:
        name: `local` for processes of this machine, `ray` for actors of a Ray cluster.
        workers: How many units are worked on at once; one local worker without a bound is this process itself.
        memory_mb: How much memory each worker may take beyond what it starts with (Linux); None for no bound.
        address: Of a running Ray cluster; a cluster of this machine alone is started where it is None.
    """
    if name not in ENGINES:
        raise InputError(f"An engine must be one of {', '.join(ENGINES)}; found {name!r}.")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"An engine needs at least one worker; found {workers!r}.")
    if address is not None and name == "local":
        raise InputError("An address is one of a Ray cluster: give --engine ray with it.")
    check_memory(memory_mb)
    if name == "local" and workers == 1 and memory_mb is None:
        return Engine(None)
    return Engine(ENGINES[name](workers, memory_mb, address))
