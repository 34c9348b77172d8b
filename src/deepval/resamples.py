"""A table and draws of its units -> sums over what a ranking, the oracle or chance would escalate in every resample.

Resample 0 is the sample itself; then come the draws, then the sample without each of its units. The number of
slots and the oracle are those of each resample, so everything below compares like with like.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.progress import Watch, unwatched
from deepval.resampling import LEVEL, ROUNDING, Draws, Interval, without_each
from deepval.selection import top_sums
from deepval.values import ValueTable

KEEP_PRIZE = 0.25
"""A draw enters the nDG interval iff its oracle gain is at least this share of the full sample's."""
NEARLY_ZERO = 0.1
"""An all-cheap loss below this part of the sum of absolute decision values is too small to take shares of."""
LEAVE_OUT_UP_TO = 100
"""Most units for which each is left out in turn."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One allocator under one budget over resamples: index 0 is the full sample, then draws, then units left out."""

    gain: Float[np.ndarray, "resample"]
    benefit: Float[np.ndarray, "resample"]
    escalated: Float[np.ndarray, "resample"]


@dataclass(frozen=True, eq=False)
class Difference:
    """A paired difference of two gains over resamples.

    Attributes:
        loss: In units of the loss.
        share: As a share of the all-cheap loss. NaN in a draw whose all-cheap loss is not positive, unless the
            difference is 0 there; NaN everywhere if the all-cheap loss of the sample is not positive.
    """

    loss: Float[np.ndarray, "resample"]
    share: Float[np.ndarray, "resample"]


@dataclass(frozen=True)
class Versus:
    """What the draws say of a difference.

    Attributes:
        share: Its interval as a share of the all-cheap loss.
        loss: Its interval in units of the loss: over the draws that the share has, or all where it has none.
        dropped: Draws that the share leaves out for want of a positive all-cheap loss.
    """

    share: Interval
    loss: Interval
    dropped: int

    @property
    def verdict(self) -> Literal["better", "worse", "unresolved"] | None:
        """That of the share where it has an interval, else that of the loss; None where neither has one."""
        return self.share.verdict or self.loss.verdict


