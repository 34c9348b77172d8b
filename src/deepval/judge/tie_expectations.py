"""Scores and a number of slots -> the exact probability that each input is selected,
ties broken at random.

A ranking selects its k highest scores. Scores are tied iff they are equal as float64
(-0.0 equals 0.0). Groups strictly above the cut count in full; the group at the cut
counts with weight (slots left)/(group size), which is the mean over all ways to break
the tie. This module covers one sample; `kernel` covers thousands of resamples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, InputFloats, InputInts, InputNumbers, Int
from deepval.basics.errors import InputError

SORT_UP_TO = 400_000
"""Above this many inputs a sample first narrows down the cut, so that few rows need to
be sorted.
"""
SAMPLE = 1 << 16
"""Inputs in that sample."""
PIECE = 1 << 15
"""Scores to compare at a time."""


class TiedCut(NamedTuple):
    """A score at which a selection is cut, and how many scores are above it and equal
    to it.
    """

    score: float
    above: int
    tied: int

    def share(self, slots: int) -> float:
        """The chance of each score at the cut: slots left / size of their group."""
        return (slots - self.above) / self.tied

    def chances(self, score: InputFloats, slots: int) -> InputFloats:
        """The probability that each score is selected."""
        return (score > self.score) + (score == self.score) * self.share(slots)


def nth_highest(score: InputFloats, n: int) -> float:
    """The n-th highest score, n from 1 to N."""
    return cuts(score, [n])[0].score


def cuts(
    score: InputFloats, ranks: Sequence[int], order: InputInts | None = None
) -> list[TiedCut]:
    """The n-th highest scores for several n from 1 to N; `order` sorts all scores from
    the highest down, if passed.
    """
    if order is None:
        if len(score) <= SORT_UP_TO:
            return [_partitioned(score, n) for n in ranks]
        windows = _windows(score, ranks)
        # The sample may miss a cut; then all scores are partitioned, so the result is
        # exact either way.
        return [
            window.cut(n) or _partitioned(score, n)
            for window, n in zip(windows, ranks, strict=True)
        ]
    rising = -score.take(order)
    at = rising[np.array(ranks, dtype=np.int64) - 1]
    above, upto = (np.searchsorted(rising, at, side=side) for side in ("left", "right"))
    return [
        TiedCut(*cut)
        for cut in zip(
            (-at).tolist(), above.tolist(), (upto - above).tolist(), strict=True
        )
    ]


def _partitioned(score: InputFloats, n: int) -> TiedCut:
    """The n-th highest of all scores."""
    cut = float(np.partition(score, len(score) - n)[len(score) - n])
    return TiedCut(
        cut, int(np.count_nonzero(score > cut)), int(np.count_nonzero(score == cut))
    )


@dataclass
class _Window:
    """The scores between two bounds, both included, and the number of scores above
    them.
    """

    low: float
    high: float
    above: int = 0
    parts: list[Float[np.ndarray, "part"]] = field(default_factory=list)

    def cut(self, n: int) -> TiedCut | None:
        """The n-th highest of all scores, None where it lies outside."""
        inside = np.concatenate(self.parts)
        if not self.above < n <= self.above + len(inside):
            return None
        if self.low == self.high:  # one large tie group: nothing to sort
            return TiedCut(self.low, self.above, len(inside))
        cut = float(np.sort(inside)[self.above - n])
        return TiedCut(
            cut,
            self.above + int(np.count_nonzero(inside > cut)),
            int(np.count_nonzero(inside == cut)),
        )


def _windows(score: InputFloats, ranks: Sequence[int]) -> list[_Window]:
    """For each rank, the few scores near its estimate from a sample; in pieces that fit
    the cache.
    """
    sample = np.sort(score[:: math.ceil(len(score) / SAMPLE)])
    # A rank in a random sample of n has a standard deviation of at most sqrt(n) / 2, so
    # this margin is four of them.
    margin = 2 * math.sqrt(len(sample)) * np.array([-1, 1])
    windows = []
    for n in ranks:
        near = len(sample) * (1 - n / len(score)) + margin
        windows.append(
            _Window(*sample[np.clip(near, 0, len(sample) - 1).astype(int)].tolist())
        )
    for first in range(0, len(score), PIECE):
        part = score[first : first + PIECE]
        for window in windows:
            reached = part >= window.low
            above = part > window.high
            window.above += int(np.count_nonzero(above))
            # above implies reached, so xor is "between the bounds"
            window.parts.append(part[reached ^ above])
    return windows


def inclusion(score: InputFloats, slots: int) -> InputFloats:
    """Probability that each input is among the `slots` highest scores, ties broken at
    random.
    """
    if slots <= 0:
        return np.zeros(len(score))
    if slots >= len(score):
        return np.ones(len(score))
    (cut,) = cuts(score, [slots])
    return cut.chances(score, slots)


def cumulative_gain(
    score: InputFloats, value: InputFloats
) -> Float[np.ndarray, "slots"]:
    """Expected sum of `value` over the k highest scores for every k = 0, 1, ..., N."""
    order = np.argsort(-score, kind="stable")
    start, end = _tie_groups(score[order])
    total = np.concatenate([[0.0], np.cumsum(value[order])])
    slots = np.arange(1, len(score) + 1)
    inside = (slots - start) / (end - start)
    return np.concatenate([[0.0], total[start] + inside * (total[end] - total[start])])


def _tie_groups(ordered: InputFloats) -> tuple[InputInts, InputInts]:
    """First row and one past the last row of each row's tie group, in sorted scores."""
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    size = np.diff(np.append(first, len(ordered)))
    return np.repeat(first, size), np.repeat(first + size, size)


