"""Cells and scores -> whether a ranking is optimal (the paper's Proposition 1), and the
regret of its selection.

The check with its witness and the regret (docs/definitions.md#selection-ties-gain-ndg)
are `ranking_violation` and `regret` of judging/extras/optimality.py.

Whether a ranking is optimal at every budget (Proposition 1), two inputs that prove the
contrary, and the regret at a budget with its bound; for the decision value itself and,
with --scores, for the scores stored with the cell. With --abstain-below, low scores are
never escalated.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from deepval.arrays import Float
from deepval.cells.folder import BuiltCell
from deepval.checks import share_of_inputs
from deepval.judging.extras.optimality import ranking_violation, regret
from deepval.paper.analyses.ties import RankingColumns, rankings
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import (
    Units,
    column,
    count,
    declared_table,
    loss_table,
    or_dash,
    yes_no,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import MISSING, Table, percent
from deepval.results import known, share_of
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable, quota


def _loss(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4g}"


@dataclass(frozen=True)
class OptimalityRow(RankingColumns):
    """One ranking of a cell's inputs at one budget; sums are in units of the loss."""

    not_harmed: int = column("Inputs with V >= 0, K")
    abstained: int | None = column(
        "Inputs that are never escalated; None without abstention", "abstained", count
    )
    optimal: bool = column(
        "Whether the ranking gains as much as the oracle at every k up to K; with "
        "abstention, at every k",
        "optimal",
        yes_no,
    )
    short_from: int | None = column(
        "Smallest k at which it falls short; None if optimal", "short from", count
    )
    shortfall: float | None = column("By how much it falls short there")
    selected: str | None = column(
        "Input that it may select there; None if it is optimal, or abstention leaves "
        "the slot empty",
        "selected",
        or_dash,
    )
    left_out: str | None = column(
        "Input of larger value that it may leave out there; None if it is optimal, or "
        "an empty slot would be better",
        "left out",
        or_dash,
    )
    regret: float | None = column(
        "Gain of the oracle less that of the ranking at the budget; None without "
        "abstention where k is above K",
        "regret",
        _loss,
    )
    regret_share: float | None = column(
        "The regret as a share of the all-cheap loss; None "
        "if that loss is not positive",
        "of loss",
        percent,
    )
    swapped: float | None = column(
        "u: expected number of inputs that the oracle selects and "
        "the ranking leaves out",
        "u",
        _loss,
    )
    margin: float | None = column(
        "Least value left out less largest value wrongly selected; "
        "None if nothing is left out",
        "margin",
        _loss,
    )
    bound: float | None = column(
        "u x margin, which the regret reaches; None if the margin is not positive",
        "at least",
        _loss,
    )
    harmless_regret: float | None = column(
        "The regret if exactly the harmed inputs were abstained on",
        "without harm",
        _loss,
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    scores: Mapping[str, Iterable[Scores]] | None = None,
    alphas: Sequence[float] = (0.2,),
    units: Units = "test",
    abstain: Annotated[
        float | None,
        Option(
            "Never escalate inputs with a score below this, "
            "such as 0 if scores estimate V.",
            ("--abstain-below",),
            (-math.inf, math.inf),
        ),
    ] = None,
    watch: Watch = unwatched,
) -> list[OptimalityRow]:
    """One row per cell, ranking and budget.

    Args:
        cells: Cells by name.
        scores: For each cell, allocators' scores aligned with its table; per-mode
            scores rank nothing and are left out.
        alphas: Shares of inputs that may be escalated.
        units: Units whose inputs are ranked.
        abstain: Score below which an input is abstained on; None for no abstention.
        watch: Progress reporting.
    """
    levels, records = [share_of_inputs(alpha) for alpha in alphas], []
    for name, cell in watch(list(cells.items()), "optimality"):
        table = loss_table(cell, units)
        for ranking, score in rankings(
            name, cell, table, (scores or {}).get(name, ())
        ).items():
            records += [
                _row(name, ranking, table, score, alpha, abstain) for alpha in levels
            ]
    return records


def _row(
    cell: str,
    ranking: str,
    table: ValueTable,
    score: Float[np.ndarray, "input"],
    alpha: float,
    abstain: float | None,
) -> OptimalityRow:
    values, slots = table.decision_values, int(quota(len(table), alpha))
    reachable = int(np.count_nonzero(values >= 0))
    abstained = None if abstain is None else score < abstain
    violation = ranking_violation(score, values, abstained)
    defined = abstained is not None or slots <= reachable
    lost = regret(score, values, slots, abstained) if defined else None
    return OptimalityRow(
        cell=cell,
        ranking=ranking,
        alpha=alpha,
        quota=slots,
        not_harmed=reachable,
        abstained=None if abstained is None else int(np.count_nonzero(abstained)),
        optimal=violation is None,
        short_from=violation and violation.slots,
        shortfall=violation and violation.shortfall,
        selected=None
        if violation is None or violation.above is None
        else str(table.input[violation.above]),
        left_out=None
        if violation is None or violation.below is None
        else str(table.input[violation.below]),
        regret=lost and lost.regret,
        regret_share=lost and share_of(lost.regret, table.cheap_loss),
        swapped=lost and lost.swapped,
        margin=lost and known(lost.margin),
        bound=lost and known(lost.bound),
        harmless_regret=regret(score, values, slots, values < 0).regret,
    )


def table(rows: Sequence[OptimalityRow]) -> Table:
    """The rows as a table."""
    budgets = (
        "every k"
        if any(row.abstained is not None for row in rows)
        else "every k up to K = #{V >= 0}"
    )
    notes = (
        f"optimal: gains as much as the oracle at {budgets}. short from: the smallest "
        "k at which it does not, because it may select one input and leave out "
        "another of larger value.",
        "u: inputs of the oracle that are left out at the budget; regret >= u x "
        "margin where the margin between them and those wrongly selected is positive. "
        "without harm: the regret if harmed inputs were abstained on.",
    )
    extra = ("selected", "left out", "short from", "slots", "of loss", "abstained")
    return declared_table(
        OptimalityRow,
        rows,
        "Optimal rankings and regret",
        notes=notes,
        group=("cell",),
        extra=extra,
    )


def chart(rows: Sequence[OptimalityRow]) -> Chart:
    """The regret of each ranking, by budget."""
    dots = (
        Dot(f"{row.cell}: {row.ranking}", percent(row.alpha, 0), row.regret_share)
        for row in rows
    )
    return shares("Regret, share of the all-cheap loss", dots, line=0.0)


OPTIMALITY = declare(
    __name__,
    shows="Check rankings for optimality and show regret",
    see="definitions.md#selection-ties-gain-ndg",
    paper="Proposition 1, abstention, top-k regret",
    example="cells/braking-monocular --scores --abstain-below 0",
    takes={"cells": "cells", "scores": "aligned"},
    by="cell",
    judges=True,
)
