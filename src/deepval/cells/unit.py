"""A specification and a unit's id -> the unit's parts of cells, pure and picklable: any process can compute them.

`unit_parts` gives the plans and losses of downstream systems under every mode. `shared_part` gives the data that every
cell of the same data set and modes shares: the data that an allocator may use, and evidence that only labels and
diagnostics may use.
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
    calibrate,
    coverage,
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
"""Least probability of detections that are graded as right or wrong, for objectives based on average precision."""


class Observed(NamedTuple):
    """The planner's objects from the cheap mode's report, and the distance to the next connector at each frame."""

    objects: Objects
    connector_m: Float[np.ndarray, "time"]


@dataclass(frozen=True)
class UnitPart:
    """One unit of a cell.

    Attributes:
        outcomes: Loss terms and plans of every mode.
        known: Columns that are available before escalation, per input, to slice by.
        shown: The most harmed and the most helped frame by sign, drawn; empty where the unit is no test unit.
        observed: The planner's objects, where the placing observes.
        evidence: Columns that the system adds to the evidence for diagnostics, per input.
    """

    outcomes: Outcomes
    known: Mapping[str, np.ndarray]
    shown: Mapping[str, dict[str, Any]]
    observed: Observed | None
    evidence: Mapping[str, Float[np.ndarray, "input"]]


@dataclass(frozen=True)
class SharedPart:
    """The part of one unit that all cells of a data set and its modes share.

    Attributes:
        scene: The data that the vehicle has.
        cheap: The cheap mode's report.
        inputs: Ids of the frames on which both ends of the ladder were run.
        evidence: Per such frame, perception losses of both modes and the deceleration that the reference requires.
        on_ground: Per such frame, perception losses of both modes by their 3D boxes, where both report some.
        graded: Detections of both modes from a low probability on, right or wrong; None without probabilities.
        covered: Coverage of the unit by each mode.
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
    """One unit as a cell reads it: the objects of every mode, the plans for them, and the outcomes of the plans."""

    seen: Sighting
    objects: Mapping[str, Objects]
    plans: Branches
    outcomes: Outcomes


def unit_parts(specs: Sequence[CellSpec], unit: str) -> list[UnitPart]:
    """One unit's part of every cell, for cells that share a data set and modes."""
    parts, way_m = [], None
    for spec, acted in zip(specs, unit_acted(specs, unit), strict=True):
        seen, objects, outcomes = acted.seen, acted.objects, acted.outcomes
        is_test = unit in spec.roles.test
        drawn = extremes(spec, seen, objects=objects, branches=acted.plans, outcomes=outcomes) if is_test else {}
        observed = None
        if PLACINGS[spec.geometry].observes:
            way_m = connectors_m(seen.scene) if way_m is None else way_m
            observed = Observed(objects[spec.order[0]], way_m)
        ends = {"cheap": objects[spec.order[0]], "full": objects[spec.order[-1]]}
        columns = spec.acting.evidence(ends, seen.scene, seen.truth)
        evidence = {name: column[outcomes.order] for name, column in columns.items()}
        parts.append(UnitPart(outcomes, _before_escalation(seen, outcomes), drawn, observed, evidence))
    return parts


def unit_acted(specs: Sequence[CellSpec], unit: str) -> Iterator[Acted]:
    """Plans and outcomes of each downstream system on one unit, for cells that share a data set.

    Modes with the same use and placing share their objects. Cells that differ in the weights of the loss alone also
    share their plans, which are computed once.
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
            key = (mode, spec.geometry, spec.persistence)
            objects[key] = objects[key] if key in objects else placed(spec, seen, mode.name)
        mode_objects = {mode.name: objects[mode, spec.geometry, spec.persistence] for mode in spec.modes}
        plans = branches(rule, seen.scene, mode_objects, seen.run)
        outcomes = unit_outcomes(rule, seen.scene, seen.truth, branches=plans, run=seen.run)
        planned.append((spec, Acted(seen, mode_objects, plans, outcomes)))
        yield planned[-1][1]


def _plans_alike(one: CellSpec, other: CellSpec) -> bool:
    """Whether two cells of the same data set make the same plans."""
    alike = (one.modes, one.geometry, one.persistence) == (other.modes, other.geometry, other.persistence)
    return alike and one.rule is not None and other.rule is not None and same_plans(one.rule, other.rule)


def _before_escalation(seen: Sighting, outcomes: Outcomes) -> dict[str, np.ndarray]:
    """Columns that are available before escalation: ego speed, cheap boxes, deceleration that cheap boxes require."""
    scene, cheap = seen.scene, next(iter(seen.used.values()))
    columns = {
        "ego_speed_mps": scene.ego_speed_mps,
        "cheap_boxes": np.bincount(cheap.frame, minlength=len(scene)),
    }
    if cheap.has_boxes:
        columns["cheap_required_mps2"] = required_deceleration_mps2(
            monocular_objects(cheap, scene), scene.ego_speed_mps
        )
    return {name: column[outcomes.order] for name, column in columns.items()}


def scored_outcomes(spec: CellSpec, unit: str, mode: str) -> GradedScores:
    """Scores of a mode's detections on a unit and whether each is right, to fit a calibration on."""
    seen = sighting(spec, unit)
    return graded_scores(seen.reported[mode], seen.truth)


