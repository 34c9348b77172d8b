"""Selection against every tie-break written out, and `top_sums` against its slow twin
with and without the sieve.
"""

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from deepval.judge import kernel as selection
from deepval.judge import tie_expectations
from deepval.judge.kernel import top_sums
from deepval.judge.tables.values import capacity, quota
from deepval.judge.tie_expectations import cumulative_gain, inclusion, nth_highest
from reference import evaluation as slow
from worlds import random_losses, random_scores, read_only


def over_all_tie_breaks(scores, slots) -> list[Fraction]:
    """Chance of each input to be selected: the mean over every order of the inputs,
    sorted stably by score.
    """
    chosen = [0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        for i in sorted(order, key=lambda i: -scores[i])[:slots]:
            chosen[i] += 1
    return [Fraction(times, len(orders)) for times in chosen]


def one_sample(scores, quantities, slots) -> np.ndarray:
    """`top_sums` of the sample itself, one row per number of slots."""
    inputs = len(scores)
    return top_sums(
        scores,
        quantities,
        np.zeros(inputs, dtype=np.int64),
        counts=np.ones((1, 1)),
        slots=np.array([slots], dtype=np.int64),
    )[0]


def test_quota_and_capacity():
    assert [int(quota(n, 0.2)) for n in (3376, 2655)] == [675, 531]
    # 2.5 + 0.5, 1.5 and 0.5 rounded down
    assert quota(np.array([5.0, 2.0, 0.0]), 0.5).tolist() == [3, 1, 0]
    assert 100 * 0.29 < 29  # in float64, which must not cost an input
    assert int(capacity(100, 0.29)) == 29
    assert int(capacity(10, 0.39)) == 3
    assert int(capacity(10, -0.5)) == 0
    assert quota(7, 0.2).shape == capacity(7, 0.2).shape == ()


def test_inclusion_by_hand():
    # Two above the cut; one slot left for the three tied at 1.
    assert inclusion(np.array([1.0, 5.0, 1.0, 3.0, 1.0, 0.0]), 3).tolist() == [
        1 / 3,
        1,
        1 / 3,
        1,
        1 / 3,
        0,
    ]
    assert inclusion(np.array([0.0, -0.0, -1.0]), 1).tolist() == [0.5, 0.5, 0]
    assert inclusion(np.array([np.inf, -np.inf, np.inf, 0.0]), 1).tolist() == [
        0.5,
        0,
        0.5,
        0,
    ]
    assert inclusion(np.array([1.0, 2.0]), 5).tolist() == [1, 1]
    assert inclusion(np.zeros(0), 1).tolist() == []


def test_every_tie_break_on_tiny_tables():
    rng = np.random.default_rng(1)
    for _ in range(40):
        inputs = int(rng.integers(1, 7))
        score = read_only(rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], inputs))
        loss = random_losses(rng, inputs)
        value = read_only(loss[:, 0] - loss[:, 1])
        positive = read_only(np.maximum(value, 0.0))
        slots = list(range(inputs + 2))
        sums = one_sample(score, np.stack([value, positive, np.ones(inputs)]), slots)
        curve = cumulative_gain(score, value)
        for k in slots:
            chance = over_all_tie_breaks(score.tolist(), k)
            assert inclusion(score, k) == pytest.approx(
                [float(c) for c in chance], rel=1e-12
            )
            gain = float(
                sum(
                    c * Fraction(v) for c, v in zip(chance, value.tolist(), strict=True)
                )
            )
            benefit = float(
                sum(
                    c * Fraction(v)
                    for c, v in zip(chance, positive.tolist(), strict=True)
                )
            )
            assert sums[k] == pytest.approx(
                [gain, benefit, min(k, inputs)], rel=1e-9, abs=1e-14
            )
            # harm
            assert sums[k, 1] - sums[k, 0] == pytest.approx(
                benefit - gain, rel=1e-9, abs=1e-14
            )
            assert curve[min(k, inputs)] == pytest.approx(gain, rel=1e-9, abs=1e-14)


