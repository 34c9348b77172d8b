"""What every benchmark returns, the table of it, and a command measured in a process of
its own.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class Figure(NamedTuple):
    """A measured figure, what it is compared with in the same run, and its target.

    Attributes:
        task: What was measured.
        measured: The figure, with its unit.
        beside: What it is compared with, or "-".
        target: What it must reach.
        met: Whether it does; None where it is not judged: the data are missing, or the
            sizes are tiny.
    """

    task: str
    measured: str
    beside: str
    target: str
    met: bool | None


class Run(NamedTuple):
    """What a command wrote to its standard output, and what it and its children used.

    The CPU time is that of all of them, the peak memory that of the largest.
    """

    output: str
    cpu_s: float
    system_s: float
    wall_s: float
    peak_gb: float


def table(figures: Sequence[Figure]) -> str:
    """The figures in plain text, one line each."""
    verdicts = {True: "met", False: "MISSED", None: "not judged"}
    rows = [("task", "measured", "beside it in the same run", "target", "")]
    rows += [(*figure[:4], verdicts[figure.met]) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def finish(figures: Sequence[Figure]) -> None:
    """Print the table; exit code 1 where a target is missed."""
    print("\n" + table(figures))
    if any(figure.met is False for figure in figures):
        raise SystemExit(1)


def run_alone(*command: object) -> Run:
    """Run Python with these arguments in a process of its own, BLAS on one thread.

    Linux counts the memory of the process that starts a command as the command's own
    peak. So a small process, this file, starts it and reads what it used.
    """
    words = [sys.executable, __file__, sys.executable, *map(str, command)]
    done = subprocess.run(
        words,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"python {' '.join(map(str, command))}: "
            f"ended with exit code {done.returncode}"
        )
    return Run(**json.loads(done.stdout))


def _measure(command: Sequence[str]) -> Run:
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    cpu_s, peak_gb = used.ru_utime + used.ru_stime, used.ru_maxrss * unit_bytes / 1e9
    return Run(done.stdout, cpu_s, used.ru_stime, time.monotonic() - start, peak_gb)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1:])._asdict()))
