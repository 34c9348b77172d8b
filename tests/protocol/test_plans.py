"""Comparisons are declared before they are made: hashes that nobody bends, and looks at
test units that are counted.
"""

import errno
import json
import os

import pytest

from commands import call
from deepval.cells.build import cells
from deepval.cells.folder import read_cell, write
from deepval.cells.judgement import LEDGER, note, openings
from deepval.cells.spec import Material, ModeSpec
from deepval.datasets import DATASETS
from deepval.errors import InputError, InputWarning
from deepval.files.writing import append_line
from deepval.protocol import plans
from deepval.results import BudgetKey
from deepval.systems import SYSTEMS
from driving import Lidar
from worlds import quietly
from yard import Follow, Yard

MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (5.0, 30.0)
)


@pytest.fixture
def cell(tmp_path, monkeypatch):
    """A cell with the scores of two allocators beside it."""
    monkeypatch.setitem(DATASETS, "yard", Yard)
    monkeypatch.setitem(SYSTEMS, "follow", Follow())
    monkeypatch.chdir(tmp_path)
    (made,) = cells(
        Material(Yard(), MODES, Yard().select(None)),
        geometries=["cuboids"],
        systems=["follow"],
    )
    write(made, tmp_path / "cell")
    (tmp_path / "cell" / "scores").mkdir()
    for name, score in (
        ("good", made.table.decision_values),
        ("bad", -made.table.decision_values),
    ):
        rows = [f"{i},{v}" for i, v in zip(made.table.input, score, strict=True)]
        (tmp_path / "cell" / "scores" / f"{name}.csv").write_text(
            "\n".join(["input,score", *rows]) + "\n"
        )
    return read_cell(tmp_path / "cell")


def planned(cell_id, **more):
    words = {
        "candidate": "good",
        "baseline": "bad",
        "cells": [cell_id],
        "alphas": [0.2],
        **more,
    }
    return "\n".join(
        [
            "[[comparison]]",
            *(f"{key} = {json.dumps(value)}" for key, value in words.items()),
            "",
        ]
    )


def run(*words):
    return quietly(call, *words)


def test_looks_at_test_units_are_counted_and_change_neither_cell_nor_result(
    cell, tmp_path
):
    judged = "evaluate", cell.folder, "--json", "--draws", "20"
    first = run(*judged)
    assert openings(cell.folder, cell.id) == 1
    assert run(*judged) == first
    run("compare", cell.folder, "good", "bad", "--draws", "20")
    run("diagnose", cell.folder, "--draws", "20")
    assert openings(cell.folder, cell.id) == 4
    run(*judged, "--units", "validation")
    assert openings(cell.folder, cell.id) == 4, "other units are nobody's answer"
    again = read_cell(cell.folder)
    assert (again.digest, again.id) == (cell.digest, cell.id)
    lines = [
        json.loads(line) for line in (cell.folder / LEDGER).read_text().splitlines()
    ]
    assert [line["by"] for line in lines] == [
        "evaluate",
        "evaluate",
        "compare",
        "diagnose",
    ]
    assert lines[0] == lines[1]
    assert lines[0]["test_units"] == list(cell.split.test)
    assert openings(cell.folder, "another cell") == 0


def test_a_look_that_cannot_be_counted_is_told(cell):
    (cell.folder / LEDGER).mkdir()
    with pytest.warns(InputWarning, match="not counted"):
        note(cell, by="evaluate", units=None, scores={})
    (cell.folder / LEDGER).rmdir()
    (cell.folder / LEDGER).write_text("nonsense\n")
    with pytest.raises(InputError, match="must be a ledger that deepval wrote"):
        openings(cell.folder, cell.id)


def test_a_look_is_counted_or_the_command_fails(cell, monkeypatch):
    """On a full disk nothing is judged, and the ledger stays as it was."""
    judged = "evaluate", cell.folder, "--json", "--draws", "20"
    run(*judged)
    before, write = (cell.folder / LEDGER).read_bytes(), os.write

    def full(handle, data):
        if len(data) < 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, bytes(data)[:-4])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(
            InputError,
            match=r"opened\.jsonl: must be a file .* No space left on device",
        ):
            run(*judged)
    assert (cell.folder / LEDGER).read_bytes() == before
    run(*judged)
    assert openings(cell.folder, cell.id) == 2


def test_register_names_the_line_that_was_cut_off_and_what_to_do(cell, tmp_path):
    (tmp_path / "plan.toml").write_text(planned(cell.id))
    note(cell, by="evaluate", units=None, scores={})
    ledger = cell.folder / LEDGER
    ledger.write_bytes(2 * ledger.read_bytes() + b'{"by":"eval')
    with pytest.raises(
        InputError, match=r"line 3 is no look at test units.*remove it with `sed -i 3d "
    ):
        run("compare", "--register", tmp_path / "plan.toml", cell.folder)


