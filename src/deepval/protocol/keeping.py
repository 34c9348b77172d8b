"""A computation and its inputs -> a folder with its files, computed once and named by the hash of those inputs.

Each file is written atomically, and the list of their hashes is written last. A killed run therefore leaves no valid
result, and a damaged result is computed again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import Any

import deepval
from deepval.cells.build import Cell, built
from deepval.cells.folder import BuiltCell, read_cell, write
from deepval.cells.spec import CellSpec
from deepval.cells.stored_parts import Arrays, PartStore, slots
from deepval.cells.view_files import PICTURES
from deepval.engines import Map
from deepval.errors import InputError, UnfinishedError
from deepval.files import reading
from deepval.files.canonical import (
    MANIFEST,
    digest_of,
    file_digest,
    json_content,
    json_text,
    plain,
    read_json,
    read_manifest,
    sha256,
)
from deepval.files.writing import lock, npz_arrays, npz_bytes, sealed_or_none, write_atomically, write_sealed
from deepval.progress import Watch, unwatched
from deepval.protocol.submission_child import Limits
from deepval.protocol.submission_files import file_digests
from deepval.protocol.submission_reader import Reader
from deepval.tables.costs import costs_bytes
from deepval.version import __version__

ROOT = Path(deepval.__file__).parent
IMPORT = re.compile(r"^\s*(?:from (deepval[\w.]*) import (\([^)]*\)|[^\n]*)|import (deepval[\w.]*))", re.MULTILINE)
DATA = ".toml"
"""Ending of the data files that computations depend on; other files beside the code change no result."""


@cache
def code_digest(*names: str) -> str:
    """SHA-256 over the sources of modules, the modules of this package that they import, and data files beside them."""
    paths = {path for name in names for path in _closure(name)}
    files = paths | {file for path in paths for file in _data(path.parent)}
    return digest_of({path.relative_to(ROOT).as_posix(): _digest(path) for path in sorted(files)})


@cache
def _closure(name: str) -> frozenset[Path]:
    """Source files of a module and of every module of the package that it imports, directly or not."""
    paths: dict[str, Path] = {}
    queue = [name]
    while queue:
        module = queue.pop()
        path = _path(module)
        if module in paths or path is None:
            continue
        paths[module] = path
        queue += _imported(path)
    return frozenset(paths.values())


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Modules of the package that a source file imports, at its top or inside a function."""
    modules: list[str] = []
    for module, names, alone in IMPORT.findall(path.read_text(encoding="utf-8")):
        # A name imported from a package may be a module. `_path` drops it where no such file exists.
        modules += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))] if module else [alone]
    return tuple(modules)


@cache
def _path(module: str) -> Path | None:
    """The source file of a module; None where there is none."""
    base = ROOT.joinpath(*module.split(".")[1:])
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """Data files in a folder of modules and in those of its subfolders that contain no modules."""
    data_folders = [path for path in folder.iterdir() if path.is_dir() and not (path / "__init__.py").exists()]
    return tuple(file for parent in (folder, *data_folders) for file in parent.iterdir() if file.suffix == DATA)


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


SCHEMA = "deepval/readings/1"
WHAT = "readings kept by `deepval leaderboard`"
FILE = "submissions.read"
READS = "deepval.protocol.submission_child"


class KeptReadings:
    """Returns a reader's stored answer for an unchanged folder, or else asks a reader.

    `purpose` is plain data that an answer depends on besides the folder: the cells that are to be scored.
    """

    def __init__(self, cache: Path, purpose: Any) -> None:
        self._path, self._inputs = cache / FILE, {"code": code_digest(READS), "wanted": purpose}
        self._stored = _read(self._path)
        self._current: dict[str, bytes] = {}

    def answer(self, folder: Path, reader: Reader, limits: Limits, most: int) -> bytes:
        """The reader's answer for a folder, stored or new."""
        try:
            files = file_digests(folder)
        except (InputError, OSError):
            return reader.said(folder, limits, most)  # the reader reports the reason
        key = digest_of(self._inputs | {"files": files})
        answer = self._stored.get(key)
        if answer is None:
            answer = reader.said(folder, limits, most)
        # The folder may have changed while it was read: store an answer only if it is of the hashed files.
        if _files_of(answer) == files:
            self._current[key] = answer
        return answer

    def write(self) -> None:
        """Write the answers for the folders of this run; answers for other folders are dropped."""
        if self._current.keys() != self._stored.keys():
            lengths = {key: len(answer) for key, answer in sorted(self._current.items())}
            write_sealed(self._path, SCHEMA, lengths, [self._current[key] for key in lengths])


