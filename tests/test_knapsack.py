"""The multiple-choice knapsack against every plan, a DP and HiGHS; certificates hold, tampered ones do not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval import knapsack
from deepval.errors import InputError
from reference import knapsack as slow


def random_case(rng: np.random.Generator, *, inputs: int, modes: int, dear: int):
    """Values with ties, zeros and negatives; costs with repetitions; budgets from nothing to plenty."""
    kind = rng.integers(3)
    values = rng.normal(0.3, 1, (inputs, modes)) if kind == 0 else rng.integers(-2, 5, (inputs, modes)).astype(float)
    if kind == 2:
        values *= rng.random((inputs, 1)) < 0.4
    values[:, 0] = 0.0
    costs = np.concatenate([[0], np.sort(rng.integers(1, dear + 1, modes - 1))])
    return values, costs, int(rng.integers(0, inputs * dear + 2))


def close(found: float, expected: float) -> bool:
    return abs(found - expected) <= 1e-9 * max(1.0, abs(expected))


def test_every_plan_on_tiny_tables():
    rng = np.random.default_rng(0)
    for _ in range(600):
        values, costs, budget = random_case(rng, inputs=int(rng.integers(1, 6)), modes=int(rng.integers(2, 5)), dear=6)
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.enumerated(values, costs, budget))
        knapsack.check(plan, values, costs)


def test_integer_programme_on_2500_random_cases():
    rng = np.random.default_rng(1)
    for _ in range(2500):
        values, costs, budget = random_case(
            rng, inputs=int(rng.integers(1, 30)), modes=int(rng.integers(2, 7)), dear=12
        )
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.dynamic(values, costs, budget))
        assert plan.spent == costs[plan.modes].sum() <= budget
        assert close(values[np.arange(len(values)), plan.modes].sum(), plan.value)
        assert plan.bound >= plan.value
        knapsack.check(plan, values, costs)


def test_highs_on_real_costs():
    rng = np.random.default_rng(2)
    costs = np.array([0, 14380, 16720, 18470])
    for _ in range(60):
        inputs = int(rng.integers(5, 80))
        values = np.column_stack([np.zeros(inputs), rng.normal(0, 1, (inputs, 3)).cumsum(axis=1)])
        budget = int(inputs * rng.choice([0.1, 0.2, 0.5]) * 18470)
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.highs(values, costs, budget))
        assert knapsack.check(plan, values, costs).gap <= plan.bound - plan.value + 1e-9


def binding_plan():
    rng = np.random.default_rng(3)
    values = np.column_stack([np.zeros(200), rng.normal(0.4, 1, (200, 2))])
    costs = np.array([0, 144, 185])
    return knapsack.solve(values, costs, 5000), values, costs


def tampered():
    plan, values, _ = binding_plan()
    other = plan.modes.copy()
    cheap = int(np.flatnonzero((plan.modes == 0) & (values[:, 1] < 0))[0])
    other[cheap] = 1
    lost = plan.modes.copy()
    lost[int(np.flatnonzero(plan.modes)[0])] = 0
    return {
        "a mode changed": (replace(plan, modes=other), "cost"),
        "an input dropped": (replace(plan, modes=plan.modes[1:]), "each of 200 inputs"),
        "a mode that does not exist": (replace(plan, modes=plan.modes + 2), "from 0 to 2"),
        "a worse plan, costs restated": (replace(plan, modes=lost, spent=plan.spent - 144), "cost|worth"),
        "value overstated": (replace(plan, value=plan.value + 1e-6), "worth"),
        "spent understated": (replace(plan, spent=plan.spent - 1), "cost"),
        "budget lowered": (replace(plan, budget=plan.spent - 1), "over its budget"),
        "bound understated": (replace(plan, bound=plan.value), "understated|bound"),
        "multiplier negative": (replace(plan, multiplier=-0.1), "at least 0"),
        "multiplier changed": (replace(plan, multiplier=plan.multiplier * 1.1), "bound"),
    }


@pytest.mark.parametrize("how", tampered())
def test_a_tampered_plan_is_refused_with_its_reason(how):
    _, values, costs = binding_plan()
    plan, reason = tampered()[how]
    with pytest.raises(InputError, match=reason):
        knapsack.check(plan, values, costs)


def test_the_same_input_gives_the_same_plan_and_leaves_it_alone():
    plan, values, costs = binding_plan()
    values.flags.writeable = False
    again = knapsack.solve(values, costs, 5000)
    assert np.array_equal(plan.modes, again.modes)
    assert plan.value == again.value


def test_ties_are_filled_in_row_order():
    values = np.array([[0.0, 1.0]] * 5)
    assert knapsack.solve(values, np.array([0, 2]), 5).modes.tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("budget", [0, 1])
def test_a_budget_below_the_cheapest_mode_buys_nothing(budget):
    plan = knapsack.solve(np.array([[0.0, 5.0, 9.0]]), np.array([0, 2, 3]), budget)
    assert (plan.modes.tolist(), plan.value, plan.spent) == ([0], 0.0, 0)


def test_no_inputs_and_nothing_to_gain():
    for values in (np.zeros((0, 3)), -np.ones((4, 3)) * [0, 1, 1]):
        plan = knapsack.solve(values, np.array([0, 2, 3]), 10)
        assert (plan.value, plan.spent, plan.gap) == (0.0, 0, 0.0)


@pytest.mark.parametrize(
    ("values", "costs", "budget"),
    [
        (np.array([[1.0, 2.0]]), np.array([0, 1]), 1),
        (np.array([[0.0, np.nan]]), np.array([0, 1]), 1),
        (np.array([[0.0, 2.0]]), np.array([1, 2]), 1),
        (np.array([[0.0, 2.0]]), np.array([0, 0]), 1),
        (np.array([[0.0, 2.0]]), np.array([0, 1]), -1),
    ],
)
def test_bad_input(values, costs, budget):
    with pytest.raises(InputError):
        knapsack.solve(values, costs, budget)


cases = st.integers(0, 2**32 - 1).map(lambda seed: random_case(np.random.default_rng(seed), inputs=12, modes=4, dear=9))


@given(cases, st.integers(0, 20))
def test_more_budget_never_hurts(case, more):
    values, costs, budget = case
    assert knapsack.solve(values, costs, budget + more).value >= knapsack.solve(values, costs, budget).value - 1e-12


@given(cases, st.floats(0.01, 100))
def test_scaling_values_scales_the_optimum(case, factor):
    values, costs, budget = case
    assert close(
        knapsack.solve(values * factor, costs, budget).value, factor * knapsack.solve(values, costs, budget).value
    )


@given(cases)
def test_the_relaxed_curve_is_concave_and_above_every_plan(case):
    values, costs, budget = case
    curve = knapsack.budget_curve(values, costs)
    slopes = np.diff(curve.value) / np.diff(curve.spend)
    assert np.all(np.diff(slopes) <= 1e-9)
    (relaxed,) = knapsack.lp_value(curve, np.array([budget]))
    assert relaxed >= knapsack.solve(values, costs, budget).value - 1e-9


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=20), st.integers(0, 25))
def test_two_modes_are_the_capacity_oracle(numbers, slots):
    values = np.column_stack([np.zeros(len(numbers)), np.array(numbers, dtype=float)])
    best = sum(sorted((n for n in numbers if n > 0), reverse=True)[:slots])
    assert knapsack.solve(values, np.array([0, 7]), 7 * slots).value == best
