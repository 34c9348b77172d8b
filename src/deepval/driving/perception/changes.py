"""Detections of two modes on the same frames -> what only one of them reports."""

import numpy as np

from deepval.basics.arrays import Bool, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.boxes import frame_pairs, iou
from deepval.driving.geometry.classes import super_class
from deepval.driving.perception.reported.detections import (
    Detections,
    ground_boxes,
    has_ground_boxes,
)
from deepval.driving.perception.reported.losses import (
    MOST_APART_M,
    Matching,
    ground_matching,
    matching,
)
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

LEAST_IOU = 0.5
"""Least overlap at which a box of one mode counts as reported by the other mode too."""


def reports_of_one(
    one: Detections, other: Detections, scene: Scene, truth: Truth
) -> tuple[Bool[np.ndarray, "det"], Bool[np.ndarray, "det"]]:
    """False positives that only one mode has, and its detections of objects that the
    other mode misses.
    """
    in_image = one.has_boxes and other.has_boxes
    mine = _matched(one, scene, truth, in_image=in_image)
    theirs = _matched(other, scene, truth, in_image=in_image)
    common = np.zeros(len(one), dtype=bool)
    common[_reported_by_both(one, other, scene, in_image=in_image)] = True
    alone = mine.partner >= 0
    alone[alone] = theirs.missed[mine.partner[alone]]
    return mine.false_positive & ~common, alone


def changes(
    one: Detections, other: Detections, scene: Scene, truth: Truth, *, full: bool
) -> Shaped[np.ndarray, "det"]:
    """What becomes of each detection of the cheap or of the full mode, in a word.

    added, removed: a false positive of the full or of the cheap mode alone; recovered,
    lost: an object that only the full or only the cheap mode detects; moved: any other.
    """
    invented, alone = reports_of_one(one, other, scene, truth)
    words = ("added", "recovered") if full else ("removed", "lost")
    return np.where(invented, words[0], np.where(alone, words[1], "moved"))


def _matched(
    detections: Detections, scene: Scene, truth: Truth, *, in_image: bool
) -> Matching:
    if in_image:
        return matching(detections, truth)
    return ground_matching(detections, truth, scene=scene)


def _reported_by_both(
    one: Detections, other: Detections, scene: Scene, *, in_image: bool
) -> Int[np.ndarray, "det"]:
    """Indices of one mode's detections that match a detection of the other mode with
    the same super-class.
    """
    pairs = frame_pairs(one.frame, other.frame)
    if in_image:
        near = iou(one.box_px[pairs.first], other.box_px[pairs.second]) >= LEAST_IOU
    else:
        if not all(has_ground_boxes(item, scene) for item in (one, other)):
            raise InputError(
                f"unit {scene.unit}: the modes need image boxes or 3D boxes, both of "
                "them, to be compared."
            )
        ends = [
            ground_boxes(item, scene, wanted_by="a comparison of modes").centre_m
            for item in (one, other)
        ]
        near = (
            np.linalg.norm(ends[0][pairs.first] - ends[1][pairs.second], axis=1)
            <= MOST_APART_M
        )
    same = super_class(one.cls)[pairs.first] == super_class(other.cls)[pairs.second]
    return np.unique(pairs.first[near & same])
