"""Reported 3D boxes -> the same boxes on the ground of the ego frame, whichever frame their detector gives them in."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.geometry.corners import ground_corners_m
from deepval.perception.reported.detections import Detections
from deepval.world.scene import Scene


@dataclass(frozen=True, eq=False)
class GroundBoxes:
    """One box per detection in the ego frame: centre, ground corners, and velocity (None where none is reported)."""

    centre_m: Float[np.ndarray, "det 2"]
    corners_m: Float[np.ndarray, "det 4 2"]
    velocity_mps: Float[np.ndarray, "det 2"] | None


def has_ground_boxes(detections: Detections, scene: Scene) -> bool:
    """Whether every detection has a 3D box in a frame that the scene knows."""
    known = ("ego", *scene.cameras) if scene.world_from_ego is None else ("world", "ego", *scene.cameras)
    box = detections.cuboid_m
    return box is not None and detections.cuboid_frame in known and bool(np.isfinite(box).all())


def ground_boxes(detections: Detections, scene: Scene, *, wanted_by: str) -> GroundBoxes:
    """The boxes of detections that all have one; `wanted_by` names who needs them where they do not."""
    if detections.cuboid_m is None or not np.isfinite(detections.cuboid_m).all():
        raise InputError(f"unit {detections.unit}: {wanted_by} needs 3D boxes; this source has none.")
    box = detections.cuboid_m
    turn = _ego_from_source(detections, scene)
    centre_m = np.einsum("dij,dj->di", turn[:, :3, :3], box[:, :3]) + turn[:, :3, 3]
    ahead = np.einsum("dij,dj->di", turn[:, :3, :3], _heading(box[:, 6], detections))
    corners_m = ground_corners_m(centre_m[:, :2], box[:, 3:5], yaw_rad=np.arctan2(ahead[:, 1], ahead[:, 0]))
    velocity_mps = None
    if detections.velocity_mps is not None:
        flat = np.column_stack([detections.velocity_mps, np.zeros(len(box))])
        velocity_mps = np.einsum("dij,dj->di", turn[:, :3, :3], flat)[:, :2]
    return GroundBoxes(centre_m[:, :2], corners_m, velocity_mps)


def _ego_from_source(detections: Detections, scene: Scene) -> Float[np.ndarray, "det 4 4"]:
    """The transform from the frame that the boxes are given in, per detection."""
    if detections.cuboid_frame == "world":
        if scene.world_from_ego is None:
            raise InputError(f"unit {scene.unit}: boxes in the world frame need poses; the scene has none.")
        return np.linalg.inv(scene.world_from_ego)[detections.frame]
    if detections.cuboid_frame not in ("ego", *scene.cameras):
        raise InputError(
            f"unit {scene.unit}: boxes must be given in a frame that the scene knows: world, ego or a camera "
            f"({', '.join(scene.cameras)}); found {detections.cuboid_frame!r}."
        )
    still = np.eye(4) if detections.cuboid_frame == "ego" else scene.cameras[detections.cuboid_frame].ego_from_cam
    return np.broadcast_to(still, (len(detections), 4, 4))


def _heading(yaw_rad: Float[np.ndarray, "det"], detections: Detections) -> Float[np.ndarray, "det 3"]:
    """Where a box's front points: yaw turns from x to y, but in camera axes from x towards -z."""
    cos, sin, none = np.cos(yaw_rad), np.sin(yaw_rad), np.zeros(len(yaw_rad))
    level = detections.cuboid_frame in ("world", "ego")
    return np.stack([cos, sin, none] if level else [cos, none, -sin], axis=-1)
