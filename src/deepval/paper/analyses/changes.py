"""Cells with their data -> objects in the corridor that only one mode reports, on affected inputs, from above."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import unit_plans
from deepval.errors import InputError
from deepval.paper.analyses.mechanism import reports_of_one
from deepval.paper.analysis import LOCATED, Analysis
from deepval.paper.row_columns import CellName, Units, column, loss_table
from deepval.perception.placing import PLACINGS
from deepval.perception.reported.detections import persistent
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, lines_of

KINDS_OF_CHANGE = ("added", "recovered", "removed", "lost")


@dataclass(frozen=True)
class ChangeRow(CellName):
    """One object in the corridor that only one mode reports, in a frame that escalation helps or harms."""

    effect: str = column("helped or harmed", "effect")
    input: str = column("The input", "input")
    change: str = column(
        "added or removed: a false positive of the full or of the cheap mode alone; recovered or lost: an object that "
        "only the full or only the cheap mode detects",
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
        located: Their specifications with their data, by the same names (`cells.located`).
        units: Units whose inputs count.
        watch: Progress reporting.
    """
    records = []
    for name, cell in cells.items():
        spec, table = located[name], loss_table(cell, units)
        corridor = spec.acting.corridor_m
        if corridor is None:
            raise InputError(f"{name}: the system must have a corridor; {spec.system} has none: choose another cell.")
        half_m, far_m = float(corridor["half_width"]), float(corridor["far"])
        affected = np.abs(table.decision_values) > table.tolerance
        value = dict(zip(table.input[affected].tolist(), table.decision_values[affected].tolist(), strict=True))
        involved = dict.fromkeys(table.unit_ids[table.unit[affected]].tolist())
        for unit in watch(list(involved), f"changes of {name}"):
            (plan,) = unit_plans([spec], unit)
            seen, ends = plan.data, (spec.order[0], spec.order[-1])
            cheap, full = (seen.used[mode] for mode in ends)
            marks = reports_of_one(full, cheap, seen), reports_of_one(cheap, full, seen)
            for mode, words, own in (
                (ends[1], KINDS_OF_CHANGE[:2], marks[0]),
                (ends[0], KINDS_OF_CHANGE[2:], marks[1]),
            ):
                objects, used = plan.objects[mode], seen.used[mode]
                keep = persistent(used) if spec.persistence else None
                behind = PLACINGS[spec.geometry].behind(used, seen.scene, seen.truth, keep=keep)
                low_m, high_m = objects.lateral_m.T
                inside = (objects.near_m <= far_m) & (objects.far_m >= 0) & (low_m <= half_m) & (high_m >= -half_m)
                for word, marked in zip(words, own, strict=True):
                    for i in np.flatnonzero(inside & (behind >= 0) & np.append(marked, False)[behind]):
                        name_of = str(seen.scene.inputs[objects.frame[i]])
                        if name_of in value:
                            effect = "helped" if value[name_of] > 0 else "harmed"
                            at = float(objects.near_m[i]), float(objects.lateral_m[i].mean())
                            records.append(ChangeRow(name, effect, name_of, word, *at, half_m, far_m))
    return records


def figure(rows: Sequence[ChangeRow]) -> Any:
    """The objects from above, harmed frames over helped ones."""
    from deepval.report.figures.inputs import differences

    return differences(rows)


def table(rows: Sequence[ChangeRow]) -> Table:
    """Numbers of frames and of objects by cell, effect and change."""
    lines = []
    for cell in dict.fromkeys(row.cell for row in rows):
        for effect in ("harmed", "helped"):
            own = [row for row in rows if (row.cell, row.effect) == (cell, effect)]
            counts = [str(sum(row.change == change for row in own)) for change in KINDS_OF_CHANGE]
            lines.append((cell, effect, str(len({row.input for row in own})), *counts))
    notes = ("frames: affected ones whose objects in the corridor differ between the modes; then objects.",)
    header = ("cell", "effect", "frames", *KINDS_OF_CHANGE)
    return Table("Objects in the corridor that one mode reports", header, lines_of(lines), notes)


CHANGES = Analysis(
    "changes",
    shows="Show corridor objects that one mode reports",
    details=(
        "Objects in the corridor that only one mode reports, on helped and harmed inputs; --figure draws them "
        "from above."
    ),
    see="analyses.md#gallery",
    paper="bird's-eye view of what escalation changes",
    example="cells/braking-oracle --root kitti_tracking --mode a=a.parquet --mode b=b.parquet --figure changes.png",
    rows=rows,
    kind=ChangeRow,
    table=table,
    figure=figure,
    takes=LOCATED,
    by="cell",
    needs_data=True,
    empty="no object in the corridor differs between the modes on an affected input.",
)
