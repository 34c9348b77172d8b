"""Three and four modes: the optimum of every draw and plans of per-mode scores against
all assignments of modes.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import deepval
from deepval.judge import knapsack
from deepval.judge.allowances import allowance
from deepval.judge.exact_plans import integer_budget, integer_prices
from deepval.judge.pairs import basis, compare
from deepval.judge.pooled import pool
from deepval.judge.report.forms import FORMS
from deepval.judge.report.tables import result_tables
from reference.knapsack import relaxed
from whole_sets import standings
from worlds import judge, random_table, table_of

MODES = ("cheap", "middle", "high", "full")
COSTS = {
    "modes": {
        "cheap": {"ms": 2.0, "mj": 5.0},
        "middle": {"ms": 3.0, "mj": 6.0},
        "high": {"ms": 4.5, "mj": 14.0},
        "full": {"ms": 6.0, "mj": 20.0},
    },
    "allocators": {
        "mine": {"ms": 0.4, "mj": 1.0},
        "dear": {"ms": 5.0, "mj": 19.0},
        "plain": {"ms": 0.4, "mj": 1.0},
    },
}


def costs_of(modes) -> dict:
    return {
        "modes": {m: COSTS["modes"][m] for m in modes},
        "allocators": COSTS["allocators"],
    }


def best_plan(wanted, costs, spend):
    """The assignment of modes of greatest total within the spend, every one tried."""
    best, plan = Fraction(0), (0,) * len(wanted)
    for modes in itertools.product(range(len(costs)), repeat=len(wanted)):
        if sum(costs[m] for m in modes) <= spend:
            total = sum(
                Fraction(float(row[m])) for row, m in zip(wanted, modes, strict=True)
            )
            if total > best:
                best, plan = total, modes
    return float(best), plan


def draws_of(table, draws, seed):
    """Rows of each drawn sample, the table's own first."""
    units = len(table.unit_ids)
    picks = np.random.Generator(np.random.PCG64(seed)).integers(
        0, units, (draws, units)
    )
    yield list(range(len(table)))
    for pick in picks:
        yield [
            i for u in pick.tolist() for i in range(len(table)) if table.unit[i] == u
        ]


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
    budget = (
        deepval.Selection(alpha),
        deepval.Latency(alpha, costs),
        deepval.Energy(alpha, costs),
    )[rng.integers(3)]
    return table, budget


def samples(result, name):
    (judged,) = (item for item in basis(result).judged if item.row.allocator == name)
    return judged.gains


def test_the_optimum_of_every_draw():
    rng = np.random.default_rng(1)
    above_full_only = 0
    for _ in range(40):
        table, budget = random_case(rng)
        result = judge(table, {}, [budget], draws=4, seed=2)
        found, full_only = samples(result, "oracle-ladder"), samples(result, "oracle")
        for index, rows in enumerate(draws_of(table, 4, 2)):
            costs = integer_costs(budget, table.modes)
            best, _ = best_plan(
                table.mode_values[rows], costs, spend_of(budget, len(rows))
            )
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
        cost = (
            0.0
            if budget.kind == "selection"
            else COSTS["allocators"]["mine"][budget.convention]
        )
        wanted = np.column_stack([np.zeros(len(table)), np.maximum(believed, 0)])
        optimum = samples(result, "oracle-ladder")
        for index, rows in enumerate(draws_of(table, 4, 3)):
            costs = integer_costs(budget, table.modes)
            believed_best, plan = best_plan(
                wanted[rows], costs, spend_of(budget, len(rows), cost)
            )
            got = [table.mode_values[i, m] for i, m in zip(rows, plan, strict=True)]
            # copies of an input may change places, which changes no sum
            twice = len(rows) != len(set(rows))
            assert believed_best >= 0
            assert found.gain[index] == pytest.approx(
                math.fsum(got), rel=1e-9, abs=1e-12
            ), twice
            assert found.benefit[index] == pytest.approx(
                math.fsum(max(v, 0) for v in got), rel=1e-9, abs=1e-12
            )
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
        f"score_{mode}": believed[order, m]
        for m, mode in reversed(list(enumerate(MODES[1:])))
    }
    budgets = [deepval.Latency(0.5, COSTS)]
    few = {"draws": 20}
    assert (
        judge(table, {"mine": named}, budgets, **few).rows
        == judge(table, {"mine": believed}, budgets, **few).rows
    )


