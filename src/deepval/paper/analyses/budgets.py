"""Results of several cells -> allocators under measured budgets beside free ones: nDG by level, and what is left.

Under a measured budget an allocator pays for itself first, and escalates what is left: docs/costs.md. The paper's table
of overheads gives the median over cells; here it is that over the cells whose modes cost the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from deepval.paper.analyses.judged import mode_costs
from deepval.report.charts import Chart, Dot, plain
from deepval.report.figures.gain_figures import Levels
from deepval.report.text_table import Table, TableCell, interval, mark_of, number, percent
from deepval.results import HEADLINE, BudgetKey, BudgetRecord, Result, Row
from deepval.tables.scores import REFERENCES

SHOWN = ("random",)
"""References that are shown among the allocators."""


@dataclass(frozen=True)
class ChargedRow(BudgetRecord):
    """One allocator of a cell under one measured budget, beside the selection budget of the same share.

    Attributes:
        cell: The cell.
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        cheap_cost: Cost of the cheap mode per input.
        full_cost: Cost of the full mode.
        cost: What the allocator is charged per input; 0 for random.
        share: Share of the inputs that it may escalate after paying for itself; None where it cannot run.
        ndg: nDG under the measured budget, None where it cannot run.
        ndg_lo: Lower bound of its interval.
        ndg_hi: Upper bound.
        verdict: Against random, under the measured budget: better, worse, unresolved or infeasible.
        free_ndg: nDG under the selection budget, where the result has it.
        free_verdict: The verdict there.
        reason: Why something is None.
    """

    cell: str
    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cheap_cost: float | None
    full_cost: float | None
    cost: float
    share: float | None
    ndg: float | None
    ndg_lo: float | None
    ndg_hi: float | None
    verdict: str | None
    free_ndg: float | None
    free_verdict: str | None
    reason: str | None


@dataclass(frozen=True)
class OverheadRow(BudgetRecord):
    """One allocator under one measured budget, over the cells whose modes cost the same.

    Attributes:
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        cheap_cost: Cost of the cheap mode per input in these cells.
        full_cost: Cost of the full mode.
        cost: What the allocator is charged per input.
        cells: Number of cells.
        infeasible: Cells in which it cannot run.
        share: Median over the other cells of the share of inputs that it may escalate.
        better: Cells in which it beats random.
        worse: Cells in which it loses to random.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cheap_cost: float | None
    full_cost: float | None
    cost: float
    cells: int
    infeasible: int
    share: float | None
    better: int
    worse: int


def rows(results: Mapping[str, Result]) -> list[ChargedRow]:
    """One row per cell, measured budget and allocator, random among them; none without a measured budget."""
    return [
        _row(name, result, row)
        for name, result in results.items()
        for row in result.rows
        if row.kind != "selection" and (row.allocator in SHOWN or row.allocator not in REFERENCES)
    ]


def _row(name: str, result: Result, row: Row) -> ChargedRow:
    modes = mode_costs(result, row.convention)
    free = next(
        (r for r in result.rows if (r.allocator, r.kind, r.alpha) == (row.allocator, "selection", row.alpha)), None
    )
    return ChargedRow(
        cell=name,
        allocator=row.allocator,
        **row.budget.fields,
        cheap_cost=None if modes is None else modes.cheap,
        full_cost=None if modes is None else modes.full,
        cost=row.cost or 0.0,
        share=None if row.slots is None or not row.inputs else row.slots / row.inputs,
        ndg=row.ndg,
        ndg_lo=row.ndg_lo,
        ndg_hi=row.ndg_hi,
        verdict=row.verdict,
        free_ndg=None if free is None else free.ndg,
        free_verdict=None if free is None else free.verdict,
        reason=row.reason,
    )


