"""Cells with their data -> what every mode detects: objects in the image, detected,
false positives, recall by range.

Detections are matched to the logged objects as a planner's observation is built
(docs/definitions.md, Observations).

Objects in view, detected ones and false positives per frame, recall by range, and
unmatched frames.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import input_frames, unit_data
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    Units,
    column,
    count,
    decimals,
    declared_table,
)
from deepval.paper.row_columns import share as in_percent
from deepval.perception.placing import PLACINGS, Tracks, reference_partners
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, number
from deepval.results import known
from deepval.tables.split import units_of

BANDS_M = ((0.0, 10.0), (10.0, 30.0), (30.0, np.inf))
LEAST_IOU = 0.5
"""Overlap above which oracle geometry places a detection on a reference object."""


@dataclass(frozen=True)
class ObservationRow(CellName):
    """What one mode detects, per frame on which it was run."""

    mode: str = column("The mode", "mode")
    frames: int = column("Frames on which the mode was run", "frames", count)
    objects: float | None = column(
        "Logged vehicles, persons and cyclists that the mode could detect, per frame",
        "in view",
        decimals(2),
    )
    detected: float | None = column(
        "Those that it detects, per frame", "detected", decimals(2)
    )
    false_positives: float | None = column(
        "Detections without such an object, per frame", "FP", decimals(2)
    )
    recall: float | None = column(
        "Share of these objects that it detects", "recall", number
    )
    recall_near: float | None = column("The same share within 10 m", "0-10 m", number)
    recall_middle: float | None = column(
        "The same share from 10 to 30 m", "10-30 m", number
    )
    recall_far: float | None = column("The same share from 30 m on", "30 m on", number)
    unmatched: float | None = column(
        "Share of the frames with a detection that no reference box overlaps by an "
        "IoU above 0.5, so that oracle geometry leaves it at its lifted position; "
        "None for a mode without image boxes",
        "frames unmatched",
        in_percent,
    )


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    units: Units = "all",
    watch: Watch = unwatched,
) -> list[ObservationRow]:
    """One row per cell and mode; cells that share data set, modes and matching count
    once.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        units: Units whose frames are matched.
        watch: Progress reporting.
    """
    records, done = [], []
    for name, cell in cells.items():
        spec, placing = located[name], PLACINGS[located[name].geometry]
        builder = (
            replace(placing, false_positives=True)
            if isinstance(placing, Tracks)
            else Tracks()
        )
        rests_on = (
            {part: cell.definition[part] for part in ("dataset", "modes")},
            builder,
        )
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = watch(units_of(cell.split, units), f"observations of {name}")
        parts = [
            [_detected(spec, unit, mode, builder) for mode in spec.order]
            for unit in chosen
        ]
        for mode, of_mode in zip(spec.order, zip(*parts, strict=True), strict=True):
            run, range_m, hit, invented, loose = map(
                np.concatenate, zip(*of_mode, strict=True)
            )
            frames = int(run.sum())
            bands = [
                hit,
                *(hit[(range_m >= low) & (range_m < high)] for low, high in BANDS_M),
            ]
            counts = [
                (number, frames)
                for number in (len(hit), float(hit.sum()), len(invented))
            ]
            counts += [
                *((float(band.sum()), len(band)) for band in bands),
                (float(loose.sum()), frames),
            ]
            records.append(
                ObservationRow(name, mode, frames, *(_ratio(*pair) for pair in counts))
            )
    return records


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


def table(rows: Sequence[ObservationRow]) -> Table:
    """The rows as a table."""
    notes = (
        (
            "Per frame on which the mode was run. in view: vehicles, persons and "
            "cyclists. FP: false positives."
        ),
    )
    return declared_table(ObservationRow, rows, "What every mode detects", notes=notes)


OBSERVATIONS = declare(
    __name__,
    shows="Show what every mode detects",
    see="definitions.md#observations",
    paper="statistics of the observation builder",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    needs_data=True,
)
