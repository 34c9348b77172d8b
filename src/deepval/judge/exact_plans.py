"""Values per mode, integer prices and a budget -> the best plan of every resample.

A plan gives each input a mode. The best one solves a multiple-choice knapsack, whose
prices are integers (microseconds, microjoules, nanodollars) so that a budget is kept
exactly. This module only states the problem: `fills` solves most resamples at once, and
`knapsack` the rest, one by one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, Int, ModeFloats, PerResample
from deepval.basics.errors import InputError
from deepval.judge import fills, knapsack
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.mode_plans import from_cheapest
from deepval.judge.policies import total_prices
from deepval.judge.tables import keys
from deepval.judge.tables.costs import Convention
from deepval.judge.tables.values import ValueTable

PARTS: Mapping[Convention, int] = {
    "ms": 1000,
    "mj": 1000,
    "mj_gpu": 1000,
    "mj_all": 1000,
    "usd": 10**9,
}
"""Integer parts per unit of cost. Dollars need more: a call of a small language model
costs less than a thousandth of a dollar."""


def integer_prices(
    allowance: Allowance, modes: Sequence[str]
) -> Int[np.ndarray, "mode"]:
    """Price of each mode beyond the cheap pass; one slot if nothing is charged."""
    if allowance.costs is None or allowance.convention is None:
        return np.array([0] + [1] * (len(modes) - 1))
    unit = allowance.convention
    per_call = [allowance.costs.of_mode(mode, unit) for mode in modes]
    saved = 0.0
    if allowance.is_skipping:
        saved = per_call[0]
    above = [round(PARTS[unit] * (cost - saved)) for cost in per_call[1:]]
    if 0 in above and not allowance.is_skipping:
        free = above.index(0) + 1
        raise InputError(
            f"{allowance.costs.source}: a mode above cheap must cost something; "
            f"{modes[free]!r} has {unit} = {per_call[free]:g}, less than can be "
            "counted."
        )
    return np.array([0, *above])


def integer_input_prices(
    allowance: Allowance, table: ValueTable
) -> Int[np.ndarray, "input mode"]:
    """Price of each mode on each input beyond the cheap pass; 0 for cheap."""
    assert allowance.convention is not None
    prices = PARTS[allowance.convention] * allowance.prices(table)
    return np.rint(prices).astype(np.int64)


def integer_budget(allowance: Allowance, inputs: int, own_cost: float = 0.0) -> int:
    """What so many inputs may spend on escalations, in the same integers."""
    if allowance.costs is None or allowance.convention is None:
        return int(allowance.slots(inputs))
    # A sum of decimals may fall short of a whole number by its last digits.
    slack = 1e-6
    if allowance.convention == "usd":
        slack = 0.5
    limit = allowance.budget.alpha * allowance.full - own_cost
    parts = PARTS[allowance.convention] * inputs * limit
    return max(0, math.floor(parts + slack))


def integer_budgets(
    allowance: Allowance, bootstrap: Bootstrap, own_cost: float = 0.0
) -> Int[np.ndarray, "resample"]:
    """What every resample may spend on escalations, in the same integers."""
    if allowance.convention is None:
        slots = allowance.slots_in(bootstrap.counts, bootstrap.inputs)
        return slots.astype(np.int64)
    if allowance.spent is not None:
        spent = allowance.purses(bootstrap.table, bootstrap.counts)
        return np.rint(PARTS[allowance.convention] * spent).astype(np.int64)
    # Python's integers, because a product of large numbers must not be rounded.
    budgets = [
        integer_budget(allowance, int(inputs), own_cost) for inputs in bootstrap.inputs
    ]
    return np.array(budgets)


@dataclass(frozen=True, eq=False)
class Amounts:
    """What each column of a problem adds to the amounts of its first column.

    Attributes:
        start: Gain, benefit and escalations of the first columns in every resample.
        added: What every column adds to them on every input.
    """

    start: Float[np.ndarray, "resample amount"]
    added: Float[np.ndarray, "input column amount"]

    @classmethod
    def of(
        cls, bootstrap: Bootstrap, modes: Int[np.ndarray, "input column"]
    ) -> "Amounts":
        """The amounts of columns that stand for these modes."""
        values = np.take_along_axis(bootstrap.table.mode_values, modes, axis=1)
        amounts = np.stack([values, np.maximum(values, 0.0), modes > 0], axis=2)
        first = amounts[:, 0]
        start = np.column_stack([bootstrap.totals(amount) for amount in first.T])
        return cls(start, amounts - amounts[:, :1])


def gains_of_best_plan(
    bootstrap: Bootstrap, allowance: Allowance, scored: ModeFloats, own_cost: float
) -> Gains:
    """Gains of the plan of largest scores in every resample.

    Args:
        bootstrap: The resamples.
        allowance: What may be spent.
        scored: Score of each mode, 0 for cheap.
        own_cost: What the allocator costs per input.
    """
    table = bootstrap.table
    problem = from_cheapest(scored, integer_prices(allowance, table.modes))
    amounts = Amounts.of(bootstrap, problem.modes)
    # The search is the costly part. An input without a dearer mode of value stays where
    # it is in every plan, so it does not enter.
    rows = np.flatnonzero((problem.values > 0).any(axis=1))
    if len(rows) == 0:
        return Gains.of(amounts.start)
    # Among equal plans, the ids of the inputs decide.
    rows = rows[np.argsort(keys.as_text(table.input[rows]), kind="stable")]
    values = problem.values[rows]
    added = amounts.added[rows]
    unit = table.unit[rows]
    # Starting from the cheapest mode saves money, which may be spent elsewhere.
    saved = int(problem.saved[0]) * bootstrap.inputs.astype(np.int64)
    budgets = integer_budgets(allowance, bootstrap, own_cost) + saved
    sums, is_solved = fills.plan_sums(
        values,
        problem.costs,
        unit,
        quantities=added,
        counts=bootstrap.counts,
        budgets=budgets,
    )
    unsolved = np.flatnonzero(~is_solved).tolist()
    for resample in bootstrap.watch(unsolved, "planning draws"):
        # The fast search could not prove its plan, so this resample is solved alone.
        copies = bootstrap.counts[resample, unit].astype(np.int64)
        drawn = np.repeat(np.arange(len(rows)), copies)
        plan = knapsack.solve(values[drawn], problem.costs, int(budgets[resample]))
        sums[resample] = added[drawn, plan.modes].sum(axis=0)
    return Gains.of(amounts.start + sums)


def mean_costs(
    bootstrap: Bootstrap, allowance: Allowance
) -> tuple[Float[np.ndarray, "mode resample"], PerResample]:
    """Mean cost of each mode on an input of each resample, and the budget for it."""
    table = bootstrap.table
    # A resample may hold no input at all; its sums are 0 whatever they are divided by.
    inputs = np.maximum(bootstrap.inputs, 1.0)
    if not allowance.per_input:
        cost = integer_prices(allowance, table.modes).astype(np.float64)
        budget = integer_budgets(allowance, bootstrap) / inputs
        return np.broadcast_to(cost[:, None], (len(cost), len(inputs))), budget
    cost = total_prices(bootstrap, allowance) / inputs
    return cost, allowance.purses(table, bootstrap.counts) / inputs
