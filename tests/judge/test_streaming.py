import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deepval.basics.errors import InputError
from deepval.judge import stream_rows, streaming
from deepval.judge.bootstrap import Bootstrap, gains_of_choices
from deepval.judge.draws import Draws
from deepval.judge.stream_rows import Trial
from deepval.judge.streaming import (
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    TokenBucket,
)
from reference import streaming as slow
from worlds import table_of

CASES = 2_000
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.9, 1.0, 1 / 3)


def tune_adaptive_threshold(score, unit, *, etas=stream_rows.ETAS, **about):
    policies = [AdaptiveThreshold(eta, score, about["alpha"]) for eta in etas]
    return stream_rows.tune_among(policies, etas, score=score, unit=unit, **about)


def tune_token_bucket(score, unit, *, caps=stream_rows.CAPS, **about):
    threshold = FrozenThreshold.calibrate(score, about["alpha"])
    policies = [TokenBucket(cap, threshold, about["alpha"]) for cap in caps]
    return stream_rows.tune_among(policies, caps, score=score, unit=unit, **about)


def read_only(values, dtype: type = np.float64) -> np.ndarray:
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def random_scores(rng: np.random.Generator, n: int) -> np.ndarray:
    """Continuous, discrete or mostly tied scores, at times with infinities among
    them.
    """
    scores = (
        rng.normal(size=n),
        rng.integers(-2, 3, n).astype(float),
        np.where(rng.random(n) < 0.7, 0.0, rng.normal(size=n)),
    )[rng.integers(3)]
    if rng.random() < 0.3:
        scores = np.where(rng.random(n) < 0.2, rng.choice([-np.inf, np.inf], n), scores)
    return read_only(scores)


def random_streams(seed: int, cases: int = CASES):
    """(rng, validation scores, scores, units, orders, alpha): rows shuffled, units not
    numbered from 0.
    """
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        n = int(rng.integers(0, 26))
        validation = random_scores(rng, int(rng.integers(1, 25)))
        score = random_scores(rng, n)
        if rng.random() < 0.5:
            score = read_only(rng.choice(validation, n))
        unit = read_only(rng.integers(-3, 4, n) * 5, np.int64)
        order = read_only(
            rng.permutation(n) if rng.random() < 0.7 else rng.integers(0, 5, n),
            np.int64,
        )
        yield rng, validation, score, unit, order, float(rng.choice(ALPHAS))


def streamed(policy: streaming.StreamRule, score, unit, order) -> list[bool]:
    """The decisions of one new stream per unit, fed in time order."""
    decisions: list[bool] = [False] * len(score)
    for rows in slow.in_time(unit.tolist(), order.tolist()):
        stream = policy.start()
        for row in rows:
            decisions[row] = stream.decide(float(score[row]))
    return decisions


def assert_decides(policy, twin, score, unit, order) -> None:
    acceptance = policy.decide(score, unit, order)
    expected = slow.decide(twin, score.tolist(), unit.tolist(), order.tolist())
    assert acceptance.dtype == np.float64
    assert acceptance.tolist() == [float(x) for x in expected]
    # a third of the sizes is enough for the form that answers one by one
    if len(score) % 3 == 0:
        assert streamed(policy, score, unit, order) == expected


def one_unit(scores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        read_only(scores),
        np.zeros(len(scores), dtype=np.int64),
        np.arange(len(scores)),
    )


def test_frozen_threshold_by_hand():
    # alpha*n = 0.3*10 = 3: one score above 2, four equal to it, of which (3 - 1)/4 are
    # accepted.
    policy = FrozenThreshold.calibrate(read_only([5, 2, 2, 2, 2, 1, 1, 0, 0, 0]), 0.3)
    assert policy == FrozenThreshold(theta=2.0, tie_acceptance=(3 - 1) / 4)
    score = read_only([2, 3, 2, 1, 2, 2])
    assert policy.expected(score).tolist() == [0.5, 1, 0.5, 0, 0.5, 0.5]
    # Tied inputs 1 to 4: floor(j/2) steps up at the second and the fourth.
    assert policy.decide(*one_unit(score)).tolist() == [0, 1, 1, 0, 0, 1]


