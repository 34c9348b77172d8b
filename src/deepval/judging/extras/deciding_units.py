"""Decided verdicts -> the one unit without which the verdict changes.

To judge every row again without every unit would cost as many judgements as there are
units. Draws that miss a unit already show what happens without it: only units whose
absence may move a bound past 0 are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deepval.arrays import Float, PerDraw, PerUnit
from deepval.judging.allowances import Allowance
from deepval.judging.bootstrap import LEAVE_OUT_UP_TO, Bootstrap
from deepval.judging.differences import paired_difference, verdicts
from deepval.judging.gains import gains_of_share
from deepval.judging.intervals import LEVEL, spread
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


def deciding_units(
    bootstrap: Bootstrap, contests: Sequence[Contest]
) -> dict[Judgement, DecidingUnit]:
    """The deciding unit of every decided row of a ranking."""
    units = len(bootstrap.unit_ids)
    if not FEWEST_UNITS <= units <= LEAVE_OUT_UP_TO:
        return {}
    judge = JudgeWithout(bootstrap, contests)
    deciding = {}
    for contest, ranking, row in judged_rankings(contests):
        # An unresolved verdict rests on no unit.
        if row.verdict in SIGNS:
            unit = _deciding_unit(judge, contest, ranking, row)
            deciding[row] = DecidingUnit(unit, units)
    return deciding


def _deciding_unit(
    judge: "JudgeWithout", contest: Contest, ranking: Ranking, row: Judgement
) -> str | None:
    """The unit without which the verdict of a row changes; None where there is none."""
    bootstrap = judge.bootstrap
    samples = _towards_verdict(bootstrap, contest, row)
    for unit in _suspects(bootstrap, samples, judge.misses):
        if judge.verdict(unit, ranking, contest.allowance) != row.verdict:
            return bootstrap.unit_ids[unit]
    return None


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


def _suspects(
    bootstrap: Bootstrap, samples: PerDraw, misses: Float[np.ndarray, "draw unit"]
) -> list[int]:
    """Units whose absence may move a bound past 0, the most influential first.

    The influence of a unit is the share of the draws without it in which the verdict
    is contradicted.
    """
    contradicted = _share_below(0.0, samples, misses)
    near = _share_below(NEAR * spread(samples, bootstrap.draws), samples, misses)

    units = len(near)
    if units <= FEW_UNITS:
        is_suspect = near > 0
        most = units
    else:
        is_suspect = near >= (1 - LEVEL) / 2
        most = MOST_TRIED
    order = np.lexsort((-near, -contradicted))
    # A unit without inputs can be left out without any effect.
    has_inputs = bootstrap.by_unit.inputs > 0
    suspects = order[is_suspect[order] & has_inputs[order]]
    return suspects[:most].tolist()


def _share_below(
    bound: float, samples: PerDraw, misses: Float[np.ndarray, "draw unit"]
) -> PerUnit:
    """Share of the draws that miss each unit in which a sample is at most `bound`."""
    total = (~np.isnan(samples)) @ misses
    below = (samples <= bound) @ misses
    share = np.ones(len(total))
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
        contests: The contests whose verdicts are judged again.
        others: The resamples without each unit that was left out so far.
        verdicts: The verdicts without a unit, by unit, ranking and allowance.
    """

    bootstrap: Bootstrap
    contests: Sequence[Contest]
    others: dict[int, Bootstrap] = field(default_factory=dict)
    verdicts: dict[tuple[int, str], dict[object, str | None]] = field(
        default_factory=dict
    )

    @cached_property
    def misses(self) -> Float[np.ndarray, "draw unit"]:
        """Which draws miss each unit, as the probability of the draw.

        As numbers, so that one matrix product counts the draws of all units.
        """
        draws = self.bootstrap.draws
        misses = (draws.counts == 0).astype(np.float64)
        if draws.weights is not None:
            misses *= draws.weights[:, None]
        return misses

    def verdict(self, unit: int, ranking: Ranking, allowance: Allowance) -> str | None:
        """The verdict of a ranking on all other units."""
        key = (unit, ranking.name)
        # All budgets of a ranking at once, because one sort serves them.
        if key not in self.verdicts:
            self.verdicts[key] = self._verdicts(unit, ranking)
        return self.verdicts[key][allowance.key]

    def _verdicts(self, unit: int, ranking: Ranking) -> dict[object, str | None]:
        """The verdicts of a ranking on all other units, under each allowance."""
        # Rows share suspects, and drawing the other units anew is the costly part.
        if unit not in self.others:
            self.others[unit] = self.bootstrap.without(unit)
        others = self.others[unit]
        allowances = [
            _on_others(self.bootstrap, unit, contest.allowance)
            for contest, own, row in judged_rankings(self.contests)
            if own.name == ranking.name and row.verdict in SIGNS
        ]
        outcomes = ranking.outcomes(others, allowances)
        found: dict[object, str | None] = {}
        for allowance, outcome in zip(allowances, outcomes, strict=True):
            if outcome.gains is None:
                found[allowance.key] = "infeasible"
                continue
            chance = gains_of_share(others, random_share(others, allowance))
            gain = outcome.gains.gain[None]
            difference = paired_difference(others, gain, chance.gain[None])
            found[allowance.key] = verdicts(others, difference)[0]
        return found


def _on_others(bootstrap: Bootstrap, unit: int, allowance: Allowance) -> Allowance:
    """The allowance on the inputs of all units but one."""
    if not allowance.per_input:
        return allowance
    table = bootstrap.table
    return allowance.on(table.keep(table.unit != unit))
