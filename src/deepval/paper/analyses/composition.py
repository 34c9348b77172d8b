"""What benefit and harm are made of, loss term by loss term."""

import math
from collections.abc import Iterator, Sequence

from deepval.judge.report.text_tables import number
from deepval.judge.results import share_of
from deepval.judge.tables import terms
from deepval.paper.analysis import Analysis
from deepval.paper.columns import DESCRIBED
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Dots, Row, share, shortest


def rows(cells: Sequence[Cell], *, units: Units = "all") -> Iterator[Row]:
    """One row per cell and loss term; they add up to its benefit and harm."""
    for cell in cells:
        inputs = cell.inputs(units)
        of_cell = terms.align(inputs.table, cell.cell.terms)
        parts = terms.composition(inputs.value, of_cell)
        # fsum, because the terms of opposite sign nearly cancel.
        all_benefit = math.fsum(parts.benefit.values())
        all_harm = math.fsum(parts.harm.values())
        for term, weight in of_cell.weights.items():
            # A term may fall on harmed inputs: its share of the harm is then negative.
            benefit = parts.benefit[term]
            harm = parts.harm[term]
            yield {
                **cell.description,
                "term": term,
                "weight": weight,
                "benefit": benefit,
                "benefit_share": share_of(benefit, all_benefit),
                "harm": harm,
                "harm_share": share_of(harm, all_harm),
            }


COMPOSITION = Analysis(
    name="composition",
    shows="Split benefit and harm by loss term",
    paper="harm composition",
    example="cells/braking-monocular",
    by="cell",
    details=("Total benefit and total harm of each loss term."),
    rows=rows,
    columns=(
        *DESCRIBED,
        Column("term", "The loss term", heading="term"),
        Column("weight", "Its weight", heading="weight", text=shortest),
        Column(
            "benefit",
            "Its weighted decrease, summed over helped inputs; negative if the term "
            "rises on them",
            heading="benefit",
            text=number,
        ),
        Column(
            "benefit_share",
            "Its share of the total benefit; None without any benefit",
            heading="of benefit",
            text=share,
        ),
        Column(
            "harm",
            "Its weighted increase, summed over harmed inputs",
            heading="harm",
            text=number,
        ),
        Column(
            "harm_share",
            "Its share of the total harm; None without any harm",
            heading="of harm",
            text=share,
        ),
    ),
    title="Benefit and harm by loss term",
    charts=[
        Dots(
            "Share of the term",
            {"of the harm": "harm_share", "of the benefit": "benefit_share"},
            label="{cell}: {term}",
            line=0.0,
        )
    ],
)
