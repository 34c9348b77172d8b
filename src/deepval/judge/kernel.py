"""The bootstrap kernel: sums over the highest scores, in every draw of units at once.

A draw repeats whole units, and of its rows the `slots` highest are taken. To sort every
draw would cost most of the time, so rows are sorted once:

1. The sorted rows are cut into blocks. One matrix product of the counts of the draws
   with the rows by unit gives the number of rows before every block.
2. A search finds the block in which the slots of each draw run out.
3. All blocks before it count in full: their sums by unit, weighted by the counts.
4. Rows are visited one by one only in that one block.

Equal scores are ties. Groups above the cut count in full, the group at the cut counts
in proportion to the slots that are left: the mean over all ways to break the tie. A
block never splits a group, so this is decided within one block. All of it is exact:
only the order of the additions differs from a naive loop.

Above `SORT_UP_TO` rows, a `Sieve` comes first: it sums the rows by block without
sorting them, so that only the rows of the few blocks in which some draw's slots run out
are sorted.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import (
    Bool,
    Float,
    InputFloats,
    InputInts,
    InputNumbers,
    Int,
    Num,
)
from deepval.judge.tie_expectations import SAMPLE, SORT_UP_TO

EDGES = 120
"""Quantiles of a sample that bound the blocks.

Frequent values at most double their number, which fits in a byte.
"""
MOST_COMPARED = 2 * EDGES
"""Largest number of edges that scores are compared with one by one; beyond it a binary
search is used.
"""
WALK_ELEMENTS = 1 << 16
"""Rows that a sieve adds at a time."""
CUT_ELEMENTS = 1 << 15
"""Numbers in one piece of work: few enough to stay in the cache and to reuse the same
memory.
"""
REACH_ELEMENTS = 1 << 18
"""Numbers in one product of draws and blocks, most of them in single precision."""
COPIED_ELEMENTS = 1 << 23
"""Counts of units in draws that are copied to other types at a time: 16 bytes per
count.
"""
ABREAST = 16
"""Blocks that are skipped together in the search for a cut."""
ONE_THREAD = 1 << 18
"""Multiplications up to which BLAS keeps a product on one thread."""

FREED_BYTES = 1 << 23
"""Freed memory that the process keeps for its next arrays."""

DrawCounts = Float[np.ndarray, "draw unit"]
"""How often each draw contains each unit."""
DrawSlots = Int[np.ndarray, "draw budget"]
QuantitySums = Float[np.ndarray, "draw budget quantity"]
Quantities = Float[np.ndarray, "quantity input"] | Sequence[InputFloats]


def keep_freed_memory() -> None:
    """Let the process reuse the memory of freed arrays.

    A judgement makes thousands of arrays of up to a megabyte. The allocator of Linux
    returns such memory to the system at once, and to find it again takes as long as to
    compute with it. Once an array of some size was freed, it keeps as much: the size is
    never touched here, so nothing is paid for it. Elsewhere this does nothing.
    """
    np.empty(FREED_BYTES, dtype=np.uint8)


def top_sums(
    score: InputFloats,
    quantities: Quantities,
    unit: InputInts,
    *,
    counts: DrawCounts,
    slots: DrawSlots,
    order: InputInts | None = None,
) -> QuantitySums:
    """Expected sums of quantities over the highest scores, in every draw of units and
    for every number of slots.

    A draw repeats each unit's inputs `counts` times. With more slots than inputs, all
    inputs are taken. Up to `SORT_UP_TO` scores are sorted, unless `order` is passed;
    above it a sieve leaves only the rows near a cut to sort.
    """
    if len(score) <= SORT_UP_TO:
        return sorted_sums(
            score,
            quantities,
            unit,
            counts=counts,
            slots=slots.astype(np.float64),
            order=order,
        )
    step = math.ceil(len(score) / SAMPLE)
    sieve = Sieve.over(
        score[::step],
        unit[::step],
        step=step,
        counts=counts,
        slots=slots,
        quantities=len(quantities),
    )
    # a byte is enough: there are at most MOST_COMPARED edges
    block = np.empty(len(score), dtype=np.uint8)
    for first in range(0, len(score), WALK_ELEMENTS):
        part = slice(first, first + WALK_ELEMENTS)
        block[part] = sieve.add(
            score[part], [quantity[part] for quantity in quantities], unit[part]
        )
    # `sifted.sums` covers all blocks except the partial ones; `sifted.left` is the
    # number of slots left for those.
    sifted = sieve.sift(counts, slots)
    rows = np.flatnonzero(sifted.partial[block])
    partial = [quantity[rows] for quantity in quantities]
    return sifted.sums + sorted_sums(
        score[rows], partial, unit[rows], counts=counts, slots=sifted.left
    )


def sorted_sums(
    score: InputFloats,
    quantities: Quantities,
    unit: InputInts,
    *,
    counts: DrawCounts,
    slots: Float[np.ndarray, "draw budget"],
    order: InputInts | None = None,
) -> QuantitySums:
    """`top_sums` for rows that are few enough to be sorted."""
    # contiguous over draws
    sums = np.zeros((slots.shape[1], len(quantities), len(slots))).transpose(2, 0, 1)
    if len(score) == 0:
        return sums
    # Any order within a tie group will do: blocks do not split groups, and a group that
    # is cut counts in proportion.
    if order is None:
        order = np.argsort(-score)
    blocks = _blocks(
        score, quantities, unit, order, units=counts.shape[1], budgets=slots.shape[1]
    )
    # A piece of draws must fit both limits: the product with the blocks and the copies
    # of its counts.
    width = max(len(blocks.kind), counts.shape[1] * REACH_ELEMENTS // COPIED_ELEMENTS)
    for part in _pieces(len(counts), width, most=REACH_ELEMENTS):
        sums[part] = _block_sums(
            blocks, _Drawn.of(counts[part], blocks.upto[-1, 0]), slots[part]
        )
    return sums


def sums_before_blocks(
    columns: Float[np.ndarray, "row column"],
    unit: Int[np.ndarray, "row"],
    *,
    size: int,
    units: int,
) -> Float[np.ndarray, "bound column unit"]:
    """Sums of columns by unit over all rows before each block of `size` rows, then over
    all rows.
    """
    blocks = -(-len(columns) // size)
    key = (np.arange(len(columns)) // size) * units + unit
    upto = np.zeros((blocks + 1, columns.shape[1], units))
    for column, weights in enumerate(columns.T):
        own = np.bincount(key, weights=weights, minlength=blocks * units).reshape(
            blocks, units
        )
        np.cumsum(own, axis=0, out=upto[1:, column])
    return upto


def _per_unit(
    key: InputInts, quantities: Quantities, *, blocks: int, units: int
) -> Float[np.ndarray, "column block unit"]:
    """Number of rows of every unit in every block, then the sums of their quantities;
    key = block * units + unit.
    """
    tables = np.empty((1 + len(quantities), blocks * units))
    for table, weight in zip(tables, (None, *quantities), strict=True):
        table[:] = np.bincount(key, weights=weight, minlength=blocks * units)
    return tables.reshape(-1, blocks, units)


def _abreast(
    draws: int, bounds: int, dtype: type
) -> Float[np.ndarray, "draw padded_bound"]:
    """An empty array for the rows reached by each bound, padded with infinity to a
    multiple of `ABREAST`.
    """
    room = np.empty((draws, (bounds // ABREAST + 1) * ABREAST), dtype=dtype)
    room[:, bounds:] = np.inf
    return room


def _cut_block(
    reached: Float[np.ndarray, "draw padded_bound"],
    slots: Num[np.ndarray, "draw budget"],
) -> DrawSlots:
    """First block by whose end the slots are filled; the number of blocks where they
    are never filled.

    The search takes two steps over all draws at once: first the last bound of each
    group of `ABREAST`, then all bounds of the one group that contains the cut.
    """
    target = slots.astype(reached.dtype)[:, :, None]
    groups = reached.reshape(len(reached), -1, ABREAST)
    # `reached` never falls, so the first False is where the slots are filled; the
    # infinite padding ensures one.
    group = (groups[:, None, :, -1] < target).argmin(axis=2)
    # A flat position is looked up several times faster than a pair of indices.
    first = np.arange(len(reached))[:, None] * groups.shape[1]
    bounds = reached.reshape(-1, ABREAST).take(group + first, axis=0)
    within = (bounds < target).argmin(axis=2)
    # Without slots the search ends before the first block.
    return np.maximum(group * ABREAST + within - 1, 0)


class Sifted(NamedTuple):
    """Result of a sieve to which every row has been added.

    Attributes:
        partial: Blocks of which some draw takes only a part, so that their rows are
            needed.
        left: Slots of each draw that remain for the rows of partial blocks.
        sums: Sums over the rows of all other blocks that each draw takes.
        taken: Number of rows that the first draw takes from every other block under
            each budget.
    """

    partial: Bool[np.ndarray, "block"]
    left: Float[np.ndarray, "draw budget"]
    sums: QuantitySums
    taken: Float[np.ndarray, "budget block"]


@dataclass(frozen=True, eq=False)
class Sieve:
    """Rows that arrive piece by piece -> sums over all rows but the few on which the
    cut of some draw may fall.

    A block is an interval of scores: block i covers edges[i] <= score < edges[i-1]. One
    matrix product gives the weight of every block in every draw. Rows are needed only
    for a block that some draw takes in part, unless all rows of the block have the same
    score: then every row counts in proportion.

    Attributes:
        edges: Descending edges of the blocks.
        near: Blocks on or beside which a sample of the rows puts a cut. They only guide
            the search.
        single: Blocks that can contain one score only.
        tables: Number of rows of every unit in every block, then the sums of their
            quantities.
    """

    edges: Float[np.ndarray, "edge"]
    near: Bool[np.ndarray, "block"]
    single: Bool[np.ndarray, "block"]
    tables: Float[np.ndarray, "column block unit"]

    @classmethod
    def over(
        cls,
        sample: Float[np.ndarray, "row"],
        unit: Int[np.ndarray, "row"],
        *,
        step: int,
        counts: DrawCounts,
        slots: DrawSlots,
        quantities: int,
        quantiles: int = EDGES,
        widest: int | None = None,
    ) -> "Sieve":
        """A sieve whose blocks are narrow where a sample of one row in `step` puts the
        cuts.

        Args:
            sample: Scores of the sample.
            unit: Units of the same rows.
            step: Number of rows that each row of the sample represents.
            counts: The draws.
            slots: Number of rows that each draw takes under each budget.
            quantities: Number of quantities to sum.
            quantiles: Number of quantiles of the sample at which blocks may end.
            widest: Number of quantiles that a block near a cut may span; no limit where
                None.
        """
        edges, near = _edges(
            sample,
            unit,
            step=step,
            counts=counts,
            slots=slots,
            quantiles=quantiles,
            widest=widest,
        )
        single = _single(edges)
        return cls(
            edges,
            near,
            single,
            np.zeros((1 + quantities, len(single), counts.shape[1])),
        )

    def add(
        self,
        score: Float[np.ndarray, "row"],
        quantities: Quantities,
        unit: Int[np.ndarray, "row"],
    ) -> Num[np.ndarray, "row"]:
        """Add a piece of the rows to the sums; returns the block of each row."""
        block, units = self.blocks(score), self.tables.shape[2]
        key = block * np.int64(units) + unit
        self.tables[:] += _per_unit(
            key, quantities, blocks=len(self.single), units=units
        )
        return block

    def blocks(self, score: Float[np.ndarray, "row"]) -> Num[np.ndarray, "row"]:
        """The block of each score."""
        return _edges_above(score, self.edges)

    def sift(self, counts: DrawCounts, slots: Num[np.ndarray, "draw budget"]) -> Sifted:
        """The blocks whose rows are still needed, the slots left for them, and the sums
        over all other blocks.
        """
        # A draw repeats whole units, so one product of its counts with sums by unit
        # gives the sums of every block.
        weight, *sums = ((counts @ table.T)[:, None] for table in self.tables)
        # A draw takes the slots that the blocks above leave, between nothing and the
        # whole block.
        taken = np.clip(
            slots[:, :, None] - (np.cumsum(weight, axis=2) - weight), 0.0, weight
        )
        partial = ((taken > 0) & (taken < weight)).any(axis=(0, 1)) & ~self.single
        taken[:, :, partial] = 0.0  # the rows of these blocks are sorted later
        share = np.divide(taken, weight, out=np.zeros_like(taken), where=weight > 0)
        others = np.stack([(share * own).sum(axis=2) for own in sums], axis=2)
        return Sifted(partial, slots - taken.sum(axis=2), others, taken[0])


def _edges(
    sample: Float[np.ndarray, "row"],
    unit: Int[np.ndarray, "row"],
    *,
    step: int,
    counts: DrawCounts,
    slots: Num[np.ndarray, "draw budget"],
    quantiles: int,
    widest: int | None,
) -> tuple[Float[np.ndarray, "edge"], Bool[np.ndarray, "block"]]:
    """Descending edges of blocks, close together only where a systematic sample puts
    the cuts, and those blocks.

    A score that fills more than one quantile of the sample gets a block of its own, up
    to the next float. The sample only places the edges; the sums stay exact wherever
    the edges lie.
    """
    if not len(sample):
        return np.zeros(0), np.ones(1, dtype=bool)
    picks = np.sort(sample)[
        np.linspace(0, len(sample) - 1, quantiles + 2)[1:-1].astype(int)
    ]
    # equal quantiles: one score fills all between them
    heavy = picks[1:][picks[1:] == picks[:-1]]
    edges = np.unique(np.concatenate([picks, np.nextafter(heavy, np.inf)]))[::-1]
    single = _single(edges)
    key = _edges_above(sample, edges) * np.int64(counts.shape[1]) + unit
    (number,) = _per_unit(key, (), blocks=len(single), units=counts.shape[1])
    reached = _abreast(len(counts), len(single) + 1, np.float64)
    reached[:, 0] = 0.0
    np.cumsum(counts @ number.T, axis=1, out=reached[:, 1 : len(single) + 1])
    # The sample has one row in `step`, so that its slots run out near the same score.
    cut = np.minimum(_cut_block(reached, np.ceil(slots / step)), len(edges))
    hit = np.bincount(cut.ravel(), minlength=len(single)) > 0
    # the sample may be off by one block
    near = hit | np.append(hit[1:], False) | np.append(False, hit[:-1])
    # Edges remain only where the kind of block changes: far from all cuts, blocks
    # merge.
    kind = hit.astype(int) + near + 2 * (near & single)
    apart = kind[1:] != kind[:-1]
    if widest is not None:
        apart |= near[1:] & (np.arange(1, len(near)) % widest == 0)
    bounds = np.flatnonzero(apart)
    return edges[bounds], near[np.append(bounds, len(near) - 1)]


def _single(edges: Float[np.ndarray, "edge"]) -> Bool[np.ndarray, "block"]:
    """Which blocks between descending edges can contain one score only: those from a
    float to the next.
    """
    return np.concatenate(
        [edges[:1] == np.inf, edges[:-1] == np.nextafter(edges[1:], np.inf), [False]]
    )


def _edges_above(score: InputFloats, edges: Float[np.ndarray, "edge"]) -> InputNumbers:
    """Number of edges above each score, as bytes if there are few edges: then comparing
    beats a binary search.
    """
    if len(edges) > MOST_COMPARED:
        return len(edges) - np.searchsorted(edges[::-1], score, side="right")
    above = np.zeros(len(score), dtype=np.uint8)
    for edge in edges:
        above += score < edge
    return above


NO_CUT = -1
"""Kind of a block of which nothing is taken in part."""


class _Kind(IntEnum):
    """How the scores of a block's rows differ."""

    DISTINCT = 0
    MIXED = 1
    EQUAL = 2


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Rows by descending score, in blocks that never split a tie group.

    Attributes:
        bounds: First row of each block, then the number of rows.
        kind: Whether the scores of each block are all different, partly equal or all
            equal.
        own: Number of rows of each unit in each block, then the sums of their
            quantities.
        upto: The same over all rows before each block, then over all rows.
        score: Score of each row.
        unit: Units of the rows of each block. The width is that of the longest block
            whose scores are not all equal; shorter blocks are padded with a unit that
            occurs in no draw.
        quantities: Quantities of the same rows.
    """

    bounds: Int[np.ndarray, "bound"]
    kind: Int[np.ndarray, "block"]
    own: Float[np.ndarray, "block column unit"]
    upto: Float[np.ndarray, "bound column unit"]
    score: Float[np.ndarray, "row"]
    unit: Int[np.ndarray, "block width"]
    quantities: Float[np.ndarray, "block quantity width"]


def _blocks(
    score: InputFloats,
    quantities: Quantities,
    unit: InputInts,
    order: InputInts,
    *,
    units: int,
    budgets: int,
) -> _Blocks:
    """The rows in order, cut into blocks.

    Small blocks make the matrix product expensive; large blocks make the walk within
    one block expensive. The size that balances both grows with the square root of
    rows * units / budgets; 20 and 80 weigh the walk against the product.
    """
    rows = len(score)
    score = score.take(order)
    unit = unit.take(order)
    quantities = [quantity.take(order) for quantity in quantities]

    starts_group = np.append(True, score[1:] != score[:-1])
    size = math.ceil(math.sqrt(rows * (units + 20) / (80 * budgets)))
    bounds = _bounds(starts_group, size=max(8, size))
    first = bounds[:-1]
    length = np.diff(bounds)
    groups = np.add.reduceat(starts_group, first, dtype=np.int64)
    kind = np.where(groups == length, _Kind.DISTINCT, _Kind.MIXED)
    # A block of one row is both; the way for one group needs no visit.
    is_equal = groups == 1
    kind[is_equal] = _Kind.EQUAL

    # Numbering the cells (block, unit) lets one bincount serve all of them.
    cell = np.repeat(np.arange(len(kind)) * units, length) + unit
    own = _per_unit(cell, quantities, blocks=len(kind), units=units)
    own = np.ascontiguousarray(own.transpose(1, 0, 2))
    upto = np.zeros((len(bounds), *own.shape[1:]))
    np.cumsum(own, axis=0, out=upto[1:])
    # Blocks of equal scores are taken in proportion, without their rows, and so do not
    # set the width.
    offset = np.arange(int(np.max(length[~is_equal], initial=1)))
    row = np.minimum(first[:, None] + offset, rows - 1)
    is_padding = offset >= length[:, None]
    return _Blocks(
        bounds=bounds,
        kind=kind,
        own=own,
        upto=upto,
        score=score,
        unit=np.where(is_padding, units, unit.take(row)),
        quantities=np.stack([quantity.take(row) for quantity in quantities], axis=1),
    )


def _bounds(differs: Bool[np.ndarray, "row"], *, size: int) -> Int[np.ndarray, "bound"]:
    """First rows of blocks of about `size` rows, then the number of rows; a longer tie
    group is its own block.
    """
    starts = np.append(np.flatnonzero(differs), len(differs))
    group = np.searchsorted(
        starts, np.arange(size - 1, len(differs), size), side="right"
    )
    # The tie group around every `size`-th row: blocks end after it, and begin before it
    # where it is long.
    start, end = starts[group - 1], starts[group]
    bound = np.zeros(len(differs) + 1, dtype=bool)
    bound[[0, -1]] = bound[end] = bound[start[end - start > size]] = True
    return np.flatnonzero(bound)


class _Drawn(NamedTuple):
    """Counts of the draws in several number types.

    Attributes:
        counts: How often each unit occurs in each draw.
        single: The counts in single precision where all sums are exact in it, which
            halves the work.
        padded: The counts, and a last unit that occurs in no draw.
        whole: The padded counts as integers, which add up several times faster.
    """

    counts: DrawCounts
    single: DrawCounts
    padded: Float[np.ndarray, "draw unit+1"]
    whole: Int[np.ndarray, "draw unit+1"]

    @classmethod
    def of(cls, counts: DrawCounts, number: Float[np.ndarray, "unit"]) -> "_Drawn":
        """The draws of units that have `number` rows each."""
        padded = np.zeros((len(counts), counts.shape[1] + 1))
        padded[:, :-1] = counts
        # whole numbers below 2**24 are exact in single precision
        few = np.max(counts @ number, initial=0) < 2**24
        # one running sum over a piece fits 32 bits
        small = np.max(counts, initial=0) * CUT_ELEMENTS < 2**31
        return cls(
            counts,
            counts.astype(np.float32 if few else np.float64),
            padded,
            padded.astype(np.int32 if small else np.int64),
        )


class _Cuts(NamedTuple):
    """Where the slots of draws run out: within block `at`, of which the `slots` highest
    rows are still taken.
    """

    draw: Int[np.ndarray, "cut"]
    at: Int[np.ndarray, "cut"]
    slots: Float[np.ndarray, "cut"]

    def of(self, cut: slice | np.ndarray) -> "_Cuts":
        """Some of these cuts."""
        return _Cuts(self.draw[cut], self.at[cut], self.slots[cut])


def _block_sums(
    blocks: _Blocks, drawn: _Drawn, slots: Float[np.ndarray, "draw budget"]
) -> QuantitySums:
    """Sums over the rows of whole blocks, and over the rows of the block in which the
    slots run out.
    """
    draws, budgets = slots.shape
    units = drawn.counts.shape[1]
    # Numbers of rows are whole and small enough for the type, so the block of each cut
    # is found without rounding.
    reached = _rows_before(drawn.single, blocks.upto[:, 0])
    at = _cut_block(reached, slots)
    left = slots - reached.take(at + np.arange(draws)[:, None] * reached.shape[1])
    sums = np.empty((draws, budgets, blocks.quantities.shape[1]))
    # All blocks before the cut at once: their sums by unit up to there, weighted by the
    # counts of the draw.
    for part in _pieces(draws, units * budgets):
        np.einsum(
            "du,dbqu->dbq",
            drawn.counts[part],
            blocks.upto[:, 1:].take(at[part], axis=0),  # 0 is the number of rows
            out=sums[part],
        )
    # With more slots than rows, the cut lies behind the last block.
    kind = np.append(blocks.kind, NO_CUT).take(at)
    # Slots that end with a whole block take no part of the next one.
    kind[left <= 0] = NO_CUT
    by_cut = sums.reshape(draws * budgets, -1)
    draw = np.repeat(np.arange(draws), budgets)
    cuts = _Cuts(draw, at.ravel(), left.ravel())
    for which, way in WAYS.items():
        cuts_of_kind = np.flatnonzero(kind == which)
        # What is read for a cut: sums by unit of a tie group, or the rows of a block.
        width = blocks.unit.shape[1]
        if which == _Kind.EQUAL:
            width = units
        for part in _pieces(len(cuts_of_kind), width):
            cut: slice | np.ndarray = part
            # A slice is faster, and it serves where all cuts are of one kind.
            if len(cuts_of_kind) < len(by_cut):
                cut = cuts_of_kind[part]
            by_cut[cut] += way(blocks, cuts.of(cut), drawn)
    return sums


def _pieces(rows: int, width: int, *, most: int = CUT_ELEMENTS) -> Iterator[slice]:
    """Slices of rows, each of at most `most` numbers (and at least one row), if a row
    needs `width` numbers.
    """
    step = max(1, most // width)
    return (slice(first, first + step) for first in range(0, rows, step))


def _rows_before(
    counts: DrawCounts, number: Float[np.ndarray, "bound unit"]
) -> Float[np.ndarray, "draw padded_bound"]:
    """Number of rows before each bound in each draw, from the number of rows of each
    unit.

    A small product is split into pieces that BLAS computes on one thread: waiting
    threads cost more than they save.
    """
    table = number.T.astype(counts.dtype)
    reached = _abreast(len(counts), len(number), counts.dtype.type)
    step = ONE_THREAD // table.size
    if step < 16:  # pieces of so few draws would cost more than the threads
        step = len(counts)
    for first in range(0, len(counts), step):
        part = slice(first, first + step)
        np.matmul(counts[part], table, out=reached[part, : len(number)])
    return reached


def _weights(
    blocks: _Blocks, cuts: _Cuts, counts: Num[np.ndarray, "draw unit"]
) -> Num[np.ndarray, "cut width"]:
    """How often each row of the cut block occurs in the draw."""
    position = blocks.unit.take(cuts.at, axis=0)
    position += cuts.draw[:, None] * counts.shape[1]
    # faster than the check of bounds, and all positions are valid
    return counts.take(position, mode="wrap")


def _in_turn(
    blocks: _Blocks, cuts: _Cuts, drawn: _Drawn
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks of distinct scores: rows are taken in turn until the slots are
    filled.
    """
    weight = _weights(blocks, cuts, drawn.whole)
    # One running sum over the rows of all cuts: each cut's own sum starts at its first
    # `before`.
    filled = np.zeros(weight.size + 1, dtype=weight.dtype)
    np.cumsum(weight, out=filled[1:])
    before = filled[:-1].reshape(weight.shape)
    after = filled[1:].reshape(weight.shape)
    most = before[:, :1] + cuts.slots.astype(weight.dtype)[:, None]
    # Copies of a row count up to the last slot and not after it; integers make this
    # exact.
    taken = (np.minimum(after, most) - np.minimum(before, most)).astype(np.float64)
    return np.einsum("cr,cqr->cq", taken, blocks.quantities.take(cuts.at, axis=0))


