"""Scores and a number of slots -> the exact chance of each input to be selected, ties broken at random.

A ranking selects its k highest scores. Scores are tied iff they are equal as float64 (-0.0 equals 0.0). Groups
strictly above the cut count in full; the group at the cut counts with weight (slots left)/(group size), which is
the mean over all ways to break the tie. This is for one sample; the kernel says it for thousands of resamples.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int

SORT_UP_TO = 400_000
"""Above this many inputs the cut is first narrowed down by a sample, so that few rows need to be sorted."""
SAMPLE = 1 << 16
"""Inputs in that sample."""


def nth_highest(score: Float[np.ndarray, "input"], n: int) -> float:
    """The n-th highest score, n from 1 to N; of many scores only those near it in a sample are sorted."""
    if len(score) > SORT_UP_TO:
        sample = np.sort(score[:: math.ceil(len(score) / SAMPLE)])
        near = len(sample) * (1 - n / len(score)) + 2 * math.sqrt(len(sample)) * np.array([-1, 1])
        low, high = sample[np.clip(near, 0, len(sample) - 1).astype(int)]
        above = np.count_nonzero(score > high)
        if above < n <= np.count_nonzero(score >= low):
            return float(np.sort(score[(score >= low) & (score <= high)])[above - n] if low < high else low)
    return float(np.partition(score, len(score) - n)[len(score) - n])


class TiedCut(NamedTuple):
    """A score at which a selection is cut, and how many scores are above it and equal to it."""

    score: float
    above: int
    tied: int


def cuts(
    score: Float[np.ndarray, "input"], ranks: Sequence[int], order: Int[np.ndarray, "input"] | None = None
) -> list[TiedCut]:
    """The n-th highest scores for several n from 1 to N, from the order of all where that is known."""
    if order is None:
        found = [nth_highest(score, n) for n in ranks]
        return [TiedCut(cut, int(np.count_nonzero(score > cut)), int(np.count_nonzero(score == cut))) for cut in found]
    rising = -score.take(order)
    at = rising[np.array(ranks, dtype=np.int64) - 1]
    above, upto = (np.searchsorted(rising, at, side=side) for side in ("left", "right"))
    return [TiedCut(*cut) for cut in zip((-at).tolist(), above.tolist(), (upto - above).tolist(), strict=True)]


def inclusion(
    score: Float[np.ndarray, "input"], slots: int, order: Int[np.ndarray, "input"] | None = None
) -> Float[np.ndarray, "input"]:
    """Probability that each input is among the `slots` highest scores, ties broken at random."""
    if slots <= 0:
        return np.zeros(len(score))
    if slots >= len(score):
        return np.ones(len(score))
    (cut,) = cuts(score, [slots], order)
    return (score > cut.score) + (score == cut.score) * ((slots - cut.above) / cut.tied)


def cumulative_gain(score: Float[np.ndarray, "input"], value: Float[np.ndarray, "input"]) -> Float[np.ndarray, "slots"]:
    """Expected sum of `value` over the k highest scores for every k = 0, 1, ..., N."""
    order = np.argsort(-score, kind="stable")
    start, end = _tie_groups(score[order])
    total = np.concatenate([[0.0], np.cumsum(value[order])])
    slots = np.arange(1, len(score) + 1)
    inside = (slots - start) / (end - start)
    return np.concatenate([[0.0], total[start] + inside * (total[end] - total[start])])


def _tie_groups(
    ordered: Float[np.ndarray, "input"],
) -> tuple[Int[np.ndarray, "input"], Int[np.ndarray, "input"]]:
    """First row and one past the last row of each row's tie group, in sorted scores."""
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    size = np.diff(np.append(first, len(ordered)))
    return np.repeat(first, size), np.repeat(first + size, size)
