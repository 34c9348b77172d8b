"""Resamples and rows -> the other parts of a result: the setting, units, curves,
half-widths, gaps and notes.

The gap between an allocator and the oracle is split exactly in two ways: by sign, gap =
missed benefit + selected harm
- benefit that the budget forces even the oracle to leave; and by cause, gap =
  overhead + ranking (+ causal). Both
splits describe this protocol only. The causal term can be negative and, because values
are signed, so can the gain of extra capacity.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from deepval.arrays import Float, InputFloats, Num
from deepval.judging import selections
from deepval.judging.allowances import LEVELS, Allowance, Selection, allowance
from deepval.judging.draws import Concentration, concentration
from deepval.judging.resamples import Allocator, Resamples, Resampling, in_memory
from deepval.judging.rows import Judged
from deepval.judging.sieve import SiftedScores
from deepval.judging.stream_rows import Cap
from deepval.judging.tie_expectations import cumulative_gain
from deepval.results import (
    HEADLINE,
    BudgetKey,
    Curve,
    Gap,
    HalfWidth,
    OracleAt,
    Reason,
    Row,
    Setting,
    Spread,
    Unit,
    known,
)
from deepval.tables.costs import Costs
from deepval.tables.scores import REFERENCES, Scores
from deepval.tables.values import ValueTable

MUCH_HARM = 2.0
"""Harm ratio from which the full mode is questioned although it costs more than the
cheap one.
"""


def headline(allowances: Sequence[Allowance]) -> Allowance:
    """The budget to report where only one is shown: selection before others, and 20 %
    of the inputs.
    """
    selection = [a for a in allowances if a.costs is None]
    return next(
        (a for a in selection if a.budget.alpha == HEADLINE),
        (selection or allowances)[0],
    )


def units(
    resamples: Resamples, scores: Sequence[Scores], allowances: Sequence[Allowance]
) -> tuple[Unit, ...]:
    """Each unit's part of the gain at the headline budget, where units are few enough
    to list.
    """
    if resamples.left_out.start == resamples.left_out.stop:
        return ()
    table, allowed = resamples.table, headline(allowances)
    best = selections.unit_sums(
        table, selections.best_weights(table, allowed) * table.decision_values
    )
    return unit_rows(resamples, allowed, best, scores)


def unit_rows(
    resamples: Resampling,
    allowed: Allowance,
    oracle: Num[np.ndarray, "unit"],
    scores: Sequence[Allocator],
) -> tuple[Unit, ...]:
    """Each unit with the gains of the oracle and of each allocator in it."""
    parts = {}
    for item in scores:
        cost = (
            math.inf
            if item.modes or item.name in allowed.unpriced
            else allowed.cost_of(item.name)
        )
        if allowed.feasible(cost):
            parts[item.name] = selections.gains_by_unit(resamples, item, allowed, cost)
    return tuple(
        Unit(
            unit=unit,
            inputs=int(resamples.per_unit[u, 0]),
            cheap_loss=float(resamples.per_unit[u, 1]),
            alpha=allowed.budget.alpha,
            oracle_gain=float(oracle[u]),
            gains={name: float(part[u]) for name, part in parts.items()},
        )
        for u, unit in enumerate(resamples.unit_ids)
    )


def curves(
    resamples: Resamples, scores: Sequence[Scores], points: int
) -> tuple[Curve, ...]:
    """Gain share against the share of inputs escalated, for every allocator and
    reference.
    """
    alphas = np.linspace(0, 1, points + 1)[1:]
    slots = np.column_stack(
        [
            allowance(Selection(float(a)), resamples.table.modes).slots(
                resamples.inputs
            )
            for a in alphas
        ]
    )
    lines = {"random": resamples.at_random(slots)}
    lines |= {
        item.name: resamples.ranking(item, slots) for item in scores if not item.modes
    }
    lines["oracle"] = resamples.best(slots)
    curves = []
    for name, samples in lines.items():
        shares = [
            resamples.paired_difference(s.gain, np.zeros_like(s.gain)).share
            for s in samples
        ]
        drawn = [s[resamples.drawn] for s in shares]
        bounds = [
            resamples.draws.interval(s, ~np.isnan(s) & resamples.resampled)
            for s in drawn
        ]
        curves.append(
            Curve(
                allocator=name,
                alpha=tuple(map(float, alphas)),
                gain_share=tuple(known(s[0]) for s in shares),
                lo=tuple(known(b.low) for b in bounds),
                hi=tuple(known(b.high) for b in bounds),
            )
        )
    return tuple(curves)


def half_widths(
    rows: Sequence[Row], allowances: Sequence[Allowance]
) -> tuple[HalfWidth, ...]:
    """The median half-width of the allocators' paired intervals, per budget.

    It is a typical width, not the smallest detectable effect.
    """
    widths: dict[BudgetKey, list[float]] = {a.key: [] for a in allowances}
    for row in rows:
        half = (
            None
            if row.allocator in REFERENCES or row.versus_random is None
            else row.versus_random.half_width
        )
        if half is not None:
            widths[row.budget].append(half)
    halves = [median(widths[a.key]) if widths[a.key] else None for a in allowances]
    return tuple(
        HalfWidth(**vars(a.key), half_width=half)
        for a, half in zip(allowances, halves, strict=True)
    )


def setting(table: ValueTable) -> Setting:
    """The effect of escalation on the judged inputs, and the spread of the possible
    gain.
    """
    summaries = [table.summary(alpha) for alpha in LEVELS]
    return Setting(
        inputs=len(table),
        units=len(table.unit_ids),
        modes=table.modes,
        cheap_loss=table.cheap_loss,
        affected=table.affected,
        harm_rate=known(table.harm_rate),
        harm_ratio=known(table.harm_ratio),
        all_full_share=known(summaries[0].all_full_share),
        budgets=tuple(
            OracleAt(
                item.alpha,
                item.quota,
                known(item.oracle_share),
                item.budget_binds,
                item.quota_is_capacity,
            )
            for item in summaries
        ),
        concentration=spread(
            concentration(
                np.bincount(
                    table.unit, weights=table.benefits, minlength=len(table.unit_ids)
                ),
                table.unit_ids,
            ),
            concentration(table.benefits, table.input, positive=table.helpful[::-1]),
        ),
    )


def spread(by_unit: Concentration, by_input: Concentration) -> Spread:
    """How evenly the possible gain is spread, as a record of a result."""
    return Spread(
        by_unit.top_unit,
        known(by_unit.top_share),
        known(by_unit.effective_units),
        known(by_unit.gini),
        top_input=by_input.top_unit,
        top_input_share=known(by_input.top_share),
        effective_inputs=known(by_input.effective_units),
        half_inputs=by_input.half or None,
        half_inputs_share=known(by_input.half_share),
    )


def table_notes(
    unit_ids: Sequence[str],
    modes: Sequence[str],
    costs: Costs | None,
    allowances: Sequence[Allowance],
    *,
    affected: int,
    cheap_loss: float,
    gain: float,
    harm_ratio: float,
) -> list[str]:
    """Notes on properties of a table that leave figures undefined, on missing costs,
    and on modes in reverse order.
    """
    notes = []
    if not affected:
        notes.append(
            "All decision values are zero: no allocator can gain "
            "or lose, and nDG is undefined."
        )
    if len(unit_ids) == 1:
        notes.append(
            f"There is a single unit, {unit_ids[0]!r}: nothing can be resampled, so "
            "there is no interval."
        )
    if not cheap_loss > 0:
        notes.append(
            f"The all-cheap loss is {cheap_loss:g}, not positive: "
            "shares of it are undefined."
        )
    if any(allowed.unpriced for allowed in allowances):
        notes += _cost_notes(allowances)
    cheap, full = modes[0], modes[-1]
    figures = {} if costs is None else costs.modes
    one, other = figures.get(cheap, {}), figures.get(full, {})
    less = [
        f"{other[unit]:g} against {one[unit]:g} {unit}"
        for unit in one
        if other.get(unit, math.inf) < one[unit]
    ]
    facts = [f"costs less than {cheap!r} ({', '.join(less)})"] if less else []
    # Much harm alone raises the question, a little only beside reversed costs; NaN (no
    # benefit) passes. A gain that is zero but for rounding depends on the order of the
    # sum.
    if gain < 0 and not harm_ratio < (1 + 1e-9 if less else MUCH_HARM):
        ratio = (
            "it helps nowhere"
            if math.isnan(harm_ratio)
            else f"harm ratio {round(harm_ratio, 9):.3g}"
        )
        facts.append(f"harms more than it helps ({ratio})")
    if facts:
        notes.append(
            f"The last mode, {full!r}, {' and '.join(facts)}: is {full!r} really the "
            "full mode, and is a lower loss better? Name the modes cheap first "
            "(modes=[...], --modes), and give rewards in columns reward_<mode>."
        )
    return notes


def _cost_notes(allowances: Sequence[Allowance]) -> list[str]:
    """Notes on allocators that are listed without a verdict under measured budgets, and
    on how to measure them.
    """
    by_names: dict[tuple[str, ...], dict[str, str]] = {}
    for allowed in allowances:
        names = tuple(
            name
            for name, reason in allowed.unpriced.items()
            if reason is Reason.NO_COST
        )
        if names and allowed.convention:
            by_names.setdefault(names, {})[allowed.budget.kind] = allowed.convention
    return [
        f"No cost known ({', '.join(units.values())}) of {', '.join(names)}: listed "
        f"without a verdict under {' and '.join(units)} budgets. `deepval profile` "
        "measures what an allocator costs; add it under [allocators.NAME] of a costs "
        "file and pass that (--costs)."
        for names, units in by_names.items()
    ]


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

    def holds(self, cost: float) -> bool:
        """Whether an allocator of this cost reaches random's gain."""
        return any(low < cost <= high or cost == low == 0 for low, high in self.spans)