def _read(path: Path) -> dict[str, bytes]:
    """The stored answers by key; empty where the file is missing or damaged."""
    lengths, content = sealed_or_none(path, SCHEMA, WHAT) or ({}, b"")
    answers, begin = {}, 0
    for key, length in lengths.items():
        answers[key] = content[begin : begin + length]
        begin += length
    return answers


def _files_of(answer: bytes) -> Mapping[str, str] | None:
    """The file hashes in a reader's answer; None where the answer has none."""
    try:
        return json_content(answer.partition(b"\n")[0], "what a reader said")["files"]
    except (InputError, TypeError, KeyError):
        return None


LIST, REFUSED = "kept.json", "refused.txt"
"""Files of a folder: the list of the other files with their hashes; the reason why a computation was refused."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyarrow")
"""Libraries whose versions may change a number."""


@cache
def versions() -> dict[str, str]:
    """Versions that every result depends on, besides its own code and data."""
    return {"deepval": __version__, **{name: version(name) for name in LIBRARIES}}


def place(root: Path, kind: str, rests_on: Mapping[str, Any]) -> Path:
    """The folder of the result that depends on these inputs."""
    return root / kind / digest_of({**rests_on, "versions": versions()})[:24]


def is_kept(folder: Path) -> bool:
    """Whether a folder still contains all its files, unaltered."""
    try:
        listing = read_json(folder / LIST)
        return all(file_digest(folder / str(name)) == digest for name, digest in listing["files"].items())
    except (InputError, KeyError, TypeError, AttributeError):
        return False


def contents(folder: Path) -> dict[str, bytes] | None:
    """The content of each file of a folder by name; None where a file is missing or altered."""
    try:
        digests = read_json(folder / LIST)["files"]
        files = {str(name): reading.content(folder / str(name)) for name in digests}
        return files if {name: sha256(data) for name, data in files.items()} == digests else None
    except (InputError, KeyError, TypeError, AttributeError):
        return None


def kept(root: Path, kind: str, rests_on: Mapping[str, Any], make: Callable[[], Mapping[str, bytes]]) -> Path:
    """The folder of the result that depends on these inputs; `make` computes it where it is missing or altered."""
    folder = place(root, kind, rests_on)
    if not is_kept(folder):
        files = dict(make())
        for name, data in files.items():
            write_atomically(folder / name, data, make_folder=True, durable=False)
        # The list goes last: `is_kept` accepts a folder only if it is there.
        listing = {"rests_on": dict(rests_on), "files": {name: sha256(data) for name, data in files.items()}}
        write_atomically(folder / LIST, json_text(listing, sort_keys=True), make_folder=True, durable=False)
    return folder


CODE = "deepval.cells.build"
KEPT, UNITS, PART = "kept", "units", "part.npz"


@dataclass(frozen=True, eq=False)
class KeptUnits(PartStore):
    """Stores the parts of cells in a folder.

    Attributes:
        root: The folder that cells are built in.
        used: Names of the folders of the requested parts, by slot.
        written: Folders of the parts that were written.
    """

    root: Path
    used: dict[str, set[str]] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def found(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """The stored arrays; None where they are missing or altered."""
        folder = place(*self._at(slot), _part_key(rests_on))
        self.used.setdefault(slot, set()).add(folder.name)
        stored = contents(folder)
        return None if stored is None else npz_arrays(stored[PART])

    def keep(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Store arrays."""
        key = _part_key(rests_on)
        self.written.append(place(*self._at(slot), key))
        kept(*self._at(slot), key, lambda: {PART: npz_bytes(arrays)})

    def _at(self, slot: str) -> tuple[Path, str]:
        return self.root / KEPT, f"{UNITS}/{slot}"

    def sweep(self) -> None:
        """Remove the parts that no cell uses any more."""
        current_slots = _current_slots(self.root)
        for slot in reading.entries(self.root / KEPT / UNITS):
            if slot.name in self.used:
                obsolete = [part for part in reading.entries(slot) if part.name not in self.used[slot.name]]
            else:
                obsolete = [] if slot.name in current_slots else [slot]
            for part in obsolete:
                rmtree(part, ignore_errors=True)

    def forget(self) -> None:
        """Remove the parts that this run wrote."""
        for part in self.written:
            rmtree(part, ignore_errors=True)
            with suppress(OSError):  # the folder may contain other parts
                part.parent.rmdir()


