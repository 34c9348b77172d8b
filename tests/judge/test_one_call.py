"""Routers that choose one of K models: charged for that call alone or after the cheap
one, against brute force.
"""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, milp

import deepval
from deepval.judge.pairs import basis
from deepval.judge.prices import Price
from deepval.judge.routing import Routing, read_routing
from worlds import judge

MODES = ("s", "m", "l")


def table_of(rng, inputs, *, per_input, allocators=(), units=None):
    """Random losses of three models; costs are whole, m can cost less than s, and ties
    of costs occur.
    """
    losses = {mode: rng.integers(0, 6, inputs).astype(float) for mode in MODES}
    low = {"s": (1, 4), "m": (0, 6), "l": (6, 9)}
    charged = {"allocators": {name: {"ms": 0.0} for name in allocators}}
    unit = np.arange(inputs) % (units or max(1, inputs // 2))
    if per_input:
        own = {
            "ms": {
                mode: rng.integers(*low[mode], inputs).astype(float) for mode in MODES
            }
        }
        return deepval.ValueTable.from_columns(
            unit=unit,
            losses=losses,
            input_costs=own,
            costs=charged if allocators else None,
        )
    costs = {
        "modes": {mode: {"ms": float(rng.integers(*low[mode]))} for mode in MODES}
    } | charged
    return deepval.ValueTable.from_columns(unit=unit, losses=losses, costs=costs)


def costs_above(table, accounting):
    """Cost of every mode on every input on top of the cheap one, in milliseconds."""
    if "ms" in table.input_costs:
        calls = table.input_costs["ms"]
    else:
        calls = np.tile(
            [table.costs.of_mode(mode, "ms") for mode in MODES], (len(table), 1)
        )
    above = calls - calls[:, :1] if accounting == "skipping" else calls.copy()
    above[:, 0] = 0.0
    return above, calls[:, -1].sum()


def best_of_all(values, costs, budget):
    """The largest total value of all assignments of modes to inputs within the
    budget.
    """
    rows = np.arange(len(values))
    return max(
        float(values[rows, list(modes)].sum())
        for modes in itertools.product(range(values.shape[1]), repeat=len(values))
        if costs[rows, list(modes)].sum() <= budget + 1e-9
    )


def relaxed(values, costs, budget):
    """The linear programme over shares of modes."""
    inputs, modes = values.shape
    one_mode = np.kron(np.eye(inputs), np.ones(modes))
    solved = linprog(
        -values.ravel(),
        A_ub=[costs.ravel()],
        b_ub=[budget],
        A_eq=one_mode,
        b_eq=np.ones(inputs),
    )
    return -solved.fun


@given(st.integers(0, 10**6), st.sampled_from(["cascade", "skipping"]), st.booleans())
def test_the_oracle_and_the_mixture_equal_brute_force(seed, accounting, per_input):
    rng = np.random.default_rng(seed)
    table = table_of(rng, int(rng.integers(2, 6)), per_input=per_input)
    above, full = costs_above(table, accounting)
    alpha = float(rng.choice([0.1, 0.25, 0.5, 0.75, 1.0]))
    if accounting == "cascade" and not per_input and not above[0, 1:].all():
        # a mode after the cheap one must cost something: refused, and tested elsewhere
        return
    result = judge(
        table,
        {},
        [deepval.Latency(alpha, accounting=accounting)],
        draws=0,
        thresholds=False,
    )
    best, (certified,) = result.row("oracle-ladder"), result.ladder
    whole = best_of_all(table.mode_values, above, alpha * full)
    assert certified.value == pytest.approx(whole, abs=1e-9)
    assert certified.accounting == accounting
    assert certified.lp_bound >= whole - 1e-9
    assert best.gain == pytest.approx(
        relaxed(table.mode_values, above, alpha * full) if per_input else whole,
        abs=1e-9,
    )
    # The mixture that looks at no input: a linear programme over the shares of the
    # three modes.
    means, prices = table.mode_values.sum(axis=0), above.mean(axis=0)
    mixed = linprog(
        -means,
        A_ub=[prices],
        b_ub=[alpha * full / len(table)],
        A_eq=[[1, 1, 1]],
        b_eq=[1],
    )
    assert result.row("random-ladder").gain == pytest.approx(-mixed.fun, abs=1e-6)


def test_certified_plans_equal_highs_on_100_random_tables():
    rng = np.random.default_rng(24)
    for number in range(100):
        accounting, per_input = ("cascade", "skipping")[number % 2], number % 4 > 1
        table = table_of(rng, 40, per_input=per_input)
        above, full = costs_above(table, accounting)
        if accounting == "cascade" and not per_input and not above[0, 1:].all():
            continue
        result = judge(
            table,
            {},
            [deepval.Latency(0.3, accounting=accounting)],
            draws=0,
            thresholds=False,
        )
        limits = [
            LinearConstraint(above.ravel()[None], ub=0.3 * full + 1e-9),
            LinearConstraint(np.kron(np.eye(40), np.ones(3)), 1, 1),
        ]
        solved = milp(
            -table.mode_values.ravel(),
            constraints=limits,
            integrality=np.ones(120),
            bounds=(0, 1),
        )
        assert result.ladder[0].value == pytest.approx(-solved.fun, abs=1e-6)


@given(st.integers(0, 10**6), st.sampled_from(["cascade", "skipping"]), st.booleans())
def test_scores_that_are_the_values_reach_the_oracle_and_a_price_replays_its_spend(
    seed, accounting, per_input
):
    rng = np.random.default_rng(seed)
    table = table_of(rng, 24, per_input=per_input, allocators=["knowing"])
    above, full = costs_above(table, accounting)
    if accounting == "cascade" and not per_input and not above[0, 1:].all():
        return
    budgets = [deepval.Latency(0.4, accounting=accounting)]
    result = judge(table, {"knowing": table.mode_values[:, 1:]}, budgets, draws=4)
    held = {item.row.allocator: item.gains for item in basis(result).judged}
    assert held["knowing"].gain == pytest.approx(held["oracle-ladder"].gain, abs=1e-9)
    threshold = result.threshold("knowing")
    price = Price(threshold.price, threshold.tie_acceptance, None)
    shares = price.expected(table.mode_values[:, 1:], above[:, 1:])
    assert threshold.spend == pytest.approx((shares * above[:, 1:]).sum() / 24)
    if threshold.price > 0:
        assert threshold.spend == pytest.approx(0.4 * full / 24)
    # No mode of an input is better at this price than the one that runs.
    worth = table.mode_values - threshold.price * above
    rows = np.arange(24)
    for modes in price.bought(table.mode_values[:, 1:], above[:, 1:]):
        assert worth[rows, modes] == pytest.approx(worth.max(axis=1), abs=1e-9)


@given(st.integers(0, 10**6), st.booleans())
def test_a_stream_of_plain_numbers_decides_as_the_arrays_do(seed, own):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 6, (30, 3)).astype(float)
    scores[rng.random((30, 3)) < 0.05] = -np.inf
    costs = rng.integers(-2, 5, (30, 3)).astype(float)
    costs = costs if own else np.tile(costs[0], (30, 1))
    price = Price.calibrate(
        scores, costs if own else costs[0].tolist(), float(rng.uniform(-1, 3))
    )
    stream = price.start()
    decided = [
        stream.decide(row, cost if own else None)
        for row, cost in zip(scores.tolist(), costs.tolist(), strict=True)
    ]
    rows = np.arange(30)
    assert (
        decided
        == price.decide(
            scores, np.zeros(30, int), rows, costs if own else None
        ).tolist()
    )


def test_a_router_with_costs_per_input_is_saved_and_asks_for_the_costs(tmp_path):
    routing = Routing(Price(2.0, 0.5, None, skipping=True), MODES, per_mode=True)
    router = deepval.Router(None, routing)
    router.save(tmp_path / "router.json")
    assert json.loads((tmp_path / "router.json").read_text())["policy"] == {
        "name": "price per input", "price": 2.0, "tie_acceptance": 0.5, "skipping": True
    }  # fmt: skip
    loaded = deepval.Router.load(tmp_path / "router.json")
    assert read_routing(tmp_path / "router.json").policy == routing.policy
    # m is worth 3 for 1 more than s, l is worth 1 more for 2 more: only the first step
    # is worth 2 per unit.
    assert loaded.decide([3.0, 4.0], costs={"s": 1.0, "m": 2.0, "l": 4.0}) == "m"
    assert loaded.decide([3.0, 9.0], costs={"s": 1.0, "m": 2.0, "l": 4.0}) == "l"
    for costs in (
        None,
        {"m": 1.0, "l": 2.0},
        {"s": 1.0, "m": math.nan, "l": 2.0},
        {"s": 0, "m": "x", "l": 1},
    ):
        with pytest.raises(
            deepval.InputError, match="needs the cost of s, m, l on every input"
        ):
            loaded.decide([3.0, 4.0], costs=costs)
    with pytest.raises(deepval.InputError, match="no use for the costs"):
        deepval.Router.from_scores([0.1, 0.2, 0.9], 0.3).decide(
            0.4, costs={"cheap": 1.0}
        )


@pytest.mark.parametrize("accounting", ["cascade", "skipping"])
@pytest.mark.parametrize("per_input", [False, True])
def test_a_choice_is_judged_at_its_own_spend_beside_the_mixture_that_spends_as_much(
    accounting, per_input
):
    rng = np.random.default_rng(5)
    table = table_of(
        rng, 60, per_input=per_input, allocators=["router", "ranking"], units=6
    )
    chosen = rng.integers(0, 3, 60)
    above, full = costs_above(table, accounting)
    budgets = [deepval.Latency(0.5, accounting=accounting), deepval.Selection(0.2)]
    scores = {"router": np.array(MODES)[chosen], "ranking": np.arange(60.0)}
    result = judge(table, scores, budgets, draws=20)
    row = result.row("router", "latency")
    rows = np.arange(60)
    assert row.alpha == pytest.approx(above[rows, chosen].sum() / full)
    assert row.gain == pytest.approx(table.mode_values[rows, chosen].sum())
    assert row.escalated == np.count_nonzero(chosen)
    assert (row.oracle, row.chance) == ("oracle-ladder", "random-ladder")
    assert result.row("router", "selection").alpha == pytest.approx(
        np.count_nonzero(chosen) / 60
    )
    at_own = [item for item in result.rows if item.budget == row.budget]
    assert {
        "router",
        "random-ladder",
        "oracle-ladder",
        "random",
        "oracle",
        "all-full",
    } <= {r.allocator for r in at_own}
    assert "ranking" not in {item.allocator for item in at_own}
    assert "router" not in {
        item.allocator for item in result.rows if item.alpha in (0.5, 0.2)
    }
    # In every draw the mixture may spend what the router spends there.
    gain = {
        item.row.allocator: item.gains.gain
        for item in basis(result).judged
        if item.row.budget == row.budget and item.gains is not None
    }
    counts = np.vstack([np.ones(6), result.samples.counts])
    paid = np.bincount(table.unit, above[rows, chosen], minlength=6)
    for index in (0, 1, 7):
        weight = counts[index][table.unit]
        means, prices = weight @ table.mode_values, weight @ above / weight.sum()
        spend = counts[index] @ paid / weight.sum()
        mixed = linprog(-means, A_ub=[prices], b_ub=[spend], A_eq=[[1, 1, 1]], b_eq=[1])
        assert gain["random-ladder"][index] == pytest.approx(-mixed.fun, abs=1e-3)
        assert gain["router"][index] <= gain["oracle-ladder"][index] + 1e-9
    (difference,) = deepval.compare(result, "router", "random-ladder")[:1]
    assert difference.difference == pytest.approx(row.versus_random)


def test_choices_come_in_files_and_odd_ones_are_refused(tmp_path):
    table = table_of(np.random.default_rng(1), 6, per_input=False, allocators=["mine"])
    (tmp_path / "choice.csv").write_text(
        "input,choice\n" + "".join(f"{i},{MODES[i % 3]}\n" for i in range(6))
    )
    result = judge(
        table, {"mine": tmp_path / "choice.csv"}, [deepval.Selection(0.5)], draws=5
    )
    assert result.row("mine").alpha == pytest.approx(4 / 6)
    (tmp_path / "odd.csv").write_text("input,choice\n0,s\n1,xl\n")
    with pytest.raises(deepval.InputError, match="'xl'"):
        judge(table, {"mine": tmp_path / "odd.csv"}, draws=0)
    (tmp_path / "few.csv").write_text("input,choice\n0,l\n")
    with pytest.raises(deepval.InputError, match="every input needs a score"):
        judge(table, {"mine": tmp_path / "few.csv"}, draws=0)
    few = judge(
        table,
        {"mine": tmp_path / "few.csv"},
        [deepval.Selection(0.5)],
        draws=5,
        missing="worst",
    )
    assert few.row("mine").escalated == 1
    with pytest.warns(deepval.InputWarning, match="mine never escalates"):
        idle = deepval.evaluate(
            table, {"mine": ["s"] * 6}, [deepval.Selection(0.5)], draws=5
        )
    assert "mine" not in {row.allocator for row in idle.rows}


def test_a_choice_and_a_ranking_share_no_budget():
    table = table_of(
        np.random.default_rng(2), 12, per_input=False, allocators=["mine", "yours"]
    )
    scores = {"mine": [*"sm" * 6], "yours": np.arange(12.0)}
    # the choice escalates exactly a half
    result = judge(table, scores, [deepval.Selection(0.5)], draws=5)
    assert deepval.compare(result, "mine", "yours") == ()
    assert result.row("yours").alpha == 0.5
    assert result.row("mine").alpha == pytest.approx(0.5, abs=1e-12)
