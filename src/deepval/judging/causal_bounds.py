"""The scores of a unit in time order -> what no policy under the cap can exceed, as acceptances in hindsight.

From one to the next, a policy knows less: the best of each unit whatever the order (`unit_quota`), the same in
random order (`random_order`), under the cap in the actual order (`capped_hindsight`), by one threshold per unit
(`unit_threshold`). With decision values as scores these are bounds on the gain; with other scores, they tell what the
same ranking gains. docs/streaming.md has the proofs.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from deepval.arrays import Float, InputFloats, InputInts, Int
from deepval.judging.policies import SLACK, CausalCap, FrozenThreshold
from deepval.judging.tie_expectations import cuts


def caps(alpha: float, inputs: int) -> Int[np.ndarray, "input"]:
    """The largest number of escalations after each input: floor(1 + alpha*t)."""
    return np.floor(1 + alpha * np.arange(1, inputs + 1) + SLACK).astype(np.int64)


def unit_quota(score: InputFloats, alpha: float, _value: InputFloats | None = None) -> InputFloats:
    """The highest scores of a unit, as many as the cap allows at its end."""
    return highest(score, min(int(caps(alpha, len(score))[-1]), len(score)))


def highest(score: InputFloats, slots: int) -> InputFloats:
    """The highest scores, as many as there are slots; ties share the last ones."""
    (cut,) = cuts(score, [slots])
    return (score > cut.score) + (slots - cut.above) / cut.tied * (score == cut.score)


def random_order(score: InputFloats, alpha: float, _value: InputFloats | None = None) -> InputFloats:
    """Acceptances that bound the expected sum of scores of every policy under the cap, if the order is random.

    p_t is the probability of escalating the t-th input; each input is as likely to be the t-th. The caps bound the
    sums of p_t, and at best p_t takes the highest scores, a concave gain. So the p_t that differ least are best: the
    slopes of the greatest convex function below the caps.
    """
    inputs = len(score)
    hull = [(0, 0.0)]
    for point in enumerate(caps(alpha, inputs).tolist(), 1):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    rank = np.empty(inputs)
    rank[np.argsort(-score, kind="stable")] = np.arange(inputs)
    accepted = np.zeros(inputs)
    for begin, end in pairwise(hull):
        taken = min(1.0, _slope(begin, end)) * inputs
        accepted += (end[0] - begin[0]) / inputs * np.clip(taken - rank, 0.0, 1.0)
    return accepted


def _slope(begin: tuple[int, float], end: tuple[int, float]) -> float:
    return (end[1] - begin[1]) / (end[0] - begin[0])


def capped_hindsight(score: InputFloats, alpha: float, _value: InputFloats | None = None) -> InputFloats:
    """The inputs with the largest sum of scores under the cap in the actual order.

    The caps of all beginnings are a laminar matroid, so taking the highest score that still fits is optimal.
    """
    left, accepted = caps(alpha, len(score)), np.zeros(len(score))
    for row in np.argsort(-score, kind="stable").tolist():
        if left[row:].min() > 0:
            left[row:] -= 1
            accepted[row] = 1.0
    return accepted


def unit_threshold(score: InputFloats, alpha: float, value: InputFloats) -> InputFloats:
    """The causal cap over the threshold that gains most in this unit."""
    first = np.zeros(len(score), dtype=np.int64)
    tried = [CausalCap(FrozenThreshold(theta, 1.0), alpha).decide_sorted(score, first) for theta in np.unique(score)]
    return max(tried, key=lambda escalated: float(value @ escalated)).astype(np.float64)


def by_unit(
    unit: InputInts, order: InputInts, accept: Callable[[Int[np.ndarray, "row"]], Float[np.ndarray, "row"]]
) -> InputFloats:
    """The acceptances of all units, each from its rows in time order."""
    accepted = np.zeros(len(unit))
    for number in np.unique(unit).tolist():
        rows = np.flatnonzero(unit == number)
        rows = rows[np.argsort(order[rows], kind="stable")]
        accepted[rows] = accept(rows)
    return accepted


BOUNDS = {
    "quota per unit": unit_quota,
    "cap, random order": random_order,
    "cap, hindsight": capped_hindsight,
    "cap, best threshold": unit_threshold,
}
"""What the same scores gain if a policy under the cap knew more than it can, by name."""
