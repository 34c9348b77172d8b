"""Names of folders, specification files and tracks -> built cells, and why other cells
cannot be built here.

Cells of specifications and tracks are built in a work folder, one folder per cell id.
They are reused as long as their files are unaltered and the version of deepval and the
user's own code are the same. Each finished unit is written to a file, so that a build
that was stopped continues; the files go when the cells are built.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

from deepval.basics import plugins
from deepval.basics.errors import InputError, UnfinishedError, suggestion
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    MANIFEST,
    digest_of,
    json_text,
    plain,
    read_json,
    sha256,
)
from deepval.basics.files.writing import check_writable, lock, write_atomically
from deepval.basics.progress import Watch, unwatched
from deepval.basics.workers import Map
from deepval.deploy.board.store import versions
from deepval.deploy.board.track_data import (
    LocalCells,
    RunEstimate,
    Step,
    estimate,
    local_cells,
)
from deepval.deploy.board.tracks import (
    KITTI,
    NAMES,
    TrackCell,
    cells_named,
    read_tracks,
)
from deepval.driving.cells.build import Cell, built
from deepval.driving.cells.folder import BuiltCell, read_cell, write
from deepval.driving.cells.sources import (
    BuildGroup,
    ModeFile,
    from_files,
    is_specification,
    read_specification,
    synthetic,
)
from deepval.driving.cells.spec import CellSpec, Material, specs
from deepval.driving.cells.view_files import PICTURES
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.judge.tables.costs import costs_bytes

UNITS = ".units"
"""The folder of finished units is hidden, so that the pattern `cells/*` matches cells
only.
"""


@contextmanager
def unit_folder(root: Path, requested: Sequence[CellSpec]) -> Iterator[Path | None]:
    """The folder for the finished units of cells that are built in a folder; None where
    a data set does not say what its units depend on.

    A build that is refused leaves nothing behind, one that is stopped otherwise
    continues from its finished units, and one that ends removes them.
    """
    key = _build_key(requested)
    if key is None:
        yield None
        return
    folder = root / UNITS
    own = folder / key
    is_new = not reading.exists(own)
    new = [parent for parent in (folder, *folder.parents) if not reading.exists(parent)]
    with lock(folder):
        try:
            yield own
        except UnfinishedError:
            raise
        except (Exception, SystemExit) as error:
            if not isinstance(error, InputError) and plugins.complaint(error) is None:
                raise
            if is_new:
                rmtree(own, ignore_errors=True)
            for parent in new:
                with suppress(OSError):  # the files of other processes stay
                    parent.rmdir()
            raise
    # If another process builds in this folder, the one that ends last cleans up; what
    # builds that were stopped left goes, too.
    with suppress(InputError), lock(folder, "busy"):
        for left in reading.entries(folder):
            rmtree(left, ignore_errors=True)


def _build_key(requested: Sequence[CellSpec]) -> str | None:
    """Digest of everything that the units of cells depend on; None if that is not known
    before they are read.
    """
    source = requested[0].source
    if source is None:
        return None
    beside = {unit: source.beside(unit) for unit in requested[0].units}
    if None in beside.values():
        return None
    return digest_of(
        {
            "cells": [spec.definition for spec in requested],
            "beside": plain(beside),
            "by": _builder(),
        }
    )[:24]


def _builder() -> dict[str, Any]:
    """What builds cells: our version, and the code that the user named."""
    return {"versions": versions(), "code": plugins.digest()}


BUILT_BY = "built-by.json"
"""File in a cell's folder: the version and the own code that built it; number of frames
on which both outer modes were run.
"""


@dataclass(frozen=True)
class CurrentCell:
    """A cell in a folder that is up to date.

    Attributes:
        cell: The cell.
        frames: Number of frames on which both its cheapest and its fullest mode ran.
    """

    cell: BuiltCell
    frames: int


def rebuild(
    missing: Sequence[CellSpec],
    root: Path,
    folder_of: Callable[[CellSpec], Path],
    *,
    costs: Path | None,
    pictures: bool = False,
    strict: bool = False,
    map_units: Map = map,
    watch: Watch = unwatched,
) -> Iterator[Cell]:
    """Builds and writes cells that are not up to date; a build that was stopped
    continues.

    Args:
        missing: Cells to build; they share a data set and modes.
        root: The folder in which they are built, and for their finished units.
        folder_of: Returns the folder of a cell.
        costs: Costs to put into each cell.
        pictures: Whether to store thumbnails. Changes of images are not detected, so
            every unit is then read again.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Reports progress.
    """
    for spec in missing:
        _refuse_namesakes(spec, folder_of(spec))
    finished = nullcontext() if pictures else unit_folder(root, missing)
    with finished as units:
        for cell in built(
            missing,
            strict=strict,
            map_units=map_units,
            watch=watch,
            unit_folder=units,
        ):
            folder = folder_of(cell.spec)
            write(cell, folder, costs=costs, pictures=pictures)
            note_builder(cell, folder)
            yield cell


def _refuse_namesakes(spec: CellSpec, folder: Path) -> None:
    """Raise where a folder holds a cell that other code of the user's built under the
    same name.
    """
    recorded: Mapping[str, plugins.Code] = {}
    # whatever else is in the folder, the build replaces it
    with suppress(InputError):
        recorded = read_cell(folder).code
    for kind, code in spec.code.items():
        plugins.refuse_namesake(recorded.get(kind), code, folder)


def note_builder(cell: Cell, folder: Path) -> None:
    """Write the file in a cell's folder that shows whether the cell is up to date."""
    content = {**_builder(), "frames": len(cell.shared.inputs)}
    write_atomically(folder / BUILT_BY, json_text(content, sort_keys=True))


