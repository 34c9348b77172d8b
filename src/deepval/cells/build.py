"""Specifications -> cells: a map over units, then a combine of their parts into tables, views and evidence.

What needs many units is found in the combine: the map from raw scores to probabilities from the training units, routing
objectives from the fit units. The same specification gives the same bytes, whoever mapped the units and in what order.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.cells.kept_parts import (
    Arrays,
    KeptPart,
    PartStore,
    made_of,
    own_settings,
    shared_arrays,
    shared_of,
    slots,
    unit_arrays,
    unit_of,
    unit_rests_on,
)
from deepval.cells.spec import CellSpec, Material, specs
from deepval.cells.unit import Observed, SharedPart, UnitPart, scored_outcomes, shared_part, unit_parts
from deepval.cells.view_files import picture_files, view_files
from deepval.diagnostics import role_column
from deepval.engines import Map
from deepval.errors import InputError
from deepval.features.views import CheapMode, View
from deepval.files.canonical import digest_of, plain
from deepval.perception.reported.ap_swap import GradedFrames, numbered_on
from deepval.perception.reported.detections import Calibration, check_coverage, check_scenes, check_whole
from deepval.perception.reported.losses import LOSSES
from deepval.perception.reported.matching import GradedScores, fit_calibration
from deepval.progress import Watch, unwatched
from deepval.systems import System
from deepval.systems.outcomes import Outcomes, joined
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable
from deepval.targets.objectives import ROUTING, RoutingObjective


class Lacking(NamedTuple):
    """A unit to work on: whether what all cells share of it is lacking, and of which cells their own part is."""

    unit: str
    shared: bool
    own: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class UnitMap:
    """A map over units.

    Attributes:
        wanted: What is built.
        map_units: How units are mapped.
        watch: Who is told how far it is.
        store: Who keeps what is made; nobody where None.
    """

    wanted: tuple[CellSpec, ...]
    map_units: Map = map
    watch: Watch = unwatched
    store: PartStore | None = None

    @cached_property
    def _read(self) -> dict[str, dict[str, Any] | None]:
        """What the reading of each unit rests on."""
        first = self.wanted[0]
        return {unit: None if self.store is None else unit_rests_on(first, unit) for unit in first.units}

    def _at(self, unit: str, slot: str, told: Mapping[str, Any]) -> KeptPart:
        read = self._read[unit]
        return KeptPart(self.store, slot, None if read is None else {**read, **told})

    def scores(self, mode: str, units: Sequence[str]) -> list[GradedScores]:
        """Scores of a mode's detections on some units, and whether each is right."""
        first = self.wanted[0]
        told, slot = {"part": "scores", "mode": mode}, slots(first.definition)[0]
        places = {unit: self._at(unit, slot, told) for unit in units}
        found = {unit: GradedScores(**kept) for unit, at in places.items() if (kept := at.found()) is not None}
        lacking = [unit for unit in units if unit not in found]
        made = self.map_units(partial(scored_outcomes, first, mode=mode), lacking)
        for unit, part in zip(lacking, made, strict=True):
            places[unit].keep(part._asdict())
            found[unit] = part
        return [found[unit] for unit in units]

    def parts(self, calibrations: Mapping[str, Calibration]) -> tuple[list[SharedPart], list[list[UnitPart]]]:
        """What all cells share, unit by unit, and the parts of each cell, likewise."""
        wanted, units = self.wanted, self.wanted[0].units
        told = {"part": "shared", "calibrations": digest_of(plain(calibrations))}
        slot, shown = slots(wanted[0].definition)[0], set(wanted[0].roles.test)
        shared_at = {unit: self._at(unit, slot, told) for unit in units}
        own_at = []
        for spec in wanted:
            slot, told = slots(spec.definition)[1], own_settings(spec)
            own_at.append({unit: self._at(unit, slot, {**told, "shown": unit in shown}) for unit in units})
        shared = {unit: shared_of(kept, unit) for unit, at in shared_at.items() if (kept := at.found()) is not None}
        own = [
            {unit: unit_of(kept, spec, unit) for unit, at in places.items() if (kept := at.found()) is not None}
            for spec, places in zip(wanted, own_at, strict=True)
        ]
        each = [Lacking(u, u not in shared, tuple(i for i, held in enumerate(own) if u not in held)) for u in units]
        lacking = [unit for unit in each if unit.shared or unit.own]
        made = self.map_units(partial(_parts, wanted, calibrations), lacking)
        watched = self.watch(lacking, f"units of {wanted[0].dataset}")
        for (unit, _, places), (common, parts) in zip(watched, made, strict=True):
            if common is not None:
                shared_at[unit].keep(shared_arrays(common))
                shared[unit] = common
            for place, part in zip(places, parts, strict=True):
                own_at[place][unit].keep(unit_arrays(part))
                own[place][unit] = part
        return [shared[unit] for unit in units], [[held[unit] for unit in units] for held in own]


