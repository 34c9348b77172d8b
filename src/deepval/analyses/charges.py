"""A result -> what its modes cost: by this cells share a profile, so that medians over them are of the same thing."""

from typing import NamedTuple

from deepval.results import Result


class ModeCosts(NamedTuple):
    """Cost per input of the cheap and of the full mode, in units of a convention."""

    cheap: float
    full: float

    @property
    def uniform_from(self) -> float:
        """The share from which running the full mode alone on every input fits: (C_f - C_c)/C_f."""
        return (self.full - self.cheap) / self.full


def mode_costs(result: Result, convention: str | None) -> ModeCosts | None:
    """What the cheap and the full mode of a result cost in a convention; None where nothing is charged."""
    figures = result.provenance.costs
    if figures is None or convention is None:
        return None
    first, last = (figures["modes"].get(mode, {}) for mode in (result.setting.modes[0], result.setting.modes[-1]))
    if convention not in first or convention not in last:
        return None
    return ModeCosts(float(first[convention]), float(last[convention]))
