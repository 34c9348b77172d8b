"""Result -> text for the terminal and the Python prompt, and HTML for notebooks.

On a terminal an allocator that beats random is bold green, one that loses to random red
with an asterisk.
"""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from deepval.errors import InputError
from deepval.judging.extras.setting import setting
from deepval.report.answers import Typed, answer_text
from deepval.report.forms import table_html
from deepval.report.result_tables import (
    explanations,
    headline,
    result_tables,
    setting_sentences,
)
from deepval.report.text_tables import (
    Style,
    Table,
    TableCell,
    fold,
    lay_out,
    lines_of,
    number,
    printable,
    quantity,
)
from deepval.results import UNITS, Result
from deepval.tables.costs import CONVENTIONS, Convention, Costs
from deepval.tables.values import ValueTable

PROSE = 120
"""Largest width of sentences on a wide terminal."""
COLOURS = {"better": "\x1b[1;32m", "worse": "\x1b[31m"}
BOLD, DIM, END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(
    result: Result,
    *,
    width: int = 140,
    color: bool = False,
    sections: Sequence[str] | None = None,
) -> str:
    """All tables of a result as text of this width, and the answers last; `sections`
    selects tables by the beginnings of their titles.
    """
    words = [*headline(result), *(f"Note: {warning}" for warning in result.warnings)]
    verdicts, *others = result_tables(result)
    selected = [
        table
        for table in (*others, verdicts)
        if sections is None or table.title.startswith(tuple(sections))
    ]
    last: list[str] = []
    if verdicts in selected:
        last = closing_sentences(result)
    return _text(words, selected, width=width, color=color, last=last)


def render_answer(
    result: Result, *, width: int = 80, color: bool = False, typed: Typed | None = None
) -> str:
    """The answer, and the tables of what was asked for besides."""
    text = answer_text(result, width=width, typed=typed)
    asked = {
        "Within groups": result.slices,
        "Streaming": result.streams,
        "Thresholds": result.thresholds,
        "Performance gap": result.recovery,
    }
    tables = [
        table
        for table in result_tables(result)
        if any(table.title.startswith(title) for title, rows in asked.items() if rows)
    ]
    if tables:
        text += render_tables(tables, width=width, color=color)
    return text


def closing_sentences(result: Result) -> list[str]:
    """The answer under every budget."""
    if result.effect is not None:
        return list(result.effect.sentences)
    return [answer.sentence for answer in result.answers]


def render_tables(
    tables: Sequence[Table], *, width: int = 140, color: bool = False
) -> str:
    """Tables as text for a terminal of this width."""
    return _text([], tables, width=width, color=color)


def _text(
    words: Sequence[str],
    parts: Sequence[Table],
    *,
    width: int,
    color: bool,
    last: Sequence[str] = (),
) -> str:
    prose = min(width, PROSE)
    lines = [fold(printable(sentence), prose) for sentence in words]
    for table in parts:
        title = fold(printable(table.title), prose)
        laid = lay_out(table, width, _color if color else _plain)
        lines += ["", f"{BOLD}{title}{END}" if color else title, "", *laid.lines]
        notes = [*table.notes, *explanations(table, laid.left_out)]
        if laid.left_out:
            notes.append(
                f"Left out at {width} columns: {', '.join(laid.left_out)}. All are "
                f"there from {laid.needed} columns on, and in a "
                "file or pipe without COLUMNS."
            )
        texts = [fold(printable(note), prose, indent=2) for note in notes]
        lines += (
            ["", *(f"{DIM}{text}{END}" if color else text for text in texts)]
            if texts
            else []
        )
    lines += (
        ["", *(fold(printable(sentence), prose, indent=2) for sentence in last)]
        if last
        else []
    )
    return "\n".join(lines) + "\n"


_plain: Style = lambda text, cell: text  # noqa: E731


def _color(text: str, cell: TableCell) -> str:
    return f"{COLOURS[cell.mark]}{text}{END}" if cell.mark else text


