"""Cells -> whether a quota forces harm: quota and capacity agree if enough inputs are
not harmed to fill the quota.

A ranking escalates exactly k inputs (a quota), the oracle at most k (a capacity). If at
least k inputs have V >= 0, the best choice of exactly k gains as much as the best of at
most k, so both have the same oracle. Otherwise the quota must be filled with the
smallest harms, and loses their sum.

Whether enough inputs are not harmed for a quota and a capacity to have the same oracle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.judging.allowances import LEVELS
from deepval.judging.extras.optimality import oracle_gain
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    Units,
    column,
    count,
    declared_table,
    level,
    loss_table,
    yes_no,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, percent
from deepval.results import known


@dataclass(frozen=True)
class CapacityRow(CellName):
    """One cell at one share."""

    alpha: float = column("Share of inputs that are escalated", "budget", level)
    inputs: int = column("Number of inputs", "inputs", count)
    quota: int = column("Number of inputs that are escalated, k", "quota", count)
    not_harmed: int = column("Inputs with V >= 0", "not harmed", count)
    coincide: bool = column(
        "Whether at least k inputs are not harmed, so that quota and capacity have "
        "the same oracle",
        "one oracle",
        yes_no,
    )
    capacity_gain: float = column(
        "Gain of the best choice of at most k inputs, in units of the loss"
    )
    quota_gain: float = column("Gain of the best choice of exactly k inputs")
    forced_share: float | None = column(
        "capacity_gain - quota_gain, as a share of the all-cheap loss; None if that "
        "loss is not positive",
        "forced harm",
        percent,
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    alphas: Sequence[float] = LEVELS,
    units: Units = "test",
    watch: Watch = unwatched,
) -> list[CapacityRow]:
    """One row per cell and share, over the inputs of the named units."""
    records = []
    for name, cell in watch(list(cells.items()), "capacity"):
        table = loss_table(cell, units)
        values, loss = table.decision_values, table.cheap_loss
        for alpha in alphas:
            summary = table.summary(alpha)
            best, exact = (
                oracle_gain(values, summary.quota),
                _exactly(values, summary.quota),
            )
            records.append(
                CapacityRow(
                    cell=name,
                    alpha=alpha,
                    inputs=len(table),
                    quota=summary.quota,
                    not_harmed=int(np.count_nonzero(values >= 0)),
                    coincide=summary.quota_is_capacity,
                    capacity_gain=best,
                    quota_gain=best if summary.quota_is_capacity else exact,
                    forced_share=known((best - exact) / loss if loss > 0 else np.nan)
                    if not summary.quota_is_capacity
                    else 0.0,
                )
            )
    return records


def _exactly(values: np.ndarray, number: int) -> float:
    """The sum of the `number` largest values, including negative ones if there are too
    few others.
    """
    return float(np.sort(values)[::-1][:number].sum())


def table(rows: Sequence[CapacityRow]) -> Table:
    """The rows as a table."""
    apart = [
        f"{row.cell} at {percent(row.alpha, 0)}" for row in rows if not row.coincide
    ]
    exceptions = f", not at {', '.join(apart)}" if apart else ""
    note = (
        "Quota and capacity have "
        f"one oracle in {len(rows) - len(apart)} of {len(rows)} rows{exceptions}."
    )
    return declared_table(
        CapacityRow, rows, "Whether a quota forces harm", notes=(note,)
    )


def chart(rows: Sequence[CapacityRow]) -> Chart:
    """What a quota loses to a capacity in each cell, by budget."""
    dots = (Dot(row.cell, percent(row.alpha, 0), row.forced_share) for row in rows)
    return shares(
        "Harm that the quota forces, share of the all-cheap loss", dots, line=0.0
    )


CAPACITY = declare(
    __name__,
    shows="Show whether a quota forces harm",
    paper="quota and capacity",
    example="cells/braking-monocular",
    judges=True,
)
