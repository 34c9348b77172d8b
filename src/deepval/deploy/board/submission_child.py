"""The child process that reads untrusted folders (`files.child`): the name of a folder
-> its content or faults.

An answer is one line of JSON followed by the scores as little-endian float64, cell
after cell, so that its reader neither executes nor unpickles anything.
"""

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import IO, Any

import numpy as np

from deepval.deploy.board.submission_files import Reading, WantedScores, read_folder
from deepval.judge.tables.values import ValueTable

PARTS = ("input", "unit_ids", "unit")
"""Columns of a cell's table that a reader gets."""


def write_wanted(path: Path, cells: Mapping[str, WantedScores]) -> None:
    """Write the facts about cells that a reader needs, without their losses."""
    facts = [
        {"name": n, "modes": c.table.modes, "units": c.units, "profile": c.profile}
        for n, c in cells.items()
    ]
    arrays: dict[str, Any] = {"facts": np.array(json.dumps(facts))}
    for number, cell in enumerate(cells.values()):
        arrays |= {f"{number}.{part}": getattr(cell.table, part) for part in PARTS}
    np.savez(path, **arrays)


def read_wanted(path: Path) -> dict[str, WantedScores]:
    """The facts that `write_wanted` wrote; all losses are NaN."""
    cells = {}
    with np.load(path, allow_pickle=False) as arrays:
        for number, fact in enumerate(json.loads(str(arrays["facts"]))):
            parts = {part: arrays[f"{number}.{part}"] for part in PARTS}
            losses = np.broadcast_to(np.nan, (len(parts["input"]), len(fact["modes"])))
            table = ValueTable(**parts, modes=tuple(fact["modes"]), losses=losses)
            cells[fact["name"]] = WantedScores(
                table, tuple(fact["units"]), fact["profile"]
            )
    return cells


def write_reading(reading: Reading, out: IO[bytes]) -> None:
    """Write a reading as a line of JSON and the scores that this line lists."""
    scores = [
        [cell, item.name, item.values.ndim] for cell, item in reading.scores.items()
    ]
    head = {
        name: getattr(reading, name)
        for name in ("problems", "card", "files", "remarks")
    } | {"scores": scores}
    out.write(json.dumps(head).encode() + b"\n")
    for item in reading.scores.values():
        out.write(np.ascontiguousarray(item.values, dtype="<f8").data)
    out.flush()


class _NoPandas(MetaPathFinder):
    """Hides pandas: Arrow would import it without need, and that takes longer than all
    other imports together.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def reader(cells_file: str) -> Callable[[str, IO[bytes]], None]:
    """What reads a folder for the cells in a file of `write_wanted`, and writes its
    content or faults.
    """
    sys.meta_path.insert(0, _NoPandas())
    cells = read_wanted(Path(cells_file))
    # computed once here and not in every fork
    _ = [cell.scored for cell in cells.values()]
    for module in ("pyarrow.csv", "pyarrow.parquet"):
        import_module(module)

    def read(folder: str, out: IO[bytes]) -> None:
        write_reading(read_folder(Path(folder), cells), out)

    return read
