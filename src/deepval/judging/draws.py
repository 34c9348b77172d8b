"""Units -> draws of units with replacement, and samples over draws -> intervals.

A draw is a count per unit, units sorted by id as text. Drawn: `PCG64(seed)` gives
`draws` rows of U unit numbers, counted. Exact: all C(2U-1, U) count vectors with their
multinomial probabilities, so there is no seed. Allocators that are judged on the same
units share the draws, so that every comparison is paired.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from deepval import checks
from deepval.arrays import Bool, Float, Shaped
from deepval.errors import InputError
from deepval.results import Bounds, Estimate, known

EXACT_UP_TO = 50_000
"""Largest number of draws to enumerate: the 24,310 of 9 units fit, the 92,378 of 10
units do not.
"""
MOST_DRAWS, MOST_COUNTS = 10_000_000, 2**28
"""Largest number of random draws, and of draws times units in memory: 2 GiB of
counts.
"""
DRAWN_AT_ONCE = 1 << 20
"""Units to draw at a time, so that only the counts, not the drawn units, stay in
memory.
"""
LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2)
"""Shares of the draws below the bounds of an interval."""
Verdict = Literal["better", "worse", "unresolved"]
ROUNDING = 1e-12
"""Shares of the all-cheap loss up to this size are rounding error: the order of a sum
changes its last digits.
"""


@dataclass(frozen=True, eq=False)
class Draws:
    """Resamples of units.

    Attributes:
        counts: How often each unit occurs in each draw.
        weights: Probability of each draw if all are enumerated, None if draws are
            equally likely.
        seed: Seed of the random draws, None if they are enumerated.
    """

    counts: Float[np.ndarray, "draw unit"]
    weights: Float[np.ndarray, "draw"] | None
    seed: int | None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def method(self) -> Literal["none", "drawn", "exact"]:
        """How the draws came about: not at all, at random or by enumeration."""
        if not len(self):
            return "none"
        return "drawn" if self.weights is None else "exact"

    def interval(
        self,
        samples: Float[np.ndarray, "draw"],
        selected: Bool[np.ndarray, "draw"] | None = None,
    ) -> "Interval":
        """The 2.5 and 97.5 percentiles of the selected samples.

        They are interpolated linearly for random draws; for exact draws, each is the
        smallest x with F(x) >= p.
        """
        return self.intervals(
            samples[None], None if selected is None else selected[None]
        )[0]

    def intervals(
        self,
        samples: Float[np.ndarray, "row draw"],
        selected: Bool[np.ndarray, "row draw"] | None = None,
    ) -> list["Interval"]:
        """The intervals of several rows at once."""
        return [Interval(*pair) for pair in self.bounds(samples, selected).tolist()]

    def bounds(
        self,
        samples: Float[np.ndarray, "row draw"],
        selected: Bool[np.ndarray, "row draw"] | None = None,
    ) -> Float[np.ndarray, "row 2"]:
        """The bounds of the intervals of several rows; rows that select the same draws
        are sorted together.
        """
        if selected is not None and not (selected == selected[:1]).all():
            return np.concatenate(
                [
                    self.bounds(row[None], own[None])
                    for row, own in zip(samples, selected, strict=True)
                ]
            )
        weights = self.weights
        if selected is not None and not selected.all():
            samples, weights = (
                samples[:, selected[0]],
                None if weights is None else weights[selected[0]],
            )
        if not samples.size:
            return np.full((len(samples), 2), np.nan)
        if weights is None:
            # A quantile is linear between its neighbours among the sorted samples.
            ordered, position = (
                np.sort(samples, axis=1),
                np.array(TAILS) * (samples.shape[1] - 1),
            )
            at = position.astype(int)
            low, high = (
                ordered[:, at],
                ordered[:, np.minimum(at + 1, samples.shape[1] - 1)],
            )
            return (high - low) * (position - at) + low
        return np.array([_smallest(row, weights) for row in samples])

    def weight_of(self, rows: Bool[np.ndarray, "draw"]) -> float:
        """Probability of the draws marked in `rows`."""
        return (
            float(np.mean(rows) if self.weights is None else self.weights[rows].sum())
            if len(rows)
            else 0.0
        )

    def spread(self, samples: Float[np.ndarray, "draw"]) -> float:
        """Standard deviation over the draws in which the sample is defined (not
        NaN).
        """
        return float(self.spreads(samples[None])[0])

    def spreads(
        self, samples: Float[np.ndarray, "row draw"]
    ) -> Float[np.ndarray, "row"]:
        """The standard deviations of several rows at once."""
        defined = ~np.isnan(samples)
        if not defined.all() and len(samples) > 1:
            return np.concatenate([self.spreads(row[None]) for row in samples])
        weights = self.weights
        if not defined.all():
            samples, weights = (
                samples[:, defined[0]],
                None if weights is None else weights[defined[0]],
            )
        if not samples.size:
            return np.full(len(samples), np.nan)
        mean = np.average(samples, axis=1, weights=weights)
        return np.sqrt(
            np.average((samples - mean[:, None]) ** 2, axis=1, weights=weights)
        )


def _smallest(
    samples: Float[np.ndarray, "draw"], weights: Float[np.ndarray, "draw"]
) -> Float[np.ndarray, "2"]:
    """The smallest samples at which the cumulative weight reaches each of the two
    tails.
    """
    order = np.argsort(samples, kind="stable")
    reached = np.cumsum(weights[order])
    # The last digits of a sum of probabilities must not push a percentile to the next
    # sample.
    at = np.searchsorted(reached, np.array(TAILS) * reached[-1] - 1e-12)
    return samples[order][np.minimum(at, len(order) - 1)]


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; NaN where there is none."""

    low: float
    high: float

    def snap(self, scale: float = 1.0) -> "Interval":
        """The interval with bounds within 1e-12 of zero (times `scale`) set to 0:
        rounding must not decide.
        """
        least = ROUNDING * scale
        if abs(self.low) > least and abs(self.high) > least:
            return self
        return Interval(
            *(0.0 if abs(bound) <= least else bound for bound in (self.low, self.high))
        )

    def estimate(self, value: float) -> Estimate | None:
        """The value with this interval; None where the value is NaN."""
        return (
            None
            if math.isnan(value)
            else Estimate(value, known(self.low), known(self.high))
        )

    @property
    def bounds(self) -> Bounds | None:
        """The bounds; None where there is no interval."""
        return (
            None
            if math.isnan(self.low) or math.isnan(self.high)
            else Bounds(self.low, self.high)
        )

    @property
    def verdict(self) -> Verdict | None:
        """Better iff the lower bound is above 0, worse iff the upper one is below;
        exactly 0 is neither.

        Without an interval there is no verdict (None), which differs from "unresolved".
        """
        if self.bounds is None:
            return None
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "unresolved"


