"""Sums of loss -> figures in the words of a reader, with intervals over units."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.arrays import Bool, DrawRows, Int, PerResample, ResampleRows
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.differences import Figure, figures, unit_shown
from deepval.judging.intervals import (
    ROUNDING,
    Interval,
    interval,
    percentiles,
)


@dataclass(frozen=True, eq=False)
class Scale:
    """The unit in which a sum of losses is shown.

    Attributes:
        kind: a share of right answers, a reward per input, a share of the loss of the
            cheap mode, or a loss per input.
        per: What a sum is divided by, in every resample; NaN where it is undefined.
    """

    kind: Literal["right", "reward", "share", "loss"]
    per: PerResample

    @classmethod
    def of(cls, bootstrap: Bootstrap) -> "Scale":
        """The share of right answers for right and wrong, else as rows show gains."""
        if bootstrap.is_right_or_wrong:
            return cls("right", bootstrap.inputs)
        return cls.of_rows(bootstrap)

    @classmethod
    def of_rows(cls, bootstrap: Bootstrap) -> "Scale":
        """Shares of the all-cheap loss, as in rows; rewards and other losses per input.

        Of rewards, the all-cheap loss is no loss that could have a share.
        """
        if bootstrap.has_rewards:
            return cls("reward", bootstrap.inputs)
        if unit_shown(bootstrap) == "share":
            is_positive = bootstrap.cheap_loss > 0
            return cls("share", np.where(is_positive, bootstrap.cheap_loss, np.nan))
        return cls("loss", bootstrap.inputs)

    def samples(self, bootstrap: Bootstrap, sums: ResampleRows) -> ResampleRows:
        """Sums in every resample; rounding errors count as 0."""
        resamples = sums.shape[1]
        negligible = ROUNDING * bootstrap.sum_of_sizes[:resamples]
        per = self.per[:resamples]
        # A draw that holds no input has no figure.
        per = np.where(per > 0, per, np.nan)
        return np.where(np.abs(sums) <= negligible, 0.0, sums) / per

    def figures(self, bootstrap: Bootstrap, sums: ResampleRows) -> list[Figure]:
        """Sums with their 95 % intervals and second opinions, row by row."""
        return figures_of(bootstrap, self.samples(bootstrap, sums))

    @property
    def percent(self) -> float:
        """What a figure is multiplied by where it is shown: shares are in percent."""
        return 100.0 if self.kind in ("right", "share") else 1.0


def quality(bootstrap: Bootstrap, gain: float) -> float:
    """The share of right answers after a gain, or the mean reward."""
    mean_loss = (float(bootstrap.cheap_loss[0]) - gain) / float(bootstrap.inputs[0])
    # Rewards are stored as negative losses; else a right answer has no loss.
    return -mean_loss if bootstrap.has_rewards else 1 - mean_loss


def figures_of(bootstrap: Bootstrap, samples: ResampleRows) -> list[Figure]:
    """The figure of each row in the sample, its interval and its second opinion."""
    drawn = samples[:, bootstrap.drawn]
    if not bootstrap.has_intervals:
        drawn = np.full(drawn.shape, np.nan)
    # Samples are points or shares: the scale of their rounding is 1.
    return figures(bootstrap, samples[:, 0], drawn, 1.0)


def bounds_at_once(
    bootstrap: Bootstrap, samples: ResampleRows
) -> list[Interval | None]:
    """95 % intervals that hold for all rows at once; for one row, its own interval.

    Every row keeps its own percentiles, and all rows the same ones: those between which
    all rows stay in 95 % of the draws. So the best of many may be picked freely, a
    skewed row widens no other one, and equal rows cost nothing.
    """
    drawn = samples[:, bootstrap.drawn]
    is_used = np.asarray(~np.isnan(drawn).any(axis=0))
    if not bootstrap.has_intervals or np.count_nonzero(is_used) < 2:
        return [None] * len(samples)
    # Equal samples share a rank, so any order among them will do.
    order = np.argsort(drawn[:, is_used], axis=1)
    ordered = np.take_along_axis(drawn[:, is_used], order, axis=1)
    ranks_in_order = _ranks(bootstrap, ordered, order, is_used)
    ranks = np.empty_like(ranks_in_order)
    np.put_along_axis(ranks, order, ranks_in_order, axis=1)

    # A draw is outside as soon as one row is: its extreme ranks decide. The draws that
    # are left out stay NaN, so that `percentiles` leaves them out, too.
    extremes = np.full((2, len(is_used)), np.nan)
    extremes[0, is_used] = ranks.min(axis=0)
    extremes[1, is_used] = ranks.max(axis=0)
    bounds_of_extremes = percentiles(extremes, bootstrap.draws)
    lowest_rank = bounds_of_extremes[0, 0]
    highest_rank = bounds_of_extremes[1, 1]

    # The same two ranks, turned back into the figures of each row.
    intervals = []
    for own_ranks, own in zip(ranks_in_order, ordered, strict=True):
        low = np.interp(lowest_rank, own_ranks, own)
        high = np.interp(highest_rank, own_ranks, own)
        intervals.append(interval(float(low), float(high), scale=1.0))
    return intervals


def _ranks(
    bootstrap: Bootstrap,
    ordered: DrawRows,
    order: Int[np.ndarray, "row draw"],
    is_used: Bool[np.ndarray, "any_draw"],
) -> DrawRows:
    """The rank of each draw, from 0 to 1, where every row is in order.

    Equal samples share a rank: the mean of their places.
    """
    draws = ordered.shape[1]
    weights = bootstrap.draws.weights
    place = np.broadcast_to(np.arange(draws), ordered.shape)
    first = last = place
    is_new = ordered[:, 1:] != ordered[:, :-1]
    if not is_new.all():
        edge = np.ones((len(ordered), 1), dtype=bool)
        starts = np.where(np.hstack([edge, is_new]), place, 0)
        first = np.maximum.accumulate(starts, axis=1)
        # From the right, the last of equal samples is the first.
        ends = np.where(np.hstack([is_new, edge]), place, draws - 1)
        last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    if weights is None:
        return (first + last) / (2 * draws - 2)
    # Enumerated draws have probabilities, and percentiles that are samples.
    reached = np.cumsum(weights[is_used][order], axis=1)
    return np.take_along_axis(reached, last, axis=1) / reached[:, -1:]


def is_above_zero(bounds: Interval | None) -> bool:
    """Whether all of an interval is above 0; without an interval, no."""
    return bounds is not None and bounds.low > 0


def is_below_zero(bounds: Interval | None) -> bool:
    """Whether all of an interval is below 0; without an interval, no."""
    return bounds is not None and bounds.high < 0
