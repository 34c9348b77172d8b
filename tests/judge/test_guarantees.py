"""What holds for the next unit: by counting, by formulas written out, and by laws over
random differences of units.
"""

import math
from dataclasses import replace
from itertools import permutations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from scipy import stats

import deepval
from deepval.judge.extras.opposing_units import opposing_unit
from deepval.judge.extras.units import jackknife
from deepval.judge.results import Result
from worlds import quietly, table_of


def test_the_next_unit_by_counting():
    """Of all orders of 5 different units, the last is the worst in 1/5, and inside the
    range of the others in 3/5.
    """
    orders = list(permutations(range(5)))
    assert sum(last < min(seen) for *seen, last in orders) / len(orders) == 1 / (4 + 1)
    inside = sum(min(seen) < last < max(seen) for *seen, last in orders) / len(orders)
    assert pytest.approx(inside) == 1 - 2 / (4 + 1)


def test_the_unit_that_cancels_the_sum():
    assert opposing_unit(np.array([3.0, -1.0, 2.0])).cancels == (3 - 1 + 2) / 3
    assert opposing_unit(np.array([-4.0, 1.0, 0.0])).cancels == (4 - 1) / 4
    assert opposing_unit(np.zeros(3)) is None


def test_the_unit_that_ends_a_verdict_by_hand():
    # 24 equal units of 1 and one of -x: n = 25, sum 24 - x, deviations from the mean
    # (24 - x) / 25 are (1 + x) / 25, 24 times, and -24 (1 + x) / 25.
    (ends, cancels) = opposing_unit(-np.ones(24))
    one = (1 + ends) / 25
    squares = 24 * one**2 + (24 * one) ** 2
    cubes = 24 * one**3 - (24 * one) ** 3
    lower = 24 - ends - 1.96 * math.sqrt(squares) + (1.96**2 - 1) / 6 * cubes / squares
    assert lower == pytest.approx(0, abs=1e-9)
    assert cancels == 24


@pytest.mark.parametrize("units", [15, 24, 60])
def test_the_formula_agrees_with_draws(units):
    rng = np.random.default_rng(units)
    differences = rng.exponential(1, units) + rng.normal(0.5, 0.5, units)
    ends, _ = opposing_unit(differences)
    largest = np.abs(differences).max()
    counts = rng.multinomial(units + 1, np.full(units + 1, 1 / (units + 1)), 4000)
    sums = counts @ np.append(differences, -ends * largest)
    # At the size that ends the verdict, 2.5 % of the sums are below 0.
    assert (sums < 0).mean() == pytest.approx(0.025, abs=0.009)


def test_an_undecided_sum_needs_no_further_unit():
    assert opposing_unit(np.array([3.0, -2.0, 0.5])).ends == 0
    assert opposing_unit(np.tile([1.0, -0.9], 20)).ends == 0


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12))
def test_a_verdict_ends_before_the_sum(differences):
    difference = np.array(differences)
    largest = np.abs(difference).max()
    assume(largest > 1e-9)
    ends, cancels = opposing_unit(difference)
    assert 0 <= ends <= cancels + 1e-9
    assert cancels <= len(difference) + 1e-9
    unseen = -np.sign(difference.sum()) * cancels * largest
    rounding = 1e-9 * np.abs(difference).sum()
    assert difference.sum() + unseen == pytest.approx(0, abs=rounding)


def test_the_second_opinion_without_draws_is_its_formula():
    left_out, units = np.array([0.1, 0.3, 0.2, 0.4]), 4
    interval = jackknife(0.25, left_out, effective_units=2.5)
    error = math.sqrt((units - 1) / units * sum((one - 0.25) ** 2 for one in left_out))
    half = stats.t.ppf(0.975, 1.5) * error
    assert (interval.low, interval.high) == pytest.approx((0.25 - half, 0.25 + half))


def test_equal_units_have_the_textbook_error():
    """Of a mean, the jackknife is the standard error."""
    share = np.random.default_rng(0).normal(size=9)
    left_out = (share.sum() - share) / 8
    interval = jackknife(share.mean(), left_out, effective_units=9.0)
    assert interval.high - interval.low == pytest.approx(
        2 * stats.t.ppf(0.975, 8) * stats.sem(share)
    )


@pytest.mark.parametrize("left_out", [[], [0.1], [0.1, math.nan, 0.2]])
def test_no_second_opinion_without_enough_units(left_out):
    assert jackknife(0.1, np.array(left_out), effective_units=2.0) is None


