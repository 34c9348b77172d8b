"""Scores that arrive piece by piece -> exact sums over the highest scores in every
draw, with few rows in memory.

A sieve sums all rows by block and unit. Rows of blocks near a cut go to a temporary
file, and only they are sorted. If the cut of a draw falls in another block, a second
reading stores the rows of that block.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import (
    Bool,
    BudgetSums,
    Counts,
    Float,
    Int,
    Num,
    PerRow,
    PerUnit,
    RowInts,
    Slots,
)
from deepval.judge import kernel
from deepval.judge.highest import Highest
from deepval.judge.kernel import Sieve, sorted_sums
from deepval.judge.rate_predictions import CutsWithout, cuts_without
from deepval.judge.tables.joins import GroupedSpill
from deepval.judge.tie_expectations import TieAudit

QUANTILES, WIDEST = 500, 2
"""Number of quantiles of the sample at which blocks may end, and how many a block near
a cut may span.
"""
SORTED = 1 << 20
"""About the number of rows that are sorted at a time."""
TAKEN = 1 << 22
"""Draws times budgets times blocks in one piece of work."""
ROW = np.dtype([("score", np.float64), ("value", np.float64), ("unit", np.int32)])


class Cut(NamedTuple):
    """The score at which the slots of the sample run out.

    Attributes:
        score: The lowest score that is taken.
        above: Number of rows above it, then the sums of their quantities, by unit.
        tied: The same for the rows with exactly this score.
    """

    score: float
    above: Float[np.ndarray, "column unit"]
    tied: Float[np.ndarray, "column unit"]

    def taken(self, slots: int) -> Float[np.ndarray, "column unit"]:
        """Number of rows that the slots take, then the sums of their quantities, in
        expectation over tie-breaks.
        """
        above, tied = (int(part[0].sum()) for part in (self.above, self.tied))
        return self.above + self.tied * ((slots - above) / tied)

    def audit(self, slots: int) -> TieAudit:
        """How many of the slots ties decide."""
        above, tied = (int(part[0].sum()) for part in (self.above, self.tied))
        return TieAudit(k=slots, above=above, tied=tied, slots=slots - above)


@dataclass(eq=False)
class Sifting:
    """One score of a table that is read piece by piece.

    Attributes:
        sieve: Sums of all rows by block.
        signed: Whether values and their positive parts are summed, or values alone.
        read_again: Reads the table again and passes every piece to `again`.
        stored: Blocks whose rows are stored.
        requested: Blocks whose rows the next reading stores.
        rows: The stored rows, by block.
    """

    sieve: Sieve
    signed: bool
    read_again: Callable[[], None]
    stored: Bool[np.ndarray, "block"] = field(init=False)
    requested: Bool[np.ndarray, "block"] = field(init=False)
    rows: GroupedSpill = field(init=False)

    def __post_init__(self) -> None:
        # Rows of equal score count in proportion, so those of a block with one score
        # need not be stored.
        self.requested, self.stored = (
            self.sieve.near & ~self.sieve.single,
            np.zeros_like(self.sieve.near),
        )
        self.rows = GroupedSpill(ROW, len(self.requested))

    def add(
        self,
        score: PerRow,
        value: PerRow,
        unit: RowInts,
    ) -> None:
        """Add a piece of the rows to the sums, and store the rows of requested
        blocks.
        """
        # Every call of the sieve adds a whole table, so a piece should not be smaller
        # than the table.
        step = max(kernel.WALK_ELEMENTS, self.sieve.tables[0].size)
        for first in range(0, len(score), step):
            part = slice(first, first + step)
            block = self.sieve.add(
                score[part], self._quantities(value[part]), unit[part]
            )
            self._keep(block, score[part], value[part], unit[part])

    def again(
        self,
        score: PerRow,
        value: PerRow,
        unit: RowInts,
    ) -> None:
        """Store the requested rows of a piece whose sums were added before."""
        self._keep(self.sieve.blocks(score), score, value, unit)

    def read(self) -> None:
        """Mark the end of a reading: the rows of all requested blocks are stored."""
        self.stored, self.requested = (
            self.stored | self.requested,
            np.zeros_like(self.requested),
        )

    def want(
        self,
        counts: Counts,
        slots: Slots,
    ) -> None:
        """Request the rows that these draws need from the next reading."""
        for part in self._pieces(slots):
            self.requested |= (
                self.sieve.sift(counts[part], slots[part]).partial & ~self.stored
            )

    def sums(
        self,
        counts: Counts,
        slots: Slots,
    ) -> Float[np.ndarray, "draw budget quantity"]:
        """Expected sums of quantities over the highest scores, in every draw of units
        and for every number of slots.
        """
        # The sample only estimates which blocks are cut; rows of others are read before
        # anything is summed.
        self.want(counts, slots)
        self._complete()
        sums = np.empty((*slots.shape, len(self.sieve.tables) - 1))
        for part in self._pieces(slots):
            sifted = self.sieve.sift(counts[part], slots[part])
            sums[part], left = sifted.sums, sifted.left
            for blocks in self._groups(sifted.partial):
                rows = self.rows.read(*blocks.tolist())
                score, value, unit = (
                    np.ascontiguousarray(rows[name]) for name in ROW.names or ()
                )
                # Groups go from the highest scores down, so each takes its share of the
                # slots that are left.
                weight = counts[part] @ self.sieve.tables[0][blocks].sum(axis=0)
                own = np.clip(left, 0.0, weight[:, None])
                left = left - own
                quantities = self._quantities(value)
                sums[part] += sorted_sums(
                    score, quantities, unit, counts=counts[part], slots=own
                )
        return sums

    def cut(self, slots: int) -> Cut:
        """The score at which the slots of the sample run out, for 1 slot up to all
        inputs.
        """
        tables = self.sieve.tables
        reached = np.cumsum(tables[0].sum(axis=1))
        block = int(np.searchsorted(reached, slots))
        above, own = tables[:, :block].sum(axis=1), tables[:, block]
        if self.sieve.single[block]:
            return Cut(float(self.sieve.edges[block]), above, own)
        # The cut is the `left`-th highest row of this block: all blocks above it are
        # taken whole.
        rows = self.block(block)
        left = slots - int(reached[block] - own[0].sum())
        score = float(np.partition(rows["score"], len(rows) - left)[len(rows) - left])
        higher, tied = (
            self._per_unit(rows[which])
            for which in (rows["score"] > score, rows["score"] == score)
        )
        return Cut(score, above + higher, tied)

    def cuts_without(self, slots: Int[np.ndarray, " unit"]) -> CutsWithout:
        """For every unit, where its slots run out among the rows of all others."""
        counts = self.sieve.tables[0]
        own_above = np.cumsum(counts, axis=0) - counts
        others = counts.sum(axis=1)[:, None] - counts
        others_upto = np.cumsum(others, axis=0)
        # Rounding cannot move a cut: these are sums of whole numbers.
        blocks = np.count_nonzero(others_upto < slots, axis=0)
        blocks = np.minimum(blocks, len(counts) - 1)
        # One reading stores the rows of all blocks that have a cut.
        self.requested[blocks] |= ~(self.stored | self.sieve.single)[blocks]
        self._complete()
        # A block with one score has its cut there; the rows of others are searched.
        units = np.arange(len(slots))
        cuts = CutsWithout(
            own_above[blocks, units],
            counts[blocks, units],
            (others_upto - others)[blocks, units],
            others[blocks, units],
        )
        for block in np.unique(blocks[~self.sieve.single[blocks]]).tolist():
            rows = self.rows.read(block)
            own = np.flatnonzero(blocks == block)
            within = cuts_without(
                np.ascontiguousarray(rows["score"]),
                np.ascontiguousarray(rows["unit"]),
                above=own_above[block],
                slots=slots[own],
                left_out=own,
            )
            for part, of_block in zip(cuts, within, strict=True):
                part[own] = of_block
        return cuts

    def block(self, block: int) -> np.ndarray:
        """The rows of one block that contains more than one score."""
        self.requested[block] |= not self.stored[block]
        self._complete()
        return self.rows.read(block)

    def _complete(self) -> None:
        if self.requested.any():
            self.read_again()

    def _quantities(self, value: PerRow) -> list[PerRow]:
        return [value, np.maximum(value, 0.0)] if self.signed else [value]

    def _per_unit(self, rows: np.ndarray) -> Float[np.ndarray, "column unit"]:
        units = self.sieve.tables.shape[2]
        weights = (None, *self._quantities(rows["value"]))
        return np.stack(
            [
                np.bincount(rows["unit"], weights=weight, minlength=units)
                for weight in weights
            ]
        ).astype(float)

    def _keep(
        self,
        block: Num[np.ndarray, "row"],
        score: PerRow,
        value: PerRow,
        unit: RowInts,
    ) -> None:
        rows = np.flatnonzero(self.requested[block])
        if not len(rows):
            return
        records = np.empty(len(rows), dtype=ROW)
        records["score"], records["value"], records["unit"] = (
            score[rows],
            value[rows],
            unit[rows],
        )
        self.rows.add(block[rows], records)

    def _groups(
        self, partial: Bool[np.ndarray, "block"]
    ) -> Iterator[Int[np.ndarray, "block"]]:
        """Partial blocks in order, in groups that are small enough to be sorted."""
        blocks = np.flatnonzero(partial)
        size = np.cumsum(self.sieve.tables[0][blocks].sum(axis=1)) // SORTED
        return (blocks[size == group] for group in np.unique(size))

    def _pieces(self, slots: Slots) -> Iterator[slice]:
        step = max(1, TAKEN // (slots.shape[1] * len(self.stored)))
        return (slice(first, first + step) for first in range(0, len(slots), step))


@dataclass(frozen=True, eq=False)
class SiftedScores(Highest):
    """Scores of inputs in files.

    Attributes:
        values: The scores, sifted.
    """

    values: Sifting

    def sums(self, counts: Counts, slots: Slots) -> BudgetSums:
        """Expected gain and benefit of the highest scores in every resample."""
        return self.values.sums(counts, slots)

    def tied_shares(self, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of the selection that ties decide."""
        return [self.values.cut(number).audit(number).share for number in slots]

    def gain_by_unit(self, slots: int) -> PerUnit:
        """The gain in each unit of the sample over the highest scores."""
        if slots == 0:
            return np.zeros(self.values.sieve.tables.shape[2])
        return self.values.cut(slots).taken(slots)[1]
