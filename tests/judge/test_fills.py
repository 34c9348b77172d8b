"""Plans of many draws at once against the plan of each draw that the knapsack finds."""

import numpy as np
import pytest

from deepval.judge import fills, knapsack

COSTS = ([0, 6, 9], [0, 14380, 18470], [0, 6000, 14000, 20000], [0, 3, 3, 7], [0, 5])
"""Of modes, in small and in large units; some modes cost the same, some differences are
the same.
"""


def random_draws(rng: np.random.Generator, costs: np.ndarray, inputs: int):
    """Values of modes, their units, what is summed, counts of units and a budget for
    each draw.
    """
    values = np.column_stack(
        [np.zeros(inputs), rng.normal(0.2, 1, (inputs, len(costs) - 1))]
    )
    values = values[(values > 0).any(axis=1)]
    unit, counts = (
        rng.integers(0, 4, len(values)),
        rng.integers(0, 3, (6, 4)).astype(float),
    )
    budgets = (
        rng.uniform(0.05, 0.9) * costs.max() * (counts @ np.bincount(unit, minlength=4))
    )
    own = rng.normal(size=(*values.shape, 2))
    own[:, 0] = 0.0
    return values, unit, own, counts, budgets.astype(np.int64)


@pytest.mark.parametrize("costs", COSTS, ids=lambda costs: "-".join(map(str, costs)))
def test_what_is_solved_is_the_plan_of_the_knapsack(costs):
    rng, costs = np.random.default_rng(len(costs)), np.array(costs)
    solved = drawn = 0
    for inputs in (1, 5, 20, 40, 300) * 12:
        values, unit, own, counts, budgets = random_draws(rng, costs, inputs)
        if not len(values):
            continue
        found = fills.plan_sums(
            values, costs, unit, quantities=own, counts=counts, budgets=budgets
        )
        for draw in np.flatnonzero(found.solved):
            rows = np.repeat(
                np.arange(len(values)), counts[draw, unit].astype(np.int64)
            )
            modes = knapsack.solve(values[rows], costs, int(budgets[draw])).modes
            assert found.sums[draw] == pytest.approx(
                own[rows, modes].sum(axis=0), rel=1e-9, abs=1e-9
            )
        solved, drawn = solved + np.count_nonzero(found.solved), drawn + len(counts)
    assert solved > 0.5 * drawn


def test_draws_with_several_plans_as_good_are_left_to_the_knapsack():
    values, costs = np.array([[0.0, 2.0, 3.0]] * 4), np.array([0, 2, 3])
    found = fills.plan_sums(
        values,
        costs,
        np.zeros(4, int),
        quantities=values[:, :, None],
        counts=np.ones((2, 1)),
        budgets=np.array([7, 99]),
    )
    # all at their best mode leave nothing to choose
    assert found.solved.tolist() == [False, True]
    assert found.sums[1] == pytest.approx(12.0)
