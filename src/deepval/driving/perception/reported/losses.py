"""Detections and reference objects -> matches, misses, false positives; the perception
losses E1-E8 per frame; gains.

Matching is one-to-one within a super-class, with IoU >= 0.5 and the largest total IoU
(Hungarian). Reference objects that are too small or too occluded are ignored; an
unmatched detection on an ignored object or region counts neither way:
docs/definitions.md, Matching. The losses: docs/definitions.md, Perception losses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError, UnsuitableError, library
from deepval.driving.geometry.boxes import covered_share, frame_pairs, iou
from deepval.driving.geometry.classes import super_class
from deepval.driving.perception.reported.detections import (
    Calibration,
    Detections,
    ground_boxes,
)
from deepval.driving.world.objects import time_to_collision_s
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True)
class MatchSettings:
    """Which objects are judged or ignored, and how much overlap makes a match."""

    least_iou: float = 0.5
    least_height_px: float = 25.0
    most_occluded: int = 2
    ignored_share: float = 0.5
    ignored_iou: float = 0.5


class Candidates(NamedTuple):
    """Pairs that may match, judged reference objects, and detections on an ignored
    object or region.
    """

    det: Int[np.ndarray, "pair"]
    obj: Int[np.ndarray, "pair"]
    overlap: Float[np.ndarray, "pair"]
    judged: Bool[np.ndarray, "obj"]
    excused: Bool[np.ndarray, "det"]

    def where(self, keep: Bool[np.ndarray, "det"]) -> "Candidates":
        """The candidates of the detections marked by `keep`, numbered anew: a pair does
        not depend on the others.
        """
        live, number = keep[self.det], np.cumsum(keep) - 1
        return Candidates(
            number[self.det[live]],
            self.obj[live],
            self.overlap[live],
            self.judged,
            self.excused[keep],
        )


class Matching(NamedTuple):
    """Partner of each detection (-1: none) and the IoU with it; false positives and
    missed objects.
    """

    partner: Int[np.ndarray, "det"]
    overlap: Float[np.ndarray, "det"]
    false_positive: Bool[np.ndarray, "det"]
    missed: Bool[np.ndarray, "obj"]


def match_candidates(
    detections: Detections, truth: Truth, *, settings: MatchSettings | None = None
) -> Candidates:
    """The inputs of a unit's matching that do not depend on thresholds."""
    settings = settings or MatchSettings()
    if np.isnan(detections.box_px).any():
        raise UnsuitableError(
            f"unit {detections.unit}: matching needs image boxes; this source has none."
        )
    judged = truth.judged(
        least_height_px=settings.least_height_px, most_occluded=settings.most_occluded
    )
    # A frame without the mode has no detections by definition; its objects are not
    # missed.
    judged &= detections.run[truth.frame]
    pairs = frame_pairs(detections.frame, truth.frame)
    overlap = iou(detections.box_px[pairs.first], truth.box_px[pairs.second])
    same = (
        super_class(detections.cls)[pairs.first] == super_class(truth.cls)[pairs.second]
    )
    may = (overlap >= settings.least_iou) & same & judged[pairs.second]
    # Excused means: if unmatched, neither right nor wrong. An ignored object excuses by
    # IoU, whatever its class; a region by the covered share of the detection, because a
    # region may be much larger than any box.
    excused = np.zeros(len(detections), dtype=bool)
    excused[pairs.first[(overlap >= settings.ignored_iou) & ~judged[pairs.second]]] = (
        True
    )
    regions = frame_pairs(detections.frame, truth.ignored_frame)
    share = covered_share(
        detections.box_px[regions.first], truth.ignored_box_px[regions.second]
    )
    excused[regions.first[share >= settings.ignored_share]] = True
    return Candidates(
        pairs.first[may], pairs.second[may], overlap[may], judged, excused
    )


