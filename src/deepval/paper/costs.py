"""What modes cost in a result, and costs that a table must have."""

from typing import NamedTuple

from deepval.basics.errors import UnsuitableError
from deepval.judge.results import Result
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.values import ValueTable


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


def needed_costs(name: str, table: ValueTable, what: str) -> Costs:
    """The costs of a table; `what` names the quantity that needs them."""
    if table.costs is None:
        raise UnsuitableError(
            f"{name}: {what} needs the costs of modes and allocators; "
            "there are none: give --costs."
        )
    return table.costs


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
