"""Submissions: what a valid one is, what is refused with which row and id, and hostile
folders that stay harmless.
"""

import doctest
import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import run
from deepval.deploy.board.cards import card_of
from deepval.deploy.board.submission_files import read_folder
from deepval.deploy.board.submissions import check, wanted
from deepval.deploy.board.tracks import read_cells
from project import ROOT
from protocol_worlds import (
    CARD,
    PAID,
    speed,
    write_card,
    write_cells,
    write_rows,
    write_submission,
)

FIRST = "braking-monocular"


@pytest.fixture(scope="module")
def folder_of_cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    write_cells(folder)
    return folder


@pytest.fixture(scope="module")
def cells(folder_of_cells):
    return read_cells(folder_of_cells)


@pytest.fixture
def folder(tmp_path, cells):
    return write_submission(tmp_path / "mine", cells, speed)


def problem_of(folder, cells) -> str:
    """What the reader says, in this process: children are slow to start."""
    (problem,) = read_folder(folder, wanted(cells)).problems
    assert str(folder) not in problem
    return problem


def rows_of(cell):
    return list(zip(cell.scored.input, speed(cell), strict=True))


def test_a_valid_submission_is_read_by_id_whatever_its_row_order(folder, cells):
    cell = cells[FIRST]
    write_rows(folder / "scores" / f"{FIRST}.csv", reversed(rows_of(cell)))
    checked = check(folder, cells)
    assert checked.problems == ()
    assert np.array_equal(checked.submission.scores[FIRST].values, speed(cell))
    assert set(checked.submission.files) == {
        "card.toml",
        *(f"scores/{name}.csv" for name in cells),
    }
    assert checked.submission.card.key == "lab/Mine"


def test_parquet_gives_the_same_scores_as_csv(folder, cells):
    cell, by_csv = cells[FIRST], check(folder, cells).submission
    (folder / "scores" / f"{FIRST}.csv").unlink()
    table = pa.table({"input": cell.scored.input.tolist(), "score": speed(cell)})
    pq.write_table(table, folder / "scores" / f"{FIRST}.parquet")
    again = check(folder, cells).submission
    assert again.scores[FIRST].digest == by_csv.scores[FIRST].digest
    assert np.array_equal(again.scores[FIRST].values, speed(cell))


def test_a_missing_score_names_the_input_and_its_unit(folder, cells):
    cell = cells[FIRST]
    write_rows(folder / "scores" / f"{FIRST}.csv", rows_of(cell)[:-3])
    said = problem_of(folder, cells)
    assert (
        f"input {str(cell.scored.input[-3])!r} of unit 'scene-19' "
        "has none, nor have 2 more"
    ) in said
    assert said.startswith(
        f"scores/{FIRST}.csv: every validation and test input needs a score"
    )


def test_a_training_input_is_refused_with_row_id_and_unit(folder, cells):
    cell = cells[FIRST]
    unit = cell.split.train[0]
    extra = cell.table.input[cell.table.unit_ids[cell.table.unit] == unit][0]
    write_rows(folder / "scores" / f"{FIRST}.csv", [*rows_of(cell), (extra, 1.0)])
    row = len(cell.scored) + 1
    assert (
        f"row {row} (input {str(extra)!r}) belongs to training unit {unit!r}"
        in problem_of(folder, cells)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: [*rows, rows[0]], "stands in rows 1 and 145"),
        (
            lambda rows: [(rows[0][0], float("nan")), *rows[1:]],
            "row 1 (input {first!r}) holds nan",
        ),
        (lambda rows: [*rows[1:], ("nobody", 1.0)], "row 144 (input 'nobody')"),
    ],
)
def test_repeated_unknown_and_nan_scores_name_their_row(folder, cells, change, said):
    rows = rows_of(cells[FIRST])
    assert len(rows) == 144  # 6 test and 3 validation scenes of 16 frames
    write_rows(folder / "scores" / f"{FIRST}.csv", change(rows))
    assert said.format(first=str(rows[0][0])) in problem_of(folder, cells)


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        (
            "handle",
            [
                "a b",
                "a ",
                " a",
                "a\u00a0b",
                "a\u200bb",
                "a_b",
                "a.b",
                "a--b",
                "-a",
                "a-",
                "A",
                "\u0430",
                "a\n",
                "x" * 40,
            ],
        ),
        (
            "name",
            [
                "A  b",
                "A ",
                " A",
                "A\u00a0b",
                "A\u200bb",
                "A\tb",
                "A\n",
                "\u0410",
                "all full",
                "Ran dom",
                "x" * 61,
            ],
        ),
    ],
)
def test_a_handle_and_a_name_have_one_plain_spelling(entry, texts):
    for text in texts:
        card, problems = card_of({**CARD, entry: text})
        assert card is None
        assert f"{entry!r} must be text of at most" in problems[0]
    for text in ("a", "a-b-1", "x" * 39):
        assert card_of({**CARD, entry: text})[0] is not None


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"name": "=cmd()"}, "'name' must be text of at most 60"),
        (
            {"inputs": ["ego", "reference"]},
            "declares 'reference', unknown before escalation",
        ),
        ({"inputs": ["telepathy"]}, "found 'telepathy'"),
        ({"inputs": "ego"}, "'inputs' must list"),
        ({"cells": ["../braking"]}, "'cells' must be a list"),
        ({"notes": "x" * 2001}, "at most 2,000 characters"),
        ({"ndg": 0.99}, "found 'ndg' (results are computed, never reported)"),
        ({"costs": {}}, "'ms' is missing under [costs.jetson-agx-xavier]"),
        (
            {"costs": {"jetson-agx-xavier": {**PAID["jetson-agx-xavier"], "ms": -1}}},
            "found -1",
        ),
        (
            {"costs": {"jetson-agx-xavier": {"ms": 1, "served": "single"}}},
            "how the cost was measured",
        ),
        (
            {"costs": {"jetson-agx-xavier": {"ms": 1, "measured": "by ear"}}},
            "'served' must be one of",
        ),
    ],
)
def test_card_faults(folder, cells, entries, said):
    write_card(folder, **entries)
    assert said in problem_of(folder, cells)


