"""Cells with their data -> what every mode detects: objects in the image, detected,
false positives, recall by range.

Detections are matched to the logged objects as a planner's observation is built
(docs/definitions.md, Observations).

Objects in view, detected ones and false positives per frame, recall by range, and
unmatched frames.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import input_frames, unit_data
from deepval.driving.perception.placing import PLACINGS, Tracks, reference_partners
from deepval.judge.report.text_tables import number
from deepval.judge.results import known
from deepval.judge.tables.split import units_of
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, Units
from deepval.paper.tidy import Column, Row, count, decimals
from deepval.paper.tidy import share as in_percent

BANDS_M = ((0.0, 10.0), (10.0, 30.0), (30.0, np.inf))
LEAST_IOU = 0.5
"""Overlap above which oracle geometry places a detection on a reference object."""


COLUMNS = (
    NAME,
    Column("mode", "The mode", heading="mode"),
    Column("frames", "Frames on which the mode was run", heading="frames", text=count),
    Column(
        "objects",
        "Logged vehicles, persons and cyclists that the mode could detect, per frame",
        heading="in view",
        text=decimals(2),
    ),
    Column(
        "detected",
        "Those that it detects, per frame",
        heading="detected",
        text=decimals(2),
    ),
    Column(
        "false_positives",
        "Detections without such an object, per frame",
        heading="FP",
        text=decimals(2),
    ),
    Column(
        "recall",
        "Share of these objects that it detects",
        heading="recall",
        text=number,
    ),
    Column("recall_near", "The same share within 10 m", heading="0-10 m", text=number),
    Column(
        "recall_middle",
        "The same share from 10 to 30 m",
        heading="10-30 m",
        text=number,
    ),
    Column("recall_far", "The same share from 30 m on", heading="30 m on", text=number),
    Column(
        "unmatched",
        "Share of the frames with a detection that no reference box overlaps by an "
        "IoU above 0.5, so that oracle geometry leaves it at its lifted position; "
        "None for a mode without image boxes",
        heading="frames unmatched",
        text=in_percent,
    ),
)
"""What one mode detects, per frame on which it was run."""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
) -> Iterator[Row]:
    """One row per cell and mode; cells that share data set, modes and matching count
    once.
    """
    done = []
    for cell in cells:
        spec = cell.located
        builder = PLACINGS[spec.geometry]
        if not isinstance(builder, Tracks):
            builder = Tracks()
        else:
            builder = replace(builder, false_positives=True)
        rests_on = (
            {part: cell.cell.definition[part] for part in ("dataset", "modes")},
            builder,
        )
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = cell.watch(
            units_of(cell.cell.split, units), f"observations of {cell.name}"
        )
        parts = [
            [_detected(spec, unit, mode, builder) for mode in spec.order]
            for unit in chosen
        ]
        for mode, of_mode in zip(spec.order, zip(*parts, strict=True), strict=True):
            run, range_m, hit, invented, loose = map(
                np.concatenate, zip(*of_mode, strict=True)
            )
            frames = int(run.sum())
            near, middle, far = (
                hit[(range_m >= low) & (range_m < high)] for low, high in BANDS_M
            )
            yield {
                "cell": cell.name,
                "mode": mode,
                "frames": frames,
                "objects": _ratio(len(hit), frames),
                "detected": _ratio(float(hit.sum()), frames),
                "false_positives": _ratio(len(invented), frames),
                "recall": _ratio(float(hit.sum()), len(hit)),
                "recall_near": _ratio(float(near.sum()), len(near)),
                "recall_middle": _ratio(float(middle.sum()), len(middle)),
                "recall_far": _ratio(float(far.sum()), len(far)),
                "unmatched": _ratio(float(loose.sum()), frames),
            }


def _detected(
    spec: CellSpec, unit: str, mode: str, builder: Tracks
) -> tuple[np.ndarray, ...]:
    """On one unit: frames run, ranges of the objects in view, whether each is detected,
    false positives, loose frames.

    A loose frame has a detection that oracle geometry leaves at its lifted position;
    NaN without image boxes.
    """
    seen = unit_data(spec, unit)
    used, truth = seen.used[mode].on(input_frames(spec, seen.scene)), seen.truth
    run = used.run
    observed = builder.observation(used, seen.scene, truth)
    watched = np.flatnonzero(observed.watched & run[truth.frame])
    hit = np.isin(watched, observed.logged[observed.behind >= 0])
    loose = np.full(len(run), np.nan)
    if used.has_boxes:
        loose = (
            np.bincount(
                used.frame[reference_partners(used, truth).overlap <= LEAST_IOU],
                minlength=len(run),
            )
            > 0
        )
    return (
        run,
        truth.objects.near_m[watched],
        hit,
        np.flatnonzero(observed.logged < 0),
        loose,
    )


def _ratio(part: float, whole: int) -> float | None:
    return known(part / whole) if whole else None


OBSERVATIONS = Analysis(
    name="observations",
    shows="Show what every mode detects",
    see="definitions.md#observations",
    paper="statistics of the observation builder",
    example=("cells/braking-monocular"),
    needs_data=True,
    details=(
        "Objects in view, detected ones and false positives per frame, recall by "
        "range, and "
        "unmatched frames."
    ),
    rows=rows,
    columns=COLUMNS,
    title="What every mode detects",
    notes=lambda rows: [
        "Per frame on which the mode was run. in view: vehicles, persons and "
        "cyclists. FP: false positives."
    ],
    asks=("located",),
)
