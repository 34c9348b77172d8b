"""Scores, the cost of escalating each input and a purse -> expected sums over the highest scores that the purse pays.

A ranking goes down its scores and pays the cost of each input. Groups of equal scores before the money runs out count
in full. The group at which it runs out (a single input where scores differ) counts with the share that spends the
rest: each of its inputs is escalated with that probability, so the purse is spent exactly in expectation. The oracle is
the best of all rules that keep the purse in expectation: the same fill in the order of value per cost, which is the
relaxed (LP) optimum of the knapsack. Chance escalates every input with the same probability.

Costs may be negative (a skipping router whose full mode is cheaper on an input). A ranking stops where the purse is
first exceeded; the oracle also escalates an input that frees money if its loss is less than the money is worth.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int

AT_ONCE = 1 << 21
"""Numbers in one piece of work."""

Rows = Float[np.ndarray, "row"]


class _Walk(NamedTuple):
    """Rows by descending score; tie groups start at `starts`."""

    order: Int[np.ndarray, "row"]
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
        # Prices may be negative, so the running maximum finds the first group that exceeds the purse.
        before = np.concatenate([[0.0], np.cumsum(group)])
        cut = int(np.count_nonzero(np.maximum.accumulate(before[1:]) <= purse))
        whole = starts[cut] if cut < len(starts) else len(score)
        share[order[:whole]] = 1.0
        if cut < len(starts):
            end = starts[cut + 1] if cut + 1 < len(starts) else len(score)
            share[order[whole:end]] = (purse - before[cut]) / group[cut]
    return share


def tied_share(score: Rows, price: Rows, purse: float) -> float:
    """The share of the spending that ties decide: the group at which money runs out, if it has several inputs."""
    taken = shares(score, price, purse)
    partly = (taken > 0) & (taken < 1)
    return float((taken * price)[partly].sum() / purse) if purse > 0 and np.count_nonzero(partly) > 1 else 0.0


def bought(
    score: Rows,
    quantities: Sequence[Rows],
    unit: Int[np.ndarray, "row"],
    *,
    price: Rows,
    counts: Float[np.ndarray, "draw unit"],
    purse: Float[np.ndarray, "draw budget"],
) -> Float[np.ndarray, "draw budget quantity"]:
    """Expected sums of quantities over the highest scores in every draw of units, for each of its purses.

    A draw repeats each unit's rows `counts` times; prices and quantities are those of one row.
    """
    sums = np.zeros((*purse.shape, len(quantities)))
    if not len(score):
        return sums
    order, starts = _walk(score)
    unit, price, quantities = unit[order], price[order], [quantity[order] for quantity in quantities]
    for part in _pieces(len(counts), len(score)):
        weight = counts[part][:, unit]
        group, spent = _run(weight, price, starts)
        reached = np.maximum.accumulate(spent, axis=1)
        cut = np.stack([np.count_nonzero(reached <= column[:, None], axis=1) for column in purse[part].T], axis=1)
        partly, at, before = cut < len(starts), np.minimum(cut, len(starts) - 1), np.maximum(cut - 1, 0)
        paid = np.where(cut > 0, np.take_along_axis(spent, before, axis=1), 0.0)
        price_at = np.take_along_axis(group, at, axis=1)
        share = np.divide(purse[part] - paid, price_at, out=np.zeros(cut.shape), where=partly & (price_at > 0))
        for column, quantity in enumerate(quantities):
            own, total = _run(weight, quantity, starts)
            whole = np.where(cut > 0, np.take_along_axis(total, before, axis=1), 0.0)
            sums[part, :, column] = whole + share * np.take_along_axis(own, at, axis=1)
    return sums


def _run(
    weight: Float[np.ndarray, "draw row"], quantity: Rows, starts: Int[np.ndarray, "group"]
) -> tuple[Float[np.ndarray, "draw group"], Float[np.ndarray, "draw group"]]:
    """Sums of a quantity over each tie group, and over all groups up to it."""
    own = weight * quantity
    own = own if len(starts) == len(quantity) else np.add.reduceat(own, starts, axis=1)
    return own, np.cumsum(own, axis=1)


def runs(
    score: Rows,
    quantities: Sequence[Rows],
    unit: Int[np.ndarray, "row"],
    *,
    counts: Float[np.ndarray, "draw unit"],
) -> Iterator[tuple[slice, list[Float[np.ndarray, "draw group"]]]]:
    """Sums of quantities over each group of equal scores, the highest first, some draws of units at a time."""
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
        taken: Inputs that are escalated to begin with: those that cost nothing and help, or that free money.
        rows: Inputs that the purse decides, each bought for |price|: escalated, or taken back where `sign` is -1.
        worth: Value of each of them per unit of money.
        sign: 1 where buying escalates the input, -1 where buying takes its escalation back.
    """

    taken: np.ndarray
    rows: np.ndarray
    worth: Rows
    sign: Rows


def trade(values: Rows, price: Rows) -> Trade:
    """The inputs that the oracle takes for nothing, and those that it buys, with their value per cost."""
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


def best_bought(
    values: Rows,
    quantities: Sequence[Rows],
    unit: Int[np.ndarray, "row"],
    *,
    price: Rows,
    counts: Float[np.ndarray, "draw unit"],
    purse: Float[np.ndarray, "draw budget"],
) -> Float[np.ndarray, "draw budget quantity"]:
    """Sums of quantities over the inputs that the oracle escalates in every draw, for each of its purses."""
    deal, units = trade(values, price), counts.shape[1]

    def drawn(quantity: Rows) -> Float[np.ndarray, "draw"]:
        of_unit = np.bincount(unit[deal.taken], weights=quantity[deal.taken], minlength=units)
        return counts @ of_unit

    begun = np.stack([drawn(quantity) for quantity in quantities], axis=1)
    rows = deal.rows
    more = bought(
        deal.worth,
        [deal.sign * quantity[rows] for quantity in quantities],
        unit[rows],
        price=np.abs(price[rows]),
        counts=counts,
        purse=purse + drawn(np.abs(price))[:, None],
    )
    return begun[:, None, :] + more


def chance(
    total: Float[np.ndarray, "draw"], purse: Float[np.ndarray, "draw budget"]
) -> Float[np.ndarray, "draw budget"]:
    """The probability with which chance escalates every input: the one that spends the purse, at most 1."""
    whole = total[:, None]
    return np.divide(purse, whole, out=np.ones(purse.shape), where=whole > purse)
