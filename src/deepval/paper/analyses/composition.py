"""Cells -> what benefit and harm are made of, loss term by loss term, from a cell's
terms.parquet.

Total benefit and total harm of each loss term.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.folder import BuiltCell
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellColumns,
    Units,
    cell_columns,
    column,
    declared_table,
    loss_table,
    share,
    shortest,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, number
from deepval.tables.terms import align, composition


@dataclass(frozen=True)
class CompositionRow(CellColumns):
    """One loss term's part of the benefit and of the harm of escalating every input."""

    term: str = column("The loss term", "term")
    weight: float = column("Its weight", "weight", shortest)
    benefit: float = column(
        "Its weighted decrease, summed over helped inputs; negative "
        "if the term rises on them",
        "benefit",
        number,
    )
    benefit_share: float | None = column(
        "Its share of the total benefit; None without any benefit", "of benefit", share
    )
    harm: float = column(
        "Its weighted increase, summed over harmed inputs", "harm", number
    )
    harm_share: float | None = column(
        "Its share of the total harm; None without any harm", "of harm", share
    )


def rows(
    cells: Mapping[str, BuiltCell], *, units: Units = "all", watch: Watch = unwatched
) -> list[CompositionRow]:
    """One row per cell and loss term; the terms of a cell add up to its benefit and its
    harm.
    """
    records = []
    for name, cell in watch(list(cells.items()), "composition"):
        table = loss_table(cell, units)
        terms = align(table, cell.terms)
        parts = composition(table.decision_values, terms)
        benefit, harm = (
            math.fsum(parts.benefit.values()),
            math.fsum(parts.harm.values()),
        )
        for term, weight in terms.weights.items():
            benefit_part, harm_part = parts.benefit[term], parts.harm[term]
            records.append(
                CompositionRow(
                    **cell_columns(name, cell),
                    term=term,
                    weight=weight,
                    benefit=benefit_part,
                    benefit_share=benefit_part / benefit if benefit > 0 else None,
                    harm=harm_part,
                    harm_share=harm_part / harm if harm > 0 else None,
                )
            )
    return records


def table(rows: Sequence[CompositionRow]) -> Table:
    """The rows as a table."""
    order = ("cell", "term", "weight", "benefit", "benefit_share", "harm", "harm_share")
    return declared_table(
        CompositionRow, rows, "Benefit and harm by loss term", order=order
    )


def chart(rows: Sequence[CompositionRow]) -> Chart:
    """Each term's share of the harm and of the benefit, by cell."""
    dots = [
        Dot(f"{row.cell}: {row.term}", series, part)
        for row in rows
        for series, part in (
            ("of the harm", row.harm_share),
            ("of the benefit", row.benefit_share),
        )
    ]
    return shares("Share of the term", dots, line=0.0)


COMPOSITION = declare(
    __name__,
    shows="Split benefit and harm by loss term",
    paper="harm composition",
    example="cells/braking-monocular",
    by="cell",
)
