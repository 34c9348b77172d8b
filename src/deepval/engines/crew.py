"""The interface between an engine's driver and its workers: a crew hires workers and reports results and losses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any


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
        memory_mb: Memory that each worker may take beyond its initial memory; None for no bound.
        trouble: Why the last call of `hire` returned no worker; None where the reason is unknown.
    """

    size: int
    memory_mb: int | None = None
    trouble: str | None = None

    @abstractmethod
    def hire(self, number: int) -> Worker | None:
        """Another worker; None where none is ready yet. `number` workers are needed besides the busy ones."""

    @abstractmethod
    def wait(self, busy: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, Done | LostWorker]]:
        """Outcomes of the workers that ended; empty after the timeout, or where a new worker became ready."""
