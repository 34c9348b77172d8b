"""Policies beyond the paper's four: their guarantees, and bounds on what any policy under the cap can gain."""

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from deepval.errors import InputError
from deepval.judging import policies as causal
from deepval.judging.policies import CausalCap, FrozenThreshold
from deepval.judging.priced_policies import ConformalHarm, DualPrice, ReplayThreshold, VirtualQueue
from deepval.judging.routing import Routing, file_text, read_routing
from deepval.judging.stream_rows import BEYOND, PAPER, tune
from worlds import quietly, table_of

SCORES = st.lists(st.integers(-4, 8).map(lambda number: number / 2), min_size=1, max_size=60).map(np.array)
ALPHAS = st.sampled_from([0.1, 0.2, 0.35, 0.5])
THRESHOLD = FrozenThreshold(1.0, 0.5)
POLICIES = [
    DualPrice(1.0, 2.0, 0.2, 0.3),
    VirtualQueue(1.0, 2.0, 0.2, 5.0),
    ReplayThreshold(THRESHOLD, 0.2),
    ConformalHarm(1.0, 0.5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@given(data=st.data())
def test_a_stream_decides_as_the_whole_array_does_and_starts_again_at_each_unit(policy, data):
    score = data.draw(SCORES)
    unit = np.sort(np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(score), max_size=len(score)))))
    order = np.random.default_rng(len(score)).permutation(len(score))
    whole = policy.decide(score, unit, order)
    for number in np.unique(unit):
        rows = np.flatnonzero(unit == number)
        stream = policy.start()
        for row in rows[np.argsort(order[rows])]:
            assert stream.decide(score[row]) == bool(whole[row])


@given(SCORES, ALPHAS, st.sampled_from([0.03, 0.3, 1.0]))
def test_the_rate_of_a_dual_price_converges_for_any_scores(score, alpha, eta):
    policy = DualPrice(float(score[0]), 2.0, alpha, eta)
    rows = np.arange(len(score))
    accepted = policy.decide(score, np.zeros_like(rows), rows)
    step = eta * policy.scale
    bound = (np.ptp(score) + step) * math.sqrt(len(score)) / step
    assert abs(accepted.sum() - alpha * len(score)) <= bound + 1e-9


@given(SCORES, ALPHAS, st.sampled_from([1.0, 5.0, 20.0]))
def test_a_virtual_queue_bounds_its_debt_at_every_input(score, alpha, debt):
    policy = VirtualQueue(0.0, 2.0, alpha, debt)
    rows = np.arange(len(score))
    accepted = np.cumsum(policy.decide(score, np.zeros_like(rows), rows))
    most = debt * max(float(score.max()), 0.0) / policy.scale + 1
    assert (accepted - alpha * (rows + 1) <= most + 1e-9).all()
    assert not policy.decide(np.minimum(score, 0.0), np.zeros_like(rows), rows).any()  # never below the threshold


def calibration(seed, *, units=12, inputs=30):
    rng = np.random.default_rng(seed)
    unit, value = np.repeat(np.arange(units), inputs), rng.normal(size=units * inputs)
    return value + rng.normal(size=len(value)), unit, {"order": np.arange(len(value)), "value": value}


@settings(max_examples=15)
@given(st.integers(0, 1000), ALPHAS)
def test_the_replay_threshold_keeps_the_cap_and_is_best_among_its_candidates(seed, alpha):
    score, unit, about = calibration(seed)
    chosen = tune("replay threshold", score, unit, alpha=alpha, **about)
    accepted = chosen.decide(score, unit, about["order"])
    for number in np.unique(unit):
        used = np.cumsum(accepted[unit == number])
        assert (used <= causal.caps(alpha, len(used))).all()
    gain = accepted @ about["value"]
    for share in (0.1, 0.5, 1.0, 1.7, 2.0):
        other = CausalCap(FrozenThreshold.calibrate(score, share * alpha), alpha)
        assert other.decide(score, unit, about["order"]) @ about["value"] <= gain + 1e-9


def test_conformal_harm_holds_on_average_over_calibrations_and_uses_what_it_may():
    alpha, losses, rng = 0.3, [], np.random.default_rng(5)
    for _ in range(400):
        value = rng.normal(size=(9, 20)) * rng.exponential(size=(9, 1))
        score = rng.normal(size=(9, 20)) + 0.2 * value
        unit = np.repeat(np.arange(8), 20)
        policy = ConformalHarm.within(score[:8].ravel(), unit, value[:8].ravel(), alpha=0.9, target=alpha)
        harm = np.maximum(-value[8], 0.0)
        losses.append(harm @ policy.decide(score[8], np.zeros(20, dtype=int), np.arange(20)) / harm.sum())
    spread = np.std(losses) / math.sqrt(len(losses))
    assert np.mean(losses) <= alpha + 2 * spread
    assert np.mean(losses) >= alpha - 1 / 9 - 0.05  # not needlessly careful


