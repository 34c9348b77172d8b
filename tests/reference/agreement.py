"""Slow twins of `deepval.judge.concordance`: every pair, every subset, one input at a
time.
"""

import itertools
import math


def sign_disagreement(first, second, tolerance=0.0):
    opposite = both = 0
    for a, b in zip(first, second, strict=True):
        if abs(a) > tolerance and abs(b) > tolerance:
            both += 1
            opposite += a * b < 0
    return opposite, both


def average_ranks(values):
    """1 + values below + half of the other values tied."""
    return [
        1 + sum(b < a for b in values) + (sum(b == a for b in values) - 1) / 2
        for a in values
    ]


def spearman(first, second):
    if len(first) < 2:
        return math.nan
    a, b = average_ranks(first), average_ranks(second)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    cross = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread_a, spread_b = (
        sum((x - mean_a) ** 2 for x in a),
        sum((y - mean_b) ** 2 for y in b),
    )
    return (
        cross / math.sqrt(spread_a * spread_b) if spread_a * spread_b > 0 else math.nan
    )


def pair_counts(first, second):
    """(concordant, discordant, tied in first only, in second only, in both)."""
    counts = [0, 0, 0, 0, 0]
    for i, j in itertools.combinations(range(len(first)), 2):
        same_first, same_second = first[i] == first[j], second[i] == second[j]
        if same_first and same_second:
            counts[4] += 1
        elif same_second:
            counts[3] += 1
        elif same_first:
            counts[2] += 1
        elif (first[i] < first[j]) == (second[i] < second[j]):
            counts[0] += 1
        else:
            counts[1] += 1
    return tuple(counts)


def optima(value, k):
    """Every allocation of at most k inputs with the largest sum; sums must be exact in
    float64.
    """
    subsets = [
        s
        for size in range(k + 1)
        for s in itertools.combinations(range(len(value)), size)
    ]
    totals = [sum(value[i] for i in subset) for subset in subsets]
    best = max(totals)
    return [s for s, total in zip(subsets, totals, strict=True) if total == best]


def transfer(value, other_value, k):
    """(largest, smallest) other gain among the optima of `value`, and the other's own
    optimum.
    """
    gains = [sum(other_value[i] for i in subset) for subset in optima(value, k)]
    own = sum(other_value[i] for i in optima(other_value, k)[0])
    return max(gains), min(gains), own


def tie_audit(score, k):
    """(above, tied, slots, share): from the sorted list, walked one by one."""
    ranked = sorted(score, reverse=True)
    if k == 0:
        return 0, 0, 0, math.nan
    above, tied = (
        sum(s > ranked[k - 1] for s in score),
        sum(s == ranked[k - 1] for s in score),
    )
    slots = sum(s == ranked[k - 1] for s in ranked[:k])
    undecided = k < len(score) and ranked[k] == ranked[k - 1]
    return above, tied, slots, slots / k if undecided else 0.0


def reversals(value, other_value):
    """Every pair (i, j) positive under both with value[i] > value[j] and other_value[i]
    < other_value[j].
    """
    wanted = [i for i in range(len(value)) if value[i] > 0 and other_value[i] > 0]
    pairs = itertools.permutations(wanted, 2)
    return {
        (i, j)
        for i, j in pairs
        if value[i] > value[j] and other_value[i] < other_value[j]
    }
