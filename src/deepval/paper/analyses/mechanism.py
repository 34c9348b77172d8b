"""Cells -> how perception gains and false positives relate to the sign of decision
value: docs/analyses.md.

Counts of false positives and misses come from a cell's folder; numbers of detections,
recovered misses, false positives that the system reacts to, recovered misses that it
needs and needed detections that are lost come from its data, if available.

Changes of false positives, misses and boxes on helped, harmed and unaffected inputs;
with the data, what the system acts on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Num, Shaped
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec
from deepval.cells.unit import UnitData, objects_by_mode, unit_data
from deepval.errors import InputError
from deepval.geometry.boxes import frame_pairs, iou
from deepval.geometry.classes import super_class
from deepval.judging.draws import Draws, make_draws
from deepval.judging.ratios import Ratio, ratio
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellColumns,
    Form,
    Units,
    cell_columns,
    column,
    declared_table,
    high,
    loss_table,
    low,
)
from deepval.paper.tidy import level
from deepval.paper.tidy import share as in_percent
from deepval.perception.reported.detections import (
    Detections,
    ground_boxes,
    has_ground_boxes,
)
from deepval.perception.reported.losses import (
    MOST_APART_M,
    Matching,
    ground_matching,
    matching,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, interval, number
from deepval.systems.outcomes import branches
from deepval.tables.keys import positions
from deepval.tables.terms import weighted_loss
from deepval.tables.values import ValueTable
from deepval.world.scene import Scene

LEAST_IOU = 0.5
"""Least overlap at which a box of one mode counts as reported by the other mode too."""


class Reactions(NamedTuple):
    """Per frame: boxes of both modes, what depends on reports of only one mode, and the
    value of what both report.

    `recovered` marks frames in which the full mode detects an object that the cheap
    mode misses.
    """

    input: Shaped[np.ndarray, "frame"]
    cheap_boxes: Int[np.ndarray, "frame"]
    full_boxes: Int[np.ndarray, "frame"]
    reacted: Bool[np.ndarray, "frame"]
    needed: Bool[np.ndarray, "frame"]
    lost: Bool[np.ndarray, "frame"]
    alike: Bool[np.ndarray, "frame"]
    shared_value: Float[np.ndarray, "frame"]
    recovered: Bool[np.ndarray, "frame"]


def reactions(spec: CellSpec, *, watch: Watch = unwatched) -> Reactions:
    """What the full mode adds and loses in every frame of a cell, and whether the
    system acts on it.
    """
    parts = [
        unit_reactions(spec, unit)
        for unit in watch(spec.units, f"reactions of {spec.system}")
    ]
    return Reactions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def unit_reactions(spec: CellSpec, unit: str) -> Reactions:
    """The reactions of one unit."""
    rule = spec.acting
    seen = unit_data(spec, unit)
    scene, truth = seen.scene, seen.truth
    ends = spec.order[0], spec.order[-1]
    cheap, full = (seen.used[name] for name in ends)
    (removed, lost), (added, recovered) = (
        reports_of_one(cheap, full, seen),
        reports_of_one(full, cheap, seen),
    )
    objects = objects_by_mode(spec, seen)
    plans = branches(rule, scene, objects, seen.run)

    def without(
        mode: str, marked: Bool[np.ndarray, "det"]
    ) -> Float[np.ndarray, "time *plan"]:
        behind = spec.behind(seen.used[mode], scene, truth)
        gone = (behind >= 0) & np.append(marked, False)[behind]
        return rule.plan(objects[mode].where(~gone), scene, previous=plans.before)

    def loss(plan: Float[np.ndarray, "time *plan"]) -> Float[np.ndarray, "time"]:
        return weighted_loss(
            rule.terms(plan, scene, truth, previous=plans.before), rule.weights
        )

    def worse(mode: str, marked: Bool[np.ndarray, "det"]) -> Bool[np.ndarray, "time"]:
        return loss(without(mode, marked)) - loss(plans.plans[mode]) > rule.tolerance

    changed = (
        (without(ends[1], added) != plans.plans[ends[1]])
        .reshape(len(scene), -1)
        .any(axis=1)
    )
    own = removed | lost, added | recovered
    other = np.zeros(len(scene), dtype=bool)
    for detections, marks in zip((cheap, full), own, strict=True):
        other[detections.frame[marks]] = True
    shared = [loss(without(mode, marks)) for mode, marks in zip(ends, own, strict=True)]
    return Reactions(
        input=scene.inputs,
        cheap_boxes=np.bincount(cheap.frame, minlength=len(scene)),
        full_boxes=np.bincount(full.frame, minlength=len(scene)),
        reacted=changed,
        needed=worse(ends[1], recovered),
        lost=worse(ends[0], lost),
        alike=~other,
        shared_value=shared[0] - shared[1],
        recovered=np.bincount(full.frame[recovered], minlength=len(scene)) > 0,
    )


def reports_of_one(
    one: Detections, other: Detections, seen: UnitData
) -> tuple[Bool[np.ndarray, "det"], Bool[np.ndarray, "det"]]:
    """False positives that only one mode has, and its detections of objects that the
    other mode misses.
    """
    in_image = one.has_boxes and other.has_boxes
    mine, theirs = (_matched(item, seen, in_image=in_image) for item in (one, other))
    common = np.zeros(len(one), dtype=bool)
    common[_reported_by_both(one, other, seen.scene, in_image=in_image)] = True
    alone = mine.partner >= 0
    alone[alone] = theirs.missed[mine.partner[alone]]
    return mine.false_positive & ~common, alone


def changes_of(
    spec: CellSpec, seen: UnitData, mode: str
) -> tuple[Int[np.ndarray, "obj"], Shaped[np.ndarray, "obj"]]:
    """For each object of the cheap or full mode the detection behind it, -1 for none,
    and the change in a word.

    added, removed: a false positive of the full or of the cheap mode alone; recovered,
    lost: an object that only the full or only the cheap mode detects; moved: any other.
    """
    full = mode == spec.order[-1]
    one, other = (seen.used[name] for name in (mode, spec.order[0 if full else -1]))
    invented, alone = (
        np.append(marks, False) for marks in reports_of_one(one, other, seen)
    )
    words = ("added", "recovered") if full else ("removed", "lost")
    behind = spec.behind(one, seen.scene, seen.truth)
    return behind, np.where(invented, words[0], np.where(alone, words[1], "moved"))[
        behind
    ]


def _matched(detections: Detections, seen: UnitData, *, in_image: bool) -> Matching:
    if in_image:
        return matching(detections, seen.truth)
    return ground_matching(detections, seen.truth, scene=seen.scene)


def _reported_by_both(
    one: Detections, other: Detections, scene: Scene, *, in_image: bool
) -> Int[np.ndarray, "det"]:
    """Indices of one mode's detections that match a detection of the other mode with
    the same super-class.
    """
    pairs = frame_pairs(one.frame, other.frame)
    if in_image:
        near = iou(one.box_px[pairs.first], other.box_px[pairs.second]) >= LEAST_IOU
    else:
        if not all(has_ground_boxes(item, scene) for item in (one, other)):
            raise InputError(
                f"unit {scene.unit}: the modes need image boxes or 3D boxes, both of "
                "them, to be compared."
            )
        ends = [
            ground_boxes(item, scene, wanted_by="a comparison of modes").centre_m
            for item in (one, other)
        ]
        near = (
            np.linalg.norm(ends[0][pairs.first] - ends[1][pairs.second], axis=1)
            <= MOST_APART_M
        )
    same = super_class(one.cls)[pairs.first] == super_class(other.cls)[pairs.second]
    return np.unique(pairs.first[near & same])


OF_REACTIONS = ("reacted", "needed", "lost", "alike")
HANGS_ON = (*OF_REACTIONS, "placed")
"""Properties of an input that need the data."""


def _with_interval(name: str) -> Form:
    """A share in percent with its interval in whole percent."""

    def text(row: "MechanismRow") -> str:
        value, lower, upper = (
            getattr(row, f"{name}{end}") for end in ("", "_lo", "_hi")
        )
        return f"{in_percent(value)} {interval(lower, upper, level)}".strip()

    return text


@dataclass(frozen=True)
class MechanismRow(CellColumns):
    """Inputs of a cell whose decision value has one sign, and how perception changes on
    them.

    All figures are None if there are no such inputs. Figures that need the data are
    also None without the data.
    """

    effect: str = column(
        "helped, harmed or unaffected",
        "inputs",
        of_row=lambda row: f"{row.effect} {row.inputs:,}",
    )
    inputs: int = column("Number of such inputs")
    false_positives: float | None = column(
        "Mean change of the number of false positives, full less cheap", "d FP", number
    )
    misses: float | None = column(
        "Mean change of the number of missed objects", "d misses", number
    )
    detections: float | None = column(
        "Mean change of the number of detections; needs the data", "d boxes", number
    )
    more_false_positives: float | None = column(
        "Share of the inputs with more false positives", "more FP", in_percent
    )
    no_miss_recovered: float | None = column(
        "Share of the inputs on which the full mode detects no object that the cheap "
        "mode misses, object by object: a mode that loses as many as it recovers does "
        "recover a miss; needs the data",
        "no miss rec.",
        in_percent,
    )
    reacted: float | None = column(
        "Share of the inputs on which the plan changes without the added false "
        "positives; needs the data",
        "FP reacted to",
        of_row=_with_interval("reacted"),
    )
    reacted_lo: float | None = low()
    reacted_hi: float | None = high()
    needed: float | None = column(
        "Share of the inputs on which the loss is higher without the recovered "
        "misses; needs the data",
        "needed miss rec.",
        of_row=_with_interval("needed"),
    )
    needed_lo: float | None = low()
    needed_hi: float | None = high()
    lost: float | None = column(
        "Share of the inputs on which the loss of the cheap mode is higher without "
        "its detections of objects that the full mode misses; needs the data",
        "needed det. lost",
        of_row=_with_interval("lost"),
    )
    lost_lo: float | None = low()
    lost_hi: float | None = high()
    alike: float | None = column(
        "Share of the inputs on which both modes detect the same objects and share "
        "all false positives, so that only positions differ; needs the data",
        "same objects",
        of_row=_with_interval("alike"),
    )
    alike_lo: float | None = low()
    alike_hi: float | None = high()
    placed: float | None = column(
        "Share of the inputs on which the detections that both modes report, each at "
        "its own positions, give a decision value of this sign "
        "by themselves; needs the data",
        "by place",
        of_row=_with_interval("placed"),
    )
    placed_lo: float | None = low()
    placed_hi: float | None = high()


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
        located: Specifications of the cells with data, by the same names
            (`cells.located`).
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Progress reporting.
    """
    records = []
    for name, cell in cells.items():
        table = loss_table(cell, units)
        spec = (located or {}).get(name)
        drawn = make_draws(len(table.unit_ids), draws, seed)
        records += _rows(
            name, cell, table, changes=_changes(cell, table, spec, watch), draws=drawn
        )
    return records


