"""The typical width of intervals: what size of difference a cell can show."""

from collections.abc import Iterator, Sequence

from deepval.judge.report.text_tables import percent
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Dots, Row


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per cell and budget."""
    for name, result in of_each(cells, "results").items():
        for width in result.half_widths:
            yield {
                "cell": name,
                "budget": width.budget.label,
                "kind": width.kind,
                "alpha": width.alpha,
                "units": result.setting.units,
                "half_width": width.half_width,
            }


HALF_WIDTHS = Analysis(
    name="half-widths",
    shows="Show how wide the intervals are",
    paper="typical half-widths",
    example="cells/braking-monocular result.json",
    details=("Median half-width of the paired interval, by cell and budget."),
    rows=rows,
    asks=("results",),
    columns=(
        NAME,
        Column("budget", "The budget in words", heading="budget"),
        Column("kind", "Kind of budget: selection, latency, energy or money"),
        Column("alpha", "The budget's share"),
        Column("units", "Number of units judged", heading="units"),
        Column(
            "half_width",
            "Median over the allocators of half the width of the paired 95 % interval "
            "against random, as a share of the all-cheap loss; None without any "
            "interval",
            heading="half-width",
            text=percent,
        ),
    ),
    title="Typical half-widths",
    notes=lambda rows: ["Median over the allocators, in % of the all-cheap loss."],
    charts=[
        Dots("Median half-width of the paired interval", {"{budget}": "half_width"})
    ],
)