@dataclass(frozen=True, eq=False)
class Resamples:
    """A table under resampling of its units: what does not depend on the allocator.

    Attributes:
        table: The judged inputs.
        draws: The draws of units.
        counts: The full sample, the draws, and each unit left out (or none).
        inputs: Number of inputs in each resample.
        cheap_loss: All-cheap loss in each.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        benefits: Positive part of each input's decision value.
        watch: Who is told how far long loops are.
    """

    table: ValueTable
    draws: Draws
    counts: Float[np.ndarray, "resample unit"]
    inputs: Float[np.ndarray, "resample"]
    cheap_loss: Float[np.ndarray, "resample"]
    full_gain: Float[np.ndarray, "resample"]
    full_benefit: Float[np.ndarray, "resample"]
    benefits: Float[np.ndarray, "input"]
    watch: Watch = unwatched

    @classmethod
    def of(
        cls, table: ValueTable, draws: Draws, *, leave_out_up_to: int = LEAVE_OUT_UP_TO, watch: Watch = unwatched
    ) -> "Resamples":
        """Resamples of a table whose units are those of the draws; few enough units are also left out in turn."""
        units = len(table.unit_ids)
        left_out = without_each(units) if 1 < units <= leave_out_up_to else np.zeros((0, units))
        counts = np.vstack([np.ones((1, units)), draws.counts, left_out])
        benefits = np.maximum(table.decision_values, 0.0)
        per_unit = [
            np.bincount(table.unit, weights=weights, minlength=units)
            for weights in (None, table.losses[:, 0], table.decision_values, benefits)
        ]
        totals = np.ascontiguousarray((counts @ np.column_stack(per_unit)).T)
        return cls(table, draws, counts, *totals, benefits=benefits, watch=watch)

    @property
    def drawn(self) -> slice:
        """Where the draws stand among the resamples."""
        return slice(1, 1 + len(self.draws))

    @property
    def left_out(self) -> slice:
        """Where the left-out units stand among the resamples."""
        return slice(1 + len(self.draws), len(self.counts))

    def ranked(self, score: Float[np.ndarray, "input"], slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""
        quantities = self.table.decision_values, self.benefits
        sums = top_sums(score, quantities, self.table.unit, counts=self.counts, slots=slots)
        taken = np.minimum(slots, self.inputs[:, None])
        return [Sample(sums[:, b, 0], sums[:, b, 1], taken[:, b]) for b in range(slots.shape[1])]

    def best(
        self, slots: Int[np.ndarray, "resample budget"], values: Float[np.ndarray, "input"] | None = None
    ) -> list[Sample]:
        """Samples of the capacity oracle over values (the full mode's where None), one per column of `slots`."""
        values = self.table.decision_values if values is None else values
        positive = np.flatnonzero(values > 0)
        values, unit = values[positive], self.table.unit[positive]
        gain = top_sums(values, values[None], unit, counts=self.counts, slots=slots)[:, :, 0]
        available = self.counts @ np.bincount(unit, minlength=self.counts.shape[1])
        taken = np.minimum(slots, available[:, None])
        return [Sample(gain[:, b], gain[:, b], taken[:, b]) for b in range(slots.shape[1])]

    def at_random(self, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of random selection in exact expectation, k/N of everything."""
        taken = np.minimum(slots, self.inputs[:, None])
        share = taken / np.maximum(self.inputs, 1.0)[:, None]
        return [
            Sample(share[:, b] * self.full_gain, share[:, b] * self.full_benefit, taken[:, b])
            for b in range(slots.shape[1])
        ]

    def all_full(self) -> Sample:
        """Sample of escalating everything."""
        return Sample(self.full_gain, self.full_benefit, self.inputs)

    @property
    def size(self) -> Float[np.ndarray, "resample"]:
        """Sum of all absolute decision values in each resample."""
        return 2 * self.full_benefit - self.full_gain

    @property
    def resampled(self) -> bool:
        """Whether there are draws, and more than one unit to draw from."""
        return len(self.draws) > 0 and len(self.table.unit_ids) > 1

    def same(
        self, one: Float[np.ndarray, "resample"], other: Float[np.ndarray, "resample"]
    ) -> Bool[np.ndarray, "resample"]:
        """Whether two gains are equal but for the order of their sums: up to 1e-12 of all values."""
        return np.abs(one - other) <= ROUNDING * self.size

    def paired(self, one: Float[np.ndarray, "resample"], other: Float[np.ndarray, "resample"]) -> Difference:
        """The difference in each resample; what is 1e-12 of all values or less is 0: the same sum in another order."""
        loss = np.where(self.same(one, other), 0.0, one - other)
        positive = self.cheap_loss > 0
        share = np.divide(loss, self.cheap_loss, out=np.full(len(loss), np.nan), where=positive)
        share = np.where(~positive & (loss == 0), 0.0, share)
        return Difference(loss, share if positive[0] else np.full(len(loss), np.nan))

    def versus(self, difference: Difference) -> Versus:
        """Intervals and verdict of a difference over the draws."""
        share, loss = difference.share[self.drawn], difference.loss[self.drawn]
        defined = ~np.isnan(share) & self.resampled
        kept = defined if defined.any() else np.full(len(loss), self.resampled)
        return Versus(
            self.draws.interval(share, defined).snapped(),
            self.draws.interval(loss, kept).snapped(float(self.size[0])),
            int(np.count_nonzero(~defined)) if self.resampled and defined.any() else 0,
        )

    @cached_property
    def unit_shown(self) -> Literal["share", "loss"]:
        """The unit in which differences can be read: loss where the all-cheap loss is not positive or nearly zero.

        Nearly zero is less than a tenth of what escalating everything would change for better or worse (the sum of
        absolute decision values), in the sample or in so many draws that they reach the interval's bounds.
        """
        small = self.cheap_loss < NEARLY_ZERO * self.size
        often = self.draws.weight_of(small[self.drawn]) > (1 - LEVEL) / 2
        return "loss" if small[0] or often or not self.cheap_loss[0] > 0 else "share"

    def undefined(self) -> list[str]:
        """Why no difference has a share of the all-cheap loss, or an interval."""
        reasons = []
        if not self.cheap_loss[0] > 0:
            reasons.append("the all-cheap loss is not positive: no share of it")
        if not self.resampled:
            reasons.append("a single unit: no interval" if len(self.draws) else "no draws: no interval")
        return reasons

    def ndg(
        self, gain: Float[np.ndarray, "resample"], prize: Float[np.ndarray, "resample"]
    ) -> Float[np.ndarray, "resample"]:
        """Gain / oracle gain, NaN where the oracle gains nothing."""
        return np.divide(gain, prize, out=np.full(len(gain), np.nan), where=prize > 0)

    def prized(self, prize: Float[np.ndarray, "resample"]) -> Bool[np.ndarray, "draw"]:
        """Draws whose oracle gain is at least a quarter of the sample's: those that enter the nDG interval."""
        return prize[self.drawn] >= KEEP_PRIZE * prize[0] * (1 - 1e-12)
