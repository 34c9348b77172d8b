"""Cells -> how perception gains and false positives relate to the sign of decision
value: docs/analyses.md.

Counts of false positives and misses come from a cell's folder; numbers of detections,
recovered misses, false positives that the system reacts to, recovered misses that it
needs and needed detections that are lost come from its data, if available.

Changes of false positives, misses and boxes on helped, harmed and unaffected inputs;
with the data, what the system acts on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Num, Shaped
from deepval.basics.progress import Watch, unwatched
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.unit import objects_by_mode, unit_data
from deepval.driving.perception.changes import reports_of_one
from deepval.driving.systems.outcomes import branches
from deepval.judge.report.text_tables import Table, interval, number
from deepval.judge.tables.keys import positions
from deepval.judge.tables.terms import weighted_loss
from deepval.paper.analysis import Analysis
from deepval.paper.columns import CELL
from deepval.paper.study import Cell, DrawCount, Inputs, Units
from deepval.paper.tidy import (
    NOT_PRINTED,
    Column,
    Dots,
    Estimate,
    Row,
    level,
    only,
    printed,
)
from deepval.paper.tidy import share as in_percent


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
    removed, lost = reports_of_one(cheap, full, scene, truth)
    added, recovered = reports_of_one(full, cheap, scene, truth)
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


OF_REACTIONS = ("reacted", "needed", "lost", "alike")
HANGS_ON = (*OF_REACTIONS, "placed")
"""Properties of an input that need the data."""


def _with_interval(name: str) -> Callable[[Row], str]:
    """A share in percent with its interval in whole percent."""

    def text(row: Row) -> str:
        value, low, high = row[name]
        return f"{in_percent(value)} {interval(low, high, level)}".strip()

    return text


COLUMNS = (
    *CELL,
    Column(
        "effect",
        "helped, harmed or unaffected",
        heading="inputs",
        text_of_row=lambda row: f"{row['effect']} {row['inputs']:,}",
    ),
    Column("inputs", "Number of such inputs"),
    Column(
        "false_positives",
        "Mean change of the number of false positives, full less cheap",
        heading="d FP",
        text=number,
    ),
    Column(
        "misses",
        "Mean change of the number of missed objects",
        heading="d misses",
        text=number,
    ),
    Column(
        "detections",
        "Mean change of the number of detections; needs the data",
        heading="d boxes",
        text=number,
    ),
    Column(
        "more_false_positives",
        "Share of the inputs with more false positives",
        heading="more FP",
        text=in_percent,
    ),
    Column(
        "no_miss_recovered",
        "Share of the inputs on which the full mode detects no object that the cheap "
        "mode misses, object by object: a mode that loses as many as it recovers does "
        "recover a miss; needs the data",
        heading="no miss rec.",
        text=in_percent,
    ),
    Column(
        "reacted",
        "Share of the inputs on which the plan changes without the added false "
        "positives; needs the data",
        heading="FP reacted to",
        text_of_row=_with_interval("reacted"),
        bounds=NOT_PRINTED,
    ),
    Column(
        "needed",
        "Share of the inputs on which the loss is higher without the recovered "
        "misses; needs the data",
        heading="needed miss rec.",
        text_of_row=_with_interval("needed"),
        bounds=NOT_PRINTED,
    ),
    Column(
        "lost",
        "Share of the inputs on which the loss of the cheap mode is higher without "
        "its detections of objects that the full mode misses; needs the data",
        heading="needed det. lost",
        text_of_row=_with_interval("lost"),
        bounds=NOT_PRINTED,
    ),
    Column(
        "alike",
        "Share of the inputs on which both modes detect the same objects and share "
        "all false positives, so that only positions differ; needs the data",
        heading="same objects",
        text_of_row=_with_interval("alike"),
        bounds=NOT_PRINTED,
    ),
    Column(
        "placed",
        "Share of the inputs on which the detections that both modes report, each at "
        "its own positions, give a decision value of this sign "
        "by themselves; needs the data",
        heading="by place",
        text_of_row=_with_interval("placed"),
        bounds=NOT_PRINTED,
    ),
)
"""Inputs of a cell whose decision value has one sign, and how perception changes on
them.

All figures are None if there are no such inputs. Figures that need the data are
also None without the data.
"""


def rows(
    cells: Sequence[Cell],
    *,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """Three rows per cell: helped, harmed and unaffected inputs."""
    for cell in cells:
        inputs = cell.inputs(units, draws, seed)
        changes = _changes(inputs)
        parts = {"helped": inputs.helped, "harmed": inputs.harmed}
        parts["unaffected"] = ~inputs.affected
        for effect, among in parts.items():
            yield {
                **cell.description,
                "effect": effect,
                "inputs": int(among.sum()),
                **_on_part(inputs, changes, among),
            }


def _on_part(
    inputs: Inputs, changes: Mapping[str, np.ndarray], among: Bool[np.ndarray, "input"]
) -> Row:
    """How perception changes on the inputs of one sign."""

    def share(name: str) -> Estimate:
        if name not in changes:
            return Estimate()
        return inputs.share(changes[name], of=among)

    def mean(name: str) -> float | None:
        if name not in changes or not among.any():
            return None
        return float(changes[name][among].mean())

    more = inputs.share(changes["false_positives"] > 0, of=among)
    return {
        "false_positives": mean("false_positives"),
        "misses": mean("misses"),
        "detections": mean("detections"),
        "more_false_positives": more.value,
        "no_miss_recovered": share("no_miss_recovered").value,
        **{part: share(part) for part in HANGS_ON},
    }


def _changes(
    inputs: Inputs,
) -> dict[str, Num[np.ndarray, "input"] | Bool[np.ndarray, "input"]]:
    """What the full mode changes on each input, by name."""
    table = inputs.table
    evidence = inputs.cell.cell.evidence
    ends = [
        {
            loss: inputs.aligned(evidence.column(f"{end}_{loss}"))
            for loss in ("E1", "E2")
        }
        for end in ("cheap", "full")
    ]
    changes = {
        "misses": ends[1]["E1"] - ends[0]["E1"],
        "false_positives": ends[1]["E2"] - ends[0]["E2"],
    }
    spec = inputs.cell.part("located")
    if spec is None:
        return changes
    reaction = reactions(spec, watch=inputs.cell.watch)
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


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    missing = sorted(
        {row["cell"] for row in rows if row["inputs"] and row["detections"] is None}
    )
    notes = [
        "d: full less cheap, mean per input; rec.: recovered; same objects: only "
        "where they are placed differs; by place: what both modes report has this "
        "sign by itself."
    ]
    if missing:
        notes.append(
            "Boxes, recovered misses and reactions need the data of "
            f"{', '.join(missing)}, which are not where they were."
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
    return [
        printed("Harm mechanism", only(COLUMNS, *order, *HANGS_ON), rows, notes=notes)
    ]


MECHANISM = Analysis(
    name="mechanism",
    shows="Show which detections help and which harm",
    see="analyses.md#harm-mechanism",
    paper="harm mechanism",
    example=("cells/braking-monocular"),
    by="cell",
    details=(
        "Changes of false positives, misses and boxes on helped, harmed and "
        "unaffected inputs; with the data, what the system acts on."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    charts=[
        Dots(
            "Share of such inputs",
            {
                "reacts to an added false positive": "reacted",
                "needs a recovered miss": "needed",
                "loses a needed detection": "lost",
                "by where both modes' objects are placed": "placed",
            },
            label="{cell}: {effect}",
            where=lambda row: row["effect"] != "unaffected",
        )
    ],
    tables=tables,
)
