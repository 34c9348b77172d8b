"""A table and draws of its units -> the resamples on which everything is judged.

Inputs of one unit, such as the frames of one drive, are alike. To draw single inputs
would make every interval too narrow, so whole units are drawn: Field and Welsh,
"Bootstrapping clustered data", J. R. Stat. Soc. B 69 (2007).

A resample is a number of times that each unit occurs. Resample 0 is the sample itself;
then come the draws; then the sample without each of its units. Whatever is additive
over inputs is a product of these counts with sums by unit. Every comparison is made
within a resample, so that it is paired.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Counts, Float, InputFloats, PerResample, PerUnit
from deepval.basics.progress import Watch, unwatched
from deepval.judge.draws import Draws, make_draws
from deepval.judge.tables.costs import Convention
from deepval.judge.tables.values import ValueTable, is_right_or_wrong

LEAVE_OUT_UP_TO = 100
"""Largest number of units at which each is left out in turn."""


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of every resample: what differences of gains are measured by.

    A class of their own, because a saved result has these and no sums by unit.

    Attributes:
        unit_ids: Ids of the units.
        draws: The draws of units.
        cheap_loss: Loss of each resample if nothing is escalated.
        full_gain: Gain of escalating everything.
        full_benefit: The positive part of that gain.
        effective_units: Number of equal units over which the possible gain would be as
            uneven; NaN without a possible gain.
    """

    unit_ids: tuple[str, ...]
    draws: Draws
    cheap_loss: PerResample
    full_gain: PerResample
    full_benefit: PerResample
    effective_units: float

    @property
    def drawn(self) -> slice:
        """The positions of the draws among the resamples."""
        return slice(1, 1 + len(self.draws))

    @property
    def left_out(self) -> slice:
        """The positions of the resamples without a unit."""
        return slice(1 + len(self.draws), len(self.cheap_loss))

    @property
    def has_intervals(self) -> bool:
        """Whether there are draws, and more than one unit to draw from."""
        return len(self.draws) > 0 and len(self.unit_ids) > 1

    @cached_property
    def sum_of_sizes(self) -> PerResample:
        """Sum of all absolute decision values: the scale of rounding errors."""
        # gain = benefit - harm, and this is benefit + harm.
        return 2 * self.full_benefit - self.full_gain


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums over the inputs of each unit.

    Attributes:
        inputs: Number of inputs.
        cheap_loss: Loss if nothing is escalated.
        full_gain: Gain of escalating everything.
        full_benefit: The positive part of that gain.
    """

    inputs: PerUnit
    cheap_loss: PerUnit
    full_gain: PerUnit
    full_benefit: PerUnit

    @classmethod
    def of(cls, table: ValueTable) -> "UnitSums":
        """The sums of a table."""
        return cls(
            inputs=sums_by_unit(table, np.ones(len(table))),
            cheap_loss=sums_by_unit(table, table.losses[:, 0]),
            full_gain=sums_by_unit(table, table.decision_values),
            full_benefit=sums_by_unit(table, table.benefits),
        )


@dataclass(frozen=True, eq=False)
class Bootstrap(Totals):
    """Inputs under resampling of their units.

    Attributes:
        modes: Names of the modes, cheap first, full last.
        by_unit: Sums over the inputs of each unit.
        counts: How often each unit occurs in each resample.
        inputs: Number of inputs of each resample.
        rows: The judged inputs; None where they are larger than memory.
        has_rewards: Whether rewards were given, and not losses.
        is_right_or_wrong: Whether every loss is 0 or 1, or every reward.
        watch: Reports the progress of long loops.
    """

    modes: tuple[str, ...]
    by_unit: UnitSums
    counts: Counts
    inputs: PerResample
    rows: ValueTable | None
    has_rewards: bool
    is_right_or_wrong: bool
    watch: Watch

    @classmethod
    def of(
        cls,
        table: ValueTable,
        draws: Draws,
        *,
        leave_out: bool = True,
        watch: Watch = unwatched,
    ) -> "Bootstrap":
        """The resamples of a table in memory whose units are those of the draws."""
        counts = resample_counts(draws, len(table.unit_ids), leave_out=leave_out)
        unit_ids = tuple(map(str, table.unit_ids))
        sums = UnitSums.of(table)
        return cls.of_sums(
            unit_ids,
            table.modes,
            sums,
            draws,
            counts,
            rows=table,
            has_rewards=table.is_reward,
            is_right_or_wrong=is_right_or_wrong(table.losses),
            watch=watch,
        )

    @classmethod
    def of_sums(
        cls,
        unit_ids: tuple[str, ...],
        modes: tuple[str, ...],
        sums: UnitSums,
        draws: Draws,
        counts: Counts,
        *,
        rows: ValueTable | None,
        has_rewards: bool,
        is_right_or_wrong: bool,
        watch: Watch,
    ) -> "Bootstrap":
        """The resamples of inputs of which only the sums by unit are needed."""
        return cls(
            unit_ids=unit_ids,
            draws=draws,
            cheap_loss=counts @ sums.cheap_loss,
            full_gain=counts @ sums.full_gain,
            full_benefit=counts @ sums.full_benefit,
            # A unit that is left out of the sample has sums all the same.
            effective_units=effective_number(counts[0] * sums.full_benefit),
            modes=modes,
            by_unit=sums,
            counts=counts,
            inputs=counts @ sums.inputs,
            rows=rows,
            has_rewards=has_rewards,
            is_right_or_wrong=is_right_or_wrong,
            watch=watch,
        )

    def without(self, unit: int) -> "Bootstrap":
        """The resamples of all other units, with as many draws of them."""
        units = len(self.unit_ids)
        # The unit stays in the table and occurs in no resample, so scores and sums by
        # unit serve as they are.
        padded = np.insert(self._draws_of_the_others.counts, unit, 0.0, axis=1)
        sample = 1.0 - np.eye(units)[unit]
        return Bootstrap.of_sums(
            self.unit_ids,
            self.modes,
            self.by_unit,
            Draws(
                padded,
                self._draws_of_the_others.weights,
                self._draws_of_the_others.seed,
            ),
            np.vstack([sample, padded]),
            rows=self.rows,
            has_rewards=self.has_rewards,
            is_right_or_wrong=self.is_right_or_wrong,
            watch=self.watch,
        )

    @cached_property
    def _draws_of_the_others(self) -> Draws:
        """As many draws of one unit less: the same whichever unit is left out."""
        # New draws, because in those of all units this one takes a part of every draw.
        number = len(self.draws)
        if self.draws.method == "exact":
            return make_draws(len(self.unit_ids) - 1, "exact")
        return make_draws(len(self.unit_ids) - 1, number, self.draws.seed or 0)

    @property
    def table(self) -> ValueTable:
        """The judged inputs, for what needs single rows.

        Such questions are refused before the judgement where the inputs are larger
        than memory.
        """
        assert self.rows is not None
        return self.rows

    @property
    def cheap_always_runs(self) -> bool:
        """Whether the cheap output is needed on every input."""
        return self.rows is not None and self.rows.cheap_always_runs

    @cached_property
    def mode_gains(self) -> Float[np.ndarray, "mode resample"]:
        """The total decision value of each mode in every resample, 0 for cheap."""
        # With two modes the totals are there already, also of a table in files.
        if len(self.modes) == 2:
            return np.stack([np.zeros(len(self.inputs)), self.full_gain])
        values = self.table.mode_values
        return np.stack([self.totals(value) for value in values.T])

    @cached_property
    def total_costs(self) -> dict[Convention, Float[np.ndarray, "mode resample"]]:
        """What each mode costs on all inputs of every resample, by convention.

        Only where inputs have costs of their own.
        """
        return {
            convention: np.stack([self.totals(cost) for cost in costs.T])
            for convention, costs in self.table.input_costs.items()
        }

    def totals(self, amount: InputFloats) -> PerResample:
        """The sum of an amount over the inputs of every resample."""
        return self.counts @ sums_by_unit(self.table, amount)


def resample_counts(draws: Draws, units: int, *, leave_out: bool = True) -> Counts:
    """The sample, the draws, and the sample without each unit where they are few."""
    parts = [np.ones((1, units)), draws.counts]
    # One unit cannot be left out: nothing would remain.
    if leave_out and 1 < units <= LEAVE_OUT_UP_TO:
        parts.append(1.0 - np.eye(units))
    return np.vstack(parts)


def sums_by_unit(table: ValueTable, amount: InputFloats) -> PerUnit:
    """The sum of an amount over the inputs of every unit."""
    units = len(table.unit_ids)
    return np.bincount(table.unit, weights=amount, minlength=units).astype(np.float64)


def effective_number(parts: Float[np.ndarray, "part"]) -> float:
    """Number of equal parts that would be as uneven; NaN where there is no total.

    That is 1 / (sum of the squared shares of the parts).
    """
    positive = np.sort(parts[parts > 0])
    if not positive.sum() > 0:
        return float("nan")
    share = positive / parts.sum()
    return float(1 / (share @ share))


@dataclass(frozen=True, eq=False)
class Gains:
    """Sums over the inputs that a policy escalates, in every resample.

    Attributes:
        gain: Sum of decision values, in units of the loss.
        benefit: Sum of their positive parts.
        escalated: Expected number of inputs.
    """

    gain: PerResample
    benefit: PerResample
    escalated: PerResample

    @classmethod
    def of(cls, sums: Float[np.ndarray, "resample amount"]) -> "Gains":
        """The gains of sums of decision values, of benefits and of inputs."""
        gain, benefit, escalated = sums.T
        return cls(gain, benefit, escalated)

    @classmethod
    def nothing(cls, resamples: int) -> "Gains":
        """The gains of escalating nothing."""
        zeros = np.zeros(resamples)
        return cls(zeros, zeros, zeros)


class Cap(NamedTuple):
    """Gain of the causal cap, in units of the loss."""

    gain: float
    benefit: float
    harm: float


def gains_of_choices(bootstrap: Bootstrap, chance: InputFloats) -> Gains:
    """Gains of a policy that escalates every input with a fixed probability."""
    table = bootstrap.table
    return Gains(
        gain=bootstrap.totals(chance * table.decision_values),
        benefit=bootstrap.totals(chance * table.benefits),
        escalated=bootstrap.totals(chance),
    )


def gains_of_share(bootstrap: Bootstrap, share: PerResample) -> Gains:
    """Gains of escalating a random share of the inputs, in exact expectation."""
    return Gains(
        gain=share * bootstrap.full_gain,
        benefit=share * bootstrap.full_benefit,
        escalated=share * bootstrap.inputs,
    )
