"""How the CPU time of `evaluate` grows with inputs, units, draws and scores, one of them at a time.

Run: python benchmarks/bench_growth.py. CPU seconds of one call in this process and the slope between neighbours in
logarithms (1: proportional), BLAS on one thread. The plain case is 100,000 inputs of 100 units, 1,000 draws, one
score, four selection budgets.
"""

import math
import os
import time
import warnings

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

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


def main() -> None:
    """One line per case; nothing is asked of them."""
    warnings.simplefilter("ignore")
    taken_s(**{**PLAIN, "draws": 10})
    for what, numbers in GROWN.items():
        before: tuple[int, float] | None = None
        for number in numbers:
            seconds = taken_s(**{**PLAIN, what: number})
            slope = ""
            if before is not None:
                slope = f"  slope {math.log(seconds / before[1]) / math.log(number / before[0]):.2f}"
            print(f"{what:>7} {number:>12,}  {seconds:8.3f} s CPU{slope}", flush=True)
            before = number, seconds


if __name__ == "__main__":
    main()
