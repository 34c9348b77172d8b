"""A cell's specification with its data -> thresholds that its two ends can be put at, and how each reports there.

docs/definitions.md, Operating points. A threshold means something on the scale of a mode's own scores only: 0.25 is a
probability. Raw scores are placed by their rank among the boxes of the training units, and a mode without scores, or
with one score for all, cannot be moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.cells.spec import CellSpec, ModeSpec
from deepval.cells.unit import UnitData, objects_of_mode, unit_data, used_detections
from deepval.errors import InputError
from deepval.perception.reported.detections import NEVER_RUN, Detections, has_ground_boxes
from deepval.perception.reported.score_thresholds import (
    GRID,
    SHARED,
    STEPS,
    BestThreshold,
    OperatingPoint,
    Rates,
    best_threshold,
    own_scale_points,
    unit_counts,
)
from deepval.progress import Watch, unwatched
from deepval.systems.outcomes import own_losses

ALL = -np.inf
"""The threshold that keeps every box."""
QUANTILES: tuple[float, ...] = tuple(step / 100 for step in range(96))
"""Shares of the training boxes below the thresholds of a grid of raw scores."""
Kind = Literal["probabilities", "quantiles", "none"]


@dataclass(frozen=True)
class Scale:
    """Thresholds that a mode can be put at.

    Attributes:
        kind: What they are; none where the mode cannot be moved.
        grid: The thresholds to choose from, ascending.
        steps: Those of the grid of pairs, with what each is called: a probability, or the share of boxes below it.
        kept: Where the mode stays while the other one is moved.
        why: Why 0.25 means nothing on it; None where it does.
    """

    kind: Kind
    grid: tuple[float, ...]
    steps: Mapping[float, float]
    kept: float
    why: str | None


def scale_of(mode: ModeSpec, scores: Float[np.ndarray, "det"]) -> Scale:
    """The scale of a mode, from the scores of all its boxes on the training units."""
    own = ALL if mode.threshold is None else mode.threshold
    kind = "none" if mode.reader is None else mode.reader.scores
    if kind == "none" or not len(scores):
        return Scale("none", (own,), {}, own, f"{mode.name} has no scores")
    if scores.min() == scores.max():
        return Scale("none", (own,), {}, own, f"all scores of {mode.name} are {scores[0]:g}")
    if kind == "probabilities":
        return Scale("probabilities", GRID, {step: step for step in STEPS}, SHARED, None)
    ordered = np.sort(scores)
    at = {share: float(ordered[int(share * len(ordered))]) for share in QUANTILES}
    grid = sorted({ALL, own, *(threshold for share, threshold in at.items() if share > 0)})
    steps = {at[share]: share for share in reversed(STEPS)}
    return Scale("quantiles", tuple(grid), dict(sorted(steps.items())), own, f"the scores of {mode.name} are raw")


class Ends(NamedTuple):
    """The scales of a cell's two ends, and whether their boxes are matched in the image or, 3D ones, on the ground."""

    cheap: Scale
    full: Scale
    in_image: bool


class Counted(NamedTuple):
    """How both modes report at thresholds over some units: counts, and the frames that they are of."""

    cheap: Rates
    full: Rates
    frames: int


def ends_of(spec: CellSpec, *, watch: Watch = unwatched) -> Ends:
    """What a cell's two ends report on the training units, as far as thresholds go."""
    if not spec.roles.train:
        raise InputError(
            f"{spec.name}: operating points are chosen on training units; {len(spec.units)} units are too few for a "
            "split and leave none: build the cell from more units."
        )
    modes, scores, boxed = (spec.modes[0], spec.modes[-1]), ([], []), True
    for unit in watch(spec.roles.train, "scores"):
        seen = unit_data(spec, unit)
        both = reported_by_both(spec, seen)
        boxed &= all(detections.has_boxes for detections in both)
        if not boxed and not all(has_ground_boxes(detections, seen.scene) for detections in both):
            raise InputError(f"{spec.name}: precision and recall need image boxes or 3D boxes, of both modes.")
        for scores_of_mode, detections in zip(scores, both, strict=True):
            scores_of_mode.append(detections.score)
    cheap, full = (scale_of(mode, np.concatenate(parts)) for mode, parts in zip(modes, scores, strict=True))
    return Ends(cheap, full, boxed)


