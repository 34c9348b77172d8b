"""Samples over draws -> 95 % intervals.

A sample that is NaN in a draw leaves that draw out. The functions take one row of
samples per quantity, so that the intervals of a whole table are computed at once. Few
or uneven units get a second opinion: a wider interval by Student's t, whose quantiles
are computed here, because the import of scipy is slower than a judgement.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import DrawRows, PerDraw, PerRow, RowBounds
from deepval.judge.draws import Draws
from deepval.judge.results import Bounds, Estimate

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2)
"""Shares of the draws below the two bounds."""
ROUNDING = 1e-12
"""Shares up to this size are rounding error: the order of a sum changes its digits."""

Verdict = Literal["better", "worse", "unresolved"]


class Interval(NamedTuple):
    """The bounds of a 95 % interval."""

    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Better if all of it is above 0, worse if all is below; 0 is neither."""
        if self.low > 0:
            return "better"
        if self.high < 0:
            return "worse"
        return "unresolved"

    @property
    def bounds(self) -> Bounds:
        """The bounds, as a result stores them."""
        return Bounds(self.low, self.high)


def interval(low: float, high: float, scale: float = 1.0) -> Interval | None:
    """The interval with rounding errors around 0 removed; None where a bound is NaN.

    Args:
        low: Lower bound.
        high: Upper bound.
        scale: Size of the numbers whose sum the bounds are: 1 for shares.
    """
    return intervals(np.array([[low, high]]), scale)[0]


def interval_over(
    samples: PerDraw, draws: Draws, *, scale: float = 1.0
) -> Interval | None:
    """The interval of one quantity over the draws; None where no draw is left."""
    low, high = percentiles(samples[None], draws)[0].tolist()
    return interval(low, high, scale)


def intervals_over(
    samples: DrawRows, draws: Draws, *, scale: float = 1.0
) -> list[Interval | None]:
    """The intervals of several quantities over the draws."""
    return intervals(percentiles(samples, draws), scale)


def intervals(bounds: RowBounds, scale: float = 1.0) -> list[Interval | None]:
    """The intervals of rows of bounds, as `interval` makes them."""
    is_negligible = np.abs(bounds) <= ROUNDING * scale
    is_undefined = np.asarray(np.isnan(bounds).any(axis=1)).tolist()
    pairs = np.where(is_negligible, 0.0, bounds).tolist()
    return [
        None if is_none else Interval(low, high)
        for (low, high), is_none in zip(pairs, is_undefined, strict=True)
    ]


def verdict_of(*intervals: Interval | None) -> Verdict | None:
    """The verdict of the first interval that there is; None without any."""
    for own in intervals:
        if own is not None:
            return own.verdict
    return None


def estimate(value: float, own: Interval | None) -> Estimate | None:
    """A value with its interval, as a result stores it; None where it is NaN."""
    if own is None:
        return Estimate.of(value)
    return Estimate.of(value, own.low, own.high)


def bounds_of(own: Interval | None) -> Bounds | None:
    """The bounds of an interval, as a result stores them."""
    if own is None:
        return None
    return own.bounds


def percentiles(samples: DrawRows, draws: Draws) -> RowBounds:
    """The 2.5 and 97.5 percentiles of every row; NaN where no draw is left.

    They are interpolated linearly for random draws. For enumerated draws each is the
    smallest sample at which the cumulative probability reaches the percentage.
    """
    if samples.shape[1] == 0:
        return np.full((len(samples), 2), np.nan)
    if draws.weights is None:
        return _interpolated_percentiles(samples)
    return _smallest_percentiles(samples, draws.weights)


def _interpolated_percentiles(samples: DrawRows) -> RowBounds:
    # By hand, because np.nanquantile takes the rows one by one.
    ordered = np.sort(samples, axis=1)  # NaN comes last
    used = np.full(len(samples), samples.shape[1])
    if np.isnan(ordered[:, -1]).any():
        used = np.count_nonzero(~np.isnan(samples), axis=1)
    last = np.maximum(used - 1, 0)[:, None]
    # A percentile is linear between its neighbours among the sorted samples.
    position = np.array(TAILS) * last
    below = position.astype(int)
    above = np.minimum(below + 1, last)
    low = np.take_along_axis(ordered, below, axis=1)
    high = np.take_along_axis(ordered, above, axis=1)
    return (high - low) * (position - below) + low


def _smallest_percentiles(samples: DrawRows, weights: PerDraw) -> RowBounds:
    order = np.argsort(samples, axis=1, kind="stable")
    ordered = np.take_along_axis(samples, order, axis=1)
    # A draw that is left out has no weight; the others share its probability.
    used_weights = np.where(np.isnan(ordered), 0.0, weights[order])
    reached = np.cumsum(used_weights, axis=1)
    used = np.count_nonzero(~np.isnan(samples), axis=1)
    bounds = np.empty((len(samples), 2))
    for column, tail in enumerate(TAILS):
        # The last digits of a sum of probabilities must not decide between samples.
        target = tail * reached[:, -1:] - 1e-12
        at = np.count_nonzero(reached < target, axis=1)
        at = np.minimum(at, np.maximum(used - 1, 0))
        bounds[:, column] = ordered[np.arange(len(samples)), at]
    return bounds


