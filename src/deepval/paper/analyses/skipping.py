"""Results of several cells -> routers that need no cheap pass: the full mode is charged
instead of the cheap mode.

An escalated input then costs C_f - C_c more than the others, so far more can be
escalated. This applies only to allocators that do not look at the cheap mode's output
but, for example, at an image or the ego's speed. All others need the cheap pass that
they would skip.

Routers that need no cheap pass, charged for the full mode instead of both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from deepval.errors import InputError
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import (
    AllocatorName,
    BudgetColumns,
    CellName,
    column,
    declared_table,
    high,
    low,
)
from deepval.paper.study import skippers
from deepval.paper.tidy import feasible_share, shortest
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, TableCell, mark_of, number, percent
from deepval.results import Result, Row, lists_by_key, row_from


@dataclass(frozen=True)
class SkippingRow(BudgetColumns, AllocatorName, CellName):
    """One allocator of a cell under one skipping budget, beside the cascade of the same
    share.
    """

    cost: float | None = column("Cost of the allocator per input", "cost", shortest)
    share: float | None = column(
        "Share of the inputs that it may escalate; None if it cannot run",
        "escalates",
        feasible_share,
    )
    cascade_share: float | None = column(
        "The same share in a cascade; None if it cannot run there or was not judged",
        "in a cascade",
        feasible_share,
    )
    ndg: float | None = column(
        "nDG against the skipping oracle",
        "nDG",
        of_row=lambda row: TableCell(number(row.ndg), mark_of(row.verdict)),
    )
    versus_random: float | None = column(
        "(gain - random's gain) / all-cheap loss; random escalates as many inputs as "
        "a free allocator may",
        "vs random",
        percent,
    )
    versus_random_lo: float | None = low(
        "Lower end of its paired 95 % interval", "95 %", percent
    )
    versus_random_hi: float | None = high()
    verdict: str | None = column(
        "Verdict against random: better, worse, unresolved or infeasible"
    )
    reason: str | None = column("Why something is None")


@dataclass(frozen=True)
class SkippingCount(BudgetColumns, AllocatorName):
    """One allocator under one skipping budget, over cells."""

    cells: int = column("Number of cells", "cells")
    positive: int = column("Cells in which it can escalate anything", "positive")
    share: float | None = column(
        "Median over these cells of the share of inputs that it may escalate",
        "escalates",
        feasible_share,
    )
    cascade_share: float | None = column(
        "Median of the same share in a cascade, over the cells "
        "in which it can run there",
        "in a cascade",
        feasible_share,
    )
    better: int = column("Positive cells in which it beats random", "better")
    worse: int = column("Positive cells in which it loses to random", "worse")
    unresolved: int = column("Positive cells whose interval contains 0", "unresolved")


Skippers = Annotated[
    Sequence[str] | None,
    Option(
        "Allocator that needs no cheap pass. Repeatable. Default: those of deepval.",
        ("--allocator", "-a"),
    ),
]


def rows(
    results: Mapping[str, Result],
    allocators: Skippers = None,
) -> list[SkippingRow]:
    """One row per cell, skipping budget and allocator.

    Args:
        results: Results by cell with budgets of skipping accounting, and cascade
            budgets to compare them with.
        allocators: Names of allocators that need no cheap pass; None for those of the
            package.
    """
    names = skippers() if allocators is None else tuple(allocators)
    records = []
    for name, result in results.items():
        budgets = {
            row.budget: row for row in result.choosers if row.accounting == "skipping"
        }
        if not budgets:
            raise InputError(
                f"{name}: a skipping router is judged under skipping budgets; the "
                "result has none."
            )
        cascades = {
            (row.allocator, row.kind, row.alpha, row.convention): row
            for row in result.choosers
            if row.accounting == "cascade"
        }
        for row in result.choosers:
            if row.accounting == "skipping" and row.allocator in names:
                cascade = cascades.get(
                    (row.allocator, row.kind, row.alpha, row.convention)
                )
                records.append(_row(name, row, cascade))
    return records


def _row(name: str, row: Row, cascade: Row | None) -> SkippingRow:
    cascade_share = None if cascade is None else _share(cascade)
    return row_from(
        row, SkippingRow, cell=name, share=_share(row), cascade_share=cascade_share
    )


def _share(row: Row) -> float | None:
    return None if row.slots is None or not row.inputs else row.slots / row.inputs


def over_cells(rows: Sequence[SkippingRow]) -> list[SkippingCount]:
    """One row per budget and allocator, in order of appearance."""
    records = []
    for (budget, allocator), members in lists_by_key(
        ((row.budget, row.allocator), row) for row in rows
    ).items():
        positive = [row for row in members if row.share]
        shares = [row.share for row in positive if row.share]
        cascades = [
            row.cascade_share for row in members if row.cascade_share is not None
        ]
        verdicts = [row.verdict for row in positive]
        records.append(
            SkippingCount(
                allocator=allocator,
                **vars(budget),
                cells=len(members),
                positive=len(positive),
                share=median(shares) if shares else None,
                cascade_share=median(cascades) if cascades else None,
                better=verdicts.count("better"),
                worse=verdicts.count("worse"),
                unresolved=verdicts.count("unresolved"),
            )
        )
    return records


def table(rows: Sequence[SkippingRow]) -> Table:
    """The rows as a table."""
    order = (
        "cell",
        "kind",
        "allocator",
        "cost",
        "share",
        "cascade_share",
        "ndg",
        "versus_random",
        "versus_random_lo",
    )
    return declared_table(
        SkippingRow,
        rows,
        "Routers that skip the cheap pass",
        notes=_notes(rows),
        order=order,
    )


def _notes(rows: Sequence[SkippingRow]) -> tuple[str, ...]:
    notes = []
    for kind in dict.fromkeys(row.kind for row in rows):
        positive = [row for row in rows if row.kind == kind and row.share]
        verdicts = [row.verdict for row in positive]
        notes.append(
            f"{kind}: {len(positive)} combinations of allocator, cell and budget with "
            "anything to escalate; better "
            "than "
            "random "
            f"in {verdicts.count('better')}, worse in {verdicts.count('worse')}."
        )
    return tuple(notes)


def over_cells_table(rows: Sequence[SkippingCount]) -> Table:
    """The counts as a table."""
    order = (
        "kind",
        "allocator",
        "cells",
        "positive",
        "share",
        "cascade_share",
        "better",
        "worse",
        "unresolved",
    )
    return declared_table(SkippingCount, rows, "Skipping over cells", order=order)


def chart(rows: Sequence[SkippingRow]) -> Chart:
    """Difference with random of each allocator that has anything to escalate, by
    budget.
    """
    dots = (
        Dot(
            f"{row.cell}: {row.allocator}",
            row.budget.label,
            row.versus_random,
            row.versus_random_lo,
            row.versus_random_hi,
        )
        for row in rows
        if row.share
    )
    return shares("Gain less random's, share of the all-cheap loss", dots, line=0.0)


SKIPPING = declare(
    __name__,
    shows="Charge routers that replace the cheap pass",
    paper="skipping router",
    example="cells/braking-monocular --costs jetson-agx-xavier",
    kind=(SkippingRow, SkippingCount),
    takes={"results": "skipping"},
    empty=(
        "A skipping router must be among the scores of a cell; found none: give -a "
        "NAME, the name of its scores."
    ),
)
