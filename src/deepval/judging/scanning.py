"""A table and scores that stay in their files, and draws of units -> resamples, by reading the files once or twice.

The first reading sums by unit everything that does not depend on an order, and sifts the scores and the decision
values. If a cut falls in a block whose rows were not stored, a second reading stores them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.judging import sifting
from deepval.judging.kernel import Sieve
from deepval.judging.resamples import Allocator, Resampling, Sample
from deepval.judging.sifting import SiftedScores, Sifting
from deepval.progress import Watch
from deepval.tables.chunks import CHUNK
from deepval.tables.scans import ScannedScores, ScannedTable

Slots = Int[np.ndarray, "resample budget"]


@dataclass(frozen=True, eq=False)
class ScannedResamples(Resampling):
    """A table under resampling of its units whose rows are not in memory.

    Attributes:
        oracle: The positive decision values of the table, sifted.
    """

    oracle: Sifting

    def ranked(self, scores: Allocator, slots: Slots) -> list[Sample]:
        """Samples of the highest scores, one per column of `slots`."""
        assert isinstance(scores, SiftedScores)
        sums, taken = scores.values.sums(self.counts, slots), np.minimum(slots, self.inputs[:, None])
        return [Sample(sums[:, b, 0], sums[:, b, 1], taken[:, b]) for b in range(slots.shape[1])]

    def best(self, slots: Slots) -> list[Sample]:
        """Samples of the capacity oracle, one per column of `slots`."""
        gain = self.oracle.sums(self.counts, slots)[:, :, 0]
        available = self.counts @ self.oracle.sieve.tables[0].sum(axis=0)
        taken = np.minimum(slots, available[:, None])
        return [Sample(gain[:, b], gain[:, b], taken[:, b]) for b in range(slots.shape[1])]

    def tied_shares(self, scores: Allocator, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of that many highest scores of the sample that tie-breaks decide."""
        assert isinstance(scores, SiftedScores)
        return [scores.values.cut(number).audit(number).share for number in slots]

    def best_gain(self, slots: int) -> float:
        """Gain of the capacity oracle in the sample."""
        return float(self.oracle.sums(self.counts[:1], np.array([[slots]]))[0, 0, 0])


@dataclass
class Facts:
    """Counts and sums of a reading that do not depend on the allocator.

    Attributes:
        scale: A bound on the size of decision values. Values are divided by it before squaring, so that none overflows.
        affected: Judged inputs whose loss the full mode changes.
        harmful: Judged inputs whose loss the full mode raises.
        benefit: Sum of the positive decision values of judged inputs.
        harm: Sum of the negative decision values of judged inputs, as a positive number.
        squares: Sum of squares of the positive decision values of judged inputs, each as a share of `scale`.
        top: The largest decision value of a judged input, 0 where none is positive.
        top_row: Its row.
        gain: Sum of decision values over all inputs, judged or not.
        every_benefit: Sum of the positive decision values of all inputs.
        every_harm: Sum of the negative decision values of all inputs, as a positive number.
    """

    scale: float
    affected: int = 0
    harmful: int = 0
    benefit: float = 0.0
    harm: float = 0.0
    squares: float = 0.0
    top: float = 0.0
    top_row: int | None = None
    gain: float = 0.0
    every_benefit: float = 0.0
    every_harm: float = 0.0

    def note(self, values: Float[np.ndarray, "row"], judged: Bool[np.ndarray, "row"], first: int) -> None:
        """Add a piece of the rows, of which some are judged; `first` is its first row."""
        own = values if judged.all() else values[judged]
        self.gain += float(values.sum())
        self.every_benefit += float(values.sum(where=values > 0))
        self.every_harm -= float(values.sum(where=values < 0))
        if not len(own):
            return
        helpful, harmful = own > 0, own < 0
        self.affected += int(np.count_nonzero(helpful) + np.count_nonzero(harmful))
        self.harmful += int(np.count_nonzero(harmful))
        positive = own[helpful]
        self.benefit += float(positive.sum())
        self.harm -= float(own.sum(where=harmful))
        share = positive / self.scale
        self.squares += float(share @ share)
        if len(positive) and positive.max() > self.top:
            self.top = float(positive.max())
            self.top_row = first + int(np.argmax(np.where(judged, values, -math.inf)))


