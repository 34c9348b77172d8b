"""Ground shapes: rectangles, poses, distances, and the ego vehicle's size and
footprint.
"""

from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])


def ground_corners_m(
    centre_m: Float[np.ndarray, "obj 2"],
    size_m: Float[np.ndarray, "obj 2"],
    *,
    yaw_rad: Float[np.ndarray, "obj"],
) -> Float[np.ndarray, "obj 4 2"]:
    """The four corners, in order around, of rectangles: centre, (length, width), yaw
    from x to y.
    """
    offset = SIGNS * size_m[:, None, :] / 2
    cos, sin = np.cos(yaw_rad)[:, None], np.sin(yaw_rad)[:, None]
    x = offset[..., 0] * cos - offset[..., 1] * sin
    y = offset[..., 0] * sin + offset[..., 1] * cos
    return np.stack([x, y], axis=-1) + centre_m[:, None, :]


def extent_m(
    corners_m: Float[np.ndarray, "obj 4 2"], axis: int
) -> Float[np.ndarray, "obj 2"]:
    """Smallest and largest coordinate of the corners along one axis (0: forward, 1:
    left).
    """
    return np.stack(
        [corners_m[..., axis].min(axis=-1), corners_m[..., axis].max(axis=-1)], axis=-1
    )


def rectangles_m(
    near_m: Float[np.ndarray, "obj"],
    far_m: Float[np.ndarray, "obj"],
    *,
    lateral_m: Float[np.ndarray, "obj 2"],
) -> Float[np.ndarray, "obj 4 2"]:
    """The four corners, in order around, of rectangles along the axes: forward extent,
    lateral extent.
    """
    right_m, left_m = lateral_m[:, 0], lateral_m[:, 1]
    x = np.stack([far_m, far_m, near_m, near_m], axis=-1)
    y = np.stack([left_m, right_m, right_m, left_m], axis=-1)
    return np.stack([x, y], axis=-1)


