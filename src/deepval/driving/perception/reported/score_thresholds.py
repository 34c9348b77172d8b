"""Precision, recall and counts of modes, or a mode's own loss -> operating points:
thresholds per mode.

S0 shared 0.25; S1 the full mode reports as many boxes as the cheap one; S2 each at its
F1 optimum; S3 the lowest full threshold at least as precise as the cheap mode. Chosen
on training units, never from decision values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.perception.reported.losses import (
    ground_matching,
    match_candidates,
    matching,
)
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

SHARED = 0.25
GRID: tuple[float, ...] = tuple(step / 100 for step in range(10, 96))
STEPS = (0.15, 0.25, 0.35, 0.45, 0.55)


@dataclass(frozen=True)
class OperatingPoint:
    """A scheme's thresholds; None with a reason where the scheme has none."""

    scheme: str
    cheap: float | None
    full: float | None
    reason: str = ""


class Rates(NamedTuple):
    """Counts of a mode at each threshold over all units: boxes, right ones, wrong ones,
    missed objects.
    """

    threshold: Float[np.ndarray, "threshold"]
    boxes: Int[np.ndarray, "threshold"]
    right: Int[np.ndarray, "threshold"]
    wrong: Int[np.ndarray, "threshold"]
    missed: Int[np.ndarray, "threshold"]

    @property
    def precision(self) -> Float[np.ndarray, "threshold"]:
        """Right over right and wrong; NaN where nothing counts."""
        counted = self.right + self.wrong
        return np.divide(
            self.right, counted, out=np.full(len(counted), np.nan), where=counted > 0
        )

    @property
    def recall(self) -> Float[np.ndarray, "threshold"]:
        """Right over right and missed; NaN where there are no objects."""
        there = self.right + self.missed
        return np.divide(
            self.right, there, out=np.full(len(there), np.nan), where=there > 0
        )

    @property
    def f1(self) -> Float[np.ndarray, "threshold"]:
        """2 right / (2 right + wrong + missed); 0 where nothing is right."""
        return 2 * self.right / np.maximum(2 * self.right + self.wrong + self.missed, 1)


def unit_counts(
    detections: Detections,
    truth: Truth,
    *,
    grid: Sequence[float],
    scene: Scene | None = None,
) -> Int[np.ndarray, "count threshold"]:
    """Boxes, right ones, wrong ones and missed objects of one unit at each threshold.

    Args:
        detections: The mode's detections.
        truth: The reference.
        grid: Thresholds on the scale of its scores; minus infinity keeps all.
        scene: The scene where 3D boxes are to be matched on the ground; image boxes are
            matched where None.
    """
    candidates = match_candidates(detections, truth) if scene is None else None
    counts = np.zeros((4, len(grid)), dtype=int)
    for column, threshold in enumerate(grid):
        keep = (detections.score >= threshold) | (threshold == -np.inf)
        if scene is None:
            match = matching(detections, truth, candidates=candidates, keep=keep)
        else:
            match = ground_matching(detections.where(keep), truth, scene=scene)
        hits = (match.partner >= 0).sum()
        counts[:, column] = (
            keep.sum(),
            hits,
            match.false_positive.sum(),
            match.missed.sum(),
        )
    return counts


def own_scale_points(
    cheap: Rates, full: Rates, *, at: int
) -> dict[str, OperatingPoint]:
    """S1 to S3 where each mode has its own grid; S1 and S3 leave the cheap mode at
    index `at` of its grid.

    S1 takes the nearest box count, ties to the higher threshold; S2 the F1 maximum,
    ties to the lower.
    """
    cheap_threshold, full_thresholds = (
        float(cheap.threshold[at]),
        full.threshold.tolist(),
    )
    precise = np.flatnonzero(full.precision >= cheap.precision[at])
    third = (
        OperatingPoint("S3", cheap_threshold, full_thresholds[int(precise[0])])
        if len(precise)
        else OperatingPoint(
            "S3",
            cheap_threshold,
            None,
            "no full threshold is as precise as the cheap mode",
        )
    )
    return {
        "S1": OperatingPoint(
            "S1",
            cheap_threshold,
            full_thresholds[nearest_count(full.boxes, int(cheap.boxes[at]))],
        ),
        "S2": OperatingPoint(
            "S2",
            float(cheap.threshold[cheap.f1.argmax()]),
            full_thresholds[int(full.f1.argmax())],
        ),
        "S3": third,
    }


def nearest_count(boxes: Int[np.ndarray, "threshold"], target: int) -> int:
    """The index of the count nearest to the target; the last of equally near ones, at
    the higher threshold.
    """
    away = np.abs(boxes - target)
    return len(away) - 1 - int(away[::-1].argmin())


def count_matching_point(
    cheap: Sequence[Detections],
    full: Sequence[Detections],
    *,
    cheap_threshold: float = SHARED,
    grid: Sequence[float] = GRID,
) -> OperatingPoint:
    """S1 without a reference: the full mode's threshold for as many boxes as the cheap
    mode reports at its own.

    Args:
        cheap: The cheap mode's detections, unit by unit, with probabilities as scores.
        full: The full mode's detections on the same units.
        cheap_threshold: The cheap mode's threshold.
        grid: Thresholds to choose from; the nearest count is taken, ties to the higher
            threshold.

    Only frames on which both modes were run count.
    """
    cheap_boxes, boxes = 0, np.zeros(len(grid), dtype=int)
    for one, other in zip(cheap, full, strict=True):
        both = one.run & other.run
        cheap_boxes += int(
            np.count_nonzero(both[one.frame] & (one.score >= cheap_threshold))
        )
        score = np.sort(other.score[both[other.frame]])
        boxes += len(score) - np.searchsorted(
            score, np.asarray(grid, dtype=float), side="left"
        )
    if not cheap_boxes:
        reason = (
            "the cheap mode reports nothing "
            f"with a score of {cheap_threshold:g} or more"
        )
        return OperatingPoint("S1", cheap_threshold, None, reason)
    return OperatingPoint(
        "S1", cheap_threshold, float(grid[nearest_count(boxes, cheap_boxes)])
    )


class BestThreshold(NamedTuple):
    """The threshold at which a mode, used alone, loses least, and that loss."""

    threshold: float
    loss: float


def best_threshold(
    loss_at: Callable[[float], float], *, grid: Sequence[float] = GRID
) -> BestThreshold:
    """The threshold of least loss, ties to the lower; `loss_at` is a mode's own
    downstream loss.
    """
    losses = [loss_at(threshold) for threshold in grid]
    best = int(np.argmin(losses))
    return BestThreshold(grid[best], float(losses[best]))
