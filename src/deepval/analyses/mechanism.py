"""Cells -> how what perception gains and invents goes with the sign of decision value: docs/analyses.md.

Counts of false positives and misses come from a cell's folder; numbers of detections, recovered misses, false positives
that the system reacts to, recovered misses that it needs and needed detections that are lost come from its data, where
at hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deepval.analyses.judged import Units, judged, place
from deepval.analyses.reactions import reactions
from deepval.arrays import Bool, Float, Int, Num
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.judging.draws import Draws, make_draws
from deepval.judging.ratios import Ratio, ratio
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.tables import Table, interval, lines_of, number, percent
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable

TOLD = ("reacted", "needed", "lost", "alike")
HANGS_ON = (*TOLD, "placed")
"""What the data alone tell of an input."""


@dataclass(frozen=True)
class MechanismRow:
    """Inputs of a cell whose decision value has one sign, and how perception changes on them.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        effect: helped, harmed or unaffected.
        inputs: Number of such inputs; every figure below is None where there are none.
        false_positives: Mean change of their number, full less cheap.
        misses: Mean change of the number of missed objects.
        detections: Mean change of the number of detections; None without the data.
        more_false_positives: Share of the inputs with more false positives.
        no_miss_recovered: Share of the inputs on which the full mode detects no object that the cheap mode misses,
            object by object: one that loses as many as it recovers does recover a miss. None without the data.
        reacted: Share of the inputs on which the plan is another without the added false positives, with its 95 %
            interval over units; None without the data.
        needed: Share of the inputs on which the loss is higher without the recovered misses, likewise.
        lost: Share of the inputs on which the cheap mode's loss would be higher without its detections of objects that
            the full mode misses, likewise.
        alike: Share of the inputs on which both modes find the same objects and no false positive is of one alone,
            likewise: only where objects are placed differs.
        placed: Share of the inputs on which the decision value of what both modes report, as each places it, has this
            sign by itself, likewise.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    effect: str
    inputs: int
    false_positives: float | None
    misses: float | None
    detections: float | None
    more_false_positives: float | None
    no_miss_recovered: float | None
    reacted: float | None
    reacted_lo: float | None
    reacted_hi: float | None
    needed: float | None
    needed_lo: float | None
    needed_hi: float | None
    lost: float | None
    lost_lo: float | None
    lost_hi: float | None
    alike: float | None
    alike_lo: float | None
    alike_hi: float | None
    placed: float | None
    placed_lo: float | None
    placed_hi: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    located: Mapping[str, CellSpec] | None = None,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[MechanismRow]:
    """Three rows per cell: helped, harmed and unaffected inputs.

    Args:
        cells: Cells by name.
        located: Specifications of those whose data are at hand, by the same names (`cells.located`).
        units: Units whose inputs are looked at.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in cells.items():
        table = judged(cell, units)
        spec = (located or {}).get(name)
        drawn = make_draws(len(table.unit_ids), draws, seed)
        found += _rows(name, cell, table, changes=_changes(cell, table, spec, watch), draws=drawn)
    return found


def _changes(
    cell: BuiltCell, table: ValueTable, spec: CellSpec | None, watch: Watch
) -> dict[str, Num[np.ndarray, "input"] | Bool[np.ndarray, "input"]]:
    """What the full mode changes on each input, by name."""
    kept = positions(table.input, cell.table.input)
    ends = [{loss: cell.evidence.column(f"{end}_{loss}")[kept] for loss in ("E1", "E2")} for end in ("cheap", "full")]
    changes = {"misses": ends[1]["E1"] - ends[0]["E1"], "false_positives": ends[1]["E2"] - ends[0]["E2"]}
    if spec is None:
        return changes
    told = reactions(spec, watch=watch)
    at = positions(table.input, told.input)
    boxes = (told.full_boxes - told.cheap_boxes)[at]
    none = ~told.recovered[at]
    placed = _sign(told.shared_value[at], table.tolerance) == _sign(table.decision_values, table.tolerance)
    return (
        changes
        | {"detections": boxes, "placed": placed, "no_miss_recovered": none}
        | {name: getattr(told, name)[at] for name in TOLD}
    )


def _sign(values: Float[np.ndarray, "input"], tolerance: float) -> Int[np.ndarray, "input"]:
    """1 where a value helps, -1 where it harms, 0 where it does neither."""
    return np.where(np.abs(values) > tolerance, np.sign(values), 0.0).astype(int)


def _rows(
    name: str, cell: BuiltCell, table: ValueTable, *, changes: Mapping[str, np.ndarray], draws: Draws
) -> list[MechanismRow]:
    sign = _sign(table.decision_values, table.tolerance)
    effects = {"helped": sign > 0, "harmed": sign < 0, "unaffected": sign == 0}
    found = []
    for effect, rows in effects.items():

        def share(marks: np.ndarray | None, among: np.ndarray = rows) -> Ratio:
            return Ratio(None, None, None, 0) if marks is None else ratio(table, marks & among, among, draws=draws)

        def mean(name: str, among: np.ndarray = rows) -> float | None:
            return float(changes[name][among].mean()) if name in changes and among.any() else None

        told: dict[str, Any] = {}
        for part in HANGS_ON:
            of = share(changes.get(part))
            told |= {part: of.value, f"{part}_lo": of.lo, f"{part}_hi": of.hi}
        found.append(
            MechanismRow(
                cell=name,
                **place(cell),
                effect=effect,
                inputs=int(rows.sum()),
                false_positives=mean("false_positives"),
                misses=mean("misses"),
                detections=mean("detections"),
                more_false_positives=share(changes["false_positives"] > 0).value,
                no_miss_recovered=share(changes.get("no_miss_recovered")).value,
                **told,
            )
        )
    return found


def table(rows: Sequence[MechanismRow]) -> Table:
    """The rows as a table."""
    header = (
        "cell",
        "inputs",
        "d FP",
        "d misses",
        "d boxes",
        "more FP",
        "no miss rec.",
        "FP reacted to",
        "needed miss rec.",
        "needed det. lost",
        "same objects",
        "by place",
    )
    texts = [
        (
            row.cell,
            f"{row.effect} {row.inputs:,}",
            number(row.false_positives),
            number(row.misses),
            number(row.detections),
            percent(row.more_false_positives, 1),
            percent(row.no_miss_recovered, 1),
            *(_share(row, name) for name in HANGS_ON),
        )
        for row in rows
    ]
    missing = sorted({row.cell for row in rows if row.inputs and row.detections is None})
    notes = [
        "d: full less cheap, mean per input; rec.: recovered; same objects: only where they are placed differs; "
        "by place: what both modes report has this sign by itself."
    ]
    if missing:
        notes.append(
            f"Boxes, recovered misses and reactions need the data of {', '.join(missing)}: give --root and --mode "
            "NAME=FILE."
        )
    return Table("Harm mechanism", header, lines_of(texts), tuple(notes))


def _share(row: MechanismRow, name: str) -> str:
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_lo", "_hi"))
    return f"{percent(value, 1)} {interval(low, high, _whole)}".strip()


def _whole(share: float | None) -> str:
    return percent(share, 0)


def chart(rows: Sequence[MechanismRow]) -> Chart:
    """Shares of helped and harmed inputs that hang on what the full mode adds, recovers or loses."""
    series = {
        "reacted": "reacts to an added false positive",
        "needed": "needs a recovered miss",
        "lost": "loses a needed detection",
        "placed": "by where both modes' objects are placed",
    }
    dots = [
        Dot(f"{row.cell}: {row.effect}", said, *(getattr(row, f"{name}{end}") for end in ("", "_lo", "_hi")))
        for row in rows
        if row.effect != "unaffected"
        for name, said in series.items()
    ]
    return shares("Share of such inputs", dots)
