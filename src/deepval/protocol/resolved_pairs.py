"""Samples of many allocators draw by draw -> how many others each resolvedly beats, and how many beat it.

A pair is resolved iff the 95 % interval of its paired difference leaves out 0. The interval's lower bound lies between
two order statistics of the differences, so nearly every pair is decided by counting the draws in which one side is not
ahead; only where that number is just between are the differences sorted. Counting stops where enough draws speak for
either side, and does not begin where the outer quantiles of the two lie apart.
"""

import math
from itertools import combinations

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.judging.draws import LEVEL, ROUNDING, Draws

CHUNKS = (64, 128)
"""Draws that are counted before what is decided is left out: the first ones, and then so many at a time (up to 255)."""
FEW = 40
"""Allocators whose pairs are taken one by one."""
Counts = Int[np.ndarray, "allocator"]


def resolved(samples: Float[np.ndarray, "allocator draw"], draws: Draws) -> tuple[Counts, Counts]:
    """How many others are resolvedly better than each allocator, and how many it resolvedly beats."""
    places = None if draws.weights is not None or len(samples) <= FEW else _places(samples)
    if places is None:
        return _pair_by_pair(samples, draws)
    return _counted(samples, places, draws)


def _pair_by_pair(samples: Float[np.ndarray, "allocator draw"], draws: Draws) -> tuple[Counts, Counts]:
    better, beaten = np.zeros(len(samples), dtype=np.int64), np.zeros(len(samples), dtype=np.int64)
    for one, other in combinations(range(len(samples)), 2):
        _note(one, other, samples, draws, better, beaten)
    return better, beaten


def _note(
    one: int, other: int, samples: Float[np.ndarray, "allocator draw"], draws: Draws, better: Counts, beaten: Counts
) -> None:
    """Count a pair by the interval of its difference."""
    difference = samples[one] - samples[other]
    verdict = draws.interval(difference, ~np.isnan(difference)).snapped().verdict
    if verdict in ("better", "worse"):
        winner, loser = (one, other) if verdict == "better" else (other, one)
        better[loser] += 1
        beaten[winner] += 1


def _places(samples: Float[np.ndarray, "allocator draw"]) -> Shaped[np.ndarray, "draw allocator"] | None:
    """The place of each allocator in every draw, equal up to rounding shared; None where that cannot be said."""
    if np.isnan(samples).any():
        return None
    number, drawn = samples.shape
    places = np.empty((drawn, number), dtype=np.uint16 if number < 2**16 else np.uint32)
    for draw in range(drawn):
        order = np.argsort(samples[:, draw], kind="stable")
        values = samples[order, draw]
        new = np.concatenate([[True], np.diff(values) > ROUNDING])
        first = values[new][np.cumsum(new) - 1]
        if (values - first > ROUNDING).any():
            return None  # many small steps make a large one: who is equal to whom depends on the pair
        places[draw, order] = np.cumsum(new) - 1
    return places


def _counted(
    samples: Float[np.ndarray, "allocator draw"], places: Shaped[np.ndarray, "draw allocator"], draws: Draws
) -> tuple[Counts, Counts]:
    number, drawn = samples.shape
    few = math.floor((1 - LEVEL) / 2 * (drawn - 1) - 1e-9)  # at most so many draws not ahead: resolved
    better, beaten = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    # The order of allocators is that of their means, so that those far below can be told at once.
    apart = np.sort(samples - np.median(samples, axis=0), axis=1)
    low, high = apart[:, max(few // 2, 0)] - ROUNDING, apart[:, drawn - 1 - max(few // 2, 0)]
    for one in range(number - 1):
        others = np.arange(one + 1, number)
        wins, losses = (low[one] > high[others], high[one] < low[others]) if few >= 0 else (others < 0, others < 0)
        left = others[~(wins | losses)]
        if len(left):
            ahead, behind, between = _told(places, one, left, few)
            wins[left[ahead] - one - 1] = True
            losses[left[behind] - one - 1] = True
            for other in left[between].tolist():
                _note(one, other, samples, draws, better, beaten)
        beaten[one] += np.count_nonzero(wins)
        better[one] += np.count_nonzero(losses)
        better[others] += wins
        beaten[others] += losses
    return better, beaten


def _told(
    places: Shaped[np.ndarray, "draw allocator"], one: int, others: Int[np.ndarray, "other"], few: int
) -> tuple[Bool[np.ndarray, "other"], Bool[np.ndarray, "other"], Bool[np.ndarray, "other"]]:
    """Whom one beats, who beats it, and for whom the count alone does not tell."""
    not_ahead, not_behind = np.zeros(len(others), dtype=np.int32), np.zeros(len(others), dtype=np.int32)
    open_pairs, begin = np.arange(len(others)), 0
    while begin < len(places) and len(open_pairs):
        end = begin + (CHUNKS[0] if begin == 0 else CHUNKS[1])
        theirs, mine = places[begin:end, others[open_pairs]], places[begin:end, one, None]
        not_ahead[open_pairs] += (theirs >= mine).view(np.uint8).sum(axis=0, dtype=np.uint8)
        not_behind[open_pairs] += (theirs <= mine).view(np.uint8).sum(axis=0, dtype=np.uint8)
        begin = end
        open_pairs = open_pairs[(not_ahead[open_pairs] <= few + 2) | (not_behind[open_pairs] <= few + 2)]
    ahead, behind = not_ahead <= few, not_behind <= few
    between = ((not_ahead <= few + 2) & ~ahead) | ((not_behind <= few + 2) & ~behind)
    return ahead, behind, between & ~(ahead | behind)
