"""A table of short texts with marks, the same for every output format.

All rounding happens here. A cell is marked by its row's verdict against random: better
(bold) or worse (asterisk).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from deepval.basics.display import Printable

Mark = Literal["better", "worse", ""]
MISSING = "–"
MOST_SHARE = 10.0
"""Largest share that is printed in percent.

A larger one has a denominator that is almost zero.
"""


@dataclass(frozen=True)
class TableCell:
    """A short text and its mark."""

    text: str
    mark: Mark = ""


Cells = tuple[TableCell, ...]
Sections = tuple[tuple[Cells, ...], ...]


@dataclass(frozen=True, repr=False)
class Table(Printable):
    """A title, a header, rows in sections with rules between them, and notes below.

    `extra` lists the columns that are left out on a narrow terminal, in this order.
    """

    title: str
    header: tuple[str, ...]
    sections: Sections
    notes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Cells]:
        """The rows of all sections."""
        return [row for section in self.sections for row in section]

    def with_column(self, after: str, name: str, texts: Sequence[str]) -> "Table":
        """The table with a further column, one text per row."""
        place = self.header.index(after) + 1
        rest = iter(texts)
        sections = []
        for section in self.sections:
            rows = [
                (*row[:place], TableCell(next(rest)), *row[place:]) for row in section
            ]
            sections.append(tuple(rows))
        header = (*self.header[:place], name, *self.header[place:])
        return replace(self, header=header, sections=tuple(sections))


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        heading: Its heading, which is its name.
        text: What it shows of a row; a `TableCell` has a mark.
        rank: Importance: on a narrow terminal the column of the smallest rank is left
            out first. None: never.
    """

    heading: str
    text: Callable[[Any], str | TableCell]
    rank: int | None = None


def tabulate(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Any],
    *,
    groups: Sequence[Column] = (),
    notes: Iterable[str] = (),
) -> Table:
    """The rows as a table.

    Args:
        title: Its title.
        columns: Its columns.
        rows: The rows, in their order.
        groups: Columns before these, whose equal texts make a section and are shown
            once in it.
        notes: Sentences below the table.
    """
    lines = []
    for row in rows:
        name = tuple(_cell(column, row) for column in groups)
        lines.append((name, tuple(_cell(column, row) for column in columns)))

    sections = []
    for name, members in groupby(lines, key=lambda line: line[0]):
        own = [cells for _, cells in members]
        blank = (TableCell(""),) * len(name)
        section = [(*name, *own[0]), *((*blank, *cells) for cells in own[1:])]
        sections.append(tuple(section))

    ranked = [column for column in columns if column.rank is not None]
    ranked.sort(key=lambda column: column.rank or 0)
    return Table(
        title,
        tuple(column.heading for column in (*groups, *columns)),
        tuple(sections) or ((),),
        tuple(notes),
        tuple(column.heading for column in ranked),
    )


def _cell(column: Column, row: Any) -> TableCell:
    text = column.text(row)
    return text if isinstance(text, TableCell) else TableCell(text)


def number(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash."""
    if value is None:
        return MISSING
    text = f"{value:.{digits}f}"
    # A tiny negative number rounds to -0.000, which reads as a loss.
    return text.removeprefix("-") if float(text) == 0 else text


def cost(value: float | None, convention: str | None) -> str:
    """A cost without its unit: two decimals for ms and mJ; three significant digits for
    dollars, which are small.
    """
    if value is not None and convention == "usd":
        return f"{value:.3g}"
    return number(value, 2)


def percent(value: float | None, digits: int = 2) -> str:
    """A share in percent, or a dash; beyond 1000 % only its sign, because the
    denominator is then almost zero.
    """
    if value is None:
        return MISSING
    if abs(value) > MOST_SHARE:
        return "< -1000%" if value < 0 else "> 1000%"
    return f"{number(100 * value, digits)}%"


def tenths(value: float | None) -> str:
    """A share in percent with one decimal."""
    return percent(value, 1)


def of_loss(value: float | None, loss: float | None) -> str:
    """A value in percent of a loss; the plain number without a loss."""
    if loss is None or value is None:
        return number(value)
    return percent(value / loss)


def almost_zero(cheap_loss: float, *shares: float | None) -> str | None:
    """The reason for not printing shares of the all-cheap loss if one is beyond 1000 %;
    None if none is.
    """
    if not any(share is not None and abs(share) > MOST_SHARE for share in shares):
        return None
    return (
        f"the all-cheap loss is almost zero ({cheap_loss:.3g}), "
        "so shares of it mean nothing"
    )


def interval(
    low: float | None, high: float | None, form: Callable[[float | None], str] = number
) -> str:
    """`[low, high]`, or an empty text if a bound is missing."""
    if low is None or high is None:
        return ""
    return f"[{form(low)}, {form(high)}]"


def mark_of(verdict: str | None) -> Mark:
    """The mark of a verdict; empty if the verdict is neither better nor worse."""
    if verdict == "better" or verdict == "worse":
        return verdict
    return ""


def quantity(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: 1 unit, 2 units."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def reasons(rows: Iterable[Any]) -> list[str]:
    """Why figures of rows are undefined, with the name of the allocator."""
    return sorted({f"{row.name}: {row.reason}." for row in rows if row.reason})


def lines_of(texts: Iterable[Sequence[str]]) -> Sections:
    """Rows of plain texts as the one section of a table."""
    return (tuple(tuple(map(TableCell, row)) for row in texts),)
