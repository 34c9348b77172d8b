"""Cells and scores -> whether a ranking is optimal (the paper's Proposition 1), and the
regret of its selection.

The check with its witness and the regret (docs/definitions.md#selection-ties-gain-ndg)
are `ranking_violation` and `regret` of judge/extras/optimality.py.

Whether a ranking is optimal at every budget (Proposition 1), two inputs that prove the
contrary, and the regret at a budget with its bound; for the decision value itself and,
with --scores, for the scores stored with the cell. With --abstain-below, low scores are
never escalated.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.checks import share_of_inputs
from deepval.judge.extras.optimality import ranking_violation, regret
from deepval.judge.report.text_tables import MISSING, Table, percent
from deepval.judge.results import known, share_of
from deepval.judge.tables.values import ValueTable, quota
from deepval.paper.analyses.ties import RANKING, rankings
from deepval.paper.analysis import Analysis, Option
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Dots, Row, count, or_dash, printed, yes_no


def _loss(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4g}"


COLUMNS = (
    *RANKING,
    Column("not_harmed", "Inputs with V >= 0, K"),
    Column(
        "abstained",
        "Inputs that are never escalated; None without abstention",
        heading="abstained",
        text=count,
    ),
    Column(
        "optimal",
        "Whether the ranking gains as much as the oracle at every k up to K; with "
        "abstention, at every k",
        heading="optimal",
        text=yes_no,
    ),
    Column(
        "short_from",
        "Smallest k at which it falls short; None if optimal",
        heading="short from",
        text=count,
    ),
    Column("shortfall", "By how much it falls short there"),
    Column(
        "selected",
        "Input that it may select there; None if it is optimal, or abstention leaves "
        "the slot empty",
        heading="selected",
        text=or_dash,
    ),
    Column(
        "left_out",
        "Input of larger value that it may leave out there; None if it is optimal, or "
        "an empty slot would be better",
        heading="left out",
        text=or_dash,
    ),
    Column(
        "regret",
        "Gain of the oracle less that of the ranking at the budget; None without "
        "abstention where k is above K",
        heading="regret",
        text=_loss,
    ),
    Column(
        "regret_share",
        "The regret as a share of the all-cheap loss; None "
        "if that loss is not positive",
        heading="of loss",
        text=percent,
    ),
    Column(
        "swapped",
        "u: expected number of inputs that the oracle selects and "
        "the ranking leaves out",
        heading="u",
        text=_loss,
    ),
    Column(
        "margin",
        "Least value left out less largest value wrongly selected; "
        "None if nothing is left out",
        heading="margin",
        text=_loss,
    ),
    Column(
        "bound",
        "u x margin, which the regret reaches; None if the margin is not positive",
        heading="at least",
        text=_loss,
    ),
    Column(
        "harmless_regret",
        "The regret if exactly the harmed inputs were abstained on",
        heading="without harm",
        text=_loss,
    ),
)
"""One ranking of a cell's inputs at one budget; sums are in units of the loss."""


def rows(
    cells: Sequence[Cell],
    *,
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
) -> Iterator[Row]:
    """One row per cell, ranking and budget.

    Args:
        cells: The cells.
        alphas: Shares of inputs that may be escalated.
        units: Units whose inputs are ranked.
        abstain: Score below which an input is abstained on; None for no abstention.
    """
    levels = [share_of_inputs(alpha) for alpha in alphas]
    for cell in cells:
        inputs = cell.inputs(units)
        for ranking, score in rankings(inputs).items():
            for alpha in levels:
                yield {
                    "cell": cell.name,
                    "ranking": ranking,
                    "alpha": alpha,
                    "quota": int(quota(len(inputs.table), alpha)),
                    **_optimality(inputs.table, score, alpha, abstain),
                }


def _optimality(
    table: ValueTable,
    score: Float[np.ndarray, "input"],
    alpha: float,
    abstain: float | None,
) -> Row:
    """Whether a ranking is optimal, and its regret at a budget."""
    values = table.decision_values
    slots = int(quota(len(table), alpha))
    reachable = int(np.count_nonzero(values >= 0))
    abstained = None if abstain is None else score < abstain
    violation = ranking_violation(score, values, abstained)
    defined = abstained is not None or slots <= reachable
    lost = regret(score, values, slots, abstained) if defined else None
    return {
        "not_harmed": reachable,
        "abstained": None if abstained is None else int(np.count_nonzero(abstained)),
        "optimal": violation is None,
        "short_from": violation and violation.slots,
        "shortfall": violation and violation.shortfall,
        "selected": None
        if violation is None or violation.above is None
        else str(table.input[violation.above]),
        "left_out": None
        if violation is None or violation.below is None
        else str(table.input[violation.below]),
        "regret": lost and lost.regret,
        "regret_share": lost and share_of(lost.regret, table.cheap_loss),
        "swapped": lost and lost.swapped,
        "margin": lost and known(lost.margin),
        "bound": lost and known(lost.bound),
        "harmless_regret": regret(score, values, slots, values < 0).regret,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """A section for each cell."""
    budgets = "every k up to K = #{V >= 0}"
    if any(row["abstained"] is not None for row in rows):
        budgets = "every k"
    notes = (
        f"optimal: gains as much as the oracle at {budgets}. short from: the smallest "
        "k at which it does not, because it may select one input and leave out "
        "another of larger value.",
        "u: inputs of the oracle that are left out at the budget; regret >= u x "
        "margin where the margin between them and those wrongly selected is positive. "
        "without harm: the regret if harmed inputs were abstained on.",
    )
    extra = ("selected", "left out", "short from", "slots", "of loss", "abstained")
    title = "Optimal rankings and regret"
    return [printed(title, COLUMNS, rows, notes=notes, group=("cell",), extra=extra)]


OPTIMALITY = Analysis(
    name="optimality",
    shows="Check rankings for optimality and show regret",
    see="definitions.md#selection-ties-gain-ndg",
    paper="Proposition 1, abstention, top-k regret",
    example="cells/braking-monocular --scores --abstain-below 0",
    asks=("aligned",),
    by="cell",
    judges=True,
    details=(
        "Whether a ranking is optimal at every budget (Proposition 1), two inputs "
        "that prove the contrary, and the regret at a budget with its bound; for the "
        "decision value itself and, with --scores, for the scores stored with the "
        "cell. With --abstain-below, low scores are never escalated."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    charts=[
        Dots(
            "Regret, share of the all-cheap loss",
            {"{alpha:.0%}": "regret_share"},
            label="{cell}: {ranking}",
            line=0.0,
        )
    ],
)
