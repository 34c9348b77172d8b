"""The bootstrap kernel: scores, units and draws -> expected sums over the highest scores, in every draw at once.

What `ties` says for one sample, `top_sums` says for thousands of resamples without sorting again: rows are sorted once
and cut into blocks; a matrix product gives every draw's weight of every block, and only the block in which a draw's
slots run out is looked into.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from deepval.arrays import Bool, Float, Int, Num
from deepval.judging.ties import SAMPLE, SORT_UP_TO

EDGES = 120
"""Its quantiles that bound blocks; with heavy values at most twice as many, so that a byte counts them."""
MOST_COMPARED = 2 * EDGES
"""Edges that scores are compared with one by one."""
WALK_ELEMENTS = 1 << 16
"""Numbers that are worked on in one go; few enough for the cache, and for memory to be used again."""
ONE_THREAD = 1 << 18
"""Multiplications up to which BLAS keeps a product on one thread."""

Quantities = Float[np.ndarray, "quantity input"] | Sequence[Float[np.ndarray, "input"]]


def top_sums(
    score: Float[np.ndarray, "input"],
    quantities: Quantities,
    unit: Int[np.ndarray, "input"],
    *,
    counts: Float[np.ndarray, "draw unit"],
    slots: Int[np.ndarray, "draw budget"],
) -> Float[np.ndarray, "draw budget quantity"]:
    """Expected sums of quantities over the highest scores, in every draw of units and for every number of slots.

    A draw repeats each unit's inputs `counts` times. Where there are more slots than inputs, all are taken.
    """
    if len(score) <= SORT_UP_TO:
        return sorted_sums(score, quantities, unit, counts=counts, slots=slots.astype(np.float64))
    step = math.ceil(len(score) / SAMPLE)
    sieve = Sieve.over(score[::step], unit[::step], step=step, counts=counts, slots=slots, quantities=len(quantities))
    block = np.empty(len(score), dtype=np.uint8)
    for first in range(0, len(score), WALK_ELEMENTS):
        part = slice(first, first + WALK_ELEMENTS)
        block[part] = sieve.add(score[part], [each[part] for each in quantities], unit[part])
    sifted = sieve.sifted(counts, slots)
    rows = np.flatnonzero(sifted.kept[block])
    kept = [quantity[rows] for quantity in quantities]
    return sifted.sums + sorted_sums(score[rows], kept, unit[rows], counts=counts, slots=sifted.left)


def sorted_sums(
    score: Float[np.ndarray, "input"],
    quantities: Quantities,
    unit: Int[np.ndarray, "input"],
    *,
    counts: Float[np.ndarray, "draw unit"],
    slots: Float[np.ndarray, "draw budget"],
) -> Float[np.ndarray, "draw budget quantity"]:
    """The same of rows that are few enough to be sorted."""
    sums = np.zeros((*slots.shape, len(quantities)))
    if not len(score):
        return sums
    blocks = _blocks(score, quantities, unit, units=counts.shape[1], budgets=slots.shape[1])
    for part in _pieces(len(counts), len(blocks.kind)):
        sums[part] = _block_sums(blocks, counts[part], slots[part])
    return sums


def _per_unit(
    key: Int[np.ndarray, "input"], quantities: Quantities, *, blocks: int, units: int
) -> Float[np.ndarray, "column block unit"]:
    """Number of every unit's rows in every block, then sums of their quantities; key = block * units + unit."""
    tables = np.empty((1 + len(quantities), blocks * units))
    for table, weight in zip(tables, (None, *quantities), strict=True):
        table[:] = np.bincount(key, weights=weight, minlength=blocks * units)
    return tables.reshape(-1, blocks, units)


def _cut_block(
    reached: Float[np.ndarray, "draw block"], slots: Float[np.ndarray, "draw budget"]
) -> Int[np.ndarray, "draw budget"]:
    """First block by whose end the slots are filled, the number of blocks where they never are.

    A step from draw to draw that exceeds every count makes one ascending list of all draws, searched at once.
    """
    draws, blocks = reached.shape
    span = int(reached.max()) + 2
    whole = np.int32 if draws * span < 2**31 else np.int64
    step = np.arange(draws, dtype=whole)[:, None] * whole(span)
    wanted = np.minimum(slots, reached[:, -1:] + 1.0).astype(whole)
    return np.searchsorted((reached.astype(whole) + step).ravel(), wanted + step) - np.arange(draws)[:, None] * blocks


class Sifted(NamedTuple):
    """What a sieve says once it has seen every row.

    Attributes:
        kept: Blocks whose rows are needed: some draw takes a part of them.
        left: Slots that each draw has left for those rows.
        sums: Sums over what each draw takes of all other rows.
        taken: Rows of every other block that the first draw takes under each budget.
    """

    kept: Bool[np.ndarray, "block"]
    left: Float[np.ndarray, "draw budget"]
    sums: Float[np.ndarray, "draw budget quantity"]
    taken: Float[np.ndarray, "budget block"]


