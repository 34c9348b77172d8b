"""Frame and Past -> Glance: the content of one frame and its memory, as a deployed
router receives them.

The formulas of lift, overlap and braking are those of `geometry`, in plain numbers: for
the few boxes of a frame this is several times faster than arrays, and the same
operations in the same order give the same bits. Boxes are sorted into one canonical
order, so that their order in the report never matters.

A box continues the object of the previous frame with the highest IoU of its class, if
that is at least 0.3. An object is missing from the first frame in which no box overlaps
its last box by that much, until a box does so again or the window has passed.

If the mode observes, the glance holds its objects (`tracks`) and no boxes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.camera import Camera, LiftSettings
from deepval.driving.geometry.classes import (
    CLASSES,
    HEIGHT_M,
    NUSCENES_CLASSES,
    SUPER_CLASS,
)
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.views import (
    CheapMode,
    Frame,
    Past,
    Remembered,
    View,
    frames_of,
    grey,
    sample_pixels,
)
from deepval.driving.world.objects import BrakingSettings, Objects

BRAKING = BrakingSettings()
"""The rule of docs/definitions.md, Braking controller."""
CORRIDORS_M: dict[str, float] = {
    "required": BRAKING.corridor_m,
    "required_wider_03": BRAKING.corridor_m + 0.3,
    "required_wider_08": BRAKING.corridor_m + 0.8,
    "required_narrower_04": BRAKING.corridor_m - 0.4,
}
"""Half-width of the corridor of each demand."""
WINDOW = 8
"""Frames in the memory, the current one included."""
NEAR_M = 10.0
"""Range at which an object adds one half to the proximity sum."""

QUANTITIES: dict[str, str] = {
    "required": (
        "a_req, m/s²: largest deceleration that a used object in the corridor (1.2 m) "
        "requires, 0 if none"
    ),
    "required_wider_03": "a_req with the corridor 0.3 m wider on each side",
    "required_wider_08": "a_req with the corridor 0.8 m wider on each side",
    "required_narrower_04": "a_req with the corridor 0.4 m narrower on each side",
    "count": "number of used boxes",
    "corridor_count": "number of used objects in the corridor, 0 < range <= 80 m",
    "corridor_nearest_m": "smallest range of those objects, 80 if none",
    "ego_speed_mps": "ego speed",
    "proximity": "sum of 10 / (10 + max(range, 0)) over used objects",
}
"""The quantities of each frame that the memory holds: name -> formula."""
PLACE = {name: column for column, name in enumerate(QUANTITIES)}
"""The column of each quantity."""


def stopping_mps2(range_m: float, speed_mps: float) -> float:
    """Deceleration that an object at this range requires at this speed, in m/s², up to
    the rule's limit.
    """
    if not speed_mps > 0:
        return 0.0
    room_m = range_m - BRAKING.standoff_m - BRAKING.reaction_s * speed_mps
    return (
        min(speed_mps * speed_mps / (2 * room_m), BRAKING.limit_mps2)
        if room_m > 0
        else BRAKING.limit_mps2
    )


KINDS = ("vehicle", "person", "cyclist", "static")
CODE_OF_KIND = {kind: code for code, kind in enumerate(KINDS)}
CODE_OF_CLASS = {name: CODE_OF_KIND[kind] for name, kind in SUPER_CLASS.items()} | {
    "": -1
}
"""Class -> index of its kind in KINDS; -1 for an object without a class."""


class SeenTrack(NamedTuple):
    """An observed object.

    `distance_m` is the distance of its centre (x, y) from the ego's centre. The
    velocity is the object's own, NaN if unknown. `gap_m` is infinite unless the object
    reaches beyond the ego's front. `aside_m` is the distance of its nearer side from
    the middle of the ego. `id` is -1 without a track.
    """

    distance_m: float
    x_m: float
    y_m: float
    length_m: float
    width_m: float
    kind: int
    vx_mps: float
    vy_mps: float
    gap_m: float
    aside_m: float
    closing_mps: float
    id: int


def tracks_of(
    objects: Objects, vehicle: Vehicle | None, *, ego_speed_mps: float
) -> tuple[SeenTrack, ...]:
    """The objects of one frame, nearest first.

    Closing speed = ego speed - the object's own forward speed. If that speed is
    unknown, it is the reported closing speed, or the ego speed if none is reported.
    """
    centre_m, front_m = (
        (0.0, 0.0) if vehicle is None else (vehicle.centre_m, vehicle.front_m)
    )
    columns = (
        objects.corners_m,
        objects.velocity_mps,
        objects.closing_mps,
        objects.cls,
        objects.track,
    )
    tracks = []
    for corners, (vx, vy), closing, name, track in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if name not in CODE_OF_CLASS:
            raise InputError(
                "observed classes must "
                f"be among {', '.join(SUPER_CLASS)}; found {name!r}."
            )
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
        x_m, y_m = (x0 + x1 + x2 + x3) / 4.0, (y0 + y1 + y2 + y3) / 4.0
        gap_m = (
            max(min(x0, x1, x2, x3) - front_m, 0.0)
            if max(x0, x1, x2, x3) > front_m
            else inf
        )
        closing_mps = (closing or ego_speed_mps) if isnan(vx) else ego_speed_mps - vx
        tracks.append(
            SeenTrack(
                distance_m=hypot(x_m - centre_m, y_m),
                x_m=x_m,
                y_m=y_m,
                length_m=hypot(x0 - x3, y0 - y3),
                width_m=hypot(x0 - x1, y0 - y1),
                kind=CODE_OF_CLASS[name],
                vx_mps=vx,
                vy_mps=vy,
                gap_m=gap_m,
                aside_m=max(min(y0, y1, y2, y3), -max(y0, y1, y2, y3)),
                closing_mps=closing_mps,
                id=track,
            )
        )
    # NaN does not compare, so it is sorted as infinity.
    return tuple(
        sorted(
            tracks,
            key=lambda track: tuple(inf if isnan(value) else value for value in track),
        )
    )


def half_width_m(vehicle: Vehicle | None) -> float:
    """Half the ego's width; without a vehicle size, the half-width of the braking
    rule's corridor.
    """
    return BRAKING.corridor_m if vehicle is None else vehicle.width_m / 2


def in_way(tracks: Iterable[SeenTrack], half_m: float) -> list[SeenTrack]:
    """The objects ahead, up to 80 m, that reach into a straight corridor of this
    half-width.
    """
    return [
        track
        for track in tracks
        if track.aside_m < half_m and track.gap_m <= BRAKING.farthest_m
    ]


LIFT = LiftSettings()
CODES = {name: code for code, name in enumerate(CLASSES)}
CODES |= {name: CODES[like] for name, like in NUSCENES_CLASSES.items() if like in CODES}
LEAST_IOU = 0.3
"""Smallest IoU at which a box continues an earlier object, or proves that the object is
not missing.
"""


class Box(NamedTuple):
    """A box that the cheap mode reports, lifted.

    `code` is the class (an index into CLASSES), `probability` is NaN if the mode has
    none, `used` whether the box is used downstream. `aside_m` is the distance of its
    nearer side from the middle of the corridor: the box reaches into a corridor of
    half-width w iff `aside_m` < w.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    area: float
    code: int
    probability: float
    used: bool
    near_m: float
    aside_m: float


