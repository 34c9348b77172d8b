"""One stranger cannot take the board down: what a file does while it is read ends with
the process that reads it.
"""

import json
import os
import signal
from contextlib import closing

import numpy as np
import pytest

from commands import PYTHON, run_process
from deepval.basics.errors import InputError
from deepval.basics.files import canonical
from deepval.basics.files.bounded import Limits, Reader, breakdown
from deepval.basics.files.child import NO_MEMORY
from deepval.deploy.board import submissions
from deepval.deploy.board.cards import card_content
from deepval.deploy.board.leaderboard import leaderboard, write_leaderboard
from deepval.deploy.board.submission_files import read_folder
from deepval.deploy.board.submissions import READS, check, wanted
from deepval.deploy.board.tracks import read_cells
from lying_parquet import lying_parquet
from only_where import memory_is_bounded, names_are_bytes
from protocol_worlds import (
    noisy,
    speed,
    write_cells,
    write_submission,
)

CELL = "braking-monocular"
NOT_UTF8 = os.fsdecode(b"\xff\xfe")
MEMORY = "must be readable within {:,} MiB of memory; reading it takes more."


@pytest.fixture(scope="module")
def folder_of_cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    write_cells(folder, scenes=8, frames=12, costs=None, systems=("braking",))
    return folder


@pytest.fixture(scope="module")
def cells(folder_of_cells):
    return read_cells(folder_of_cells)


@pytest.fixture
def folder(tmp_path, cells):
    return write_submission(tmp_path / "mine", cells, speed)


def deep_card(folder):
    (folder / "card.toml").write_text("name." + "a." * 3000 + "a = 1\n")


def bare_returns(folder):
    (folder / "scores" / f"{CELL}.csv").write_bytes(
        b"input,score\n" + b"a,1\r" * 8_000_000
    )


def lying_dictionary(folder, *, frames=127):
    """Some 70 KB whose dictionary page takes 2 GiB to decompress and 8 to decode."""
    (folder / "scores" / f"{CELL}.csv").unlink()
    path = folder / "scores" / f"{CELL}.parquet"
    path.write_bytes(lying_parquet(rows=96, frames=frames))
    assert path.stat().st_size < 100_000


@memory_is_bounded
@names_are_bytes
def test_the_board_stands_beside_four_that_took_it_down(
    folder_of_cells, cells, tmp_path
):
    entries = tmp_path / "entries"
    for name in ("good", "other", "deep", "returns", "dictionary", NOT_UTF8):
        handle = "lab" if name == NOT_UTF8 else f"lab-{name}"
        write_submission(entries / name, cells, noisy(len(name)), handle=handle)
    deep_card(entries / "deep")
    bare_returns(entries / "returns")
    lying_dictionary(entries / "dictionary")
    content = leaderboard(entries, folder_of_cells, draws=10)
    assert [item["handle"] for item in content["submissions"]] == [
        "lab-good",
        "lab-other",
    ]
    assert {item["folder"]: item["reasons"] for item in content["refused"]} == {
        "deep": [
            (
                "card.toml: must be a TOML file in UTF-8; keys and lists may nest 16 "
                "deep; line 1 goes deeper."
            )
        ],
        "returns": [
            (
                f"scores/{CELL}.csv: there may be one row per input "
                "of the cell, 96; found more."
            )
        ],
        "dictionary": [MEMORY.format(2048)],
        "'\\udcff\\udcfe'": ["the folder's name must be UTF-8 text; rename it."],
    }
    write_leaderboard(content, tmp_path / "with")
    for name in ("deep", "returns", "dictionary", NOT_UTF8):
        (entries / name).rename(tmp_path / name)
    alone = leaderboard(entries, folder_of_cells, draws=10)
    assert {**content, "refused": []} == alone


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 32_000 + " = 1",
        "[[a" + '."a"' * 3000 + "]]",
    ],
)
def test_deep_cards_are_refused_before_they_are_parsed(text, monkeypatch):
    monkeypatch.setattr(
        canonical.tomllib, "loads", lambda _: pytest.fail("it was parsed")
    )
    with pytest.raises(
        InputError,
        match=r"keys and lists may nest 16 deep; line (1|2|3|17) goes deeper",
    ):
        card_content(text.encode())


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_rows_may_end_as_they_like_and_are_all_counted(folder, cells, end):
    cell, path = cells[CELL], folder / "scores" / f"{CELL}.csv"
    rows = [
        f"{name},{score!r}"
        for name, score in zip(cell.scored.input, speed(cell).tolist(), strict=True)
    ]
    path.write_bytes("".join(row + end for row in ("input,score", *rows)).encode())
    reading = read_folder(folder, wanted(cells))
    assert reading.problems == ()
    assert np.array_equal(reading.scores[CELL].values, speed(cell))
    # 96 rows fit; a pair of \r\n that the end of a block cuts is one row's end,
    # whatever its place.
    for wide in range(3900, 4200):
        start = f"input,score{end}{'x' * wide}{end}"
        path.write_bytes(start.encode() + f"a,1{end}".encode() * 95)
        (problem,) = read_folder(folder, wanted(cells)).problems
        assert "found more" not in problem
    path.write_bytes(start.encode() + f"a,1{end}".encode() * 96)
    (problem,) = read_folder(folder, wanted(cells)).problems
    assert "there may be one row per input of the cell, 96; found more" in problem


