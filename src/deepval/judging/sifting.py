"""Scores that come piece by piece -> exact sums over the highest of them in every draw, with few rows held at a time.

A sieve sums all rows by block and unit. Rows of blocks near a cut go to a temporary file, and only they are sorted.
Where a draw's cut falls elsewhere after all, the rows of that block are asked for in a second reading.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Num
from deepval.judging import kernel
from deepval.judging.agreement import TieAudit
from deepval.judging.kernel import Sieve, sorted_sums
from deepval.tables.joining import GroupedSpill

QUANTILES, WIDEST = 500, 2
"""Of the sample, that blocks may end at; and how many of them a block near a cut may span."""
SORTED = 1 << 20
"""Rows that are sorted at once, about."""
TAKEN = 1 << 22
"""Numbers of draws times budgets times blocks that are worked on at once."""
ROW = np.dtype([("score", np.float64), ("value", np.float64), ("unit", np.int32)])


class Cut(NamedTuple):
    """Where so many slots of the sample run out.

    Attributes:
        score: The lowest score that is taken.
        above: Number of rows above it, then sums of their quantities, by unit.
        tied: The same of the rows that have it.
    """

    score: float
    above: Float[np.ndarray, "column unit"]
    tied: Float[np.ndarray, "column unit"]

    def taken(self, slots: int) -> Float[np.ndarray, "column unit"]:
        """The same of what so many slots take in expectation over tie-breaks."""
        above, tied = (int(part[0].sum()) for part in (self.above, self.tied))
        return self.above + self.tied * ((slots - above) / tied)

    def audit(self, slots: int) -> TieAudit:
        """What ties decide of so many slots."""
        above, tied = (int(part[0].sum()) for part in (self.above, self.tied))
        return TieAudit(k=slots, above=above, tied=tied, slots=slots - above)


@dataclass(eq=False)
class Sifting:
    """One score of a table that is read piece by piece.

    Attributes:
        sieve: Sums of all rows by block.
        signed: Whether the sums are of values and of their positive parts, or of values alone.
        read_again: Reads the table again, to give `again` every piece.
        held: Blocks whose rows are held.
        wanted: Blocks whose rows the next reading shall hold.
        rows: The rows that are held, by block.
    """

    sieve: Sieve
    signed: bool
    read_again: Callable[[], None]
    held: Bool[np.ndarray, "block"] = field(init=False)
    wanted: Bool[np.ndarray, "block"] = field(init=False)
    rows: GroupedSpill = field(init=False)

    def __post_init__(self) -> None:
        self.wanted, self.held = self.sieve.near & ~self.sieve.single, np.zeros_like(self.sieve.near)
        self.rows = GroupedSpill(ROW, len(self.wanted))

    def add(
        self, score: Float[np.ndarray, "row"], value: Float[np.ndarray, "row"], unit: Int[np.ndarray, "row"]
    ) -> None:
        """Take in a piece of the rows."""
        step = max(kernel.WALK_ELEMENTS, self.sieve.tables[0].size)
        for first in range(0, len(score), step):
            part = slice(first, first + step)
            block = self.sieve.add(score[part], self._quantities(value[part]), unit[part])
            self._keep(block, score[part], value[part], unit[part])

    def again(
        self, score: Float[np.ndarray, "row"], value: Float[np.ndarray, "row"], unit: Int[np.ndarray, "row"]
    ) -> None:
        """Keep the wanted rows of a piece that was taken in before."""
        self._keep(self.sieve.blocks(score), score, value, unit)

    def read(self) -> None:
        """Note that every row has been given once more."""
        self.held, self.wanted = self.held | self.wanted, np.zeros_like(self.wanted)

    def want(self, counts: Float[np.ndarray, "draw unit"], slots: Int[np.ndarray, "draw budget"]) -> None:
        """Say what the next reading shall hold for these draws."""
        for part in self._pieces(slots):
            self.wanted |= self.sieve.sifted(counts[part], slots[part]).kept & ~self.held

    def sums(
        self, counts: Float[np.ndarray, "draw unit"], slots: Int[np.ndarray, "draw budget"]
    ) -> Float[np.ndarray, "draw budget quantity"]:
        """Expected sums of quantities over the highest scores, in every draw of units and for every number of slots."""
        self.want(counts, slots)
        self._complete()
        found = np.empty((*slots.shape, len(self.sieve.tables) - 1))
        for part in self._pieces(slots):
            sifted = self.sieve.sifted(counts[part], slots[part])
            found[part], left = sifted.sums, sifted.left
            for blocks in self._groups(sifted.kept):
                rows = self.rows.read(*blocks.tolist())
                score, value, unit = (np.ascontiguousarray(rows[name]) for name in ROW.names or ())
                weight = counts[part] @ self.sieve.tables[0][blocks].sum(axis=0)
                own = np.clip(left, 0.0, weight[:, None])
                left = left - own
                quantities = self._quantities(value)
                found[part] += sorted_sums(score, quantities, unit, counts=counts[part], slots=own)
        return found

    def cut(self, slots: int) -> Cut:
        """Where 1 to all slots of the sample run out."""
        tables = self.sieve.tables
        reached = np.cumsum(tables[0].sum(axis=1))
        block = int(np.searchsorted(reached, slots))
        above, own = tables[:, :block].sum(axis=1), tables[:, block]
        if self.sieve.single[block]:
            return Cut(float(self.sieve.edges[block]), above, own)
        rows = self.block(block)
        left = slots - int(reached[block] - own[0].sum())
        score = float(np.partition(rows["score"], len(rows) - left)[len(rows) - left])
        higher, tied = (self._per_unit(rows[which]) for which in (rows["score"] > score, rows["score"] == score))
        return Cut(score, above + higher, tied)

    def block(self, block: int) -> np.ndarray:
        """The rows of one block, which holds more than one value."""
        self.wanted[block] |= not self.held[block]
        self._complete()
        return self.rows.read(block)

    def _complete(self) -> None:
        if self.wanted.any():
            self.read_again()

    def _quantities(self, value: Float[np.ndarray, "row"]) -> list[Float[np.ndarray, "row"]]:
        return [value, np.maximum(value, 0.0)] if self.signed else [value]

    def _per_unit(self, rows: np.ndarray) -> Float[np.ndarray, "column unit"]:
        units = self.sieve.tables.shape[2]
        weights = (None, *self._quantities(rows["value"]))
        return np.stack([np.bincount(rows["unit"], weights=each, minlength=units) for each in weights]).astype(float)

    def _keep(
        self,
        block: Num[np.ndarray, "row"],
        score: Float[np.ndarray, "row"],
        value: Float[np.ndarray, "row"],
        unit: Int[np.ndarray, "row"],
    ) -> None:
        rows = np.flatnonzero(self.wanted[block])
        if not len(rows):
            return
        kept = np.empty(len(rows), dtype=ROW)
        kept["score"], kept["value"], kept["unit"] = score[rows], value[rows], unit[rows]
        self.rows.add(block[rows], kept)

    def _groups(self, kept: Bool[np.ndarray, "block"]) -> Iterator[Int[np.ndarray, "block"]]:
        """Kept blocks in order, so many at once as can be sorted."""
        blocks = np.flatnonzero(kept)
        size = np.cumsum(self.sieve.tables[0][blocks].sum(axis=1)) // SORTED
        return (blocks[size == each] for each in np.unique(size))

    def _pieces(self, slots: Int[np.ndarray, "draw budget"]) -> Iterator[slice]:
        step = max(1, TAKEN // (slots.shape[1] * len(self.held)))
        return (slice(first, first + step) for first in range(0, len(slots), step))


@dataclass(frozen=True, eq=False)
class SiftedScores:
    """An allocator's scores, sifted; never per mode.

    Attributes:
        name: The allocator's name.
        values: Its scores.
        modes: None.
    """

    name: str
    values: Sifting
    modes: tuple[str, ...] = ()