def row_of(result, name="light"):
    return next(row for row in result.rows if row.allocator == name)


def world(seed, units=6):
    """A table with one listed unit that has no inputs, and a score with skill."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0.3, 1, 8 * units), 2)
    unit = np.repeat([f"u{index}" for index in range(units)], 8)
    table = table_of(values, unit=unit, cheap=np.maximum(values, 0) + 2.0)
    return table.with_units([*table.unit_ids, "without inputs"]), {
        "light": values + rng.normal(size=len(values))
    }


def without(table, scores, unit):
    """The table and its scores without the inputs of a unit."""
    rest = table.unit != unit
    return table.keep(rest), {"light": scores["light"][rest]}


def by_hand(table, score, slots):
    """Differences of units, without ties: what the highest scores gain in a unit minus
    slots / N of all its values.
    """
    selected = np.argsort(-score, kind="stable")[:slots]
    units = range(len(table.unit_ids) - 1)
    values, unit = table.decision_values, table.unit
    gains = [sum(values[i] for i in selected if unit[i] == u) for u in units]
    return np.array(
        [gains[u] - slots / len(values) * values[unit == u].sum() for u in units]
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_row_has_its_worst_and_best_unit(seed, tmp_path):
    table, scores = world(seed)
    result = deepval.evaluate(table, scores, 0.25, draws=50)
    row = row_of(result)
    difference = by_hand(table, scores["light"], slots=12)
    assert difference.sum() == pytest.approx(row.versus_random_loss)
    assert (row.next_unit_lo, row.next_unit_hi) == pytest.approx(
        (difference.min(), difference.max())
    )
    assert (row.units, row.units_compared) == (7, 6)
    assert (row.break_even_unit, row.cancelling_unit) == pytest.approx(
        opposing_unit(difference)
    )
    result.save(tmp_path / "result.json")
    assert row_of(Result.load(tmp_path / "result.json")) == row


def test_without_draws_there_is_a_second_opinion_and_the_next_unit():
    table, scores = world(1)
    row = row_of(deepval.evaluate(table, scores, 0.25, draws=0))
    gain = np.bincount(table.unit, weights=table.benefits)
    others = [
        row_of(quietly(deepval.evaluate, *without(table, scores, u), 0.25, draws=0))
        for u in range(6)
    ]
    left_out = np.array([other.versus_random for other in others])
    effective = gain.sum() ** 2 / (gain @ gain)
    interval = jackknife(row.versus_random, left_out, effective)
    assert (row.versus_random_second_lo, row.versus_random_second_hi) == pytest.approx(
        (interval.low, interval.high)
    )
    assert row.second_verdict == interval.verdict
    assert (row.verdict, row.units_compared) == (None, 6)
    # The next unit needs no draw.
    drawn = row_of(deepval.evaluate(table, scores, 0.25, draws=20))
    assert row.next_unit == drawn.next_unit
    assert row.break_even_unit == drawn.break_even_unit


def test_estimated_losses_promise_nothing_about_the_next_unit():
    table, scores = world(1)
    estimated = replace(table, estimated="Estimates.")
    row = row_of(quietly(deepval.evaluate, estimated, scores, 0.25, draws=20))
    assert row.verdict is not None
    assert (row.next_unit, row.units_compared) == (None, 0)


def test_a_table_on_disk_says_the_same_of_the_next_unit(tmp_path):
    table, scores = world(2)
    columns = {"input": np.arange(48), "unit": table.unit_ids[table.unit]}
    pq.write_table(
        pa.table(
            columns
            | {"loss_cheap": table.losses[:, 0], "loss_full": table.losses[:, 1]}
        ),
        tmp_path / "v.parquet",
    )
    pq.write_table(
        pa.table({"input": np.arange(48), "score": scores["light"]}),
        tmp_path / "s.parquet",
    )
    files = tmp_path / "v.parquet", {"light": tmp_path / "s.parquet"}
    for draws in (0, 20):
        one, other = (
            row_of(deepval.evaluate(*files, 0.25, draws=draws, memory=memory))
            for memory in (0, None)
        )
        for name in (
            "next_unit_lo",
            "next_unit_hi",
            "break_even_unit",
            "cancelling_unit",
        ):
            assert one[name] == pytest.approx(other[name])
        assert one.versus_random_second == pytest.approx(other.versus_random_second)
        assert one.second_verdict == other.second_verdict
