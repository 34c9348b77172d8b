"""Tables of the paper: its rows and columns, and the figures of cells in them."""

import csv
import json
import re

import pytest

from commands import run
from deepval.basics.errors import InputError
from deepval.paper.layouts import LAYOUTS
from deepval.paper.run import Run
from deepval.paper.tables import TABLES, analyses_of, paper_tables
from shared import shared_data
from small_cells import build_cells

NOTHING = Run(cells=(), lacking={}, outcomes={}, idle={})
"""A run without cells: with `beside`, the paper's own figures alone are shown."""


def papers_rows(name):
    """Rows of a table as the paper has them: what stands behind the bars."""
    (table,) = paper_tables(name, NOTHING, {}, beside=True)
    return [[re.sub(r"– \| ", "", cell.text) for cell in row] for row in table.rows]


def test_every_table_of_the_paper_has_a_name():
    assert len(TABLES) == 17
    assert {*LAYOUTS, "overhead", "hardware"} == {*TABLES}
    for name in TABLES:
        assert analyses_of(name) or name == "hardware"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "ceiling",
            [
                "KITTI, q_traj, mono",
                "YOLOv8s 512->640",
                *("266", "53.8%", "1.11", "-0.59%", "5.16%"),
            ],
        ),
        (
            "heldout",
            [
                "KITTI oracle, q_traj",
                *("0.199", "0.795", "0.031", "0.015", "0.455", "0.538"),
            ],
        ),
        ("robust", ["KITTI/Y8 320->640 mono", "lateral", "-0.230", "-0.118"]),
        (
            "external",
            ["IDM", "collision", "1", "0.0%", "0.00", "1.61% / 1.61%"],
        ),
        (
            "signagree",
            [
                "Combined error (E_5)",
                *("+0.08", "19.2%", "32.6%", "+0.01", "51.0%", "50.6%"),
            ],
        ),
        ("calib", ["nuScenes mono, q_plan", "49.3% / 0.71", "49.6% / 0.83"]),
        ("losssens", ["nuScenes, oracle", "35.5–36.2", "0.28–0.62"]),
    ],
)
def test_a_row_has_the_papers_name_and_figures(name, row):
    assert row in [found[: len(row)] for found in papers_rows(name)]


def test_rows_of_other_analyses_are_not_of_a_table():
    row = {"cheap": "a", "full": "b", "geometry": "monocular", "system": "lateral"}
    records = {"robustness": {"kitti": [{**row, "fn_ndg": 0.5, "multi_ndg": 0.5}]}}
    (found,) = paper_tables("ceiling", NOTHING, records, beside=True)
    assert len(found.rows) == len(papers_rows("ceiling"))
    (found,) = paper_tables("robust", NOTHING, records, beside=True)
    assert len(found.rows) == len(papers_rows("robust")) + 1
    assert found.rows[-1][0].text.startswith("KITTI/")


@pytest.mark.shared
@pytest.mark.parametrize("name", ["heldout", "routers", "diag-heldout", "calib"])
def test_rows_are_in_the_papers_order(name):
    """The names of the rows are those of the paper's file, one after another."""
    file = shared_data("README.md").parents[1] / "paper" / "tables" / f"{name}.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        names = [row[0] for row in csv.reader(lines)]
    assert [row[0] for row in papers_rows(name)] == names[names.index("Cell") + 1 :]


def test_figures_of_cells_stand_in_their_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo_cells = [build_cells(tmp_path / "cells", units=("scene-00", "scene-01"))]
    done = run("table", "ceiling", *demo_cells, "--format", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    signs = json.loads(run("analyse", "signs", *demo_cells, "--json").out)
    assert len(rows) == len(signs)
    for row, sign in zip(rows, signs, strict=True):
        assert row["Affected"] == sign["affected"]
        assert row["Harmed"] == f"{100 * sign['harm_rate']:.1f}%"
        assert row["rho"] == pytest.approx(sign["harm_ratio"], abs=0.005)
    markdown = run("table", "ceiling", *demo_cells, "-o", "t.md")
    assert markdown.code == 0
    assert (tmp_path / "t.md").read_text(encoding="utf-8").count("|") > 10
    latex = run("table", "refgeom", *demo_cells, "--format", "latex")
    # The demo's cells are of another data set than the table of geometries.
    assert latex.code == 2
    assert "needs cells" in latex.err


def test_an_unknown_table_is_refused():
    with pytest.raises(InputError, match="did you mean 'ceiling'"):
        analyses_of("cieling")
    assert run("table", "hardware").out.count("YOLOv8s") == 4


@pytest.mark.filterwarnings("ignore:.*nothing to learn:deepval.InputWarning")
def test_the_papers_allocators_have_one_name(tmp_path):
    cell = build_cells(tmp_path)
    cell = cell / "braking-monocular"
    fitted = run("fit", cell, "-a", "paper")
    assert fitted.code == 0, fitted.err
    scored = run("score", cell, "paper", "--units", "all")
    assert scored.code == 0, scored.err
    names = {path.stem for path in (cell / "scores").iterdir()}
    assert len(names) == 9  # with random, which every judgement has, ten
    assert run("score", cell, "paper", "-o", tmp_path / "a.csv").code == 2
