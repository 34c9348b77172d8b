"""Average precision at IoU 0.5: greedy matching by score within a frame, one curve over all frames.

Equal scores form one point of the curve. Ignored objects and regions are those of `matching`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.geometry.classes import super_class
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.matching import MatchSettings, match_candidates
from deepval.world.truth import Truth

Rule = Literal["101-point", "all-point"]


class Graded(NamedTuple):
    """Scores of the detections that count, whether each is right, and how many objects there were to find."""

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]
    objects: int


class PrecisionCurve(NamedTuple):
    """Right and counted detections down to each distinct score, from the highest."""

    right: Int[np.ndarray, "point"]
    counted: Int[np.ndarray, "point"]


def greedy_matches(
    det: Int[np.ndarray, "pair"],
    obj: Int[np.ndarray, "pair"],
    *,
    overlap: Float[np.ndarray, "pair"],
    score: Float[np.ndarray, "det"],
) -> Bool[np.ndarray, "det"]:
    """Whether each detection finds an object: by falling score, each takes the free object of highest IoU.

    Among equal scores the larger overlap goes first, so that the order of detections does not matter.
    """
    found = np.zeros(len(score), dtype=bool)
    taken: set[int] = set()
    for pair in np.lexsort((-overlap, -score[det])):
        if not found[det[pair]] and int(obj[pair]) not in taken:
            found[det[pair]] = True
            taken.add(int(obj[pair]))
    return found


def graded(
    detections: Detections, truth: Truth, *, settings: MatchSettings | None = None, group: str | None = None
) -> Graded:
    """The detections of a unit that count, right or wrong; of one super-class where `group` names it."""
    if np.isnan(detections.score).any():
        raise InputError(f"unit {detections.unit}: average precision needs scores; this source has none.")
    candidates = match_candidates(detections, truth, settings=settings)
    found = greedy_matches(candidates.det, candidates.obj, overlap=candidates.overlap, score=detections.score)
    counted, wanted = found | ~candidates.excused, candidates.judged
    if group is not None:
        counted = counted & (super_class(detections.cls) == group)
        wanted = wanted & (super_class(truth.cls) == group)
    return Graded(detections.score[counted], found[counted], int(wanted.sum()))


def pooled(parts: Sequence[Graded]) -> Graded:
    """Several units' graded detections as one."""
    score = np.concatenate([np.zeros(0), *(part.score for part in parts)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(part.right for part in parts)])
    return Graded(score, right, sum(part.objects for part in parts))


def precision_curve(score: Float[np.ndarray, "det"], right: Bool[np.ndarray, "det"]) -> PrecisionCurve:
    """Counts of right and of all detections down to each distinct score."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True)) if len(score) else np.zeros(0, dtype=int)
    return PrecisionCurve(np.cumsum(right[order])[ends], ends + 1)


def area(curve: PrecisionCurve, objects: int, *, rule: Rule = "101-point") -> float:
    """Area under the curve of best precision at no less recall; NaN where there was nothing to find.

    101-point: its mean at recalls 0, 0.01, ..., 1. All-point: the exact area.
    """
    if objects == 0:
        return float("nan")
    if not len(curve.right):
        return 0.0
    best = np.maximum.accumulate((curve.right / curve.counted)[::-1])[::-1]
    if rule == "all-point":
        return float((np.diff(curve.right, prepend=0) * best).sum() / objects)
    # In whole numbers, so that recall 0.29 of 100 objects is reached by the 29th and not missed by rounding.
    place = np.searchsorted(100 * curve.right, np.arange(101) * objects, side="left")
    return float(np.append(best, 0.0)[place].mean())


def average_precision(
    detections: Sequence[Detections],
    truths: Sequence[Truth],
    *,
    rule: Rule = "101-point",
    group: str | None = None,
    settings: MatchSettings | None = None,
) -> float:
    """AP at IoU 0.5 over units, of one super-class or of all in one list; NaN with nothing to find."""
    parts = [graded(d, t, settings=settings, group=group) for d, t in zip(detections, truths, strict=True)]
    whole = pooled(parts)
    return area(precision_curve(whole.score, whole.right), whole.objects, rule=rule)
