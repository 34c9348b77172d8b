"""Motion along the road: closing speeds, time to collision and the deceleration that an object requires."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Int
from deepval.geometry.boxes import best_partner, frame_pairs, iou


@dataclass(frozen=True)
class BrakingSettings:
    """Which objects count, and the distance to keep: docs/definitions.md, Braking controller."""

    corridor_m: float = 1.2
    farthest_m: float = 80.0
    standoff_m: float = 2.0
    reaction_s: float = 0.4
    limit_mps2: float = 9.0


def stopping_deceleration_mps2(
    range_m: Float[np.ndarray, "*batch"], speed_mps: Float[np.ndarray, "*batch"], *, settings: BrakingSettings
) -> Float[np.ndarray, "*batch"]:
    """s² / 2d with d = range - standoff - reaction s; the limit where d <= 0; 0 where s <= 0."""
    room_m = range_m - settings.standoff_m - settings.reaction_s * speed_mps
    safe_m = np.where(room_m > 0, room_m, 1.0)
    # Division by a tiny room may overflow to infinity; the minimum below then gives the limit, as it should.
    with np.errstate(over="ignore"):
        needed = np.where(room_m > 0, speed_mps**2 / (2 * safe_m), settings.limit_mps2)
    return np.where(speed_mps > 0, np.minimum(needed, settings.limit_mps2), 0.0)


def expansion_per_s(
    frame: Int[np.ndarray, "det"],
    box_px: Float[np.ndarray, "det 4"],
    *,
    class_code: Int[np.ndarray, "det"],
    dt_s: Float[np.ndarray, "time"],
    least_iou: float = 0.3,
) -> Float[np.ndarray, "det"]:
    """Growth rate of a box's height since the frame before (same class, best IoU); 0 where no box matches.

    `dt_s[t]` is the time from frame t-1 to frame t. Time to collision is 1/rate where the rate is positive.
    """
    pairs = frame_pairs(frame, frame, lag=1)
    overlap = iou(box_px[pairs.first], box_px[pairs.second])
    overlap[class_code[pairs.first] != class_code[pairs.second]] = 0.0
    best = best_partner(pairs, overlap, len(frame))
    matched = (best.place >= 0) & (best.overlap >= least_iou)
    height_px = box_px[:, 3] - box_px[:, 1]
    before_px = np.where(matched, height_px[best.place], 1.0) if len(frame) else height_px
    elapsed_s = np.where(matched, dt_s[frame], 1.0)
    return np.where(matched, (height_px / before_px - 1.0) / elapsed_s, 0.0)


def track_closing_mps(
    frame: Int[np.ndarray, "obj"],
    track: Int[np.ndarray, "obj"],
    *,
    range_m: Float[np.ndarray, "obj"],
    dt_s: Float[np.ndarray, "time"],
) -> Float[np.ndarray, "obj"]:
    """(range one frame earlier - range) / dt of the same track; 0 where the frame before lacks the track."""
    if not len(frame):
        return np.zeros(0)
    span = int(frame.max()) + 2
    key = (track - track.min()).astype(np.int64) * span + frame
    order = np.argsort(key, kind="stable")
    # Every track spans one key more than it has frames, so the key before its frame 0 belongs to no object.
    position = np.minimum(np.searchsorted(key[order], key - 1), len(key) - 1)
    before = order[position]
    tracked = key[before] == key - 1
    elapsed_s = np.where(tracked, dt_s[frame], 1.0)
    return np.where(tracked, (range_m[before] - range_m) / elapsed_s, 0.0)


def time_to_collision_s(
    range_m: Float[np.ndarray, "*batch"], closing_mps: Float[np.ndarray, "*batch"], *, longest_s: float = 10.0
) -> Float[np.ndarray, "*batch"]:
    """max(range, 0) / closing speed, at most `longest_s`, which is also the value where nothing closes in."""
    closing = closing_mps > 0
    with np.errstate(over="ignore"):
        time_s = np.maximum(range_m, 0.0) / np.where(closing, closing_mps, 1.0)
    return np.where(closing, np.minimum(time_s, longest_s), longest_s)
