"""Results of several cells -> routers that need no cheap pass: the full mode is charged
instead of the cheap mode.

An escalated input then costs C_f - C_c more than the others, so far more can be
escalated. This applies only to allocators that do not look at the cheap mode's output
but, for example, at an image or the ego's speed. All others need the cheap pass that
they would skip.

Routers that need no cheap pass, charged for the full mode instead of both.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Annotated

from deepval.basics.errors import InputError
from deepval.judge.report.text_tables import Table, TableCell, mark_of, number, percent
from deepval.judge.results import BudgetKey, lists_by_key
from deepval.judge.results import Row as ResultRow
from deepval.paper.analysis import Analysis, Option, Summary
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME, budget_text
from deepval.paper.study import Cell, of_each, skippers
from deepval.paper.tidy import (
    Column,
    Dots,
    Estimate,
    Row,
    feasible_share,
    only,
    printed,
    shortest,
)

COLUMNS = (
    NAME,
    ALLOCATOR,
    *BUDGET,
    Column("cost", "Cost of the allocator per input", heading="cost", text=shortest),
    Column(
        "share",
        "Share of the inputs that it may escalate; None if it cannot run",
        heading="escalates",
        text=feasible_share,
    ),
    Column(
        "cascade_share",
        "The same share in a cascade; None if it cannot run there or was not judged",
        heading="in a cascade",
        text=feasible_share,
    ),
    Column(
        "ndg",
        "nDG against the skipping oracle",
        heading="nDG",
        text_of_row=lambda row: TableCell(number(row["ndg"]), mark_of(row["verdict"])),
    ),
    Column(
        "versus_random",
        "(gain - random's gain) / all-cheap loss; random escalates as many inputs as "
        "a free allocator may",
        heading="vs random",
        text=percent,
        bounds="95 %",
    ),
    Column(
        "verdict", "Verdict against random: better, worse, unresolved or infeasible"
    ),
    Column("reason", "Why something is None"),
)
"""One allocator of a cell under one skipping budget, beside the cascade of the same
share.
"""


SKIPPING_COUNT_COLUMNS = (
    ALLOCATOR,
    *BUDGET,
    Column("cells", "Number of cells", heading="cells"),
    Column("positive", "Cells in which it can escalate anything", heading="positive"),
    Column(
        "share",
        "Median over these cells of the share of inputs that it may escalate",
        heading="escalates",
        text=feasible_share,
    ),
    Column(
        "cascade_share",
        "Median of the same share in a cascade, over the cells "
        "in which it can run there",
        heading="in a cascade",
        text=feasible_share,
    ),
    Column("better", "Positive cells in which it beats random", heading="better"),
    Column("worse", "Positive cells in which it loses to random", heading="worse"),
    Column(
        "unresolved", "Positive cells whose interval contains 0", heading="unresolved"
    ),
)
"""One allocator under one skipping budget, over cells."""


Skippers = Annotated[
    Sequence[str] | None,
    Option(
        "Allocator that needs no cheap pass. Repeatable. Default: those of deepval.",
        ("--allocator", "-a"),
    ),
]


def rows(
    cells: Sequence[Cell],
    allocators: Skippers = None,
) -> Iterator[Row]:
    """One row per cell, skipping budget and allocator.

    Args:
        cells: The cells; a result has budgets of skipping accounting, and cascade
            budgets to compare them with.
        allocators: Names of allocators that need no cheap pass; None for those of the
            package.
    """
    names = skippers() if allocators is None else tuple(allocators)
    for name, result in of_each(cells, "skipping").items():
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
                yield _row(name, row, cascade)


def _row(name: str, row: ResultRow, cascade: ResultRow | None) -> Row:
    cascade_share = None if cascade is None else _share(cascade)
    return {
        "cell": name,
        "allocator": row.allocator,
        "kind": row.kind,
        "alpha": row.alpha,
        "convention": row.convention,
        "accounting": row.accounting,
        "cost": row.cost,
        "share": _share(row),
        "cascade_share": cascade_share,
        "ndg": row.ndg,
        "versus_random": Estimate(
            row.versus_random, row.versus_random_lo, row.versus_random_hi
        ),
        "verdict": row.verdict,
        "reason": row.reason,
    }


def _share(row: ResultRow) -> float | None:
    return None if row.slots is None or not row.inputs else row.slots / row.inputs


def over_cells(rows: Sequence[Row]) -> Iterator[Row]:
    """One row per budget and allocator, in order of appearance."""
    for (budget, allocator), members in lists_by_key(
        ((BudgetKey.of(row), row["allocator"]), row) for row in rows
    ).items():
        positive = [row for row in members if row["share"]]
        shares = [row["share"] for row in positive if row["share"]]
        cascades = [
            row["cascade_share"] for row in members if row["cascade_share"] is not None
        ]
        verdicts = [row["verdict"] for row in positive]
        yield {
            **vars(budget),
            "allocator": allocator,
            "cells": len(members),
            "positive": len(positive),
            "share": median(shares) if shares else None,
            "cascade_share": median(cascades) if cascades else None,
            "better": verdicts.count("better"),
            "worse": verdicts.count("worse"),
            "unresolved": verdicts.count("unresolved"),
        }


def tables(rows: Sequence[Row]) -> list[Table]:
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
    )
    return [
        printed(
            "Routers that skip the cheap pass",
            only(COLUMNS, *order),
            rows,
            notes=_notes(rows),
        )
    ]


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        positive = [row for row in rows if row["kind"] == kind and row["share"]]
        verdicts = [row["verdict"] for row in positive]
        notes.append(
            f"{kind}: {len(positive)} combinations of allocator, cell and budget with "
            "anything to escalate; better "
            "than "
            f"random in {verdicts.count('better')}, worse in {verdicts.count('worse')}."
        )
    return tuple(notes)


def count_tables(rows: Sequence[Row]) -> list[Table]:
    """The counts over cells."""
    order = (
        *("kind", "allocator", "cells", "positive", "share", "cascade_share"),
        *("better", "worse", "unresolved"),
    )
    columns = only(SKIPPING_COUNT_COLUMNS, *order)
    return [printed("Skipping over cells", columns, rows)]


SKIPPING = Analysis(
    name="skipping",
    shows="Charge routers that replace the cheap pass",
    paper="skipping router",
    example="cells/braking-monocular --costs jetson-agx-xavier",
    asks=("skipping",),
    empty="A skipping router must be among the scores of a cell; found none: give -a "
    "NAME, the name of its scores.",
    details=(
        "Routers that need no cheap pass, charged for the full mode instead of both."
    ),
    rows=rows,
    columns=COLUMNS,
    over_cells=Summary(over_cells, SKIPPING_COUNT_COLUMNS, tables=count_tables),
    charts=[
        Dots(
            "Gain less random's, share of the all-cheap loss",
            lambda row: {budget_text(row): row["versus_random"]},
            label="{cell}: {allocator}",
            line=0.0,
            where=lambda row: bool(row["share"]),
        )
    ],
    tables=tables,
)