class Missing(NamedTuple):
    """A missing object: its present position, by the way travelled since it was seen,
    and its missing frames.
    """

    near_m: float
    aside_m: float
    demand_mps2: float
    missing: int
    age: int


class Glance(NamedTuple):
    """The content of one frame.

    Attributes:
        frame: The frame.
        past: The memory of the earlier frames.
        mode: How to read the cheap mode's report.
        boxes: All boxes that the cheap mode reports, sorted by falling score, then by
            box and class.
        objects: The boxes that are used downstream, as objects in the ego frame.
        demands: The deceleration that each of these objects requires, at any distance
            aside.
        lost: Objects seen within the window and missing now.
        row: The quantities of the frame.
        after: The memory for the next frame.
        tracks: The observed objects, nearest first, if the mode observes; boxes,
            objects and lost are then empty.
    """

    frame: Frame
    past: Past
    mode: CheapMode
    boxes: list[Box]
    objects: list[Remembered]
    demands: list[float]
    lost: list[Missing]
    row: tuple[float, ...]
    after: Past
    tracks: tuple[SeenTrack, ...] = ()


def glance(frame: Frame, past: Past, *, mode: CheapMode) -> Glance:
    """The glance of a frame; its `after` is the past of the next frame."""
    plain = _glance(frame, past, mode=mode)
    memory = past.memory
    return (
        plain
        if memory is None
        else plain._replace(after=plain.after._replace(memory=memory.after(plain)))
    )


