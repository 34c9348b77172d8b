"""A cell with its data -> counts and losses of its modes at other thresholds, and the
thresholds at which their counts match.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.basics.progress import Watch, unwatched
from deepval.driving.cells.spec import CellSpec, ModeSpec
from deepval.driving.cells.unit import (
    UnitData,
    input_frames,
    objects_of_mode,
    unit_data,
    used_detections,
)
from deepval.driving.perception.reported.detections import Detections, has_ground_boxes
from deepval.driving.perception.reported.operating_points import (
    ALL,
    Counted,
    Ends,
    scale_of,
)
from deepval.driving.perception.reported.score_thresholds import (
    SHARED,
    BestThreshold,
    OperatingPoint,
    Rates,
    best_threshold,
    count_matching_point,
    unit_counts,
)
from deepval.driving.systems.outcomes import own_losses


def ends_of(spec: CellSpec, *, watch: Watch = unwatched) -> Ends:
    """The score scales of the cheapest and the fullest mode on the training units."""
    if not spec.roles.train:
        raise InputError(
            f"{spec.name}: operating points are chosen on training units, and there "
            f"are none: {spec.roles.too_few}. Build the cell from more units."
        )
    modes, scores, boxed = (spec.modes[0], spec.modes[-1]), ([], []), True
    for unit in watch(spec.roles.train, "scores"):
        seen = unit_data(spec, unit)
        both = reported_by_both(spec, seen)
        boxed &= all(detections.has_boxes for detections in both)
        if not boxed and not all(
            has_ground_boxes(detections, seen.scene) for detections in both
        ):
            raise InputError(
                f"{spec.name}: precision and recall need image "
                "boxes or 3D boxes, of both modes."
            )
        for scores_of_mode, detections in zip(scores, both, strict=True):
            scores_of_mode.append(detections.score)
    cheap, full = (
        scale_of(
            mode.name,
            "none" if mode.reader is None else mode.reader.scores,
            ALL if mode.threshold is None else mode.threshold,
            np.concatenate(parts),
        )
        for mode, parts in zip(modes, scores, strict=True)
    )
    return Ends(cheap, full, boxed)


def reported_by_both(spec: CellSpec, seen: UnitData) -> tuple[Detections, Detections]:
    """All detections of the cheapest and the fullest mode, on inputs on which both were
    run.
    """
    cheap, full = (seen.reported[name] for name in (spec.order[0], spec.order[-1]))
    frames = cheap.run & full.run & input_frames(spec, seen.scene)
    return cheap.on(frames), full.on(frames)


def counted(
    spec: CellSpec,
    ends: Ends,
    grids: tuple[Sequence[float], Sequence[float]],
    units: Sequence[str],
    *,
    watch: Watch = unwatched,
) -> Counted:
    """Counts of both modes, each at the thresholds of its own grid."""
    sums, frames = [np.zeros((4, len(grid)), dtype=int) for grid in grids], 0
    for unit in watch(units, "precision and recall"):
        seen = unit_data(spec, unit)
        both, scene = (
            reported_by_both(spec, seen),
            None if ends.in_image else seen.scene,
        )
        frames += int(np.count_nonzero(both[0].run))
        for total, detections, grid in zip(sums, both, grids, strict=True):
            total += unit_counts(detections, seen.truth, grid=grid, scene=scene)
    cheap, full = (
        Rates(np.array(grid, dtype=float), *total)
        for grid, total in zip(grids, sums, strict=True)
    )
    return Counted(cheap, full, frames)


def tuned(
    spec: CellSpec, ends: Ends, units: Sequence[str], *, watch: Watch = unwatched
) -> tuple[BestThreshold, BestThreshold]:
    """For each mode, the threshold with the least mean loss if it runs alone; frames on
    which both were run.
    """
    modes, grids = (spec.modes[0], spec.modes[-1]), (ends.cheap.grid, ends.full.grid)
    sums, inputs = [np.zeros(len(grid)) for grid in grids], 0
    for unit in watch(units, f"own losses of {spec.system}"):
        seen = unit_data(spec, unit)
        judged = spec.acting.judged(seen.scene, seen.truth) & input_frames(
            spec, seen.scene
        )
        for marks in (seen.run[mode.name] for mode in modes):
            judged = judged & marks
        inputs += int(judged.sum())
        for total, mode, grid in zip(sums, modes, grids, strict=True):
            total += [
                loss[judged].sum() for loss in _own_losses(spec, mode, seen, grid)
            ]
    means = [
        dict(zip(grid, total / max(inputs, 1), strict=True))
        for grid, total in zip(grids, sums, strict=True)
    ]
    cheap, full = (
        best_threshold(mean.__getitem__, grid=grid)
        for mean, grid in zip(means, grids, strict=True)
    )
    return cheap, full


def _own_losses(
    spec: CellSpec, mode: ModeSpec, seen: UnitData, grid: Sequence[float]
) -> Iterator[Float[np.ndarray, "time"]]:
    """Loss per frame of one mode alone at each threshold of an ascending grid; equal
    boxes are planned for once.
    """
    report, before, loss = seen.reported[mode.name], -1, np.zeros(0)
    for threshold in grid:
        used = used_detections(at_threshold(mode, threshold), report)
        if len(used) != before:
            at = replace(seen, used={mode.name: used})
            objects = objects_of_mode(spec, at, mode.name)
            loss = own_losses(
                spec.acting, [at.scene], [at.truth], perceived=[objects], run=[used.run]
            )
            before = len(used)
        yield loss


def at_threshold(mode: ModeSpec, threshold: float) -> ModeSpec:
    """The mode with another threshold."""
    return replace(mode, threshold=None if threshold == ALL else threshold)


def count_matched_point(
    spec: CellSpec, *, units: Sequence[str] | None = None
) -> OperatingPoint:
    """The count-matched thresholds of a cell's two modes; the cheap mode keeps its own,
    or 0.25 if it has none.

    Args:
        spec: The cell; its data set and detections must be on this machine.
        units: Units to count on; the training units where None.
    """
    ends = spec.modes[0], spec.modes[-1]
    for mode in ends:
        if mode.reader is None or mode.reader.scores != "probabilities":
            kind = "not known" if mode.reader is None else mode.reader.scores
            raise InputError(
                "count-matched thresholds need probabilities; "
                f"the scores of mode {mode.name} are {kind}."
            )
    parts = [
        unit_data(spec, unit) for unit in (spec.roles.train if units is None else units)
    ]
    cheap, full = ([part.reported[mode.name] for part in parts] for mode in ends)
    least = SHARED if ends[0].threshold is None else ends[0].threshold
    return count_matching_point(cheap, full, cheap_threshold=least)


def count_matched_specs(
    specs: Sequence[CellSpec], *, units: Sequence[str] | None = None
) -> list[CellSpec]:
    """Cells at count-matched thresholds; they share a data set and modes, so the
    thresholds are chosen once.
    """
    first = specs[0]
    if units is None and not first.roles.train:
        raise InputError(
            f"{first.name}: counts are matched on training units, and there are none: "
            f"{first.roles.too_few}. Give more units, or a threshold."
        )
    point = count_matched_point(first, units=units)
    if point.full is None:
        raise InputError(f"{first.name}: no threshold matches counts: {point.reason}.")
    cheap, *between, full = first.modes
    modes = (
        replace(cheap, threshold=point.cheap),
        *between,
        replace(full, threshold=point.full),
    )
    return [replace(spec, modes=modes) for spec in specs]