def reported_by_both(spec: CellSpec, seen: UnitData) -> tuple[Detections, Detections]:
    """All that the two ends report, on frames that both were run on."""
    cheap, full = (seen.reported[name] for name in (spec.order[0], spec.order[-1]))
    run = cheap.run & full.run

    def on_both(detections: Detections) -> Detections:
        return replace(detections.where(run[detections.frame]), status=np.where(run, detections.status, NEVER_RUN))

    return on_both(cheap), on_both(full)


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
        both, scene = reported_by_both(spec, seen), None if ends.in_image else seen.scene
        frames += int(np.count_nonzero(both[0].run))
        for total, detections, grid in zip(sums, both, grids, strict=True):
            total += unit_counts(detections, seen.truth, grid=grid, scene=scene)
    cheap, full = (Rates(np.array(grid, dtype=float), *total) for grid, total in zip(grids, sums, strict=True))
    return Counted(cheap, full, frames)


def chosen(ends: Ends, rates: Counted) -> list[OperatingPoint]:
    """S0 to S3 from counts over the grids of both ends; None with a reason where a scheme means nothing here."""
    why = [scale.why for scale in (ends.cheap, ends.full) if scale.why is not None]
    reason = f"{SHARED:g} is a probability, and {' and '.join(why)}"
    shared = OperatingPoint("S0", None, None, reason) if why else OperatingPoint("S0", SHARED, SHARED)
    points = own_scale_points(rates.cheap, rates.full, at=ends.cheap.grid.index(ends.cheap.kept))
    fixed = f"{ends.full.why}, so it cannot be moved" if ends.full.kind == "none" else ""
    neither = "neither mode can be moved" if ends.full.kind == ends.cheap.kind == "none" else ""
    undefined = {"S1": fixed, "S2": neither, "S3": fixed}
    return [shared, *(OperatingPoint(s, None, None, undefined[s]) if undefined[s] else p for s, p in points.items())]


def pairs(ends: Ends) -> list[tuple[float, float]]:
    """The 25 pairs of thresholds, cheap and full, each on its own scale; fewer where scores are tied, none for none."""
    return [(cheap, full) for cheap in ends.cheap.steps for full in ends.full.steps]


def tuned(
    spec: CellSpec, ends: Ends, units: Sequence[str], *, watch: Watch = unwatched
) -> tuple[BestThreshold, BestThreshold]:
    """For both modes the threshold of least mean loss when it runs alone, on frames that both were run on."""
    modes, grids = (spec.modes[0], spec.modes[-1]), (ends.cheap.grid, ends.full.grid)
    sums, inputs = [np.zeros(len(grid)) for grid in grids], 0
    for unit in watch(units, f"own losses of {spec.system}"):
        seen = unit_data(spec, unit)
        judged = spec.acting.judged(seen.scene, seen.truth)
        for marks in (seen.run[mode.name] for mode in modes):
            judged = judged & marks
        inputs += int(judged.sum())
        for total, mode, grid in zip(sums, modes, grids, strict=True):
            total += [loss[judged].sum() for loss in _own_losses(spec, mode, seen, grid)]
    means = [dict(zip(grid, total / max(inputs, 1), strict=True)) for grid, total in zip(grids, sums, strict=True)]
    cheap, full = (best_threshold(mean.__getitem__, grid=grid) for mean, grid in zip(means, grids, strict=True))
    return cheap, full


def _own_losses(
    spec: CellSpec, mode: ModeSpec, seen: UnitData, grid: Sequence[float]
) -> Iterator[Float[np.ndarray, "time"]]:
    """Loss per frame of one mode alone at each threshold of an ascending grid; equal boxes are acted on once."""
    report, before, loss = seen.reported[mode.name], -1, np.zeros(0)
    for threshold in grid:
        used = used_detections(at_threshold(mode, threshold), report)
        if len(used) != before:
            at = replace(seen, used={mode.name: used})
            objects = objects_of_mode(spec, at, mode.name)
            loss = own_losses(spec.acting, [at.scene], [at.truth], perceived=[objects], run=[used.run])
            before = len(used)
        yield loss


def at_threshold(mode: ModeSpec, threshold: float) -> ModeSpec:
    """The mode with another threshold."""
    return replace(mode, threshold=None if threshold == ALL else threshold)
