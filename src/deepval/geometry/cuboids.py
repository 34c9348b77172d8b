"""Upright boxes in the ego frame -> the image boxes that a camera sees them in, and how much others cover of them."""

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.geometry.boxes import area_px2
from deepval.geometry.camera import Camera, transformed

NEAR_M = 0.1
"""What is nearer to the camera plane than this is cut off before projection."""
LEAST_HEIGHT_PX = 25.0
PARTLY, LARGELY = 0.2, 0.6
"""Shares of an image box that nearer boxes cover from which on it is partly (1) and largely (2) occluded."""
GRID = 16
EDGES = np.array(
    [(a, (a + 1) % 4) for a in range(4)] + [(a + 4, (a + 1) % 4 + 4) for a in range(4)] + [(a, a + 4) for a in range(4)]
)


def cuboid_corners_m(
    corners_m: Float[np.ndarray, "obj 4 2"], *, bottom_m: Float[np.ndarray, "obj"], height_m: Float[np.ndarray, "obj"]
) -> Float[np.ndarray, "obj 8 3"]:
    """The eight corners of upright boxes: the four on the ground in their order, then those above them."""
    below = np.concatenate([corners_m, np.broadcast_to(bottom_m[:, None, None], (len(corners_m), 4, 1))], axis=-1)
    return np.concatenate([below, below + height_m[:, None, None] * np.array([0.0, 0.0, 1.0])], axis=1)


def image_boxes_px(
    camera: Camera, cuboids_m: Float[np.ndarray, "obj 8 3"], *, least_height_px: float = LEAST_HEIGHT_PX
) -> Float[np.ndarray, "obj 4"]:
    """Smallest boxes around the boxes' corners in the image, clipped to it; NaN where less than the height is in it.

    Edges that pass the camera plane are cut in front of it, so that what lies beside the camera is not mirrored.
    """
    if camera.width_px is None or camera.height_px is None:
        raise InputError("a camera that boxes are projected into must have an image size; found none.")
    points = transformed(np.linalg.inv(camera.ego_from_cam), cuboids_m)
    begin, end = points[:, EDGES[:, 0]], points[:, EDGES[:, 1]]
    drop = end[..., 2] - begin[..., 2]
    crossing = (begin[..., 2] < NEAR_M) != (end[..., 2] < NEAR_M)
    share = np.where(crossing, (NEAR_M - begin[..., 2]) / np.where(crossing, drop, 1.0), 0.0)
    cut = begin + share[..., None] * (end - begin)
    cut[..., 2] = np.where(crossing, NEAR_M, -1.0)
    seen = np.concatenate([points, cut], axis=1)
    ahead = seen[..., 2] >= NEAR_M
    depth = np.where(ahead, seen[..., 2], 1.0)
    u = camera.fx_px * seen[..., 0] / depth + camera.cx_px
    v = camera.fy_px * seen[..., 1] / depth + camera.cy_px
    low = [np.where(ahead, part, np.inf).min(axis=1, initial=np.inf) for part in (u, v)]
    high = [np.where(ahead, part, -np.inf).max(axis=1, initial=-np.inf) for part in (u, v)]
    size = (float(camera.width_px), float(camera.height_px))
    box = np.stack([*(np.clip(a, 0, s) for a, s in zip(low, size, strict=True)),
                    *(np.clip(a, 0, s) for a, s in zip(high, size, strict=True))], axis=-1)  # fmt: skip
    kept = (box[:, 3] - box[:, 1] >= least_height_px) & (area_px2(box) > 0)
    return np.where(kept[:, None], box, np.nan)


def occlusion(
    frame: Int[np.ndarray, "obj"], box_px: Float[np.ndarray, "obj 4"], *, range_m: Float[np.ndarray, "obj"]
) -> Int[np.ndarray, "obj"]:
    """KITTI's 0 to 2 by how much of an image box the boxes of nearer objects of its frame cover together.

    0 below 20 %, 1 below 60 %, 2 from there on, counted on a grid of 16 x 16 points; 0 where there is no image box.
    An object does not fill its image box, so this says rather too much than too little.
    """
    level = np.zeros(len(frame), dtype=int)
    steps = (np.arange(GRID) + 0.5) / GRID
    for now in np.unique(frame):
        here = np.flatnonzero((frame == now) & np.isfinite(box_px[:, 0]))
        here = here[np.argsort(range_m[here], kind="stable")]
        for order, place in enumerate(here[1:], start=1):
            x1, y1, x2, y2 = box_px[place]
            x, y = x1 + steps * (x2 - x1), y1 + steps * (y2 - y1)
            front = box_px[here[:order], :, None]
            wide = (front[:, 0] <= x) & (x <= front[:, 2])
            tall = (front[:, 1] <= y) & (y <= front[:, 3])
            covered = (wide[:, None, :] & tall[:, :, None]).any(axis=0).mean()
            level[place] = int(covered >= PARTLY) + int(covered >= LARGELY)
    return level
