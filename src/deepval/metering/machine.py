"""This machine -> what a cost was measured on: its processor, and how many threads may run."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: *(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def held_to(threads: int | None) -> Iterator[int]:
    """Hold the thread pools of BLAS, OpenMP and OpenCV that are loaded to so many; None leaves them as they are."""
    if threads is None:
        yield processors()
        return
    from threadpoolctl import threadpool_limits

    opencv = sys.modules.get("cv2")
    before = None if opencv is None else opencv.getNumThreads()
    with threadpool_limits(limits=threads):
        try:
            if opencv is not None:
                opencv.setNumThreads(threads)
            yield threads
        finally:
            if opencv is not None:
                opencv.setNumThreads(before)
