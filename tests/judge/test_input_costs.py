"""Costs per input: what rankings, the oracle and chance buy, against slow and obvious
twins over all subsets.
"""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.judge import knapsack, mode_plans, purses
from deepval.judge.allowances import allowance_on
from deepval.judge.exact_plans import integer_budget, integer_input_prices
from deepval.judge.mode_plans import steps
from deepval.judge.pairs import basis
from worlds import judge, quietly, random_losses, random_scores, random_units

FREE = {"allocators": {"mine": {"usd": 0.0, "ms": 0.0}}}


def some_costs(rng: np.random.Generator, inputs: int, modes: int) -> np.ndarray:
    """Whole, in quarters or continuous, at times 0, dearer modes not always dearer; the
    last is dearest on average.
    """
    shape = inputs, modes
    costs = (
        rng.integers(0, 5, shape) / 4,
        rng.integers(1, 4, shape).astype(float),
        rng.exponential(size=shape),
    )
    found = costs[rng.integers(3)]
    found[:, -1] += 1.0 + max(0.0, float(found[:, 0].mean() - found[:, -1].mean()))
    return found


def priced(
    rng: np.random.Generator, *, inputs: int, modes=("cheap", "full"), allocators=None
) -> deepval.ValueTable:
    losses, costs = (
        random_losses(rng, inputs, len(modes)),
        some_costs(rng, inputs, len(modes)),
    )
    return quietly(
        deepval.ValueTable.from_columns,
        unit=random_units(rng, inputs, 3),
        input=rng.permutation(inputs) + 100,
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        input_costs={mode: costs[:, m] for m, mode in enumerate(modes)},
        costs=FREE if allocators is None else {"allocators": allocators},
    )


def walked(score, price, purse):
    """Shares of a ranking, group by group, in exact fractions: down the scores until
    the purse is exceeded.
    """
    share, spent = {}, Fraction(0)
    purse = Fraction(float(purse))
    for value in sorted(set(score.tolist()), reverse=True):
        group = [i for i, s in enumerate(score.tolist()) if s == value]
        cost = sum((Fraction(float(price[i])) for i in group), Fraction(0))
        if spent + cost > purse:
            share |= dict.fromkeys(group, (purse - spent) / cost)
            break
        share |= dict.fromkeys(group, Fraction(1))
        spent += cost
    return np.array([float(share.get(i, 0)) for i in range(len(score))])


def relaxed(values, price, purse):
    """The linear programme: max Σ x V with Σ x price within the purse and 0 <= x <=
    1.
    """
    found = linprog(
        -values,
        A_ub=[price],
        b_ub=[purse],
        bounds=[(0, 1)] * len(values),
        method="highs",
    )
    return -found.fun


@given(st.integers(0, 10**6))
def test_a_ranking_spends_its_purse_exactly(seed):
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 8))
    score, price = (
        random_scores(rng, number),
        some_costs(rng, number, 2)[:, -1] - rng.integers(0, 2) * 0.5,
    )
    purse = float(rng.choice([0.0, 0.25, 0.5, 1.0])) * float(np.maximum(price, 0).sum())
    found = purses.shares(score, price, purse)
    np.testing.assert_allclose(found, walked(score, price, purse), atol=1e-12)
    assert found @ price <= purse + 1e-9
    if (price >= 0).all() and price.sum() > purse:
        assert found @ price == pytest.approx(purse)
    sums = purses.purse_sums(
        score,
        [price, np.ones(number)],
        np.zeros(number, int),
        price=price,
        counts=np.ones((1, 1)),
        purse=np.array([[purse]]),
    )
    np.testing.assert_allclose(sums[0, 0], [found @ price, found.sum()], atol=1e-9)


