"""The multiple-choice knapsack against every plan, a DP and HiGHS; certificates hold,
tampered ones do not.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.judge import knapsack, mode_plans
from reference import knapsack as slow


def random_case(rng: np.random.Generator, *, inputs: int, modes: int, dear: int):
    """Values with ties, zeros and negatives; costs with repetitions; budgets from
    nothing to plenty.
    """
    kind = rng.integers(3)
    values = (
        rng.normal(0.3, 1, (inputs, modes))
        if kind == 0
        else rng.integers(-2, 5, (inputs, modes)).astype(float)
    )
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
        values, costs, budget = random_case(
            rng, inputs=int(rng.integers(1, 6)), modes=int(rng.integers(2, 5)), dear=6
        )
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.enumerated(values, costs, budget))
        assert mode_plans.check(plan, values, costs).optimal


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
        escalated = plan.modes > 0
        assert np.all(values[escalated, plan.modes[escalated]] > 0)
        assert mode_plans.check(plan, values, costs).optimal


def test_highs_on_real_costs():
    rng = np.random.default_rng(2)
    costs = np.array([0, 14380, 16720, 18470])
    for _ in range(60):
        inputs = int(rng.integers(5, 80))
        values = np.column_stack(
            [np.zeros(inputs), rng.normal(0, 1, (inputs, 3)).cumsum(axis=1)]
        )
        budget = int(inputs * rng.choice([0.1, 0.2, 0.5]) * 18470)
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.highs(values, costs, budget))
        assert (
            mode_plans.check(plan, values, costs).gap <= plan.bound - plan.value + 1e-9
        )


def test_highs_on_300_cases_of_unrounded_costs():
    rng = np.random.default_rng(4)
    for _ in range(300):
        inputs, modes = int(rng.integers(2, 13)), int(rng.integers(2, 6))
        values = np.column_stack(
            [np.zeros(inputs), rng.normal(0.5, 1, (inputs, modes - 1))]
        )
        costs = np.concatenate([[0], rng.integers(1000, 30_000, modes - 1)])
        budget = int(rng.integers(0, inputs * 20_000))
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.highs(values, costs, budget))
        assert mode_plans.check(plan, values, costs).optimal


def many_equal_inputs(rng: np.random.Generator):
    """A few kinds of input, each many times, some worth exactly what they cost: losses
    of 0 between all modes.
    """
    inputs, modes = int(rng.integers(2, 60)), int(rng.integers(2, 7))
    costs = np.concatenate([[0], rng.integers(1, 40, modes - 1)])
    kinds = rng.choice([0.1, 0.9, 1.0, 1.1], (4, modes)) * (
        costs if rng.random() < 0.5 else 1.0
    )
    values = kinds[rng.integers(0, 4, inputs)]
    values[:, 0] = 0.0
    return values, costs, int(rng.integers(0, inputs * 25))


@pytest.mark.parametrize(("inputs", "states"), [(16, 64), (4, 2), (100, 2)])
def test_many_equal_inputs_also_where_the_first_lists_are_cut(
    monkeypatch, inputs, states
):
    monkeypatch.setattr(knapsack, "FIRST_INPUTS", inputs)
    monkeypatch.setattr(knapsack, "FIRST_STATES", states)
    rng = np.random.default_rng(5)
    for _ in range(300):
        values, costs, budget = many_equal_inputs(rng)
        plan = knapsack.solve(values, costs, budget)
        assert close(plan.value, slow.dynamic(values, costs, budget))
        assert mode_plans.check(plan, values, costs).optimal


def test_thousands_of_inputs():
    rng = np.random.default_rng(6)
    for modes, ties in [(2, True), (3, False), (4, False), (4, True), (6, False)]:
        values = (
            rng.integers(-9, 30, (3000, modes)) * 1.0
            if ties
            else rng.normal(0.5, 1, (3000, modes))
        )
        values[:, 0] = 0.0
        costs = np.concatenate([[0], rng.permutation(np.arange(3, 9))[: modes - 1]])
        for budget in (900, 7000):
            plan = knapsack.solve(values, costs, budget)
            assert close(plan.value, slow.dynamic(values, costs, budget))
            assert mode_plans.check(plan, values, costs).optimal


def test_modes_of_equal_cost():
    values = np.array(
        [[0.0, 2.0, 3.0, 3.0], [0.0, 5.0, 4.0, 4.0], [0.0, -1.0, 0.0, 0.0]]
    )
    assert knapsack.solve(values, np.array([0, 4, 4, 4]), 8).modes.tolist() == [2, 1, 0]
    assert knapsack.solve(values, np.array([0, 4, 4, 4]), 7).modes.tolist() == [0, 1, 0]


def test_budget_that_whole_costs_cannot_spend_leaves_no_gap():
    values = np.array([[0.0, 3.0], [0.0, 2.0], [0.0, 1.0]])
    plan = knapsack.solve(values, np.array([0, 10]), 29)
    assert (plan.value, plan.spent, plan.multiplier, plan.core) == (
        3 + 2,
        10 + 10,
        1 / 10,
        0,
    )
    assert close(plan.bound, 29 / 10 + (3 - 1) + (2 - 1))
    assert mode_plans.check(plan, values, np.array([0, 10])) == mode_plans.Verification(
        gap=0.0, core=0, optimal=True
    )


def test_the_gap_and_the_inputs_it_leaves_open():
    """λ = 5/2 from the second input; a better plan could differ in the first three, but
    the fourth would lose 4.
    """
    values = np.array(
        [[0.0, 0.0, 9.0], [0.0, 5.0, 5.0], [0.0, 4.0, 4.0], [0.0, 1.0, 1.0]]
    )
    plan = knapsack.solve(values, np.array([0, 2, 3]), 4)
    assert (plan.value, plan.multiplier, plan.bound) == (
        9,
        5 / 2,
        4 * 5 / 2 + (9 - 3 * 5 / 2),
    )
    proof = mode_plans.check(plan, values, np.array([0, 2, 3]))
    assert proof == mode_plans.Verification(gap=11.5 - 9, core=3, optimal=True)


def test_options_or_states_that_had_to_be_cut_show_in_the_peak():
    steps, start = np.arange(100), knapsack._States(np.array([7 * 90]), np.zeros(1))
    goal = knapsack._Goal(slack=0, multiplier=1.0, best=1.0, tolerance=0.0, limit=2)
    states_cut = knapsack._merge(
        start, knapsack._Group(0 * steps, steps, 7 * steps, 0.0 * steps), goal
    )
    # of the 64 options of least cost, what is nearest to no slack
    assert states_cut.slack.tolist() == [7 * 28, 7 * 27]
    assert states_cut.peak == 64
    too_dear = np.where(steps % 90 == 0, 0.0, 1.0)
    options_cut = knapsack._merge(
        start, knapsack._Group(0 * steps, steps, 7 * steps, too_dear), goal
    )
    assert options_cut.slack.tolist() == [7 * 90]
    assert options_cut.peak == goal.limit + 1


def test_a_worse_plan_told_truly_is_not_called_optimal():
    plan, values, costs = binding_plan()
    proof = mode_plans.check(plan, values, costs)
    dropped = int(np.flatnonzero(plan.modes)[0])
    modes = plan.modes.copy()
    modes[dropped] = 0
    loss, saved = values[dropped, plan.modes[dropped]], int(costs[plan.modes[dropped]])
    worse = mode_plans.check(
        replace(plan, modes=modes, value=plan.value - loss, spent=plan.spent - saved),
        values,
        costs,
    )
    assert proof.optimal
    assert not worse.optimal
    assert close(worse.gap, proof.gap + loss)
    assert worse.core > proof.core > 0


def test_a_search_without_room_says_that_nothing_is_proven(monkeypatch):
    best, values, costs = binding_plan()
    monkeypatch.setattr(knapsack, "MOST_STATES", 0)
    plan = knapsack.solve(values, costs, 5000)
    proof = mode_plans.check(plan, values, costs)
    assert not proof.optimal
    assert 0 < best.value - plan.value <= proof.gap


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
        "a mode that does not exist": (
            replace(plan, modes=plan.modes + 2),
            "from 0 to 2",
        ),
        "a worse plan, costs restated": (
            replace(plan, modes=lost, spent=plan.spent - 144),
            "cost|worth",
        ),
        "value overstated": (replace(plan, value=plan.value + 1e-6), "worth"),
        "spent understated": (replace(plan, spent=plan.spent - 1), "cost"),
        "budget lowered": (replace(plan, budget=plan.spent - 1), "over its budget"),
        "bound understated": (replace(plan, bound=plan.value), "understated|bound"),
        "value not a number": (replace(plan, value=float("nan")), "worth"),
        "bound overstated": (replace(plan, bound=plan.bound + 1e-6), "overstated"),
        "bound not a number": (replace(plan, bound=float("nan")), "bound"),
        "multiplier negative": (replace(plan, multiplier=-0.1), "at least 0"),
        "multiplier changed": (
            replace(plan, multiplier=plan.multiplier * 1.1),
            "bound",
        ),
    }


@pytest.mark.parametrize("how", tampered())
def test_a_tampered_plan_is_refused_with_its_reason(how):
    _, values, costs = binding_plan()
    plan, reason = tampered()[how]
    with pytest.raises(InputError, match=reason):
        mode_plans.check(plan, values, costs)


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
        (np.array([[0.0, 2.0]]), np.array([0, -1]), 1),
        (np.array([[0.0, 2.0], [0.0, np.inf]]), np.array([0, 1]), 1),
        (np.zeros((2, 0)), np.zeros(0, dtype=int), 1),
        (np.array([[0.0, 2.0]]), np.array([0, 1]), -1),
    ],
)
def test_bad_input(values, costs, budget):
    with pytest.raises(InputError):
        knapsack.solve(values, costs, budget)


cases = st.integers(0, 2**32 - 1).map(
    lambda seed: random_case(np.random.default_rng(seed), inputs=12, modes=4, dear=9)
)


@given(cases, st.integers(0, 20))
def test_more_budget_never_hurts(case, more):
    values, costs, budget = case
    assert (
        knapsack.solve(values, costs, budget + more).value
        >= knapsack.solve(values, costs, budget).value - 1e-12
    )


@given(cases, st.floats(0.01, 100))
def test_scaling_values_scales_the_optimum(case, factor):
    values, costs, budget = case
    assert close(
        knapsack.solve(values * factor, costs, budget).value,
        factor * knapsack.solve(values, costs, budget).value,
    )


@given(cases)
def test_the_relaxed_optimum_is_concave_and_above_every_plan(case):
    values, costs, budget = case
    least, middle, most = (
        slow.relaxed(values, costs, spend) for spend in (0, budget / 2, budget)
    )
    assert least == 0
    assert middle >= (least + most) / 2 - 1e-9
    assert most >= knapsack.solve(values, costs, budget).value - 1e-9
    assert close(
        slow.relaxed(values, costs, int(costs.max()) * len(values)),
        values.max(axis=1).sum(),
    )


def test_the_bound_against_a_slow_twin():
    rng = np.random.default_rng(7)
    for _ in range(2000):
        values, costs, budget = random_case(
            rng, inputs=int(rng.integers(1, 20)), modes=int(rng.integers(2, 7)), dear=9
        )
        expected = slow.relaxed(values, costs, budget)
        bound = knapsack.solve(values, costs, budget).bound
        assert (
            close(bound, expected)
            if costs.max() <= budget
            else bound <= expected + 1e-9
        )


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=20), st.integers(0, 25))
def test_two_modes_are_the_capacity_oracle(numbers, slots):
    values = np.column_stack([np.zeros(len(numbers)), np.array(numbers, dtype=float)])
    best = sum(sorted((n for n in numbers if n > 0), reverse=True)[:slots])
    assert knapsack.solve(values, np.array([0, 7]), 7 * slots).value == best
