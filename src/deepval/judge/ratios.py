"""Ratios of sums over inputs, with intervals over units."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.basics.arrays import Shaped
from deepval.judge.bootstrap import sums_by_unit
from deepval.judge.draws import Draws
from deepval.judge.intervals import interval_over
from deepval.judge.tables.values import ValueTable


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums over inputs, and its 95 % interval over units.

    Attributes:
        value: The ratio; None where the whole is not positive.
        lo: Lower bound; None where there is no ratio, no draw or a single unit.
        hi: Upper bound.
        dropped: Draws in which the whole is not positive: they are left out of the
            interval.
    """

    value: float | None
    lo: float | None = None
    hi: float | None = None
    dropped: int = 0

    def columns(self, name: str) -> dict[str, Any]:
        """The ratio and its bounds as columns of this name."""
        return {name: self.value, f"{name}_lo": self.lo, f"{name}_hi": self.hi}


def ratio(
    table: ValueTable,
    part: Shaped[np.ndarray, "input"],
    whole: Shaped[np.ndarray, "input"],
    *,
    draws: Draws,
) -> Ratio:
    """Sum of `part` / sum of `whole` over the inputs of a table.

    The units of the draws are those of the table.
    """
    total = float(whole.sum())
    if not total > 0:
        return Ratio(None)
    value = float(part.sum()) / total
    if len(table.unit_ids) < 2 or len(draws) == 0:
        return Ratio(value)
    over = draws.counts @ sums_by_unit(table, part.astype(np.float64))
    under = draws.counts @ sums_by_unit(table, whole.astype(np.float64))
    undefined = np.full(len(over), np.nan)
    samples = np.divide(over, under, out=undefined, where=under > 0)
    dropped = int(np.count_nonzero(~(under > 0)))
    own = interval_over(samples, draws, scale=0.0)
    if own is None:
        return Ratio(value, dropped=dropped)
    return Ratio(value, own.low, own.high, dropped)
