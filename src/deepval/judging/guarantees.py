"""Differences with random by unit -> what holds for the next unit, and intervals
without draws.

D_u is the difference of a unit: its gain under the judged selection minus the gain of
random selection in it. L_u is the all-cheap loss of the unit. mu = sum of D / sum of L
is `versus_random` of a row.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.judging import selections
from deepval.judging.allowances import Allowance
from deepval.judging.draws import LEVEL, ROUNDING, Interval, cautious
from deepval.judging.resamples import Allocator, Resampling
from deepval.judging.rows import Judged
from deepval.results import Bounds, known

PerUnit = Float[np.ndarray, "unit"]


def units_for(certainty: float = LEVEL, *, sides: int = 2) -> int:
    """The smallest number of units whose range contains a new unit with this certainty,
    on one side or on both.

    Each of the units + 1 is equally likely to be the worst: the chance of that is 1 /
    (units + 1), less with ties.
    """
    return math.ceil(sides / (1 - certainty) - 1e-9) - 1


def break_even_unit(difference: PerUnit) -> float:
    """The size of an unseen unit that would bring the total difference to 0, in
    multiples of the largest unit.

    |sum of D| / largest |D|; NaN where every difference is 0. It is at most the number
    of units.
    """
    largest = float(np.abs(difference).max(initial=0.0))
    return abs(float(difference.sum())) / largest if largest > 0 else math.nan


def without_draws(point: float, left_out: PerUnit, *, effective: float) -> Interval:
    """The second opinion without draws: `cautious` with the jackknife's standard error
    in place of the spread.

    `left_out` has the difference, cut included, without each of the U units; the
    squared error is (U - 1) / U x the sum of their squared deviations from their mean.
    NaN, or fewer than two units, means no interval.
    """
    units = len(left_out)
    spread = (
        float(left_out.std()) * (units - 1) / math.sqrt(units) if units else math.nan
    )
    return cautious(point, spread, units=units, effective=effective)


def with_guarantees(
    judged: Sequence[Judged],
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    *,
    estimated: bool = False,
) -> list[Judged]:
    """The same rows; those of rankings with their worst and best unit and the
    break-even unit.

    Without draws, the second opinion comes from the samples without one unit each, if
    there are up to 100. Estimated losses say nothing about single units: their rows
    have the second opinion alone.
    """
    rankings, budgets = (
        {item.name: item for item in scores if not item.modes},
        {a.key: a for a in allowances},
    )
    random = {
        item.row.budget: item.row.escalated or 0.0
        for item in judged
        if item.row.allocator == "random"
    }
    present = resamples.per_unit[:, 0] > 0
    inputs, _, full_gain, _ = resamples.per_unit[present].T
    rows = []
    for item in judged:
        row = item.row
        if (
            item.sample is not None
            and row.allocator in rankings
            and row.budget in budgets
        ):
            allowed = budgets[row.budget]
            cost = allowed.cost_of(row.allocator)
            gain = selections.gains_by_unit(
                resamples, rankings[row.allocator], allowed, cost
            )[present]
            difference = gain - random[row.budget] / inputs.sum() * full_gain
            difference[np.abs(difference) <= ROUNDING * resamples.size[0]] = 0.0
            fields: dict[str, Any] = {}
            if len(difference) > 1 and not estimated:
                fields |= {
                    "next_unit": Bounds(
                        float(difference.min()), float(difference.max())
                    ),
                    "units_compared": len(difference),
                    "break_even_unit": known(break_even_unit(difference)),
                }
            if (
                not row.verdict
                and row.versus_random is not None
                and resamples.left_out.start < resamples.left_out.stop
            ):
                left_out = item.difference.share[resamples.left_out][present]
                second = without_draws(
                    row.versus_random, left_out, effective=resamples.effective_units
                ).snap()
                fields |= {
                    "versus_random_second": second.bounds,
                    "second_verdict": second.verdict,
                }
            item = replace(item, row=replace(row, **fields))
        rows.append(item)
    return rows
