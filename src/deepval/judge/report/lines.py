"""Tables and sentences -> lines of a terminal.

No text is ever cut. A table that is too wide loses its `extra` columns in their order,
and a note names them; if that is not enough, every row becomes a record of lines.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import category, combining, east_asian_width

from deepval.judge.report.text_tables import Cells, Sections, Table, TableCell

GAP = 2
"""Spaces between columns."""
LONG_TEXT = 24
"""The last column folds at spaces, if it is wider than this and there is no room."""
NUMBER = re.compile(r"[-+–−]?[\d.,]+|\[|[<>] |–$|inf\.$|$")
"""The beginning of a cell in a column of numbers, or a sign in place of a number."""

Style = Callable[[str, TableCell], str]
"""A text and its cell -> the text with marks of width 0, such as colours."""


def unstyled(text: str, cell: TableCell) -> str:
    """The text without marks."""
    return text


@dataclass(frozen=True)
class Layout:
    """A table on a terminal.

    Attributes:
        lines: Its lines.
        left_out: The columns that are left out.
        needed: The smallest width with all columns.
    """

    lines: tuple[str, ...]
    left_out: tuple[str, ...]
    needed: int


def lay_out(
    table: Table, width: int, style: Style = unstyled, *, has_rule: bool = True
) -> Layout:
    """The table in lines of at most this width, unless a single word is wider.

    Args:
        table: The table.
        width: Columns of the terminal.
        style: Marks the texts.
        has_rule: Whether a rule parts the header from the rows.
    """
    grid = _Grid.of(table)
    needed = grid.least_width
    left_out = []
    for name in table.extra:
        if grid.least_width <= width or len(grid.header) == 1:
            break
        grid = grid.without(name)
        left_out.append(name)
    if grid.least_width <= width:
        lines = grid.lines(width, style, has_rule=has_rule)
    else:
        lines = grid.records(width, style)
    return Layout(tuple(lines), tuple(left_out), needed)


def cells_wide(text: str) -> int:
    """Width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    width = 0
    for sign in text:
        if east_asian_width(sign) in "WF":
            width += 2
        elif not combining(sign):
            width += 1
    return width


def printable(text: str) -> str:
    """The text with control characters, which could move the cursor or change colours,
    written as escapes.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(c if category(c)[0] != "C" else repr(c)[1:-1] for c in text)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most this width, broken at spaces; longer words stay
    whole.
    """
    lines = []
    words: list[str] = []
    used = 0  # width of the last line, so that no word is measured twice
    for word in text.rstrip().split(" "):
        size = cells_wide(word)
        if words and used + 1 + size > width:
            lines.append(" ".join(words))
            words = []
            used = -1
        if not words:
            used = -1
        words.append(word)
        used += 1 + size
    return [*lines, " ".join(words)]


def fold(text: str, width: int, *, indent: int = 0) -> str:
    """A sentence folded at spaces, further lines indented."""
    first, *more = wrap(text, width)
    lines = [first]
    if more:
        lines += wrap(" ".join(more), width - indent)
    return ("\n" + " " * indent).join(lines)