def test_sure_form_counts_ties_anew_in_each_unit():
    policy = FrozenThreshold(theta=0.0, tie_acceptance=0.5)
    score, order = np.zeros(6), np.array([5, 4, 3, 2, 1, 0])
    unit = np.array([7, 7, 7, 1, 1, 1])
    # Time runs backwards through the rows: of each unit's three inputs the second in
    # time is accepted.
    assert policy.decide(score, unit, order).tolist() == [0, 1, 0, 0, 1, 0]


def test_float_noise_does_not_move_the_threshold():
    # 0.07*100 is 7.000000000000001 in float64 and 0.29*100 is 28.999999999999996.
    scores = read_only(np.arange(100))
    assert FrozenThreshold.calibrate(scores, 0.07) == FrozenThreshold(
        theta=93.0, tie_acceptance=1.0
    )
    found = FrozenThreshold.calibrate(scores, 0.29)
    assert found.theta == 71.0
    assert found.tie_acceptance == pytest.approx(1.0)


def test_infinite_scores_calibrate():
    policy = FrozenThreshold.calibrate(read_only([np.inf, np.inf, 0, -np.inf]), 0.25)
    assert policy == FrozenThreshold(theta=math.inf, tie_acceptance=1 / 2)
    assert FrozenThreshold.calibrate(read_only([0, -np.inf]), 1.0) == FrozenThreshold(
        -math.inf, 1.0
    )


def test_calibration_matches_the_slow_twin():
    for _, validation, *_, alpha in random_streams(seed=1):
        policy = FrozenThreshold.calibrate(validation, alpha)
        assert (policy.theta, policy.tie_acceptance) == slow.frozen_threshold(
            validation.tolist(), alpha
        )


def test_expected_acceptance_meets_the_rate_exactly():
    for _, validation, *_, alpha in random_streams(seed=2):
        expected = FrozenThreshold.calibrate(validation, alpha).expected(validation)
        assert expected.sum() == pytest.approx(
            alpha * validation.size, rel=1e-9, abs=1e-9
        )


def test_frozen_threshold_matches_the_slow_twin():
    for _, validation, score, unit, order, alpha in random_streams(seed=3):
        policy = FrozenThreshold.calibrate(validation, alpha)
        theta, p = policy.theta, policy.tie_acceptance
        assert_decides(
            policy, lambda s, a=theta, b=p: slow.frozen(s, a, b), score, unit, order
        )


@given(st.floats(0, 1), st.integers(0, 200))
def test_sure_form_accepts_the_floor_of_the_expected_count(p, n):
    policy = FrozenThreshold(theta=0.0, tie_acceptance=p)
    assert policy.decide(*one_unit(np.zeros(n))).sum() == math.floor(n * p)


def test_causal_cap_by_hand():
    policy = CausalCap(FrozenThreshold(theta=0.0, tie_acceptance=0.0), alpha=0.25)
    # Caps after 1 to 8 inputs: 1 1 1 2 2 2 2 3; everything is wanted.
    assert policy.decide(*one_unit(np.ones(8))).tolist() == [1, 0, 0, 1, 0, 0, 0, 1]
    # A unit that wants nothing at first may catch up in a burst: after 6 inputs the cap
    # is 2.
    assert policy.decide(*one_unit([-1, -1, -1, -1, 1, 1, 1, 1.0])).tolist() == [
        0,
        0,
        0,
        0,
        1,
        1,
        0,
        1,
    ]


def test_float_noise_does_not_lower_the_cap():
    # 1 + 0.58*50 = 30, but 29.999999999999996 in float64; everything is wanted, so the
    # cap is what is taken.
    assert math.floor(1 + 0.58 * 50) == 29
    policy = CausalCap(FrozenThreshold(theta=0.0, tie_acceptance=0.0), alpha=0.58)
    busy = one_unit(np.ones(50))
    assert policy.decide(*busy).sum() == sum(streamed(policy, *busy)) == 30


def test_causal_cap_matches_the_slow_twin():
    for _, validation, score, unit, order, alpha in random_streams(seed=4):
        policy = CausalCap.calibrate(validation, alpha)
        theta, p = policy.threshold.theta, policy.threshold.tie_acceptance
        assert_decides(
            policy,
            lambda s, a=theta, b=p, c=alpha: slow.causal_cap(s, a, b, c),
            score,
            unit,
            order,
        )


