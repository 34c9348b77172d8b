"""Differences with random by unit -> what holds for the next unit, and intervals without draws.

D_u is the difference of a unit: its gain under the judged selection minus the gain of random selection in it. L_u is
the all-cheap loss of the unit. mu = sum of D / sum of L is `versus_random` of a row.
"""

import math

import numpy as np

from deepval.arrays import Float
from deepval.judging.draws import LEVEL, TAILS, Interval, student_quantile

PerUnit = Float[np.ndarray, "unit"]
BETS = np.arange(1, 21) / 20
"""Shares of the capital that are bet on every unit."""


def beyond(units: int) -> float:
    """The chance that a new unit is worse than the worst of these: exact for exchangeable units without ties.

    Each of the units + 1 is equally likely to be the worst. With ties the chance is smaller.
    """
    return 1 / (units + 1)


def units_for(certainty: float = LEVEL, *, sides: int = 2) -> int:
    """The smallest number of units whose range contains a new unit with this certainty, on one side or on both."""
    return math.ceil(sides / (1 - certainty) - 1e-9) - 1


def break_even_unit(difference: PerUnit) -> float:
    """The size of an unseen unit that would bring the total difference to 0, in multiples of the largest unit.

    |sum of D| / largest |D|; NaN where every difference is 0. It is at most the number of units.
    """
    largest = float(np.abs(difference).max(initial=0.0))
    return abs(float(difference.sum())) / largest if largest > 0 else math.nan


def without_draws(difference: PerUnit, loss: PerUnit, *, effective: float) -> Interval:
    """The second opinion without draws: mu +- Student's t x sqrt(sum of (D - mu L)^2 / (1 - L / sum of L)) / sum of L.

    The degrees of freedom are `effective` units - 1, at least 1, as in `cautious`. The division corrects for the
    influence of a unit on mu. There is no interval if a loss is negative or if one unit has all of it.
    """
    total = float(loss.sum())
    if loss.min(initial=0.0) < 0 or not loss.max(initial=0.0) < total:
        return Interval(math.nan, math.nan)
    mean = float(difference.sum()) / total
    error = math.sqrt(float(((difference - mean * loss) ** 2 / (1 - loss / total)).sum())) / total
    half = student_quantile(TAILS[0], max(1.0, effective - 1) if effective >= 1 else 1.0) * error
    return Interval(mean - half, mean + half)


def betting(difference: PerUnit, loss: PerUnit, bound: float) -> Interval:
    """The 95 % interval of mu if |D| <= bound x L in every unit and no unit's loss exceeds the largest of these.

    Against the claim that mu is at most m, one bets on D - m L of every unit, which is at least -(bound + m) x largest
    loss: no capital becomes negative, and under the claim none is expected to grow. A claim is refuted when the mean
    capital over `BETS` reaches 40 = 1 / 2.5 %. The capital falls as m rises, so the bound is found by bisection.
    """
    low = _lower(difference, loss, bound)
    return Interval(low, -_lower(-difference, loss, bound))


def _lower(difference: PerUnit, loss: PerUnit, bound: float) -> float:
    refuted, possible = -bound, bound
    for _ in range(40):  # to 12 digits; the divisor stays above 0
        mean = (refuted + possible) / 2
        stakes = (difference - mean * loss) / ((bound + mean) * float(loss.max()))
        # The last digits of a division must not make a capital negative.
        growth = np.log1p(np.maximum(np.outer(BETS, stakes), -1 + 1e-15)).sum(axis=1)
        if np.logaddexp.reduce(growth) >= math.log(len(BETS) / TAILS[0]):
            refuted = mean
        else:
            possible = mean
    return refuted
