"""Every allocator against the best blind choice: is it worth running?

An allocator is worth running if it gains more than a choice that spends as much without
looking at the inputs. The difference is its *lead*, taken anew in every draw:

    lead = gain - H(own spend), where H is the gain of the best blind mixture

A lead is shown in a `Scale` that a reader knows, such as points of accuracy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.basics.arrays import Bool, DrawRows, Int, PerResample, ResampleRows
from deepval.judge.allowances import Allowance
from deepval.judge.answers.blind import BlindModes, spent_under
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.differences import Figure, figures, unit_shown
from deepval.judge.intervals import (
    ROUNDING,
    Interval,
    interval,
    percentiles,
    verdict_of,
)
from deepval.judge.policies import Policy
from deepval.judge.results import SCALES


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
        return SCALES[self.kind].percent


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


FEW_UNITS = 5.0
"""Effective units below which percentiles alone say `run` of noise too often."""

AnswerVerdict = Literal["run", "do not run", "not settled"]
"""The only three words. Every view of a result prints one of them."""


@dataclass(frozen=True)
class Mixture:
    """A blind mixture: the dearer mode on a random share, the other on the rest.

    Attributes:
        low: Number of the cheaper mode.
        high: Number of the dearer one.
        share: Share of the inputs that get the dearer one.
    """

    low: int
    high: int
    share: float


@dataclass(frozen=True)
class Margin:
    """A lead with its intervals, in one scale.

    Attributes:
        figure: The lead, with its own 95 % interval and second opinion.
        at_once: The interval that holds for all compared at once.
        is_on_few: Whether fewer than FEW_UNITS effective units decide.
    """

    figure: Figure
    at_once: Interval | None
    is_on_few: bool

    @property
    def value(self) -> float:
        """The lead; 0 where it is undefined."""
        return self.figure.value or 0.0

    @property
    def verdict(self) -> AnswerVerdict:
        """The verdict on an allocator, if it was picked among those compared.

        One lucky allocator makes `run` wrong, so that needs the bound for all at once,
        and the second opinion where few units decide. `Do not run` denies each for
        itself, so its own interval serves; but two calls of a dear mode can decide it,
        so the second opinion always has to agree.
        """
        if verdict_of(self.at_once) == "better":
            if self.is_on_few and verdict_of(self.figure.second) != "better":
                return "not settled"
            return "run"
        if (
            verdict_of(self.figure.interval) == "worse"
            and verdict_of(self.figure.second) == "worse"
        ):
            return "do not run"
        return "not settled"

    @property
    def bounds(self) -> Interval | None:
        """The interval that decides the verdict, which is the one to show."""
        verdict = self.verdict
        if verdict == "run":
            return self.at_once
        if verdict == "do not run" or self.at_once is None:
            return self.figure.interval
        if verdict_of(self.at_once) == "better":
            # Only the second opinion stands between it and `run`.
            return self.figure.second
        if self.value > 0:
            return self.at_once
        # It is nearer to `do not run`, which rests on one of these two.
        if verdict_of(self.figure.interval) == "worse":
            return self.figure.second
        return self.figure.interval


@dataclass(frozen=True, eq=False)
class Lead:
    """One allocator against the best blind mixture at its own spend.

    Attributes:
        policy: The allocator.
        gain: Over the cheap mode, in the scale of the words.
        total: The same in units of the loss, over all inputs.
        margin: Its lead over the best blind mixture, in the scale of the words.
        of_rows: The same as rows show differences.
        spend: Beyond the cheap mode, per input.
        blind: What the best blind mixture gains, in the scale of the words.
        mixture: That mixture.
    """

    policy: Policy
    gain: float
    total: float
    margin: Margin
    of_rows: Margin
    spend: float
    blind: float
    mixture: Mixture

    @property
    def name(self) -> str:
        """Its name."""
        return self.policy.name

    @property
    def verdict(self) -> AnswerVerdict:
        """The verdict on it, if it was picked among those compared."""
        return self.margin.verdict

    @property
    def rank(self) -> tuple[bool, float]:
        """Those to run by their lead; below them the others by their lower bound."""
        is_to_run = self.verdict == "run"
        if not is_to_run and self.margin.at_once is not None:
            return is_to_run, self.margin.at_once.low
        return is_to_run, self.margin.value


def leads(
    bootstrap: Bootstrap,
    allowance: Allowance,
    entrants: Sequence[tuple[Policy, Gains]],
    spends: Sequence[PerResample] | None = None,
) -> list[Lead]:
    """The leads of allocators that are compared with each other, the best first.

    Of those shown to be better than blind it is the one with the largest lead; the
    bounds hold for all at once, so any of them could be named. Of others it is the one
    with the largest lower bound: not the best looking one, but the nearest to a `run`.

    Args:
        bootstrap: The resamples.
        allowance: The budget.
        entrants: The allocators with what they gain.
        spends: What each of them spends, where that is known already.
    """
    if not entrants or (bootstrap.rows is None and len(bootstrap.modes) > 2):
        return []
    gain = np.stack([gains.gain for _, gains in entrants])
    if spends is None:
        spends = []
        for policy, gains in entrants:
            spends += spent_under(policy, [gains], bootstrap, [allowance])
    spend = np.stack(spends)
    mixtures = BlindModes.of(bootstrap, allowance).mixtures(spend)
    # Paired: gain, blind gain and divisor come from the same draw.
    difference = (gain - mixtures.gain)[:, : bootstrap.drawn.stop]
    scale = Scale.of(bootstrap)
    margins = _margins(bootstrap, scale, difference)
    scale_of_rows = Scale.of_rows(bootstrap)
    margins_of_rows = margins
    if scale_of_rows.kind != scale.kind:
        margins_of_rows = _margins(bootstrap, scale_of_rows, difference)

    gain_shown = scale.samples(bootstrap, gain[:, :1])[:, 0].tolist()
    blind_shown = scale.samples(bootstrap, mixtures.gain[:, :1])[:, 0].tolist()
    inputs = float(bootstrap.inputs[0])
    found = []
    for row, (policy, _) in enumerate(entrants):
        mixture = Mixture(mixtures.low[row], mixtures.high[row], mixtures.share[row])
        found.append(
            Lead(
                policy=policy,
                gain=gain_shown[row],
                total=float(gain[row, 0]),
                margin=margins[row],
                of_rows=margins_of_rows[row],
                spend=float(spend[row, 0]) / inputs,
                blind=blind_shown[row],
                mixture=mixture,
            )
        )
    return sorted(found, key=lambda one: one.rank, reverse=True)


def _margins(
    bootstrap: Bootstrap, scale: Scale, difference: ResampleRows
) -> list[Margin]:
    """Leads in a scale, with their own intervals and those that hold at once."""
    samples = scale.samples(bootstrap, difference)
    figures = figures_of(bootstrap, samples)
    at_once = bounds_at_once(bootstrap, samples)
    is_on_few = bool(bootstrap.effective_units < FEW_UNITS)
    return [
        Margin(figure, bounds, is_on_few)
        for figure, bounds in zip(figures, at_once, strict=True)
    ]
