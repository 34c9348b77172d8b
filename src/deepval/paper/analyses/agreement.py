"""Cells -> how far perception gain and decision value agree in sign: docs/definitions.md, Agreement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.judging.agreement import affected, spearman
from deepval.judging.draws import make_draws
from deepval.judging.resamples import ratio
from deepval.paper.analyses.judged import Units, judged, place
from deepval.perception.reported.losses import LOSSES, perception_gains
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.table import Table, interval, lines_of, number, percent
from deepval.results import known
from deepval.tables.columns import positions


@dataclass(frozen=True)
class GainRow:
    """One perception gain beside the decision value of a cell's inputs.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        loss: The perception loss whose decrease is the gain: E1 to E8.
        affected: Inputs with a decision value other than 0.
        spearman: Rank correlation of gain and decision value over those; None where one of them is constant.
        improved: Affected inputs with a positive gain.
        harm_given_gain: Share of those that escalation harms, with its 95 % interval over units.
        both: Inputs where gain and decision value are other than 0.
        disagree: Share of those whose signs differ, with its 95 % interval over units.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    loss: str
    affected: int
    spearman: float | None
    improved: int
    harm_given_gain: float | None
    harm_given_gain_lo: float | None
    harm_given_gain_hi: float | None
    both: int
    disagree: float | None
    disagree_lo: float | None
    disagree_hi: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[GainRow]:
    """One row per cell and perception loss that its modes define."""
    found = []
    for name, cell in watch(list(cells.items()), "agreement"):
        table = judged(cell, units)
        kept = positions(table.input, cell.table.input)
        gains = {loss: gain[kept] for loss, gain in perception_gains(*cell.evidence.losses).items()}
        drawn = make_draws(len(table.unit_ids), draws, seed)
        values, size = table.decision_values, table.tolerance
        changed, harmed = affected(values, tolerance=size), values < -size
        for loss, gain in gains.items():
            improved, moved = changed & (gain > size), changed & (np.abs(gain) > size)
            given = ratio(table, improved & harmed, improved, draws=drawn)
            apart = ratio(table, moved & ((gain > 0) == harmed), moved, draws=drawn)
            found.append(
                GainRow(
                    cell=name,
                    **place(cell),
                    loss=loss,
                    affected=int(changed.sum()),
                    spearman=known(spearman(gain, values, among=changed)),
                    improved=int(improved.sum()),
                    harm_given_gain=given.value,
                    harm_given_gain_lo=given.lo,
                    harm_given_gain_hi=given.hi,
                    both=int(moved.sum()),
                    disagree=apart.value,
                    disagree_lo=apart.lo,
                    disagree_hi=apart.hi,
                )
            )
    return found


def table(rows: Sequence[GainRow]) -> Table:
    """The rows as a table."""
    header = (
        "cell",
        "perception gain",
        "Spearman",
        "gain > 0",
        "harmed of these",
        "95 %",
        "both not 0",
        "disagree",
        "95 %",
    )
    texts = [
        (
            row.cell,
            f"{row.loss} ({LOSSES[row.loss].partition(':')[0]})",
            number(row.spearman, 2),
            f"{row.improved:,}",
            percent(row.harm_given_gain, 1),
            interval(row.harm_given_gain_lo, row.harm_given_gain_hi, _share),
            f"{row.both:,}",
            percent(row.disagree, 1),
            interval(row.disagree_lo, row.disagree_hi, _share),
        )
        for row in rows
    ]
    notes = ("Over inputs whose loss escalation changes.",)
    return Table("Perception gain against decision value", header, lines_of(texts), notes)


def _share(value: float | None) -> str:
    return percent(value, 1)


def chart(rows: Sequence[GainRow]) -> Chart:
    """Share of inputs whose signs differ, for each perception loss of each cell."""
    dots = (Dot(row.cell, row.loss, row.disagree, row.disagree_lo, row.disagree_hi) for row in rows)
    return shares("Perception gain and decision value of opposite sign", dots, line=0.5)