def test_a_plain_score_is_full_against_cheap():
    table = random_table(np.random.default_rng(7), inputs=8, units=3, modes=MODES)
    two = table_of(
        table.decision_values, unit=table.unit_ids[table.unit], cheap=table.losses[:, 0]
    )
    score = {"plain": np.arange(8.0)}
    ladder = judge(table, score, [deepval.Latency(0.5, COSTS)]).row(
        "plain", "latency", 0.5
    )
    only_full = judge(
        two, score, [deepval.Latency(0.5, costs_of(("cheap", "full")))]
    ).row("plain", "latency", 0.5)
    for name in (
        "gain",
        "oracle_gain",
        "ndg",
        "ndg_lo",
        "versus_random_lo",
        "versus_random_hi",
    ):
        assert ladder[name] == pytest.approx(only_full[name], abs=1e-12)


def test_an_allocator_that_cannot_pay_for_itself_is_infeasible_under_both_accountings():
    table = random_table(np.random.default_rng(8), inputs=6, units=2, modes=MODES)
    believed = np.ones((6, 3))
    budgets = [deepval.Latency(0.5, COSTS), deepval.Latency(0.5, COSTS, "skipping")]
    result = judge(
        table,
        {"dear": believed, "mine": believed, "plain": np.arange(6.0)},
        budgets,
        draws=5,
    )
    by_name = {(row.allocator, row.accounting): row for row in result.rows}
    for accounting in ("cascade", "skipping"):
        assert by_name["dear", accounting].verdict == "infeasible"  # 5 ms of 0.5*6
        assert "costs 5 ms" in by_name["dear", accounting].reason
        for name in ("mine", "plain", "oracle-ladder"):
            assert by_name[name, accounting].gain is not None
    # Each allocator's gap stands beside its own row.
    gaps = [(gap.allocator, gap.gap is None) for gap in result.gaps]
    assert gaps == [("dear", True), ("mine", True), ("plain", False)] * 2
    with pytest.raises(deepval.InputError, match="infinite"):
        judge(table, {"mine": np.full((6, 3), np.inf)}, [deepval.Selection(0.5)])
    with pytest.raises(deepval.InputError, match="none can be"):
        judge(table, {"mine": np.full((6, 3), -1e308)}, [deepval.Selection(0.5)])


def test_per_mode_scores_of_two_modes_stop_at_zero():
    # Slots for two of four; only one score is above 0, so the other slot stays empty. A
    # plain score would fill it.
    table = table_of([2.0, -1.0, 1.0, 0.0], unit=["a", "a", "b", "b"])
    believed = {"input": np.arange(4), "score_full": np.array([1.0, -0.5, -1.0, -2.0])}
    result = judge(
        table,
        {"mine": believed, "plain": believed["score_full"]},
        [deepval.Selection(0.5)],
        draws=10,
    )
    mine, plain = result.row("mine", alpha=0.5), result.row("plain", alpha=0.5)
    assert (mine.gain, mine.escalated, mine.oracle_gain, mine.ndg) == (
        2,
        1,
        2 + 1,
        pytest.approx(2 / 3),
    )
    assert (plain.gain, plain.escalated) == (2 - 1, 2)


