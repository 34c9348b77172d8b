"""Boxes of a unit -> which box continues which, and which objects are missing that were seen a moment ago.

A box continues the box of the frame before with the highest IoU of its class, if that is at least 0.3. An object is
missing from the first frame in which no box overlaps its last box by that much, until one does or the window has
passed.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.geometry.boxes import best_partner, frame_pairs, iou

WINDOW = 8
"""Frames that are remembered, the current one included."""
LEAST_IOU = 0.3


class Links(NamedTuple):
    """What continues what.

    Attributes:
        partner: Place of the box of the frame before that each box continues, -1 where there is none.
        age: Frames in a row in which the object has been seen, at most the window.
        lost: Places of the objects missing in each frame, sorted by frame.
        lost_frame: The frame in which each of them is missing.
        missing: For how many frames it has not been seen.
    """

    partner: Int[np.ndarray, "obj"]
    age: Int[np.ndarray, "obj"]
    lost: Int[np.ndarray, "lost"]
    lost_frame: Int[np.ndarray, "lost"]
    missing: Int[np.ndarray, "lost"]


def links(
    frame: Int[np.ndarray, "obj"],
    box_px: Float[np.ndarray, "obj 4"],
    *,
    code: Int[np.ndarray, "obj"],
    frames: int,
) -> Links:
    """Links of the boxes of a unit of `frames` frames, sorted by frame."""
    partner = np.full(len(frame), -1)
    absent = np.ones(len(frame), dtype=bool)
    places, lags = [], []
    for lag in range(1, WINDOW):
        pairs = frame_pairs(frame, frame, lag=lag)
        overlap = iou(box_px[pairs.first], box_px[pairs.second])
        absent[pairs.second[overlap >= LEAST_IOU]] = False
        place = np.flatnonzero(absent & (frame + lag < frames))
        places.append(place)
        lags.append(np.full(len(place), lag))
        if lag == 1:
            overlap[code[pairs.first] != code[pairs.second]] = 0.0
            best = best_partner(pairs, overlap, len(frame))
            partner = np.where(best.overlap >= LEAST_IOU, best.place, -1)
    lost, missing = np.concatenate(places), np.concatenate(lags)
    order = np.argsort(frame[lost] + missing, kind="stable")
    lost, missing = lost[order], missing[order]
    return Links(partner, _age(partner), lost, frame[lost] + missing, missing)


def _age(partner: Int[np.ndarray, "obj"]) -> Int[np.ndarray, "obj"]:
    """Length of the chain of partners that ends in each box, at most the window."""
    age = np.ones(len(partner), dtype=np.intp)
    for _ in range(WINDOW - 1):
        age = np.where(partner >= 0, np.minimum(age[partner] + 1, WINDOW), 1)
    return age
