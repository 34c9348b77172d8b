"""A specification and a unit's id -> the unit's parts of cells, pure and picklable: any
process can compute them.

`unit_parts` gives the plans and losses of downstream systems under every mode.
`shared_part` gives the data that every cell of the same data set and modes shares: the
data that an allocator may use, and evidence that only labels and diagnostics may use.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from deepval.basics.arrays import Bool
from deepval.basics.errors import InputError
from deepval.basics.progress import Watch, unwatched
from deepval.driving.cells.explorer import extremes
from deepval.driving.cells.spec import CellSpec, ModeSpec
from deepval.driving.cells.stored_parts import Observed, SharedPart, UnitPart
from deepval.driving.datasets import Dataset
from deepval.driving.perception.placing import PLACINGS, monocular_objects
from deepval.driving.perception.reported.ap_swap import GradedFrames, graded_frames
from deepval.driving.perception.reported.detection_rows import ModeReader, frame_index
from deepval.driving.perception.reported.detections import (
    Calibration,
    Detections,
    calibrate,
    coverage,
    has_ground_boxes,
    persistent,
)
from deepval.driving.perception.reported.losses import (
    Candidates,
    GradedScores,
    Matching,
    graded_scores,
    ground_losses,
    match_candidates,
    matching,
    perception_losses,
)
from deepval.driving.systems.outcomes import (
    Branches,
    Outcomes,
    branches,
    join_outcomes,
    reweight,
    unit_outcomes,
)
from deepval.driving.systems.system import (
    constants,
    same_plans,
    settable,
    with_constants,
)
from deepval.driving.views import connectors_m
from deepval.driving.world.objects import Objects, Outputs, required_deceleration_mps2
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable

Item = TypeVar("Item")


class _Cache(Generic[Item]):
    """The items read last, up to a number."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.items: OrderedDict[Hashable, Item] = OrderedDict()

    def item(self, key: Hashable, read: Callable[[], Item]) -> Item:
        """The item of a key, read now if it is not in the cache."""
        if key not in self.items:
            self.items[key] = read()
        self.items.move_to_end(key)
        self.resize(self.most)
        return self.items[key]

    def resize(self, most: int) -> None:
        """Limit the cache to `most` items from now on; the least recently used are
        dropped.
        """
        self.most = most
        while len(self.items) > most:
            self.items.popitem(last=False)


@dataclass(frozen=True)
class UnitData:
    """One unit as read: the scene, its truth, and by mode the reported detections and
    those used.
    """

    scene: Scene
    truth: Truth
    reported: Mapping[str, Detections]
    used: Mapping[str, Detections]
    _keep: Mapping[str, Bool[np.ndarray, "det"]]
    _candidates: dict[str, Candidates] = field(default_factory=dict)
    _matchings: dict[str, Matching] = field(default_factory=dict)

    @property
    def run(self) -> dict[str, Bool[np.ndarray, "time"]]:
        """For each mode, the frames on which it was run."""
        return {mode: detections.run for mode, detections in self.used.items()}

    def candidates(self, mode: str) -> Candidates:
        """Pairs of a mode's reported detections and reference objects that may match;
        computed once.
        """
        if mode not in self._candidates:
            self._candidates[mode] = match_candidates(self.reported[mode], self.truth)
        return self._candidates[mode]

    def matching(self, mode: str) -> Matching:
        """The matching of a mode's used detections; computed once."""
        if mode not in self._matchings:
            # A report may lack image boxes that the used detections have.
            candidates = (
                self.candidates(mode).where(self._keep[mode])
                if self.reported[mode].has_boxes
                else None
            )
            self._matchings[mode] = matching(
                self.used[mode], self.truth, candidates=candidates
            )
        return self._matchings[mode]

    def scores(self, mode: str) -> GradedScores:
        """Scores of a mode's reported detections, and whether each is right."""
        report = self.reported[mode]
        whole = self._keep[mode].all()
        match = (
            self.matching(mode)
            if whole
            else matching(report, self.truth, candidates=self.candidates(mode))
        )
        return graded_scores(report, self.truth, match=match)


