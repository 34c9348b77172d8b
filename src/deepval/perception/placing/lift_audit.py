"""Lift bias audit: how far the monocular range is from the reference, by band: docs/definitions.md, Lift bias."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepval.geometry.lift import LiftSettings
from deepval.perception.placing.monocular import monocular_objects
from deepval.perception.placing.oracle import reference_partners
from deepval.perception.reported.detections import DetectionSet
from deepval.world.scene import Scene
from deepval.world.truth import Truth

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
        found = detections[scene.unit]
        lifted = monocular_objects(found, scene, settings=settings)
        best = reference_partners(found, truth)
        matched = (best.overlap > least_iou) & (found.cls == cls)
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
