"""A table of short texts with marks, the same for every output format, and its lines on
a terminal.

All rounding happens here. A cell is marked by its row's verdict against random: better
(bold) or worse (asterisk). No text is ever cut. To fit a width, in this order, as far
as needed: headings fold at spaces and hyphens; columns with one value for all rows, or
for those of a section, become lines above them; long texts fold at spaces; the table's
`extra` columns are left out, and a note names them; any text folds into two lines; the
table is printed in parts that repeat the names of the rows; texts fold as far as they
can; every row becomes a record of lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Literal
from unicodedata import category, combining, east_asian_width

from deepval.display import Printable

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
        sections = tuple(
            tuple(tuple(row[i] for i in columns) for row in section)
            for section in self.sections
        )
        extra = tuple(name for name in self.extra if name in names)
        return replace(
            self,
            header=tuple(self.header[i] for i in columns),
            sections=sections,
            extra=extra,
        )

    def with_column(self, after: str, name: str, texts: Sequence[str]) -> "Table":
        """The table with a further column, one text per row."""
        column, new_texts = self.header.index(after) + 1, iter(texts)
        sections = tuple(
            tuple(
                (*row[:column], TableCell(next(new_texts)), *row[column:])
                for row in section
            )
            for section in self.sections
        )
        return replace(
            self,
            header=(*self.header[:column], name, *self.header[column:]),
            sections=sections,
        )


def number(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash."""
    return (
        MISSING
        if value is None
        else f"{value:.{digits}f}".replace("-0." + "0" * digits, "0." + "0" * digits)
    )


def cost(value: float | None, convention: str | None) -> str:
    """A cost without its unit: two decimals for ms and mJ; three significant digits for
    dollars, which are small.
    """
    return (
        f"{value:.3g}"
        if value is not None and convention == "usd"
        else number(value, 2)
    )


def percent(value: float | None, digits: int = 2) -> str:
    """A share in percent, or a dash; beyond 1000 % only its sign, because the
    denominator is then almost zero.
    """
    if value is not None and abs(value) > MOST_SHARE:
        return "< -1000%" if value < 0 else "> 1000%"
    return MISSING if value is None else f"{number(100 * value, digits)}%"


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
    return "" if low is None or high is None else f"[{form(low)}, {form(high)}]"


def mark_of(verdict: str | None) -> Mark:
    """The mark of a verdict; empty if the verdict is neither better nor worse."""
    return "better" if verdict == "better" else "worse" if verdict == "worse" else ""


def quantity(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: 1 unit, 2 units."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def lines_of(
    texts: Iterable[Sequence[str]],
) -> tuple[tuple[tuple[TableCell, ...], ...], ...]:
    """Rows of plain texts as the one section of a table."""
    return (tuple(tuple(map(TableCell, row)) for row in texts),)


GAP = 2
"""Spaces between columns."""
LONG_TEXT = 24
"""Width to which texts fold before columns are left out."""
NUMBER = re.compile(r"[-+–]?[\d.,]+|\[|–$|inf\.$|$")
"""The beginning of a cell in a column of numbers, or a sign in place of a number."""

Style = Callable[[str, TableCell], str]
"""A text and its cell -> the text with marks of width 0, such as colours."""


@dataclass(frozen=True)
class Layout:
    """The lines of a table, the columns that are left out, and the grid of all
    columns.
    """

    lines: tuple[str, ...]
    left_out: tuple[str, ...]
    whole: "_Grid"

    @property
    def needed(self) -> int:
        """The smallest width with all columns."""
        return self.whole.gather().fold_head(0).fold_texts(0, least=LONG_TEXT).total


