"""Models in plain numbers: the fitting library's bits, one row as a batch, files and
back, no library needed.
"""

import json
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

from deepval.basics.errors import InputError
from deepval.deploy.allocators.models import (
    Boosting,
    Linear,
    Mlp,
    Network,
    Quantile,
    Ridge,
    Trees,
    model_of,
)
from deepval.deploy.allocators.models.model import Standard, one_thread
from deepval.deploy.allocators.models.trees import bin_columns, flat

SMALL = Boosting(trees=40, depth=3, learning_rate=0.2, least_per_leaf=4)


def gappy(rng, rows, columns=9):
    """Rows with ties, gaps, a constant column and a column of nothing but gaps."""
    found = rng.normal(size=(rows, columns))
    found[:, 1] = rng.integers(0, 3, rows)
    found[rng.random(found.shape) < 0.15] = np.nan
    found[:, 2], found[:, 3] = 7.0, np.nan
    return found


def labelled(rng, rows):
    """A label that depends on values and on whether there are any."""
    return np.where(np.isnan(rows[:, 0]), 2.0, np.nan_to_num(rows[:, 1])) + rng.normal(
        0, 0.3, len(rows)
    )


def fitted(seed, *, classify=False, learner=SMALL, count=120):
    rng = np.random.default_rng(seed)
    rows = gappy(rng, count)
    labels = labelled(rng, rows)
    model = learner.fit(
        rows,
        (labels > 1.0).astype(float) if classify else labels,
        classify=classify,
        seed=seed,
    )
    return model, gappy(rng, 700)


def every_model():
    return {
        "linear": fitted(1, learner=Ridge())[0],
        "trees": fitted(2)[0],
        "probable trees": fitted(3, classify=True)[0],
        "network": fitted(4, learner=Mlp(units=(16, 8), epochs=30))[0],
        "probable network": fitted(
            5, learner=Mlp(units=(16,), epochs=30), classify=True
        )[0],
    }


MODELS = every_model()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [12, 60, 400])
def test_flat_trees_are_the_library_s_to_the_bit(seed, count):
    rng = np.random.default_rng((seed, count))
    rows = gappy(rng, count)
    labels, unseen = labelled(rng, rows), gappy(rng, 600)
    learner = Boosting(
        trees=25, depth=1 + seed % 4, learning_rate=0.3, least_per_leaf=1 + seed
    )
    with one_thread():
        theirs = learner.estimator(classify=False).fit(without_empty(rows), labels)
        expected, known = theirs.predict(unseen), theirs.predict(rows)
    ours = flat(
        theirs, np.arange(rows.shape[1]), columns=rows.shape[1], depth=learner.depth
    )
    assert ours.raw(unseen).tobytes() == expected.tobytes()
    assert ours.raw(rows).tobytes() == known.tobytes()
    assert (
        learner.fit(rows, labels, classify=False).predict(unseen).tobytes()
        == ours.predict(unseen).tobytes()
    )


def without_empty(rows):
    """The rows with 0 in columns that hold nothing but gaps, which the library does not
    take.
    """
    return np.where(np.isnan(rows).all(axis=0), 0.0, rows)


def test_a_question_for_a_gap_sends_every_number_left():
    rows = np.full((40, 1), 5.0)
    rows[::2] = np.nan
    model = Boosting(trees=1, depth=1, learning_rate=1.0, least_per_leaf=1).fit(
        rows, np.where(np.isnan(rows[:, 0]), 3.0, 1.0), classify=False
    )
    assert (model.threshold.item(), model.gap_left.item()) == (np.inf, False)
    found = model_of(json.loads(json.dumps(model.to_dict(), allow_nan=False)))
    assert found.predict(np.array([[np.nan], [-1e300], [1e300]])).tolist() == [
        3.0,
        1.0,
        1.0,
    ]


def test_trees_by_hand():
    trees = Trees(
        baseline=10.0,
        link="identity",
        feature=np.array([[0, 1, 1]]),
        threshold=np.array([[0.5, 2.0, 3.0]]),
        gap_left=np.array([[False, True, False]]),
        leaf=np.array([[1.0, 2.0, 3.0, 4.0]]),
        columns=2,
    )
    rows = np.array(
        [
            [0.5, 2.0],
            [0.5, 2.1],
            [0.6, 3.0],
            [0.6, 3.1],
            [np.nan, np.nan],
            [0.0, np.nan],
        ]
    )
    assert trees.predict(rows).tolist() == [11.0, 12.0, 13.0, 14.0, 14.0, 11.0]


