"""Cuboids in the ego frame and a camera -> image boxes, and how much of each nearer ones cover."""

import numpy as np

from deepval.arrays import Float, Int
from deepval.geometry.boxes import frame_pairs
from deepval.geometry.camera import Camera, transformed

LEAST_HEIGHT_PX = 25.0
"""What is lower after clipping is not in the image."""
HIDDEN = (0.1, 0.5)
"""Shares covered by nearer objects from which on an object counts as partly (1) and largely occluded (2)."""


def cuboid_corners_m(
    ground_m: Float[np.ndarray, "obj 4 2"], low_m: Float[np.ndarray, "obj"], high_m: Float[np.ndarray, "obj"]
) -> Float[np.ndarray, "obj 8 3"]:
    """The eight corners of upright cuboids over ground corners, between two heights."""
    low, high = (np.broadcast_to(z[:, None, None], (len(z), 4, 1)) for z in (low_m, high_m))
    return np.concatenate([np.concatenate([ground_m, z], axis=-1) for z in (low, high)], axis=1)


def image_boxes_px(
    corners_m: Float[np.ndarray, "obj 8 3"], camera: Camera, *, least_height_px: float = LEAST_HEIGHT_PX
) -> Float[np.ndarray, "obj 4"]:
    """Bounding boxes of the corners in front of the camera, clipped to the image; NaN for what is not in it."""
    if camera.width_px is None or camera.height_px is None:
        raise ValueError("a camera without image size cannot say what is in the image")
    point = transformed(np.linalg.inv(camera.ego_from_cam), corners_m)
    front = point[..., 2] > 0
    depth = np.where(front, point[..., 2], 1.0)
    u = camera.fx_px * point[..., 0] / depth + camera.cx_px
    v = camera.fy_px * point[..., 1] / depth + camera.cy_px
    box = np.stack([np.where(front, u, np.inf).min(axis=1), np.where(front, v, np.inf).min(axis=1)], axis=-1)
    far = np.stack([np.where(front, u, -np.inf).max(axis=1), np.where(front, v, -np.inf).max(axis=1)], axis=-1)
    size = np.array([camera.width_px, camera.height_px], float)
    clipped = np.concatenate([np.clip(box, 0.0, size), np.clip(far, 0.0, size)], axis=1)
    wide, tall = clipped[:, 2] - clipped[:, 0], clipped[:, 3] - clipped[:, 1]
    return np.where(((wide > 0) & (tall >= least_height_px))[:, None], clipped, np.nan)


def estimated_occlusion(
    frame: Int[np.ndarray, "obj"], box_px: Float[np.ndarray, "obj 4"], range_m: Float[np.ndarray, "obj"]
) -> Int[np.ndarray, "obj"]:
    """0 (visible), 1 (partly) or 2 (largely occluded), by the largest share of the box that one nearer box covers."""
    pairs = frame_pairs(frame, frame)
    one, other = box_px[pairs.first], box_px[pairs.second]
    low, high = np.maximum(one[:, :2], other[:, :2]), np.minimum(one[:, 2:], other[:, 2:])
    shared = np.prod(np.maximum(high - low, 0.0), axis=1)
    share = shared / np.prod(one[:, 2:] - one[:, :2], axis=1)
    nearer = range_m[pairs.second] < range_m[pairs.first]
    covered = np.zeros(len(frame))
    np.maximum.at(covered, pairs.first, np.where(nearer & ~np.isnan(share), share, 0.0))
    return np.searchsorted(HIDDEN, covered, side="right").astype(int)
