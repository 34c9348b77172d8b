"""Best plans over several modes -> their table."""

from collections.abc import Sequence

from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    number,
    tabulate,
    tenths,
)
from deepval.judge.results import UNITS, Optimum

SHARE = (
    "'share': value of the best plan with the full mode only, as a share of "
    "the optimum over all modes."
)


def ladder_table(optima: Sequence[Optimum]) -> Table:
    """The best plan over all modes under every measured budget."""
    return tabulate("Multi-fidelity optimum", COLUMNS, optima, notes=[SHARE])


def _modes(optimum: Optimum) -> str:
    return ", ".join(f"{name} {count}" for name, count in optimum.modes.items())


def _excess(optimum: Optimum) -> str:
    """What the plan spends too much in units that are not its budget's."""
    parts = [
        f"{UNITS[spending.convention]} {tenths(spending.excess)}"
        for spending in optimum.spent
        if spending.convention != optimum.convention
    ]
    return ", ".join(parts) or MISSING


COLUMNS = (
    Column("budget", lambda optimum: optimum.budget.label),
    Column("optimum", lambda optimum: number(optimum.value)),
    Column("full only", lambda optimum: number(optimum.full_only), rank=2),
    Column("share", lambda optimum: tenths(optimum.full_only_share)),
    Column("LP bound", lambda optimum: number(optimum.lp_bound), rank=1),
    Column("modes", _modes),
    Column("excess in other units", _excess, rank=3),
)
