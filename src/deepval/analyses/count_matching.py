"""A cell's specification -> the full mode's threshold at which it reports as many boxes as the cheap mode.

A higher resolution reports more at the same threshold, true and false; matched counts show what is left of a decision
value when that is taken away. docs/definitions.md, Operating points.
"""

from collections.abc import Sequence
from dataclasses import replace

from deepval.cells.sighting import sighting
from deepval.cells.spec import CellSpec
from deepval.errors import InputError
from deepval.perception.reported.operating_points import GRID, SHARED, OperatingPoint, count_matched


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
    seen = [sighting(spec, unit) for unit in (spec.roles.train if units is None else units)]
    cheap, full = ([each.reported[mode.name] for each in seen] for mode in ends)
    least = SHARED if ends[0].threshold is None else ends[0].threshold
    return count_matched(cheap, full, cheap_threshold=least, grid=grid)


def count_matched_specs(specs: Sequence[CellSpec], *, units: Sequence[str] | None = None) -> list[CellSpec]:
    """The same for cells that share a data set and modes: the thresholds are found once."""
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
