"""Harms of units at falling thresholds -> the chance to see so little harm by luck,
while the expected harm is above a target.

A threshold is certain where this chance is at most 1 - certainty, from the highest
threshold down to it: harm never rises with the threshold, so the first failure ends the
walk and no correction is due. Few units are judged by Hoeffding and Bentkus, many by
betting, which is tighter then.
"""

import math

import numpy as np

from deepval.basics.arrays import Float, InputFloats, InputInts

BETTING_FROM = 60
"""Number of units from which betting is tighter."""
BETS = np.arange(1, 21) / 20
"""Shares of the wealth that are bet on harm below the target."""
MOST_UNITS = 1_000_000
"""Largest number of units that `fewest_units` tries."""
ROUNDING = 1e-9
"""A number of harmed units is whole up to this."""


def chances_of_luck(
    harm: InputFloats,
    before: InputFloats,
    level: InputInts,
    *,
    units: int,
    target: float,
) -> Float[np.ndarray, "level"]:
    """The p-value of every level, after none, one, two and more of them.

    Args:
        harm: For every input, the harm of its unit as a share of the bound, once the
            input and those above it are escalated.
        before: The same without the input.
        level: The level at which the input is escalated, 0 for the highest score.
        units: Number of units.
        target: Expected harm in question, as a share of the bound.
    """
    if units < BETTING_FROM:
        total = np.bincount(level, harm - before)
        mean = np.concatenate([[0.0], np.cumsum(total)]) / units
        return _hoeffding_bentkus(mean, units, target)
    return _betting(harm, before, level, units, target)


def _hoeffding_bentkus(
    mean: Float[np.ndarray, "level"], units: int, target: float
) -> Float[np.ndarray, "level"]:
    """min(exp(-n kl(min(m, a), a)), e P[Bin(n, a) <= ceil(n m)])."""
    low = np.clip(mean, 0.0, target)
    kl = (1 - low) * np.log((1 - low) / (1 - target))
    some = low > 0
    kl[some] += low[some] * np.log(low[some] / target)
    # The probability of up to k harmed units of n.
    number = np.arange(units + 1)
    ways = np.array([math.comb(units, k) for k in number.tolist()], dtype=float)
    upto = np.cumsum(ways * target**number * (1 - target) ** (units - number))
    harmed = np.ceil(np.clip(mean, 0.0, 1.0) * units - ROUNDING).astype(int)
    return np.minimum(np.exp(-units * kl), math.e * upto[harmed])


def _betting(
    harm: InputFloats,
    before: InputFloats,
    level: InputInts,
    units: int,
    target: float,
) -> Float[np.ndarray, "level"]:
    """1 / mean over the bets l of prod(1 + l (a - x) / (1 - a)) over the units."""
    # A unit at the bound stays there; below, harms differ by more than rounding.
    changed = harm - before > ROUNDING
    at = level[changed]
    levels = int(level.max()) + 1
    wealth = np.zeros((len(BETS), levels + 1))
    for bet, own in zip(BETS.tolist(), wealth, strict=True):
        own[0] = units * math.log1p(bet * target / (1 - target))
        earlier = _log_wealth(before[changed], bet, target)
        steps = _log_wealth(harm[changed], bet, target)
        # What is lost already cannot be lost again.
        steps[np.isfinite(earlier)] -= earlier[np.isfinite(earlier)]
        own[1:] = own[0] + np.cumsum(np.bincount(at, steps, minlength=levels))
    most = wealth.max(axis=0)
    return np.exp(-most) / np.exp(wealth - most).mean(axis=0)


def _log_wealth(harm: InputFloats, bet: float, target: float) -> InputFloats:
    factor = 1 + bet * (target - harm) / (1 - target)
    # A whole wealth that was bet against the largest harm is lost.
    lost = factor <= ROUNDING
    return np.where(lost, -np.inf, np.log(np.where(lost, 1.0, factor)))


def fewest_units(target: float, certainty: float) -> int:
    """The smallest number of units that certify a harm, a share of the bound, if they
    have none.
    """
    fewest = math.ceil(math.log(1 - certainty) / math.log1p(-target) - ROUNDING)
    if fewest < BETTING_FROM:
        return fewest
    low = BETTING_FROM
    high = MOST_UNITS
    while low < high:
        middle = (low + high) // 2
        if harmless_chance(middle, target) <= 1 - certainty:
            high = middle
        else:
            low = middle + 1
    return low


def harmless_chance(units: int, target: float) -> float:
    """The p-value of units without any harm."""
    if units < BETTING_FROM:
        return (1 - target) ** units
    wealth = units * np.log1p(BETS * target / (1 - target))
    return float(np.exp(-wealth.max()) / np.exp(wealth - wealth.max()).mean())
