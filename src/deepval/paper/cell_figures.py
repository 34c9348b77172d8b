"""A built cell -> the inputs of some units, and the columns that describe the cell and its harm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, units_of
from deepval.cells.unit import unit_data
from deepval.errors import InputError
from deepval.judging.draws import Draws
from deepval.judging.resamples import ratio
from deepval.paper.row_columns import column, count, high, low, share
from deepval.perception.reported.losses import LOSSES
from deepval.perception.reported.score_thresholds import GRID, SHARED, OperatingPoint, count_matching_point
from deepval.report.text_tables import number
from deepval.results import Result
from deepval.tables.costs import Costs
from deepval.tables.values import ValueTable

Charged = Costs | Mapping[str, Costs]
"""Figures for all cells, or for each by its name."""


class ModeCosts(NamedTuple):
    """Cost per input of the cheap and of the full mode, in units of a convention."""

    cheap: float
    full: float

    @property
    def uniform_from(self) -> float:
        """The share from which running the full mode alone on every input fits: (C_f - C_c)/C_f."""
        return (self.full - self.cheap) / self.full


def figures(name: str, cell: BuiltCell, costs: Charged | None, what: str) -> Costs:
    """Costs of modes and allocators: the named ones, or the cell's own; `what` needs them."""
    named = costs.get(name) if isinstance(costs, Mapping) else costs
    figures_of_cell = named or cell.table.costs
    if figures_of_cell is None:
        raise InputError(f"{name}: {what} needs the costs of the modes; the cell has none: give --costs.")
    return figures_of_cell


def mode_costs(result: Result, convention: str | None) -> ModeCosts | None:
    """What the cheap and the full mode of a result cost in a convention; None where nothing is charged."""
    figures = result.provenance.costs
    if figures is None or convention is None:
        return None
    first, last = (figures["modes"].get(mode, {}) for mode in (result.setting.modes[0], result.setting.modes[-1]))
    if convention not in first or convention not in last:
        return None
    return ModeCosts(float(first[convention]), float(last[convention]))


def count_matched_point(
    spec: CellSpec, *, units: Sequence[str] | None = None, grid: Sequence[float] = GRID
) -> OperatingPoint:
    """The count-matched thresholds of a cell's two ends, cheap at its own threshold, or 0.25 where it has none.

    Args:
        spec: The cell; its data set and reports must lie on this machine.
        units: Units to count on; the training units where None.
        grid: Thresholds to choose from.
    """
    ends = spec.modes[0], spec.modes[-1]
    for mode in ends:
        if mode.reader is None or mode.reader.scores != "probabilities":
            kind = "not known" if mode.reader is None else mode.reader.scores
            raise InputError(f"count-matched thresholds need probabilities; the scores of mode {mode.name} are {kind}.")
    parts = [unit_data(spec, unit) for unit in (spec.roles.train if units is None else units)]
    cheap, full = ([part.reported[mode.name] for part in parts] for mode in ends)
    least = SHARED if ends[0].threshold is None else ends[0].threshold
    return count_matching_point(cheap, full, cheap_threshold=least, grid=grid)


def count_matched_specs(specs: Sequence[CellSpec], *, units: Sequence[str] | None = None) -> list[CellSpec]:
    """The same for cells that share a data set and modes: the thresholds are chosen once."""
    first = specs[0]
    if units is None and not first.roles.train:
        raise InputError(
            f"{first.name}: counts are matched on training units; {len(first.units)} units are too few for a split and "
            "leave none: give more units, or a threshold."
        )
    point = count_matched_point(first, units=units)
    if point.full is None:
        raise InputError(f"{first.name}: no threshold matches counts: {point.reason}.")
    cheap, *between, full = first.modes
    modes = replace(cheap, threshold=point.cheap), *between, replace(full, threshold=point.full)
    return [replace(spec, modes=modes) for spec in specs]


Units = str | Sequence[str]
"""Units by role (train, validation, test, fit, all), by name, or both."""


def judged(cell: BuiltCell, units: Units = "all") -> ValueTable:
    """The losses of the named units, all of them listed, so that the cells of a data set share their draws."""
    return cell.listed.restrict(list(units_of(cell.split, units)))


def cell_columns(cell: BuiltCell) -> dict[str, Any]:
    """The columns that describe a cell: modes, geometry, downstream system."""
    modes = cell.table.modes
    return {"cheap": modes[0], "full": modes[-1], "geometry": cell.spec.geometry, "system": cell.spec.system}


@dataclass(frozen=True, kw_only=True)
class InputColumns:
    """How many inputs and units a row is over; None where it could not be judged."""

    inputs: int | None = column("Number of inputs", default=None)
    units: int | None = column("Number of units", default=None)


@dataclass(frozen=True, kw_only=True)
class HarmColumns:
    """How many inputs escalation affects and harms, and how much; None where the row could not be judged."""

    affected: int | None = column("Inputs whose loss the full mode changes", "affected", count, default=None)
    harmed: int | None = column("Affected inputs whose loss the full mode raises", default=None)
    harm_rate: float | None = column("Share of the affected inputs that are harmed", "harmed", share, default=None)
    harm_rate_lo: float | None = low(heading="95 %", form=share, default=None)
    harm_rate_hi: float | None = high(default=None)
    harm_ratio: float | None = column("Total harm over total benefit", "harm ratio", number, default=None)
    harm_ratio_lo: float | None = low(heading="95 %", default=None)
    harm_ratio_hi: float | None = high(default=None)
    draws: int | None = column("Number of draws", default=None)
    draws_dropped: int | None = column(
        "Draws without any benefit, left out of the interval of the harm ratio", default=None
    )


def harm(table: ValueTable, draws: Draws) -> dict[str, Any]:
    """How many inputs of a table escalation affects and harms, and how much, with 95 % intervals over units."""
    values = table.decision_values
    harmed, affected = values < -table.tolerance, np.abs(values) > table.tolerance
    rate = ratio(table, harmed, affected, draws=draws)
    total = ratio(table, np.maximum(-values, 0.0), np.maximum(values, 0.0), draws=draws)
    return {
        "affected": int(affected.sum()),
        "harmed": int(harmed.sum()),
        "harm_rate": rate.value,
        "harm_rate_lo": rate.lo,
        "harm_rate_hi": rate.hi,
        "harm_ratio": total.value,
        "harm_ratio_lo": total.lo,
        "harm_ratio_hi": total.hi,
        "draws": len(draws),
        "draws_dropped": total.dropped,
    }


def loss_title(loss: str) -> str:
    """The number of a perception loss and its name, as tables show them."""
    return f"{loss} ({LOSSES[loss].partition(':')[0]})"


def sees_the_same(one: BuiltCell, other: BuiltCell) -> bool:
    """Whether two cells share data set, modes and geometry, so that they differ in the consumer alone."""
    return all(one.definition[part] == other.definition[part] for part in ("dataset", "modes", "geometry"))
