"""A cell's specification with its data -> what the full mode adds, frame by frame, and what the system makes of it.

docs/analyses.md, Harm mechanism. An added false positive is *reacted to* where the plan is another without it; a
recovered miss is *needed* where the loss is higher without it.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.cells.sighting import Sighting, perceived, sighting
from deepval.cells.spec import CellSpec
from deepval.errors import InputError
from deepval.geometry.boxes import frame_pairs, iou
from deepval.geometry.classes import super_class
from deepval.perception.placing import PLACINGS
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.ground import ground_boxes, has_ground_boxes
from deepval.perception.reported.ground_matching import MOST_APART_M, ground_matching
from deepval.perception.reported.matching import Matching, matching
from deepval.perception.reported.persistence import persistent
from deepval.progress import Watch, unwatched
from deepval.systems.outcomes import branches
from deepval.tables.terms import weighted_loss
from deepval.world.scene import Scene

LEAST_IOU = 0.5
"""Overlap from which on a box of the full mode was reported by the cheap mode too."""


class Reactions(NamedTuple):
    """Per frame: boxes of both modes, and what hangs on what the full mode adds."""

    input: Shaped[np.ndarray, "frame"]
    cheap_boxes: Int[np.ndarray, "frame"]
    full_boxes: Int[np.ndarray, "frame"]
    reacted: Bool[np.ndarray, "frame"]
    needed: Bool[np.ndarray, "frame"]


def reactions(spec: CellSpec, *, watch: Watch = unwatched) -> Reactions:
    """What the full mode adds to every frame of a cell, and whether the system acts on it."""
    parts = [unit_reactions(spec, unit) for unit in watch(spec.units, f"reactions of {spec.system}")]
    return Reactions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def unit_reactions(spec: CellSpec, unit: str) -> Reactions:
    """The same of one unit."""
    rule = spec.acting
    seen = sighting(spec, unit)
    scene, truth = seen.scene, seen.truth
    cheap, full = (seen.used[name] for name in (spec.order[0], spec.order[-1]))
    added, recovered = _added(cheap, full, seen)
    objects = perceived(spec, seen)
    plans = branches(rule, scene, objects, seen.run)
    keep = persistent(full) if spec.persistence else None
    behind = PLACINGS[spec.geometry].behind(full, scene, truth, keep=keep)
    of_full = objects[spec.order[-1]]

    def without(marked: Bool[np.ndarray, "det"]) -> Float[np.ndarray, "time *plan"]:
        gone = (behind >= 0) & np.append(marked, False)[behind]
        return rule.plan(of_full.where(~gone), scene, previous=plans.before)

    def loss(made: Float[np.ndarray, "time *plan"]) -> Float[np.ndarray, "time"]:
        return weighted_loss(rule.terms(made, scene, truth, previous=plans.before), rule.weights)

    made = plans.plans[spec.order[-1]]
    changed = (without(added) != made).reshape(len(scene), -1).any(axis=1)
    worse = loss(without(recovered)) - loss(made) > rule.tolerance
    boxes = [np.bincount(each.frame, minlength=len(scene)) for each in (cheap, full)]
    return Reactions(scene.inputs, boxes[0], boxes[1], changed, worse)


def _added(
    cheap: Detections, full: Detections, seen: Sighting
) -> tuple[Bool[np.ndarray, "det"], Bool[np.ndarray, "det"]]:
    """Detections of the full mode that are added false positives, and that are of objects which cheap misses."""
    in_image = cheap.boxed and full.boxed
    ends = [_matched(each, seen, in_image=in_image) for each in (cheap, full)]
    known = np.zeros(len(full), dtype=bool)
    known[_reported_by_both(cheap, full, seen.scene, in_image=in_image)] = True
    partner = ends[1].partner
    recovered = partner >= 0
    recovered[recovered] = ends[0].missed[partner[recovered]]
    return ends[1].false_positive & ~known, recovered


def _matched(detections: Detections, seen: Sighting, *, in_image: bool) -> Matching:
    if in_image:
        return matching(detections, seen.truth)
    return ground_matching(detections, seen.truth, scene=seen.scene)


def _reported_by_both(cheap: Detections, full: Detections, scene: Scene, *, in_image: bool) -> Int[np.ndarray, "det"]:
    """Places of the full mode's detections that one of the cheap mode, of the same super-class, agrees with."""
    pairs = frame_pairs(full.frame, cheap.frame)
    if in_image:
        near = iou(full.box_px[pairs.first], cheap.box_px[pairs.second]) >= LEAST_IOU
    else:
        if not all(has_ground_boxes(each, scene) for each in (cheap, full)):
            raise InputError(
                f"unit {scene.unit}: the modes need image boxes or 3D boxes, both of them, to be compared."
            )
        ends = [ground_boxes(each, scene, wanted_by="a comparison of modes").centre_m for each in (full, cheap)]
        near = np.linalg.norm(ends[0][pairs.first] - ends[1][pairs.second], axis=1) <= MOST_APART_M
    same = super_class(full.cls)[pairs.first] == super_class(cheap.cls)[pairs.second]
    return np.unique(pairs.first[near & same])
