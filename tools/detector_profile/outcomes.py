"""Detections and reference at several resolutions -> outcomes, the rows on which a
profile is fitted.

Every object at every resolution with its detection, and every box without an object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.boxes import best_partner, frame_pairs, iou
from deepval.driving.geometry.classes import HEIGHT_M, lookup
from deepval.driving.perception.profile import is_person
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.perception.reported.losses import MatchSettings, matching
from deepval.driving.perception.simulation import KITTI_SIZE_PX
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

# A loose box on an object is a bad box, not a miss and a false positive: half of the
# unmatched boxes are loose.
LOOSE = MatchSettings(
    least_iou=0.3, ignored_iou=0.3, least_height_px=10.0, most_occluded=3
)


class Specimen(NamedTuple):
    """One mode on one unit with its reference: the material of a fit.

    `size` is the long side in pixels.
    """

    size: int
    scene: Scene
    truth: Truth
    detections: Detections


@dataclass(frozen=True)
class Outcome:
    """Every reference object at every resolution: its properties and its detection
    (score NaN: not detected).
    """

    size: Int[np.ndarray, "row"]
    unit: Int[np.ndarray, "row"]
    frame: Int[np.ndarray, "row"]
    track: Int[np.ndarray, "row"]
    cls: Shaped[np.ndarray, "row"]
    reported: Shaped[np.ndarray, "row"]
    height_px: Float[np.ndarray, "row"]
    occlusion: Int[np.ndarray, "row"]
    range_m: Float[np.ndarray, "row"]
    score: Float[np.ndarray, "row"]
    edges: Float[np.ndarray, "row 4"]
    cut: Bool[np.ndarray, "row"]

    def where(self, keep: Any) -> "Outcome":
        """The rows marked by `keep`."""
        return Outcome(**{name: column[keep] for name, column in vars(self).items()})

    @property
    def seen(self) -> Bool[np.ndarray, "row"]:
        """Whether anything was reported."""
        return ~np.isnan(self.score)


@dataclass(frozen=True)
class Stray:
    """Boxes without an object of their own: doubles lie on an object (`double`),
    phantoms do not.

    `person`: the object of highest overlap is not a vehicle; `off`: the box's edges
    relative to it; `again`: the box overlaps one of the frame before.
    """

    size: Int[np.ndarray, "det"]
    unit: Int[np.ndarray, "det"]
    cls: Shaped[np.ndarray, "det"]
    score: Float[np.ndarray, "det"]
    box_px: Float[np.ndarray, "det 4"]
    double: Bool[np.ndarray, "det"]
    person: Bool[np.ndarray, "det"]
    off: Float[np.ndarray, "det 4"]
    bottom: Float[np.ndarray, "det"]
    again: Bool[np.ndarray, "det"]


def one_person(cls: Shaped[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    """COCO labels riders as persons: for matching, cyclists and sitting persons are
    persons.
    """
    return np.where(
        np.isin(cls, ["Cyclist", "Person_sitting"]), "Pedestrian", cls
    ).astype("<U14")


def outcome_of(sample: Specimen, unit: int) -> tuple[Outcome, Stray]:
    """Outcomes and stray boxes of one mode on one unit, with loose matching."""
    truth, detections = sample.truth, sample.detections
    loose = matching(
        replace(detections, cls=one_person(detections.cls)),
        replace(truth, objects=replace(truth.objects, cls=one_person(truth.cls))),
        settings=LOOSE,
    )
    hit = loose.partner >= 0
    partner = np.full(len(truth), -1)
    partner[loose.partner[hit]] = np.flatnonzero(hit)
    score = np.full(len(truth), np.nan)
    score[loose.partner[hit]] = detections.score[hit]
    reported = np.full(len(truth), "", dtype="<U14")
    reported[loose.partner[hit]] = detections.cls[hit]
    wide_px, tall_px = truth.box_px[:, 2] - truth.box_px[:, 0], truth.height_px
    unit_px = np.maximum(np.stack([wide_px, tall_px, wide_px, tall_px], axis=-1), 1.0)
    edges = np.full((len(truth), 4), np.nan)
    if len(detections):
        edges = np.where(
            partner[:, None] >= 0,
            (detections.box_px[partner] - truth.box_px) / unit_px,
            np.nan,
        )
    width_px = sample.scene.camera.width_px or KITTI_SIZE_PX[0]
    cut = (
        (truth.box_px[:, 0] <= 1)
        | (truth.box_px[:, 2] >= width_px - 20)
        | (truth.box_px[:, 3] >= 366)
    )
    judged = detections.run[truth.frame] & (truth.height_px >= LOOSE.least_height_px)
    scale = sample.size / width_px
    rows = Outcome(
        np.full(len(truth), sample.size),
        np.full(len(truth), unit),
        truth.frame,
        truth.objects.track,
        truth.cls,
        reported,
        truth.height_px * scale,
        truth.occlusion,
        truth.objects.near_m,
        score,
        edges,
        cut,
    )
    return rows.where(judged), strays(sample, loose.false_positive, unit=unit)


def strays(sample: Specimen, wrong: Bool[np.ndarray, "det"], *, unit: int) -> Stray:
    """The unmatched boxes of a mode; `bottom` is how far they end below the road
    contact of their height.
    """
    boxes, truth, camera = (
        sample.detections.where(wrong),
        sample.truth,
        sample.scene.camera,
    )
    pairs = frame_pairs(boxes.frame, truth.frame)
    best = best_partner(
        pairs, iou(boxes.box_px[pairs.first], truth.box_px[pairs.second]), len(boxes)
    )
    near_px = truth.box_px[best.place]
    unit_px = np.tile(near_px[:, 2:] - near_px[:, :2], 2)
    tall_px = boxes.box_px[:, 3] - boxes.box_px[:, 1]
    depth_m = camera.fy_px * lookup(boxes.cls, HEIGHT_M) / tall_px
    contact_px = camera.cy_px + camera.fy_px * camera.height_m / depth_m
    whole = sample.detections
    before = frame_pairs(boxes.frame, whole.frame, lag=1)
    again = (
        best_partner(
            before,
            iou(boxes.box_px[before.first], whole.box_px[before.second]),
            len(boxes),
        ).overlap
        >= 0.3
    )
    return Stray(
        np.full(len(boxes), sample.size),
        np.full(len(boxes), unit),
        boxes.cls,
        boxes.score,
        boxes.box_px,
        best.overlap >= 0.3,
        is_person(truth.cls)[best.place],
        (boxes.box_px - near_px) / np.maximum(unit_px, 1.0),
        (boxes.box_px[:, 3] - contact_px) / tall_px,
        again,
    )


def unit_names(samples: Sequence[Specimen]) -> list[str]:
    """Ids of the units, sorted."""
    return sorted({sample.scene.unit for sample in samples})


def all_outcomes(samples: Sequence[Specimen]) -> tuple[Outcome, Stray]:
    """Outcomes and stray boxes of all samples, one after the other."""
    if not samples:
        raise InputError(
            "a profile needs matched outcomes; found no sample: give detections with "
            "their reference."
        )
    units = unit_names(samples)
    parts = [outcome_of(sample, units.index(sample.scene.unit)) for sample in samples]
    rows = Outcome(
        **{
            name: np.concatenate([vars(a)[name] for a, _ in parts])
            for name in vars(parts[0][0])
        }
    )
    stray = Stray(
        **{
            name: np.concatenate([vars(b)[name] for _, b in parts])
            for name in vars(parts[0][1])
        }
    )
    return rows, stray