def lay_out(table: Table, width: int, style: Style = lambda text, cell: text) -> Layout:
    """The table in lines of at most this width, unless a single word is wider."""
    sections = tuple(
        tuple(
            tuple(
                TableCell(printable(c.text) + "*" * (c.mark == "worse"), c.mark)
                for c in row
            )
            for row in section
        )
        for section in table.sections
    )
    grid = _Grid(tuple(map(printable, table.header)), sections, ())
    widths = (
        max(cells_wide(name), text_width)
        for name, (text_width, _) in zip(grid.header, grid.texts, strict=True)
    )
    grid = whole = replace(grid, widths=tuple(widths))
    if grid.total > width:
        grid = grid.fold_head(width)
    if grid.total > width:
        grid = grid.gather().fold_head(width)
    if grid.total > width:
        grid = grid.fold_texts(width, least=LONG_TEXT)
    left_out: list[str] = []
    for name in table.extra:
        if grid.total <= width:
            break
        grid = grid.without(name).fold_head(width).fold_texts(width, least=LONG_TEXT)
        left_out.append(name)
    lines = (
        grid.lines(style) if grid.total <= width else _narrow_lines(grid, width, style)
    )
    return Layout(tuple(lines), tuple(left_out), whole)


def _narrow_lines(grid: "_Grid", width: int, style: Style) -> Iterator[str]:
    """The lines of a grid that is too wide although its columns must all stay."""
    small = grid.fold_texts(width, least=1)
    if small.total <= width and small.tallest <= max(2, grid.tallest):
        yield from small.lines(style)
        return
    parts = grid.parts(width) or (
        [small] if small.total <= width else small.parts(width)
    )
    if parts is None:
        yield from small.records(width, style)
        return
    for number, part in enumerate(parts):
        if number:
            yield ""
        yield from part.fold_head(width).lines(style, alone=not number)


def cells_wide(text: str) -> int:
    """Width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text
    )


def printable(text: str) -> str:
    """The text with control characters, which could move the cursor or change colours,
    written as escapes.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(c if category(c)[0] != "C" else repr(c)[1:-1] for c in text)


def wrap(text: str, width: int, *, breaks: str = " ") -> list[str]:
    """The text in lines of at most this width, broken after spaces or the other
    `breaks`; longer words stay whole.
    """
    pieces = re.findall(rf"[^{re.escape(breaks)}]*(?:[{re.escape(breaks)}]|$)", text)
    lines: list[list[str]] = [[]]
    used = 0  # width of the last line, so that no piece is measured twice
    for piece in filter(None, pieces):
        if lines[-1] and used + cells_wide(piece.rstrip()) > width:
            lines.append([])
            used = 0
        lines[-1].append(piece)
        used += cells_wide(piece)
    return ["".join(line).rstrip() for line in lines]


def fold(text: str, width: int, *, indent: int = 0) -> str:
    """A sentence folded at spaces, further lines indented."""
    first, *more = wrap(text, width)
    rest = [
        line for part in [" ".join(more)] if part for line in wrap(part, width - indent)
    ]
    return "\n".join([first, *(" " * indent + line for line in rest)])


