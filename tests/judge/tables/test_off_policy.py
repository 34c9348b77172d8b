"""Losses from logs in which one mode ran: unbiased by enumeration, exact where the
model is right, told everywhere.
"""

import itertools
from functools import partial

import numpy as np
import pytest

import deepval
from commands import refusal, run
from deepval.basics.errors import InputError, InputWarning
from deepval.judge.tables.logs.importing import values_from_log as estimates_from_log
from deepval.judge.tables.off_policy import METHODS, effective_inputs
from worlds import judge, quietly

MODES = ["small", "large"]
values_from_log = partial(estimates_from_log, least_runs=0)  # logs of a few rows


def log_of(losses, chance, ran, *, units=None, **more):
    """A log of these true losses in which `ran` says which mode ran, `chance` the
    probability of large.
    """
    rows = np.arange(len(losses))
    told = {
        "unit": np.repeat(["a", "b"], len(losses))[::2][: len(losses)]
        if units is None
        else units,
        "input": rows,
        "mode": np.array(MODES)[ran],
        "loss": losses[rows, ran],
        "propensity": np.where(ran == 1, chance, 1 - chance),
    }
    return told | more


@pytest.mark.parametrize("method", ["ipw", "doubly-robust"])
def test_the_mean_over_all_logs_is_the_loss_itself(method):
    """Every way in which modes could have been chosen, with its probability: the
    estimates average to the losses.
    """
    rng = np.random.default_rng(1)
    losses, chance = rng.exponential(size=(4, 2)), np.array([0.5, 0.2, 0.7, 0.4])
    # any model will do
    wrong = {f"predicted_{mode}": rng.normal(size=4) for mode in MODES}
    mean = np.zeros((4, 2))
    for ran in itertools.product([0, 1], repeat=4):
        ran = np.array(ran)
        # a mode that never ran is refused; its estimate is its guess
        if len(set(ran.tolist())) < 2:
            guess = (
                np.column_stack(list(wrong.values()))
                if method == "doubly-robust"
                else np.zeros((4, 2))
            )
            weight = (ran[:, None] == [0, 1]) / np.where(ran == 1, chance, 1 - chance)[
                :, None
            ]
            found = guess + weight * (losses[np.arange(4), ran][:, None] - guess)
        else:
            found = quietly(
                values_from_log,
                log_of(losses, chance, ran, **wrong),
                MODES,
                method=method,
            ).losses
        mean += np.prod(np.where(ran == 1, chance, 1 - chance)) * found
    np.testing.assert_allclose(mean, losses, atol=1e-12)


def test_doubly_robust_is_exact_where_the_model_is_right():
    rng = np.random.default_rng(2)
    losses, chance = rng.exponential(size=(30, 2)), rng.uniform(0.1, 0.9, 30)
    right = {f"predicted_{mode}": losses[:, m] for m, mode in enumerate(MODES)}
    ran = rng.integers(0, 2, 30)
    table = quietly(values_from_log, log_of(losses, chance, ran, **right), MODES)
    np.testing.assert_allclose(table.losses, losses)


def test_a_ridge_on_other_units_finds_a_straight_line():
    rng = np.random.default_rng(3)
    x, units = rng.normal(size=400), np.repeat([f"u{i:02d}" for i in range(20)], 20)
    losses = np.column_stack([2 + x, 1 - 0.5 * x])
    chance, ran = np.full(400, 0.5), rng.integers(0, 2, 400)
    log = log_of(losses, chance, ran, units=units, x=x)
    near = values_from_log(log, MODES, features=["x"])
    far = values_from_log(log, MODES)
    assert np.abs(near.losses - losses).max() < 0.2
    assert np.abs(far.losses - losses).max() > 1.0
    assert near.losses.mean(axis=0) == pytest.approx(losses.mean(axis=0), abs=0.02)


def test_self_normalised_weights_have_mean_one():
    rng = np.random.default_rng(4)
    losses, chance, ran = (
        rng.exponential(size=(50, 2)),
        rng.uniform(0.2, 0.8, 50),
        rng.integers(0, 2, 50),
    )
    table = quietly(
        values_from_log,
        log_of(np.ones((50, 2)), chance, ran),
        MODES,
        method="self-normalised",
    )
    np.testing.assert_allclose(
        table.losses.mean(axis=0), 1.0
    )  # a loss that is 1 everywhere is estimated as 1 in the mean
    plain = quietly(values_from_log, log_of(losses, chance, ran), MODES, method="ipw")
    assert np.array_equal(plain.losses > 0, ran[:, None] == [0, 1])
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 6.0]])
    assert effective_inputs(weight) == pytest.approx([2.0, 64 / 40])


def test_results_say_that_values_are_estimates(tmp_path):
    rng = np.random.default_rng(5)
    units = np.repeat([f"u{i}" for i in range(10)], 20)
    losses, chance, ran = (
        rng.exponential(size=(200, 2)),
        rng.uniform(0.2, 0.8, 200),
        rng.integers(0, 2, 200),
    )
    losses[:, 0] += 2.0
    table = values_from_log(
        log_of(
            losses,
            chance,
            ran,
            units=units,
            cost_small=1.0 + 0 * chance,
            cost_large=3.0 + chance,
        ),
        MODES,
    )
    assert table.input_costs["usd"][:, 0].tolist() == [1.0] * 200
    with pytest.warns(InputWarning, match="doubly robust estimates"):
        result = deepval.evaluate(table, {"mine": rng.normal(size=200)}, 0.2, draws=20)
    assert any("not measured" in note for note in result.warnings)
    assert "not measured" in result.to_json()
    deepval.write_values(table, tmp_path / "values.csv")
    again = deepval.read_values(tmp_path / "values.csv")
    assert again.estimated == table.estimated
    assert again.restrict(["u1"]).estimated == table.estimated
    assert "estimated" not in again.attributes
    result.report(tmp_path / "page.html")
    assert "not measured" in (tmp_path / "page.html").read_text()


