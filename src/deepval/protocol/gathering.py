"""What somebody names (folders, specification files, tracks) -> built cells, and why others cannot be built here.

Cells of specifications and tracks are built into a work folder, one folder per cell id, and used again as long as they
are whole and the code that builds cells is the same. A build that was stopped is simply asked for again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.sources import ModeFile, from_files, synthetic
from deepval.cells.spec import CellSpec, Material, specs
from deepval.cells.spec_files import Wanted, is_specification, read_specification
from deepval.datasets.kitti import Kitti
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.errors import meant as nearest
from deepval.files import reading
from deepval.files.canonical import MANIFEST
from deepval.files.writing import check_writable
from deepval.progress import Watch, unwatched
from deepval.protocol.keeping import rebuilt, standing
from deepval.protocol.tracks import KITTI, NAMES, Track, TrackCell, read_track

WORK = Path("deepval-work")
"""Where cells are built unless somebody says otherwise."""


@dataclass(frozen=True)
class Gathered:
    """Cells at hand.

    Attributes:
        cells: Built cells, each under the path of its folder, or of its folder in the work folder.
        specs: Of those that were specified, the specification with the data at hand, by the same names.
        lacking: What this machine or version lacks to build a track's cell, in words, by the cell's id.
    """

    cells: Mapping[str, BuiltCell] = field(default_factory=dict)
    specs: Mapping[str, CellSpec] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What names stand for, before anything is built: folders of cells, cells to build, and what is lacking."""

    folders: tuple[Path, ...]
    wanted: tuple[Wanted, ...]
    lacking: Mapping[str, tuple[str, ...]]


def gathered(
    names: Sequence[str | Path], *, data: Path | None = None, work: Path = WORK, watch: Watch = unwatched
) -> Gathered:
    """The cells that are named, those of specifications and tracks built in the work folder.

    Args:
        names: Cell folders, folders of such, specification files, a cell's manifest, or tracks by name.
        data: Folder with kitti_tracking, nuscenes and so on, for tracks and specifications.
        work: Folder to build in.
        watch: Who is told how far it is.
    """
    found = meant(names, data=data)
    cells = {str(folder): read_cell(folder) for folder in found.folders}
    at_hand: dict[str, CellSpec] = {}
    for wanted in found.wanted:
        for spec, cell in built_cells(wanted, work, watch=watch):
            cells[str(cell.folder)], at_hand[str(cell.folder)] = cell, spec
    return Gathered(cells, at_hand, found.lacking)


def meant(names: Sequence[str | Path], *, data: Path | None = None) -> Found:
    """What is named; an error where something is given twice, or is nothing that exists."""
    inside: list[Path] = []
    wanted: list[Wanted] = []
    lacking: dict[str, tuple[str, ...]] = {}
    for name in map(str, names):
        path = Path(name)
        if path.name == MANIFEST and reading.is_file(path) and not is_specification(path):
            inside.append(path.parent)
        elif is_specification(path):
            wanted += read_specification(path, data)
        elif name in NAMES and not reading.exists(path):
            cells, missing = track_cells(read_track(name), data)
            wanted += cells
            lacking |= missing
        elif reading.exists(path):
            inside += _cells_in(path)
        else:
            raise InputError(
                f"{name}: must be a cell's folder, a folder of cells, a specification (.toml, .json) or a track "
                f"({', '.join(NAMES)}); there is no such file, and no such track{nearest(name, NAMES)}"
            )
    _refuse_repeated([str(reading.resolved(folder)) for folder in inside])
    _refuse_repeated([spec.id for each in wanted for spec in each.specs])
    return Found(tuple(inside), tuple(wanted), lacking)


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("Cells must be different folders; one is given twice.")


def _cells_in(folder: Path) -> list[Path]:
    if reading.exists(folder / MANIFEST):
        return [folder]
    inner = sorted(
        path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in reading.matching(folder, pattern)
    )
    return inner or [folder]


def track_cells(track: Track, data: Path | None) -> tuple[list[Wanted], dict[str, tuple[str, ...]]]:
    """Cells of a track that can be built here, those of one pair of modes together; and what others lack."""
    pairs: dict[str, list[TrackCell]] = {}
    lacking = {}
    for cell in track.cells:
        missing = cell.missing(data)
        if missing:
            lacking[cell.id] = tuple(missing)
        else:
            kind = (cell.definition["modes"], cell.definition["dataset"], cell.definition["costs"])
            pairs.setdefault(json.dumps(kind, sort_keys=True), []).append(cell)
    return [_of_pair(cells, data) for cells in pairs.values()], lacking


def _of_pair(cells: Sequence[TrackCell], data: Path | None) -> Wanted:
    material = _material(cells[0], data)
    made = []
    for cell in cells:
        told = cell.spec
        (spec,) = specs(material, geometries=[told.geometry], systems=[told.system])
        apart = told.differences(spec)
        if apart:
            raise InputError(f"{cell.id}: what is built must be the track's cell; {apart[0]}.")
        made.append(spec)
    costs = cells[0].definition["costs"]
    return Wanted(tuple(made), Path(costs["profile"]) if costs else None)


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


def built_cells(wanted: Wanted, work: Path, *, watch: Watch = unwatched) -> Iterator[tuple[CellSpec, BuiltCell]]:
    """The specified cells in the work folder, those built that are not there, not whole, or of other code."""
    missing = unbuilt(wanted, work)
    if missing:
        check_writable(work, folder=True)
        for _ in rebuilt(missing, work, lambda spec: place_of(spec, work), costs=wanted.costs, watch=watch):
            pass
    for spec in wanted.specs:
        yield spec, read_cell(place_of(spec, work))


def place_of(spec: CellSpec, work: Path) -> Path:
    """Where a specified cell is built."""
    return work / "cells" / spec.id


def unbuilt(wanted: Wanted, work: Path) -> list[CellSpec]:
    """Those of the cells that are not in the work folder, not whole, or built by other code."""
    return [spec for spec in wanted.specs if standing(spec, place_of(spec, work), costs=wanted.costs) is None]
