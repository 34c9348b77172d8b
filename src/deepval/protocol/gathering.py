"""Names of folders, specification files and tracks -> built cells, and why other cells cannot be built here.

Cells of specifications and tracks are built in a work folder, one folder per cell id. They are reused as long as their
files are unaltered and the code that builds cells is the same. To resume a stopped build, request the same cells again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.sources import BuildGroup, ModeFile, from_files, is_specification, read_specification, synthetic
from deepval.cells.spec import CellSpec, Material, specs
from deepval.datasets.kitti import Kitti
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.errors import suggestion as nearest
from deepval.files import reading
from deepval.files.canonical import MANIFEST
from deepval.files.writing import check_writable
from deepval.progress import Watch, unwatched
from deepval.protocol.keeping import rebuilt, standing
from deepval.protocol.tracks import KITTI, NAMES, Track, TrackCell, read_track

WORK = Path("deepval-work")
"""Default folder in which cells are built."""


@dataclass(frozen=True)
class Gathered:
    """Cells that are available for judging.

    Attributes:
        cells: Built cells by the path of their folder, which may lie in the work folder.
        specs: Specifications, with their data, of the cells that were built from one; by the same paths.
        lacking: What this machine or version lacks to build a track's cell, as sentences by the cell's id.
    """

    cells: Mapping[str, BuiltCell] = field(default_factory=dict)
    specs: Mapping[str, CellSpec] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CellSources:
    """The cells that names refer to, before any is built.

    Attributes:
        folders: Folders of cells that are built.
        wanted: Groups of cells to build.
        lacking: What this machine or version lacks to build a track's cell, as sentences by the cell's id.
    """

    folders: tuple[Path, ...]
    wanted: tuple[BuildGroup, ...]
    lacking: Mapping[str, tuple[str, ...]]


def gathered(
    names: Sequence[str | Path], *, data: Path | None = None, work: Path = WORK, watch: Watch = unwatched
) -> Gathered:
    """The named cells; those of specifications and tracks are built in the work folder.

    Args:
        names: Cell folders, folders of cell folders, specification files, a cell's manifest, or names of tracks.
        data: Folder with kitti_tracking, nuscenes and so on, for tracks and specifications.
        work: Folder to build in.
        watch: Reports progress.
    """
    sources = meant(names, data=data)
    cells = {str(folder): read_cell(folder) for folder in sources.folders}
    cell_specs: dict[str, CellSpec] = {}
    for group in sources.wanted:
        for spec, cell in built_cells(group, work, watch=watch):
            cells[str(cell.folder)], cell_specs[str(cell.folder)] = cell, spec
    return Gathered(cells, cell_specs, sources.lacking)


def meant(names: Sequence[str | Path], *, data: Path | None = None) -> CellSources:
    """The cells that names refer to; an error where a name does not exist or a cell appears twice."""
    folders: list[Path] = []
    to_build: list[BuildGroup] = []
    lacking: dict[str, tuple[str, ...]] = {}
    for name in map(str, names):
        path = Path(name)
        if path.name == MANIFEST and reading.is_file(path) and not is_specification(path):
            folders.append(path.parent)
        elif is_specification(path):
            to_build += read_specification(path, data)
        elif name in NAMES and not reading.exists(path):
            cells, missing = track_cells(read_track(name), data)
            to_build += cells
            lacking |= missing
        elif reading.exists(path):
            folders += _cells_in(path)
        else:
            raise InputError(
                f"{name}: must be a cell's folder, a folder of cells, a specification (.toml, .json) or a track "
                f"({', '.join(NAMES)}); there is no such file, and no such track{nearest(name, NAMES)}"
            )
    _refuse_repeated([str(reading.resolve(folder)) for folder in folders])
    _refuse_repeated([spec.id for group in to_build for spec in group.specs])
    return CellSources(tuple(folders), tuple(to_build), lacking)


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("Cells must be different folders; one is given twice.")


def _cells_in(folder: Path) -> list[Path]:
    if reading.exists(folder / MANIFEST):
        return [folder]
    inner = sorted(
        path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in reading.find(folder, pattern)
    )
    return inner or [folder]


def track_cells(track: Track, data: Path | None) -> tuple[list[BuildGroup], dict[str, tuple[str, ...]]]:
    """A track's cells that can be built here, grouped by pair of modes; and what the other cells lack."""
    pairs: dict[str, list[TrackCell]] = {}
    lacking = {}
    for cell in track.cells:
        missing = cell.missing(data)
        if missing:
            lacking[cell.id] = tuple(missing)
        else:
            kind = (cell.definition["modes"], cell.definition["dataset"], cell.definition["costs"])
            pairs.setdefault(json.dumps(kind, sort_keys=True), []).append(cell)
    return [_pair_to_build(cells, data) for cells in pairs.values()], lacking


def _pair_to_build(cells: Sequence[TrackCell], data: Path | None) -> BuildGroup:
    """Specifications of cells that share a pair of modes; an error where one differs from the track's definition."""
    material = _material(cells[0], data)
    cell_specs = []
    for cell in cells:
        expected = cell.spec
        (spec,) = specs(material, geometries=[expected.geometry], systems=[expected.system])
        differences = expected.differences(spec)
        if differences:
            raise InputError(f"{cell.id}: what is built must be the track's cell; {differences[0]}.")
        cell_specs.append(spec)
    costs = cells[0].definition["costs"]
    return BuildGroup(tuple(cell_specs), Path(costs["profile"]) if costs else None)


def _material(cell: TrackCell, data: Path | None) -> Material:
    d = cell.definition
    if d["dataset"]["name"] == "synthetic":
        size = {name: d["dataset"]["settings"][name] for name in ("scenes", "frames")}
        limits = {name: mode["threshold"] for name, mode in d["modes"].items()}
        return synthetic(d["cheap_first"], seed=d["dataset"]["seed"], settings=WorldSettings(**size), threshold=limits)
    if d["dataset"]["name"] != "kitti" or data is None:
        raise InputError(f"{cell.id}: this version cannot build the cell from files of a track.")
    root = data / KITTI
    files = []
    for name in d["cheap_first"]:
        mode = d["modes"][name]
        classes = tuple(mode["classes"]) if mode.get("classes") else None
        path = root / "detections" / mode["source"]
        files.append(ModeFile(name, path, mode.get("threshold"), mode["scores"], classes))
    return from_files(Kitti(root), files)


def built_cells(group: BuildGroup, work: Path, *, watch: Watch = unwatched) -> Iterator[tuple[CellSpec, BuiltCell]]:
    """The specified cells in the work folder; missing, altered or outdated ones are built first."""
    missing = unbuilt(group, work)
    if missing:
        check_writable(work, folder=True)
        for _ in rebuilt(missing, work, lambda spec: place_of(spec, work), costs=group.costs, watch=watch):
            pass
    for spec in group.specs:
        yield spec, read_cell(place_of(spec, work))


def place_of(spec: CellSpec, work: Path) -> Path:
    """The folder in which a specified cell is built."""
    return work / "cells" / spec.id


def unbuilt(group: BuildGroup, work: Path) -> list[CellSpec]:
    """The cells that are missing from the work folder, altered, or built by other code."""
    return [spec for spec in group.specs if standing(spec, place_of(spec, work), costs=group.costs) is None]
