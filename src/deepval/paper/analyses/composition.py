"""Cells -> what benefit and harm are made of, loss term by loss term, from a cell's terms.parquet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.folder import BuiltCell
from deepval.paper.analyses.judged import Units, judged, place
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, lines_of, number, percent
from deepval.tables.terms import align, composition


@dataclass(frozen=True)
class CompositionRow:
    """One loss term's part of the benefit and of the harm of escalating every input.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        term: The loss term.
        weight: Its weight.
        benefit: Its weighted decrease, summed over helped inputs; below 0 where it rises there.
        benefit_share: Its share of the total benefit; None where there is none.
        harm: Its weighted increase, summed over harmed inputs.
        harm_share: Its share of the total harm; None where there is none.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    term: str
    weight: float
    benefit: float
    benefit_share: float | None
    harm: float
    harm_share: float | None


def rows(cells: Mapping[str, BuiltCell], *, units: Units = "all", watch: Watch = silent) -> list[CompositionRow]:
    """One row per cell and loss term; the terms of a cell add up to its benefit and its harm."""
    found = []
    for name, cell in watch(list(cells.items()), "composition"):
        table = judged(cell, units)
        terms = align(table, cell.terms)
        parts = composition(table.decision_values, terms)
        benefit, harm = math.fsum(parts.benefit.values()), math.fsum(parts.harm.values())
        for term, weight in terms.weights.items():
            good, bad = parts.benefit[term], parts.harm[term]
            found.append(
                CompositionRow(
                    cell=name,
                    **place(cell),
                    term=term,
                    weight=weight,
                    benefit=good,
                    benefit_share=good / benefit if benefit > 0 else None,
                    harm=bad,
                    harm_share=bad / harm if harm > 0 else None,
                )
            )
    return found


def table(rows: Sequence[CompositionRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "term", "weight", "benefit", "of benefit", "harm", "of harm")
    texts = [
        (
            row.cell,
            row.term,
            f"{row.weight:g}",
            number(row.benefit),
            percent(row.benefit_share, 1),
            number(row.harm),
            percent(row.harm_share, 1),
        )
        for row in rows
    ]
    return Table("Benefit and harm by loss term", header, lines_of(texts))


def chart(rows: Sequence[CompositionRow]) -> Chart:
    """Each term's share of the harm and of the benefit, by cell."""
    dots = [
        Dot(f"{row.cell}: {row.term}", what, share)
        for row in rows
        for what, share in (("of the harm", row.harm_share), ("of the benefit", row.benefit_share))
    ]
    return shares("Share of the term", dots, line=0.0)
