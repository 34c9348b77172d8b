"""Decided verdicts -> the one unit without which the verdict changes.

To judge every row again without every unit would cost as many judgements as there are
units. Draws that miss a unit already show what happens without it: only units whose
absence may move a bound past 0 are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deepval.arrays import DrawRows, Float, PerDraw, PerRow
from deepval.judging.allowances import Allowance
from deepval.judging.bootstrap import LEAVE_OUT_UP_TO, Bootstrap
from deepval.judging.differences import paired_difference, verdicts
from deepval.judging.gains import gains_of_share
from deepval.judging.intervals import LEVEL, spreads
from deepval.judging.judgement import Contest, Judgement, judged_rankings
from deepval.judging.policies import Ranking, random_share

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
