"""Row classes that describe their own table: every field carries its meaning, its
heading and its format.

Tables and the list of columns in docs/analyses.md are made, and checked, from these
declarations. Analyses share the columns that describe a cell and its harm, and the
functions that fill them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from itertools import combinations, groupby
from typing import Any, NamedTuple

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import unit_data
from deepval.errors import InputError
from deepval.judging.cases import JudgedCell
from deepval.judging.draws import Draws
from deepval.judging.ratios import ratio
from deepval.paper.tidy import (
    count,
    share,
)
from deepval.perception.reported.score_thresholds import (
    SHARED,
    OperatingPoint,
    count_matching_point,
)
from deepval.report.text_tables import Table, TableCell, interval, number
from deepval.results import BudgetRecord, Result
from deepval.tables.costs import Costs
from deepval.tables.keys import positions
from deepval.tables.split import units_of
from deepval.tables.values import ValueTable

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
    """Declare a field: its meaning and, if the table shows it, its heading and format.

    Args:
        meaning: One phrase for the docs.
        heading: Heading in the table; a field without one appears in CSV and JSON only.
        form: Text of the value, or a cell with a mark.
        of_row: Text of the whole row, instead of `form`.
        default: Value of the field if a row is made without it.
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
    """Declare the lower end of an interval, a field named `NAME_lo` beside `NAME_hi`;
    the table shows both ends.
    """
    return field(
        default=default,
        metadata={"low": True, "column": Column(meaning, heading, form)},
    )


def high(*, default: Any = MISSING) -> Any:
    """Declare the upper end of the interval whose lower end is the field before it."""
    return column("Upper end of the interval", default=default)


