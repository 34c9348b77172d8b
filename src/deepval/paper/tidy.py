"""Rows of named values, what each column means, and how it prints.

A row is a plain dict. Its values are numbers, texts, None where something is
undefined, or an `Estimate`: a number with its 95 % interval. In CSV and JSON an
estimate fills three fields (NAME, NAME_lo, NAME_hi), in printed tables two columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, groupby
from statistics import fmean
from typing import Any, NamedTuple

from deepval.judge.report.charts import Chart, Dot, at_headline
from deepval.judge.report.text_tables import (
    MISSING,
    Table,
    TableCell,
    interval,
    number,
    percent,
)

Row = dict[str, Any]
Text = str | TableCell
"""What a printed table shows; a `TableCell` has a mark, such as bold."""


class Estimate(NamedTuple):
    """A number with the bounds of its 95 % interval; None where undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


NOT_PRINTED = ""
"""Heading of an interval that only CSV and JSON have."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    A column with `bounds` holds estimates, and its interval is part of it.

    Attributes:
        name: Its key in the rows.
        meaning: What it is, in one phrase for the docs; empty for a column that only a
            printed table has.
        heading: Its heading in printed tables; None if only CSV and JSON have it.
        text: Turns its value into the text that is printed.
        text_of_row: Turns the whole row into that text instead, where it combines
            several columns.
        bounds: Heading of the interval, if the column holds estimates.
        bounds_text: Turns a bound into text; None for the same as `text`.
        ends: Names of the bounds in CSV and JSON; None for NAME_lo and NAME_hi.
    """

    name: str
    meaning: str = ""
    _: KW_ONLY
    heading: str | None = None
    text: Callable[[Any], Text] = str
    text_of_row: Callable[[Row], Text] | None = None
    bounds: str | None = None
    bounds_text: Callable[[Any], str] | None = None
    ends: tuple[str, str] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of its fields in CSV and JSON."""
        if self.bounds is None:
            return (self.name,)
        ends = self.ends or (f"{self.name}_lo", f"{self.name}_hi")
        return (self.name, *ends)

    def values(self, row: Row) -> tuple[Any, ...]:
        """The values of its fields in a row."""
        if self.bounds is None:
            return (row[self.name],)
        return tuple(row[self.name])

    def texts(self, row: Row) -> list[TableCell]:
        """What a printed table shows of it in a row, with its interval if any."""
        value = row[self.name]
        if isinstance(value, Estimate):
            value = value.value
        if self.text_of_row is None:  # noqa: SIM108
            text = self.text(value)
        else:
            text = self.text_of_row(row)
        # A cell with a mark, such as bold, comes as it is.
        if not isinstance(text, TableCell):
            text = TableCell(text)
        cells = [text]
        if self.bounds:
            _, low, high = row[self.name]
            form = self.bounds_text or self.text
            cells.append(TableCell(interval(low, high, lambda bound: str(form(bound)))))
        return cells

    @property
    def headings(self) -> list[str]:
        """Its headings in a printed table."""
        return [heading for heading in (self.heading, self.bounds) if heading]


def records(columns: Sequence[Column], rows: Iterable[Row]) -> list[Row]:
    """The rows with one value per field, unrounded, as CSV and JSON have them.

    >>> columns = [Column("cell"), Column("harmed", bounds="95 %")]
    >>> records(columns, [{"cell": "braking", "harmed": Estimate(0.5, 0.4, 0.6)}])
    [{'cell': 'braking', 'harmed': 0.5, 'harmed_lo': 0.4, 'harmed_hi': 0.6}]
    """
    records = []
    for row in rows:
        record = {}
        for column in columns:
            record |= zip(column.fields, column.values(row), strict=True)
        records.append(record)
    return records


def from_records(columns: Sequence[Column], records: Iterable[Row]) -> list[Row]:
    """The rows that `records` turned into fields; lists in a file were tuples."""
    rows = []
    for record in records:
        row = {}
        for column in columns:
            values = [_with_tuples(record[field]) for field in column.fields]
            row[column.name] = values[0]
            if column.bounds is not None:
                row[column.name] = Estimate(*values)
        rows.append(row)
    return rows


def _with_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_with_tuples(item) for item in value)
    return value


def printed(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    notes: Iterable[str] = (),
    group: Sequence[str] = (),
    section: Callable[[Row], object] | None = None,
    extra: Sequence[str] = (),
) -> Table:
    """The rows as a table to print.

    Args:
        title: Its title.
        columns: All columns; those without a heading are left out.
        rows: The rows, in their order.
        notes: Sentences below the table.
        group: Columns whose equal texts make a section and are shown once in it.
        section: Another key of a section, which is not shown.
        extra: Headings that a narrow terminal leaves out first.
    """
    shown = [column for column in columns if column.heading is not None]
    headings = []
    for column in shown:
        headings += column.headings
    # Texts first: rows belong together if they print the same, as equal budgets do.
    lines = []
    for row in rows:
        texts = {column.name: column.texts(row) for column in shown}
        lines.append((row, texts))

    def key(line: tuple[Row, dict[str, list[TableCell]]]) -> object:
        row, texts = line
        own_section = None if section is None else section(row)
        return own_section, [texts[name] for name in group]

    sections = []
    for _, members in groupby(lines, key=key):
        section_lines = []
        for _, texts in members:
            # Only the first row of a section names it.
            if section_lines:
                texts |= {name: [TableCell("")] * len(texts[name]) for name in group}
            section_lines.append(tuple(chain.from_iterable(texts.values())))
        sections.append(tuple(section_lines))
    # A table without rows still has a header.
    if not sections and not group and section is None:
        sections = [()]
    return Table(title, tuple(headings), tuple(sections), tuple(notes), tuple(extra))


def only(columns: Sequence[Column], *names: str) -> list[Column]:
    """The named columns, in this order."""
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in names]


def without_intervals(columns: Sequence[Column], *names: str) -> list[Column]:
    """The columns; the intervals of the named ones are not printed."""
    return [
        replace(column, bounds=NOT_PRINTED) if column.name in names else column
        for column in columns
    ]


# How values are printed. All rounding happens here.


def count(value: int | None) -> str:
    """A number of things, with thousands separated."""
    if value is None:
        return MISSING
    return f"{value:,}"


def share(value: float | None) -> str:
    """A share in percent with one digit."""
    return percent(value, 1)


def level(value: float | None) -> str:
    """A budget's share in whole percent."""
    return percent(value, 0)


