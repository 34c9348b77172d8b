"""Gaps to the oracle -> the table of where they go."""

from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    cost,
    of_loss,
    tabulate,
)
from deepval.judge.results import UNITS, Gap, Result

PARTS = {
    "gap": "gap",
    "missed": "missed",
    "harm": "selected_harm",
    "left out": "left_out",
    "overhead": "overhead",
    "ranking": "ranking",
    "causal": "causal",
}
"""Heading -> field of a gap."""
RANKS = {"overhead": 2, "ranking": 3, "causal": 4}
"""The other way to part a gap goes first."""


def gap_table(result: Result) -> Table:
    """Where each allocator's gap to the oracle goes."""
    # Same unit as the table of verdicts: if the all-cheap loss is almost zero, shares
    # of it mean nothing.
    loss = result.setting.cheap_loss
    if any(row.versus_random_unit == "loss" for row in result.rows):
        loss = None
    columns = [Column("allocator", lambda gap: gap.allocator)]
    for heading, field in PARTS.items():

        def part(gap: Gap, field: str = field) -> str:
            return of_loss(getattr(gap, field), loss)

        columns.append(Column(heading, part, rank=RANKS.get(heading)))
    columns.append(Column("break-even", _break_even, rank=1))
    return tabulate(
        "Where the gap to the oracle goes",
        columns,
        result.gaps,
        groups=[Column("budget", lambda gap: gap.budget.label)],
        notes=["gap = missed + harm - left out = overhead + ranking (+ causal)."],
    )


def _break_even(gap: Gap) -> str:
    if gap.break_even is None:
        return MISSING
    text = cost(gap.break_even, gap.convention)
    return text if gap.convention is None else f"{text} {UNITS[gap.convention]}"
