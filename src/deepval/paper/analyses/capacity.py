"""Whether a quota forces harm.

A ranking escalates exactly k inputs (a quota), the oracle at most k (a capacity). If at
least k inputs have V >= 0, the best choice of exactly k gains as much as the best of at
most k. Otherwise the quota must be filled with the smallest harms, and loses their sum.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deepval.judge.allowances import LEVELS
from deepval.judge.extras.optimality import oracle_gain
from deepval.judge.report.text_tables import percent
from deepval.judge.results import known
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Dots, Row, count, level, yes_no


def rows(
    cells: Sequence[Cell], *, alphas: Sequence[float] = LEVELS, units: Units = "test"
) -> Iterator[Row]:
    """One row per cell and share of inputs."""
    for cell in cells:
        inputs = cell.inputs(units)
        best_first = np.sort(inputs.value)[::-1]
        for alpha in alphas:
            summary = inputs.table.summary(alpha)
            coincide = summary.quota_is_capacity
            # The oracle of a capacity stops at the last helped input.
            at_most = oracle_gain(inputs.value, summary.quota)
            exactly = float(best_first[: summary.quota].sum())
            if coincide:
                # The same number, which a sum in another order would miss by rounding.
                exactly = at_most
            yield {
                "cell": cell.name,
                "alpha": alpha,
                "inputs": len(inputs.table),
                "quota": summary.quota,
                "not_harmed": int(np.count_nonzero(inputs.value >= 0)),
                "coincide": coincide,
                "capacity_gain": at_most,
                "quota_gain": exactly,
                "forced_share": forced_share(
                    at_most - exactly, inputs.table.cheap_loss
                ),
            }


def forced_share(forced: float, cheap_loss: float) -> float | None:
    """The forced harm as a share of the all-cheap loss."""
    if forced == 0:
        return 0.0
    if not cheap_loss > 0:
        return None
    return known(forced / cheap_loss)


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """In how many rows a quota forces no harm."""
    apart = [
        f"{row['cell']} at {level(row['alpha'])}" for row in rows if not row["coincide"]
    ]
    agreeing = f"{len(rows) - len(apart)} of {len(rows)} rows"
    exceptions = ""
    if apart:
        exceptions = f", not at {', '.join(apart)}"
    yield f"Quota and capacity have one oracle in {agreeing}{exceptions}."


CAPACITY = Analysis(
    name="capacity",
    shows="Show whether a quota forces harm",
    paper="quota and capacity",
    example="cells/braking-monocular",
    judges=True,
    details=(
        "Whether enough inputs are not harmed for a quota and a capacity to have the "
        "same oracle."
    ),
    rows=rows,
    columns=(
        NAME,
        Column(
            "alpha", "Share of inputs that are escalated", heading="budget", text=level
        ),
        Column("inputs", "Number of inputs", heading="inputs", text=count),
        Column(
            "quota",
            "Number of inputs that are escalated, k",
            heading="quota",
            text=count,
        ),
        Column("not_harmed", "Inputs with V >= 0", heading="not harmed", text=count),
        Column(
            "coincide",
            "Whether at least k inputs are not harmed, so that both have the same "
            "oracle",
            heading="one oracle",
            text=yes_no,
        ),
        Column(
            "capacity_gain",
            "Gain of the best choice of at most k inputs, in loss units",
        ),
        Column("quota_gain", "Gain of the best choice of exactly k inputs"),
        Column(
            "forced_share",
            "capacity_gain - quota_gain, as a share of the all-cheap loss; None if "
            "that loss is not positive",
            heading="forced harm",
            text=percent,
        ),
    ),
    title="Whether a quota forces harm",
    notes=notes,
    charts=[
        Dots(
            "Harm that the quota forces, share of the all-cheap loss",
            {"{alpha:.0%}": "forced_share"},
            line=0.0,
        )
    ],
)
