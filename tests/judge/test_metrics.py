"""deepval.metrics against other implementations of the published definitions, closed
forms, and evaluate().
"""

import itertools
import math
import sys
from inspect import unwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deepval
from commands import run_process
from deepval.basics.errors import InputError
from deepval.metrics import (
    area_under_gain,
    autoc,
    decision_gain_score,
    harm_ratio,
    normalized_decision_gain,
    qini,
)
from worlds import judge, random_scores, random_table, table_of

CHEAP, FULL, SCORE = (
    [4.0, 1.0, 2.0, 3.0, 0.0, 0.0],
    [1.0, 1.0, 3.0, 1.0, 0.0, 1.0],
    [2.0, 1.0, 1.0, 1.0, 0.0, 0.0],
)
"""The example of docs/definitions.md: V = 3, 0, -1, 2, 0, -1."""


def rate_of_grf(effect, priority, weighting):
    """RATE as documented in grf: effects averaged within ties, their running mean less
    the overall mean, weighted.
    """
    order = sorted(range(len(effect)), key=lambda i: -priority[i])
    averaged = []
    for _, group in itertools.groupby(order, key=lambda i: priority[i]):
        members = [effect[i] for i in group]
        averaged += [math.fsum(members) / len(members)] * len(members)
    n, average = len(effect), math.fsum(effect) / len(effect)
    toc = [math.fsum(averaged[:k]) / k - average for k in range(1, n + 1)]
    return (
        math.fsum(weighting(k / n) * value for k, value in enumerate(toc, start=1)) / n
    )


def qini_score_of_causalml(effect, model):
    """`qini_score(normalize=True)` with a known effect where every row is treated;
    defined without ties.
    """
    curve = [0.0]
    for i in sorted(range(len(effect)), key=lambda i: -model[i]):
        curve.append(curve[-1] + effect[i])
    curve = [point / abs(curve[-1]) for point in curve]
    line = np.linspace(curve[0], curve[-1], len(curve))
    return float((np.array(curve) - line).sum() / len(curve))


def average_gains_of_maq(effect, reward):
    """Q(B) at the points of the path, one arm of cost 1 and distinct positive rewards:
    dearest last, per unit.
    """
    path = []
    for i in sorted(range(len(effect)), key=lambda i: -reward[i]):
        path.append((path[-1] if path else 0.0) + effect[i] / len(effect))
    return path


def mean_over_ties(values, score, metric):
    """A metric of a strict ranking, averaged over all strict rankings that the score
    allows.
    """
    found = []
    for order in itertools.permutations(range(len(score))):
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order)):
            strict = np.empty(len(score))
            strict[list(order)] = -np.arange(len(score))
            found.append(metric(values, strict))
    return np.mean(found)


@given(st.integers(0, 10**6))
def test_rank_weighted_effects_are_those_of_grf_ties_included(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng, inputs=int(rng.integers(1, 25)), units=3)
    score, (cheap, full) = random_scores(rng, len(table)), table.losses[:, [0, -1]].T
    value = table.decision_values
    assert autoc(cheap, full, score) == pytest.approx(
        rate_of_grf(value, score, lambda q: 1.0), abs=1e-9
    )
    assert qini(cheap, full, score) == pytest.approx(
        rate_of_grf(value, score, lambda q: q), abs=1e-9
    )


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_ties_count_as_the_mean_over_all_ways_to_break_them(seed):
    rng = np.random.default_rng(seed)
    values, score = (
        rng.integers(-2, 3, 4).astype(float),
        rng.integers(0, 3, 4).astype(float),
    )
    for metric in (autoc, qini, lambda *a: area_under_gain(*a, normalize=False)):
        mean = mean_over_ties(
            values, score, lambda v, s, metric=metric: metric(v, 0, s)
        )
        assert metric(values, 0, score) == pytest.approx(mean, abs=1e-9)