@dataclass(frozen=True, eq=False)
class Sieve:
    """Rows that come piece by piece -> sums of all but the few on which some draw's cut may fall.

    A block is an interval of scores: block i covers edges[i] <= score < edges[i-1]. One matrix product gives every
    draw's weight of every block; only a block that is taken in part by some draw needs its rows, and not even then if
    it holds a single value.

    Attributes:
        edges: Descending edges of the blocks.
        near: Blocks on or beside which a sample of the rows puts a cut. It only decides where to look.
        single: Blocks that can hold one value only.
        tables: Number of every unit's rows in every block, then sums of their quantities.
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
        counts: Float[np.ndarray, "draw unit"],
        slots: Int[np.ndarray, "draw budget"],
        quantities: int,
        quantiles: int = EDGES,
        widest: int | None = None,
    ) -> "Sieve":
        """A sieve whose blocks are narrow where a sample of one row in `step` puts the cuts.

        Args:
            sample: Scores of the sample.
            unit: Units of the same rows.
            step: How many rows each of them stands for.
            counts: The draws.
            slots: How many rows each draw takes under each budget.
            quantities: How many quantities are summed.
            quantiles: Of the sample, that blocks may end at.
            widest: Quantiles that a block near a cut may span; any number where None.
        """
        edges, near = _edges(sample, unit, step=step, counts=counts, slots=slots, quantiles=quantiles, widest=widest)
        single = _single(edges)
        return cls(edges, near, single, np.zeros((1 + quantities, len(single), counts.shape[1])))

    def add(
        self, score: Float[np.ndarray, "row"], quantities: Quantities, unit: Int[np.ndarray, "row"]
    ) -> Num[np.ndarray, "row"]:
        """Take in a piece of the rows; returns the block of each."""
        block, units = self.blocks(score), self.tables.shape[2]
        key = block * np.int64(units) + unit
        self.tables[:] += _per_unit(key, quantities, blocks=len(self.single), units=units)
        return block

    def blocks(self, score: Float[np.ndarray, "row"]) -> Num[np.ndarray, "row"]:
        """The block of each score."""
        return _edges_above(score, self.edges)

    def sifted(self, counts: Float[np.ndarray, "draw unit"], slots: Num[np.ndarray, "draw budget"]) -> Sifted:
        """Which blocks' rows are still needed, the slots left for them, and the sums of all others."""
        weight, *sums = ((counts @ table.T)[:, None] for table in self.tables)
        taken = np.clip(slots[:, :, None] - (np.cumsum(weight, axis=2) - weight), 0.0, weight)
        kept = ((taken > 0) & (taken < weight)).any(axis=(0, 1)) & ~self.single
        taken[:, :, kept] = 0.0
        share = np.divide(taken, weight, out=np.zeros_like(taken), where=weight > 0)
        others = np.stack([(share * own).sum(axis=2) for own in sums], axis=2)
        return Sifted(kept, slots - taken.sum(axis=2), others, taken[0])


def _edges(
    sample: Float[np.ndarray, "row"],
    unit: Int[np.ndarray, "row"],
    *,
    step: int,
    counts: Float[np.ndarray, "draw unit"],
    slots: Num[np.ndarray, "draw budget"],
    quantiles: int,
    widest: int | None,
) -> tuple[Float[np.ndarray, "edge"], Bool[np.ndarray, "block"]]:
    """Descending edges of blocks, close together only where a systematic sample puts the cuts, and those blocks.

    A value that fills more than one quantile of the sample is shut in between itself and the next float. The sample
    only decides where to look; sums stay exact.
    """
    if not len(sample):
        return np.zeros(0), np.ones(1, dtype=bool)
    picks = np.sort(sample)[np.linspace(0, len(sample) - 1, quantiles + 2)[1:-1].astype(int)]
    heavy = picks[1:][picks[1:] == picks[:-1]]
    edges = np.unique(np.concatenate([picks, np.nextafter(heavy, np.inf)]))[::-1]
    single = _single(edges)
    key = _edges_above(sample, edges) * np.int64(counts.shape[1]) + unit
    (number,) = _per_unit(key, (), blocks=len(single), units=counts.shape[1])
    reached = np.cumsum(counts @ number.T, axis=1)
    cut = np.minimum(_cut_block(reached, np.ceil(slots / step)), len(edges))
    hit = np.bincount(cut.ravel(), minlength=len(single)) > 0
    near = hit | np.append(hit[1:], False) | np.append(False, hit[:-1])
    kind = hit.astype(int) + near + 2 * (near & single)
    apart = kind[1:] != kind[:-1]
    if widest is not None:
        apart |= near[1:] & (np.arange(1, len(near)) % widest == 0)
    bounds = np.flatnonzero(apart)
    return edges[bounds], near[np.append(bounds, len(near) - 1)]


