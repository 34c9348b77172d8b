"""Result -> text for the terminal and the Python prompt, and HTML for notebooks.

On a terminal an allocator that beats random is bold green, one that loses to random red
with an asterisk.
"""

import base64
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from deepval.basics.errors import InputError
from deepval.judge.extras.setting import setting
from deepval.judge.report.answers import answer_text
from deepval.judge.report.lines import fold, lay_out, printable, unstyled
from deepval.judge.report.tables import (
    explanations,
    headline,
    setting_sentences,
    tables_of,
)
from deepval.judge.report.text_tables import (
    Column,
    Table,
    TableCell,
    lines_of,
    number,
    quantity,
    tabulate,
)
from deepval.judge.results import UNITS, Result
from deepval.judge.tables.costs import CONVENTIONS, Costs
from deepval.judge.tables.values import ValueTable

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
    tables = tables_of(result)
    verdicts = tables.pop("rows")
    # The answers follow the verdicts, which they rest on.
    shown = [*tables.values(), verdicts]
    if sections is not None:
        shown = [table for table in shown if table.title.startswith(tuple(sections))]
    last = closing_sentences(result) if verdicts in shown else []
    return _text(words, shown, width=width, color=color, last=last)


def closing_sentences(result: Result) -> list[str]:
    """The answer about a floor, and that under every budget."""
    about_floor = [] if result.keep is None else [result.keep.sentence]
    if result.effect is not None:
        return [*about_floor, *result.effect.sentences]
    return [*about_floor, *(answer.sentence for answer in result.answers)]


def render_tables(
    tables: Sequence[Table], *, width: int = 140, color: bool = False
) -> str:
    """Tables as text for a terminal of this width."""
    return _text([], tables, width=width, color=color)


def _text(
    words: Sequence[str],
    tables: Sequence[Table],
    *,
    width: int,
    color: bool,
    last: Sequence[str] = (),
) -> str:
    prose = min(width, PROSE)

    def marked(text: str, mark: str) -> str:
        return f"{mark}{text}{END}" if color else text

    lines = [fold(printable(sentence), prose) for sentence in words]
    for table in tables:
        title = fold(printable(table.title), prose)
        laid = lay_out(table, width, _coloured if color else unstyled)
        lines += ["", marked(title, BOLD), "", *laid.lines]
        notes = [*table.notes, *explanations(table, laid.left_out)]
        if laid.left_out:
            notes.append(
                f"Left out at {width} columns: {', '.join(laid.left_out)}. All are "
                f"there from {laid.needed} columns on, and in a "
                "file or pipe without COLUMNS."
            )
        if notes:
            lines.append("")
        for note in notes:
            lines.append(marked(fold(printable(note), prose, indent=2), DIM))
    if last:
        lines.append("")
    lines += [fold(printable(sentence), prose, indent=2) for sentence in last]
    return "\n".join(lines) + "\n"


def _coloured(text: str, cell: TableCell) -> str:
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
    notes = (*summary.table.notes, *explanations(summary.table))
    # Few judgements are shown in a notebook.
    from deepval.judge.report.forms import table_html

    table = table_html(replace(summary.table, notes=notes), bare=True)
    above = "".join(map(_paragraph, summary.words))
    below = "".join(map(_paragraph, summary.last))
    return f"<div>{above}{table}{below}</div>"


def _paragraph(sentence: str) -> str:
    return f"<p>{html.escape(sentence)}</p>"


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
        modes = lines_of([mode] for mode in thing.modes)
        return Brief((), Table("A table of losses without inputs", ("mode",), modes))

    def loss(index: int) -> float:
        return float(thing.losses[:, index].sum())

    def changed(index: int, sign: int) -> str:
        if index == 0:
            return ""
        values = sign * thing.mode_values[:, index]
        return f"{int((values > thing.tolerance).sum()):,}"

    def value(index: int) -> str:
        return number(float(thing.mode_values[:, index].sum())) if index else ""

    columns = [
        Column("mode", lambda index: thing.modes[index]),
        Column("mean loss", lambda index: number(loss(index) / len(thing), 4)),
        Column("total loss", lambda index: number(loss(index))),
        Column("helps", lambda index: changed(index, 1)),
        Column("harms", lambda index: changed(index, -1)),
        Column("total value", value),
    ]
    units = quantity(len(thing.unit_ids), "unit")
    title = f"Losses of {quantity(len(thing), 'input')} in {units}"
    return Brief(
        tuple(setting_sentences(setting(thing))),
        tabulate(title, columns, range(len(thing.modes))),
        tuple(_other_columns(thing)),
    )


def _other_columns(table: ValueTable) -> Iterator[str]:
    """A sentence on the other columns of a table of losses."""
    parts = []
    if table.order is not None:
        parts.append("order in time")
    if table.attributes:
        parts.append(f"columns {', '.join(table.attributes)}")
    if table.costs is not None:
        parts.append("costs")
    if parts:
        yield f"Also there: {'; '.join(parts)}."


@brief.register
def _(thing: Costs) -> Brief:
    rows = [("mode", name, entry) for name, entry in thing.modes.items()]
    rows += [("allocator", name, entry) for name, entry in thing.allocators.items()]
    columns = [
        Column("", lambda row: row[0]),
        Column("name", lambda row: row[1]),
    ]
    for unit in CONVENTIONS:

        def cost(row: Any, unit: str = unit) -> str:
            return f"{row[2][unit]:g}" if unit in row[2] else "–"

        if any(unit in entry for _, _, entry in rows):
            columns.append(Column(UNITS[unit], cost))
    return Brief((), tabulate(f"Costs per input ({thing.source})", columns, rows))