def best_of_star(
    centre: Int[np.ndarray, "pair"],
    leaf: Int[np.ndarray, "pair"],
    *,
    overlap: Float[np.ndarray, "pair"],
) -> tuple[Bool[np.ndarray, "pair"], Bool[np.ndarray, "pair"]]:
    """Which pairs are in a star (no leaf of the centre has another pair), and which is
    the best of its star.
    """
    # The largest number of pairs of a leaf, by centre: 1 means that no leaf has another
    # centre to go to.
    busiest = np.zeros(centre.max() + 1, dtype=int)
    np.maximum.at(busiest, centre, np.bincount(leaf)[leaf])
    star = busiest[centre] == 1
    # Sorted by centre, then by falling overlap: the first row of a centre is its best
    # pair.
    order = np.lexsort((-overlap, centre))
    best = np.zeros(len(centre), dtype=bool)
    best[order[np.unique(centre[order], return_index=True)[1]]] = True
    return star, star & best


def assignment(
    det: Int[np.ndarray, "pair"],
    obj: Int[np.ndarray, "pair"],
    *,
    overlap: Float[np.ndarray, "pair"],
) -> Bool[np.ndarray, "pair"]:
    """The one-to-one choice of pairs with the largest total overlap."""
    if not len(det):
        return np.zeros(0, dtype=bool)
    # Stars need no assignment problem: the best pair of the centre is the optimum. Most
    # pairs are in stars.
    by_object, chosen_by_object = best_of_star(obj, det, overlap=overlap)
    # A lone pair is a star both ways, with the same choice, so the union below is
    # one-to-one.
    by_detection, chosen_by_detection = best_of_star(det, obj, overlap=overlap)
    chosen = chosen_by_object | chosen_by_detection
    rest = np.flatnonzero(~(by_object | by_detection))
    if len(rest):
        chosen[rest] = knot_assignment(det[rest], obj[rest], overlap=overlap[rest])
    return chosen


def knot_assignment(
    det: Int[np.ndarray, "pair"],
    obj: Int[np.ndarray, "pair"],
    *,
    overlap: Float[np.ndarray, "pair"],
) -> Bool[np.ndarray, "pair"]:
    """The same choice by the Hungarian method, per connected group of pairs: small
    problems, not one large one.
    """
    optimize, sparse, graphs = (
        library(f"scipy.{part}") for part in ("optimize", "sparse", "sparse.csgraph")
    )
    chosen = np.zeros(len(det), dtype=bool)
    d, o = (
        np.unique(det, return_inverse=True)[1],
        np.unique(obj, return_inverse=True)[1],
    )
    # One graph of both lists, objects numbered after detections; pairs in different
    # components do not compete.
    nodes = d.max() + 1 + o.max() + 1
    graph = sparse.coo_matrix(
        (np.ones(len(det)), (d, d.max() + 1 + o)), shape=(nodes, nodes)
    )
    knot = graphs.connected_components(graph, directed=False)[1][d]
    order = np.argsort(knot, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(knot[order])) + 1):
        row = np.unique(d[group], return_inverse=True)[1]
        column = np.unique(o[group], return_inverse=True)[1]
        # Combinations that are no pairs gain 0: they may be assigned, but no pair
        # stands for them below.
        gain = np.zeros((row.max() + 1, column.max() + 1))
        gain[row, column] = overlap[group]
        best = np.zeros_like(gain, dtype=bool)
        best[optimize.linear_sum_assignment(gain, maximize=True)] = True
        chosen[group] = best[row, column]
    return chosen


def matching(
    detections: Detections,
    truth: Truth,
    *,
    settings: MatchSettings | None = None,
    candidates: Candidates | None = None,
    keep: Bool[np.ndarray, "det"] | None = None,
) -> Matching:
    """The matching of a unit's detections, or of those that `keep` marks (the others
    are ignored).
    """
    candidates = candidates or match_candidates(detections, truth, settings=settings)
    keep = np.ones(len(detections), dtype=bool) if keep is None else keep
    # Thresholds only remove pairs: the candidates of a unit serve all of them.
    live = keep[candidates.det]
    det, obj, overlap = (
        candidates.det[live],
        candidates.obj[live],
        candidates.overlap[live],
    )
    chosen = assignment(det, obj, overlap=overlap)
    partner = np.full(len(detections), -1)
    partner[det[chosen]] = obj[chosen]
    matched_overlap = np.zeros(len(detections))
    matched_overlap[det[chosen]] = overlap[chosen]
    missed = candidates.judged.copy()
    missed[obj[chosen]] = False
    return Matching(
        partner, matched_overlap, keep & (partner < 0) & ~candidates.excused, missed
    )