def current_cell(
    spec: CellSpec, folder: Path, *, costs: Path | None, pictures: bool = False
) -> CurrentCell | None:
    """The cell in a folder, or None unless it is the specified one, unaltered, with
    these costs, built by this code.
    """
    try:
        content = read_json(folder / BUILT_BY)
        frames = int(content["frames"])
        built_by = {name: content[name] for name in ("versions", "code")}
        cell = read_cell(folder)
    except (InputError, KeyError, TypeError, ValueError):
        return None
    files, costs_digest = (
        cell.manifest.files,
        None if costs is None else sha256(costs_bytes(costs)),
    )
    same = (
        built_by == _builder()
        and digest_of(cell.definition) == digest_of(plain(spec.definition))
        and files.get("costs.toml") == costs_digest
        and any(name.startswith(f"{PICTURES}/") for name in files) == pictures
    )
    return CurrentCell(cell, frames) if same else None


WORK = Path("deepval-work")
"""Default folder in which cells are built."""


@dataclass(frozen=True)
class FoundCells:
    """Cells that are available for judging.

    Attributes:
        cells: Built cells by the path of their folder, which may lie in the work
            folder.
        specs: Specifications, with their data, of the cells that were built from one;
            by the same paths.
        lacking: What this machine or version lacks to build a track's cell, as
            sentences by the cell's id.
    """

    cells: Mapping[str, BuiltCell] = field(default_factory=dict)
    specs: Mapping[str, CellSpec] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CellSources:
    """The cells that names refer to, before any is built.

    Attributes:
        folders: Folders of cells that are built.
        groups: Groups of cells to build.
        lacking: What this machine or version lacks to build a track's cell, as
            sentences by the cell's id.
        notes: How many frames of each data set of local cells have a picture.
    """

    folders: tuple[Path, ...]
    groups: tuple[BuildGroup, ...]
    lacking: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


