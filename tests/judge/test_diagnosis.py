"""What a table can tell: each answer against a plain count, and leaving a unit out
against judging without it.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.judge.diagnosis import diagnose
from deepval.judge.report.console import render_tables
from deepval.judge.report.tables.diagnosis import diagnosis_sentence, diagnosis_tables
from deepval.judge.tables.scores import align_all
from worlds import COSTS, judge, quietly, random_scores, table_of

UNITS = ("a", "b", "c", "d")
BUDGETS = [deepval.Selection(0.1), deepval.Selection(0.5), deepval.Latency(0.5, COSTS)]


def world(rng, *, inputs=24):
    """A table of four units and two allocators' scores."""
    loss = rng.integers(0, 6, (inputs, 2)) / 4
    unit = np.array(UNITS)[np.arange(inputs) % 4]
    table = table_of(
        loss[:, 0] - loss[:, 1],
        unit=unit,
        cheap=loss[:, 0] + 0.1,
        order=np.arange(inputs),
    )
    scores = {"dear": random_scores(rng, inputs), "light": random_scores(rng, inputs)}
    return table, {item.name: item for item in align_all(table, scores)}


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_answers_are_plain_counts(seed):
    table, scores = world(np.random.default_rng(seed))
    found = quietly(diagnose, table, scores, BUDGETS, draws=20)
    result = judge(table, scores, BUDGETS, draws=20)
    values = table.decision_values
    assert (found.inputs, found.units, found.helped, found.harmed) == (
        24,
        4,
        (values > 0).sum(),
        (values < 0).sum(),
    )
    for check in found.budgets[:2]:
        summary = table.summary(check.alpha)
        assert (check.slots, check.state == "binding") == (
            summary.quota,
            summary.budget_binds,
        )
        assert check.forced is not summary.quota_is_capacity
        assert check.oracle_share == pytest.approx(summary.oracle_share)
    for check in found.ties:
        row = next(
            r
            for r in result.rows
            if (r.allocator, r.budget) == (check.allocator, check.budget)
        )
        assert check.ties == row.ties
        assert check.scores == len(set(scores[check.allocator].values.tolist()))
    for check in found.held:
        parts = np.maximum(values if check.what == "value" else -values, 0)
        if check.by == "unit":
            parts = np.array([parts[table.unit == u].sum() for u in range(4)])
        assert check.holders == sum(part > 0 for part in parts)
        if not parts.sum() > 0:
            assert (check.effective, check.half, check.top) == (None, 0, None)
            continue
        shares = sorted((part / parts.sum() for part in parts), reverse=True)
        assert check.effective == pytest.approx(1 / sum(share**2 for share in shares))
        assert check.top_share == pytest.approx(shares[0])
        enough = next(
            n for n in range(1, len(shares) + 1) if sum(shares[:n]) >= 0.5 - 1e-9
        )
        assert check.half == enough
    for check in found.widths:
        row = next(
            r
            for r in result.rows
            if (r.allocator, r.budget) == (check.allocator, check.budget)
        )
        if row.allocator in scores:
            assert check.half_width == pytest.approx(
                (row.versus_random_hi - row.versus_random_lo) / 2
            )
            assert check.predicted == pytest.approx(
                1.959964 * row.versus_random_spread, rel=1e-6
            )
            assert check.units_needed == deepval.units_to_resolve(
                row.versus_random_spread, 4, 0.01
            )
        if row.allocator == "random" and check.ndg_predicted is not None:
            held = result.samples
            drawn = slice(1, 21)
            place = result.rows.index(row)
            kept = held.prize[place, drawn] >= held.prize[place, 0] / 4 * (1 - 1e-12)
            ndg = (
                held.gain[place, drawn] / np.where(kept, held.prize[place, drawn], 1)
            )[kept]
            assert check.ndg_predicted == pytest.approx(
                1.959964 * np.std(ndg), rel=1e-6
            )


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_leaving_a_unit_out_is_judging_without_it(seed):
    table, scores = world(np.random.default_rng(seed))
    found = quietly(diagnose, table, scores, BUDGETS, draws=20)
    rows = [
        row
        for row in judge(table, scores, BUDGETS, draws=20).rows
        if row.verdict not in (None, "infeasible")
    ]
    assert [(c.allocator, c.budget, c.verdict) for c in found.verdicts] == [
        (r.allocator, r.budget, r.verdict) for r in rows
    ]
    without = {
        u: judge(table, scores, BUDGETS, draws=20, units=[v for v in UNITS if v != u])
        for u in UNITS
    }
    for check, row in zip(found.verdicts, rows, strict=True):
        others = {
            u: next(
                r
                for r in result.rows
                if (r.allocator, r.budget) == (row.allocator, row.budget)
            )
            for u, result in without.items()
        }
        assert check.without == {
            u: r.verdict for u, r in others.items() if r.verdict != row.verdict
        }
        turned = [
            u
            for u, r in others.items()
            if r.versus_random_loss * row.versus_random_loss < 0
        ]
        assert list(check.turned) == turned


