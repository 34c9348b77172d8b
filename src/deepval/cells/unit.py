"""One unit's part of a cell: pure and picklable, so that a build can map it over units in any process.

`unit_parts` says what downstream systems make of the unit under every mode; `shared_part` what every cell of the
same data set and modes shares: what an allocator may look at, and what only labels and diagnostics may know.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Shaped
from deepval.cells.explorer import extremes
from deepval.cells.sighting import Sighting, placed, sighting
from deepval.cells.spec import CellSpec, ModeSpec
from deepval.errors import InputError
from deepval.features.views import connectors_m
from deepval.perception.placing import PLACINGS
from deepval.perception.placing.monocular import monocular_objects
from deepval.perception.reported.ap_swap import GradedFrames, graded_frames
from deepval.perception.reported.detections import (
    Calibration,
    Covered,
    Detections,
    calibrated,
    covered,
    has_ground_boxes,
)
from deepval.perception.reported.losses import ground_losses, perception_losses
from deepval.perception.reported.matching import GradedScores, graded_scores
from deepval.progress import Watch, unwatched
from deepval.systems.outcomes import Branches, Outcomes, branches, joined, recombined, unit_outcomes
from deepval.systems.system import constants, same_plans, settable, with_constants
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable
from deepval.world.objects import Objects, required_deceleration_mps2
from deepval.world.scene import Scene

LEAST_SCORE = 0.10
"""Probability from which detections are graded as right or wrong, for objectives that rest on average precision."""


class Observed(NamedTuple):
    """What the cheap mode's report comes to for the planner, and the way to the next connector at each frame."""

    objects: Objects
    connector_m: Float[np.ndarray, "time"]


@dataclass(frozen=True)
class UnitPart:
    """One unit of a cell.

    Attributes:
        outcomes: Loss terms and plans of every mode.
        known: Columns that are known before escalation, per input, to slice by.
        shown: The most harmed and the most helped frame by sign, drawn, where the unit is one to show.
        observed: What the planner is given, where the placing observes.
        evidence: Columns that the system adds to what diagnostics may know, per input.
    """

    outcomes: Outcomes
    known: Mapping[str, np.ndarray]
    shown: Mapping[str, dict[str, Any]]
    observed: Observed | None
    evidence: Mapping[str, Float[np.ndarray, "input"]]


@dataclass(frozen=True)
class SharedPart:
    """What all cells of a data set and its modes share of one unit.

    Attributes:
        scene: What the vehicle knows.
        cheap: What the cheap mode reports.
        inputs: Ids of the frames on which both ends of the ladder were run.
        evidence: Per such frame, perception losses of both modes and what the reference requires.
        on_ground: Per such frame, perception losses of both modes by their 3D boxes, where both report some.
        graded: Detections of both modes from a low probability on, right or wrong; None without probabilities.
        covered: What each mode covers of the unit.
    """

    scene: Scene
    cheap: Detections
    inputs: Shaped[np.ndarray, "input"]
    evidence: Mapping[str, Float[np.ndarray, "input"]]
    on_ground: Mapping[str, Float[np.ndarray, "input"]]
    graded: tuple[GradedFrames, GradedFrames] | None
    covered: Mapping[str, Covered]


@dataclass(frozen=True)
class Acted:
    """One unit as a cell reads it: the objects of every mode, the plans made of them, and what these lead to."""

    seen: Sighting
    objects: Mapping[str, Objects]
    plans: Branches
    outcomes: Outcomes


def unit_parts(specs: Sequence[CellSpec], unit: str) -> list[UnitPart]:
    """What each downstream system makes of one unit under every mode, for cells that share a data set and modes."""
    parts, way_m = [], None
    for spec, acted in zip(specs, unit_acted(specs, unit), strict=True):
        seen, objects, outcomes = acted.seen, acted.objects, acted.outcomes
        shows = unit in spec.roles.test
        shown = extremes(spec, seen, objects=objects, branches=acted.plans, outcomes=outcomes) if shows else {}
        observed = None
        if PLACINGS[spec.geometry].observes:
            way_m = connectors_m(seen.scene) if way_m is None else way_m
            observed = Observed(objects[spec.order[0]], way_m)
        ends = {"cheap": objects[spec.order[0]], "full": objects[spec.order[-1]]}
        told = spec.acting.evidence(ends, seen.scene, seen.truth)
        evidence = {name: column[outcomes.order] for name, column in told.items()}
        parts.append(UnitPart(outcomes, _known_before(seen, outcomes), shown, observed, evidence))
    return parts


def unit_acted(specs: Sequence[CellSpec], unit: str) -> Iterator[Acted]:
    """What each downstream system does on one unit, for cells that share a data set.

    Modes that are used alike and placed alike share the objects; cells that moreover differ in nothing but the weights
    of the loss share the plans, which are made once.
    """
    objects: dict[tuple[ModeSpec, str, bool], Objects] = {}
    planned: list[tuple[CellSpec, Acted]] = []
    for spec in specs:
        rule = spec.acting
        same = [acted for other, acted in planned if _plans_alike(other, spec)]
        if same:
            yield replace(same[0], outcomes=recombined(same[0].outcomes, rule))
            continue
        seen = sighting(spec, unit)
        for mode in spec.modes:
            how = (mode, spec.geometry, spec.persistence)
            objects[how] = objects[how] if how in objects else placed(spec, seen, mode.name)
        given = {mode.name: objects[mode, spec.geometry, spec.persistence] for mode in spec.modes}
        plans = branches(rule, seen.scene, given, seen.run)
        outcomes = unit_outcomes(rule, seen.scene, seen.truth, branches=plans, run=seen.run)
        planned.append((spec, Acted(seen, given, plans, outcomes)))
        yield planned[-1][1]