def test_twenty_thousand_random_orders_agree():
    rng = np.random.default_rng(8)
    score, value = rng.integers(0, 4, 60).astype(float), rng.normal(size=60)
    order = np.argsort(rng.random((20_000, 60)), axis=1)
    ranked = np.take_along_axis(
        order, np.argsort(-score[order], axis=1, kind="stable"), axis=1
    )[:, :12]
    gains = value[ranked].sum(axis=1)
    assert abs(
        gains.mean() - cumulative_gain(score, value)[12]
    ) < 4 * gains.std() / math.sqrt(20_000)


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(4)
    score, value = rng.integers(0, 6, 200).astype(float), rng.normal(size=200)
    shuffled = rng.permutation(200)
    assert inclusion(score, 37)[shuffled] == pytest.approx(
        inclusion(score[shuffled], 37)
    )
    assert cumulative_gain(score, value) == pytest.approx(
        cumulative_gain(score[shuffled], value[shuffled])
    )


def random_draws(rng: np.random.Generator):
    """Arguments of `top_sums`: units without inputs, draws without units, more slots
    than inputs.
    """
    inputs, units, draws = (
        int(rng.integers(0, 20)),
        int(rng.integers(1, 5)),
        int(rng.integers(1, 4)),
    )
    score = random_scores(rng, inputs)
    loss = random_losses(rng, inputs)
    quantities = read_only(np.stack([loss[:, 0] - loss[:, 1], np.ones(inputs)]))
    unit = rng.integers(0, units, inputs)
    counts = rng.integers(0, 4, (draws, units)) * rng.integers(0, 2, (draws, 1)) * 1.0
    size = counts @ np.bincount(unit, minlength=units)
    slots = rng.integers(0, size[:, None] + 3, (draws, int(rng.integers(1, 4))))
    return score, quantities, unit, counts, slots


def assert_equals_the_twin(score, quantities, unit, counts, slots) -> None:
    sums = top_sums(score, quantities, unit, counts=counts, slots=slots)
    assert sums.shape == (*slots.shape, len(quantities))
    for d, b in np.ndindex(*slots.shape):
        rows = [i for i in range(len(score)) for _ in range(int(counts[d, unit[i]]))]
        drawn = [float(score[i]) for i in rows]
        for q, quantity in enumerate(quantities):
            expected = slow.expected_top(
                drawn, [float(quantity[i]) for i in rows], int(slots[d, b])
            )
            noise = 1e-13 * float(np.abs(quantity).sum())
            assert math.isclose(sums[d, b, q], expected, rel_tol=1e-9, abs_tol=noise)


def test_top_sums_by_sorting_equal_the_twin():
    rng = np.random.default_rng(2)
    for _ in range(2_000):
        assert_equals_the_twin(*random_draws(rng))


@pytest.mark.parametrize(("edges", "sample"), [(1, 1000), (2, 4), (4, 1000), (120, 3)])
def test_top_sums_through_the_sieve_equal_the_twin(monkeypatch, edges, sample):
    # Few edges leave blocks of several values, whose rows must be sorted; a thin sample
    # looks in the wrong place.
    monkeypatch.setattr(selection, "SORT_UP_TO", 0)
    monkeypatch.setattr(selection, "EDGES", edges)
    monkeypatch.setattr(selection, "SAMPLE", sample)
    rng = np.random.default_rng([3, edges])
    for _ in range(500):
        assert_equals_the_twin(*random_draws(rng))


def test_top_sums_walk_in_parts_equal_the_twin(monkeypatch):
    monkeypatch.setattr(selection, "WALK_ELEMENTS", 10)
    monkeypatch.setattr(selection, "ONE_THREAD", 100)
    rng = np.random.default_rng(6)
    for _ in range(200):
        assert_equals_the_twin(*random_draws(rng))


