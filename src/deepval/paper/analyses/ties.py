"""Cells and scores -> how much of a top-k choice is decided by ties: docs/analyses.md.

How many slots of a ranking are filled by ties at its cut: for the decision value itself
and, with --scores, for the scores stored with the cell.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.checks import share_of_inputs
from deepval.basics.errors import InputError
from deepval.judge.results import known
from deepval.judge.tables.values import quota
from deepval.judge.tie_expectations import nth_highest, tie_audit
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, Inputs, Units
from deepval.paper.tidy import Column, Dots, Row, count, level
from deepval.paper.tidy import share as in_percent

VALUE = "decision value"
"""The ranking by V itself, which every cell has."""


RANKING = (
    NAME,
    Column(
        "ranking",
        "The decision value itself, or the allocator whose scores rank",
        heading="ranking",
    ),
    Column(
        "alpha", "Share of inputs that may be escalated", heading="budget", text=level
    ),
    Column(
        "quota",
        "Number of inputs that may be escalated, k",
        heading="slots",
        text=count,
    ),
)
"""One ranking of a cell's inputs at one budget."""


COLUMNS = (
    *RANKING,
    Column(
        "above", "Inputs strictly above the cut", heading="above the cut", text=count
    ),
    Column(
        "tied",
        "Inputs tied at the cut",
        heading="tied at it",
        text_of_row=lambda row: count(row["tied"]) + " (at 0)" * (row["cut"] == 0),
    ),
    Column(
        "slots", "Slots that the tied inputs fill", heading="filled by ties", text=count
    ),
    Column(
        "share",
        "Share of the choice that ties decide: 0 if the tied group "
        "fits exactly, None if k is 0",
        heading="decided by ties",
        text=in_percent,
    ),
    Column("cut", "The score at the cut; None if k is 0 or the score is infinite"),
)
"""How ties at the cut affect the top k of one ranking of a cell's inputs."""


def rows(
    cells: Sequence[Cell],
    *,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
) -> Iterator[Row]:
    """One row per cell, ranking and budget."""
    levels = [share_of_inputs(alpha) for alpha in alphas]
    for cell in cells:
        inputs = cell.inputs(units)
        for ranking, score in rankings(inputs).items():
            for alpha in levels:
                k = int(quota(len(score), alpha))
                audit = tie_audit(score, k)
                cut = np.inf
                if k:
                    cut = float(nth_highest(score, k))
                yield {
                    "cell": cell.name,
                    "ranking": ranking,
                    "alpha": alpha,
                    "quota": k,
                    "above": audit.above,
                    "tied": audit.tied,
                    "slots": audit.slots,
                    "share": known(audit.share),
                    "cut": cut if np.isfinite(cut) else None,
                }


def rankings(inputs: Inputs) -> dict[str, Float[np.ndarray, "input"]]:
    """The scores of inputs by name, the decision value first; per-mode scores rank
    nothing.
    """
    by_name = {VALUE: inputs.value}
    for item in inputs.cell.part("aligned") or ():
        covered = inputs.aligned(item.covered)
        if not covered.all():
            raise InputError(
                f"{inputs.cell.name}: every input that is ranked needs a score, and "
                f"{item.name} has none for {np.count_nonzero(~covered):,} of "
                f"{len(covered):,}: look at --units test, or score more."
            )
        if not item.modes:
            by_name[item.name] = inputs.aligned(item.values)
    return by_name


TIES = Analysis(
    name="ties",
    shows="Show what ties at a ranking's cut decide",
    paper="tie audit",
    example="cells/braking-monocular --scores --units test",
    asks=("aligned",),
    by="cell",
    details=(
        "How many slots of a ranking are filled by ties at its cut: for the decision "
        "value itself and, with --scores, for the scores stored with the cell."
    ),
    rows=rows,
    columns=COLUMNS,
    title="What ties decide",
    charts=[
        Dots(
            "Share of the choice that ties decide",
            {"{alpha:.0%}": "share"},
            label="{cell}: {ranking}",
        )
    ],
)
