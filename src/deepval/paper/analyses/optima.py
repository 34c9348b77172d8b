"""Cells of several consumers -> what an optimal allocation for one is worth to another,
however ties are broken.

docs/definitions.md, Agreement (transfer): the best and the worst for one consumer of
all allocations optimal for another.

What the best and the worst of one consumer's optimal allocations are worth to another.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deepval.basics.checks import share_of_inputs
from deepval.judge.concordance import transfer
from deepval.judge.report.text_tables import number
from deepval.judge.results import known
from deepval.judge.tables.values import quota
from deepval.paper.analyses.consumers import shared_inputs
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, Units, consumer_pairs
from deepval.paper.tidy import Column, Dots, Row, count, level

COLUMNS = (
    Column("source", "Cell whose optimum is taken", heading="optimal for"),
    Column("target", "Cell that judges it", heading="judged by"),
    Column("inputs", "Inputs that both judge"),
    Column(
        "alpha", "Share of inputs that may be escalated", heading="budget", text=level
    ),
    Column(
        "quota",
        "Number of inputs that may be escalated, k",
        heading="slots",
        text=count,
    ),
    Column(
        "responsive",
        "Inputs to which the source responds",
        heading="responsive",
        text=count,
    ),
    Column(
        "helped",
        "Inputs that help the source; with fewer than k, the source has many optima",
        heading="helped",
        text=count,
    ),
    Column(
        "best",
        "nDG for the target of the most favourable optimum; None if the target has "
        "nothing to gain",
        heading="best nDG",
        text=number,
    ),
    Column(
        "worst",
        "nDG for the target of the least favourable optimum",
        heading="worst nDG",
        text=number,
    ),
)
"""The optimal allocations of one consumer, judged by another."""


def rows(
    cells: Sequence[Cell],
    *,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
) -> Iterator[Row]:
    """One row per ordered pair of cells that differ in the consumer alone, and
    budget.
    """
    levels = [share_of_inputs(alpha) for alpha in alphas]
    for first, second in consumer_pairs(cells):
        for source, target in ((first, second), (second, first)):
            one, other = shared_inputs(source.inputs(units), target.inputs(units))
            for alpha in levels:
                k = int(quota(len(one.table), alpha))
                bounds = transfer(one.value, other.value, k=k)
                yield {
                    "source": source.name,
                    "target": target.name,
                    "inputs": len(one.table),
                    "alpha": alpha,
                    "quota": k,
                    "responsive": one.table.affected,
                    "helped": int(np.count_nonzero(one.value > 0)),
                    "best": known(bounds.most.ndg),
                    "worst": known(bounds.least.ndg),
                }


OPTIMA = Analysis(
    name="optima",
    shows="Judge one consumer's optimum by another",
    paper="tie-invariant transfer",
    example="cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2",
    by="view",
    least=2,
    details=(
        "What the best and the worst of one consumer's optimal allocations are worth "
        "to another."
    ),
    rows=rows,
    columns=COLUMNS,
    title="Optimal allocations of one consumer, judged by another",
    charts=[
        Dots(
            "nDG",
            {"most favourable": "best", "least favourable": "worst"},
            label="{source} for {target}, {alpha:.0%}",
            percent=False,
            line=0.0,
        )
    ],
)