@dataclass(frozen=True)
class _Grid:
    """An intermediate form between a table and its lines.

    Attributes:
        header: Names of the columns.
        sections: Rows of cells, section by section.
        widths: Width of each column; longer cells fold.
        heads: A line above each section, or empty.
        common: Lines above all sections.
    """

    header: tuple[str, ...]
    sections: tuple[tuple[tuple[TableCell, ...], ...], ...]
    widths: tuple[int, ...]
    heads: tuple[str, ...] = ()
    common: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.widths) + GAP * (len(self.widths) - 1)

    @property
    def rows(self) -> Iterator[tuple[TableCell, ...]]:
        for section in self.sections:
            yield from section

    @cached_property
    def texts(self) -> tuple[tuple[int, bool], ...]:
        """Width of the widest text of each column, without its heading, and whether it
        is a column of numbers.
        """
        facts = []
        for i in range(len(self.header)):
            texts = [row[i].text for section in self.sections for row in section]
            width = max(map(cells_wide, texts), default=0)
            facts.append(
                (width, i > 0 and width <= LONG_TEXT and all(map(NUMBER.match, texts)))
            )
        return tuple(facts)

    def fold_head(self, width: int) -> "_Grid":
        """With headings folded if that makes columns narrower, as few as needed, from
        the right.
        """
        widths = [
            w if w < content else max(content, cells_wide(name))
            for w, (content, _), name in zip(
                self.widths, self.texts, self.header, strict=True
            )
        ]
        for i in reversed(range(len(widths))):
            over = sum(widths) + GAP * (len(widths) - 1) - width
            if over > 0:
                narrow = max(map(cells_wide, wrap(self.header[i], 1, breaks=" -_/,")))
                widths[i] = min(
                    widths[i], max(self.texts[i][0], narrow, widths[i] - over)
                )
        return replace(self, widths=tuple(widths))

    def group(self) -> "_Grid":
        """With leading columns as a line above each section, if only the first row of a
        section fills them.
        """
        if not any(len(section) > 1 for section in self.sections):
            return self
        lead = 0
        while lead < len(self.header) - 1 and all(
            section[0][lead].text and not any(row[lead].text for row in section[1:])
            for section in self.sections
        ):
            lead += 1
        heads = tuple(
            ", ".join(cell.text for cell in section[0][:lead])
            for section in self.sections
        )
        if not lead:
            return self
        sections = tuple(
            tuple(row[lead:] for row in section) for section in self.sections
        )
        return replace(
            self,
            header=self.header[lead:],
            sections=sections,
            widths=self.widths[lead:],
            heads=heads,
        )

    def gather(self) -> "_Grid":
        """With the common values of all rows, or of a section's rows, in lines above
        them.
        """
        return self.group().without_common().by_first()

    def without_common(self) -> "_Grid":
        """With columns of words that are equal in all rows as lines above the table."""
        rows = list(self.rows)
        same = [
            i
            for i in range(1, len(self.header))
            if len(rows) > 1
            and rows[0][i].text
            and not self.texts[i][1]
            and len({row[i] for row in rows}) == 1
        ]
        columns = [
            i
            for i in range(len(self.header))
            if i not in same or self.header[i] == "verdict"
        ]
        common = tuple(
            f"{self.header[i]}: {rows[0][i].text}" for i in same if i not in columns
        )
        return replace(self.select(columns), common=common)

    def by_first(self) -> "_Grid":
        """With rows in sections by their first column, if it repeats and there are no
        sections yet.
        """
        if self.heads or len(self.sections) != 1 or len(self.header) < 3:
            return self
        runs = [
            (name, list(rows))
            for name, rows in groupby(self.sections[0], key=lambda row: row[0].text)
        ]
        if not all(name for name, _ in runs) or 2 * len(runs) > len(self.sections[0]):
            return self
        sections = tuple(tuple(row[1:] for row in rows) for _, rows in runs)
        heads = tuple(name for name, _ in runs)
        return replace(
            self,
            header=self.header[1:],
            sections=sections,
            widths=self.widths[1:],
            heads=heads,
        )

    @property
    def tallest(self) -> int:
        """Number of lines of the tallest row."""
        folded = (
            len(wrap(cell.text, w))
            for row in self.rows
            for cell, w in zip(row, self.widths, strict=True)
        )
        return max(folded, default=1)

    def fold_texts(self, width: int, *, least: int) -> "_Grid":
        """With texts folded at spaces, the widest first, none below `least` or the
        width of a word.
        """
        widths = list(self.widths)
        for i in sorted(range(len(widths)), key=lambda i: -widths[i]):
            over = sum(widths) + GAP * (len(widths) - 1) - width
            if over > 0:
                words = [w for row in self.rows for w in row[i].text.split(" ")]
                words += wrap(self.header[i], 1, breaks=" -_/,")
                floor = max(least, *map(cells_wide, words))
                widths[i] = max(min(floor, widths[i]), widths[i] - over)
        return replace(self, widths=tuple(widths))

    def without(self, name: str) -> "_Grid":
        """The grid without a column."""
        return self.select([i for i, other in enumerate(self.header) if other != name])

    def select(self, columns: Sequence[int]) -> "_Grid":
        sections = tuple(
            tuple(tuple(row[i] for i in columns) for row in section)
            for section in self.sections
        )
        header, widths = (
            tuple(self.header[i] for i in columns),
            tuple(self.widths[i] for i in columns),
        )
        return replace(self, header=header, sections=sections, widths=widths)

    def _names(self) -> int:
        """Number of columns that name a row: the leading ones without numbers, one or
        two.
        """
        first_numeric = next(
            (i for i, (_, numeric) in enumerate(self.texts) if numeric),
            len(self.header),
        )
        return max(1, min(first_numeric, 2, len(self.header) - 1))

    def parts(self, width: int) -> "list[_Grid] | None":
        """The grid in parts that fit and repeat the names of the rows; None if the
        names leave no room.
        """
        names = list(range(self._names()))
        room = width - sum(self.widths[i] + GAP for i in names)
        parts: list[list[int]] = [[]]
        for i in range(len(names), len(self.header)):
            if self.widths[i] > room:
                return None
            if (
                parts[-1]
                and sum(self.widths[j] + GAP for j in parts[-1]) + self.widths[i] > room
            ):
                parts.append([])
            parts[-1].append(i)
        return [self.select([*names, *part]) for part in parts]

    def lines(self, style: Style, *, alone: bool = True) -> Iterator[str]:
        """The lines: common values (if `alone`), heading, a rule, and sections with an
        empty line between them.
        """
        yield from self.common if alone else ()
        title = tuple(map(TableCell, self.header))
        for number, section in enumerate(((title,), *self.sections)):
            if number == 1:
                yield "─" * self.total
            if number > 1:
                yield ""
            if number and self.heads:
                yield self.heads[number - 1]
            for row in section:
                breaks = " " if number else " -_/,"
                texts = [
                    wrap(cell.text, width, breaks=breaks)
                    for cell, width in zip(row, self.widths, strict=True)
                ]
                tall = max(map(len, texts))
                for line in range(tall):
                    cells = []
                    for text, cell, width, (_, numeric) in zip(
                        texts, row, self.widths, self.texts, strict=True
                    ):
                        # headings end at the rule, texts begin
                        at = line if number else line - (tall - len(text))
                        part = text[at] if 0 <= at < len(text) else ""
                        space = " " * (width - cells_wide(part))
                        part = style(part, cell) if part else ""
                        cells.append(space + part if numeric else part + space)
                    yield (" " * GAP).join(cells).rstrip()

    def records(self, width: int, style: Style) -> Iterator[str]:
        """Every row as lines: its name, then one entry per column."""
        yield from self.common
        names = self._names()
        label = max(map(cells_wide, self.header[names:]))
        for number, section in enumerate(self.sections):
            if self.heads:
                yield self.heads[number]
            for row in section:
                named = [cell for cell in row[:names] if cell.text]
                if sum(cells_wide(cell.text) + GAP for cell in named) - GAP <= width:
                    yield (" " * GAP).join(style(cell.text, cell) for cell in named)
                else:
                    yield from (
                        style(line, cell)
                        for cell in named
                        for line in wrap(cell.text, width)
                    )
                for name, cell in zip(self.header[names:], row[names:], strict=True):
                    first, *more = wrap(cell.text, max(width - label - 4, 1))
                    yield (
                        "  "
                        f"{name}{' ' * (label - cells_wide(name))} "
                        f" {style(first, cell)}"
                    ).rstrip()
                    yield from (" " * (label + 4) + style(line, cell) for line in more)
            if number + 1 < len(self.sections):
                yield ""