BRIEF_WIDTH = 80
"""Columns of the text: the width of a narrow window, so that no line breaks."""


@dataclass(frozen=True)
class Brief:
    """Sentences, a table, and sentences below it."""

    words: tuple[str, ...]
    table: Table
    last: tuple[str, ...] = ()


def brief_text(thing: object) -> str:
    """The thing as lines of at most 80 columns, without a line end."""
    if isinstance(thing, Result):
        return answer_text(thing, width=BRIEF_WIDTH).strip("\n")
    summary = brief(thing)
    return _text(
        summary.words,
        [summary.table],
        width=BRIEF_WIDTH,
        color=False,
        last=summary.last,
    ).strip("\n")


def brief_html(thing: object) -> str:
    """The thing as HTML without style or script, with every text escaped."""
    if isinstance(thing, Result):
        return f"<pre>{html.escape(brief_text(thing))}</pre>{_picture(thing)}"
    summary = brief(thing)
    table = replace(
        summary.table, notes=(*summary.table.notes, *explanations(summary.table))
    )
    above, below = (
        "".join(f"<p>{html.escape(sentence)}</p>" for sentence in part)
        for part in (summary.words, summary.last)
    )
    return f"<div>{above}{table_html(table, bare=True)}{below}</div>"


def _picture(result: Result) -> str:
    """The picture of a result; nothing where Matplotlib is not installed, or where
    there is nothing to draw.
    """
    content = io.BytesIO()
    try:
        result.plot().savefig(content, format="png", dpi=90)
    except InputError:
        return ""
    data = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="Quality against cost" src="data:image/png;base64,{data}">'


@singledispatch
def brief(thing: object) -> Brief:
    """The short form of a thing."""
    raise NotImplementedError(type(thing))


@brief.register
def _(thing: Table) -> Brief:
    return Brief((), thing)


@brief.register
def _(thing: ValueTable) -> Brief:
    if not len(thing):
        return Brief(
            (),
            Table(
                "A table of losses without inputs",
                ("mode",),
                lines_of([[m] for m in thing.modes]),
            ),
        )
    rows = []
    for index, mode in enumerate(thing.modes):
        loss, value = thing.losses[:, index], thing.mode_values[:, index]
        helped, harmed = (
            int((sign * value > thing.tolerance).sum()) for sign in (1, -1)
        )
        counts = (
            ("", "", "")
            if not index
            else (f"{helped:,}", f"{harmed:,}", number(float(value.sum())))
        )
        rows.append(
            (mode, number(float(loss.mean()), 4), number(float(loss.sum())), *counts)
        )
    header = ("mode", "mean loss", "total loss", "helps", "harms", "total value")
    units = quantity(len(thing.unit_ids), "unit")
    return Brief(
        tuple(setting_sentences(setting(thing))),
        Table(
            f"Losses of {quantity(len(thing), 'input')} in {units}",
            header,
            lines_of(rows),
        ),
        tuple(_other_columns(thing)),
    )


def _other_columns(table: ValueTable) -> list[str]:
    """A sentence on the other columns of a table of losses."""
    parts = ["order in time"] if table.order is not None else []
    parts += [f"columns {', '.join(table.attributes)}"] if table.attributes else []
    parts += ["costs"] if table.costs is not None else []
    return [f"Also there: {'; '.join(parts)}."] if parts else []


@brief.register
def _(thing: Costs) -> Brief:
    entries = [("mode", name, entry) for name, entry in thing.modes.items()]
    entries += [("allocator", name, entry) for name, entry in thing.allocators.items()]
    units: list[Convention] = [
        unit for unit in CONVENTIONS if any(unit in entry for _, _, entry in entries)
    ]
    rows = [
        (kind, name, *(f"{entry[unit]:g}" if unit in entry else "–" for unit in units))
        for kind, name, entry in entries
    ]
    header = ("", "name", *(UNITS[unit] for unit in units))
    return Brief((), Table(f"Costs per input ({thing.source})", header, lines_of(rows)))
