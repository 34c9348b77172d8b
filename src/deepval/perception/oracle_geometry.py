"""Oracle geometry: perceived objects whose image box fits a reference object take that object's geometry."""

from dataclasses import replace

import numpy as np

from deepval.arrays import Bool
from deepval.geometry.boxes import Best, best_partner, frame_pairs, iou
from deepval.geometry.classes import LENGTH_M, looked_up
from deepval.geometry.lift import LiftSettings
from deepval.geometry.objects import Objects
from deepval.perception.detections import Detections
from deepval.perception.monocular import monocular_objects
from deepval.scenes import Scene
from deepval.truth import Truth


def reference_partners(detections: Detections, truth: Truth) -> Best:
    """For each detection the reference object of highest image IoU in its frame, whatever its class."""
    pairs = frame_pairs(detections.frame, truth.frame)
    return best_partner(pairs, iou(detections.box_px[pairs.first], truth.box_px[pairs.second]), len(detections))


def oracle_objects(
    detections: Detections,
    scene: Scene,
    *,
    truth: Truth,
    keep: Bool[np.ndarray, "det"] | None = None,
    settings: LiftSettings | None = None,
    least_iou: float = 0.5,
) -> Objects:
    """Perceived objects; those with IoU > `least_iou` to a reference object are placed on it.

    They take its range, lateral extent and closing speed (several may take the same) and keep their class
    length.
    """
    lifted = monocular_objects(detections, scene, settings=settings)
    best = reference_partners(detections, truth)
    matched = best.overlap > least_iou
    partner = best.place[matched]
    near_m, lateral_m, closing_mps = lifted.near_m.copy(), lifted.lateral_m.copy(), lifted.closing_mps.copy()
    near_m[matched] = truth.range_m[partner]
    lateral_m[matched] = truth.lateral_m[partner]
    closing_mps[matched] = truth.closing_mps[partner]
    length_m = looked_up(detections.cls, LENGTH_M)
    objects = replace(lifted, near_m=near_m, far_m=near_m + length_m, lateral_m=lateral_m, closing_mps=closing_mps)
    return objects if keep is None else objects.where(keep)