def break_even(
    score: InputFloats, values: InputFloats, allowed: Allowance
) -> BreakEven:
    """{C >= 0 : gain at floor(N*share(C) + 1e-9) >= random's gain at C = 0} under a
    measured budget.

    The gain is constant while the number of slots k is, so the set is a union of
    intervals, one per run of qualifying k. Values are signed, so it need not be a
    single interval.
    """
    inputs = len(values)
    free = int(allowed.slots(inputs))
    chance = free / inputs * values.sum()
    gain = cumulative_gain(score, values)[: free + 1]
    enough = gain >= chance - 1e-12 * np.abs(values).sum()
    # k slots are left while lowest(k) < C <= highest(k). For k = 0, highest(k) is the
    # largest feasible cost.
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
    score: InputFloats, values: InputFloats, price: InputFloats, purse: float
) -> BreakEven:
    """The same set where every input has its own cost: {C >= 0 : gain with purse -
    N*C >= random's gain at C = 0}.
    """
    total = float(price.sum())
    chance = (min(1.0, purse / total) if total > 0 else 1.0) * float(values.sum())
    level = chance - 1e-12 * float(np.abs(values).sum())
    spans: list[tuple[float, float]] = []
    for piece in _pieces(score, values, price, purse):
        for low, high in _above(piece, level):
            near = bool(spans) and low <= spans[-1][1] + 1e-12 * purse
            spans[-1:] = [(spans[-1][0], high)] if near else [*spans[-1:], (low, high)]
    costs = [
        ((purse - high) / len(values), (purse - low) / len(values))
        for low, high in reversed(spans)
    ]
    return BreakEven(tuple(costs), costs[-1][1] if costs else None)


