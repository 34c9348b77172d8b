"""Samples of many allocators draw by draw -> how many others each resolvedly beats, and
how many beat it.

A pair is resolved iff the 95 % interval of its paired difference excludes 0. The
interval's lower bound lies between two order statistics of the differences, so counting
the draws in which one side is not ahead decides nearly every pair; the differences are
sorted only where the count falls between the two. For most pairs, few draws need to be
counted: the worst and the best draws of one side.
"""

import math

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.judge.draws import Draws
from deepval.judge.intervals import ROUNDING, TAILS, percentiles
from deepval.judge.kernel import WALK_ELEMENTS

WORST, BEST = 8, 2
"""Numbers of worst and best draws that are counted first, as multiples of the count
that decides a pair.
"""
AT_ONCE = 128
"""Pairs whose draws are compared in one step; few enough for the processor cache."""
FEW = 40
"""Up to this many allocators, the interval of every pair is computed."""
Counts = Int[np.ndarray, "allocator"]
DrawRanks = Shaped[np.ndarray, "allocator draw"]


def resolved(
    samples: Float[np.ndarray, "allocator draw"], draws: Draws
) -> tuple[Counts, Counts]:
    """How many others are resolvedly better than each allocator, and how many it
    resolvedly beats.
    """
    if draws.weights is None:
        # such a draw is undefined for every pair
        samples = samples[:, ~np.isnan(samples).all(axis=0)]
    if not samples.shape[1]:
        return np.zeros(len(samples), dtype=np.int64), np.zeros(
            len(samples), dtype=np.int64
        )
    ranks = (
        None
        if draws.weights is not None or len(samples) <= FEW
        else _draw_ranks(samples)
    )
    if ranks is None:
        return _pair_by_pair(samples, draws)
    return _by_counting(samples, ranks, draws)


def _pair_by_pair(
    samples: Float[np.ndarray, "allocator draw"], draws: Draws
) -> tuple[Counts, Counts]:
    """Counts over all pairs, each by the interval of its difference."""
    return _by_intervals(
        np.column_stack(np.triu_indices(len(samples), k=1)), samples, draws
    )


def _by_intervals(
    pairs: Int[np.ndarray, "pair 2"],
    samples: Float[np.ndarray, "allocator draw"],
    draws: Draws,
) -> tuple[Counts, Counts]:
    """Counts over the listed pairs, each by the interval of its difference."""
    better, beaten = (
        np.zeros(len(samples), dtype=np.int64),
        np.zeros(len(samples), dtype=np.int64),
    )
    for begin in range(0, len(pairs), AT_ONCE):
        one, other = pairs[begin : begin + AT_ONCE].T
        difference = samples[one] - samples[other]
        low, high = percentiles(difference, draws).T
        won, lost = low > ROUNDING, high < -ROUNDING
        np.add.at(better, np.concatenate([other[won], one[lost]]), 1)
        np.add.at(beaten, np.concatenate([one[won], other[lost]]), 1)
    return better, beaten


