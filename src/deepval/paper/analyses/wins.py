"""Results of several cells -> how often each allocator beats random, loses to it, or cannot be told from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, lines_of
from deepval.results import Result
from deepval.tables.scores import REFERENCES


@dataclass(frozen=True)
class WinRow:
    """One allocator under one kind of budget, over cells and shares.

    Attributes:
        allocator: The allocator.
        kind: selection, latency, energy or money.
        cells: Results that judge it.
        combinations: Cells times budgets that judge it: the counts below add up to it.
        better: Verdicts "better" against random.
        worse: Verdicts "worse".
        unresolved: Intervals that hold 0.
        infeasible: Budgets under which it cannot pay for itself.
        undefined: Rows without a verdict.
    """

    allocator: str
    kind: str
    cells: int
    combinations: int
    better: int
    worse: int
    unresolved: int
    infeasible: int
    undefined: int


def rows(results: Mapping[str, Result]) -> list[WinRow]:
    """One row per allocator and kind of budget, in the order in which they are met."""
    met: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    for name, result in results.items():
        for row in result.rows:
            if row.allocator not in REFERENCES:
                met.setdefault((row.allocator, row.kind), []).append((name, row.verdict))
    found = []
    for (allocator, kind), seen in met.items():
        count = Counter(verdict for _, verdict in seen)
        counts = {verdict: count[verdict] for verdict in ("better", "worse", "unresolved", "infeasible")}
        cells = len({name for name, _ in seen})
        found.append(WinRow(allocator, kind, cells, len(seen), **counts, undefined=count[None]))
    return found


def table(rows: Sequence[WinRow]) -> Table:
    """The rows as a table."""
    header = (
        "allocator",
        "budget",
        "cells",
        "combinations",
        "better",
        "worse",
        "unresolved",
        "infeasible",
        "undefined",
    )
    texts = [
        (
            row.allocator,
            row.kind,
            *map(
                str,
                (
                    row.cells,
                    row.combinations,
                    row.better,
                    row.worse,
                    row.unresolved,
                    row.infeasible,
                    row.undefined,
                ),
            ),
        )
        for row in rows
    ]
    return Table("Verdicts against random over cells and budgets", header, lines_of(texts))


def chart(rows: Sequence[WinRow]) -> Chart:
    """Verdicts against random of each allocator, as shares of its rows."""
    dots = [
        Dot(
            row.allocator if row.kind == "selection" else f"{row.allocator}, {row.kind}",
            verdict,
            count / row.combinations,
        )
        for row in rows
        for verdict, count in (("better", row.better), ("worse", row.worse))
    ]
    return shares("Share of cells and budgets", dots)
