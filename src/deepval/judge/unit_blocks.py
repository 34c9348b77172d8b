"""Units in time order -> how many in a row count as one, because units resemble their
neighbours.

A detector needs units whose expectation is bounded whatever came before. Means of
blocks of ceil(2 tau) units are nearly so, with tau the time over which units resemble
each other: the larger of two estimates, of which the first sees short dependence and
the second a slow drift under noise.
"""

import math

import numpy as np

from deepval.basics.arrays import Float, PerUnit

MOST_CORRELATION = 0.97
"""Largest autocorrelation from one unit to the next that is reckoned with."""


def autocorrelation(numbers: PerUnit, lag: int = 1) -> float:
    """Sum of d_t d_(t + lag) / sum of d_t^2, d being the distances from the mean.

    It is 0 where all numbers are equal.
    """
    distance = numbers - numbers.mean()
    squares = float(distance @ distance)
    if squares == 0 or lag >= len(numbers):
        return 0.0
    return float(distance[: len(distance) - lag] @ distance[lag:]) / squares


def block_length(numbers: PerUnit) -> int:
    """ceil(2 tau): the number of units in a row that count as one."""
    return math.ceil(2 * max(_short(numbers), _slow(numbers), 1.0))


def _short(numbers: PerUnit) -> float:
    """(1 + r) / (1 - r), with r the autocorrelation and its standard error."""
    r = autocorrelation(numbers) + 1 / math.sqrt(len(numbers))
    r = min(max(r, 0.0), MOST_CORRELATION)
    return (1 + r) / (1 - r)


def _slow(numbers: PerUnit) -> float:
    """2 sum of P_j - 1, P_j the autocorrelations at lags 2 j and 2 j + 1, up to the
    first P_j <= 0 and non-increasing (Geyer's initial sequence).
    """
    total = 0.0
    least = math.inf
    for lag in range(0, len(numbers), 2):
        first = 1.0
        if lag > 0:
            first = autocorrelation(numbers, lag)
        pair = first + autocorrelation(numbers, lag + 1)
        if pair <= 0:
            break
        least = min(least, pair)
        total += least
    return 2 * total - 1


def block_means(seen: PerUnit, block: int) -> Float[np.ndarray, "block"]:
    """The means of complete blocks."""
    complete = len(seen) // block
    return seen[: complete * block].reshape(complete, block).mean(axis=1)