def shared_part(spec: CellSpec, unit: str, calibrations: Mapping[str, Calibration]) -> SharedPart:
    """The part of one unit that all cells of the specification's data set and modes share."""
    seen = sighting(spec, unit)
    scene, truth = seen.scene, seen.truth
    cheap, full = spec.modes[0], spec.modes[-1]
    marks = seen.used[cheap.name].run & seen.used[full.name].run
    ends = {"cheap": seen.used[cheap.name], "full": seen.used[full.name]}
    in_image = {end: perception_losses(used, truth) for end, used in ends.items() if used.has_boxes}
    solid = all(has_ground_boxes(used, scene) for used in ends.values())
    on_ground = {end: ground_losses(used, truth, scene=scene) for end, used in ends.items()} if solid else {}
    evidence, on_ground = (
        {f"{end}_{name}": column[marks] for end, losses in by_end.items() for name, column in losses.items()}
        for by_end in (in_image, on_ground)
    )
    evidence["reference_required_mps2"] = required_deceleration_mps2(truth.objects, scene.ego_speed_mps)[marks]
    graded = [_graded_detections(seen, mode, calibrations.get(mode.name), marks) for mode in (cheap, full)]
    return SharedPart(
        scene=scene,
        cheap=seen.reported[cheap.name],
        inputs=scene.inputs[marks],
        evidence=evidence,
        on_ground=on_ground,
        graded=None if graded[0] is None or graded[1] is None else (graded[0], graded[1]),
        covered={mode: coverage(detections) for mode, detections in seen.used.items()},
    )


def _graded_detections(
    seen: Sighting, mode: ModeSpec, calibration: Calibration | None, marks: Bool[np.ndarray, "time"]
) -> GradedFrames | None:
    """Detections of a mode from a low probability on, right or wrong; None where it has no probabilities."""
    report = seen.reported[mode.name]
    if calibration is not None:
        report = calibrate(report, calibration)
    elif mode.reader is None or mode.reader.scores != "probabilities":
        return None
    return (
        graded_frames(report.where(report.score >= LEAST_SCORE), seen.truth, frames=marks) if report.has_boxes else None
    )


def variant_tables(
    variants: Sequence[CellSpec], like: ValueTable, *, watch: Watch = unwatched, label: str = "variants"
) -> list[ValueTable]:
    """The losses of each variant on the inputs of a table, with the table's list of units.

    Args:
        variants: Variants of one cell, with the data at hand.
        like: Losses of the cell; only its inputs are judged, so that variants are compared on the same inputs.
        watch: Shows the progress.
        label: Text of the progress.
    """
    units = [str(like.unit_ids[index]) for index in sorted(set(like.unit.tolist()))]
    parts = [[acted.outcomes for acted in unit_acted(variants, unit)] for unit in watch(units, label)]
    tables = []
    for outcomes in map(joined, zip(*parts, strict=True)):
        table = ValueTable.from_columns(
            unit=outcomes.unit, input=outcomes.input, losses=outcomes.losses, order=outcomes.order
        )
        table = replace(table.listing(like.unit_ids), tolerance=outcomes.system.tolerance)
        tables.append(table.keep(positions(table.input, like.input) >= 0))
    return tables


def with_changes(spec: CellSpec, changes: Mapping[str, float]) -> CellSpec:
    """The cell with some constants of its downstream system changed."""
    changed = with_constants(spec.acting, changes)
    return replace(spec, rule=changed, constants=constants(changed))


def constant_of(spec: CellSpec, name: str) -> float:
    """One constant of the cell's downstream system, by its field name or by its plain name."""
    rule = spec.acting
    numbers = settable(rule)
    field = rule.also_called.get(name, name)
    if field not in numbers:
        raise InputError(
            f"{spec.system}: a constant must be one of {', '.join(sorted(numbers)) or 'none'}; found {name!r}."
        )
    return numbers[field][1]
