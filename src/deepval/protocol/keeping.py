"""A computation and all that it rests on -> a folder of its files, made once and named by the hash of all of it.

Files are written whole, the list of their hashes last: what a kill leaves is no result, what is damaged
is made anew.
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
from deepval.cells.kept_parts import Arrays, PartStore, slots
from deepval.cells.spec import CellSpec
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
    sealed_or_none,
    sha256,
    write_sealed,
)
from deepval.files.writing import locked, npz_arrays, npz_bytes, write_atomically
from deepval.progress import Watch, unwatched
from deepval.protocol.submission_child import Limits
from deepval.protocol.submission_files import file_digests
from deepval.protocol.submission_reader import Reader
from deepval.tables.costs import costs_bytes
from deepval.version import __version__

ROOT = Path(deepval.__file__).parent
IMPORT = re.compile(r"^\s*(?:from (deepval[\w.]*) import (\([^)]*\)|[^\n]*)|import (deepval[\w.]*))", re.MULTILINE)
DATA = ".toml"
"""Data that computations rest on; the paper's figures are laid beside and change nothing."""


@cache
def code_digest(*names: str) -> str:
    """SHA-256 over the sources of modules, of all that they import here, and of the data files beside those."""
    paths = {path for name in names for path in _closure(name)}
    files = paths | {each for path in paths for each in _data(path.parent)}
    return digest_of({path.relative_to(ROOT).as_posix(): _digest(path) for path in sorted(files)})


@cache
def _closure(name: str) -> frozenset[Path]:
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        path = _path(module)
        if module in found or path is None:
            continue
        found[module] = path
        waiting += _imported(path)
    return frozenset(found.values())


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Modules of the package that a source file names in an import, wherever in it."""
    found: list[str] = []
    for module, names, alone in IMPORT.findall(path.read_text(encoding="utf-8")):
        # What is imported from a package may be a module; where it is a name, there is no such file.
        found += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))] if module else [alone]
    return tuple(found)


@cache
def _path(module: str) -> Path | None:
    inside = ROOT.joinpath(*module.split(".")[1:])
    places = (inside / "__init__.py", inside.with_suffix(".py"))
    return next((place for place in places if place.is_file()), None)


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """Data files in a folder of modules, and in folders in it that hold no modules."""
    plain = [inner for inner in folder.iterdir() if inner.is_dir() and not (inner / "__init__.py").exists()]
    return tuple(each for place in (folder, *plain) for each in place.iterdir() if each.suffix == DATA)


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


SCHEMA = "deepval/readings/1"
WHAT = "readings kept by `deepval leaderboard`"
FILE = "submissions.read"
READS = "deepval.protocol.submission_child"


class KeptReadings:
    """Says of folders what was said before, or else asks a reader; `wanted` is plain data that tells what for."""

    def __init__(self, cache: Path, wanted: Any) -> None:
        self._path, self._about = cache / FILE, {"code": code_digest(READS), "wanted": wanted}
        self._before = _read(self._path)
        self._now: dict[str, bytes] = {}

    def said(self, folder: Path, reader: Reader, limits: Limits, most: int) -> bytes:
        """What is said of a folder."""
        try:
            files = file_digests(folder)
        except (InputError, OSError):
            return reader.said(folder, limits, most)  # it says why
        key = digest_of(self._about | {"files": files})
        said = self._before.get(key)
        if said is None:
            said = reader.said(folder, limits, most)
        if _files_of(said) == files:
            self._now[key] = said
        return said

    def write(self) -> None:
        """Keep what was said of the folders that were asked for, and nothing else."""
        if self._now.keys() != self._before.keys():
            lengths = {key: len(said) for key, said in sorted(self._now.items())}
            write_sealed(self._path, SCHEMA, lengths, [self._now[key] for key in lengths])


def _read(path: Path) -> dict[str, bytes]:
    lengths, said = sealed_or_none(path, SCHEMA, WHAT) or ({}, b"")
    found, begin = {}, 0
    for key, length in lengths.items():
        found[key] = said[begin : begin + length]
        begin += length
    return found


def _files_of(said: bytes) -> Mapping[str, str] | None:
    """The hashes of the files that a reader found, None where it says no such thing."""
    try:
        return json_content(said.partition(b"\n")[0], "what a reader said")["files"]
    except (InputError, TypeError, KeyError):
        return None


LIST, REFUSED = "kept.json", "refused.txt"
"""Files of a folder: the list of the others with their hashes; the sentence with which a computation was refused."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyarrow")
"""Whose versions may change a number."""