def _with_ties(
    blocks: _Blocks, cuts: _Cuts, drawn: _Drawn
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks with tie groups: the group in which the slots run out is taken in
    proportion.
    """
    first = blocks.bounds[cuts.at]
    weight = _weights(blocks, cuts, drawn.padded)
    # The row that fills the last slot has the score at which the cut falls.
    last = np.argmax(np.cumsum(weight, axis=1) >= cuts.slots[:, None], axis=1)
    # Rows past the end of a block have weight 0, so their scores do not matter.
    score = blocks.score.take(first[:, None] + np.arange(weight.shape[1]), mode="clip")
    cut_score = blocks.score[first + last][:, None]
    above = weight * (score > cut_score)
    tied = weight * (score == cut_score)
    share = (cuts.slots - above.sum(axis=1)) / tied.sum(axis=1)
    taken = above + tied * share[:, None]
    return np.einsum("cr,cqr->cq", taken, blocks.quantities.take(cuts.at, axis=0))


def _in_proportion(
    blocks: _Blocks, cuts: _Cuts, drawn: _Drawn
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks of one tie group: the whole group is taken in proportion, the mean
    over all tie-breaks.
    """
    own = np.einsum(
        "cu,ctu->ct",
        drawn.counts.take(cuts.draw, axis=0),
        blocks.own.take(cuts.at, axis=0),
    )
    return own[:, 1:] * (cuts.slots / own[:, 0])[:, None]


WAYS = {
    int(_Kind.DISTINCT): _in_turn,
    int(_Kind.MIXED): _with_ties,
    int(_Kind.EQUAL): _in_proportion,
}
"""The function that takes a part of a block, by the kind of the block."""