def test_certificates_and_what_a_plan_spends_elsewhere():
    rng = np.random.default_rng(9)
    for _ in range(25):
        table = random_table(rng, inputs=6, units=2, modes=MODES)
        budgets = [
            deepval.Latency(0.3, COSTS),
            deepval.Energy(0.3, COSTS),
            deepval.Selection(0.3),
        ]
        result = judge(table, {}, budgets, draws=0)
        assert [item["convention"] for item in result.ladder] == ["ms", "mj"]
        order = np.argsort([str(i) for i in table.input])
        for item, budget in zip(result.ladder, budgets, strict=False):
            costs, spend = integer_costs(budget, MODES), spend_of(budget, 6)
            best, _ = best_plan(table.mode_values, costs, spend)
            assert item["value"] == pytest.approx(best, abs=1e-12)
            assert 0 <= item["gap"] <= item["lp_bound"] - item["value"] + 1e-12
            # The bound is the relaxed optimum over the modes that the budget can pay
            # for at all.
            if spend >= max(costs):
                most = relaxed(table.mode_values, np.array(costs), spend)
                assert item["lp_bound"] == pytest.approx(
                    max(most, best), rel=1e-9, abs=1e-12
                )
            slots = math.floor(6 * 0.3 + 1e-9)
            full_only = sum(
                sorted(np.maximum(table.decision_values, 0.0), reverse=True)[:slots]
            )
            assert item["full_only"] == pytest.approx(full_only)
            if item["value"] > 0:
                assert item["full_only_share"] == pytest.approx(
                    full_only / item["value"]
                )
            assert sum(item["modes"].values()) == 6
            # The same plan in both conventions; the excess is over the budget of the
            # same alpha there.
            plan = knapsack.solve(
                table.mode_values[order], np.array(costs), spend
            ).modes
            for spent in item["spent"]:
                each = [0.0] + [
                    COSTS["modes"][m][spent["convention"]] for m in MODES[1:]
                ]
                used, limit = sum(each[m] for m in plan), 6 * 0.3 * each[-1]
                assert (spent["spent"], spent["allowed"]) == pytest.approx(
                    (used, limit)
                )
                assert spent["excess"] == pytest.approx(used / limit - 1)
                if spent["convention"] == item["convention"]:
                    assert spent["excess"] <= 1e-9


def test_costs_and_budget_are_whole_microseconds():
    allowed = allowance(deepval.Latency(0.2, COSTS), MODES)
    assert integer_prices(allowed, MODES).tolist() == [0, 3000, 4500, 6000]
    assert integer_budget(allowed, 7) == 8400  # 1000*7*0.2*6
    assert integer_budget(allowed, 7, 0.4) == 5600  # 1000*7*(1.2 - 0.4)
    assert integer_budget(allowed, 7, 9.0) == 0
    selection = allowance(deepval.Selection(0.2), MODES)
    assert integer_prices(selection, MODES).tolist() == [0, 1, 1, 1]
    assert integer_budget(selection, 8) == 2  # floor(1.6 + 0.5)


def test_two_modes_have_no_ladder():
    result = judge(
        table_of([1.0, -1.0], unit=["a", "b"]),
        {},
        [deepval.Latency(0.5, costs_of(("cheap", "full")))],
    )
    assert result.ladder == ()
    assert all(row.allocator != "oracle-ladder" for row in result.rows)


def best_mixture(values, costs, spend) -> float:
    """N*sum p_m*mean(V^m) at its best over p >= 0, sum p <= 1 and N*sum p_m*C_m <=
    spend, by a linear programme.
    """
    if not len(values):
        return 0.0
    limits = [np.ones(len(costs) - 1), np.asarray(costs[1:], dtype=float)]
    solved = linprog(
        -values[:, 1:].mean(axis=0),
        A_ub=limits,
        b_ub=[1.0, spend / len(values)],
        bounds=(0, None),
    )
    assert solved.success
    return -len(values) * solved.fun


