"""Image boxes (x1, y1, x2, y2 in pixels): overlap, index pairs of boxes that share a
frame, and their growth.
"""

from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int


class Pairs(NamedTuple):
    """Index pairs: `first[k]` of one list goes with `second[k]` of the other."""

    first: Int[np.ndarray, "pair"]
    second: Int[np.ndarray, "pair"]


def area_px2(box_px: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch"]:
    """Area in square pixels, 0 for a box whose edges are swapped."""
    width = np.maximum(box_px[..., 2] - box_px[..., 0], 0.0)
    return width * np.maximum(box_px[..., 3] - box_px[..., 1], 0.0)


def intersection_px2(
    a_px: Float[np.ndarray, "*a 4"], b_px: Float[np.ndarray, "*b 4"]
) -> np.ndarray:
    """Area in square pixels that two boxes share; leading axes broadcast."""
    width = np.minimum(a_px[..., 2], b_px[..., 2]) - np.maximum(
        a_px[..., 0], b_px[..., 0]
    )
    height = np.minimum(a_px[..., 3], b_px[..., 3]) - np.maximum(
        a_px[..., 1], b_px[..., 1]
    )
    return np.maximum(width, 0.0) * np.maximum(height, 0.0)


def iou(a_px: Float[np.ndarray, "*a 4"], b_px: Float[np.ndarray, "*b 4"]) -> np.ndarray:
    """Intersection over union of two boxes, 0 where both are empty; leading axes
    broadcast.
    """
    shared = intersection_px2(a_px, b_px)
    union = area_px2(a_px) + area_px2(b_px) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def covered_share(
    a_px: Float[np.ndarray, "*a 4"], b_px: Float[np.ndarray, "*b 4"]
) -> np.ndarray:
    """Intersection over the first box's own area, 0 where that is empty; leading axes
    broadcast.
    """
    shared = intersection_px2(a_px, b_px)
    own = np.broadcast_to(area_px2(a_px), shared.shape)
    return np.divide(shared, own, out=np.zeros_like(shared), where=own > 0)


def frame_pairs(
    first_frame: Int[np.ndarray, "a"],
    second_frame: Int[np.ndarray, "b"],
    *,
    lag: int = 0,
) -> Pairs:
    """All pairs in which the second box lies `lag` frames before the first;
    `second_frame` is sorted.
    """
    begin = np.searchsorted(second_frame, first_frame - lag, side="left")
    count = np.searchsorted(second_frame, first_frame - lag, side="right") - begin
    first = np.repeat(np.arange(len(first_frame)), count)
    within = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return Pairs(first, np.repeat(begin, count) + within)


class Best(NamedTuple):
    """For each first box, the second box with the highest overlap: its index (-1: none)
    and the overlap.
    """

    place: Int[np.ndarray, "a"]
    overlap: Float[np.ndarray, "a"]


def best_partner(pairs: Pairs, overlap: Float[np.ndarray, "pair"], count: int) -> Best:
    """The partner of highest overlap of each of `count` first boxes; among equal
    overlaps, the first partner.
    """
    index = np.full(count, -1)
    best = np.zeros(count)
    order = np.lexsort((pairs.second, -overlap, pairs.first))
    # Sorted by box, then by falling overlap, then by partner: the first row of a box is
    # its best partner.
    first, start = np.unique(pairs.first[order], return_index=True)
    index[first] = pairs.second[order][start]
    best[first] = overlap[order][start]
    return Best(index, best)


def proper(box_px: Float[np.ndarray, "det 4"]) -> Bool[np.ndarray, "det"]:
    """Whether a box has a positive width and height; missing boxes (NaN) pass."""
    return ~((box_px[:, 2] <= box_px[:, 0]) | (box_px[:, 3] <= box_px[:, 1]))


def expansion_per_s(
    frame: Int[np.ndarray, "det"],
    box_px: Float[np.ndarray, "det 4"],
    *,
    class_code: Int[np.ndarray, "det"],
    dt_s: Float[np.ndarray, "time"],
    least_iou: float = 0.3,
) -> Float[np.ndarray, "det"]:
    """Growth rate of a box's height since the frame before (same class, best IoU); 0
    where no box matches.

    `dt_s[t]` is the time from frame t-1 to frame t. Time to collision is 1/rate where
    the rate is positive.
    """
    pairs = frame_pairs(frame, frame, lag=1)
    overlap = iou(box_px[pairs.first], box_px[pairs.second])
    overlap[class_code[pairs.first] != class_code[pairs.second]] = 0.0
    best = best_partner(pairs, overlap, len(frame))
    matched = (best.place >= 0) & (best.overlap >= least_iou)
    height_px = box_px[:, 3] - box_px[:, 1]
    before_px = (
        np.where(matched, height_px[best.place], 1.0) if len(frame) else height_px
    )
    elapsed_s = np.where(matched, dt_s[frame], 1.0)
    return np.where(matched, (height_px / before_px - 1.0) / elapsed_s, 0.0)