def _changes(
    cell: BuiltCell, table: ValueTable, spec: CellSpec | None, watch: Watch
) -> dict[str, Num[np.ndarray, "input"] | Bool[np.ndarray, "input"]]:
    """What the full mode changes on each input, by name."""
    rows = positions(table.input, cell.table.input)
    ends = [
        {loss: cell.evidence.column(f"{end}_{loss}")[rows] for loss in ("E1", "E2")}
        for end in ("cheap", "full")
    ]
    changes = {
        "misses": ends[1]["E1"] - ends[0]["E1"],
        "false_positives": ends[1]["E2"] - ends[0]["E2"],
    }
    if spec is None:
        return changes
    reaction = reactions(spec, watch=watch)
    at = positions(table.input, reaction.input)
    boxes = (reaction.full_boxes - reaction.cheap_boxes)[at]
    none = ~reaction.recovered[at]
    placed = _sign(reaction.shared_value[at], table.tolerance) == _sign(
        table.decision_values, table.tolerance
    )
    return (
        changes
        | {"detections": boxes, "placed": placed, "no_miss_recovered": none}
        | {name: getattr(reaction, name)[at] for name in OF_REACTIONS}
    )


def _sign(
    values: Float[np.ndarray, "input"], tolerance: float
) -> Int[np.ndarray, "input"]:
    """1 where a value helps, -1 where it harms, 0 where it does neither."""
    return np.where(np.abs(values) > tolerance, np.sign(values), 0.0).astype(int)