def _single(edges: Float[np.ndarray, "edge"]) -> Bool[np.ndarray, "block"]:
    """Which blocks between descending edges can hold one value only."""
    return np.concatenate([edges[:1] == np.inf, edges[:-1] == np.nextafter(edges[1:], np.inf), [False]])


def _edges_above(score: Float[np.ndarray, "input"], edges: Float[np.ndarray, "edge"]) -> Num[np.ndarray, "input"]:
    """Number of edges above each score, a byte each: few comparisons beat a binary search."""
    if len(edges) > MOST_COMPARED:
        return len(edges) - np.searchsorted(edges[::-1], score, side="right")
    above = np.zeros(len(score), dtype=np.uint8)
    for edge in edges:
        above += score < edge
    return above


class _Kind(IntEnum):
    """How the scores of a block's rows differ."""

    DISTINCT = 0
    MIXED = 1
    EQUAL = 2


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Rows by descending score, in blocks that never split a tie group.

    Attributes:
        bounds: First row of each block, and the number of rows.
        kind: Whether the scores of each block are all different, partly equal or all equal.
        own: Number of each unit's rows in each block, then sums of their quantities.
        upto: The same over all rows before each block, and over all.
        score: Score of each row.
        unit: Units from each row on, as many as the longest block that is not all equal has rows.
        quantities: Quantities of the same rows.
    """

    bounds: Int[np.ndarray, "bound"]
    kind: Int[np.ndarray, "block"]
    own: Float[np.ndarray, "column block unit"]
    upto: Float[np.ndarray, "column bound unit"]
    score: Float[np.ndarray, "row"]
    unit: Int[np.ndarray, "row width"]
    quantities: list[Float[np.ndarray, "row width"]]


def _blocks(
    score: Float[np.ndarray, "input"],
    quantities: Quantities,
    unit: Int[np.ndarray, "input"],
    *,
    units: int,
    budgets: int,
) -> _Blocks:
    """The rows, sorted and cut into blocks; their size balances the product of all blocks against the walk in one."""
    rows, order = len(score), np.argsort(-score)
    score = score[order]
    bounds = _bounds(-score, size=max(8, math.ceil(math.sqrt(rows * (units + 20) / (80 * budgets)))))
    equal = score[bounds[:-1]] == score[bounds[1:] - 1]
    differs = np.append(True, score[1:] != score[:-1])
    kind = np.where(np.logical_and.reduceat(differs, bounds[:-1]), _Kind.DISTINCT, _Kind.MIXED)
    kind[equal] = _Kind.EQUAL
    width = int(np.max(np.diff(bounds)[~equal], initial=1))
    order = np.append(order, np.zeros(width - 1, dtype=order.dtype))
    unit, quantities = unit[order], [quantity[order] for quantity in quantities]
    key = np.repeat(np.arange(len(kind)) * units, np.diff(bounds))
    key += unit[:rows]
    own = _per_unit(key, [quantity[:rows] for quantity in quantities], blocks=len(kind), units=units)
    upto = np.zeros((len(own), len(bounds), units))
    np.cumsum(own, axis=1, out=upto[:, 1:])
    unit, *quantities = (sliding_window_view(column, width) for column in (unit, *quantities))
    return _Blocks(bounds, kind, own, upto, score, unit, quantities)


def _bounds(ordered: Float[np.ndarray, "row"], *, size: int) -> Int[np.ndarray, "bound"]:
    """First rows of blocks of about `size` rows, and the number of rows; a longer tie group is a block of its own."""
    at = ordered[size - 1 :: size]
    start, end = (np.searchsorted(ordered, at, side=side) for side in ("left", "right"))
    return np.unique(np.concatenate([[0, len(ordered)], end, start[end - start > size]]))


@dataclass(frozen=True, eq=False)
class _Cuts:
    """Where the slots of draws run out: within block `at`, of whose rows the highest `slots` are still taken."""

    draw: Int[np.ndarray, "cut"]
    at: Int[np.ndarray, "cut"]
    slots: Float[np.ndarray, "cut"]


def _block_sums(
    blocks: _Blocks, counts: Float[np.ndarray, "draw unit"], slots: Float[np.ndarray, "draw budget"]
) -> Float[np.ndarray, "draw budget quantity"]:
    """Sums over the rows of whole blocks, and over the rows of the block in which the slots run out."""
    reached = _reached(counts, blocks.upto[0])
    at = _cut_block(reached[:, 1:], slots)
    left = slots - np.take_along_axis(reached, at, axis=1)
    sums = np.empty((*slots.shape, len(blocks.quantities)))
    for part in _pieces(len(counts), counts.shape[1] * slots.shape[1]):
        for column, table in enumerate(blocks.upto[1:]):
            sums[part, :, column] = np.einsum("du,dbu->db", counts[part], table.take(at[part], axis=0))
    kind = np.where((at < len(blocks.kind)) & (left > 0), np.append(blocks.kind, -1)[at], -1)
    whole = counts.astype(np.int32)  # whole numbers add up several times faster
    ways = (_Kind.DISTINCT, _in_turn, whole), (_Kind.MIXED, _with_ties, counts), (_Kind.EQUAL, _in_proportion, counts)
    for which, way, drawn in ways:
        draw, budget = np.nonzero(kind == which)
        width = counts.shape[1] if which is _Kind.EQUAL else blocks.unit.shape[1]
        for part in _pieces(len(draw), width):
            cut = draw[part], budget[part]
            sums[cut] += way(blocks, _Cuts(cut[0], at[cut], left[cut]), counts=drawn)
    return sums


def _pieces(rows: int, width: int) -> Iterator[slice]:
    """Pieces of rows that can be worked on at once where each needs `width` numbers."""
    step = max(1, WALK_ELEMENTS // width)
    return (slice(first, first + step) for first in range(0, rows, step))


def _reached(
    counts: Float[np.ndarray, "draw unit"], number: Float[np.ndarray, "bound unit"]
) -> Float[np.ndarray, "draw bound"]:
    """Number of rows before each bound in each draw, from the number of each unit's.

    Whole numbers below 2^24 are exact in single precision, which halves the work. A small product is made in pieces
    that BLAS leaves to one thread: threads that wait for each other cost more than they save.
    """
    precision = np.float32 if np.max(counts @ number[-1]) < 2**24 else np.float64
    counts, table = counts.astype(precision), number.T.astype(precision)
    step = ONE_THREAD // table.size
    if not 16 <= step < len(counts):
        return counts @ table
    reached = np.empty((len(counts), table.shape[1]), dtype=precision)
    for first in range(0, len(counts), step):
        np.matmul(counts[first : first + step], table, out=reached[first : first + step])
    return reached


def _in_turn(
    blocks: _Blocks, cuts: _Cuts, *, counts: Int[np.ndarray, "draw unit"]
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks of distinct scores: rows are taken in turn until the slots are filled."""
    first = blocks.bounds[cuts.at]
    weight = counts.take(blocks.unit[first] + cuts.draw[:, None] * counts.shape[1])
    filled = np.zeros((len(first), weight.shape[1] + 1), dtype=np.int32)
    np.cumsum(weight, axis=1, dtype=np.int32, out=filled[:, 1:])
    np.minimum(filled, cuts.slots.astype(np.int32)[:, None], out=filled)
    taken = np.subtract(filled[:, 1:], filled[:, :-1], dtype=np.float64)
    return np.stack([np.einsum("qr,qr->q", taken, quantity[first]) for quantity in blocks.quantities], axis=1)


