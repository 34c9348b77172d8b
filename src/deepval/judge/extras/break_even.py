"""A ranking and a measured budget -> the own costs at which it still reaches chance.

The set of these costs is a union of intervals, because the gain changes only where the
number of inputs does that the budget still pays for. Values are signed, so the set need
not be one interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, InputFloats
from deepval.judge.allowances import Allowance
from deepval.judge.policies import Ranking, purse_of_sample
from deepval.judge.tables.values import ValueTable
from deepval.judge.tie_expectations import cumulative_gain

Spans = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BreakEven:
    """Costs per input at which a ranking still reaches random's gain.

    Attributes:
        spans: Disjoint intervals (above, up to], ascending; one that starts at 0
            includes 0.
        largest: The largest such cost, None where not even a free allocator reaches
            random's gain.
    """

    spans: Spans
    largest: float | None

    @classmethod
    def of(cls, spans: list[tuple[float, float]]) -> "BreakEven":
        """The costs in ascending spans."""
        if len(spans) == 0:
            return cls((), None)
        return cls(tuple(spans), spans[-1][1])

    def holds(self, cost: float) -> bool:
        """Whether an allocator of this cost reaches random's gain."""
        return any(low < cost <= high or cost == low == 0 for low, high in self.spans)


def break_even_costs(
    table: ValueTable, ranking: Ranking, allowance: Allowance
) -> BreakEven:
    """The costs at which a ranking reaches chance, also with a price for each input."""
    assert ranking.score is not None
    if not allowance.per_input:
        return break_even(ranking.score, table.decision_values, allowance)
    purse = purse_of_sample(table, allowance, own_cost=0.0)
    price = allowance.prices(table)[:, -1]
    return break_even_of_purse(ranking.score, table.decision_values, price, purse)


def break_even(
    score: InputFloats, values: InputFloats, allowance: Allowance
) -> BreakEven:
    """{C >= 0 : gain at floor(N*share(C) + 1e-9) >= random's gain at C = 0}."""
    inputs = len(values)
    free = int(allowance.slots(inputs))
    chance = free / inputs * values.sum()
    gain = cumulative_gain(score, values)[: free + 1]
    is_enough = gain >= chance - 1e-12 * np.abs(values).sum()
    # k slots are left while lowest(k) < C <= highest(k). For k = 0, highest(k) is the
    # largest feasible cost.
    steps = np.arange(free + 1)
    highest = _cost_at(steps - 1e-9, inputs, allowance)
    highest[0] = allowance.budget.alpha * allowance.full
    lowest = np.maximum(_cost_at(steps + 1 - 1e-9, inputs, allowance), 0.0)
    lowest[free] = 0.0
    spans: list[tuple[float, float]] = []
    for k in np.flatnonzero(is_enough)[::-1]:
        low = float(lowest[k])
        high = float(max(highest[k], 0.0))
        negligible = 1e-12 * allowance.full
        if spans and abs(spans[-1][1] - low) <= negligible:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return BreakEven.of(spans)


def _cost_at(
    slots: Float[np.ndarray, "slots"], inputs: int, allowance: Allowance
) -> Float[np.ndarray, "slots"]:
    """The cost C at which N*share(C) equals `slots`.

    That is the inverse of `Allowance.share` before it is capped at 1.
    """
    per_escalation = allowance.full
    if allowance.is_skipping:
        per_escalation = allowance.full - allowance.cheap
    return allowance.budget.alpha * allowance.full - slots / inputs * per_escalation


def break_even_of_purse(
    score: InputFloats, values: InputFloats, price: InputFloats, purse: float
) -> BreakEven:
    """The same set where every input has a price of its own.

    {C >= 0 : gain with purse - N*C >= random's gain at C = 0}
    """
    total = float(price.sum())
    share = 1.0
    if total > 0:
        share = min(1.0, purse / total)
    chance = share * float(values.sum())
    level = chance - 1e-12 * float(np.abs(values).sum())
    spans: list[tuple[float, float]] = []
    for piece in _pieces(score, values, price, purse):
        span = piece.above(level)
        if span is None:
            continue
        is_near = bool(spans) and span[0] <= spans[-1][1] + 1e-12 * purse
        if is_near:
            spans[-1] = (spans[-1][0], span[1])
        else:
            spans.append(span)
    inputs = len(values)
    # A larger purse is what a smaller cost leaves, so the spans turn around.
    costs = [
        ((purse - high) / inputs, (purse - low) / inputs)
        for low, high in reversed(spans)
    ]
    return BreakEven.of(costs)


@dataclass(frozen=True)
class Piece:
    """A straight part of a ranking's gain against what it may spend.

    Attributes:
        left: Purse at its start.
        low: Gain there.
        right: Purse at its end.
        high: Gain there.
    """

    left: float
    low: float
    right: float
    high: float

    def above(self, level: float) -> tuple[float, float] | None:
        """The purses at which the gain is at least `level`; None where it never is."""
        if max(self.low, self.high) < level:
            return None
        if min(self.low, self.high) >= level:
            return self.left, self.right
        part = (level - self.low) / (self.high - self.low)
        between = self.left + part * (self.right - self.left)
        if self.low >= level:
            return self.left, between
        return between, self.right


def _pieces(
    score: InputFloats, values: InputFloats, price: InputFloats, purse: float
) -> Iterator[Piece]:
    """A ranking's gain against what it may spend, up to a purse.

    The gain is linear within a group of equal scores and flat after the last. Groups
    that cost nothing or less are taken as soon as they are reached, so the line can
    jump between pieces.
    """
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    group_price = np.add.reduceat(price[order], starts).tolist()
    group_value = np.add.reduceat(values[order], starts).tolist()
    spent = 0.0
    gain = 0.0
    reached = 0.0
    for cost, value in zip(group_price, group_value, strict=True):
        if spent + cost > reached:
            end = min(spent + cost, purse)
            low = gain + (reached - spent) / cost * value
            high = gain + (end - spent) / cost * value
            yield Piece(reached, low, end, high)
            reached = spent + cost
            if reached >= purse:
                return
        spent += cost
        gain += value
    yield Piece(reached, gain, purse, gain)
