"""Persistence filter: a detection passes only if the same mode saw it in each of the frames just before."""

import numpy as np

from deepval.arrays import Bool
from deepval.geometry.boxes import frame_pairs, iou
from deepval.perception.reported.detections import Detections

FRAMES = 2
"""Frames before, in each of which a detection must have been seen: what the filter adds in latency."""


def persistent(detections: Detections, *, frames: int = FRAMES, least_iou: float = 0.3) -> Bool[np.ndarray, "det"]:
    """Whether each of the `frames` frames before has a box of the class with enough IoU to this one.

    The first `frames` frames of a unit pass nothing, nor do frames just after one that was not run.
    """
    passed = np.ones(len(detections), dtype=bool)
    code = detections.class_code
    for lag in range(1, frames + 1):
        pairs = frame_pairs(detections.frame, detections.frame, lag=lag)
        overlap = iou(detections.box_px[pairs.first], detections.box_px[pairs.second])
        seen = (overlap >= least_iou) & (code[pairs.first] == code[pairs.second])
        found = np.zeros(len(detections), dtype=bool)
        found[pairs.first[seen]] = True
        passed &= found
    return passed