def overheads(rows: Sequence[ChargedRow]) -> list[OverheadRow]:
    """One row per budget, profile of costs and allocator, in the order in which they are met."""
    met: dict[tuple[BudgetKey, str, float | None, float | None, float], list[ChargedRow]] = {}
    for row in rows:
        met.setdefault((row.budget, row.allocator, row.cheap_cost, row.full_cost, row.cost), []).append(row)
    found = []
    for (budget, allocator, cheap, full, cost), members in met.items():
        shares = [row.share for row in members if row.share is not None]
        verdicts = [row.verdict for row in members]
        found.append(
            OverheadRow(
                allocator=allocator,
                **budget.fields,
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
    return found


def levels(rows: Sequence[ChargedRow]) -> list[Levels]:
    """What the figure shows: of each cell, the cascade budgets of the first kind that is there."""
    found = []
    kind = next((row.kind for row in rows), None)
    for cell in dict.fromkeys(row.cell for row in rows):
        own = [row for row in rows if row.cell == cell and row.kind == kind and row.accounting == "cascade"]
        at = min((row.alpha for row in own), key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha), default=None)
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in own:
            if row.ndg is not None:
                curves.setdefault(row.allocator, []).append((row.alpha, row.ndg))
        pairs = {
            row.allocator: (row.free_ndg, row.ndg)
            for row in own
            if row.alpha == at and row.free_ndg is not None and row.allocator not in SHOWN
        }
        if curves and at is not None:
            label = next(row.budget.label for row in own if row.alpha == at)
            found.append(Levels(cell, curves, pairs, label))
    return found


def table(rows: Sequence[ChargedRow]) -> Table:
    """The rows as a table, a section for each cell and budget."""
    header = ("cell", "budget", "allocator", "cost", "escalates", "nDG", "nDG 95 %", "nDG free")
    sections = []
    for (cell, label), members in groupby(rows, key=lambda row: (row.cell, row.budget.label)):
        sections.append(
            tuple(
                (
                    TableCell(cell if i == 0 else ""),
                    TableCell(label if i == 0 else ""),
                    TableCell(row.allocator),
                    TableCell(f"{row.cost:g}"),
                    TableCell("inf." if row.verdict == "infeasible" else percent(row.share, 1)),
                    TableCell(number(row.ndg), mark_of(row.verdict)),
                    TableCell(interval(row.ndg_lo, row.ndg_hi)),
                    TableCell(number(row.free_ndg), mark_of(row.free_verdict)),
                )
                for i, row in enumerate(members)
            )
        )
    notes = ("escalates: after paying for itself; inf.: its own cost exceeds the budget. free: selection budget.",)
    return Table("Allocators that pay for themselves, beside free ones", header, tuple(sections), notes)


def overhead_table(rows: Sequence[OverheadRow]) -> Table:
    """The paper's table of overheads: a section for each budget."""
    header = ("budget", "modes cost", "allocator", "cost", "escalates", "cells", "infeasible", "better", "worse")
    sections = []
    for label, members in groupby(rows, key=lambda row: row.budget.label):
        sections.append(
            tuple(
                tuple(
                    map(
                        TableCell,
                        (
                            *(label if i == 0 else "", f"{row.cheap_cost:g}/{row.full_cost:g}", row.allocator),
                            *(f"{row.cost:g}", percent(row.share, 1) if row.share is not None else "inf."),
                            *map(str, (row.cells, row.infeasible, row.better, row.worse)),
                        ),
                    )
                )
                for i, row in enumerate(members)
            )
        )
    notes = ("escalates: median over cells whose modes cost the same. better, worse: cells, against random.",)
    return Table("Share of inputs left after paying for oneself", header, tuple(sections), notes)


def chart(rows: Sequence[ChargedRow]) -> Chart:
    """Of each allocator free and charged nDG, means over the cells in which it can pay, at the headline budget."""
    panels = levels(rows)
    names = dict.fromkeys(name for panel in panels for name in panel.pairs)
    dots = []
    for name in names:
        pairs = [pair for panel in panels if (pair := panel.pairs.get(name)) is not None]
        paid = [(free, charged) for free, charged in pairs if charged is not None]
        label = f"{name} ({len(paid)} of {len(pairs)} cells)"
        for series, values in (("free", [pair[0] for pair in paid]), ("charged", [pair[1] for pair in paid])):
            dots.append(Dot(label, series, fmean(values) if values else None))
    at = " or ".join(dict.fromkeys(panel.budget for panel in panels))
    return plain(f"nDG at {at}, mean over the cells in which it can pay for itself", dots, line=0.0)
