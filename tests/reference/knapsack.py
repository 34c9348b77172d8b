"""Slow twins of the multiple-choice knapsack: every plan on tiny tables, an integer DP,
a general solver, the LP.
"""

import itertools

import numpy as np


def enumerated(values: np.ndarray, costs: np.ndarray, budget: int) -> float:
    """Best value over every plan."""
    best = 0.0
    for plan in itertools.product(range(len(costs)), repeat=len(values)):
        if sum(costs[mode] for mode in plan) <= budget:
            best = max(best, sum(values[i, mode] for i, mode in enumerate(plan)))
    return best


def dynamic(values: np.ndarray, costs: np.ndarray, budget: int) -> float:
    """Best value by a table over every amount spent."""
    best = np.zeros(budget + 1)
    for row in values:
        nxt = best.copy()
        for mode in range(1, len(costs)):
            cost = int(costs[mode])
            if cost <= budget:
                nxt[cost:] = np.maximum(
                    nxt[cost:], best[: budget + 1 - cost] + row[mode]
                )
        best = np.maximum.accumulate(nxt)
    return float(best[-1])


def highs(values: np.ndarray, costs: np.ndarray, budget: int) -> float:
    """Best value by HiGHS: one binary variable per input and mode above cheap."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    inputs, above = len(values), len(costs) - 1
    number = inputs * above
    one_mode = coo_matrix(
        (np.ones(number), (np.repeat(np.arange(inputs), above), np.arange(number)))
    )
    spend = coo_matrix(np.tile(costs[1:], inputs)[None].astype(float))
    constraints = [
        LinearConstraint(one_mode, -np.inf, 1),
        LinearConstraint(spend, -np.inf, budget),
    ]
    found = milp(
        -values[:, 1:].ravel(),
        constraints=constraints,
        integrality=np.ones(number),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return float(-found.fun)


def relaxed(values: np.ndarray, costs: np.ndarray, budget: float) -> float:
    """The fractional optimum: walk up each input's hull, then buy the steps by value
    per cost, the last in part.
    """
    steps = []
    for row in values.tolist():
        cost, value = 0, 0.0
        while True:
            ahead = [
                ((v - value) / (c - cost), c, v)
                for c, v in zip(costs.tolist(), row, strict=True)
                if c > cost
            ]
            if not ahead or max(ahead)[0] <= 0:
                break
            slope, dearer, worth = max(ahead)
            steps.append((slope, dearer - cost))
            cost, value = dearer, worth
    total = 0.0
    for slope, length in sorted(steps, reverse=True):
        part = min(length, budget)
        total, budget = total + slope * part, budget - part
    return total
