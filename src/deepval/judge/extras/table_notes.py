"""A table and its budgets -> notes on what leaves figures undefined.

Also on missing costs, and on modes that seem to be in reverse order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deepval.judge.allowances import Allowance
from deepval.judge.results import Reason
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.values import ValueTable

MUCH_HARM = 2.0
"""Harm ratio from which the full mode is questioned although it costs more than the
cheap one."""


@dataclass(frozen=True)
class TableFacts:
    """What the notes rest on, whether the table is in memory or in files.

    Attributes:
        unit_ids: Ids of the judged units.
        modes: Names of the modes, cheap first.
        costs: Costs of the modes, if known.
        affected: Judged inputs whose loss the full mode changes.
        cheap_loss: All-cheap loss of the judged inputs.
        gain: Sum of all decision values, judged or not.
        harm_ratio: Total harm over total benefit of all inputs.
        has_rewards: Whether rewards were given, of which no loss has shares.
    """

    unit_ids: Sequence[str]
    modes: Sequence[str]
    costs: Costs | None
    affected: int
    cheap_loss: float
    gain: float
    harm_ratio: float
    has_rewards: bool = False


def table_notes(
    judged: ValueTable, whole: ValueTable, allowances: Sequence[Allowance]
) -> list[str]:
    """The notes on a table in memory, of which a part is judged."""
    facts = TableFacts(
        unit_ids=judged.unit_ids.tolist(),
        modes=whole.modes,
        costs=whole.costs,
        affected=judged.affected,
        cheap_loss=judged.cheap_loss,
        gain=whole.full_gain,
        harm_ratio=whole.harm_ratio,
        has_rewards=whole.is_reward,
    )
    return notes_on(facts, allowances)


def notes_on(facts: TableFacts, allowances: Sequence[Allowance]) -> list[str]:
    """The notes on a table with these facts."""
    notes = []
    if facts.affected == 0:
        notes.append(
            "All decision values are zero: no allocator can gain or lose, and nDG is "
            "undefined."
        )
    if len(facts.unit_ids) == 1:
        notes.append(
            f"There is a single unit, {facts.unit_ids[0]!r}: nothing can be resampled, "
            "so there is no interval."
        )
    if not facts.cheap_loss > 0 and not facts.has_rewards:
        notes.append(
            f"The all-cheap loss is {facts.cheap_loss:g}, not positive: shares of it "
            "are undefined."
        )
    notes += _missing_costs(allowances)
    doubts = _doubts_on_full_mode(facts)
    if doubts:
        full = facts.modes[-1]
        notes.append(
            f"The last mode, {full!r}, {' and '.join(doubts)}: is {full!r} really the "
            "full mode, and is a lower loss better? Name the modes cheap first "
            "(modes=[...], --modes), and give rewards in columns reward_<mode>."
        )
    return notes


def _doubts_on_full_mode(facts: TableFacts) -> list[str]:
    """What suggests that the last mode is not the full one."""
    doubts = []
    cheaper = _cheaper_conventions(facts)
    if cheaper:
        doubts.append(f"costs less than {facts.modes[0]!r} ({', '.join(cheaper)})")
    # Much harm alone raises the question, a little only beside reversed costs. A gain
    # that is zero but for rounding depends on the order of the sum.
    suspicious = MUCH_HARM
    if cheaper:
        suspicious = 1 + 1e-9
    is_harmless = facts.harm_ratio < suspicious  # False for NaN: no benefit at all
    if facts.gain < 0 and not is_harmless:
        ratio = f"harm ratio {round(facts.harm_ratio, 9):.3g}"
        if math.isnan(facts.harm_ratio):
            ratio = "it helps nowhere"
        doubts.append(f"harms more than it helps ({ratio})")
    return doubts


def _cheaper_conventions(facts: TableFacts) -> list[str]:
    """Where the last mode costs less than the first, with both figures."""
    modes = {}
    if facts.costs is not None:
        modes = facts.costs.modes
    first = modes.get(facts.modes[0], {})
    last = modes.get(facts.modes[-1], {})
    return [
        f"{last[unit]:g} against {first[unit]:g} {unit}"
        for unit in first
        if last.get(unit, math.inf) < first[unit]
    ]


def _missing_costs(allowances: Sequence[Allowance]) -> list[str]:
    """Notes on allocators that are listed without a verdict under measured budgets."""
    by_names: dict[tuple[str, ...], dict[str, str]] = {}
    for allowance in allowances:
        names = tuple(
            name
            for name, reason in allowance.unpriced.items()
            if reason is Reason.NO_COST
        )
        if names and allowance.convention:
            units = by_names.setdefault(names, {})
            units[allowance.budget.kind] = allowance.convention
    return [
        f"No cost known ({', '.join(units.values())}) of {', '.join(names)}: listed "
        f"without a verdict under {' and '.join(units)} budgets. `deepval profile` "
        "measures what an allocator costs; add it under [allocators.NAME] of a costs "
        "file and pass that (--costs)."
        for names, units in by_names.items()
    ]