def _parts(
    specs: tuple[CellSpec, ...], calibrations: Mapping[str, Calibration], lacking: Lacking
) -> tuple[SharedPart | None, list[UnitPart]]:
    """All that is lacking of one unit."""
    shared = shared_part(specs[0], lacking.unit, calibrations) if lacking.shared else None
    return shared, unit_parts([specs[place] for place in lacking.own], lacking.unit) if lacking.own else []


@dataclass(frozen=True, eq=False)
class Shared:
    """What the cells of one data set and its modes share: views, and evidence for labels and diagnostics."""

    spec: CellSpec
    parts: tuple[SharedPart, ...]
    calibrations: Mapping[str, Calibration]
    store: PartStore | None = field(default=None, repr=False)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What an allocator may look at, unit by unit: scene and the cheap mode's report, never the reference."""
        cheap = self.spec.modes[0]
        assert cheap.reader is not None
        mode = CheapMode(cheap.reader.scores, cheap.threshold, self.calibrations.get(cheap.name))
        return tuple(View(part.scene, part.cheap, mode) for part in self.parts)

    @cached_property
    def view_files(self) -> dict[str, bytes]:
        """The views as files of a cell's folder."""
        return view_files(self.views)

    @cached_property
    def picture_files(self) -> dict[str, bytes]:
        """Their pictures as files, drawn or read once for all cells."""
        return picture_files(self.views)

    @cached_property
    def inputs(self) -> Shaped[np.ndarray, "input"]:
        """Ids of the frames on which both ends of the ladder were run."""
        return np.concatenate([part.inputs for part in self.parts])

    @cached_property
    def evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Columns for labels and diagnostics, per input of `inputs`.

        Perception losses of both modes (on the ground where both report 3D boxes and not both image boxes) and what
        the reference requires; where both modes have probabilities also the routing objectives, which look at many
        frames: found once from the fit units only and once from the training units only, NaN elsewhere, so that who
        fits on training units has not seen validation frames.
        """
        columns = _of_all([part.evidence for part in self.parts])
        if not {"cheap_E1", "full_E1"} <= columns.keys():
            on_ground = _of_all([part.on_ground for part in self.parts])
            columns = {name: columns[name] for name in columns if not (on_ground and name[-2:] in LOSSES)} | on_ground
        if all(part.graded is not None for part in self.parts):
            for role in ("fit", "train"):
                columns |= self._routed(role)
        return columns

    def _routed(self, role: str) -> dict[str, Float[np.ndarray, "input"]]:
        """The routing objectives of a role's units, found from those alone, NaN elsewhere."""
        chosen = np.isin(self.spec.units, getattr(self.spec.roles, role))
        parts = [part for part, inside in zip(self.parts, chosen, strict=True) if inside and len(part.inputs)]
        inside = np.repeat(chosen, [len(part.inputs) for part in self.parts])
        values = {role_column(each.column, role): np.full(len(inside), np.nan) for each in ROUTING}
        graded = [part.graded for part in parts if part.graded is not None]
        # A cell whose training units alone have nothing to find is a cell: there is only nothing to learn there.
        lenient = role == "train"
        if not graded and (lenient or not self.spec.roles.fit):
            return values
        weak, strong = (numbered_on([pair[end] for pair in graded]) for end in (0, 1))
        slot = slots(self.spec.definition)[0]
        for column, objective in zip(values.values(), ROUTING, strict=True):
            make = partial(_found, objective)
            with suppress(InputError) if lenient else nullcontext():
                found = made_of([weak, strong], make, what=repr(objective), slot=slot, store=self.store)
                column[inside] = found["objective"]
        return values