def find_cells(
    names: Sequence[str | Path],
    *,
    data: Path | None = None,
    work: Path = WORK,
    code: Sequence[str] = (),
    watch: Watch = unwatched,
    step: Step | None = None,
) -> FoundCells:
    """The named cells; those of specifications and tracks are built in the work folder.

    Args:
        names: Cell folders, folders of cell folders, specification files, a cell's
            manifest, or names of tracks.
        data: Folder with kitti_tracking, nuscenes and so on, for tracks and
            specifications.
        work: Folder to build in.
        code: Words of the user's own code that specifications may name.
        watch: Reports progress.
        step: Reports progress of detectors.
    """
    sources = cell_sources(
        names, data=data, work=work, code=code, watch=watch, step=step
    )
    cells = {str(folder): read_cell(folder) for folder in sources.folders}
    cell_specs: dict[str, CellSpec] = {}
    for group in sources.groups:
        for spec, cell in build_group(group, work, watch=watch):
            cells[str(cell.folder)], cell_specs[str(cell.folder)] = cell, spec
    return FoundCells(cells, cell_specs, sources.lacking)


def cell_sources(
    names: Sequence[str | Path],
    *,
    data: Path | None = None,
    work: Path = WORK,
    code: Sequence[str] = (),
    map_units: Map = map,
    watch: Watch = unwatched,
    step: Step | None = None,
    announce: Callable[[RunEstimate], None] | None = None,
) -> CellSources:
    """The cells that names refer to; an error where a name does not exist or a cell
    appears twice.

    Args:
        names: Cell folders, folders of cell folders, specification files, a cell's
            manifest, tracks or their cells.
        data: Folder with kitti_tracking, nuscenes and so on.
        work: Folder in which the detections of local cells of tracks are made.
        code: Words of the user's own code that specifications may name.
        map_units: How the units of detectors are mapped.
        watch: Reports progress.
        step: Reports progress of detectors.
        announce: Called with the expected time and disk before any detector runs.
    """
    folders: list[Path] = []
    to_build: list[BuildGroup] = []
    local: list[LocalCells] = []
    inputs: list[int] = []
    lacking: dict[str, tuple[str, ...]] = {}
    for name in map(str, names):
        path = Path(name)
        if (
            path.name == MANIFEST
            and reading.is_file(path)
            and not is_specification(path)
        ):
            folders.append(path.parent)
        elif is_specification(path):
            to_build += read_specification(path, data, code=code)
        elif reading.exists(path) and (name not in NAMES or _cells_in(path) != [path]):
            folders += _cells_in(path)
        elif cells := cells_named(name):
            published = [cell for cell in cells if cell.published]
            groups, missing = track_cells(published, data)
            to_build += groups
            inputs += [
                cell.definition["dataset"]["inputs"]
                for cell in published
                if cell.id not in missing
            ]
            own = [cell for cell in cells if not cell.published]
            available, lacks = local_cells(own, data, work, watch)
            local.append(available)
            lacking |= missing | lacks
        else:
            names_of_cells = [
                cell.name for track in read_tracks() for cell in track.cells
            ]
            raise InputError(
                f"{name}: must be a cell's folder, a folder of cells, a specification "
                f"(.toml, .json), a track ({', '.join(NAMES)}) or a cell of a track; "
                "there is no "
                "such "
                f"file, track or cell{suggestion(name, (*NAMES, *names_of_cells))}"
            )
    for item in local:
        inputs += [
            sum(map(len, item.pictures[c.definition["dataset"]["name"]].units.values()))
            for c in item.cells
        ]
    if announce is not None and inputs:
        announce(estimate(local, inputs))
    for item in local:
        to_build += _local_groups(item, work, map_units, step)
    _refuse_repeated([str(reading.resolve(folder)) for folder in folders])
    _refuse_repeated([spec.id for group in to_build for spec in group.specs])
    notes = dict.fromkeys(
        pictures.note for item in local for pictures in item.pictures.values()
    )
    return CellSources(tuple(folders), tuple(to_build), lacking, tuple(notes))


def _local_groups(
    local: LocalCells, work: Path, map_units: Map, step: Step | None
) -> list[BuildGroup]:
    """The user's own cells of a track, grouped by pair of modes; their detectors are
    run first.
    """
    if local.runs:
        check_writable(work, folder=True)
    for run in local.runs.values():
        run.run(map_units, step)
    return [
        BuildGroup(
            tuple(local.specs(cells)), Path(cells[0].definition["costs"]["profile"])
        )
        for cells in _by_pair(local.cells)
    ]


