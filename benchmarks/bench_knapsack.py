"""Exact multiple-choice knapsack beside HiGHS on one instance, and at a million inputs."""

import sys
import time
from pathlib import Path

import numpy as np

from deepval import knapsack

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from reference.knapsack import highs

COSTS = np.array([0, 14380, 16720, 18470])
ALPHA = 0.2


def instance(inputs: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """Dense values of three modes above cheap, and the budget of a zero-cost allocator at 20 %."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([np.zeros(inputs), rng.normal(0.2, 1, (inputs, 3)).cumsum(axis=1)])
    return values, int(1000 * inputs * ALPHA * 18.47 + 1e-6)


def solved(inputs: int, repeats: int) -> tuple[float, knapsack.Plan, knapsack.Verification]:
    """Median CPU seconds, the plan and its check."""
    values, budget = instance(inputs)
    times = []
    for _ in range(repeats):
        began = time.process_time()
        plan = knapsack.solve(values, COSTS, budget)
        times.append(time.process_time() - began)
    return float(np.median(times)), plan, knapsack.check(plan, values, COSTS)


def main() -> None:
    values, budget = instance(8008)
    ours, plan, proof = solved(8008, 9)
    began = time.process_time()
    theirs = highs(values, COSTS, budget)
    slow = time.process_time() - began
    print("exact multiple-choice knapsack, 3 modes above cheap, 20 % budget")
    print(f"  8,008 inputs: {1000 * ours:.1f} ms CPU; HiGHS {slow:.2f} s CPU; ratio {slow / ours:,.0f}")
    print(f"    value {plan.value:.6f}, HiGHS {theirs:.6f}; gap left to the LP bound {proof.gap:.2e}, core {plan.core}")
    large, plan, proof = solved(1_000_000, 1)
    print(
        f"  1,000,000 inputs: {large:.2f} s CPU; gap left {proof.gap:.2e}, core {plan.core}, peak states {plan.states}"
    )


if __name__ == "__main__":
    main()
