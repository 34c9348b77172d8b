"""A plan of modes, the values and the integer costs -> proof of its feasibility and its
distance from the optimum.

No plan is worth more than UB(λ) = λ·B + Σ_i max_m(v_im − λ·c_m) for any λ ≥ 0. One pass
over the values verifies this.

Costs are on top of the cheap mode. If one call replaces another, a mode can cost as
little as the cheap one, or less; `from_cheapest` states such a problem relative to the
cheapest mode of every input, so that all costs are 0 or more.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, InputInts, InputNumbers, Int, ModeFloats, Num
from deepval.basics.errors import InputError


class Steps(NamedTuple):
    """Steps of all inputs: the first step of every input, then the second, and so on.

    Attributes:
        start: The mode at which each input starts.
        input: The input of each step.
        source: The mode before the step.
        target: The mode after the step.
        cost: Cost of the step.
        slope: Value per cost.
    """

    start: InputInts
    input: Int[np.ndarray, "step"]
    source: Int[np.ndarray, "step"]
    target: Int[np.ndarray, "step"]
    cost: Num[np.ndarray, "step"]
    slope: Float[np.ndarray, "step"]


def steps(values: ModeFloats, costs: Num[np.ndarray, "input mode"]) -> Steps:
    """The steps of every input's hull; if several steps have the same slope, the
    longest is taken.
    """
    at = cheapest(values, costs)
    start, rows, rounds = at.copy(), np.arange(len(values)), []
    last = np.full(len(values), np.inf)
    while len(rows):
        ahead = costs[rows] - costs[rows, at[rows]][:, None]
        gain = values[rows] - values[rows, at[rows]][:, None]
        # The steepest step to a dearer mode is the next edge of the concave hull: no
        # mode lies above it.
        slope = np.divide(
            gain,
            ahead,
            out=np.full(gain.shape, -np.inf),
            where=(ahead > 0) & (gain > 0),
        )
        steepest = slope.max(axis=1)
        target = np.where(slope == steepest[:, None], ahead, -1).argmax(axis=1)
        # an input without a step up has reached the end of its hull
        moves = steepest > 0
        # Slopes fall along a hull; the minimum prevents rounding from lifting one above
        # the step before.
        rows, target, steepest = (
            rows[moves],
            target[moves],
            np.minimum(steepest[moves], last[rows[moves]]),
        )
        last[rows] = steepest
        rounds.append((rows, at[rows], target, ahead[moves, target], steepest))
        at[rows] = target
    parts = (
        [np.concatenate(column) for column in zip(*rounds, strict=True)]
        if rounds
        else []
    )
    none = np.zeros(0, np.int64)
    return (
        Steps(start, *parts)
        if parts
        else Steps(start, none, none, none, none, np.zeros(0))
    )


def cheapest(values: ModeFloats, costs: Num[np.ndarray, "*input mode"]) -> InputInts:
    """The cheapest mode of every input; among equally cheap ones, the first of greatest
    value.
    """
    least = costs == costs.min(axis=-1, keepdims=True)
    return np.where(
        least, np.maximum(values, np.finfo(np.float64).min), -np.inf
    ).argmax(axis=1)


class ModeProblem(NamedTuple):
    """A problem relative to the cheapest mode of every input, which is its column 0, of
    value and cost 0.

    Attributes:
        modes: The mode of every column.
        values: Values of the columns.
        costs: Costs of the columns, at least 0: one per column, or one per input and
            column.
        saved: Saving of every input by its column 0, at least 0; 0 where the cheap mode
            is the cheapest.
    """

    modes: Int[np.ndarray, "input column"]
    values: Float[np.ndarray, "input column"]
    costs: Num[np.ndarray, "*input column"]
    saved: InputNumbers


def from_cheapest(
    values: ModeFloats, costs: Num[np.ndarray, "*input mode"]
) -> ModeProblem:
    """The problem relative to every input's cheapest mode; of modes that cost as
    little, only the best one counts.
    """
    rows, start = np.arange(len(values)), cheapest(values, costs)
    if costs.ndim == 1:
        dearer = np.flatnonzero(costs > costs.min())
        modes = np.column_stack(
            [start, np.broadcast_to(dearer, (len(values), len(dearer)))]
        )
        relative = np.concatenate([costs[:1] * 0, costs[dearer] - costs.min()])
    else:
        modes = np.broadcast_to(np.arange(values.shape[1]), values.shape).copy()
        modes[rows, start] = 0
        modes[:, 0] = start
        relative = np.take_along_axis(
            costs - costs[rows, start][:, None], modes, axis=1
        )
    gained = np.take_along_axis(values, modes, axis=1) - values[rows, start][:, None]
    return ModeProblem(
        modes, gained, relative, -np.broadcast_to(costs, values.shape)[rows, start]
    )


Costs = Int[np.ndarray, "mode"] | Int[np.ndarray, "input mode"]
"""Costs of the modes on top of the cheap one: one per mode, or one per input and
mode.
"""
CHECK_TOLERANCE = 1e-12  # share of the bound: another machine may add in another order


@dataclass(frozen=True)
class ModePlan:
    """An exact optimum and its certificate; the last three fields are the search log.

    Attributes:
        modes: the mode of each input.
        value: Σ v[i, modes_i].
        spent: Σ c[modes_i] ≤ budget.
        budget: B, in the unit of the costs.
        multiplier: λ ≥ 0, the value of one more unit of budget in the relaxed (LP)
            problem.
        bound: UB(λ) over the modes that cost at most B; no plan is worth more.
        core: number of inputs whose changes were searched: all with a change of reduced
            loss below `stop_loss`.
        states: length of the longest list of partial plans.
        stop_loss: a plan that changes any other input has at least this deficit; 0 if
            lists had to be cut.
    """

    modes: InputInts
    value: float
    spent: int
    budget: int
    multiplier: float
    bound: float
    core: int
    states: int
    stop_loss: float

    @property
    def gap(self) -> float:
        """UB(λ) − value, at least 0."""
        return self.bound - self.value


@dataclass(frozen=True)
class Verification:
    """Result of `check`: the plan is feasible, worth its value, and at most `gap` below
    the optimum.

    Attributes:
        gap: UB(λ) − value, without the budget that integer costs cannot spend; 0 where
            value and bound meet.
        core: number of inputs in which a better plan could differ; 0 where the gap
            is 0.
        optimal: whether the gap is 0 or the plan's search log covers it.
    """

    gap: float
    core: int
    optimal: bool


def check(plan: ModePlan, values: ModeFloats, costs: Costs) -> Verification:
    """Proof of a plan's feasibility, value and bound in one pass over the values, and
    the gap that it leaves.

    Raises InputError with the reason where a field of the plan is false. Only the
    search log is not verified.
    """
    check_problem(values, costs, plan.budget)
    if len(plan.modes) != len(values) or np.any(
        (plan.modes < 0) | (plan.modes >= values.shape[1])
    ):
        raise InputError(
            f"a plan must give each of {len(values)} inputs a mode from 0 to "
            f"{values.shape[1] - 1}, this one has other inputs or modes; check it "
            "against the values it was solved for"
        )
    # Everything that the plan states is computed again from the values and costs, not
    # taken from the plan.
    value = float(values[np.arange(len(values)), plan.modes].sum(dtype=np.float64))
    spent = int(
        np.broadcast_to(costs, values.shape)[np.arange(len(values)), plan.modes].sum()
    )
    if spent != plan.spent:
        raise InputError(
            f"the plan's modes cost {spent} but it "
            f"states {plan.spent} spent; solve again"
        )
    if spent > plan.budget:
        raise InputError(
            f"the plan spends {spent}, over its budget of {plan.budget}; solve again"
        )
    if not 0 <= plan.multiplier < math.inf:
        raise InputError(
            "the plan's multiplier must be "
            f"at least 0, found {plan.multiplier}; solve again"
        )
    # A mode that costs more than the budget is in no plan, so it must not raise the
    # bound.
    reduced = np.where(costs <= plan.budget, values - plan.multiplier * costs, -np.inf)
    most = reduced.max(axis=1)
    bound = plan.multiplier * plan.budget + float(most.sum())
    tolerance = CHECK_TOLERANCE * bound
    if not abs(plan.value - value) <= tolerance:
        raise InputError(
            "the plan's modes are worth "
            f"{value!r} but it states {plan.value!r}; solve again"
        )
    if not abs(plan.bound - bound) <= tolerance:
        wrong = "overstated" if plan.bound > bound else "understated"
        raise InputError(
            f"the plan's bound is {wrong}: "
            f"{plan.bound!r} instead of {bound!r}; solve again"
        )
    # Any plan leaves the unspendable part of the budget, which the bound counts at the
    # multiplier.
    gap = bound - value - plan.multiplier * unspendable(costs, plan.budget)
    if gap <= tolerance:
        return Verification(gap=0.0, core=0, optimal=True)
    # By value = UB(λ) - deficit, a better plan changes an input only to a mode of
    # reduced loss below the gap.
    near = (most[:, None] - reduced < gap) & ((values > 0) | (costs == 0))
    core = int((near.sum(axis=1) > 1).sum())
    return Verification(gap=gap, core=core, optimal=plan.stop_loss >= gap - tolerance)


def check_problem(values: ModeFloats, costs: Costs, budget: int) -> None:
    """Raise InputError where values, costs and budget do not form a problem."""
    if (
        values.ndim != 2
        or costs.shape not in (values.shape[1:], values.shape)
        or values.shape[1] == 0
    ):
        shapes = f"{values.shape} and {costs.shape}"
        raise InputError(
            f"values must be inputs x modes and costs one per mode, found {shapes}; "
            "put cheap first"
        )
    if costs.ndim == 1 and (
        costs.dtype.kind != "i" or costs[0] != 0 or np.any(costs[1:] <= 0)
    ):
        raise InputError(
            "costs must be signed integers, 0 for mode 0 and positive for the others, "
            f"found {costs.tolist()}; count microseconds or microjoules "
            "on top of the cheap mode"
        )
    if costs.ndim == 2 and (
        costs.dtype.kind != "i" or np.any(costs[:, 0] != 0) or np.any(costs < 0)
    ):
        raise InputError(
            "costs of each input must be signed integers, 0 for mode 0 and none "
            "negative; found others. Count microseconds, microjoules or nanodollars "
            "on top of the cheap mode"
        )
    if values[:, 0].any() or not np.isfinite(values).all():
        row = int(
            np.flatnonzero((values[:, 0] != 0) | ~np.isfinite(values).all(axis=1))[0]
        )
        raise InputError(
            f"values must be finite and 0 for mode 0, found {values[row].tolist()} in "
            f"row {row}; subtract the cheap mode's and leave "
            "out inputs without a value"
        )
    if budget < 0:
        raise InputError(
            "the budget must be at least 0, found "
            f"{budget}; treat this case as infeasible"
        )


def unspendable(costs: Costs, budget: int) -> int:
    """The part of the budget that no plan can spend: spending is a multiple of the
    affordable costs' common divisor.
    """
    return budget % max(int(np.gcd.reduce(costs[costs <= budget])), 1)
