"""Results of several cells -> allocators under measured budgets and free: nDG by level,
and the share left to escalate.

Under a measured budget an allocator pays for itself first and escalates with what is
left: docs/costs.md. The paper's table of overheads gives the median over cells; here
the median is taken over the cells whose modes cost the same.

nDG by level under measured budgets beside free ones, and the share of inputs left to
escalate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    BudgetColumns,
    CellName,
    column,
    declared_table,
    high,
    low,
    mode_costs,
)
from deepval.paper.tidy import feasible_share, mean_of_all, shortest
from deepval.report.charts import Chart, Dot, plain
from deepval.report.figures.gain_figures import Levels, charged_levels
from deepval.report.text_tables import Table, TableCell, mark_of, number, percent
from deepval.results import HEADLINE, Result, Row, lists_by_key, row_from
from deepval.tables.scores import REFERENCES

SHOWN = ("random",)
"""References that are shown among the allocators."""


@dataclass(frozen=True)
class ChargedRow(BudgetColumns, AllocatorName, CellName):
    """One allocator of a cell under one measured budget, beside the selection budget of
    the same share.
    """

    cheap_cost: float | None = column("Cost of the cheap mode per input")
    full_cost: float | None = column("Cost of the full mode per input")
    cost: float = column(
        "Cost of the allocator per input; 0 for random", "cost", shortest
    )
    share: float | None = column(
        "Share of the inputs that it may escalate after paying for "
        "itself; None if it cannot run",
        "escalates",
        of_row=lambda row: (
            "inf." if row.verdict == "infeasible" else percent(row.share, 1)
        ),
    )
    ndg: float | None = column(
        "nDG under the measured budget; None if it cannot run",
        "nDG",
        of_row=lambda row: TableCell(number(row.ndg), mark_of(row.verdict)),
    )
    ndg_lo: float | None = low(heading="nDG 95 %")
    ndg_hi: float | None = high()
    verdict: str | None = column(
        "Verdict against random under the measured budget: better, "
        "worse, unresolved or infeasible"
    )
    free_ndg: float | None = column(
        "nDG under the selection budget, if the result has one",
        "nDG free",
        of_row=lambda row: TableCell(number(row.free_ndg), mark_of(row.free_verdict)),
    )
    free_verdict: str | None = column("Verdict under the selection budget")
    reason: str | None = column("Why something is None")


@dataclass(frozen=True)
class OverheadRow(BudgetColumns, AllocatorName):
    """One allocator under one measured budget, over the cells whose modes cost the
    same.
    """

    cheap_cost: float | None = column(
        "Cost of the cheap mode per input in these cells",
        "modes cost",
        of_row=lambda row: f"{row.cheap_cost:g}/{row.full_cost:g}",
    )
    full_cost: float | None = column("Cost of the full mode per input")
    cost: float = column("Cost of the allocator per input", "cost", shortest)
    cells: int = column("Number of cells", "cells")
    infeasible: int = column("Cells in which it cannot run", "infeasible")
    share: float | None = column(
        "Median over the other cells of the share of inputs that it may escalate",
        "escalates",
        feasible_share,
    )
    better: int = column("Cells in which it beats random", "better")
    worse: int = column("Cells in which it loses to random", "worse")


def rows(results: Mapping[str, Result]) -> list[ChargedRow]:
    """One row per cell, measured budget and allocator, random among them; none without
    a measured budget.
    """
    return [
        _row(name, result, row)
        for name, result in results.items()
        for row in result.choosers
        if row.kind != "selection"
        and (row.allocator in SHOWN or row.allocator not in REFERENCES)
    ]


def _row(name: str, result: Result, row: Row) -> ChargedRow:
    modes = mode_costs(result, row.convention)
    free = next(
        (
            r
            for r in result.choosers
            if (r.allocator, r.kind, r.alpha) == (row.allocator, "selection", row.alpha)
        ),
        None,
    )
    return row_from(
        row,
        ChargedRow,
        cell=name,
        cheap_cost=None if modes is None else modes.cheap,
        full_cost=None if modes is None else modes.full,
        cost=row.cost or 0.0,
        share=None if row.slots is None or not row.inputs else row.slots / row.inputs,
        free_ndg=None if free is None else free.ndg,
        free_verdict=None if free is None else free.verdict,
    )


def overheads(rows: Sequence[ChargedRow]) -> list[OverheadRow]:
    """One row per budget, profile of costs and allocator, in order of appearance."""
    members_by_key = lists_by_key(
        ((row.budget, row.allocator, row.cheap_cost, row.full_cost, row.cost), row)
        for row in rows
    )
    records = []
    for (budget, allocator, cheap, full, cost), members in members_by_key.items():
        shares = [row.share for row in members if row.share is not None]
        verdicts = [row.verdict for row in members]
        records.append(
            OverheadRow(
                allocator=allocator,
                **vars(budget),
                cheap_cost=cheap,
                full_cost=full,
                cost=cost,
                cells=len(members),
                infeasible=verdicts.count("infeasible"),
                share=median(shares) if shares else None,
                better=verdicts.count("better"),
                worse=verdicts.count("worse"),
            )
        )
    return records


def levels(rows: Sequence[ChargedRow]) -> list[Levels]:
    """What the figure shows: the cascade budgets of each cell, of the first kind that
    the rows have.
    """
    records = []
    kind = next((row.kind for row in rows), None)
    for cell in dict.fromkeys(row.cell for row in rows):
        own = [
            row
            for row in rows
            if row.cell == cell and row.kind == kind and row.accounting == "cascade"
        ]
        at = min(
            (row.alpha for row in own),
            key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha),
            default=None,
        )
        curves = lists_by_key(
            (row.allocator, (row.alpha, row.ndg)) for row in own if row.ndg is not None
        )
        pairs = {
            row.allocator: (row.free_ndg, row.ndg)
            for row in own
            if row.alpha == at
            and row.free_ndg is not None
            and row.allocator not in SHOWN
        }
        if curves and at is not None:
            label = next(row.budget.label for row in own if row.alpha == at)
            random = next(
                (
                    row.free_ndg
                    for row in own
                    if (row.allocator, row.alpha) == ("random", at)
                ),
                None,
            )
            records.append(Levels(cell, curves, pairs, label, random))
    return records


def figure(rows: Sequence[ChargedRow]) -> Any:
    """The figure of nDG by level, free and charged: the mean over cells, then each
    cell.
    """
    panels = levels(rows)
    return charged_levels([_mean(panels), *panels] if len(panels) > 1 else panels)


def _mean(panels: Sequence[Levels]) -> Levels:
    """The mean over cells of what all of them have; an allocator that is infeasible in
    one has no charged mean.
    """
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in panels[0].curves:
        by_share = [dict(panel.curves.get(name, ())) for panel in panels]
        points = [
            (share, mean_of_all([own.get(share) for own in by_share]))
            for share in by_share[0]
        ]
        curves[name] = [(share, ndg) for share, ndg in points if ndg is not None]
    pairs = {
        name: [
            mean_of_all([panel.pairs[name][end] for panel in panels]) for end in (0, 1)
        ]
        for name in panels[0].pairs
        if all(name in panel.pairs for panel in panels)
    }
    return Levels(
        f"Mean over {len(panels)} cells",
        {name: points for name, points in curves.items() if points},
        {
            name: (free, paid)
            for name, (free, paid) in pairs.items()
            if free is not None
        },
        panels[0].budget,
        mean_of_all([panel.random for panel in panels]),
    )


def table(rows: Sequence[ChargedRow]) -> Table:
    """The rows as a table, a section for each cell and budget."""
    notes = (
        (
            "escalates: after paying for itself; inf.: its own cost exceeds the "
            "budget. free: selection budget."
        ),
    )
    return declared_table(
        ChargedRow,
        rows,
        "Allocators that pay for themselves, beside free ones",
        notes=notes,
        order=(
            "cell",
            "kind",
            "allocator",
            "cost",
            "share",
            "ndg",
            "ndg_lo",
            "free_ndg",
        ),
        group=("cell", "kind"),
    )


def overhead_table(rows: Sequence[OverheadRow]) -> Table:
    """The paper's table of overheads: a section for each budget."""
    notes = (
        (
            "escalates: median over cells whose modes cost the same. better, worse: "
            "cells, against random."
        ),
    )
    return declared_table(
        OverheadRow,
        rows,
        "Share of inputs left after paying for oneself",
        notes=notes,
        order=(
            "kind",
            "cheap_cost",
            "allocator",
            "cost",
            "share",
            "cells",
            "infeasible",
            "better",
            "worse",
        ),
        group=("kind",),
    )


