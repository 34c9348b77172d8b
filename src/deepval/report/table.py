"""A table of short texts with marks, the same for every output format. All rounding happens here.

A cell is marked by its row's verdict against random: better (bold) or worse (asterisk).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepval.display import Printable

Mark = Literal["better", "worse", ""]
MISSING = "–"
MOST_SHARE = 10.0
"""Largest share that is printed in percent. A larger one has a denominator that is almost zero."""


@dataclass(frozen=True)
class TableCell:
    """A short text and its mark."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True, repr=False)
class Table(Printable):
    """A title, a header, rows in sections with rules between them, and notes below.

    `extra` lists the columns that are left out on a narrow terminal, in this order.
    """

    title: str
    header: tuple[str, ...]
    sections: tuple[tuple[tuple[TableCell, ...], ...], ...]
    notes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def select(self, *names: str) -> "Table":
        """The table with these columns only."""
        columns = [i for i, name in enumerate(self.header) if name in names]
        sections = tuple(tuple(tuple(row[i] for i in columns) for row in section) for section in self.sections)
        extra = tuple(name for name in self.extra if name in names)
        return replace(self, header=tuple(self.header[i] for i in columns), sections=sections, extra=extra)

    def with_column(self, after: str, name: str, texts: Sequence[str]) -> "Table":
        """The table with a further column, one text per row."""
        column, new_texts = self.header.index(after) + 1, iter(texts)
        sections = tuple(
            tuple((*row[:column], TableCell(next(new_texts)), *row[column:]) for row in section)
            for section in self.sections
        )
        return replace(self, header=(*self.header[:column], name, *self.header[column:]), sections=sections)


def number(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash."""
    return MISSING if value is None else f"{value:.{digits}f}".replace("-0." + "0" * digits, "0." + "0" * digits)


def cost(value: float | None, convention: str | None) -> str:
    """A cost without its unit: two decimals for ms and mJ; three significant digits for dollars, which are small."""
    return f"{value:.3g}" if value is not None and convention == "usd" else number(value, 2)


def percent(value: float | None, digits: int = 2) -> str:
    """A share in percent, or a dash; beyond 1000 % only its sign, because the denominator is then almost zero."""
    if value is not None and abs(value) > MOST_SHARE:
        return "< -1000%" if value < 0 else "> 1000%"
    return MISSING if value is None else f"{number(100 * value, digits)}%"


def almost_zero(cheap_loss: float, *shares: float | None) -> str | None:
    """The reason for not printing shares of the all-cheap loss if one is beyond 1000 %; None if none is."""
    if not any(share is not None and abs(share) > MOST_SHARE for share in shares):
        return None
    return f"the all-cheap loss is almost zero ({cheap_loss:.3g}), so shares of it mean nothing"


def interval(low: float | None, high: float | None, form: Callable[[float | None], str] = number) -> str:
    """`[low, high]`, or an empty text if a bound is missing."""
    return "" if low is None or high is None else f"[{form(low)}, {form(high)}]"


def mark_of(verdict: str | None) -> Mark:
    """The mark of a verdict; empty if the verdict is neither better nor worse."""
    return "better" if verdict == "better" else "worse" if verdict == "worse" else ""


def quantity(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: 1 unit, 2 units."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def lines_of(texts: Iterable[Sequence[str]]) -> tuple[tuple[tuple[TableCell, ...], ...], ...]:
    """Rows of plain texts as the one section of a table."""
    return (tuple(tuple(map(TableCell, row)) for row in texts),)


def few(names: Sequence[str], most: int = 6) -> str:
    """The first names, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