def spreads(samples: DrawRows, draws: Draws) -> PerRow:
    """The standard deviation of every row over the draws; NaN where none is left."""
    if samples.shape[1] == 0:
        return np.full(len(samples), np.nan)
    if draws.weights is None:
        spread = samples.std(axis=1)
        # Mostly no draw is left out, and then this is several times faster.
        if not np.isnan(spread).any():
            return spread
    used = ~np.isnan(samples)
    weights = used.astype(np.float64)
    if draws.weights is not None:
        weights = weights * draws.weights
    total = weights.sum(axis=1)
    total[total == 0] = np.nan  # no draw: no spread
    mean = (weights * np.where(used, samples, 0.0)).sum(axis=1) / total
    deviation = np.where(used, samples - mean[:, None], 0.0)
    return np.sqrt((weights * deviation**2).sum(axis=1) / total)


def spread(samples: PerDraw, draws: Draws) -> float:
    """The standard deviation of one quantity over the draws."""
    return float(spreads(samples[None], draws)[0])


def second_opinion(
    point: float,
    spread: float,
    *,
    units: int,
    effective_units: float,
    scale: float = 1.0,
) -> Interval | None:
    """The second opinion on one figure."""
    (own,) = second_opinions(
        np.array([point]),
        np.array([spread]),
        units=units,
        effective_units=effective_units,
        scale=scale,
    )
    return own


def second_opinions(
    points: PerRow,
    spreads: PerRow,
    *,
    units: int,
    effective_units: float,
    scale: float = 1.0,
) -> list[Interval | None]:
    """Wider intervals for few or unequal units: point +- Student's t x spread.

    The degrees of freedom are those of the effective units: if few units contribute
    the value, few determine the spread. The spread over draws is that of units drawn
    with replacement, too small by sqrt((units - 1) / units).

    Args:
        points: The values in the sample.
        spreads: Their standard deviations over the draws; NaN for no opinion.
        units: Number of units.
        effective_units: Number of equal units that would be as uneven; NaN counts as 1.
        scale: As in `interval`.
    """
    if units < 2 or np.isnan(spreads).all():
        return [None] * len(points)
    # With fewer than two effective units there is still one degree of freedom: the
    # widest interval that Student's t has to offer.
    degrees = 1.0
    if effective_units >= 2:
        degrees = effective_units - 1
    t = student_quantile((1 - LEVEL) / 2, degrees)
    half_width = t * spreads / math.sqrt(1 - 1 / units)
    return intervals(np.column_stack([points - half_width, points + half_width]), scale)


MOST_STEPS = 100


@lru_cache(maxsize=256)
def student_quantile(tail: float, degrees: float) -> float:
    """The value that Student's t exceeds with probability `tail`, at most 1/2.

    With t = sqrt(degrees) / tan(angle), P(T > t) is a constant times the integral of
    sin(x)^(degrees - 1) from 0 to the angle. Newton's method on logarithms finds the
    angle. Degrees of freedom need not be whole.
    """
    if tail <= 0:
        return math.inf
    log_constant = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    log_constant -= math.log(math.pi) / 2
    # The normal quantile is a good start: Newton's method then takes few steps.
    angle = math.atan2(math.sqrt(degrees), -NormalDist().inv_cdf(tail))
    for _ in range(MOST_STEPS):
        log_density = log_constant + (degrees - 1) * math.log(math.sin(angle))
        beyond = _integral_beyond(angle, tail, degrees, log_density)
        step = (log_density + math.log(beyond / tail)) * beyond / angle
        angle = min(angle * math.exp(-step), math.pi / 2)
        if abs(step) <= 1e-15:
            break
    return math.sqrt(degrees) / math.tan(angle)


def _integral_beyond(
    angle: float, tail: float, degrees: float, log_density: float
) -> float:
    """The probability beyond an angle, in units of the density there."""
    far_tail = tail < 1e-3 or degrees > 20
    if far_tail:
        # Integrate the tail itself, as far as it matters (to e^-40).
        reach = min(40 * math.tan(angle) / degrees, 9 / math.sqrt(degrees))
        return _integral(max(0.0, angle - reach), angle, angle, degrees)
    # Near 0 a power is hard to integrate, so integrate the part up to the middle.
    half = 0.5 / math.exp(log_density)
    return half - _integral(angle, math.pi / 2, angle, degrees)


def _integral(start: float, end: float, angle: float, degrees: float) -> float:
    """The integral of (sin(x) / sin(angle))^(degrees - 1), by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    x = start + (end - start) * (nodes + 1) / 2
    height = (np.sin(x) / math.sin(angle)) ** (degrees - 1)
    return (end - start) / 2 * float(weights @ height)
