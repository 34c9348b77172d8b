"""Results of several cells -> how often each allocator beats random, loses to random,
or does not differ resolvedly.

Verdicts against random of each allocator, counted over cells and budgets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.paper.analysis import declare
from deepval.paper.row_columns import AllocatorName, column, declared_table
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table
from deepval.results import Result, lists_by_key
from deepval.tables.scores import REFERENCES


@dataclass(frozen=True)
class WinRow(AllocatorName):
    """One allocator under one kind of budget, over cells and shares."""

    kind: str = column("Kind of budget: selection, latency, energy or money", "budget")
    cells: int = column("Results that judge it", "cells")
    combinations: int = column(
        "Cells times budgets that judge it: the sum of the counts below", "combinations"
    )
    better: int = column('Verdicts "better" against random', "better")
    worse: int = column('Verdicts "worse" against random', "worse")
    unresolved: int = column("Intervals that contain 0", "unresolved")
    infeasible: int = column(
        "Budgets under which it cannot pay for itself", "infeasible"
    )
    undefined: int = column("Rows without a verdict", "undefined")


def rows(results: Mapping[str, Result]) -> list[WinRow]:
    """One row per allocator and kind of budget, in order of appearance."""
    every = [(name, row) for name, result in results.items() for row in result.choosers]
    entered = [(name, row) for name, row in every if row.allocator not in REFERENCES]
    verdicts_by_key = lists_by_key(
        ((row.allocator, row.kind), (name, row.verdict)) for name, row in entered
    )
    records = []
    for (allocator, kind), verdicts in verdicts_by_key.items():
        counter = Counter(verdict for _, verdict in verdicts)
        counts = {
            verdict: counter[verdict]
            for verdict in ("better", "worse", "unresolved", "infeasible")
        }
        cells = len({name for name, _ in verdicts})
        records.append(
            WinRow(
                allocator, kind, cells, len(verdicts), **counts, undefined=counter[None]
            )
        )
    return records


def table(rows: Sequence[WinRow]) -> Table:
    """The rows as a table."""
    return declared_table(
        WinRow, rows, "Verdicts against random over cells and budgets"
    )


def chart(rows: Sequence[WinRow]) -> Chart:
    """Verdicts against random of each allocator, as shares of its rows."""
    dots = [
        Dot(
            row.allocator
            if row.kind == "selection"
            else f"{row.allocator}, {row.kind}",
            verdict,
            number / row.combinations,
        )
        for row in rows
        for verdict, number in (("better", row.better), ("worse", row.worse))
    ]
    return shares("Share of cells and budgets", dots)


WINS = declare(
    __name__,
    shows="Count wins and losses against random",
    paper="win counts",
    example="cells/braking-monocular cells/braking-oracle",
)
