"""Out of fold over all units: against fits on splits that hold out one fold at a time,
and labelled everywhere.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.deploy.fitting import fit_on, score_on
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.judge.cases import openings
from deepval.judge.pairs import basis
from deepval.judge.tables.keys import positions
from deepval.judge.tables.split import Split
from deepval.paper.analyses import out_of_fold
from small_cells import build_cells
from tidy_rows import flat_rows, study_cells
from worlds import quietly, table_of

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
LABEL = "out of fold over all units: released, not scored"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return (
        build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",))
        / "braking-monocular"
    )


@pytest.fixture(scope="module")
def cell(folder):
    return read_cell(folder)


def holding_out(cell: BuiltCell, units: set[str]) -> BuiltCell:
    """The cell with another split: these units are test, all others training."""
    other = replace(cell)
    other.__dict__["split"] = Split(
        "synthetic",
        tuple(sorted(set(cell.split.units) - units)),
        (),
        tuple(sorted(units)),
    )
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
    rows = flat_rows(
        out_of_fold.OUT_OF_FOLD,
        study_cells({"cell": cell}),
        allocators=["gate-ridge"],
        folds=folds,
        draws=20,
    )
    assert rows == flat_rows(
        out_of_fold.OUT_OF_FOLD,
        study_cells({"cell": cell}),
        allocators=["gate-ridge"],
        folds=folds,
        draws=20,
    )
    whole = quietly(deepval.evaluate, cell.table, {"gate-ridge": expected}, draws=20)
    for row in rows:
        told = whole.row(row.allocator, "selection", row.alpha)
        assert (row.ndg, row.versus_random) == pytest.approx(
            (told.ndg, told.versus_random), abs=1e-9
        )
        assert (row.units, row.inputs, row.folds) == (
            len(units),
            len(cell.table),
            folds,
        )
        assert row.test_units == len(cell.split.test)


def test_the_label_stands_in_rows_table_chart_and_json_and_the_look_is_counted(
    cell, folder, capsys
):
    official = quietly(
        deepval.evaluate,
        cell.listed,
        {
            "gate-ridge": score_on(cell, fit_on(cell, "gate-ridge"), units="all").over(
                cell.table
            )
        },
        units=list(cell.split.test),
        draws=0,
    )
    rows = flat_rows(
        out_of_fold.OUT_OF_FOLD,
        study_cells({"cell": cell}, free={"cell": official}),
        allocators=["gate-ridge"],
        folds=2,
        draws=20,
    )
    assert {row.standing for row in rows} == {LABEL}
    assert [row.held_out_ndg for row in rows if row.alpha == 0.2] == [
        official.row(name, "selection", 0.2).ndg for name in ("random", "gate-ridge")
    ]
    (table,) = out_of_fold.tables(rows)
    assert LABEL in table.title
    assert LABEL in table.notes[0]
    assert LABEL in out_of_fold.OUT_OF_FOLD.chart(rows).axis
    before = openings(folder, cell.id)
    words = [
        "analyse",
        "out-of-fold",
        str(folder),
        "-a",
        "gate-ridge",
        "--folds",
        "2",
        "--draws",
        "20",
        "--json",
    ]
    call(*words)
    found = json.loads(capsys.readouterr().out)
    assert [
        (row["allocator"], row["standing"]) for row in found if row["alpha"] == 0.2
    ] == [
        ("random", LABEL),
        ("gate-ridge", LABEL),
    ]
    assert openings(folder, cell.id) == before + 1


def sums(table, score, rows, *, alpha):
    """All-cheap loss, oracle's gain, gain, harm and random's harm of some rows, input
    by input, without ties.
    """
    value, k = table.decision_values[rows], math.floor(alpha * len(rows) + 0.5)
    top = value[np.argsort(-score[rows])[:k]]
    best = math.fsum(sorted(np.maximum(value, 0.0).tolist())[len(rows) - k :])
    harm, chance = (
        math.fsum(np.maximum(-top, 0.0)),
        k / len(rows) * math.fsum(np.maximum(-value, 0.0)),
    )
    return math.fsum(table.losses[rows, 0]), best, math.fsum(top), harm, chance


def test_pooled_gain_and_harm_match_plain_sums_in_the_sample_and_in_every_draw():
    rng, units, alpha = np.random.default_rng(4), 5, 0.3
    tables = [
        table_of(
            rng.normal(size=40), unit=np.arange(40) % units, cheap=np.full(40, 4.0 + c)
        )
        for c in range(3)
    ]
    scores = [
        {name: rng.permutation(40) + 0.0 for name in ("one", "other")} for _ in tables
    ]
    cells, draws = [], None
    for table, own in zip(tables, scores, strict=True):
        held = basis(quietly(deepval.evaluate, table, own, alpha, draws=30, seed=3))
        draws = held.totals.draws
        sample = {item.row.allocator: item.gains for item in held.judged}
        cells.append(
            out_of_fold.CellSamples(
                held.totals, held.judged[0].prize, sample["random"], sample
            )
        )
    pool = out_of_fold.Pool.of(cells, draws, resampled=True)
    counts = [np.ones(units), *draws.counts]
    for index, count in enumerate(counts):
        totals = np.zeros(4)
        for table, own, cell in zip(tables, scores, cells, strict=True):
            rows = np.repeat(np.arange(40), count[table.unit].astype(int))
            loss, best, _, _, chance = sums(table, own["one"], rows, alpha=alpha)
            sample = cell.contenders["one"]
            totals += (
                np.array(
                    [
                        best,
                        chance,
                        sample.gain[index],
                        sample.benefit[index] - sample.gain[index],
                    ]
                )
                / loss
            )
        assert pool.gain["one"][index] == pytest.approx(totals[2] / totals[0])
        assert pool.harm["one"][index] == pytest.approx(totals[3] / totals[1])
    for table, own, cell in zip(tables, scores, cells, strict=True):
        loss, best, gain, harm, chance = sums(
            table, own["one"], np.arange(40), alpha=alpha
        )
        sample = cell.contenders["one"]
        told = (
            cell.prize[0],
            sample.gain[0],
            sample.benefit[0] - sample.gain[0],
            cell.totals.cheap_loss[0],
        )
        assert told == pytest.approx((best, gain, harm, loss))
        assert cell.chance.benefit[0] - cell.chance.gain[0] == pytest.approx(chance)
    ahead = pool.columns("one", "other")
    back = pool.columns("other", "one")
    gained = ahead["gain"].value - back["gain"].value
    assert ahead["difference"].value == pytest.approx(gained)
    assert ahead["difference"][1:] == pytest.approx(
        (-back["difference"].high, -back["difference"].low)
    )
    assert pool.columns("one", "one")["difference_verdict"] == "unresolved"


def test_several_cells_are_pooled_and_fit_units_alone_open_no_test_unit(folder, capsys):
    twin = (
        build_cells(folder.parent.parent / "others", systems=("lateral",))
        / "lateral-monocular"
    )
    before = openings(folder, read_cell(folder).id)
    words = [
        "analyse",
        "out-of-fold",
        str(folder),
        str(twin),
        "-a",
        "gate-ridge",
        "-a",
        "lost",
        "--units",
        "fit",
    ]
    call(
        *words,
        "--folds",
        "2",
        "--draws",
        "20",
        "--alpha",
        "0.2",
        "--versus",
        "lost",
        "--json",
    )
    found = json.loads(capsys.readouterr().out)
    assert openings(folder, read_cell(folder).id) == before
    label = "out of fold over fit units: released, not scored"
    assert {(row["standing"], row["test_units"], row["versus"]) for row in found} == {
        (label, 0, "lost")
    }
    pooled, *single = (
        [row for row in found if row["cell"] == name]
        for name in dict.fromkeys(r["cell"] for r in found)
    )
    assert [row["allocator"] for row in pooled] == ["random", "lost", "gate-ridge"]
    assert pooled[0]["cells"] == len(single) == 2
    for row, one, two in zip(pooled, *single, strict=True):
        assert row["ndg"] == pytest.approx((one["ndg"] + two["ndg"]) / 2)
        assert (
            min(one["gain"], two["gain"]) - 1e-9
            <= row["gain"]
            <= max(one["gain"], two["gain"]) + 1e-9
        )
    call(*words, "--folds", "2", "--draws", "20")
    assert (
        "Allocators over 2 cells, out of fold over fit units" in capsys.readouterr().out
    )


def test_wrong_settings_are_refused(cell):
    with pytest.raises(InputError, match="two folds or more; found 1"):
        flat_rows(
            out_of_fold.OUT_OF_FOLD,
            study_cells({"cell": cell}),
            allocators=["gate-ridge"],
            folds=1,
        )
    with pytest.raises(InputError, match="found 'lots'; did you mean 'lost'"):
        flat_rows(
            out_of_fold.OUT_OF_FOLD, study_cells({"cell": cell}), allocators=["lots"]
        )
    with pytest.raises(
        InputError,
        match="--versus must be judged too, one of best, random, lost; found 'memory'",
    ):
        flat_rows(
            out_of_fold.OUT_OF_FOLD,
            study_cells({"cell": cell}),
            allocators=["lost"],
            versus="memory",
        )
