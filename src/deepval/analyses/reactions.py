"""A cell's specification with its data -> what the full mode adds and loses, frame by frame, and what hangs on it.

docs/analyses.md, Harm mechanism. An added false positive is *reacted to* where the plan is another without it; a
recovered miss is *needed* where the loss is higher without it, and so is what the cheap mode alone detects. What both
modes report has a decision value of its own, by where each places it.
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
    """Per frame: boxes of both modes, what hangs on what one of them reports alone, and the value of what both do.

    `recovered` marks frames in which the full mode detects an object that the cheap mode misses.
    """

    input: Shaped[np.ndarray, "frame"]
    cheap_boxes: Int[np.ndarray, "frame"]
    full_boxes: Int[np.ndarray, "frame"]
    reacted: Bool[np.ndarray, "frame"]
    needed: Bool[np.ndarray, "frame"]
    lost: Bool[np.ndarray, "frame"]
    alike: Bool[np.ndarray, "frame"]
    shared_value: Float[np.ndarray, "frame"]
    recovered: Bool[np.ndarray, "frame"]


def reactions(spec: CellSpec, *, watch: Watch = unwatched) -> Reactions:
    """What the full mode adds to and loses of every frame of a cell, and whether the system acts on it."""
    parts = [unit_reactions(spec, unit) for unit in watch(spec.units, f"reactions of {spec.system}")]
    return Reactions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def unit_reactions(spec: CellSpec, unit: str) -> Reactions:
    """The same of one unit."""
    rule = spec.acting
    seen = sighting(spec, unit)
    scene, truth = seen.scene, seen.truth
    ends = spec.order[0], spec.order[-1]
    cheap, full = (seen.used[name] for name in ends)
    (removed, lost), (added, recovered) = _only(cheap, full, seen), _only(full, cheap, seen)
    objects = perceived(spec, seen)
    plans = branches(rule, scene, objects, seen.run)

    def without(mode: str, marked: Bool[np.ndarray, "det"]) -> Float[np.ndarray, "time *plan"]:
        used = seen.used[mode]
        keep = persistent(used) if spec.persistence else None
        behind = PLACINGS[spec.geometry].behind(used, scene, truth, keep=keep)
        gone = (behind >= 0) & np.append(marked, False)[behind]
        return rule.plan(objects[mode].where(~gone), scene, previous=plans.before)

    def loss(plan: Float[np.ndarray, "time *plan"]) -> Float[np.ndarray, "time"]:
        return weighted_loss(rule.terms(plan, scene, truth, previous=plans.before), rule.weights)

    def worse(mode: str, marked: Bool[np.ndarray, "det"]) -> Bool[np.ndarray, "time"]:
        return loss(without(mode, marked)) - loss(plans.plans[mode]) > rule.tolerance

    changed = (without(ends[1], added) != plans.plans[ends[1]]).reshape(len(scene), -1).any(axis=1)
    own = removed | lost, added | recovered
    other = np.zeros(len(scene), dtype=bool)
    for found, marks in zip((cheap, full), own, strict=True):
        other[found.frame[marks]] = True
    shared = [loss(without(mode, marks)) for mode, marks in zip(ends, own, strict=True)]
    return Reactions(
        input=scene.inputs,
        cheap_boxes=np.bincount(cheap.frame, minlength=len(scene)),
        full_boxes=np.bincount(full.frame, minlength=len(scene)),
        reacted=changed,
        needed=worse(ends[1], recovered),
        lost=worse(ends[0], lost),
        alike=~other,
        shared_value=shared[0] - shared[1],
        recovered=np.bincount(full.frame[recovered], minlength=len(scene)) > 0,
    )


def _only(
    one: Detections, other: Detections, seen: Sighting
) -> tuple[Bool[np.ndarray, "det"], Bool[np.ndarray, "det"]]:
    """Detections of one mode that are false positives of it alone, and that are of objects which the other misses."""
    in_image = one.boxed and other.boxed
    mine, theirs = (_matched(each, seen, in_image=in_image) for each in (one, other))
    known = np.zeros(len(one), dtype=bool)
    known[_reported_by_both(one, other, seen.scene, in_image=in_image)] = True
    found = mine.partner >= 0
    found[found] = theirs.missed[mine.partner[found]]
    return mine.false_positive & ~known, found


def _matched(detections: Detections, seen: Sighting, *, in_image: bool) -> Matching:
    if in_image:
        return matching(detections, seen.truth)
    return ground_matching(detections, seen.truth, scene=seen.scene)


def _reported_by_both(one: Detections, other: Detections, scene: Scene, *, in_image: bool) -> Int[np.ndarray, "det"]:
    """Places of one mode's detections that one of the other mode, of the same super-class, agrees with."""
    pairs = frame_pairs(one.frame, other.frame)
    if in_image:
        near = iou(one.box_px[pairs.first], other.box_px[pairs.second]) >= LEAST_IOU
    else:
        if not all(has_ground_boxes(each, scene) for each in (one, other)):
            raise InputError(
                f"unit {scene.unit}: the modes need image boxes or 3D boxes, both of them, to be compared."
            )
        ends = [ground_boxes(each, scene, wanted_by="a comparison of modes").centre_m for each in (one, other)]
        near = np.linalg.norm(ends[0][pairs.first] - ends[1][pairs.second], axis=1) <= MOST_APART_M
    same = super_class(one.cls)[pairs.first] == super_class(other.cls)[pairs.second]
    return np.unique(pairs.first[near & same])