@dataclass(frozen=True)
class TieAudit:
    """Who makes up the top k: inputs above the cut, inputs tied at the cut, and the
    slots left for the tied ones.
    """

    k: int
    above: int
    tied: int
    slots: int

    @classmethod
    def of(cls, cut: TiedCut, k: int) -> "TieAudit":
        """The audit of the k highest scores, which are cut there."""
        return cls(k=k, above=cut.above, tied=cut.tied, slots=k - cut.above)

    @property
    def share(self) -> float:
        """Share of the selection decided by ties: slots/k, 0 if the tied group fits
        exactly, NaN if k = 0.
        """
        if self.k == 0:
            return math.nan
        return 0.0 if self.slots == self.tied else self.slots / self.k


def tie_audit(score: InputNumbers, k: int) -> TieAudit:
    """How much of the top k of a score is decided by ties at its cut, the k-th largest
    score.
    """
    s = np.asarray(score, dtype=np.float64)
    if s.ndim != 1 or np.isnan(s).any():
        raise InputError(
            "Scores must be one number per input and not NaN; found "
            f"an array of shape {s.shape}."
        )
    if not 0 <= k <= s.size:
        raise InputError(
            f"k must lie between 0 and the number of inputs, {s.size}, got "
            f"{k}: lower the budget."
        )
    if k == 0:
        return TieAudit(k=0, above=0, tied=0, slots=0)
    return TieAudit.of(cuts(s, [k])[0], k)


def centred_ranks(x: InputFloats) -> InputFloats:
    """Ranks minus their mean; equal values share the mean of their ranks."""
    order = np.argsort(x)
    ascending = x[order]
    starts = run_starts(ascending[1:] != ascending[:-1])
    ranks = np.empty(x.size)
    ranks[order] = np.repeat((starts[:-1] + starts[1:] - x.size) / 2, np.diff(starts))
    return ranks


def run_starts(changes: Bool[np.ndarray, " step"]) -> Int[np.ndarray, " run"]:
    """Where runs of equal neighbours start, then the length; `changes` marks where
    neighbours differ.
    """
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [changes.size + 1]])