def _glance(frame: Frame, past: Past, *, mode: CheapMode) -> Glance:
    number, speed_mps = past.frames, frame.ego_speed_mps
    if number and not frame.dt_s > 0:
        raise InputError(
            "time must pass between the frames of a unit; "
            f"frame {number} has dt_s = {frame.dt_s}."
        )
    odometer_m = past.odometer_m + speed_mps * frame.dt_s if number else 0.0
    if mode.observes or frame.objects is not None:
        return _glance_at_objects(frame, past, mode=mode, odometer_m=odometer_m)
    boxes = _boxes(frame, mode)
    used = [box for box in boxes if box.used]
    partners, unmatched = _link_tracks(used, past)
    objects, demands = [], []
    for box, partner in zip(used, partners, strict=True):
        closing_mps, age = 0.0, 1
        if partner is not None:
            growth_per_s = (
                (box.y2 - box.y1) / (partner.y2 - partner.y1) - 1.0
            ) / frame.dt_s
            closing_mps = box.near_m * max(growth_per_s, 0.0)
            age = min(partner.age + 1, WINDOW)
        objects.append(
            Remembered(
                *box[:6], box.near_m, box.aside_m, closing_mps, odometer_m, age, number
            )
        )
        demands.append(_demand_mps2(box.near_m, speed_mps, closing_mps))
    lost = []
    for track in unmatched:
        near_m = track.near_m - (odometer_m - track.odometer_m)
        demand = _demand_mps2(near_m, speed_mps, track.closing_mps)
        lost.append(
            Missing(near_m, track.aside_m, demand, number - track.seen, track.age)
        )
    row = _row(frame, objects, demands)
    after = _after(frame, past, row=row, odometer_m=odometer_m)._replace(
        tracks=(*objects, *unmatched)
    )
    return Glance(frame, past, mode, boxes, objects, demands, lost, row, after)


def _after(
    frame: Frame, past: Past, *, row: tuple[float, ...], odometer_m: float
) -> Past:
    picture = None if frame.image is None else grey(frame.image)
    return Past(
        past.frames + 1, (), (*past.rows, row)[-(WINDOW - 1) :], odometer_m, picture
    )


def _glance_at_objects(
    frame: Frame, past: Past, *, mode: CheapMode, odometer_m: float
) -> Glance:
    """The glance of a frame with observed objects."""
    if frame.objects is None or not mode.observes:
        raise InputError(
            "a frame holds objects iff its cheap mode observes; give Frame its "
            "`objects` and the router a CheapMode with `observes`, or neither."
        )
    tracks = tracks_of(frame.objects, frame.vehicle, ego_speed_mps=frame.ego_speed_mps)
    row = _object_quantities(frame, tracks)
    after = _after(frame, past, row=row, odometer_m=odometer_m)
    if frame.run:
        after = after._replace(
            ids=frozenset(track.id for track in tracks if track.id >= 0)
        )
    return Glance(frame, past, mode, [], [], [], [], row, after, tracks)


def _object_quantities(
    frame: Frame, tracks: tuple[SeenTrack, ...]
) -> tuple[float, ...]:
    """The quantities of a frame with observed objects; quantities of image boxes are
    NaN.
    """
    values = {"ego_speed_mps": frame.ego_speed_mps}
    if frame.run:
        inside = in_way(tracks, half_width_m(frame.vehicle))
        values |= {
            "required": max(
                (stopping_mps2(track.gap_m, track.closing_mps) for track in inside),
                default=0.0,
            ),
            "count": float(len(tracks)),
            "corridor_count": float(len(inside)),
            "corridor_nearest_m": min(
                (track.gap_m for track in inside), default=BRAKING.farthest_m
            ),
        }
    return tuple(values.get(name, nan) for name in QUANTITIES)


