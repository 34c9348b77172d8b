"""Options that several commands take together: how intervals are drawn, and who does the work."""

from dataclasses import dataclass
from typing import Any, Literal

from deepval.cli import options
from deepval.cli.several import Several
from deepval.engines import Engine, engine


@dataclass(frozen=True)
class Drawn(Several):
    """The draws of units behind intervals."""

    draws: options.DrawNumber = "1000"
    seed: options.Seed = 0

    def __post_init__(self) -> None:
        options.draws(self.draws)

    @property
    def number(self) -> int | Literal["exact"]:
        """How many."""
        return options.draws(self.draws)

    @property
    def settings(self) -> dict[str, Any]:
        """As functions of the library take them."""
        return {"draws": self.number, "seed": self.seed}


@dataclass(frozen=True)
class WhoWorks(Several):
    """Processes of this machine or actors of a cluster, and how many."""

    engine: options.EngineName = "local"
    workers: options.Workers = 1
    memory: options.Memory = None
    address: options.Address = None

    def hired(self) -> Engine:
        """The engine, to be used in a `with` statement."""
        return engine(self.engine, workers=self.workers, memory_mb=self.memory, address=self.address)
