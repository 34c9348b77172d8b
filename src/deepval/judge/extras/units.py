"""Contests -> what single units say: who has the gain, what one more unit may be, and
the one unit without which a verdict changes.

To judge every row again without every unit would cost as many judgements as there are
units. Draws that miss a unit already show what happens without it: only units whose
absence may move a bound past 0 are tried.

Each of U + 1 units is equally likely to be the worst, so that at most one new unit in
U + 1 is worse than all of these. The difference of a unit is its gain under a ranking
minus the gain of chance in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deepval.basics.arrays import DrawRows, Float, PerDraw, PerRow, PerUnit
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import (
    LEAVE_OUT_UP_TO,
    Bootstrap,
    gains_of_share,
    sums_by_unit,
)
from deepval.judge.differences import paired_difference, paired_shares, verdicts
from deepval.judge.extras.opposing_units import OpposingUnit, opposing_unit
from deepval.judge.intervals import LEVEL, ROUNDING, Interval, second_opinion, spreads
from deepval.judge.judgement import Contest, Judgement, judged_rankings
from deepval.judge.policies import Ranking, random_share
from deepval.judge.results import HEADLINE, Unit

FEWEST_UNITS = 3
"""Smallest number of units at which one can be left out and the others drawn."""
NEAR = 0.5
"""Distance from 0, in spreads, of a bound that may move past it: three standard errors
of a bound over the draws that miss a unit."""
MOST_TRIED = 3
"""Largest number of units that are tried for one row, the most influential first."""
FEW_UNITS = 8
"""Up to so many units all suspects are tried, and one draw near 0 makes a suspect:
single draws set the bounds then."""
SIGNS = {"better": 1.0, "worse": -1.0}


@dataclass(frozen=True)
class DecidingUnit:
    """Whether a verdict rests on one unit.

    Attributes:
        unit: The unit without which the verdict changes; None where there is none.
        units: Number of units that were left out in turn.
    """

    unit: str | None
    units: int


@dataclass(frozen=True, eq=False)
class Case:
    """A decided row of a ranking, and the units that its verdict may rest on.

    Attributes:
        allowance: The budget.
        ranking: The allocator.
        row: The judgement.
        suspects: Units whose absence may change it, the most influential first.
    """

    allowance: Allowance
    ranking: Ranking
    row: Judgement
    suspects: list[int]


def deciding_units(
    bootstrap: Bootstrap, contests: Sequence[Contest]
) -> dict[Judgement, DecidingUnit]:
    """The deciding unit of every decided row of a ranking."""
    units = len(bootstrap.unit_ids)
    if not FEWEST_UNITS <= units <= LEAVE_OUT_UP_TO:
        return {}
    judge = JudgeWithout(bootstrap, _cases(bootstrap, contests))
    deciding = {}
    for case in judge.cases:
        unit = None
        for suspect in case.suspects:
            if judge.verdict(case, suspect) != case.row.verdict:
                unit = bootstrap.unit_ids[suspect]
                break
        deciding[case.row] = DecidingUnit(unit, units)
    return deciding


def _cases(bootstrap: Bootstrap, contests: Sequence[Contest]) -> list[Case]:
    """The rows of rankings that are decided; an unresolved one rests on no unit."""
    decided = [
        (contest, ranking, row)
        for contest, ranking, row in judged_rankings(contests)
        if row.verdict in SIGNS
    ]
    if not decided:
        return []
    towards = [_towards_verdict(bootstrap, contest, row) for contest, _, row in decided]
    suspects = _suspects(bootstrap, np.stack(towards))
    return [
        Case(contest.allowance, ranking, row, own)
        for (contest, ranking, row), own in zip(decided, suspects, strict=True)
    ]


def _towards_verdict(bootstrap: Bootstrap, contest: Contest, row: Judgement) -> PerDraw:
    """The difference in every draw, so that values below 0 contradict the verdict."""
    gain = contest.gains(row.allocator).gain[None]
    chance = contest.gains(row.references.chance).gain[None]
    difference = paired_difference(bootstrap, gain, chance)
    # The verdict rests on the share where there is one.
    samples = difference.share[0, bootstrap.drawn]
    if np.isnan(samples).all():
        samples = difference.loss[0, bootstrap.drawn]
    return SIGNS[row.verdict or ""] * samples


def _suspects(bootstrap: Bootstrap, samples: DrawRows) -> list[list[int]]:
    """Units whose absence may move a bound past 0, for each row of samples.

    The influence of a unit is the share of the draws without it in which the verdict
    is contradicted.
    """
    draws = bootstrap.draws
    # Which draws miss each unit, as the probability of the draw. As numbers, so that
    # one matrix product counts the draws of all rows and units.
    misses = (draws.counts == 0).astype(np.float64)
    if draws.weights is not None:
        misses *= draws.weights[:, None]
    contradicted = _share_below(np.zeros(len(samples)), samples, misses)
    near = _share_below(NEAR * spreads(samples, draws), samples, misses)

    units = misses.shape[1]
    most = MOST_TRIED
    is_suspect = near >= (1 - LEVEL) / 2
    if units <= FEW_UNITS:
        most = units
        is_suspect = near > 0
    # A unit without inputs can be left out without any effect.
    is_suspect &= bootstrap.by_unit.inputs > 0
    order = np.lexsort((-near, -contradicted), axis=1)
    is_suspect = np.take_along_axis(is_suspect, order, axis=1)
    return [
        row[is_own][:most].tolist()
        for row, is_own in zip(order, is_suspect, strict=True)
    ]


def _share_below(
    bounds: PerRow, samples: DrawRows, misses: Float[np.ndarray, "draw unit"]
) -> Float[np.ndarray, "row unit"]:
    """Share of the draws that miss each unit in which a sample is at most its bound."""
    total = (~np.isnan(samples)).astype(np.float64) @ misses
    below = (samples <= bounds[:, None]).astype(np.float64) @ misses
    share = np.ones(total.shape)
    np.divide(below, total, out=share, where=total > 0)
    # Units that contradict a verdict equally often differ in the last digits of these
    # products. Without rounding, the verdict would rest on another unit when further
    # scores are judged beside it.
    return np.round(share, 12)


@dataclass(frozen=True, eq=False)
class JudgeWithout:
    """Judges rankings again without a unit.

    Attributes:
        bootstrap: The resamples of all units.
        cases: The rows whose verdicts may be judged again.
        others: The resamples without each unit that was left out so far.
        verdicts: The verdicts so far, by unit and row.
    """

    bootstrap: Bootstrap
    cases: Sequence[Case]
    others: dict[int, Bootstrap] = field(default_factory=dict)
    verdicts: dict[tuple[int, Judgement], str | None] = field(default_factory=dict)

    def verdict(self, case: Case, unit: int) -> str | None:
        """The verdict of a row on all other units."""
        if (unit, case.row) not in self.verdicts:
            self._judge(case.ranking, unit)
        return self.verdicts[unit, case.row]

    def _judge(self, ranking: Ranking, unit: int) -> None:
        """Judge all rows of a ranking that may rest on a unit, without it."""
        # Rankings share suspects, and drawing the other units anew is costly.
        if unit not in self.others:
            self.others[unit] = self.bootstrap.without(unit)
        others = self.others[unit]
        # All its budgets at once, because one sort serves them.
        cases = [
            case
            for case in self.cases
            if case.ranking is ranking and unit in case.suspects
        ]
        allowances = [
            _on_others(self.bootstrap, unit, case.allowance) for case in cases
        ]
        outcomes = ranking.outcomes(others, allowances)
        for case, allowance, outcome in zip(cases, allowances, outcomes, strict=True):
            verdict: str | None = "infeasible"
            if outcome.gains is not None:
                chance = gains_of_share(others, random_share(others, allowance)).gain
                gain = outcome.gains.gain
                difference = paired_difference(others, gain[None], chance[None])
                verdict = verdicts(others, difference)[0]
            self.verdicts[unit, case.row] = verdict


def _on_others(bootstrap: Bootstrap, unit: int, allowance: Allowance) -> Allowance:
    """The allowance on the inputs of all units but one."""
    if not allowance.per_input:
        return allowance
    table = bootstrap.table
    return allowance.on(table.keep(table.unit != unit))


@dataclass(frozen=True)
class NextUnit:
    """The differences with chance of single units, in units of the loss.

    Attributes:
        worst: The smallest.
        best: The largest.
        units: Number of units with inputs.
        opposing: Sizes of one more unit that would end the verdict and cancel the sum;
            None where every difference is 0.
    """

    worst: float
    best: float
    units: int
    opposing: OpposingUnit | None


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
    return [
        NextUnit(
            worst=float(own.min()),
            best=float(own.max()),
            units=len(own),
            opposing=opposing_unit(own),
        )
        for own in differences
    ]


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


def headline(contests: Sequence[Contest]) -> Contest:
    """The contest to show where only one is: selection first, 20 % of the inputs."""
    of_users = [one for one in contests if one.allowance.spender is None]
    selection = [one for one in of_users if not one.allowance.is_measured]
    for contest in selection:
        if contest.allowance.budget.alpha == HEADLINE:
            return contest
    return (selection or of_users)[0]


def unit_parts(bootstrap: Bootstrap, contests: Sequence[Contest]) -> tuple[Unit, ...]:
    """Each unit with the gains of the oracle and of each ranking in it.

    Empty where units are too many to list.
    """
    if bootstrap.left_out.start == bootstrap.left_out.stop:
        return ()
    contest = headline(contests)
    allowance = contest.allowance
    gains = {
        ranking.name: ranking.gain_by_unit(bootstrap, allowance)
        for _, ranking, _ in judged_rankings([contest])
    }
    best = contest.oracle.gain_by_unit(bootstrap, allowance)
    modes = _gains_of_modes(bootstrap)
    sums = bootstrap.by_unit
    units = []
    for position, unit in enumerate(bootstrap.unit_ids):
        units.append(
            Unit(
                unit=unit,
                inputs=int(sums.inputs[position]),
                cheap_loss=float(sums.cheap_loss[position]),
                alpha=allowance.budget.alpha,
                oracle_gain=float(best[position]),
                gains={name: float(gain[position]) for name, gain in gains.items()},
                modes={name: float(gain[position]) for name, gain in modes.items()},
            )
        )
    return tuple(units)


def _gains_of_modes(bootstrap: Bootstrap) -> dict[str, PerUnit]:
    """What each mode but the cheap one gains in every unit, on all its inputs."""
    gains: dict[str, PerUnit] = {}
    # Of files larger than memory, only the two modes that are judged have totals.
    between = () if bootstrap.rows is None else bootstrap.modes[1:-1]
    for mode in between:
        number = bootstrap.modes.index(mode)
        gains[mode] = sums_by_unit(
            bootstrap.table, bootstrap.table.mode_values[:, number]
        )
    gains[bootstrap.modes[-1]] = bootstrap.by_unit.full_gain
    return gains
