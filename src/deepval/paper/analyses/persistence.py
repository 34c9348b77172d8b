"""Cells with their data -> what the persistence filter drops, and how much harm
remains: docs/analyses.md.

A detection passes only if the same mode saw it in each of the two frames before, so the
filter delays every new object by two frames.

Harm when a detection must persist over three frames, beside harm without the filter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import input_frames, unit_data, variant_tables
from deepval.errors import InputError
from deepval.judging.draws import make_draws
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellColumns,
    HarmColumns,
    InputColumns,
    Units,
    cell_columns,
    column,
    declared_table,
    harm,
    loss_table,
    share,
)
from deepval.perception.reported.detections import FRAMES, persistent
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table
from deepval.tables.split import units_of


@dataclass(frozen=True)
class FilterColumns(CellColumns):
    """What the persistence filter drops in a cell."""

    persistence: bool = column(
        "Whether the filter is on", "filter", lambda on: "on" if on else "off"
    )
    detections: int = column(
        "Detections of the two modes above their thresholds",
        "detections",
        of_row=lambda row: f"{row.detections - row.dropped:,}",
    )
    dropped: int = column("Detections that the filter drops")
    dropped_share: float | None = column(
        "Share of detections that the filter drops; None if there are no detections",
        "dropped",
        share,
    )
    cheap_dropped_share: float | None = column("The same share in the cheap mode alone")
    full_dropped_share: float | None = column("The same share in the full mode alone")
    latency_s: float = column(
        "Delay that the filter adds before the system acts on a new object: two "
        "median frame intervals",
        "latency",
        lambda value: f"{value:.2f} s",
    )


@dataclass(frozen=True)
class PersistenceRow(HarmColumns, InputColumns, FilterColumns):
    """A cell with the filter off or on."""


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[PersistenceRow]:
    """Two rows per cell: without the filter and with it.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Progress reporting.
    """
    records = []
    for name, cell in cells.items():
        like = loss_table(cell, units)
        drawn = make_draws(len(like.unit_ids), draws, seed)
        ends = replace(
            located[name], modes=(located[name].modes[0], located[name].modes[-1])
        )
        filtered = _filtered(ends, units_of(cell.split, units), watch)
        variants = [replace(ends, persistence=on) for on in (False, True)]
        tables = variant_tables(
            variants, like, watch=watch, label=f"persistence under {ends.system}"
        )
        for on, table in zip((False, True), tables, strict=True):
            columns = {**cell_columns(name, cell), **filtered[on], **harm(table, drawn)}
            records.append(PersistenceRow(**columns, persistence=on))
    return records


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
                raise InputError(
                    f"{ends.name}: the persistence filter compares image boxes, and "
                    f"mode {mode} has none: choose other modes."
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


def table(rows: Sequence[PersistenceRow]) -> Table:
    """The rows as a table."""
    order = (
        "cell",
        "persistence",
        "detections",
        "dropped_share",
        "latency_s",
        "affected",
    )
    return declared_table(
        PersistenceRow,
        rows,
        "Detections that must persist over three frames",
        notes=list(_notes(rows)),
        order=(*order, "harm_rate", "harm_rate_lo", "harm_ratio", "harm_ratio_lo"),
    )


def _notes(rows: Sequence[PersistenceRow]) -> Iterator[str]:
    """How far the filter moves the harmed share and the ratio, over all cells."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    moved = [
        abs(on.harm_rate - off.harm_rate)
        for off, on in pairs
        if on.harm_rate is not None and off.harm_rate is not None
    ]
    fallen = [
        off.cell
        for off, on in pairs
        if on.harm_ratio is not None
        and off.harm_ratio
        and on.harm_ratio <= off.harm_ratio * 2 / 3
    ]
    if moved:
        yield (
            f"The filter moves the harmed share by at most {100 * max(moved):.1f} "
            f"points over {len(moved)} cell{'s' if len(moved) > 1 else ''}; the harm "
            f"ratio falls by a third or more in {', '.join(fallen) or 'none'}."
        )


PERSISTENCE = declare(
    __name__,
    shows="Show harm with a three-frame persistence filter",
    see="definitions.md#persistence",
    paper="persistence filter",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    by="cell",
    needs_data=True,
)
