"""Where to escalate from: thresholds and prices against slow and obvious twins, and the
rate to expect of them.
"""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from deepval.basics.errors import InputError
from deepval.judge import knapsack
from deepval.judge.intervals import Interval
from deepval.judge.prices import Price
from deepval.judge.rate_predictions import (
    cuts_without,
    left_out_residuals,
    prediction,
    slots_without,
)
from deepval.judge.report import console
from deepval.judge.results import Result
from deepval.judge.streaming import FrozenThreshold
from reference.knapsack import relaxed
from worlds import judge, random_scores, table_of

UNITS = ["a", "a", "a", "a", "b", "b", "b", "b", "b", "b"]
SCORES = np.array([5, 2, 2, 1, 2, 2, 1, 0, 0, 0], float)


def units_table(**columns):
    return table_of(np.linspace(-1, 2, 10), unit=UNITS, **columns)


def test_a_threshold_by_hand():
    # 0.3 * 10 = 3 of the ten: the 5, and two of the four 2s.
    found = judge(
        units_table(), {"mine": SCORES}, [deepval.Selection(0.3)], draws="exact"
    ).threshold("mine", 0.3)
    assert (found.threshold, found.tie_acceptance, found.tied) == (2.0, 0.5, 4)
    assert (
        found.target_rate,
        found.rate,
        found.calibrated_on,
        found.calibration_inputs,
    ) == (0.3, 0.3, "judged", 10)
    # Without b, 0.3 * 4 = 1.2 of a's 5, 2, 2, 1: the cut is at 2,
    # above all of b but its two 2s, which are accepted at 0.2 / 2. Without a, 0.3 * 6 =
    # 1.8 of b's 2, 2: a's 5 and 0.9 of its two 2s.
    residuals = np.array([1 + 2 * 0.9 - 0.3 * 4, 2 * 0.1 - 0.3 * 6])
    # Student's t with one degree of freedom is tan(0.475 pi); two units predict
    # nothing.
    half = np.tan(0.475 * np.pi) * np.sqrt(2 * 2 / 1 * (residuals**2).sum()) / 10
    assert half > 1
    assert (found.rate_lo, found.rate_hi) == (0.0, 1.0)
    assert (found.policy, found.parameter, found.calibration_rate, found.gain) == (
        "frozen threshold",
        None,
        None,
        None,
    )
    assert [(each.mode, each.rate) for each in found.rates] == [("full", 0.3)]
    assert (found.price, found.target_spend, found.spend, found.reason) == (
        None,
        None,
        None,
        None,
    )


def test_a_prediction_interval_by_hand():
    # Three units of ten with 1, 2 and 3 above the cut: a rate of 0.2; all 27 draws as
    # likely.
    unit = np.repeat(["a", "b", "c"], 10)
    score = np.concatenate([np.arange(10) < number for number in (1, 2, 3)]).astype(
        float
    )
    found = judge(
        table_of(np.ones(30), unit=unit),
        {"s": score},
        [deepval.Selection(0.2)],
        draws="exact",
    ).threshold("s")
    # Without a unit, 0.2 * 20 = 4 of the others: of their 5, 4 or 3 ones 4/5,
    # 4/4 and 3/3, then 1 of 17 zeros.
    residuals = np.array([1 * 4 / 5 - 2, 2 - 2, 3 + 7 / 17 - 2])
    effective = (residuals**2).sum() ** 2 / (residuals**4).sum()
    assert found.effective_units == pytest.approx(effective)
    assert (found.rate_units, 1.9 < effective < 2) == (3, True)
    # Student's t with min(3 - 1, 2 * 1.95 - 1) = 2 degrees of freedom
    half = 4.302652729911275 * np.sqrt(2 * 3 / 2 * (residuals**2).sum()) / 30
    odds, factor = 0.2 / 0.8, np.exp(half / (0.2 * 0.8))
    assert 0.2 - half < 0
    assert found.rate == pytest.approx(0.2)
    assert (found.rate_lo, found.rate_hi) == (
        0.0,
        pytest.approx(odds * factor / (1 + odds * factor)),
    )


def test_units_of_the_same_rate_predict_it():
    nothing = np.zeros(10)
    for rate in (0.2, 0.0):
        alike = prediction(rate, nothing, np.full(10, 5.0))
        assert alike is not None
        assert alike.interval == Interval(rate, rate)
    assert prediction(0.2, np.ones(1), np.ones(1)) is None


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_residuals_are_those_of_the_threshold_without_the_unit(seed):
    rng = np.random.default_rng(seed)
    units = int(rng.integers(2, 6))
    unit = np.r_[np.arange(units), rng.integers(0, units, int(rng.integers(0, 30)))]
    score = random_scores(rng, len(unit))
    rate = float(rng.choice([0.1, 0.25, 0.5, 1.0]))
    inputs = np.bincount(unit).astype(float)
    cuts = cuts_without(
        score,
        unit,
        above=np.zeros(units),
        slots=slots_without(inputs, rate),
        left_out=np.arange(units),
    )
    expected = []
    for own in range(units):
        others = FrozenThreshold.calibrate(score[unit != own], rate)
        accepted = others.expected(score[unit == own]).sum()
        expected.append(accepted - rate * inputs[own])
    assert left_out_residuals(inputs, cuts, rate) == pytest.approx(expected, abs=1e-9)


