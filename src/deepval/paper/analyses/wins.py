"""How often each allocator beats random choice, or loses to it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from deepval.judge.tables.scores import REFERENCES
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Dots, Row

VERDICTS = ("better", "worse", "unresolved", "infeasible")


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per allocator and kind of budget, in order of appearance."""
    verdicts = defaultdict(list)
    judged_in = defaultdict(set)
    for name, result in of_each(cells, "results").items():
        for row in result.choosers:
            # Random cannot win against random; oracle and all-full are no entrants.
            if row.allocator in REFERENCES:
                continue
            key = row.allocator, row.kind
            verdicts[key].append(row.verdict)
            judged_in[key].add(name)

    for (allocator, kind), own in verdicts.items():
        number_of = Counter(own)
        yield {
            "allocator": allocator,
            "kind": kind,
            "cells": len(judged_in[allocator, kind]),
            "combinations": len(own),
            **{verdict: number_of[verdict] for verdict in VERDICTS},
            # Rows without an interval, such as those of a single unit.
            "undefined": number_of[None],
        }


def label(row: Row) -> str:
    """The allocator, with the kind of a measured budget."""
    if row["kind"] == "selection":
        return row["allocator"]
    return f"{row['allocator']}, {row['kind']}"


WINS = Analysis(
    name="wins",
    shows="Count wins and losses against random",
    paper="win counts",
    example="cells/braking-monocular cells/braking-oracle",
    details=(
        "Verdicts against random of each allocator, counted over cells and budgets."
    ),
    rows=rows,
    asks=("results",),
    columns=(
        Column("allocator", "The allocator", heading="allocator"),
        Column(
            "kind",
            "Kind of budget: selection, latency, energy or money",
            heading="budget",
        ),
        Column("cells", "Results that judge it", heading="cells"),
        Column(
            "combinations",
            "Cells times budgets that judge it: the sum of the counts below",
            heading="combinations",
        ),
        Column("better", 'Verdicts "better" against random', heading="better"),
        Column("worse", 'Verdicts "worse" against random', heading="worse"),
        Column("unresolved", "Intervals that contain 0", heading="unresolved"),
        Column(
            "infeasible",
            "Budgets under which it cannot pay for itself",
            heading="infeasible",
        ),
        Column("undefined", "Rows without a verdict", heading="undefined"),
    ),
    title="Verdicts against random over cells and budgets",
    charts=[
        Dots(
            "Share of cells and budgets",
            {
                "better": lambda row: row["better"] / row["combinations"],
                "worse": lambda row: row["worse"] / row["combinations"],
            },
            label=label,
        )
    ],
)
