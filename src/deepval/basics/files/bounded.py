"""Something untrusted -> the answer of a child process that reads it with bounded
memory, time and output; it can neither crash nor bloat this process.

The child (`child`) loads libraries once and forks for every request. If a request takes
too long, the child and its forks are killed, and the next request gets a new child.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from deepval.basics.errors import InputError
from deepval.basics.files.child import NO_MEMORY

ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Fewer threads and memory pools: they reserve address space, which counts against the
limit although it is unused.
"""


@dataclass(frozen=True)
class Limits:
    """Limits for reading something; without RLIMIT_AS, as on macOS, memory is not
    bounded.

    Attributes:
        memory_bytes: Address space.
        cpu_s: Processor time.
        wall_s: Elapsed time, which the parent process enforces.
    """

    memory_bytes: int = 2 * 2**30
    cpu_s: int = 60
    wall_s: float = 600.0


class Reader:
    """Answers one request after another by a child process.

    `module` has the function `reader` that the child calls with the text `argument`
    (`child.serve`).
    """

    def __init__(self, module: str, argument: str = "") -> None:
        self._module = module
        self._argument = argument
        self._process: subprocess.Popen[bytes] | None = None
        # The file of answers has no name, so that nothing remains of it after a kill.
        self._out: IO[bytes] | None = None

    def answer(self, request: str, limits: Limits, most: int) -> bytes:
        """The answer to a request, at most `most` bytes."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert self._out is not None
        line = json.dumps([request, limits.memory_bytes, limits.cpu_s, most])
        with suppress(BrokenPipeError):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limits.wall_s)[0]:
            self.close()
            raise InputError(
                f"must be readable within {limits.wall_s:g} s; reading it takes longer."
            )
        said = process.stdout.readline()
        if not said:
            code = process.wait()
            self.close()
            raise InputError(breakdown(code, limits))
        code = int(said)
        if code or os.fstat(self._out.fileno()).st_size > most:
            raise InputError(breakdown(code, limits))
        self._out.seek(0)
        return self._out.read()

    def _start(self) -> subprocess.Popen[bytes]:
        if not hasattr(os, "fork"):
            raise InputError(
                "Submissions and pickles are read on Linux and macOS alone, in "
                "processes with limits: use one of them."
            )
        # not buffered: the child writes the same file
        self._out = tempfile.TemporaryFile(prefix="deepval-", buffering=0)  # noqa: SIM115
        out = self._out.fileno()
        command = (sys.executable, "-P", "-m", "deepval.basics.files.child")
        return subprocess.Popen(
            [*command, self._module, self._argument, str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ALONE},
            start_new_session=True,
            pass_fds=(out,),
        )

    def close(self) -> None:
        """Kill the child and its forks."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout, self._out):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        process.wait()


def breakdown(code: int, limits: Limits) -> str:
    """The reason why a reader that ended with this exit code gave no answer."""
    if code == NO_MEMORY:
        return (
            f"must be readable within {limits.memory_bytes // 2**20:,} MiB of memory; "
            "reading it takes more."
        )
    if -code == getattr(signal, "SIGXCPU", None):
        return (
            f"must be readable within {limits.cpu_s:,} s of processor "
            "time; reading it takes more."
        )
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"must be readable; its reader broke off ({how})."
