"""How far a verdict carries: the second opinion by its formula, the unit it rests on by
judging without that unit.
"""

import json
import math

import numpy as np
import pytest
from scipy import stats

import deepval
from deepval.judge.intervals import second_opinion, student_quantile
from deepval.judge.report import console, forms
from deepval.judge.results import in_words
from worlds import COSTS, judge, quietly, random_scores, table_of

UNITS = ("a", "b", "c", "d")
BUDGETS = [deepval.Selection(0.2), deepval.Selection(0.5), deepval.Latency(0.5, COSTS)]
DECIDED = ("better", "worse")


def world(rng, *, inputs=48, units=UNITS, skill=1.0):
    """Losses whose units differ in size, and two scores that know something of the sign
    of the value.
    """
    unit = np.array(units)[np.arange(inputs) % len(units)]
    size = rng.exponential(size=len(units))[np.arange(inputs) % len(units)]
    values = np.round(size * rng.normal(0.3, 1, inputs) * (rng.random(inputs) < 0.6), 2)
    table = table_of(
        values,
        unit=unit,
        cheap=np.maximum(values, 0) + 0.5,
        order=np.arange(inputs),
        attributes={"late": np.arange(inputs) * 2 // inputs},
    )
    light = skill * np.sign(values) + rng.normal(size=inputs)
    return table, {"light": light, "dear": random_scores(rng, inputs)}


def by_formula(point, samples, weights, units, effective):
    """Point +- t(effective - 1, at least 1) x spread x sqrt(U / (U - 1)), with the
    library of others.
    """
    kept = ~np.isnan(samples)
    weights = (np.ones(len(samples)) if weights is None else weights)[kept]
    mean = np.average(samples[kept], weights=weights)
    spread = math.sqrt(np.average((samples[kept] - mean) ** 2, weights=weights))
    half = (
        stats.t.ppf(0.975, max(1, effective - 1))
        * spread
        * math.sqrt(units / (units - 1))
    )
    return point - half, point + half


def said(low, high):
    return "better" if low > 1e-12 else "worse" if high < -1e-12 else "unresolved"


@pytest.mark.parametrize("degrees", [1, 1.01, 1.4, 2, 2.7, 5, 8, 23, 99, 4321.5])
def test_quantiles_of_students_t(degrees):
    for tail in (0.4, 0.025, 0.01):
        assert student_quantile(tail, degrees) == pytest.approx(
            stats.t.isf(tail, degrees), rel=1e-9
        )
    # Cauchy
    assert student_quantile(0.025, 1) == pytest.approx(math.tan(math.pi * 0.475))
    assert student_quantile(0.025, 2) == pytest.approx(
        0.95 * math.sqrt(2 / (1 - 0.95**2))
    )
    assert student_quantile(0.5, degrees) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 19, 40, 999, 20_000])
def test_far_quantiles_of_students_t(degrees):
    for tail in (1e-3, 1e-4, 1e-7, 1e-15, 1e-40):
        assert student_quantile(tail, degrees) == pytest.approx(
            stats.t.isf(tail, degrees), rel=1e-9
        )
    assert student_quantile(1e-300, 1) == pytest.approx(1e300 / math.pi)  # Cauchy
    assert student_quantile(0.0, degrees) == math.inf


def test_fewer_effective_units_say_less():
    opinions = [
        second_opinion(1.0, 0.1, units=20, effective_units=effective)
        for effective in (20, 8, 3, 2, 1.2, math.nan)
    ]
    halves = [opinion.high - 1.0 for opinion in opinions]
    assert halves == sorted(halves)
    # Never less than one degree of freedom.
    assert halves[3] == halves[4] == halves[5]
    middles = [opinion.high + opinion.low for opinion in opinions]
    assert middles == pytest.approx([2.0] * 6)
    assert second_opinion(1.0, 0.1, units=1, effective_units=1.0) is None
    assert second_opinion(1.0, math.nan, units=4, effective_units=3.0) is None


