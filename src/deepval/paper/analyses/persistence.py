"""Cells with their data -> what the persistence filter drops, and how much harm
remains: docs/analyses.md.

A detection passes only if the same mode saw it in each of the two frames before, so the
filter delays every new object by two frames.

Harm when a detection must persist over three frames, beside harm without the filter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deepval.basics.errors import UnsuitableError
from deepval.basics.progress import Watch
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import input_frames, unit_data, variant_tables
from deepval.driving.perception.reported.detections import FRAMES, persistent
from deepval.judge.report.text_tables import Table
from deepval.judge.tables.split import units_of
from deepval.paper.analysis import Analysis
from deepval.paper.columns import CELL, HARM, INPUTS, harm
from deepval.paper.study import Cell, DrawCount, Units
from deepval.paper.tidy import Column, Row, only, printed, share

FILTER = (
    *CELL,
    Column(
        "persistence",
        "Whether the filter is on",
        heading="filter",
        text=lambda on: "on" if on else "off",
    ),
    Column(
        "detections",
        "Detections of the two modes above their thresholds",
        heading="detections",
        text_of_row=lambda row: f"{row['detections'] - row['dropped']:,}",
    ),
    Column("dropped", "Detections that the filter drops"),
    Column(
        "dropped_share",
        "Share of detections that the filter drops; None if there are no detections",
        heading="dropped",
        text=share,
    ),
    Column("cheap_dropped_share", "The same share in the cheap mode alone"),
    Column("full_dropped_share", "The same share in the full mode alone"),
    Column(
        "latency_s",
        "Delay that the filter adds before the system acts on a new object: two "
        "median frame intervals",
        heading="latency",
        text=lambda value: f"{value:.2f} s",
    ),
)
"""What the persistence filter drops in a cell."""


COLUMNS = (
    *FILTER,
    *INPUTS,
    *HARM,
)
"""A cell with the filter off or on."""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """Two rows per cell: without the filter and with it."""
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        spec = cell.located
        ends = replace(spec, modes=(spec.modes[0], spec.modes[-1]))
        filtered = _filtered(ends, units_of(cell.cell.split, units), cell.watch)
        variants = [replace(ends, persistence=on) for on in (False, True)]
        tables = variant_tables(
            variants,
            inputs.table,
            watch=cell.watch,
            label=f"persistence under {ends.system}",
        )
        for on, table in zip((False, True), tables, strict=True):
            yield {
                **cell.description,
                "persistence": on,
                **filtered[on],
                **harm(table, inputs.draws),
            }


def _filtered(
    ends: CellSpec, units: Sequence[str], watch: Watch
) -> dict[bool, dict[str, Any]]:
    """What the filter drops, off and on, and the latency that it adds."""
    used, passed, steps_s = (
        np.zeros(2, dtype=int),
        np.zeros(2, dtype=int),
        [np.zeros(0)],
    )
    for unit in watch(units, "detections that persist"):
        seen = unit_data(ends, unit)
        for end, mode in enumerate(ends.order):
            if not seen.used[mode].has_boxes:
                raise UnsuitableError(
                    f"the persistence filter compares image boxes, and mode {mode} has "
                    "none: choose other modes."
                )
            counted = input_frames(ends, seen.scene)[seen.used[mode].frame]
            used[end] += int(counted.sum())
            passed[end] += int(np.count_nonzero(persistent(seen.used[mode]) & counted))
        steps_s.append(np.diff(seen.scene.time_s))
    between_s = np.concatenate(steps_s)
    latency_s = FRAMES * float(np.median(between_s)) if len(between_s) else 0.0

    def columns(dropped: np.ndarray, latency_s: float) -> dict[str, Any]:
        shares = [_share(int(d), int(n)) for d, n in zip(dropped, used, strict=True)]
        return {
            "detections": int(used.sum()),
            "dropped": int(dropped.sum()),
            "dropped_share": _share(int(dropped.sum()), int(used.sum())),
            "cheap_dropped_share": shares[0],
            "full_dropped_share": shares[1],
            "latency_s": latency_s,
        }

    return {
        False: columns(np.zeros_like(used), 0.0),
        True: columns(used - passed, latency_s),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    order = (
        "cell",
        "persistence",
        "detections",
        "dropped_share",
        "latency_s",
        "affected",
    )
    return [
        printed(
            "Detections that must persist over three frames",
            only(COLUMNS, *order, "harm_rate", "harm_ratio"),
            rows,
            notes=list(_notes(rows)),
        )
    ]


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """How far the filter moves the harmed share and the ratio, over all cells."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    moved = []
    fallen = []
    for off, on in pairs:
        before = off["harm_rate"].value
        after = on["harm_rate"].value
        if before is not None and after is not None:
            moved.append(abs(after - before))
        before = off["harm_ratio"].value
        after = on["harm_ratio"].value
        if after is not None and before and after <= before * 2 / 3:
            fallen.append(off["cell"])
    if moved:
        yield (
            f"The filter moves the harmed share by at most {100 * max(moved):.1f} "
            f"points over {len(moved)} cell{'s' if len(moved) > 1 else ''}; the harm "
            f"ratio falls by a third or more in {', '.join(fallen) or 'none'}."
        )


PERSISTENCE = Analysis(
    name="persistence",
    shows="Show harm with a three-frame persistence filter",
    see="definitions.md#persistence",
    paper="persistence filter",
    example=("cells/braking-monocular"),
    by="cell",
    needs_data=True,
    details=(
        "Harm when a detection must persist over three frames, beside harm without "
        "the filter."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    tables=tables,
)
