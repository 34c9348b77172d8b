"""Shadow runs: the reader is unbiased by enumeration, the plan spends its budget exactly, the log is whole lines."""

import itertools

import numpy as np
import pytest

import deepval
from deepval.errors import InputError
from worlds import judge, quietly

CHANCE = np.array([0.5, 0.2, 1.0, 0.7, 0.4, 0.5])
"""Propensities of six inputs in units a, a, b, b, c, c."""


def log_of(losses, propensity, ran, *, cheap_everywhere=True, **more):
    """A shadow log of these true losses in which `ran` says where both modes ran."""
    cheap, full = losses.T
    return {
        "unit": ["a", "a", "b", "b", "c", "c"],
        "input": np.arange(len(losses)),
        "propensity": propensity,
        "loss_cheap": cheap if cheap_everywhere else np.where(ran, cheap, np.nan),
        "loss_full": np.where(ran, full, np.nan),
    } | more


@pytest.mark.parametrize("cheap_everywhere", [True, False])
def test_the_mean_over_all_coins_is_the_loss_itself(cheap_everywhere):
    """Every outcome of four coins with its probability; input 2 is always run, and input 5 never, so that gaps remain.

    Input 3 is left out: where no other unit has a shadowed input, its prediction is fitted on its own unit.
    """
    rng = np.random.default_rng(1)
    losses, score = rng.exponential(size=(6, 2)), rng.normal(size=6)
    mean, free, unbiased = np.zeros((6, 2)), [0, 1, 3, 4], [0, 1, 2, 4]
    for coins in itertools.product([False, True], repeat=4):
        ran = np.array([False, False, True, False, False, False])
        ran[free] = coins
        log = log_of(losses, CHANCE, ran, cheap_everywhere=cheap_everywhere, score=score)
        mean += np.prod(np.where(ran, CHANCE, 1 - CHANCE)[free]) * quietly(deepval.read_values, log).losses
    np.testing.assert_allclose(mean[unbiased], losses[unbiased], atol=1e-12)


def test_a_log_is_exact_where_the_full_loss_follows_the_cheap_one():
    rng = np.random.default_rng(2)
    cheap = rng.exponential(size=3000)
    losses, unit = np.column_stack([cheap, 0.5 * cheap]), np.repeat([f"u{i:02d}" for i in range(30)], 100)
    ran = rng.random(3000) < 0.1
    log = log_of(losses, np.full(3000, 0.1), ran, unit=unit, score=rng.normal(size=3000))
    table = deepval.read_values(log)
    assert table.losses[:, 0].tolist() == cheap.tolist()
    assert np.abs(table.losses - losses).mean() < 0.01  # without the cheap loss as a feature: 0.5
    assert (
        f"all modes ran on {ran.sum()} of 3000 inputs, not measured. Effective inputs: {ran.sum()};" in table.estimated
    )
    row = judge(table, {"mine": log["score"]}, 0.2, draws=20).row("mine")
    true = judge(deepval.ValueTable.from_columns(unit=unit, losses={"a": cheap, "b": 0.5 * cheap}),
                 {"mine": log["score"]}, 0.2, draws=0).row("mine")  # fmt: skip
    assert row.versus_random == pytest.approx(true.versus_random, abs=2e-3)


def test_a_log_without_gaps_is_a_table():
    table = quietly(deepval.read_values, log_of(np.ones((6, 2)), CHANCE, np.ones(6, dtype=bool)))
    assert table.estimated is None


NONE = np.zeros(6, dtype=bool)
SOME = np.array([True, False, True, False, False, False])
WRONG = {
    "never": (NONE, {"propensity": CHANCE / 2}, "must have run on some input; 'loss_full' is empty everywhere"),
    "certain": (NONE, {}, "has propensity 1, so it must hold all losses; row 3 (input '2') does not"),
    "half": (SOME, {"loss_cheap": [1, 1, 1, np.nan, np.nan, np.nan]}, "or only those that every row holds; row 2 "),
    "zero": (SOME, {"propensity": [0.5, 0.0, 1.0, 0.5, 0.5, 0.5]}, "above 0 and at most 1; row 2 (input '1') holds 0"),
    "tiny": (SOME, {"propensity": [0.5, 1e-4, 1.0, 0.5, 0.5, 0.5]}, "count for 10000; row 2 (input '1') holds 0.0001"),
    "score": (SOME, {"score": [1, 2, np.nan, 4, 5, 6]}, "must hold a number in every row; row 3 (input '2')"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_logs_that_cannot_be_are_refused(case):
    ran, change, sentence = WRONG[case]
    with pytest.raises(InputError) as caught:
        quietly(deepval.read_values, log_of(np.ones((6, 2)), CHANCE, ran) | change)
    assert sentence in str(caught.value)