def test_chance_on_the_ladder_is_the_linear_programme_of_every_draw():
    rng = np.random.default_rng(11)
    mixed = 0
    for _ in range(60):
        table, budget = random_case(rng)
        result = judge(table, {}, [budget], draws=4, seed=5)
        found, full_only = samples(result, "random-ladder"), samples(result, "random")
        costs = integer_costs(budget, table.modes)
        for index, rows in enumerate(draws_of(table, 4, 5)):
            best = best_mixture(
                table.mode_values[rows], costs, spend_of(budget, len(rows))
            )
            assert found.gain[index] == pytest.approx(best, rel=1e-9, abs=1e-9)
            assert 0 <= found.gain[index] <= found.benefit[index] + 1e-12
            assert 0 <= found.escalated[index] <= len(rows)
            mixed += found.gain[index] > max(full_only.gain[index], 0.0) + 1e-12
    assert mixed > 40


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_chance_on_the_ladder_lies_between_random_and_the_relaxed_optimum(seed):
    table, budget = random_case(np.random.default_rng(seed))
    result = judge(table, {}, [budget], draws=3, seed=seed)
    chance = samples(result, "random-ladder").gain
    assert (chance >= np.maximum(samples(result, "random").gain, 0.0) - 1e-9).all()
    if budget.kind == "selection":  # whole slots, so the mixture is a mean of plans
        assert (chance <= samples(result, "oracle-ladder").gain + 1e-9).all()
        return
    # A part of an escalation is no plan: the mixture can pass the optimum over whole
    # ones, never the relaxed one.
    costs = np.array(integer_costs(budget, table.modes))
    assert (
        chance[0]
        <= max(relaxed(table.mode_values, costs, spend_of(budget, len(table))), 0.0)
        + 1e-9
    )


def test_a_mixture_by_hand():
    # Means per input: middle 2 at 3 ms, high 1 at 4.5 ms, full 3 at 6 ms; 0.75*6 = 4.5
    # ms per input to spend.
    cheap = np.full(4, 5.0)
    losses = {
        "cheap": cheap,
        "middle": cheap - [4, 4, 0, 0],
        "high": cheap - 1,
        "full": cheap - [6, 6, 0, 0],
    }
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b"], losses=losses, costs=COSTS
    )
    rows = {
        row.allocator: row
        for row in judge(
            table, {}, [deepval.Latency(0.75), deepval.Selection(0.5)], draws=0
        ).rows[:5]
    }
    chance = rows["random-ladder"]
    # half of the inputs to middle, half to full
    assert chance.gain == pytest.approx(4 * (2 + 3) / 2)
    assert (chance.escalated, chance.slots, chance.verdict) == (4, None, None)
    assert rows["random"].gain == pytest.approx(3 * 3)  # three of four to full
    assert (chance.oracle, chance.chance, chance.versus_random) == (
        "oracle-ladder",
        "random-ladder",
        0.0,
    )
    assert (rows["random"].oracle, rows["random"].chance) == ("oracle", "random")


def noisy_ladder(units: int = 12, each: int = 40):
    """A ladder whose middle mode is nearly as good as full at half its cost, as
    detectors of one family are.
    """
    rng = np.random.default_rng(20)
    cheap = rng.exponential(size=units * each)
    losses = {"cheap": cheap, "middle": cheap * 0.45, "full": cheap * 0.4}
    costs = {
        "modes": {"cheap": {"ms": 2.0}, "middle": {"ms": 3.0}, "full": {"ms": 6.0}},
        "allocators": {"noise": {"ms": 0.0}, "knowing": {"ms": 0.0}},
    }
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(units), each), losses=losses, costs=costs
    )
    return table, cheap


