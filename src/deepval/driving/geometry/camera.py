"""A pinhole camera on the vehicle (intrinsics, pose, road plane, objects in its image),
and the monocular lift.

The lift takes an image box and a class height to a range and a lateral extent in the
ego frame. Its depth fuses a ground cue (where the bottom edge of the box meets the
road) and a height cue (height of the class over height of the box), each weighted by
1/spread². Range is the near face. See docs/definitions.md, Monocular lift.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError


@dataclass(frozen=True)
class Camera:
    """Intrinsics in pixels and `ego_from_cam` (4x4; ego: x forward, y left, z up;
    camera: z forward, y down).

    `road_z_m` is the height of the road plane in the ego frame. The image size is
    unknown where it is None.
    """

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    ego_from_cam: Float[np.ndarray, "4 4"]
    road_z_m: float
    width_px: int | None = None
    height_px: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.fx_px < np.inf and 0 < self.fy_px < np.inf):
            raise InputError(
                "a camera's focal lengths must be "
                f"positive; found {self.fx_px} and {self.fy_px}."
            )
        if not np.isfinite(
            [self.cx_px, self.cy_px, self.road_z_m, *self.ego_from_cam.flat]
        ).all():
            raise InputError(
                "a camera's pose must be finite; found NaN or infinity: check the "
                "calibration file."
            )

    @property
    def height_m(self) -> float:
        """Height of the camera above the road."""
        return float(self.ego_from_cam[2, 3]) - self.road_z_m


def looking_ahead(
    ahead_m: float, *, left_m: float = 0.0, height_m: float
) -> Float[np.ndarray, "4 4"]:
    """`ego_from_cam` of a camera that looks straight ahead and level."""
    pose = np.eye(4)
    pose[:3, :3] = [[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]
    pose[:3, 3] = (ahead_m, left_m, height_m)
    return pose


def transform(
    b_from_a: Float[np.ndarray, "4 4"], points_m: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 3"]:
    """Points of frame a in frame b."""
    return points_m @ b_from_a[:3, :3].T + b_from_a[:3, 3]


def image_points_px(
    camera: Camera, points_m: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 2"]:
    """Pixels of points in the ego frame; NaN at or behind the camera plane."""
    point = transform(np.linalg.inv(camera.ego_from_cam), points_m)
    depth = np.where(point[..., 2] > 0, point[..., 2], np.nan)
    u = camera.fx_px * point[..., 0] / depth + camera.cx_px
    return np.stack([u, camera.fy_px * point[..., 1] / depth + camera.cy_px], axis=-1)


LEAST_HEIGHT_PX = 25.0
PARTLY, LARGELY = 0.2, 0.6
"""Least covered shares of an image box that is partly (1) and largely (2) occluded."""
GRID = 16


def cuboid_corners_m(
    corners_m: Float[np.ndarray, "obj 4 2"],
    *,
    bottom_m: Float[np.ndarray, "obj"],
    height_m: Float[np.ndarray, "obj"],
) -> Float[np.ndarray, "obj 8 3"]:
    """The eight corners of upright boxes: the four on the ground in their order, then
    those above them.
    """
    below = np.concatenate(
        [corners_m, np.broadcast_to(bottom_m[:, None, None], (len(corners_m), 4, 1))],
        axis=-1,
    )
    return np.concatenate(
        [below, below + height_m[:, None, None] * np.array([0.0, 0.0, 1.0])], axis=1
    )


def image_boxes_px(
    camera: Camera,
    cuboids_m: Float[np.ndarray, "obj 8 3"],
    *,
    least_height_px: float = LEAST_HEIGHT_PX,
) -> Float[np.ndarray, "obj 4"]:
    """Smallest boxes around the corners in front of the camera, clipped to the image;
    NaN for objects outside it.

    An object is in the image if its clipped box is `least_height_px` high:
    docs/definitions.md, nuScenes.
    """
    if camera.width_px is None or camera.height_px is None:
        raise InputError(
            "a camera that boxes are projected into must have "
            "an image size; found none."
        )
    points = transform(np.linalg.inv(camera.ego_from_cam), cuboids_m)
    ahead = points[..., 2] > 0
    depth = np.where(ahead, points[..., 2], 1.0)
    u = camera.fx_px * points[..., 0] / depth + camera.cx_px
    v = camera.fy_px * points[..., 1] / depth + camera.cy_px
    low = [np.where(ahead, part, np.inf).min(axis=1, initial=np.inf) for part in (u, v)]
    high = [
        np.where(ahead, part, -np.inf).max(axis=1, initial=-np.inf) for part in (u, v)
    ]
    size = (float(camera.width_px), float(camera.height_px))
    box = np.stack(
        [
            *(np.clip(a, 0, s) for a, s in zip(low, size, strict=True)),
            *(np.clip(a, 0, s) for a, s in zip(high, size, strict=True)),
        ],
        axis=-1,
    )
    width_px, height_px = box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]
    in_image = (height_px >= least_height_px) & (height_px > 0) & (width_px > 0)
    return np.where(in_image[:, None], box, np.nan)


def occlusion(
    frame: Int[np.ndarray, "obj"],
    box_px: Float[np.ndarray, "obj 4"],
    *,
    range_m: Float[np.ndarray, "obj"],
) -> Int[np.ndarray, "obj"]:
    """KITTI's level 0 to 2 by the share of an image box that nearer boxes of its frame
    cover together.

    0 below 20 %, 1 below 60 %, 2 from 60 % on, counted on a grid of 16 x 16 points; 0
    where there is no image box. An object does not fill its image box, so the level is
    too high rather than too low.
    """
    level = np.zeros(len(frame), dtype=int)
    steps = (np.arange(GRID) + 0.5) / GRID
    for current_frame in np.unique(frame):
        here = np.flatnonzero((frame == current_frame) & np.isfinite(box_px[:, 0]))
        here = here[np.argsort(range_m[here], kind="stable")]
        for order, index in enumerate(here[1:], start=1):
            x1, y1, x2, y2 = box_px[index]
            x, y = x1 + steps * (x2 - x1), y1 + steps * (y2 - y1)
            front = box_px[here[:order], :, None]
            wide = (front[:, 0] <= x) & (x <= front[:, 2])
            tall = (front[:, 1] <= y) & (y <= front[:, 3])
            covered = (wide[:, None, :] & tall[:, :, None]).any(axis=0).mean()
            level[index] = int(covered >= PARTLY) + int(covered >= LARGELY)
    return level


@dataclass(frozen=True)
class LiftSettings:
    """Constants of the lift: pixel noise, horizon noise, height spread and the bounds
    of the depth.
    """

    edge_spread_px: float = 2.0
    pitch_spread_rad: float = float(np.deg2rad(0.3))
    height_spread: float = 0.08
    least_drop: float = 1e-3
    nearest_m: float = 1.0
    farthest_m: float = 120.0


Boxes = Float[np.ndarray, "det 4"]
PerBox = Float[np.ndarray, "det"]


class Lifted(NamedTuple):
    """Near face and lateral extent (right, left edge as seen; ordered low to high) in
    the ego frame.
    """

    range_m: PerBox
    lateral_m: Float[np.ndarray, "det 2"]


class Cue(NamedTuple):
    """A depth estimate and its weight, 1/spread²; the weight is 0 where the cue is not
    valid.
    """

    depth_m: PerBox
    weight: PerBox


def ground_cue(box_px: Boxes, camera: Camera, *, settings: LiftSettings) -> Cue:
    """Depth at which the ray through the middle of the bottom edge meets the road: z =
    h / -ray_z.
    """
    u, v = (box_px[:, 0] + box_px[:, 2]) / 2, box_px[:, 3]
    drop = camera.ego_from_cam[2, :3]
    ray_z = (
        drop[0] * (u - camera.cx_px) / camera.fx_px
        + drop[1] * (v - camera.cy_px) / camera.fy_px
        + drop[2]
    )
    valid = ray_z < -settings.least_drop
    depth_m = camera.height_m / np.where(valid, -ray_z, 1.0)
    edge_px = np.hypot(
        settings.edge_spread_px, camera.fy_px * settings.pitch_spread_rad
    )
    spread_m = depth_m**2 * edge_px / (camera.fy_px * camera.height_m)
    return Cue(depth_m, np.where(valid, 1.0 / spread_m**2, 0.0))


def height_cue(
    box_px: Boxes, height_m: PerBox, *, camera: Camera, settings: LiftSettings
) -> Cue:
    """Depth at which an object of the class's height fills the box: z = fy H / box
    height.
    """
    box_height_px = np.maximum(box_px[:, 3] - box_px[:, 1], 1.0)
    depth_m = camera.fy_px * height_m / box_height_px
    spread_m = depth_m * np.sqrt(
        settings.height_spread**2 + (settings.edge_spread_px / box_height_px) ** 2
    )
    return Cue(depth_m, 1.0 / spread_m**2)


def fused_depth_m(
    box_px: Boxes,
    height_m: PerBox,
    *,
    camera: Camera,
    settings: LiftSettings | None = None,
) -> PerBox:
    """Depth along the optical axis, from both cues."""
    settings = settings or LiftSettings()
    ground = ground_cue(box_px, camera, settings=settings)
    height = height_cue(box_px, height_m, camera=camera, settings=settings)
    fused = (ground.weight * ground.depth_m + height.weight * height.depth_m) / (
        ground.weight + height.weight
    )
    return np.clip(fused, settings.nearest_m, settings.farthest_m)


def rigid_range_m(
    box_px: Boxes,
    height_m: PerBox,
    *,
    camera: Camera,
    settings: LiftSettings | None = None,
) -> PerBox:
    """Range with the whole rigid transform on the fused point, rotation too; for
    comparison with `lift` alone.

    The fused point lies at the fused depth on the ray through the middle of the bottom
    edge.
    """
    depth_m = fused_depth_m(box_px, height_m, camera=camera, settings=settings)
    across = ((box_px[:, 0] + box_px[:, 2]) / 2 - camera.cx_px) / camera.fx_px
    down = (box_px[:, 3] - camera.cy_px) / camera.fy_px
    r_x = camera.ego_from_cam[0]
    return depth_m * (r_x[0] * across + r_x[1] * down + r_x[2]) + r_x[3]


def lift(
    box_px: Boxes,
    height_m: PerBox,
    *,
    camera: Camera,
    settings: LiftSettings | None = None,
) -> Lifted:
    """Near-face range and lateral extent of image boxes of known class height, in the
    ego frame.
    """
    depth_m = fused_depth_m(box_px, height_m, camera=camera, settings=settings)
    t_x, t_y = camera.ego_from_cam[0, 3], camera.ego_from_cam[1, 3]
    left_m = -depth_m * (box_px[:, 0] - camera.cx_px) / camera.fx_px + t_y
    right_m = -depth_m * (box_px[:, 2] - camera.cx_px) / camera.fx_px + t_y
    return Lifted(depth_m + t_x, np.stack([right_m, left_m], axis=-1))
