"""Resamples and rows -> the other parts of a result: the setting, units, curves, half-widths and notes."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from deepval.arrays import Float, Num
from deepval.judging import selections
from deepval.judging.budgets import LEVELS, Allowance, Selection, allowance
from deepval.judging.draws import Concentration, concentration
from deepval.judging.resamples import Resamples, Resampling
from deepval.results import (
    HEADLINE,
    BudgetKey,
    Curve,
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


def headline(allowances: Sequence[Allowance]) -> Allowance:
    """The budget to report where only one is shown: selection before others, and 20 % of the inputs."""
    selection = [a for a in allowances if a.costs is None]
    return next((a for a in selection if a.budget.alpha == HEADLINE), (selection or allowances)[0])


def units(resamples: Resamples, scores: Sequence[Scores], allowances: Sequence[Allowance]) -> tuple[Unit, ...]:
    """Each unit's part of the gain at the headline budget, where units are few enough to list."""
    table, number = resamples.table, len(resamples.table.unit_ids)
    if resamples.left_out.start == resamples.left_out.stop:
        return ()
    allowed = headline(allowances)
    values = table.decision_values

    def per_unit(weights: Float[np.ndarray, "input"]) -> Num[np.ndarray, "unit"]:
        some = np.flatnonzero(weights)
        return np.bincount(table.unit[some], weights=weights[some], minlength=number)

    parts = {}
    for item in scores:
        if item.name in allowed.unpriced:
            continue
        cost = allowed.cost_of(item.name)
        if not item.modes and allowed.feasible(cost):
            parts[item.name] = per_unit(selections.weights(table, item, allowed, cost) * values)
    return unit_rows(resamples, allowed, per_unit(selections.best_weights(table, allowed) * values), parts)


def unit_rows(
    resamples: Resampling,
    allowed: Allowance,
    oracle: Num[np.ndarray, "unit"],
    parts: Mapping[str, Num[np.ndarray, "unit"]],
) -> tuple[Unit, ...]:
    """Each unit with the gains of the oracle and of each allocator in it."""
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


def curves(resamples: Resamples, scores: Sequence[Scores], points: int) -> tuple[Curve, ...]:
    """Gain share against the share of inputs escalated, for every allocator and reference."""
    if points < 1:
        return ()
    alphas = np.linspace(0, 1, points + 1)[1:]
    slots = np.column_stack(
        [allowance(Selection(float(a)), resamples.table.modes).slots(resamples.inputs) for a in alphas]
    )
    lines = {"random": resamples.at_random(slots)}
    lines |= {item.name: resamples.ranked(item, slots) for item in scores if not item.modes}
    lines["oracle"] = resamples.best(slots)
    curves = []
    for name, samples in lines.items():
        shares = [resamples.paired(s.gain, np.zeros_like(s.gain)).share for s in samples]
        drawn = [s[resamples.drawn] for s in shares]
        bounds = [resamples.draws.interval(s, ~np.isnan(s) & resamples.resampled) for s in drawn]
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


def half_widths(rows: Sequence[Row], allowances: Sequence[Allowance]) -> tuple[HalfWidth, ...]:
    """Per budget, the median half-width of the paired interval over the allocators: typical, not the least effect."""
    widths: dict[BudgetKey, list[float]] = {a.key: [] for a in allowances}
    for row in rows:
        half = None if row.allocator in REFERENCES or row.versus_random is None else row.versus_random.half_width
        if half is not None:
            widths[row.budget].append(half)
    halves = [median(widths[a.key]) if widths[a.key] else None for a in allowances]
    return tuple(HalfWidth(**a.key.fields, half_width=half) for a, half in zip(allowances, halves, strict=True))


def setting(table: ValueTable) -> Setting:
    """The effect of escalation on the judged inputs, and the spread of the possible gain."""
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
            OracleAt(item.alpha, item.quota, known(item.oracle_share), item.budget_binds, item.quota_is_capacity)
            for item in summaries
        ),
        concentration=_spread(table),
    )


def _spread(table: ValueTable) -> Spread:
    """How the possible gain is spread over units and over inputs."""
    units = np.bincount(table.unit, weights=table.benefits, minlength=len(table.unit_ids))
    by_input = concentration(table.benefits, table.input, positive=table.helpful[::-1])
    return spread(concentration(units, table.unit_ids), by_input)


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
    """Notes on properties of a table that leave figures undefined, on missing costs, and on modes in reverse order."""
    notes = []
    if not affected:
        notes.append("All decision values are zero: no allocator can gain or lose, and nDG is undefined.")
    if len(unit_ids) == 1:
        notes.append(f"There is a single unit, {unit_ids[0]!r}: nothing can be resampled, so there is no interval.")
    if not cheap_loss > 0:
        notes.append(f"The all-cheap loss is {cheap_loss:g}, not positive: shares of it are undefined.")
    notes += _cost_notes(allowances)
    cheap, full = modes[0], modes[-1]
    figures = {} if costs is None else costs.modes
    one, other = figures.get(cheap, {}), figures.get(full, {})
    less = [f"{other[unit]:g} against {one[unit]:g} {unit}" for unit in one if other.get(unit, math.inf) < one[unit]]
    facts = [f"costs less than {cheap!r} ({', '.join(less)})"] if less else []
    # A gain that is zero but for rounding depends on the order of the sum; NaN (no benefit) passes.
    if gain < 0 and not harm_ratio < 1 + 1e-9:
        ratio = "it helps nowhere" if math.isnan(harm_ratio) else f"harm ratio {harm_ratio:.3g}"
        facts.append(f"harms more than it helps ({ratio})")
    if facts:
        notes.append(
            f"The last mode, {full!r}, {' and '.join(facts)}: is {full!r} really the full mode, and is a lower loss "
            "better? Name the modes cheap first (modes=[...], --modes), and give rewards in columns reward_<mode>."
        )
    return notes


def _cost_notes(allowances: Sequence[Allowance]) -> list[str]:
    """Notes on allocators that are listed without a verdict under measured budgets, and on how to measure them."""
    by_names: dict[tuple[str, ...], dict[str, str]] = {}
    for allowed in allowances:
        names = tuple(name for name, reason in allowed.unpriced.items() if reason is Reason.NO_COST)
        if names and allowed.convention:
            by_names.setdefault(names, {})[allowed.budget.kind] = allowed.convention
    return [
        f"No cost known ({', '.join(units.values())}) of {', '.join(names)}: listed without a verdict under "
        f"{' and '.join(units)} budgets. `deepval profile` measures what an allocator costs; add it under "
        "[allocators.NAME] of a costs file and pass that (--costs)."
        for names, units in by_names.items()
    ]
