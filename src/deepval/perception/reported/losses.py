"""Perception losses E1-E8 per frame, and the gain of one mode over another: docs/definitions.md, Perception losses."""

from collections.abc import Mapping

import numpy as np

from deepval.arrays import Float
from deepval.geometry.motion import time_to_collision_s
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.ground_matching import ground_matching
from deepval.perception.reported.matching import Matching, MatchSettings, matching
from deepval.world.scene import Scene
from deepval.world.truth import Truth

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
"""Those that look at how well image boxes fit: not defined where 3D boxes are matched on the ground."""
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
    detections: Detections,
    truth: Truth,
    *,
    settings: MatchSettings | None = None,
    match: Matching | None = None,
) -> dict[str, Float[np.ndarray, "time"]]:
    """E1 to E8 of every frame; NaN where the mode was not run."""
    match = match or matching(detections, truth, settings=settings)
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
    """The perception losses of 3D boxes, matched on the ground, that are defined there; NaN where it was not run."""
    losses = perception_losses(detections, truth, match=ground_matching(detections, truth, scene=scene))
    return {name: loss for name, loss in losses.items() if name not in OF_OVERLAP}


def perception_gains(
    cheap: Mapping[str, Float[np.ndarray, "time"]], full: Mapping[str, Float[np.ndarray, "time"]]
) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss of the cheap mode minus loss of the full one, per perception loss: positive if full is better."""
    return {name: cheap[name] - full[name] for name in cheap}
