"""Inputs with a price each -> what a purse buys, in every resample.

With slots, every input costs one, and the kernel finds the cut by counting. With prices
the cut depends on what was paid before it. A ranking goes down its scores and pays the
cost of each input. Groups of equal scores before the purse runs out count in full. The
group at which it runs out (a single input where scores differ) counts with the share
that spends the rest: each of its inputs is escalated with that probability, so the
purse is spent exactly in expectation.

The oracle is the best of all rules that keep the purse in expectation: the same fill in
the order of value per cost, which is the relaxed (LP) optimum of the knapsack: Dantzig,
"Discrete-variable extremum problems", Operations Research 5 (1957).

Costs may be negative (a skipping router whose full mode is cheaper on an input). A
ranking stops where the purse is first exceeded; the oracle also escalates an input that
frees money, if escalating it loses less than the freed money gains elsewhere.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.judge.kernel import DrawCounts, QuantitySums, sums_before_blocks

AT_ONCE = 1 << 21
"""Numbers in one piece of work."""


BLOCK = 64
"""Rows in a block."""


Rows = Float[np.ndarray, "row"]


RowInts = Int[np.ndarray, "row"]


Purses = Float[np.ndarray, "draw budget"]


class Walk(NamedTuple):
    """Rows by descending score; tie groups start at `starts`."""

    order: RowInts
    starts: Int[np.ndarray, "group"]


def walk(score: Rows) -> Walk:
    """The rows by descending score; equal scores stay in the order of the table."""
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    return Walk(order, np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])))


def shares(score: Rows, price: Rows, purse: float) -> Rows:
    """The probability that each input is escalated, in one sample."""
    share = np.zeros(len(score))
    if len(score):
        order, starts = walk(score)
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
    order, starts = walk(score)
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
    order, starts = walk(score)
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
