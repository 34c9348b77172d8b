"""Policies beyond the paper's four, and their guarantees."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import deepval
from deepval.basics.errors import InputError
from deepval.judge.harm_certainty import chances_of_luck, fewest_units
from deepval.judge.priced_policies import (
    ConformalHarm,
    DualPrice,
    ReplayThreshold,
    certificate,
    harm_shares,
    safe_threshold,
)
from deepval.judge.report.tables.certificate import certificate_table
from deepval.judge.routing import Routing, file_text, read_routing
from deepval.judge.stream_rows import BEYOND, PAPER, tune
from deepval.judge.streaming import CausalCap, FrozenThreshold
from worlds import quietly, table_of

SCORES = st.lists(
    st.integers(-4, 8).map(lambda number: number / 2), min_size=1, max_size=60
).map(np.array)
ALPHAS = st.sampled_from([0.1, 0.2, 0.35, 0.5])
THRESHOLD = FrozenThreshold(1.0, 0.5)
POLICIES = [
    DualPrice(1.0, 2.0, 0.2, 0.3),
    ReplayThreshold(THRESHOLD, 0.2),
    ConformalHarm(1.0, 0.5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@given(data=st.data())
def test_a_stream_decides_as_the_whole_array_does_and_starts_again_at_each_unit(
    policy, data
):
    score = data.draw(SCORES)
    unit = np.sort(
        np.array(
            data.draw(
                st.lists(st.integers(0, 2), min_size=len(score), max_size=len(score))
            )
        )
    )
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


def calibration(seed, *, units=12, inputs=30):
    rng = np.random.default_rng(seed)
    unit, value = np.repeat(np.arange(units), inputs), rng.normal(size=units * inputs)
    return (
        value + rng.normal(size=len(value)),
        unit,
        {"order": np.arange(len(value)), "value": value},
    )


@settings(max_examples=15)
@given(st.integers(0, 1000), ALPHAS)
def test_the_replay_threshold_keeps_the_cap_and_is_best_among_its_candidates(
    seed, alpha
):
    score, unit, about = calibration(seed)
    chosen = tune("replay threshold", score, unit, alpha=alpha, **about)
    accepted = chosen.decide(score, unit, about["order"])
    for number in np.unique(unit):
        used = np.cumsum(accepted[unit == number])
        seen = np.arange(1, len(used) + 1)
        assert (used <= np.floor(1 + alpha * seen + 1e-9)).all()
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
        scored = (score[:8].ravel(), unit, harm_shares(value[:8].ravel(), unit))
        policy = ConformalHarm.over(
            FrozenThreshold(-9.0, 0.0), safe_threshold(*scored, target=alpha)
        )
        harm = np.maximum(-value[8], 0.0)
        losses.append(
            harm
            @ policy.decide(score[8], np.zeros(20, dtype=int), np.arange(20))
            / harm.sum()
        )
    spread = np.std(losses) / math.sqrt(len(losses))
    assert np.mean(losses) <= alpha + 2 * spread
    assert np.mean(losses) >= alpha - 1 / 9 - 0.05  # not needlessly careful


def test_conformal_harm_refuses_too_few_units_and_keeps_the_rate():
    score, unit, about = calibration(3, units=3)
    with pytest.raises(InputError, match="needs at least 4 units; found 3"):
        tune("conformal harm", score, unit, alpha=0.2, **about)
    score, unit, about = calibration(3)
    policy = tune("conformal harm", score, unit, alpha=0.2, **about)
    assert policy.decide(score, unit, about["order"]).mean() <= 0.2 + 1e-9
    harmless, frozen = np.zeros(len(score)), FrozenThreshold.calibrate(score, 0.2)
    assert ConformalHarm.over(
        frozen, safe_threshold(score, unit, harmless, target=0.2)
    ) == ConformalHarm(**vars(frozen))


CASES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(-3, 2),
        st.sampled_from([-2.0, -0.5, 0.0, 1.0]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200)
@given(CASES, st.sampled_from([0.2, 0.35, 0.6]), st.sampled_from([0.7, 1.0, 3.0]))
def test_the_lowest_safe_threshold_is_that_of_a_search_through_all(rows, target, bound):
    unit, score, value, loss = (np.array(column) for column in zip(*rows, strict=True))
    _, unit = np.unique(unit, return_inverse=True)
    unit, score, loss = unit.reshape(-1), score.astype(float), loss.astype(float)
    share, units = harm_shares(value, unit, loss, bound=bound), int(unit.max()) + 1
    if units < math.ceil(bound / target - 1e-9) - 1:
        with pytest.raises(
            InputError,
            match=rf"needs at least {math.ceil(bound / target - 1e-9) - 1} units",
        ):
            safe_threshold(score, unit, share, target=target, bound=bound)
        return

    def harms(theta):
        for number in range(units):
            own = (unit == number) & (score > theta)
            harm, whole = -np.minimum(value[own], 0).sum(), loss[unit == number].sum()
            yield min(bound, harm / whole) if whole > 0 else bound * (harm > 0)

    thetas = [-math.inf, *np.unique(score)]
    safe = [
        theta
        for theta in thetas
        if (math.fsum(harms(theta)) + bound) / (units + 1) <= target + 1e-12
    ]
    assert safe_threshold(score, unit, share, target=target, bound=bound) == min(safe)
    # harm never rises with the threshold
    assert safe == thetas[thetas.index(min(safe)) :]


def certified_world(seed, units=12, inputs=30):
    score, unit, about = calibration(seed, units=units, inputs=inputs)
    table = table_of(
        about["value"], unit=unit, cheap=np.full(len(score), 3.0), order=about["order"]
    )
    return table, score


def test_a_deployment_certifies_its_harm_and_the_router_keeps_the_threshold(tmp_path):
    table, score = certified_world(4)
    deployed = deepval.deployment(
        table, score, 0.5, harm_at_most=0.03, bound=0.2, draws=20
    )
    taken = deployed.routing.replay(score, table.unit, table.time_rank) > 0
    harm, loss = (
        np.bincount(table.unit, of)
        for of in (taken * np.maximum(-table.decision_values, 0), table.losses[:, 0])
    )
    certificate = deployed.certificate
    assert certificate.harm == pytest.approx(np.mean(harm / loss))
    assert certificate.figure == pytest.approx((np.sum(harm / loss) + 0.2) / 13)
    assert certificate.figure <= 0.03 < (certificate.plain_harm * 12 + 0.2) / 13
    assert (
        certificate.clipped_units,
        certificate.clipped_share,
        certificate.units,
    ) == (0, 0.0, 12)
    own, plain = deployed.replays
    assert own.rate == taken.mean() < plain.rate == pytest.approx(0.5)
    assert own.gain == pytest.approx(table.decision_values[taken].sum())
    assert (
        deployed.threshold.threshold
        == certificate.lowest
        == deployed.routing.policy.theta
    )
    assert deployed.threshold.tied == 1
    assert deployed.threshold.tie_acceptance == 0
    (tmp_path / "router.json").write_text(file_text(deployed.routing), encoding="utf-8")
    router = deepval.Router.load(tmp_path / "router.json")
    assert (
        read_routing(tmp_path / "router.json").about["certificate"]
        == certificate._asdict()
    )
    assert [
        router.decide(value)
        for value in (certificate.lowest, np.nextafter(certificate.lowest, 9))
    ] == [
        "cheap",
        "full",
    ]


def test_what_a_certificate_does_not_count_is_reported():
    """Unit 0 loses 3 of 4, which counts as .5 of 4; unit 1 has no loss, so all of its
    harm is beyond.
    """
    value = np.array([-3.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    unit, loss, score = (
        np.array([0, 0, 1, 1, 2, 2]),
        np.array([2.0, 2.0, 0.0, 0.0, 2.0, 2.0]),
        np.arange(6.0),
    )
    everything = np.ones(6, dtype=bool)
    losses = np.column_stack([loss, loss - value])
    stated = certificate(
        score, unit, losses, taken=[everything] * 2, at_most=0.4, bound=0.5
    )
    assert (stated.clipped_units, stated.clipped_share) == (
        2,
        pytest.approx((3 - 0.5 * 4 + 1) / 4),
    )
    assert stated.harm == stated.plain_harm == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert stated.figure == pytest.approx((0.5 + 0.5 + 0.5) / 4)
    assert stated.beyond == pytest.approx((3 / 4 - 0.5 + 0) / 2)  # of units 0 and 2
    assert stated.lowest is None  # .375 is below .4: all may be escalated


def luck(harm, target):
    """The p-value of the harms of units, as shares of the bound, by the formulas."""
    units, mean = len(harm), float(np.mean(harm))
    if units >= 60:
        bets = np.arange(1, 21) / 20
        factors = 1 + bets[:, None] * (target - harm) / (1 - target)
        return 1 / factors.prod(axis=1).mean()
    low = min(mean, target)
    kl = (1 - low) * math.log((1 - low) / (1 - target))
    kl += special.xlogy(low, low / target)
    bentkus = math.e * stats.binom.cdf(math.ceil(units * mean - 1e-9), units, target)
    return min(math.exp(-units * kl), bentkus)


@pytest.mark.parametrize("units", [25, 40, 60, 150])
@pytest.mark.parametrize("certainty", [0.5, 0.9])
def test_a_certain_threshold_is_that_of_a_search_from_the_highest(units, certainty):
    rng = np.random.default_rng(units)
    target, bound = 0.03, 0.2
    unit = np.repeat(np.arange(units), 8)
    score = rng.integers(0, 40, len(unit)) / 4
    value = np.where(rng.random(len(unit)) < 0.1, -rng.exponential(0.7, len(unit)), 1.0)
    share = harm_shares(value, unit, np.ones(len(unit)), bound=bound)
    found = safe_threshold(
        score, unit, share, target=target, bound=bound, certainty=certainty
    )
    expected = np.inf
    for theta in [*np.unique(score)[::-1], -np.inf]:
        harms = np.bincount(unit, share * (score > theta), minlength=units)
        if luck(np.minimum(harms, bound) / bound, target / bound) > 1 - certainty:
            break
        expected = theta
    assert found == expected
    assert found > -np.inf
    average = safe_threshold(score, unit, share, target=target, bound=bound)
    assert found >= average


def test_units_at_the_bound_by_rounding_are_no_certainty():
    # Unit 0 is at the bound but for the last digit, and then at it.
    harm = np.array([np.nextafter(1.0, 0.0), 1.0, 0.0])
    before = np.array([0.0, np.nextafter(1.0, 0.0), 0.0])
    chances = chances_of_luck(harm, before, np.arange(3), units=60, target=0.1)
    expected = luck(np.array([1.0, *[0.0] * 59]), 0.1)
    assert chances[1:] == pytest.approx([expected] * 3)


def test_the_fewest_units_for_a_certain_harm():
    # Without harm, (1 - .1)^22 = .0985 and (1 - .1)^29 = .0471.
    assert fewest_units(0.1, 0.9) == 22
    assert fewest_units(0.1, 0.95) == 29
    table, score = certified_world(4)  # 12 units
    with pytest.raises(InputError, match="certainty of 90 % needs at least 22 units"):
        deepval.deployment(table, score, 0.3, harm_at_most=0.01, certainty=0.9)


def test_a_certain_harm_is_rarely_above_its_target():
    """Half of the units are harmed by a third of what is escalated, at random."""
    rng = np.random.default_rng(3)
    target, bound, unit = 0.02, 0.1, np.repeat(np.arange(40), 10)
    above = {None: 0, 0.9: 0}
    for _ in range(150):
        # The harm of a unit is .05 x the number of its harmed inputs above theta.
        score = rng.random(400)
        share = np.where(rng.random(400) < 0.1, 0.05, 0.0)
        for certainty in above:
            theta = safe_threshold(
                score, unit, share, target=target, bound=bound, certainty=certainty
            )
            chance = 0.1 * (1 - max(theta, 0.0))
            number = stats.binom.pmf(np.arange(11), 10, chance)
            true = number @ np.minimum(0.05 * np.arange(11), bound)
            above[certainty] += true > target
    assert above[0.9] <= 15
    assert above[None] > 15


def test_a_deployment_says_how_certain_its_harm_is():
    table, score = certified_world(4, units=40)
    about = {"harm_at_most": 0.03, "bound": 0.2, "draws": 20}
    certain = deepval.deployment(table, score, 0.5, certainty=0.9, **about)
    average = deepval.deployment(table, score, 0.5, **about)
    assert certain.certificate.certainty == 0.9
    assert average.certificate.certainty is None
    assert certain.certificate.lowest >= average.certificate.lowest
    notes = certificate_table(certain.certificate, certain.replays).notes
    assert notes[0].startswith("With 90")
    assert "at most 3.0" in notes[0]
    notes = certificate_table(average.certificate, average.replays).notes
    assert notes[0].startswith("Over many such calibrations")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"harm_at_most": 0.05, "certainty": 90}, "Write 0.9 for 90 %"),
        ({"certainty": 0.9}, "applies only to harm_at_most"),
        ({"harm_at_most": 1}, "bound"),
        ({"harm_at_most": 0.0}, "harm_at_most"),
        ({"harm_at_most": 5, "bound": 30}, "0.2 for 20 %"),
        ({"harm_at_most": 0.5, "bound": 30}, "0.2 for 20 %"),
        ({"harm_at_most": 0.01, "bound": math.nan}, "bound must"),
        ({"harm_at_most": 0.001}, "harm of at"),
        ({"harm_at_most": 0.01, "policy": "causal-cap"}, "'causal-cap'"),
        ({"harm_at_most": 0.01, "policy": "frozen-threshold"}, "'frozen-threshold'"),
    ],
)
def test_a_certificate_that_cannot_be_is_refused_in_a_sentence(asked, message):
    table, score = certified_world(1)
    with pytest.raises(InputError, match=message):
        deepval.deployment(table, score, 0.3, **asked)


def test_harm_is_not_certified_on_estimated_losses():
    table, score = certified_world(1)
    with pytest.raises(InputError, match="certified on measured losses only"):
        deepval.deployment(
            replace(table, estimated="Values are estimates."),
            score,
            0.3,
            harm_at_most=0.05,
        )


def test_the_next_unit_is_harmed_by_no_more_than_certified_on_average():
    """Exchangeable units: 10 calibrate, the eleventh is new.

    A threshold of 90 % harms it by more.
    """
    harms, rng = [], np.random.default_rng(11)
    for _ in range(400):
        value = rng.normal(size=(11, 20)) * rng.exponential(size=(11, 1))
        loss, score = (
            rng.exponential(4.0, size=(11, 20)),
            rng.normal(size=(11, 20)) + 0.3 * value,
        )
        unit, new = (
            np.repeat(np.arange(10), 20),
            np.maximum(-value[10], 0) / loss[10].sum(),
        )
        share = harm_shares(value[:10].ravel(), unit, loss[:10].ravel(), bound=0.15)
        theta = safe_threshold(score[:10].ravel(), unit, share, target=0.03, bound=0.15)
        plain = FrozenThreshold.calibrate(score[:10].ravel(), 0.9).theta
        harms.append([min(0.15, new @ (score[10] > cut)) for cut in (theta, plain)])
    mean, spread = np.mean(harms, axis=0), np.std(harms, axis=0) / math.sqrt(len(harms))
    assert mean[0] <= 0.03 + 2 * spread[0]
    assert mean[0] >= 0.03 - 0.15 / 11 - 0.005  # not needlessly careful
    assert mean[1] > 0.03 + 5 * spread[1]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_routers_file_brings_the_policy_back(policy, tmp_path):
    path = tmp_path / "router.json"
    path.write_text(file_text(Routing(policy)), encoding="utf-8")
    assert read_routing(path).policy == policy
    assert type(read_routing(path).policy) is type(policy)


def test_policies_that_need_losses_say_so():
    assert isinstance(
        Routing.calibrate(
            np.arange(9.0), 0.2, policy="dual-price", parameter=0.3
        ).policy,
        DualPrice,
    )
    for name in ("replay threshold", "conformal harm"):
        with pytest.raises(InputError, match="calibrated by losses"):
            Routing.calibrate(np.arange(9.0), 0.2, policy=name)
    with pytest.raises(InputError, match="finite scale above 0"):
        DualPrice(0.0, 0.0, 0.2, 0.1)


def test_out_of_fold_each_fold_is_calibrated_on_the_others():
    rng = np.random.default_rng(2)
    value, unit = rng.normal(size=240), np.repeat(np.arange(12), 20)
    table = table_of(value, unit=unit, cheap=np.full(240, 9.0), order=np.arange(240))
    score = value + rng.normal(size=240)
    result = quietly(
        deepval.evaluate, table, {"mine": score}, 0.3, calibration=4, draws=20
    )
    streams = {row.policy: row for row in result.streams}
    assert set(streams) == set(PAPER + BEYOND)
    expected = np.zeros(240)
    fold = np.searchsorted(np.sort(table.unit_ids), table.unit_ids[table.unit]) % 4
    for number in range(4):
        own = fold == number
        expected[own] = FrozenThreshold.calibrate(score[~own], 0.3).expected(score[own])
    assert streams["frozen threshold"].gain == pytest.approx(float(expected @ value))
    with pytest.raises(InputError, match="column 'order'"):
        deepval.evaluate(
            table_of(value, unit=unit), {"mine": score}, 0.3, calibration=4
        )
