"""Rewards: numbers, right and wrong in words, percentages."""

import warnings

import numpy as np
import pytest

import deepval
from deepval.basics.errors import InputError


def read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.read_values(path)


def test_right_and_wrong_may_be_words_or_percentages(tmp_path):
    file = tmp_path / "v.csv"
    file.write_text(
        "unit,input,reward_a,reward_b\n"
        "x,1,true,85%\nx,2,Wrong,correct\ny,3,0,1\ny,4,no,12.5 %\n"
    )
    table = read(file)
    assert table.is_reward
    assert (-table.losses).tolist() == [[1, 0.85], [0, 1], [0, 1], [0, 0.125]]


def test_what_is_no_reward_is_named_with_its_row(tmp_path):
    file = tmp_path / "v.csv"
    file.write_text("unit,input,reward_a,reward_b\nx,1,1,0\ny,2,maybe,1\n")
    with pytest.raises(InputError, match=r"must hold numbers.*'maybe'"):
        read(file)


def test_a_column_of_a_long_log_is_named_as_the_quality(tmp_path):
    rows = ["sample_id,model,verdict,score"]
    for prompt in range(4):
        rows += [f"{prompt},small,wrong,0.9", f"{prompt},big,right,0.9"]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(rows) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        table = deepval.import_router_log(
            file, models=["small", "big"], right="verdict"
        )
    # A score of a router beside it is no quality.
    assert table.is_reward
    assert (-table.losses).tolist() == [[0, 1]] * 4
    with pytest.raises(InputError, match="'verdit'; did you mean 'verdict'"):
        deepval.import_router_log(file, models=["small", "big"], right="verdit")


def test_rewards_have_no_note_about_a_loss_that_is_not_positive():
    table = deepval.ValueTable.from_columns(
        unit=np.arange(40) // 4, rewards={"a": np.arange(40) % 2, "b": np.ones(40)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = deepval.evaluate(table, {"mine": np.arange(40.0)}, draws=20)
    row = result["mine"]
    assert row.versus_random is None
    assert row.lead_lo <= row.lead <= row.lead_hi
    assert row.quality == pytest.approx(0.5 + row.gain / 40)


def test_a_frame_of_a_table_reads_back_as_the_same_table():
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for kind in ("losses", "rewards"):
        table = deepval.ValueTable.from_columns(
            unit=np.arange(20) // 4,
            order=np.arange(20) % 4,
            attributes={"speed": rng.normal(size=20)},
            **{kind: {"a": rng.random(20), "b": rng.random(20)}},
        )
        again = deepval.read_values(table.to_pandas())
        assert again.digest == table.digest
        assert again.attributes.keys() == table.attributes.keys()


def test_a_metric_serves_as_scoring_of_cross_validation():
    linear_model = pytest.importorskip("sklearn.linear_model")
    selection = pytest.importorskip("sklearn.model_selection")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    value = features[:, 0] + rng.normal(size=200)
    losses = np.stack([value + 5, np.full(200, 5.0)], axis=1)
    metric = deepval.metrics.normalized_decision_gain
    scoring = deepval.metrics.scorer(metric, budget=0.2)
    folds = {"cv": selection.KFold(4), "scoring": scoring}
    one = selection.cross_val_score(linear_model.Ridge(), features, value, **folds)
    both = selection.cross_val_score(linear_model.Ridge(), features, losses, **folds)
    fitted = linear_model.Ridge().fit(features[50:], value[50:])
    by_hand = metric(value[:50], 0, fitted.predict(features[:50]), budget=0.2)
    assert one[0] == pytest.approx(by_hand)
    assert both == pytest.approx(one)