def test_a_single_unit_with_inputs_has_no_interval():
    table = table_of(np.ones(4), unit=["a"] * 4).with_units(["b"])
    found = judge(
        table, {"s": np.arange(4.0)}, [deepval.Selection(0.5)], thresholds=True
    ).threshold("s")
    assert (found.rate, found.rate_lo, found.effective_units) == (0.5, None, None)


def test_one_unit_that_decides_the_rate_is_named_by_number():
    # Unit 0 has all high scores: without it the threshold is another.
    unit = np.repeat(np.arange(20), 10)
    score = np.where(unit == 0, 10.0, 0.0) + np.tile(np.arange(10), 20) / 1000
    result = judge(table_of(np.ones(200), unit=unit), {"s": score}, thresholds=True)
    found = result.threshold("s")
    assert found.effective_units == pytest.approx(1, abs=0.2)
    assert "About 3 of the 20 units decide it." in console.render(result, width=400)


def test_calibration_units_set_the_threshold_and_the_judged_ones_its_rate():
    table = units_table(order=np.arange(10))
    result = judge(
        table,
        {"mine": SCORES},
        [deepval.Selection(0.5)],
        units=["a"],
        calibration=["b"],
        draws=20,
    )
    found = result.threshold("mine")
    # Of b's 2, 2, 1, 0, 0, 0 half are three: both 2s and the 1. Of a's 5, 2, 2, 1 that
    # is all.
    assert (found.threshold, found.tie_acceptance, found.tied, found.calibrated_on) == (
        1.0,
        1.0,
        1,
        "calibration",
    )
    assert (found.target_rate, found.rate, found.rate_lo, found.reason) == (
        0.5,
        1.0,
        None,
        "a single unit: no interval",
    )
    assert result.provenance.calibration_units == ("b",)


def test_what_a_measured_budget_leaves_is_the_rate():
    costs = {
        "modes": {"cheap": {"ms": 4}, "full": {"ms": 10}},
        "allocators": {"mine": {"ms": 1}, "dear": {"ms": 6}},
    }
    budgets = [deepval.Latency(0.5), deepval.Latency(0.4, accounting="skipping")]
    result = judge(
        units_table(costs=costs), {"mine": SCORES, "dear": SCORES}, budgets, draws=50
    )
    cascade = result.threshold("mine", accounting="cascade")
    assert cascade.target_rate == cascade.rate == pytest.approx(0.5 - 1 / 10)
    assert cascade.target_spend == cascade.spend == pytest.approx(0.4 * 10)
    skipping = result.threshold("mine", accounting="skipping")
    assert skipping.target_rate == pytest.approx((0.4 * 10 - 1) / 6)
    assert skipping.spend == pytest.approx(0.5 * 6)
    dear = result.threshold("dear", accounting="cascade")
    assert (dear.threshold, dear.rate) == (None, None)
    assert "leaves nothing" in dear.reason


def test_thresholds_and_rates_agree_with_the_obvious_twin():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        unit = rng.integers(0, 3, 12)
        score, alpha = (
            random_scores(rng, 12),
            float(rng.choice([0.1, 0.25, 1 / 3, 0.5, 1.0])),
        )
        found = judge(
            table_of(rng.normal(size=12), unit=unit),
            {"s": score},
            [deepval.Selection(alpha)],
            draws=0,
        )
        row = found.threshold("s")
        ordered = sorted(score.tolist(), reverse=True)
        cut = ordered[int(np.ceil(alpha * 12 - 1e-9)) - 1]
        above, tied = sum(s > cut for s in ordered), sum(s == cut for s in ordered)
        assert row.tied == tied
        assert row.threshold == (cut if np.isfinite(cut) else None)
        assert row.tie_acceptance == pytest.approx(
            (alpha * 12 - above) / tied, abs=1e-9
        )
        assert row.rate == pytest.approx(alpha)
        assert (row.rate_lo, row.draws) == (None, 0)
        assert ("the cut is at" in row.reason) == (not np.isfinite(cut))


