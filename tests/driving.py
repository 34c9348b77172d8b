"""Small made-up drives for tests: cameras, scenes, detections, truths and objects from a few arguments."""

import numpy as np

from deepval.geometry.camera import Camera
from deepval.geometry.corners import ground_corners_m
from deepval.geometry.objects import Objects
from deepval.perception.detections import Detections
from deepval.scenes import Scene
from deepval.truth import Truth

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
        camera=more.pop("camera", camera()),
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
    """Rows are (frame, class, track, occlusion, (x1, y1, x2, y2), (near, far, low, high), closing)."""
    ground = np.array([row[5] for row in rows], dtype=float).reshape(-1, 4)
    middle = np.column_stack([ground[:, :2].mean(axis=1), ground[:, 2:].mean(axis=1)])
    size = np.column_stack([ground[:, 1] - ground[:, 0], ground[:, 3] - ground[:, 2]])
    return Truth(
        unit=unit,
        frames=frames,
        frame=np.array([row[0] for row in rows], dtype=int),
        cls=np.array([row[1] for row in rows], dtype="<U14"),
        track=np.array([row[2] for row in rows], dtype=int),
        occlusion=np.array([row[3] for row in rows], dtype=int),
        box_px=np.array([row[4] for row in rows], dtype=float).reshape(-1, 4),
        corners_m=ground_corners_m(middle, size, yaw_rad=np.zeros(len(rows))),
        closing_mps=np.array([row[6] for row in rows], dtype=float),
        ignored_frame=np.array([row[0] for row in ignored], dtype=int),
        ignored_box_px=np.array([row[1:] for row in ignored], dtype=float).reshape(-1, 4),
    )


def objects(rows, frames=1):
    """Rows are (frame, near, far, low, high, closing), sorted by frame."""
    table = np.array(rows, dtype=float).reshape(-1, 6)
    return Objects(frames, table[:, 0].astype(int), table[:, 1], table[:, 2], table[:, 3:5], table[:, 5])


def random_objects(rng, frames, per_frame=4.0, *, grid=None):
    """Objects around a road; rounded to multiples of `grid` where given, so that ties and touching occur."""
    frame = np.sort(rng.integers(0, frames, rng.poisson(per_frame * frames)))
    near = rng.uniform(-12, 60, len(frame))
    low = rng.uniform(-9, 7, len(frame))
    columns = [near, near + rng.uniform(0.3, 12, len(frame)), low, low + rng.uniform(0.2, 4, len(frame))]
    closing = np.where(rng.random(len(frame)) < 0.5, 0.0, rng.normal(2, 6, len(frame)))
    columns = [*columns, closing]
    if grid:
        columns = [np.round(column / grid) * grid for column in columns]
    return Objects(frames, frame, columns[0], columns[1], np.column_stack(columns[2:4]), columns[4])


def random_boxes(rng, count, *, spread=60.0):
    """Boxes crowded enough to overlap often."""
    corner = rng.uniform(0, spread, (count, 2))
    return np.column_stack([corner, corner + rng.uniform(10, 60, (count, 2))])
