"""Specifications -> cells: a map over units, then a combine of their parts into tables,
views and evidence.

The combine computes the quantities that need many units: the map from raw scores to
probabilities from the training units, and routing objectives from the fit units. The
same specification gives the same bytes, in whatever process and order the units were
mapped.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.cells.stored_parts import (
    Arrays,
    Observed,
    PartStore,
    SharedPart,
    StoredPart,
    UnitPart,
    derived_arrays,
    own_settings,
    shared_arrays,
    shared_of,
    slots,
    unit_arrays,
    unit_of,
    unit_rests_on,
)
from deepval.cells.unit import scored_outcomes, shared_part, unit_parts, units_in_memory
from deepval.cells.view_files import picture_files, view_files
from deepval.diagnostics import role_column
from deepval.errors import InputError
from deepval.features.views import CheapMode, View
from deepval.files.canonical import digest_of, plain
from deepval.fit_targets import ROUTING, RoutingObjective
from deepval.perception.reported.ap_swap import GradedFrames, join_units
from deepval.perception.reported.detections import (
    Calibration,
    check_coverage,
    check_scenes,
    check_whole,
)
from deepval.perception.reported.losses import LOSSES, GradedScores, fit_calibration
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import quantity
from deepval.systems import System
from deepval.systems.outcomes import Outcomes, join_outcomes
from deepval.tables.keys import positions
from deepval.tables.values import ValueTable
from deepval.workers import Map
from deepval.world.objects import Outputs

MOST_HELD = 32
"""Most units that a build holds in memory."""


class Lacking(NamedTuple):
    """A unit to work on: whether its shared part is missing, and the indices of the
    cells whose own part is missing.
    """

    unit: str
    shared: bool
    own: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class UnitMap:
    """A map over units.

    Attributes:
        specs: The cells to build.
        map_units: How units are mapped.
        watch: Shows the progress of long loops.
        store: Stores the parts of units for the next build; None stores nothing.
    """

    specs: tuple[CellSpec, ...]
    map_units: Map = map
    watch: Watch = unwatched
    store: PartStore | None = None

    @cached_property
    def _readings(self) -> dict[str, dict[str, Any] | None]:
        """For each unit, everything that reading it depends on; None if there is no
        store or this cannot be listed.
        """
        first = self.specs[0]
        return {
            unit: None if self.store is None else unit_rests_on(first, unit)
            for unit in first.units
        }

    def _stored(self, unit: str, slot: str, settings: Mapping[str, Any]) -> StoredPart:
        reading = self._readings[unit]
        return StoredPart(
            self.store, slot, None if reading is None else {**reading, **settings}
        )

    def scores(self, mode: str, units: Sequence[str]) -> list[GradedScores]:
        """Scores of a mode's detections on some units, and whether each detection is
        right.
        """
        first = self.specs[0]
        settings, slot = {"part": "scores", "mode": mode}, slots(first.definition)[0]
        stored = {unit: self._stored(unit, slot, settings) for unit in units}
        scores = {
            unit: GradedScores(**arrays)
            for unit, part in stored.items()
            if (arrays := part.read()) is not None
        }
        lacking = [unit for unit in units if unit not in scores]
        new_parts = self.map_units(partial(scored_outcomes, first, mode=mode), lacking)
        for unit, part in zip(lacking, new_parts, strict=True):
            stored[unit].write(part._asdict())
            scores[unit] = part
        return [scores[unit] for unit in units]

    def parts(
        self, calibrations: Mapping[str, Calibration]
    ) -> tuple[list[SharedPart], list[list[UnitPart]]]:
        """The parts that all cells share, unit by unit, and for each cell its own
        parts, unit by unit.
        """
        requested, units = self.specs, self.specs[0].units
        settings = {"part": "shared", "calibrations": digest_of(plain(calibrations))}
        slot, test_units = (
            slots(requested[0].definition)[0],
            set(requested[0].roles.test),
        )
        stored_shared = {unit: self._stored(unit, slot, settings) for unit in units}
        stored_own = []
        for spec in requested:
            slot, settings = slots(spec.definition)[1], own_settings(spec)
            # Only test units have drawn frames, so a part stored for a test unit must
            # not be used for another role.
            stored_own.append(
                {
                    u: self._stored(u, slot, {**settings, "shown": u in test_units})
                    for u in units
                }
            )
        shared = {
            u: shared_of(arrays, u)
            for u, part in stored_shared.items()
            if (arrays := part.read()) is not None
        }
        own = [
            {
                u: unit_of(arrays, spec, u)
                for u, part in stored.items()
                if (arrays := part.read()) is not None
            }
            for spec, stored in zip(requested, stored_own, strict=True)
        ]
        states = [
            Lacking(
                u,
                u not in shared,
                tuple(i for i, parts in enumerate(own) if u not in parts),
            )
            for u in units
        ]
        lacking = [state for state in states if state.shared or state.own]
        new_parts = self.map_units(partial(_parts, requested, calibrations), lacking)
        watched = self.watch(lacking, f"units of {requested[0].dataset}")
        for (unit, _, indices), (common, parts) in zip(watched, new_parts, strict=True):
            # Each part is stored as soon as it is computed, so that a stopped build
            # resumes there.
            if common is not None:
                stored_shared[unit].write(shared_arrays(common))
                shared[unit] = common
            for index, part in zip(indices, parts, strict=True):
                stored_own[index][unit].write(unit_arrays(part))
                own[index][unit] = part
        return [shared[unit] for unit in units], [
            [parts[unit] for unit in units] for parts in own
        ]


def _parts(
    requested: tuple[CellSpec, ...],
    calibrations: Mapping[str, Calibration],
    lacking: Lacking,
) -> tuple[SharedPart | None, list[UnitPart]]:
    """The missing parts of one unit."""
    shared = (
        shared_part(requested[0], lacking.unit, calibrations)
        if lacking.shared
        else None
    )
    return shared, unit_parts(
        [requested[index] for index in lacking.own], lacking.unit
    ) if lacking.own else []


@dataclass(frozen=True, eq=False)
class Shared:
    """The parts that cells of one data set and modes share: views, and evidence for
    labels and diagnostics.
    """

    spec: CellSpec
    parts: tuple[SharedPart, ...]
    calibrations: Mapping[str, Calibration]
    store: PartStore | None = field(default=None, repr=False)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The data that an allocator may use, unit by unit: scene and the cheap mode's
        report, never the reference.
        """
        cheap = self.spec.modes[0]
        assert cheap.reader is not None
        mode = CheapMode(
            cheap.reader.scores, cheap.threshold, self.calibrations.get(cheap.name)
        )
        return tuple(View(part.scene, part.cheap, mode) for part in self.parts)

    @cached_property
    def view_files(self) -> dict[str, bytes]:
        """The views as files of a cell's folder."""
        return view_files(self.views)

    @cached_property
    def picture_files(self) -> dict[str, bytes]:
        """The pictures of the views as files, drawn or read once for all cells."""
        return picture_files(self.views)

    @cached_property
    def inputs(self) -> Shaped[np.ndarray, "input"]:
        """Ids of the frames on which the cheapest and the fullest mode were run."""
        return np.concatenate([part.inputs for part in self.parts])

    @cached_property
    def evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Columns for labels and diagnostics, per input of `inputs`.

        The columns are perception losses of both modes (matched on the ground where
        both report 3D boxes but not both report image boxes) and the deceleration that
        the reference requires. Where both modes have probabilities, there are also the
        routing objectives, each of which depends on many frames. They are computed once
        from the fit units only and once from the training units only, and are NaN
        elsewhere, so that a fit on training units never depends on validation frames.
        """
        columns = _common_columns([part.evidence for part in self.parts])
        if not {"cheap_E1", "full_E1"} <= columns.keys():
            on_ground = _common_columns([part.on_ground for part in self.parts])
            columns = {
                name: columns[name]
                for name in columns
                if not (on_ground and name[-2:] in LOSSES)
            } | on_ground
        if all(part.graded is not None for part in self.parts):
            for role in ("fit", "train"):
                columns |= self._routed(role)
        return columns

    def _routed(self, role: str) -> dict[str, Float[np.ndarray, "input"]]:
        """The routing objectives for the units of a role, computed from those units
        alone; NaN for other units.
        """
        chosen = np.isin(self.spec.units, getattr(self.spec.roles, role))
        parts = [
            part
            for part, inside in zip(self.parts, chosen, strict=True)
            if inside and len(part.inputs)
        ]
        inside = np.repeat(chosen, [len(part.inputs) for part in self.parts])
        values = {
            role_column(objective.column, role): np.full(len(inside), np.nan)
            for objective in ROUTING
        }
        graded = [part.graded for part in parts if part.graded is not None]
        # Training units without reference objects do not make the cell invalid: nothing
        # can be learnt from them.
        lenient = role == "train"
        if not graded and (lenient or not self.spec.roles.fit):
            return values
        weak, strong = (join_units([pair[end] for pair in graded]) for end in (0, 1))
        slot = slots(self.spec.definition)[0]
        for column, objective in zip(values.values(), ROUTING, strict=True):
            derive = partial(_objective, objective)
            with suppress(InputError) if lenient else nullcontext():
                arrays = derived_arrays(
                    [weak, strong],
                    derive,
                    what=repr(objective),
                    slot=slot,
                    store=self.store,
                )
                column[inside] = arrays["objective"]
        return values


def _objective(
    objective: RoutingObjective, weak: GradedFrames, strong: GradedFrames
) -> Arrays:
    return {"objective": objective.frame_values(weak, strong)}


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell in memory.

    Attributes:
        spec: Everything that the cell depends on.
        table: The losses to judge on.
        outcomes: Plans and loss terms behind them.
        shown: The most harmed and most helped frames, drawn, unit by unit.
        shared: Views and evidence, shared with other cells of the same data set and
            modes.
        observed: The planner's objects from the cheap mode, unit by unit, where the
            placing observes.
        outputs: The objects of the most expensive mode and of the reference, unit by
            unit.
        told: Evidence of the cell's own system, per input of the table.
    """

    spec: CellSpec
    table: ValueTable
    outcomes: Outcomes
    shown: Sequence[Mapping[str, dict[str, Any]]] = field(repr=False)
    shared: Shared = field(repr=False)
    observed: Sequence[Observed | None] = field(repr=False)
    outputs: Sequence[Outputs] = field(repr=False)
    told: Mapping[str, Float[np.ndarray, "input"]] = field(
        default_factory=dict, repr=False
    )

    def __repr__(self) -> str:
        size = (
            f"{quantity(len(self.table), 'input')} "
            f"in {quantity(len(self.table.unit_ids), 'unit')}"
        )
        return f"Cell({self.spec.name}: {size})"

    @property
    def id(self) -> str:
        """The cell's id."""
        return self.spec.id

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The data that an allocator may use, unit by unit: shared views, with objects
        where the placing observes.
        """
        pairs = zip(self.shared.views, self.observed, strict=True)
        return tuple(
            view if seen is None else view.observing(*seen) for view, seen in pairs
        )

    @property
    def view_files(self) -> dict[str, bytes]:
        """The views as files of a cell's folder."""
        return (
            view_files(self.views)
            if self.views[0].mode.observes
            else self.shared.view_files
        )

    @property
    def evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Columns for labels and diagnostics, per input of the table."""
        rows = positions(self.table.input, self.shared.inputs)
        return {
            name: column[rows] for name, column in self.shared.evidence.items()
        } | dict(self.told)


def cells(
    material: Material,
    *,
    geometries: Sequence[str] = ("monocular",),
    systems: Sequence[str | System] = ("braking",),
    persistence: bool = False,
    strict: bool = False,
    watch: Watch = unwatched,
) -> Iterator[Cell]:
    """Every combination of geometry and system on a material; arguments as for
    `spec.specs` and `built`.
    """
    requested = specs(
        material, geometries=geometries, systems=systems, persistence=persistence
    )
    yield from built(requested, strict=strict, watch=watch)


def built(
    requested: Sequence[CellSpec],
    *,
    strict: bool = False,
    map_units: Map = map,
    watch: Watch = unwatched,
    store: PartStore | None = None,
) -> Iterator[Cell]:
    """The cells of specifications that share a data set and modes, one after the other.

    Args:
        requested: The cells to build, as `spec.specs` returns them.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Shows the progress of long loops.
        store: Stores the parts of units, so that the next build works on changed units
            only; None stores nothing. Views of units read from the store have neither
            pictures nor lane maps.
    """
    units = UnitMap(tuple(requested), map_units, watch, store)
    # A calibration reads the training units before their parts are computed: hold them,
    # so that each is read once.
    with units_in_memory(
        min(len(requested[0].units), MOST_HELD) if _raw_modes(requested[0]) else 1
    ):
        calibrations = _calibrations(units)
        shared_parts, own_parts = units.parts(calibrations)
    shared = Shared(requested[0], tuple(shared_parts), calibrations, store)
    _check_coverage(shared.spec, shared.parts, strict=strict)
    for spec, parts in zip(requested, own_parts, strict=True):
        yield _cell(spec, parts, shared)


def _cell(spec: CellSpec, parts: Sequence[UnitPart], shared: Shared) -> Cell:
    outcomes = join_outcomes([part.outcomes for part in parts])
    if not len(outcomes.input):
        raise InputError(
            f"{spec.id}: no frame can be judged; all modes must "
            "have been run on some frame."
        )
    attributes = _common_columns([part.known for part in parts])
    table = ValueTable.from_columns(
        unit=outcomes.unit,
        input=outcomes.input,
        losses=outcomes.losses,
        order=outcomes.order,
        attributes=attributes,
    )
    table = replace(table, tolerance=outcomes.system.tolerance)
    drawn, observed = [part.shown for part in parts], [part.observed for part in parts]
    evidence = _common_columns([part.evidence for part in parts])
    return Cell(
        spec,
        table,
        outcomes,
        drawn,
        shared,
        observed,
        [part.outputs for part in parts],
        evidence,
    )


def _common_columns(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns of all units: a unit without detections does not reveal whether its
    mode reports image boxes.
    """
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _calibrations(units: UnitMap) -> dict[str, Calibration]:
    """The map from raw scores to probabilities of the cheapest and the fullest mode,
    fitted on training units.
    """
    spec, calibrations = units.specs[0], {}
    slot, chosen = slots(spec.definition)[0], set(spec.roles.train)
    train = [unit for unit in spec.units if unit in chosen]
    for mode in _raw_modes(spec):
        parts, derive = units.scores(mode.name, train), partial(_calibration, mode.name)
        arrays = derived_arrays(
            parts, derive, what="calibration", slot=slot, store=units.store
        )
        calibrations[mode.name] = Calibration(**arrays)
    return calibrations


def _raw_modes(spec: CellSpec) -> list[ModeSpec]:
    """Those of the cheapest and the fullest mode that have raw scores, which must be
    calibrated.
    """
    ends = (spec.modes[0], spec.modes[-1])
    return [
        mode for mode in ends if mode.reader is not None and mode.reader.scores == "raw"
    ]


def _calibration(mode: str, *parts: GradedScores) -> Arrays:
    return vars(fit_calibration(parts, mode))


def _check_coverage(
    spec: CellSpec, parts: Sequence[SharedPart], *, strict: bool
) -> None:
    covered = {
        mode: {part.scene.unit: part.covered[mode.name] for part in parts}
        for mode in spec.modes
    }
    # errors that refuse the build come before any warning
    for mode, units in covered.items():
        if mode.reader is not None and mode.reader.whole:
            check_whole(mode.name, units)
        if mode.reader is not None and mode.reader.by_scene:
            check_scenes(mode.name, units)
    for mode, units in covered.items():
        scored = mode.reader is not None and mode.reader.scores != "none"
        if mode.reader is None or not mode.reader.by_definition:
            check_coverage(mode.name, units, scored=scored, strict=strict)
