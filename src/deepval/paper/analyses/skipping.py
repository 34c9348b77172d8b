"""Results of several cells -> routers that need no cheap pass, charged as such: full in place of cheap, not after it.

An escalated input then costs C_f - C_c more than the others, so far more can be escalated. It is open to allocators
that look at nothing of the cheap mode's: a picture, the ego's speed. Others would have to run the pass they skip.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from deepval.allocators import RECIPES, PixelRecipe, PixelRouter
from deepval.allocators.allocator import SIGNALS
from deepval.errors import InputError
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import MISSING, Table, TableCell, interval, lines_of, number, percent
from deepval.results import BudgetKey, BudgetRecord, Result, Row


@dataclass(frozen=True)
class SkippingRow(BudgetRecord):
    """One allocator of a cell under one skipping budget, beside the cascade of the same share.

    Attributes:
        cell: The cell.
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: skipping.
        cost: What the allocator is charged per input.
        share: Share of the inputs that it may escalate; None where it cannot run.
        cascade_share: The same in a cascade; None where it cannot run there or that was not judged.
        ndg: nDG, of the skipping oracle.
        versus_random: (gain - random's gain) / all-cheap loss; random escalates as many as a free allocator may.
        versus_random_lo: Lower bound of its paired interval.
        versus_random_hi: Upper bound.
        verdict: better, worse, unresolved or infeasible.
        reason: Why something is None.
    """

    cell: str
    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cost: float | None
    share: float | None
    cascade_share: float | None
    ndg: float | None
    versus_random: float | None
    versus_random_lo: float | None
    versus_random_hi: float | None
    verdict: str | None
    reason: str | None


@dataclass(frozen=True)
class SkippingCount(BudgetRecord):
    """One allocator under one skipping budget, over cells.

    Attributes:
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: skipping.
        cells: Number of cells.
        positive: Cells in which it can escalate anything.
        share: Median over those of the share of inputs that it may escalate.
        cascade_share: Median over the cells in which a cascade leaves it any.
        better: Of the positive ones, those in which it beats random.
        worse: Those in which it loses to random.
        unresolved: Those in which it cannot be told.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cells: int
    positive: int
    share: float | None
    cascade_share: float | None
    better: int
    worse: int
    unresolved: int


def skippers() -> tuple[str, ...]:
    """Allocators of the package that look at nothing of the cheap mode's."""
    seen = {name: signal.uses for name, signal in SIGNALS.items()}
    seen |= {name: PixelRouter.uses for name, recipe in RECIPES.items() if isinstance(recipe, PixelRecipe)}
    return tuple(name for name, parts in seen.items() if not any(part.startswith("cheap") for part in parts))


def rows(results: Mapping[str, Result], allocators: Sequence[str] | None = None) -> list[SkippingRow]:
    """One row per cell, skipping budget and allocator.

    Args:
        results: Results by cell with budgets of skipping accounting, and of cascades to see beside them.
        allocators: Names of allocators that need no cheap pass; those of the package where None.
    """
    wanted = skippers() if allocators is None else tuple(allocators)
    found = []
    for name, result in results.items():
        budgets = {row.budget: row for row in result.rows if row.accounting == "skipping"}
        if not budgets:
            raise InputError(f"{name}: a skipping router is judged under skipping budgets; the result has none.")
        cascades = {(row.allocator, row.kind, row.alpha, row.convention): row for row in result.rows if _cascade(row)}
        for row in result.rows:
            if row.accounting == "skipping" and row.allocator in wanted:
                beside = cascades.get((row.allocator, row.kind, row.alpha, row.convention))
                found.append(_row(name, row, beside))
    return found


def _cascade(row: Row) -> bool:
    return row.accounting == "cascade"


def _row(name: str, row: Row, beside: Row | None) -> SkippingRow:
    return SkippingRow(
        cell=name,
        allocator=row.allocator,
        **row.budget.fields,
        cost=row.cost,
        share=_share(row),
        cascade_share=None if beside is None else _share(beside),
        ndg=row.ndg,
        versus_random=row.versus_random,
        versus_random_lo=row.versus_random_lo,
        versus_random_hi=row.versus_random_hi,
        verdict=row.verdict,
        reason=row.reason,
    )


def _share(row: Row) -> float | None:
    return None if row.slots is None or not row.inputs else row.slots / row.inputs


def over_cells(rows: Sequence[SkippingRow]) -> list[SkippingCount]:
    """One row per budget and allocator, in the order in which they are met."""
    met: dict[tuple[BudgetKey, str], list[SkippingRow]] = {}
    for row in rows:
        met.setdefault((row.budget, row.allocator), []).append(row)
    found = []
    for (budget, allocator), members in met.items():
        positive = [row for row in members if row.share]
        shares = [row.share for row in positive if row.share]
        cascades = [row.cascade_share for row in members if row.cascade_share is not None]
        verdicts = [row.verdict for row in positive]
        found.append(
            SkippingCount(
                allocator=allocator,
                **budget.fields,
                cells=len(members),
                positive=len(positive),
                share=median(shares) if shares else None,
                cascade_share=median(cascades) if cascades else None,
                better=verdicts.count("better"),
                worse=verdicts.count("worse"),
                unresolved=verdicts.count("unresolved"),
            )
        )
    return found


def table(rows: Sequence[SkippingRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "budget", "allocator", "cost", "escalates", "in a cascade", "nDG", "vs random", "95 %")
    lines = tuple(
        (
            *map(
                TableCell, (row.cell, row.budget.label, row.allocator, MISSING if row.cost is None else f"{row.cost:g}")
            ),
            *(TableCell(_told(row.share)), TableCell(_told(row.cascade_share))),
            TableCell(number(row.ndg), row.verdict if row.verdict in ("better", "worse") else ""),
            TableCell(percent(row.versus_random)),
            TableCell(interval(row.versus_random_lo, row.versus_random_hi, percent)),
        )
        for row in rows
    )
    return Table("Routers that skip the cheap pass", header, (lines,), _notes(rows))


def _told(share: float | None) -> str:
    return "inf." if share is None else percent(share, 1)


def _notes(rows: Sequence[SkippingRow]) -> tuple[str, ...]:
    notes = []
    for kind in dict.fromkeys(row.kind for row in rows):
        positive = [row for row in rows if row.kind == kind and row.share]
        verdicts = [row.verdict for row in positive]
        notes.append(
            f"{kind}: {len(positive)} combinations of allocator, cell and budget with anything to escalate; better "
            f"than random in {verdicts.count('better')}, worse in {verdicts.count('worse')}."
        )
    return tuple(notes)


def over_cells_table(rows: Sequence[SkippingCount]) -> Table:
    """The counts as a table."""
    header = ("budget", "allocator", "cells", "positive", "escalates", "in a cascade", "better", "worse", "unresolved")
    texts = [
        (
            *(row.budget.label, row.allocator, str(row.cells), str(row.positive), _told(row.share)),
            *(_told(row.cascade_share), str(row.better), str(row.worse), str(row.unresolved)),
        )
        for row in rows
    ]
    return Table("Skipping over cells", header, lines_of(texts))


def chart(rows: Sequence[SkippingRow]) -> Chart:
    """Difference with random of each allocator that has anything to escalate, by budget."""
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
