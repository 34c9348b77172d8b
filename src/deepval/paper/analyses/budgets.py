"""Results of several cells -> allocators under measured budgets and free: nDG by level,
and the share left to escalate.

Under a measured budget an allocator pays for itself first and escalates with what is
left: docs/costs.md. The paper's table of overheads gives the median over cells; here
the median is taken over the cells whose modes cost the same.

nDG by level under measured budgets beside free ones, and the share of inputs left to
escalate.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from deepval.judge.report.figures.gain_figures import Levels, charged_levels
from deepval.judge.report.text_tables import Table, TableCell, mark_of, number, percent
from deepval.judge.results import HEADLINE, BudgetKey, Result, lists_by_key
from deepval.judge.results import Row as ResultRow
from deepval.judge.tables.scores import REFERENCES
from deepval.paper.analysis import Analysis, Summary
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME
from deepval.paper.costs import mode_costs
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import (
    Column,
    Dots,
    Estimate,
    Row,
    feasible_share,
    mean_of_all,
    only,
    printed,
    shortest,
)

SHOWN = ("random",)
"""References that are shown among the allocators."""


COLUMNS = (
    NAME,
    ALLOCATOR,
    *BUDGET,
    Column("cheap_cost", "Cost of the cheap mode per input"),
    Column("full_cost", "Cost of the full mode per input"),
    Column(
        "cost",
        "Cost of the allocator per input; 0 for random",
        heading="cost",
        text=shortest,
    ),
    Column(
        "share",
        "Share of the inputs that it may escalate after paying for "
        "itself; None if it cannot run",
        heading="escalates",
        text_of_row=lambda row: (
            "inf." if row["verdict"] == "infeasible" else percent(row["share"], 1)
        ),
    ),
    Column(
        "ndg",
        "nDG under the measured budget; None if it cannot run",
        heading="nDG",
        text_of_row=lambda row: TableCell(
            number(row["ndg"].value), mark_of(row["verdict"])
        ),
        bounds="nDG 95 %",
        bounds_text=number,
    ),
    Column(
        "verdict",
        "Verdict against random under the measured budget: better, "
        "worse, unresolved or infeasible",
    ),
    Column(
        "free_ndg",
        "nDG under the selection budget, if the result has one",
        heading="nDG free",
        text_of_row=lambda row: TableCell(
            number(row["free_ndg"]), mark_of(row["free_verdict"])
        ),
    ),
    Column("free_verdict", "Verdict under the selection budget"),
    Column("reason", "Why something is None"),
)
"""One allocator of a cell under one measured budget, beside the selection budget of
the same share.
"""


OVERHEAD_COLUMNS = (
    ALLOCATOR,
    *BUDGET,
    Column(
        "cheap_cost",
        "Cost of the cheap mode per input in these cells",
        heading="modes cost",
        text_of_row=lambda row: f"{row['cheap_cost']:g}/{row['full_cost']:g}",
    ),
    Column("full_cost", "Cost of the full mode per input"),
    Column("cost", "Cost of the allocator per input", heading="cost", text=shortest),
    Column("cells", "Number of cells", heading="cells"),
    Column("infeasible", "Cells in which it cannot run", heading="infeasible"),
    Column(
        "share",
        "Median over the other cells of the share of inputs that it may escalate",
        heading="escalates",
        text=feasible_share,
    ),
    Column("better", "Cells in which it beats random", heading="better"),
    Column("worse", "Cells in which it loses to random", heading="worse"),
)
"""One allocator under one measured budget, over the cells whose modes cost the
same.
"""


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per cell, measured budget and allocator, random among them; none without
    a measured budget.
    """
    for name, result in of_each(cells, "charged").items():
        for row in result.choosers:
            is_shown = row.allocator in SHOWN or row.allocator not in REFERENCES
            if row.kind != "selection" and is_shown:
                yield _row(name, result, row)


def _row(name: str, result: Result, row: ResultRow) -> Row:
    modes = mode_costs(result, row.convention)
    free = next(
        (
            r
            for r in result.choosers
            if (r.allocator, r.kind, r.alpha) == (row.allocator, "selection", row.alpha)
        ),
        None,
    )
    return {
        "cell": name,
        "allocator": row.allocator,
        "kind": row.kind,
        "alpha": row.alpha,
        "convention": row.convention,
        "accounting": row.accounting,
        "cheap_cost": None if modes is None else modes.cheap,
        "full_cost": None if modes is None else modes.full,
        "cost": row.cost or 0.0,
        "share": None
        if row.slots is None or not row.inputs
        else row.slots / row.inputs,
        "ndg": Estimate(row.ndg, row.ndg_lo, row.ndg_hi),
        "verdict": row.verdict,
        "free_ndg": None if free is None else free.ndg,
        "free_verdict": None if free is None else free.verdict,
        "reason": row.reason,
    }


