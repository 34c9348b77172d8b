"""An allocator's scores and a budget -> where the value between it and the oracle goes, and what it may cost.

Two exact splits of the same gap: by sign, gap = missed benefit + selected harm - benefit that the budget forces even
the oracle to leave; and by cause, gap = overhead + ranking (+ causal). They account for this protocol; the causal
term, and with signed values any capacity, can be negative.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.judging import selections
from deepval.judging.budgets import Allowance
from deepval.judging.resamples import Allocator, Resampling, in_memory
from deepval.judging.rows import Judged
from deepval.judging.sieve import SiftedScores
from deepval.judging.streams import Cap
from deepval.judging.ties import cumulative_gain
from deepval.results import Gap, Reason, Row
from deepval.tables.scores import REFERENCES
from deepval.tables.values import ValueTable

Spans = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class BreakEven:
    """Costs per input at which a ranking still reaches random's gain.

    Attributes:
        spans: Disjoint intervals (above, up to], ascending; one that starts at 0 includes 0.
        largest: The largest such cost, None where not even a free allocator reaches it.
    """

    spans: Spans
    largest: float | None

    def holds(self, cost: float) -> bool:
        """Whether an allocator of this cost reaches random's gain."""
        return any(low < cost <= high or cost == low == 0 for low, high in self.spans)


def break_even(score: Float[np.ndarray, "input"], values: Float[np.ndarray, "input"], allowed: Allowance) -> BreakEven:
    """{C >= 0 : gain at floor(N*share(C) + 1e-9) >= random's gain at C = 0} under a measured budget.

    The gain is constant while the number of slots k is, so the set is a union of intervals, one per run of
    qualifying k. Values are signed, so it need not be a single interval.
    """
    inputs = len(values)
    free = int(allowed.slots(inputs))
    chance = free / inputs * values.sum()
    gain = cumulative_gain(score, values)[: free + 1]
    enough = gain >= chance - 1e-12 * np.abs(values).sum()
    # k slots are left while lowest(k) < C <= highest(k); zero slots up to the largest feasible cost.
    steps = np.arange(free + 1)
    highest = _cost_at(steps - 1e-9, inputs, allowed)
    highest[0] = allowed.budget.alpha * allowed.full
    lowest = np.maximum(_cost_at(steps + 1 - 1e-9, inputs, allowed), 0.0)
    lowest[free] = 0.0
    spans: list[tuple[float, float]] = []
    for k in np.flatnonzero(enough)[::-1]:
        low, high = float(lowest[k]), float(max(highest[k], 0.0))
        if spans and np.isclose(spans[-1][1], low, rtol=0, atol=1e-12 * allowed.full):
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return BreakEven(tuple(spans), spans[-1][1] if spans else None)


def break_even_of_purse(
    score: Float[np.ndarray, "input"],
    values: Float[np.ndarray, "input"],
    price: Float[np.ndarray, "input"],
    purse: float,
) -> BreakEven:
    """The same set where every input has its own cost: {C >= 0 : gain with purse - N*C >= random's gain at C = 0}."""
    total = float(price.sum())
    chance = (min(1.0, purse / total) if total > 0 else 1.0) * float(values.sum())
    level = chance - 1e-12 * float(np.abs(values).sum())
    spans: list[tuple[float, float]] = []
    for piece in _pieces(score, values, price, purse):
        for low, high in _above(piece, level):
            near = bool(spans) and low <= spans[-1][1] + 1e-12 * purse
            spans[-1:] = [(spans[-1][0], high)] if near else [*spans[-1:], (low, high)]
    costs = [((purse - high) / len(values), (purse - low) / len(values)) for low, high in reversed(spans)]
    return BreakEven(tuple(costs), costs[-1][1] if costs else None)


Piece = tuple[tuple[float, float], tuple[float, float]]
"""A part of a line: (purse, gain) at either end."""


def _pieces(
    score: Float[np.ndarray, "input"],
    values: Float[np.ndarray, "input"],
    price: Float[np.ndarray, "input"],
    purse: float,
) -> Iterator[Piece]:
    """A ranking's gain against what it may spend, up to a purse: linear within a tie group, flat after the last.

    Groups that cost nothing or less are taken as soon as they are reached, so the line can jump between pieces.
    """
    order = np.argsort(-score, kind="stable")
    starts = np.flatnonzero(np.append(True, score[order][1:] != score[order][:-1]))
    spent = gain = reached = 0.0
    for cost, value in zip(
        *(np.add.reduceat(quantity[order], starts).tolist() for quantity in (price, values)), strict=True
    ):
        if spent + cost > reached:
            end = min(spent + cost, purse)
            yield tuple((at, gain + (at - spent) / cost * value) for at in (reached, end))  # pyright: ignore[reportReturnType]
            reached = spent + cost
            if reached >= purse:
                return
        spent, gain = spent + cost, gain + value
    yield (reached, gain), (purse, gain)