def test_scores_of_every_mode_come_through(folder, cells):
    """A ladder of three modes: two columns of scores."""
    table = cells[CELL].table
    modes = ("cheap", "middle", "full")
    told = submissions.WantedScores(
        type(table)(
            **{**vars(table), "modes": modes, "losses": np.zeros((len(table), 3))}
        ),
        wanted(cells)[CELL].units,
    )
    rows = [f"{name},{i},{-i}\n" for i, name in enumerate(told.scored.input)]
    (folder / "scores" / f"{CELL}.csv").write_text(
        "input,score_middle,score_full\n" + "".join(rows)
    )
    path = folder.parent / "wanted.npz"
    submissions.write_wanted(path, {CELL: told})
    with closing(Reader(READS, str(path))) as reads:
        found = submissions._check_folder(
            folder, {CELL: told}, reads, Limits()
        ).submission.scores[CELL]
    assert found.modes == ("middle", "full")
    assert found.values.tolist() == [[i, -i] for i in range(len(rows))]


@memory_is_bounded
def test_memory_is_bounded_by_what_is_asked_for(folder, cells):
    """512 MiB to decompress: too much for 400, and no matter what the machine has."""
    lying_dictionary(folder, frames=32)
    assert check(folder, cells, Limits(memory_bytes=400 * 2**20)).problems == (
        MEMORY.format(400),
    )


def bounded(code, *bounds):
    script = f"from deepval.basics.files.child import bound\nbound{bounds}\n{code}"
    return run_process(script, program=PYTHON)


def test_processor_time_and_output_are_bounded(tmp_path):
    assert bounded("while True: pass", 2**32, 1, 100).code == -signal.SIGXCPU
    bounded(f"open({str(tmp_path / 'out')!r}, 'wb').write(bytes(1000))", 2**32, 60, 100)
    assert (tmp_path / "out").stat().st_size == 100


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (NO_MEMORY, MEMORY.format(2048)),
        (
            -signal.SIGXCPU,
            "must be readable within 60 s of processor time; reading it takes more.",
        ),
        (-signal.SIGSEGV, "must be readable; its reader broke off (signal 11)."),
        (1, "must be readable; its reader broke off (exit code 1)."),
    ],
)
def test_a_reader_that_breaks_off_is_a_reason(code, said):
    assert breakdown(code, Limits()) == said


def told(**other):
    about = {"name": "Mine", "handle": "lab", "inputs": ["ego"]}
    head = {
        "problems": [],
        "card": about,
        "files": {},
        "remarks": [],
        "scores": [[CELL, "x", 1]],
        "allocator": None,
        **other,
    }
    return json.dumps(head | other).encode() + b"\n"


NUMBERS = bytes(8 * 36)


@pytest.mark.parametrize(
    "said",
    [
        b"",
    ],
)
def test_a_reader_that_lies_is_not_believed(folder, cells, monkeypatch, said):
    assert len(cells[CELL].scored) == 36
    monkeypatch.setattr(submissions.Reader, "answer", lambda *_: told() + NUMBERS)
    assert check(folder, cells).submission.card.key == "lab/Mine"
    monkeypatch.setattr(submissions.Reader, "answer", lambda *_: said)
    assert check(folder, cells).submission is None
