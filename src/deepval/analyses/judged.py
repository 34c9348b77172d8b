"""A built cell -> what an analysis counts in: the inputs of some units, and how the cell is told from others."""

from collections.abc import Sequence
from typing import Any

from deepval.cells.folder import BuiltCell
from deepval.cells.splits import units_of
from deepval.tables.values import ValueTable

Units = str | Sequence[str]
"""Units by role (train, validation, test, fit, all), by name, or both."""


def judged(cell: BuiltCell, units: Units = "all") -> ValueTable:
    """The losses of the named units, all of them listed, so that the cells of a data set share their draws."""
    return cell.listed.restrict(list(units_of(cell.split, units)))


def place(cell: BuiltCell) -> dict[str, Any]:
    """What tells a cell from others: modes, geometry, downstream system."""
    modes = cell.table.modes
    return {"cheap": modes[0], "full": modes[-1], "geometry": cell.spec.geometry, "system": cell.spec.system}


def sees_the_same(one: BuiltCell, other: BuiltCell) -> bool:
    """Whether two cells share data set, modes and geometry, so that they differ in the consumer alone."""
    return all(one.definition[part] == other.definition[part] for part in ("dataset", "modes", "geometry"))
