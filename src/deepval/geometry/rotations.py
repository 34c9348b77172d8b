"""Quaternions (w, x, y, z) and translations -> transforms, headings."""

import numpy as np

from deepval.arrays import Float


def rotations(quaternion: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 3 3"]:
    """Rotation matrices of quaternions of any length but 0."""
    w, x, y, z = np.moveaxis(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def transforms(
    quaternion: Float[np.ndarray, "*batch 4"], translation_m: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, "*batch 4 4"]:
    """Transforms that turn and then move."""
    result = np.zeros((*quaternion.shape[:-1], 4, 4))
    result[..., :3, :3] = rotations(quaternion)
    result[..., :3, 3] = translation_m
    result[..., 3, 3] = 1.0
    return result


def ground_poses(pose: Float[np.ndarray, "*batch 4 4"]) -> Float[np.ndarray, "*batch 3"]:
    """Place and heading (x, y, heading) of poses in space."""
    return np.concatenate([pose[..., :2, 3], headings_rad(pose)[..., None]], axis=-1)


def headings_rad(turn: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch"]:
    """Where the x axis of rotations or transforms points, counter-clockwise from x."""
    return np.asarray(np.arctan2(turn[..., 1, 0], turn[..., 0, 0]))
