"""Results of several cells -> where the gap to the zero-cost oracle goes: overhead,
ranking and causal enforcement.

The parts are computed by `split_gap` in judge/extras/gaps.py. The split describes this
protocol only. The causal term is negative where the cap skips harmful inputs that the
ranking selects.

The gap to the zero-cost oracle as overhead, ranking and causal enforcement, by cell and
as means.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from deepval.judge.report.charts import at_headline
from deepval.judge.report.figures.gain_figures import CAUSES, stacked
from deepval.judge.report.text_tables import Table, percent, quantity
from deepval.judge.results import (
    BudgetKey,
    Gap,
    Reason,
    Result,
    joined,
    lists_by_key,
    share_of,
)
from deepval.paper.analysis import Analysis, Summary
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME, budget_text
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Dots, Row, mean_of_all, only, printed

PARTS = ("gap", "overhead", "ranking", "causal")


def _of_feasible(part: str) -> Callable[[Row], str]:
    """The share of a part; empty if the allocator cannot run."""
    return lambda row: percent(row[part]) if row["feasible"] else ""


COLUMNS = (
    NAME,
    ALLOCATOR,
    *BUDGET,
    Column("feasible", "Whether the allocator can pay for itself"),
    Column(
        "gap",
        "Gain of the zero-cost oracle less that of the allocator under the causal cap "
        "(or, if there are no calibration units, less that of its ranking)",
        heading="gap",
        text_of_row=lambda row: percent(row["gap"]) if row["feasible"] else "inf.",
    ),
    Column(
        "overhead",
        "Part of the oracle's gain that the allocator's own cost takes away",
        heading="overhead",
        text_of_row=_of_feasible("overhead"),
    ),
    Column(
        "ranking",
        "Gain of the oracle at the allocator's cost less that of its ranking",
        heading="ranking",
        text_of_row=_of_feasible("ranking"),
    ),
    Column(
        "causal",
        "Gain of the ranking less that under the causal cap; None "
        "without calibration units",
        heading="causal",
        text_of_row=_of_feasible("causal"),
    ),
    Column("reason", "Why something is None"),
)
"""One allocator of a cell under one budget; shares are of the all-cheap loss."""


GAP_MEAN_COLUMNS = (
    ALLOCATOR,
    *BUDGET,
    Column("cells", "Number of cells that judge it"),
    Column(
        "feasible",
        "Cells in which it can run",
        heading="feasible",
        text_of_row=lambda row: f"{row['feasible']} of {row['cells']}",
    ),
    Column(
        "shared",
        "Number of cells in the means: the allocator can run there, and the all-cheap "
        "loss is positive",
    ),
    Column("gap", "Mean gap", heading="gap", text=percent),
    Column("overhead", "Mean overhead term", heading="overhead", text=percent),
    Column(
        "overhead_most",
        "Largest overhead term of any cell",
        heading="at most",
        text=percent,
    ),
    Column("ranking", "Mean ranking term", heading="ranking", text=percent),
    Column(
        "causal",
        "Mean causal term; None if some cell has none",
        heading="causal",
        text=percent,
    ),
    Column(
        "causal_negative",
        "Cells whose causal term is negative",
        heading="negative causal",
    ),
)
"""One allocator under one budget, over the cells in which it can run; shares of the
all-cheap loss.
"""


def rows(
    cells: Sequence[Cell], *, kinds: Sequence[str] = ("latency",)
) -> Iterator[Row]:
    """One row per cell, budget of these kinds and allocator with a plain score."""
    for name, result in of_each(cells, "causal").items():
        plain = {
            (row.allocator, row.budget)
            for row in result.choosers
            if row.oracle == "oracle" and row.kind in kinds
        }
        for gap in result.gaps:
            if (gap.allocator, gap.budget) in plain:
                yield _row(name, result, gap)


def _row(name: str, result: Result, gap: Gap) -> Row:
    loss = result.setting.cheap_loss
    terms: dict[str, Any] = {part: share_of(gap[part], loss) for part in PARTS}
    return {
        **vars(gap.budget),
        **terms,
        "cell": name,
        "allocator": gap.allocator,
        "feasible": gap.gap is not None,
        "reason": joined([gap.reason, None if loss > 0 else Reason.NO_SHARE]),
    }


def over_cells(rows: Sequence[Row]) -> Iterator[Row]:
    """One row per budget and allocator, in order of appearance."""
    for (budget, allocator), members in lists_by_key(
        ((BudgetKey.of(row), row["allocator"]), row) for row in rows
    ).items():
        defined = [row for row in members if row["gap"] is not None]
        means: dict[str, Any] = {
            part: mean_of_all([row[part] for row in defined]) for part in PARTS
        }
        yield {
            **vars(budget),
            **means,
            "allocator": allocator,
            "cells": len(members),
            "feasible": sum(row["feasible"] for row in members),
            "shared": len(defined),
            "overhead_most": max(
                (row["overhead"] for row in defined if row["overhead"] is not None),
                default=None,
            ),
            "causal_negative": sum(
                row["causal"] is not None and row["causal"] < 0 for row in defined
            ),
        }


def tables(rows: Sequence[Row]) -> list[Table]:
    """The parts of every gap."""
    order = ("cell", "kind", "allocator", "gap", "overhead", "ranking", "causal")
    columns = only(COLUMNS, *order)
    title = "Where the gap to the oracle goes"
    return [printed(title, columns, rows, notes=_notes(rows))]


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    feasible = [row for row in rows if row["feasible"]]
    causal = [row["causal"] for row in feasible if row["causal"] is not None]
    negative = sum(part < 0 for part in causal)
    return (
        f"{len(feasible)} of {len(rows)} rows are feasible; the causal term is "
        f"negative in {negative} of the {len(causal)} that have one.",
        "Shares of the all-cheap loss; gap = overhead + ranking + causal.",
    )


def mean_tables(rows: Sequence[Row]) -> list[Table]:
    """The means over cells."""
    order = (
        *("kind", "allocator", "feasible", "gap", "overhead", "overhead_most"),
        *("ranking", "causal", "causal_negative"),
    )
    columns = only(GAP_MEAN_COLUMNS, *order)
    return [printed("The gap to the oracle as a mean over cells", columns, rows)]


def figure(rows: Sequence[Row]) -> Any:
    """The parts of the gap at the headline budget, as means over the cells in which an
    allocator can run.
    """
    means = [row for row in over_cells(at_headline(rows)) if row["gap"] is not None]
    means.sort(key=lambda row: (row["gap"], row["allocator"]))
    budgets = list(dict.fromkeys(budget_text(row) for row in means))
    entries = {
        row["allocator"]
        if len(budgets) == 1
        else f"{row['allocator']}, {budget_text(row)}": {
            part: row[part] or 0.0 for part in CAUSES
        }
        for row in means
    }
    cells = quantity(max((row["shared"] for row in means), default=0), "cell")
    return stacked(entries, f"Gap at {' or '.join(budgets)}, mean over {cells}", CAUSES)


GAPS = Analysis(
    name="gaps",
    shows="Split the gap to the oracle into its causes",
    see="definitions.md#where-the-gap-goes",
    paper="overhead, ranking, causal",
    example="cells/braking-monocular -a router-mlp-value -a gate-ridge",
    asks=("causal",),
    details=(
        "The gap to the zero-cost oracle as overhead, ranking and causal enforcement,"
        " by cell and as means."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    figure=figure,
    over_cells=Summary(
        over_cells, GAP_MEAN_COLUMNS, tables=mean_tables, is_record=True
    ),
    charts=[
        Dots(
            "Part of the gap to the oracle, share of the all-cheap loss",
            {part: part for part in ("overhead", "ranking", "causal")},
            label=lambda row: f"{row['allocator']}, {budget_text(row)}",
            line=0.0,
            of=lambda rows: over_cells(at_headline(rows)),
            where=lambda row: row["feasible"],
        )
    ],
)
