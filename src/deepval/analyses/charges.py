"""A cell or a result -> what its modes cost: by this cells share a profile, so that medians are of the same thing."""

from collections.abc import Mapping
from typing import NamedTuple

from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.results import Result
from deepval.tables.costs import Costs

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
    """What modes and allocators of a cell cost: as given, or its own; `what` needs them."""
    given = costs.get(name) if isinstance(costs, Mapping) else costs
    found = given or cell.table.costs
    if found is None:
        raise InputError(f"{name}: {what} needs the costs of the modes; the cell has none: give --costs.")
    return found


def mode_costs(result: Result, convention: str | None) -> ModeCosts | None:
    """What the cheap and the full mode of a result cost in a convention; None where nothing is charged."""
    figures = result.provenance.costs
    if figures is None or convention is None:
        return None
    first, last = (figures["modes"].get(mode, {}) for mode in (result.setting.modes[0], result.setting.modes[-1]))
    if convention not in first or convention not in last:
        return None
    return ModeCosts(float(first[convention]), float(last[convention]))
