"""Cuboid placing: reported 3D boxes -> perceived objects, by their ground corners in the ego frame.

Closing speed = ego speed - x-component of the object's own velocity in the ego frame (which is 0 where none is given).
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Bool, Float
from deepval.errors import InputError
from deepval.geometry.corners import ground_corners_m
from deepval.perception.placing.placing import Placing
from deepval.perception.reported.detections import Detections
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Cuboids(Placing):
    """Every 3D box where its detector put it; the truth is not looked at."""

    observes = True

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, with their own velocity and track where the detector reports them."""
        if detections.cuboid_m is None or not np.isfinite(detections.cuboid_m).all():
            raise InputError(f"unit {detections.unit}: the placing 'cuboids' needs 3D boxes; this source has none.")
        box, frame = detections.cuboid_m, detections.frame
        turn = _ego_from_source(detections, scene)
        centre_m = np.einsum("dij,dj->di", turn[:, :3, :3], box[:, :3]) + turn[:, :3, 3]
        ahead = np.einsum("dij,dj->di", turn[:, :3, :3], _heading(box[:, 6], detections))
        corners_m = ground_corners_m(centre_m[:, :2], box[:, 3:5], yaw_rad=np.arctan2(ahead[:, 1], ahead[:, 0]))
        velocity_mps = None
        if detections.velocity_mps is not None:
            flat = np.column_stack([detections.velocity_mps, np.zeros(len(box))])
            velocity_mps = np.einsum("dij,dj->di", turn[:, :3, :3], flat)[:, :2]
        own_mps = np.zeros(len(box)) if velocity_mps is None else np.nan_to_num(velocity_mps[:, 0])
        objects = Objects.of(
            len(scene),
            frame,
            corners_m=corners_m,
            closing_mps=scene.ego_speed_mps[frame] - own_mps,
            names=detections.cls,
            track=detections.track,
            velocity_mps=velocity_mps,
        )
        return objects if keep is None else objects.where(keep)


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
