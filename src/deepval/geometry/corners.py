"""Ground footprints of boxed objects, and the extents that the decision rules read from them."""

import numpy as np

from deepval.arrays import Float

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])


def ground_corners_m(
    centre_m: Float[np.ndarray, "obj 2"],
    size_m: Float[np.ndarray, "obj 2"],
    *,
    yaw_rad: Float[np.ndarray, "obj"],
) -> Float[np.ndarray, "obj 4 2"]:
    """The four corners, in order around, of rectangles: centre, (length, width), yaw from x to y."""
    offset = SIGNS * size_m[:, None, :] / 2
    cos, sin = np.cos(yaw_rad)[:, None], np.sin(yaw_rad)[:, None]
    x = offset[..., 0] * cos - offset[..., 1] * sin
    y = offset[..., 0] * sin + offset[..., 1] * cos
    return np.stack([x, y], axis=-1) + centre_m[:, None, :]


def extent_m(corners_m: Float[np.ndarray, "obj 4 2"], axis: int) -> Float[np.ndarray, "obj 2"]:
    """Smallest and largest coordinate of the corners along one axis (0: forward, 1: left)."""
    return np.stack([corners_m[..., axis].min(axis=-1), corners_m[..., axis].max(axis=-1)], axis=-1)


def rectangles_m(
    near_m: Float[np.ndarray, "obj"], far_m: Float[np.ndarray, "obj"], *, lateral_m: Float[np.ndarray, "obj 2"]
) -> Float[np.ndarray, "obj 4 2"]:
    """The four corners, in order around, of rectangles along the axes: forward extent, lateral extent."""
    right_m, left_m = lateral_m[:, 0], lateral_m[:, 1]
    x = np.stack([far_m, far_m, near_m, near_m], axis=-1)
    y = np.stack([left_m, right_m, right_m, left_m], axis=-1)
    return np.stack([x, y], axis=-1)