def test_conformal_harm_refuses_too_few_units_and_keeps_the_rate():
    score, unit, about = calibration(3, units=3)
    with pytest.raises(InputError, match="with 4 calibration units or more; found 3"):
        tune("conformal harm", score, unit, alpha=0.2, **about)
    score, unit, about = calibration(3)
    policy = tune("conformal harm", score, unit, alpha=0.2, **about)
    assert policy.decide(score, unit, about["order"]).mean() <= 0.2 + 1e-9
    harmless = ConformalHarm.within(score, unit, np.abs(about["value"]), alpha=0.2)
    assert harmless == ConformalHarm(**vars(FrozenThreshold.calibrate(score, 0.2)))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_routers_file_brings_the_policy_back(policy, tmp_path):
    path = tmp_path / "router.json"
    path.write_text(file_text(Routing(policy)), encoding="utf-8")
    assert read_routing(path).policy == policy
    assert type(read_routing(path).policy) is type(policy)


def test_policies_that_need_losses_say_so():
    assert isinstance(Routing.calibrate(np.arange(9.0), 0.2, policy="dual-price", parameter=0.3).policy, DualPrice)
    assert isinstance(Routing.calibrate(np.arange(9.0), 0.2, policy="virtual queue").policy, VirtualQueue)
    for name in ("replay threshold", "conformal harm"):
        with pytest.raises(InputError, match="calibrated by losses"):
            Routing.calibrate(np.arange(9.0), 0.2, policy=name)
    with pytest.raises(InputError, match="finite scale above 0"):
        DualPrice(0.0, 0.0, 0.2, 0.1)


def best_in_random_order(score, alpha):
    """The expected sum of the best policy that knows the scores of a unit and not their order, by all states."""
    cap = causal.caps(alpha, len(score)).tolist()

    @cache
    def value(left, used):
        if not left:
            return 0.0
        room = used < cap[len(score) - len(left)]
        total = 0.0
        for index, own in enumerate(left):
            rest = (*left[:index], *left[index + 1 :])
            total += max(value(rest, used), own + value(rest, used + 1) if room else -math.inf)
        return total / len(left)

    return value(tuple(sorted(score)), 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), ALPHAS)
def test_bounds_hold_against_all_policies_of_tiny_units(numbers, alpha):
    score = np.array(numbers, dtype=float)
    quota, shuffled, capped = (
        float(score @ of(score, alpha)) for of in (causal.unit_quota, causal.random_order, causal.capped_hindsight)
    )
    cap = causal.caps(alpha, len(score))
    sets = [
        sum(score[list(rows)])
        for size in range(len(score) + 1)
        for rows in combinations(range(len(score)), size)
        if (np.cumsum(np.isin(np.arange(len(score)), rows)) <= cap).all()
    ]
    assert capped == pytest.approx(max(sets))
    assert float(score @ causal.unit_threshold(score, alpha, score)) <= capped + 1e-9
    assert best_in_random_order(score, alpha) <= shuffled + 1e-9
    assert max(capped, shuffled) <= quota + 1e-9


def test_out_of_fold_each_fold_is_calibrated_on_the_others():
    rng = np.random.default_rng(2)
    value, unit = rng.normal(size=240), np.repeat(np.arange(12), 20)
    table = table_of(value, unit=unit, cheap=np.full(240, 9.0), order=np.arange(240))
    score = value + rng.normal(size=240)
    result = quietly(deepval.evaluate, table, {"mine": score}, 0.3, calibration=4, draws=20)
    streams = {row.policy: row for row in result.streams}
    assert set(PAPER + BEYOND) < set(streams)
    expected = np.zeros(240)
    fold = np.searchsorted(np.sort(table.unit_ids), table.unit_ids[table.unit]) % 4
    for number in range(4):
        own = fold == number
        expected[own] = FrozenThreshold.calibrate(score[~own], 0.3).expected(score[own])
    assert streams["frozen threshold"].gain == pytest.approx(float(expected @ value))
    ranked = result.row("mine", "selection", 0.3).gain
    assert streams["all units"].gain == pytest.approx(ranked)
    with pytest.raises(InputError, match="column 'order'"):
        deepval.evaluate(table_of(value, unit=unit), {"mine": score}, 0.3, calibration=4)