def _rows(
    name: str,
    cell: BuiltCell,
    table: ValueTable,
    *,
    changes: Mapping[str, np.ndarray],
    draws: Draws,
) -> list[MechanismRow]:
    sign = _sign(table.decision_values, table.tolerance)
    effects = {"helped": sign > 0, "harmed": sign < 0, "unaffected": sign == 0}
    records = []
    for effect, rows in effects.items():

        def share(marks: np.ndarray | None, among: np.ndarray = rows) -> Ratio:
            return (
                Ratio(None, None, None, 0)
                if marks is None
                else ratio(table, marks & among, among, draws=draws)
            )

        def mean(name: str, among: np.ndarray = rows) -> float | None:
            return (
                float(changes[name][among].mean())
                if name in changes and among.any()
                else None
            )

        columns: dict[str, Any] = {}
        for part in HANGS_ON:
            columns |= share(changes.get(part)).columns(part)
        records.append(
            MechanismRow(
                **cell_columns(name, cell),
                effect=effect,
                inputs=int(rows.sum()),
                false_positives=mean("false_positives"),
                misses=mean("misses"),
                detections=mean("detections"),
                more_false_positives=share(changes["false_positives"] > 0).value,
                no_miss_recovered=share(changes.get("no_miss_recovered")).value,
                **columns,
            )
        )
    return records


