"""Cells of several consumers -> what an optimal allocation for one is worth to another,
however ties are broken.

docs/definitions.md, Agreement (transfer): the best and the worst for one consumer of
all allocations optimal for another.

What the best and the worst of one consumer's optimal allocations are worth to another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.checks import share_of_inputs
from deepval.judging.concordance import transfer
from deepval.paper.analyses.consumers import pairs, shared_inputs
from deepval.paper.analysis import declare
from deepval.paper.row_columns import Units, column, count, declared_table, level
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number
from deepval.results import known
from deepval.tables.values import quota


@dataclass(frozen=True)
class OptimumRow:
    """The optimal allocations of one consumer, judged by another."""

    source: str = column("Cell whose optimum is taken", "optimal for")
    target: str = column("Cell that judges it", "judged by")
    inputs: int = column("Inputs that both judge")
    alpha: float = column("Share of inputs that may be escalated", "budget", level)
    quota: int = column("Number of inputs that may be escalated, k", "slots", count)
    responsive: int = column("Inputs to which the source responds", "responsive", count)
    helped: int = column(
        "Inputs that help the source; with fewer than k, the source has many optima",
        "helped",
        count,
    )
    best: float | None = column(
        "nDG for the target of the most favourable optimum; None if the target has "
        "nothing to gain",
        "best nDG",
        number,
    )
    worst: float | None = column(
        "nDG for the target of the least favourable optimum", "worst nDG", number
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[OptimumRow]:
    """One row per ordered pair of cells that differ in the consumer alone, and
    budget.
    """
    shares, records = [share_of_inputs(alpha) for alpha in alphas], []
    for first, second in watch(list(pairs(cells)), "optima"):
        for source, target in ((first, second), (second, first)):
            one, other = shared_inputs(cells[source], cells[target], units)
            values = one.decision_values
            for alpha in shares:
                k = int(quota(len(one), alpha))
                bounds = transfer(values, other.decision_values, k=k)
                records.append(
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
    return records


def table(rows: Sequence[OptimumRow]) -> Table:
    """The rows as a table."""
    return declared_table(
        OptimumRow, rows, "Optimal allocations of one consumer, judged by another"
    )


def chart(rows: Sequence[OptimumRow]) -> Chart:
    """The nDG of the least and the most favourable optimum of one consumer for
    another.
    """
    dots = [
        Dot(f"{row.source} for {row.target}, {row.alpha:.0%}", what, value)
        for row in rows
        for what, value in (
            ("most favourable", row.best),
            ("least favourable", row.worst),
        )
    ]
    return plain("nDG", dots, line=0.0)


OPTIMA = declare(
    __name__,
    shows="Judge one consumer's optimum by another",
    paper="tie-invariant transfer",
    example="cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2",
    by="view",
    least=2,
)
