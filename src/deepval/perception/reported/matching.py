"""Detections and reference objects -> matches, missed objects, false positives. See docs/definitions.md, Matching.

One-to-one, same super-class, IoU >= 0.5, largest total IoU (Hungarian). Reference objects that are too
small or too occluded are ignored; an unmatched detection on an ignored object or region counts neither way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError, library
from deepval.geometry.boxes import covered_share, frame_pairs, iou
from deepval.geometry.classes import super_class
from deepval.perception.reported.detections import Calibration, Detections, ground_boxes
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class MatchSettings:
    """Which objects are judged or ignored, and how much overlap makes a match."""

    least_iou: float = 0.5
    least_height_px: float = 25.0
    most_occluded: int = 2
    ignored_share: float = 0.5
    ignored_iou: float = 0.5


class Candidates(NamedTuple):
    """Pairs that may match, judged reference objects, and detections on an ignored object or region."""

    det: Int[np.ndarray, "pair"]
    obj: Int[np.ndarray, "pair"]
    overlap: Float[np.ndarray, "pair"]
    judged: Bool[np.ndarray, "obj"]
    excused: Bool[np.ndarray, "det"]

    def where(self, keep: Bool[np.ndarray, "det"]) -> "Candidates":
        """The candidates of the detections marked by `keep`, numbered anew: a pair does not depend on the others."""
        live, number = keep[self.det], np.cumsum(keep) - 1
        return Candidates(number[self.det[live]], self.obj[live], self.overlap[live], self.judged, self.excused[keep])


class Matching(NamedTuple):
    """Partner of each detection (-1: none) and the IoU with it; false positives and missed objects."""

    partner: Int[np.ndarray, "det"]
    overlap: Float[np.ndarray, "det"]
    false_positive: Bool[np.ndarray, "det"]
    missed: Bool[np.ndarray, "obj"]


def match_candidates(detections: Detections, truth: Truth, *, settings: MatchSettings | None = None) -> Candidates:
    """The inputs of a unit's matching that do not depend on thresholds."""
    settings = settings or MatchSettings()
    if np.isnan(detections.box_px).any():
        raise InputError(f"unit {detections.unit}: matching needs image boxes; this source has none.")
    judged = truth.judged(least_height_px=settings.least_height_px, most_occluded=settings.most_occluded)
    # A frame without the mode has no detections by definition; its objects are not missed.
    judged &= detections.run[truth.frame]
    pairs = frame_pairs(detections.frame, truth.frame)
    overlap = iou(detections.box_px[pairs.first], truth.box_px[pairs.second])
    same = super_class(detections.cls)[pairs.first] == super_class(truth.cls)[pairs.second]
    may = (overlap >= settings.least_iou) & same & judged[pairs.second]
    # Excused means: if unmatched, neither right nor wrong. An ignored object excuses by IoU, whatever its class; a
    # region by the covered share of the detection, because a region may be much larger than any box.
    excused = np.zeros(len(detections), dtype=bool)
    excused[pairs.first[(overlap >= settings.ignored_iou) & ~judged[pairs.second]]] = True
    regions = frame_pairs(detections.frame, truth.ignored_frame)
    share = covered_share(detections.box_px[regions.first], truth.ignored_box_px[regions.second])
    excused[regions.first[share >= settings.ignored_share]] = True
    return Candidates(pairs.first[may], pairs.second[may], overlap[may], judged, excused)


def best_of_star(
    centre: Int[np.ndarray, "pair"], leaf: Int[np.ndarray, "pair"], *, overlap: Float[np.ndarray, "pair"]
) -> tuple[Bool[np.ndarray, "pair"], Bool[np.ndarray, "pair"]]:
    """Which pairs are in a star (no leaf of the centre has another pair), and which is the best of its star."""
    # The largest number of pairs of a leaf, by centre: 1 means that no leaf has another centre to go to.
    busiest = np.zeros(centre.max() + 1, dtype=int)
    np.maximum.at(busiest, centre, np.bincount(leaf)[leaf])
    star = busiest[centre] == 1
    # Sorted by centre, then by falling overlap: the first row of a centre is its best pair.
    order = np.lexsort((-overlap, centre))
    best = np.zeros(len(centre), dtype=bool)
    best[order[np.unique(centre[order], return_index=True)[1]]] = True
    return star, star & best


def assignment(
    det: Int[np.ndarray, "pair"], obj: Int[np.ndarray, "pair"], *, overlap: Float[np.ndarray, "pair"]
) -> Bool[np.ndarray, "pair"]:
    """The one-to-one choice of pairs with the largest total overlap."""
    if not len(det):
        return np.zeros(0, dtype=bool)
    # Stars need no assignment problem: the best pair of the centre is the optimum. Most pairs are in stars.
    by_object, chosen_by_object = best_of_star(obj, det, overlap=overlap)
    # A lone pair is a star both ways, with the same choice, so the union below is one-to-one.
    by_detection, chosen_by_detection = best_of_star(det, obj, overlap=overlap)
    chosen = chosen_by_object | chosen_by_detection
    rest = np.flatnonzero(~(by_object | by_detection))
    if len(rest):
        chosen[rest] = knot_assignment(det[rest], obj[rest], overlap=overlap[rest])
    return chosen


