"""Resamples and budgets -> samples of the selections of a ranking, the oracle or chance under each budget.

A budget that counts inputs, or charges all inputs alike, amounts to a number of slots. A budget that charges each input
its own cost leaves a purse to spend. This module makes the distinction for all modules above it.

With a purse, a ranking goes down its scores and pays the cost of each input. Groups of equal scores before the money
runs out count in full. The group at which it runs out (a single input where scores differ) counts with the share that
spends the rest: each of its inputs is escalated with that probability, so the purse is spent exactly in expectation.
The oracle is the best of all rules that keep the purse in expectation: the same fill in the order of value per cost,
which is the relaxed (LP) optimum of the knapsack. Chance escalates every input with the same probability.

Costs may be negative (a skipping router whose full mode is cheaper on an input). A ranking stops where the purse is
first exceeded; the oracle also escalates an input that frees money if its loss is less than the money is worth.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging import oracle, ties
from deepval.judging.budgets import Allowance
from deepval.judging.resamples import Allocator, Resamples, Resampling, Sample, in_memory, order_of
from deepval.results import known
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

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


Slots = Int[np.ndarray, "resample budget"]
Purse = Float[np.ndarray, "resample budget"]


def ranked(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance], costs: Sequence[float]
) -> list[Sample]:
    """Samples of the highest scores of an allocator; `costs` is its own cost under each budget."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        score, quantities = _in_memory(scores).values, _quantities(in_memory(resamples))
        return bought(score, quantities, table.unit, price=price, counts=counts, purse=purse)

    return _by_budget(resamples, allowances, costs, lambda slots: resamples.ranked(scores, slots), paid)


def best(resamples: Resampling, allowances: Sequence[Allowance], costs: Sequence[float] | None = None) -> list[Sample]:
    """Samples of the oracle over the full mode under each budget; it is free if `costs` is None."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        values, quantities = table.decision_values, _quantities(in_memory(resamples))
        return best_bought(values, quantities, table.unit, price=price, counts=counts, purse=purse)

    return _by_budget(resamples, allowances, costs or [0.0] * len(allowances), resamples.best, paid)


def at_random(resamples: Resampling, allowances: Sequence[Allowance]) -> list[Sample]:
    """Samples of random selection in exact expectation under each budget."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        share = chance(_drawn(in_memory(resamples), price), purse)
        totals = np.stack([resamples.full_gain, resamples.full_benefit, resamples.inputs], axis=1)
        return share[:, :, None] * totals[:, None, :]

    return _by_budget(resamples, allowances, [0.0] * len(allowances), resamples.at_random, paid)


def slots(allowed: Allowance, inputs: int, cost: float = 0.0) -> int | None:
    """Number of inputs that may be escalated; None where each has its own cost."""
    return None if allowed.per_input else int(allowed.slots(inputs, cost))


def ties_decide(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance], costs: Sequence[float]
) -> list[float | None]:
    """Under each budget the share of a selection, or of its cost, that tie-breaks decide.

    None where no input is selected.
    """
    number = {i: slots(a, int(resamples.inputs[0]), costs[i]) for i, a in enumerate(allowances)}
    taken = {i: k for i, k in number.items() if k}
    tied = dict(zip(taken, map(known, resamples.tied_shares(scores, list(taken.values()))), strict=True))
    return [
        _tied_spend(in_memory(resamples).table, _in_memory(scores), allowed, cost) if allowed.per_input else tied.get(i)
        for i, (allowed, cost) in enumerate(zip(allowances, costs, strict=True))
    ]


def _tied_spend(table: ValueTable, scores: Scores, allowed: Allowance, cost: float) -> float:
    return tied_share(scores.values, _price(table, allowed), purse_on(table, allowed, cost))


def weights(table: ValueTable, scores: Scores, allowed: Allowance, cost: float) -> Float[np.ndarray, "input"]:
    """The probability that each input is escalated by its score."""
    if allowed.per_input:
        return shares(scores.values, _price(table, allowed), purse_on(table, allowed, cost))
    return ties.inclusion(scores.values, int(allowed.slots(len(table), cost)), order_of(scores))


def best_weights(table: ValueTable, allowed: Allowance, cost: float = 0.0) -> Float[np.ndarray, "input"]:
    """The probability that the oracle escalates each input."""
    if allowed.per_input:
        return best_shares(table.decision_values, _price(table, allowed), purse_on(table, allowed, cost))
    return oracle.oracle_weights(table.decision_values, int(allowed.slots(len(table), cost)))


def best_gain(resamples: Resampling, allowed: Allowance, cost: float) -> float:
    """Gain of the oracle with the budget that an allocator of this cost leaves."""
    if allowed.per_input:
        table = in_memory(resamples).table
        return float(best_weights(table, allowed, cost) @ table.decision_values)
    return resamples.best_gain(int(allowed.slots(int(resamples.inputs[0]), cost)))


def purses(resamples: Resamples, allowed: Allowance, cost: float = 0.0) -> Float[np.ndarray, "resample"]:
    """Budget for escalation in every resample: alpha * sum of C_f,i - N*C_S, at least 0."""
    assert allowed.convention is not None
    full = _drawn(resamples, resamples.table.input_costs[allowed.convention][:, -1])
    return np.maximum(allowed.budget.alpha * full - cost * resamples.inputs, 0.0)


def purse_on(table: ValueTable, allowed: Allowance, cost: float) -> float:
    """Budget for escalation in one sample, at least 0."""
    assert allowed.convention is not None
    full = float(table.input_costs[allowed.convention][:, -1].sum())
    return max(allowed.budget.alpha * full - cost * len(table), 0.0)


def _in_memory(scores: Allocator) -> Scores:
    assert isinstance(scores, Scores)
    return scores


def _price(table: ValueTable, allowed: Allowance) -> Float[np.ndarray, "input"]:
    return allowed.prices(table)[:, -1]


def _drawn(resamples: Resamples, quantity: Float[np.ndarray, "input"]) -> Float[np.ndarray, "resample"]:
    units = resamples.counts.shape[1]
    return resamples.counts @ np.bincount(resamples.table.unit, weights=quantity, minlength=units)


def _quantities(resamples: Resamples) -> list[Float[np.ndarray, "input"]]:
    return [resamples.table.decision_values, resamples.benefits, np.ones(len(resamples.table))]


def _by_budget(
    resamples: Resampling,
    allowances: Sequence[Allowance],
    costs: Sequence[float],
    counted: Callable[[Slots], list[Sample]],
    paid: Callable[[Float[np.ndarray, "input"], Purse], Float[np.ndarray, "resample budget quantity"]],
) -> list[Sample]:
    """Samples under each budget: all budgets with slots together, and all budgets with the same prices together."""
    samples: dict[int, Sample] = {}
    by_slots = [i for i, allowed in enumerate(allowances) if not allowed.per_input]
    if by_slots:
        columns = [allowances[i].slots(resamples.inputs, costs[i]) for i in by_slots]
        samples |= dict(zip(by_slots, counted(np.column_stack(columns)), strict=True))
    priced = dict.fromkeys((a.convention, a.accounting) for a in allowances if a.per_input)
    for key in priced:
        alike = [i for i, a in enumerate(allowances) if a.per_input and (a.convention, a.accounting) == key]
        purse = np.column_stack([purses(in_memory(resamples), allowances[i], costs[i]) for i in alike])
        sums = paid(_price(in_memory(resamples).table, allowances[alike[0]]), purse)
        samples |= {i: Sample(*sums[:, column].T) for column, i in enumerate(alike)}
    return [samples[i] for i in range(len(allowances))]
