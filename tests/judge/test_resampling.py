"""Draws against every pick written out, percentiles against their definition, and what
is planned from a spread.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats

from deepval.basics.errors import InputError
from deepval.judge.bootstrap import resample_counts
from deepval.judge.draws import Draws, child_seeds, make_draws
from deepval.judge.extras.planning import units_to_resolve
from deepval.judge.extras.setting import concentration
from deepval.judge.extras.simultaneous import intervals_at_once
from deepval.judge.intervals import (
    Interval,
    interval,
    interval_over,
    intervals_over,
    spread,
)
from reference import evaluation as slow
from worlds import read_only


@pytest.mark.parametrize("units", [1, 2, 3, 4, 5, 6])
def test_exact_draws_are_all_picks_with_their_frequency(units):
    picks = Counter(
        tuple(sorted(pick)) for pick in itertools.product(range(units), repeat=units)
    )
    expected = {
        tuple(pick.count(u) for u in range(units)): times / units**units
        for pick, times in picks.items()
    }
    draws = make_draws(units, "exact", seed=7)
    found = {
        tuple(map(int, row)): weight
        for row, weight in zip(draws.counts, draws.weights, strict=True)
    }
    assert len(found) == len(draws) == math.comb(2 * units - 1, units)
    assert found == pytest.approx(expected, rel=1e-9)
    assert draws.weights.sum() == pytest.approx(1)
    assert (draws.method, draws.seed) == ("exact", None)


def test_number_of_exact_draws():
    assert len(make_draws(6, "exact")) == 462
    assert len(make_draws(9, "exact")) == 24_310
    with pytest.raises(InputError, match="92,378"):
        make_draws(10, "exact")


def test_drawn_units_are_counted_from_pcg64():
    for units, number, seed in [(1, 3, 0), (6, 100, 0), (21, 50, 12345)]:
        picks = np.random.Generator(np.random.PCG64(seed)).integers(
            0, units, (number, units)
        )
        draws = make_draws(units, number, seed)
        assert draws.counts.tolist() == [
            [float(np.sum(pick == u)) for u in range(units)] for pick in picks
        ]
        assert (draws.method, draws.seed, draws.weights) == ("drawn", seed, None)
    assert len(make_draws(3, 0)) == 0
    assert make_draws(3, 0).method == "none"
    for wrong in (-1, True):
        with pytest.raises(InputError, match="draws must be"):
            make_draws(3, wrong)


def test_intervals_equal_the_slow_twin():
    rng = np.random.default_rng(1)
    for _ in range(2_000):
        number = int(rng.integers(1, 60))
        samples = read_only(
            rng.normal(size=number)
            if rng.random() < 0.5
            else rng.integers(-2, 3, number) / 4
        )
        kept = rng.random(number) < rng.choice([0.0, 0.5, 1.0])
        parts = rng.integers(1, 9, number)
        weights = read_only(parts / parts.sum())
        exact = rng.random() < 0.5
        draws = Draws(np.ones((number, 1)), weights if exact else None, None)
        twins = [Fraction(x) for x in samples[kept].tolist()]
        expected = slow.interval(
            twins, [Fraction(int(p)) for p in parts[kept]], exact=exact
        )
        # NaN leaves a draw out.
        own = np.where(kept, samples, np.nan)
        found = interval_over(own, draws, scale=0.0)
        if expected[0] is None:
            assert found is None
        else:
            assert (found.low, found.high) == pytest.approx(
                [float(x) for x in expected], rel=1e-9, abs=1e-13
            )
        # Rows that leave out the same draws, and rows that do not.
        for other_kept in (kept, rng.permutation(kept)):
            other = np.where(other_kept, rng.permutation(samples), np.nan)
            alone = [interval_over(row, draws, scale=0.0) for row in (own, other)]
            together = intervals_over(np.stack([own, other]), draws, scale=0.0)
            assert together == alone
        chance = weights[kept].sum() if exact else kept.mean()
        assert draws.probability(kept) == pytest.approx(chance)


def test_percentiles_by_hand():
    # Linear: place 0.025*40 = 1 of 0..40. Steps: F(1) = 2/41 is the first above 2.5 %,
    # F(39) = 40/41 above 97.5 %.
    samples = np.arange(41.0)[::-1].copy()
    linear = interval_over(samples, Draws(np.ones((41, 1)), None, 0))
    assert (linear.low, linear.high) == pytest.approx((1, 39))
    exact = Draws(np.ones((41, 1)), np.full(41, 1 / 41), None)
    assert interval_over(samples, exact) == Interval(1.0, 39.0)
    # F(0) = 1/40 is 2.5 % exactly, and F(38) = 39/40 is 97.5 %: these x are the
    # smallest.
    exact = Draws(np.ones((40, 1)), np.full(40, 1 / 40), None)
    assert interval_over(np.arange(40.0), exact) == Interval(0.0, 38.0)


def test_snapping_and_verdict():
    assert interval(1e-12, -1e-12) == Interval(0.0, 0.0)
    assert interval(1.1e-12, 1.0) == Interval(1.1e-12, 1.0)
    assert interval(-1e-10, 3.0, scale=200.0) == Interval(0.0, 3.0)
    assert interval(1e-12, 1.0, scale=0.0) == Interval(1e-12, 1.0)
    assert interval(math.nan, math.nan) is None
    assert interval(0.0, math.nan) is None
    verdicts = {
        (0.1, 0.2): "better",
        (-0.2, -0.1): "worse",
        (0.0, 0.2): "unresolved",
        (-0.2, 0.0): "unresolved",
    }
    for bounds, verdict in verdicts.items():
        assert Interval(*bounds).verdict == verdict


def test_spread_is_the_weighted_standard_deviation_of_what_is_known():
    draws = Draws(np.ones((3, 1)), np.array([0.25, 0.5, 0.25]), None)
    # Without the second: weights 1/2 each, mean 2, deviations 1.
    assert spread(np.array([1.0, np.nan, 3.0]), draws) == pytest.approx(1)
    assert spread(np.array([0.0, 2.0, 4.0]), draws) == pytest.approx(
        math.sqrt((0.25 * 4 + 0.25 * 4) / 1)
    )
    assert math.isnan(spread(np.full(3, np.nan), draws))


def random_table_of_samples(rng):
    number, rows = int(rng.integers(2, 80)), int(rng.integers(1, 5))
    weights = rng.dirichlet(np.ones(number)) if rng.random() < 0.5 else None
    samples = rng.normal(size=(rows, number)) * rng.exponential(size=(rows, 1))
    point = samples.mean(axis=1) + rng.normal(size=rows) * 0.1
    return point, samples, Draws(np.ones((number, 1)), weights, None)


def covered(intervals, samples, draws) -> float:
    """Probability of the draws that lie within all intervals at once."""
    low, high = (
        np.array([i.low for i in intervals]),
        np.array([i.high for i in intervals]),
    )
    inside = np.all(
        (samples >= low[:, None] - 1e-9) & (samples <= high[:, None] + 1e-9), axis=0
    )
    return draws.probability(inside)


def test_simultaneous_intervals_cover_all_rows_at_once_and_no_narrower_ones_do():
    rng = np.random.default_rng(2)
    for _ in range(300):
        point, samples, draws = random_table_of_samples(rng)
        intervals = intervals_at_once(point, samples, draws, units=math.inf)
        assert covered(intervals, samples, draws) >= 0.95 - 1e-9
        narrower = [
            Interval(p + (i.low - p) * (1 - 1e-6), p + (i.high - p) * (1 - 1e-6))
            for p, i in zip(point, intervals, strict=True)
        ]
        low, high = (
            np.array([i.low for i in narrower]),
            np.array([i.high for i in narrower]),
        )
        assert (
            draws.probability(
                np.all((samples >= low[:, None]) & (samples <= high[:, None]), axis=0)
            )
            < 0.95
        )
        # A row more can only widen those that were there.
        for fewer, more in zip(
            intervals_at_once(point[:-1], samples[:-1], draws, units=math.inf),
            intervals,
            strict=False,
        ):
            assert more.low <= fewer.low + 1e-12
            assert more.high >= fewer.high - 1e-12


@pytest.mark.parametrize("weights", [None, np.full(37, 1 / 37)])
def test_the_quantile_of_simultaneous_intervals_is_not_interpolated(weights):
    samples = np.random.default_rng(3).normal(size=(2, 37))
    spread = samples.std(axis=1)
    distance = np.max(np.abs(samples) / spread[:, None], axis=0)
    wide = intervals_at_once(
        np.zeros(2), samples, Draws(np.ones((37, 4)), weights, 0), units=math.inf
    )
    least = np.quantile(distance, 0.95, method="inverted_cdf")
    assert least > np.quantile(distance, 0.95)
    assert [item.high for item in wide] == pytest.approx(least * spread)


def test_simultaneous_intervals_contain_pointwise_ones_of_symmetric_samples():
    # Of skewed samples they need not: they reach equally far to both sides, percentiles
    # do not.
    rng = np.random.default_rng(3)
    for _ in range(50):
        half = rng.normal(size=(3, 500))
        samples, draws = np.hstack([half, -half]), Draws(np.ones((1000, 1)), None, None)
        for wide, row in zip(
            intervals_at_once(np.zeros(3), samples, draws, units=math.inf),
            samples,
            strict=True,
        ):
            narrow = interval_over(row, draws)
            assert wide.low <= narrow.low
            assert narrow.high <= wide.high


def test_simultaneous_intervals_are_wider_by_student_s_t_of_few_units():
    rng = np.random.default_rng(6)
    samples, draws = rng.normal(size=(3, 1000)), Draws(np.ones((1000, 1)), None, None)
    point = samples.mean(axis=1)
    plain = intervals_at_once(point, samples, draws, units=math.inf)
    critical = (plain[0].high - point[0]) / samples[0].std()
    last = math.inf
    for units in (2, 6, 24, 1000):
        wide = intervals_at_once(point, samples, draws, units=units)
        scale = (wide[0].high - point[0]) / (plain[0].high - point[0])
        student = scipy.stats.t.isf(NormalDist().cdf(-critical), units - 1)
        assert scale == pytest.approx(
            student * math.sqrt(units / (units - 1)) / critical
        )
        assert 1 < scale < last
        last = scale
    assert last == pytest.approx(1, abs=0.01)


def test_a_row_that_never_varies_keeps_a_point_and_disturbs_no_other():
    rng = np.random.default_rng(4)
    samples = rng.normal(size=(1, 200))
    draws = Draws(np.ones((200, 1)), None, None)
    alone = intervals_at_once(np.zeros(1), samples, draws, units=6)[0]
    # Rounding makes a few samples of a row without variation differ in the last digit.
    noise = np.where(np.arange(200) < 14, 1e-17, 0.0)
    with_noise = intervals_at_once(
        np.zeros(2), np.vstack([samples, noise]), draws, units=6
    )
    assert with_noise == [alone, Interval(0.0, 0.0)]
    undefined = np.full((1, 200), np.nan)
    assert intervals_at_once(np.zeros(1), undefined, draws, units=6) == [None]


def test_a_draw_that_says_nothing_of_a_row_does_not_narrow_its_interval():
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(2, 100))
    blank = np.hstack([samples, np.full((2, 100), np.nan)])
    known, half = (
        Draws(np.ones((100, 1)), None, None),
        Draws(np.ones((200, 1)), None, None),
    )
    assert intervals_at_once(np.zeros(2), blank, half, units=6) == intervals_at_once(
        np.zeros(2), samples, known, units=6
    )


def test_units_to_resolve():
    z, power = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)
    # 6 units with a spread of 0.05: a difference of 0.05 needs 6*(1.96 + 0.84)^2 = 47.1
    # units.
    assert units_to_resolve(0.05, 6, 0.05) == math.ceil(6 * (z + power) ** 2) == 48
    assert units_to_resolve(0.05, 6, -0.05, power=0.5) == math.ceil(6 * z**2) == 24
    # With a spread falling as the square root of the units, the answer is where z +
    # z(power) spreads fit.
    needed = units_to_resolve(0.05, 6, 0.03)
    assert (
        (z + power) * 0.05 * math.sqrt(6 / needed)
        <= 0.03
        < (z + power) * 0.05 * math.sqrt(6 / (needed - 1))
    )
    assert units_to_resolve(0.0, 6, 0.1) == 2
    for difference, chance in ((0.0, 0.8), (0.1, 1.0)):
        with pytest.raises(InputError, match="difference other than 0"):
            units_to_resolve(0.05, 6, difference, power=chance)


def test_concentration():
    even = concentration(np.full(4, 2.0), ["a", "b", "c", "d"])
    assert (even.top_unit, even.top_share, even.effective_units, even.gini) == (
        "a",
        1 / 4,
        4,
        0,
    )
    alone = concentration(
        np.array([0.0, 0.0, 5.0, 0.0]), np.array(["a", "b", "c", "d"])
    )
    assert (alone.top_unit, alone.top_share, alone.effective_units) == ("c", 1, 1)
    assert alone.gini == pytest.approx(3 / 4)
    parts = np.array([1.0, 3.0, 4.0])
    gini = sum(abs(a - b) for a in parts for b in parts) / (
        2 * len(parts) ** 2 * parts.mean()
    )
    mixed = concentration(parts, ["a", "b", "c"])
    assert mixed.gini == pytest.approx(gini)
    assert mixed.effective_units == pytest.approx(8**2 / (1 + 9 + 16))
    assert (mixed.half, mixed.half_share) == (1, 0.5)
    spread_out = concentration(np.array([0.0, 2.0, 3.0, 0.0, 2.0, 2.0]), list("abcdef"))
    assert (spread_out.half, spread_out.half_share) == (2, pytest.approx(5 / 9))
    with_zeros = np.array([0.0, 2.0, 3.0, 0.0, 2.0, 2.0])
    gini = sum(abs(a - b) for a in with_zeros for b in with_zeros) / (
        2 * 6**2 * with_zeros.mean()
    )
    assert spread_out.gini == pytest.approx(gini)
    nothing = concentration(np.zeros(2), ["a", "b"])
    assert nothing.top_unit is None
    assert math.isnan(nothing.gini)
    assert nothing.half == 0


def test_child_seeds_differ_and_repeat():
    seeds = child_seeds(0, 4)
    assert len(set(seeds)) == 4
    assert child_seeds(0, 4) == seeds
    # a dataset more does not change those before it
    assert child_seeds(0, 2) == seeds[:2]
    assert child_seeds(1, 4) != seeds
    assert not np.array_equal(
        make_draws(6, 50, seeds[0]).counts, make_draws(6, 50, seeds[1]).counts
    )


def test_resamples_are_the_sample_the_draws_and_what_is_left_without_each_unit():
    draws = make_draws(3, 4)
    counts = resample_counts(draws, 3)
    assert counts[0].tolist() == [1, 1, 1]
    assert counts[1:5].tolist() == draws.counts.tolist()
    assert counts[5:].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(("units", "leave_out"), [(1, True), (101, True), (3, False)])
def test_no_unit_is_left_out_of_one_or_of_more_than_a_hundred(units, leave_out):
    counts = resample_counts(make_draws(units, 4), units, leave_out=leave_out)
    assert len(counts) == 1 + 4