def best_mixture(scores, costs, spend):
    """The largest expected score of inputs that may mix two modes each, by enumeration:
    what a price must reach.

    An optimum of the linear programme gives every input one mode, but for one input
    that mixes two.
    """
    inputs, modes = len(scores), range(len(costs) + 1)
    worth = [
        [Fraction(0), *(max(Fraction(s), Fraction(0)) for s in row)]
        for row in scores.tolist()
    ]
    price = [Fraction(0), *map(Fraction, costs)]
    best = Fraction(0)
    for plan in itertools.product(modes, repeat=inputs):
        cost, value = (
            sum(price[m] for m in plan),
            sum(worth[i][m] for i, m in enumerate(plan)),
        )
        if cost <= spend:
            best = max(best, value)
            for i, more in itertools.product(range(inputs), modes):
                extra = price[more] - price[plan[i]]
                if extra > 0 and worth[i][more] > worth[i][plan[i]]:
                    part = min(Fraction(1), (spend - cost) / extra)
                    best = max(
                        best, value + part * (worth[i][more] - worth[i][plan[i]])
                    )
    return best


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_a_price_reaches_the_best_mixture_and_spends_what_is_allowed(seed):
    rng = np.random.default_rng(seed)
    inputs, modes = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    scores = rng.integers(-2, 5, (inputs, modes)) / 4
    costs = [float(c) for c in rng.integers(1, 5, modes)]
    spend = float(rng.integers(0, 9)) / 4
    price = Price.calibrate(scores, costs, spend)
    expected = price.expected(scores)
    assert (expected >= 0).all()
    assert (expected.sum(axis=1) <= 1 + 1e-12).all()
    assert (expected @ np.array(costs)).sum() <= inputs * spend + 1e-9
    # what is estimated to be worth nothing is not bought
    assert (expected[np.maximum(scores, 0) == 0] == 0).all()
    reached = (expected * np.maximum(scores, 0)).sum()
    assert reached == pytest.approx(
        float(best_mixture(scores, costs, Fraction(inputs) * Fraction(spend))), abs=1e-9
    )


def test_a_price_is_the_multiplier_of_the_exact_plan():
    rng = np.random.default_rng(3)
    for _ in range(30):
        scores, costs = rng.normal(size=(200, 3)), np.array([0, 2, 5, 9])
        spend = int(rng.integers(50, 500))
        values = np.column_stack([np.zeros(200), np.maximum(scores, 0)])
        plan = knapsack.solve(values, costs, spend)
        price = Price.calibrate(scores, costs[1:].tolist(), spend / 200)
        reached = float((price.expected(scores) * np.maximum(scores, 0)).sum())
        assert reached == pytest.approx(relaxed(values, costs, spend))
        # Where the steps fill the budget to the last unit, the price is that of the
        # last one taken, not of the next.
        assert price.price == pytest.approx(
            plan.multiplier
        ) or price.tie_acceptance == pytest.approx(1.0)
        assert price.price >= plan.multiplier * (1 - 1e-12)
        assert plan.value <= reached + 1e-9


def test_where_every_escalation_costs_the_same_a_price_is_a_threshold_on_the_best_score():  # noqa: E501
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.integers(1, 6, (30, 2)) / 2
        price = Price.calibrate(scores, [1.0, 1.0], 0.3)
        frozen = FrozenThreshold.calibrate(scores.max(axis=1), 0.3)
        assert (price.price, price.tie_acceptance) == (
            frozen.theta,
            pytest.approx(frozen.tie_acceptance),
        )
        assert price.expected(scores).sum(axis=1) == pytest.approx(
            frozen.expected(scores.max(axis=1))
        )


def test_a_price_in_a_result_by_hand():
    # Costs 3 and 6 over cheap: the first two inputs gain 4 for 3 and 2 more for 3, the
    # others nothing.
    costs = {
        "modes": {"s": {"ms": 2}, "m": {"ms": 3}, "l": {"ms": 6}},
        "allocators": {"each": {"ms": 0}},
    }
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b"],
        costs=costs,
        losses={"s": [5.0] * 4, "m": [1, 1, 5, 5], "l": [-1, -1, 5, 5]},
    )
    scores = [[4, 6], [4, 6], [0, 0], [0, 0]]
    budgets = [deepval.Latency(0.375), deepval.Selection(0.25)]
    result = judge(table, {"each": scores}, budgets, draws="exact", thresholds=True)
    found = result.threshold("each", kind="latency")
    # 0.375 * 6 = 2.25 ms an input, 9 in all: 6 go to the two steps of slope 4/3, 3 of 6
    # to those of slope 2/3.
    assert (found.price, found.tie_acceptance, found.tied) == (2 / 3, 0.5, 2)
    assert {each.mode: each.rate for each in found.rates} == {"m": 0.25, "l": 0.25}
    assert (found.rate, found.target_rate, found.target_spend, found.spend) == (
        0.5,
        None,
        2.25,
        2.25,
    )
    # Unit a has all, unit b nothing: two units that differ so predict nothing.
    assert [(each.lo, each.hi) for each in found.rates] == [(0.0, 1.0), (0.0, 1.0)]
    assert found.policy == "price"
    free = result.threshold("each", kind="selection")
    assert (free.price, free.tie_acceptance, free.rate, free.target_rate) == (
        6.0,
        0.5,
        0.25,
        0.25,
    )
    text = console.render(result, width=200)
    assert "price 0.666667 per ms" in text
    assert "price 6 per escalation" in text
    assert "m 25.0%, l 25.0%" in text