def _found(objective: RoutingObjective, weak: GradedFrames, strong: GradedFrames) -> Arrays:
    return {"objective": objective.found(weak, strong)}


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell in memory.

    Attributes:
        spec: Everything that it rests on.
        table: The losses to judge on.
        outcomes: Plans and loss terms behind them.
        shown: The frames that matter, drawn, unit by unit.
        shared: Views and evidence, shared with other cells of the same data set and modes.
        observed: What the planner is given by the cheap mode, unit by unit, where the placing observes.
        told: Evidence of its own system, per input of the table.
    """

    spec: CellSpec
    table: ValueTable
    outcomes: Outcomes
    shown: Sequence[Mapping[str, dict[str, Any]]] = field(repr=False)
    shared: Shared = field(repr=False)
    observed: Sequence[Observed | None] = field(repr=False)
    told: Mapping[str, Float[np.ndarray, "input"]] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """Its id."""
        return self.spec.id

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What an allocator may look at, unit by unit: the shared views, with objects where the placing observes."""
        pairs = zip(self.shared.views, self.observed, strict=True)
        return tuple(view if seen is None else view.observing(*seen) for view, seen in pairs)

    @property
    def view_files(self) -> dict[str, bytes]:
        """The views as files of a cell's folder."""
        return view_files(self.views) if self.views[0].mode.observes else self.shared.view_files

    @property
    def evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Columns for labels and diagnostics, per input of the table."""
        rows = positions(self.table.input, self.shared.inputs)
        return {name: column[rows] for name, column in self.shared.evidence.items()} | dict(self.told)


def cells(
    material: Material,
    *,
    geometries: Sequence[str] = ("monocular",),
    systems: Sequence[str | System] = ("braking",),
    persistence: bool = False,
    strict: bool = False,
    watch: Watch = unwatched,
) -> Iterator[Cell]:
    """Every combination of geometry and system on a material; arguments as for `spec.specs` and `built`."""
    wanted = specs(material, geometries=geometries, systems=systems, persistence=persistence)
    yield from built(wanted, strict=strict, watch=watch)


def built(
    wanted: Sequence[CellSpec],
    *,
    strict: bool = False,
    map_units: Map = map,
    watch: Watch = unwatched,
    store: PartStore | None = None,
) -> Iterator[Cell]:
    """The cells of specifications that share a data set and modes, one after the other.

    Args:
        wanted: What to build, as `spec.specs` makes them.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Who is told how far long loops are.
        store: Who keeps what is made of units, so that the next build works on those that changed; nobody where None.
            Views of units that were kept have neither pictures nor lane maps.
    """
    units = UnitMap(tuple(wanted), map_units, watch, store)
    calibrations = _calibrations(units)
    shared_parts, own_parts = units.parts(calibrations)
    shared = Shared(wanted[0], tuple(shared_parts), calibrations, store)
    _check_coverage(shared.spec, shared.parts, strict=strict)
    for spec, parts in zip(wanted, own_parts, strict=True):
        yield _cell(spec, parts, shared)


def _cell(spec: CellSpec, parts: Sequence[UnitPart], shared: Shared) -> Cell:
    outcomes = joined([part.outcomes for part in parts])
    if not len(outcomes.input):
        raise InputError(f"{spec.id}: no frame can be judged; all modes must have been run on some frame.")
    known = _of_all([part.known for part in parts])
    table = ValueTable.from_columns(
        unit=outcomes.unit, input=outcomes.input, losses=outcomes.losses, order=outcomes.order, attributes=known
    )
    table = replace(table, tolerance=outcomes.system.tolerance)
    shown, observed = [part.shown for part in parts], [part.observed for part in parts]
    told = _of_all([part.evidence for part in parts])
    return Cell(spec, table, outcomes, shown, shared, observed, told)


def _of_all(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns that every unit has: a unit without detections does not tell whether its mode gives image boxes."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _calibrations(units: UnitMap) -> dict[str, Calibration]:
    """The map from raw scores to probabilities of both ends of the ladder, fitted on the training units."""
    spec, found = units.wanted[0], {}
    slot, chosen = slots(spec.definition)[0], set(spec.roles.train)
    train = [unit for unit in spec.units if unit in chosen]
    for mode in (spec.modes[0], spec.modes[-1]):
        if mode.reader is not None and mode.reader.scores == "raw":
            parts, make = units.scores(mode.name, train), partial(_fitted, mode.name)
            found[mode.name] = Calibration(**made_of(parts, make, what="calibration", slot=slot, store=units.store))
    return found


def _fitted(mode: str, *parts: GradedScores) -> Arrays:
    return vars(fit_calibration(parts, mode))


def _check_coverage(spec: CellSpec, parts: Sequence[SharedPart], *, strict: bool) -> None:
    covered = {mode: {part.scene.unit: part.covered[mode.name] for part in parts} for mode in spec.modes}
    for mode, units in covered.items():  # what refuses the build comes before any note
        if mode.reader is not None and mode.reader.whole:
            check_whole(mode.name, units)
        if mode.reader is not None and mode.reader.by_scene:
            check_scenes(mode.name, units)
    for mode, units in covered.items():
        scored = mode.reader is not None and mode.reader.scores != "none"
        if mode.reader is None or not mode.reader.given:
            check_coverage(mode.name, units, scored=scored, strict=strict)
