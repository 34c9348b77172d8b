"""Differences with chance by unit -> how large one more unit against them would have to
be, to end the verdict and to cancel their sum.

Sizes are in multiples of the largest difference seen. A verdict ends where the lower
2.5 percentile of the resampled sum reaches 0; the sum is cancelled several times later.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Counts, PerUnit
from deepval.judge.draws import make_draws
from deepval.judge.intervals import TAILS

FORMULA_FROM = 15
"""Number of units from which a formula has the percentile; below, draws have it."""
DRAWS = 4000
"""Draws of the units and the one more; not the user's, which must not change sizes."""
Z = 1.96
STEPS = 60
"""Bisections, which leave less than a rounding error of the sum."""


class OpposingUnit(NamedTuple):
    """Sizes of one more unit against the others, in multiples of the largest.

    Attributes:
        ends: Ends the verdict; 0 where there is none to end.
        cancels: Brings the sum to 0; at most the number of units.
    """

    ends: float
    cancels: float


def opposing_unit(differences: PerUnit) -> OpposingUnit | None:
    """The sizes; None where every difference is 0."""
    largest = float(np.abs(differences).max())
    if largest == 0:
        return None
    total = float(differences.sum())
    towards = np.sign(total) * differences
    if len(differences) < FORMULA_FROM:
        ends = _end_by_draws(towards)
    else:
        ends = _end_by_formula(towards)
    return OpposingUnit(ends / largest, abs(total) / largest)


def _end_by_formula(towards: PerUnit) -> float:
    """The size at which the percentile is 0; 0 where it is not above 0 at first."""
    percentile = _percentile_with(towards)
    if percentile(0.0) <= 0:
        return 0.0
    low = 0.0
    high = float(towards.sum())
    for _ in range(STEPS):
        middle = (low + high) / 2
        if percentile(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def _percentile_with(towards: PerUnit) -> Callable[[float], float]:
    """The 2.5 percentile of the resampled sum with one more unit, by its size.

    By Cornish and Fisher: sum - 1.96 sqrt(S2) + (1.96^2 - 1) / 6 x S3 / S2, with S2 and
    S3 the sums of squared and cubed deviations from the mean. A rare large unit makes
    the sums skewed.

    The powers about the mean of the units seen are added up once; the one more unit
    moves the mean and adds its own power, so that a size costs no pass over the units.
    """
    units = len(towards) + 1
    total = float(towards.sum())
    center = float(towards.mean())
    squares_seen = float(((towards - center) ** 2).sum())
    cubes_seen = float(((towards - center) ** 3).sum())

    def percentile(size: float) -> float:
        new = -size - center
        shift = new / units  # of the mean
        squares_about = squares_seen + new**2
        squares = squares_about - units * shift**2
        if squares <= 0:
            return total - size
        cubes = cubes_seen + new**3 - 3 * shift * squares_about + 2 * units * shift**3
        skewness = cubes / squares
        return total - size - Z * math.sqrt(squares) + (Z**2 - 1) / 6 * skewness

    return percentile


def _end_by_draws(towards: PerUnit) -> float:
    """The size from which on at most 97.5 % of the resampled sums are above 0."""
    counts = _counts(len(towards) + 1)
    sums = counts[:, :-1] @ towards
    news = counts[:, -1]
    # A draw is against the verdict from the size sum / news on; without the new unit,
    # never or always.
    ends = np.where(sums > 0, np.inf, -np.inf)
    np.divide(sums, news, out=ends, where=news > 0)
    at = int(TAILS[0] * DRAWS)
    return float(np.clip(np.partition(ends, at)[at], 0.0, towards.sum()))


@lru_cache(maxsize=FORMULA_FROM)
def _counts(units: int) -> Counts:
    return make_draws(units, DRAWS).counts