def table(rows: Sequence[MechanismRow]) -> Table:
    """The rows as a table."""
    missing = sorted(
        {row.cell for row in rows if row.inputs and row.detections is None}
    )
    notes = [
        "d: full less cheap, mean per input; rec.: recovered; same objects: only "
        "where they are placed differs; by place: what both modes report has this "
        "sign by itself."
    ]
    if missing:
        notes.append(
            "Boxes, recovered misses and reactions need the data of "
            f"{', '.join(missing)}: give --root and --mode NAME=FILE."
        )
    order = (
        "cell",
        "effect",
        "false_positives",
        "misses",
        "detections",
        "more_false_positives",
        "no_miss_recovered",
    )
    return declared_table(
        MechanismRow, rows, "Harm mechanism", notes=notes, order=(*order, *HANGS_ON)
    )


def chart(rows: Sequence[MechanismRow]) -> Chart:
    """Shares of helped and harmed inputs that depend on what the full mode adds,
    recovers or loses.
    """
    series = {
        "reacted": "reacts to an added false positive",
        "needed": "needs a recovered miss",
        "lost": "loses a needed detection",
        "placed": "by where both modes' objects are placed",
    }
    dots = [
        Dot(
            f"{row.cell}: {row.effect}",
            label,
            *(getattr(row, f"{name}{end}") for end in ("", "_lo", "_hi")),
        )
        for row in rows
        if row.effect != "unaffected"
        for name, label in series.items()
    ]
    return shares("Share of such inputs", dots)


MECHANISM = declare(
    __name__,
    shows="Show which detections help and which harm",
    see="analyses.md#harm-mechanism",
    paper="harm mechanism",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    by="cell",
)
