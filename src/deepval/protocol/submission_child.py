"""`python -m deepval.protocol.submission_child`: reads one stranger's folder within bounds, and says what it found.

It bounds its own memory, processor time and output before it looks at the folder. Standard output is one line of JSON
and then the scores as little-endian float64, cell after cell, so that whoever reads it runs and unpickles nothing.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import IO, Any

import numpy as np

from deepval.protocol.score_files import WantedScores
from deepval.protocol.submission_files import Reading, read_folder
from deepval.tables.values import ValueTable

PARTS = ("input", "unit_ids", "unit")
"""Columns of a table that a reader is told."""
NO_MEMORY = 3
"""Exit code where the memory was not enough."""


@dataclass(frozen=True)
class Limits:
    """What reading a submission may take; without RLIMIT_AS, as on macOS, memory is not bounded.

    Attributes:
        memory_bytes: Address space.
        cpu_s: Processor time.
        wall_s: Time on the clock, which the parent watches.
    """

    memory_bytes: int = 2 * 2**30
    cpu_s: int = 60
    wall_s: float = 600.0


def write_wanted(path: Path, cells: Mapping[str, WantedScores]) -> None:
    """Write what a reader must know of cells, without their losses."""
    facts = [{"name": n, "modes": c.table.modes, "units": c.units, "profile": c.profile} for n, c in cells.items()]
    arrays: dict[str, Any] = {"facts": np.array(json.dumps(facts))}
    for number, cell in enumerate(cells.values()):
        arrays |= {f"{number}.{part}": getattr(cell.table, part) for part in PARTS}
    np.savez(path, **arrays)


def read_wanted(path: Path) -> dict[str, WantedScores]:
    """What `write_wanted` wrote."""
    found = {}
    with np.load(path, allow_pickle=False) as arrays:
        for number, fact in enumerate(json.loads(str(arrays["facts"]))):
            parts = {part: arrays[f"{number}.{part}"] for part in PARTS}
            losses = np.broadcast_to(np.nan, (len(parts["input"]), len(fact["modes"])))
            table = ValueTable(**parts, modes=tuple(fact["modes"]), losses=losses)
            found[fact["name"]] = WantedScores(table, tuple(fact["units"]), fact["profile"])
    return found


def write_reading(reading: Reading, out: IO[bytes]) -> None:
    """Write what was found as a line of JSON and the numbers that it announces."""
    scores = [[cell, found.name, found.values.ndim] for cell, found in reading.scores.items()]
    head = {name: getattr(reading, name) for name in ("problems", "card", "files", "remarks")} | {"scores": scores}
    out.write(json.dumps(head).encode() + b"\n")
    for found in reading.scores.values():
        out.write(np.ascontiguousarray(found.values, dtype="<f8").data)
    out.flush()


def bound(memory_bytes: int, cpu_s: int, output_bytes: int) -> None:
    """Bound this process for good, as far as the system can."""
    try:
        import resource
    except ImportError:  # Windows has none: the parent's clock is all there is
        return
    wanted = {"RLIMIT_AS": memory_bytes, "RLIMIT_CPU": cpu_s, "RLIMIT_FSIZE": output_bytes, "RLIMIT_CORE": 0}
    for name, limit in wanted.items():
        # The signal that tells of time comes a second before the one that tells nothing. A bound that is tighter
        # already cannot be raised and need not be; macOS refuses RLIMIT_AS.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit + (name == "RLIMIT_CPU")))


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas: Arrow loads it without need, which takes longer than all else."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def main(memory_bytes: str, cpu_s: str, output_bytes: str, wanted: str, folder: str) -> None:
    """Read a folder and write what was found to standard output, which nothing else can write to."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.meta_path.insert(0, _NoPandas())
    cells = read_wanted(Path(wanted))
    bound(int(memory_bytes), int(cpu_s), int(output_bytes))
    try:
        write_reading(read_folder(Path(folder), cells), out)
    except MemoryError:
        os._exit(NO_MEMORY)


if __name__ == "__main__":
    main(*sys.argv[1:])