def _draw_ranks(samples: Float[np.ndarray, "allocator draw"]) -> DrawRanks | None:
    """Rank of each allocator in every draw; values equal up to rounding share a rank.

    None if that is ambiguous.
    """
    if np.isnan(samples).any():
        return None
    number, drawn = samples.shape
    ranks = np.empty((number, drawn), dtype=np.uint16 if number < 2**16 else np.uint32)
    step = max(1, WALK_ELEMENTS // number)
    for first in range(0, drawn, step):
        values = np.ascontiguousarray(samples[:, first : first + step].T)
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        new = np.diff(values, axis=1, prepend=-np.inf) > ROUNDING
        heads = np.maximum.accumulate(np.where(new, values, -np.inf), axis=1)
        if (values - heads > ROUNDING).any():
            return None  # small steps add up to a large one: equality is not transitive
        rank = (np.cumsum(new, axis=1) - 1).astype(ranks.dtype)
        np.put_along_axis(ranks[:, first : first + step].T, order, rank, axis=1)
    return ranks


def _by_counting(
    samples: Float[np.ndarray, "allocator draw"], ranks: DrawRanks, draws: Draws
) -> tuple[Counts, Counts]:
    """Compares each allocator with those that are worse on average: nearly all that it
    beats are among them.
    """
    number, drawn = samples.shape
    few, many = (math.floor(TAILS[0] * (drawn - 1) + slack) for slack in (-1e-9, 1e-9))
    # With fewer draws not ahead a pair is resolved, with more it is not; in between the
    # interval decides. The slack covers rounding of the quantile's position.
    doubtful = range(few + 1, many + 2)
    order = np.argsort(-ranks.mean(axis=1), kind="stable")
    samples, ranks = samples[order], ranks[order]
    by_draw = np.ascontiguousarray(ranks.T)
    descending = np.ascontiguousarray(np.sort(ranks, axis=1, kind="stable")[:, ::-1].T)
    better, beaten = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    close = [np.zeros((0, 2), dtype=np.int64)]
    for one in range(number - 1):
        others = slice(one + 1, number)
        won, decided = _by_extremes(ranks[one], by_draw, descending, others, doubtful)
        open_pairs = one + 1 + np.flatnonzero(~decided)
        for begin in range(0, len(open_pairs), AT_ONCE):
            part = open_pairs[begin : begin + AT_ONCE]
            ahead, behind, between = _by_all(ranks[one], ranks[part], doubtful)
            won[part[ahead] - one - 1] = True
            better[one] += np.count_nonzero(behind)
            beaten[part[behind]] += 1
            close.append(
                np.column_stack(
                    [np.full(np.count_nonzero(between), one), part[between]]
                )
            )
        beaten[one] += np.count_nonzero(won)
        better[others] += won
    by_interval, back = (
        _by_intervals(np.concatenate(close), samples, draws),
        np.argsort(order),
    )
    return (better + by_interval[0])[back], (beaten + by_interval[1])[back]


def _by_extremes(
    mine: Shaped[np.ndarray, "draw"],
    by_draw: Shaped[np.ndarray, "draw allocator"],
    descending: Shaped[np.ndarray, "draw allocator"],
    others: slice,
    doubtful: range,
) -> tuple[Bool[np.ndarray, "other"], Bool[np.ndarray, "other"]]:
    """Which others one allocator beats, judged by its worst and best draws; and which
    pairs these draws decide.

    Another allocator overtakes it in its worst draws, if anywhere. In all other draws
    its rank is at least that of the last of its worst draws, so another one overtakes
    it there at most as often as the other one reaches this rank at all. The other one's
    ranks in `descending` order bound that number.
    """
    order = np.argsort(mine, kind="stable")
    worst, best = order[: WORST * doubtful.stop], order[-BEST * doubtful.stop :]
    not_ahead = _sum(by_draw[worst, others] >= mine[worst, None])
    not_behind = _sum(by_draw[best, others] <= mine[best, None])
    spare = doubtful.start - 1 - not_ahead.astype(np.int64)
    reach = descending[np.maximum(spare, 0), np.arange(others.start, others.stop)]
    won = (spare >= 0) & (reach < mine[worst[-1]])
    return won, won | ((not_ahead >= doubtful.stop) & (not_behind >= doubtful.stop))


def _sum(flags: Bool[np.ndarray, "draw other"]) -> Shaped[np.ndarray, "other"]:
    """Number of true draws in each column, in the smallest integer type that can count
    them: that adds fastest.
    """
    return flags.view(np.uint8).sum(axis=0, dtype=np.min_scalar_type(len(flags)))


def _by_all(
    mine: Shaped[np.ndarray, "draw"],
    theirs: Shaped[np.ndarray, "other draw"],
    doubtful: range,
) -> tuple[
    Bool[np.ndarray, "other"], Bool[np.ndarray, "other"], Bool[np.ndarray, "other"]
]:
    """Which others one allocator beats, which beat it, and which pairs the count over
    all draws does not decide.
    """
    not_ahead = _row_sum(theirs >= mine)
    # omits draws in which both are equal; these matter only near the bound
    not_behind = len(mine) - not_ahead
    near = np.flatnonzero(not_behind < doubtful.stop)
    not_behind[near] = _row_sum(theirs[near] <= mine)
    ahead, behind = not_ahead < doubtful.start, not_behind < doubtful.start
    between = (not_ahead < doubtful.stop) | (not_behind < doubtful.stop)
    return ahead, behind, between & ~(ahead | behind)


def _row_sum(flags: Bool[np.ndarray, "other draw"]) -> Int[np.ndarray, "other"]:
    """Number of true draws in each row; a float32 product is exact up to 2^24 and
    faster than adding integers.
    """
    return (
        flags.astype(np.float32) @ np.ones(flags.shape[1], dtype=np.float32)
    ).astype(np.int64)
