"""Two gains in every resample -> their paired difference, its intervals and a verdict.

Two policies on the same inputs rise and fall together from draw to draw, because some
units are harder than others. Their difference within a draw is free of that, so its
interval is narrower than the intervals of the two gains suggest.

The verdict rests on the difference as a share of the all-cheap loss. Where that share
is undefined, because the loss is not positive, it rests on the difference itself.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import (
    Bool,
    DrawRows,
    Float,
    Int,
    PerResample,
    PerRow,
    ResampleRows,
)
from deepval.judge.bootstrap import Totals
from deepval.judge.intervals import (
    LEVEL,
    ROUNDING,
    Interval,
    Verdict,
    estimate,
    intervals_over,
    second_opinions,
    spreads,
    verdict_of,
)
from deepval.judge.results import Estimate, Reason, known

NEARLY_ZERO = 0.1
"""A loss below this part of the sum of absolute decision values takes no shares."""


class Figure(NamedTuple):
    """A figure of the sample with two intervals over units.

    Attributes:
        value: The figure; None where it is undefined.
        interval: Its 95 % interval over the draws; None where there is none.
        second: The second opinion: a wider interval, for few or uneven units.
        spread: Standard deviation over the draws.
    """

    value: float | None
    interval: Interval | None = None
    second: Interval | None = None
    spread: float | None = None

    @property
    def estimate(self) -> Estimate | None:
        """The value with its interval, as a result stores it."""
        if self.value is None:
            return None
        return estimate(self.value, self.interval)


class Comparison(NamedTuple):
    """A policy against another one, paired in every resample.

    Attributes:
        share: The difference of their gains as a share of the all-cheap loss.
        loss: The same in units of the loss.
        dropped: Draws left out because their all-cheap loss is not positive.
    """

    share: Figure
    loss: Figure
    dropped: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """Better, worse or unresolved; None without an interval."""
        return verdict_of(self.share.interval, self.loss.interval)

    @property
    def second_verdict(self) -> Verdict | None:
        """The verdict of the second opinion."""
        return verdict_of(self.share.second, self.loss.second)


@dataclass(frozen=True, eq=False)
class Difference:
    """A paired difference of gains in every resample.

    Attributes:
        loss: In units of the loss.
        share: As a share of the all-cheap loss; NaN where that is not positive.
    """

    loss: ResampleRows
    share: ResampleRows


def paired_difference(
    totals: Totals, gain: ResampleRows, other: ResampleRows
) -> Difference:
    """The difference of two gains in every resample; rounding errors count as 0."""
    loss = paired_loss(totals, gain, other)
    return Difference(loss, as_shares(totals, loss))


def paired_loss(
    totals: Totals, gain: ResampleRows, other: ResampleRows
) -> ResampleRows:
    """The difference of two gains in units of the loss; rounding errors count as 0."""
    loss = gain - other
    # Two policies that choose the same inputs may add them in another order.
    loss[np.abs(loss) <= ROUNDING * totals.sum_of_sizes] = 0.0
    return loss


def as_shares(totals: Totals, loss: ResampleRows) -> ResampleRows:
    """Differences as shares of the all-cheap loss; NaN where that is not positive."""
    is_positive = totals.cheap_loss > 0
    if is_positive.all():
        return loss / totals.cheap_loss
    share = np.full(loss.shape, np.nan)
    if is_positive[0]:
        np.divide(loss, totals.cheap_loss, out=share, where=is_positive)
        # No difference is no share of any loss.
        share[~is_positive & (loss == 0)] = 0.0
    return share


def paired_shares(totals: Totals, gain: PerResample, other: PerResample) -> PerResample:
    """The difference of two gains as a share of the all-cheap loss, in one row."""
    return paired_difference(totals, gain[None], other[None]).share[0]


def compare(
    totals: Totals,
    gain: ResampleRows,
    other: ResampleRows,
    *,
    with_second: bool = True,
) -> list[Comparison]:
    """Comparisons of gains with other gains, row by row.

    Args:
        totals: The resamples.
        gain: The gains.
        other: What they are compared with.
        with_second: Whether to add second opinions and spreads.
    """
    difference = paired_difference(totals, gain, other)
    share, loss = samples_of_draws(totals, difference)
    # The scale of rounding errors is 1 for shares.
    loss_scale = float(totals.sum_of_sizes[0])
    kind = figures if with_second else plain_figures
    shares = kind(totals, difference.share[:, 0], share, 1.0)
    losses = kind(totals, difference.loss[:, 0], loss, loss_scale)
    dropped = _dropped(share).tolist()
    return list(map(Comparison, shares, losses, dropped))


def compare_one(totals: Totals, gain: PerResample, other: PerResample) -> Comparison:
    """The comparison of one gain with another."""
    return compare(totals, gain[None], other[None])[0]


def plain_figures(
    totals: Totals, values: PerRow, samples: DrawRows, scale: float
) -> list[Figure]:
    """Figures with their intervals; arguments are those of `figures`."""
    own = intervals_over(samples, totals.draws, scale=scale)
    return list(map(Figure, _known(values), own))


def figures(
    totals: Totals, values: PerRow, samples: DrawRows, scale: float
) -> list[Figure]:
    """Figures with their intervals, second opinions and spreads.

    Args:
        totals: The resamples.
        values: The figures in the sample.
        samples: The figures in the draws.
        scale: Size of the numbers whose sum they are.
    """
    # All rows at once: one sort of the matrix, and not one per row.
    own = intervals_over(samples, totals.draws, scale=scale)
    spread = spreads(samples, totals.draws)
    second = second_opinions(
        values,
        spread,
        units=len(totals.unit_ids),
        effective_units=totals.effective_units,
        scale=scale,
    )
    return list(map(Figure, _known(values), own, second, _known(spread)))


def _known(values: PerRow) -> list[float | None]:
    """The values, None where one is undefined."""
    return [known(value) for value in values.tolist()]


def samples_of_draws(
    totals: Totals, difference: Difference
) -> tuple[DrawRows, DrawRows]:
    """Shares and losses in the draws, NaN where a draw is left out.

    The loss uses the draws in which the share is defined, or all if it never is.
    """
    share = difference.share[:, totals.drawn]
    loss = difference.loss[:, totals.drawn]
    if not totals.has_intervals:
        nothing = np.full(share.shape, np.nan)
        return nothing, nothing
    # Share and loss use the same draws, so that their verdicts cannot contradict.
    is_defined = ~np.isnan(share)
    if is_defined.all():
        return share, loss
    never_defined = ~is_defined.any(axis=1, keepdims=True)
    return share, np.where(is_defined | never_defined, loss, np.nan)


def verdicts(totals: Totals, difference: Difference) -> list[Verdict | None]:
    """The verdicts of differences, without the cost of all their intervals."""
    share, loss = samples_of_draws(totals, difference)
    shares = intervals_over(share, totals.draws)
    if None not in shares:
        return [verdict_of(own) for own in shares]
    scale = float(totals.sum_of_sizes[0])
    losses = intervals_over(loss, totals.draws, scale=scale)
    return [
        verdict_of(of_share, of_loss)
        for of_share, of_loss in zip(shares, losses, strict=True)
    ]


def _dropped(share: DrawRows) -> Int[np.ndarray, "row"]:
    """Draws without a share, in rows that have one in some draw."""
    is_undefined = np.isnan(share)
    never_defined = is_undefined.all(axis=1)
    return np.where(never_defined, 0, np.count_nonzero(is_undefined, axis=1))


def ndg(
    gain: Float[np.ndarray, "*row resample"], prize: Float[np.ndarray, "*row resample"]
) -> Float[np.ndarray, "*row resample"]:
    """Gains as parts of the oracle's; NaN where the oracle gains nothing."""
    undefined = np.full(gain.shape, np.nan)
    return np.divide(gain, prize, out=undefined, where=prize > 0)