def _boxes(frame: Frame, mode: CheapMode) -> list[Box]:
    """The reported boxes in canonical order, lifted."""
    if not len(frame.score):
        return []
    box_px, score = np.asarray(frame.box_px, float), np.asarray(frame.score, float)
    if np.isnan(box_px).any():
        raise InputError(
            "a view needs image boxes; this source has none: project its cuboids into "
            "the image first."
        )
    columns = (
        [inf if isnan(value) else -value for value in score.tolist()],
        box_px.tolist(),
        _codes(frame.cls),
        [HEIGHT_M[name] for name in frame.cls.tolist()],
        mode.probability(score).tolist(),
        mode.used(score).tolist(),
    )
    lens = _Lens.of(frame.camera)
    boxes = []
    for _, (x1, y1, x2, y2), code, height_m, probability, used in sorted(
        zip(*columns, strict=True)
    ):
        near_m, aside_m = lens.lift(x1, y1, x2, y2, height_m)
        area = max(x2 - x1, 0.0) * max(y2 - y1, 0.0)
        boxes.append(
            Box(x1, y1, x2, y2, area, code, probability, used, near_m, aside_m)
        )
    return boxes


def _codes(cls: Shaped[np.ndarray, "det"]) -> list[int]:
    """The index in CLASSES of each class, or of the class that it is mapped to."""
    try:
        return [CODES[name] for name in cls.tolist()]
    except KeyError as error:
        raise InputError(
            f"classes must be among {', '.join(CLASSES)}; "
            f"found {error}: give a class map."
        ) from error


class _Lens(NamedTuple):
    """Constants of the lift for one camera."""

    fx: float
    fy: float
    cx: float
    cy: float
    drop_x: float
    drop_y: float
    drop_z: float
    t_x: float
    t_y: float
    height_m: float
    edge_px: float

    @staticmethod
    def of(camera: Camera) -> "_Lens":
        pose = camera.ego_from_cam.tolist()
        edge_px = float(
            np.hypot(LIFT.edge_spread_px, camera.fy_px * LIFT.pitch_spread_rad)
        )
        (*_, t_x), (*_, t_y), (drop_x, drop_y, drop_z, t_z) = pose[:3]
        # Python floats: arithmetic on NumPy's scalars is slower.
        fx, fy, cx, cy = (
            float(camera.fx_px),
            float(camera.fy_px),
            float(camera.cx_px),
            float(camera.cy_px),
        )
        return _Lens(
            fx,
            fy,
            cx,
            cy,
            drop_x,
            drop_y,
            drop_z,
            t_x,
            t_y,
            t_z - float(camera.road_z_m),
            edge_px,
        )

    def lift(
        self, x1: float, y1: float, x2: float, y2: float, height_m: float
    ) -> tuple[float, float]:
        """Range of the near face, and distance of the nearer side from the middle of
        the corridor.
        """
        fx, fy, cx, cy, drop_x, drop_y, drop_z, t_x, t_y, camera_m, edge_px = self
        ray_z = drop_x * ((x1 + x2) / 2 - cx) / fx + drop_y * (y2 - cy) / fy + drop_z
        ground_weight, ground_m = 0.0, camera_m
        if ray_z < -LIFT.least_drop:
            ground_m = camera_m / -ray_z
            spread_m = ground_m * ground_m * edge_px / (fy * camera_m)
            ground_weight = 1.0 / (spread_m * spread_m)
        box_px = max(y2 - y1, 1.0)
        depth_m = fy * height_m / box_px
        blur = LIFT.edge_spread_px / box_px
        spread_m = depth_m * sqrt(LIFT.height_spread**2 + blur * blur)
        weight = 1.0 / (spread_m * spread_m)
        fused_m = (ground_weight * ground_m + weight * depth_m) / (
            ground_weight + weight
        )
        depth_m = min(max(fused_m, LIFT.nearest_m), LIFT.farthest_m)
        left_m = -depth_m * (x1 - cx) / fx + t_y
        right_m = -depth_m * (x2 - cx) / fx + t_y
        return depth_m + t_x, max(right_m, -left_m)