@given(st.integers(0, 10**6))
def test_the_oracle_is_the_linear_programme_and_brackets_all_subsets(seed):
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 8))
    losses, costs = random_losses(rng, number), some_costs(rng, number, 2)
    values = losses[:, 0] - losses[:, 1]
    # cascade; skipping, at times below 0
    for price in (costs[:, 1], costs[:, 1] - costs[:, 0]):
        purse = float(rng.choice([0.0, 0.3, 0.6, 1.0])) * float(costs[:, 1].sum())
        share = purses.best_shares(values, price, purse)
        assert share @ price <= purse + 1e-9
        assert ((share >= -1e-12) & (share <= 1 + 1e-12)).all()
        assert share @ values == pytest.approx(relaxed(values, price, purse), abs=1e-9)
        whole = max(
            float(values[list(some)].sum())
            for size in range(number + 1)
            for some in itertools.combinations(range(number), size)
            if price[list(some)].sum() <= purse + 1e-12
        )
        one = float(np.abs(values).max(initial=0.0))
        assert whole - 1e-9 <= share @ values <= whole + one + 1e-9


def test_chance_escalates_all_alike_which_is_a_mean_over_subsets():
    """Every input with the same probability p: over all subsets the mean spend is the
    purse, the mean gain p Σ V.
    """
    values, price, purse = (
        np.array([3.0, -1.0, 2.0, 0.5]),
        np.array([1.0, 3.0, 2.0, 2.0]),
        3.0,
    )
    p = purse / price.sum()
    spent = gain = 0.0
    for taken in itertools.product([0, 1], repeat=4):
        chosen = np.array(taken)
        weight = np.prod(np.where(chosen, p, 1 - p))
        spent, gain = (
            spent + weight * (chosen @ price),
            gain + weight * (chosen @ values),
        )
    assert spent == pytest.approx(purse)
    assert gain == pytest.approx(p * values.sum())
    # a score that knows nothing
    assert purses.shares(np.zeros(4), price, purse) == pytest.approx(np.full(4, p))
    # A purse that pays for all inputs pays for them once.
    assert purses.shares(np.zeros(1), np.array([2.0]), 3.0).tolist() == [1.0]


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


@given(st.integers(0, 10**6))
def test_every_draw_is_judged_with_the_costs_of_its_own_inputs(seed):
    rng = np.random.default_rng(seed)
    allocators = {"mine": {"usd": float(rng.choice([0.0, 0.1]))}}
    table = priced(rng, inputs=int(rng.integers(2, 8)), allocators=allocators)
    score, alpha = random_scores(rng, len(table)), float(rng.choice([0.2, 0.5, 1.0]))
    accounting = ("cascade", "skipping")[rng.integers(2)]
    result = judge(
        table,
        {"mine": score},
        [deepval.Money(alpha, accounting=accounting)],
        draws=4,
        seed=3,
    )
    held = {item.row.allocator: item.gains for item in basis(result).judged}
    values, costs = table.decision_values, table.input_costs["usd"]
    price = costs[:, 1] - (costs[:, 0] if accounting == "skipping" else 0.0)
    for index, rows in enumerate(draws_of(table, 4, 3)):
        purse = alpha * costs[rows, 1].sum()
        of_draw = values[rows], price[rows]
        best = held["oracle"].gain[index]
        assert best == pytest.approx(relaxed(*of_draw, purse), abs=1e-9)
        total = price[rows].sum()
        chance = min(1.0, purse / total) if total > 0 else 1.0
        assert held["random"].gain[index] == pytest.approx(
            chance * values[rows].sum(), abs=1e-9
        )
        left = max(0.0, purse - allocators["mine"]["usd"] * len(rows))
        mine = held["mine"]
        if mine is None:
            assert allocators["mine"]["usd"] > alpha * costs[:, 1].mean()
            continue
        share = walked(score[rows], price[rows], left)
        assert mine.gain[index] == pytest.approx(share @ values[rows], abs=1e-9)
        assert mine.benefit[index] == pytest.approx(
            share @ np.maximum(values[rows], 0), abs=1e-9
        )
        assert mine.escalated[index] == pytest.approx(share.sum(), abs=1e-9)
        assert mine.gain[index] <= best + 1e-9


