"""Oracle geometry: detections -> objects with the geometry of the reference objects that they fit.

Image boxes fit by overlap, cuboids by the distance of their centres on the ground.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool
from deepval.geometry.boxes import Best, best_partner, frame_pairs, iou
from deepval.geometry.classes import LENGTH_M, lookup, super_class
from deepval.geometry.lift import LiftSettings
from deepval.perception.placing.monocular import Placing, monocular_objects
from deepval.perception.placing.track_placing import Cuboids
from deepval.perception.reported.detections import Detections, DetectionSet
from deepval.world.objects import Objects, box_objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class OracleGeometry(Placing):
    """The geometry of the reference object that a detection fits, else its own geometry. It looks at the truth."""

    settings: LiftSettings = field(default_factory=LiftSettings)
    least_iou: float = 0.5
    farthest_m: float = 2.0

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, on the reference where they fit it."""
        if detections.cuboid_m is not None and not detections.has_boxes:
            objects = oracle_cuboids(detections, scene, truth=truth, farthest_m=self.farthest_m)
            return objects if keep is None else objects.where(keep)
        return oracle_objects(
            detections, scene, truth=truth, keep=keep, settings=self.settings, least_iou=self.least_iou
        )


def reference_partners(detections: Detections, truth: Truth) -> Best:
    """For each detection the reference object of highest image IoU in its frame, whatever its class."""
    pairs = frame_pairs(detections.frame, truth.frame)
    return best_partner(pairs, iou(detections.box_px[pairs.first], truth.box_px[pairs.second]), len(detections))


def oracle_cuboids(detections: Detections, scene: Scene, *, truth: Truth, farthest_m: float = 2.0) -> Objects:
    """Perceived objects; each takes the position and motion of the nearest reference object of its super-class.

    Nearest by centres on the ground, at most `farthest_m` away (several may take the same); the others stay at
    their detected position.
    """
    reported, reference = Cuboids().place(detections, scene, truth), truth.objects
    pairs = frame_pairs(reported.frame, reference.frame)
    away_m = np.hypot(*(reported.middle_m[pairs.first] - reference.middle_m[pairs.second]).T)
    same = super_class(reported.cls)[pairs.first] == super_class(reference.cls)[pairs.second]
    fits = np.where(same & (away_m <= farthest_m), 1.0 / (1.0 + away_m), 0.0)
    best = best_partner(pairs, fits, len(reported))
    taken = best.overlap > 0
    partner = best.place[taken]
    corners_m, closing_mps, velocity_mps = (
        np.array(column) for column in (reported.corners_m, reported.closing_mps, reported.velocity_mps)
    )
    corners_m[taken], closing_mps[taken] = reference.corners_m[partner], reference.closing_mps[partner]
    velocity_mps[taken] = reference.velocity_mps[partner]
    return replace(reported, corners_m=corners_m, closing_mps=closing_mps, velocity_mps=velocity_mps)


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
    reference = truth.objects
    best = reference_partners(detections, truth)
    matched = best.overlap > least_iou
    partner = best.place[matched]
    near_m, lateral_m, closing_mps = lifted.near_m.copy(), lifted.lateral_m.copy(), lifted.closing_mps.copy()
    near_m[matched] = reference.near_m[partner]
    lateral_m[matched] = reference.lateral_m[partner]
    closing_mps[matched] = reference.closing_mps[partner]
    objects = box_objects(
        len(scene),
        detections.frame,
        near_m=near_m,
        far_m=near_m + lookup(detections.cls, LENGTH_M),
        lateral_m=lateral_m,
        closing_mps=closing_mps,
        names=detections.cls,
        track=detections.track,
    )
    return objects if keep is None else objects.where(keep)


BANDS_M: tuple[tuple[float, float], ...] = ((0.0, 15.0), (15.0, 30.0), (30.0, 50.0), (50.0, 80.0))


class Band(NamedTuple):
    """Overestimate of range (lift - reference) over matched objects of one band; NaN where there are none."""

    from_m: float
    to_m: float
    detections: int
    mean_m: float
    median_m: float


def lift_bias(
    detections: DetectionSet,
    scenes: Sequence[Scene],
    *,
    truths: Sequence[Truth],
    cls: str = "Car",
    least_iou: float = 0.5,
    bands_m: Sequence[tuple[float, float]] = BANDS_M,
    settings: LiftSettings | None = None,
) -> list[Band]:
    """Mean and median overestimate of range per band [from, to), over matched detections of a class.

    A detection is matched to the reference object of highest image IoU, if that is > `least_iou`.
    """
    reference, excess = [np.zeros(0)], [np.zeros(0)]
    for scene, truth in zip(scenes, truths, strict=True):
        reported = detections[scene.unit]
        lifted = monocular_objects(reported, scene, settings=settings)
        best = reference_partners(reported, truth)
        matched = (best.overlap > least_iou) & (reported.cls == cls)
        matched[matched] = truth.cls[best.place[matched]] == cls
        reference.append(truth.objects.near_m[best.place[matched]])
        excess.append(lifted.near_m[matched] - reference[-1])
    range_m, excess_m = np.concatenate(reference), np.concatenate(excess)
    bands = []
    for low_m, high_m in bands_m:
        part = excess_m[(range_m >= low_m) & (range_m < high_m)]
        mean, median = (float(part.mean()), float(np.median(part))) if len(part) else (float("nan"), float("nan"))
        bands.append(Band(low_m, high_m, len(part), mean, median))
    return bands