def broken(name, **changes):
    """A model's plain form with parts replaced; a part given as None is left out."""
    content = json.loads(json.dumps(MODELS[name].to_dict())) | changes
    return {key: value for key, value in content.items() if value is not None}


@pytest.mark.parametrize(
    "content",
    [
        {},
        broken("linear", weight=[1.0]),
        broken("linear", intercept=None),
        broken("trees", leaf=[1.0, 2.0]),
        broken("trees", leaf=[]),
        broken("trees", columns=2),
        broken("trees", threshold=[[0.0]]),
        broken("trees", gap_left=[]),
        broken("trees", link="softmax"),
        broken("network", layers=[]),
        broken("network", layers=[{"weight": [[1.0]], "bias": [0.0]}]),
        broken("network", layers=[{"weight": [[1.0, 1.0]] * 9, "bias": [0.0, 0.0]}]),
        broken("network", scale=None),
    ],
)
def test_what_describes_no_model_is_refused(content):
    with pytest.raises((KeyError, TypeError, ValueError)):
        model_of(content)


def test_ridge_is_the_closed_form_with_the_penalty_that_leave_one_out_likes():
    rng = np.random.default_rng(12)
    rows = rng.normal(size=(14, 3)) * [1.0, 10.0, 0.1]
    labels = rows @ [1.0, 0.05, 3.0] + rng.normal(0, 1.0, 14)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)

    def solved(x, y, penalty):
        middle = x.mean(axis=0)
        weight = np.linalg.solve(
            (x - middle).T @ (x - middle) + penalty * np.eye(3),
            (x - middle).T @ (y - y.mean()),
        )
        return weight, y.mean() - middle @ weight

    def left_out(penalty):
        total = 0.0
        for one in range(14):
            weight, intercept = solved(
                np.delete(scaled, one, axis=0), np.delete(labels, one), penalty
            )
            total += (labels[one] - scaled[one] @ weight - intercept) ** 2
        return total

    penalties = [10.0 ** (-2 + step / 2) for step in range(13)]
    best = min(penalties, key=left_out)
    assert penalties[0] < best < penalties[-1]
    weight, intercept = solved(scaled, labels, best)
    model = Ridge().fit(rows, labels, classify=False)
    np.testing.assert_allclose(model.weight, weight, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict(rows), scaled @ weight + intercept, rtol=1e-9
    )


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize(
    ("number", "units", "epochs"),
    [(450, (16, 8), 12), (130, (5,), 20), (400, (6, 4, 3), 150)],
)
def test_a_network_is_that_of_the_library_to_the_bit(number, units, epochs, classify):
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(number, 7))
    rows[:, 3] = 2.0  # a constant column is 0 after standardisation
    labels = rows[:, 0] * rows[:, 1] + 0.1 * rng.normal(size=number)
    if classify:
        labels = (labels > 0).astype(float)
    standardised = labels if classify else (labels - labels.mean()) / labels.std()
    settings = {
        "hidden_layer_sizes": units,
        "max_iter": epochs,
        "alpha": 1e-3,
        "random_state": 5,
    }
    library = (MLPClassifier if classify else MLPRegressor)(
        batch_size=min(200, number), **settings
    )
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        library.fit(Standard.of(rows).apply(rows), standardised)
    network = Mlp(units=units, epochs=epochs, penalty=1e-3).fit(
        rows, labels, classify=classify, seed=5
    )
    assert len(network.layers) == len(units) + 1
    for (weight, bias), own_weight, own_bias in zip(
        network.layers, library.coefs_, library.intercepts_, strict=True
    ):
        assert np.array_equal(weight, own_weight)
        assert np.array_equal(bias, own_bias)
    own = (
        library.predict_proba(Standard.of(rows).apply(rows))[:, 1]
        if classify
        else library.predict(Standard.of(rows).apply(rows)) * labels.std()
        + labels.mean()
    )
    np.testing.assert_allclose(network.predict(rows), own, rtol=1e-10, atol=1e-12)