_UNITS: _Cache[tuple[Scene, Truth]] = _Cache(1)
_REPORTS: _Cache[Detections] = _Cache(4)
_DATA: _Cache[UnitData] = _Cache(1)


def cache_units(most: int = 1) -> None:
    """Hold this many units in memory from now on, for repeated passes over them; their
    files must not change.
    """
    _UNITS.resize(most)
    _REPORTS.resize(4 * most)
    _DATA.resize(most)


@contextmanager
def units_in_memory(most: int) -> Iterator[None]:
    """Hold at least this many units in memory within a block."""
    before = _UNITS.most
    cache_units(max(most, before))
    try:
        yield
    finally:
        cache_units(before)


def unit_data(spec: CellSpec, unit: str) -> UnitData:
    """The unit as the cell reads it; cached for other cells of the same data set and
    modes.
    """
    if spec.source is None:
        raise InputError(f"{spec.id}: the folder of its data set is not set: give it.")
    source, files, modes = spec.source, spec.files_digest, spec.modes
    return _DATA.item(
        (source, files, modes, unit), lambda: _unit_data(source, files, modes, unit)
    )


def _unit_data(
    source: Dataset, files: str, modes: tuple[ModeSpec, ...], unit: str
) -> UnitData:
    scene, truth = _read(source, files, unit)
    reported = {mode.name: _report(source, files, unit, mode) for mode in modes}
    used = {mode.name: used_detections(mode, reported[mode.name]) for mode in modes}
    keep = {mode.name: _reaches(mode, reported[mode.name]) for mode in modes}
    return UnitData(scene, truth, reported, used, keep)


def _read(source: Dataset, files: str, unit: str) -> tuple[Scene, Truth]:
    return _UNITS.item((source, files, unit), lambda: source.read_unit(unit))


def _report(source: Dataset, files: str, unit: str, mode: ModeSpec) -> Detections:
    """A mode's report on a unit before any threshold; cached for variants of a cell."""
    key = (source, files, unit, _reader(mode), mode.classes)
    return _REPORTS.item(key, lambda: mode_report(mode, *_read(source, files, unit)))


def mode_report(mode: ModeSpec, scene: Scene, truth: Truth) -> Detections:
    """A mode's report on a unit, restricted to the mode's classes."""
    return _of_classes(_reader(mode).detections(scene, truth), mode.classes)


def _reader(mode: ModeSpec) -> ModeReader:
    if mode.reader is None:
        raise InputError(
            f"mode {mode.name}: the file of its report is not set: give it."
        )
    return mode.reader


def _of_classes(report: Detections, classes: tuple[str, ...] | None) -> Detections:
    return (
        report
        if classes is None
        else report.where(np.isin(report.cls, np.array(sorted(classes), dtype=str)))
    )


def used_detections(mode: ModeSpec, report: Detections) -> Detections:
    """The detections of a report that reach the mode's threshold."""
    return report if mode.threshold is None else report.where(_reaches(mode, report))


def _reaches(mode: ModeSpec, report: Detections) -> Bool[np.ndarray, "det"]:
    return (
        np.ones(len(report), dtype=bool)
        if mode.threshold is None
        else report.score >= mode.threshold
    )


def objects_by_mode(spec: CellSpec, data: UnitData) -> dict[str, Objects]:
    """The downstream system's objects, by mode."""
    return {mode: objects_of_mode(spec, data, mode) for mode in data.used}


def objects_of_mode(spec: CellSpec, data: UnitData, mode: str) -> Objects:
    """The downstream system's objects from one mode."""
    used = data.used[mode]
    keep = persistent(used) if spec.persistence else None
    return PLACINGS[spec.geometry].place(used, data.scene, data.truth, keep=keep)


LEAST_SCORE = 0.10
"""Least probability of detections that are graded as right or wrong, for objectives
based on average precision.
"""


@dataclass(frozen=True)
class UnitPlans:
    """One unit as a cell reads it: the objects of every mode, the plans for them, and
    the outcomes of the plans.
    """

    data: UnitData
    objects: Mapping[str, Objects]
    plans: Branches
    outcomes: Outcomes


