"""`python -m deepval.protocol.submission_child`: reads strangers' folders within bounds, and says what it found.

It never looks at a folder itself: for each one that standard input names it forks a process that bounds its memory,
processor time and output, reads the folder, writes what it found to a file and ends, so that libraries load once and no
stranger meets another. The file is one line of JSON and then the scores as little-endian float64, cell after cell, so
that whoever reads it runs and unpickles nothing.
"""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from deepval.protocol.submission_files import Reading, WantedScores, read_folder
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


def serve(wanted: str) -> None:
    """Read every folder that a line of standard input names; answer each with how its reader ended."""
    sys.meta_path.insert(0, _NoPandas())
    cells = read_wanted(Path(wanted))
    _ = [cell.scored for cell in cells.values()]  # worked out once, and not in every fork
    for module in ("pyarrow.csv", "pyarrow.parquet"):
        import_module(module)
    gc.freeze()  # what is shared is not written to, so that a fork copies little
    gc.disable()
    for line in sys.stdin:
        folder, out, *bounds = json.loads(line)
        process = os.fork()
        if not process:
            _read(Path(folder), out, bounds, cells)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _read(folder: Path, out: str, bounds: Sequence[int], cells: Mapping[str, WantedScores]) -> NoReturn:
    """Read a folder in a process that ends with it; what asks and is answered is out of its reach."""
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        with open(out, "wb") as file:  # noqa: PTH123
            bound(*bounds)
            write_reading(read_folder(folder, cells), file)
        code = 0
    except MemoryError:
        code = NO_MEMORY
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