@dataclass(frozen=True)
class _Grid:
    """An intermediate form between a table and its lines.

    Attributes:
        header: Names of the columns.
        sections: Rows of cells, section by section.
        heads: A line above each section; empty where sections have no names.
    """

    header: tuple[str, ...]
    sections: Sections
    heads: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> "_Grid":
        """The texts as they are printed.

        Leading columns that only the first row of a section fills are a line above it.
        """
        sections = [
            [tuple(map(_marked, row)) for row in section] for section in table.sections
        ]
        lead = _number_of_lead_columns(sections, len(table.header))
        heads: list[str] = []
        for section in sections if lead else ():
            heads += [", ".join(cell.text for cell in section[0][:lead])]
        return cls(
            tuple(map(printable, table.header[lead:])),
            tuple(tuple(row[lead:] for row in section) for section in sections),
            tuple(heads),
        )

    def without(self, name: str) -> "_Grid":
        """The grid without a column."""
        if name not in self.header:
            return self
        place = self.header.index(name)

        def kept(row: Cells) -> Cells:
            return row[:place] + row[place + 1 :]

        sections = tuple(tuple(map(kept, section)) for section in self.sections)
        header = self.header[:place] + self.header[place + 1 :]
        return _Grid(header, sections, self.heads)

    @cached_property
    def columns(self) -> list[list[str]]:
        """The texts of every column, without its heading."""
        rows = [row for section in self.sections for row in section]
        return [[row[i].text for row in rows] for i in range(len(self.header))]

    @cached_property
    def widths(self) -> list[int]:
        """The width of every column."""
        widths = []
        for name, texts in zip(self.header, self.columns, strict=True):
            widths.append(max(cells_wide(text) for text in (name, *texts)))
        return widths

    @cached_property
    def least_width(self) -> int:
        """The width of the grid where the last column folds."""
        words = [self.header[-1]]
        for text in self.columns[-1]:
            words += text.split(" ")
        least = max(LONG_TEXT, *map(cells_wide, words))
        return self.before_last + min(self.widths[-1], least)

    @property
    def before_last(self) -> int:
        """Where the last column begins."""
        return sum(self.widths[:-1]) + GAP * (len(self.header) - 1)

    def lines(self, width: int, style: Style, *, has_rule: bool) -> Iterator[str]:
        """The heading, a rule, and sections with an empty line between them."""
        last = min(self.widths[-1], width - self.before_last)
        widths = [*self.widths[:-1], last]
        # Names begin at the left, numbers end at the right.
        aligned_right = [False] * len(widths)
        for i, texts in enumerate(self.columns):
            is_short = self.widths[i] <= LONG_TEXT
            aligned_right[i] = i > 0 and is_short and all(map(NUMBER.match, texts))

        def line(row: Cells) -> Iterator[str]:
            first, *more = wrap(row[-1].text, last)
            parts = []
            shown = [*row[:-1], TableCell(first, row[-1].mark)]
            for cell, size, right in zip(shown, widths, aligned_right, strict=True):
                space = " " * (size - cells_wide(cell.text))
                text = style(cell.text, cell) if cell.text else ""
                parts.append(space + text if right else text + space)
            yield (" " * GAP).join(parts).rstrip()
            for text in more:
                yield " " * self.before_last + style(text, row[-1])

        yield from line(tuple(map(TableCell, self.header)))
        if has_rule:
            yield "─" * (self.before_last + last)
        for number, section in enumerate(self.sections):
            if number:
                yield ""
            yield from self.heads[number : number + 1]
            for row in section:
                yield from line(row)

    def records(self, width: int, style: Style) -> Iterator[str]:
        """Every row as lines: its name, then an entry per column that it fills."""
        names = self.header[1:]
        label = max(map(cells_wide, names), default=0)
        for number, section in enumerate(self.sections):
            if number:
                yield ""
            yield from self.heads[number : number + 1]
            for row in section:
                for text in wrap(row[0].text, width):
                    yield style(text, row[0])
                for name, cell in zip(names, row[1:], strict=True):
                    begin = f"  {name}{' ' * (label - cells_wide(name))}  "
                    for text in wrap(cell.text, max(width - label - 4, 1)):
                        if text:
                            yield begin + style(text, cell)
                        begin = " " * (label + 4)


def _marked(cell: TableCell) -> TableCell:
    """A cell whose mark is seen without colours, too."""
    sign = "*" if cell.mark == "worse" else ""
    return TableCell(printable(cell.text) + sign, cell.mark)


def _number_of_lead_columns(sections: Sequence[Sequence[Cells]], columns: int) -> int:
    """How many columns only the first row of each section fills."""
    if not all(sections) or all(len(section) == 1 for section in sections):
        return 0
    lead = 0
    while lead < columns - 1:
        for section in sections:
            first, *more = (row[lead].text for row in section)
            if not first or any(more):
                return lead
        lead += 1
    return lead