def test_what_a_learner_cannot_do_is_refused():
    rows, labels = np.arange(8.0).reshape(4, 2), np.array([0.0, 1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="A ridge gate regresses"):
        Ridge().fit(rows, labels, classify=True)
    with pytest.raises(InputError, match="cannot weight its inputs"):
        Mlp().fit(rows, labels, classify=True, weights=np.ones(4))


def test_columns_that_say_nothing_become_zero_everywhere():
    rows = np.array(
        [
            [1.0, 0.1, np.nan, 2.0],
            [3.0, 0.1, np.nan, np.nan],
            [5.0, 0.1, np.nan, np.nan],
        ]
    )
    standard = Standard.of(rows)
    assert standard.mean.tolist() == pytest.approx([3.0, 0.1, 0.0, 2.0])
    assert standard.inverse_spread.tolist() == pytest.approx(
        [1 / np.sqrt(8 / 3), 0.0, 0.0, 0.0]
    )
    unseen = np.array(
        [
            [3.0, 99.0, 5.0, -4.0],
            [np.nan, np.nan, np.nan, np.nan],
            [5.0, np.inf, -1.0, 2.0],
        ]
    )
    with np.errstate(invalid="ignore"):
        found = standard.apply(unseen)
    assert found.tolist() == [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [pytest.approx(2 / np.sqrt(8 / 3)), 0, 0, 0],
    ]


def test_a_network_by_hand():
    standard = Standard(np.array([1.0]), np.array([0.5]))
    layers = (
        (np.array([[2.0, -1.0]]), np.array([0.0, 0.0])),
        (np.array([[1.0], [10.0]]), np.array([0.5])),
    )
    network = Network(standard, layers, "identity", scale=2.0, shift=1.0)
    # (5 - 1)/2 = 2 -> (4, -2) -> (4, 0) -> 4.5; (-3 - 1)/2 = -2 -> (-4, 2) -> (0, 2) ->
    # 20.5; a gap -> 0 -> 0.5.
    expected = [4.5 * 2 + 1, 20.5 * 2 + 1, 0.5 * 2 + 1]
    assert network.predict(np.array([[5.0], [-3.0], [np.nan]])).tolist() == expected


def test_linear_by_hand():
    model = Linear(
        Standard(np.array([1.0, 0.0]), np.array([1.0, 0.5])), np.array([2.0, 4.0]), 0.25
    )
    assert model.predict(np.array([[2.0, 3.0], [np.nan, 1.0]])).tolist() == [
        2 + 4 * 1.5 + 0.25,
        4 * 0.5 + 0.25,
    ]


def test_weighted_trees_ask_of_numbers_what_they_learned_of_bins():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(900, 6))
    rows[:, 1] = np.round(rows[:, 1])
    rows[rng.random(rows.shape) < 0.1] = np.nan
    labels = (np.nan_to_num(rows[:, 0]) + rng.normal(size=900) > 0).astype(float)
    weights = rng.uniform(0.1, 3.0, 900)
    learner = Boosting(trees=20, depth=2)
    found = learner.fit(rows, labels, classify=True, weights=weights)
    codes, edges = bin_columns(rows)
    with one_thread():
        twin = learner.estimator(classify=True).fit(
            codes, labels, sample_weight=weights
        )
    np.testing.assert_allclose(
        found.predict(rows), twin.predict_proba(codes)[:, 1], rtol=1e-12
    )
    known = ~np.isnan(rows[:, 1])
    assert edges[1].tolist() == (np.unique(rows[known, 1])[:-1] + 0.5).tolist()
    assert max(len(column) for column in edges) == 254
    fresh = rng.normal(size=(300, 6))
    inside = np.stack(
        [np.searchsorted(edges[k], fresh[:, k], side="left") for k in range(6)], axis=1
    ).astype(float)
    np.testing.assert_allclose(
        found.predict(fresh), twin.predict_proba(inside)[:, 1], rtol=1e-12
    )


def test_a_quantile_is_the_mid_rank_among_the_fit_rows():
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [5.0, 1.0], [np.nan, 0.0]])
    model = Quantile.fit(rows, {0: 1.0, 1: -2.0})
    assert model.reference.tolist() == [1.0, 2.0, 2.0, 3.0]
    asked = np.array([[0.0, 0.0], [2.0, 0.0], [9.0, 0.0], [np.nan, 0.0]])
    assert model.predict(asked).tolist() == [0.0, (1 + 3) / 8, 1.0, 0.5]
    assert (
        Quantile.of(json.loads(json.dumps(model.to_dict()))).predict(asked).tolist()
        == model.predict(asked).tolist()
    )
    for broken in ({"weight": []}, {"weight": [[7, 1.0]]}, {"reference": [2.0, 1.0]}):
        with pytest.raises(ValueError, match="sorted reference"):
            Quantile.of(model.to_dict() | broken)
