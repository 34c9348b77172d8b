"""Three and four modes: the optimum of every draw and plans of per-mode scores against all assignments of modes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import deepval
from deepval import knapsack
from deepval.budgets import allowance
from deepval.ladder import allowed_spend, mode_costs
from worlds import judge, random_table, table_of

MODES = ("cheap", "middle", "high", "full")
COSTS = {
    "modes": {
        "cheap": {"ms": 2.0, "mj": 5.0},
        "middle": {"ms": 3.0, "mj": 6.0},
        "high": {"ms": 4.5, "mj": 14.0},
        "full": {"ms": 6.0, "mj": 20.0},
    },
    "allocators": {"mine": {"ms": 0.4, "mj": 1.0}, "dear": {"ms": 5.0, "mj": 19.0}, "plain": {"ms": 0.4, "mj": 1.0}},
}


def costs_of(modes) -> dict:
    return {"modes": {m: COSTS["modes"][m] for m in modes}, "allocators": COSTS["allocators"]}


def best_plan(wanted, costs, spend):
    """The assignment of modes of greatest total within the spend, every one tried."""
    best, plan = Fraction(0), (0,) * len(wanted)
    for modes in itertools.product(range(len(costs)), repeat=len(wanted)):
        if sum(costs[m] for m in modes) <= spend:
            total = sum(Fraction(float(row[m])) for row, m in zip(wanted, modes, strict=True))
            if total > best:
                best, plan = total, modes
    return float(best), plan


def draws_of(table, draws, seed):
    """Rows of each drawn sample, the table's own first."""
    units = len(table.unit_ids)
    picks = np.random.Generator(np.random.PCG64(seed)).integers(0, units, (draws, units))
    yield list(range(len(table)))
    for pick in picks:
        yield [i for u in pick.tolist() for i in range(len(table)) if table.unit[i] == u]


def spend_of(budget, inputs, cost=0.0) -> int:
    if budget.kind == "selection":
        return math.floor(budget.alpha * inputs + 0.5)
    full = COSTS["modes"]["full"][budget.convention]
    return math.floor(1000 * inputs * (budget.alpha * full - cost) + 1e-6)


def integer_costs(budget, modes) -> list[int]:
    if budget.kind == "selection":
        return [0] + [1] * (len(modes) - 1)
    return [0] + [round(1000 * COSTS["modes"][m][budget.convention]) for m in modes[1:]]


def random_case(rng):
    modes = ("cheap", "middle", "full") if rng.random() < 0.5 else MODES
    table = random_table(rng, inputs=4, units=2, modes=modes)
    costs, alpha = costs_of(modes), float(rng.choice([0.2, 0.3, 0.5, 0.75]))
    budget = (deepval.Selection(alpha), deepval.Latency(alpha, costs), deepval.Energy(alpha, costs))[rng.integers(3)]
    return table, budget


def samples(result, name):
    (judged,) = (item for item in result.samples.judged if item.row.allocator == name)
    return judged.sample


def test_the_optimum_of_every_draw():
    rng = np.random.default_rng(1)
    above_full_only = 0
    for _ in range(40):
        table, budget = random_case(rng)
        result = judge(table, {}, [budget], draws=4, seed=2)
        found, full_only = samples(result, "oracle-ladder"), samples(result, "oracle")
        for index, rows in enumerate(draws_of(table, 4, 2)):
            costs = integer_costs(budget, table.modes)
            best, _ = best_plan(table.mode_values[rows], costs, spend_of(budget, len(rows)))
            assert found.gain[index] == pytest.approx(best, rel=1e-9, abs=1e-12)
            assert found.benefit[index] == pytest.approx(found.gain[index])
            assert found.gain[index] >= full_only.gain[index] - 1e-12
            above_full_only += found.gain[index] > full_only.gain[index] + 1e-12
        row = next(row for row in result.rows if row.allocator == "oracle-ladder")
        assert row.verdict is None
        assert row.ndg in (None, 1.0)
    assert above_full_only > 20


