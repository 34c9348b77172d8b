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
from deepval.errors import InputError, one_line
from deepval.files import canonical
from deepval.files.bounded import Limits, Reader, breakdown
from deepval.files.canonical import json_content
from deepval.files.child import NO_MEMORY
from deepval.protocol import submissions
from deepval.protocol.cards import card_content
from deepval.protocol.leaderboard import leaderboard, write_leaderboard
from deepval.protocol.submission_files import read_folder
from deepval.protocol.submissions import READS, check, check_all, wanted
from deepval.protocol.tracks import read_cells
from lying_parquet import lying_parquet
from only_where import memory_is_bounded, names_are_bytes
from protocol_worlds import (
    noisy,
    speed,
    write_card,
    write_cells,
    write_rows,
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


@memory_is_bounded
@names_are_bytes
@pytest.mark.parametrize("spoil", [deep_card, bare_returns, lying_dictionary])
def test_a_check_reports_it_without_a_traceback(folder, folder_of_cells, spoil):
    spoil(folder)
    home = folder.with_name(NOT_UTF8) if spoil is bare_returns else folder
    folder.rename(home)
    done = run_process("leaderboard", home, "--check", "--cells", folder_of_cells)
    assert done.code == 2
    assert done.err.endswith("must be a valid submission; found 1 problem.\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 32_000 + " = 1",
        "[a" + ".a" * 3000 + "]",
        "[[a" + '."a"' * 3000 + "]]",
        'x = 1\ny = [\n  { "a"' + ".'b'" * 3000 + " = 1 } ]",
        "x = " + "[" * 3000 + "]" * 3000,
        "x = [\n" * 3000,
        'x = { a = """b"""", c' + ".c" * 3000 + ' = "d" }',
        "x = { a = '''b'''', c" + ".c" * 3000 + " = 'd' }",
        'x = "\\"" # "\ny' + ".y" * 3000 + ' = "d"',
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


def test_dots_and_brackets_in_texts_and_comments_nest_nothing(folder, cells):
    dots = "." * 60 + "[" * 60 + "{" * 60
    write_card(folder, notes=f"{dots} \"'#\n{dots}", cells=[CELL])
    path = folder / "card.toml"
    path.write_text(f"# {dots}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert check(folder, cells).submission.card.notes.count(".") == 120
    for mark in ('"""', "'''"):
        assert card_content(f"a = {mark}\n{dots}\n{dots}{mark}\nb.c.d = 1.5".encode())[
            "b"
        ] == {"c": {"d": 1.5}}


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


def test_a_child_says_what_the_reader_says(folder, cells):
    here, there = read_folder(folder, wanted(cells)), check(folder, cells)
    assert there.submission.files == here.files
    assert {name: found.digest for name, found in there.submission.scores.items()} == {
        name: found.digest for name, found in here.scores.items()
    }
    assert there.submission.scores[CELL].name == f"scores/{CELL}.csv"


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


def test_time_on_the_clock_is_bounded(folder, cells):
    assert check(folder, cells, Limits(wall_s=0)).problems == (
        "must be readable within 0 s; reading it takes longer.",
    )


def bounded(code, *bounds):
    script = f"from deepval.files.child import bound\nbound{bounds}\n{code}"
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
        b"[" * 100_000,
        b"{}\n",
        b"\x80\x04.\n",
        told() + NUMBERS[1:],
        told() + NUMBERS + bytes(8),
        told() + np.full(36, np.nan).tobytes(),
        told(scores=[["nowhere", "x", 1]]) + NUMBERS,
        told(card={"name": "<script>"}) + NUMBERS,
        told(problems=[[]]),
    ],
)
def test_a_reader_that_lies_is_not_believed(folder, cells, monkeypatch, said):
    assert len(cells[CELL].scored) == 36
    monkeypatch.setattr(submissions.Reader, "answer", lambda *_: told() + NUMBERS)
    assert check(folder, cells).submission.card.key == "lab/Mine"
    monkeypatch.setattr(submissions.Reader, "answer", lambda *_: said)
    assert check(folder, cells).submission is None


def test_many_are_read_in_their_order(folder, cells):
    bad = [folder.with_name(f"bad{i}") for i in range(3)]
    found = check_all([bad[0], folder, bad[1], folder, bad[2]], cells)
    assert [item.folder for item in found] == ["bad0", "mine", "bad1", "mine", "bad2"]
    assert [item.submission is None for item in found] == [
        True,
        False,
        True,
        False,
        True,
    ]


@names_are_bytes
def test_a_csv_under_a_name_that_is_not_utf8_is_read(tmp_path):
    from deepval.tables import columns

    path = tmp_path / NOT_UTF8 / "scores.csv"
    path.parent.mkdir()
    write_rows(path, [("a", 1.0)])
    assert columns.read(path).data["score"].tolist() == [1.0]
    path.write_text("input,score\na,1,2\n")
    with pytest.raises(
        InputError, match="rows must be equally long; row 1 has 3 cells"
    ):
        columns.read(path)


LONG = 200_000
"""Repeats at which work that grows with the square would take hours."""


@pytest.mark.parametrize(
    "text",
    [
        'notes = "' + LONG * '\\"',
        'notes = """' + LONG // 2 * '\\"""',
        "notes = '''" + LONG * "''\n",
        "notes = " + LONG * "'a",
        'notes = "' + LONG * "\\",
        LONG * '"',
        LONG * '"""a',
    ],
)
def test_a_card_of_texts_without_an_end_is_refused_after_one_walk_over_it(text):
    with pytest.raises(InputError, match=r"card\.toml: must be a TOML file"):
        card_content(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        'a = "\\\\" # ]',
        'a = "\\" [[["',
        "a = '''[''['''''",
        'a = """[\\"""["""""',
        "a = '\\' # \"[",
    ],
)
def test_the_texts_that_the_guard_of_cards_skips_are_those_of_the_parser(text):
    assert card_content((text + "\n# " + 40 * "[" + "\nb.c = 1").encode())["b"] == {
        "c": 1
    }
    with pytest.raises(InputError, match=f"line {text.count(chr(10)) + 2} goes deeper"):
        card_content((text + "\n" + 40 * "b." + "c = 1").encode())


def test_escapes_of_a_json_file_are_walked_over_once():
    brackets = 200 * "[" + 200 * "]"
    assert json_content(('["' + brackets + LONG * '\\"' + '"]').encode(), "x.json") == [
        brackets + LONG * '"'
    ]
    with pytest.raises(InputError, match="must be a JSON file"):
        json_content(('["' + brackets + LONG * '\\"').encode(), "x.json")


@pytest.mark.parametrize("blank", [" ", "\n", " \n", "\t"])
def test_a_sentence_with_a_long_run_of_blanks_is_flattened_in_one_walk(blank):
    assert str(InputError(f"{LONG * blank}x{LONG * blank}")) == "x"
    assert one_line(f"a{blank}\n {blank}b") == "a b"
    assert len(one_line("x" + LONG * blank + "y")) <= 5000