def test_the_cut_among_many_scores(monkeypatch):
    rng = np.random.default_rng(7)
    cases = [random_scores(rng, int(rng.integers(1, 60))) for _ in range(300)]
    expected = [
        [inclusion(score, k).tolist() for k in range(len(score) + 1)] for score in cases
    ]
    monkeypatch.setattr(tie_expectations, "SORT_UP_TO", 0)
    monkeypatch.setattr(tie_expectations, "PIECE", 7)
    for sample in (3, 10, 1000):
        monkeypatch.setattr(tie_expectations, "SAMPLE", sample)
        for score, chances in zip(
            cases[sample % 3 :: 3], expected[sample % 3 :: 3], strict=True
        ):
            together = tie_expectations.cuts(score, range(1, len(score) + 1))
            assert [(cut.above, cut.tied) for cut in together] == [
                (int((score > cut.score).sum()), int((score == cut.score).sum()))
                for cut in together
            ]
            for k in range(1, len(score) + 1):
                assert (
                    nth_highest(score, k) == sorted(score.tolist(), reverse=True)[k - 1]
                )
            assert [
                inclusion(score, k).tolist() for k in range(len(score) + 1)
            ] == chances


@pytest.mark.parametrize("kind", ["continuous", "discrete", "mostly tied", "infinite"])
def test_the_sieve_equals_sorting_on_many_inputs(monkeypatch, kind):
    rng = np.random.default_rng(9)
    inputs, units = 60_000, 30
    score = {
        "continuous": rng.normal(size=inputs),
        "discrete": rng.integers(0, 40, inputs).astype(float),
        "mostly tied": np.where(
            rng.random(inputs) < 0.7, -0.0, rng.normal(size=inputs)
        ),
        "infinite": rng.choice([-np.inf, -1e308, 0.0, 5e-324, 1e308, np.inf], inputs),
    }[kind]
    value = rng.normal(size=inputs)
    unit = rng.integers(0, units, inputs)
    counts = np.vstack(
        [np.ones(units), rng.multinomial(units, np.ones(units) / units, 40)]
    ).astype(float)
    size = counts @ np.bincount(unit, minlength=units)
    slots = np.column_stack([quota(size, a) for a in (0.1, 0.2, 0.5, 1.0)])
    asked = {"counts": counts, "slots": slots}
    quantities = np.stack([value, np.maximum(value, 0.0)])
    by_sorting = top_sums(score, quantities, unit, **asked)
    monkeypatch.setattr(selection, "SORT_UP_TO", 1_000)
    assert top_sums(score, quantities, unit, **asked) == pytest.approx(
        by_sorting, rel=1e-9, abs=1e-9
    )
    direct = inclusion(score, int(slots[0, 1])) @ value
    assert by_sorting[0, 1, 0] == pytest.approx(direct, rel=1e-9)


def test_more_inputs_than_are_sorted_at_once():
    rng = np.random.default_rng(10)
    inputs = selection.SORT_UP_TO + 1
    score, value = rng.normal(size=inputs), rng.normal(size=inputs)
    slots = [int(quota(inputs, a)) for a in (0.1, 0.2, 0.5)]
    curve = cumulative_gain(score, value)
    assert one_sample(score, value[None], slots)[:, 0] == pytest.approx(
        curve[slots], rel=1e-9
    )


def test_inputs_survive():
    score, value = read_only([1.0, -0.0, 0.0, 2.0]), read_only([[1.0, -1.0, 2.0, 0.5]])
    before = score.copy(), value.copy()
    one_sample(score, value, [0, 2, 9])
    assert np.array_equal(score, before[0])
    assert np.array_equal(np.signbit(score), np.signbit(before[0]))
    assert np.array_equal(value, before[1])


def test_many_units_take_less_memory_than_their_draws(monkeypatch):
    rng, units = np.random.default_rng(0), 20_000
    counts = rng.multinomial(units, np.full(units, 1 / units), 300).astype(np.float64)
    score, value, unit = (
        rng.normal(size=units),
        rng.normal(size=(1, units)),
        rng.permutation(units),
    )
    slots = np.full((300, 2), [units // 10, units // 2])
    expected = top_sums(score, value, unit, counts=counts, slots=slots)
    monkeypatch.setattr(selection, "COPIED_ELEMENTS", 1 << 20)
    tracemalloc.start()
    sums = top_sums(score, value, unit, counts=counts, slots=slots)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(sums, expected)
    assert peak < counts.nbytes