def rotations(
    quaternion: Float[np.ndarray, "*batch 4"],
) -> Float[np.ndarray, "*batch 3 3"]:
    """Rotation matrices of quaternions of any length but 0."""
    # The squares of very long ones would overflow, and of very short ones vanish. A
    # power of two as the scale leaves every digit of the others as it is.
    _, exponent = np.frexp(np.abs(quaternion).max(axis=-1, keepdims=True))
    scaled = np.ldexp(quaternion, -exponent)
    unit = scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
    w, x, y, z = np.moveaxis(unit, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def transforms(
    quaternion: Float[np.ndarray, "*batch 4"],
    translation_m: Float[np.ndarray, "*batch 3"],
) -> Float[np.ndarray, "*batch 4 4"]:
    """Transforms that rotate and then translate."""
    result = np.zeros((*quaternion.shape[:-1], 4, 4))
    result[..., :3, :3] = rotations(quaternion)
    result[..., :3, 3] = translation_m
    result[..., 3, 3] = 1.0
    return result


def ground_poses(
    pose: Float[np.ndarray, "*batch 4 4"],
) -> Float[np.ndarray, "*batch 3"]:
    """Position and heading (x, y, heading) of poses in space."""
    return np.concatenate([pose[..., :2, 3], headings_rad(pose)[..., None]], axis=-1)


def headings_rad(turn: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch"]:
    """Direction of the x axis of rotations or transforms, counter-clockwise from x."""
    return np.asarray(np.arctan2(turn[..., 1, 0], turn[..., 0, 0]))


def clearance_m(
    a_m: Float[np.ndarray, "*a 4 2"], b_m: Float[np.ndarray, "*b 4 2"]
) -> np.ndarray:
    """Distance of two rectangles; if they overlap, minus the smallest shift that
    separates them; 0 if they touch.

    Corners are in order around, either way; leading axes broadcast.
    """
    gap_m = _axis_gap_m(a_m, b_m)
    apart_m = np.minimum(_corner_distance_m(a_m, b_m), _corner_distance_m(b_m, a_m))
    return np.where(gap_m > 0, apart_m, gap_m)


def _axis_gap_m(a_m: np.ndarray, b_m: np.ndarray) -> np.ndarray:
    """The widest gap between the projections on the four axes of the sides; not
    positive where they overlap.

    Rectangles overlap iff none of these axes separates them, and the least separating
    shift is along one of the axes.
    """
    gaps = []
    for sides in (a_m, b_m):
        for first in (0, 1):
            axis = sides[..., first + 1, :] - sides[..., first, :]
            axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
            a = (a_m * axis[..., None, :]).sum(axis=-1)
            b = (b_m * axis[..., None, :]).sum(axis=-1)
            gaps.append(
                np.maximum(
                    a.min(axis=-1) - b.max(axis=-1), b.min(axis=-1) - a.max(axis=-1)
                )
            )
    return np.maximum.reduce(gaps)


def _corner_distance_m(a_m: np.ndarray, b_m: np.ndarray) -> np.ndarray:
    """The least distance of a corner of `a_m` from a side of `b_m`; the lesser of both
    ways round is their distance.
    """
    start = b_m[..., None, :, :]
    side = np.roll(b_m, -1, axis=-2)[..., None, :, :] - start
    offset = a_m[..., :, None, :] - start
    along = np.clip((offset * side).sum(axis=-1) / (side**2).sum(axis=-1), 0.0, 1.0)
    return np.linalg.norm(offset - along[..., None] * side, axis=-1).min(axis=(-2, -1))


@dataclass(frozen=True)
class Vehicle:
    """A vehicle that reaches `front_m` ahead of and `rear_m` behind its rear axle."""

    front_m: float
    rear_m: float
    width_m: float
    wheel_base_m: float

    def __post_init__(self) -> None:
        if not min(self.front_m, self.rear_m, self.width_m, self.wheel_base_m) > 0:
            raise InputError(f"a vehicle's measures must be positive; found {self}.")

    @property
    def length_m(self) -> float:
        """Length over all."""
        return self.front_m + self.rear_m

    @property
    def centre_m(self) -> float:
        """Distance of its centre ahead of its rear axle."""
        return self.length_m / 2 - self.rear_m

    def centres_m(
        self, pose: Float[np.ndarray, "*batch 3"]
    ) -> Float[np.ndarray, "*batch 2"]:
        """Centres of the vehicle for poses (x, y, heading) of its rear axle."""
        ahead = np.stack([np.cos(pose[..., 2]), np.sin(pose[..., 2])], axis=-1)
        return pose[..., :2] + self.centre_m * ahead

    def corners_m(
        self, pose: Float[np.ndarray, "*batch 3"]
    ) -> Float[np.ndarray, "*batch 4 2"]:
        """Footprints for poses of its rear axle: front left, front right, rear right,
        rear left.
        """
        flat = pose.reshape(-1, 3)
        size_m = np.broadcast_to(
            np.array([self.length_m, self.width_m]), (len(flat), 2)
        )
        corners = ground_corners_m(self.centres_m(flat), size_m, yaw_rad=flat[:, 2])
        return corners.reshape(*pose.shape[:-1], 4, 2)


ZOE = Vehicle(front_m=3.244, rear_m=0.84, width_m=1.73, wheel_base_m=2.588)
"""nuScenes' Renault Zoe."""
PACIFICA = Vehicle(front_m=4.049, rear_m=1.127, width_m=2.297, wheel_base_m=3.089)
"""nuPlan's Chrysler Pacifica."""


def vehicle_like(length_m: float, width_m: float) -> Vehicle:
    """A vehicle of this size with the Zoe's proportions of overhangs and wheel base."""
    scale = length_m / ZOE.length_m
    return Vehicle(
        ZOE.front_m * scale, ZOE.rear_m * scale, width_m, ZOE.wheel_base_m * scale
    )


def wrap_rad(angle_rad: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
    """The angle in [-pi, pi)."""
    return (angle_rad + np.pi) % (2 * np.pi) - np.pi
