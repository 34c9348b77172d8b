"""Placing: a mode's detections -> objects in the ego frame, by one of the methods in
PLACINGS.

Monocular: by lift and box growth alone, as a vehicle could. Cuboids: 3D boxes as
detected. Tracks: a planner's observation, the logged tracks that a mode detects and its
false positives (docs/definitions.md, Observations); a detected track keeps its logged
geometry, velocity and id, so that modes differ only in the tracks they detect. Oracle
geometry: the geometry of the reference objects that detections fit, image boxes by
overlap, cuboids by the distance of their centres on the ground. Tracks and oracle
geometry look at the truth.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import UnsuitableError
from deepval.driving.geometry.boxes import (
    Best,
    best_partner,
    expansion_per_s,
    frame_pairs,
    iou,
    proper,
)
from deepval.driving.geometry.camera import LiftSettings, lift, rigid_range_m
from deepval.driving.geometry.classes import (
    HEIGHT_M,
    LENGTH_M,
    WIDTH_M,
    lookup,
    super_class,
)
from deepval.driving.geometry.vehicle import rectangles_m
from deepval.driving.perception.reported.detections import Detections, ground_boxes
from deepval.driving.perception.reported.losses import (
    MOST_APART_M,
    OnGround,
    assignment,
    near_pairs,
    reference_standing,
)
from deepval.driving.world.objects import Objects, box_objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


class Placing(ABC):
    """A method of placing detections: a frozen dataclass whose fields are its settings.

    Attributes:
        observes: Whether allocators look at the objects that it creates from the cheap
            mode's report, as the planner does, and not at image boxes.
    """

    observes: ClassVar[bool] = False

    @abstractmethod
    def place(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Objects:
        """The objects, one per detection that `keep` marks (all where None) unless a
        placing states otherwise.

        Detections that `keep` drops (the persistence filter) still count as earlier
        boxes of other detections. A placing looks at the truth only if its docstring
        says so.
        """

    def behind(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Int[np.ndarray, "obj"]:
        """The index of the detection behind each object that `place` returns, -1 for an
        object without one.
        """
        return np.arange(len(detections)) if keep is None else np.flatnonzero(keep)


@dataclass(frozen=True)
class Monocular(Placing):
    """The lift of every image box; it does not look at the truth."""

    settings: LiftSettings = field(default_factory=LiftSettings)

    def place(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Objects:
        """The objects: near face at the lifted range, far end a class length behind
        it.
        """
        return monocular_objects(detections, scene, keep=keep, settings=self.settings)


def monocular_objects(
    detections: Detections,
    scene: Scene,
    *,
    keep: Bool[np.ndarray, "det"] | None = None,
    settings: LiftSettings | None = None,
) -> Objects:
    """Perceived objects, one per detection: near face at the lifted range, far end a
    class length behind it.

    Closing speed = range times the box height's growth rate if that is positive,
    otherwise 0. Boxes that `keep` drops (the persistence filter) still count as earlier
    boxes of other detections.
    """
    if np.isnan(detections.box_px).any():
        raise UnsuitableError(
            f"unit {detections.unit}: the monocular lift needs image boxes; this "
            "source has none."
        )
    lifted = lift(
        detections.box_px,
        lookup(detections.cls, HEIGHT_M),
        camera=scene.camera,
        settings=settings,
    )
    growth = expansion_per_s(
        detections.frame,
        detections.box_px,
        class_code=detections.class_code,
        dt_s=scene.dt_s,
    )
    objects = box_objects(
        len(scene),
        detections.frame,
        near_m=lifted.range_m,
        far_m=lifted.range_m + lookup(detections.cls, LENGTH_M),
        lateral_m=lifted.lateral_m,
        closing_mps=lifted.range_m * np.maximum(growth, 0.0),
        names=detections.cls,
        track=detections.track,
    )
    return objects if keep is None else objects.where(keep)


@dataclass(frozen=True)
class Cuboids(Placing):
    """Every 3D box at its detected position; it does not look at the truth."""

    observes = True

    def place(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Objects:
        """The objects, with their own velocity and track where the detector reports
        them.
        """
        box, frame = (
            ground_boxes(detections, scene, wanted_by="the placing 'cuboids'"),
            detections.frame,
        )
        own_mps = (
            np.zeros(len(frame))
            if box.velocity_mps is None
            else np.nan_to_num(box.velocity_mps[:, 0])
        )
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
"""Super-classes that are observed only where a mode detects them; other logged objects
are always observed.
"""


class Observation(NamedTuple):
    """The observed objects, with the indices of their detections and of their logged
    tracks (-1: none).

    `watched` marks the tracks that are observed only where they are detected.
    """

    objects: Objects
    behind: Int[np.ndarray, "obj"]
    logged: Int[np.ndarray, "obj"]
    watched: Bool[np.ndarray, "track"]


@dataclass(frozen=True)
class Tracks(Placing):
    """The logged tracks that a mode detects or cannot see, then its unmatched
    detections as standing objects.

    A mode with 3D boxes looks all around and is matched on the ground; a mode with
    image boxes alone sees only the tracks in the image and is matched there. Per frame,
    tracks are in the order of the log and false positives in the order of the report.

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
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Objects:
        """The observed objects: first tracks in the order of the log, then false
        positives in the report's order.
        """
        return self.observation(detections, scene, truth, keep=keep).objects

    def behind(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Int[np.ndarray, "obj"]:
        """The index of the detection behind each object, -1 for an object without
        one.
        """
        return self.observation(detections, scene, truth, keep=keep).behind

    def observation(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Observation:
        """The observation of a unit; detections that `keep` drops are ignored."""
        index = np.arange(len(detections)) if keep is None else np.flatnonzero(keep)
        used = detections if keep is None else detections.where(keep)
        if used.cuboid_m is not None:
            visible = np.ones(len(truth), dtype=bool)
            box = ground_boxes(used, scene, wanted_by="the placing 'tracks'")
            pairs = near_pairs(
                OnGround(used.frame, used.cls, box.centre_m),
                reference_standing(truth),
                most_apart_m=self.most_apart_m,
            )
            det, obj, corners_m = pairs.first, pairs.second, box.corners_m
        elif used.has_boxes:
            visible = np.isfinite(truth.box_px).all(axis=1) & proper(truth.box_px)
            det, obj = image_pairs(used, truth, visible, least_iou=self.least_iou)
            corners_m = road_corners_m(used, scene, settings=self.settings)
        else:
            raise UnsuitableError(
                f"unit {detections.unit}: the placing 'tracks' needs an image box or "
                "a 3D box of every detection; this source has some with neither."
            )
        partner = np.full(len(truth), -1)
        partner[obj] = det
        watched = visible & np.isin(super_class(truth.cls), MOVING)
        observed = (partner >= 0) | ~watched
        invented = np.full(len(used), self.false_positives)
        invented[det] = False
        objects, order = merge(
            truth.objects.where(observed),
            _still_objects(used.where(invented), corners_m[invented], scene),
        )
        behind = np.concatenate([partner[observed], np.flatnonzero(invented)])[order]
        behind[behind >= 0] = index[behind[behind >= 0]]
        logged = np.concatenate(
            [np.flatnonzero(observed), np.full(np.count_nonzero(invented), -1)]
        )[order]
        return Observation(objects, behind, logged, watched)


def image_pairs(
    detections: Detections,
    truth: Truth,
    visible: Bool[np.ndarray, "obj"],
    *,
    least_iou: float,
) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]:
    """The one-to-one choice of (detection, visible track) of a frame and super-class
    with the largest total IoU.
    """
    pairs = frame_pairs(detections.frame, truth.frame)
    overlap = iou(detections.box_px[pairs.first], truth.box_px[pairs.second])
    same = (
        super_class(detections.cls)[pairs.first] == super_class(truth.cls)[pairs.second]
    )
    may = same & visible[pairs.second] & (overlap >= least_iou)
    det, obj = pairs.first[may], pairs.second[may]
    chosen = assignment(det, obj, overlap=overlap[may])
    return det[chosen], obj[chosen]


def road_corners_m(
    detections: Detections, scene: Scene, *, settings: LiftSettings
) -> Float[np.ndarray, "det 4 2"]:
    """Footprints of class size at the lifted positions of image boxes, with the heading
    of the ego vehicle.
    """
    lifted = lift(
        detections.box_px,
        lookup(detections.cls, HEIGHT_M),
        camera=scene.camera,
        settings=settings,
    )
    middle_m, half_m = (
        lifted.lateral_m.mean(axis=1),
        lookup(detections.cls, WIDTH_M) / 2,
    )
    return rectangles_m(
        lifted.range_m,
        lifted.range_m + lookup(detections.cls, LENGTH_M),
        lateral_m=np.column_stack([middle_m - half_m, middle_m + half_m]),
    )


def _still_objects(
    detections: Detections, corners_m: Float[np.ndarray, "det 4 2"], scene: Scene
) -> Objects:
    """Detections as objects that stand still."""
    return Objects.of(
        len(scene),
        detections.frame,
        corners_m=corners_m,
        closing_mps=scene.ego_speed_mps[detections.frame],
        names=detections.cls,
        velocity_mps=np.zeros((len(detections), 2)),
    )


def merge(first: Objects, second: Objects) -> tuple[Objects, Int[np.ndarray, "obj"]]:
    """Both sets of objects frame by frame, the first set before the second in each.

    Also returns each object's index in the concatenation of both sets. If the second is
    empty, the first is returned unchanged.
    """
    order = np.argsort(np.concatenate([first.frame, second.frame]), kind="stable")
    if not len(second):
        return first, order
    columns = {
        f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)])[order]
        for f in fields(first)
        if f.name != "frames"
    }
    return Objects(frames=first.frames, **columns), order


