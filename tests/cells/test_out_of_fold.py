"""Out of fold over all units: against fits on splits that hold out one fold at a time, and labelled everywhere."""

import json
from dataclasses import replace

import numpy as np
import pytest

import deepval
from commands import call
from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.judgement import openings
from deepval.cells.spec import Split
from deepval.errors import InputError
from deepval.paper.analyses import out_of_fold
from deepval.tables.keys import positions
from small_cells import build_cells
from worlds import quietly

pytestmark = pytest.mark.filterwarnings("ignore::deepval.errors.InputWarning")  # few units, to be quick
LABEL = "out of fold over all units: released, not scored"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",)) / "braking-monocular"


@pytest.fixture(scope="module")
def cell(folder):
    return read_cell(folder)


def holding_out(cell: BuiltCell, units: set[str]) -> BuiltCell:
    """The cell with another split: these units are test, all others training."""
    other = replace(cell)
    other.__dict__["split"] = Split("synthetic", tuple(sorted(set(cell.split.units) - units)), (), tuple(sorted(units)))
    return other


@pytest.mark.parametrize("folds", [2, 4])
def test_scores_are_those_of_fits_that_hold_out_one_fold_at_a_time(cell, folds):
    units = sorted(cell.table.unit_ids.tolist())
    dealt = [set(units[start::folds]) for start in range(folds)]
    expected = np.full(len(cell.table), np.nan)
    for held in dealt:
        split = holding_out(cell, held)
        fitted = fit_on(split, "gate-ridge")
        assert not set(fitted.training.units) & held
        scored = score_on(split, fitted, units="test")
        expected[positions(scored.input, cell.table.input)] = scored.score
    assert not np.isnan(expected).any()
    rows = out_of_fold.rows({"cell": cell}, ["gate-ridge"], folds=folds, draws=20)
    assert rows == out_of_fold.rows({"cell": cell}, ["gate-ridge"], folds=folds, draws=20)
    whole = quietly(deepval.evaluate, cell.table, {"gate-ridge": expected}, draws=20)
    for row in rows:
        told = whole.row(row.allocator, "selection", row.alpha)
        assert (row.ndg, row.versus_random) == pytest.approx((told.ndg, told.versus_random), abs=1e-9)
        assert (row.units, row.inputs, row.folds) == (len(units), len(cell.table), folds)
        assert row.test_units == len(cell.split.test)


def test_the_label_stands_in_rows_table_chart_and_json_and_the_look_is_counted(cell, folder, capsys):
    official = quietly(
        deepval.evaluate,
        cell.listed,
        {"gate-ridge": score_on(cell, fit_on(cell, "gate-ridge"), units="all").over(cell.table)},
        units=list(cell.split.test),
        draws=0,
    )
    rows = out_of_fold.rows({"cell": cell}, ["gate-ridge"], {"cell": official}, folds=2, draws=20)
    assert {row.standing for row in rows} == {LABEL}
    assert [row.held_out_ndg for row in rows if row.alpha == 0.2] == [
        official.row(name, "selection", 0.2).ndg for name in ("random", "gate-ridge")
    ]
    table = out_of_fold.table(rows)
    assert LABEL in table.title
    assert LABEL in table.notes[0]
    assert LABEL in out_of_fold.chart(rows).axis
    before = openings(folder, cell.id)
    words = ["analyse", "out-of-fold", str(folder), "-a", "gate-ridge", "--folds", "2", "--draws", "20", "--json"]
    call(*words)
    found = json.loads(capsys.readouterr().out)
    assert [(row["allocator"], row["standing"]) for row in found if row["alpha"] == 0.2] == [
        ("random", LABEL),
        ("gate-ridge", LABEL),
    ]
    assert openings(folder, cell.id) == before + 1


def test_one_fold_is_none(cell):
    with pytest.raises(InputError, match="two folds or more; found 1"):
        out_of_fold.rows({"cell": cell}, ["gate-ridge"], folds=1)
