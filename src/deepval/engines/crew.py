"""What an engine's driver knows of workers: a crew hires them, and tells what each made or that it is lost."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Done:
    """A worker finished: what it made, or the error that stopped it."""

    made: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class LostWorker:
    """A worker is gone; `how` says in words how it ended."""

    how: str


class Worker(ABC):
    """Does one thing at a time, somewhere else."""

    @abstractmethod
    def begin(self, work: Callable[[Any], Any], item: Any) -> None:
        """Start on an item; what becomes of it the crew tells."""

    @abstractmethod
    def dismiss(self) -> None:
        """End the worker, whatever it is at."""


class Crew(AbstractContextManager["Crew"], ABC):
    """Workers of one kind.

    Attributes:
        size: How many there should be.
        memory_mb: How much each may take beyond what it starts with; None for no bound.
        trouble: Why there was no worker to be had when one was last asked for, in words where that is known.
    """

    size: int
    memory_mb: int | None = None
    trouble: str | None = None

    @abstractmethod
    def hire(self, wanted: int) -> Worker | None:
        """Another worker, of so many that are wanted beside those at work; None where none is there yet."""

    @abstractmethod
    def wait(self, busy: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, Done | LostWorker]]:
        """What became of those that ended meanwhile; nothing where none did in time, or where a new worker came."""