def test_a_plan_is_followed(cell, tmp_path, capsys):
    path = tmp_path / "plan.toml"
    path.write_text(
        planned(cell.id)
        + planned(cell.id, baseline="random", alphas=[0.2, 0.9], direction="worse")
    )
    words = "compare", cell.folder, "good", "bad", "--draws", "20", "--plan", path
    with pytest.raises(InputError, match="must be registered as it is before"):
        run(*words)
    assert openings(cell.folder, cell.id) == 0
    text = run("compare", "--register", path, cell.folder)
    assert "registered with no look at its test units on record" in text
    said = " ".join(run(*words).split())
    assert "Not planned: 3 of 4 comparisons" in said
    assert "not made here" in said
    assert "one look at its test units on record by now" in said
    judged = run("evaluate", cell.folder, "--draws", "20", "--plan", path, "--json")
    assert json.loads(judged)["schema"] == "deepval/result/1"
    assert "Not planned: 7 of 8 comparisons" in " ".join(
        capsys.readouterr().err.split()
    )
    other = run(
        "evaluate",
        cell.folder,
        "--draws",
        "20",
        "--plan",
        path,
        "--units",
        "validation",
    )
    assert "The plan is about test units only" in other
    path.write_text(planned(cell.id, direction="different"))
    with pytest.raises(InputError, match="must be registered as it is before"):
        run(*words)
    changed = json.loads(run("compare", "--register", path, cell.folder, "--json"))
    assert changed["opened"] == {cell.id: 2}
    assert len(plans.registrations(path)) == 2
    with pytest.raises(InputError, match="a values file has none"):
        run(
            "compare",
            cell.folder / "values.parquet",
            *[cell.folder / "scores" / f"{n}.csv" for n in ("good", "bad")],
            "--plan",
            path,
        )


def test_registering_twice_keeps_the_first_and_altered_logs_are_refused(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(planned("some-cell"))
    first = plans.register(path, {"some-cell": 0})
    assert plans.register(path, {"some-cell": 5}) == first
    assert plans.register(path, {}).opened == {"some-cell": 0}
    path.write_text(
        "# A remark, and another order.\n"
        + planned("some-cell", of="gain", direction="better")
    )
    assert plans.read_plan(path).digest == first.plan, "the hash is of what is declared"
    path.write_text(planned("some-cell", alphas=[0.3]))
    plans.register(path, {})
    log = plans.log_path(path)
    lines = log.read_text().splitlines(keepends=True)
    assert [json.loads(line)["opened"] for line in lines] == [
        {"some-cell": 0},
        {"some-cell": None},
    ]
    for text, place in (
        (lines[1], 1),
        (lines[0].replace('"good"', '"mine"') + lines[1], 1),
    ):
        log.write_text(text)
        with pytest.raises(InputError, match=f"line {place} was altered"):
            plans.registrations(path)
    log.write_text("{}\n")
    with pytest.raises(
        InputError, match="must be a log that `deepval compare --register` wrote"
    ):
        plans.registrations(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "tables .*found no"),
        ("title = 1\n" + planned("c"), "nothing else; found title"),
        ("[[comparison]]\ncandidate = 'a'\n", "'baseline' is missing"),
        (planned("c", budgets=["latency"]), "'budgets' is none of them"),
        (
            planned("c", direction="up"),
            "direction must be one of better, worse, different; found 'up'",
        ),
        (planned("c", alphas=[]), "alphas must be a list that is not empty"),
        (planned("c", alphas=[20]), "alpha must be a share"),
        (planned(""), "must be names"),
    ],
)
def test_plans_that_are_none_are_refused(tmp_path, text, sentence):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        plans.read_plan(path)


def test_what_bears_out_a_plan():
    item = plans.Planned("a", "b", ("x", "y"), (0.2, 0.5), direction="different")
    plan = plans.ComparisonPlan((item,))
    key = BudgetKey("selection", 0.2)
    made = [
        plans.Made("a", "b", ("x", "y"), key, "gain", "worse"),
        plans.Made("a", "b", ("x",), key, "gain", "better"),
    ]
    assert [(o.alpha, o.verdict, o.as_expected) for o in plan.outcomes(made)] == [
        (0.2, "worse", True),
        (0.5, None, None),
    ]
    assert plan.unplanned(made) == made[1:]


def test_lines_of_many_writers_stay_whole(tmp_path):
    path = tmp_path / "lines"
    children = []
    for name in "abcd":
        child = os.fork()
        if not child:
            for _ in range(50):
                append_line(path, name * 300)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    lines = path.read_text().splitlines()
    assert len(lines) == 200
    assert all(line in {name * 300 for name in "abcd"} for line in lines)
    with pytest.raises(InputError, match="can be written"):
        append_line(tmp_path / "none" / "lines", "x")
