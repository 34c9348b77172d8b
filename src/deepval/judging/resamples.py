"""A table and draws of its units -> sums over the inputs that a ranking, the oracle or
chance escalates per resample.

Resample 0 is the sample itself; then come the draws, then the sample without each of
its units. The number of slots and the oracle are computed in each resample, so that
every comparison is made within one resample.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.judging.draws import (
    LEVEL,
    ROUNDING,
    Draws,
    Interval,
    Verdict,
    cautious,
    concentration,
    make_draws,
    without_each,
)
from deepval.judging.kernel import top_sums
from deepval.judging.oracle import oracle_gain, oracle_sums
from deepval.judging.sieve import SiftedScores
from deepval.judging.tie_expectations import SORT_UP_TO, tie_audits
from deepval.progress import Watch, unwatched
from deepval.results import Reason, known
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums over inputs, and its 95 % interval over units.

    Attributes:
        value: The ratio; None where the whole is not positive.
        lo: Lower bound; None where there is no ratio, no draw or a single unit.
        hi: Upper bound.
        dropped: Draws in which the whole is not positive: they are left out of the
            interval.
    """

    value: float | None
    lo: float | None
    hi: float | None
    dropped: int

    def columns(self, name: str) -> dict[str, Any]:
        """The ratio and its bounds as columns of this name."""
        return {name: self.value, f"{name}_lo": self.lo, f"{name}_hi": self.hi}


