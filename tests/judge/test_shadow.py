"""Shadow runs: the reader is unbiased by enumeration, the plan spends its budget
exactly, the log is whole lines.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import deepval
from commands import run
from deepval.basics.errors import InputError
from deepval.judge.shadow import water_filling
from deepval.judge.tables import columns
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
    """Every outcome of four coins with its probability; input 2 is always run, and
    input 5 never, so that gaps remain.

    Input 3 is left out: where no other unit has a shadowed input, its prediction is
    fitted on its own unit.
    """
    rng = np.random.default_rng(1)
    losses, score = rng.exponential(size=(6, 2)), rng.normal(size=6)
    mean, free, unbiased = np.zeros((6, 2)), [0, 1, 3, 4], [0, 1, 2, 4]
    for coins in itertools.product([False, True], repeat=4):
        ran = np.array([False, False, True, False, False, False])
        ran[free] = coins
        log = log_of(
            losses, CHANCE, ran, cheap_everywhere=cheap_everywhere, score=score
        )
        mean += (
            np.prod(np.where(ran, CHANCE, 1 - CHANCE)[free])
            * quietly(deepval.read_values, log).losses
        )
    np.testing.assert_allclose(mean[unbiased], losses[unbiased], atol=1e-12)


def test_a_log_is_nearly_exact_where_the_full_loss_follows_the_cheap_one():
    rng = np.random.default_rng(2)
    cheap = rng.exponential(size=3000)
    losses, unit = (
        np.column_stack([cheap, 0.5 * cheap]),
        np.repeat([f"u{i:02d}" for i in range(30)], 100),
    )
    ran = rng.random(3000) < 0.1
    log = log_of(
        losses, np.full(3000, 0.1), ran, unit=unit, score=rng.normal(size=3000)
    )
    table = deepval.read_values(log)
    assert table.losses[:, 0].tolist() == cheap.tolist()
    # without the cheap loss as a feature: 0.5
    assert np.abs(table.losses - losses).mean() < 0.05
    assert (
        f"all modes ran on {ran.sum()} of 3000 inputs, not "
        f"measured. Effective inputs: {ran.sum()};"
    ) in table.estimated
    row = judge(table, {"mine": log["score"]}, 0.2, draws=20).row("mine")
    true = judge(
        deepval.ValueTable.from_columns(
            unit=unit, losses={"a": cheap, "b": 0.5 * cheap}
        ),
        {"mine": log["score"]},
        0.2,
        draws=0,
    ).row("mine")
    assert row.versus_random == pytest.approx(true.versus_random, abs=2e-3)


def test_a_log_without_gaps_is_a_table():
    table = quietly(
        deepval.read_values, log_of(np.ones((6, 2)), CHANCE, np.ones(6, dtype=bool))
    )
    assert table.estimated is None


NONE = np.zeros(6, dtype=bool)
SOME = np.array([True, False, True, False, False, False])
WRONG = {
    "never": (NONE, {"propensity": CHANCE / 2}, "'loss_full'"),
    "certain": (NONE, {}, "'2'"),
    "half": (SOME, {"loss_cheap": [1, 1, 1, np.nan, np.nan, np.nan]}, "or only those"),
    "zero": (SOME, {"propensity": [0.5, 0.0, 1.0, 0.5, 0.5, 0.5]}, "'1'"),
    "tiny": (SOME, {"propensity": [0.5, 0.0001, 1.0, 0.5, 0.5, 0.5]}, "'1'"),
    "score": (SOME, {"score": [1, 2, np.nan, 4, 5, 6]}, "'2'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_logs_that_cannot_be_are_refused(case):
    ran, change, sentence = WRONG[case]
    with pytest.raises(InputError) as caught:
        quietly(deepval.read_values, log_of(np.ones((6, 2)), CHANCE, ran) | change)
    assert sentence in str(caught.value)


def earlier_table(rng, inputs=2000):
    """A table whose high scores have most of the value, and its scores."""
    score = rng.normal(size=inputs)
    value = np.where(
        rng.random(inputs) < 0.05 + 0.3 * (score > 1), rng.normal(1, 1, inputs), 0.0
    )
    unit = np.repeat([f"u{i:02d}" for i in range(20)], inputs // 20)
    return deepval.ValueTable.from_columns(
        unit=unit, losses={"cheap": 2 + value, "full": 2 + 0 * value}
    ), score


@pytest.mark.parametrize("share", [0.001, 0.03, 0.4, 1.0])
@pytest.mark.parametrize("escalating", [False, True])
@pytest.mark.parametrize("by_loss", [False, True])
def test_a_plan_spends_its_share_exactly(share, escalating, by_loss):
    rng = np.random.default_rng(3)
    table, score = earlier_table(rng)
    # ties, and scores beyond those of the table
    coming = np.round(rng.normal(0.3, 1.2, 777), 1)
    loss = np.round(rng.exponential(size=777) if by_loss else coming, 1)
    signals = {"signal": table.losses[:, 0], "coming_signal": loss} if by_loss else {}
    plan = deepval.shadow_plan(
        table, score, share, coming=coming, escalating=escalating, **signals
    )
    inputs = zip(
        *(column.tolist() for column in (coming, loss)[: 1 + by_loss]), strict=True
    )
    chance = np.array([plan.propensity(*numbers) for numbers in inputs])
    charged = (
        chance[coming < np.quantile(coming, 0.8, method="higher")]
        if escalating
        else chance
    )
    assert charged.sum() == pytest.approx(min(share * 777, len(charged)), rel=1e-9)
    assert chance.min() >= 0.2 * share - 1e-12
    assert chance.max() <= 1


def test_water_filling_is_the_least_variance_of_a_grid():
    target, number = np.array([1.0, 2.0, 10.0]), np.array([50, 30, 20])
    best = water_filling(target, number, 30.0, 0.05)
    assert number @ best == pytest.approx(30.0)
    grid = np.linspace(0.05, 1, 96)
    first, second = np.meshgrid(grid, grid)
    third = (30 - 50 * first - 30 * second) / 20
    fits = (third >= 0.05) & (third <= 1)
    variance = 50 / first[fits] + 30 * 4 / second[fits] + 20 * 100 / third[fits]
    assert number @ (target**2 / best) <= variance.min() + 1e-9


def test_a_plan_favours_what_decides_and_is_read_again(tmp_path):
    table, score = earlier_table(np.random.default_rng(4))
    plan = deepval.shadow_plan(table, score, 0.03, seed=5)
    assert plan.propensity(2.0) > 3 * plan.propensity(0.0)
    assert 0.05 < plan.uniform < 0.12
    plan.save(tmp_path / "plan.json")
    again = deepval.ShadowPlan.load(tmp_path / "plan.json")
    assert again == plan
    coins = [again.shadows(2.0, name) for name in range(20_000)]
    assert coins == [plan.shadows(2.0, str(name)) for name in range(20_000)]
    assert np.mean(coins) == pytest.approx(plan.propensity(2.0), abs=0.01)
    (tmp_path / "plan.json").write_text(
        (tmp_path / "plan.json").read_text().replace('"edges": [', '"edges": [9,')
    )
    with pytest.raises(InputError, match="must have rising"):
        deepval.ShadowPlan.load(tmp_path / "plan.json")


def test_a_signal_finds_what_the_score_does_not():
    rng = np.random.default_rng(7)
    table, score = earlier_table(rng)
    loss = table.losses[:, 0]
    by_score = deepval.shadow_plan(table, score, 0.03)
    by_loss = deepval.shadow_plan(table, score, 0.03, signal=loss)
    assert (
        replace(deepval.shadow_plan(table, score, 0.03, signal=score), by_signal=False)
        == by_score
    )
    with pytest.raises(InputError, match="goes by a signal and the score"):
        by_loss.propensity(0.0)
    with pytest.raises(InputError, match="goes by the score alone"):
        by_score.shadows(0.0, "a", 4.0)
    assert by_loss.uniform > 2 * by_score.uniform
    assert by_loss.propensity(0.0, 4.0) > 3 * by_loss.propensity(0.0, 2.0)
    assert by_loss.propensity(2.0, 4.0) == pytest.approx(
        min(1.0, 4 * by_loss.propensity(0.0, 4.0))
    )
    assert [by_loss.shadows(0.0, i, 4.0) for i in range(50)] != [
        by_loss.shadows(0.0, i, 2.0) for i in range(50)
    ]
    with pytest.raises(InputError, match="one finite score and signal"):
        deepval.shadow_plan(table, score, 0.03, coming=score, signal=loss)


def test_the_command_plans_by_loss(tmp_path):
    table, score = earlier_table(np.random.default_rng(8))
    inputs, (cheap, full) = np.arange(len(score)), table.losses.T
    values = {
        "unit": table.unit_ids[table.unit],
        "input": inputs,
        "loss_cheap": cheap,
        "loss_full": full,
    }
    for name, data in {
        "values": values,
        "mine": {"input": inputs, "score": score},
        "coming": {"input": inputs, "score": score, "loss": cheap},
    }.items():
        (tmp_path / f"{name}.csv").write_text(columns.csv_text(data))
    before = (
        "shadow",
        tmp_path / "values.csv",
        "-s",
        tmp_path / "mine.csv",
        "--by-loss",
        "--out",
    )
    assert run(*before, tmp_path / "own.csv")[0] == 0
    assert (
        run(*before, tmp_path / "new.csv", "--coming", tmp_path / "coming.csv")[0] == 0
    )
    assert (tmp_path / "own.csv").read_text() == (tmp_path / "new.csv").read_text()
    chance = columns.read(tmp_path / "own.csv").numbers("propensity")
    plan = deepval.shadow_plan(table, score, 0.03, signal=cheap)
    assert chance.tolist() == [
        plan.propensity(*pair)
        for pair in zip(score.tolist(), cheap.tolist(), strict=True)
    ]
    (tmp_path / "twice.csv").write_text("input,score,loss\n1,0.5,1\n1,0.5,1\n")
    assert (
        "'1' stands in rows 1 and 2"
        in run(*before, tmp_path / "no.csv", "--coming", tmp_path / "twice.csv").err
    )
    assert not (tmp_path / "no.csv").exists()
    code, _, err = run(*before, tmp_path / "new.csv", "--coming", tmp_path / "mine.csv")
    assert code != 0
    assert "loss" in err


def test_plans_that_cannot_be_are_refused():
    table, score = earlier_table(np.random.default_rng(5))
    for options, sentence in (
        ({"share": 1.5}, "share"),
        ({"coming": [np.nan]}, "one finite score and"),
        ({"coming": []}, "one finite score and"),
    ):
        with pytest.raises(InputError, match=sentence):
            deepval.shadow_plan(table, score, **({"share": 0.03} | options))


def test_a_log_of_a_running_system_is_judged(tmp_path):
    rng = np.random.default_rng(6)
    table, score = earlier_table(rng)
    plan, path = deepval.shadow_plan(table, score, 0.5), tmp_path / "log.csv"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda _: None)
        for i in range(400):
            log = deepval.ShadowLog(path)  # as a process that starts again
            ran = plan.shadows(score[i * 5], i)
            losses = [table.losses[i * 5, 0], table.losses[i * 5, 1] if ran else None]
            unit = table.unit_ids[table.unit[i * 5]]
            log.append(
                f"{unit},",
                i,
                score=score[i * 5],
                propensity=plan.propensity(score[i * 5]),
                losses=losses,
            )
    result = judge(path, {"mine": path}, 0.2, draws=50)
    assert (
        "difference estimates from a log in which all modes ran on"
        in result.warnings[0]
    )
    assert result.row("mine").versus_random_lo < result.row("mine").versus_random_hi
    whole = path.read_text()
    path.write_text(whole[:-3])
    with pytest.raises(InputError, match="its last line is cut"):
        deepval.ShadowLog(path)
    path.write_text(whole)
    with pytest.raises(InputError, match="must be a shadow log with columns"):
        deepval.ShadowLog(path, ["small", "large"])
    for bad in (
        {"propensity": 0.0},
        {"propensity": 1.0},
        {"score": np.nan},
        {"propensity": 1e-5},
        {"losses": [None, 1.0]},
        {"losses": [None, None]},
        {"losses": [1e151, None]},
        {"losses": [1.0]},
    ):
        with pytest.raises(InputError):
            deepval.ShadowLog(path).append(
                "u",
                1,
                **({"score": 1.0, "propensity": 0.5, "losses": [1.0, None]} | bad),
            )
    assert path.read_text() == whole


def test_a_row_that_is_logged_again_counts_once(tmp_path):
    path = tmp_path / "log.csv"
    one = deepval.ShadowLog(path)
    other = deepval.ShadowLog(path)  # another process
    about = {"score": 1.0, "propensity": 0.5}
    one.append("u, v", 1, losses=(1.0, 0.5), **about)
    other.append("u, v", 2, losses=(1.0, None), **about)
    before = path.read_text()
    for log in (one, other, deepval.ShadowLog(path)):
        log.append("u, v", 1, losses=(1.0, 0.5), **about)
        with pytest.raises(InputError, match="is logged with other values"):
            log.append("u, v", 2, losses=(1.0, 0.0), **about)
    assert path.read_text() == before


def test_rows_that_lack_other_losses_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    log = deepval.ShadowLog(path, ["small", "middle", "large"])
    about = {"score": 1.0, "propensity": 0.5}
    log.append("u", 1, losses=(1.0, 0.7, None), **about)
    log.append("u", 2, losses=(1.0, 0.7, 0.5), **about)
    with pytest.raises(InputError, match="must lack the same losses"):
        deepval.ShadowLog(path, ["small", "middle", "large"]).append(
            "u", 3, losses=(1.0, None, None), **about
        )
