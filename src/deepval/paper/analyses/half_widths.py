"""Results of several cells -> how wide their intervals typically are: what difference a cell could show at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, lines_of, percent
from deepval.results import Result


@dataclass(frozen=True)
class WidthRow:
    """The typical half-width of the paired interval in one cell under one budget.

    Attributes:
        cell: The cell.
        budget: The budget in words.
        kind: selection, latency, energy or money.
        alpha: Its share.
        units: Number of units judged.
        half_width: Median over the allocators of half the paired 95 % interval against random, as a share of the
            all-cheap loss; None where no allocator has one.
    """

    cell: str
    budget: str
    kind: str
    alpha: float
    units: int
    half_width: float | None


def rows(results: Mapping[str, Result]) -> list[WidthRow]:
    """One row per cell and budget."""
    return [
        WidthRow(name, width.budget.label, width.kind, width.alpha, result.setting.units, width.half_width)
        for name, result in results.items()
        for width in result.half_widths
    ]


def table(rows: Sequence[WidthRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "budget", "units", "half-width")
    texts = [(row.cell, row.budget, str(row.units), percent(row.half_width)) for row in rows]
    notes = ("Median over the allocators, in % of the all-cheap loss.",)
    return Table("Typical half-widths", header, lines_of(texts), notes)


def chart(rows: Sequence[WidthRow]) -> Chart:
    """Typical half-width of each cell, by budget."""
    return shares(
        "Median half-width of the paired interval", (Dot(row.cell, row.budget, row.half_width) for row in rows)
    )
