"""A row class that describes its own table: every field carries its meaning, its heading and its format.

Tables, the columns listed in docs/analyses.md and the checks of both are made from these declarations.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import groupby
from statistics import fmean
from typing import Any

from deepval.report.text_tables import MISSING as DASH
from deepval.report.text_tables import Table, TableCell, interval, number, percent
from deepval.results import BudgetRecord

Form = Callable[[Any], str | TableCell]


@dataclass(frozen=True)
class Column:
    """What a field means and how it is printed.

    Attributes:
        meaning: One phrase for the docs.
        heading: Heading in the table; a field without one appears in CSV and JSON only.
        form: Text of a value, or of the whole row where `of_row` is set.
        of_row: Whether the text needs other fields too, as an interval does.
    """

    meaning: str
    heading: str | None = None
    form: Form = str
    of_row: bool = False


def column(
    meaning: str,
    heading: str | None = None,
    form: Form = str,
    *,
    of_row: Form | None = None,
    default: Any = MISSING,
) -> Any:
    """Declare a field: its meaning, and where the table shows it, its heading and format.

    Args:
        meaning: One phrase for the docs.
        heading: Heading in the table; a field without one appears in CSV and JSON only.
        form: Text of the value, or a cell with a mark.
        of_row: Text of the whole row, instead of `form`.
        default: Value of the field where a row is made without it.
    """
    declared = Column(meaning, heading, of_row or form, of_row is not None)
    return field(default=default, metadata={"column": declared})


def low(
    meaning: str = "Lower end of its 95 % interval over units",
    heading: str | None = None,
    form: Callable[[float | None], str] = number,
    *,
    default: Any = MISSING,
) -> Any:
    """Declare the lower end of an interval, a field named `NAME_lo` beside `NAME_hi`; the table shows both ends."""
    return field(default=default, metadata={"low": True, "column": Column(meaning, heading, form)})


def high(*, default: Any = MISSING) -> Any:
    """Declare the upper end of the interval whose lower end stands before it."""
    return column("Upper end of the interval", default=default)


def columns(kind: type) -> dict[str, Column]:
    """The declarations of a row class by field.

    Raises:
        TypeError: A field has no declaration.
    """
    missing = [item.name for item in fields(kind) if "column" not in item.metadata]
    if missing:
        raise TypeError(f"Every field of {kind.__name__} must be declared by column(...); {missing[0]} is not.")
    return {item.name: item.metadata["column"] for item in fields(kind)}


def declared_table(
    kind: type,
    rows: Sequence[Any],
    title: str,
    *,
    notes: Sequence[str] = (),
    order: Sequence[str] | None = None,
    group: Sequence[str] = (),
    split: Callable[[Any], object] | None = None,
    extra: Sequence[str] = (),
) -> Table:
    """The rows as a table with one column for each field that has a heading.

    Args:
        kind: The row class.
        rows: Rows of it.
        title: Title of the table.
        notes: Sentences below it.
        order: Fields to show, in this order; all with a heading where None.
        group: Fields that make a section: consecutive rows with the same texts form one, and the first row shows them.
        split: Key of a section without such fields.
        extra: Headings left out first on a narrow terminal.
    """
    declared = columns(kind)
    by_name = {item.name: item for item in fields(kind)}
    names = [name for name in order or declared if declared[name].heading is not None]
    keys = [split(row) if split else None for row in rows]
    lines = [{name: _cell(by_name[name], declared[name], row) for name in names} for row in rows]
    sections = []
    for _, members in groupby(zip(keys, lines, strict=True), key=lambda item: (item[0], [item[1][g] for g in group])):
        first, *others = (line for _, line in members)
        sections.append(tuple(tuple(line.values()) for line in (first, *(_blank(line, group) for line in others))))
    headings = tuple(declared[name].heading or "" for name in names)
    whole = not group and split is None
    return Table(title, headings, ((),) if whole and not sections else tuple(sections), tuple(notes), tuple(extra))


def _blank(line: dict[str, TableCell], group: Sequence[str]) -> dict[str, TableCell]:
    return line | dict.fromkeys(group, TableCell(""))


def _cell(item: Field[Any], declared: Column, row: Any) -> TableCell:
    if item.metadata.get("low"):
        ends = getattr(row, item.name), getattr(row, f"{item.name.removesuffix('lo')}hi")
        return TableCell(interval(*ends, lambda value: str(declared.form(value))))
    text = declared.form(row if declared.of_row else getattr(row, item.name))
    return TableCell(text) if isinstance(text, str) else text


def count(value: int | None) -> str:
    """A number of things, with thousands separated, or a dash."""
    return DASH if value is None else f"{value:,}"


def decimals(digits: int) -> Callable[[float | None], str]:
    """Numbers with so many decimals."""
    return lambda value: number(value, digits)


def shortest(value: float | None) -> str:
    """A number with as many digits as it needs, or a dash."""
    return DASH if value is None else f"{value:g}"


def share(value: float | None) -> str:
    """A share in percent with one digit."""
    return percent(value, 1)


def feasible_share(value: float | None) -> str:
    """The share of inputs that an allocator may escalate in percent; `inf.` where it cannot run."""
    return "inf." if value is None else share(value)


def level(value: float | None) -> str:
    """A budget's share in whole percent."""
    return percent(value, 0)


def yes_no(value: bool | None) -> str:  # noqa: FBT001
    """Whether something holds, or a dash."""
    return DASH if value is None else "yes" if value else "no"


def or_dash(value: str | None) -> str:
    """A text, or a dash."""
    return value or DASH


def or_nothing(value: str | None) -> str:
    """A text that may be missing."""
    return value or ""


def mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean over cells; None where a cell has no value, or there is no cell."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None


@dataclass(frozen=True)
class CellName:
    """The cell that a row is about."""

    cell: str = column("The cell", "cell")


@dataclass(frozen=True)
class CellColumns(CellName):
    """The cell that a row is about, and what distinguishes it from others."""

    cheap: str = column("Its cheap mode", "modes", of_row=lambda row: f"{row.cheap} -> {row.full}")
    full: str = column("Its full mode")
    geometry: str = column("How detections become objects")
    system: str = column("The downstream system")


@dataclass(frozen=True)
class AllocatorName:
    """The allocator that a row is about."""

    allocator: str = column("The allocator", "allocator")


@dataclass(frozen=True)
class BudgetColumns(BudgetRecord):
    """The budget that a row is under."""

    kind: str = column(
        "Kind of budget: selection, latency, energy or money", "budget", of_row=lambda row: row.budget.label
    )
    alpha: float = column("The budget's share: part of the inputs that a zero-cost allocator could escalate")
    convention: str | None = column("Unit of a measured budget: ms, mj, mj_gpu, mj_all or usd")
    accounting: str | None = column("Accounting of a measured budget: cascade or skipping")