@given(
    st.floats(0.01, 1),
    st.lists(st.lists(st.booleans(), min_size=1, max_size=60), min_size=1, max_size=4),
)
def test_cap_is_never_exceeded_and_never_idle(alpha, wanted):
    policy = CausalCap(FrozenThreshold(theta=0.0, tie_acceptance=0.0), alpha)
    unit = np.repeat(np.arange(len(wanted)), [len(w) for w in wanted])
    score = np.concatenate([np.where(w, 1.0, -1.0) for w in wanted])
    acceptance = policy.decide(score, unit, np.arange(unit.size))
    for number, wants in enumerate(wanted):
        taken = acceptance[unit == number]
        cap = np.floor(1 + alpha * np.arange(1, taken.size + 1) + 1e-9)
        assert (np.cumsum(taken) <= cap).all()
        refused = np.array(wants) & (taken == 0)
        assert (np.cumsum(taken)[refused] == cap[refused]).all()
        assert not taken[~np.array(wants)].any()


def test_adaptive_threshold_by_hand():
    policy = AdaptiveThreshold(
        eta=0.5, validation_scores=read_only([4, 1, 3, 2]), alpha=0.25
    )
    # F of the scores 3.5 3.5 4 9: .75 .75 1 1; q runs .75, .625, 1 (.625 + .375), .875,
    # 1 (clipped).
    assert policy.decide(*one_unit([3.5, 3.5, 4, 9])).tolist() == [0, 1, 0, 1]
    assert policy.validation_scores.tolist() == [1, 2, 3, 4]
    stream = policy.start()
    quantiles = []
    for score in (3.5, 3.5, 4.0, 9.0):
        stream.decide(score)
        quantiles.append(stream.q)
    assert quantiles == [0.75 - 0.125, 0.625 + 0.375, 1 - 0.125, 1.0]


def test_adaptive_threshold_matches_the_slow_twin():
    for rng, validation, score, unit, order, alpha in random_streams(seed=5):
        eta = float(rng.choice([*stream_rows.ETAS, 0.0, 0.7]))
        values = validation.tolist()
        policy = AdaptiveThreshold(eta, validation, alpha)
        assert_decides(
            policy,
            lambda s, v=values, a=alpha, e=eta: slow.adaptive(s, v, a, e),
            score,
            unit,
            order,
        )


def test_token_bucket_by_hand():
    threshold = FrozenThreshold(theta=0.0, tie_acceptance=0.0)
    quiet_then_busy = one_unit([-1, -1, -1, -1, 1, 1, 1, 1.0])
    # At 0.5 an input, the fifth finds min(cap, 3.5) tokens: 3, then 2.5, 2 and 1.5; or
    # 1, then .5, 1 and .5.
    assert TokenBucket(3.0, threshold, 0.5).decide(*quiet_then_busy).tolist() == [
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        1,
    ]
    assert TokenBucket(1.0, threshold, 0.5).decide(*quiet_then_busy).tolist() == [
        0,
        0,
        0,
        0,
        1,
        0,
        1,
        0,
    ]


def test_token_bucket_matches_the_slow_twin():
    for rng, validation, score, unit, order, alpha in random_streams(seed=6):
        cap = float(rng.choice([*stream_rows.CAPS, 1.5]))
        policy = TokenBucket(cap, FrozenThreshold.calibrate(validation, alpha), alpha)
        theta, p = policy.threshold.theta, policy.threshold.tie_acceptance
        assert_decides(
            policy,
            lambda s, a=theta, b=p, c=alpha, d=cap: slow.token_bucket(s, a, b, c, d),
            score,
            unit,
            order,
        )


def test_unbounded_bucket_is_the_causal_cap():
    for _, validation, score, unit, order, alpha in random_streams(seed=7, cases=500):
        cap = CausalCap.calibrate(validation, alpha)
        bucket = TokenBucket(math.inf, cap.threshold, alpha)
        assert (
            bucket.decide(score, unit, order) == cap.decide(score, unit, order)
        ).all()
    threshold = FrozenThreshold(theta=0.0, tie_acceptance=0.0)
    quiet_then_busy = one_unit(np.where(np.arange(4_000) < 1_000, -1.0, 1.0))
    for alpha in ALPHAS:
        capped = CausalCap(threshold, alpha).decide(*quiet_then_busy)
        assert (
            TokenBucket(math.inf, threshold, alpha).decide(*quiet_then_busy) == capped
        ).all()
        assert capped.sum() == min(3_000, math.floor(1 + alpha * 4_000 + 1e-9))