def test_per_mode_scores_take_the_best_plan_they_believe_in():
    rng = np.random.default_rng(2)
    for _ in range(40):
        table, budget = random_case(rng)
        believed = rng.normal(size=(len(table), len(table.modes) - 1))
        believed[rng.random(believed.shape) < 0.1] = -np.inf
        result = judge(table, {"mine": believed}, [budget], draws=4, seed=3)
        found = samples(result, "mine")
        cost = 0.0 if budget.kind == "selection" else COSTS["allocators"]["mine"][budget.convention]
        wanted = np.column_stack([np.zeros(len(table)), np.maximum(believed, 0)])
        optimum = samples(result, "oracle-ladder")
        for index, rows in enumerate(draws_of(table, 4, 3)):
            costs = integer_costs(budget, table.modes)
            believed_best, plan = best_plan(wanted[rows], costs, spend_of(budget, len(rows), cost))
            got = [table.mode_values[i, m] for i, m in zip(rows, plan, strict=True)]
            twice = len(rows) != len(set(rows))  # copies of an input may change places, which changes no sum
            assert believed_best >= 0
            assert found.gain[index] == pytest.approx(math.fsum(got), rel=1e-9, abs=1e-12), twice
            assert found.benefit[index] == pytest.approx(math.fsum(max(v, 0) for v in got), rel=1e-9, abs=1e-12)
            assert found.escalated[index] == sum(m > 0 for m in plan)
            assert found.gain[index] <= optimum.gain[index] + 1e-12
        row = next(row for row in result.rows if row.allocator == "mine")
        assert row.oracle_gain == pytest.approx(optimum.gain[0])
        if row.oracle_gain > 0:
            assert row.ndg == pytest.approx(row.gain / row.oracle_gain, abs=1e-12)
        assert row.slots is None


def test_columns_per_mode_are_matched_by_name():
    table = random_table(np.random.default_rng(5), inputs=6, units=2, modes=MODES)
    believed = np.random.default_rng(6).normal(size=(6, 3))
    order = np.array([3, 1, 0, 5, 4, 2])
    named = {"input": table.input[order]} | {
        f"score_{mode}": believed[order, m] for m, mode in reversed(list(enumerate(MODES[1:])))
    }
    budgets = [deepval.Latency(0.5, COSTS)]
    few = {"draws": 20}
    assert judge(table, {"mine": named}, budgets, **few).rows == judge(table, {"mine": believed}, budgets, **few).rows


def test_a_plain_score_is_full_against_cheap():
    table = random_table(np.random.default_rng(7), inputs=8, units=3, modes=MODES)
    two = table_of(table.decision_values, unit=table.unit_ids[table.unit], cheap=table.losses[:, 0])
    score = {"plain": np.arange(8.0)}
    ladder = judge(table, score, [deepval.Latency(0.5, COSTS)]).row("plain", "latency", 0.5)
    only_full = judge(two, score, [deepval.Latency(0.5, costs_of(("cheap", "full")))]).row("plain", "latency", 0.5)
    for name in ("gain", "oracle_gain", "ndg", "ndg_lo", "versus_random_lo", "versus_random_hi"):
        assert ladder[name] == pytest.approx(only_full[name], abs=1e-12)


def test_infeasible_and_skipping_are_refused_with_a_reason():
    table = random_table(np.random.default_rng(8), inputs=6, units=2, modes=MODES)
    believed = np.ones((6, 3))
    budgets = [deepval.Latency(0.5, COSTS), deepval.Latency(0.5, COSTS, "skipping")]
    result = judge(table, {"dear": believed, "mine": believed, "plain": np.arange(6.0)}, budgets, draws=5)
    by_name = {(row.allocator, row.accounting): row for row in result.rows}
    assert by_name["dear", "cascade"].verdict == "infeasible"  # 5 ms of 0.5*6
    assert "costs 5 ms" in by_name["dear", "cascade"].reason
    for name in ("dear", "mine"):
        row = by_name[name, "skipping"]
        assert (row.verdict, row.gain, row.oracle_gain) == ("infeasible", None, None)
        assert "no skipping router" in row.reason
    assert by_name["plain", "skipping"].gain is not None
    assert ("oracle-ladder", "skipping") not in by_name
    # Each allocator's gap stands beside its own row.
    gaps = [(gap.allocator, gap.gap is None) for gap in result.gaps]
    assert gaps == [("dear", True), ("mine", True), ("plain", False)] * 2
    with pytest.raises(deepval.InputError, match="infinite"):
        judge(table, {"mine": np.full((6, 3), np.inf)}, [deepval.Selection(0.5)])


