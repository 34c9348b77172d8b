"""Cells -> how many escalations help and how many harm, and how much: docs/analyses.md.

These are the paper's tables of signs and, for cells that differ in geometry alone, its
oracle-geometry control.

Affected and harmed inputs, the harm ratio, and the shares of the all-cheap loss that
escalating everything and the oracle remove, with intervals over units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deepval.cells.folder import BuiltCell
from deepval.judging.draws import make_draws
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellColumns,
    HarmColumns,
    InputColumns,
    Units,
    cell_columns,
    column,
    declared_table,
    harm,
    loss_table,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, almost_zero, percent
from deepval.results import known

DAGGER = "†"
"""Mark of cells whose budget binds."""


@dataclass(frozen=True)
class SignRow(HarmColumns, InputColumns, CellColumns):
    """What escalating every input of a cell does."""

    cheap_loss: float = column("The all-cheap loss")
    all_full_share: float | None = column(
        "Share of the all-cheap loss that escalating everything removes",
        "all-full",
        percent,
    )
    alpha: float = column("Share of inputs that the oracle may escalate")
    oracle_share: float | None = column(
        "Share of the all-cheap loss that the oracle removes",
        "oracle",
        of_row=lambda row: percent(row.oracle_share) + DAGGER * row.binding,
    )
    binding: bool = column(
        "Whether the budget binds: more inputs are helped than the oracle may escalate"
    )


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    alpha: float = 0.2,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[SignRow]:
    """One row per cell, over the inputs of the named units."""
    return [
        _row(name, cell, units=units, alpha=alpha, draws=draws, seed=seed)
        for name, cell in watch(list(cells.items()), "signs")
    ]


def _row(
    name: str,
    cell: BuiltCell,
    *,
    units: Units,
    alpha: float,
    draws: int | Literal["exact"],
    seed: int,
) -> SignRow:
    table = loss_table(cell, units)
    summary = table.summary(alpha)
    return SignRow(
        **cell_columns(name, cell),
        **harm(table, make_draws(len(table.unit_ids), draws, seed)),
        cheap_loss=summary.cheap_loss,
        all_full_share=known(summary.all_full_share),
        alpha=alpha,
        oracle_share=known(summary.oracle_share),
        binding=summary.budget_binds,
    )


def table(rows: Sequence[SignRow]) -> Table:
    """The rows as a table."""
    notes = [
        f"{row.cell}: {row.draws_dropped} of {row.draws} draws without any benefit "
        "are left out of the harm ratio's interval."
        for row in rows
        if row.draws_dropped
    ]
    notes += [
        f"{row.cell}: {why}."
        for row in rows
        if (why := almost_zero(row.cheap_loss, row.all_full_share, row.oracle_share))
    ]
    if any(row.binding for row in rows):
        notes.append(
            f"{DAGGER}: the budget binds: more inputs are helped "
            "than the oracle may escalate."
        )
    return declared_table(SignRow, rows, "What escalating everything does", notes=notes)


def chart(rows: Sequence[SignRow]) -> Chart:
    """Harm rate and harm ratio of each cell."""
    return shares(
        "Harmed share of affected inputs",
        (
            Dot(
                row.cell, "harm rate", row.harm_rate, row.harm_rate_lo, row.harm_rate_hi
            )
            for row in rows
        ),
        line=0.5,
    )


SIGNS = declare(
    __name__,
    shows="Count helpful and harmful escalations",
    paper="tables of signs, oracle-geometry control",
    example="cells/braking-monocular cells/braking-oracle",
    by="cell",
)
