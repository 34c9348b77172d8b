"""Raw scores -> probabilities: isotonic regression on matched outcomes of the training units."""

from collections.abc import Sequence

import numpy as np

from deepval.errors import InputError
from deepval.perception.detections import Calibration, DetectionSet
from deepval.perception.matching import MatchSettings, matching
from deepval.truth import Truth


def fit_calibration(
    detections: DetectionSet, truths: Sequence[Truth], *, settings: MatchSettings | None = None
) -> Calibration:
    """The non-decreasing map from raw score to share of right detections on the units of `truths`.

    A detection is right if it is matched, wrong if it is a false positive; those that count neither way are
    left out. Give the training units only.
    """
    scores, right = [np.zeros(0)], [np.zeros(0)]
    for truth in truths:
        found = detections[truth.unit]
        match = matching(found, truth, settings=settings)
        counted = (match.partner >= 0) | match.false_positive
        scores.append(found.score[counted])
        right.append((match.partner[counted] >= 0).astype(float))
    score, outcome = np.concatenate(scores), np.concatenate(right)
    if not len(score) or np.isnan(score).any():
        raise InputError(f"calibration needs scored detections on the training units; mode {detections.mode} has none.")
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, outcome)
    return Calibration(np.asarray(fitted.X_thresholds_, float), np.asarray(fitted.y_thresholds_, float))
