"""Results of several cells -> where the gap to the zero-cost oracle goes: overhead, ranking and causal enforcement.

An accounting of the protocol: the causal term is negative where the cap leaves harmful inputs that the ranking takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from deepval.report.charts import Chart, Dot, at_headline, shares
from deepval.report.text_table import Table, lines_of, percent
from deepval.results import BudgetKey, BudgetRecord, Gap, Reason, Result, joined


@dataclass(frozen=True)
class GapRow(BudgetRecord):
    """One allocator of a cell under one budget; shares are of the all-cheap loss.

    Attributes:
        cell: The cell.
        allocator: The allocator.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        feasible: Whether it can pay for itself.
        gap: Zero-cost oracle less the allocator under the causal cap (less its ranking without calibration units).
        overhead: Oracle's gain that the allocator's own cost takes away.
        ranking: What is left to the ranking by its scores.
        causal: From the ranking to the causal cap; None without calibration units.
        reason: Why something is None.
    """

    cell: str
    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    feasible: bool
    gap: float | None
    overhead: float | None
    ranking: float | None
    causal: float | None
    reason: str | None


@dataclass(frozen=True)
class GapMean(BudgetRecord):
    """One allocator under one budget, over the cells in which it can run; shares of the all-cheap loss.

    Attributes:
        allocator: The allocator.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        cells: Number of cells that judge it.
        feasible: Cells in which it can run.
        shared: Those whose all-cheap loss is positive, which the means are over.
        gap: Mean gap.
        overhead: Mean overhead term.
        overhead_most: Largest overhead term of any cell.
        ranking: Mean ranking term.
        causal: Mean causal term; None where some cell has none.
        causal_negative: Cells whose causal term is negative.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cells: int
    feasible: int
    shared: int
    gap: float | None
    overhead: float | None
    overhead_most: float | None
    ranking: float | None
    causal: float | None
    causal_negative: int


def rows(results: Mapping[str, Result]) -> list[GapRow]:
    """One row per cell, budget and allocator with a plain score."""
    found = []
    for name, result in results.items():
        plain = {(row.allocator, row.budget) for row in result.rows if row.oracle == "oracle"}
        found += [_row(name, result, gap) for gap in result.gaps if (gap.allocator, gap.budget) in plain]
    return found


def _row(name: str, result: Result, gap: Gap) -> GapRow:
    loss = result.setting.cheap_loss

    def share(part: float | None) -> float | None:
        return None if part is None or not loss > 0 else part / loss

    return GapRow(
        cell=name,
        allocator=gap.allocator,
        **gap.budget.fields,
        feasible=gap.gap is not None,
        gap=share(gap.gap),
        overhead=share(gap.overhead),
        ranking=share(gap.ranking),
        causal=share(gap.causal),
        reason=joined([gap.reason, None if loss > 0 else Reason.NO_SHARE]),
    )


def over_cells(rows: Sequence[GapRow]) -> list[GapMean]:
    """One row per budget and allocator, in the order in which they are met."""
    met: dict[tuple[BudgetKey, str], list[GapRow]] = {}
    for row in rows:
        met.setdefault((row.budget, row.allocator), []).append(row)
    found = []
    for (budget, allocator), members in met.items():
        known = [row for row in members if row.gap is not None]
        means: dict[str, Any] = {
            part: _mean([row[part] for row in known]) for part in ("gap", "overhead", "ranking", "causal")
        }
        found.append(
            GapMean(
                allocator=allocator,
                **budget.fields,
                cells=len(members),
                feasible=sum(row.feasible for row in members),
                shared=len(known),
                **means,
                overhead_most=max((row.overhead for row in known if row.overhead is not None), default=None),
                causal_negative=sum(row.causal is not None and row.causal < 0 for row in known),
            )
        )
    return found


def _mean(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return fmean(known) if known and len(known) == len(parts) else None


def table(rows: Sequence[GapRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "budget", "allocator", "gap", "overhead", "ranking", "causal")
    texts = [
        (
            *(row.cell, row.budget.label, row.allocator),
            *(map(percent, (row.gap, row.overhead, row.ranking, row.causal)) if row.feasible else ("inf.", "", "", "")),
        )
        for row in rows
    ]
    return Table("Where the gap to the oracle goes", header, lines_of(texts), _notes(rows))


def _notes(rows: Sequence[GapRow]) -> tuple[str, ...]:
    feasible = [row for row in rows if row.feasible]
    causal = [row.causal for row in feasible if row.causal is not None]
    negative = sum(part < 0 for part in causal)
    return (
        f"{len(feasible)} of {len(rows)} rows are feasible; the causal term is negative in {negative} of the "
        f"{len(causal)} that have one.",
        "Shares of the all-cheap loss; gap = overhead + ranking + causal.",
    )


def over_cells_table(rows: Sequence[GapMean]) -> Table:
    """The means as a table."""
    header = ("budget", "allocator", "feasible", "gap", "overhead", "at most", "ranking", "causal", "negative causal")
    texts = [
        (
            *(row.budget.label, row.allocator, f"{row.feasible} of {row.cells}", percent(row.gap)),
            *(percent(row.overhead), percent(row.overhead_most), percent(row.ranking), percent(row.causal)),
            str(row.causal_negative),
        )
        for row in rows
    ]
    return Table("The gap to the oracle as a mean over cells", header, lines_of(texts))


def chart(rows: Sequence[GapRow]) -> Chart:
    """The parts of each allocator's gap at the headline budget, means over the cells in which it can run."""
    dots = [
        Dot(f"{row.allocator}, {row.budget.label}", part, row[part])
        for row in over_cells(at_headline(rows))
        if row.feasible
        for part in ("overhead", "ranking", "causal")
    ]
    return shares("Part of the gap to the oracle, share of the all-cheap loss", dots, line=0.0)
