"""Cells -> harm under other loss weights and corridor widths, one constant at a time: docs/analyses.md.

Weights that change no plan are recombined from the loss terms in a cell's folder; what changes plans acts again on the
data, where they are at hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import constant_of, variant_tables, with_changes
from deepval.errors import InputError
from deepval.judging.draws import Draws, make_draws
from deepval.paper.analyses.judged import Units, harm, judged, place
from deepval.progress import Watch, silent
from deepval.report.text_table import Table, interval, lines_of, number, percent
from deepval.systems import SYSTEMS
from deepval.tables.terms import align, with_losses
from deepval.tables.values import ValueTable

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
"""What the paper varies, by downstream system and group; a cell's own value is judged too."""
ASKED = "asked for"
"""The group of constants that somebody asked for."""


@dataclass(frozen=True)
class SensitivityRow:
    """A cell with one constant of its downstream system at another value, or at its own.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        group: weights or corridor, as in the paper's table, or asked for.
        constant: The constant.
        value: Its value.
        own: Whether that is the cell's own.
        acts_anew: Whether the constant changes plans, so that losses cannot be recombined.
        inputs: Number of inputs; None where the data are needed and not at hand, as is all below.
        units: Number of units.
        affected: Inputs whose loss the full mode changes.
        harmed: Those that it makes worse.
        harm_rate: Share of the affected inputs that are harmed, with its 95 % interval over units.
        harm_ratio: Total harm over total benefit, with its 95 % interval over units.
        draws: Number of draws.
        draws_dropped: Draws without any benefit, left out of the interval of the harm ratio.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    group: str
    constant: str
    value: float
    own: bool
    acts_anew: bool
    inputs: int | None = None
    units: int | None = None
    affected: int | None = None
    harmed: int | None = None
    harm_rate: float | None = None
    harm_rate_lo: float | None = None
    harm_rate_hi: float | None = None
    harm_ratio: float | None = None
    harm_ratio_lo: float | None = None
    harm_ratio_hi: float | None = None
    draws: int | None = None
    draws_dropped: int | None = None


@dataclass(frozen=True)
class _Variant:
    group: str
    constant: str
    value: float
    own: bool
    term: str | None
    """The loss term that the constant weighs, where it changes no plan."""


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    located: Mapping[str, CellSpec] | None = None,
    vary: Mapping[str, Sequence[float]] | None = None,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = silent,
) -> list[SensitivityRow]:
    """One row per cell, constant and value.

    Args:
        cells: Cells by name.
        located: Specifications of those whose data are at hand, by the same names (`cells.located`).
        vary: Values by constant, each of every cell's system; the paper's where None.
        units: Units whose inputs are looked at.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in cells.items():
        like, spec = judged(cell, units), (located or {}).get(name)
        variants = list(_variants(cell.spec, vary))
        tables = _tables(cell, like, spec, variants=variants, watch=watch)
        drawn = make_draws(len(like.unit_ids), draws, seed)
        found += [_row(name, cell, each, tables.get(each), drawn) for each in variants]
    return found


def _variants(spec: CellSpec, vary: Mapping[str, Sequence[float]] | None) -> Iterator[_Variant]:
    """Every value of every constant to be varied on a cell, its own among them."""
    if spec.rule is None:
        raise InputError(
            f"{spec.name}: constants of {', '.join(SYSTEMS)} can be varied; {spec.system} has a loss of one term and "
            "none to vary."
        )
    groups = VARIED.get(spec.system) if vary is None else {ASKED: {name: tuple(v) for name, v in vary.items()}}
    if groups is None:
        raise InputError(
            f"{spec.name}: the paper varies constants of {' and '.join(VARIED)}, not of {spec.system}: name some with "
            "--vary."
        )
    as_built = with_changes(spec, spec.set_constants())
    for group, constants in groups.items():
        for constant, values in constants.items():
            own = float(constant_of(as_built, constant))
            term = constant.removesuffix("_weight") if constant in spec.rule.loss_fields else None
            for value in sorted({*map(float, values), own}):
                yield _Variant(group, constant, value, value == own, term)


def _tables(
    cell: BuiltCell, like: ValueTable, spec: CellSpec | None, *, variants: Sequence[_Variant], watch: Watch
) -> dict[_Variant, ValueTable]:
    """The losses of every variant that can be judged: recombined, or acted on again."""
    kept = [each for each in variants if each.term is not None]
    anew = [each for each in variants if each.term is None]
    terms = align(like, cell.terms) if kept else None
    found = {
        each: with_losses(like, terms.reweight({each.term: each.value}))
        for each in kept
        if terms is not None and each.term is not None
    }
    if spec is None or not anew:
        return found
    ends = replace(spec, modes=(spec.modes[0], spec.modes[-1]))
    changed = [with_changes(ends, {each.constant: each.value}) for each in anew]
    tables = variant_tables(changed, like, watch=watch, label=f"variants of {spec.system}")
    return found | dict(zip(anew, tables, strict=True))


def _row(name: str, cell: BuiltCell, each: _Variant, table: ValueTable | None, draws: Draws) -> SensitivityRow:
    told = {} if table is None else {"inputs": len(table), "units": len(table.unit_ids), **harm(table, draws)}
    return SensitivityRow(
        cell=name,
        **place(cell),
        group=each.group,
        constant=each.constant,
        value=each.value,
        own=each.own,
        acts_anew=each.term is None,
        **told,
    )


def table(rows: Sequence[SensitivityRow]) -> Table:
    """The rows as a table, and below them the range of each group, as the paper has it."""
    header = ("cell", "constant", "value", "affected", "harmed", "95 %", "harm ratio", "95 %")
    texts = [
        (
            row.cell,
            row.constant,
            f"{row.value:g}{' (own)' if row.own else ''}",
            number(None) if row.affected is None else f"{row.affected:,}",
            percent(row.harm_rate, 1),
            interval(row.harm_rate_lo, row.harm_rate_hi, lambda share: percent(share, 1)),
            number(row.harm_ratio),
            interval(row.harm_ratio_lo, row.harm_ratio_hi),
        )
        for row in rows
    ]
    ranges = [
        (cell, f"all {group}", "range", "", *_range(rates, lambda x: percent(x, 1)), *_range(ratios, number))
        for (cell, group), rates, ratios in _ranges(rows)
    ]
    lacking = sorted({row.cell for row in rows if row.inputs is None})
    notes = ["One constant at a time; the range of a group is over its values, the cell's own among them."]
    if lacking:
        notes.append(f"What changes plans needs the data of {', '.join(lacking)}: give --root and --mode NAME=FILE.")
    sections = lines_of(texts) + (lines_of(ranges) if ranges else ())
    return Table("Harm under other loss weights and corridors", header, sections, tuple(notes))


def _ranges(rows: Sequence[SensitivityRow]) -> Iterator[tuple[tuple[str, str], list[float], list[float]]]:
    """Harm rates and harm ratios by cell and group of constants, where every one is known."""
    for key, members in groupby(rows, key=lambda row: (row.cell, row.group)):
        held = list(members)
        rates = [row.harm_rate for row in held if row.harm_rate is not None]
        ratios = [row.harm_ratio for row in held if row.harm_ratio is not None]
        if all(row.inputs is not None for row in held) and rates and ratios:
            yield key, rates, ratios


def _range(values: Sequence[float], form: Callable[[float | None], str]) -> tuple[str, str]:
    return f"{form(min(values))} to {form(max(values))}", ""