def _by_pair(cells: Sequence[TrackCell]) -> list[list[TrackCell]]:
    """The cells that share modes, data set and costs."""
    pairs: dict[str, list[TrackCell]] = {}
    for cell in cells:
        kind = (
            cell.definition["modes"],
            cell.definition["dataset"],
            cell.definition["costs"],
        )
        pairs.setdefault(json.dumps(kind, sort_keys=True), []).append(cell)
    return list(pairs.values())


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("Cells must be different folders; one is named twice.")


def _cells_in(folder: Path) -> list[Path]:
    if reading.exists(folder / MANIFEST):
        return [folder]
    inner = sorted(
        path.parent
        for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}")
        for path in reading.find(folder, pattern)
    )
    return inner or [folder]


def track_cells(
    cells: Sequence[TrackCell], data: Path | None
) -> tuple[list[BuildGroup], dict[str, tuple[str, ...]]]:
    """The cells of tracks with published hashes that can be built here, grouped by
    pair; what the others lack.
    """
    missing = {cell.id: tuple(cell.missing(data)) for cell in cells}
    whole = [cell for cell in cells if not missing[cell.id]]
    lacking = {name: lines for name, lines in missing.items() if lines}
    return [_pair_to_build(pair, data) for pair in _by_pair(whole)], lacking


def _pair_to_build(cells: Sequence[TrackCell], data: Path | None) -> BuildGroup:
    """Specifications of cells that share a pair of modes; an error if one differs from
    the track's definition.
    """
    material = _material(cells[0], data)
    cell_specs = []
    for cell in cells:
        expected = cell.spec
        (spec,) = specs(
            material, geometries=[expected.geometry], systems=[expected.system]
        )
        differences = expected.differences(spec)
        if differences:
            raise InputError(
                f"{cell.id}: the built cell must be the track's; {differences[0]}."
            )
        cell_specs.append(spec)
    costs = cells[0].definition["costs"]
    return BuildGroup(tuple(cell_specs), Path(costs["profile"]) if costs else None)


def _material(cell: TrackCell, data: Path | None) -> Material:
    d = cell.definition
    if d["dataset"]["name"] == "synthetic":
        size = {name: d["dataset"]["settings"][name] for name in ("scenes", "frames")}
        limits = {name: mode["threshold"] for name, mode in d["modes"].items()}
        return synthetic(
            d["cheap_first"],
            seed=d["dataset"]["seed"],
            settings=WorldSettings(**size),
            threshold=limits,
        )
    if d["dataset"]["name"] != "kitti" or data is None:
        raise InputError(
            f"{cell.id}: this version cannot build the cell from files of a track."
        )
    root = data / KITTI
    files = []
    for name in d["cheap_first"]:
        mode = d["modes"][name]
        classes = tuple(mode["classes"]) if mode.get("classes") else None
        path = root / "detections" / mode["source"]
        files.append(
            ModeFile(name, path, mode.get("threshold"), mode["scores"], classes)
        )
    return from_files(Kitti(root), files)


def build_group(
    group: BuildGroup, work: Path, *, watch: Watch = unwatched
) -> Iterator[tuple[CellSpec, BuiltCell]]:
    """The specified cells in the work folder; missing, altered or outdated ones are
    built first.
    """
    missing = outdated(group, work)
    if missing:
        check_writable(work, folder=True)
        for _ in rebuild(
            missing,
            work,
            lambda spec: cell_folder(spec, work),
            costs=group.costs,
            watch=watch,
        ):
            pass
    for spec in group.specs:
        yield spec, read_cell(cell_folder(spec, work))


def cell_folder(spec: CellSpec, work: Path) -> Path:
    """The folder in which a specified cell is built."""
    return work / "cells" / spec.id


def outdated(group: BuildGroup, work: Path) -> list[CellSpec]:
    """The cells that are missing from the work folder, altered, or built by other
    code.
    """
    return [
        spec
        for spec in group.specs
        if current_cell(spec, cell_folder(spec, work), costs=group.costs) is None
    ]