def test_gains_of_a_score_are_found_again():
    """With half the inputs run at random, the estimated gain of a fixed score is near
    the true one.
    """
    rng = np.random.default_rng(6)
    units = np.repeat([f"u{i:03d}" for i in range(100)], 40)
    hard = rng.normal(size=4000)
    losses = np.column_stack(
        [np.clip(0.5 + 0.3 * hard, 0, 2), np.clip(0.3 + 0.1 * hard, 0, 2)]
    )
    chance, ran = np.full(4000, 0.5), rng.integers(0, 2, 4000)
    true = quietly(
        deepval.ValueTable.from_columns,
        unit=units,
        losses=dict(zip(MODES, losses.T, strict=True)),
    )
    log = log_of(losses, chance, ran, units=units, hard=hard)
    for method in METHODS:
        found = values_from_log(
            log,
            MODES,
            method=method,
            features=["hard"] if method == "doubly-robust" else (),
        )
        one, other = (
            judge(t, {"mine": hard}, 0.2, draws=0).row("mine") for t in (true, found)
        )
        close = 0.03 if method == "doubly-robust" else 0.25
        assert other.gain == pytest.approx(one.gain, rel=close)


GOOD = {
    "unit": ["a", "a", "b"],
    "input": [1, 2, 3],
    "mode": ["small", "large", "small"],
    "loss": [1.0, 0.5, 0.2],
    "propensity": [0.5, 0.5, 0.5],
}
WRONG = {
    "no propensity": ({"propensity": None}, {}, "'propensity'"),
    "zero": ({"propensity": [0.5, 0.0, 0.5]}, {}, "'2'"),
    "above one": ({"propensity": [0.5, 0.5, 1.5]}, {}, "'3'"),
    "near zero": ({"propensity": [0.5, 0.001, 0.5]}, {}, "'2'"),
    "mode": ({"mode": ["small", "huge", "small"]}, {}, "'mode'"),
    "never": ({"mode": ["small"] * 3}, {}, "'large'"),
    "method": ({}, {"method": "magic"}, "'magic'"),
    "loss": ({"loss": [1.0, float("inf"), 0.0]}, {}, "the loss of"),
    "half a model": ({"predicted_small": [1.0, 1.0, 1.0]}, {}, "'predicted_large'"),
    "feature": ({}, {"features": ["size"]}, "column 'size' is needed"),
    "clip": ({}, {"clip": 2.0}, "Propensities are clipped"),
}


@pytest.mark.parametrize("case", WRONG)
def test_logs_that_cannot_be_are_refused(case):
    change, options, told = WRONG[case]
    log = {
        name: column for name, column in (GOOD | change).items() if column is not None
    }
    with pytest.raises(InputError) as caught:
        quietly(values_from_log, log, MODES, **options)
    assert told in str(caught.value)


def test_clipping_is_told():
    table = quietly(
        values_from_log,
        GOOD | {"propensity": [0.5, 0.001, 0.5]},
        MODES,
        method="ipw",
        clip=0.05,
    )
    assert table.losses[1].tolist() == [0.0, 0.5 / 0.05]
    assert (
        "smallest propensity 0.05, 1 clipped up to it, which biases" in table.estimated
    )
    # rewards instead of losses
    quietly(values_from_log, GOOD | {"reward": [1, 2, 3]}, MODES)


def service_log(runs, folder):
    """A log of a service that drew a model for each request, large half the time; its
    names are its own. Large is right where x is above 0.
    """
    rng = np.random.default_rng(7)
    x, large = rng.normal(size=runs), np.arange(runs) % 2 == 0
    right = np.where(large, x > 0, rng.random(runs) < 0.3)
    lines = ["request,tenant,llm,verdict,chance,x,prompt"]
    for i in range(runs):
        name, verdict = MODES[int(large[i])], ["wrong", "right"][int(right[i])]
        lines.append(f"{i:04d},t{i % 20},{name},{verdict},0.5,{x[i]},secret words")
    (folder / "service.csv").write_text("\n".join(lines) + "\n")
    words = ("import", folder / "service.csv", "-o", folder / "v.csv")
    return *words, "--right", "verdict"


def test_a_log_with_a_model_per_request_is_estimated_if_its_chances_are_known(
    tmp_path,
):
    words = service_log(200, tmp_path)
    assert "--propensity" in refusal(*words)
    estimate = (*words, "--off-policy", "doubly-robust", "--modes", "small,large")
    assert "--propensity" in refusal(*estimate)
    done = run(*estimate, "--propensity", "chance", "--feature", "x", notes=True)
    assert (done.code, "chance: probability" in done.out) == (0, True)
    table = deepval.read_values(tmp_path / "v.csv")
    assert list(table.input[:2]) == ["0000", "0001"]
    assert table.losses.mean(axis=0) == pytest.approx([-0.3, -0.5], abs=0.15)
    assert "secret" not in (tmp_path / "v.csv").read_text()
    answer = " ".join(run("evaluate", tmp_path / "v.csv", notes=True).out.split())
    assert "Effective inputs: small 100, large 100" in answer


def test_estimates_on_too_few_runs_are_refused(tmp_path):
    words = service_log(40, tmp_path)
    options = ("--off-policy", "ipw", "--modes", "small,large", "--propensity")
    sentence = refusal(*words, *options, "chance")
    assert "30 effective runs" in sentence
    assert "has 20.0" in sentence
    assert not (tmp_path / "v.csv").exists()