def test_value_in_one_unit_is_said_to_rest_on_it():
    unit = np.repeat(list("abcdef"), 6)
    values = np.where(unit == "a", 4.0, 0.0) * (np.arange(36) % 2)
    table = table_of(values, unit=unit, cheap=5.0)
    scores = {item.name: item for item in align_all(table, {"knowing": values})}
    found = diagnose(table, scores, [deepval.Selection(0.2)], draws=200)
    assert found.budgets[0].state == "slack"
    value = found.held[0]
    assert (value.holders, value.effective, value.top, value.half) == (1, 1.0, "a", 1)
    (check,) = found.verdicts
    # A third of the draws miss that unit, so nothing is resolved with it or without it.
    assert (check.verdict, check.without, check.turned) == ("unresolved", {}, ())
    text = render_tables(list(diagnosis_tables(found)), width=150)
    assert "The possible gain comes from about 1.0 of 6 units." in text
    assert "No single unit decides a verdict." in text
    assert diagnosis_sentence(found).startswith("36 inputs in 6 units")


def test_without_scores_or_intervals_what_is_known_is_told():
    table, scores = world(np.random.default_rng(3))
    bare = quietly(diagnose, table, {}, [deepval.Selection(0.2)], draws=20)
    assert (bare.ties, bare.verdicts) == ((), ())
    assert {row.allocator for row in bare.widths} == {"random", "oracle"}
    still = quietly(diagnose, table, scores, [deepval.Selection(0.2)], draws=0)
    assert (still.widths, still.verdicts) == ((), ())
    assert len(still.ties) == 2
    flat = quietly(
        diagnose,
        table_of([0.0, 0.0, 0.0], unit=["a", "b", "c"], cheap=1.0),
        {},
        draws=5,
    )
    assert "Nothing can be gained" in render_tables(
        list(diagnosis_tables(flat)), width=150
    )


def test_the_command_tells_all_and_its_json_is_the_diagnosis(tmp_path):
    table, scores = world(np.random.default_rng(4))
    columns = zip(table.unit_ids[table.unit], table.losses.tolist(), strict=True)
    lines = [
        f"{unit},{i},{cheap},{full}" for i, (unit, (cheap, full)) in enumerate(columns)
    ]
    values = tmp_path / "values.csv"
    values.write_text("\n".join(["unit,input,loss_cheap,loss_full", *lines]) + "\n")
    score = tmp_path / "light.csv"
    rows = [f"{i},{v}" for i, v in enumerate(scores["light"].values)]
    score.write_text("\n".join(["input,score", *rows]) + "\n")
    words = ["evaluate", values, "-s", score, "--draws", "20", "--diagnose"]
    text = quietly(call, *words)
    for question in (
        "budget bind?",
        "ties decide?",
        "rest?",
        "units are enough?",
        "one unit decide?",
    ):
        assert question in text
    content = json.loads(quietly(call, *words, "--json"))["diagnosis"]
    assert list(content)[:3] == ["inputs", "units", "affected"]
    assert content["difference"] == 0.01
    assert len(content["budgets"]) == 4
    with pytest.raises(InputError):
        call(*words[:-1], "0")
    bare = quietly(call, "evaluate", values, "--diagnose", "--draws", "20")
    assert "Does the budget bind?" in bare