def test_a_price_for_one_call_by_hand():
    costs = {
        "modes": {"s": {"ms": 2}, "m": {"ms": 3}, "l": {"ms": 6}},
        "allocators": {"each": {"ms": 0}},
    }
    losses = {"s": [5.0, 4.0, 4.0], "m": [1.0, 4.0, 4.0], "l": [1.0, 3.0, 3.0]}
    table = deepval.ValueTable.from_columns(
        unit=["a", "b", "b"], costs=costs, losses=losses
    )
    budgets = [deepval.Latency(0.5, accounting="skipping")]
    found = judge(
        table, {"each": [[1, 2], [0, 1], [0, 1]]}, budgets, draws=0
    ).threshold("each")
    # On top of s, m costs 1 and l costs 4. Steps: s to m (1 per 1), m to l (1 per 3),
    # twice s to l (1 per 4).
    assert (found.price, found.threshold) == (1 / 4, None)
    assert found.tie_acceptance == pytest.approx((3 * 0.5 * 6 - 1 - 3) / (2 * 4))
    assert (found.spend, found.target_spend) == pytest.approx((0.5 * 6, 0.5 * 6))


def test_thresholds_are_kept_in_json_and_absent_where_nobody_asked(tmp_path):
    budgets = [deepval.Selection(0.3)]
    unasked = judge(units_table(), {"mine": SCORES}, budgets, draws=100)
    assert not unasked.thresholds
    result = judge(units_table(), {"mine": SCORES}, budgets, draws=100, thresholds=True)
    assert unasked.threshold("mine") == result.threshold("mine")
    result.save(tmp_path / "r.json")
    loaded = Result.load(tmp_path / "r.json")
    assert loaded == result
    assert loaded.threshold("mine", 0.3).rates[0].mode == "full"
    text = console.render(loaded, width=200)
    assert "50.0% of 4" in text
    assert "Calibrated on the same units as the rates" in text
    content = json.loads((tmp_path / "r.json").read_text())
    del content["thresholds"]
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="take the result fresh from evaluate"):
        Result.load(tmp_path / "r.json").threshold("mine")


def test_a_threshold_that_is_not_there_lists_what_is():
    result = judge(units_table(), {"mine": SCORES}, draws=0)
    with pytest.raises(InputError, match="no allocator 'rooter'; it has mine"):
        result.threshold("rooter")
    with pytest.raises(InputError, match="found alpha"):
        result.threshold("mine", 0.7)
    assert result.threshold("mine").alpha == 0.2


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Price(-1.0, 0.5, (1.0,)), "at least 0"),
        (lambda: Price(0.0, 1.5, (1.0,)), "\\[0, 1\\]"),
        (lambda: Price(0.0, 0.5, ()), "finite cost"),
        (lambda: Price.calibrate(np.zeros((0, 2)), [1.0, 2.0], 0.1), "at least one"),
        (lambda: Price.calibrate(np.zeros((3, 2)), [1.0], 0.1), "per mode above cheap"),
        (lambda: Price(0.0, 0.5, (1.0,)).bought(np.array([[np.nan]])), "NaN or"),
    ],
)
def test_prices_that_cannot_be_are_refused(make, told):
    with pytest.raises(InputError, match=told):
        make()


def test_a_stream_of_a_price_takes_ties_as_a_frozen_threshold_does():
    price = Price(0.5, 0.4, (2.0, 3.0))
    scores = np.array(
        [[1.0, 1.0], [1.0, 1.4], [2.0, 2.6], [1.0, 1.5], [1.0, 1.0], [-1.0, 0.0]]
    )
    stream = price.start()
    # Slopes 1/2 for m and, in the fourth, 1/2 for l: four ties of which floor(0.4 j)
    # are taken, the third so.
    assert [stream.decide(row) for row in scores.tolist()] == [0, 0, 2, 2, 0, 0]
    assert price.expected(scores).sum(axis=1) == pytest.approx(
        [0.4, 0.4, 1.0, 0.4, 0.4, 0.0]
    )
