"""An allocator's scores and a budget -> where the value between it and the oracle goes, and what it may cost.

Two exact splits of the same gap: by sign, gap = missed benefit + selected harm - benefit that the budget forces even
the oracle to leave; and by cause, gap = overhead + ranking (+ causal). They account for this protocol; the causal
term, and with signed values any capacity, can be negative.
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.judging.budgets import Allowance
from deepval.judging.ties import cumulative_gain

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