def _plans_alike(one: CellSpec, other: CellSpec) -> bool:
    """Whether two cells of the same data set make the same plans."""
    alike = (one.modes, one.geometry, one.persistence) == (other.modes, other.geometry, other.persistence)
    return alike and one.rule is not None and other.rule is not None and same_plans(one.rule, other.rule)


def _known_before(seen: Sighting, outcomes: Outcomes) -> dict[str, np.ndarray]:
    """Columns that are known before escalation: ego speed, cheap boxes, what cheap boxes require."""
    scene, cheap = seen.scene, next(iter(seen.used.values()))
    columns = {
        "ego_speed_mps": scene.ego_speed_mps,
        "cheap_boxes": np.bincount(cheap.frame, minlength=len(scene)),
    }
    if cheap.boxed:
        columns["cheap_required_mps2"] = required_deceleration_mps2(
            monocular_objects(cheap, scene), scene.ego_speed_mps
        )
    return {name: column[outcomes.order] for name, column in columns.items()}


def scored_outcomes(spec: CellSpec, unit: str, mode: str) -> GradedScores:
    """Scores of a mode's detections on a unit and whether each is right: what a calibration is fitted on."""
    seen = sighting(spec, unit)
    return graded_scores(seen.reported[mode], seen.truth)


def shared_part(spec: CellSpec, unit: str, calibrations: Mapping[str, Calibration]) -> SharedPart:
    """What all cells of the specification's data set and modes share of one unit."""
    seen = sighting(spec, unit)
    scene, truth = seen.scene, seen.truth
    cheap, full = spec.modes[0], spec.modes[-1]
    marks = seen.used[cheap.name].run & seen.used[full.name].run
    ends = {"cheap": seen.used[cheap.name], "full": seen.used[full.name]}
    in_image = {end: perception_losses(used, truth) for end, used in ends.items() if used.boxed}
    solid = all(has_ground_boxes(used, scene) for used in ends.values())
    on_ground = {end: ground_losses(used, truth, scene=scene) for end, used in ends.items()} if solid else {}
    evidence, on_ground = (
        {f"{end}_{name}": column[marks] for end, losses in found.items() for name, column in losses.items()}
        for found in (in_image, on_ground)
    )
    evidence["reference_required_mps2"] = required_deceleration_mps2(truth.objects, scene.ego_speed_mps)[marks]
    graded = [_graded(seen, mode, calibrations.get(mode.name), marks) for mode in (cheap, full)]
    return SharedPart(
        scene=scene,
        cheap=seen.reported[cheap.name],
        inputs=scene.inputs[marks],
        evidence=evidence,
        on_ground=on_ground,
        graded=None if graded[0] is None or graded[1] is None else (graded[0], graded[1]),
        covered={mode: covered(detections) for mode, detections in seen.used.items()},
    )


def _graded(
    seen: Sighting, mode: ModeSpec, calibration: Calibration | None, marks: Bool[np.ndarray, "time"]
) -> GradedFrames | None:
    """Detections of a mode from a low probability on, right or wrong; None where it has no probabilities."""
    report = seen.reported[mode.name]
    if calibration is not None:
        report = calibrated(report, calibration)
    elif mode.reader is None or mode.reader.scores != "probabilities":
        return None
    return graded_frames(report.where(report.score >= LEAST_SCORE), seen.truth, frames=marks) if report.boxed else None


def variant_tables(
    wanted: Sequence[CellSpec], like: ValueTable, *, watch: Watch = unwatched, label: str = "variants"
) -> list[ValueTable]:
    """The losses of each variant on the inputs of a table, with its units, listed as there.

    Args:
        wanted: Variants of one cell, with the data at hand.
        like: Losses of the cell; only its inputs are judged, so that a variant is compared on the same ones.
        watch: Who is told how far it is.
        label: What is told.
    """
    units = [str(like.unit_ids[place]) for place in sorted(set(like.unit.tolist()))]
    parts = [[acted.outcomes for acted in unit_acted(wanted, unit)] for unit in watch(units, label)]
    found = []
    for outcomes in map(joined, zip(*parts, strict=True)):
        table = ValueTable.from_columns(
            unit=outcomes.unit, input=outcomes.input, losses=outcomes.losses, order=outcomes.order
        )
        table = replace(table.listing(like.unit_ids), tolerance=outcomes.system.tolerance)
        found.append(table.keep(positions(table.input, like.input) >= 0))
    return found


def with_changes(spec: CellSpec, changes: Mapping[str, float]) -> CellSpec:
    """The cell with some constants of its downstream system changed."""
    changed = with_constants(spec.acting, changes)
    return replace(spec, rule=changed, constants=constants(changed))


def constant_of(spec: CellSpec, name: str) -> float:
    """One constant of its downstream system, by its own name or by a plain one."""
    rule = spec.acting
    numbers = settable(rule)
    known = rule.also_called.get(name, name)
    if known not in numbers:
        raise InputError(
            f"{spec.system}: a constant must be one of {', '.join(sorted(numbers)) or 'none'}; found {name!r}."
        )
    return numbers[known][1]
