"""A table and draws of its units -> sums over what a ranking, the oracle or chance would escalate in every resample.

Resample 0 is the sample itself; then come the draws, then the sample without each of its units. The number of
slots and the oracle are those of each resample, so everything below compares like with like.
"""

from dataclasses import dataclass, replace

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging.draws import Draws, concentration, make_draws, without_each
from deepval.judging.kernel import top_sums
from deepval.judging.oracle import oracle_sums
from deepval.judging.totals import Totals
from deepval.progress import Watch, unwatched
from deepval.tables.values import ValueTable

LEAVE_OUT_UP_TO = 100
"""Most units for which each is left out in turn."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One allocator under one budget over resamples: index 0 is the full sample, then draws, then units left out."""

    gain: Float[np.ndarray, "resample"]
    benefit: Float[np.ndarray, "resample"]
    escalated: Float[np.ndarray, "resample"]


@dataclass(frozen=True, eq=False)
class Resamples(Totals):
    """A table under resampling of its units: what does not depend on the allocator.

    Attributes:
        table: The judged inputs.
        counts: The full sample, the draws, and each unit left out (or none).
        inputs: Number of inputs in each resample.
        benefits: Positive part of each input's decision value.
        watch: Who is told how far long loops are.
    """

    table: ValueTable
    counts: Float[np.ndarray, "resample unit"]
    inputs: Float[np.ndarray, "resample"]
    benefits: Float[np.ndarray, "input"]
    watch: Watch = unwatched

    @classmethod
    def of(
        cls, table: ValueTable, draws: Draws, *, leave_out_up_to: int = LEAVE_OUT_UP_TO, watch: Watch = unwatched
    ) -> "Resamples":
        """Resamples of a table whose units are those of the draws; few enough units are also left out in turn."""
        units = len(table.unit_ids)
        left_out = without_each(units) if 1 < units <= leave_out_up_to else np.zeros((0, units))
        return cls._counted(table, draws, np.vstack([np.ones((1, units)), draws.counts, left_out]), watch)

    @classmethod
    def _counted(
        cls, table: ValueTable, draws: Draws, counts: Float[np.ndarray, "resample unit"], watch: Watch
    ) -> "Resamples":
        units, benefits = len(table.unit_ids), np.maximum(table.decision_values, 0.0)
        draws = replace(draws, counts=counts[1 : 1 + len(draws)])  # one array holds both
        per_unit = [
            np.bincount(table.unit, weights=weights, minlength=units)
            for weights in (None, table.losses[:, 0], table.decision_values, benefits)
        ]
        totals = np.ascontiguousarray((counts @ np.column_stack(per_unit)).T)
        inputs, cheap_loss, full_gain, full_benefit = totals
        ids = tuple(map(str, table.unit_ids))
        even = concentration(counts[0] * per_unit[-1], ids).effective_units
        return cls(ids, draws, cheap_loss, full_gain, full_benefit, even, table, counts, inputs, benefits, watch)

    def without(self, unit: int) -> "Resamples":
        """The resamples that judging without a unit would have: the other units, and as many draws of them."""
        units, drawn = len(self.unit_ids), self.draws
        others = make_draws(units - 1, "exact" if drawn.method == "exact" else len(drawn), drawn.seed or 0)
        others = replace(others, counts=np.insert(others.counts, unit, 0.0, axis=1))
        counts = np.vstack([without_each(units)[unit], others.counts])
        return self._counted(self.table, others, counts, self.watch)

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
        gain, taken = oracle_sums(values, self.table.unit, counts=self.counts, slots=slots)
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
