"""Untrusted folders -> the answers of a process that reads them within limits (`submission_child`).

The process loads libraries once and forks for every folder. If a folder takes too long, the process and its children
are killed, and the next folder gets a new process.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deepval.errors import InputError
from deepval.files import reading
from deepval.protocol.submission_child import NO_MEMORY, Limits

ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
ALONE |= {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Fewer threads and memory pools: they reserve address space, which counts against the limit although it is unused."""


class Reader:
    """Reads one folder after another; `cells_file` lists the cells and the inputs that must be scored."""

    def __init__(self, cells_file: Path, name: str = "said") -> None:
        self._cells_file, self._out = cells_file, cells_file.with_name(name)
        self._process: subprocess.Popen[bytes] | None = None

    def said(self, folder: Path, limits: Limits, most: int) -> bytes:
        """The answer of the process that reads a folder, at most `most` bytes."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        request = [str(folder.absolute()), str(self._out), limits.memory_bytes, limits.cpu_s, most]
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limits.wall_s)[0]:
            self.end()
            raise InputError(f"must be readable within {limits.wall_s:g} s; reading it takes longer.")
        answer = process.stdout.readline()
        if not answer:
            code = process.wait()
            self.end()
            raise InputError(breakdown(code, limits))
        code = int(answer)
        try:
            if code or self._out.stat().st_size > most:
                raise InputError(breakdown(code, limits))
            return reading.content(self._out, largest=most)
        finally:
            self._out.unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "deepval.protocol.submission_child", self._cells_file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **ALONE}, start_new_session=True,
        )  # fmt: skip

    def end(self) -> None:
        """Kill the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        process.wait()
        self._out.unlink(missing_ok=True)


@contextmanager
def reader(cells_file: Path, name: str = "said") -> Iterator[Reader]:
    """A reader whose process is killed when the context ends."""
    process = Reader(cells_file, name)
    try:
        yield process
    finally:
        process.end()


def breakdown(code: int, limits: Limits) -> str:
    """The reason why a reader that ended with this exit code gave no answer."""
    if code == NO_MEMORY:
        return f"must be readable within {limits.memory_bytes // 2**20:,} MiB of memory; reading it takes more."
    if -code == getattr(signal, "SIGXCPU", None):
        return f"must be readable within {limits.cpu_s:,} s of processor time; reading it takes more."
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"must be readable; its reader broke off ({how})."
