"""Results of several cells -> the typical width of their intervals: what size of
difference a cell can show.

Median half-width of the paired interval, by cell and budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.paper.analysis import declare
from deepval.paper.row_columns import CellName, column, declared_table
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, percent
from deepval.results import Result


@dataclass(frozen=True)
class WidthRow(CellName):
    """The typical half-width of the paired interval in one cell under one budget."""

    budget: str = column("The budget in words", "budget")
    kind: str = column("Kind of budget: selection, latency, energy or money")
    alpha: float = column("The budget's share")
    units: int = column("Number of units judged", "units")
    half_width: float | None = column(
        "Median over the allocators of half the width of the paired 95 % interval "
        "against random, as a share of the all-cheap loss; None "
        "if no allocator has an interval",
        "half-width",
        percent,
    )


def rows(results: Mapping[str, Result]) -> list[WidthRow]:
    """One row per cell and budget."""
    return [
        WidthRow(
            name,
            width.budget.label,
            width.kind,
            width.alpha,
            result.setting.units,
            width.half_width,
        )
        for name, result in results.items()
        for width in result.half_widths
    ]


def table(rows: Sequence[WidthRow]) -> Table:
    """The rows as a table."""
    notes = ("Median over the allocators, in % of the all-cheap loss.",)
    return declared_table(WidthRow, rows, "Typical half-widths", notes=notes)


def chart(rows: Sequence[WidthRow]) -> Chart:
    """Typical half-width of each cell, by budget."""
    return shares(
        "Median half-width of the paired interval",
        (Dot(row.cell, row.budget, row.half_width) for row in rows),
    )


HALF_WIDTHS = declare(
    __name__,
    shows="Show how wide the intervals are",
    paper="typical half-widths",
    example="cells/braking-monocular result.json",
)
