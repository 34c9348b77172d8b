"""How often 95 % intervals over estimated values hold the true difference with random,
by simulation.
"""

import warnings

import numpy as np
import pytest

import deepval
from deepval.judge.tables.off_policy import METHODS

pytestmark = pytest.mark.slow
UNITS, INPUTS, REPLICATIONS, MODES = 40, 25, 300, ["small", "large"]


def world(
    rng: np.random.Generator, units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units with their own difficulty; losses of both modes, and a score that knows a
    part of it.
    """
    hard = np.repeat(rng.normal(size=units), INPUTS) + rng.normal(size=units * INPUTS)
    small = np.maximum(1 + 0.5 * hard + 0.3 * rng.normal(size=len(hard)), 0)
    large = np.maximum(0.6 + 0.2 * hard + 0.3 * rng.normal(size=len(hard)), 0)
    return np.column_stack([small, large]), hard, hard + rng.normal(size=len(hard))


def ahead(table: deepval.ValueTable, score: np.ndarray, draws: int) -> deepval.Row:
    return deepval.evaluate(table, {"mine": score}, 0.2, draws=draws).row("mine")


def test_intervals_hold_the_true_difference():
    rng = np.random.default_rng(0)
    losses, _, score = world(rng, 8000)
    units = np.repeat(np.arange(8000), INPUTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        true = ahead(
            deepval.ValueTable.from_columns(
                unit=units, losses=dict(zip(MODES, losses.T, strict=True))
            ),
            score,
            0,
        ).versus_random
        held = dict.fromkeys(METHODS, 0)
        for _ in range(REPLICATIONS):
            losses, hard, score = world(rng, UNITS)
            chance = 1 / (1 + np.exp(-hard))
            chance = np.clip(chance, 0.1, 0.9)
            ran = (rng.random(len(hard)) < chance).astype(int)
            log = {
                "unit": np.repeat([f"u{u:02d}" for u in range(UNITS)], INPUTS),
                "input": np.arange(len(hard)),
                "mode": np.array(MODES)[ran],
                "loss": losses[np.arange(len(hard)), ran],
                "propensity": np.where(ran == 1, chance, 1 - chance),
                "hard": hard,
            }
            for method in METHODS:
                looks = ["hard"] if method == "doubly-robust" else []
                row = ahead(
                    deepval.values_from_log(log, MODES, method=method, features=looks),
                    score,
                    300,
                )
                held[method] += row.versus_random_lo <= true <= row.versus_random_hi
    for method, count in held.items():
        print(
            f"{method}: {100 * count / REPLICATIONS:.1f} % of {REPLICATIONS} "
            "intervals hold the truth"
        )
        assert 0.88 <= count / REPLICATIONS <= 0.99