MOST_APART_M = 2.0


class OnGround(NamedTuple):
    """Things on the ground of the ego frame, sorted by frame."""

    frame: Int[np.ndarray, "thing"]
    cls: Shaped[np.ndarray, "thing"]
    centre_m: Float[np.ndarray, "thing 2"]


class NearPairs(NamedTuple):
    """The chosen pairs: index in the first list, index in the second, distance of the
    centres.
    """

    first: Int[np.ndarray, "pair"]
    second: Int[np.ndarray, "pair"]
    apart_m: Float[np.ndarray, "pair"]


def near_pairs(
    first: OnGround, second: OnGround, *, most_apart_m: float = MOST_APART_M
) -> NearPairs:
    """The one-to-one choice of pairs of a frame and super-class: as many as possible,
    then least total distance.
    """
    pairs = frame_pairs(first.frame, second.frame)
    apart_m = np.linalg.norm(
        first.centre_m[pairs.first] - second.centre_m[pairs.second], axis=1
    )
    same = super_class(first.cls)[pairs.first] == super_class(second.cls)[pairs.second]
    may = same & (apart_m <= most_apart_m)
    one, other, apart_m = pairs.first[may], pairs.second[may], apart_m[may]
    # One more pair outweighs any distance that it could add to the others.
    chosen = assignment(
        one, other, overlap=(len(one) + 1) * max(most_apart_m, 1.0) - apart_m
    )
    return NearPairs(one[chosen], other[chosen], apart_m[chosen])


def reference_standing(truth: Truth) -> OnGround:
    """The reference objects by their centres."""
    return OnGround(truth.frame, truth.cls, truth.objects.corners_m.mean(axis=1))


def ground_matching(detections: Detections, truth: Truth, *, scene: Scene) -> Matching:
    """The matching of a unit's 3D boxes; its overlaps are NaN, because no image boxes
    are compared.
    """
    centre_m = ground_boxes(
        detections, scene, wanted_by="matching on the ground"
    ).centre_m
    reported = OnGround(detections.frame, detections.cls, centre_m)
    pairs = near_pairs(reported, reference_standing(truth))
    partner = np.full(len(detections), -1)
    partner[pairs.first] = pairs.second
    # On the ground no object is too small or too occluded: all count where the mode was
    # run.
    missed = detections.run[truth.frame]
    missed[pairs.second] = False
    return Matching(partner, np.full(len(detections), np.nan), partner < 0, missed)


class GradedScores(NamedTuple):
    """Scores of one unit's counted detections, and whether each is right."""

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]


def graded_scores(
    detections: Detections, truth: Truth, *, match: Matching | None = None
) -> GradedScores:
    """A detection is right if it is matched, wrong if it is a false positive; the
    others are left out.
    """
    match = match or matching(detections, truth)
    counted = (match.partner >= 0) | match.false_positive
    return GradedScores(detections.score[counted], match.partner[counted] >= 0)


def fit_calibration(units: Sequence[GradedScores], mode: str) -> Calibration:
    """The non-decreasing map from raw score to share of right detections; pass training
    units only.
    """
    score = np.concatenate([np.zeros(0), *(unit.score for unit in units)])
    right = np.concatenate([np.zeros(0), *(unit.right.astype(float) for unit in units)])
    if not len(score) or np.isnan(score).any():
        raise InputError(
            "calibration needs scored detections on the training "
            f"units; mode {mode} has none."
        )
    regression = library(
        "sklearn.isotonic", purpose="Calibrating scores"
    ).IsotonicRegression
    fitted = regression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, right)
    return Calibration(
        np.asarray(fitted.X_thresholds_, float), np.asarray(fitted.y_thresholds_, float)
    )


Rule = Literal["101-point", "all-point"]


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
    """Whether a detection is matched to an object: by falling score, each takes the
    free object of highest IoU.

    Among equal scores the larger overlap goes first, so that the order of detections
    does not matter.
    """
    matched = np.zeros(len(score), dtype=bool)
    taken: set[int] = set()
    for pair in np.lexsort((-overlap, -score[det])):
        if not matched[det[pair]] and int(obj[pair]) not in taken:
            matched[det[pair]] = True
            taken.add(int(obj[pair]))
    return matched


