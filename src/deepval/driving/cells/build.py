"""Specifications -> cells: a map over units, then a combine of their parts into tables,
views and evidence.

The combine computes the quantities that need many units: the map from raw scores to
probabilities from the training units, and routing objectives from the fit units. The
same specification gives the same bytes, in whatever process and order the units were
mapped.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError
from deepval.basics.progress import Watch, unwatched
from deepval.basics.workers import Map
from deepval.driving.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.driving.cells.stored_parts import (
    FinishedUnit,
    SharedPart,
    UnitFiles,
    UnitPart,
)
from deepval.driving.cells.unit import (
    scored_outcomes,
    shared_part,
    unit_parts,
    units_in_memory,
)
from deepval.driving.cells.view_files import picture_files, view_files
from deepval.driving.evidence import ROUTING, role_column
from deepval.driving.perception.reported.ap_swap import join_units
from deepval.driving.perception.reported.detections import (
    Calibration,
    check_coverage,
    check_scenes,
    check_whole,
)
from deepval.driving.perception.reported.losses import LOSSES, fit_calibration
from deepval.driving.systems import System
from deepval.driving.systems.outcomes import Outcomes, join_outcomes
from deepval.driving.views import CheapMode, View
from deepval.judge.report.text_tables import quantity
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable

MOST_HELD = 32
"""Most units that a build holds in memory."""


def finished_units(
    requested: Sequence[CellSpec],
    calibrations: Mapping[str, Calibration],
    *,
    map_units: Map,
    watch: Watch,
    files: UnitFiles | None,
) -> list[FinishedUnit]:
    """Every unit of the cells; those with a file are read, the others are computed.

    Each is written as soon as it is computed, so that a stopped build continues there.
    """
    units = requested[0].units
    finished: dict[int, FinishedUnit] = {}
    if files is not None:
        for number in range(len(units)):
            unit = files.read(number)
            if unit is not None:
                finished[number] = unit
    lacking = [number for number in range(len(units)) if number not in finished]
    work = partial(_finished_unit, tuple(requested), calibrations)
    computed = map_units(work, [units[number] for number in lacking])
    watched = watch(lacking, f"units of {requested[0].dataset}")
    for number, unit in zip(watched, computed, strict=True):
        if files is not None:
            files.write(number, unit)
        finished[number] = unit
    return [finished[number] for number in range(len(units))]


def _finished_unit(
    requested: tuple[CellSpec, ...], calibrations: Mapping[str, Calibration], unit: str
) -> FinishedUnit:
    shared = shared_part(requested[0], unit, calibrations)
    return FinishedUnit(shared, unit_parts(requested, unit))


@dataclass(frozen=True, eq=False)
class Shared:
    """The parts that cells of one data set and modes share: views, and evidence for
    labels and diagnostics.
    """

    spec: CellSpec
    parts: tuple[SharedPart, ...]
    calibrations: Mapping[str, Calibration]

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
        for column, objective in zip(values.values(), ROUTING, strict=True):
            with suppress(InputError) if lenient else nullcontext():
                column[inside] = objective.frame_values(weak, strong)
        return values


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell in memory.

    Attributes:
        spec: Everything that the cell depends on.
        parts: Its units: loss terms, drawn frames and objects.
        shared: Views and evidence, shared with other cells of the same data set and
            modes.
    """

    spec: CellSpec
    parts: Sequence[UnitPart]
    shared: Shared

    def __post_init__(self) -> None:
        if not any(len(part.outcomes.input) for part in self.parts):
            raise InputError(
                f"{self.id}: no frame can be judged; all modes must "
                "have been run on some frame."
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
    def outcomes(self) -> Outcomes:
        """The loss terms, unit after unit."""
        return join_outcomes([part.outcomes for part in self.parts])

    @cached_property
    def table(self) -> ValueTable:
        """The losses to judge on."""
        return self.outcomes.table(_common_columns([part.known for part in self.parts]))

    @property
    def shown(self) -> list[Mapping[str, dict[str, Any]]]:
        """The most harmed and most helped frames, drawn, unit by unit."""
        return [part.shown for part in self.parts]

    @property
    def system_evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Evidence of the cell's own system, per input of the table."""
        return _common_columns([part.evidence for part in self.parts])

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The data that an allocator may use, unit by unit: shared views, with objects
        where the placing observes.
        """
        views = []
        for view, part in zip(self.shared.views, self.parts, strict=True):
            if part.observed is not None:
                view = view.observing(*part.observed)
            views.append(view)
        return tuple(views)

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
        } | self.system_evidence


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
    unit_folder: Path | None = None,
) -> Iterator[Cell]:
    """The cells of specifications that share a data set and modes, one after the other.

    Args:
        requested: The cells to build, as `spec.specs` returns them.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Shows the progress of long loops.
        unit_folder: Folder for the finished units of this build, from which it
            continues if it is stopped; None writes none. Views of units that are read
            from it have neither pictures nor lane maps.
    """
    files = None if unit_folder is None else UnitFiles(unit_folder, requested)
    # A calibration reads the training units before their parts are computed: hold them,
    # so that each is read once.
    with units_in_memory(
        min(len(requested[0].units), MOST_HELD) if _raw_modes(requested[0]) else 1
    ):
        calibrations = _calibrations(requested[0], map_units)
        units = finished_units(
            requested, calibrations, map_units=map_units, watch=watch, files=files
        )
    shared = Shared(requested[0], tuple(unit.shared for unit in units), calibrations)
    _check_coverage(shared.spec, shared.parts, strict=strict)
    for place, spec in enumerate(requested):
        yield Cell(spec, [unit.own[place] for unit in units], shared)


def _common_columns(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns of all units: a unit without detections does not reveal whether its
    mode reports image boxes.
    """
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _calibrations(spec: CellSpec, map_units: Map) -> dict[str, Calibration]:
    """The map from raw scores to probabilities of the cheapest and the fullest mode,
    fitted on training units.
    """
    train = [unit for unit in spec.units if unit in set(spec.roles.train)]
    calibrations = {}
    for mode in _raw_modes(spec):
        graded = list(map_units(partial(scored_outcomes, spec, mode=mode.name), train))
        calibrations[mode.name] = fit_calibration(graded, mode.name)
    return calibrations


def _raw_modes(spec: CellSpec) -> list[ModeSpec]:
    """Those of the cheapest and the fullest mode that have raw scores, which must be
    calibrated.
    """
    ends = (spec.modes[0], spec.modes[-1])
    return [
        mode for mode in ends if mode.reader is not None and mode.reader.scores == "raw"
    ]


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
