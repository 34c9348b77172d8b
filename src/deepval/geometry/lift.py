"""Monocular lift: image box and class height -> range and lateral extent in the ego frame.

The depth fuses a ground cue (the box's bottom edge meets the road) and a height cue (the class's height over
the box's height), each weighted by 1/spread². Range is the near face. See docs/definitions.md, Monocular lift.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.geometry.camera import Camera


@dataclass(frozen=True)
class LiftSettings:
    """Constants of the lift: pixel noise, horizon noise, height spread and the bounds of the depth."""

    edge_spread_px: float = 2.0
    pitch_spread_rad: float = float(np.deg2rad(0.3))
    height_spread: float = 0.08
    least_drop: float = 1e-3
    nearest_m: float = 1.0
    farthest_m: float = 120.0


Boxes = Float[np.ndarray, "det 4"]
PerBox = Float[np.ndarray, "det"]


class Lifted(NamedTuple):
    """Near face and lateral extent (right, left edge as seen; ordered low to high) in the ego frame."""

    range_m: PerBox
    lateral_m: Float[np.ndarray, "det 2"]


class Cue(NamedTuple):
    """A depth estimate and its weight, 1/spread²; the weight is 0 where the cue is not valid."""

    depth_m: PerBox
    weight: PerBox


def ground_cue(box_px: Boxes, camera: Camera, *, settings: LiftSettings) -> Cue:
    """Depth at which the ray through the middle of the bottom edge meets the road: z = h / -ray_z."""
    u, v = (box_px[:, 0] + box_px[:, 2]) / 2, box_px[:, 3]
    drop = camera.ego_from_cam[2, :3]
    ray_z = drop[0] * (u - camera.cx_px) / camera.fx_px + drop[1] * (v - camera.cy_px) / camera.fy_px + drop[2]
    valid = ray_z < -settings.least_drop
    depth_m = camera.height_m / np.where(valid, -ray_z, 1.0)
    edge_px = np.hypot(settings.edge_spread_px, camera.fy_px * settings.pitch_spread_rad)
    spread_m = depth_m**2 * edge_px / (camera.fy_px * camera.height_m)
    return Cue(depth_m, np.where(valid, 1.0 / spread_m**2, 0.0))


def height_cue(box_px: Boxes, height_m: PerBox, *, camera: Camera, settings: LiftSettings) -> Cue:
    """Depth at which an object of the class's height fills the box: z = fy H / box height."""
    box_height_px = np.maximum(box_px[:, 3] - box_px[:, 1], 1.0)
    depth_m = camera.fy_px * height_m / box_height_px
    spread_m = depth_m * np.sqrt(settings.height_spread**2 + (settings.edge_spread_px / box_height_px) ** 2)
    return Cue(depth_m, 1.0 / spread_m**2)


def fused_depth_m(box_px: Boxes, height_m: PerBox, *, camera: Camera, settings: LiftSettings | None = None) -> PerBox:
    """Depth along the optical axis, from both cues."""
    settings = settings or LiftSettings()
    ground = ground_cue(box_px, camera, settings=settings)
    height = height_cue(box_px, height_m, camera=camera, settings=settings)
    fused = (ground.weight * ground.depth_m + height.weight * height.depth_m) / (ground.weight + height.weight)
    return np.clip(fused, settings.nearest_m, settings.farthest_m)


def rigid_range_m(box_px: Boxes, height_m: PerBox, *, camera: Camera, settings: LiftSettings | None = None) -> PerBox:
    """Range with the whole rigid transform on the fused point, rotation too; for comparison with `lift` alone.

    The fused point lies at the fused depth on the ray through the middle of the bottom edge.
    """
    depth_m = fused_depth_m(box_px, height_m, camera=camera, settings=settings)
    across = ((box_px[:, 0] + box_px[:, 2]) / 2 - camera.cx_px) / camera.fx_px
    down = (box_px[:, 3] - camera.cy_px) / camera.fy_px
    r_x = camera.ego_from_cam[0]
    return depth_m * (r_x[0] * across + r_x[1] * down + r_x[2]) + r_x[3]


def lift(box_px: Boxes, height_m: PerBox, *, camera: Camera, settings: LiftSettings | None = None) -> Lifted:
    """Near-face range and lateral extent of image boxes of known class height, in the ego frame."""
    depth_m = fused_depth_m(box_px, height_m, camera=camera, settings=settings)
    t_x, t_y = camera.ego_from_cam[0, 3], camera.ego_from_cam[1, 3]
    left_m = -depth_m * (box_px[:, 0] - camera.cx_px) / camera.fx_px + t_y
    right_m = -depth_m * (box_px[:, 2] - camera.cx_px) / camera.fx_px + t_y
    return Lifted(depth_m + t_x, np.stack([right_m, left_m], axis=-1))
