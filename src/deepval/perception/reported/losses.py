"""Matched detections -> perception losses E1-E8 per frame, and the gain of one mode over another.

See docs/definitions.md, Perception losses.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.geometry.classes import super_class
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.matching import Matching, ground_matching, match_candidates, matching
from deepval.world.objects import time_to_collision_s
from deepval.world.scene import Scene
from deepval.world.truth import Truth

Rule = Literal["101-point", "all-point"]


class Graded(NamedTuple):
    """Scores of the counted detections, whether each is right, and the number of objects to find."""

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]
    objects: int


class PrecisionCurve(NamedTuple):
    """Right and counted detections down to each distinct score, from the highest."""

    right: Int[np.ndarray, "point"]
    counted: Int[np.ndarray, "point"]


def greedy_matches(
    det: Int[np.ndarray, "pair"],
    obj: Int[np.ndarray, "pair"],
    *,
    overlap: Float[np.ndarray, "pair"],
    score: Float[np.ndarray, "det"],
) -> Bool[np.ndarray, "det"]:
    """Whether a detection is matched to an object: by falling score, each takes the free object of highest IoU.

    Among equal scores the larger overlap goes first, so that the order of detections does not matter.
    """
    matched = np.zeros(len(score), dtype=bool)
    taken: set[int] = set()
    for pair in np.lexsort((-overlap, -score[det])):
        if not matched[det[pair]] and int(obj[pair]) not in taken:
            matched[det[pair]] = True
            taken.add(int(obj[pair]))
    return matched


def grade(detections: Detections, truth: Truth, *, group: str | None = None) -> Graded:
    """The detections of a unit that count, right or wrong; only those of super-class `group` if it is given."""
    if np.isnan(detections.score).any():
        raise InputError(f"unit {detections.unit}: average precision needs scores; this source has none.")
    candidates = match_candidates(detections, truth)
    right = greedy_matches(candidates.det, candidates.obj, overlap=candidates.overlap, score=detections.score)
    counted, judged = right | ~candidates.excused, candidates.judged
    if group is not None:
        counted = counted & (super_class(detections.cls) == group)
        judged = judged & (super_class(truth.cls) == group)
    return Graded(detections.score[counted], right[counted], int(judged.sum()))


def pool(parts: Sequence[Graded]) -> Graded:
    """Several units' graded detections as one."""
    score = np.concatenate([np.zeros(0), *(part.score for part in parts)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(part.right for part in parts)])
    return Graded(score, right, sum(part.objects for part in parts))


def precision_curve(score: Float[np.ndarray, "det"], right: Bool[np.ndarray, "det"]) -> PrecisionCurve:
    """Counts of right and of all detections down to each distinct score."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True)) if len(score) else np.zeros(0, dtype=int)
    return PrecisionCurve(np.cumsum(right[order])[ends], ends + 1)


def area(curve: PrecisionCurve, objects: int, *, rule: Rule = "101-point") -> float:
    """Area under the curve of best precision at no less recall; NaN where there was nothing to find.

    101-point: its mean at recalls 0, 0.01, ..., 1. All-point: the exact area.
    """
    if objects == 0:
        return float("nan")
    if not len(curve.right):
        return 0.0
    best = np.maximum.accumulate((curve.right / curve.counted)[::-1])[::-1]
    if rule == "all-point":
        return float((np.diff(curve.right, prepend=0) * best).sum() / objects)
    # In whole numbers, so that recall 0.29 of 100 objects is reached by the 29th and not missed by rounding.
    point = np.searchsorted(100 * curve.right, np.arange(101) * objects, side="left")
    return float(np.append(best, 0.0)[point].mean())


LOSSES: dict[str, str] = {
    "E1": "missed objects",
    "E2": "false positives",
    "E3": "missed objects and false positives",
    "E4": "1 - F1",
    "E5": "combined: E3, misplacement of matches and half of each class error",
    "E6": "mean misplacement (1 - IoU) of matches",
    "E7": "missed objects, near ones more",
    "E8": "risk of missed objects",
}
OF_OVERLAP = ("E5", "E6")
"""Losses of image box overlap: not defined where 3D boxes are matched on the ground."""
RANGE_SCALE_M = 30.0
RISK_SCALE_M = 20.0
RISK_CORRIDOR_M = 2.0
CLASS_ERROR = 0.5


def risk(truth: Truth) -> Float[np.ndarray, "obj"]:
    """Risk of missing an object: [extent overlaps (-2, 2) m] / (1 + TTC) + exp(-max(range, 0) / 20)."""
    low_m, high_m = truth.objects.lateral_m.T
    inside = (high_m > -RISK_CORRIDOR_M) & (low_m < RISK_CORRIDOR_M)
    ttc_s = time_to_collision_s(truth.objects.near_m, truth.objects.closing_mps)
    return inside / (1 + ttc_s) + np.exp(-np.maximum(truth.objects.near_m, 0.0) / RISK_SCALE_M)


def perception_losses(
    detections: Detections, truth: Truth, *, match: Matching | None = None
) -> dict[str, Float[np.ndarray, "time"]]:
    """E1 to E8 of every frame; NaN where the mode was not run."""
    match = match or matching(detections, truth)
    frames = truth.frames

    def per_frame(frame: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.bincount(frame, weights=value.astype(float), minlength=frames)

    hit = match.partner >= 0
    wrong_class = hit & (detections.cls != truth.cls[match.partner]) if len(truth) else hit
    missed, false = per_frame(truth.frame, match.missed), per_frame(detections.frame, match.false_positive)
    hits = per_frame(detections.frame, hit)
    misplaced = per_frame(detections.frame, np.where(hit, 1 - match.overlap, 0.0))
    near = np.where(match.missed, np.exp(-np.maximum(truth.objects.near_m, 0.0) / RANGE_SCALE_M), 0.0)
    seen = 2 * hits + missed + false
    losses = {
        "E1": missed,
        "E2": false,
        "E3": missed + false,
        "E4": np.where(seen > 0, 1 - 2 * hits / np.maximum(seen, 1), 0.0),
        "E5": missed + false + misplaced + CLASS_ERROR * per_frame(detections.frame, wrong_class),
        "E6": misplaced / np.maximum(hits, 1),
        "E7": per_frame(truth.frame, near),
        "E8": per_frame(truth.frame, np.where(match.missed, risk(truth), 0.0)),
    }
    return {name: np.where(detections.run, loss, np.nan) for name, loss in losses.items()}


def ground_losses(detections: Detections, truth: Truth, *, scene: Scene) -> dict[str, Float[np.ndarray, "time"]]:
    """The perception losses that are defined for 3D boxes matched on the ground; NaN where the mode was not run."""
    losses = perception_losses(detections, truth, match=ground_matching(detections, truth, scene=scene))
    return {name: loss for name, loss in losses.items() if name not in OF_OVERLAP}


def perception_gains(
    cheap: Mapping[str, Float[np.ndarray, "time"]], full: Mapping[str, Float[np.ndarray, "time"]]
) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss of the cheap mode minus loss of the full one, per perception loss: positive if full is better."""
    return {name: cheap[name] - full[name] for name in cheap}