def _with_ties(
    blocks: _Blocks, cuts: _Cuts, *, counts: Float[np.ndarray, "draw unit"]
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks with tie groups: the group on which the slots run out is taken in proportion."""
    first, end = blocks.bounds[cuts.at], blocks.bounds[cuts.at + 1]
    rows = first[:, None] + np.arange(blocks.unit.shape[1])
    weight = counts.take(blocks.unit[first] + cuts.draw[:, None] * counts.shape[1])
    weight[rows >= end[:, None]] = 0.0
    last = np.argmax(np.cumsum(weight, axis=1) >= cuts.slots[:, None], axis=1)
    score, value = blocks.score.take(rows, mode="clip"), blocks.score[first + last][:, None]
    taken, tied = weight * (score > value), weight * (score == value)
    taken += tied * ((cuts.slots - taken.sum(axis=1)) / tied.sum(axis=1))[:, None]
    return np.stack([np.einsum("qr,qr->q", taken, quantity[first]) for quantity in blocks.quantities], axis=1)


def _in_proportion(
    blocks: _Blocks, cuts: _Cuts, *, counts: Float[np.ndarray, "draw unit"]
) -> Float[np.ndarray, "cut quantity"]:
    """Sums in blocks of one tie group: all of it is taken in proportion."""
    drawn = counts[cuts.draw]
    number, *sums = (np.einsum("qu,qu->q", drawn, table[cuts.at]) for table in blocks.own)
    return np.stack(sums, axis=1) * (cuts.slots / number)[:, None]