def chart(rows: Sequence[ChargedRow]) -> Chart:
    """Free and charged nDG of each allocator, as means over the cells in which it can
    pay, at the headline budget.
    """
    panels = levels(rows)
    names = dict.fromkeys(name for panel in panels for name in panel.pairs)
    dots = []
    for name in names:
        pairs = [
            pair for panel in panels if (pair := panel.pairs.get(name)) is not None
        ]
        paid = [(free, charged) for free, charged in pairs if charged is not None]
        label = f"{name} ({len(paid)} of {len(pairs)} cells)"
        for series, values in (
            ("free", [pair[0] for pair in paid]),
            ("charged", [pair[1] for pair in paid]),
        ):
            dots.append(Dot(label, series, mean_of_all(values)))
    at = " or ".join(dict.fromkeys(panel.budget for panel in panels))
    return plain(
        f"nDG at {at}, mean over the cells in which it can pay for itself",
        dots,
        line=0.0,
    )


BUDGETS = declare(
    __name__,
    shows="Show allocators under measured budgets",
    see="definitions.md#measured-budgets",
    paper="measured budgets, overheads",
    example="cells/braking-monocular --costs jetson-agx-xavier --figure budgets.pdf",
    kind=(ChargedRow, OverheadRow),
    takes={"results": "charged"},
    over_cells=overheads,
    over_cells_table=overhead_table,
)
