"""Cells and scores -> how much of a top-k choice is decided by ties: docs/analyses.md.

How many slots of a ranking are filled by ties at its cut: for the decision value itself
and, with --scores, for the scores stored with the cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.cells.folder import BuiltCell
from deepval.checks import share_of_inputs
from deepval.errors import InputError
from deepval.judging.tie_expectations import nth_highest, tie_audit
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    Units,
    column,
    count,
    declared_table,
    level,
    loss_table,
)
from deepval.paper.row_columns import share as in_percent
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table
from deepval.results import known
from deepval.tables.keys import positions
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable, quota

VALUE = "decision value"
"""The ranking by V itself, which every cell has."""


@dataclass(frozen=True)
class RankingColumns(CellName):
    """One ranking of a cell's inputs at one budget."""

    ranking: str = column(
        "The decision value itself, or the allocator whose scores rank", "ranking"
    )
    alpha: float = column("Share of inputs that may be escalated", "budget", level)
    quota: int = column("Number of inputs that may be escalated, k", "slots", count)


@dataclass(frozen=True)
class TieRow(RankingColumns):
    """How ties at the cut affect the top k of one ranking of a cell's inputs."""

    above: int = column("Inputs strictly above the cut", "above the cut", count)
    tied: int = column(
        "Inputs tied at the cut",
        "tied at it",
        of_row=lambda row: count(row.tied) + " (at 0)" * (row.cut == 0),
    )
    slots: int = column("Slots that the tied inputs fill", "filled by ties", count)
    share: float | None = column(
        "Share of the choice that ties decide: 0 if the tied group "
        "fits exactly, None if k is 0",
        "decided by ties",
        in_percent,
    )
    cut: float | None = column(
        "The score at the cut; None if k is 0 or the score is infinite"
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    scores: Mapping[str, Iterable[Scores]] | None = None,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[TieRow]:
    """One row per cell, ranking and budget.

    Args:
        cells: Cells by name.
        scores: For each cell, allocators' scores aligned with its table; per-mode
            scores rank nothing and are left out.
        alphas: Shares of inputs that may be escalated.
        units: Units whose inputs are ranked.
        watch: Progress reporting.
    """
    shares, records = [share_of_inputs(alpha) for alpha in alphas], []
    for name, cell in watch(list(cells.items()), "ties"):
        for ranking, score in rankings(
            name, cell, loss_table(cell, units), (scores or {}).get(name, ())
        ).items():
            records += [_row(name, ranking, score, alpha) for alpha in shares]
    return records


def rankings(
    name: str, cell: BuiltCell, table: ValueTable, scores: Iterable[Scores]
) -> dict[str, Float[np.ndarray, "input"]]:
    """The scores of the table's inputs by name, the decision value first; per-mode
    scores rank nothing.
    """
    at = positions(table.input, cell.table.input)
    by_name = {VALUE: table.decision_values}
    for item in scores:
        if not item.covered[at].all():
            raise InputError(
                f"{name}: every input that is ranked needs a score, and {item.name} "
                f"has none for {np.count_nonzero(~item.covered[at]):,} of "
                f"{len(at):,}: look at --units test, or score more."
            )
        if not item.modes:
            by_name[item.name] = item.values[at]
    return by_name


def _row(
    cell: str, ranking: str, score: Float[np.ndarray, "input"], alpha: float
) -> TieRow:
    k = int(quota(len(score), alpha))
    audit = tie_audit(score, k)
    cut = nth_highest(score, k) if k else np.inf
    return TieRow(
        cell,
        ranking,
        alpha,
        k,
        audit.above,
        audit.tied,
        audit.slots,
        known(audit.share),
        float(cut) if np.isfinite(cut) else None,
    )


def table(rows: Sequence[TieRow]) -> Table:
    """The rows as a table."""
    return declared_table(TieRow, rows, "What ties decide")


def chart(rows: Sequence[TieRow]) -> Chart:
    """Share of each choice that ties decide."""
    return shares(
        "Share of the choice that ties decide",
        (
            Dot(f"{row.cell}: {row.ranking}", f"{row.alpha:.0%}", row.share)
            for row in rows
        ),
    )


TIES = declare(
    __name__,
    shows="Show what ties at a ranking's cut decide",
    paper="tie audit",
    example="cells/braking-monocular --scores --units test",
    takes={"cells": "cells", "scores": "aligned"},
    by="cell",
)
