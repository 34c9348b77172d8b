"""`python -m deepval.protocol.submission_child`: names of untrusted folders -> files
with their content or faults.

This process never opens a folder itself. For each folder that standard input names it
forks a process that bounds its own memory, processor time and output, reads the folder,
writes its findings to a file and ends. Libraries thus load once, and no folder can
affect the reading of another. The file is one line of JSON followed by the scores as
little-endian float64, cell after cell, so that its reader neither executes nor
unpickles anything.
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
"""Columns of a cell's table that a reader gets."""
NO_MEMORY = 3
"""Exit code if the memory limit was reached."""


@dataclass(frozen=True)
class Limits:
    """Limits for reading a submission; without RLIMIT_AS, as on macOS, memory is not
    bounded.

    Attributes:
        memory_bytes: Address space.
        cpu_s: Processor time.
        wall_s: Elapsed time, which the parent process enforces.
    """

    memory_bytes: int = 2 * 2**30
    cpu_s: int = 60
    wall_s: float = 600.0


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


def bound(memory_bytes: int, cpu_s: int, output_bytes: int) -> None:
    """Limit this process irrevocably, as far as the operating system supports it."""
    try:
        import resource
    except ImportError:  # Windows has no limits: only the parent's time limit applies
        return
    limits = {
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_CPU": cpu_s,
        "RLIMIT_FSIZE": output_bytes,
        "RLIMIT_CORE": 0,
    }
    for name, limit in limits.items():
        # The hard time limit is one second later: SIGXCPU, which names the reason,
        # comes before SIGKILL. A limit that is tighter already cannot be raised and
        # need not be; macOS refuses RLIMIT_AS.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(
                getattr(resource, name), (limit, limit + (name == "RLIMIT_CPU"))
            )


class _NoPandas(MetaPathFinder):
    """Hides pandas: Arrow would import it without need, and that takes longer than all
    other imports together.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def serve(cells_file: str) -> None:
    """Read the folder that each line of standard input names; answer each line with the
    exit code of its reader.
    """
    sys.meta_path.insert(0, _NoPandas())
    cells = read_wanted(Path(cells_file))
    # computed once here and not in every fork
    _ = [cell.scored for cell in cells.values()]
    for module in ("pyarrow.csv", "pyarrow.parquet"):
        import_module(module)
    # the collector then leaves shared pages unwritten, so that a fork copies little
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        folder, out, *bounds = json.loads(line)
        process = os.fork()
        if not process:
            _read(Path(folder), out, bounds, cells)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _read(
    folder: Path, out: str, bounds: Sequence[int], cells: Mapping[str, WantedScores]
) -> NoReturn:
    """Read a folder in this forked process and end it; the standard input and output of
    the parent are closed to it.
    """
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
