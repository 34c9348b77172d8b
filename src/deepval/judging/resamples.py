"""A table and draws of its units -> sums over the inputs that a ranking, the oracle or chance escalates per resample.

Resample 0 is the sample itself; then come the draws, then the sample without each of its units. The number of slots and
the oracle are computed in each resample, so that every comparison is made within one resample.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging.agreement import tie_audits
from deepval.judging.budgets import Allowance
from deepval.judging.draws import Draws, concentration, make_draws, without_each
from deepval.judging.kernel import top_sums
from deepval.judging.oracle import oracle_gain, oracle_sums
from deepval.judging.sifting import SiftedScores
from deepval.judging.ties import SORT_UP_TO
from deepval.judging.totals import Totals
from deepval.progress import Watch, silent
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

LEAVE_OUT_UP_TO = 100
"""Largest number of units at which each is left out in turn."""
Allocator = Scores | SiftedScores
"""An allocator with its scores in memory, or with sifted scores."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One allocator under one budget over resamples: index 0 is the full sample, then draws, then units left out."""

    gain: Float[np.ndarray, "resample"]
    benefit: Float[np.ndarray, "resample"]
    escalated: Float[np.ndarray, "resample"]


@dataclass(frozen=True, eq=False)
class Resampling(Totals, ABC):
    """Units under resampling: the part that depends neither on the allocator nor on the storage of the table.

    Attributes:
        modes: Names of the modes, cheap first, full last.
        per_unit: Number of inputs of each unit, their all-cheap loss, gain and benefit of escalating them all.
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
        others = replace(self._fewer, counts=np.insert(self._fewer.counts, unit, 0.0, axis=1))
        counts = np.vstack([without_each(len(self.unit_ids))[unit], others.counts])
        return replace(self, **drawn_totals(self.unit_ids, self.per_unit, others, counts))

    @cached_property
    def _fewer(self) -> Draws:
        """As many draws of one unit less; they are the same whichever unit is left out."""
        drawn = self.draws
        return make_draws(len(self.unit_ids) - 1, "exact" if drawn.method == "exact" else len(drawn), drawn.seed or 0)

    @property
    def left_out(self) -> slice:
        """The positions of the resamples with a unit left out."""
        return slice(1 + len(self.draws), len(self.counts))

    def allowed(self, allowance: Allowance) -> Allowance:
        """The allowance on the inputs that are resampled."""
        return allowance

    @abstractmethod
    def ranked(self, scores: Allocator, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""

    @abstractmethod
    def best(self, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of the capacity oracle, one per column of `slots`."""

    @abstractmethod
    def tied_shares(self, scores: Allocator, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of that many highest scores of the sample that tie-breaks decide."""

    @abstractmethod
    def best_gain(self, slots: int) -> float:
        """What the capacity oracle gains in the sample."""

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
        cls, table: ValueTable, draws: Draws, *, leave_out_up_to: int = LEAVE_OUT_UP_TO, watch: Watch = silent
    ) -> "Resamples":
        """Resamples of a table whose units are those of the draws; few enough units are also left out in turn."""
        units, benefits = len(table.unit_ids), table.benefits
        per_unit = [
            np.bincount(table.unit, weights=weights, minlength=units)
            for weights in (None, table.losses[:, 0], table.decision_values, benefits)
        ]
        counts, ids = resample_counts(draws, units, leave_out_up_to=leave_out_up_to), tuple(map(str, table.unit_ids))
        totals = drawn_totals(ids, np.column_stack(per_unit), draws, counts)
        return cls(**totals, modes=table.modes, watch=watch, table=table, benefits=benefits)

    def allowed(self, allowance: Allowance) -> Allowance:
        """The allowance on these inputs: where each has costs of its own, the means are theirs."""
        return allowance.on(self.table)

    def ranked(self, scores: Allocator, slots: Int[np.ndarray, "resample budget"]) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""
        assert isinstance(scores, Scores)
        quantities, order = (self.table.decision_values, self.benefits), order_of(scores)
        sums = top_sums(scores.values, quantities, self.table.unit, counts=self.counts, slots=slots, order=order)
        taken = np.minimum(slots, self.inputs[:, None])
        return [Sample(sums[:, b, 0], sums[:, b, 1], taken[:, b]) for b in range(slots.shape[1])]

    def best(
        self, slots: Int[np.ndarray, "resample budget"], values: Float[np.ndarray, "input"] | None = None
    ) -> list[Sample]:
        """Samples of the capacity oracle over values (the full mode's where None), one per column of `slots`."""
        values = self.table.decision_values if values is None else values
        gain, taken = oracle_sums(values, self.table.unit, counts=self.counts, slots=slots)
        return [Sample(gain[:, b], gain[:, b], taken[:, b]) for b in range(slots.shape[1])]

    def tied_shares(self, scores: Allocator, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of that many highest scores of the sample that tie-breaks decide."""
        assert isinstance(scores, Scores)
        return [audit.share for audit in tie_audits(scores.values, slots, order_of(scores))]

    def best_gain(self, slots: int) -> float:
        """What the capacity oracle gains in the sample."""
        return oracle_gain(self.table.decision_values, slots)


def order_of(scores: Scores) -> Int[np.ndarray, "input"] | None:
    """The inputs by descending score; None where they are too many to be sorted."""
    return scores.order if len(scores.values) <= SORT_UP_TO else None


def in_memory(resamples: Resampling) -> Resamples:
    """The resamples with their table, for functions that are called for tables in memory only."""
    assert isinstance(resamples, Resamples)
    return resamples


def resample_counts(draws: Draws, units: int, *, leave_out_up_to: int) -> Float[np.ndarray, "resample unit"]:
    """The full sample, the draws, and each unit left out where they are few enough."""
    left_out = without_each(units) if 1 < units <= leave_out_up_to else np.zeros((0, units))
    return np.vstack([np.ones((1, units)), draws.counts, left_out])


def drawn_totals(
    unit_ids: tuple[str, ...],
    per_unit: Float[np.ndarray, "unit total"],
    draws: Draws,
    counts: Float[np.ndarray, "resample unit"],
) -> dict[str, Any]:
    """Totals of every resample, by the field names of `Resampling`, from the totals of every unit."""
    inputs, cheap_loss, full_gain, full_benefit = np.ascontiguousarray((counts @ per_unit).T)
    return {
        "unit_ids": unit_ids,
        "draws": replace(draws, counts=counts[1 : 1 + len(draws)]),  # a view of the same array
        "cheap_loss": cheap_loss,
        "full_gain": full_gain,
        "full_benefit": full_benefit,
        "effective_units": concentration(counts[0] * per_unit[:, -1], unit_ids).effective_units,
        "per_unit": per_unit,
        "counts": counts,
        "inputs": inputs,
    }
