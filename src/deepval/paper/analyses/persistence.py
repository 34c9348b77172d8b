"""Cells with their data -> what the persistence filter drops, and what is left of harm: docs/analyses.md.

A detection passes only if the same mode saw it in each of the two frames before, so the filter adds two frames of
latency to whatever appears.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, units_of
from deepval.cells.unit import unit_data, variant_tables
from deepval.errors import InputError
from deepval.judging.draws import make_draws
from deepval.paper.analyses.judged import Units, harm, judged, place
from deepval.perception.reported.detections import FRAMES, persistent
from deepval.progress import Watch, unwatched
from deepval.report.table import Table, interval, lines_of, number, percent


@dataclass(frozen=True)
class PersistenceRow:
    """A cell with the filter off or on.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        persistence: Whether the filter is on.
        detections: Detections of the two modes above their thresholds.
        dropped: Those that the filter drops.
        dropped_share: Their share; None where there are none.
        cheap_dropped_share: The same of the cheap mode alone.
        full_dropped_share: The same of the full mode alone.
        latency_s: What the filter adds before an object that appears is acted on: two median frame intervals.
        inputs: Number of inputs.
        units: Number of units.
        affected: Inputs whose loss the full mode changes.
        harmed: Those that it makes worse.
        harm_rate: Share of the affected inputs that are harmed, with its 95 % interval over units.
        harm_ratio: Total harm over total benefit, with its 95 % interval over units.
        draws: Number of draws.
        draws_dropped: Draws without any benefit, left out of the interval of the harm ratio.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    persistence: bool
    detections: int
    dropped: int
    dropped_share: float | None
    cheap_dropped_share: float | None
    full_dropped_share: float | None
    latency_s: float
    inputs: int
    units: int
    affected: int
    harmed: int
    harm_rate: float | None
    harm_rate_lo: float | None
    harm_rate_hi: float | None
    harm_ratio: float | None
    harm_ratio_lo: float | None
    harm_ratio_hi: float | None
    draws: int
    draws_dropped: int


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
        located: Their specifications with the data at hand, by the same names (`cells.located`).
        units: Units whose inputs are looked at.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in cells.items():
        like = judged(cell, units)
        drawn = make_draws(len(like.unit_ids), draws, seed)
        ends = replace(located[name], modes=(located[name].modes[0], located[name].modes[-1]))
        filtered = _filtered(ends, units_of(cell.split, units), watch)
        variants = [replace(ends, persistence=on) for on in (False, True)]
        tables = variant_tables(variants, like, watch=watch, label=f"persistence under {ends.system}")
        for on, table in zip((False, True), tables, strict=True):
            found.append(
                PersistenceRow(
                    cell=name,
                    **place(cell),
                    persistence=on,
                    **filtered[on],
                    inputs=len(table),
                    units=len(table.unit_ids),
                    **harm(table, drawn),
                )
            )
    return found


def _filtered(ends: CellSpec, units: Sequence[str], watch: Watch) -> dict[bool, dict[str, Any]]:
    """What the filter drops, off and on, and the latency that it adds."""
    used, kept, steps_s = np.zeros(2, dtype=int), np.zeros(2, dtype=int), [np.zeros(0)]
    for unit in watch(units, "detections that persist"):
        seen = unit_data(ends, unit)
        for end, mode in enumerate(ends.order):
            if not seen.used[mode].has_boxes:
                raise InputError(
                    f"{ends.name}: the persistence filter compares image boxes, and mode {mode} has none: choose "
                    "other modes."
                )
            used[end] += len(seen.used[mode])
            kept[end] += int(np.count_nonzero(persistent(seen.used[mode])))
        steps_s.append(np.diff(seen.scene.time_s))
    between_s = np.concatenate(steps_s)
    latency_s = FRAMES * float(np.median(between_s)) if len(between_s) else 0.0

    def told(dropped: np.ndarray, latency_s: float) -> dict[str, Any]:
        shares = [_share(int(d), int(n)) for d, n in zip(dropped, used, strict=True)]
        return {
            "detections": int(used.sum()),
            "dropped": int(dropped.sum()),
            "dropped_share": _share(int(dropped.sum()), int(used.sum())),
            "cheap_dropped_share": shares[0],
            "full_dropped_share": shares[1],
            "latency_s": latency_s,
        }

    return {False: told(np.zeros_like(used), 0.0), True: told(used - kept, latency_s)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def table(rows: Sequence[PersistenceRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "filter", "detections", "dropped", "latency", "affected", "harmed", "95 %", "harm ratio", "95 %")
    texts = [
        (
            row.cell,
            "on" if row.persistence else "off",
            f"{row.detections - row.dropped:,}",
            percent(row.dropped_share, 1),
            f"{row.latency_s:.2f} s",
            f"{row.affected:,}",
            percent(row.harm_rate, 1),
            interval(row.harm_rate_lo, row.harm_rate_hi, lambda share: percent(share, 1)),
            number(row.harm_ratio),
            interval(row.harm_ratio_lo, row.harm_ratio_hi),
        )
        for row in rows
    ]
    return Table("Detections that must persist over three frames", header, lines_of(texts), tuple(_notes(rows)))


def _notes(rows: Sequence[PersistenceRow]) -> Iterator[str]:
    """How far the filter moves the harmed share and the ratio, over all cells."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    moved = [
        abs(on.harm_rate - off.harm_rate) for off, on in pairs if on.harm_rate is not None and off.harm_rate is not None
    ]
    fallen = [
        off.cell
        for off, on in pairs
        if on.harm_ratio is not None and off.harm_ratio and on.harm_ratio <= off.harm_ratio * 2 / 3
    ]
    if moved:
        yield (
            f"The filter moves the harmed share by at most {100 * max(moved):.1f} points over {len(moved)} "
            f"cell{'s' if len(moved) > 1 else ''}; the harm ratio falls by a third or more in "
            f"{', '.join(fallen) or 'none'}."
        )