@dataclass(frozen=True)
class OracleGeometry(Placing):
    """The geometry of the reference object that a detection fits, otherwise its own.

    It looks at the truth.
    """

    settings: LiftSettings = field(default_factory=LiftSettings)
    least_iou: float = 0.5
    farthest_m: float = 2.0

    def place(
        self,
        detections: Detections,
        scene: Scene,
        truth: Truth,
        *,
        keep: Bool[np.ndarray, "det"] | None = None,
    ) -> Objects:
        """The objects, on the reference where they fit it."""
        if detections.cuboid_m is not None and not detections.has_boxes:
            objects = oracle_cuboids(
                detections, scene, truth=truth, farthest_m=self.farthest_m
            )
            return objects if keep is None else objects.where(keep)
        return oracle_objects(
            detections,
            scene,
            truth=truth,
            keep=keep,
            settings=self.settings,
            least_iou=self.least_iou,
        )


def reference_partners(detections: Detections, truth: Truth) -> Best:
    """For each detection the reference object of highest image IoU in its frame,
    whatever its class.
    """
    pairs = frame_pairs(detections.frame, truth.frame)
    return best_partner(
        pairs,
        iou(detections.box_px[pairs.first], truth.box_px[pairs.second]),
        len(detections),
    )


def oracle_cuboids(
    detections: Detections, scene: Scene, *, truth: Truth, farthest_m: float = 2.0
) -> Objects:
    """Perceived objects; each takes the position and motion of the nearest reference
    object of its super-class.

    Nearest by centres on the ground, at most `farthest_m` away (several may take the
    same); the others stay at their detected position.
    """
    reported, reference = Cuboids().place(detections, scene, truth), truth.objects
    pairs = frame_pairs(reported.frame, reference.frame)
    away_m = np.hypot(
        *(reported.middle_m[pairs.first] - reference.middle_m[pairs.second]).T
    )
    same = (
        super_class(reported.cls)[pairs.first]
        == super_class(reference.cls)[pairs.second]
    )
    fits = np.where(same & (away_m <= farthest_m), 1.0 / (1.0 + away_m), 0.0)
    best = best_partner(pairs, fits, len(reported))
    taken = best.overlap > 0
    partner = best.place[taken]
    corners_m, closing_mps, velocity_mps = (
        np.array(column)
        for column in (reported.corners_m, reported.closing_mps, reported.velocity_mps)
    )
    corners_m[taken], closing_mps[taken] = (
        reference.corners_m[partner],
        reference.closing_mps[partner],
    )
    velocity_mps[taken] = reference.velocity_mps[partner]
    return replace(
        reported,
        corners_m=corners_m,
        closing_mps=closing_mps,
        velocity_mps=velocity_mps,
    )


