"""3D boxes against reference objects on the ground: who is found, missed or invented. docs/definitions.md, Matching.

One-to-one, same super-class, centres at most 2 m apart: as many pairs as there can be, of these the choice of least
total distance (Hungarian). Every reference object counts, whether a camera sees it or not.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int, Shaped
from deepval.geometry.boxes import frame_pairs
from deepval.geometry.classes import super_class
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.ground import ground_boxes
from deepval.perception.reported.matching import Matching, assigned
from deepval.world.scene import Scene
from deepval.world.truth import Truth

MOST_APART_M = 2.0


class Standing(NamedTuple):
    """Things on the ground of the ego frame, sorted by frame."""

    frame: Int[np.ndarray, "thing"]
    cls: Shaped[np.ndarray, "thing"]
    centre_m: Float[np.ndarray, "thing 2"]


class NearPairs(NamedTuple):
    """The chosen pairs: place in one list, place in the other, distance of the centres."""

    first: Int[np.ndarray, "pair"]
    second: Int[np.ndarray, "pair"]
    apart_m: Float[np.ndarray, "pair"]


def near_pairs(first: Standing, second: Standing, *, most_apart_m: float = MOST_APART_M) -> NearPairs:
    """The one-to-one choice of pairs of a frame and super-class: as many as can be, then least total distance."""
    pairs = frame_pairs(first.frame, second.frame)
    apart_m = np.linalg.norm(first.centre_m[pairs.first] - second.centre_m[pairs.second], axis=1)
    same = super_class(first.cls)[pairs.first] == super_class(second.cls)[pairs.second]
    may = same & (apart_m <= most_apart_m)
    one, other, apart_m = pairs.first[may], pairs.second[may], apart_m[may]
    # A pair more is worth more than any distance that it could cost the others.
    chosen = assigned(one, other, overlap=(len(one) + 1) * max(most_apart_m, 1.0) - apart_m)
    return NearPairs(one[chosen], other[chosen], apart_m[chosen])


def reference_standing(truth: Truth) -> Standing:
    """The reference objects by their centres."""
    return Standing(truth.frame, truth.cls, truth.objects.corners_m.mean(axis=1))


def ground_matching(
    detections: Detections, truth: Truth, *, scene: Scene, most_apart_m: float = MOST_APART_M
) -> Matching:
    """The matching of a unit's 3D boxes; it knows no overlap (NaN), for nothing is compared in an image."""
    centre_m = ground_boxes(detections, scene, wanted_by="matching on the ground").centre_m
    reported = Standing(detections.frame, detections.cls, centre_m)
    pairs = near_pairs(reported, reference_standing(truth), most_apart_m=most_apart_m)
    partner = np.full(len(detections), -1)
    partner[pairs.first] = pairs.second
    missed = detections.run[truth.frame]
    missed[pairs.second] = False
    return Matching(partner, np.full(len(detections), np.nan), partner < 0, missed)
