"""Ctrl-C while libraries are loaded. A module of its own because it runs before any library is imported."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPED = 130
"""Exit code of a command that was stopped by Ctrl-C: 128 and the number of the signal."""


@contextmanager
def loading() -> Iterator[None]:
    """End the process at once where Ctrl-C stops it meanwhile: some libraries swallow an interrupt as they load."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not in_main_thread:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> None:
    os.write(2, b"\ndeepval: stopped. Nothing was begun: run it again.\n")
    os._exit(STOPPED)
