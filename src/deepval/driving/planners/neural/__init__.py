"""The learned planner behind PKL and TIP, in our own code: road and boxes -> raster ->
network -> plan, PKL, TIP.

Only `network` imports torch (extra `torch`) at once; `planner` loads it at its first
use, and `rasters` loads OpenCV when it draws.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def repeatable(torch: Any, seed: int, threads: int = 1) -> Iterator[None]:
    """Seeded numbers, a fixed number of threads, sums in one order; torch's own
    settings are restored afterwards.
    """
    before, strict = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(mode=True)
            yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(mode=strict)
