"""What holds for the next unit: by counting, by formulas written out, and by laws over random differences of units."""

import math
from itertools import permutations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from scipy import stats

from deepval.judging import guarantees

BOUND = 0.2
shares = st.floats(-BOUND, BOUND)
losses = st.floats(0.01, 100)


@st.composite
def samples(draw, least=2):
    """Differences of units within the bound, and their all-cheap losses."""
    pairs = draw(st.lists(st.tuples(shares, losses), min_size=least, max_size=12))
    loss = np.array([size for _, size in pairs])
    return np.array([share for share, _ in pairs]) * loss, loss


def test_the_next_unit_by_counting():
    """Of all orders of 5 different units, the last is the worst in 1/5, and inside the range of the others in 3/5."""
    orders = list(permutations(range(5)))
    assert guarantees.beyond(4) == sum(last < min(seen) for *seen, last in orders) / len(orders) == 1 / 5
    inside = sum(min(seen) < last < max(seen) for *seen, last in orders) / len(orders)
    assert 1 - 2 * guarantees.beyond(4) == pytest.approx(inside)


def test_units_that_95_percent_needs():
    assert guarantees.units_for() == 39  # 38 / 40
    assert guarantees.units_for(sides=1) == 19  # 19 / 20
    for sides in (1, 2):
        enough = guarantees.units_for(sides=sides)
        assert 1 - sides * guarantees.beyond(enough) >= 0.95 - 1e-12 > 1 - sides * guarantees.beyond(enough - 1)


def test_break_even_unit():
    assert guarantees.break_even_unit(np.array([3.0, -1.0, 2.0])) == (3 - 1 + 2) / 3
    assert guarantees.break_even_unit(np.array([-4.0, 1.0])) == (4 - 1) / 4
    assert math.isnan(guarantees.break_even_unit(np.zeros(3)))


@given(samples())
def test_the_break_even_unit_cancels_the_total(sample):
    difference, _ = sample
    assume(np.abs(difference).max() > 1e-9)
    multiple = guarantees.break_even_unit(difference)
    assert 0 <= multiple <= len(difference) + 1e-9
    unseen = -np.sign(difference.sum()) * multiple * np.abs(difference).max()
    assert difference.sum() + unseen == pytest.approx(0, abs=1e-9 * np.abs(difference).sum())


def test_the_second_opinion_without_draws_is_its_formula():
    difference, loss = np.array([1.0, 0.5, -0.25]), np.array([4.0, 2.0, 2.0])
    interval = guarantees.without_draws(difference, loss, effective=2.5)
    mean = 1.25 / 8
    parts = [(1 - 4 * mean) ** 2 / (1 - 4 / 8), (0.5 - 2 * mean) ** 2 / (1 - 2 / 8), (-0.25 - 2 * mean) ** 2 / (6 / 8)]
    half = stats.t.ppf(0.975, 1.5) * math.sqrt(sum(parts)) / 8
    assert (interval.low, interval.high) == pytest.approx((mean - half, mean + half))
    few = guarantees.without_draws(difference, loss, effective=math.nan)
    assert few.high - mean == pytest.approx(half * stats.t.ppf(0.975, 1) / stats.t.ppf(0.975, 1.5))


def test_equal_units_have_the_textbook_error():
    """With equal losses the correction is U / (U - 1): the standard error of a mean."""
    difference = np.random.default_rng(0).normal(size=9)
    interval = guarantees.without_draws(difference, np.full(9, 2.0), effective=9.0)
    half = stats.t.ppf(0.975, 8) * stats.sem(difference / 2)
    assert interval.high - interval.low == pytest.approx(2 * half)


@pytest.mark.parametrize("loss", [[1.0, 0.0, 0.0], [1.0, -0.5, 1.0], [0.0, 0.0, 0.0], []])
def test_no_interval_without_draws_if_losses_do_not_allow_it(loss):
    difference = np.arange(1.0, len(loss) + 1)
    assert guarantees.without_draws(difference, np.array(loss), effective=2.0).bounds is None


def capital(difference, loss, mean, bound):
    """The mean over bets of the product of 1 + bet x stake, written as loops."""
    total = 0.0
    for twentieths in range(1, 21):
        own = 1.0
        for gain, size in zip(difference, loss, strict=True):
            own *= 1 + twentieths / 20 * (gain - mean * size) / ((bound + mean) * max(loss))
        total += own / 20
    return total


@given(samples())
def test_the_bounds_are_where_the_capital_reaches_40(sample):
    difference, loss = sample
    interval = guarantees.betting(difference, loss, BOUND)
    for low, sign in ((interval.low, 1), (-interval.high, -1)):
        if low > -BOUND + 1e-6:
            assert capital(sign * difference, loss, low - 1e-7, BOUND) >= 40 * (1 - 1e-4)
        if low > -BOUND:
            assert capital(sign * difference, loss, low + 1e-7, BOUND) <= 40 * (1 + 1e-4)


@given(samples())
def test_the_interval_of_bets_contains_the_point_within_the_bound(sample):
    difference, loss = sample
    interval = guarantees.betting(difference, loss, BOUND)
    assert -BOUND <= interval.low <= difference.sum() / loss.sum() + 1e-9
    assert difference.sum() / loss.sum() - 1e-9 <= interval.high <= BOUND


@given(samples(), st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_neither_order_nor_scale_nor_sign_matters(sample, scale, random):
    difference, loss = sample
    order = list(range(len(loss)))
    random.shuffle(order)
    one = guarantees.betting(difference, loss, BOUND)
    other = guarantees.betting(-scale * difference[order], scale * loss[order], BOUND)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


def test_bets_on_two_values_keep_their_promise():
    """Units that reach either end of the bound: the most that bets can lose. Exact, by the binomial distribution."""
    units, gaining = 12, 0.4
    truth = BOUND * (2 * gaining - 1)
    outside = 0.0
    for number in range(units + 1):
        difference = BOUND * np.where(np.arange(units) < number, 1.0, -1.0)
        interval = guarantees.betting(difference, np.ones(units), BOUND)
        outside += stats.binom.pmf(number, units, gaining) * (not interval.low <= truth <= interval.high)
    assert 0 < outside <= 0.05