@dataclass(eq=False)
class Scan:
    """Reads a table and its scores, as often as the draws need.

    Attributes:
        table: The losses.
        scores: The scores.
        watch: Reports the progress of a reading.
        facts: Counts and sums of the first reading.
        per_unit: Number of inputs of each unit, their all-cheap loss, gain and benefit of escalating them all.
        oracle: The positive decision values, sifted.
        rankings: The scores, sifted.
        readings: Number of readings so far.
    """

    table: ScannedTable
    scores: Sequence[ScannedScores]
    watch: Watch
    facts: Facts = field(init=False)
    per_unit: Float[np.ndarray, "unit total"] = field(init=False)
    oracle: Sifting = field(init=False)
    rankings: list[SiftedScores] = field(init=False)
    readings: int = 0

    def read(
        self,
        counts: Float[np.ndarray, "resample unit"],
        best: Int[np.ndarray, "resample of_oracle"],
        ranked: Sequence[Slots],
    ) -> None:
        """Read everything once, and once more if rows at the cuts of these slots were not stored.

        Args:
            counts: How often each resample contains each unit.
            best: Slots of the oracle.
            ranked: Slots of each score.
        """
        table = self.table
        self.facts = Facts(scale=2 * table.largest or 1.0)  # a difference of two losses is at most twice the largest
        helpful = np.flatnonzero(table.sample > 0)
        self.oracle = self._sifting(table.sample[helpful], table.sample_unit[helpful], counts, best, signed=False)
        self.rankings = [
            SiftedScores(item.name, self._sifting(item.sample, table.sample_unit, counts, slots, signed=True))
            for item, slots in zip(self.scores, ranked, strict=True)
        ]
        units = len(table.unit_ids)
        totals = np.zeros((3, units))
        first = 0
        for losses, values, unit, scores in self._pieces():
            judged = unit >= 0
            self.facts.note(values, judged, first)
            first += len(values)
            if not judged.all():
                losses, values, unit, *scores = (array[judged] for array in (losses, values, unit, *scores))
            for total, weights in zip(totals, (losses, values, np.maximum(values, 0.0)), strict=True):
                total += np.bincount(unit, weights=weights, minlength=units)
            up = np.flatnonzero(values > 0)  # the oracle escalates no input that it would make worse
            self.oracle.add(values[up], values[up], unit[up])
            for ranking, score in zip(self.rankings, scores, strict=True):
                ranking.values.add(score, values, unit)
        self.per_unit = np.column_stack([table.sizes, *totals])
        for column in self._siftings():
            column.read()
        for column, slots in zip(self._siftings(), (best, *ranked), strict=True):
            column.want(counts, slots)
        if any(column.requested.any() for column in self._siftings()):
            self.read_again()

    def read_again(self) -> None:
        """Read everything once more and store the rows of requested blocks."""
        oracle, *rankings = ((column, bool(column.requested.any())) for column in self._siftings())
        for _, values, unit, scores in self._pieces(only=[requested for _, requested in rankings]):
            judged = unit >= 0
            if oracle[1]:
                up = np.flatnonzero(judged & (values > 0))
                oracle[0].again(values[up], values[up], unit[up])
            chosen = (column for column, requested in rankings if requested)
            for column, score in zip(chosen, scores, strict=True):
                column.again(score[judged], values[judged], unit[judged])
        for column in self._siftings():
            column.read()

    def _siftings(self) -> list[Sifting]:
        return [self.oracle, *(item.values for item in self.rankings)]

    def _sifting(
        self,
        sample: Float[np.ndarray, "row"],
        unit: Int[np.ndarray, "row"],
        counts: Float[np.ndarray, "resample unit"],
        slots: Slots,
        *,
        signed: bool,
    ) -> Sifting:
        sieve = Sieve.over(
            sample,
            unit,
            step=self.table.step,
            counts=counts,
            slots=slots,
            quantities=1 + signed,
            quantiles=sifting.QUANTILES,
            widest=sifting.WIDEST,
        )
        return Sifting(sieve, signed, self.read_again)

    def _pieces(
        self, only: Sequence[bool] | None = None
    ) -> Iterator[
        tuple[
            Float[np.ndarray, "row"],
            Float[np.ndarray, "row"],
            Int[np.ndarray, "row"],
            list[Float[np.ndarray, "row"]],
        ]
    ]:
        """All-cheap losses, decision values, units and scores (those marked in `only`), CHUNK rows at a time."""
        self.readings += 1
        chosen = [item for item, taken in zip(self.scores, only or [True] * len(self.scores), strict=True) if taken]
        losses, units, scores = self.table.losses(), self.table.unit(), [item.chunks() for item in chosen]
        number = math.ceil(len(self.table.parts) / CHUNK)
        for _ in self.watch(range(number), "reading the table" if self.readings == 1 else "reading the table again"):
            cheap, full = next(losses)
            yield cheap, cheap - full, next(units), [next(chunks) for chunks in scores]
