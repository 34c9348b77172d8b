"""Samples of many allocators draw by draw -> how many others each resolvedly beats, and how many beat it.

A pair is resolved iff the 95 % interval of its paired difference leaves out 0. The interval's lower bound lies between
two order statistics of the differences, so nearly every pair is decided by counting the draws in which one side is not
ahead; only where that number is just between are the differences sorted. Most pairs need few draws to be counted: those
in which one of them is at its worst and at its best.
"""

import math

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.judging.draws import ROUNDING, TAILS, Draws
from deepval.judging.kernel import WALK_ELEMENTS

WORST, BEST = 8, 2
"""Draws of an allocator that are looked at first, as multiples of those that leave a pair open."""
AT_ONCE = 128
"""Pairs of which all draws are looked at in one go, few enough for the cache."""
FEW = 40
"""Allocators whose pairs are taken one by one."""
Counts = Int[np.ndarray, "allocator"]
Places = Shaped[np.ndarray, "allocator draw"]


def resolved(samples: Float[np.ndarray, "allocator draw"], draws: Draws) -> tuple[Counts, Counts]:
    """How many others are resolvedly better than each allocator, and how many it resolvedly beats."""
    if draws.weights is None:
        samples = samples[:, ~np.isnan(samples).all(axis=0)]  # a draw that nobody has says nothing of any pair
    if not samples.shape[1]:
        return np.zeros(len(samples), dtype=np.int64), np.zeros(len(samples), dtype=np.int64)
    places = None if draws.weights is not None or len(samples) <= FEW else _places(samples)
    if places is None:
        return _pair_by_pair(samples, draws)
    return _counted(samples, places, draws)


def _pair_by_pair(samples: Float[np.ndarray, "allocator draw"], draws: Draws) -> tuple[Counts, Counts]:
    return _noted(np.column_stack(np.triu_indices(len(samples), k=1)), samples, draws)


def _noted(
    pairs: Int[np.ndarray, "pair 2"], samples: Float[np.ndarray, "allocator draw"], draws: Draws
) -> tuple[Counts, Counts]:
    """Counts of these pairs, by the intervals of their differences."""
    better, beaten = np.zeros(len(samples), dtype=np.int64), np.zeros(len(samples), dtype=np.int64)
    for begin in range(0, len(pairs), AT_ONCE):
        one, other = pairs[begin : begin + AT_ONCE].T
        difference = samples[one] - samples[other]
        low, high = draws.bounds(difference, ~np.isnan(difference)).T
        won, lost = low > ROUNDING, high < -ROUNDING
        np.add.at(better, np.concatenate([other[won], one[lost]]), 1)
        np.add.at(beaten, np.concatenate([one[won], other[lost]]), 1)
    return better, beaten


