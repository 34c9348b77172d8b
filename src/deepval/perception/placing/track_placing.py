"""Track placing: a mode's detections -> a planner's observation: the logged tracks it detects, and false positives.

Docs/definitions.md, Observations. It looks at the truth: a detected track keeps its logged geometry, velocity and id,
so that modes differ only in the tracks they detect, not in the positions of these tracks.
"""

from dataclasses import dataclass, field, fields
from typing import ClassVar, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.geometry.boxes import frame_pairs, iou, proper
from deepval.geometry.classes import HEIGHT_M, LENGTH_M, WIDTH_M, lookup, super_class
from deepval.geometry.lift import LiftSettings, lift
from deepval.geometry.vehicle import rectangles_m
from deepval.perception.placing.monocular import Placing
from deepval.perception.reported.detections import Detections, ground_boxes
from deepval.perception.reported.matching import MOST_APART_M, OnGround, assignment, near_pairs, reference_standing
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Cuboids(Placing):
    """Every 3D box at its detected position; it does not look at the truth."""

    observes = True

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, with their own velocity and track where the detector reports them."""
        box, frame = ground_boxes(detections, scene, wanted_by="the placing 'cuboids'"), detections.frame
        own_mps = np.zeros(len(frame)) if box.velocity_mps is None else np.nan_to_num(box.velocity_mps[:, 0])
        objects = Objects.of(
            len(scene),
            frame,
            corners_m=box.corners_m,
            closing_mps=scene.ego_speed_mps[frame] - own_mps,
            names=detections.cls,
            track=detections.track,
            velocity_mps=box.velocity_mps,
        )
        return objects if keep is None else objects.where(keep)


MOVING = ("vehicle", "person", "cyclist")
"""Super-classes that are observed only where a mode detects them; other logged objects are always observed."""


class Observation(NamedTuple):
    """The observed objects, with the indices of their detections and of their logged tracks (-1: none).

    `watched` marks the tracks that are observed only where they are detected.
    """

    objects: Objects
    behind: Int[np.ndarray, "obj"]
    logged: Int[np.ndarray, "obj"]
    watched: Bool[np.ndarray, "track"]


@dataclass(frozen=True)
class Tracks(Placing):
    """The logged tracks that a mode detects or cannot see, then its unmatched detections as standing objects.

    A mode with 3D boxes looks all around and is matched on the ground; a mode with image boxes alone sees only the
    tracks in the image and is matched there. Per frame, tracks are in the order of the log and false positives in that
    of the report.

    Attributes:
        least_iou: IoU from which on an image box may be a track.
        most_apart_m: Distance of centres up to which a 3D box may be a track.
        false_positives: Whether unmatched detections are observed.
        settings: Constants of the lift that places unmatched image boxes.
    """

    observes: ClassVar[bool] = True

    least_iou: float = 0.3
    most_apart_m: float = MOST_APART_M
    false_positives: bool = True
    settings: LiftSettings = field(default_factory=LiftSettings)

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The observed objects: first tracks in the order of the log, then false positives in that of the report."""
        return self.observation(detections, scene, truth, keep=keep).objects

    def behind(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Int[np.ndarray, "obj"]:
        """The index of the detection behind each object, -1 for an object without one."""
        return self.observation(detections, scene, truth, keep=keep).behind

    def observation(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Observation:
        """The observation of a unit; detections that `keep` drops are ignored."""
        index = np.arange(len(detections)) if keep is None else np.flatnonzero(keep)
        used = detections if keep is None else detections.where(keep)
        if used.cuboid_m is not None:
            visible = np.ones(len(truth), dtype=bool)
            box = ground_boxes(used, scene, wanted_by="the placing 'tracks'")
            pairs = near_pairs(
                OnGround(used.frame, used.cls, box.centre_m), reference_standing(truth), most_apart_m=self.most_apart_m
            )
            det, obj, corners_m = pairs.first, pairs.second, box.corners_m
        elif used.has_boxes:
            visible = _in_image(truth)
            det, obj = image_pairs(used, truth, visible, least_iou=self.least_iou)
            corners_m = road_corners_m(used, scene, settings=self.settings)
        else:
            raise InputError(
                f"unit {detections.unit}: the placing 'tracks' needs an image box or a 3D box of every detection; "
                "this source has some with neither."
            )
        partner = np.full(len(truth), -1)
        partner[obj] = det
        watched = visible & np.isin(super_class(truth.cls), MOVING)
        observed = (partner >= 0) | ~watched
        invented = np.full(len(used), self.false_positives)
        invented[det] = False
        objects, order = _merge(
            truth.objects.where(observed), _still_objects(used.where(invented), corners_m[invented], scene)
        )
        behind = np.concatenate([partner[observed], np.flatnonzero(invented)])[order]
        behind[behind >= 0] = index[behind[behind >= 0]]
        logged = np.concatenate([np.flatnonzero(observed), np.full(np.count_nonzero(invented), -1)])[order]
        return Observation(objects, behind, logged, watched)


def image_pairs(
    detections: Detections, truth: Truth, visible: Bool[np.ndarray, "obj"], *, least_iou: float
) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]:
    """The one-to-one choice of (detection, visible track) of a frame and super-class with the largest total IoU."""
    pairs = frame_pairs(detections.frame, truth.frame)
    overlap = iou(detections.box_px[pairs.first], truth.box_px[pairs.second])
    same = super_class(detections.cls)[pairs.first] == super_class(truth.cls)[pairs.second]
    may = same & visible[pairs.second] & (overlap >= least_iou)
    det, obj = pairs.first[may], pairs.second[may]
    chosen = assignment(det, obj, overlap=overlap[may])
    return det[chosen], obj[chosen]


def road_corners_m(detections: Detections, scene: Scene, *, settings: LiftSettings) -> Float[np.ndarray, "det 4 2"]:
    """Footprints of class size at the lifted positions of image boxes, with the heading of the ego vehicle."""
    lifted = lift(detections.box_px, lookup(detections.cls, HEIGHT_M), camera=scene.camera, settings=settings)
    middle_m, half_m = lifted.lateral_m.mean(axis=1), lookup(detections.cls, WIDTH_M) / 2
    return rectangles_m(
        lifted.range_m,
        lifted.range_m + lookup(detections.cls, LENGTH_M),
        lateral_m=np.column_stack([middle_m - half_m, middle_m + half_m]),
    )


def _in_image(truth: Truth) -> Bool[np.ndarray, "obj"]:
    return np.isfinite(truth.box_px).all(axis=1) & proper(truth.box_px)


def _still_objects(detections: Detections, corners_m: Float[np.ndarray, "det 4 2"], scene: Scene) -> Objects:
    """Detections as objects that stand still."""
    return Objects.of(
        len(scene),
        detections.frame,
        corners_m=corners_m,
        closing_mps=scene.ego_speed_mps[detections.frame],
        names=detections.cls,
        velocity_mps=np.zeros((len(detections), 2)),
    )


def _merge(first: Objects, second: Objects) -> tuple[Objects, Int[np.ndarray, "obj"]]:
    """Per frame the first objects, then the second, with their old indices; without second ones the first unchanged."""
    order = np.argsort(np.concatenate([first.frame, second.frame]), kind="stable")
    if not len(second):
        return first, order
    columns = {
        f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)])[order]
        for f in fields(first)
        if f.name != "frames"
    }
    return Objects(frames=first.frames, **columns), order