def _above(piece: Piece, level: float) -> list[tuple[float, float]]:
    """The purses of a piece at which the gain is at least `level`."""
    (left, low), (right, high) = piece
    if max(low, high) < level:
        return []
    if min(low, high) >= level:
        return [(left, right)]
    between = left + (level - low) / (high - low) * (right - left)
    return [(left, between) if low >= level else (between, right)]


def _cost_at(slots: Float[np.ndarray, "slots"], inputs: int, allowed: Allowance) -> Float[np.ndarray, "slots"]:
    """The cost C at which N*share(C) equals `slots`: the inverse of `Allowance.share` before it is capped at 1."""
    per_escalation = allowed.full - allowed.cheap if allowed.accounting == "skipping" else allowed.full
    return allowed.budget.alpha * allowed.full - slots / inputs * per_escalation


@dataclass(frozen=True)
class GapSplit:
    """The gap between a zero-cost oracle and an allocator, by sign and by cause, in units of the loss."""

    gap: float
    missed: float
    selected_harm: float
    left_out: float
    overhead: float
    ranking: float
    causal: float | None


def split_gap(
    *,
    oracle: float,
    oracle_after_cost: float,
    ranked: float,
    benefit: float,
    harm: float,
    all_benefit: float,
    causal: tuple[float, float, float] | None = None,
) -> GapSplit:
    """Both splits from gains: of the zero-cost oracle, of the oracle and the ranking at the capacity that is left.

    `causal` is (gain, benefit, harm) of the causal cap; with it the gap is that policy's.
    """
    final, final_benefit, final_harm = causal or (ranked, benefit, harm)
    scale = 1e-12 * max(all_benefit, harm)
    parts = {
        "gap": oracle - final,
        "missed": all_benefit - final_benefit,
        "selected_harm": final_harm,
        "left_out": all_benefit - oracle,
        "overhead": oracle - oracle_after_cost,
        "ranking": oracle_after_cost - ranked,
    }
    # Sums in another order differ in their last digits; what is only that is nothing.
    clean = {name: 0.0 if abs(part) <= scale else part for name, part in parts.items()}
    return GapSplit(**clean, causal=None if causal is None else ranked - final)


def gaps(
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    *,
    judged: Sequence[Judged],
    caps: Mapping[tuple[str, int], Cap],
) -> tuple[Gap, ...]:
    """The parts of each allocator's gap under each budget; per-mode scores have no single ranking to account for."""
    rows = iter(item.row for item in judged if item.row.allocator not in REFERENCES)
    return tuple(
        Gap(
            item.name,
            **allowed.key.fields,
            **_gap(resamples, item, allowed, row=next(rows), cap=caps.get((item.name, index))),
        )
        for index, allowed in enumerate(allowances)
        for item in scores
    )


def _gap(resamples: Resampling, scores: Allocator, allowed: Allowance, *, row: Row, cap: Cap | None) -> dict[str, Any]:
    if scores.modes or row.gain is None:
        return {"reason": row.reason or Reason.NO_RANKING.text()}
    after = row.oracle_gain if row.cost is None else selections.best_gain(resamples, allowed, row.cost)
    split = split_gap(
        oracle=row.oracle_gain or 0.0,
        oracle_after_cost=after or 0.0,
        ranked=row.gain,
        benefit=row.benefit or 0.0,
        harm=row.harm or 0.0,
        all_benefit=float(resamples.full_benefit[0]),
        causal=cap,
    )
    if allowed.costs is None:
        return vars(split)
    if isinstance(scores, SiftedScores):
        return vars(split) | {"reason": Reason.NOT_IN_MEMORY.text()}
    even = _break_even_under(in_memory(resamples).table, scores.values, allowed)
    return vars(split) | {"break_even": even.largest, "break_even_set": even.spans}


def _break_even_under(table: ValueTable, score: Float[np.ndarray, "input"], allowed: Allowance) -> BreakEven:
    """The break-even costs of a ranking, also where every input has its own cost."""
    if not allowed.per_input:
        return break_even(score, table.decision_values, allowed)
    purse = selections.purse_on(table, allowed, 0.0)
    return break_even_of_purse(score, table.decision_values, allowed.prices(table)[:, -1], purse)