def columns(kind: type) -> dict[str, Column]:
    """The declarations of a row class by field.

    Raises:
        TypeError: A field has no declaration.
    """
    missing = [item.name for item in fields(kind) if "column" not in item.metadata]
    if missing:
        raise TypeError(
            f"Every field of {kind.__name__} must be declared "
            f"by column(...); {missing[0]} is not."
        )
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
        order: Fields to show, in this order; None for all fields with a heading.
        group: Fields that make a section: consecutive rows with the same texts form a
            section, and only its first row shows these fields.
        split: Further key of a section, which the table does not show.
        extra: Headings left out first on a narrow terminal.
    """
    declared = columns(kind)
    by_name = {item.name: item for item in fields(kind)}
    names = [name for name in order or declared if declared[name].heading is not None]
    keys = [split(row) if split else None for row in rows]
    lines = [
        {name: _cell(by_name[name], declared[name], row) for name in names}
        for row in rows
    ]
    sections = []
    for _, members in groupby(
        zip(keys, lines, strict=True),
        key=lambda item: (item[0], [item[1][g] for g in group]),
    ):
        first, *others = (line for _, line in members)
        sections.append(
            tuple(
                tuple(line.values())
                for line in (first, *(_blank(line, group) for line in others))
            )
        )
    headings = tuple(declared[name].heading or "" for name in names)
    whole = not group and split is None
    return Table(
        title,
        headings,
        ((),) if whole and not sections else tuple(sections),
        tuple(notes),
        tuple(extra),
    )


def _blank(line: dict[str, TableCell], group: Sequence[str]) -> dict[str, TableCell]:
    return line | dict.fromkeys(group, TableCell(""))


def _cell(item: Field[Any], declared: Column, row: Any) -> TableCell:
    if item.metadata.get("low"):
        ends = (
            getattr(row, item.name),
            getattr(row, f"{item.name.removesuffix('lo')}hi"),
        )
        return TableCell(interval(*ends, lambda value: str(declared.form(value))))
    text = declared.form(row if declared.of_row else getattr(row, item.name))
    return TableCell(text) if isinstance(text, str) else text


@dataclass(frozen=True)
class CellName:
    """The cell that a row is about."""

    cell: str = column("The cell", "cell")


@dataclass(frozen=True)
class CellColumns(CellName):
    """The cell that a row is about, and what distinguishes it from others."""

    cheap: str = column(
        "Its cheap mode", "modes", of_row=lambda row: f"{row.cheap} -> {row.full}"
    )
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
        "Kind of budget: selection, latency, energy or money",
        "budget",
        of_row=lambda row: row.budget.label,
    )
    alpha: float = column(
        "The budget's share: part of the inputs that a zero-cost "
        "allocator could escalate"
    )
    convention: str | None = column(
        "Unit of a measured budget: ms, mj, mj_gpu, mj_all or usd"
    )
    accounting: str | None = column(
        "Accounting of a measured budget: cascade or skipping"
    )


Charged = Costs | Mapping[str, Costs]
"""Costs for all cells, or for each cell by name."""


class ModeCosts(NamedTuple):
    """Cost per input of the cheap and of the full mode, in units of a convention."""

    cheap: float
    full: float

    @property
    def uniform_from(self) -> float:
        """The smallest share whose budget allows the full mode alone on every input:
        (C_f - C_c)/C_f.
        """
        return (self.full - self.cheap) / self.full


def figures(name: str, table: ValueTable, costs: Charged | None, what: str) -> Costs:
    """Costs of modes and allocators: the named ones, or the table's own; `what` names
    the quantity that needs them.
    """
    named = costs.get(name) if isinstance(costs, Mapping) else costs
    own = named or table.costs
    if own is None:
        raise InputError(
            f"{name}: {what} needs the costs of modes and allocators; "
            "there are none: give --costs."
        )
    return own


def mode_costs(result: Result, convention: str | None) -> ModeCosts | None:
    """Costs of the cheap and the full mode of a result in a convention; None if nothing
    is charged.
    """
    figures = result.provenance.costs
    if figures is None or convention is None:
        return None
    first, last = (
        figures["modes"].get(mode, {})
        for mode in (result.setting.modes[0], result.setting.modes[-1])
    )
    if convention not in first or convention not in last:
        return None
    return ModeCosts(float(first[convention]), float(last[convention]))


def count_matched_point(
    spec: CellSpec, *, units: Sequence[str] | None = None
) -> OperatingPoint:
    """The count-matched thresholds of a cell's two modes; the cheap mode keeps its own,
    or 0.25 if it has none.

    Args:
        spec: The cell; its data set and detections must be on this machine.
        units: Units to count on; the training units where None.
    """
    ends = spec.modes[0], spec.modes[-1]
    for mode in ends:
        if mode.reader is None or mode.reader.scores != "probabilities":
            kind = "not known" if mode.reader is None else mode.reader.scores
            raise InputError(
                "count-matched thresholds need probabilities; "
                f"the scores of mode {mode.name} are {kind}."
            )
    parts = [
        unit_data(spec, unit) for unit in (spec.roles.train if units is None else units)
    ]
    cheap, full = ([part.reported[mode.name] for part in parts] for mode in ends)
    least = SHARED if ends[0].threshold is None else ends[0].threshold
    return count_matching_point(cheap, full, cheap_threshold=least)


def count_matched_specs(
    specs: Sequence[CellSpec], *, units: Sequence[str] | None = None
) -> list[CellSpec]:
    """Cells at count-matched thresholds; they share a data set and modes, so the
    thresholds are chosen once.
    """
    first = specs[0]
    if units is None and not first.roles.train:
        raise InputError(
            f"{first.name}: counts are matched on training units, and there are none: "
            f"{first.roles.too_few}. Give more units, or a threshold."
        )
    point = count_matched_point(first, units=units)
    if point.full is None:
        raise InputError(f"{first.name}: no threshold matches counts: {point.reason}.")
    cheap, *between, full = first.modes
    modes = (
        replace(cheap, threshold=point.cheap),
        *between,
        replace(full, threshold=point.full),
    )
    return [replace(spec, modes=modes) for spec in specs]


Units = str | Sequence[str]
"""Units by role (train, validation, test, fit, all), by name, or both."""


def loss_table(cell: JudgedCell, units: Units = "all") -> ValueTable:
    """The losses of the named units, listing units without inputs too: so cells of a
    data set share their draws.
    """
    return cell.listed.restrict(list(units_of(cell.split, units)))


def cell_columns(name: str, cell: BuiltCell) -> dict[str, Any]:
    """The columns that describe a cell: name, modes, geometry, downstream system."""
    ends = {"cell": name, "cheap": cell.table.modes[0], "full": cell.table.modes[-1]}
    return ends | {"geometry": cell.spec.geometry, "system": cell.spec.system}


@dataclass(frozen=True, kw_only=True)
class InputColumns:
    """How many inputs and units a row is over; None if the row could not be judged."""

    inputs: int | None = column("Number of inputs", default=None)
    units: int | None = column("Number of units", default=None)


@dataclass(frozen=True, kw_only=True)
class HarmColumns:
    """How many inputs escalation affects and harms, and how much; None if the row could
    not be judged.
    """

    affected: int | None = column(
        "Inputs whose loss the full mode changes", "affected", count, default=None
    )
    harmed: int | None = column(
        "Affected inputs whose loss the full mode raises", default=None
    )
    harm_rate: float | None = column(
        "Share of the affected inputs that are harmed", "harmed", share, default=None
    )
    harm_rate_lo: float | None = low(heading="95 %", form=share, default=None)
    harm_rate_hi: float | None = high(default=None)
    harm_ratio: float | None = column(
        "Total harm over total benefit", "harm ratio", number, default=None
    )
    harm_ratio_lo: float | None = low(heading="95 %", default=None)
    harm_ratio_hi: float | None = high(default=None)
    draws: int | None = column("Number of draws", default=None)
    draws_dropped: int | None = column(
        "Draws without any benefit, left out of the interval of the harm ratio",
        default=None,
    )


def harm(table: ValueTable, draws: Draws) -> dict[str, Any]:
    """How many inputs of a table escalation affects and harms, and how much, with 95 %
    intervals over units.
    """
    values = table.decision_values
    harmed, affected = values < -table.tolerance, np.abs(values) > table.tolerance
    rate = ratio(table, harmed, affected, draws=draws)
    total = ratio(table, np.maximum(-values, 0.0), np.maximum(values, 0.0), draws=draws)
    return {
        "inputs": len(table),
        "units": len(table.unit_ids),
        "affected": int(affected.sum()),
        "harmed": int(harmed.sum()),
        **rate.columns("harm_rate"),
        **total.columns("harm_ratio"),
        "draws": len(draws),
        "draws_dropped": total.dropped,
    }


def sees_the_same(one: BuiltCell, other: BuiltCell) -> bool:
    """Whether two cells share data set, modes and geometry, so that they differ in the
    consumer alone.
    """
    return all(
        one.definition[part] == other.definition[part]
        for part in ("dataset", "modes", "geometry")
    )


def pairs(cells: Mapping[str, BuiltCell]) -> Iterator[tuple[str, str]]:
    """Pairs of cells that differ in the consumer alone; an error if there is none."""
    members = [
        (a, b) for a, b in combinations(cells, 2) if sees_the_same(cells[a], cells[b])
    ]
    if not members:
        raise InputError(
            "Two cells with the same data set, modes and geometry are needed to "
            f"compare consumers; found none among {', '.join(cells)}."
        )
    yield from members


def shared_inputs(
    one: BuiltCell, other: BuiltCell, units: Units
) -> tuple[ValueTable, ValueTable]:
    """The inputs that both cells judge; cells of the same data set have them in the
    same order.
    """
    first, second = loss_table(one, units), loss_table(other, units)
    common = (
        first.keep(positions(first.input, second.input) >= 0),
        second.keep(positions(second.input, first.input) >= 0),
    )
    if not len(common[0]):
        raise InputError(
            f"{one.folder} and {other.folder}: two consumers need inputs in common; "
            "there are none."
        )
    return common