@given(st.data())
def test_decisions_follow_rows_and_ignore_other_units(data):
    n = data.draw(st.integers(1, 30))
    score = data.draw(
        arrays(
            np.float64,
            n,
            elements=st.sampled_from([-math.inf, -1.0, 0.0, 1.0, math.inf]),
        )
    )
    unit = data.draw(arrays(np.int64, n, elements=st.integers(0, 3)))
    order = np.arange(n)
    shuffle = np.array(data.draw(st.permutations(range(n))))
    threshold = FrozenThreshold(theta=0.0, tie_acceptance=0.4)
    for policy in (
        threshold,
        CausalCap(threshold, 0.3),
        AdaptiveThreshold(0.1, read_only([-1, 0, 0, 1]), 0.3),
        TokenBucket(2.0, threshold, 0.3),
    ):
        acceptance = policy.decide(score, unit, order)
        assert (
            policy.decide(score[shuffle], unit[shuffle], order[shuffle])
            == acceptance[shuffle]
        ).all()
        alone = unit == unit[0]
        assert (
            policy.decide(score[alone], unit[alone], order[alone]) == acceptance[alone]
        ).all()


def test_single_precision_scores_decide_as_in_the_stream():
    score = np.array([0.1, 0.2, 0.3], dtype=np.float32)
    policy = FrozenThreshold(theta=0.2, tie_acceptance=0.0)
    assert float(score[1]) > 0.2
    assert policy.decide(score, np.zeros(3, dtype=np.int64), np.arange(3)).tolist() == [
        0,
        1,
        1,
    ]
    assert policy.expected(score).tolist() == [0, 1, 1]
    assert [policy.start().decide(float(s)) for s in score] == [False, True, True]


