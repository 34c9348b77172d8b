"""How many escalations help, how many harm, and how much.

V is the decision value of an input: loss of the cheap mode less loss of the full mode.

    harm rate  = inputs with V < 0 / inputs with V != 0
    harm ratio = sum of |V| over V < 0 / sum of V over V > 0
"""

from collections.abc import Iterator, Sequence

from deepval.judge.report.text_tables import almost_zero, percent
from deepval.judge.results import known
from deepval.paper.analysis import Analysis
from deepval.paper.columns import CELL, HARM, INPUTS, harm
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Dots, Row

BINDS = "†"
"""Mark of a budget that binds."""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    alpha: float = 0.2,
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per cell."""
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        # The oracle escalates at most this share, and only inputs that it helps.
        summary = inputs.table.summary(alpha)
        yield {
            **cell.description,
            **harm(inputs.table, inputs.draws),
            "cheap_loss": summary.cheap_loss,
            "all_full_share": known(summary.all_full_share),
            "alpha": alpha,
            "oracle_share": known(summary.oracle_share),
            "binding": summary.budget_binds,
        }


def oracle_text(row: Row) -> str:
    """The oracle's share, marked where the budget binds."""
    mark = BINDS if row["binding"] else ""
    return percent(row["oracle_share"]) + mark


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """What the table leaves out, and its mark."""
    for row in rows:
        if row["draws_dropped"]:
            yield (
                f"{row['cell']}: {row['draws_dropped']} of {row['draws']} draws "
                "without any benefit are left out of the harm ratio's interval."
            )
    for row in rows:
        # A share of a loss near zero is a huge number that means nothing.
        why = almost_zero(row["cheap_loss"], row["all_full_share"], row["oracle_share"])
        if why:
            yield f"{row['cell']}: {why}."
    if any(row["binding"] for row in rows):
        yield (
            f"{BINDS}: the budget binds: more inputs are helped than the oracle may "
            "escalate."
        )


SIGNS = Analysis(
    name="signs",
    shows="Count helpful and harmful escalations",
    paper="tables of signs, oracle-geometry control",
    example="cells/braking-monocular cells/braking-oracle",
    by="cell",
    details=(
        "Affected and harmed inputs, the harm ratio, and the shares of the all-cheap "
        "loss that escalating everything and the oracle remove, with intervals over "
        "units."
    ),
    rows=rows,
    columns=(
        *CELL,
        *INPUTS,
        *HARM,
        Column("cheap_loss", "The all-cheap loss"),
        Column(
            "all_full_share",
            "Share of the all-cheap loss that escalating everything removes",
            heading="all-full",
            text=percent,
        ),
        Column("alpha", "Share of inputs that the oracle may escalate"),
        Column(
            "oracle_share",
            "Share of the all-cheap loss that the oracle removes",
            heading="oracle",
            text_of_row=oracle_text,
        ),
        Column(
            "binding",
            "Whether the budget binds: more inputs are helped than the oracle may "
            "escalate",
        ),
    ),
    title="What escalating everything does",
    notes=notes,
    charts=[
        Dots("Harmed share of affected inputs", {"harm rate": "harm_rate"}, line=0.5)
    ],
)
