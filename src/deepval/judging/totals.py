"""Totals of a sample and of draws of its units -> paired differences, their intervals and their verdicts.

Resample 0 is the sample itself; then come the draws, then the sample without each of its units (or none).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from deepval.arrays import Bool, Float, Shaped
from deepval.judging.draws import LEVEL, ROUNDING, Draws, Interval, Verdict, cautious
from deepval.results import Reason, known
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums over inputs, and its 95 % interval over units.

    Attributes:
        value: The ratio; None where the whole is not positive.
        lo: Lower bound; None where there is no ratio, no draw or a single unit.
        hi: Upper bound.
        dropped: Draws in which the whole is not positive: they are left out of the interval.
    """

    value: float | None
    lo: float | None
    hi: float | None
    dropped: int


def ratio(
    table: ValueTable, part: Shaped[np.ndarray, "input"], whole: Shaped[np.ndarray, "input"], *, draws: Draws
) -> Ratio:
    """Sum of `part` / sum of `whole` over the inputs of a table whose units are those of the draws."""
    units = len(table.unit_ids)
    sums = np.column_stack(
        [np.bincount(table.unit, weights=one.astype(np.float64), minlength=units) for one in (part, whole)]
    )
    total = float(whole.sum())
    if not total > 0:
        return Ratio(None, None, None, 0)
    value = float(part.sum()) / total
    if units < 2 or not len(draws):
        return Ratio(value, None, None, 0)
    over, under = (draws.counts @ sums).T
    selected = under > 0
    samples = np.divide(over, under, out=np.full(len(over), np.nan), where=selected)
    interval = draws.interval(samples, selected)
    return Ratio(value, known(interval.low), known(interval.high), int(np.count_nonzero(~selected)))


KEEP_PRIZE = 0.25
"""A draw enters the nDG interval iff its oracle gain is at least this share of the full sample's."""
NEARLY_ZERO = 0.1
"""An all-cheap loss below this part of the sum of absolute decision values is too small to take shares of."""


@dataclass(frozen=True, eq=False)
class Difference:
    """A paired difference of two gains over resamples.

    Attributes:
        loss: In units of the loss.
        share: As a share of the all-cheap loss. NaN in a draw whose all-cheap loss is not positive, unless the
            difference is 0 there; NaN everywhere if the all-cheap loss of the sample is not positive.
    """

    loss: Float[np.ndarray, "*row resample"]
    share: Float[np.ndarray, "*row resample"]


