"""Cells -> how far perception gain and decision value agree in sign:
docs/definitions.md, Agreement.

Perception gain (E1 to E8) against decision value: rank correlation, harm where
perception improves, signs that differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.judging.concordance import affected, spearman
from deepval.judging.draws import make_draws
from deepval.judging.ratios import ratio
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellColumns,
    Units,
    cell_columns,
    column,
    count,
    decimals,
    declared_table,
    high,
    loss_table,
    loss_title,
    low,
    share,
)
from deepval.perception.reported.losses import perception_gains
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table
from deepval.results import known
from deepval.tables.keys import positions


@dataclass(frozen=True)
class GainRow(CellColumns):
    """One perception gain beside the decision value of a cell's inputs."""

    loss: str = column(
        "The perception loss whose decrease is the gain: E1 to E8",
        "perception gain",
        loss_title,
    )
    affected: int = column("Inputs with a decision value other than 0")
    spearman: float | None = column(
        "Rank correlation of gain and decision value over the affected inputs; None "
        "if either is constant",
        "Spearman",
        decimals(2),
    )
    improved: int = column("Affected inputs with a positive gain", "gain > 0", count)
    harm_given_gain: float | None = column(
        "Share of the improved inputs that escalation harms", "harmed of these", share
    )
    harm_given_gain_lo: float | None = low(heading="95 %", form=share)
    harm_given_gain_hi: float | None = high()
    both: int = column(
        "Inputs on which neither gain nor decision value is 0", "both not 0", count
    )
    disagree: float | None = column(
        "Share of these inputs on which the two signs differ", "disagree", share
    )
    disagree_lo: float | None = low(heading="95 %", form=share)
    disagree_hi: float | None = high()


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[GainRow]:
    """One row per cell and perception loss that its modes define."""
    records = []
    for name, cell in watch(list(cells.items()), "agreement"):
        table = loss_table(cell, units)
        at = positions(table.input, cell.table.input)
        gains = {
            loss: gain[at]
            for loss, gain in perception_gains(*cell.evidence.losses).items()
        }
        drawn = make_draws(len(table.unit_ids), draws, seed)
        values, size = table.decision_values, table.tolerance
        changed, harmed = affected(values, tolerance=size), values < -size
        for loss, gain in gains.items():
            improved, moved = changed & (gain > size), changed & (np.abs(gain) > size)
            harmed_part = ratio(table, improved & harmed, improved, draws=drawn)
            opposite_part = ratio(
                table, moved & ((gain > 0) == harmed), moved, draws=drawn
            )
            records.append(
                GainRow(
                    **cell_columns(name, cell),
                    loss=loss,
                    affected=int(changed.sum()),
                    spearman=known(spearman(gain, values, among=changed)),
                    improved=int(improved.sum()),
                    **harmed_part.columns("harm_given_gain"),
                    both=int(moved.sum()),
                    **opposite_part.columns("disagree"),
                )
            )
    return records


def table(rows: Sequence[GainRow]) -> Table:
    """The rows as a table."""
    order = (
        "cell",
        "loss",
        "spearman",
        "improved",
        "harm_given_gain",
        "harm_given_gain_lo",
    )
    order = (*order, "both", "disagree", "disagree_lo")
    notes = ("Over inputs whose loss escalation changes.",)
    return declared_table(
        GainRow,
        rows,
        "Perception gain against decision value",
        notes=notes,
        order=order,
    )


def chart(rows: Sequence[GainRow]) -> Chart:
    """Share of inputs whose signs differ, for each perception loss of each cell."""
    dots = (
        Dot(row.cell, row.loss, row.disagree, row.disagree_lo, row.disagree_hi)
        for row in rows
    )
    return shares("Perception gain and decision value of opposite sign", dots, line=0.5)


AGREEMENT = declare(
    __name__,
    shows="Compare perception gain with decision value",
    see="definitions.md#agreement",
    paper="sign agreement",
    example="cells/braking-monocular",
    by="cell",
)