def ratio(
    table: ValueTable,
    part: Shaped[np.ndarray, "input"],
    whole: Shaped[np.ndarray, "input"],
    *,
    draws: Draws,
) -> Ratio:
    """Sum of `part` / sum of `whole` over the inputs of a table whose units are those
    of the draws.
    """
    units = len(table.unit_ids)
    sums = np.column_stack(
        [
            np.bincount(table.unit, weights=one.astype(np.float64), minlength=units)
            for one in (part, whole)
        ]
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
    return Ratio(
        value,
        known(interval.low),
        known(interval.high),
        int(np.count_nonzero(~selected)),
    )


KEEP_PRIZE = 0.25
"""A draw enters the nDG interval iff its oracle gain is at least this share of the full
sample's.
"""
NEARLY_ZERO = 0.1
"""An all-cheap loss below this part of the sum of absolute decision values is too small
to take shares of.
"""


@dataclass(frozen=True, eq=False)
class Difference:
    """A paired difference of two gains over resamples.

    Attributes:
        loss: In units of the loss.
        share: As a share of the all-cheap loss. NaN in a draw whose all-cheap loss is
            not positive, unless the difference is 0 there; NaN everywhere if the
            all-cheap loss of the sample is not positive.
    """

    loss: Float[np.ndarray, "*row resample"]
    share: Float[np.ndarray, "*row resample"]


@dataclass(frozen=True)
class Versus:
    """Intervals of a difference over the draws.

    Attributes:
        spread: Standard deviation of the share over the draws; NaN where the share is
            undefined.
        share: Its interval as a share of the all-cheap loss.
        loss: Its interval in units of the loss: over the draws in which the share is
            defined, or over all draws if it never is.
        dropped: Draws that the share leaves out for want of a positive all-cheap loss.
        second_share: The second opinion's interval of the share.
        second_loss: The second opinion's interval of the loss.
        verdict: The share's verdict if the share has an interval, otherwise the loss's;
            None if neither has one.
        second_verdict: The verdict of the second opinion.
    """

    spread: float
    share: Interval
    loss: Interval
    dropped: int
    second_share: Interval
    second_loss: Interval
    verdict: Verdict | None
    second_verdict: Verdict | None

    def estimates(self, other: str, difference: Difference) -> dict[str, Any]:
        """The fields of the difference with a reference of this name: as a share, and
        in units of the loss.
        """
        return {
            f"versus_{other}": self.share.estimate(difference.share[0]),
            f"versus_{other}_loss": self.loss.estimate(difference.loss[0]),
        }

    def fields(self, difference: Difference) -> dict[str, Any]:
        """The fields of a row or stream that compare it with random; `difference` has
        the points.
        """
        return {
            **self.estimates("random", difference),
            "versus_random_second": self.second_share.bounds,
            "versus_random_loss_second": self.second_loss.bounds,
            "verdict": self.verdict,
            "second_verdict": self.second_verdict,
            "versus_random_dropped": self.dropped,
        }


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of every resample that do not depend on the allocator.

    Attributes:
        unit_ids: Ids of the units.
        draws: The draws of units.
        cheap_loss: All-cheap loss in each resample.
        full_gain: Gain of escalating everything in each.
        full_benefit: Its positive part.
        effective_units: 1 / sum of squared shares of the possible gain by unit; NaN
            where there is none.
        drawn: The positions of the draws among the resamples.
        left_out: The positions of the resamples with a unit left out.
        resampled: Whether there are draws, and more than one unit to draw from.
        size: Sum of all absolute decision values in each resample.
    """

    unit_ids: tuple[str, ...]
    draws: Draws
    cheap_loss: Float[np.ndarray, "resample"]
    full_gain: Float[np.ndarray, "resample"]
    full_benefit: Float[np.ndarray, "resample"]
    effective_units: float

    drawn: slice = field(init=False)
    left_out: slice = field(init=False)
    resampled: bool = field(init=False)
    size: Float[np.ndarray, "resample"] = field(init=False)

    def __post_init__(self) -> None:
        draws = len(self.draws)
        object.__setattr__(self, "drawn", slice(1, 1 + draws))
        object.__setattr__(self, "left_out", slice(1 + draws, len(self.cheap_loss)))
        object.__setattr__(self, "resampled", draws > 0 and len(self.unit_ids) > 1)
        object.__setattr__(self, "size", 2 * self.full_benefit - self.full_gain)

    def same(
        self,
        one: Float[np.ndarray, "*row resample"],
        other: Float[np.ndarray, "*row resample"],
    ) -> Bool[np.ndarray, "*row resample"]:
        """Whether two gains differ by rounding only: by at most 1e-12 of the sum of
        absolute values.
        """
        return np.abs(one - other) <= ROUNDING * self.size

    def paired_difference(
        self,
        one: Float[np.ndarray, "*row resample"],
        other: Float[np.ndarray, "*row resample"],
    ) -> Difference:
        """The difference in each resample.

        Differences below 1e-12 of the total are rounding error and set to 0.
        """
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
        """Gains of the sample as shares of its all-cheap loss; NaN where that is not
        positive.
        """
        gain = np.where(np.abs(gain) <= ROUNDING * self.size[0], 0.0, gain)
        return (
            gain / self.cheap_loss[0]
            if self.cheap_loss[0] > 0
            else np.full(len(gain), np.nan)
        )

    def versus(self, difference: Difference) -> Versus:
        """Intervals and verdict of a difference over the draws."""
        return self.versus_each(
            Difference(difference.loss[None], difference.share[None])
        )[0]

    def versus_each(self, differences: Difference) -> list[Versus]:
        """Intervals and verdicts of several differences, one per row."""
        share, loss, defined, selected = self._defined(differences)
        dropped = np.count_nonzero(
            ~defined & defined.any(axis=1, keepdims=True), axis=1
        )
        columns = []
        # The scale of rounding errors is 1 for shares, and the sum of absolute values
        # for losses.
        for samples, chosen, points, scale in (
            (share, defined, differences.share[:, 0], 1.0),
            (loss, selected, differences.loss[:, 0], float(self.size[0])),
        ):
            spreads = self.draws.spreads(
                samples if chosen.all() else np.where(chosen, samples, np.nan)
            ).tolist()
            own = [
                interval.snap(scale)
                for interval in self.draws.intervals(samples, chosen)
            ]
            units, effective = len(self.unit_ids), self.effective_units
            second = [
                cautious(point, spread, units=units, effective=effective).snap(scale)
                for point, spread in zip(points.tolist(), spreads, strict=True)
            ]
            columns.append((spreads, own, second))
        (spreads, of_share, second), (_, of_loss, second_of_loss) = columns
        verdicts, second_verdicts = (
            [
                share.verdict or loss.verdict
                for share, loss in zip(shares, losses, strict=True)
            ]
            for shares, losses in ((of_share, of_loss), (second, second_of_loss))
        )
        intervals = of_share, of_loss, dropped.tolist(), second, second_of_loss
        return list(map(Versus, spreads, *intervals, verdicts, second_verdicts))

    def verdicts(self, differences: Difference) -> Sequence[Verdict | None]:
        """The verdicts of several differences, one per row, without the cost of all
        intervals.
        """
        share, loss, defined, selected = self._defined(differences)
        verdicts: list[Verdict | None] = [
            interval.snap().verdict for interval in self.draws.intervals(share, defined)
        ]
        if None not in verdicts:
            return verdicts
        size, of_loss = float(self.size[0]), self.draws.intervals(loss, selected)
        return [
            verdict or interval.snap(size).verdict
            for verdict, interval in zip(verdicts, of_loss, strict=True)
        ]

    def _defined(
        self, differences: Difference
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Shares and losses in the draws, and the draws that each of them uses."""
        share, loss = differences.share[:, self.drawn], differences.loss[:, self.drawn]
        defined = ~np.isnan(share) & self.resampled
        return (
            share,
            loss,
            defined,
            np.where(defined.any(axis=1, keepdims=True), defined, self.resampled),
        )

    @cached_property
    def unit_shown(self) -> Literal["share", "loss"]:
        """The unit in which differences can be read: loss where the all-cheap loss is
        not positive or nearly zero.

        Nearly zero means less than a tenth of the sum of absolute decision values, in
        the sample or in more than 2.5 % of the draws, enough to move a bound of the
        interval.
        """
        small = self.cheap_loss < NEARLY_ZERO * self.size
        often = self.draws.weight_of(small[self.drawn]) > (1 - LEVEL) / 2
        return "loss" if small[0] or often or not self.cheap_loss[0] > 0 else "share"

    def undefined(self) -> list[Reason]:
        """The reasons why no difference has a share of the all-cheap loss, or an
        interval.
        """
        no_share = [] if self.cheap_loss[0] > 0 else [Reason.NO_SHARE]
        return no_share + (
            []
            if self.resampled
            else [Reason.SINGLE_UNIT if len(self.draws) else Reason.NO_DRAWS]
        )

    def ndg(
        self,
        gain: Float[np.ndarray, "*row resample"],
        prize: Float[np.ndarray, "*row resample"],
    ) -> Float[np.ndarray, "*row resample"]:
        """Gain / oracle gain, NaN where the oracle gains nothing."""
        return np.divide(gain, prize, out=np.full(gain.shape, np.nan), where=prize > 0)

    def large_prizes(
        self, prize: Float[np.ndarray, "*row resample"]
    ) -> Bool[np.ndarray, "*row draw"]:
        """Draws whose oracle gain is at least a quarter of the sample's: those that
        enter the nDG interval.
        """
        return prize[..., self.drawn] >= KEEP_PRIZE * prize[..., :1] * (1 - 1e-12)


LEAVE_OUT_UP_TO = 100
"""Largest number of units at which each is left out in turn."""
Allocator = Scores | SiftedScores
"""An allocator with its scores in memory, or with sifted scores."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One allocator under one budget over resamples: index 0 is the full sample, then
    draws, then units left out.
    """

    gain: Float[np.ndarray, "resample"]
    benefit: Float[np.ndarray, "resample"]
    escalated: Float[np.ndarray, "resample"]


@dataclass(frozen=True, eq=False)
class Resampling(Totals, ABC):
    """Units under resampling: the part that depends neither on the allocator nor on the
    storage of the table.

    Attributes:
        modes: Names of the modes, cheap first, full last.
        per_unit: Number of inputs of each unit, their all-cheap loss, gain and benefit
            of escalating them all.
        counts: The full sample, the draws, and each unit left out (or none).
        inputs: Number of inputs in each resample.
        watch: Reports the progress of long loops.
    """

    modes: tuple[str, ...]
    per_unit: Float[np.ndarray, "unit total"]
    counts: Float[np.ndarray, "resample unit"]
    inputs: Float[np.ndarray, "resample"]
    watch: Watch

    def without(self, unit: int) -> "Resampling":
        """The resamples without a unit: the other units, and as many draws of them."""
        others = replace(
            self._fewer, counts=np.insert(self._fewer.counts, unit, 0.0, axis=1)
        )
        counts = np.vstack([without_each(len(self.unit_ids))[unit], others.counts])
        return replace(
            self, **resample_totals(self.unit_ids, self.per_unit, others, counts)
        )

    @cached_property
    def _fewer(self) -> Draws:
        """As many draws of one unit less; they are the same whichever unit is left
        out.
        """
        drawn = self.draws
        return make_draws(
            len(self.unit_ids) - 1,
            "exact" if drawn.method == "exact" else len(drawn),
            drawn.seed or 0,
        )

    @abstractmethod
    def ranking(
        self, scores: Allocator, slots: Int[np.ndarray, "resample budget"]
    ) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""

    @abstractmethod
    def best(self, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of the capacity oracle, one per column of `slots`."""

    @abstractmethod
    def tied_shares(self, scores: Allocator, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of that many highest scores of the sample
        that tie-breaks decide.
        """

    @abstractmethod
    def best_gain(self, slots: int) -> float:
        """What the capacity oracle gains in the sample."""

    def at_random(self, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of random selection in exact expectation, k/N of everything."""
        taken = np.minimum(slots, self.inputs[:, None])
        share = taken / np.maximum(self.inputs, 1.0)[:, None]
        return [
            Sample(
                share[:, b] * self.full_gain,
                share[:, b] * self.full_benefit,
                taken[:, b],
            )
            for b in range(slots.shape[1])
        ]


@dataclass(frozen=True, eq=False)
class Resamples(Resampling):
    """A table in memory under resampling of its units.

    Attributes:
        table: The judged inputs.
        benefits: Positive part of each input's decision value.
    """

    table: ValueTable
    benefits: Float[np.ndarray, "input"]

    @classmethod
    def of(
        cls,
        table: ValueTable,
        draws: Draws,
        *,
        leave_out_up_to: int = LEAVE_OUT_UP_TO,
        watch: Watch = unwatched,
    ) -> "Resamples":
        """Resamples of a table whose units are those of the draws; few enough units are
        also left out in turn.
        """
        units, benefits = len(table.unit_ids), table.benefits
        per_unit = [
            np.bincount(table.unit, weights=weights, minlength=units)
            for weights in (None, table.losses[:, 0], table.decision_values, benefits)
        ]
        counts, ids = (
            resample_counts(draws, units, leave_out_up_to=leave_out_up_to),
            tuple(map(str, table.unit_ids)),
        )
        totals = resample_totals(ids, np.column_stack(per_unit), draws, counts)
        return cls(
            **totals, modes=table.modes, watch=watch, table=table, benefits=benefits
        )

    def totals(
        self, quantity: Shaped[np.ndarray, "input"]
    ) -> Float[np.ndarray, "resample"]:
        """The sum of a quantity over the inputs of every resample."""
        return self.counts @ np.bincount(
            self.table.unit, weights=quantity, minlength=self.counts.shape[1]
        )

    def ranking(
        self, scores: Allocator, slots: Int[np.ndarray, "resample budget"]
    ) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""
        assert isinstance(scores, Scores)
        quantities, order = (
            (self.table.decision_values, self.benefits),
            order_of(scores),
        )
        sums = top_sums(
            scores.values,
            quantities,
            self.table.unit,
            counts=self.counts,
            slots=slots,
            order=order,
        )
        taken = np.minimum(slots, self.inputs[:, None])
        return [
            Sample(sums[:, b, 0], sums[:, b, 1], taken[:, b])
            for b in range(slots.shape[1])
        ]

    def best(
        self,
        slots: Int[np.ndarray, "resample budget"],
        values: Float[np.ndarray, "input"] | None = None,
    ) -> list[Sample]:
        """Samples of the capacity oracle over values (the full mode's where None), one
        per column of `slots`.
        """
        values = self.table.decision_values if values is None else values
        gain, taken = oracle_sums(
            values, self.table.unit, counts=self.counts, slots=slots
        )
        return [
            Sample(gain[:, b], gain[:, b], taken[:, b]) for b in range(slots.shape[1])
        ]

    def tied_shares(self, scores: Allocator, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of that many highest scores of the sample
        that tie-breaks decide.
        """
        assert isinstance(scores, Scores)
        return [
            audit.share for audit in tie_audits(scores.values, slots, order_of(scores))
        ]

    def best_gain(self, slots: int) -> float:
        """What the capacity oracle gains in the sample."""
        return oracle_gain(self.table.decision_values, slots)


def order_of(scores: Scores) -> Int[np.ndarray, "input"] | None:
    """The inputs by descending score; None where they are too many to be sorted."""
    return scores.order if len(scores.values) <= SORT_UP_TO else None


def in_memory(resamples: Resampling) -> Resamples:
    """The resamples with their table, for functions that are called for tables in
    memory only.
    """
    assert isinstance(resamples, Resamples)
    return resamples


def resample_counts(
    draws: Draws, units: int, *, leave_out_up_to: int
) -> Float[np.ndarray, "resample unit"]:
    """The full sample, the draws, and each unit left out where they are few enough."""
    left_out = (
        without_each(units) if 1 < units <= leave_out_up_to else np.zeros((0, units))
    )
    return np.vstack([np.ones((1, units)), draws.counts, left_out])


def resample_totals(
    unit_ids: tuple[str, ...],
    per_unit: Float[np.ndarray, "unit total"],
    draws: Draws,
    counts: Float[np.ndarray, "resample unit"],
) -> dict[str, Any]:
    """Totals of every resample, by the field names of `Resampling`, from the totals of
    every unit.
    """
    inputs, cheap_loss, full_gain, full_benefit = np.ascontiguousarray(
        (counts @ per_unit).T
    )
    return {
        "unit_ids": unit_ids,
        # a view of the same array
        "draws": replace(draws, counts=counts[1 : 1 + len(draws)]),
        "cheap_loss": cheap_loss,
        "full_gain": full_gain,
        "full_benefit": full_benefit,
        "effective_units": concentration(
            counts[0] * per_unit[:, -1], unit_ids
        ).effective_units,
        "per_unit": per_unit,
        "counts": counts,
        "inputs": inputs,
    }