class Trap:
    """Would create a file if it were ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def hostile_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Trap(path.parents[2] / "executed")))


def hostile_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", b"\0" * 50_000_000)
    assert path.stat().st_size < 100_000


def hostile_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 * 2**30)


def hostile_rows(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"input,score\n")
        for _ in range(100):
            file.write(b"a,1\n" * 100_000)


def hostile_header(path: Path) -> None:
    path.write_bytes(b"a," * 5_000_000 + b"\n")


def hostile_long_id(path: Path) -> None:
    path.write_bytes(b"input,score\n" + b"x" * 900_000 + b",1\n" + b"y,1\n" * 100)


def hostile_line(path: Path) -> None:
    path.write_bytes(b"input,score\n" + b"x" * 60_000_000)


def hostile_zeros(path: Path) -> None:
    path.write_bytes(b"input,score\n" + b"\0" * 20_000_000)


def hostile_formula(path: Path) -> None:
    path.write_bytes(b"input,score\na,=cmd()\n")


def hostile_footer(path: Path) -> None:
    path.write_bytes(
        b"PAR1" + b"\0" * 100 + (2**31 - 1).to_bytes(4, "little") + b"PAR1"
    )


def hostile_rows_parquet(path: Path) -> None:
    zeros = pa.array(np.zeros(10_000_000, dtype=np.int64))
    pq.write_table(pa.table({"input": zeros, "score": zeros}), path, compression="zstd")
    assert path.stat().st_size < 2**20


def hostile_repeated_text(path: Path) -> None:
    """One long text in every row: small as a dictionary, 1.4 GB if spread out as
    fixed-width rows.
    """
    ids = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(300, dtype=np.int32)), pa.array(["x" * 1_200_000])
    )
    pq.write_table(
        pa.table({"input": ids, "score": np.zeros(300)}), path, compression="zstd"
    )
    assert path.stat().st_size < 2**20


def hostile_nested(path: Path) -> None:
    pq.write_table(pa.table({"input": ["a"], "score": [[1.0, 2.0]]}), path)


def hostile_columns(path: Path) -> None:
    pq.write_table(pa.table({"input": ["a"], "score": [1.0], "=cmd()": [1.0]}), path)


HOSTILE = {
    "pickle.parquet": (
        hostile_pickle,
        "must be a Parquet file, whatever its name says",
    ),
    "zip bomb.parquet": (hostile_archive, "it starts with b'PK"),
    "sparse.parquet": (
        hostile_sparse,
        "may have 67,108,864 bytes; found 2,147,483,648",
    ),
    "sparse.csv": (hostile_sparse, "may have 67,108,864 bytes; found 2,147,483,648"),
    "junk.csv": (hostile_rows, "one row per input of the cell, 320; found more"),
    "wide.csv": (hostile_header, "the first line must name columns among input, score"),
    "long.csv": (hostile_long_id, "an id may have 200 characters; row 1 has 900,000"),
    "line.csv": (
        hostile_line,
        "scores/braking-monocular.csv: rows must be equally long; row 1 has 1 cells",
    ),
    "zeros.csv": (hostile_zeros, "scores/braking-monocular.csv: "),
    "formula.csv": (hostile_formula, "row 1 (input 'a')"),
    "footer.parquet": (hostile_footer, "it says 2,147,483,647"),
    "rows.parquet": (hostile_rows_parquet, "its footer says 10,000,000"),
    "text.parquet": (
        hostile_repeated_text,
        "an id may have 200 characters; row 1 has 1,200,000",
    ),
    "nested.parquet": (hostile_nested, "columns must be among input, score"),
    "formula.parquet": (hostile_columns, "columns must be among input, score"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused_and_nothing_runs(folder, cells, kind):
    make, said = HOSTILE[kind]
    (folder / "scores" / f"{FIRST}.csv").unlink()
    make(folder / "scores" / f"{FIRST}{Path(kind).suffix}")
    assert said in problem_of(folder, cells)
    assert check(folder, cells).problems == (problem_of(folder, cells),)
    assert not (folder.parent / "executed").exists()


def test_a_cut_parquet_file_is_refused(folder, cells):
    cell = cells[FIRST]
    (folder / "scores" / f"{FIRST}.csv").unlink()
    path = folder / "scores" / f"{FIRST}.parquet"
    pq.write_table(
        pa.table({"input": cell.scored.input.tolist(), "score": speed(cell)}), path
    )
    data = bytearray(path.read_bytes())
    data[40:400] = bytes(360)
    path.write_bytes(data)
    assert "scores/braking-monocular.parquet" in problem_of(folder, cells)


def test_links_devices_and_strangers_are_refused(folder, cells, tmp_path):
    def refused(make, name):
        place = folder / name
        make(place)
        said = problem_of(folder, cells)
        place.unlink()
        return said

    (tmp_path / "secret.csv").write_text("input,score\n")
    assert "not a link" in refused(
        lambda p: p.symlink_to(tmp_path / "secret.csv"), "scores/link.csv"
    )
    assert "not a link" in refused(
        lambda p: p.symlink_to("../../secret.csv"), "scores/up.csv"
    )
    assert "not a link, a folder or a device" in refused(os.mkfifo, "scores/pipe.csv")
    assert "holds card.toml and scores/" in refused(
        lambda p: p.write_text("import os"), "run.py"
    )
    assert "holds card.toml and scores/" in refused(
        lambda p: p.symlink_to("/etc"), "etc"
    )
    assert "must be called <cell>.csv" in refused(
        lambda p: p.write_bytes(b""), "scores/x.pkl"
    )
    assert "must be called <cell>.csv" in refused(
        lambda p: p.write_text(""), "scores/unknown.csv"
    )
    said = refused(lambda p: p.write_text(""), "<script>alert(1)</script>"[:8] + ".csv")
    assert said.startswith("'<script>.csv': a submission holds")
    scores = folder / "scores"
    scores.rename(tmp_path / "elsewhere")
    scores.symlink_to(tmp_path / "elsewhere")
    assert "holds card.toml and scores/" in problem_of(folder, cells)


def test_too_many_files_are_not_even_listed(folder, cells):
    for number in range(201):
        (folder / "scores" / f"{number}.csv").touch()
    assert "may hold 200 files" in problem_of(folder, cells)


def test_the_command_exits_2_with_one_sentence(folder, folder_of_cells, cells):
    done = run("check", folder, "--cells", folder_of_cells)
    assert (done.code, done.out) == (0, "lab/Mine: valid; 288 scores on 2 cells.\n")
    write_card(folder, cells=[])
    noted = run("check", folder, "--cells", folder_of_cells, "--json")
    assert len(json.loads(noted.out)["notes"]) == len(cells)  # scored and not declared
    write_card(folder, name="=cmd()")
    done = run("check", folder, "--cells", folder_of_cells, "--json")
    assert done.code == 2
    assert done.err == "deepval: mine: must be a valid submission; found 1 problem.\n"
    assert json.loads(done.out)["problems"] == list(check(folder, cells).problems)
    assert run("check", folder, "--cells", folder).code == 2
    assert "Example: deepval check submissions/mine" in run("check", "--help").out


def test_cells_lists_every_track():
    done = run("cells", "--json")
    assert [track["track"] for track in json.loads(done.out)] == [
        "core",
        "external",
        "kitti-public",
        "synthetic",
    ]
    assert run("cells", "none").code == 2
    assert run("cells", "--data", "nowhere").code == 2
    assert "Example: deepval cells" in run("cells", "--help").out


def test_the_page_on_submitting_is_right(folder_of_cells, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "submit.md").read_text(encoding="utf-8")
    code, example = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "cells").symlink_to(folder_of_cells)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "submit.md", "exec"), {})
    commands = [
        line.split()[1:]
        for line in page.splitlines()
        if re.match("deepval (check|leaderboard) ", line)
    ]
    assert [words[0] for words in commands] == ["check", "leaderboard"]
    told = run(*commands[0])
    assert (told.code, told.out) == (
        0,
        "example-lab/Ego speed: valid; 288 scores on 2 cells.\n",
    )
    assert run(*commands[1], "--draws", 20).code == 0
    (track,) = json.loads(
        (tmp_path / "leaderboard" / "leaderboard.json").read_text(encoding="utf-8")
    )["tracks"]
    assert {row["kind"] for row in track["overall"]} == {
        "selection",
        "latency",
        "energy",
    }
    test = doctest.DocTestParser().get_doctest(example, {}, "submit.md", None, None)
    assert doctest.DocTestRunner().run(test) == (0, 5)