def oracle_objects(
    detections: Detections,
    scene: Scene,
    *,
    truth: Truth,
    keep: Bool[np.ndarray, "det"] | None = None,
    settings: LiftSettings | None = None,
    least_iou: float = 0.5,
) -> Objects:
    """Perceived objects; those with IoU > `least_iou` to a reference object are placed
    on it.

    They take its range, lateral extent and closing speed (several may take the same)
    and keep their class length.
    """
    lifted = monocular_objects(detections, scene, settings=settings)
    reference = truth.objects
    best = reference_partners(detections, truth)
    matched = best.overlap > least_iou
    partner = best.place[matched]
    near_m, lateral_m, closing_mps = (
        lifted.near_m.copy(),
        lifted.lateral_m.copy(),
        lifted.closing_mps.copy(),
    )
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


BANDS_M: tuple[tuple[float, float], ...] = (
    (0.0, 15.0),
    (15.0, 30.0),
    (30.0, 50.0),
    (50.0, 80.0),
)


class Band(NamedTuple):
    """Overestimate of range (lift - reference) over matched objects of one band; NaN
    where there are none.

    `rigid_median_m` is that of the lift with the whole rigid transform.
    """

    from_m: float
    to_m: float
    detections: int
    mean_m: float
    median_m: float
    rigid_median_m: float


