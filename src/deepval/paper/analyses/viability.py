"""Cells with their data -> whether acting on each mode beats a predictor that looks at
nothing.

docs/definitions.md, Trivial predictors. Both are judged on the inputs of the cell.

Mean loss of each mode beside that of the best predictor that looks at nothing, on the
inputs of the cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.arrays import Float
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import unit_data
from deepval.errors import InputError
from deepval.judging.draws import make_draws
from deepval.judging.intervals import interval_over
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    Units,
    column,
    declared_table,
    high,
    loss_table,
    low,
    yes_no,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number
from deepval.systems.outcomes import trivial_losses
from deepval.tables.keys import positions
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class ViableRow(CellName):
    """One mode of a cell beside the best predictor that looks at nothing."""

    system: str = column("The downstream system")
    mode: str = column("The mode", "mode")
    mean_loss: float = column("Its mean loss per input", "mean loss", number)
    trivial: str = column(
        "Action of the best trivial predictor", "best without looking"
    )
    trivial_loss: float = column(
        "Mean loss of that predictor on the same inputs", "its loss", number
    )
    viable: bool = column("Whether the mode loses less", "viable", yes_no)
    margin: float = column(
        "Loss of the trivial predictor less that of the mode", "margin", number
    )
    margin_lo: float | None = low(
        "Lower end of its 95 % interval over units, the trivial predictor chosen once",
        "95 %",
    )
    margin_hi: float | None = high()


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[ViableRow]:
    """One row per cell and mode.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Progress reporting.
    """
    records = []
    for name, cell in cells.items():
        table = loss_table(cell, units)
        means = _trivial(located[name], table, watch)
        best = min(means, key=lambda trivial: means[trivial].mean())
        drawn = make_draws(len(table.unit_ids), draws, seed)
        inputs = np.bincount(table.unit, minlength=len(table.unit_ids)).astype(
            np.float64
        )
        for index, mode in enumerate(table.modes):
            less = means[best] - table.losses[:, index]
            margin = float(less.mean())
            per_unit = np.bincount(table.unit, weights=less, minlength=len(inputs))
            draw_inputs = drawn.counts @ inputs
            defined = (draw_inputs > 0) & (len(inputs) > 1)
            samples = np.divide(
                drawn.counts @ per_unit,
                draw_inputs,
                out=np.full(len(drawn), np.nan),
                where=defined,
            )
            bounds = interval_over(samples, drawn, scale=0.0)
            records.append(
                ViableRow(
                    cell=name,
                    system=cell.spec.system,
                    mode=mode,
                    mean_loss=float(table.losses[:, index].mean()),
                    trivial=best,
                    trivial_loss=float(means[best].mean()),
                    viable=margin > 0,
                    margin=margin,
                    margin_lo=None if bounds is None else bounds.low,
                    margin_hi=None if bounds is None else bounds.high,
                )
            )
    return records


def _trivial(
    spec: CellSpec, table: ValueTable, watch: Watch
) -> dict[str, Float[np.ndarray, "input"]]:
    """Loss of every trivial predictor on the inputs of a table."""
    rule = spec.acting
    seen = [
        unit_data(spec, str(unit))
        for unit in watch(list(table.unit_ids), f"trivial predictors of {spec.system}")
    ]
    parts = [trivial_losses(rule, item.scene, item.truth) for item in seen]
    if not parts[0]:
        raise InputError(
            f"{spec.system} has no short list of plans, so none "
            "to take as a trivial predictor."
        )
    index = positions(table.input, np.concatenate([item.scene.inputs for item in seen]))
    return {
        name: np.concatenate([part[name] for part in parts])[index] for name in parts[0]
    }


def table(rows: Sequence[ViableRow]) -> Table:
    """The rows as a table."""
    order = (
        "cell",
        "mode",
        "mean_loss",
        "trivial",
        "trivial_loss",
        "margin",
        "margin_lo",
        "viable",
    )
    return declared_table(
        ViableRow, rows, "Modes against predictors that look at nothing", order=order
    )


def chart(rows: Sequence[ViableRow]) -> Chart:
    """By how much each mode loses less than the best predictor that looks at
    nothing.
    """
    dots = (
        Dot(
            f"{row.cell}: {row.mode}",
            row.trivial,
            row.margin,
            row.margin_lo,
            row.margin_hi,
        )
        for row in rows
    )
    return plain("Mean loss of the trivial predictor less the mode's", dots, line=0.0)


VIABILITY = declare(
    __name__,
    shows="Compare each mode with predictors that see nothing",
    see="definitions.md#trivial-predictors",
    paper="viability check",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    by="cell",
    needs_data=True,
)