def test_per_mode_scores_of_two_modes_stop_at_zero():
    # Slots for two of four; only one score is above 0, so the other slot stays empty. A plain score would fill it.
    table = table_of([2.0, -1.0, 1.0, 0.0], unit=["a", "a", "b", "b"])
    believed = {"input": np.arange(4), "score_full": np.array([1.0, -0.5, -1.0, -2.0])}
    result = judge(table, {"mine": believed, "plain": believed["score_full"]}, [deepval.Selection(0.5)], draws=10)
    mine, plain = result.row("mine", alpha=0.5), result.row("plain", alpha=0.5)
    assert (mine.gain, mine.escalated, mine.oracle_gain, mine.ndg) == (2, 1, 2 + 1, pytest.approx(2 / 3))
    assert (plain.gain, plain.escalated) == (2 - 1, 2)


def test_certificates_and_what_a_plan_spends_elsewhere():
    rng = np.random.default_rng(9)
    for _ in range(25):
        table = random_table(rng, inputs=6, units=2, modes=MODES)
        budgets = [deepval.Latency(0.3, COSTS), deepval.Energy(0.3, COSTS), deepval.Selection(0.3)]
        result = judge(table, {}, budgets, draws=0)
        assert [item["convention"] for item in result.ladder] == ["ms", "mj"]
        order = np.argsort([str(i) for i in table.input])
        for item, budget in zip(result.ladder, budgets, strict=False):
            costs, spend = integer_costs(budget, MODES), spend_of(budget, 6)
            best, _ = best_plan(table.mode_values, costs, spend)
            assert item["value"] == pytest.approx(best, abs=1e-12)
            assert 0 <= item["gap"] <= item["lp_bound"] - item["value"] + 1e-12
            curve = knapsack.budget_curve(table.mode_values, np.array(costs))
            # The bound is the relaxed optimum over the modes that the budget can pay for at all.
            if spend >= max(costs):
                relaxed = float(knapsack.lp_value(curve, np.array([spend]))[0])
                assert item["lp_bound"] == pytest.approx(max(relaxed, best), rel=1e-9, abs=1e-12)
            slots = math.floor(6 * 0.3 + 1e-9)
            full_only = sum(sorted(np.maximum(table.decision_values, 0.0), reverse=True)[:slots])
            assert item["full_only"] == pytest.approx(full_only)
            if item["value"] > 0:
                assert item["full_only_share"] == pytest.approx(full_only / item["value"])
            assert sum(item["modes"].values()) == 6
            # The same plan in both conventions; the excess is over the budget of the same alpha there.
            plan = knapsack.solve(table.mode_values[order], np.array(costs), spend).modes
            for spent in item["spent"]:
                each = [0.0] + [COSTS["modes"][m][spent["convention"]] for m in MODES[1:]]
                used, limit = sum(each[m] for m in plan), 6 * 0.3 * each[-1]
                assert (spent["spent"], spent["allowed"]) == pytest.approx((used, limit))
                assert spent["excess"] == pytest.approx(used / limit - 1)
                if spent["convention"] == item["convention"]:
                    assert spent["excess"] <= 1e-9


def test_costs_and_budget_are_whole_microseconds():
    allowed = allowance(deepval.Latency(0.2, COSTS), MODES)
    assert mode_costs(allowed, MODES).tolist() == [0, 3000, 4500, 6000]
    assert allowed_spend(allowed, 7) == 8400  # 1000*7*0.2*6
    assert allowed_spend(allowed, 7, 0.4) == 5600  # 1000*7*(1.2 - 0.4)
    assert allowed_spend(allowed, 7, 9.0) == 0
    selection = allowance(deepval.Selection(0.2), MODES)
    assert mode_costs(selection, MODES).tolist() == [0, 1, 1, 1]
    assert allowed_spend(selection, 8) == 2  # floor(1.6 + 0.5)


def test_two_modes_have_no_ladder():
    result = judge(table_of([1.0, -1.0], unit=["a", "b"]), {}, [deepval.Latency(0.5, costs_of(("cheap", "full")))])
    assert result.ladder == ()
    assert all(row.allocator != "oracle-ladder" for row in result.rows)