def _places(samples: Float[np.ndarray, "allocator draw"]) -> Places | None:
    """The place of each allocator in every draw, equal up to rounding shared; None where that cannot be said."""
    if np.isnan(samples).any():
        return None
    number, drawn = samples.shape
    places = np.empty((number, drawn), dtype=np.uint16 if number < 2**16 else np.uint32)
    step = max(1, WALK_ELEMENTS // number)
    for first in range(0, drawn, step):
        values = np.ascontiguousarray(samples[:, first : first + step].T)
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        new = np.diff(values, axis=1, prepend=-np.inf) > ROUNDING
        heads = np.maximum.accumulate(np.where(new, values, -np.inf), axis=1)
        if (values - heads > ROUNDING).any():
            return None  # many small steps make a large one: who is equal to whom depends on the pair
        place = (np.cumsum(new, axis=1) - 1).astype(places.dtype)
        np.put_along_axis(places[:, first : first + step].T, order, place, axis=1)
    return places


def _counted(samples: Float[np.ndarray, "allocator draw"], places: Places, draws: Draws) -> tuple[Counts, Counts]:
    """Each against those that are worse on average: whom it beats is there, but for oddities."""
    number, drawn = samples.shape
    few, many = (math.floor(TAILS[0] * (drawn - 1) + slack) for slack in (-1e-9, 1e-9))
    doubtful = range(few + 1, many + 2)  # with fewer draws not ahead a pair is resolved, with more it is not
    order = np.argsort(-places.mean(axis=1), kind="stable")
    samples, places = samples[order], places[order]
    by_draw = np.ascontiguousarray(places.T)
    descending = np.ascontiguousarray(np.sort(places, axis=1, kind="stable")[:, ::-1].T)
    better, beaten = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    close = [np.zeros((0, 2), dtype=np.int64)]
    for one in range(number - 1):
        others = slice(one + 1, number)
        won, told = _by_extremes(places[one], by_draw, descending, others, doubtful)
        left = one + 1 + np.flatnonzero(~told)
        for begin in range(0, len(left), AT_ONCE):
            part = left[begin : begin + AT_ONCE]
            ahead, behind, between = _by_all(places[one], places[part], doubtful)
            won[part[ahead] - one - 1] = True
            better[one] += np.count_nonzero(behind)
            beaten[part[behind]] += 1
            close.append(np.column_stack([np.full(np.count_nonzero(between), one), part[between]]))
        beaten[one] += np.count_nonzero(won)
        better[others] += won
    noted, back = _noted(np.concatenate(close), samples, draws), np.argsort(order)
    return (better + noted[0])[back], (beaten + noted[1])[back]


def _by_extremes(
    mine: Shaped[np.ndarray, "draw"],
    by_draw: Shaped[np.ndarray, "draw allocator"],
    descending: Shaped[np.ndarray, "draw allocator"],
    others: slice,
    doubtful: range,
) -> tuple[Bool[np.ndarray, "other"], Bool[np.ndarray, "other"]]:
    """Whom one beats as far as its worst and best draws tell, and whether they tell.

    It is overtaken in its worst draws, if anywhere. In all others its place is at least that of the last of these, so
    that nobody overtakes it there more often than it reaches that place at all: `descending` places tell how often.
    """
    order = np.argsort(mine, kind="stable")
    worst, best = order[: WORST * doubtful.stop], order[-BEST * doubtful.stop :]
    not_ahead = _sum(by_draw[worst, others] >= mine[worst, None])
    not_behind = _sum(by_draw[best, others] <= mine[best, None])
    spare = doubtful.start - 1 - not_ahead.astype(np.int64)
    reach = descending[np.maximum(spare, 0), np.arange(others.start, others.stop)]
    won = (spare >= 0) & (reach < mine[worst[-1]])
    return won, won | ((not_ahead >= doubtful.stop) & (not_behind >= doubtful.stop))


def _sum(found: Bool[np.ndarray, "draw other"]) -> Shaped[np.ndarray, "other"]:
    """How many draws of each column, in numbers as small as can be: they are added fastest."""
    return found.view(np.uint8).sum(axis=0, dtype=np.min_scalar_type(len(found)))


def _by_all(
    mine: Shaped[np.ndarray, "draw"], theirs: Shaped[np.ndarray, "other draw"], doubtful: range
) -> tuple[Bool[np.ndarray, "other"], Bool[np.ndarray, "other"], Bool[np.ndarray, "other"]]:
    """Whom one beats, who beats it, and for whom the count of all draws alone does not tell."""
    not_ahead = _row_sum(theirs >= mine)
    not_behind = len(mine) - not_ahead  # and those in which both are equal, which seldom matter
    near = np.flatnonzero(not_behind < doubtful.stop)
    not_behind[near] = _row_sum(theirs[near] <= mine)
    ahead, behind = not_ahead < doubtful.start, not_behind < doubtful.start
    between = (not_ahead < doubtful.stop) | (not_behind < doubtful.stop)
    return ahead, behind, between & ~(ahead | behind)


def _row_sum(found: Bool[np.ndarray, "other draw"]) -> Int[np.ndarray, "other"]:
    """How many draws of each row; a product of single precision, exact up to 2^24, beats adding whole numbers."""
    return (found.astype(np.float32) @ np.ones(found.shape[1], dtype=np.float32)).astype(np.int64)
