"""Two quantities per input -> their agreement: in sign, in order, and in the inputs
that they would escalate.

Magnitudes up to `tolerance` count as zero (0 for discrete actions, 1e-9 for planners
and geometric losses). Ties are exact equality of float64 and -0.0 equals 0.0. A
statistic without a single case to judge is NaN.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import (
    InputFlags,
    InputFloats,
    InputInts,
    InputNumbers,
    Int,
    Num,
)
from deepval.basics.errors import InputError
from deepval.judge.tables.values import most_helpful
from deepval.judge.tie_expectations import centred_ranks, run_starts

PAIRED = 16
"""Inputs of a block that are compared pair by pair: a short merge costs more."""
MERGED = 64
"""Items of a half above which NumPy's stable sort, which merges runs, is faster."""


@dataclass(frozen=True)
class Share:
    """A count among a number of inputs; `share` is NaN if that number is 0."""

    count: int
    of: int

    @property
    def share(self) -> float:
        """The count as a fraction of the inputs it was counted among."""
        return self.count / self.of if self.of else math.nan


@dataclass(frozen=True)
class PairCounts:
    """Pairs of inputs by how the two quantities order them; the five counts add up to
    n*(n-1)/2.
    """

    concordant: int
    discordant: int
    tied_first: int
    tied_second: int
    tied_both: int

    @property
    def ordered_differently(self) -> float:
        """Share of the pairs strictly ranked by both that they rank in opposite order:
        D/(C+D).
        """
        strict = self.concordant + self.discordant
        return self.discordant / strict if strict else math.nan

    @property
    def gamma(self) -> float:
        """Goodman-Kruskal gamma: (C-D)/(C+D); NaN where no pair is strictly ranked by
        both.
        """
        strict = self.concordant + self.discordant
        return (self.concordant - self.discordant) / strict if strict else math.nan

    @property
    def tau_b(self) -> float:
        """Kendall tau-b: (C-D)/sqrt(pairs not tied in first * pairs not tied in
        second); NaN if that is 0.
        """
        strict = self.concordant + self.discordant
        untied = (strict + self.tied_second) * (strict + self.tied_first)
        return (
            (self.concordant - self.discordant) / math.sqrt(untied)
            if untied
            else math.nan
        )


@dataclass(frozen=True)
class Member:
    """An allocation with its gain and its nDG (NaN where the oracle's gain is not
    positive).
    """

    escalated: InputFlags
    gain: float
    ndg: float


@dataclass(frozen=True)
class TransferBounds:
    """The most and least favourable optimum of one system under the other, and the
    other's own optimum.
    """

    most: Member
    least: Member
    oracle_gain: float


class Reversal(NamedTuple):
    """Two inputs that both systems want escalated: one system ranks `first` higher, the
    other ranks `second` higher.
    """

    first: int
    second: int


def affected(value: InputNumbers, *, tolerance: float = 0.0) -> InputFlags:
    """The inputs on which a quantity is not zero: |value| > tolerance."""
    (v,) = _align(value)
    return np.abs(v) > tolerance


def sign_disagreement(
    first: InputNumbers, second: InputNumbers, *, tolerance: float = 0.0
) -> Share:
    """Inputs with opposite signs among those where both quantities are non-zero."""
    a, b = _align(first, second)
    both = (np.abs(a) > tolerance) & (np.abs(b) > tolerance)
    opposite = both & ((a > 0) != (b > 0))
    return Share(int(opposite.sum()), int(both.sum()))


def spearman(
    first: InputNumbers, second: InputNumbers, *, among: InputFlags | None = None
) -> float:
    """Spearman rank correlation with average ranks for ties, over the inputs of `among`
    (e.g. the affected).

    NaN with fewer than two inputs or where a quantity is constant.
    """
    a, b = _align(first, second)
    if among is not None:
        if among.dtype != np.bool_ or among.shape != a.shape:
            raise InputError(
                f"`among` must hold one boolean for each of the {a.size} inputs, got "
                f"{among.dtype} of shape {among.shape}: pass a mask such as "
                "affected(value)."
            )
        a, b = a[among], b[among]
    if a.size == 0:
        return math.nan
    rank_a, rank_b = centred_ranks(a), centred_ranks(b)
    spread = float(rank_a @ rank_a) * float(rank_b @ rank_b)
    return float(rank_a @ rank_b) / math.sqrt(spread) if spread > 0 else math.nan


def pair_counts(first: InputNumbers, second: InputNumbers) -> PairCounts:
    """Concordant, discordant and tied pairs of inputs, exact integers in O(n log n).

    In the order of (first, second) a pair is discordant iff it is a strict inversion of
    `second`.
    """
    a, b = _align(first, second)
    if a.size == 0:
        return PairCounts(0, 0, 0, 0, 0)
    first_rank, second_rank = _ranks(a), _ranks(b)
    bits = a.size.bit_length()
    # by the first, then by the second
    in_order = np.sort((first_rank << bits) | second_rank)
    in_first, in_second = (
        _pairs_within(np.bincount(rank)) for rank in (first_rank, second_rank)
    )
    in_both = _pairs_within(np.diff(run_starts(in_order[1:] != in_order[:-1])))
    discordant = _inversions(in_order & ((1 << bits) - 1))
    total = a.size * (a.size - 1) // 2
    return PairCounts(
        concordant=total - in_first - in_second + in_both - discordant,
        discordant=discordant,
        tied_first=in_first - in_both,
        tied_second=in_second - in_both,
        tied_both=in_both,
    )


