"""A user's own code, wrapped -> its time per input and stage, and its cost card."""

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from time import perf_counter_ns
from types import TracebackType

import numpy as np

from deepval.errors import InputError
from deepval.metering.cards import NOT_ASKED, CostCard
from deepval.metering.energy import Spent
from deepval.metering.timing import DEFAULT_TOLERANCE, Clock, Timing


class Meter(ContextDecorator):
    """Measures each input that runs inside it: `with meter: ...` is one input, and so is a call of `@meter`.

    `meter.stage(name)` measures a part of an input, as a context or a decorator; a stage that is entered several times
    adds up. The total is the whole of the input, in stages or not. An input that raises does not count.
    """

    def __init__(self, name: str, *, warmup: int = 0, batch: int | None = None, clock: Clock = perf_counter_ns) -> None:
        """A meter of this name that leaves out the first `warmup` inputs (or batches of `batch` inputs)."""
        self.name, self.warmup, self.batch = name, warmup, batch
        self._clock = clock
        self._rows: list[dict[str, int]] = []
        self._totals: list[int] = []
        self._row: dict[str, int] | None = None
        self._began = 0

    def __enter__(self) -> "Meter":
        if self._row is not None:
            raise InputError(f"Inputs of meter {self.name!r} must come one after the other; one is still running.")
        self._row = {}
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took, row = self._clock() - self._began, self._row or {}
        self._row = None
        if kind is None:
            self._rows.append(row)
            self._totals.append(took)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of an input: `with meter.stage("inference"): ...`, or a decorator."""
        if self._row is None:
            raise InputError(
                f"Stage {name!r} must run inside an input: write `with meter:` around what one input takes."
            )
        row, began = self._row, self._clock()
        try:
            yield
        finally:
            row[name] = row.get(name, 0) + self._clock() - began

    def timing(self, *, tolerance: float = DEFAULT_TOLERANCE) -> Timing:
        """Milliseconds per input so far; a stage that an input did not enter took none."""
        rows, totals = self._rows[self.warmup :], self._totals[self.warmup :]
        if not rows:
            raise InputError(
                f"Meter {self.name!r} needs an input after {self.warmup} to warm up; it saw {len(self._rows)}."
            )
        scale = 1e6 * (self.batch or 1)
        names = dict.fromkeys(name for row in rows for name in row)
        stages = {name: np.array([row.get(name, 0) for row in rows]) / scale for name in names}
        return Timing(np.array(totals) / scale, stages, self.batch, tolerance)

    def card(
        self,
        *,
        threads: int | None = None,
        device: str | None = None,
        energy: Spent | str = NOT_ASKED,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> CostCard:
        """The cost card of the measured inputs; `threads` and `device` are those of this machine unless passed."""
        return CostCard.of(self.name, self.timing(tolerance=tolerance), threads=threads, device=device, energy=energy)
