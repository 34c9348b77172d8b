"""Money as a measured cost: the same arithmetic as of milliseconds, in dollars, by name
everywhere.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

import deepval
from deepval.basics.errors import InputError
from deepval.judge.allowances import allowance, conventions, measured
from deepval.judge.exact_plans import integer_budget, integer_prices
from deepval.judge.report import console
from deepval.judge.report.forms import FORMS
from deepval.judge.report.html import render as page
from deepval.judge.report.text_tables import cost
from deepval.judge.results import KINDS, MEASURED, UNITS, BudgetKey
from deepval.judge.tables.costs import CONVENTIONS
from worlds import COSTS, judge, random_table

FEW = {"small": 0.00004, "large": 0.0031}
"""Dollars per call, as those of language models are."""


def priced(**allocators: float) -> dict:
    modes = {name: {"usd": usd, "ms": 1e5 * usd} for name, usd in FEW.items()}
    return {
        "modes": modes,
        "allocators": {
            n: {"usd": usd, "ms": 1e5 * usd} for n, usd in allocators.items()
        },
    }


def asked(
    rng: np.random.Generator, inputs: int = 60, modes=("small", "large")
) -> deepval.ValueTable:
    return random_table(rng, inputs=inputs, units=5, modes=modes)


def test_a_money_budget_is_a_latency_budget_in_another_unit():
    rng = np.random.default_rng(3)
    table, costs = asked(rng), priced(judge=0.0002, lexical=0.0)
    scores = {name: rng.normal(size=len(table)) for name in ("judge", "lexical")}
    for accounting in ("cascade", "skipping"):
        kinds = deepval.Latency, deepval.Money
        budgets = [kind(a, costs, accounting) for kind in kinds for a in (0.1, 0.3)]
        result = judge(table, scores, budgets, draws=50)
        for name in ("judge", "lexical", "random", "oracle", "all-full"):
            for alpha in (0.1, 0.3):
                one, other = (
                    result.row(name, kind(alpha).kind, alpha) for kind in kinds
                )
                cost_ms, cost_usd = one.cost, other.cost
                assert cost_ms is None or cost_ms == pytest.approx(1e5 * cost_usd)
                spent_ms, spent_usd = one.spend, other.spend
                assert spent_ms is None or spent_ms == pytest.approx(1e5 * spent_usd)
                # Shares of prices in two units differ by a rounding.
                for bound in ("lead", "lead_lo", "lead_hi"):
                    exact = pytest.approx(other[bound], abs=1e-12)
                    assert one[bound] == (None if other[bound] is None else exact)
                told = {
                    "lead": other.lead,
                    "kind": "money",
                    "convention": "usd",
                    "cost": other.cost,
                    "spend": other.spend,
                    "reason": other.reason,
                }
                assert replace(one, **told) == other


def test_money_pays_for_the_judge_before_it_escalates():
    # 0.2 of 0.0031 leaves 0.00062 per call; the judge takes 0.0002 of it, and
    # 0.00042/0.0031 = 13.5 % can be asked.
    allowed = allowance(deepval.Money(0.2, priced(judge=0.0002)), ("small", "large"))
    assert allowed.share(allowed.cost_of("judge")) == pytest.approx(
        0.2 - 0.0002 / 0.0031
    )
    assert int(allowed.slots(1000, 0.0002)) == 135
    assert not allowed.feasible(0.00063)
    row = judge(
        asked(np.random.default_rng(1)),
        {"judge": np.arange(60.0)},
        [deepval.Money(0.05, priced(judge=0.001))],
    )
    assert row.row("judge").verdict == "infeasible"
    assert (
        row.row("judge").reason
        == "infeasible: costs 0.001 usd per input, the budget leaves 0.000155"
    )


def test_the_knapsack_counts_nanodollars():
    costs = {"modes": {"s": {"usd": 2e-7}, "m": {"usd": 1.4e-6}, "l": {"usd": 3.1e-3}}}
    allowed = allowance(deepval.Money(0.2, costs), ("s", "m", "l"))
    assert integer_prices(allowed, ("s", "m", "l")).tolist() == [0, 1400, 3_100_000]
    # the last digits of 0.2 * 0.0031 cost nothing
    assert integer_budget(allowed, 10**6) == 620_000 * 10**6
    assert integer_budget(allowed, 7, 1e-4) == 7 * 520_000
    unpayable = {
        "modes": {"s": {"usd": 0.0}, "m": {"usd": 1e-12}, "l": {"usd": 3.1e-3}}
    }
    with pytest.raises(
        InputError, match=r"'m' has usd = 1e-12, less than can be counted"
    ):
        integer_prices(
            allowance(deepval.Money(0.2, unpayable), ("s", "m", "l")), ("s", "m", "l")
        )


def test_three_models_under_money_equal_three_modes_under_latency():
    rng = np.random.default_rng(8)
    modes = ("s", "m", "l")
    each = {"s": 0.5, "m": 2.0, "l": 8.0}
    costs = {
        "modes": {m: {"ms": c, "usd": c / 1000} for m, c in each.items()},
        "allocators": {"mine": {"ms": 0.25, "usd": 0.00025}},
    }
    table = asked(rng, 20, modes)
    result = judge(
        table,
        {"mine": rng.normal(size=(20, 2))},
        [k(0.3, costs) for k in (deepval.Latency, deepval.Money)],
        draws=10,
    )
    for name in ("mine", "oracle-ladder", "random-ladder"):
        one, other = (result.row(name, kind) for kind in ("latency", "money"))
        assert (one.gain, one.ndg, one.verdict) == (
            other.gain,
            other.ndg,
            other.verdict,
        )
    assert [entry.convention for entry in result.ladder] == ["ms", "usd"]
    assert {item["convention"] for item in result.ladder[1].spent} == {"ms", "usd"}


def test_every_kind_is_named_and_built():
    assert (*MEASURED,) == tuple(conventions()) == KINDS[1:]
    assert set(UNITS) == set(CONVENTIONS)
    for kind, unit in conventions("mj_gpu").items():
        made = measured(kind, 0.3, accounting="skipping", rails="mj_gpu")
        assert (made.kind, made.convention, made.accounting, made.alpha) == (
            kind,
            unit,
            "skipping",
            0.3,
        )
    assert (
        BudgetKey("money", 0.2, "usd", "skipping").label == "money 20% (USD, skipping)"
    )
    with pytest.raises(
        InputError, match=r"A money budget needs costs; none were given"
    ):
        allowance(deepval.Money(0.2), ("small", "large"))


def test_dollars_are_small_and_are_still_read():
    assert cost(0.00042, "usd") == "0.00042"
    assert cost(0.00042, "ms") == "0.00"
    assert cost(None, "usd") == "–"
    rng = np.random.default_rng(3)
    table, costs = asked(rng), priced(judge=0.0002)
    scores = {"judge": table.decision_values + 0.1 * rng.normal(size=len(table))}
    result = judge(table, scores, [deepval.Selection(0.3), deepval.Money(0.3, costs)])
    text = console.render(result, width=200)
    assert "money 30% (USD)" in text
    found = result.gaps[-1].break_even
    assert found > 0.0002
    assert re.search(rf"\b{found:.3g} USD", text)
    for form in FORMS.values():
        assert "money" in form(result)
    assert 'usd: "USD"' in page({"cell": result})


def test_costs_without_dollars_say_so():
    table = random_table(np.random.default_rng(0), inputs=6, units=2)
    with pytest.raises(
        InputError, match=r"a measured budget needs 'usd' of mode 'cheap'"
    ):
        judge(table, {"light": np.arange(6.0)}, [deepval.Money(0.2, COSTS)])