@pytest.mark.parametrize(
    ("seed", "draws"), [(0, 40), (1, 40), (2, "exact"), (3, "exact")]
)
def test_the_second_opinion_is_its_formula(seed, draws):
    rng = np.random.default_rng(seed)
    table, scores = world(rng)
    result = judge(table, scores, BUDGETS, draws=draws, calibration=["d"])
    held, effective = result.samples, result.setting.concentration.effective_units
    benefit = np.bincount(table.unit, np.maximum(table.decision_values, 0))[:3]
    assert effective == pytest.approx(benefit.sum() ** 2 / (benefit**2).sum())
    drawn = slice(1, 1 + len(held.counts))
    for place, row in enumerate(result.rows):
        if row.verdict in (None, "infeasible"):
            assert row.second_verdict is None
            continue
        loss = held.versus_random[place]
        share = loss / held.cheap_loss
        bounds = by_formula(share[0], share[drawn], held.weights, 3, effective)
        assert (
            row.versus_random_second_lo,
            row.versus_random_second_hi,
        ) == pytest.approx(bounds, abs=1e-11)
        assert row.second_verdict == said(*bounds)
        bounds = by_formula(loss[0], loss[drawn], held.weights, 3, effective)
        assert (
            row.versus_random_loss_second_lo,
            row.versus_random_loss_second_hi,
        ) == pytest.approx(bounds, abs=1e-10)
    rows = {(row.allocator, row.budget): place for place, row in enumerate(result.rows)}
    chance = {
        row.budget: place
        for place, row in enumerate(result.rows)
        if row.allocator == "random"
    }
    for place, row in enumerate(result.streams):
        if row.verdict != "infeasible":
            share = (
                held.stream_gain[place] - held.gain[chance[row.budget]]
            ) / held.cheap_loss
            bounds = by_formula(share[0], share[drawn], held.weights, 3, effective)
            assert (
                row.versus_random_second_lo,
                row.versus_random_second_hi,
            ) == pytest.approx(bounds, abs=1e-11)
            assert row.second_verdict == said(*bounds)
    for row in deepval.compare(result, "light", "dear", of="harm"):
        if row.verdict in (None, "infeasible"):
            assert row.second_verdict is None
            continue
        one, other = (rows[name, row.budget] for name in ("light", "dear"))
        harm = [held.benefit[i] - held.gain[i] for i in (one, other)]
        share = (harm[0] - harm[1]) / held.cheap_loss
        low, high = by_formula(share[0], share[drawn], held.weights, 3, effective)
        assert (row.second_lo, row.second_hi) == pytest.approx((low, high), abs=1e-11)
        assert row.second_verdict == said(-high, -low)  # less harm is better


def test_a_group_of_inputs_has_its_own_effective_units():
    table, scores = world(np.random.default_rng(5))
    result = judge(table, scores, [deepval.Selection(0.5)], draws=50, by="late")
    early = table.order < 24
    benefit = np.bincount(
        table.unit[early], np.maximum(table.decision_values[early], 0), minlength=4
    )
    effective = benefit.sum() ** 2 / (benefit**2).sum()
    row = next(
        r for r in result.slices if r.allocator == "light" and r.slice == "late=0"
    )
    half = (
        stats.t.ppf(0.975, max(1, effective - 1))
        * row.versus_random_spread
        * math.sqrt(4 / 3)
    )
    assert row.versus_random_second_hi - row.versus_random == pytest.approx(half)
    assert (row.rests_on, row.units_left_out) == (None, 0)
    assert row.verdict_words == in_words(row.verdict, effective_units=effective)


def changing(table, scores, **options):
    """Per row of a judgement, the units without which judging again gives another
    verdict.
    """
    units = [str(unit) for unit in table.unit_ids]
    without = {
        u: judge(table, scores, BUDGETS, units=[v for v in units if v != u], **options)
        for u in units
    }
    result = judge(table, scores, BUDGETS, **options)
    verdicts = {
        u: {(r.allocator, r.budget): r.verdict for r in other.rows}
        for u, other in without.items()
    }
    return [
        (
            row,
            [u for u in units if verdicts[u][row.allocator, row.budget] != row.verdict],
        )
        for row in result.rows
        if row.verdict in DECIDED or row.units_left_out
    ]


@pytest.mark.parametrize("draws", [400, "exact"])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_verdict_rests_on_is_found_by_judging_without_it(seed, draws):
    table, scores = world(np.random.default_rng(seed), skill=3.0)
    for row, found in changing(table, scores, draws=draws, seed=seed):
        assert row.units_left_out == 4
        assert (row.rests_on in found) if found else row.rests_on is None