def lift_bias(
    detections: Mapping[str, Detections],
    scenes: Sequence[Scene],
    *,
    truths: Sequence[Truth],
    cls: str = "Car",
    bands_m: Sequence[tuple[float, float]] = BANDS_M,
) -> list[Band]:
    """Mean and median overestimate of range per band [from, to), over matched
    detections of a class.

    A detection is matched to the reference object of highest image IoU, if that is >
    0.5.
    """
    reference, excess, rigid = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    for scene, truth in zip(scenes, truths, strict=True):
        reported = detections[scene.unit]
        lifted = monocular_objects(reported, scene)
        best = reference_partners(reported, truth)
        matched = (best.overlap > 0.5) & (reported.cls == cls)
        matched[matched] = truth.cls[best.place[matched]] == cls
        reference.append(truth.objects.near_m[best.place[matched]])
        excess.append(lifted.near_m[matched] - reference[-1])
        heights_m = lookup(reported.cls[matched], HEIGHT_M)
        turned_m = rigid_range_m(
            reported.box_px[matched], heights_m, camera=scene.camera
        )
        rigid.append(turned_m - reference[-1])
    range_m, excess_m, rigid_m = (
        np.concatenate(reference),
        np.concatenate(excess),
        np.concatenate(rigid),
    )
    bands = []
    for low_m, high_m in bands_m:
        inside = (range_m >= low_m) & (range_m < high_m)
        part, turned = excess_m[inside], rigid_m[inside]
        averages = (
            (part.mean(), np.median(part), np.median(turned))
            if len(part)
            else (np.nan,) * 3
        )
        bands.append(Band(low_m, high_m, len(part), *map(float, averages)))
    return bands


PLACINGS: dict[str, Placing] = {
    "monocular": Monocular(),
    "oracle": OracleGeometry(),
    "cuboids": Cuboids(),
    "tracks": Tracks(),
    "tracks-no-fp": Tracks(false_positives=False),
    "tracks-iou-05": Tracks(least_iou=0.5),
}
"""Name -> method of placing."""
