"""Cells with their data -> what every mode detects: objects in the image, detected, false positives, recall by range.

Detections are matched to the logged objects as a planner's observation is built (docs/definitions.md, Observations).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, units_of
from deepval.cells.unit import input_frames, unit_data
from deepval.paper.analysis import LOCATED, Analysis
from deepval.paper.row_columns import CellName, Units, column, count, decimals, declared_table
from deepval.paper.row_columns import share as in_percent
from deepval.perception.placing import PLACINGS, Tracks, reference_partners
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, number
from deepval.results import known

BANDS_M = ((0.0, 10.0), (10.0, 30.0), (30.0, np.inf))
LEAST_IOU = 0.5
"""Overlap above which oracle geometry places a detection on a reference object."""


@dataclass(frozen=True)
class ObservationRow(CellName):
    """What one mode detects, per frame on which it was run."""

    mode: str = column("The mode", "mode")
    frames: int = column("Frames on which the mode was run", "frames", count)
    objects: float | None = column(
        "Logged vehicles, persons and cyclists that the mode could detect, per frame", "in view", decimals(2)
    )
    detected: float | None = column("Those that it detects, per frame", "detected", decimals(2))
    false_positives: float | None = column("Detections without such an object, per frame", "FP", decimals(2))
    recall: float | None = column("Share of these objects that it detects", "recall", number)
    recall_near: float | None = column("The same share within 10 m", "0-10 m", number)
    recall_middle: float | None = column("The same share from 10 to 30 m", "10-30 m", number)
    recall_far: float | None = column("The same share from 30 m on", "30 m on", number)
    unmatched: float | None = column(
        "Share of the frames with a detection that no reference box overlaps by an IoU above 0.5, so that oracle "
        "geometry leaves it at its lifted position; None for a mode without image boxes",
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
    """One row per cell and mode; cells that share data set, modes and matching count once.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names (`cells.located`).
        units: Units whose frames are matched.
        watch: Progress reporting.
    """
    records, done = [], []
    for name, cell in cells.items():
        spec, placing = located[name], PLACINGS[located[name].geometry]
        builder = placing if isinstance(placing, Tracks) else Tracks()
        rests_on = ({part: cell.definition[part] for part in ("dataset", "modes")}, builder)
        if rests_on in done:
            continue
        done.append(rests_on)
        chosen = units_of(cell.split, units)
        parts = [_unit_parts(spec, unit, builder) for unit in watch(chosen, f"observations of {name}")]
        for mode in spec.order:
            of_mode = [part[mode] for part in parts]
            frames = sum(part.frames for part in of_mode)
            range_m, hit = (np.concatenate([getattr(part, field) for part in of_mode]) for field in ("range_m", "hit"))
            in_bands = [(range_m >= low) & (range_m < high) for low, high in BANDS_M]
            near, middle, far = (_ratio(int(hit[band].sum()), int(band.sum())) for band in in_bands)
            loose = [part.unmatched for part in of_mode]
            records.append(
                ObservationRow(
                    name,
                    mode,
                    frames,
                    _ratio(len(hit), frames),
                    _ratio(int(hit.sum()), frames),
                    _ratio(sum(part.false_positives for part in of_mode), frames),
                    _ratio(int(hit.sum()), len(hit)),
                    near,
                    middle,
                    far,
                    None if None in loose else _ratio(sum(filter(None, loose)), frames),
                )
            )
    return records


@dataclass(frozen=True)
class _Part:
    """One mode on one unit: frames, ranges of the objects in view and whether each is detected, and counts."""

    frames: int
    range_m: np.ndarray
    hit: np.ndarray
    false_positives: int
    unmatched: int | None


def _unit_parts(spec: CellSpec, unit: str, builder: Tracks) -> dict[str, _Part]:
    seen = unit_data(spec, unit)
    parts = {}
    for mode, reported in seen.used.items():
        used = reported.on(input_frames(spec, seen.scene))
        observed = Tracks(builder.least_iou, builder.most_apart_m).observation(used, seen.scene, seen.truth)
        watched = observed.watched & used.run[seen.truth.frame]
        detected = np.isin(np.flatnonzero(watched), observed.logged[observed.behind >= 0])
        invented = observed.logged < 0
        loose = None
        if used.has_boxes:
            alone = reference_partners(used, seen.truth).overlap <= LEAST_IOU
            loose = len(np.unique(used.frame[alone]))
        frames, range_m = int(used.run.sum()), seen.truth.objects.near_m[watched]
        parts[mode] = _Part(frames, range_m, detected, int(invented.sum()), loose)
    return parts


def _ratio(part: int, whole: int) -> float | None:
    return known(part / whole) if whole else None


def table(rows: Sequence[ObservationRow]) -> Table:
    """The rows as a table."""
    notes = ("Per frame on which the mode was run. in view: vehicles, persons and cyclists. FP: false positives.",)
    return declared_table(ObservationRow, rows, "What every mode detects", notes=notes)


OBSERVATIONS = Analysis(
    "observations",
    shows="Show what every mode detects",
    details="Objects in view, detected ones and false positives per frame, recall by range, and unmatched frames.",
    see="definitions.md#observations",
    paper="statistics of the observation builder",
    example="cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode RRC=RRC.parquet",
    rows=rows,
    kind=ObservationRow,
    table=table,
    takes=LOCATED,
    needs_data=True,
)