def knot_assignment(
    det: Int[np.ndarray, "pair"], obj: Int[np.ndarray, "pair"], *, overlap: Float[np.ndarray, "pair"]
) -> Bool[np.ndarray, "pair"]:
    """The same choice by the Hungarian method, per connected group of pairs: small problems, not one large one."""
    optimize, sparse, graphs = (library(f"scipy.{part}") for part in ("optimize", "sparse", "sparse.csgraph"))
    chosen = np.zeros(len(det), dtype=bool)
    d, o = np.unique(det, return_inverse=True)[1], np.unique(obj, return_inverse=True)[1]
    # One graph of both lists, objects numbered after detections; pairs in different components do not compete.
    nodes = d.max() + 1 + o.max() + 1
    graph = sparse.coo_matrix((np.ones(len(det)), (d, d.max() + 1 + o)), shape=(nodes, nodes))
    knot = graphs.connected_components(graph, directed=False)[1][d]
    order = np.argsort(knot, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(knot[order])) + 1):
        row = np.unique(d[group], return_inverse=True)[1]
        column = np.unique(o[group], return_inverse=True)[1]
        # Combinations that are no pairs gain 0: they may be assigned, but no pair stands for them below.
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
    """The matching of a unit's detections, or of those that `keep` marks (the others are ignored)."""
    candidates = candidates or match_candidates(detections, truth, settings=settings)
    keep = np.ones(len(detections), dtype=bool) if keep is None else keep
    # Thresholds only remove pairs: the candidates of a unit serve all of them.
    live = keep[candidates.det]
    det, obj, overlap = candidates.det[live], candidates.obj[live], candidates.overlap[live]
    chosen = assignment(det, obj, overlap=overlap)
    partner = np.full(len(detections), -1)
    partner[det[chosen]] = obj[chosen]
    matched_overlap = np.zeros(len(detections))
    matched_overlap[det[chosen]] = overlap[chosen]
    missed = candidates.judged.copy()
    missed[obj[chosen]] = False
    return Matching(partner, matched_overlap, keep & (partner < 0) & ~candidates.excused, missed)


MOST_APART_M = 2.0


class OnGround(NamedTuple):
    """Things on the ground of the ego frame, sorted by frame."""

    frame: Int[np.ndarray, "thing"]
    cls: Shaped[np.ndarray, "thing"]
    centre_m: Float[np.ndarray, "thing 2"]


class NearPairs(NamedTuple):
    """The chosen pairs: index in the first list, index in the second, distance of the centres."""

    first: Int[np.ndarray, "pair"]
    second: Int[np.ndarray, "pair"]
    apart_m: Float[np.ndarray, "pair"]


def near_pairs(first: OnGround, second: OnGround, *, most_apart_m: float = MOST_APART_M) -> NearPairs:
    """The one-to-one choice of pairs of a frame and super-class: as many as possible, then least total distance."""
    pairs = frame_pairs(first.frame, second.frame)
    apart_m = np.linalg.norm(first.centre_m[pairs.first] - second.centre_m[pairs.second], axis=1)
    same = super_class(first.cls)[pairs.first] == super_class(second.cls)[pairs.second]
    may = same & (apart_m <= most_apart_m)
    one, other, apart_m = pairs.first[may], pairs.second[may], apart_m[may]
    # One more pair outweighs any distance that it could add to the others.
    chosen = assignment(one, other, overlap=(len(one) + 1) * max(most_apart_m, 1.0) - apart_m)
    return NearPairs(one[chosen], other[chosen], apart_m[chosen])


def reference_standing(truth: Truth) -> OnGround:
    """The reference objects by their centres."""
    return OnGround(truth.frame, truth.cls, truth.objects.corners_m.mean(axis=1))


def ground_matching(
    detections: Detections, truth: Truth, *, scene: Scene, most_apart_m: float = MOST_APART_M
) -> Matching:
    """The matching of a unit's 3D boxes; its overlaps are NaN, because no image boxes are compared."""
    centre_m = ground_boxes(detections, scene, wanted_by="matching on the ground").centre_m
    reported = OnGround(detections.frame, detections.cls, centre_m)
    pairs = near_pairs(reported, reference_standing(truth), most_apart_m=most_apart_m)
    partner = np.full(len(detections), -1)
    partner[pairs.first] = pairs.second
    # On the ground no object is too small or too occluded: all count where the mode was run.
    missed = detections.run[truth.frame]
    missed[pairs.second] = False
    return Matching(partner, np.full(len(detections), np.nan), partner < 0, missed)


class GradedScores(NamedTuple):
    """Scores of one unit's counted detections, and whether each is right."""

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]


def graded_scores(detections: Detections, truth: Truth, *, match: Matching | None = None) -> GradedScores:
    """A detection is right if it is matched, wrong if it is a false positive; the others are left out."""
    match = match or matching(detections, truth)
    counted = (match.partner >= 0) | match.false_positive
    return GradedScores(detections.score[counted], match.partner[counted] >= 0)


def fit_calibration(units: Sequence[GradedScores], mode: str) -> Calibration:
    """The non-decreasing map from raw score to share of right detections; pass training units only."""
    score = np.concatenate([np.zeros(0), *(unit.score for unit in units)])
    right = np.concatenate([np.zeros(0), *(unit.right.astype(float) for unit in units)])
    if not len(score) or np.isnan(score).any():
        raise InputError(f"calibration needs scored detections on the training units; mode {mode} has none.")
    regression = library("sklearn.isotonic", purpose="Calibrating scores").IsotonicRegression
    fitted = regression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, right)
    return Calibration(np.asarray(fitted.X_thresholds_, float), np.asarray(fitted.y_thresholds_, float))
