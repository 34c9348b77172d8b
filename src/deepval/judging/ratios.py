"""Two parts per input -> the ratio of their sums with its interval over resampled units: a harm rate, a harm ratio."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Shaped
from deepval.judging.draws import Draws
from deepval.results import known
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums over inputs, and its 95 % interval over units.

    Attributes:
        value: The ratio; None where the whole is not positive.
        lo: Lower bound; None where there is no ratio, no draw or a single unit.
        hi: Upper bound.
        dropped: Draws in which the whole is not positive: they are left out of the interval.
    """

    value: float | None
    lo: float | None
    hi: float | None
    dropped: int


def ratio(
    table: ValueTable, part: Shaped[np.ndarray, "input"], whole: Shaped[np.ndarray, "input"], *, draws: Draws
) -> Ratio:
    """Sum of `part` / sum of `whole` over the inputs of a table whose units are those of the draws."""
    units = len(table.unit_ids)
    sums = np.column_stack(
        [np.bincount(table.unit, weights=one.astype(np.float64), minlength=units) for one in (part, whole)]
    )
    total = float(whole.sum())
    if not total > 0:
        return Ratio(None, None, None, 0)
    value = float(part.sum()) / total
    if units < 2 or not len(draws):
        return Ratio(value, None, None, 0)
    over, under = (draws.counts @ sums).T
    kept = under > 0
    samples = np.divide(over, under, out=np.full(len(over), np.nan), where=kept)
    found = draws.interval(samples, kept)
    return Ratio(value, known(found.low), known(found.high), int(np.count_nonzero(~kept)))
