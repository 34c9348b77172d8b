"""`python -m deepval.basics.files.child MODULE ARGUMENT OUT`: requests to read
something untrusted -> what MODULE reads there, one answer after another in OUT.

This process never reads anything itself. For each request on standard input it forks a
process that bounds its own memory, processor time and output, reads, writes its answer
to the file and ends. Libraries thus load once, and no reading can affect another.
`bounded` has the other end.
"""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import IO, NoReturn

NO_MEMORY = 3
"""Exit code if the memory limit was reached."""


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


def serve(module: str, argument: str, out: int) -> None:
    """Read what each line of standard input requests; answer each line with the exit
    code of its reader.

    Args:
        module: Has a function `reader`, which takes the argument, prepares what all
            requests share and returns what writes the answer to one request.
        argument: Text for `reader`.
        out: Descriptor of the file of answers.
    """
    read = import_module(module).reader(argument)
    # the collector then leaves shared pages unwritten, so that a fork copies little
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        request, *bounds = json.loads(line)
        process = os.fork()
        if not process:
            _read(request, bounds, read, out)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _read(
    request: str,
    bounds: Sequence[int],
    read: Callable[[str, IO[bytes]], None],
    out: int,
) -> NoReturn:
    """Read in this forked process and end it; the standard input and output of the
    parent are closed to it.
    """
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.ftruncate(out, 0)
        os.lseek(out, 0, os.SEEK_SET)
        with os.fdopen(out, "wb") as file:
            bound(*bounds)
            read(request, file)
        code = 0
    except MemoryError:
        code = NO_MEMORY
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