@contextmanager
def kept_units(root: Path) -> Iterator[KeptUnits]:
    """Stores per-unit parts of the cells that are built in a folder; removes unused parts when all cells are built.

    A refused build leaves nothing behind. A build that was stopped otherwise continues from the stored parts.
    """
    store, folder = KeptUnits(root), root / KEPT / UNITS
    new = [parent for parent in (folder, *folder.parents) if not reading.exists(parent)]
    with lock(folder):
        try:
            yield store
        except UnfinishedError:
            raise
        except InputError:
            store.forget()
            for parent in new:
                with suppress(OSError):  # the files of other processes stay
                    parent.rmdir()
            raise
    # If another process builds in this folder, the one that finishes last removes unused parts.
    with suppress(InputError), lock(folder, "busy"):
        store.sweep()


def _part_key(rests_on: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a part: its kind, its unit and one hash of all its inputs, so that its file list stays short."""
    label = {name: rests_on.get(name) for name in ("part", "unit")}
    return {**label, "sha256": digest_of({**rests_on, "code": code_digest(CODE)})}


def _current_slots(root: Path) -> set[str]:
    """The slots of all cells in a folder and in its subfolder `cells`."""
    slot_names: set[str] = set()
    for path in (path for pattern in ("*", "cells/*") for path in reading.find(root, f"{pattern}/{MANIFEST}")):
        with suppress(InputError, KeyError, TypeError):
            slot_names.update(slots(read_manifest(path.parent).definition))
    return slot_names


BUILT_BY = "built-by.json"
"""File beside a cell: digest of the code that built it; number of frames on which its cheapest and fullest mode ran."""
BUILDER = "deepval.cells.folder"


@dataclass(frozen=True)
class StandingCell:
    """A cell in a folder that is up to date.

    Attributes:
        cell: The cell.
        frames: Number of frames on which both its cheapest and its fullest mode ran.
    """

    cell: BuiltCell
    frames: int


def rebuilt(
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
    """Builds and writes cells that are not up to date; the stored parts of unchanged units are reused.

    Args:
        missing: Cells to build; they share a data set and modes.
        root: The folder in which they are built and the parts of units are stored.
        folder_of: Returns the folder of a cell.
        costs: Costs to put into each cell.
        pictures: Whether to store thumbnails. Changes of images are not detected, so every unit is then read again.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Reports progress.
    """
    with nullcontext() if pictures else kept_units(root) as store:
        for cell in built(missing, strict=strict, map_units=map_units, watch=watch, store=store):
            folder = folder_of(cell.spec)
            write(cell, folder, costs=costs, pictures=pictures)
            note_builder(cell, folder)
            yield cell


def note_builder(cell: Cell, folder: Path) -> None:
    """Write the file beside a cell that decides whether the cell is up to date."""
    content = {"code": code_digest(BUILDER), "frames": len(cell.shared.inputs)}
    write_atomically(folder / BUILT_BY, json_text(content, sort_keys=True))


def standing(spec: CellSpec, folder: Path, *, costs: Path | None, pictures: bool = False) -> StandingCell | None:
    """The cell in a folder if it is the specified one, unaltered, with these costs, built by this code; else None."""
    try:
        content = read_json(folder / BUILT_BY)
        code, frames = str(content["code"]), int(content["frames"])
        cell = read_cell(folder)
    except (InputError, KeyError, TypeError, ValueError):
        return None
    files, costs_digest = cell.manifest.files, None if costs is None else sha256(costs_bytes(costs))
    same = (
        code == code_digest(BUILDER)
        and digest_of(cell.definition) == digest_of(plain(spec.definition))
        and files.get("costs.toml") == costs_digest
        and any(name.startswith(f"{PICTURES}/") for name in files) == pictures
    )
    return StandingCell(cell, frames) if same else None
