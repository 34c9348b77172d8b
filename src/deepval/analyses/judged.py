"""A built cell -> what an analysis counts in: the inputs of some units, and how the cell is told from others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.splits import units_of
from deepval.judging.draws import Draws
from deepval.judging.ratios import ratio
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


def sees_the_same(one: BuiltCell, other: BuiltCell) -> bool:
    """Whether two cells share data set, modes and geometry, so that they differ in the consumer alone."""
    return all(one.definition[part] == other.definition[part] for part in ("dataset", "modes", "geometry"))
