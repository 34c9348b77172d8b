"""Cells of several consumers -> what any optimal allocation of one can be worth to another, whatever breaks ties.

docs/definitions.md, Agreement (transfer): the allocations that are optimal for one, at their best for the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.judging.agreement import transfer
from deepval.paper.analyses.consumers import pairs, shared_inputs
from deepval.paper.analyses.judged import Units
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_table import Table, lines_of, number, percent
from deepval.results import known
from deepval.tables.shares import quota, share_of_inputs


@dataclass(frozen=True)
class OptimumRow:
    """The optimal allocations of one consumer, judged by another.

    Attributes:
        source: Cell whose optimum is taken.
        target: Cell that judges it.
        inputs: Inputs that both judge.
        alpha: Share of inputs that may be escalated.
        quota: That many inputs, k.
        responsive: Inputs to which the source responds.
        helped: Inputs that the source finds helped; with fewer than k, its optimum is not one but many.
        best: nDG for the target of the most favourable optimum; None where the target has nothing to gain.
        worst: nDG for the target of the least favourable one.
    """

    source: str
    target: str
    inputs: int
    alpha: float
    quota: int
    responsive: int
    helped: int
    best: float | None
    worst: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
    watch: Watch = silent,
) -> list[OptimumRow]:
    """One row per ordered pair of cells that differ in the consumer alone, and budget."""
    shares, found = [share_of_inputs(alpha) for alpha in alphas], []
    for first, second in watch(list(pairs(cells)), "optima"):
        for source, target in ((first, second), (second, first)):
            one, other = shared_inputs(cells[source], cells[target], units)
            values = one.decision_values
            for alpha in shares:
                k = int(quota(len(one), alpha))
                bounds = transfer(values, other.decision_values, k=k)
                found.append(
                    OptimumRow(
                        source=source,
                        target=target,
                        inputs=len(one),
                        alpha=alpha,
                        quota=k,
                        responsive=one.affected,
                        helped=int(np.count_nonzero(values > 0)),
                        best=known(bounds.most.ndg),
                        worst=known(bounds.least.ndg),
                    )
                )
    return found


def table(rows: Sequence[OptimumRow]) -> Table:
    """The rows as a table."""
    header = ("optimal for", "judged by", "budget", "slots", "responsive", "helped", "best nDG", "worst nDG")
    texts = [
        (
            row.source,
            row.target,
            percent(row.alpha, 0),
            f"{row.quota:,}",
            f"{row.responsive:,}",
            f"{row.helped:,}",
            number(row.best),
            number(row.worst),
        )
        for row in rows
    ]
    return Table("Optimal allocations of one consumer, judged by another", header, lines_of(texts))


def chart(rows: Sequence[OptimumRow]) -> Chart:
    """The nDG of the least and the most favourable optimum of one consumer for another."""
    dots = [
        Dot(f"{row.source} for {row.target}, {row.alpha:.0%}", what, value)
        for row in rows
        for what, value in (("most favourable", row.best), ("least favourable", row.worst))
    ]
    return plain("nDG", dots, line=0.0)
