"""Win counts, half-widths and concentration over results, against plain loops over
their rows.
"""

import json
from statistics import median

import numpy as np
import pytest

import deepval
from commands import call
from deepval.paper.analyses import concentration, half_widths, wins
from tidy_rows import flat_rows, study_cells
from worlds import judge, table_of


@pytest.fixture(scope="module")
def results():
    found = {}
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        values = np.round(rng.normal(size=60), 1)
        table = table_of(
            values, unit=np.repeat(list("abcde"), 12), cheap=np.abs(values) + 1
        )
        scores = {
            "good": values + rng.normal(size=60),
            "bad": -values,
            "flat": np.zeros(60),
        }
        budgets = [deepval.Selection(alpha) for alpha in (0.1, 0.2)]
        found[f"cell-{seed}"] = judge(table, scores, budgets, draws=50)
    return found


def test_wins_count_every_verdict_once(results):
    rows = flat_rows(wins.WINS, study_cells(results=results))
    assert [row.allocator for row in rows] == ["good", "bad", "flat"]
    for row in rows:
        verdicts = [
            r.verdict
            for result in results.values()
            for r in result.rows
            if r.allocator == row.allocator
        ]
        assert (row.cells, row.combinations) == (2, 4)
        assert row.better == verdicts.count("better")
        assert row.worse == verdicts.count("worse")
        assert row.unresolved == verdicts.count("unresolved")
        assert (
            row.better + row.worse + row.unresolved + row.infeasible + row.undefined
            == len(verdicts)
        )
    assert rows[0].better
    assert rows[1].worse


def test_half_widths_are_medians_over_allocators(results):
    for row in flat_rows(half_widths.HALF_WIDTHS, study_cells(results=results)):
        own = [
            (r.versus_random_hi - r.versus_random_lo) / 2
            for r in results[row.cell].rows
            if r.allocator in ("good", "bad", "flat") and r.alpha == row.alpha
        ]
        assert row.half_width == pytest.approx(median(own))


def test_concentration_takes_the_gain_apart_by_unit(results):
    rows = flat_rows(concentration.CONCENTRATION, study_cells(results=results))
    assert [(row.cell, row.allocator) for row in rows] == [
        (c, a) for c in results for a in ("good", "bad", "flat")
    ]
    for row in rows:
        units = results[row.cell].units
        prize = {unit.unit: unit.oracle_gain for unit in units}
        top = max(prize, key=prize.get)
        assert (row.alpha, row.top_unit) == (0.2, top)
        assert row.top_share == pytest.approx(prize[top] / sum(prize.values()))
        assert row.gain == pytest.approx(
            results[row.cell].row(row.allocator, "selection", 0.2).gain
        )
        others = sum(unit.gains[row.allocator] for unit in units if unit.unit != top)
        assert row.gain_elsewhere == pytest.approx(others)
        assert (
            row.ndg_without_lo
            == results[row.cell].row(row.allocator, "selection", 0.2).ndg_without_lo
        )


@pytest.mark.parametrize("name", ["wins", "half-widths", "concentration"])
def test_commands_take_saved_results(name, results, tmp_path, capsys):
    for cell, result in results.items():
        result.save(tmp_path / f"{cell}.json")
    paths = [str(tmp_path / f"{cell}.json") for cell in results]
    call("analyse", name, *paths, "--json")
    assert json.loads(capsys.readouterr().out)
    call("analyse", name, *paths, "--format", "csv")
    assert len(capsys.readouterr().out.splitlines()) > 3