def test_of_many_units_those_that_matter_are_found():
    decided = resting = 0
    for seed in range(4):
        units = tuple(f"{u:02d}" for u in range(12))
        table, scores = world(
            np.random.default_rng(seed), inputs=240, units=units, skill=1.0
        )
        for row, found in changing(table, scores, draws=300):
            assert (row.rests_on in found) if found else row.rests_on is None
            decided, resting = decided + 1, resting + bool(found)
    assert 0 < resting < decided


def test_words_follow_the_evidence():
    assert in_words("better", effective_units=5.0) == "better"
    assert in_words("better", effective_units=2.9) == "better on few units"
    assert (
        in_words("worse", effective_units=3.0, rests_on="0007")
        == "worse, but rests on 0007"
    )
    assert (
        in_words("better", effective_units=1.4, rests_on="a")
        == "better on few units, but rests on a"
    )
    assert [
        in_words(word, effective_units=1.0)
        for word in ("unresolved", "infeasible", None)
    ] == [
        "unresolved",
        "infeasible",
        None,
    ]
    assert (
        in_words("worse", effective_units=math.nan)
        == in_words("worse", effective_units=None)
        == "worse"
    )


def lonely():
    """Three units of little value that agree, and a fourth that holds most of it."""
    unit = np.repeat(list("abcd"), 10)
    values = np.where(np.arange(40) % 10 < 2, np.where(unit == "a", 9.0, 1.0), 0.0)
    return table_of(values, unit=unit, cheap=values + 1.0), {"knowing": values + 0.0}


def test_words_are_in_every_form():
    table, scores = lonely()
    result = judge(table, scores, [deepval.Selection(0.2)], draws="exact")
    row = result.row("knowing")
    # 9 of 12 parts in one unit: 1 / (81 + 3) x 144 effective units.
    assert (row.verdict, row.verdict_words) == ("better", "better on few units")
    assert result.setting.concentration.effective_units == pytest.approx(144 / 84)
    assert row.second_verdict == "unresolved"
    for text in (
        console.render(result),
        forms.result_markdown(result),
        forms.result_csv(result),
    ):
        assert "better on few units" in text
        assert "unresolved" in text
    saved = json.loads(result.to_json())["rows"][3]
    assert (saved["verdict"], saved["verdict_words"], saved["second_verdict"]) == (
        "better",
        "better on few units",
        "unresolved",
    )


def test_above_a_hundred_units_none_is_left_out_and_a_note_says_so():
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(101), 4)
    values = rng.normal(0.3, 1, len(unit))
    table = table_of(values, unit=unit, cheap=3.0)
    result = judge(table, {"knowing": values}, [deepval.Selection(0.2)], draws=50)
    row = result.row("knowing")
    assert (row.verdict_words, row.units_left_out, row.rests_on) == ("better", 0, None)
    assert (
        "Units were not left out in turn: there are more than 100."
        in console.render(result)
    )


def test_results_saved_before_there_was_a_second_opinion_are_read(tmp_path):
    table, scores = lonely()
    content = json.loads(
        judge(table, scores, [deepval.Selection(0.2)], draws=20).to_json()
    )
    for row in content["rows"]:
        for name in [
            name
            for name in row
            if "second" in name or name in ("verdict_words", "rests_on")
        ]:
            del row[name]
    for name in [
        name for name in content["setting"]["concentration"] if "input" in name
    ]:
        del content["setting"]["concentration"][name]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(content))
    old = deepval.Result.load(path)
    assert old.row("knowing").second_verdict is None
    text = console.render(old)
    assert "second" not in text
    assert "better" in text


def test_concentration_is_told_by_input():
    values = np.array([5.0, 3.0, 1.0, 1.0, -4.0, 0.0])
    table = table_of(values, unit=["a", "a", "b", "b", "c", "c"], cheap=6.0)
    result = quietly(deepval.evaluate, table, {"s": values}, draws=10)
    spread = result.setting.concentration
    assert (spread.top_input, spread.top_input_share) == ("0", 0.5)
    assert (spread.half_inputs, spread.half_inputs_share) == (1, 0.5)
    assert spread.effective_inputs == pytest.approx(100 / 36)
    assert "the largest (unit a) has 80.0% of it" in console.render(result)