Piece = tuple[tuple[float, float], tuple[float, float]]
"""A part of a line: (purse, gain) at either end."""


def _pieces(
    score: InputFloats, values: InputFloats, price: InputFloats, purse: float
) -> Iterator[Piece]:
    """A ranking's gain against what it may spend, up to a purse: linear within a tie
    group, flat after the last.

    Groups that cost nothing or less are taken as soon as they are reached, so the line
    can jump between pieces.
    """
    order = np.argsort(-score, kind="stable")
    starts = np.flatnonzero(np.append(True, score[order][1:] != score[order][:-1]))
    spent = gain = reached = 0.0
    for cost, value in zip(
        *(
            np.add.reduceat(quantity[order], starts).tolist()
            for quantity in (price, values)
        ),
        strict=True,
    ):
        if spent + cost > reached:
            end = min(spent + cost, purse)
            yield tuple(
                (at, gain + (at - spent) / cost * value) for at in (reached, end)
            )  # pyright: ignore[reportReturnType]
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


def _cost_at(
    slots: Float[np.ndarray, "slots"], inputs: int, allowed: Allowance
) -> Float[np.ndarray, "slots"]:
    """The cost C at which N*share(C) equals `slots`: the inverse of `Allowance.share`
    before it is capped at 1.
    """
    per_escalation = (
        allowed.full - allowed.cheap
        if allowed.accounting == "skipping"
        else allowed.full
    )
    return allowed.budget.alpha * allowed.full - slots / inputs * per_escalation


