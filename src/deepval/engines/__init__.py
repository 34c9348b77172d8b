"""The name of an engine -> an engine that maps work over units: in processes of this
machine or on a Ray cluster.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from deepval.engines.driver import Crew, Engine, LocalCrew, Map, check_memory
from deepval.engines.on_ray import RayCrew
from deepval.errors import InputError

ENGINES: dict[
    str, Callable[[int, int | None, str | None], AbstractContextManager[Crew]]
] = {
    "local": lambda workers, memory_mb, address: LocalCrew(workers, memory_mb),
    "ray": RayCrew,
}
"""Crew of each engine, from the number of workers, their memory and the address of the
cluster.
"""

__all__ = ["ENGINES", "Engine", "Map", "engine"]


def engine(
    name: str = "local",
    *,
    workers: int = 1,
    memory_mb: int | None = None,
    address: str | None = None,
) -> Engine:
    """An engine by its name, to be used in a `with` statement.

    Args:
        name: `local` for processes of this machine, `ray` for actors of a Ray cluster.
        workers: Number of units in work at once; one local worker without a memory
            bound is this process itself.
        memory_mb: Memory that each worker may take beyond its initial memory (Linux);
            None for no bound.
        address: Address of a running Ray cluster; None starts a cluster on this
            machine.
    """
    if name not in ENGINES:
        raise InputError(
            f"An engine must be one of {', '.join(ENGINES)}; found {name!r}."
        )
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"An engine needs at least one worker; found {workers!r}.")
    if address is not None and name == "local":
        raise InputError(
            "An address belongs to a Ray cluster: give --engine ray with it."
        )
    check_memory(memory_mb)
    if name == "local" and workers == 1 and memory_mb is None:
        return Engine(None)
    return Engine(ENGINES[name](workers, memory_mb, address))
