"""Specifications that differ from a cell's in thresholds, filter, geometry or constants -> their losses, in memory.

What a build makes beside the losses (views, evidence, frames to look at) is left out, so that many variants are cheap:
a unit is read once, modes that are used alike are placed once, and equal plans are made once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deepval.cells.spec import CellSpec
from deepval.cells.unit import unit_acted
from deepval.errors import InputError
from deepval.progress import Watch, unwatched
from deepval.systems.outcomes import joined
from deepval.systems.system import constants, settable, with_constants
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable


def variant_tables(
    wanted: Sequence[CellSpec], like: ValueTable, *, watch: Watch = unwatched, label: str = "variants"
) -> list[ValueTable]:
    """The losses of each variant on the inputs of a table, with its units, listed as there.

    Args:
        wanted: Variants of one cell, with the data at hand.
        like: Losses of the cell; only its inputs are judged, so that a variant is compared on the same ones.
        watch: Who is told how far it is.
        label: What is told.
    """
    units = [str(like.unit_ids[place]) for place in sorted(set(like.unit.tolist()))]
    parts = [[acted.outcomes for acted in unit_acted(wanted, unit)] for unit in watch(units, label)]
    found = []
    for outcomes in map(joined, zip(*parts, strict=True)):
        table = ValueTable.from_columns(
            unit=outcomes.unit, input=outcomes.input, losses=outcomes.losses, order=outcomes.order
        )
        table = replace(table.listing(like.unit_ids), tolerance=outcomes.system.tolerance)
        found.append(table.keep(positions(table.input, like.input) >= 0))
    return found


def with_changes(spec: CellSpec, changes: Mapping[str, float]) -> CellSpec:
    """The cell with some constants of its downstream system changed."""
    changed = with_constants(spec.acting, changes)
    return replace(spec, rule=changed, constants=constants(changed))


def constant_of(spec: CellSpec, name: str) -> float:
    """One constant of its downstream system, by its own name or by a plain one."""
    rule = spec.acting
    numbers = settable(rule)
    known = rule.also_called.get(name, name)
    if known not in numbers:
        raise InputError(
            f"{spec.system}: a constant must be one of {', '.join(sorted(numbers)) or 'none'}; found {name!r}."
        )
    return numbers[known][1]
