"""Cells with their data -> whether acting on each mode beats a predictor that looks at
nothing.

docs/definitions.md, Trivial predictors. Both are judged on the inputs of the cell.

Mean loss of each mode beside that of the best predictor that looks at nothing, on the
inputs of the cell.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import UnsuitableError
from deepval.driving.cells.unit import unit_data
from deepval.driving.systems.outcomes import trivial_losses
from deepval.judge.intervals import interval_over
from deepval.judge.report.text_tables import Table, number
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME, estimate_within
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Dots, Row, only, printed, yes_no

COLUMNS = (
    NAME,
    Column("system", "The downstream system"),
    Column("mode", "The mode", heading="mode"),
    Column("mean_loss", "Its mean loss per input", heading="mean loss", text=number),
    Column(
        "trivial",
        "Action of the best trivial predictor",
        heading="best without looking",
    ),
    Column(
        "trivial_loss",
        "Mean loss of that predictor on the same inputs",
        heading="its loss",
        text=number,
    ),
    Column("viable", "Whether the mode loses less", heading="viable", text=yes_no),
    Column(
        "margin",
        "Loss of the trivial predictor less that of the mode",
        heading="margin",
        text=number,
        bounds="95 %",
    ),
)
"""One mode of a cell beside the best predictor that looks at nothing."""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """One row per cell and mode."""
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        table = inputs.table
        drawn = inputs.draws
        means = _trivial(cell, table)
        best = min(means, key=lambda trivial: means[trivial].mean())
        per_unit_inputs = np.bincount(table.unit, minlength=len(table.unit_ids))
        for index, mode in enumerate(table.modes):
            less = means[best] - table.losses[:, index]
            margin = float(less.mean())
            per_unit = np.bincount(
                table.unit, weights=less, minlength=len(per_unit_inputs)
            )
            draw_inputs = drawn.counts @ per_unit_inputs.astype(np.float64)
            defined = (draw_inputs > 0) & (len(per_unit_inputs) > 1)
            samples = np.divide(
                drawn.counts @ per_unit,
                draw_inputs,
                out=np.full(len(drawn), np.nan),
                where=defined,
            )
            bounds = interval_over(samples, drawn, scale=0.0)
            yield {
                "cell": cell.name,
                "system": cell.cell.spec.system,
                "mode": mode,
                "mean_loss": float(table.losses[:, index].mean()),
                "trivial": best,
                "trivial_loss": float(means[best].mean()),
                "viable": margin > 0,
                "margin": estimate_within(margin, bounds),
            }


def _trivial(cell: Cell, table: ValueTable) -> dict[str, Float[np.ndarray, "input"]]:
    """Loss of every trivial predictor on the inputs of a table."""
    spec = cell.located
    rule = spec.acting
    seen = [
        unit_data(spec, str(unit))
        for unit in cell.watch(
            list(table.unit_ids), f"trivial predictors of {spec.system}"
        )
    ]
    parts = [trivial_losses(rule, item.scene, item.truth) for item in seen]
    if not parts[0]:
        raise UnsuitableError(
            f"{spec.system} has no short list of plans, so none to take as a trivial "
            "predictor: a system of your own may define 'choices' or 'trivial'."
        )
    index = positions(table.input, np.concatenate([item.scene.inputs for item in seen]))
    return {
        name: np.concatenate([part[name] for part in parts])[index] for name in parts[0]
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    order = (
        "cell",
        "mode",
        "mean_loss",
        "trivial",
        "trivial_loss",
        "margin",
        "viable",
    )
    return [
        printed(
            "Modes against predictors that look at nothing", only(COLUMNS, *order), rows
        )
    ]


VIABILITY = Analysis(
    name="viability",
    shows="Compare each mode with predictors that see nothing",
    see="definitions.md#trivial-predictors",
    paper="viability check",
    example=("cells/braking-monocular"),
    by="cell",
    needs_data=True,
    details=(
        "Mean loss of each mode beside that of the best predictor that looks at "
        "nothing, on the inputs of the cell."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    charts=[
        Dots(
            "Mean loss of the trivial predictor less the mode's",
            {"{trivial}": "margin"},
            label="{cell}: {mode}",
            percent=False,
            line=0.0,
        )
    ],
    tables=tables,
)