@dataclass(frozen=True)
class Versus:
    """Intervals of a difference over the draws.

    Attributes:
        spread: Standard deviation of the share over the draws; NaN where it has none.
        share: Its interval as a share of the all-cheap loss.
        loss: Its interval in units of the loss: over the draws that the share has, or all where it has none.
        dropped: Draws that the share leaves out for want of a positive all-cheap loss.
        second_share: The second opinion's interval of the share.
        second_loss: The second opinion's interval of the loss.
    """

    spread: float
    share: Interval
    loss: Interval
    dropped: int
    second_share: Interval
    second_loss: Interval

    @property
    def verdict(self) -> Verdict | None:
        """That of the share where it has an interval, else that of the loss; None where neither has one."""
        return self.share.verdict or self.loss.verdict

    @property
    def second_verdict(self) -> Verdict | None:
        """The verdict of the second opinion."""
        return self.second_share.verdict or self.second_loss.verdict


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of every resample that do not depend on the allocator.

    Attributes:
        unit_ids: Ids of the units.
        draws: The draws of units.
        cheap_loss: All-cheap loss in each resample.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        effective_units: 1 / sum of squared shares of the possible gain by unit; NaN where there is none.
    """

    unit_ids: tuple[str, ...]
    draws: Draws
    cheap_loss: Float[np.ndarray, "resample"]
    full_gain: Float[np.ndarray, "resample"]
    full_benefit: Float[np.ndarray, "resample"]
    effective_units: float

    @property
    def drawn(self) -> slice:
        """The positions of the draws among the resamples."""
        return slice(1, 1 + len(self.draws))

    @property
    def size(self) -> Float[np.ndarray, "resample"]:
        """Sum of all absolute decision values in each resample."""
        return 2 * self.full_benefit - self.full_gain

    @property
    def resampled(self) -> bool:
        """Whether there are draws, and more than one unit to draw from."""
        return len(self.draws) > 0 and len(self.unit_ids) > 1

    def same(
        self, one: Float[np.ndarray, "*row resample"], other: Float[np.ndarray, "*row resample"]
    ) -> Bool[np.ndarray, "*row resample"]:
        """Whether two gains differ by rounding only: by at most 1e-12 of the sum of absolute values."""
        return np.abs(one - other) <= ROUNDING * self.size

    def paired(self, one: Float[np.ndarray, "*row resample"], other: Float[np.ndarray, "*row resample"]) -> Difference:
        """The difference in each resample. Differences below 1e-12 of the total are rounding error and set to 0."""
        return self.difference(np.where(self.same(one, other), 0.0, one - other))

    def difference(self, loss: Float[np.ndarray, "*row resample"]) -> Difference:
        """A difference in units of the loss, and as a share of the all-cheap loss."""
        positive = self.cheap_loss > 0
        share = np.full(loss.shape, np.nan)
        if positive[0]:
            np.divide(loss, self.cheap_loss, out=share, where=positive)
            share[~positive & (loss == 0)] = 0.0
        return Difference(loss, share)

    def share(self, gain: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
        """Gains of the sample as shares of its all-cheap loss; NaN where that is not positive."""
        gain = np.where(np.abs(gain) <= ROUNDING * self.size[0], 0.0, gain)
        return gain / self.cheap_loss[0] if self.cheap_loss[0] > 0 else np.full(len(gain), np.nan)

    def versus(self, difference: Difference) -> Versus:
        """Intervals and verdict of a difference over the draws."""
        return self.versus_each(Difference(difference.loss[None], difference.share[None]))[0]

    def versus_each(self, differences: Difference) -> list[Versus]:
        """Intervals and verdicts of several differences, one per row."""
        share, loss, defined, selected = self._defined(differences)
        size, some = float(self.size[0]), defined.any(axis=1, keepdims=True)
        dropped = np.count_nonzero(~defined & some, axis=1)
        points = differences.share[:, 0].tolist(), differences.loss[:, 0].tolist()
        results = []
        for point, of_loss_point, (of_share, spread), (of_loss, spread_of_loss), left_out in zip(
            *points,
            self._interval_and_spread(share, defined),
            self._interval_and_spread(loss, selected),
            dropped.tolist(),
            strict=True,
        ):
            second, second_of_loss = self._second(point, spread), self._second(of_loss_point, spread_of_loss)
            intervals = of_share.snapped(), of_loss.snapped(size)
            results.append(Versus(spread, *intervals, left_out, second.snapped(), second_of_loss.snapped(size)))
        return results

    def verdicts(self, differences: Difference) -> Sequence[Verdict | None]:
        """The verdicts of several differences, one per row, without the cost of all intervals."""
        share, loss, defined, selected = self._defined(differences)
        verdicts: list[Verdict | None] = [
            interval.snapped().verdict for interval in self.draws.intervals(share, defined)
        ]
        if None not in verdicts:
            return verdicts
        size, of_loss = float(self.size[0]), self.draws.intervals(loss, selected)
        return [verdict or interval.snapped(size).verdict for verdict, interval in zip(verdicts, of_loss, strict=True)]

    def _defined(self, differences: Difference) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Shares and losses in the draws, and the draws that each of them uses."""
        share, loss = differences.share[:, self.drawn], differences.loss[:, self.drawn]
        defined = ~np.isnan(share) & self.resampled
        return share, loss, defined, np.where(defined.any(axis=1, keepdims=True), defined, self.resampled)

    def _interval_and_spread(
        self, samples: Float[np.ndarray, "row draw"], selected: Bool[np.ndarray, "row draw"]
    ) -> Iterator[tuple[Interval, float]]:
        """Interval and standard deviation of each row over its selected draws."""
        spreads = self.draws.spreads(samples if selected.all() else np.where(selected, samples, np.nan))
        return zip(self.draws.intervals(samples, selected), spreads.tolist(), strict=True)

    def _second(self, point: float, spread: float) -> Interval:
        """The second opinion on a difference, from the draws in which it is defined."""
        return cautious(point, spread, units=len(self.unit_ids), effective=self.effective_units)

    @cached_property
    def unit_shown(self) -> Literal["share", "loss"]:
        """The unit in which differences can be read: loss where the all-cheap loss is not positive or nearly zero.

        Nearly zero means less than a tenth of the sum of absolute decision values, in the sample or in so many draws
        that they reach the interval's bounds.
        """
        small = self.cheap_loss < NEARLY_ZERO * self.size
        often = self.draws.weight_of(small[self.drawn]) > (1 - LEVEL) / 2
        return "loss" if small[0] or often or not self.cheap_loss[0] > 0 else "share"

    def undefined(self) -> list[Reason]:
        """The reasons why no difference has a share of the all-cheap loss, or an interval."""
        no_share = [] if self.cheap_loss[0] > 0 else [Reason.NO_SHARE]
        return no_share + ([] if self.resampled else [Reason.SINGLE_UNIT if len(self.draws) else Reason.NO_DRAWS])

    def ndg(
        self, gain: Float[np.ndarray, "*row resample"], prize: Float[np.ndarray, "*row resample"]
    ) -> Float[np.ndarray, "*row resample"]:
        """Gain / oracle gain, NaN where the oracle gains nothing."""
        return np.divide(gain, prize, out=np.full(gain.shape, np.nan), where=prize > 0)

    def prized(self, prize: Float[np.ndarray, "*row resample"]) -> Bool[np.ndarray, "*row draw"]:
        """Draws whose oracle gain is at least a quarter of the sample's: those that enter the nDG interval."""
        return prize[..., self.drawn] >= KEEP_PRIZE * prize[..., :1] * (1 - 1e-12)