def test_equal_costs_per_input_are_costs_per_mode_where_slots_are_whole():
    rng = np.random.default_rng(5)
    losses = rng.exponential(size=(40, 3))
    units = np.repeat(["a", "b", "c", "d"], 10)
    figures = {"s": 0.01, "m": 0.02, "l": 0.05}
    named = {m: losses[:, i] for i, m in enumerate(figures)}
    allocators = {"allocators": {"mine": {"usd": 0.005}}}
    per_mode = deepval.ValueTable.from_columns(
        unit=units,
        losses=named,
        costs={"modes": {m: {"usd": c} for m, c in figures.items()}} | allocators,
    )
    each = {m: np.full(40, c) for m, c in figures.items()}
    per_input = deepval.ValueTable.from_columns(
        unit=units, losses=named, costs=allocators, input_costs=each
    )
    score = rng.normal(size=40)
    for accounting in ("cascade", "skipping"):
        # (0.5 - 0.1) * 40 = 16 slots; skipping 20
        budget = deepval.Money(0.5, accounting=accounting)
        one, other = (
            judge(t, {"mine": score}, [budget], draws=0) for t in (per_mode, per_input)
        )
        for name in ("mine", "all-full") if accounting == "cascade" else ("mine",):
            first, second = one.row(name), other.row(name)
            assert first.gain == pytest.approx(second.gain)
            assert first.escalated == pytest.approx(second.escalated)
            assert first.reason == second.reason
            assert second.slots is None
        assert one.row("random").gain == pytest.approx(other.row("random").gain)
        assert one.row("oracle").gain == pytest.approx(other.row("oracle").gain)
        if accounting == "cascade":
            assert one.gaps[0].overhead == pytest.approx(other.gaps[0].overhead)
            assert one.row("random-ladder").gain == pytest.approx(
                other.row("random-ladder").gain
            )
            (shared,), (own,) = one.ladder, other.ladder
            assert shared.value == pytest.approx(own.value)
            assert own.full_only == pytest.approx(shared.full_only)
            assert own.spent[0].allowed == pytest.approx(shared.spent[0].allowed)


@given(st.integers(0, 10**6))
def test_plans_of_whole_inputs_are_the_best_of_all_and_proven(seed):
    rng = np.random.default_rng(seed)
    inputs, modes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    values = np.round(
        rng.normal(size=(inputs, modes)) * (10 if rng.random() < 0.5 else 1),
        int(rng.integers(0, 3)),
    )
    values[:, 0] = 0.0
    costs = rng.integers(0, 7, (inputs, modes))
    costs[:, 0] = 0
    budget = int(rng.integers(0, 3 * inputs + 1))
    plan = knapsack.solve(values, costs, budget)
    rows = np.arange(inputs)
    best = max(
        float(values[rows, list(chosen)].sum())
        for chosen in itertools.product(range(modes), repeat=inputs)
        if costs[rows, list(chosen)].sum() <= budget
    )
    assert plan.value == pytest.approx(best, abs=1e-9)
    assert costs[rows, plan.modes].sum() == plan.spent <= budget
    proof = mode_plans.check(plan, values, costs)
    assert proof.optimal
    assert plan.bound >= best - 1e-9


