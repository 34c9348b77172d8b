"""The command `deepval`: files in, verdicts out. Bad input is one sentence on stderr
and exit code 2.
"""

import os
import sys
from contextlib import suppress
from typing import Any

from deepval.version import __version__

NO_READER = 141
"""Exit code of a command whose output is no longer read (`| head -1`): 128 and the
number of SIGPIPE.
"""


def main() -> None:
    """Run the command and end with its exit code, also where its output is closed, no
    longer read or on a full disk.
    """
    # A closed standard stream (`>&-`) becomes the null device, so that no other file
    # gets its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - open until the process ends
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003
            setattr(sys, name, stream)
    code = _run()
    # The interpreter flushes the streams at its exit: those that cannot be written to
    # become the null device.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if code:
        sys.exit(code)


def _run() -> int | str | None:
    """Run the command and return its exit code; output that cannot be written is
    reported.
    """
    code = None
    try:
        try:
            if sys.argv[1:] == ["--version"]:  # needs nothing else to be loaded
                sys.stdout.write(f"deepval {__version__}\n")
            else:
                from deepval.cli.terminal import loading

                with loading():
                    from deepval.cli.commands import run
                code = run()
        except SystemExit as end:
            # The library that prints help turns a closed pipe into exit code 1.
            code = (
                NO_READER if isinstance(end.__context__, BrokenPipeError) else end.code
            )
        # flushed here, because a failure during the exit of the interpreter can only be
        # printed
        if not code:
            sys.stdout.flush()
    except BrokenPipeError:
        return NO_READER
    except OSError as error:
        with suppress(OSError):
            sys.stderr.write(
                f"deepval: The output cannot be written: {error.strerror}.\n"
            )
        return 2
    return code


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("app", "call", "COMMANDS"):
        return getattr(import_module("deepval.cli.commands"), name)
    raise AttributeError(f"module 'deepval.cli' has no attribute {name!r}")
