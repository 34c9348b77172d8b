"""Resamples and budgets -> samples of the selections of a ranking, the oracle or chance under each budget.

A budget that counts inputs, or charges all inputs alike, amounts to a number of slots. A budget that charges each input
its own cost leaves a purse to spend (`spending`). This module makes the distinction for all modules above it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging import oracle, spending, ties
from deepval.judging.budgets import Allowance
from deepval.judging.resamples import Allocator, Resamples, Resampling, Sample, in_memory, order_of
from deepval.results import known
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

Slots = Int[np.ndarray, "resample budget"]
Purse = Float[np.ndarray, "resample budget"]


def ranked(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance], costs: Sequence[float]
) -> list[Sample]:
    """Samples of the highest scores of an allocator; `costs` is its own cost under each budget."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        score, quantities = _in_memory(scores).values, _quantities(in_memory(resamples))
        return spending.bought(score, quantities, table.unit, price=price, counts=counts, purse=purse)

    return _by_budget(resamples, allowances, costs, lambda slots: resamples.ranked(scores, slots), paid)


def best(resamples: Resampling, allowances: Sequence[Allowance], costs: Sequence[float] | None = None) -> list[Sample]:
    """Samples of the oracle over the full mode under each budget; it is free if `costs` is None."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        values, quantities = table.decision_values, _quantities(in_memory(resamples))
        return spending.best_bought(values, quantities, table.unit, price=price, counts=counts, purse=purse)

    return _by_budget(resamples, allowances, costs or [0.0] * len(allowances), resamples.best, paid)


def at_random(resamples: Resampling, allowances: Sequence[Allowance]) -> list[Sample]:
    """Samples of random selection in exact expectation under each budget."""

    def paid(price: Float[np.ndarray, "input"], purse: Purse) -> Float[np.ndarray, "resample budget quantity"]:
        share = spending.chance(_drawn(in_memory(resamples), price), purse)
        totals = np.stack([resamples.full_gain, resamples.full_benefit, resamples.inputs], axis=1)
        return share[:, :, None] * totals[:, None, :]

    return _by_budget(resamples, allowances, [0.0] * len(allowances), resamples.at_random, paid)


def slots(allowed: Allowance, inputs: int, cost: float = 0.0) -> int | None:
    """Number of inputs that may be escalated; None where each has its own cost."""
    return None if allowed.each else int(allowed.slots(inputs, cost))


def ties_decide(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance], costs: Sequence[float]
) -> list[float | None]:
    """Under each budget the share of a selection, or of its cost, that tie-breaks decide.

    None where no input is selected.
    """
    number = {i: slots(a, int(resamples.inputs[0]), costs[i]) for i, a in enumerate(allowances)}
    taken = {i: k for i, k in number.items() if k}
    shares = dict(zip(taken, map(known, resamples.tied_shares(scores, list(taken.values()))), strict=True))
    return [
        _tied_spend(in_memory(resamples).table, _in_memory(scores), allowed, cost) if allowed.each else shares.get(i)
        for i, (allowed, cost) in enumerate(zip(allowances, costs, strict=True))
    ]


def _tied_spend(table: ValueTable, scores: Scores, allowed: Allowance, cost: float) -> float:
    return spending.tied_share(scores.values, _price(table, allowed), purse_on(table, allowed, cost))


def weights(table: ValueTable, scores: Scores, allowed: Allowance, cost: float) -> Float[np.ndarray, "input"]:
    """The probability that each input is escalated by its score."""
    if allowed.each:
        return spending.shares(scores.values, _price(table, allowed), purse_on(table, allowed, cost))
    return ties.inclusion(scores.values, int(allowed.slots(len(table), cost)), order_of(scores))


def best_weights(table: ValueTable, allowed: Allowance, cost: float = 0.0) -> Float[np.ndarray, "input"]:
    """The probability that the oracle escalates each input."""
    if allowed.each:
        return spending.best_shares(table.decision_values, _price(table, allowed), purse_on(table, allowed, cost))
    return oracle.oracle_weights(table.decision_values, int(allowed.slots(len(table), cost)))


def best_gain(resamples: Resampling, allowed: Allowance, cost: float) -> float:
    """Gain of the oracle with the budget that an allocator of this cost leaves."""
    if allowed.each:
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
    by_slots = [i for i, allowed in enumerate(allowances) if not allowed.each]
    if by_slots:
        columns = [allowances[i].slots(resamples.inputs, costs[i]) for i in by_slots]
        samples |= dict(zip(by_slots, counted(np.column_stack(columns)), strict=True))
    priced = dict.fromkeys((a.convention, a.accounting) for a in allowances if a.each)
    for key in priced:
        alike = [i for i, a in enumerate(allowances) if a.each and (a.convention, a.accounting) == key]
        purse = np.column_stack([purses(in_memory(resamples), allowances[i], costs[i]) for i in alike])
        sums = paid(_price(in_memory(resamples).table, allowances[alike[0]]), purse)
        samples |= {i: Sample(*sums[:, column].T) for column, i in enumerate(alike)}
    return [samples[i] for i in range(len(allowances))]
