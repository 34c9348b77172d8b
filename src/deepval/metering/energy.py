"""Rails and a run -> millijoules per input over idle, by convention.

Idle power is measured first, with nothing running, and subtracted for as long as the run takes. Rails that count are
read before and after; rails that only show power are sampled meanwhile by a thread and integrated by trapezoids.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.errors import InputError
from deepval.metering.rails import Rail, conventions, rails
from deepval.metering.timing import Clock
from deepval.tables.costs import Convention

PERIOD_S = 0.01
"""Time between samples of power."""


@dataclass(frozen=True)
class Spent:
    """Energy of a run over idle.

    Attributes:
        mj: Millijoules per input by convention; only those that the rails serve and that rose above idle.
        idle_mw: Idle power by convention.
        inputs: Inputs of the run.
        sensors: Labels of the rails.
        note: One sentence on conventions that did not rise above idle; None if all did.
    """

    mj: Mapping[Convention, float]
    idle_mw: Mapping[Convention, float]
    inputs: int
    sensors: tuple[str, ...]
    note: str | None = None


def spent_over_idle(
    run: Callable[[], int],
    found: Sequence[Rail] | None = None,
    *,
    idle_s: float = 3.0,
    clock: Clock = time.perf_counter_ns,
    sleep: Callable[[float], object] = time.sleep,
) -> Spent:
    """Energy per input of a run over idle; `run` returns how many inputs it served.

    Args:
        run: What is measured; it should last seconds, as counters and samples are some milliseconds apart.
        found: Rails to read; those of this machine unless given.
        idle_s: For how long idle power is measured.
        clock: Nanoseconds since some moment.
        sleep: Waits for so many seconds.
    """
    chosen = tuple(found) if found is not None else rails()
    sums = conventions(chosen)
    idle, _ = _recorded(lambda: sleep(idle_s), chosen, clock)
    work, inputs = _recorded(run, chosen, clock)
    if not isinstance(inputs, int) or inputs < 1:
        raise InputError(f"A measured run must serve an input or more and say how many; it said {inputs!r}.")
    idle_mw: dict[Convention, float] = {}
    mj: dict[Convention, float] = {}
    for convention, part in sums.items():
        idle_mw[convention] = sum(idle.mj[rail] for rail in part) / idle.seconds
        over = sum(work.mj[rail] for rail in part) - idle_mw[convention] * work.seconds
        if over > 0:
            mj[convention] = over / inputs
    flat = [convention for convention in sums if convention not in mj]
    note = f"No energy above idle was seen on {', '.join(flat)} in {work.seconds:.3g} s." if flat else None
    return Spent(mj, idle_mw, inputs, tuple(rail.label for rail in chosen), note)


def used_mj(rail: Rail, times_s: Sequence[float], readings: Sequence[float]) -> float:
    """Millijoules between the first and the last reading: differences of a counter, or the integral of power."""
    if not rail.counts:
        return float(np.sum(np.diff(times_s) * (np.array(readings[:-1]) + readings[1:]) / 2))
    steps = np.diff(readings)
    if np.any(steps < 0) and rail.wrap_mj is None:
        raise InputError(f"The energy counter {rail.label} must not go backwards, and it did: measure again.")
    return float(np.sum(np.where(steps < 0, steps + (rail.wrap_mj or math.nan), steps)))


@dataclass(frozen=True)
class _Record:
    mj: Mapping[Rail, float]
    seconds: float


def _recorded(action: Callable[[], Any], found: tuple[Rail, ...], clock: Clock) -> tuple[_Record, Any]:
    """Millijoules by rail while the action runs and the seconds it took, and what it returned."""
    seen: dict[Rail, list[tuple[float, float]]] = {rail: [] for rail in found}

    def look(part: Sequence[Rail]) -> None:
        for rail in part:
            seen[rail].append((clock() / 1e9, rail.read()))

    look(found)
    began = clock()
    with _repeated(lambda: look([rail for rail in found if not rail.counts])):
        result = action()
    seconds = (clock() - began) / 1e9
    look(found)
    return _Record({rail: used_mj(rail, *zip(*pairs, strict=True)) for rail, pairs in seen.items()}, seconds), result


@contextmanager
def _repeated(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again meanwhile; a sensor that fails on the way is an error in the end."""
    done, failed = threading.Event(), []

    def loop() -> None:
        try:
            while not done.wait(PERIOD_S):
                look()
        except OSError as error:
            failed.append(error)

    watcher = threading.Thread(target=loop, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if failed:
        raise InputError(f"Energy sensors must stay readable, and one failed: {failed[0]}.")