def test_tuning_takes_the_largest_gain_near_the_rate():
    # The threshold wants the last two of ten; a bucket of one token can pay for the
    # first of them only.
    score = read_only([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    value = read_only([0, 0, 0, 0, 0, 0, 0, 0, 1, 5])
    zeros, order = np.zeros(10, dtype=np.int64), np.arange(10)
    tuned = tune_token_bucket(score, zeros, order=order, value=value, alpha=0.2)
    assert [trial.rate for trial in tuned[1]] == [0.1, 0.2, 0.2, 0.2, 0.2]
    assert [trial.gain for trial in tuned[1]] == [1, 1 + 5, 1 + 5, 1 + 5, 1 + 5]
    assert tuned[0] == TokenBucket(
        2.0, FrozenThreshold(theta=1.0, tie_acceptance=1.0), 0.2
    )


def test_tuning_takes_the_nearest_rate_where_all_miss():
    score, unit = read_only([3, 2, 1, 0]), np.zeros(4, dtype=np.int64)
    value, order = read_only([1, 1, 1, 1]), np.array([0, 1, 2, 3])
    tuned = tune_adaptive_threshold(
        score, unit, order=order, value=value, alpha=0.4, etas=(5.0, 0.1)
    )
    # eta = 5: F = 1 passes q = .6; q = 1 stops F = .75; q = 0 passes F = .5; q = 1
    # stops F = .25. eta = .1: F = 1 passes q = .6, F = .75 passes q = .66, and F = .5,
    # .25 do not pass q = .72, .68.
    assert [trial.rate for trial in tuned[1]] == [2 / 4, 2 / 4]
    assert tuned[0].eta == 5.0


def test_choice_resolves_ties_towards_the_first():
    # 0.1 and 0.3 are equally far from 0.2, though 0.3 - 0.2 is the smaller in float64.
    assert 0.3 - 0.2 < 0.2 - 0.1
    assert (
        stream_rows.best_trial(
            [Trial(1.0, rate=0.1, gain=0.0), Trial(2.0, rate=0.3, gain=9.0)], 0.2
        )
        == 0
    )
    assert (
        stream_rows.best_trial(
            [Trial(1.0, rate=0.3, gain=0.0), Trial(2.0, rate=0.1, gain=9.0)], 0.2
        )
        == 0
    )
    # Within 5 points the gain decides, however near the others are.
    near = [
        Trial(1.0, rate=0.2, gain=3.0),
        Trial(2.0, rate=0.25, gain=4.0),
        Trial(3.0, rate=0.15, gain=4.0),
    ]
    assert stream_rows.best_trial(near, 0.2) == 1


def test_choice_matches_the_slow_twin():
    rng = np.random.default_rng(11)
    for _ in range(CASES):
        alpha = float(rng.choice(ALPHAS))
        rates = (rng.integers(0, 21, 5) / 20).tolist()
        gains = (rng.integers(-2, 3, 5) / 4).tolist()
        tried = [Trial(float(i), rates[i], gains[i]) for i in range(5)]
        expected = slow.choice(list(zip(rates, gains, strict=True)), alpha)
        assert stream_rows.best_trial(tried, alpha) == expected


def assert_tuned(tuned, setting, twin, validation, unit, order, value, alpha) -> float:
    """Compares every trial and the choice with the twin's; returns the chosen rate."""
    expected = []
    for trial in tuned[1]:
        one = functools.partial(twin, trial.candidate)
        escalated = slow.decide(one, validation.tolist(), unit.tolist(), order.tolist())
        expected.append(
            (sum(escalated) / len(escalated), float(value[escalated].sum()))
        )
    assert [(trial.rate, trial.gain) for trial in tuned[1]] == expected
    best = slow.choice(expected, alpha)
    assert getattr(tuned[0], setting) == tuned[1][best].candidate
    return expected[best][0]


def test_tuning_matches_the_slow_twin():
    near = 0
    for case, (rng, validation, _, _, _, alpha) in enumerate(
        random_streams(seed=8, cases=400)
    ):
        unit, order = (
            rng.integers(0, 3, validation.size),
            rng.permutation(validation.size),
        )
        value = rng.integers(-3, 4, validation.size) / 4
        if case % 2:
            theta, p = slow.frozen_threshold(validation.tolist(), alpha)
            tuned = tune_token_bucket(
                validation, unit, order=order, value=value, alpha=alpha
            )
            assert [trial.candidate for trial in tuned[1]] == [1, 2, 5, 10, math.inf]
            twin = lambda cap, s, t=theta, p=p, a=alpha: slow.token_bucket(  # noqa: E731
                s, t, p, a, cap
            )
            rate = assert_tuned(
                tuned, "cap", twin, validation, unit, order, value, alpha
            )
        else:
            tuned = tune_adaptive_threshold(
                validation, unit, order=order, value=value, alpha=alpha
            )
            assert [trial.candidate for trial in tuned[1]] == [
                0.005,
                0.01,
                0.02,
                0.05,
                0.1,
            ]
            values = validation.tolist()
            twin = lambda eta, s, v=values, a=alpha: slow.adaptive(s, v, a, eta)  # noqa: E731
            rate = assert_tuned(
                tuned, "eta", twin, validation, unit, order, value, alpha
            )
        near += abs(rate - alpha) <= 0.05
    assert 100 < near < 300


def test_rate_missed_at_exactly_five_points():
    # In float64 the difference falls on either side of 0.05, depending on alpha.
    for percent in range(6, 95):
        alpha = percent / 100
        assert not stream_rows.rate_missed((percent + 5) / 100, alpha)
        assert not stream_rows.rate_missed((percent - 5) / 100, alpha)
        assert stream_rows.rate_missed((percent + 5.001) / 100, alpha)
        assert stream_rows.rate_missed((percent - 5.001) / 100, alpha)


def gains_by_draw(acceptance, value, unit, *, counts):
    """The bootstrap of some draws, and the gains of fixed acceptances."""
    table = table_of(value, unit=unit).with_units(range(counts.shape[1]))
    draws = Draws(np.asarray(counts, dtype=float), None, None)
    bootstrap = Bootstrap.of(table, draws, leave_out=False)
    return bootstrap, gains_of_choices(bootstrap, np.asarray(acceptance))


def test_gains_of_units_by_hand():
    acceptance, value, unit = [1, 0.5, 0, 1], [2.0, -4.0, 9.0, -1.0], [0, 0, 2, 2]
    bootstrap, gains = gains_by_draw(acceptance, value, unit, counts=np.eye(4))
    each = bootstrap.drawn
    assert gains.benefit[each].tolist() == [2, 0, 0, 0]
    assert gains.gain[each].tolist() == [2 - 0.5 * 4, 0, -1, 0]
    assert gains.escalated[each].tolist() == [1.5, 0, 1, 0]
    assert bootstrap.inputs[each].tolist() == [2, 0, 2, 0]
    assert (gains.benefit[0], gains.gain[0], gains.escalated[0]) == (2, -1, 2.5)


def test_gains_of_units_match_the_slow_twin():
    rng = np.random.default_rng(9)
    for _ in range(CASES // 10):
        n, units = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        acceptance = rng.random(n)
        value = np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))
        unit = rng.integers(0, units, n)
        bootstrap, own = gains_by_draw(acceptance, value, unit, counts=np.eye(units))
        columns = own.gain, own.benefit, own.benefit - own.gain, own.escalated
        found = np.column_stack([*columns, bootstrap.inputs])[bootstrap.drawn]
        expected = slow.unit_totals(acceptance, value, unit, units)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_gains_of_a_draw_equal_a_replayed_stream():
    rng = np.random.default_rng(10)
    unit, order = np.repeat(np.arange(4), 12), np.arange(48)
    score, value = rng.normal(size=48), rng.normal(size=48)
    policy = TokenBucket(2.0, FrozenThreshold.calibrate(score, 0.3), 0.3)
    accepted = policy.decide(score, unit, order)
    _, gains = gains_by_draw(accepted, value, unit, counts=np.array([[2, 0, 1, 1]]))
    rows = np.concatenate([np.flatnonzero(unit == u) for u in (0, 0, 2, 3)])
    replayed = policy.decide(score[rows], np.repeat(np.arange(4), 12), np.arange(48))
    assert gains.gain[1] == pytest.approx(replayed @ value[rows], rel=1e-9)
    assert gains.escalated[1] == replayed.sum()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FrozenThreshold.calibrate(np.zeros(0), 0.2), "at least one"),
        (
            lambda: FrozenThreshold.calibrate(np.array([1.0, np.nan]), 0.2),
            "NaN, found one in row 1",
        ),
        (lambda: FrozenThreshold.calibrate(np.zeros(3), 0.0), "alpha must lie"),
        (lambda: FrozenThreshold.calibrate(np.zeros(3), 1.1), "alpha"),
        (lambda: FrozenThreshold.calibrate(np.zeros(3), math.nan), "alpha"),
        (lambda: FrozenThreshold(math.nan, 0.5), "theta that is not NaN"),
        (lambda: FrozenThreshold(0.0, 1.5), "tie acceptance in"),
        (lambda: CausalCap(FrozenThreshold(0.0, 0.5), -0.1), "alpha"),
        (lambda: AdaptiveThreshold(0.1, np.zeros(0), 0.2), "at least one"),
        (lambda: AdaptiveThreshold(-0.1, np.zeros(2), 0.2), "eta"),
        (lambda: AdaptiveThreshold(0.1, np.zeros(2), 2.0), "alpha"),
        (lambda: TokenBucket(0.5, FrozenThreshold(0.0, 0.5), 0.2), "cap of 0.5"),
        (lambda: TokenBucket(1.0, FrozenThreshold(0.0, 0.5), 0.0), "alpha"),
        (
            lambda: FrozenThreshold(0.0, 0.5).decide(
                np.array([np.nan]), np.array([0]), np.array([0])
            ),
            "NaN",
        ),
        (
            lambda: FrozenThreshold(0.0, 0.5).decide(
                np.zeros(1), np.array([0]), np.array([np.nan])
            ),
            "orders",
        ),
        (lambda: FrozenThreshold(0.0, 0.5).start().decide(math.nan), "NaN"),
        (lambda: stream_rows.rate_missed(math.nan, 0.2), "at least one input"),
        (
            lambda: tune_token_bucket(
                np.zeros(1),
                np.array([0]),
                order=np.array([0]),
                value=np.array([np.nan]),
                alpha=0.2,
            ),
            "finite decision value",
        ),
        (
            lambda: tune_adaptive_threshold(
                np.zeros(0),
                np.zeros(0, dtype=np.int64),
                order=np.zeros(0),
                value=np.zeros(0),
                alpha=0.2,
            ),
            "at least one",
        ),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
