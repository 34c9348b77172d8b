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

from deepval.arrays import Float, Shaped
from deepval.errors import InputError
from deepval.judging import selections
from deepval.judging.allowances import Allowance
from deepval.judging.draws import LEVEL, ROUNDING, TAILS, Interval, cautious
from deepval.judging.resamples import Allocator, Resampling
from deepval.judging.rows import Judged
from deepval.results import Bounds, Row, known

PerUnit = Float[np.ndarray, "unit"]
BETS = np.arange(1, 21) / 20
"""Shares of the capital that are bet on every unit."""


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


def betting(difference: PerUnit, loss: PerUnit, bound: float) -> Interval:
    """The 95 % interval of mu if |D| <= bound x L in every unit and no unit's loss
    exceeds the largest of these.

    Against the claim that mu is at most m, one bets on D - m L of every unit, which is
    at least -(bound + m) x largest loss: no capital becomes negative, and under the
    claim none is expected to grow. A claim is refuted when the mean capital over `BETS`
    reaches 40 = 1 / 2.5 %. The capital falls as m rises, so the bound is found by
    bisection.
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


def with_guarantees(
    judged: Sequence[Judged],
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    *,
    bound: float | None = None,
    estimated: bool = False,
) -> list[Judged]:
    """The same rows; those of rankings with their worst and best unit, the break-even
    unit and the declared bound.

    Without draws, the second opinion comes from the samples without one unit each, if
    there are up to 100. Estimated losses say nothing about single units: their rows
    have the second opinion alone.
    """
    if bound is not None and estimated:
        raise InputError(
            "A declared bound (bound, --bound) applies to measured losses; here some "
            "are estimated."
        )
    if bound is not None and any(item.modes for item in scores):
        raise InputError(
            "A declared bound (bound, --bound) applies to one score "
            "per input, not to one per mode."
        )
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
    inputs, loss, full_gain, _ = resamples.per_unit[present].T
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
            if bound is not None:
                unit_ids = np.array(resamples.unit_ids)[present]
                _check_bound(difference, loss, bound, unit_ids=unit_ids, row=row)
                fields |= {
                    "bound": bound,
                    "versus_random_bounded": betting(difference, loss, bound)
                    .snap()
                    .bounds,
                }
            item = replace(item, row=replace(row, **fields))
        rows.append(item)
    return rows


def _check_bound(
    difference: PerUnit,
    loss: PerUnit,
    bound: float,
    *,
    unit_ids: Shaped[np.ndarray, "unit"],
    row: Row,
) -> None:
    """Raise where a unit breaks the declared bound, or where no unit has a loss that it
    could be a share of.
    """
    excess = np.abs(difference) - bound * loss
    worst = int(np.argmax(excess))
    if excess[worst] <= ROUNDING * abs(loss[worst]) and loss.max() > 0:
        return
    share = (
        f"{difference[worst] / loss[worst]:+.1%} of"
        if loss[worst] > 0
        else f"{difference[worst]:+.3g} on"
    )
    raise InputError(
        "bound (--bound) must hold in every unit: no difference with random may "
        f"exceed {bound:.4g} of the unit's all-cheap loss. {row.allocator} at "
        f"{row.label} has {share} the loss {loss[worst]:.3g} of unit "
        f"{unit_ids[worst]}. Declare a bound that holds for every unit, seen or not, "
        "or leave it out."
    )