@given(st.integers(0, 10**6))
def test_qini_is_that_of_causalml_and_maq_where_scores_differ(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    value, one, other = (
        rng.normal(size=n),
        rng.permutation(n) + 1.0,
        rng.permutation(n) + 1.0,
    )
    assert qini(value, 0, one, definition="causalml") == pytest.approx(
        qini_score_of_causalml(value, one), rel=1e-9, abs=1e-9
    )
    gains = average_gains_of_maq(value, one)
    for k, gain in enumerate(gains, start=1):
        assert decision_gain_score(
            value, 0, one, budget=k / n, normalize=False
        ) / n == pytest.approx(gain)
    # integrated_difference at spend 1
    difference = np.mean(gains) - np.mean(average_gains_of_maq(value, other))
    assert qini(value, 0, one) - qini(value, 0, other) == pytest.approx(
        difference, abs=1e-9
    )


@pytest.mark.parametrize(("n", "helped"), [(1, 1), (10, 1), (10, 4), (100, 20), (7, 7)])
def test_rank_weighted_effects_of_a_perfect_ranking_of_ones_and_zeros(n, helped):
    value = np.repeat([1.0, 0.0], [helped, n - helped])
    score = -np.arange(n)
    # G(k) = min(k, m): the mean of min(1, m/k) less m/n, and the area of a triangle cut
    # off at m.
    harmonic = sum(1 / k for k in range(helped + 1, n + 1))
    assert autoc(value, 0, score) == pytest.approx(helped / n * harmonic)
    assert qini(value, 0, score) == pytest.approx(helped * (n - helped) / (2 * n * n))
    assert qini(value, 0, -score) == pytest.approx(-helped * (n - helped) / (2 * n * n))
    assert qini(value, 0, score, definition="causalml") == pytest.approx(
        (n - helped) / (2 * (n + 1))
    )
    assert autoc(value, 0, np.zeros(n)) == pytest.approx(0.0, abs=1e-12)
    assert qini(value, 0, np.zeros(n)) == pytest.approx(0.0, abs=1e-12)


@given(st.integers(0, 10**6))
def test_metrics_are_the_figures_of_evaluate(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng, inputs=int(rng.integers(1, 30)), units=3)
    score, (cheap, full) = random_scores(rng, len(table)), table.losses[:, [0, -1]].T
    alpha = float(rng.choice([0.1, 0.2, 0.5, 1.0]))
    result = judge(table, {"mine": score}, [deepval.Selection(alpha)], draws=0)
    row, near = result.row("mine"), {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}
    gain = decision_gain_score(cheap, full, score, budget=alpha, normalize=False)
    assert gain == pytest.approx(row.gain, **near)
    share = gain / table.cheap_loss if table.cheap_loss > 0 else math.nan
    assert decision_gain_score(cheap, full, score, budget=alpha) == pytest.approx(
        share, **near
    )
    ndg = math.nan if row.ndg is None else row.ndg
    assert normalized_decision_gain(cheap, full, score, budget=alpha) == pytest.approx(
        ndg, **near
    )
    ratio = row.harm / row.benefit if row.benefit > 0 else math.nan
    assert harm_ratio(cheap, full, score, budget=alpha) == pytest.approx(ratio, **near)
    assert harm_ratio(cheap, full) == pytest.approx(table.harm_ratio, **near)
    area = result.area("mine", "random").loss + table.full_gain / 2
    assert area_under_gain(cheap, full, score, normalize=False) == pytest.approx(
        area, **near
    )


def test_the_example_of_the_definitions():
    assert decision_gain_score(CHEAP, FULL, SCORE, budget=0.5) == pytest.approx(
        (3 + 2 / 3 * (0 - 1 + 2)) / 10
    )
    assert normalized_decision_gain(CHEAP, FULL, SCORE, budget=0.5) == pytest.approx(
        (3 + 2 / 3) / 5
    )
    assert harm_ratio(CHEAP, FULL) == (1 + 1) / (3 + 2)
    assert harm_ratio(CHEAP, FULL, SCORE, budget=0.5) == pytest.approx(
        (2 / 3 * 1) / (3 + 2 / 3 * 2)
    )
    assert math.copysign(1, harm_ratio([1.0, 2.0], 0)) == 1  # no harm is 0, not -0


def test_groups_are_ranked_apart_and_summed_before_dividing():
    groups = ["b", "b", "a", "a", "a", "b"]
    # b: inputs 0, 1, 5 (V 3, 0, -1; scores 2, 1, 0), two slots; a: inputs 2, 3, 4 (V
    # -1, 2, 0; scores 1, 1, 0), two.
    assert decision_gain_score(
        CHEAP, FULL, SCORE, budget=0.5, groups=groups
    ) == pytest.approx(((3 + 0) + (-1 + 2)) / 10)
    assert normalized_decision_gain(
        CHEAP, FULL, SCORE, budget=0.5, groups=groups
    ) == pytest.approx((3 + 1) / (3 + 2))
    assert harm_ratio(CHEAP, FULL, SCORE, budget=0.5, groups=groups) == pytest.approx(
        1 / (3 + 2)
    )
    # Gains over k = 0..3: 0, 3, 3, 2 and 0, 1/2, 1, 1.
    area = (1.5 + 3 + 2.5) / 3 + (0.25 + 0.75 + 1) / 3
    assert area_under_gain(CHEAP, FULL, SCORE, groups=groups) == pytest.approx(
        area / 10
    )
    assert harm_ratio(CHEAP, FULL, groups=groups) == harm_ratio(CHEAP, FULL)


@given(st.integers(0, 10**6))
def test_groups_only_matter_if_there_are_several_and_scores_within_them_count_alone(
    seed,
):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    cheap, full, score = rng.gamma(1, 1, n), rng.gamma(1, 1, n), random_scores(rng, n)
    groups = rng.integers(0, 3, n)
    for metric in (
        decision_gain_score,
        normalized_decision_gain,
        harm_ratio,
        area_under_gain,
    ):
        whole, near = metric(cheap, full, score), {"rel": 1e-9, "nan_ok": True}
        assert metric(cheap, full, score, groups=np.full(n, 7)) == pytest.approx(
            whole, **near
        )
        apart = metric(cheap, full, score, groups=groups)
        assert metric(
            cheap, full, score - 1e3 * groups, groups=groups
        ) == pytest.approx(apart, rel=1e-6, nan_ok=True)


def test_groups_of_one_escalate_all_or_nothing():
    alone = np.arange(6)
    assert decision_gain_score(CHEAP, FULL, SCORE, groups=alone) == 0.0
    assert decision_gain_score(
        CHEAP, FULL, SCORE, groups=alone, budget=0.5
    ) == pytest.approx(3 / 10)  # floor(0.5 + 0.5)


def test_undefined_is_nan():
    assert math.isnan(decision_gain_score([0.0, 0.0], [1.0, 0.0], [1, 2], budget=0.5))
    assert math.isnan(
        normalized_decision_gain([0.0, 0.0], [1.0, 0.0], [1, 2], budget=0.5)
    )
    assert math.isnan(harm_ratio([0.0, 0.0], [1.0, 0.0]))
    assert math.isnan(qini([1.0, 0.0], [0.0, 1.0], [1, 2], definition="causalml"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((CHEAP, FULL[:-1], SCORE), {}), "all columns must"),
        (((CHEAP, FULL, SCORE[:-1]), {}), "must have one"),
        (((CHEAP, FULL, [*SCORE[:-1], math.nan]), {}), "must hold numbers; row 6"),
        (((CHEAP, [*FULL[:-1], math.inf], SCORE), {}), "'loss_full'"),
        (((CHEAP, FULL, ["cheap"] * 6), {}), "found names of"),
        (((1.0, 0.0, SCORE), {}), "needs a loss"),
        (((CHEAP, FULL, SCORE), {"budget": 20}), "budget must be"),
        (((CHEAP, FULL, SCORE), {"groups": [1, 2]}), "all columns must"),
        (((CHEAP, FULL, SCORE), {"groups": [0.5] * 6}), "groups must hold"),
        (((CHEAP, None, SCORE), {}), "'loss_full'"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments, sentence):
    values, options = arguments
    with pytest.raises(InputError, match=r"\A[^\n]*\Z") as caught:
        decision_gain_score(*values, **options)
    assert sentence in str(caught.value)


def test_options_of_another_type_are_refused():
    # The functions as users call them, without the type checks of the tests.
    with pytest.raises(InputError, match="'maq'"):
        unwrap(qini)(CHEAP, FULL, SCORE, definition="maq")
    with pytest.raises(InputError, match="normalize must be True or False; found 'no'"):
        unwrap(decision_gain_score)(CHEAP, FULL, SCORE, normalize="no")


class TwoArrays:
    """A world of two losses whose difference depends on the features, in 8 units of 15
    inputs.
    """

    def __init__(self):
        rng = np.random.default_rng(3)
        self.unit = np.repeat(np.arange(8), 15)
        self.X = rng.normal(size=(120, 3))
        self.cheap = rng.gamma(2, 1, 120)
        self.full = np.maximum(self.cheap - self.X[:, 0] - rng.normal(0, 0.5, 120), 0.0)

    def folds(self):
        return GroupKFold(4).split(self.X, groups=self.unit)

    def judged(self, model, target, score_of):
        """The rows of evaluate() on the test inputs of every fold."""
        for train, test in self.folds():
            fitted = model.fit(self.X[train], target[train])
            table = deepval.ValueTable.from_columns(
                unit=self.unit[test],
                losses={"cheap": self.cheap[test], "full": self.full[test]},
            )
            yield judge(
                table,
                {"mine": score_of(fitted.predict(self.X[test]))},
                [deepval.Selection(0.2)],
                draws=0,
            )


def test_a_pipeline_is_scored_by_grouped_cross_validation():
    world, model = TwoArrays(), make_pipeline(StandardScaler(), LinearRegression())
    value = world.cheap - world.full
    scoring = make_scorer(
        lambda value, score: normalized_decision_gain(value, 0, score, budget=0.2)
    )
    scores = cross_val_score(
        model, world.X, value, groups=world.unit, cv=GroupKFold(4), scoring=scoring
    )
    results = world.judged(model, value, lambda guess: guess)
    assert scores == pytest.approx([result.row("mine").ndg for result in results])
    assert min(scores) > 0.3


def test_a_target_of_both_losses_is_scored_by_grouped_cross_validation():
    world, model = TwoArrays(), make_pipeline(StandardScaler(), LinearRegression())
    losses = np.stack([world.cheap, world.full], axis=1)
    both = make_scorer(
        lambda y, guess: decision_gain_score(
            y[:, 0], y[:, 1], guess[:, 0] - guess[:, 1]
        )
    )
    scores = cross_val_score(
        model, world.X, losses, groups=world.unit, cv=GroupKFold(4), scoring=both
    )
    results = world.judged(model, losses, lambda guess: guess[:, 0] - guess[:, 1])
    assert scores == pytest.approx(
        [result.row("mine").gain / result.row("mine").cheap_loss for result in results]
    )


def test_out_of_fold_scores_of_several_models_are_ranked_within_their_fold():
    world = TwoArrays()
    value = world.cheap - world.full
    score = cross_val_predict(
        LinearRegression(), world.X, value, groups=world.unit, cv=GroupKFold(4)
    )
    fold = np.empty(120, dtype=int)
    for number, (_, test) in enumerate(world.folds()):
        fold[test] = number
    gains = [
        result.row("mine").gain
        for result in world.judged(LinearRegression(), value, lambda guess: guess)
    ]
    assert decision_gain_score(
        world.cheap, world.full, score, groups=fold
    ) == pytest.approx(sum(gains) / world.cheap.sum())
    column = score[:, None]  # predictions of one target may be a matrix
    assert autoc(world.cheap, world.full, column) == autoc(
        world.cheap, world.full, score
    )


def test_metrics_load_nothing_heavy():
    code = (
        "import deepval, sys; deepval.metrics.qini([2.0, 1.0], 0, [1, 2]); "
        "print(sorted({'pyarrow', 'sklearn', 'scipy', 'pandas', 'matplotlib', "
        "'cyclopts'} & set(sys.modules)))"
    )
    assert run_process(code, program=(sys.executable, "-c")).out.strip() == "[]"


def test_arguments_are_not_changed():
    table = table_of([1.0, -1.0, 2.0])
    cheap, full = table.losses.T
    score = np.array([1.0, 1.0, 0.0])
    copies = [array.copy() for array in (cheap, full, score)]
    for metric in (
        decision_gain_score,
        normalized_decision_gain,
        harm_ratio,
        area_under_gain,
        autoc,
        qini,
    ):
        metric(cheap, full, score)
    for array, copy in zip((cheap, full, score), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
