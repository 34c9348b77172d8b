"""Results of several cells -> where the gap to the zero-cost oracle goes: overhead,
ranking and causal enforcement.

The parts are computed by `split_gap` in judging/audits.py. The split describes this
protocol only. The causal term is negative where the cap skips harmful inputs that the
ranking selects.

The gap to the zero-cost oracle as overhead, ranking and causal enforcement, by cell and
as means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    BudgetColumns,
    CellName,
    Form,
    column,
    declared_table,
)
from deepval.paper.tidy import mean_of_all
from deepval.report.charts import Chart, Dot, at_headline, shares
from deepval.report.figures.gain_figures import CAUSES, stacked
from deepval.report.text_tables import Table, percent, quantity
from deepval.results import Gap, Reason, Result, joined, lists_by_key, share_of

PARTS = ("gap", "overhead", "ranking", "causal")


def _of_feasible(part: str) -> Form:
    """The share of a part; empty if the allocator cannot run."""
    return lambda row: percent(row[part]) if row.feasible else ""


@dataclass(frozen=True)
class GapRow(BudgetColumns, AllocatorName, CellName):
    """One allocator of a cell under one budget; shares are of the all-cheap loss."""

    feasible: bool = column("Whether the allocator can pay for itself")
    gap: float | None = column(
        "Gain of the zero-cost oracle less that of the allocator under the causal cap "
        "(or, if there are no calibration units, less that of its ranking)",
        "gap",
        of_row=lambda row: percent(row.gap) if row.feasible else "inf.",
    )
    overhead: float | None = column(
        "Part of the oracle's gain that the allocator's own cost takes away",
        "overhead",
        of_row=_of_feasible("overhead"),
    )
    ranking: float | None = column(
        "Gain of the oracle at the allocator's cost less that of its ranking",
        "ranking",
        of_row=_of_feasible("ranking"),
    )
    causal: float | None = column(
        "Gain of the ranking less that under the causal cap; None "
        "without calibration units",
        "causal",
        of_row=_of_feasible("causal"),
    )
    reason: str | None = column("Why something is None")


@dataclass(frozen=True)
class GapMean(BudgetColumns, AllocatorName):
    """One allocator under one budget, over the cells in which it can run; shares of the
    all-cheap loss.
    """

    cells: int = column("Number of cells that judge it")
    feasible: int = column(
        "Cells in which it can run",
        "feasible",
        of_row=lambda row: f"{row.feasible} of {row.cells}",
    )
    shared: int = column(
        "Number of cells in the means: the allocator can run there, and the all-cheap "
        "loss is positive"
    )
    gap: float | None = column("Mean gap", "gap", percent)
    overhead: float | None = column("Mean overhead term", "overhead", percent)
    overhead_most: float | None = column(
        "Largest overhead term of any cell", "at most", percent
    )
    ranking: float | None = column("Mean ranking term", "ranking", percent)
    causal: float | None = column(
        "Mean causal term; None if some cell has none", "causal", percent
    )
    causal_negative: int = column(
        "Cells whose causal term is negative", "negative causal"
    )


def rows(
    results: Mapping[str, Result], *, kinds: Sequence[str] = ("latency",)
) -> list[GapRow]:
    """One row per cell, budget of these kinds and allocator with a plain score."""
    records = []
    for name, result in results.items():
        plain = {
            (row.allocator, row.budget)
            for row in result.choosers
            if row.oracle == "oracle" and row.kind in kinds
        }
        records += [
            _row(name, result, gap)
            for gap in result.gaps
            if (gap.allocator, gap.budget) in plain
        ]
    return records


def _row(name: str, result: Result, gap: Gap) -> GapRow:
    loss = result.setting.cheap_loss
    terms: dict[str, Any] = {part: share_of(gap[part], loss) for part in PARTS}
    return GapRow(
        cell=name,
        allocator=gap.allocator,
        **vars(gap.budget),
        feasible=gap.gap is not None,
        **terms,
        reason=joined([gap.reason, None if loss > 0 else Reason.NO_SHARE]),
    )


def over_cells(rows: Sequence[GapRow]) -> list[GapMean]:
    """One row per budget and allocator, in order of appearance."""
    records = []
    for (budget, allocator), members in lists_by_key(
        ((row.budget, row.allocator), row) for row in rows
    ).items():
        defined = [row for row in members if row.gap is not None]
        means: dict[str, Any] = {
            part: mean_of_all([row[part] for row in defined]) for part in PARTS
        }
        records.append(
            GapMean(
                allocator=allocator,
                **vars(budget),
                cells=len(members),
                feasible=sum(row.feasible for row in members),
                shared=len(defined),
                **means,
                overhead_most=max(
                    (row.overhead for row in defined if row.overhead is not None),
                    default=None,
                ),
                causal_negative=sum(
                    row.causal is not None and row.causal < 0 for row in defined
                ),
            )
        )
    return records


def table(rows: Sequence[GapRow]) -> Table:
    """The rows as a table."""
    order = ("cell", "kind", "allocator", "gap", "overhead", "ranking", "causal")
    return declared_table(
        GapRow,
        rows,
        "Where the gap to the oracle goes",
        notes=_notes(rows),
        order=order,
    )


def _notes(rows: Sequence[GapRow]) -> tuple[str, ...]:
    feasible = [row for row in rows if row.feasible]
    causal = [row.causal for row in feasible if row.causal is not None]
    negative = sum(part < 0 for part in causal)
    return (
        f"{len(feasible)} of {len(rows)} rows are feasible; the causal term is "
        f"negative in {negative} of the {len(causal)} that have one.",
        "Shares of the all-cheap loss; gap = overhead + ranking + causal.",
    )


def over_cells_table(rows: Sequence[GapMean]) -> Table:
    """The means as a table."""
    order = (
        "kind",
        "allocator",
        "feasible",
        "gap",
        "overhead",
        "overhead_most",
        "ranking",
        "causal",
    )
    order = (*order, "causal_negative")
    return declared_table(
        GapMean, rows, "The gap to the oracle as a mean over cells", order=order
    )


def chart(rows: Sequence[GapRow]) -> Chart:
    """The parts of each allocator's gap at the headline budget, as means over the cells
    in which it can run.
    """
    dots = [
        Dot(f"{row.allocator}, {row.budget.label}", part, row[part])
        for row in over_cells(at_headline(rows))
        if row.feasible
        for part in ("overhead", "ranking", "causal")
    ]
    return shares(
        "Part of the gap to the oracle, share of the all-cheap loss", dots, line=0.0
    )


def figure(rows: Sequence[GapRow]) -> Any:
    """The parts of the gap at the headline budget, as means over the cells in which an
    allocator can run.
    """
    means = [row for row in over_cells(at_headline(rows)) if row.gap is not None]
    means.sort(key=lambda row: (row.gap, row.allocator))
    budgets = list(dict.fromkeys(row.budget.label for row in means))
    entries = {
        row.allocator
        if len(budgets) == 1
        else f"{row.allocator}, {row.budget.label}": {
            part: row[part] or 0.0 for part in CAUSES
        }
        for row in means
    }
    cells = quantity(max((row.shared for row in means), default=0), "cell")
    return stacked(entries, f"Gap at {' or '.join(budgets)}, mean over {cells}", CAUSES)


GAPS = declare(
    __name__,
    shows="Split the gap to the oracle into its causes",
    see="definitions.md#where-the-gap-goes",
    paper="overhead, ranking, causal",
    example="cells/braking-monocular -a router-mlp-value -a gate-ridge",
    kind=(GapRow, GapMean),
    takes={"results": "causal"},
    summary_is_record=True,
)