def unit_parts(specs: Sequence[CellSpec], unit: str) -> list[UnitPart]:
    """One unit's part of every cell, for cells that share a data set and modes."""
    parts, way_m = [], None
    for spec, unit_plan in zip(specs, unit_plans(specs, unit), strict=True):
        data, objects, outcomes = unit_plan.data, unit_plan.objects, unit_plan.outcomes
        is_test = unit in spec.roles.test
        drawn = {}
        if is_test:
            drawn = extremes(
                spec,
                data.scene,
                data.truth,
                used=data.used,
                objects=objects,
                branches=unit_plan.plans,
                outcomes=outcomes,
            )
        observed = None
        if PLACINGS[spec.geometry].observes:
            way_m = connectors_m(data.scene) if way_m is None else way_m
            observed = Observed(objects[spec.order[0]], way_m)
        ends = {"cheap": objects[spec.order[0]], "full": objects[spec.order[-1]]}
        columns = spec.acting.evidence(ends, data.scene, data.truth)
        evidence = {name: column[outcomes.order] for name, column in columns.items()}
        outputs = Outputs(objects[spec.order[-1]], data.truth.objects)
        parts.append(
            UnitPart(
                outcomes,
                _before_escalation(data, outcomes),
                drawn,
                observed,
                outputs,
                evidence,
            )
        )
    return parts


def unit_plans(specs: Sequence[CellSpec], unit: str) -> Iterator[UnitPlans]:
    """Plans and outcomes of each downstream system on one unit, for cells that share a
    data set.

    Modes with the same use and placing share their objects. Cells that differ in the
    weights of the loss alone also share their plans, which are computed once.
    """
    objects: dict[tuple[ModeSpec, str, bool], Objects] = {}
    planned: list[tuple[CellSpec, UnitPlans]] = []
    for spec in specs:
        rule = spec.acting
        same = [unit_plan for other, unit_plan in planned if _plans_alike(other, spec)]
        if same:
            yield replace(same[0], outcomes=reweight(same[0].outcomes, rule))
            continue
        data = unit_data(spec, unit)
        for mode in spec.modes:
            key = (mode, spec.geometry, spec.persistence)
            objects[key] = (
                objects[key]
                if key in objects
                else objects_of_mode(spec, data, mode.name)
            )
        mode_objects = {
            mode.name: objects[mode, spec.geometry, spec.persistence]
            for mode in spec.modes
        }
        plans = branches(rule, data.scene, mode_objects, data.run)
        inputs = {**data.run, "inputs": input_frames(spec, data.scene)}
        outcomes = unit_outcomes(
            rule, data.scene, data.truth, branches=plans, run=inputs
        )
        planned.append((spec, UnitPlans(data, mode_objects, plans, outcomes)))
        yield planned[-1][1]


def input_frames(spec: CellSpec, scene: Scene) -> Bool[np.ndarray, "time"]:
    """Frames that the specification does not leave out."""
    marks = np.ones(len(scene), dtype=bool)
    frames = np.array(spec.left_out.get(scene.unit, ()), dtype=int)
    marks[frame_index(frames, scene, path=Path("left_out"))] = False
    return marks


def _plans_alike(one: CellSpec, other: CellSpec) -> bool:
    """Whether two cells of the same data set make the same plans."""
    alike = (one.modes, one.geometry, one.persistence) == (
        other.modes,
        other.geometry,
        other.persistence,
    )
    return (
        alike
        and one.rule is not None
        and other.rule is not None
        and same_plans(one.rule, other.rule)
    )


def _before_escalation(data: UnitData, outcomes: Outcomes) -> dict[str, np.ndarray]:
    """Columns that are available before escalation: ego speed, cheap boxes,
    deceleration that cheap boxes require.
    """
    scene, cheap = data.scene, next(iter(data.used.values()))
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
    """Scores of a mode's detections on a unit and whether each is right, to fit a
    calibration on.
    """
    return unit_data(spec, unit).scores(mode)


