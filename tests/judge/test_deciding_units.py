"""A verdict rests on the same unit whatever else is judged, and noise is no gain."""

import numpy as np
import pytest

import deepval
from worlds import quietly


def alike(seed):
    """A table of seven units that are copies of three, and scores of its inputs."""
    rng = np.random.default_rng(seed)
    cheap = rng.integers(0, 5, (3, 6)) / 10
    full = rng.integers(0, 5, (3, 6)) / 10
    score = np.round(rng.random((3, 6)), 1)
    copied = rng.integers(0, 3, 7)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{unit}" for unit in range(7)], 6),
        input=np.arange(42),
        losses={"cheap": cheap[copied].ravel(), "full": full[copied].ravel()},
    )
    others = {f"other {i}": rng.random(42) for i in range(14)}
    return table, score[copied].ravel(), others


# On these seeds the last digits of a matrix product once named another unit.
@pytest.mark.parametrize("seed", [2, 30, 39, 44, 53])
def test_a_verdict_rests_on_the_same_unit_alone_and_among_others(seed):
    table, mine, others = alike(seed)
    alone = quietly(deepval.evaluate, table, {"mine": mine}, draws="exact")
    among = quietly(deepval.evaluate, table, {**others, "mine": mine}, draws="exact")
    for row in alone.rows:
        if row.allocator == "mine":
            same = among.row("mine", row.kind, row.alpha)
            assert same.rests_on == row.rests_on
            assert same.ndg_without_unit == row.ndg_without_unit


def test_of_units_that_contradict_alike_the_first_is_named():
    # Three units that are equal in everything: none contradicts more than another.
    losses = {"cheap": [3.0, 0.0] * 3, "full": [0.0, 0.0] * 3}
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b", "c", "c"], input=range(6), losses=losses
    )
    result = quietly(deepval.evaluate, table, {"mine": [1, 0] * 3}, 0.5, draws="exact")
    assert result.row("mine").ndg_without_unit == "a"


def test_a_mixture_that_gains_rounding_noise_escalates_nothing():
    # Gains of both modes cancel to the last digits of a sum, not to 0.
    values = np.array([0.1, 0.2, -0.3, 0.7, -0.4, -0.3])
    assert values.sum() != 0
    table = deepval.ValueTable.from_columns(
        unit=["a", "b", "c"] * 2,
        input=range(6),
        losses={"small": np.ones(6), "middle": 1 - values, "large": 1 + values},
    )
    result = quietly(deepval.evaluate, table, {"mine": np.arange(6.0)}, 0.5, draws=0)
    row = result.row("random-ladder")
    assert (row.escalated, row.gain) == (0.0, 0.0)
