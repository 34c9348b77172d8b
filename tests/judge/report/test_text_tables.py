"""Tables at every width: no word is cut, what is left out is named, and nothing is
wider than asked.
"""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deepval.judge.report import lines
from deepval.judge.report.console import render_tables
from deepval.judge.report.lines import cells_wide, lay_out, wrap
from deepval.judge.report.text_tables import (
    Column,
    Table,
    TableCell,
    lines_of,
    tabulate,
)

WORDS = st.text("abcxyz-019", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)


@st.composite
def parts(draw):
    columns = draw(st.integers(1, 8))
    header = tuple(
        draw(st.lists(WORDS, min_size=columns, max_size=columns, unique=True))
    )
    sections = draw(
        st.lists(
            st.lists(st.tuples(*[TEXTS] * columns), min_size=1, max_size=3),
            min_size=1,
            max_size=3,
        )
    )
    return header, sections, tuple(name for name in header[1:] if draw(st.booleans()))


def table_of(header, sections, extra):
    return Table("t", header, tuple(lines_of(rows)[0] for rows in sections), (), extra)


LONG_NAMES = (
    ("0", "00", "0000"),
    [[("0 00000000000", "0000000 0000000000 000000000000 000000000000", "")]],
    (),
)


@settings(max_examples=50)
@given(parts(), st.integers(30, 160))
@example(LONG_NAMES, 30)
def test_every_word_of_every_column_that_stays_is_there_whole_and_lines_fit(
    content, width
):
    table = table_of(*content)
    laid = lay_out(table, width)
    assert set(laid.left_out) <= set(table.extra)
    kept = [i for i, name in enumerate(table.header) if name not in laid.left_out]
    told = " ".join(laid.lines).split()
    for section in table.sections:
        for row in section:
            for i in kept:
                for word in row[i].text.split():
                    assert any(word in other for other in told)
    # Texts fold at spaces and no further, so that a line is wider only where names and
    # a word leave no room.
    longest = (
        2 * max(cells_wide(word) for word in [*told, ""])
        + max(map(len, table.header))
        + 30
    )
    assert max(map(cells_wide, laid.lines)) <= max(width, longest)


@settings(max_examples=30)
@given(parts())
def test_nothing_gives_way_where_there_is_room(content):
    table = table_of(*content)
    assert not lay_out(table, 10_000).left_out
    again = lay_out(table, lay_out(table, 1).needed)
    assert not again.left_out


@settings(max_examples=30)
@given(st.lists(WORDS, min_size=1).map(" ".join), st.integers(1, 40))
def test_a_text_folds_at_spaces_only(text, width):
    folded = wrap(text, width)
    assert " ".join(folded) == text
    assert all(len(line) <= width or " " not in line for line in folded)


def verdicts(names=("gate-gbm-value", "crowd")):
    """Columns of 14, 6, 5, 17 and 10 letters: 60 in all, under one budget."""
    columns = [
        Column("allocator", lambda name: name),
        Column("gain", lambda name: "12.00%", rank=1),
        Column("nDG", lambda name: "0.612", rank=3),
        Column("vs random 95 %", lambda name: "[-16.27%, 10.98%]", rank=2),
        Column("verdict", lambda name: "unresolved"),
    ]
    budget = Column("budget", lambda name: "selection 20%")
    return tabulate("Verdicts", columns, names, groups=[budget])


@pytest.mark.parametrize(
    ("width", "row", "left_out"),
    [
        (60, "crowd           12.00%  0.612  [-16.27%, 10.98%]  unresolved", ""),
        (59, "crowd           0.612  [-16.27%, 10.98%]  unresolved", "gain"),
        (51, "crowd           0.612  unresolved", "gain, vs random 95 %"),
        (32, "crowd           unresolved", "gain, vs random 95 %, nDG"),
    ],
)
def test_columns_leave_by_rank_and_a_note_names_them(width, row, left_out):
    text = render_tables([verdicts()], width=width)
    assert row in text.splitlines()
    assert "selection 20%\ngate-gbm-value" in text
    note = f"Left out at {width} columns: {left_out}. All are there from 60 columns on"
    assert (note in " ".join(text.split())) == bool(left_out)


def test_a_table_whose_columns_must_stay_is_printed_as_records():
    long = Table("long", ("name", "value"), lines_of([["n" * 50, "v" * 30]]))
    assert render_tables([long], width=60).splitlines()[3:5] == [
        "n" * 50,
        "  value  " + "v" * 30,
    ]


def test_the_last_column_folds_before_another_one_leaves():
    words = "better, but rests on drive-07 and nothing else"
    table = Table("t", ("name", "n", "verdict"), lines_of([["a", "1", words]]))
    assert lay_out(table, 40).lines[2:] == (
        "a     1  better, but rests on drive-07",
        "         and nothing else",
    )


def test_what_would_move_the_cursor_is_spelled_out_and_wide_letters_are_counted():
    text = render_tables(
        [Table("t", ("name", "n"), lines_of([["a\x1b[2Jb\n", "1"], ["日本", "2"]]))],
        width=80,
    )
    assert "a\\x1b[2Jb\\n  1" in text
    assert "日本         2" in text


def test_colours_take_no_room_and_a_loss_is_marked_and_explained_without_them():
    table = Table(
        "t",
        ("name", "x"),
        (
            (
                ((TableCell("a")), TableCell("1.0", "worse")),
                (TableCell("b"), TableCell("–")),
            ),
        ),
    )
    plain, coloured = (
        render_tables([table], width=80, color=color) for color in (False, True)
    )
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "1.0*" in plain
    assert "–: undefined or not measured; asterisk: worse, at 95 %." in plain


@pytest.mark.parametrize("width", [40, 80, 10_000])
def test_the_work_of_laying_out_a_table_grows_with_its_rows_and_not_with_their_square(
    width, monkeypatch
):
    measured = []
    monkeypatch.setattr(
        lines,
        "cells_wide",
        lambda text: measured.append(text) or cells_wide(text),
    )

    def measurements(rows):
        measured.clear()
        lay_out(verdicts([f"allocator-{i:05d}" for i in range(rows)]), width)
        return len(measured)

    few, many = measurements(50), measurements(400)
    assert many <= 8 * few


def test_the_work_of_folding_a_long_text_grows_with_its_length(monkeypatch):
    measured = []
    monkeypatch.setattr(
        lines,
        "cells_wide",
        lambda text: measured.append(len(text)) or cells_wide(text),
    )
    text = "word " * 4000
    assert wrap(text, 10**6) == [text.rstrip()]
    assert sum(measured) <= 2 * len(text)
