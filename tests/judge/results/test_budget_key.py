"""One name per budget: what differs in kind, share, convention or accounting has
another label, in every form.
"""

import itertools

import numpy as np
import pytest

import deepval
from deepval.deploy.board.leaderboard_pages import as_markdown
from deepval.judge.allowances import allowance
from deepval.judge.pairs import compare
from deepval.judge.pooled import pool
from deepval.judge.report import console, figures, html
from deepval.judge.report.figures import gain_figures
from deepval.judge.report.forms import FORMS
from deepval.judge.report.tables import result_tables
from deepval.judge.report.tables.comparison import comparison_table
from deepval.judge.report.tables.overview import overview
from deepval.judge.results import BudgetKey
from whole_sets import standings
from worlds import ALPHAS, COSTS, judge, random_table, table_of

CASCADE, SKIPPING = "latency 50% (ms)", "latency 50% (ms, skipping)"


@pytest.fixture(scope="module")
def both() -> deepval.Result:
    """Two allocators under a cascade and a skipping budget that agree in everything
    else, and where they are free.
    """
    rng = np.random.default_rng(0)
    table = table_of(
        rng.normal(size=60),
        unit=np.repeat(list("abcdef"), 10),
        cheap=3.0,
        order=np.arange(60),
    )
    budgets = [
        deepval.Latency(0.5, COSTS),
        deepval.Latency(0.5, COSTS, "skipping"),
        deepval.Selection(0.5),
    ]
    scores = {"light": rng.normal(size=60), "free": rng.normal(size=60)}
    return judge(
        table, scores, budgets, draws=20, calibration=["a", "b"], thresholds=True
    )


def labels(table) -> list[str]:
    return [row[0].text for section in table.sections for row in section if row[0].text]


def test_budgets_that_differ_have_different_labels():
    shares = (*ALPHAS, 0.12, 0.125, 0.205)
    budgets = [deepval.Selection(a) for a in shares]
    budgets += [
        deepval.Latency(a, COSTS, how)
        for a, how in itertools.product(shares, ("cascade", "skipping"))
    ]
    budgets += [
        deepval.Energy(a, COSTS, how, rails)
        for a, how, rails in itertools.product(
            shares, ("cascade", "skipping"), ("mj", "mj_gpu", "mj_all")
        )
    ]
    keys = [allowance(budget, ("cheap", "full")).key for budget in budgets]
    assert len({key.label for key in keys}) == len(set(keys)) == len(budgets)
    assert BudgetKey("selection", 0.2).label == "selection 20%"
    assert (
        BudgetKey("energy", 0.3, "mj_gpu", "skipping").label
        == "energy 30% (mJ, GPU rail, skipping)"
    )


def test_every_row_carries_its_budget(both):
    wanted = [
        BudgetKey("latency", 0.5, "ms", how) for how in ("cascade", "skipping")
    ] + [BudgetKey("selection", 0.5)]
    found = (
        both.rows,
        both.gaps,
        both.streams,
        both.half_widths,
        compare(both, "light", "free"),
        pool({"c": both}),
    )
    for rows in (*found, standings({"c": both})):
        assert list(dict.fromkeys(row.budget for row in rows)) == wanted


def test_optima_of_the_ladder_carry_the_budget_of_their_rows():
    rng = np.random.default_rng(3)
    table = random_table(rng, inputs=8, units=3, modes=("cheap", "middle", "full"))
    costs = {
        "modes": {"cheap": {"ms": 5.0}, "middle": {"ms": 6.0}, "full": {"ms": 8.0}}
    }
    result = judge(
        table, {}, [deepval.Selection(0.3), deepval.Latency(0.5, costs)], draws=0
    )
    (optimum,) = result.ladder
    assert (
        optimum.budget
        == result.row("oracle-ladder", "latency").budget
        == BudgetKey("latency", 0.5, "ms", "cascade")
    )


def test_tables_name_cascade_and_skipping_apart(both):
    shown = {table.title: labels(table) for table in result_tables(both)}
    assert len(shown) == 4
    for title, found in shown.items():
        times = 2 if title.startswith("Streaming") else 1  # once per allocator
        assert found == [
            label
            for label in (CASCADE, SKIPPING, "selection 50%")
            for _ in range(times)
        ], title
    for form in ("markdown", "latex"):
        text = FORMS[form](both)
        assert text.count("skipping") == 5, form
    compared = console.render_tables([comparison_table(compare(both, "light", "free"))])
    assert compared.count("skipping") == 1
    page = html.render({"c": both})
    assert SKIPPING in page


def test_standings_keep_cascade_and_skipping_apart(both):
    for row in standings({"c": both}):
        same = [
            r
            for r in both.rows
            if r.allocator == row.allocator and r.budget == row.budget
        ]
        assert row.gain_share == (
            same[0].gain_share if same[0].gain is not None else None
        )
    rows = [dict(row) for row in standings({"c": both})]
    track = {
        "track": "t",
        "title": "t",
        "cells": ["c"],
        "cells_of_track": None,
        "headline_alpha": 0.5,
        "comparisons": 1,
        "overall": rows,
        "by_cell": {"c": rows},
        "incomplete": {},
        "flagged": {"overall": [], "by_cell": {"c": []}},
    }
    draws = {"number": 20, "seed": 0}
    board = {
        "tracks": [track],
        "submissions": [],
        "refused": [],
        "cells": {},
        "draws": draws,
        "deepval": "0",
    }
    page = as_markdown(board)
    for label in (CASCADE, SKIPPING, "selection 50%"):
        assert f"**Overall, 1 cell, {label}**" in page


def test_the_overview_shows_one_budget_and_names_it(both):
    table = overview({"c": both}, kind="latency", alpha=0.5)
    assert table.title == CASCADE
    (line,) = (
        row for section in table.sections for row in section if row[0].text == "light"
    )
    assert line[1].text.rstrip("+") == f"{both.rows[3].ndg:.2f}"
    assert (both.rows[3].allocator, both.rows[3].accounting) == ("light", "cascade")
    assert overview({"c": both}, alpha=0.5).title == "selection 50%"


def test_figures_name_the_whole_budget(both):
    skipping = deepval.Result(
        **{
            field: tuple(
                item for item in getattr(both, field) if item.accounting != "cascade"
            )
            for field in ("rows", "gaps")
        },
        **{
            name: getattr(both, name)
            for name in ("provenance", "setting", "comparisons", "half_widths")
        },
    )
    for result, label in ((both, CASCADE), (skipping, SKIPPING)):
        with figures.style.house_style():
            (axes,) = gain_figures.gap(result).axes
            assert label in axes.get_xlabel()
            (legend,) = gain_figures.dumbbells(both, result).legends
        unit = label.removeprefix("latency 50% ")
        assert f"Latency budget {unit}, charged" in [
            text.get_text() for text in legend.get_texts()
        ]
