"""Cells -> harm under other loss weights and corridor widths, one constant at a time:
docs/analyses.md.

If a weight changes no plan, losses are recombined from the loss terms in a cell's
folder. If a constant changes plans, the system plans again, which needs the data.

Harm under other weights of the loss and other corridor widths, one at a time. Settings
that change plans need the data.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from deepval.basics.errors import UnsuitableError
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import constant_of, variant_tables, with_changes
from deepval.judge.report.text_tables import Table, lines_of, number
from deepval.judge.tables.terms import align, with_losses
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis
from deepval.paper.columns import CELL, HARM, INPUTS, harm, no_harm
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Row, only, printed, share

Values = tuple[float, ...]
VARIED: dict[str, dict[str, dict[str, Values]]] = {
    "braking": {
        "weights": {
            "excess_weight": (0.06, 0.12, 0.24),
            "collision_weight": (3.0, 6.0, 12.0),
            "change_weight": (0.0, 0.02, 0.04),
        },
        "corridor": {"corridor_half_width_m": (1.0, 1.2, 1.5)},
    },
    "receding-horizon": {
        "weights": {
            "collision_weight": (5.0, 10.0, 20.0),
            "clearance_weight": (0.75, 1.5, 3.0),
            "progress_weight": (0.5, 1.0, 2.0),
        },
    },
}
"""The values that the paper tries, by downstream system and group; a cell's own value
is judged too.
"""
ASKED = "asked for"
"""The group of constants that the user asks for."""


CONSTANT = (
    *CELL,
    Column(
        "group",
        "Group of the constant: weights or corridor as in the paper's "
        "table, or asked for",
    ),
    Column("constant", "The constant", heading="constant"),
    Column(
        "value",
        "Its value",
        heading="value",
        text_of_row=lambda row: f"{row['value']:g}{' (own)' if row['own'] else ''}",
    ),
    Column("own", "Whether this is the cell's own value"),
    Column(
        "acts_anew",
        "Whether the constant changes plans, so that losses cannot be recombined",
    ),
)
"""A cell and one constant of its downstream system."""


COLUMNS = (
    *CONSTANT,
    *INPUTS,
    *HARM,
)
"""A cell with one constant at one value; counts and harm are None if they need data
that is missing.
"""


@dataclass(frozen=True)
class _Variant:
    group: str
    constant: str
    value: float
    own: bool
    term: str | None
    """The loss term that the constant weighs, where it changes no plan."""


def rows(
    cells: Sequence[Cell],
    *,
    vary: Mapping[str, Sequence[float]] | None = None,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per cell, constant and value.

    Args:
        cells: The cells.
        vary: Values by constant; every cell's system must have these constants. None
            for the paper's.
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
    """
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        variants = list(_variants(cell.part("located") or cell.cell.spec, vary))
        tables = _tables(cell, inputs.table, variants)
        for variant in variants:
            # Without its data, what changes plans cannot be judged.
            harm_of_variant = no_harm()
            if variant in tables:
                harm_of_variant = harm(tables[variant], inputs.draws)
            yield {
                **cell.description,
                "group": variant.group,
                "constant": variant.constant,
                "value": variant.value,
                "own": variant.own,
                "acts_anew": variant.term is None,
                **harm_of_variant,
            }


def _variants(
    spec: CellSpec, vary: Mapping[str, Sequence[float]] | None
) -> Iterator[_Variant]:
    """Every value of every constant to be varied on a cell, its own among them."""
    system = spec.acting
    groups = (
        VARIED.get(spec.system)
        if vary is None
        else {ASKED: {name: tuple(v) for name, v in vary.items()}}
    )
    if groups is None:
        raise UnsuitableError(
            f"the paper varies constants of {' and '.join(VARIED)}, not of "
            f"{spec.system}: `vary` of the Python call names others."
        )
    as_built = with_changes(spec, spec.set_constants())
    for group, constants in groups.items():
        for constant, values in constants.items():
            own = float(constant_of(as_built, constant))
            term = (
                constant.removesuffix("_weight")
                if constant in system.loss_fields
                else None
            )
            for value in sorted({*map(float, values), own}):
                yield _Variant(group, constant, value, value == own, term)


def _tables(
    cell: Cell, like: ValueTable, variants: Sequence[_Variant]
) -> dict[_Variant, ValueTable]:
    """The losses of every variant that can be judged, recombined from terms or planned
    again.
    """
    reweighted = [variant for variant in variants if variant.term is not None]
    anew = [variant for variant in variants if variant.term is None]
    terms = align(like, cell.cell.terms) if reweighted else None
    tables_by_variant = {
        variant: with_losses(like, terms.reweight({variant.term: variant.value}))
        for variant in reweighted
        if terms is not None and variant.term is not None
    }
    spec = cell.part("located")
    if spec is None or not anew:
        return tables_by_variant
    ends = replace(spec, modes=(spec.modes[0], spec.modes[-1]))
    changed = [
        with_changes(ends, {variant.constant: variant.value}) for variant in anew
    ]
    tables = variant_tables(
        changed, like, watch=cell.watch, label=f"variants of {spec.system}"
    )
    return tables_by_variant | dict(zip(anew, tables, strict=True))


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table, and below them the range of each group, as the paper has
    it.
    """
    ranges = [
        (
            cell,
            f"all {group}",
            "range",
            "",
            *_range(rates, share),
            *_range(ratios, number),
        )
        for (cell, group), rates, ratios in _ranges(rows)
    ]
    lacking = sorted({row["cell"] for row in rows if row["inputs"] is None})
    notes = [
        (
            "One constant at a time; the range of a group is over its values, the "
            "cell's own among them."
        )
    ]
    if lacking:
        notes.append(
            f"What changes plans needs the data of {', '.join(lacking)}, which "
            "are not where they were."
        )
    order = (
        "cell",
        "constant",
        "value",
        "affected",
        "harm_rate",
        "harm_ratio",
    )
    title = "Harm under other loss weights and corridors"
    by_value = printed(title, only(COLUMNS, *order), rows, notes=notes)
    return [
        replace(
            by_value, sections=by_value.sections + (lines_of(ranges) if ranges else ())
        )
    ]


def _ranges(
    rows: Sequence[Row],
) -> Iterator[tuple[tuple[str, str], list[float], list[float]]]:
    """Harm rates and harm ratios by cell and group of constants; only groups in which
    every value was judged.
    """
    for key, members in groupby(rows, key=lambda row: (row["cell"], row["group"])):
        group_rows = list(members)
        rates = [
            row["harm_rate"].value
            for row in group_rows
            if row["harm_rate"].value is not None
        ]
        ratios = [
            row["harm_ratio"].value
            for row in group_rows
            if row["harm_ratio"].value is not None
        ]
        if all(row["inputs"] is not None for row in group_rows) and rates and ratios:
            yield key, rates, ratios


def _range(
    values: Sequence[float], form: Callable[[float | None], str]
) -> tuple[str, str]:
    return f"{form(min(values))} to {form(max(values))}", ""


SENSITIVITY = Analysis(
    name="sensitivity",
    shows="Show harm under other loss weights and corridors",
    paper="loss and corridor sensitivity",
    example=("cells/braking-monocular"),
    by="cell",
    details=(
        "Harm under other weights of the loss and other corridor widths, one at a "
        "time. Settings that change plans need the data."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    tables=tables,
)
