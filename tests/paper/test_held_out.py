"""Held-out tables, benefit and harm: against loops over inputs and draws, and the
paper's design on made-up values.
"""

import json
import math
from fractions import Fraction
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.judge.report import forms
from deepval.paper.analyses import benefit_harm, held_out
from reference.evaluation import best_gain, expected_top
from tidy_rows import flat_rows, study_cells
from worlds import judge, random_scores, table_of

UNITS = ("a", "b", "c")


def world(
    seed, *, inputs=15, names=("one", "two"), alphas=(0.2, 0.5), draws=12, values=None
):
    """A table of a few inputs with ties, its scores and its judgement."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, inputs) / 2 if values is None else values
    table = table_of(
        values, unit=np.resize(UNITS, len(values)), cheap=np.abs(values) + 1
    )
    scores = {name: random_scores(rng, len(values)) for name in names}
    return (
        table,
        scores,
        judge(
            table, scores, [deepval.Selection(a) for a in alphas], draws=draws, seed=3
        ),
    )


@pytest.fixture(scope="module")
def worlds():
    return {f"cell-{seed}": world(seed) for seed in range(3)}


@pytest.fixture(scope="module")
def results(worlds):
    return {name: result for name, (*_, result) in worlds.items()}


def test_held_out_rows_are_those_of_the_results_and_diagnostics_come_last(
    worlds, results
):
    diagnosed = {
        name: world(seed, names=("gain-E1", "mine"))[2]
        for seed, name in enumerate(results)
    }
    rows = flat_rows(
        held_out.HELD_OUT, study_cells(results=results, diagnostic_results=diagnosed)
    )
    assert rows == flat_rows(
        held_out.HELD_OUT, study_cells(results=results, diagnostic_results=diagnosed)
    )
    own = [row for row in rows if row.cell == "cell-0"]
    assert [(row.role, row.allocator) for row in own if row.alpha == 0.2] == [
        ("control", "random"),
        ("deployable", "one"),
        ("deployable", "two"),
        ("diagnostic", "gain-E1"),
        ("diagnostic", "mine"),
    ]
    for row in rows:
        source = diagnosed if row.role == "diagnostic" else results
        told = source[row.cell].row(row.allocator, "selection", row.alpha)
        for name in (
            "ndg",
            "ndg_lo",
            "ndg_hi",
            "versus_random",
            "versus_random_lo",
            "versus_random_hi",
            "verdict",
        ):
            assert getattr(row, name) == told[name]
        assert row.affected == np.count_nonzero(worlds[row.cell][0].decision_values)
    beside = {"cell": world(0, names=("one", "gain-E8", "spy"))[2]}
    roles = {
        row.allocator: row.role
        for row in flat_rows(
            held_out.HELD_OUT,
            study_cells(results=beside, diagnostic_names={"cell": {"spy"}}),
        )
    }
    assert roles == {
        "random": "control",
        "one": "deployable",
        "gain-E8": "diagnostic",
        "spy": "diagnostic",
    }


def test_marks_are_verdicts():
    values = np.tile([2.0, -1.0, 0.0, 0.0, 0.0], 30)
    table = table_of(values, unit=np.resize(UNITS, 150), cheap=3.0)
    result = judge(
        table,
        {"good": values, "bad": -values, "flat": np.zeros(150)},
        [deepval.Selection(0.2)],
        draws=50,
    )
    rows = flat_rows(held_out.HELD_OUT, study_cells(results={"cell": result}))
    assert {row.allocator: row.verdict for row in rows} == {
        "random": None,
        "good": "better",
        "bad": "worse",
        "flat": "unresolved",
    }
    shown = held_out.tables(rows)[0]
    marks = {
        line[2].text: (line[3].text, line[3].mark)
        for section in shown.sections
        for line in section
    }
    assert marks["good"] == ("1.000+", "better")
    assert marks["bad"] == ("-0.500", "worse")
    assert marks["flat"][1] == ""
    text = forms.table_markdown(shown)
    assert "**1.000+**" in text
    assert "-0.500*" in text.replace("\\*", "*")
    assert [dot.series for dot in held_out.HELD_OUT.chart(rows).dots] == [
        "control",
        "better",
        "worse",
        "unresolved",
    ]


@pytest.mark.parametrize(("affected", "scored"), [(4, False), (5, True)])
def test_a_cell_with_four_affected_inputs_is_not_scored(affected, scored):
    values = np.concatenate([np.ones(affected), np.zeros(20 - affected)])
    *_, result = world(0, values=values)
    rows = flat_rows(held_out.HELD_OUT, study_cells(results={"cell": result}))
    assert all((row.ndg is not None) == scored for row in rows)
    assert all(
        (row.reason == "too few affected test inputs (4)") == (not scored)
        for row in rows
    )
    texts = [
        cell.text
        for section in held_out.tables(rows)[0].sections
        for line in section
        for cell in line
    ]
    assert ("too few affected test inputs (4)" in texts) == (not scored)


def parts(table, score, counts, alpha):
    """Benefit and harm of the highest scores in a draw, ties shared out, and the draw's
    all-cheap loss, exactly.
    """
    drawn = [i for i in range(len(table)) for _ in range(int(counts[table.unit[i]]))]
    k = math.floor(alpha * len(drawn) + 0.5)
    value = [Fraction(float(table.decision_values[i])) for i in drawn]
    loss = sum(Fraction(float(table.losses[i, 0])) for i in drawn)
    good, bad = [max(v, 0) for v in value], [max(-v, 0) for v in value]
    if score is None:
        return [Fraction(k, len(drawn)) * sum(each) / loss for each in (good, bad)]
    ranked = [float(score[i]) for i in drawn]
    return [expected_top(ranked, each, k) / loss for each in (good, bad)]


def test_benefit_and_harm_match_a_loop_over_cells_draws_and_inputs(worlds, results):
    rows = flat_rows(benefit_harm.BENEFIT_HARM, study_cells(results=results))
    assert rows == flat_rows(benefit_harm.BENEFIT_HARM, study_cells(results=results))
    numbers = np.random.Generator(np.random.PCG64(3)).integers(0, 3, (12, 3))
    draws = [np.ones(3), *(np.bincount(pick, minlength=3) for pick in numbers)]
    for mean in (
        row for row in rows if row.cell is None and row.allocator in ("one", "two")
    ):
        differences = []
        for cell, (table, scores, _) in worlds.items():
            own = next(
                r
                for r in rows
                if (r.cell, r.allocator, r.alpha) == (cell, mean.allocator, mean.alpha)
            )
            ours = np.array(
                [
                    [
                        float(x)
                        for x in parts(table, scores[own.allocator], c, own.alpha)
                    ]
                    for c in draws
                ]
            )
            theirs = np.array(
                [[float(x) for x in parts(table, None, c, own.alpha)] for c in draws]
            )
            assert (own.benefit, own.harm) == pytest.approx(tuple(ours[0]), abs=1e-12)
            differences.append(ours - theirs)
            check(own, differences[-1])
        check(mean, np.mean(differences, axis=0))
        alone = [
            r
            for r in rows
            if r.cell and (r.allocator, r.alpha) == (mean.allocator, mean.alpha)
        ]
        assert (mean.benefit, mean.harm) == pytest.approx(
            (fmean(r.benefit for r in alone), fmean(r.harm for r in alone))
        )
        assert mean.cells == 3
        assert mean.less_harm == sum(r.harm_verdict == "less" for r in alone)
        assert mean.more_benefit == sum(r.benefit_verdict == "more" for r in alone)


def check(row, difference):
    for i, (part, good, bad) in enumerate(
        (("benefit", "more", "less"), ("harm", "more", "less"))
    ):
        assert getattr(row, f"{part}_difference") == pytest.approx(
            difference[0, i], abs=1e-12
        )
        low, high = np.percentile(difference[1:, i], [2.5, 97.5])
        bounds = (
            getattr(row, f"{part}_difference_lo"),
            getattr(row, f"{part}_difference_hi"),
        )
        assert bounds == pytest.approx((low, high), abs=1e-12)
        wanted = good if low > 1e-12 else bad if high < -1e-12 else "unresolved"
        assert getattr(row, f"{part}_verdict") == wanted


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.3, 0.5, 1.0]))
def test_the_gap_is_missed_benefit_and_selected_harm_less_what_the_oracle_leaves(
    seed, alpha
):
    """Exactly, in fractions; and the rows say the same numbers."""
    table, scores, result = world(seed, inputs=8, alphas=(alpha,), draws=2)
    values = [Fraction(float(v)) for v in table.decision_values]
    loss = sum(Fraction(float(x)) for x in table.losses[:, 0])
    k = math.floor(alpha * len(values) + 0.5)
    oracle, everything = best_gain(values, k), sum(v for v in values if v > 0)
    for row in flat_rows(
        benefit_harm.BENEFIT_HARM, study_cells(results={"cell": result})
    ):
        if row.allocator not in scores:
            continue
        benefit, harm = parts(table, scores[row.allocator], np.ones(3), alpha)
        gap = oracle / loss - (benefit - harm)
        missed, left = everything / loss - benefit, (everything - oracle) / loss
        assert gap == missed + harm - left
        assert (row.gap, row.missed, row.harm, row.left_out) == pytest.approx(
            tuple(map(float, (gap, missed, harm, left))), abs=1e-12
        )


def counts_of(rows):
    return [SimpleNamespace(**count) for count in benefit_harm.counts(rows)]


def test_without_results_there_is_nothing_to_split():
    with pytest.raises(InputError, match="at least one result; found none"):
        flat_rows(benefit_harm.BENEFIT_HARM, study_cells(results={}))


@pytest.mark.parametrize("name", ["held-out", "benefit-harm"])
def test_commands_take_saved_results(name, results, tmp_path, capsys):
    for cell, result in results.items():
        result.save(tmp_path / f"{cell}.json", samples=True)
    paths = [str(tmp_path / f"{cell}.json") for cell in results]
    call("analyse", name, *paths, "--json")
    found = json.loads(capsys.readouterr().out)
    declared = {
        "held-out": held_out.HELD_OUT,
        "benefit-harm": benefit_harm.BENEFIT_HARM,
    }[name]
    by_path = dict(zip(paths, results.values(), strict=True))
    rows = declared.run(study_cells(results=by_path))
    assert all(row.pop("provenance") for row in found)
    assert found == json.loads(json.dumps(declared.flat(rows)))
    call("analyse", name, *paths)
    assert declared.report_tables(rows)[0].title in capsys.readouterr().out
