"""What is judged -> sentences that its reader must see, what was charged, and what cannot be judged at all."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from deepval.errors import InputError
from deepval.judging.budgets import Allowance
from deepval.results import Reason
from deepval.tables.costs import Convention, Costs
from deepval.tables.scanned import ScannedScores
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

MissingCosts = Literal["error", "list"]
"""What an allocator without a cost is under a measured budget: an error, or a row without a verdict."""
MEANS = "charged input by input; a mean over the judged inputs is shown"


def charging(
    scores: Sequence[Scores | ScannedScores], allowances: Sequence[Allowance], missing_costs: MissingCosts
) -> list[Allowance]:
    """The allowances with the allocators that they cannot charge; a diagnostic is an error unless those are listed."""
    if missing_costs == "error":
        _refuse_diagnostics(scores, allowances)
        return list(allowances)
    return [replace(allowed, unpriced=_unpriced(scores, allowed)) for allowed in allowances]


def _unpriced(scores: Sequence[Scores | ScannedScores], allowed: Allowance) -> dict[str, Reason]:
    """Allocators for which a budget has no cost to charge, and why."""
    if allowed.costs is None or allowed.convention is None:
        return {}
    costs, convention = allowed.costs.allocators, allowed.convention
    reasons = {item.name: Reason.DIAGNOSTIC for item in scores if item.kind == "diagnostic"}
    return reasons | {
        item.name: Reason.NO_COST
        for item in scores
        if item.name not in reasons and convention not in costs.get(item.name, {})
    }


def notes_on_costs(allowances: Sequence[Allowance]) -> list[str]:
    """Which allocators are listed without a verdict under measured budgets, and how to learn what they cost."""
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


def _refuse_diagnostics(scores: Sequence[Scores | ScannedScores], allowances: Sequence[Allowance]) -> None:
    """Raise where a diagnostic would be judged under a measured budget."""
    knowing = next((item.name for item in scores if item.kind == "diagnostic"), None)
    measured = next((item.budget.kind for item in allowances if item.budget.kind != "selection"), None)
    if knowing and measured:
        raise InputError(
            f"{knowing} is a diagnostic: it knows what no vehicle could, so a {measured} budget has no cost to charge "
            "for it; judge it under selection budgets only, or leave it out."
        )


def notes_on_order(modes: Sequence[str], costs: Costs | None, *, gain: float, harm_ratio: float) -> list[str]:
    """What suggests that the modes stand the wrong way round, or that rewards were given as losses."""
    cheap, full = modes[0], modes[-1]
    figures = {} if costs is None else costs.modes
    one, other = figures.get(cheap, {}), figures.get(full, {})
    less = [f"{other[unit]:g} against {one[unit]:g} {unit}" for unit in one if other.get(unit, math.inf) < one[unit]]
    told = []
    if less:
        told.append(f"costs less than {cheap!r} ({', '.join(less)})")
    if gain < 0:
        ratio = "it helps nowhere" if math.isnan(harm_ratio) else f"harm ratio {harm_ratio:.3g}"
        told.append(f"harms more than it helps ({ratio})")
    if not told:
        return []
    return [
        f"The last mode, {full!r}, {' and '.join(told)}: is {full!r} really the full mode, and is a lower loss better? "
        "Name the modes cheap first (modes=[...], --modes), and give rewards in columns reward_<mode>."
    ]


def notes_on(unit_ids: Sequence[str], *, affected: int, cheap_loss: float) -> list[str]:
    """What a reader must know: not errors, but nulls follow from them."""
    notes = []
    if not affected:
        notes.append("All decision values are zero: no allocator can gain or lose, and nDG is undefined.")
    if len(unit_ids) == 1:
        notes.append(f"There is a single unit, {unit_ids[0]!r}: nothing can be resampled, so there is no interval.")
    if not cheap_loss > 0:
        notes.append(f"The all-cheap loss is {cheap_loss:g}, not positive: shares of it are undefined.")
    return notes


def charged(allowances: Sequence[Allowance], table: ValueTable | None = None) -> dict[str, Any] | None:
    """What was charged, in the shape of a costs file; of costs per input the means over the judged ones."""
    figures = next((a.costs for a in allowances if a.costs is not None), None)
    if figures is None:
        return None
    told = figures.to_dict()
    each: dict[Convention, None] = {a.convention: None for a in allowances if a.each and a.convention}
    if table is None:
        return told
    for unit in each:
        for mode, mean in zip(table.modes, table.input_costs[unit].mean(axis=0), strict=True):
            told["modes"][mode] = told["modes"].get(mode, {}) | {unit: float(mean), "note": MEANS}
    return told
