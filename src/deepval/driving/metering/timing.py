"""Stages of a computation and items to run them on -> milliseconds per input, repeated
until the median is tight.

The interval of the median is given by order statistics: the l-th smallest and the l-th
largest of n times, with the largest l for which P(Binomial(n, 1/2) < l) <= 2.5 %. It
assumes no shape of the distribution, and needs 6 calls or more.
"""

import math
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, library

Stages = Mapping[str, Callable[[Any], Any]]
"""Steps of a call by name: the first takes an item or a batch, every later step the
result of the step before.
"""
Entry = dict[str, float | int | str | bool]
"""A table of a costs file."""
Items = Sequence[Any] | np.ndarray
Clock = Callable[[], int]
"""Returns nanoseconds since a fixed moment."""
LEAST_CALLS = 6
"""Fewer times have no 95 % interval of the median: 2 * 0.5 ** 5 > 5 %."""
DEFAULT_TOLERANCE = 0.02


@dataclass(frozen=True)
class Timing:
    """Milliseconds per input of each call: in total, and of each stage, which are parts
    of the total.

    Attributes:
        total_ms: From the beginning of a call to its end, divided by the inputs of a
            call.
        stages: The same for each stage.
        batch: Inputs of a call; None if each call had one input and was not a batch.
        tolerance: How far the interval of the median may reach from it, relative to it.
        limit: The limit that ended the measurement before the interval was tight; None
            if none did.
    """

    total_ms: Float[np.ndarray, "call"]
    stages: Mapping[str, Float[np.ndarray, "call"]]
    batch: int | None = None
    tolerance: float = DEFAULT_TOLERANCE
    limit: str | None = None

    @property
    def calls(self) -> int:
        """Number of measured calls."""
        return self.total_ms.size

    @property
    def ms(self) -> float:
        """The median time per input."""
        return figures("", self.total_ms)["ms"]

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the time per input, linear between order
        statistics.
        """
        return figures("", self.total_ms)["p95_ms"]

    @property
    def interval_ms(self) -> tuple[float, float]:
        """The 95 % interval of the median; NaN from fewer than 6 calls."""
        return median_interval(self.total_ms)

    @property
    def tight(self) -> bool:
        """Whether the interval of the median lies within the tolerance."""
        return _is_tight(self.total_ms, self.tolerance)

    @property
    def note(self) -> str | None:
        """One sentence if the interval of the median exceeds the tolerance."""
        if self.tight:
            return None
        low, high = self.interval_ms
        reach = max(self.ms - low, high - self.ms) / self.ms if self.ms else math.nan
        end = (
            "(target "
            f"{100 * self.tolerance:g} %){f': {self.limit}' if self.limit else ''}."
        )
        if math.isnan(low):
            return (
                f"Timing is uncertain: {self.calls} calls are "
                f"too few for a 95 % interval {end}"
            )
        return f"Timing is noisy: {self.ms:.4g} ms +/- {100 * reach:.1f} % {end}"


def measure(
    stages: Stages,
    items: Items,
    *,
    warmup: int = 5,
    least: int = 50,
    most: int = 100_000,
    tolerance: float = DEFAULT_TOLERANCE,
    seconds: float = 5.0,
    batch: int | None = None,
    calls: int | None = None,
    clock: Clock = perf_counter_ns,
) -> Timing:
    """Times per input of calls over the items in turn, until the median is tight or a
    limit is reached.

    Args:
        stages: Steps of a call by name.
        items: Inputs of the calls; a batch is a slice of them.
        warmup: Number of calls before the measured ones.
        least: Least number of measured calls, unless the time is up.
        most: Largest number of measured calls.
        tolerance: How far the 95 % interval of the median may reach from it, relative
            to it.
        seconds: Time limit of the measured calls; the current call is finished.
        batch: Inputs of a call; None passes one item to each call.
        calls: Fixed number of measured calls, without the other limits; None measures
            until the median is tight.
        clock: Returns nanoseconds since a fixed moment.
    """
    _check(
        stages,
        items,
        warmup=warmup,
        least=least,
        most=most,
        tolerance=tolerance,
        seconds=seconds,
        batch=batch,
        calls=calls,
    )
    turns = turns_of(items, batch)
    for turn in range(warmup):
        _marks(stages, turns[turn % len(turns)], clock)
    marks, limit, look = [], None, least
    while limit is None and len(marks) != calls:
        # The warm-up went through the items as well, so the first turn is not always
        # the same one.
        marks.append(_marks(stages, turns[(warmup + len(marks)) % len(turns)], clock))
        if calls is not None:
            continue
        if len(marks) == look:
            if _is_tight(_total_ms(marks, batch), tolerance):
                break
            # Checking after every call would stop at the first interval that is tight
            # by chance.
            look = math.ceil(look * 1.1)
        if marks[-1][-1] - marks[0][0] >= seconds * 1e9:
            limit = f"the time limit of {seconds:g} s was reached"
        elif len(marks) >= most:
            limit = f"the limit of {most} calls was reached"
    steps = np.diff(np.array(marks, dtype=np.int64), axis=1) / (1e6 * (batch or 1))
    return Timing(
        _total_ms(marks, batch),
        dict(zip(stages, steps.T, strict=True)),
        batch,
        tolerance,
        limit,
    )


def figures(prefix: str, times_ms: Float[np.ndarray, "call"]) -> dict[str, float]:
    """Median and 95th percentile, linear between order statistics, as a costs file
    names them.
    """
    return {
        f"{prefix}ms": float(np.median(times_ms)),
        f"{prefix}p95_ms": float(np.quantile(times_ms, 0.95)),
    }


def turns_of(items: Items, batch: int | None) -> list[Any]:
    """The argument of each call: single items, or slices of `batch` items; items that
    fill no batch are left out.
    """
    if batch is None:
        return list(items)
    return [
        items[start : start + batch]
        for start in range(0, len(items) - batch + 1, batch)
    ]


def median_interval(times: Float[np.ndarray, "call"]) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics; NaN from fewer than 6
    values.
    """
    rank = _rank(times.size)
    if rank == 0:
        return math.nan, math.nan
    ordered = np.sort(times)
    return float(ordered[rank - 1]), float(ordered[-rank])


