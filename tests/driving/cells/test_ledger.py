"""Looks at test units are counted, one line each, in the ledger of a cell."""

import errno
import json
import os

import pytest

from commands import call
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files.writing import append_line
from deepval.driving.cells.build import cells
from deepval.driving.cells.folder import read_cell, write
from deepval.driving.cells.spec import Material, ModeSpec
from deepval.driving.datasets import DATASETS
from deepval.driving.systems import SYSTEMS
from deepval.judge.cases import LEDGER, note, openings
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
    run("evaluate", cell.folder, "--diagnose", "--draws", "20")
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
        "evaluate",
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
