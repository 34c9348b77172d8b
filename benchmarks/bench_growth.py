"""How the CPU time of `evaluate` grows with inputs, units, draws and scores, one at a
time; memory of many units.

Run: python benchmarks/bench_growth.py. CPU seconds of one call in this process and the
slope between neighbours in logarithms (1: proportional), BLAS on one thread. The plain
case is 100,000 inputs of 100 units, 1,000 draws, one score, four selection budgets.
Cases of many units, ten inputs each, run in processes of their own: the peak is that of
the whole process, imports included.
"""

import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

from figures import ONE_THREAD, Figure, finish, run_alone

os.environ.update(ONE_THREAD)

import numpy as np

import deepval

BUDGETS = [deepval.Selection(alpha) for alpha in (0.1, 0.2, 0.3, 0.5)]
PLAIN = {"inputs": 100_000, "units": 100, "draws": 1_000, "scores": 1}
GROWN = {
    "inputs": (10_000, 100_000, 1_000_000, 10_000_000),
    "units": (10, 100, 1_000, 10_000),
    "draws": (10, 100, 1_000, 10_000),
    "scores": (1, 10, 100),
}
MOST_SLOPE = 1.2
MANY_UNITS = {10_000: (3.0, 0.5), 100_000: (60.0, 2.0)}
"""Units -> CPU seconds and GB that they may take."""


def taken_s(*, inputs: int, units: int, draws: int, scores: int) -> float:
    """CPU seconds of one evaluation."""
    rng = np.random.default_rng(0)
    cheap = rng.exponential(size=inputs)
    table = deepval.ValueTable.from_columns(
        unit=np.arange(inputs) * units // inputs,
        input=np.arange(inputs),
        losses={"cheap": cheap, "full": cheap - rng.normal(0.1, 1.0, inputs)},
    )
    named = {f"score{number}": rng.normal(size=inputs) for number in range(scores)}
    start = time.process_time()
    deepval.evaluate(table, named, BUDGETS, draws=draws)
    return time.process_time() - start


def grown(what: str, numbers: tuple[int, ...], plain: dict[str, int]) -> Figure:
    """The time at each number, and the steepest slope between neighbours."""
    seconds = []
    for number in numbers:
        seconds.append(taken_s(**plain | {what: number}))
        print(f"{what:>7} {number:>12,}  {seconds[-1]:8.3f} s CPU", flush=True)
    slopes = np.diff(np.log(seconds)) / np.diff(np.log(numbers))
    return Figure(
        f"evaluate, {numbers[-1]:,} {what}",
        f"{seconds[-1]:.2f} s CPU, steepest slope {slopes.max():.2f}",
        f"{numbers[-2]:,} {what}: {seconds[-2]:.2f} s",
        f"slope at most {MOST_SLOPE:g}",
        bool(slopes.max() <= MOST_SLOPE),
    )


def many_units(units: int, most_s: float, most_gb: float, draws: int) -> Figure:
    """CPU time of one call with many units, and the memory of its process."""
    case = {"inputs": 10 * units, "units": units, "draws": draws, "scores": 1}
    run = run_alone(Path(__file__), json.dumps(case))
    seconds = float(run.output)
    return Figure(
        f"evaluate, {units:,} units of ten inputs, {draws:,} draws",
        f"{seconds:.1f} s CPU, {run.peak_gb:.2f} GB",
        "-",
        f"at most {most_s:g} s, {most_gb:g} GB",
        seconds <= most_s and run.peak_gb <= most_gb,
    )


def main(*, tiny: bool = False) -> list[Figure]:
    warnings.simplefilter("ignore")
    plain = PLAIN | ({"inputs": 1_000, "units": 10, "draws": 10} if tiny else {})
    taken_s(**plain | {"draws": 10})
    cases = (
        {
            what: tuple(max(2, n // 100) for n in numbers[:2])
            for what, numbers in GROWN.items()
        }
        if tiny
        else GROWN
    )
    cases = {
        what: (2, 4) if len(set(numbers)) == 1 else numbers
        for what, numbers in cases.items()
    }
    figures = [grown(what, numbers, plain) for what, numbers in cases.items()]
    many = (
        {math.ceil(units / 100): most for units, most in MANY_UNITS.items()}
        if tiny
        else MANY_UNITS
    )
    return figures + [
        many_units(units, *most, draws=plain["draws"]) for units, most in many.items()
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        warnings.simplefilter("ignore")
        print(taken_s(**json.loads(sys.argv[1])))
    else:
        finish(main())
