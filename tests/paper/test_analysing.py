"""`deepval analyse`: one command per analysis, in every form, the same rows as in
Python.
"""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from commands import call
from deepval.basics.errors import InputError, InputWarning, NothingToLearnError
from deepval.judge.cases import LEDGER, openings
from deepval.paper import analysis
from deepval.paper.analyses import seeds
from deepval.paper.tidy import Column
from small_cells import build_cells, read_cells
from tidy_rows import flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")


ANALYSES = [name for name in analysis.ANALYSES if name not in analysis.REPORT_ONLY]


@pytest.fixture(scope="module")
def cells(tmp_path_factory) -> Path:
    return build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",))


@pytest.mark.parametrize("name", analysis.ANALYSES)
def test_an_analysis_that_judges_scores_or_test_units_is_counted(name):
    declared = analysis.analysis(name)
    fields = [field for fields in declared.meanings.values() for field in fields]
    parts = set(declared.asks)
    judged_parts = {
        "results",
        "free",
        "diagnostic_results",
        "charged",
        "skipping",
        "causal",
        "streamed",
        "relabelled",
    }
    scores = {"aligned", "scores", "train_scores", "scores_with_cost", "diagnostics"}
    judges = (
        declared.settings.get("units") == "test"
        or bool(parts & (scores | judged_parts))
        or any("verdict" in column or "ndg" in column for column in fields)
        # it fits gates and judges them on test units; its rows have one column per
        # target
        or name == "targets"
    )
    if name == "ties":  # counts equal scores; no loss is judged by them
        judges = False
    assert (declared.judges or bool(parts & judged_parts)) == judges


def test_looks_at_test_units_are_on_record(tmp_path):
    modes = [word for size in (320, 512, 640) for word in ("--mode", f"yolov8s-{size}")]
    call("build", *modes, "--units", "scene-00,scene-01,scene-04", "--out", tmp_path)
    cell = read_cells(tmp_path / "braking-monocular")["braking-monocular"]
    charged = ("--costs", "jetson-agx-xavier", "--alpha", "0.2")
    for name, words in (
        ("ladder", charged),
        ("capacity", ()),
        ("robustness", ("--draws", "20")),
    ):
        before = openings(cell.folder, cell.id)
        for units, number in (("train", 0), ("all", 1)):
            call("analyse", name, cell.folder, *words, "--units", units)
            assert openings(cell.folder, cell.id) == before + number
        call("analyse", name, cell.folder, *words)
        lines = [
            json.loads(line) for line in (cell.folder / LEDGER).read_text().splitlines()
        ][before:]
        assert [line["by"] for line in lines] == [f"analyse {name}"] * 2
        assert {tuple(line["test_units"]) for line in lines} == {cell.split.test}


def test_a_half_done_analysis_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(analysis, "ANALYSES", (*analysis.ANALYSES, "contrasts"))
    with pytest.raises(
        TypeError, match=r"paper.analyses.contrasts must declare CONTRASTS = Analysis"
    ):
        analysis.analysis("contrasts")
    declared = analysis.analysis("signs")

    def odd(cells, *, strange=1):
        yield {"cell": "one", "strange": strange}

    columns = (Column("cell", "The cell"), Column("other", "Something else"))
    with pytest.raises(ValueError, match="rows and columns differ in other, strange"):
        replace(declared, rows=odd, columns=columns).run([])


def test_a_study_of_seeds_leaves_out_what_has_nothing_to_learn(cells, monkeypatch):
    fit = seeds.fit_on

    def taught(cell, recipe, **options):
        if recipe == "gate-gbm":
            raise NothingToLearnError("gate-gbm: all 120 have label 0.")
        return fit(cell, recipe, **options)

    monkeypatch.setattr(seeds, "fit_on", taught)
    built = read_cells(cells / "braking-monocular")
    with pytest.warns(
        InputWarning,
        match="braking-monocular, left out: gate-gbm: all 120 have label 0",
    ):
        found = flat_rows(
            seeds.SEEDS,
            study_cells(built),
            recipes=["gate-gbm", "gate-ridge"],
            seeds=1,
            draws=5,
        )
    assert [(row.cell, row.allocator) for row in found] == [
        ("braking-monocular", "gate-ridge")
    ]


def test_forms_tell_the_rows_of_the_python_call(cells, tmp_path, capsys):
    cell = cells / "braking-monocular"
    words = ("seeds", cell, "-a", "gate-ridge", "--seeds", "2")
    found = flat_rows(
        seeds.SEEDS, study_cells(read_cells(cell)), recipes=["gate-ridge"], seeds=2
    )
    call("analyse", *words, "--json")
    source = {
        "provenance": {
            "braking-monocular": read_cells(cell)["braking-monocular"].provenance
        }
    }
    assert json.loads(capsys.readouterr().out) == json.loads(
        json.dumps([row.fields | source for row in found])
    )
    call("analyse", *words, "--out", tmp_path / "rows.csv")
    assert "Written to" in capsys.readouterr().out
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert [row["cell"], row["allocator"], row["seeds"]] == [
        "braking-monocular",
        "gate-ridge",
        "0 1",
    ]
    assert [float(value) for value in row["ndg"].split()] == list(found[0].ndg)
    for form, sign in [
        ("text", "Training seeds, over test units"),
        ("markdown", "| --- |"),
        ("latex", r"\toprule"),
    ]:
        call("analyse", *words, "--format", form)
        assert sign in capsys.readouterr().out


def test_rows_state_id_and_split_of_their_cells(tmp_path, capsys):
    folders = sorted(build_cells(tmp_path / "cells").iterdir())
    cells = read_cells(*folders)
    sources = {
        name: {"cell": cell.id, "split": cell.split.digest}
        for name, cell in cells.items()
    }
    assert len({source["cell"] for source in sources.values()}) == 2

    def content(name, *words):
        call("analyse", name, *words, "--json")
        return json.loads(capsys.readouterr().out)

    for row in content("signs", *folders):
        assert row["provenance"] == {row["cell"]: sources[row["cell"]]}
    for row in content("consumers", *folders):
        assert row["provenance"] == {
            name: sources[name] for name in (row["first"], row["second"])
        }
    for folder in folders:
        call("score", folder, "ego-speed")
        call("evaluate", folder, "--draws", "20", "--out", folder / "result.json")
    capsys.readouterr()
    for row in content("wins", *folders):  # rows over cells state all of them
        assert row["provenance"] == sources
    saved = [str(folder / "result.json") for folder in folders]
    for row in content("concentration", *saved):
        assert row["provenance"] == {
            row["cell"]: sources[Path(row["cell"]).parent.name]
        }
    whole = content("targets", *folders, "--gate", "gate-ridge")
    assert whole["provenance"] == sources


def test_a_cell_given_twice_is_refused(cells):
    with pytest.raises(InputError, match="one is named twice"):
        call("analyse", "seeds", cells, cells / "braking-monocular", "-a", "gate-ridge")