def shared_part(
    spec: CellSpec, unit: str, calibrations: Mapping[str, Calibration]
) -> SharedPart:
    """The part of one unit that all cells of the specification's data set and modes
    share.
    """
    data = unit_data(spec, unit)
    scene, truth = data.scene, data.truth
    cheap, full = spec.modes[0], spec.modes[-1]
    marks = data.used[cheap.name].run & data.used[full.name].run
    ends = {"cheap": cheap.name, "full": full.name}
    in_image = {
        end: perception_losses(data.used[mode], truth, match=data.matching(mode))
        for end, mode in ends.items()
        if data.used[mode].has_boxes
    }
    used = {end: data.used[mode] for end, mode in ends.items()}
    solid = all(has_ground_boxes(detections, scene) for detections in used.values())
    on_ground = {
        end: ground_losses(detections, truth, scene=scene)
        for end, detections in used.items()
        if solid
    }
    evidence, on_ground = (
        {
            f"{end}_{name}": column[marks]
            for end, losses in by_end.items()
            for name, column in losses.items()
        }
        for by_end in (in_image, on_ground)
    )
    evidence["reference_required_mps2"] = required_deceleration_mps2(
        truth.objects, scene.ego_speed_mps
    )[marks]
    graded = [
        _graded_detections(data, mode, calibrations.get(mode.name), marks)
        for mode in (cheap, full)
    ]
    return SharedPart(
        scene=scene,
        cheap=data.reported[cheap.name],
        inputs=scene.inputs[marks],
        evidence=evidence,
        on_ground=on_ground,
        graded=None
        if graded[0] is None or graded[1] is None
        else (graded[0], graded[1]),
        covered={mode: coverage(detections) for mode, detections in data.used.items()},
    )


def _graded_detections(
    data: UnitData,
    mode: ModeSpec,
    calibration: Calibration | None,
    marks: Bool[np.ndarray, "time"],
) -> GradedFrames | None:
    """Detections of a mode from a low probability on, right or wrong; None where it has
    no probabilities.
    """
    report = data.reported[mode.name]
    if calibration is not None:
        report = calibrate(report, calibration)
    elif mode.reader is None or mode.reader.scores != "probabilities":
        return None
    if not report.has_boxes:
        return None
    likely = report.score >= LEAST_SCORE
    candidates = data.candidates(mode.name).where(likely)
    return graded_frames(
        report.where(likely), data.truth, frames=marks, candidates=candidates
    )


def variant_tables(
    variants: Sequence[CellSpec],
    like: ValueTable,
    *,
    watch: Watch = unwatched,
    label: str = "variants",
) -> list[ValueTable]:
    """The losses of each variant on the inputs of a table, with the table's list of
    units.

    Args:
        variants: Variants of one cell, with the data at hand.
        like: Losses of the cell; only its inputs are judged, so that variants are
            compared on the same inputs.
        watch: Shows the progress.
        label: Text of the progress.
    """
    units = [str(like.unit_ids[index]) for index in sorted(set(like.unit.tolist()))]
    parts = [
        [unit_plan.outcomes for unit_plan in unit_plans(variants, unit)]
        for unit in watch(units, label)
    ]
    tables = []
    for outcomes in map(join_outcomes, zip(*parts, strict=True)):
        table = outcomes.table().with_units(like.unit_ids)
        tables.append(table.keep(positions(table.input, like.input) >= 0))
    return tables


def with_changes(spec: CellSpec, changes: Mapping[str, float]) -> CellSpec:
    """The cell with some constants of its downstream system changed."""
    changed = with_constants(spec.acting, changes)
    return replace(spec, rule=changed, constants=constants(changed))


def constant_of(spec: CellSpec, name: str) -> float:
    """One constant of the cell's downstream system, by its field name or by its plain
    name.
    """
    rule = spec.acting
    numbers = settable(rule)
    field = rule.also_called.get(name, name)
    if field not in numbers:
        raise InputError(
            f"{spec.system}: a constant "
            f"must be one of {', '.join(sorted(numbers)) or 'none'}; found {name!r}."
        )
    return numbers[field][1]