def test_noise_that_asks_for_the_cheapest_mode_is_not_better():
    table, cheap = noisy_ladder()
    for budget in (deepval.Latency(0.2), deepval.Selection(0.2)):
        verdicts = []
        for seed in range(20):
            noise = np.random.default_rng(seed).random(len(table))
            scores = {"noise": np.column_stack([noise, np.full(len(table), -1.0)])}
            result = judge(table, scores, [budget], draws=60, seed=seed)
            verdicts.append(result.row("noise", budget.kind).verdict)
        assert verdicts.count("better") <= 1, verdicts  # the 2.5 % of an interval
    # What knows the values still beats it.
    result = judge(
        table,
        {"knowing": np.column_stack([cheap * 0.55, cheap * 0.6])},
        [deepval.Latency(0.2)],
        draws=60,
    )
    row = result.row("knowing", "latency")
    assert (row.verdict, row.oracle, row.chance) == (
        "better",
        "oracle-ladder",
        "random-ladder",
    )


def test_plain_scores_keep_random_and_every_row_says_what_it_is_measured_by():
    table, cheap = noisy_ladder()
    scores = {"noise": cheap, "knowing": np.column_stack([cheap, cheap])}
    result = judge(
        table,
        scores,
        [deepval.Latency(0.2), deepval.Latency(0.2, accounting="skipping")],
        draws=20,
    )
    named = {
        (row.allocator, row.accounting): (row.oracle, row.chance)
        for row in result.choosers
    }
    full_only, ladder = ("oracle", "random"), ("oracle-ladder", "random-ladder")
    assert [name for name, how in named if how == "cascade"] == [
        "random",
        "random-ladder",
        "never",
        "all-full",
        "noise",
        "knowing",
        "oracle",
        "oracle-ladder",
    ]
    for name in ("random", "never", "all-full", "noise", "oracle"):
        assert named[name, "cascade"] == named[name, "skipping"] == full_only
    for name in ("random-ladder", "knowing", "oracle-ladder"):
        assert named[name, "cascade"] == named[name, "skipping"] == ladder
    own = basis(result)
    judged = {
        item.row.allocator: item
        for item in own.judged
        if item.row.accounting == "cascade"
    }
    for name, chance in (("noise", "random"), ("knowing", "random-ladder")):
        ahead = judged[name].gains.gain - judged[chance].gains.gain
        assert judged[name].ahead_of_chance(own.totals) == pytest.approx(
            ahead / own.totals.cheap_loss, abs=1e-12
        )


def test_where_both_oracles_occur_every_form_names_them():
    table, cheap = noisy_ladder(units=4, each=10)
    scores = {"noise": cheap, "knowing": np.column_stack([cheap, cheap])}
    result = judge(table, scores, [deepval.Latency(0.2)], draws=5)
    shown = next(iter(result_tables(result)))
    place = shown.header.index("oracle")
    column = {
        row[1].text: row[place].text for section in shown.sections for row in section
    }
    ladder = {"random-ladder", "knowing", "oracle-ladder"}
    assert {name for name, oracle in column.items() if oracle == "ladder"} == ladder
    assert {oracle for oracle in column.values()} == {"full", "ladder"}
    for form in ("text", "markdown", "latex", "csv"):
        text = FORMS[form](result)
        assert "random-ladder" in text, form
        assert "oracle-ladder" in text, form


def test_nothing_is_subtracted_from_the_ndg_of_another_oracle():
    table, cheap = noisy_ladder(units=4, each=10)
    scores = {"noise": cheap, "knowing": np.column_stack([cheap, cheap])}
    result = judge(table, scores, [deepval.Latency(0.2)], draws=30)
    (found,) = compare(result, "knowing", "noise")
    assert found.difference is not None
    assert (found.ndg_difference, found.verdict) == (None, "better")
    assert "nDG of oracle-ladder and nDG of oracle have no difference" in found.reason
    # Ranks compare gains, not distances from two kinds of chance.
    placed = {row.allocator: row for row in standings({"c": result})}
    assert (placed["knowing"].rank, placed["noise"].rank) == (1, 2)
    assert (placed["knowing"].chance, placed["noise"].chance) == (
        "random-ladder",
        "random",
    )
    assert placed["random-ladder"].versus_random == 0
    assert {row.allocator: row.oracle for row in pool({"c": result})} == {
        "noise": "oracle",
        "knowing": "oracle-ladder",
    }
