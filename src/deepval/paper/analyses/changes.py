"""Cells with their data -> objects in the corridor that only one mode reports, on
affected inputs, from above.

Objects in the corridor that only one mode reports, on helped and harmed inputs;
--figure draws them from above.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import objects_of_mode, unit_data
from deepval.errors import InputError
from deepval.paper.analyses.mechanism import changes_of
from deepval.paper.analysis import declare
from deepval.paper.row_columns import CellName, Units, column, loss_table
from deepval.progress import Watch, unwatched
from deepval.report.figures.inputs import differences
from deepval.report.text_tables import Table, lines_of

KINDS_OF_CHANGE = ("added", "recovered", "removed", "lost")


@dataclass(frozen=True)
class ChangeRow(CellName):
    """One object in the corridor that only one mode reports, in a frame that escalation
    helps or harms.
    """

    effect: str = column("helped or harmed", "effect")
    input: str = column("The input", "input")
    change: str = column(
        "added or removed: a false positive of the full or of the cheap mode alone; "
        "recovered or lost: an object that only the full or "
        "only the cheap mode detects",
        "change",
    )
    ahead_m: float = column("Distance ahead of its near face", "ahead")
    left_m: float = column("Its middle to the left of the vehicle", "left")
    half_width_m: float = column("Half the width of the corridor")
    far_m: float = column("Length of the corridor")


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[ChangeRow]:
    """One row per such object.

    Args:
        cells: Cells by name; their systems have a corridor.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        units: Units whose inputs count.
        watch: Progress reporting.
    """
    records = []
    for name, cell in cells.items():
        spec, table = located[name], loss_table(cell, units)
        corridor = spec.acting.corridor_m
        if corridor is None:
            raise InputError(
                f"{name}: the system must have a corridor; {spec.system} has none: "
                "choose another cell."
            )
        half_m, far_m = float(corridor["half_width"]), float(corridor["far"])
        affected = np.abs(table.decision_values) > table.tolerance
        value = dict(
            zip(
                table.input[affected].tolist(),
                table.decision_values[affected].tolist(),
                strict=True,
            )
        )
        for unit in watch(
            np.unique(table.unit_ids[table.unit[affected]]).tolist(),
            f"changes of {name}",
        ):
            seen = unit_data(spec, unit)
            for mode in (spec.order[-1], spec.order[0]):
                objects, (_, change) = (
                    objects_of_mode(spec, seen, mode),
                    changes_of(spec, seen, mode),
                )
                ahead = (objects.near_m <= far_m) & (objects.far_m >= 0)
                inside = (
                    ahead
                    & (objects.lateral_m[:, 0] <= half_m)
                    & (objects.lateral_m[:, 1] >= -half_m)
                )
                for i in np.flatnonzero(inside & (change != "moved")):
                    own = str(seen.scene.inputs[objects.frame[i]])
                    if own in value:
                        effect = "helped" if value[own] > 0 else "harmed"
                        at = (
                            float(objects.near_m[i]),
                            float(objects.lateral_m[i].mean()),
                        )
                        records.append(
                            ChangeRow(
                                name, effect, own, str(change[i]), *at, half_m, far_m
                            )
                        )
    return records


def table(rows: Sequence[ChangeRow]) -> Table:
    """Numbers of frames and of objects by cell, effect and change."""
    lines = []
    for cell in dict.fromkeys(row.cell for row in rows):
        for effect in ("harmed", "helped"):
            own = [row for row in rows if (row.cell, row.effect) == (cell, effect)]
            counts = [
                str(sum(row.change == change for row in own))
                for change in KINDS_OF_CHANGE
            ]
            lines.append((cell, effect, str(len({row.input for row in own})), *counts))
    notes = (
        (
            "frames: affected ones whose objects in the corridor differ between the "
            "modes; then objects."
        ),
    )
    header = ("cell", "effect", "frames", *KINDS_OF_CHANGE)
    return Table(
        "Objects in the corridor that one mode reports", header, lines_of(lines), notes
    )


CHANGES = declare(
    __name__,
    shows="Show corridor objects that one mode reports",
    see="analyses.md#gallery",
    paper="bird's-eye view of what escalation changes",
    example=(
        "cells/braking-oracle --root kitti_tracking --mode a=a.parquet --mode "
        "b=b.parquet --figure changes.png"
    ),
    figure=differences,
    by="cell",
    needs_data=True,
    empty="no object in the corridor differs between the modes on an affected input.",
)
