"""Rectangles of any heading by their four corners -> the clearance between them: distance, or minus the penetration."""

import numpy as np

from deepval.arrays import Float


def clearance_m(a_m: Float[np.ndarray, "*a 4 2"], b_m: Float[np.ndarray, "*b 4 2"]) -> np.ndarray:
    """Distance of two rectangles, or minus the smallest shift that parts them where they overlap; 0 where they touch.

    Corners are in order around, either way; leading axes broadcast.
    """
    gap_m = _axis_gap_m(a_m, b_m)
    apart_m = np.minimum(_corner_distance_m(a_m, b_m), _corner_distance_m(b_m, a_m))
    return np.where(gap_m > 0, apart_m, gap_m)


def _axis_gap_m(a_m: np.ndarray, b_m: np.ndarray) -> np.ndarray:
    """The widest gap between the shadows on any of the four axes of the sides; not positive where they overlap.

    Rectangles overlap iff no such axis parts them, and are then parted with the least shift along one of them.
    """
    gaps = []
    for sides in (a_m, b_m):
        for first in (0, 1):
            axis = sides[..., first + 1, :] - sides[..., first, :]
            axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
            a = (a_m * axis[..., None, :]).sum(axis=-1)
            b = (b_m * axis[..., None, :]).sum(axis=-1)
            gaps.append(np.maximum(a.min(axis=-1) - b.max(axis=-1), b.min(axis=-1) - a.max(axis=-1)))
    return np.maximum.reduce(gaps)


def _corner_distance_m(a_m: np.ndarray, b_m: np.ndarray) -> np.ndarray:
    """The least distance of a corner of one from a side of the other: that of the two where they are apart."""
    start = b_m[..., None, :, :]
    side = np.roll(b_m, -1, axis=-2)[..., None, :, :] - start
    offset = a_m[..., :, None, :] - start
    along = np.clip((offset * side).sum(axis=-1) / (side**2).sum(axis=-1), 0.0, 1.0)
    return np.linalg.norm(offset - along[..., None] * side, axis=-1).min(axis=(-2, -1))
