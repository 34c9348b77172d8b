"""Cells with their data -> the error of monocular range against the reference, by mode
and band of ranges.

docs/definitions.md, Lift bias.

Lifted range minus reference range, by mode and band of ranges; also with the whole
rigid transform.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from deepval.basics.errors import UnsuitableError
from deepval.driving.cells.unit import input_frames, unit_data
from deepval.driving.perception.placing import lift_bias
from deepval.judge.results import known
from deepval.judge.tables.split import units_of
from deepval.paper.analysis import Analysis, Option
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Dots, Row, count, decimals

COLUMNS = (
    Column("cell", "The cell that supplies data set and modes", heading="cell"),
    Column("mode", "The mode", heading="mode"),
    Column(
        "cls", "Class of the detections and of their reference objects", heading="class"
    ),
    Column(
        "from_m",
        "Start of the band",
        heading="range",
        text_of_row=lambda row: f"{row['from_m']:g}-{row['to_m']:g} m",
    ),
    Column("to_m", "End of the band, excluded"),
    Column(
        "detections", "Matched detections in the band", heading="detections", text=count
    ),
    Column(
        "mean_m",
        "Mean of lifted range less reference range; None without any detection",
        heading="mean excess",
        text=decimals(2),
    ),
    Column(
        "median_m",
        "Median of the same difference",
        heading="median excess",
        text=decimals(2),
    ),
    Column(
        "rigid_median_m",
        "Median of the same difference if the whole rigid transform, rotation too, "
        "moves the fused point",
        heading="median, rigid",
        text=decimals(2),
    ),
)
"""How much the lift overestimates range, over the matched detections in one band of
reference ranges.
"""


def rows(
    cells: Sequence[Cell],
    *,
    cls: Annotated[
        str,
        Option("Class of the detections and of their reference objects.", ("--class",)),
    ] = "Car",
    units: Units = "all",
) -> Iterator[Row]:
    """One row per cell, mode and band; cells that share data set and modes count once.

    Args:
        cells: The cells.
        cls: Class of objects.
        units: Units whose frames are matched.
    """
    done = []
    for cell in cells:
        spec = cell.located
        rests_on = {part: cell.cell.definition[part] for part in ("dataset", "modes")}
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = units_of(cell.cell.split, units)
        seen = [
            unit_data(spec, unit) for unit in cell.watch(chosen, f"lift on {cell.name}")
        ]
        for mode in spec.order:
            used = {
                item.scene.unit: item.used[mode].on(input_frames(spec, item.scene))
                for item in seen
            }
            if not all(item.has_boxes for item in used.values()):
                raise UnsuitableError(
                    f"the lift is of image boxes, and mode {mode} has none: choose "
                    "other modes."
                )
            scenes = [item.scene for item in seen]
            truths = [item.truth for item in seen]
            for band in lift_bias(used, scenes, truths=truths, cls=cls):
                yield {
                    "cell": cell.name,
                    "mode": mode,
                    "cls": cls,
                    "from_m": band.from_m,
                    "to_m": band.to_m,
                    "detections": band.detections,
                    "mean_m": known(band.mean_m),
                    "median_m": known(band.median_m),
                    "rigid_median_m": known(band.rigid_median_m),
                }


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """In how many rows the rigid transform is worse."""
    both = [
        (abs(row["median_m"]), abs(row["rigid_median_m"]))
        for row in rows
        if row["median_m"] is not None and row["rigid_median_m"] is not None
    ]
    larger = sum(rigid > own for own, rigid in both)
    yield (
        "rigid: the whole rigid transform moves the fused point; its median is "
        f"farther from 0 in {larger} of {len(both)} rows."
    )


LIFT = Analysis(
    name="lift",
    shows="Show the error of lifted ranges",
    see="definitions.md#lift-bias",
    paper="lift bias",
    example=("cells/braking-monocular"),
    needs_data=True,
    details=(
        "Lifted range minus reference range, by mode and band of ranges; also with "
        "the whole "
        "rigid transform."
    ),
    rows=rows,
    columns=COLUMNS,
    title="Lifted range less reference range, in metres",
    notes=notes,
    asks=("located",),
    charts=[
        Dots(
            "Lifted less reference range, median (m)",
            {"{mode}, {cls}": "median_m"},
            label="{from_m:g} to {to_m:g} m",
            percent=False,
            line=0.0,
        )
    ],
)