def test_plans_of_many_inputs_are_proven():
    rng = np.random.default_rng(2)
    values = np.column_stack([np.zeros(3000), rng.normal(0.5, 1, (3000, 2))])
    costs = np.column_stack(
        [np.zeros(3000, int), rng.integers(10_000, 90_000, (3000, 2))]
    )
    plan = knapsack.solve(values, costs, int(costs[:, 2].sum() // 5))
    assert mode_plans.check(plan, values, costs).optimal
    assert plan.gap < 1e-3 * plan.value


@given(st.integers(0, 10**6))
def test_steps_are_the_linear_programme_over_modes(seed):
    rng = np.random.default_rng(seed)
    inputs, modes = int(rng.integers(1, 5)), 3
    values = rng.integers(-2, 5, (inputs, modes)).astype(float)
    values[:, 0] = 0.0
    costs = rng.integers(0, 4, (inputs, modes)).astype(float)
    costs[:, 0] = 0.0
    purse = float(rng.integers(0, 8))
    found = steps(values, costs)
    begun = values[np.arange(inputs), found.start].sum()
    gain = purses.purse_sums(
        found.slope,
        [found.slope * found.cost],
        np.zeros(len(found.input), int),
        price=found.cost,
        counts=np.ones((1, 1)),
        purse=np.array([[purse]]),
    )
    one_mode = np.zeros((inputs, inputs * modes))
    for i in range(inputs):
        one_mode[i, i * modes : (i + 1) * modes] = 1.0
    best = linprog(
        -values.ravel(),
        A_ub=[costs.ravel()],
        b_ub=[purse],
        A_eq=one_mode,
        b_eq=np.ones(inputs),
        method="highs",
    )
    assert begun + gain[0, 0, 0] == pytest.approx(-best.fun, abs=1e-9)


def test_three_modes_with_their_own_costs():
    rng = np.random.default_rng(11)
    table = priced(rng, inputs=9, modes=("s", "m", "l"))
    estimates = np.column_stack([table.mode_values[:, 1], table.mode_values[:, 2]])
    result = judge(table, {"mine": estimates}, [deepval.Money(0.3)], draws=5)
    rows = {
        name: result.row(name)
        for name in ("mine", "oracle-ladder", "random-ladder", "oracle", "random")
    }
    # estimates that are the values
    assert rows["mine"].gain == pytest.approx(rows["oracle-ladder"].gain)
    assert rows["mine"].ndg == pytest.approx(1.0)
    assert (
        rows["oracle-ladder"].gain
        >= max(rows["oracle"].gain, rows["random-ladder"].gain) - 1e-12
    )
    assert rows["random-ladder"].gain >= rows["random"].gain - 1e-12
    (best,) = result.ladder
    assert best.value <= rows["oracle-ladder"].gain + 1e-9
    assert best.lp_bound == pytest.approx(rows["oracle-ladder"].gain, rel=1e-6)
    assert best.gap <= best.lp_bound - best.value + 1e-9


def test_the_budget_of_whole_plans_is_that_of_the_purse():
    table = priced(np.random.default_rng(4), inputs=7)
    allowed = allowance_on(deepval.Money(0.3), table)
    costs = integer_input_prices(allowed, table)
    assert costs[:, 0].tolist() == [0] * 7
    assert integer_budget(allowed, 7) == pytest.approx(
        1e9 * 0.3 * table.input_costs["usd"][:, 1].sum(), abs=1
    )


def test_a_full_table_is_judged_and_shown():
    rng = np.random.default_rng(9)
    table = priced(
        rng, inputs=30, allocators={"mine": {"usd": 0.01}, "dear": {"usd": 50.0}}
    )
    scores = {
        "mine": table.decision_values + rng.normal(size=30),
        "dear": rng.normal(size=30),
    }
    result = judge(
        table, scores, [deepval.Money(0.3), deepval.Selection(0.3)], draws=30
    )
    assert result.row("dear", "money").verdict == "infeasible"
    mine = result.row("mine", "money")
    assert mine.slots is None
    assert 0 < mine.escalated < 30
    assert mine.cost == 0.01
    cut = result.threshold("mine", 0.3, kind="money")
    above, tied = scores["mine"] > cut.threshold, scores["mine"] == cut.threshold
    price = table.input_costs["usd"][:, 1]
    spent = price[above].sum() + cut.tie_acceptance * price[tied].sum()
    assert spent == pytest.approx(0.3 * price.sum() - 0.01 * 30)  # what the purse holds
    gap = next(
        gap for gap in result.gaps if gap.allocator == "mine" and gap.kind == "money"
    )
    assert gap.gap == pytest.approx(gap.overhead + gap.ranking)
    assert gap.overhead >= 0
    assert gap.gap == pytest.approx(gap.missed + gap.selected_harm - gap.left_out)
    assert result.provenance.costs["modes"]["full"]["usd"] == pytest.approx(
        table.input_costs["usd"][:, 1].mean()
    )
    by_unit = {unit.unit: unit.gains["mine"] for unit in result.units}
    assert sum(by_unit.values()) == pytest.approx(result.row("mine", "selection").gain)
    only = judge(table, {"mine": scores["mine"]}, [deepval.Money(0.3)], draws=5)
    assert sum(unit.gains["mine"] for unit in only.units) == pytest.approx(mine.gain)
    assert sum(unit.oracle_gain for unit in only.units) == pytest.approx(
        mine.oracle_gain
    )
    (best,) = only.ladder
    assert (
        best.value
        <= mine.oracle_gain + 1e-9
        <= best.value + np.abs(table.decision_values).max() + 1e-9
    )
    assert "money 30% (USD)" in str(
        deepval.compare(result, "mine", "random")[0].budget.label
    )


@given(st.integers(0, 10**6))
def test_break_even_is_where_the_purse_still_reaches_chance(seed):
    rng = np.random.default_rng(seed)
    table = priced(rng, inputs=int(rng.integers(2, 7)))
    score = random_scores(rng, len(table))
    accounting = ("cascade", "skipping")[rng.integers(2)]
    result = judge(
        table, {"mine": score}, [deepval.Money(0.5, accounting=accounting)], draws=0
    )
    (gap,) = result.gaps
    costs, values = table.input_costs["usd"], table.decision_values
    price = costs[:, 1] - (costs[:, 0] if accounting == "skipping" else 0.0)
    purse, chance = 0.5 * costs[:, 1].sum(), result.row("random").gain
    for cost in np.linspace(0, purse / len(table), 23):
        gain = walked(score, price, purse - cost * len(table)) @ values
        margin = gain - chance
        inside = any(low <= cost <= high for low, high in gap.break_even_set)
        # the gain may jump there
        edge = any(
            abs(cost - end) <= 1e-9 for span in gap.break_even_set for end in span
        )
        if abs(margin) > 1e-7 and not edge:
            assert inside == (margin > 0), (cost, margin, gap.break_even_set)
    if gap.break_even_set:
        assert gap.break_even == gap.break_even_set[-1][1]


def test_files_hold_costs_per_input(tmp_path):
    path = tmp_path / "values.csv"
    path.write_text(
        "unit,input,loss_small,loss_large,cost_small,cost_large,ms_small,ms_large,cost_other\n"
        "a,1,1,0,0.001,0.02,10,90,7\na,2,0,0,0.001,0.04,11,100,7\nb,3,1,1,0.001,0.03,9,70,7\n"
    )
    table = deepval.read_values(path)
    assert table.input_costs["usd"].tolist() == [
        [0.001, 0.02],
        [0.001, 0.04],
        [0.001, 0.03],
    ]
    assert table.input_costs["ms"][:, 1].tolist() == [90, 100, 70]
    # of no mode, so it is a column like any other
    assert list(table.attributes) == ["cost_other"]
    swapped = table.with_modes(["large", "small"])
    assert swapped.input_costs["usd"][:, 0].tolist() == [0.02, 0.04, 0.03]
    kept = table.restrict(["b"])
    assert kept.input_costs["ms"].tolist() == [[9, 70]]
    plain = deepval.read_values(
        {
            n: c
            for n, c in zip(
                ("unit", "input", "loss_small", "loss_large"),
                (["a", "a", "b"], [1, 2, 3], [1, 0, 1], [0, 0, 1]),
                strict=True,
            )
        }
    )
    assert plain.digest != table.digest


HEAD, ROWS = "unit,input,loss_s,loss_l", ("a,1,1,0", "b,2,0,0")
WRONG = {
    "one mode": (",cost_s", (",1", ",1"), "'l'"),
    "negative": (",cost_s,cost_l", (",1,2", ",1,-2"), "'cost_l'"),
    "too large": (",cost_s,cost_l", (",1,2", ",1,1e300"), "'cost_l'"),
    "no number": (",cost_s,cost_l", (",1,2", ",1,x"), "column 'cost_l'"),
    "missing": (",usd_s,usd_l", (",1,2", ",1,"), "column 'usd_l'"),
    "wrong way": (",cost_s,cost_l", (",5,2", ",5,3"), "the full mode"),
    "twice": (",cost_s,cost_l,usd_s,usd_l", (",1,2,1,2", ",1,3,1,2"), "'cost'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_costs_that_cannot_be_are_refused(tmp_path, case):
    head, ends, told = WRONG[case]
    path = tmp_path / "values.csv"
    path.write_text(
        "\n".join(
            [HEAD + head, *(row + end for row, end in zip(ROWS, ends, strict=True))]
        )
        + "\n"
    )
    with pytest.raises(InputError) as caught:
        quietly(deepval.read_values, path)
    assert told in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_python_costs_that_cannot_be_are_refused():
    losses = {"s": [1.0, 0.0], "l": [0.0, 0.0]}
    for wrong, told in (
        ([1, 2], "costs per input"),
        ({}, "costs per input"),
        ({"eur": {"s": [1, 1], "l": [2, 2]}}, "'eur'"),
        ({"s": [1, 1]}, "'l'"),
    ):
        with pytest.raises(InputError, match=told):
            quietly(
                deepval.ValueTable.from_columns,
                unit=["a", "b"],
                losses=losses,
                input_costs=wrong,
            )


def test_an_allocator_without_a_price_is_charged_nothing_and_a_note_says_so():
    table = priced(np.random.default_rng(0), inputs=5)
    bare = quietly(
        deepval.ValueTable.from_columns,
        unit=table.unit,
        input=table.input,
        losses=dict(zip(table.modes, table.losses.T, strict=True)),
        input_costs=dict(zip(table.modes, table.input_costs["usd"].T, strict=True)),
    )
    score, budget = np.arange(5.0), [deepval.Money(0.2)]
    note = "No cost of {} is stated: 0 is charged"
    free = judge(table, {"mine": score}, budget)
    assert not [text for text in free.warnings if "is stated" in text]
    for of, name in ((table, "other"), (bare, "mine")):
        found = judge(of, {name: score}, budget)
        (told,) = [text for text in found.warnings if "is stated" in text]
        assert told.startswith(note.format(name))
        own = [dict(row) | {"allocator": "mine"} for row in (found[name], free["mine"])]
        assert own[0] == own[1]
    both = judge(table, {"mine": score, "other": score}, budget).warnings
    (told,) = [text for text in both if "is stated" in text]
    assert told.startswith(note.format("other"))
    with pytest.raises(InputError, match=r"A latency budget needs costs"):
        judge(bare, {"mine": score}, [deepval.Latency(0.2)])


def test_an_allocator_without_a_price_in_a_file_with_modes_is_an_error():
    """There is a file of costs, in which that of the allocator was forgotten."""
    table = priced(np.random.default_rng(0), inputs=5)
    costs = {"modes": {mode: {"usd": 1.0 + m} for m, mode in enumerate(table.modes)}}
    with pytest.raises(InputError, match="'usd'"):
        judge(table, {"mine": np.arange(5.0)}, [deepval.Money(0.2, costs)])


def test_streams_say_that_they_keep_rates():
    rng = np.random.default_rng(1)
    losses, costs = rng.exponential(size=(40, 2)), some_costs(rng, 40, 2)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(list("abcd"), 10),
        order=np.tile(np.arange(10), 4),
        costs=FREE,
        losses={"s": losses[:, 0], "l": losses[:, 1]},
        input_costs={"s": costs[:, 0], "l": costs[:, 1]},
    )
    score = {"mine": rng.normal(size=40)}
    result = judge(
        table,
        score,
        [deepval.Money(0.3), deepval.Selection(0.3)],
        calibration=["a"],
        draws=10,
    )
    told = [row for row in result.streams if row.kind == "money"]
    assert [row.verdict for row in told] == [None]
    assert "each input has its own cost" in told[0].reason
    assert len([row for row in result.streams if row.kind == "selection"]) == 4


def test_slices_have_the_budget_of_their_own_inputs():
    rng = np.random.default_rng(6)
    table = priced(rng, inputs=12)
    kind = np.array(["x", "y"] * 6)
    table = quietly(
        deepval.ValueTable.from_columns,
        unit=table.unit,
        attributes={"kind": kind},
        costs=FREE,
        losses=dict(zip(table.modes, table.losses.T, strict=True)),
        input_costs=dict(zip(table.modes, table.input_costs["usd"].T, strict=True)),
    )
    score = rng.normal(size=12)
    result = judge(table, {"mine": score}, [deepval.Money(0.4)], by="kind", draws=0)
    for name in ("x", "y"):
        rows = kind == name
        costs, values = table.input_costs["usd"][rows, 1], table.decision_values[rows]
        found = next(
            row
            for row in result.slices
            if row.slice == f"kind={name}" and row.allocator == "mine"
        )
        assert found.gain == pytest.approx(
            walked(score[rows], costs, 0.4 * costs.sum()) @ values
        )


@pytest.mark.parametrize(
    ("prefix", "kind", "budget"),
    [
        ("cost", "money", deepval.Money),
        ("usd", "money", deepval.Money),
        ("ms", "latency", deepval.Latency),
        ("mj", "energy", deepval.Energy),
    ],
)
def test_costs_in_the_table_need_no_costs_file(tmp_path, prefix, kind, budget):
    rng = np.random.default_rng(1)
    losses = rng.integers(0, 2, size=(60, 2))
    spends = rng.uniform([1, 4], [2, 9], size=(60, 2))
    head = f"unit,input,loss_s,loss_l,{prefix}_s,{prefix}_l\n"
    rows = [
        f"u{i // 6},{i},{a},{b},{c},{d}\n"
        for i, ((a, b), (c, d)) in enumerate(zip(losses, spends, strict=True))
    ]
    path = tmp_path / "values.csv"
    path.write_text(head + "".join(rows))
    scores = tmp_path / "mine.csv"
    scores.write_text("input,score\n" + "".join(f"{i},{-i}\n" for i in range(60)))

    words = ("evaluate", path, "-s", scores, "--json", "--alpha", 0.5)
    with pytest.warns(deepval.InputWarning, match="0 is charged for choosing"):
        printed = call(*words)
    shown = [row for row in json.loads(printed)["rows"] if row["kind"] == kind]
    own = next(row for row in shown if row["allocator"] == "mine")

    accounting = "skipping" if kind == "money" else "cascade"
    half = budget(0.5, accounting=accounting)
    row = quietly(deepval.evaluate, path, {"mine": scores}, half)["mine"]
    assert own["gain"] == row.gain
    # Scores fall with the rows: the first ones are bought until the money is spent.
    extra = spends[:, 1] - (spends[:, 0] if kind == "money" else 0)
    values = (losses[:, 0] - losses[:, 1]).astype(float)
    assert row.gain == pytest.approx(
        walked(-np.arange(60), extra, 0.5 * spends[:, 1].sum()) @ values
    )


def test_the_kinds_that_columns_of_costs_allow(tmp_path):
    from deepval.judge.cases import read_evaluation_data

    path = tmp_path / "values.csv"
    path.write_text(
        "unit,input,loss_s,loss_l,cost_s,cost_l\na,1,1,0,1,2\na,2,0,0,1,4\nb,3,1,1,1,2\n"
    )
    scores = tmp_path / "mine.csv"
    scores.write_text("input,score\n1,1\n2,2\n3,3\n")
    case = read_evaluation_data(path)
    assert case.kinds(case.scores({"mine": scores})) == ["money"]
    timed = tmp_path / "timed.csv"
    timed.write_text(path.read_text().replace("cost_", "ms_"))
    case = read_evaluation_data(timed)
    assert case.kinds(case.scores({"mine": scores})) == ["selection", "latency"]
    costs = tmp_path / "costs.toml"
    costs.write_text("[allocators.mine]\nusd = 0.0\n")
    case = read_evaluation_data(path, costs=costs)
    assert case.kinds(case.scores({"mine": scores})) == ["selection", "money"]