def _rank(number: int) -> int:
    """The largest l with P(Binomial(number, 1/2) < l) <= 2.5 %."""
    if number < LEAST_CALLS:
        return 0
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, number + 1)))])
    chances = np.exp(logs[-1] - logs - logs[::-1] - number * math.log(2))
    return int(np.searchsorted(np.cumsum(chances), 0.025, side="right"))


def _is_tight(times: Float[np.ndarray, "call"], tolerance: float) -> bool:
    low, high = median_interval(times)
    median = float(np.median(times))
    return max(median - low, high - median) <= tolerance * median


def _total_ms(marks: list[list[int]], batch: int | None) -> Float[np.ndarray, "call"]:
    times = np.array(marks, dtype=np.int64)
    return (times[:, -1] - times[:, 0]) / (1e6 * (batch or 1))


def _marks(stages: Stages, item: Any, clock: Clock) -> list[int]:
    marks = [clock()]
    for stage in stages.values():
        item = stage(item)
        marks.append(clock())
    return marks


def _check(stages: Stages, items: Items, **numbers: Any) -> None:
    if not stages or not len(items):
        raise InputError(
            "A measurement needs a stage and "
            f"an item; found {len(stages)} and {len(items)}."
        )
    if numbers["calls"] is not None and numbers["calls"] < 1:
        raise InputError(
            f"A measurement needs a call or more; found {numbers['calls']}."
        )
    if numbers["batch"] is not None and not 1 <= numbers["batch"] <= len(items):
        raise InputError(
            f"A batch must hold 1 to {len(items)} items, "
            f"as there are; found {numbers['batch']}."
        )
    if numbers["warmup"] < 0 or not LEAST_CALLS <= numbers["least"] <= numbers["most"]:
        raise InputError(
            f"Calls must satisfy 0 <= warmup and {LEAST_CALLS} <= least <= most; "
            "found warmup "
            f"{numbers['warmup']}, least {numbers['least']}, most {numbers['most']}."
        )
    for name in ("tolerance", "seconds"):
        if not 0 < numbers[name] < math.inf:
            raise InputError(
                f"{name} must be a positive number; found {numbers[name]}."
            )


def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    match = (
        re.search(r"model name\s*: *(.+)", cpuinfo.read_text())
        if cpuinfo.exists()
        else None
    )
    return match[1].strip() if match else platform.processor() or platform.machine()


def processors() -> int:
    """Number of processors that this process may use."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


@contextmanager
def thread_limit(threads: int | None) -> Iterator[int]:
    """Limit the loaded thread pools of BLAS, OpenMP and OpenCV to `threads`; None sets
    no limit.
    """
    if threads is None:
        yield processors()
        return
    opencv = sys.modules.get("cv2")
    before = None if opencv is None else opencv.getNumThreads()
    with library("threadpoolctl").threadpool_limits(limits=threads):
        try:
            if opencv is not None:
                opencv.setNumThreads(threads)
            yield threads
        finally:
            if opencv is not None:
                opencv.setNumThreads(before)