def _link_tracks(
    used: list[Box], past: Past
) -> tuple[list[Remembered | None], list[Remembered]]:
    """For each box the track of the previous frame that it continues, and the tracks
    that no box overlaps.
    """
    last = past.frames - 1
    best: list[float] = [0.0] * len(used)
    partners: list[Remembered | None] = [None] * len(used)
    unmatched = []
    for track in past.tracks:
        matched = False
        for index, box in enumerate(used):
            overlap = box_iou(box, track)
            # A box of any class proves that the object is still there; only a box of
            # its class continues it.
            if overlap >= LEAST_IOU:
                matched = True
                if (
                    track.seen == last
                    and box.code == track.code
                    and overlap > best[index]
                ):
                    best[index], partners[index] = overlap, track
        if not matched and track.seen > last + 1 - WINDOW:
            unmatched.append(track)
    return partners, unmatched


def box_iou(one: Box | Remembered, other: Box | Remembered) -> float:
    """Intersection over union of two boxes."""
    left = one.x1 if one.x1 > other.x1 else other.x1
    right = one.x2 if one.x2 < other.x2 else other.x2
    if right <= left:
        return 0.0
    top = one.y1 if one.y1 > other.y1 else other.y1
    bottom = one.y2 if one.y2 < other.y2 else other.y2
    if bottom <= top:
        return 0.0
    shared = (right - left) * (bottom - top)
    union = one.area + other.area - shared
    return shared / union if union > 0 else 0.0


def ahead(range_m: float) -> bool:
    """Whether the braking rule considers an object at this range."""
    return 0 < range_m <= BRAKING.farthest_m


def _demand_mps2(range_m: float, speed_mps: float, closing_mps: float) -> float:
    if not ahead(range_m):
        return 0.0
    return max(stopping_mps2(range_m, speed_mps), stopping_mps2(range_m, closing_mps))


def required_mps2(
    objects: list[Remembered] | list[Missing], demands: list[float]
) -> tuple[float, ...]:
    """Largest demand within each of the corridors, 0 if none."""
    largest = [0.0] * len(CORRIDORS_M)
    for item, demand in zip(objects, demands, strict=True):
        # Most objects require nothing, so the corridors are tested for the others only.
        if demand > 0:
            for corridor, corridor_m in enumerate(CORRIDORS_M.values()):
                if item.aside_m < corridor_m and demand > largest[corridor]:
                    largest[corridor] = demand
    return tuple(largest)


def _row(
    frame: Frame, objects: list[Remembered], demands: list[float]
) -> tuple[float, ...]:
    """The quantities of the frame, in their order."""
    if not frame.run:
        return tuple(
            frame.ego_speed_mps if name == "ego_speed_mps" else nan
            for name in QUANTITIES
        )
    corridor_m = BRAKING.corridor_m
    ranges = [
        item.near_m
        for item in objects
        if item.aside_m < corridor_m and ahead(item.near_m)
    ]
    proximity = 0.0
    for item in objects:
        proximity += NEAR_M / (NEAR_M + max(item.near_m, 0.0))
    nearest_m = min(ranges, default=BRAKING.farthest_m)
    return (
        *required_mps2(objects, demands),
        float(len(objects)),
        float(len(ranges)),
        nearest_m,
        frame.ego_speed_mps,
        proximity,
    )


Row = Callable[[Glance], Float[np.ndarray, "column"]]


@dataclass(frozen=True, eq=False)
class Sight:
    """The glances of a unit's frames; with `images` False, pictures are not opened."""

    view: View
    images: bool = True

    def __len__(self) -> int:
        return len(self.view)

    @cached_property
    def glances(self) -> tuple[Glance, ...]:
        """The glance of each frame, with the memory of the earlier ones."""
        glances, past = [], Past()
        for frame in frames_of(self.view, images=self.images):
            glances.append(
                glance(_with_small_picture(frame), past, mode=self.view.mode)
            )
            past = glances[-1].after
        return tuple(glances)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """The row of each frame, `columns` long; computed once per function `row`."""
        if row not in self._rows:
            table = np.array([row(seen) for seen in self.glances], float).reshape(
                len(self), columns
            )
            table.setflags(write=False)
            self._rows[row] = table
        return self._rows[row]

    @cached_property
    def _rows(self) -> dict[Row, Float[np.ndarray, "time column"]]:
        return {}


def _with_small_picture(frame: Frame) -> Frame:
    """The frame with a sampled picture, as features read it: the whole pictures of a
    unit would fill the memory.
    """
    return (
        frame
        if frame.image is None
        else replace(frame, image=np.ascontiguousarray(sample_pixels(frame.image)))
    )