def precision_curve(
    score: Float[np.ndarray, "det"], right: Bool[np.ndarray, "det"]
) -> PrecisionCurve:
    """Counts of right and of all detections down to each distinct score."""
    order = np.argsort(-score, kind="stable")
    ends = (
        np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
        if len(score)
        else np.zeros(0, dtype=int)
    )
    return PrecisionCurve(np.cumsum(right[order])[ends], ends + 1)


def area(curve: PrecisionCurve, objects: int, *, rule: Rule = "101-point") -> float:
    """Area under the curve of best precision at no less recall; NaN where there was
    nothing to find.

    101-point: its mean at recalls 0, 0.01, ..., 1. All-point: the exact area.
    """
    if objects == 0:
        return float("nan")
    if not len(curve.right):
        return 0.0
    best = np.maximum.accumulate((curve.right / curve.counted)[::-1])[::-1]
    if rule == "all-point":
        return float((np.diff(curve.right, prepend=0) * best).sum() / objects)
    # In whole numbers, so that recall 0.29 of 100 objects is reached by the 29th and
    # not missed by rounding.
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
    """Risk of missing an object: [extent overlaps (-2, 2) m] / (1 + TTC) +
    exp(-max(range, 0) / 20).
    """
    low_m, high_m = truth.objects.lateral_m.T
    inside = (high_m > -RISK_CORRIDOR_M) & (low_m < RISK_CORRIDOR_M)
    ttc_s = time_to_collision_s(truth.objects.near_m, truth.objects.closing_mps)
    return inside / (1 + ttc_s) + np.exp(
        -np.maximum(truth.objects.near_m, 0.0) / RISK_SCALE_M
    )


def perception_losses(
    detections: Detections, truth: Truth, *, match: Matching | None = None
) -> dict[str, Float[np.ndarray, "time"]]:
    """E1 to E8 of every frame; NaN where the mode was not run."""
    match = match or matching(detections, truth)
    frames = truth.frames

    def per_frame(frame: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.bincount(frame, weights=value.astype(float), minlength=frames)

    hit = match.partner >= 0
    wrong_class = (
        hit & (detections.cls != truth.cls[match.partner]) if len(truth) else hit
    )
    missed, false = (
        per_frame(truth.frame, match.missed),
        per_frame(detections.frame, match.false_positive),
    )
    hits = per_frame(detections.frame, hit)
    misplaced = per_frame(detections.frame, np.where(hit, 1 - match.overlap, 0.0))
    near = np.where(
        match.missed,
        np.exp(-np.maximum(truth.objects.near_m, 0.0) / RANGE_SCALE_M),
        0.0,
    )
    seen = 2 * hits + missed + false
    losses = {
        "E1": missed,
        "E2": false,
        "E3": missed + false,
        "E4": np.where(seen > 0, 1 - 2 * hits / np.maximum(seen, 1), 0.0),
        "E5": missed
        + false
        + misplaced
        + CLASS_ERROR * per_frame(detections.frame, wrong_class),
        "E6": misplaced / np.maximum(hits, 1),
        "E7": per_frame(truth.frame, near),
        "E8": per_frame(truth.frame, np.where(match.missed, risk(truth), 0.0)),
    }
    return {
        name: np.where(detections.run, loss, np.nan) for name, loss in losses.items()
    }


def ground_losses(
    detections: Detections, truth: Truth, *, scene: Scene
) -> dict[str, Float[np.ndarray, "time"]]:
    """The perception losses that are defined for 3D boxes matched on the ground; NaN
    where the mode was not run.
    """
    losses = perception_losses(
        detections, truth, match=ground_matching(detections, truth, scene=scene)
    )
    return {name: loss for name, loss in losses.items() if name not in OF_OVERLAP}


def perception_gains(
    cheap: Mapping[str, Float[np.ndarray, "time"]],
    full: Mapping[str, Float[np.ndarray, "time"]],
) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss of the cheap mode minus loss of the full one, per perception loss: positive
    if full is better.
    """
    return {name: cheap[name] - full[name] for name in cheap}