def make_draws(units: int, draws: int | Literal["exact"], seed: int = 0) -> Draws:
    """Draws of `units` units: a number of random ones, or "exact" for all of them."""
    if isinstance(draws, str) and draws == "exact":
        return _enumerate(units)
    if isinstance(draws, str):
        raise InputError(
            f"draws must be a number of draws or 'exact'; found {draws!r}."
        )
    draws, seed = (
        checks.whole(draws, "draws", most=MOST_DRAWS),
        checks.whole(seed, "seed"),
    )
    if draws * units > MOST_COUNTS:
        raise InputError(
            f"{draws:,} draws of {units:,} units are {draws * units:,} counts, and at "
            f"most {MOST_COUNTS:,} are held: give at most {MOST_COUNTS // units:,} "
            "draws, or larger units (scenes or logs, not frames)."
        )
    rng, counts = np.random.Generator(np.random.PCG64(seed)), np.empty((draws, units))
    step = max(1, DRAWN_AT_ONCE // units)
    # pieces continue one stream of numbers: the draws equal those of a single call
    for first in range(0, draws, step):
        part = counts[first : first + step]
        key = np.arange(len(part))[:, None] * units + rng.integers(0, units, part.shape)
        part[:] = np.bincount(key.ravel(), minlength=part.size).reshape(part.shape)
    return Draws(counts, None, seed)


def child_seeds(seed: int, datasets: int) -> list[int]:
    """One seed per dataset, children of one SeedSequence: draws are shared within a
    dataset, not between them.
    """
    return [
        int(child.generate_state(1, np.uint64)[0])
        for child in np.random.SeedSequence(seed).spawn(datasets)
    ]


def seeds_by_units(units: Mapping[str, Iterable[Any]], seed: int) -> dict[str, int]:
    """One seed for each list of units, so that cells of the same units share their
    draws.

    Args:
        units: The units of each cell.
        seed: The seed of a single list; the seeds of several lists are its children.
    """
    lists = {name: tuple(sorted(map(str, members))) for name, members in units.items()}
    different = sorted(set(lists.values()))
    own = (
        child_seeds(seed, len(different))
        if len(different) > 1
        else [seed] * len(different)
    )
    seeds = dict(zip(different, own, strict=True))
    return {name: seeds[members] for name, members in lists.items()}


def _enumerate(units: int) -> Draws:
    number = math.comb(2 * units - 1, units)
    if number > EXACT_UP_TO:
        raise InputError(
            f"draws='exact' enumerates at most {EXACT_UP_TO:,} draws; {units} units "
            f"have {number:,}. Give a number."
        )
    # Unit by unit, every vector branches into all counts that still leave a sum of at
    # most `units`.
    counts = np.zeros((1, 0), dtype=np.int64)
    for _ in range(units - 1):
        left = units - counts.sum(axis=1)
        parent = np.repeat(np.arange(len(counts)), left + 1)
        first = np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        counts = np.column_stack([counts[parent], np.arange(len(parent)) - first])
    counts = np.column_stack([counts, units - counts.sum(axis=1)])
    # Multinomial probability U! / (prod of counts!) / U**U, in logarithms so that no
    # factorial overflows.
    log_factorial = np.array([math.lgamma(count + 1) for count in range(units + 1)])
    weights = np.exp(
        log_factorial[units]
        - log_factorial[counts].sum(axis=1)
        - units * math.log(units)
    )
    return Draws(counts.astype(np.float64), weights / weights.sum(), None)


def without_each(units: int) -> Float[np.ndarray, "unit unit"]:
    """Counts that leave out one unit at a time."""
    return 1.0 - np.eye(units)


def simultaneous(
    point: Float[np.ndarray, "row"],
    samples: Float[np.ndarray, "row draw"],
    draws: Draws,
    *,
    units: float,
) -> list[Interval]:
    """Intervals that cover all rows of a table at once, nominally with 95 %: point +-
    c * spread.

    c is the 95 % quantile over the draws of the largest |sample - point| / spread of
    any row (max-t): the smallest c at which all rows are within bounds in at least 95 %
    of the draws, drawn or exact, without interpolation. With few units c is too small,
    because the spread is itself an estimate: c is widened to the quantile of Student's
    t with `units` - 1 degrees of freedom at the same level, times sqrt(units / (units -
    1)); `units` may be infinite. A draw in which a row is undefined (NaN) does not
    count for that row; a draw in which all rows are undefined is left out. A row that
    never varies has a point interval.
    """
    spread = draws.spreads(samples)
    # rounding error of a constant row is no variation
    scale = np.where(spread > ROUNDING, spread, np.inf)
    defined = ~np.isnan(samples).all(axis=0)
    distance = np.nanmax(
        np.abs(samples - point[:, None])[:, defined] / scale[:, None],
        axis=0,
        initial=0.0,
    )
    order = np.argsort(distance, kind="stable")
    reached = np.cumsum(
        (np.ones(samples.shape[1]) if draws.weights is None else draws.weights)[
            defined
        ][order]
    )
    at = np.searchsorted(reached, (LEVEL - 1e-12) * reached[-1]) if len(order) else 0
    critical = (
        _for_few(float(distance[order][min(at, len(order) - 1)]), units)
        if len(order)
        else math.nan
    )
    return [
        Interval(float(p - critical * s), float(p + critical * s)).snap()
        for p, s in zip(point, spread, strict=True)
    ]


def cautious(point: float, spread: float, *, units: int, effective: float) -> Interval:
    """The second opinion: point +- Student's t x spread over draws x sqrt(units /
    (units - 1)).

    The degrees of freedom are those of the effective units, `effective` - 1 and at
    least 1: if few units contribute the value, few determine the spread
    (docs/statistics.md, A second opinion). NaN effective units count as 1.
    """
    if math.isnan(spread) or units < 2:
        return Interval(math.nan, math.nan)
    degrees = max(1.0, effective - 1) if effective >= 1 else 1.0
    half = (
        student_quantile((1 - LEVEL) / 2, degrees) * spread / math.sqrt(1 - 1 / units)
    )
    return Interval(point - half, point + half)


def prediction_interval(rate: float, spread: float, units: int) -> Interval:
    """The 95 % prediction interval of a rate on as many new units as it was calibrated
    or counted on.

    The rates of the old and the new units have the same variance, so their difference
    has twice the variance of one: rate +- Student's t with units - 1 degrees of freedom
    x spread over draws x sqrt(2 units / (units - 1)), on the scale of the rate and on
    that of its logit; each bound is the wider one, within 0 and 1.
    """
    if math.isnan(spread) or units < 2:
        return Interval(math.nan, math.nan)
    if not spread > ROUNDING:
        return Interval(rate, rate)  # all units have the same rate
    half = (
        student_quantile((1 - LEVEL) / 2, units - 1)
        * spread
        * math.sqrt(2 * units / (units - 1))
    )
    variance = rate * (1 - rate)
    # A rate that differs between units lies strictly between 0 and 1; the exponent is
    # bounded against overflow.
    odds, factor = (
        (rate / (1 - rate), math.exp(min(half / variance, 700.0)))
        if variance > 0
        else (math.nan, 1.0)
    )
    low, high = odds / factor / (1 + odds / factor), 1 - 1 / (1 + odds * factor)
    return Interval(max(0.0, min(rate - half, low)), min(1.0, max(rate + half, high)))


@lru_cache(maxsize=256)
def student_quantile(tail: float, degrees: float) -> float:
    """The value that Student's t, with any degrees of freedom from 1 on, exceeds with a
    probability of at most 1/2.

    P(T > t) = c * integral of sin(x)^(degrees - 1) from 0 to atan(sqrt(degrees) / t),
    or 1/2 less the integral from there to pi/2, solved by Newton's method on
    logarithms. scipy.special has it too, but its import takes longer than judging a
    small table, and judging does without scipy.
    """
    if tail <= 0:
        return math.inf
    scale = math.exp(
        math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    ) / math.sqrt(math.pi)
    nodes, weights = np.polynomial.legendre.leggauss(48)
    angle = math.atan2(math.sqrt(degrees), -NormalDist().inv_cdf(tail))
    for _ in range(100):
        # The tail is integrated itself, as far as it matters (to e^-40), unless a power
        # near 0 is hard to integrate.
        is_tail = tail < 1e-3 or degrees > 20
        far = min(40 * math.tan(angle) / degrees, 9 / math.sqrt(degrees))
        start, end = (max(0.0, angle - far), angle) if is_tail else (angle, math.pi / 2)
        at = start + (end - start) * (nodes + 1) / 2
        area = (
            (end - start)
            / 2
            * float(weights @ (np.sin(at) / math.sin(angle)) ** (degrees - 1))
        )
        log_density = math.log(scale) + (degrees - 1) * math.log(math.sin(angle))
        # both in units of the density
        beyond = area if is_tail else 0.5 / math.exp(log_density) - area
        step = (log_density + math.log(beyond / tail)) * beyond / angle
        angle = min(angle * math.exp(-step), math.pi / 2)
        if abs(step) <= 1e-15:
            break
    return math.sqrt(degrees) / math.tan(angle)


def _for_few(critical: float, units: float) -> float:
    """The bound that Student's t with units - 1 degrees of freedom exceeds as often as
    the normal does `critical`.
    """
    if math.isinf(units):
        return critical
    return student_quantile(
        math.erfc(critical / math.sqrt(2)) / 2, units - 1
    ) / math.sqrt(1 - 1 / units)


def units_to_resolve(
    spread: float, units: int, difference: float, *, power: float = 0.8
) -> int:
    """Number of units at which a true difference would be distinguished from 0 with
    probability `power`.

    A planning figure: normal approximation, spread falling with the square root of the
    number of units, U' = U * ((z(0.975) + z(power)) * spread / difference)^2. With
    `power=0.5` the expected bound of the interval just reaches 0.
    """
    spread, difference, power = (
        checks.number(value, what)
        for value, what in (
            (spread, "spread"),
            (difference, "difference"),
            (power, "power"),
        )
    )
    units = checks.whole(units, "units", least=1, most=10**12)
    if not difference or not 0 < power < 1:
        raise InputError(
            "A difference other than 0 and a power in (0, "
            f"1) are needed; found {difference} and {power}."
        )
    normal = NormalDist()
    distance = (
        (normal.inv_cdf(1 - (1 - LEVEL) / 2) + normal.inv_cdf(power))
        * spread
        / abs(difference)
    )
    return max(2, math.ceil(units * distance**2 - 1e-9))


@dataclass(frozen=True)
class Concentration:
    """How evenly a total is spread over units or inputs, from the positive parts; NaN
    where there is no total.

    Attributes:
        top_unit: Id of the unit with the largest part.
        top_share: Its share of the total.
        effective_units: 1 / sum of squared shares: U where all are equal, 1 where one
            unit has everything.
        gini: 0 where all are equal, near 1 where one unit has everything.
        half: Smallest number of units that together have half of the total; 0 where
            there is no total.
        half_share: Their share of the total.
    """

    top_unit: str | None
    top_share: float
    effective_units: float
    gini: float
    half: int = 0
    half_share: float = math.nan


def concentration(
    parts: Float[np.ndarray, "unit"],
    unit_ids: Shaped[np.ndarray, "unit"] | Sequence[str],
    *,
    positive: Float[np.ndarray, "positive"] | None = None,
) -> Concentration:
    """Concentration of non-negative parts of units (or inputs), such as the oracle's
    gain per unit.

    `positive` are the positive parts in ascending order; if None, they are sorted here.
    """
    total, number = parts.sum(), len(parts)
    if not total > 0:
        return Concentration(None, math.nan, math.nan, math.nan)
    share = (np.sort(parts[parts > 0]) if positive is None else positive) / total
    top = int(np.argmax(parts))
    # parts of 0 have the lowest ranks and add nothing
    rank = np.arange(number - len(share) + 1, number + 1)
    gini = float((2 * rank - number - 1) @ share / number)
    reached = np.cumsum(share[::-1])
    half = int(np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12)))
    effective = float(1 / (share @ share))
    return Concentration(
        str(unit_ids[top]),
        float(parts[top] / total),
        effective,
        gini,
        half + 1,
        float(reached[half] / reached[-1]),
    )
