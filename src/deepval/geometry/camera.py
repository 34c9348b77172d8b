"""A pinhole camera on the vehicle: intrinsics, its pose in the ego frame, and the road plane below it."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError


@dataclass(frozen=True)
class Camera:
    """Intrinsics in pixels and `ego_from_cam` (4x4; ego: x forward, y left, z up; camera: z forward, y down).

    `road_z_m` is the height of the road plane in the ego frame. The image size is unknown where it is None.
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
            raise InputError(f"a camera's focal lengths must be positive; found {self.fx_px} and {self.fy_px}.")
        if not np.isfinite([self.cx_px, self.cy_px, self.road_z_m, *self.ego_from_cam.flat]).all():
            raise InputError("a camera's pose must be finite; found NaN or infinity: check the calibration file.")

    @property
    def height_m(self) -> float:
        """Height of the camera above the road."""
        return float(self.ego_from_cam[2, 3]) - self.road_z_m


def looking_ahead(ahead_m: float, *, left_m: float = 0.0, height_m: float) -> Float[np.ndarray, "4 4"]:
    """`ego_from_cam` of a camera that looks straight ahead and level."""
    pose = np.eye(4)
    pose[:3, :3] = [[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]
    pose[:3, 3] = (ahead_m, left_m, height_m)
    return pose


def transformed(
    b_from_a: Float[np.ndarray, "4 4"], points_m: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 3"]:
    """Points of frame a in frame b."""
    return points_m @ b_from_a[:3, :3].T + b_from_a[:3, 3]


def projected_px(camera: Camera, points_m: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2"]:
    """Pixels of points in the ego frame; NaN at or behind the camera plane."""
    point = transformed(np.linalg.inv(camera.ego_from_cam), points_m)
    depth = np.where(point[..., 2] > 0, point[..., 2], np.nan)
    u = camera.fx_px * point[..., 0] / depth + camera.cx_px
    return np.stack([u, camera.fy_px * point[..., 1] / depth + camera.cy_px], axis=-1)