def two_digits(value: float | None) -> str:
    """A number with two decimals."""
    return number(value, 2)


def decimals(digits: int) -> Callable[[float | None], str]:
    """A format with this number of decimals."""
    return lambda value: number(value, digits)


def yes_no(value: bool | None) -> str:  # noqa: FBT001
    """Whether something holds, or a dash."""
    if value is None:
        return MISSING
    return "yes" if value else "no"


def or_nothing(value: str | None) -> str:
    """A text that may be missing."""
    return value or ""


def mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean over cells; None where a cell has no value."""
    numbers = [value for value in values if value is not None]
    # A mean over the other cells would look like one over all.
    if not numbers or len(numbers) < len(values):
        return None
    return fmean(numbers)


def shortest(value: float | None) -> str:
    """A number with as many digits as it needs."""
    if value is None:
        return MISSING
    return f"{value:g}"


def feasible_share(value: float | None) -> str:
    """A share of inputs that an allocator may escalate; `inf.` where it cannot run."""
    if value is None:
        return "inf."
    return share(value)


def or_dash(value: str | None) -> str:
    """A text, or a dash."""
    return value or MISSING


# Charts: dots with intervals, one row of the chart per label.


@dataclass(frozen=True)
class Dots:
    """A chart of one or more columns of a table.

    Attributes:
        axis: The quantity of the axis.
        series: What to draw: by name of a series, a column or a function of the row. A
            name in braces, such as "{loss}", is taken from the row. Or a function from
            a row to values by series.
        label: Label of a row of the chart: a template, or a function of the row.
        percent: Whether the numbers are shares.
        line: A reference value, such as 0.
        where: Which rows to draw.
        headline: Whether to draw one budget: that nearest to the headline's share.
        sort: Columns to sort the rows by first.
        of: What to draw instead of the rows, such as their means over cells.
    """

    axis: str
    series: "Mapping[str, str | Callable[[Row], Any]] | Callable[[Row], Mapping]"
    label: "str | Callable[[Row], str]" = "{cell}"
    percent: bool = True
    line: float | None = None
    where: Callable[[Row], bool] = lambda row: True
    headline: bool = False
    sort: tuple[str, ...] = ()
    of: Callable[[Sequence[Row]], Iterable[Row]] | None = None

    def label_of(self, row: Row) -> str:
        """The label of a row of the chart."""
        if callable(self.label):
            return self.label(row)
        return self.label.format(**row)

    def values(self, row: Row) -> Mapping[str, Any]:
        """What to draw of a row, by series."""
        if callable(self.series):
            return self.series(row)
        values = {}
        for name, source in self.series.items():
            if isinstance(source, str):
                values[name.format(**row)] = row[source]
            else:
                values[name.format(**row)] = source(row)
        return values

    def chart(self, rows: Sequence[Row]) -> Chart:
        """The chart of some rows."""
        drawn = rows if self.of is None else self.of(rows)
        shown = [row for row in drawn if self.where(row)]
        shown.sort(key=lambda row: [row[name] for name in self.sort])
        if self.headline:
            shown = at_headline(shown)
        dots = []
        for row in shown:
            for series, value in self.values(row).items():
                # A column may hold several numbers, such as one for each seed.
                several = [value]
                if isinstance(value, tuple) and not isinstance(value, Estimate):
                    several = list(value)
                for one in several:
                    point = one if isinstance(one, Estimate) else Estimate(one)
                    dots.append(Dot(self.label_of(row), series, *point))
        axis = self.axis
        if shown:
            # Such as "nDG at {alpha:.0%}": all rows of a chart share what it names.
            axis = axis.format(**shown[0])
        # Rows that differ in another column may share a dot.
        drawn_once = tuple(dict.fromkeys(dots))
        return Chart(axis, drawn_once, self.line, self.percent)
