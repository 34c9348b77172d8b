"""Raw scores -> probabilities: isotonic regression on matched outcomes of the training units."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float
from deepval.errors import InputError
from deepval.perception.reported.detections import Calibration, Detections
from deepval.perception.reported.matching import MatchSettings, matching
from deepval.world.truth import Truth


class GradedScores(NamedTuple):
    """Scores of one unit's detections that count, and whether each is right."""

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]


def graded_scores(detections: Detections, truth: Truth, *, settings: MatchSettings | None = None) -> GradedScores:
    """A detection is right if it is matched, wrong if it is a false positive; the others are left out."""
    match = matching(detections, truth, settings=settings)
    counted = (match.partner >= 0) | match.false_positive
    return GradedScores(detections.score[counted], match.partner[counted] >= 0)


def fit_calibration(units: Sequence[GradedScores], mode: str) -> Calibration:
    """The non-decreasing map from raw score to share of right detections; give the training units only."""
    score = np.concatenate([np.zeros(0), *(unit.score for unit in units)])
    right = np.concatenate([np.zeros(0), *(unit.right.astype(float) for unit in units)])
    if not len(score) or np.isnan(score).any():
        raise InputError(f"calibration needs scored detections on the training units; mode {mode} has none.")
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, right)
    return Calibration(np.asarray(fitted.X_thresholds_, float), np.asarray(fitted.y_thresholds_, float))