@dataclass(frozen=True)
class GapSplit:
    """The gap between a zero-cost oracle and an allocator, by sign and by cause, in
    units of the loss.
    """

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
    """Both splits, from three gains: the zero-cost oracle's, and the oracle's and the
    ranking's after cost.

    "After cost" means at the capacity that the allocator's own cost leaves. `causal` is
    (gain, benefit, harm) of the causal cap; if it is passed, the gap is between the
    oracle and the causal cap.
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
        "causal": ranked - final,
    }
    # Sums in another order differ in their last digits: a part that small is set to 0.
    clean = {name: 0.0 if abs(part) <= scale else part for name, part in parts.items()}
    return GapSplit(**clean if causal else {**clean, "causal": None})


def gaps(
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    *,
    judged: Sequence[Judged],
    caps: Mapping[tuple[str, int], Cap],
) -> tuple[Gap, ...]:
    """The parts of each allocator's gap under each budget; a reason instead for scores
    without a single ranking.
    """
    rows = iter(item.row for item in judged if item.row.allocator not in REFERENCES)
    gaps = []
    for index, allowed in enumerate(allowances):
        for item, row in zip(scores, rows, strict=False):
            start = {"allocator": item.name, **vars(allowed.key)}
            if item.modes or row.gain is None:
                gaps.append(Gap(**start, reason=row.reason or Reason.NO_RANKING.text()))
                continue
            after = (
                row.oracle_gain
                if row.cost is None
                else selections.best_gain(resamples, allowed, row.cost)
            )
            split = split_gap(
                oracle=row.oracle_gain or 0.0,
                oracle_after_cost=after or 0.0,
                ranked=row.gain,
                benefit=row.benefit or 0.0,
                harm=row.harm or 0.0,
                all_benefit=float(resamples.full_benefit[0]),
                causal=caps.get((item.name, index)),
            )
            more = (
                {}
                if allowed.costs is None
                else _break_even_fields(resamples, item, allowed)
            )
            gaps.append(Gap(**start, **vars(split), **more))
    return tuple(gaps)


def _break_even_fields(
    resamples: Resampling, scores: Allocator, allowed: Allowance
) -> dict[str, Any]:
    """The break-even costs of a ranking, also where every input has its own cost."""
    if isinstance(scores, SiftedScores):
        return {"reason": Reason.NOT_IN_MEMORY.text()}
    table, score = in_memory(resamples).table, scores.values
    if allowed.per_input:
        purse = selections.purse_on(table, allowed, 0.0)
        even = break_even_of_purse(
            score, table.decision_values, allowed.prices(table)[:, -1], purse
        )
    else:
        even = break_even(score, table.decision_values, allowed)
    return {"break_even": even.largest, "break_even_set": even.spans}
