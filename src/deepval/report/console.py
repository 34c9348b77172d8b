"""Result -> text for the terminal and the Python prompt, and HTML for notebooks.

On a terminal an allocator that beats random is bold green, one that loses to random red
with an asterisk.
"""

import html
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import islice
from typing import Any

from deepval.errors import few
from deepval.judging.extras.next_units import units_for
from deepval.judging.extras.setting import setting
from deepval.report.forms import table_html
from deepval.report.result_tables import (
    OF_LADDER,
    better_without,
    explanations,
    headline,
    new_unit_sentences,
    result_tables,
    setting_sentences,
    verdict_table,
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
from deepval.results import HEADLINE, UNITS, BudgetKey, Result, Row, lists_by_key
from deepval.tables.costs import CONVENTIONS, Convention, Costs
from deepval.tables.scores import REFERENCES
from deepval.tables.values import ValueTable

PROSE = 120
"""Largest width of sentences on a wide terminal."""
BEST, WORST = 10, 3
"""How many allocators with the largest and the smallest gains an excerpt shows per
budget.
"""
RECORDS = ("rows", "slices", "streams", "gaps", "thresholds", "recovery", "ladder")
"""Fields of a result; every one of them has its own table."""
MOST_SENTENCES = 12
"""Largest number of notes, and of sentences about budgets, in an excerpt."""
COLOURS = {"better": "\x1b[1;32m", "worse": "\x1b[31m"}
BOLD, DIM, END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(
    result: Result,
    *,
    width: int = 140,
    color: bool = False,
    sections: Sequence[str] | None = None,
    most: int | None = None,
) -> str:
    """The result as text of this width, verdicts last; `sections` selects tables by the
    beginnings of their titles.

    A result with a table of more than `most` rows is summarised: the best and the worst
    rows of each budget, and the number of each verdict.
    """
    part = result
    if most is not None and max(len(getattr(result, name)) for name in RECORDS) > most:
        part = excerpt(result, most)
    summary = part is not result
    notes, over = result.warnings, len(result.warnings) - MOST_SENTENCES
    if summary and over > 0:
        notes = (*notes[:MOST_SENTENCES], f"{over:,} further notes.")
    words = [*headline(result), *(f"Note: {warning}" for warning in notes)]
    all_tables = list(result_tables(part))
    selected = [
        t
        for t in (*all_tables[1:], all_tables[0])
        if sections is None or t.title.startswith(tuple(sections))
    ]
    last: list[str] = []
    if all_tables[0] in selected:
        last = (
            excerpt_sentences(result, part)
            if summary
            else closing_sentences(result.rows)
        )
    return _text(words, selected, width=width, color=color, last=last)


def excerpt(result: Result, most: int) -> Result:
    """The result with the best and the worst rows of each budget by gain, at most
    `most` rows.

    Other records are limited to the same allocators and budgets, and to `most` rows.
    """
    members = lists_by_key((row.label, row) for row in result.rows)
    rows = [row for label in members for row in _extremes(members[label])]
    pairs = {(row.budget.label, row.allocator) for row in rows}
    names = {row.allocator for row in rows}
    parts: dict[str, Any] = {
        name: tuple(
            item
            for item in getattr(result, name)
            if (item.budget.label, item.allocator) in pairs
        )[:most]
        for name in ("slices", "streams", "gaps", "thresholds")
    }
    parts["recovery"] = tuple(row for row in result.recovery if row.allocator in names)[
        :most
    ]
    return replace(
        result, rows=tuple(rows[:most]), ladder=result.ladder[:most], **parts
    )


def _extremes(rows: Sequence[Row]) -> list[Row]:
    """The references, the best and the worst allocators under one budget, the largest
    gain first.
    """
    ranked = sorted(
        rows, key=lambda row: -math.inf if row.gain is None else row.gain, reverse=True
    )
    entered = [row.allocator for row in ranked if row.allocator not in REFERENCES]
    names = {*REFERENCES, *entered[:BEST], *entered[-WORST:]}
    return [row for row in ranked if row.allocator in names]


def excerpt_sentences(whole: Result, part: Result) -> list[str]:
    """The number of each verdict, budget by budget, and the number of rows in the
    excerpt and in the whole result.
    """
    members = lists_by_key(
        ((row.label, row.chance or "random"), row) for row in whole.rows if row.verdict
    )
    words = [
        f"{budget}, against {chance}: {_verdict_counts(rows)}."
        for (budget, chance), rows in islice(members.items(), MOST_SENTENCES)
    ]
    if len(members) > MOST_SENTENCES:
        words.append(
            f"The verdicts of {len(members) - MOST_SENTENCES:,} further budgets are "
            "not counted here."
        )
    count, total = (
        sum(len(getattr(result, name)) for name in RECORDS) for result in (part, whole)
    )
    return [
        *words,
        f"This is a summary with {count:,} of {total:,} rows: the {BEST} largest and "
        f"{WORST} smallest gains of each budget, and the references. --all prints "
        "every row; --json and --out FILE have them too, and --format "
        "csv has every verdict.",
    ]


def closing_sentences(every_row: Sequence[Row]) -> list[str]:
    """The answers of rows, budget by budget, and the second opinions on random that
    differ from the verdict.
    """
    lines = []
    for budget, rows in lists_by_key((row.label, row) for row in every_row).items():
        # Rows without a cost have words but no verdict; rows of older results have a
        # verdict but no answer.
        judged = [row for row in rows if row.verdict_words or row.verdict]
        names_by_answer = lists_by_key(
            (answer_words(row), row.allocator) for row in judged
        )
        sentences = [
            f"{words[0].upper()}{words[1:]}: {few(names)}."
            for words, names in names_by_answer.items()
        ]
        second = lists_by_key(
            (row.second_verdict, row.allocator)
            for row in rows
            if row.second_verdict != row.verdict
        )
        opinions = "; ".join(
            f"{words}: {few(names)}" for words, names in second.items() if words
        )
        sentences += (
            [f"Second opinion, against random: {opinions}."] if opinions else []
        )
        sentences += new_unit_sentences(rows)
        if sentences:
            lines.append(f"{budget}. {' '.join(sentences)}")
    units = max((row.units_compared for row in every_row), default=0)
    both, one = units_for(), units_for(sides=1)
    if 0 < units < both:
        side = f", {one} for one side" if units < one else " on both sides"
        lines.append(
            f"95 % certainty about a new unit takes {both} units{side} "
            "(docs/guarantees.md)."
        )
    return lines


def answer_words(row: Row) -> str:
    """The answer of a row or, if it has none, its verdict against random."""
    words = row.verdict_words or row.verdict or ""
    return row.answer or (
        f"{words}, against {row.chance or 'random'}" if row.second_verdict else words
    )


def _verdict_counts(rows: Sequence[Row]) -> str:
    """How many rows have each verdict, and how many of these verdicts are qualified."""
    counts = Counter((row.verdict or "") + better_without(row) for row in rows)
    qualified = (row for row in rows if row.verdict_words not in (None, row.verdict))
    weak = Counter((row.verdict or "") + better_without(row) for row in qualified)
    return ", ".join(
        f"{n:,} {verdict}"
        + (
            f" ({weak[verdict]:,} on few units or resting on one)"
            if weak[verdict]
            else ""
        )
        for verdict, n in counts.most_common()
    )


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
BRIEF_ROWS = 20
"""Largest number of rows of a table; a sentence gives the number of further rows."""
BRIEF_COLUMNS = (
    "budget",
    "allocator",
    "gain",
    "nDG",
    "oracle",
    OF_LADDER,
    "vs random",
    "vs random 95 %",
    "verdict",
)


@dataclass(frozen=True)
class Brief:
    """Sentences, a table, and sentences below it."""

    words: tuple[str, ...]
    table: Table
    last: tuple[str, ...] = ()


def brief_text(thing: object) -> str:
    """The thing as lines of at most 80 columns, without a line end."""
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
    summary = brief(thing)
    table = replace(
        summary.table, notes=(*summary.table.notes, *explanations(summary.table))
    )
    above, below = (
        "".join(f"<p>{html.escape(sentence)}</p>" for sentence in part)
        for part in (summary.words, summary.last)
    )
    return f"<div>{above}{table_html(table, bare=True)}{below}</div>"


@singledispatch
def brief(thing: object) -> Brief:
    """The short form of a thing."""
    raise NotImplementedError(type(thing))


@brief.register
def _(thing: Table) -> Brief:
    return Brief((), thing)


@brief.register
def _(thing: Result) -> Brief:
    budgets = list(dict.fromkeys(row.budget for row in thing.rows))
    if not budgets:
        return Brief(
            tuple(headline(thing)), Table("No allocator was judged", ("allocator",), ())
        )
    # A router that chooses itself is judged at what it spends, so its rows are under a
    # budget of their own.
    names = {
        row.budget: {row.name, row.chance, row.oracle}
        for row in thing.rows
        if row.name == row.spender
    }
    judging = [
        row.budget for row in thing.rows if row.spender is None and row.verdict_words
    ]
    judging = judging or ([] if names else budgets)
    chosen = next(
        (b for b in judging if b.holds(kind="selection", alpha=HEADLINE)),
        judging[0] if judging else None,
    )
    beside = {budget: {*own, "never", "all-full"} for budget, own in names.items()}
    rows = [
        row
        for row in thing.rows
        if row.budget == chosen or row.allocator in beside.get(row.budget, ())
    ]
    budgets = [
        budget for budget in budgets if budget not in {row.budget for row in rows}
    ]
    columns = [name for name in BRIEF_COLUMNS if name != "budget" or names]
    title = (
        "Against random"
        if names or chosen is None
        else f"At {chosen.label}, against random"
    )
    table = verdict_table(rows[:BRIEF_ROWS], title).select(*columns)
    words = (
        next(iter(headline(thing))),
        *(f"Note: {warning}" for warning in thing.warnings),
    )
    return Brief(words, table, (*closing_sentences(rows), *_more(thing, rows, budgets)))


def _more(
    result: Result, rows: Sequence[Row], budgets: Sequence[BudgetKey]
) -> list[str]:
    """A sentence on the rows and budgets that are left out."""
    hidden = (
        [f"{quantity(len(rows) - BRIEF_ROWS, 'further row')} at this budget"]
        if len(rows) > BRIEF_ROWS
        else []
    )
    others = [budget.label for budget in budgets]
    hidden += (
        [
            ", ".join(others[:6])
            + (f" and {len(others) - 6} more" if len(others) > 6 else "")
        ]
        if others
        else []
    )
    if result.slices:
        hidden.append(f"{quantity(len(result.slices), 'row')} of slices")
    return (
        [f"Not shown: {'; '.join(hidden)}. All: .to_pandas(), .report('page.html')."]
        if hidden
        else []
    )


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
