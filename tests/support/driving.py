"""Small made-up drives for tests: cameras, scenes, detections, truths and objects from
a few arguments.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.perception.reported.detection_rows import ModeReader
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.world.objects import Objects, box_objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

CAMERA_AXES = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


def camera(*, t_x=1.1, t_y=-0.25, t_z=0.73, road_z_m=-0.93):
    pose = np.eye(4)
    pose[:3, :3] = CAMERA_AXES
    pose[:3, 3] = (t_x, t_y, t_z)
    return Camera(720.0, 720.0, 610.0, 173.0, pose, road_z_m)


def scene(frames=3, *, unit="0000", speed_mps=10.0, dt_s=0.1, **more):
    return Scene(
        unit=unit,
        frame_ids=np.array([f"{frame:06d}" for frame in range(frames)], dtype="<U6"),
        time_s=np.arange(frames) * dt_s,
        ego_speed_mps=np.broadcast_to(np.asarray(speed_mps, float), (frames,)).copy(),
        cameras=more.pop("cameras", None) or {"front": more.pop("camera", camera())},
        **more,
    )


def detections(rows, frames=3, *, unit="0000", status=None):
    """Rows are (frame, class, score, x1, y1, x2, y2), sorted by frame."""
    return Detections(
        unit=unit,
        frame=np.array([row[0] for row in rows], dtype=int),
        cls=np.array([row[1] for row in rows], dtype="<U14"),
        score=np.array([row[2] for row in rows], dtype=float),
        box_px=np.array([row[3:7] for row in rows], dtype=float).reshape(-1, 4),
        status=np.zeros(frames, dtype=int) if status is None else np.array(status),
    )


def truth(rows, frames=3, *, unit="0000", ignored=()):
    """Rows are (frame, class, track, occlusion, (x1, y1, x2, y2), (near, far, low,
    high), closing).
    """
    ground = np.array([row[5] for row in rows], dtype=float).reshape(-1, 4)
    middle = np.column_stack([ground[:, :2].mean(axis=1), ground[:, 2:].mean(axis=1)])
    size = np.column_stack([ground[:, 1] - ground[:, 0], ground[:, 3] - ground[:, 2]])
    return Truth(
        unit=unit,
        objects=Objects.of(
            frames,
            np.array([row[0] for row in rows], dtype=int),
            corners_m=ground_corners_m(middle, size, yaw_rad=np.zeros(len(rows))),
            closing_mps=np.array([row[6] for row in rows], dtype=float),
            names=np.array([row[1] for row in rows], dtype="<U14"),
            track=np.array([row[2] for row in rows], dtype=int),
        ),
        occlusion=np.array([row[3] for row in rows], dtype=int),
        box_px=np.array([row[4] for row in rows], dtype=float).reshape(-1, 4),
        ignored_frame=np.array([row[0] for row in ignored], dtype=int),
        ignored_box_px=np.array([row[1:] for row in ignored], dtype=float).reshape(
            -1, 4
        ),
    )


class Ego(NamedTuple):
    """A vehicle over some frames: its speed, and where a chain of plans begins."""

    speed_mps: np.ndarray
    first: np.ndarray

    @property
    def scene(self):
        return scene(len(self.speed_mps), speed_mps=self.speed_mps)


def acted(system, perceived, ego, *, previous=None):
    return system.plan(perceived, ego.scene, starts=ego.first, previous=previous)


def lost(system, plans, reference, *, ego, previous):
    return system.terms(plans, ego.scene, known(reference), previous=previous)


def known(things, unit="0000", *, future=None):
    """The truth that holds these objects, of whose image boxes nothing is known."""
    none = np.zeros(0, dtype=int)
    unboxed = np.full((len(things), 4), np.nan)
    return Truth(
        unit,
        things,
        unboxed,
        np.zeros(len(things), dtype=int),
        none,
        np.zeros((0, 4)),
        future,
    )


def boxed_in_3d(things, unit="0000", *, height_m=1.5):
    """The report of a detector that puts a 3D box around each of these objects, and no
    image box.
    """
    size_m = np.column_stack(
        [things.far_m - things.near_m, np.ptp(things.lateral_m, axis=1)]
    )
    rest = np.broadcast_to([height_m, 0.0], size_m.shape)
    nothing = np.full((len(things), 5), np.nan)
    return Detections(
        unit=unit,
        frame=things.frame,
        cls=np.full(len(things), "Car"),
        score=nothing[:, 0],
        box_px=nothing[:, 1:],
        status=np.zeros(things.frames, dtype=int),
        cuboid_m=np.column_stack(
            [things.centre_m, np.zeros(len(things)), size_m, rest]
        ),
        cuboid_frame="ego",
    )


@dataclass(frozen=True)
class Lidar(ModeReader):
    """A mode that puts a 3D box around whatever is within its reach."""

    farthest_m: float
    scores = "none"

    @property
    def definition(self):
        return {"source": "lidar", "farthest_m": self.farthest_m}

    def detections(self, scene, truth):
        return boxed_in_3d(
            truth.objects.where(truth.objects.near_m <= self.farthest_m), scene.unit
        )


def mirrored(things):
    """The same objects on the other side of the road."""
    return replace(things, corners_m=things.corners_m * [1.0, -1.0])


def footprints(frames, frame, near, far, lateral, closing):
    return box_objects(
        frames, frame, near_m=near, far_m=far, lateral_m=lateral, closing_mps=closing
    )


def objects(rows, frames=1):
    """Rows are (frame, near, far, low, high, closing), sorted by frame."""
    table = np.array(rows, dtype=float).reshape(-1, 6)
    return footprints(
        frames, table[:, 0].astype(int), *table[:, 1:3].T, table[:, 3:5], table[:, 5]
    )


def random_objects(rng, frames, per_frame=4.0, *, grid=None):
    """Objects around a road; rounded to multiples of `grid` where given, so that ties
    and touching occur.
    """
    frame = np.sort(rng.integers(0, frames, rng.poisson(per_frame * frames)))
    near = rng.uniform(-12, 60, len(frame))
    low = rng.uniform(-9, 7, len(frame))
    columns = [
        near,
        near + rng.uniform(0.3, 12, len(frame)),
        low,
        low + rng.uniform(0.2, 4, len(frame)),
    ]
    closing = np.where(rng.random(len(frame)) < 0.5, 0.0, rng.normal(2, 6, len(frame)))
    columns = [*columns, closing]
    if grid:
        columns = [np.round(column / grid) * grid for column in columns]
    return footprints(
        frames, frame, columns[0], columns[1], np.column_stack(columns[2:4]), columns[4]
    )


def random_boxes(rng, count, *, spread=60.0):
    """Boxes crowded enough to overlap often."""
    corner = rng.uniform(0, spread, (count, 2))
    return np.column_stack([corner, corner + rng.uniform(10, 60, (count, 2))])
