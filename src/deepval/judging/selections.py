"""Resamples and budgets -> samples of the selections of a ranking, the oracle or chance
under each budget.

A budget that counts inputs, or charges all inputs alike, amounts to a number of slots.
A budget that charges each input its own cost leaves a purse to spend (`oracle`). This
module makes the distinction for all modules above it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging import oracle, tie_expectations
from deepval.judging.allowances import Allowance
from deepval.judging.resamples import (
    Allocator,
    Resamples,
    Resampling,
    Sample,
    in_memory,
    order_of,
)
from deepval.judging.sieve import SiftedScores
from deepval.results import known
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

Slots = Int[np.ndarray, "resample budget"]
Purse = Float[np.ndarray, "resample budget"]


def ranking(
    resamples: Resampling,
    scores: Allocator,
    allowances: Sequence[Allowance],
    costs: Sequence[float],
) -> list[Sample]:
    """Samples of the highest scores of an allocator; `costs` is its own cost under each
    budget.
    """

    def paid(
        price: Float[np.ndarray, "input"], purse: Purse
    ) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        score, quantities = _in_memory(scores).values, _quantities(in_memory(resamples))
        return oracle.purse_sums(
            score, quantities, table.unit, price=price, counts=counts, purse=purse
        )

    return _by_budget(
        resamples,
        allowances,
        costs,
        lambda number: resamples.ranking(scores, number),
        paid,
    )


def best(
    resamples: Resampling,
    allowances: Sequence[Allowance],
    costs: Sequence[float] | None = None,
) -> list[Sample]:
    """Samples of the oracle over the full mode under each budget; it is free if `costs`
    is None.
    """

    def paid(
        price: Float[np.ndarray, "input"], purse: Purse
    ) -> Float[np.ndarray, "resample budget quantity"]:
        table, counts = in_memory(resamples).table, resamples.counts
        values, quantities = table.decision_values, _quantities(in_memory(resamples))
        return oracle.best_purse_sums(
            values, quantities, table.unit, price=price, counts=counts, purse=purse
        )

    return _by_budget(
        resamples, allowances, costs or [0.0] * len(allowances), resamples.best, paid
    )


def at_random(resamples: Resampling, allowances: Sequence[Allowance]) -> list[Sample]:
    """Samples of random selection in exact expectation under each budget."""

    def paid(
        price: Float[np.ndarray, "input"], purse: Purse
    ) -> Float[np.ndarray, "resample budget quantity"]:
        share = oracle.chance(in_memory(resamples).totals(price), purse)
        totals = np.stack(
            [resamples.full_gain, resamples.full_benefit, resamples.inputs], axis=1
        )
        return share[:, :, None] * totals[:, None, :]

    return _by_budget(
        resamples, allowances, [0.0] * len(allowances), resamples.at_random, paid
    )


def ties_decide(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance]
) -> list[float | None]:
    """Under each budget the share of a selection, or of its cost, that tie-breaks
    decide.

    None where no input is selected, or where the cost of the allocator is unknown.
    """
    shares: list[float | None] = [None] * len(allowances)
    numbers: dict[int, int] = {}
    for i, allowed in enumerate(allowances):
        if scores.name in allowed.unpriced:
            continue
        cost = allowed.cost_of(scores.name)
        if allowed.per_input:
            table = in_memory(resamples).table
            purse = purse_on(table, allowed, cost)
            shares[i] = oracle.tied_share(
                _in_memory(scores).values, _price(table, allowed), purse
            )
        elif number := int(allowed.slots(int(resamples.inputs[0]), cost)):
            numbers[i] = number
    for i, share in zip(
        numbers, resamples.tied_shares(scores, list(numbers.values())), strict=True
    ):
        shares[i] = known(share)
    return shares


def weights(
    table: ValueTable, scores: Scores, allowed: Allowance, cost: float
) -> Float[np.ndarray, "input"]:
    """The probability that each input is escalated by its score."""
    if allowed.per_input:
        return oracle.shares(
            scores.values, _price(table, allowed), purse_on(table, allowed, cost)
        )
    return tie_expectations.inclusion(
        scores.values, int(allowed.slots(len(table), cost)), order_of(scores)
    )


def gains_by_unit(
    resamples: Resampling, scores: Allocator, allowed: Allowance, cost: float
) -> Float[np.ndarray, "unit"]:
    """The gain of every unit in the sample over the inputs that an allocator
    escalates.
    """
    if isinstance(scores, SiftedScores):
        slots = int(allowed.slots(int(resamples.inputs[0]), cost))
        return (
            scores.values.cut(slots).taken(slots)[1]
            if slots
            else np.zeros(len(resamples.unit_ids))
        )
    table = in_memory(resamples).table
    return unit_sums(
        table, weights(table, scores, allowed, cost) * table.decision_values
    )


def unit_sums(
    table: ValueTable, amount: Float[np.ndarray, "input"]
) -> Float[np.ndarray, "unit"]:
    """The sum of an amount, such as a gain or an acceptance, over the inputs of every
    unit.
    """
    some = np.flatnonzero(amount)  # bincount of no input has integers
    return np.bincount(
        table.unit[some], weights=amount[some], minlength=len(table.unit_ids)
    ).astype(np.float64)


def best_weights(
    table: ValueTable, allowed: Allowance, cost: float = 0.0
) -> Float[np.ndarray, "input"]:
    """The probability that the oracle escalates each input."""
    if allowed.per_input:
        return oracle.best_shares(
            table.decision_values,
            _price(table, allowed),
            purse_on(table, allowed, cost),
        )
    return oracle.oracle_weights(
        table.decision_values, int(allowed.slots(len(table), cost))
    )


def best_gain(resamples: Resampling, allowed: Allowance, cost: float) -> float:
    """Gain of the oracle with the budget that an allocator of this cost leaves."""
    if allowed.per_input:
        table = in_memory(resamples).table
        return float(best_weights(table, allowed, cost) @ table.decision_values)
    return resamples.best_gain(int(allowed.slots(int(resamples.inputs[0]), cost)))


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


def _quantities(resamples: Resamples) -> list[Float[np.ndarray, "input"]]:
    return [
        resamples.table.decision_values,
        resamples.benefits,
        np.ones(len(resamples.table)),
    ]


def _by_budget(
    resamples: Resampling,
    allowances: Sequence[Allowance],
    costs: Sequence[float],
    counted: Callable[[Slots], list[Sample]],
    paid: Callable[
        [Float[np.ndarray, "input"], Purse],
        Float[np.ndarray, "resample budget quantity"],
    ],
) -> list[Sample]:
    """Samples under each budget: all budgets with slots together, and all budgets with
    the same prices together.
    """
    samples: dict[int, Sample] = {}
    by_slots = [i for i, allowed in enumerate(allowances) if not allowed.per_input]
    if by_slots:
        columns = [
            allowances[i].slots_in(resamples.counts, resamples.inputs, costs[i])
            for i in by_slots
        ]
        samples |= dict(zip(by_slots, counted(np.column_stack(columns)), strict=True))
    priced = dict.fromkeys(
        (a.convention, a.accounting) for a in allowances if a.per_input
    )
    for key in priced:
        alike = [
            i
            for i, a in enumerate(allowances)
            if a.per_input and (a.convention, a.accounting) == key
        ]
        purse = np.column_stack(
            [
                allowances[i].purses(
                    in_memory(resamples).table, resamples.counts, costs[i]
                )
                for i in alike
            ]
        )
        sums = paid(_price(in_memory(resamples).table, allowances[alike[0]]), purse)
        samples |= {i: Sample(*sums[:, column].T) for column, i in enumerate(alike)}
    return [samples[i] for i in range(len(allowances))]
