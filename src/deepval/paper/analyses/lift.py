"""Cells with their data -> the error of monocular range against the reference, by mode
and band of ranges.

docs/definitions.md, Lift bias.

Lifted range minus reference range, by mode and band of ranges; also with the whole
rigid transform.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import input_frames, unit_data
from deepval.errors import InputError
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import Units, column, count, decimals, declared_table
from deepval.perception.placing import lift_bias
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table
from deepval.results import known
from deepval.tables.split import units_of


@dataclass(frozen=True)
class LiftRow:
    """How much the lift overestimates range, over the matched detections in one band of
    reference ranges.
    """

    cell: str = column("The cell that supplies data set and modes", "cell")
    mode: str = column("The mode", "mode")
    cls: str = column("Class of the detections and of their reference objects", "class")
    from_m: float = column(
        "Start of the band",
        "range",
        of_row=lambda row: f"{row.from_m:g}-{row.to_m:g} m",
    )
    to_m: float = column("End of the band, excluded")
    detections: int = column("Matched detections in the band", "detections", count)
    mean_m: float | None = column(
        "Mean of lifted range less reference range; None without any detection",
        "mean excess",
        decimals(2),
    )
    median_m: float | None = column(
        "Median of the same difference", "median excess", decimals(2)
    )
    rigid_median_m: float | None = column(
        "Median of the same difference if the whole rigid transform, rotation too, "
        "moves the fused point",
        "median, rigid",
        decimals(2),
    )


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    cls: Annotated[
        str,
        Option("Class of the detections and of their reference objects.", ("--class",)),
    ] = "Car",
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[LiftRow]:
    """One row per cell, mode and band; cells that share data set and modes count once.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        cls: Class of objects.
        units: Units whose frames are matched.
        watch: Progress reporting.
    """
    records, done = [], []
    for name, cell in cells.items():
        spec = located[name]
        rests_on = {part: cell.definition[part] for part in ("dataset", "modes")}
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = units_of(cell.split, units)
        seen = [unit_data(spec, unit) for unit in watch(chosen, f"lift on {name}")]
        for mode in spec.order:
            used = {
                item.scene.unit: item.used[mode].on(input_frames(spec, item.scene))
                for item in seen
            }
            if not all(item.has_boxes for item in used.values()):
                raise InputError(
                    f"{name}: the lift is of image boxes, and mode {mode} has none: "
                    "choose other modes."
                )
            scenes, truths = (
                [item.scene for item in seen],
                [item.truth for item in seen],
            )
            bands = lift_bias(used, scenes, truths=truths, cls=cls)
            records += [
                LiftRow(
                    name, mode, cls, b.from_m, b.to_m, b.detections, *map(known, b[3:])
                )
                for b in bands
            ]
    return records


def table(rows: Sequence[LiftRow]) -> Table:
    """The rows as a table."""
    pairs = [(row.median_m, row.rigid_median_m) for row in rows]
    both = [
        (abs(own), abs(rigid))
        for own, rigid in pairs
        if own is not None and rigid is not None
    ]
    larger = sum(rigid > own for own, rigid in both)
    note = (
        "rigid: the whole rigid transform moves the fused point; its median is "
        f"farther from 0 in {larger} of {len(both)} rows."
    )
    return declared_table(
        LiftRow, rows, "Lifted range less reference range, in metres", notes=(note,)
    )


def chart(rows: Sequence[LiftRow]) -> Chart:
    """Median overestimate of range by band, for each mode and class."""
    dots = (
        Dot(f"{row.from_m:g} to {row.to_m:g} m", f"{row.mode}, {row.cls}", row.median_m)
        for row in rows
    )
    return plain("Lifted less reference range, median (m)", dots, line=0.0)


LIFT = declare(
    __name__,
    shows="Show the error of lifted ranges",
    see="definitions.md#lift-bias",
    paper="lift bias",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    needs_data=True,
)
