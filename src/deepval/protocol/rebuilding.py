"""A specification and a folder -> the cell that stands there already, or nothing: only what changed is built again.

A cell's definition holds the hash of every file that it rests on, its manifest that of every file that it consists of,
and a note beside it that of the code which built it. Where all of them agree there is nothing to do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from deepval.cells.build import Cell, built
from deepval.cells.folder import BuiltCell, read_cell, write
from deepval.cells.spec import CellSpec
from deepval.cells.view_files import PICTURES
from deepval.engines import Map
from deepval.errors import InputError
from deepval.files.canonical import digest_of, json_text, plain, read_json, sha256
from deepval.files.writing import write_atomically
from deepval.progress import Watch, unwatched
from deepval.protocol.code_digest import code_digest
from deepval.protocol.kept_units import kept_units
from deepval.tables.costs import costs_bytes

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
