"""Rankings -> what their units say about one more unit of the same kind.

The difference of a unit is its gain under the ranking minus the gain of chance in it.
Each of U + 1 units is equally likely to be the worst, so that at most one new unit in
U + 1 is worse than all of these.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, PerUnit
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.differences import paired_shares
from deepval.judging.intervals import LEVEL, ROUNDING, Interval, second_opinion
from deepval.judging.judgement import Contest, Judgement, judged_rankings
from deepval.judging.policies import Ranking
from deepval.results import known


@dataclass(frozen=True)
class NextUnit:
    """The differences with chance of single units, in units of the loss.

    Attributes:
        worst: The smallest.
        best: The largest.
        units: Number of units with inputs.
        break_even: Size of an unseen unit that would bring the total difference to 0,
            in multiples of the largest difference; None where every difference is 0.
    """

    worst: float
    best: float
    units: int
    break_even: float | None


def next_units(
    bootstrap: Bootstrap, contests: Sequence[Contest]
) -> dict[Judgement, NextUnit]:
    """What the units say about one more, for every row of a ranking."""
    by_row = {}
    for contest in contests:
        judged = list(judged_rankings([contest]))
        if contest.allowance.spender is not None or not judged:
            continue
        rankings = [ranking for _, ranking, _ in judged]
        differences = _differences_by_unit(bootstrap, contest, rankings)
        # One unit says nothing about how much units differ.
        if differences.shape[1] > 1:
            found = _next_units(differences)
            by_row |= {row: own for (_, _, row), own in zip(judged, found, strict=True)}
    return by_row


def _differences_by_unit(
    bootstrap: Bootstrap, contest: Contest, rankings: Sequence[Ranking]
) -> Float[np.ndarray, "row unit"]:
    """The gains of rankings less that of chance in every unit that has inputs."""
    sums = bootstrap.by_unit
    gain = np.stack(
        [ranking.gain_by_unit(bootstrap, contest.allowance) for ranking in rankings]
    )
    # Random escalates the same share in every unit, in expectation.
    share = contest.gains("random").escalated[0] / bootstrap.inputs[0]
    differences = (gain - share * sums.full_gain)[:, sums.inputs > 0]
    # A difference that is only the last digits of a sum is none.
    differences[np.abs(differences) <= ROUNDING * bootstrap.sum_of_sizes[0]] = 0.0
    return differences


def _next_units(differences: Float[np.ndarray, "row unit"]) -> list[NextUnit]:
    worst = differences.min(axis=1).tolist()
    best = differences.max(axis=1).tolist()
    units = [differences.shape[1]] * len(differences)
    return list(map(NextUnit, worst, best, units, break_even_units(differences)))


def break_even_units(differences: Float[np.ndarray, "row unit"]) -> list[float | None]:
    """|sum of differences| / largest |difference|; at most the number of units."""
    total = np.abs(differences.sum(axis=1))
    largest = np.abs(differences).max(axis=1)
    undefined = np.full(len(total), np.nan)
    ratio = np.divide(total, largest, out=undefined, where=largest > 0)
    return [known(own) for own in ratio.tolist()]


def units_for(certainty: float = LEVEL, *, sides: int = 2) -> int:
    """The smallest number of units whose range holds a new unit with this certainty.

    Each of the units + 1 is equally likely to be the worst: the chance of that is 1 /
    (units + 1), less with ties.
    """
    return math.ceil(sides / (1 - certainty) - 1e-9) - 1


def jackknife_opinions(
    bootstrap: Bootstrap, contests: Sequence[Contest]
) -> dict[Judgement, Interval]:
    """Second opinions where there are no draws, from the samples without one unit."""
    left_out = bootstrap.counts[bootstrap.left_out]
    if bootstrap.has_intervals or len(left_out) == 0:
        return {}
    opinions = {}
    for contest, _, row in judged_rankings(contests):
        opinion = _jackknife_opinion(bootstrap, contest, row)
        if opinion is not None:
            opinions[row] = opinion
    return opinions


def _jackknife_opinion(
    bootstrap: Bootstrap, contest: Contest, row: Judgement
) -> Interval | None:
    """The second opinion on the difference with chance, without draws."""
    gain = contest.gains(row.allocator).gain
    chance = contest.gains(row.references.chance).gain
    share = paired_shares(bootstrap, gain, chance)
    if np.isnan(share[0]):
        return None
    # Without a unit that has no inputs, the sample is left as it is: no new value.
    left_out = share[bootstrap.left_out][bootstrap.by_unit.inputs > 0]
    return jackknife(float(share[0]), left_out, bootstrap.effective_units)


def jackknife(
    point: float, left_out: PerUnit, effective_units: float
) -> Interval | None:
    """An interval from the values without each of the units.

    The squared standard error is (U - 1) / U times the sum of the squared deviations
    of these values from their mean.
    """
    units = len(left_out)
    if units == 0:
        return None
    spread = float(left_out.std()) * (units - 1) / math.sqrt(units)
    return second_opinion(point, spread, units=units, effective_units=effective_units)