@cache
def versions() -> dict[str, str]:
    """What every result rests on beside its own code and data."""
    return {"deepval": __version__, **{name: version(name) for name in LIBRARIES}}


def place(root: Path, kind: str, rests_on: Mapping[str, Any]) -> Path:
    """The folder of what rests on these."""
    return root / kind / digest_of({**rests_on, "versions": versions()})[:24]


def is_kept(folder: Path) -> bool:
    """Whether everything that was kept in a folder is there, as it was written."""
    try:
        told = read_json(folder / LIST)
        return all(file_digest(folder / str(name)) == digest for name, digest in told["files"].items())
    except (InputError, KeyError, TypeError, AttributeError):
        return False


def contents(folder: Path) -> dict[str, bytes] | None:
    """Everything that was kept in a folder, each file as it was written; None where it is not whole."""
    try:
        told = read_json(folder / LIST)["files"]
        found = {str(name): reading.content(folder / str(name)) for name in told}
        return found if {name: sha256(data) for name, data in found.items()} == told else None
    except (InputError, KeyError, TypeError, AttributeError):
        return None


def kept(root: Path, kind: str, rests_on: Mapping[str, Any], make: Callable[[], Mapping[str, bytes]]) -> Path:
    """The folder of what rests on these: as it was kept, or made now."""
    folder = place(root, kind, rests_on)
    if not is_kept(folder):
        files = dict(make())
        for name, data in files.items():
            write_atomically(folder / name, data, make_folder=True, durable=False)
        listed = {"rests_on": dict(rests_on), "files": {name: sha256(data) for name, data in files.items()}}
        write_atomically(folder / LIST, json_text(listed, sort_keys=True), make_folder=True, durable=False)
    return folder


CODE = "deepval.cells.build"
KEPT, UNITS, PART = "kept", "units", "part.npz"


