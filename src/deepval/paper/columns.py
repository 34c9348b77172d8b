"""A row class that describes its own table: every field carries its meaning, its heading and its format.

Tables, the columns listed in docs/analyses.md and the checks of both are made from these declarations.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from deepval.report.text_table import Table, interval, lines_of, number, percent

Form = Callable[[Any], str]


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


def column(meaning: str, heading: str | None = None, form: Form = str, *, of_row: Form | None = None) -> Any:
    """Declare a field: its meaning, and where the table shows it, its heading and format.

    Args:
        meaning: One phrase for the docs.
        heading: Heading in the table; a field without one appears in CSV and JSON only.
        form: Text of the value.
        of_row: Text of the whole row, instead of `form`.
    """
    declared = Column(meaning, heading, of_row or form, of_row is not None)
    return field(metadata={"column": declared})


def low(meaning: str, heading: str | None = None, form: Form = number) -> Any:
    """Declare the lower end of an interval, a field named `NAME_lo` beside `NAME_hi`; the table shows both ends."""
    return field(metadata={"low": True, "column": Column(meaning, heading, form)})


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
    extra: Sequence[str] = (),
) -> Table:
    """The rows as a table with one column for each field that has a heading.

    Args:
        kind: The row class.
        rows: Rows of it.
        title: Title of the table.
        notes: Sentences below it.
        order: Fields to show, in this order; all with a heading where None.
        extra: Headings left out first on a narrow terminal.
    """
    declared = columns(kind)
    by_name = {item.name: item for item in fields(kind)}
    names = [name for name in order or declared if declared[name].heading is not None]
    texts = [[_text(by_name[name], declared[name], row) for name in names] for row in rows]
    headings = tuple(declared[name].heading or "" for name in names)
    return Table(title, headings, lines_of(texts), tuple(notes), tuple(extra))


def _text(item: Field[Any], declared: Column, row: Any) -> str:
    if item.metadata.get("low"):
        stem = item.name.removesuffix("_lo")
        return interval(getattr(row, f"{stem}_lo"), getattr(row, f"{stem}_hi"), declared.form)
    return declared.form(row if declared.of_row else getattr(row, item.name))


def count(value: int) -> str:
    """A number of things, with thousands separated."""
    return f"{value:,}"


def share(value: float | None) -> str:
    """A share in percent with one digit."""
    return percent(value, 1)


def level(value: float | None) -> str:
    """A budget's share in whole percent."""
    return percent(value, 0)


def yes_no(value: object) -> str:
    """Whether something holds."""
    return "yes" if value else "no"


def or_nothing(value: str | None) -> str:
    """A text that may be missing."""
    return value or ""


def meanings(kind: type) -> Iterator[tuple[str, str]]:
    """Each field and its meaning, for the docs."""
    return ((name, declared.meaning) for name, declared in columns(kind).items())


@dataclass(frozen=True)
class CellColumns:
    """The cell that a row is about, and what distinguishes it from others."""

    cell: str = column("The cell", "cell")
    cheap: str = column("Its cheap mode", "modes", of_row=lambda row: f"{row.cheap} -> {row.full}")
    full: str = column("Its full mode")
    geometry: str = column("How detections become objects")
    system: str = column("The downstream system")