def transfer(
    value: InputNumbers, other_value: InputNumbers, *, k: int
) -> TransferBounds:
    """The optimal allocations of at most k inputs for `value`, at their best and worst
    for `other_value`.

    With at least k positive values, an optimum contains every input strictly above the
    k-th largest value and fills up with inputs equal to that value. With fewer, it
    contains every positive input and, in the slots left, any inputs of value 0. nDG =
    gain/OPT with OPT = the sum of the min(k, |P|) largest positive other values.
    """
    v, other = _align(value, other_value)
    if k < 0:
        raise InputError(
            f"k must be at least 0, got {k}: pass the number "
            "of inputs the budget allows."
        )
    if not (np.isfinite(v).all() and np.isfinite(other).all()):
        raise InputError(
            "Decision values must be finite, found an infinite "
            "one: mend the losses behind it."
        )
    taken = most_helpful(v, k)
    cut = 0.0 if k > taken.size else taken.min(initial=np.inf)
    sure, free = v > cut, v == cut
    slots = k - int(sure.sum())
    # Inputs at a positive cut must fill the slots; inputs of value 0 join only if that
    # widens the bounds.
    optional = bool(cut == 0)
    oracle_gain = math.fsum(most_helpful(other, k))
    return TransferBounds(
        most=_member(
            sure | _best(other, free, slots=slots, optional=optional),
            other,
            oracle_gain=oracle_gain,
        ),
        least=_member(
            sure | _best(-other, free, slots=slots, optional=optional),
            other,
            oracle_gain=oracle_gain,
        ),
        oracle_gain=oracle_gain,
    )


def reversal(value: InputNumbers, other_value: InputNumbers) -> Reversal | None:
    """A pair of inputs that is positive for both systems, and that the two systems
    order differently; None without one.

    value[first] > value[second], and other_value[first] < other_value[second]. If there
    is such a pair, no single strict ranking is optimal for both systems at every
    budget.
    """
    v, other = _align(value, other_value)
    both_help = np.flatnonzero((v > 0) & (other > 0))
    ascending = both_help[np.lexsort((other[both_help], v[both_help]))]
    # Inputs tied in value stand in ascending order of the other, so a step down means
    # value rose strictly.
    descents = np.flatnonzero(other[ascending[1:]] < other[ascending[:-1]])
    if descents.size == 0:
        return None
    lower = int(descents[0])
    return Reversal(first=int(ascending[lower + 1]), second=int(ascending[lower]))


def _align(*quantities: Num[np.ndarray, "..."]) -> tuple[InputFloats, ...]:
    """The quantities as float64, of one length and without NaN."""
    arrays = tuple(np.asarray(quantity, dtype=np.float64) for quantity in quantities)
    shapes = [array.shape for array in arrays]
    if any(len(shape) != 1 or shape != shapes[0] for shape in shapes):
        raise InputError(
            f"Quantities must hold one number per input, got shapes {shapes}: align "
            "them by input."
        )
    if any(np.isnan(array).any() for array in arrays):
        raise InputError(
            "Quantities must not be NaN, found at least one: leave "
            "undefined inputs out of both."
        )
    return arrays


def _best(
    worth: InputFloats, free: InputFlags, *, slots: int, optional: bool
) -> InputFlags:
    """The `slots` free inputs of highest worth; if optional, only those of positive
    worth.
    """
    rows = np.flatnonzero(free)
    rows = rows[np.argsort(-worth[rows], kind="stable")][:slots]
    chosen = np.zeros(worth.size, dtype=bool)
    chosen[rows] = worth[rows] > 0 if optional else True
    return chosen


def _member(escalated: InputFlags, value: InputFloats, *, oracle_gain: float) -> Member:
    gain = math.fsum(value[escalated])
    return Member(escalated, gain, gain / oracle_gain if oracle_gain > 0 else math.nan)


def _pairs_within(sizes: Int[np.ndarray, " group"]) -> int:
    """Number of pairs within a group."""
    return int((sizes * (sizes - 1) // 2).sum())


def _ranks(x: InputFloats) -> InputInts:
    """Number of different values below each value."""
    order = np.argsort(x)
    ascending = x[order]
    ranks = np.empty(x.size, dtype=np.int64)
    ranks[order] = np.cumsum(np.concatenate([[False], ascending[1:] != ascending[:-1]]))
    return ranks


def _inversions(ranks: InputInts) -> int:
    """Pairs i < j with ranks[i] > ranks[j]: short blocks pair by pair, then a merge
    sort of all blocks of a level.

    Sorted with their half as the last bit, the j-th item of a right half stands behind
    the left items that do not exceed it, so its position gives the number of items that
    do: width - (position - j).
    """
    # The padding adds no inversion: nothing exceeds it, and only more padding follows
    # it.
    size, most = max(PAIRED, 1 << (ranks.size - 1).bit_length()), int(ranks.max())
    blocks = np.full(size, most, dtype=np.uint32 if most < 1 << 31 else np.uint64)
    blocks[: ranks.size] = ranks
    rows = blocks.reshape(-1, PAIRED)
    across = np.ascontiguousarray(rows.T)
    inversions = sum(
        int(np.count_nonzero(across[:-lag] > across[lag:])) for lag in range(1, PAIRED)
    )
    blocks, width = np.sort(rows, axis=1) << 1, PAIRED
    while width < size:
        rows = blocks.reshape(-1, 2 * width)
        rows[:, width:] |= 1
        rows.sort(axis=1, kind="stable" if width >= MERGED else None)
        of_right = rows & 1
        places = int(of_right.sum(axis=0, dtype=np.int64) @ np.arange(2 * width))
        inversions += len(rows) * (width * width + width * (width - 1) // 2) - places
        rows ^= of_right
        blocks, width = rows, 2 * width
    return inversions