@dataclass(frozen=True, eq=False)
class KeptUnits(PartStore):
    """Parts that are kept in a folder.

    Attributes:
        root: The folder that cells are built in.
        used: Folders of the parts that were asked for, by slot.
        written: Folders of the parts that were written.
    """

    root: Path
    used: dict[str, set[str]] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def found(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """What is kept, whole; None where nothing is."""
        folder = place(*self._at(slot), _named(rests_on))
        self.used.setdefault(slot, set()).add(folder.name)
        files = contents(folder)
        return None if files is None else npz_arrays(files[PART])

    def keep(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Keep arrays."""
        named = _named(rests_on)
        self.written.append(place(*self._at(slot), named))
        kept(*self._at(slot), named, lambda: {PART: npz_bytes(arrays)})

    def _at(self, slot: str) -> tuple[Path, str]:
        return self.root / KEPT, f"{UNITS}/{slot}"

    def sweep(self) -> None:
        """Remove the parts that no cell is made of any more."""
        standing = _standing_slots(self.root)
        for slot in reading.inside(self.root / KEPT / UNITS):
            if slot.name in self.used:
                old = [part for part in reading.inside(slot) if part.name not in self.used[slot.name]]
            else:
                old = [] if slot.name in standing else [slot]
            for part in old:
                rmtree(part, ignore_errors=True)

    def forget(self) -> None:
        """Remove what was written now."""
        for part in self.written:
            rmtree(part, ignore_errors=True)
            with suppress(OSError):  # other parts may lie there
                part.parent.rmdir()


@contextmanager
def kept_units(root: Path) -> Iterator[KeptUnits]:
    """Keeps what is made of units for cells that are built in a folder; when all are built, what is old goes.

    What is refused writes nothing; what is stopped otherwise goes on from what was kept.
    """
    store, folder = KeptUnits(root), root / KEPT / UNITS
    new = [place for place in (folder, *folder.parents) if not reading.exists(place)]
    with locked(folder):
        try:
            yield store
        except UnfinishedError:
            raise
        except InputError:
            store.forget()
            for place in new:
                with suppress(OSError):  # what others wrote stays
                    place.rmdir()
            raise
    # Where somebody else builds in this folder, the last of all removes what is old.
    with suppress(InputError), locked(folder, "busy"):
        store.sweep()


def _named(rests_on: Mapping[str, Any]) -> dict[str, Any]:
    """A part by what it is of, and by the hash of all that it rests on: its list stays short."""
    told = {name: rests_on.get(name) for name in ("part", "unit")}
    return {**told, "sha256": digest_of({**rests_on, "code": code_digest(CODE)})}


def _standing_slots(root: Path) -> set[str]:
    """The slots of all cells in a folder, and in the folder of cells in it."""
    found: set[str] = set()
    for path in (each for pattern in ("*", "cells/*") for each in reading.matching(root, f"{pattern}/{MANIFEST}")):
        with suppress(InputError, KeyError, TypeError):
            found.update(slots(read_manifest(path.parent).definition))
    return found


BUILT_BY = "built-by.json"
"""Beside a cell: the digest of the code that built it, and on how many frames both ends of its ladder were run."""
BUILDER = "deepval.cells.folder"


@dataclass(frozen=True)
class StandingCell:
    """A cell that need not be built.

    Attributes:
        cell: The cell.
        frames: On how many frames both ends of its ladder were run.
    """

    cell: BuiltCell
    frames: int


def rebuilt(
    missing: Sequence[CellSpec],
    root: Path,
    place: Callable[[CellSpec], Path],
    *,
    costs: Path | None,
    pictures: bool = False,
    strict: bool = False,
    map_units: Map = map,
    watch: Watch = unwatched,
) -> Iterator[Cell]:
    """Cells that do not stand, each built and written; of units that did not change what was kept of them is used.

    Args:
        missing: What to build: cells that share a data set and modes.
        root: The folder that they are built in, which keeps what is made of units.
        place: The folder of each.
        costs: Costs to put into each.
        pictures: Whether to keep small pictures; nobody knows whether these changed, so every unit is read again.
        strict: Whether a unit in which a mode reports nothing is an error.
        map_units: How units are mapped.
        watch: Who is told how far it is.
    """
    with nullcontext() if pictures else kept_units(root) as store:
        for cell in built(missing, strict=strict, map_units=map_units, watch=watch, store=store):
            folder = place(cell.spec)
            write(cell, folder, costs=costs, pictures=pictures)
            note_builder(cell, folder)
            yield cell


def note_builder(cell: Cell, folder: Path) -> None:
    """Write beside a cell what its next build is compared with."""
    told = {"code": code_digest(BUILDER), "frames": len(cell.shared.inputs)}
    write_atomically(folder / BUILT_BY, json_text(told, sort_keys=True))


def standing(spec: CellSpec, folder: Path, *, costs: Path | None, pictures: bool = False) -> StandingCell | None:
    """The cell in a folder where it is the specified one, every file unaltered, with these costs, of this code."""
    try:
        told = read_json(folder / BUILT_BY)
        code, frames = str(told["code"]), int(told["frames"])
        cell = read_cell(folder)
    except (InputError, KeyError, TypeError, ValueError):
        return None
    files, wanted = cell.manifest.files, None if costs is None else sha256(costs_bytes(costs))
    same = (
        code == code_digest(BUILDER)
        and digest_of(cell.definition) == digest_of(plain(spec.definition))
        and files.get("costs.toml") == wanted
        and any(name.startswith(f"{PICTURES}/") for name in files) == pictures
    )
    return StandingCell(cell, frames) if same else None
