"""Decision values -> the best that any allocation can reach, and how far a score is
from it.

The oracle has a capacity, not a quota: of at most k inputs it takes only those with
V > 0. With K = #{V >= 0}, a score is optimal for every k <= K iff it ranks positive
values first, in order, and zeros before negatives (Proposition 1 of the paper).

Where each input has its own cost, the budget is a purse: a total cost that may be
spent. A ranking goes down its scores and pays the cost of each input. Groups of equal
scores before the purse runs out count in full. The group at which it runs out (a single
input where scores differ) counts with the share that spends the rest: each of its
inputs is escalated with that probability, so the purse is spent exactly in expectation.
The oracle is the best of all rules that keep the purse in expectation: the same fill in
the order of value per cost, which is the relaxed (LP) optimum of the knapsack. Chance,
the random baseline, escalates every input with the same probability.

Costs may be negative (a skipping router whose full mode is cheaper on an input). A
ranking stops where the purse is first exceeded; the oracle also escalates an input that
frees money, if escalating it loses less than the freed money gains elsewhere.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, InputFlags, InputFloats, InputInts, Int
from deepval.errors import InputError
from deepval.judging.kernel import (
    DrawCounts,
    QuantitySums,
    sums_before_blocks,
    top_sums,
)
from deepval.judging.tie_expectations import cumulative_gain, inclusion
from deepval.tables.values import most_helpful

AT_ONCE = 1 << 21
"""Numbers in one piece of work."""
BLOCK = 64
"""Rows in a block."""

Rows = Float[np.ndarray, "row"]
RowInts = Int[np.ndarray, "row"]
Purses = Float[np.ndarray, "draw budget"]


def oracle_gain(values: InputFloats, slots: int) -> float:
    """OPT(k): the sum of the k largest positive values."""
    return float(most_helpful(values, slots).sum())


def oracle_curve(values: InputFloats) -> Float[np.ndarray, "slots"]:
    """OPT(k) for every k = 0, 1, ..., N."""
    best = np.sort(most_helpful(values))[::-1]
    return np.cumsum(np.concatenate([[0.0], best, np.zeros(len(values) - len(best))]))


def oracle_weights(values: InputFloats, slots: int) -> InputFloats:
    """The probability that each input is among those that the oracle takes, equal
    values alike.
    """
    return inclusion(values, len(most_helpful(values, slots)))


def oracle_sums(
    values: InputFloats,
    unit: InputInts,
    *,
    counts: Float[np.ndarray, "resample unit"],
    slots: Int[np.ndarray, "resample budget"],
) -> tuple[Float[np.ndarray, "resample budget"], Float[np.ndarray, "resample budget"]]:
    """OPT(k) and the number of inputs taken, in every resample of the units and for
    each number of slots.
    """
    helpful = np.flatnonzero(values > 0)
    values, unit = values[helpful], unit[helpful]
    gain = top_sums(values, values[None], unit, counts=counts, slots=slots)[:, :, 0]
    available = counts @ np.bincount(unit, minlength=counts.shape[1])
    return gain, np.minimum(slots, available[:, None])


class _Walk(NamedTuple):
    """Rows by descending score; tie groups start at `starts`."""

    order: RowInts
    starts: Int[np.ndarray, "group"]


def _walk(score: Rows) -> _Walk:
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    return _Walk(order, np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])))


def shares(score: Rows, price: Rows, purse: float) -> Rows:
    """The probability that each input is escalated, in one sample."""
    share = np.zeros(len(score))
    if len(score):
        order, starts = _walk(score)
        group = np.add.reduceat(price[order], starts)
        # Prices may be negative, so the running maximum finds the first group that
        # exceeds the purse.
        before = np.concatenate([[0.0], np.cumsum(group)])
        cut = int(np.count_nonzero(np.maximum.accumulate(before[1:]) <= purse))
        whole = starts[cut] if cut < len(starts) else len(score)
        share[order[:whole]] = 1.0
        if cut < len(starts):
            end = starts[cut + 1] if cut + 1 < len(starts) else len(score)
            share[order[whole:end]] = (purse - before[cut]) / group[cut]
    return share


def tied_share(score: Rows, price: Rows, purse: float) -> float:
    """The share of the spending that ties decide: the group at which money runs out, if
    it has several inputs.
    """
    taken = shares(score, price, purse)
    partly = (taken > 0) & (taken < 1)
    return (
        float((taken * price)[partly].sum() / purse)
        if purse > 0 and np.count_nonzero(partly) > 1
        else 0.0
    )


def purse_sums(
    score: Rows,
    quantities: Sequence[Rows],
    unit: RowInts,
    *,
    price: Rows,
    counts: DrawCounts,
    purse: Purses,
) -> QuantitySums:
    """Expected sums of quantities over the highest scores, in every draw of units and
    for each of the draw's purses.

    A draw repeats each unit's rows `counts` times; prices and quantities are those of
    one row.
    """
    sums = np.zeros((*purse.shape, len(quantities)))
    if not len(score):
        return sums
    order, starts = _walk(score)
    unit, price, quantities = (
        unit[order],
        price[order],
        [quantity[order] for quantity in quantities],
    )
    if len(starts) == len(score) and price.min() >= 0:
        return _untied_sums(
            np.column_stack([price, *quantities]), unit, counts=counts, purse=purse
        )
    for part in _pieces(len(counts), len(score)):
        weight = counts[part][:, unit]
        group, spent = _run(weight, price, starts)
        reached = np.maximum.accumulate(spent, axis=1)
        cut = np.stack(
            [
                np.count_nonzero(reached <= column[:, None], axis=1)
                for column in purse[part].T
            ],
            axis=1,
        )
        partly, at, before = (
            cut < len(starts),
            np.minimum(cut, len(starts) - 1),
            np.maximum(cut - 1, 0),
        )
        paid = np.where(cut > 0, np.take_along_axis(spent, before, axis=1), 0.0)
        price_at = np.take_along_axis(group, at, axis=1)
        share = np.divide(
            purse[part] - paid,
            price_at,
            out=np.zeros(cut.shape),
            where=partly & (price_at > 0),
        )
        for column, quantity in enumerate(quantities):
            own, total = _run(weight, quantity, starts)
            whole = np.where(cut > 0, np.take_along_axis(total, before, axis=1), 0.0)
            sums[part, :, column] = whole + share * np.take_along_axis(own, at, axis=1)
    return sums


def _untied_sums(
    columns: Float[np.ndarray, "row column"],
    unit: RowInts,
    *,
    counts: DrawCounts,
    purse: Purses,
) -> QuantitySums:
    """`purse_sums` of rows in order of their scores, without ties or negative prices;
    the first column is the price.

    A matrix product gives the price of whole blocks of rows in every draw; rows are
    visited only in the block in which the purse of a draw runs out, because spending
    never falls.
    """
    number, draws = len(columns), np.arange(len(counts))
    upto = sums_before_blocks(columns, unit, size=BLOCK, units=counts.shape[1])
    reached = counts @ upto[:, 0].T
    sums = np.zeros((*purse.shape, columns.shape[1] - 1))
    for budget, left in enumerate(purse.T):
        block = np.maximum(np.count_nonzero(reached <= left[:, None], axis=1) - 1, 0)
        rows = block[:, None] * BLOCK + np.arange(BLOCK)
        weight = np.take_along_axis(counts, unit.take(rows, mode="clip"), axis=1) * (
            rows < number
        )
        within = columns.take(rows, axis=0, mode="clip")
        spent = reached[draws, block][:, None] + np.cumsum(
            weight * within[:, :, 0], axis=1
        )
        over = spent > left[:, None]
        cut = np.where(over.any(axis=1), over.argmax(axis=1), BLOCK - 1)
        # Rows before the cut count in full, the row at the cut for the share of it that
        # the purse still pays for.
        bought = weight * within[:, :, 0]
        share = np.where(np.arange(BLOCK) < cut[:, None], 1.0, 0.0)
        before = spent[draws, cut] - bought[draws, cut]
        rest = np.divide(
            left - before,
            bought[draws, cut],
            out=np.ones(len(left)),
            where=over[draws, cut],
        )
        share[draws, cut] = np.clip(rest, 0.0, 1.0)
        whole = np.einsum("du,dcu->dc", counts, upto[block, 1:])
        sums[:, budget] = whole + np.einsum(
            "dr,drc->dc", weight * share, within[:, :, 1:]
        )
    return sums


def _run(
    weight: Float[np.ndarray, "draw row"],
    quantity: Rows,
    starts: Int[np.ndarray, "group"],
) -> tuple[Float[np.ndarray, "draw group"], Float[np.ndarray, "draw group"]]:
    """Sums of a quantity over each tie group, and over all groups up to it."""
    own = weight * quantity
    own = own if len(starts) == len(quantity) else np.add.reduceat(own, starts, axis=1)
    return own, np.cumsum(own, axis=1)


def runs(
    score: Rows, quantities: Sequence[Rows], unit: RowInts, *, counts: DrawCounts
) -> Iterator[tuple[slice, list[Float[np.ndarray, "draw group"]]]]:
    """Sums of quantities over each group of equal scores, the highest first, some draws
    of units at a time.
    """
    if not len(score):
        return
    order, starts = _walk(score)
    unit, quantities = unit[order], [quantity[order] for quantity in quantities]
    for part in _pieces(len(counts), len(score)):
        weight = counts[part][:, unit]
        yield part, [_run(weight, quantity, starts)[0] for quantity in quantities]


def _pieces(draws: int, rows: int) -> Iterator[slice]:
    step = max(1, math.ceil(AT_ONCE / rows))
    return (slice(first, first + step) for first in range(0, draws, step))


class Trade(NamedTuple):
    """The relaxed knapsack over signed values and prices, as one without signs.

    Attributes:
        taken: Inputs that are escalated to begin with: those that cost nothing and
            help, or that free money.
        rows: Inputs that the purse can buy, each for |price|. Buying one escalates it,
            or undoes its escalation where `sign` is -1.
        worth: Value of each of them per unit of money.
        sign: 1 where buying escalates the input, -1 where buying takes its escalation
            back.
    """

    taken: np.ndarray
    rows: np.ndarray
    worth: Rows
    sign: Rows


def trade(values: Rows, price: Rows) -> Trade:
    """The inputs that the oracle takes for nothing, and those that it buys, with their
    value per cost.
    """
    taken = (price < 0) | ((price == 0) & (values > 0))
    rows = np.flatnonzero(((price > 0) & (values > 0)) | ((price < 0) & (values < 0)))
    worth = np.abs(values[rows]) / np.abs(price[rows])
    return Trade(taken, rows, worth, np.where(price[rows] > 0, 1.0, -1.0))


def best_shares(values: Rows, price: Rows, purse: float) -> Rows:
    """The probability that the oracle escalates each input, in one sample."""
    deal = trade(values, price)
    share = deal.taken.astype(float)
    left = purse + float(np.abs(price[deal.taken]).sum())
    share[deal.rows] += deal.sign * shares(deal.worth, np.abs(price[deal.rows]), left)
    return share


def best_purse_sums(
    values: Rows,
    quantities: Sequence[Rows],
    unit: RowInts,
    *,
    price: Rows,
    counts: DrawCounts,
    purse: Purses,
) -> QuantitySums:
    """Sums of quantities over the inputs that the oracle escalates, in every draw and
    for each of the draw's purses.
    """
    deal, units = trade(values, price), counts.shape[1]

    def by_draw(quantity: Rows) -> Float[np.ndarray, "draw"]:
        of_unit = np.bincount(
            unit[deal.taken], weights=quantity[deal.taken], minlength=units
        )
        return counts @ of_unit

    begun = np.stack([by_draw(quantity) for quantity in quantities], axis=1)
    rows = deal.rows
    more = purse_sums(
        deal.worth,
        [deal.sign * quantity[rows] for quantity in quantities],
        unit[rows],
        price=np.abs(price[rows]),
        counts=counts,
        purse=purse + by_draw(np.abs(price))[:, None],
    )
    return begun[:, None, :] + more


def chance(total: Float[np.ndarray, "draw"], purse: Purses) -> Purses:
    """The probability with which chance escalates every input: it spends the purse in
    expectation, and is at most 1.
    """
    whole = total[:, None]
    return np.divide(purse, whole, out=np.ones(purse.shape), where=whole > purse)


@dataclass(frozen=True)
class Violation:
    """Proof that a ranking is not optimal: at `slots` it may select `above` and may
    leave out `below`.

    Attributes:
        above: Input that is selected (with some probability) and should not be; None
            for a slot that abstention leaves empty.
        below: Input of larger value that is left out (with some probability); None if
            an empty slot would be better.
        slots: Smallest number of slots at which the expected gain falls short of the
            oracle's.
        shortfall: By how much it falls short there.
    """

    above: int | None
    below: int | None
    slots: int
    shortfall: float


def ranking_violation(
    score: InputFloats, values: InputFloats, abstained: InputFlags | None = None
) -> Violation | None:
    """A proof that the score is not optimal; None iff it is optimal for every k <= K in
    expectation over tie-breaks.

    Args:
        score: The score of each input.
        values: Their decision values.
        abstained: Inputs that are never selected, even if slots stay empty. If it is
            passed, the score must be optimal at every k, also above K.
    """
    inputs = len(values)
    if abstained is not None:
        score, values = _with_empty_slots(score, values, abstained)
    order, starts = _walk(score)
    ranked, ends = values[order], np.append(starts[1:], len(order))
    budget = np.arange(1, int(np.count_nonzero(values >= 0)) + 1)
    group = np.searchsorted(starts, budget - 1, side="right") - 1
    # At k, inputs up to the end of the group at the cut may be selected; those of a
    # group that does not fit, and all after it, may be left out. The gain is the
    # oracle's iff no value of the former is below one of the latter.
    last = ends[group]
    first = np.where(budget < last, starts[group], last)
    least = np.minimum.accumulate(ranked)[last - 1]
    most = np.append(np.maximum.accumulate(ranked[::-1])[::-1], -np.inf)[first]
    wrong = np.flatnonzero(least < np.maximum(most, 0.0))
    if not len(wrong):
        return None
    k, at = int(budget[wrong[0]]), wrong[0]
    above = int(order[np.argmin(ranked[: last[at]])])
    below = int(order[first[at] + np.argmax(ranked[first[at] :])])
    lack = float(oracle_curve(values)[k] - cumulative_gain(score, values)[k])
    return Violation(
        above if above < inputs else None, below if below < inputs else None, k, lack
    )


def is_optimal_ranking(
    score: InputFloats, values: InputFloats, abstained: InputFlags | None = None
) -> bool:
    """Whether the score is optimal at every k <= K, or with abstention at every k
    (`ranking_violation`).
    """
    return ranking_violation(score, values, abstained) is None


def _with_empty_slots(
    score: InputFloats, values: InputFloats, abstained: InputFlags
) -> tuple[Rows, Rows]:
    """Abstention as a ranking: as many empty slots of value 0 as inputs, ranked above
    the inputs abstained on.

    No k <= N gets past the empty slots, so the order of the inputs after them is free:
    harmful ones are the last.
    """
    rank = np.unique(score, return_inverse=True)[1] + 1.0
    rank = np.where(abstained, np.where(values < 0, -2.0, -1.0), rank)
    empty = np.zeros(len(values))
    return np.concatenate([rank, empty]), np.concatenate([values, empty])


@dataclass(frozen=True)
class Regret:
    """How a selection of k inputs falls short of the oracle's, in expectation over
    tie-breaks.

    Attributes:
        regret: OPT(k) - gain, equal to the sum of (missed value - wrongly selected
            value) over matched pairs.
        swapped: u, the expected number of oracle inputs missed, which equals that of
            inputs wrongly selected.
        margin: delta, by how much the least missed value exceeds the largest wrongly
            selected one (NaN for none).
        bound: u * delta <= regret, where delta > 0 (NaN otherwise).
    """

    regret: float
    swapped: float
    margin: float
    bound: float


def regret(
    score: InputFloats,
    values: InputFloats,
    slots: int,
    abstained: InputFlags | None = None,
) -> Regret:
    """Regret of the k highest scores against an oracle selection of the same size, for
    k <= #{V >= 0}.

    Among equal values the oracle prefers what the score selects, so both sets differ
    only where value is lost. Inputs that are abstained on are never selected; slots
    that stay empty count as inputs of value 0, and k may be any number up to that of
    the inputs.
    """
    if abstained is not None:
        score, values = _with_empty_slots(score, values, abstained)
    reachable = int(np.count_nonzero(values >= 0))
    if slots > reachable:
        raise InputError(
            "The regret of a top-k mismatch needs "
            f"k <= #{{V >= 0}} = {reachable}; found k = {slots}."
        )
    chosen = inclusion(score, slots)
    ideal = _overlapping_oracle(values, chosen, slots)
    missed, wrong = ideal - chosen > 1e-12, chosen - ideal > 1e-12
    swapped = float((ideal - chosen)[missed].sum())
    margin = (
        float(values[missed].min() - values[wrong].max())
        if missed.any() and wrong.any()
        else float("nan")
    )
    lost = float((ideal - chosen) @ values)
    return Regret(
        lost, swapped, margin, swapped * margin if margin > 0 else float("nan")
    )


def _overlapping_oracle(
    values: InputFloats, chosen: InputFloats, slots: int
) -> InputFloats:
    """Weights in [0, 1] of an oracle selection of total size k that shares as much as
    it can with `chosen`.
    """
    if not slots:
        return np.zeros(len(values))
    cut = np.partition(values, len(values) - slots)[len(values) - slots]
    ideal = (values > cut).astype(float)
    tied = values == cut
    left = slots - ideal.sum()
    shared = chosen[tied].sum()
    if shared >= left:
        ideal[tied] = chosen[tied] * (left / shared if shared else 0.0)
    else:
        rest = 1.0 - chosen[tied]
        ideal[tied] = chosen[tied] + rest * ((left - shared) / rest.sum())
    return ideal