def overheads(rows: Sequence[Row]) -> Iterator[Row]:
    """One row per budget, profile of costs and allocator, in order of appearance."""
    members_by_key = lists_by_key(
        (
            (
                BudgetKey.of(row),
                row["allocator"],
                row["cheap_cost"],
                row["full_cost"],
                row["cost"],
            ),
            row,
        )
        for row in rows
    )
    for (budget, allocator, cheap, full, cost), members in members_by_key.items():
        shares = [row["share"] for row in members if row["share"] is not None]
        verdicts = [row["verdict"] for row in members]
        yield {
            **vars(budget),
            "allocator": allocator,
            "cheap_cost": cheap,
            "full_cost": full,
            "cost": cost,
            "cells": len(members),
            "infeasible": verdicts.count("infeasible"),
            "share": median(shares) if shares else None,
            "better": verdicts.count("better"),
            "worse": verdicts.count("worse"),
        }


def levels(rows: Sequence[Row]) -> list[Levels]:
    """What the figure shows: the cascade budgets of each cell, of the first kind that
    the rows have.
    """
    records = []
    kind = next((row["kind"] for row in rows), None)
    for cell in dict.fromkeys(row["cell"] for row in rows):
        own = [
            row
            for row in rows
            if row["cell"] == cell
            and row["kind"] == kind
            and row["accounting"] == "cascade"
        ]
        at = min(
            (row["alpha"] for row in own),
            key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha),
            default=None,
        )
        curves = lists_by_key(
            (row["allocator"], (row["alpha"], row["ndg"].value))
            for row in own
            if row["ndg"].value is not None
        )
        pairs = {
            row["allocator"]: (row["free_ndg"], row["ndg"].value)
            for row in own
            if row["alpha"] == at
            and row["free_ndg"] is not None
            and row["allocator"] not in SHOWN
        }
        if curves and at is not None:
            label = next(BudgetKey.of(row).label for row in own if row["alpha"] == at)
            random = next(
                (
                    row["free_ndg"]
                    for row in own
                    if (row["allocator"], row["alpha"]) == ("random", at)
                ),
                None,
            )
            records.append(Levels(cell, curves, pairs, label, random))
    return records


def figure(rows: Sequence[Row]) -> Any:
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


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table, a section for each cell and budget."""
    notes = (
        (
            "escalates: after paying for itself; inf.: its own cost exceeds the "
            "budget. free: selection budget."
        ),
    )
    return [
        printed(
            "Allocators that pay for themselves, beside free ones",
            only(
                COLUMNS, "cell", "kind", "allocator", "cost", "share", "ndg", "free_ndg"
            ),
            rows,
            notes=notes,
            group=("cell", "kind"),
        )
    ]


def overhead_tables(rows: Sequence[Row]) -> list[Table]:
    """The paper's table of overheads: a section for each budget."""
    notes = (
        (
            "escalates: median over cells whose modes cost the same. better, worse: "
            "cells, against random."
        ),
    )
    return [
        printed(
            "Share of inputs left after paying for oneself",
            only(
                OVERHEAD_COLUMNS,
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
            rows,
            notes=notes,
            group=("kind",),
        )
    ]


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """Free and charged nDG of each allocator, as means over the cells in which it can
    pay, at the headline budget.
    """
    panels = levels(rows)
    at = " or ".join(dict.fromkeys(panel.budget for panel in panels))
    for name in dict.fromkeys(name for panel in panels for name in panel.pairs):
        pairs = [panel.pairs[name] for panel in panels if name in panel.pairs]
        paid = [(free, charged) for free, charged in pairs if charged is not None]
        yield {
            "label": f"{name} ({len(paid)} of {len(pairs)} cells)",
            "free": mean_of_all([free for free, _ in paid]),
            "charged": mean_of_all([charged for _, charged in paid]),
            "at": at,
        }


BUDGETS = Analysis(
    name="budgets",
    shows="Show allocators under measured budgets",
    see="definitions.md#measured-budgets",
    paper="measured budgets, overheads",
    example="cells/braking-monocular --costs jetson-agx-xavier --figure budgets.pdf",
    asks=("charged",),
    details=(
        "nDG by level under measured budgets beside free ones, and the share of "
        "inputs left to escalate."
    ),
    rows=rows,
    columns=COLUMNS,
    figure=figure,
    over_cells=Summary(overheads, OVERHEAD_COLUMNS, tables=overhead_tables),
    charts=[
        Dots(
            "nDG at {at}, mean over the cells in which it can pay for itself",
            {"free": "free", "charged": "charged"},
            label="{label}",
            percent=False,
            line=0.0,
            of=charted,
        )
    ],
    tables=tables,
)
