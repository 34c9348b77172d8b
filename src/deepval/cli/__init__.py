"""The command `deepval`: files in, verdicts out. Bad input is one sentence on stderr and exit code 2."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepval.version import __version__

STOPPED = 130
"""Exit code of a command that was stopped by Ctrl-C: 128 and the number of the signal."""


def main() -> None:
    """Run the command; its version needs nothing else to be loaded."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"deepval {__version__}\n")
        return
    with loading():
        from deepval.cli.commands import run
    run()


@contextmanager
def loading() -> Iterator[None]:
    """End the process at once where Ctrl-C stops it meanwhile: some libraries swallow an interrupt as they load."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _stopped)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _stopped(*_: object) -> None:
    os.write(2, b"\ndeepval: stopped. Nothing was begun: run it again.\n")
    os._exit(STOPPED)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("app", "COMMANDS"):
        return getattr(import_module("deepval.cli.commands"), name)
    raise AttributeError(f"module 'deepval.cli' has no attribute {name!r}")
