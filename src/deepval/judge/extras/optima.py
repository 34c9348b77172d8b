"""Measured budgets on a table -> the best plan of whole inputs, with its certificate.

Rows judge plans in expectation over resamples; this is the optimum of the sample, with
a bound that no plan exceeds. Two modes need a plan only where every input has a price
of its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Int, ModeFloats
from deepval.judge import knapsack, mode_plans
from deepval.judge.allowances import Allowance, above_cheap
from deepval.judge.exact_plans import (
    integer_budget,
    integer_input_prices,
    integer_prices,
)
from deepval.judge.extras.optimality import oracle_gain
from deepval.judge.results import Optimum, Spending, share_of
from deepval.judge.tables import keys
from deepval.judge.tables.costs import CONVENTIONS, Convention
from deepval.judge.tables.values import ValueTable


def optima(table: ValueTable, allowances: Sequence[Allowance]) -> Iterator[Optimum]:
    """The optimum under each measured budget, and its value relative to other plans."""
    planned = [
        allowance
        for allowance in allowances
        if allowance.is_measured and (len(table.modes) > 2 or allowance.per_input)
    ]
    if not planned:
        # Converting the ids of many inputs to text would take longer than judging them.
        return
    # Among equal plans, the ids of the inputs decide.
    order = np.argsort(keys.as_text(table.input), kind="stable")
    for allowance in planned:
        yield _optimum(table, allowance, order)


def _optimum(
    table: ValueTable, allowance: Allowance, order: Int[np.ndarray, "input"]
) -> Optimum:
    values = table.mode_values[order]
    budget = integer_budget(allowance, len(table))
    if allowance.per_input:
        prices = integer_input_prices(allowance, table)[order]
        ends = [0, -1]
        full_only = _certified(values[:, ends], prices[:, ends], budget).value
    else:
        prices = integer_prices(allowance, table.modes)
        full_only = oracle_gain(table.decision_values, int(allowance.slots(len(table))))
    best = _certified(values, prices, budget)
    modes = np.zeros_like(best.modes)
    modes[order] = best.modes
    inputs_by_mode = np.bincount(modes, minlength=len(table.modes)).tolist()
    spent = [
        _spending(modes, allowance, convention, table)
        for convention in CONVENTIONS
        if _has_costs(allowance, convention, table)
    ]
    return Optimum(
        kind=allowance.budget.kind,
        alpha=allowance.budget.alpha,
        convention=allowance.convention,
        accounting=allowance.accounting,
        value=best.value,
        share_of_cheap_loss=share_of(best.value, table.cheap_loss),
        full_only=full_only,
        full_only_share=share_of(full_only, best.value),
        lp_bound=best.bound,
        gap=best.gap,
        multiplier=best.plan.multiplier,
        core_inputs=best.plan.core,
        modes=dict(zip(table.modes, inputs_by_mode, strict=True)),
        spent=tuple(spent),
    )


class Certified(NamedTuple):
    """The best plan of whole inputs.

    Attributes:
        modes: The mode of each input.
        value: What the plan gains.
        bound: No plan gains more.
        gap: Largest distance of the value below the optimum that the bound allows.
        plan: The plan as solved.
    """

    modes: Int[np.ndarray, "input"]
    value: float
    bound: float
    gap: float
    plan: mode_plans.ModePlan


def _certified(values: ModeFloats, prices: mode_plans.Costs, budget: int) -> Certified:
    problem = mode_plans.from_cheapest(values, prices)
    # Starting from the cheapest modes saves money, which may be spent elsewhere.
    budget += int(problem.saved.sum())
    plan = knapsack.solve(problem.values, problem.costs, budget)
    proof = mode_plans.check(plan, problem.values, problem.costs)
    rows = np.arange(len(values))
    start = float(values[rows, problem.modes[:, 0]].sum())
    return Certified(
        modes=problem.modes[rows, plan.modes],
        value=start + plan.value,
        bound=start + plan.bound,
        gap=float(proof.gap),
        plan=plan,
    )


def _has_costs(allowance: Allowance, convention: Convention, table: ValueTable) -> bool:
    if convention in table.input_costs:
        return True
    modes = {} if allowance.costs is None else allowance.costs.modes
    return all(convention in modes.get(mode, {}) for mode in table.modes)


def _spending(
    plan: Int[np.ndarray, "input"],
    allowance: Allowance,
    convention: Convention,
    table: ValueTable,
) -> Spending:
    """What a plan's escalations cost, beside a budget of the same alpha there."""
    if convention in table.input_costs:
        costs = table.input_costs[convention]
    else:
        assert allowance.costs is not None
        per_call = [allowance.costs.of_mode(mode, convention) for mode in table.modes]
        costs = np.broadcast_to(np.array(per_call), table.losses.shape)
    prices = above_cheap(costs, allowance.accounting)
    spent = float(prices[np.arange(len(plan)), plan].sum())
    limit = allowance.budget.alpha * float(costs[:, -1].sum())
    return Spending(convention, spent, limit, float(spent / limit - 1))