SMALLEST_PRIZE = 0.25
"""A draw enters the nDG interval if its oracle gains at least this share of the
sample's: a smaller prize is too small to divide by."""


def has_large_prize(
    totals: Totals, prize: ResampleRows
) -> Bool[np.ndarray, "row draw"]:
    """Draws whose oracle gains enough to divide by, for each row."""
    # The last digits of a sum must not decide whether a draw is used.
    least = SMALLEST_PRIZE * prize[:, :1] * (1 - 1e-12)
    return (prize[:, :1] > 0) & (prize[:, totals.drawn] >= least)


def is_equal(
    totals: Totals, one: PerResample, other: PerResample
) -> Bool[np.ndarray, "resample"]:
    """Whether two gains differ by rounding only, in every resample."""
    return np.abs(one - other) <= ROUNDING * totals.sum_of_sizes


def unit_shown(totals: Totals) -> Literal["share", "loss"]:
    """How to read differences: as shares, or in units of the loss.

    Shares mean nothing where the all-cheap loss is not positive, or less than a tenth
    of the sum of absolute decision values: in the sample, or in so many draws that it
    moves a bound of the interval.
    """
    is_small = totals.cheap_loss < NEARLY_ZERO * totals.sum_of_sizes
    probability = totals.draws.probability(is_small[totals.drawn])
    is_often_small = probability > (1 - LEVEL) / 2
    if is_small[0] or is_often_small or not totals.cheap_loss[0] > 0:
        return "loss"
    return "share"


def why_undefined(totals: Totals) -> list[Reason]:
    """Why no difference has a share of the all-cheap loss, or an interval."""
    reasons = []
    if not totals.cheap_loss[0] > 0:
        reasons.append(Reason.NO_SHARE)
    if len(totals.draws) == 0:
        reasons.append(Reason.NO_DRAWS)
    elif not totals.has_intervals:
        reasons.append(Reason.SINGLE_UNIT)
    return reasons
