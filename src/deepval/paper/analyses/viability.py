"""Cells with their data -> whether acting on each mode beats a predictor that looks at nothing.

docs/definitions.md, Trivial predictors. Both are judged on the inputs of the cell.
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
from deepval.paper.analyses.judged import Units, judged
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.table import Table, interval, lines_of, number
from deepval.results import known
from deepval.systems.outcomes import trivial_losses
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable


@dataclass(frozen=True)
class ViableRow:
    """One mode of a cell beside the best predictor that looks at nothing.

    Attributes:
        cell: The cell.
        system: The downstream system.
        mode: The mode.
        mean_loss: Its mean loss per input.
        trivial: What the best trivial predictor does.
        trivial_loss: Its mean loss on the same inputs.
        viable: Whether the mode loses less.
        margin: By how much less, with its 95 % interval over units, the trivial predictor chosen once.
    """

    cell: str
    system: str
    mode: str
    mean_loss: float
    trivial: str
    trivial_loss: float
    viable: bool
    margin: float
    margin_lo: float | None
    margin_hi: float | None


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
        located: Their specifications with the data at hand, by the same names (`cells.located`).
        units: Units whose inputs are looked at.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in cells.items():
        table = judged(cell, units)
        means = _trivial(located[name], table, watch)
        best = min(means, key=lambda trivial: means[trivial].mean())
        drawn = make_draws(len(table.unit_ids), draws, seed)
        inputs = np.bincount(table.unit, minlength=len(table.unit_ids)).astype(np.float64)
        for place, mode in enumerate(table.modes):
            less = means[best] - table.losses[:, place]
            margin = float(less.mean())
            per_unit = np.bincount(table.unit, weights=less, minlength=len(inputs))
            number_of = drawn.counts @ inputs
            kept = (number_of > 0) & (len(inputs) > 1)
            samples = np.divide(drawn.counts @ per_unit, number_of, out=np.zeros(len(drawn)), where=number_of > 0)
            bounds = drawn.interval(samples, kept)
            found.append(
                ViableRow(
                    cell=name,
                    system=cell.spec.system,
                    mode=mode,
                    mean_loss=float(table.losses[:, place].mean()),
                    trivial=best,
                    trivial_loss=float(means[best].mean()),
                    viable=margin > 0,
                    margin=margin,
                    margin_lo=known(bounds.low),
                    margin_hi=known(bounds.high),
                )
            )
    return found


def _trivial(spec: CellSpec, table: ValueTable, watch: Watch) -> dict[str, Float[np.ndarray, "input"]]:
    """Loss of every trivial predictor on the inputs of a table."""
    rule = spec.acting
    seen = [unit_data(spec, str(unit)) for unit in watch(list(table.unit_ids), f"trivial predictors of {spec.system}")]
    parts = [trivial_losses(rule, each.scene, each.truth) for each in seen]
    if not parts[0]:
        raise InputError(f"{spec.system} has no short list of plans, so none to take as a trivial predictor.")
    place = positions(table.input, np.concatenate([each.scene.inputs for each in seen]))
    return {name: np.concatenate([part[name] for part in parts])[place] for name in parts[0]}


def table(rows: Sequence[ViableRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "mode", "mean loss", "best without looking", "its loss", "margin", "95 %", "viable")
    texts = [
        (
            row.cell,
            row.mode,
            number(row.mean_loss),
            row.trivial,
            number(row.trivial_loss),
            number(row.margin),
            interval(row.margin_lo, row.margin_hi),
            "yes" if row.viable else "no",
        )
        for row in rows
    ]
    return Table("Modes against predictors that look at nothing", header, lines_of(texts))


def chart(rows: Sequence[ViableRow]) -> Chart:
    """By how much each mode loses less than the best predictor that looks at nothing."""
    dots = (Dot(f"{row.cell}: {row.mode}", row.trivial, row.margin, row.margin_lo, row.margin_hi) for row in rows)
    return plain("Mean loss of the trivial predictor less the mode's", dots, line=0.0)
