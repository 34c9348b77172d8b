"""The oracle against every subset, the checker of optimal rankings against every
budget, regret against every swap.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.draws import make_draws
from deepval.judge.extras.optimality import (
    oracle_curve,
    oracle_gain,
    ranking_violation,
    regret,
)
from deepval.judge.policies import Oracle
from reference import evaluation as slow
from worlds import random_losses, random_scores, read_only, table_of


def best_subset(values, slots) -> Fraction:
    return max(
        sum((Fraction(values[i]) for i in chosen), Fraction(0))
        for size in range(min(slots, len(values)) + 1)
        for chosen in itertools.combinations(range(len(values)), size)
    )


def shortfalls(score, values) -> list[Fraction]:
    """OPT(k) - expected gain for every k <= #{V >= 0}."""
    reachable = sum(v >= 0 for v in values)
    return [
        slow.best_gain(values, k) - slow.expected_top(score, values, k)
        for k in range(reachable + 1)
    ]


def test_oracle_is_the_best_of_all_subsets():
    rng = np.random.default_rng(1)
    for _ in range(150):
        loss = random_losses(rng, int(rng.integers(0, 8)))
        values = read_only(loss[:, 0] - loss[:, 1])
        best = [float(best_subset(values.tolist(), k)) for k in range(len(values) + 1)]
        assert oracle_curve(values) == pytest.approx(best, rel=1e-12)
        for k in range(len(values) + 2):
            assert oracle_gain(values, k) == pytest.approx(
                best[min(k, len(values))], rel=1e-12
            )


def test_every_form_of_the_oracle_is_one_number():
    rng = np.random.default_rng(7)
    for _ in range(60):
        size = int(rng.integers(1, 12))
        loss = random_losses(rng, size)
        table = table_of(
            loss[:, 0] - loss[:, 1],
            unit=rng.choice(list("abc"), size),
            cheap=loss[:, 0],
        )
        values = table.decision_values
        oracle = Oracle.of(table)
        draws = make_draws(len(table.unit_ids), 0)
        bootstrap = Bootstrap.of(table, draws, leave_out=False)
        for k in range(size + 1):
            best = oracle_gain(values, k)
            slots = np.array([[k]])
            gain, benefit, taken = oracle.sums_of_slots(bootstrap, slots)[0, 0]
            assert [gain, benefit, oracle_curve(values)[k]] == pytest.approx(
                [best] * 3, rel=1e-12, abs=1e-12
            )
            assert taken == min(k, np.count_nonzero(values > 0))
            by_unit = oracle.helpful.gain_by_unit(int(taken))
            assert by_unit.sum() == pytest.approx(best, rel=1e-12, abs=1e-12)
        summary = table.summary(1.0)
        if table.cheap_loss > 0:
            assert summary.oracle_share == pytest.approx(
                oracle_gain(values, size) / table.cheap_loss, rel=1e-12
            )


def selectable(score: np.ndarray, k: int) -> set[int]:
    """Inputs that some way to break ties selects: fewer than k others have a higher
    score.
    """
    return {i for i, own in enumerate(score) if np.count_nonzero(score > own) < k}


def omissible(score: np.ndarray, k: int) -> set[int]:
    """Inputs that some way to break ties leaves out: at least k others have as high a
    score.
    """
    return {i for i, own in enumerate(score) if np.count_nonzero(score >= own) > k}


def assert_violation_is_right(score: np.ndarray, values: np.ndarray) -> bool:
    """Both directions of Proposition 1 by going through every budget; whether there is
    a violation.
    """
    lack = shortfalls(score.tolist(), values.tolist())
    found = ranking_violation(score, values)
    if found is None:
        assert not any(lack)
        return False
    assert any(lack)
    assert score[found.above] >= score[found.below]
    assert found.above in selectable(score, found.slots)
    assert found.below in omissible(score, found.slots)
    assert values[found.below] > values[found.above]
    assert values[found.below] >= 0
    assert found.slots == next(k for k, short in enumerate(lack) if short > 0)
    assert found.shortfall == pytest.approx(float(lack[found.slots]), rel=1e-9)
    return True


def test_optimal_rankings_of_three_inputs_exhaustively():
    violated = [
        assert_violation_is_right(np.array(score), np.array(values))
        for values in itertools.product([-1.0, 0.0, 1.0, 2.0], repeat=3)
        for score in itertools.product([0.0, 1.0, 2.0], repeat=3)
    ]
    assert 0.1 < np.mean(violated) < 0.9


def test_optimal_rankings_of_more_inputs():
    rng = np.random.default_rng(2)
    violated = []
    for _ in range(1_000):
        values = read_only(rng.integers(-2, 4, int(rng.integers(0, 8))) / 4)
        score = random_scores(rng, len(values))
        if rng.random() < 0.6:  # the optimal order, or one pair away from it
            score = np.where(values < 0, -1 - rng.random(len(values)), values)
            if len(values) > 1 and rng.random() < 0.5:
                i, j = rng.choice(len(values), 2, replace=False)
                score[i] = score[j]
        violated.append(assert_violation_is_right(read_only(score), values))
    assert 0.1 < np.mean(violated) < 0.9


def test_witness_by_hand():
    # The harmful input 2 stands before the zero of input 1: at k = 2 the gain is 3 - 1
    # instead of 3.
    found = ranking_violation(np.array([9.0, 1.0, 5.0]), np.array([3.0, 0.0, -1.0]))
    assert (found.above, found.below, found.slots, found.shortfall) == (2, 1, 2, 1.0)
    assert (
        ranking_violation(np.array([9.0, 5.0, 1.0]), np.array([3.0, 0.0, -1.0])) is None
    )
    # Among harmful inputs no order is needed: K = 1 input is ever to be taken.
    assert (
        ranking_violation(np.array([9.0, 1.0, 5.0]), np.array([3.0, -1.0, -9.0]))
        is None
    )


def test_regret_without_ties_counts_the_fewest_swaps():
    rng = np.random.default_rng(3)
    for _ in range(200):
        values = read_only(rng.integers(-2, 4, int(rng.integers(1, 7))) / 4)
        score = read_only(rng.permutation(len(values)).astype(float))
        for k in range(sum(values >= 0) + 1):
            chosen = set(np.argsort(-score)[:k].tolist())
            best = sum(sorted(values.tolist(), reverse=True)[:k])
            # Of all optimal sets of k inputs, the one that shares most with what the
            # score selects.
            ideal = max(
                (
                    set(c)
                    for c in itertools.combinations(range(len(values)), k)
                    if sum(values[list(c)]) == best
                ),
                key=lambda c: len(c & chosen),
            )
            missed, wrong = ideal - chosen, chosen - ideal
            found = regret(score, values, k)
            assert found.regret == pytest.approx(
                best - sum(values[list(chosen)]), abs=1e-12
            )
            assert found.swapped == pytest.approx(len(missed), abs=1e-12)
            if missed:
                margin = min(values[i] for i in missed) - max(values[i] for i in wrong)
                assert found.margin == pytest.approx(margin)
                assert found.bound == pytest.approx(len(missed) * margin)
                assert found.bound <= found.regret + 1e-12
            else:
                assert math.isnan(found.margin)
                assert math.isnan(found.bound)


def test_regret_with_ties_is_the_expected_shortfall():
    rng = np.random.default_rng(4)
    for _ in range(500):
        values = read_only(rng.integers(-2, 4, int(rng.integers(1, 9))) / 4)
        score = random_scores(rng, len(values))
        lack = shortfalls(score.tolist(), values.tolist())
        for k, short in enumerate(lack):
            found = regret(score, values, k)
            assert found.regret == pytest.approx(float(short), rel=1e-9, abs=1e-12)
            assert 0 <= found.swapped <= k
            if found.swapped > 1e-9:
                assert found.margin > 0
                assert found.bound <= found.regret + 1e-12
            else:
                assert short == 0


def test_regret_needs_a_reachable_budget():
    with pytest.raises(InputError, match="= 1; found k = 2"):
        regret(np.array([2.0, 1.0]), np.array([1.0, -1.0]), 2)


SMALL = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-2, 3), st.booleans()).map(
        lambda row: (row[0] / 2, row[1] / 4, row[2])
    ),
    max_size=7,
)
"""Score, decision value, and whether the input is abstained on."""


def columns_of(rows):
    score, values, abstained = zip(*rows, strict=True) if rows else ((), (), ())
    return (
        np.array(score, dtype=float),
        np.array(values, dtype=float),
        np.array(abstained, dtype=bool),
    )


def abstaining_shortfalls(score, values, abstained) -> list[Fraction]:
    """OPT(k) - expected gain for every k = 0, ..., N; inputs abstained on are no
    candidates.
    """
    kept = [i for i in range(len(values)) if not abstained[i]]
    own_score, own_value = (
        [float(score[i]) for i in kept],
        [float(values[i]) for i in kept],
    )
    return [
        best_subset(values.tolist(), k)
        - slow.expected_top(own_score, own_value, min(k, len(kept)))
        for k in range(len(values) + 1)
    ]


@given(SMALL)
def test_abstention_against_every_budget(rows):
    score, values, abstained = columns_of(rows)
    lack = abstaining_shortfalls(score, values, abstained)
    found = ranking_violation(score, values, abstained)
    assert (found is None) == (not any(lack))
    if found is not None:
        assert found.slots == next(k for k, short in enumerate(lack) if short > 0)
        assert found.shortfall == pytest.approx(float(lack[found.slots]), rel=1e-9)
        taken = 0.0 if found.above is None else values[found.above]
        better = 0.0 if found.below is None else values[found.below]
        assert better > taken
        assert found.above is None or not abstained[found.above]
        assert found.above is not None or found.slots > np.count_nonzero(~abstained), (
            "there is an empty slot"
        )
    for k, short in enumerate(lack):
        outcome = regret(score, values, k, abstained)
        assert outcome.regret == pytest.approx(float(short), rel=1e-9, abs=1e-12)
        assert math.isnan(outcome.bound) or outcome.bound <= outcome.regret + 1e-12


@given(SMALL)
def test_the_decision_value_is_optimal_at_every_budget_iff_harm_is_abstained_on(rows):
    _, values, abstained = columns_of(rows)
    assert ranking_violation(values, values) is None
    assert ranking_violation(values, values, values < 0) is None
    # Zeros may be abstained on or not.
    assert ranking_violation(values, values, values <= 0) is None
    exact = not abstained[values > 0].any() and abstained[values < 0].all()
    is_optimal = ranking_violation(values, values, abstained) is None
    assert is_optimal == exact


@given(SMALL, st.sampled_from([0.5, 2.0, 8.0]))
def test_only_the_order_of_scores_counts(rows, factor):
    score, values, abstained = columns_of(rows)
    for never in (None, abstained):
        assert ranking_violation(score, values, never) == ranking_violation(
            factor * score - 3, values, never
        )


def test_abstention_by_hand():
    score, values = np.array([3.0, 2.0, 1.0]), np.array([2.0, -1.0, 1.0])
    # The harmful input takes the second slot; once it is abstained on, the third input
    # moves up.
    assert ranking_violation(score, values, np.zeros(3, dtype=bool)).slots == 2
    assert ranking_violation(score, values, values < 0) is None
    # Abstaining on the third input too leaves its benefit out from k = 2 on: an empty
    # slot stands in its place.
    found = ranking_violation(score, values, np.array([False, True, True]))
    assert (found.above, found.below, found.slots, found.shortfall) == (None, 2, 2, 1.0)
    # Without abstention k = 3 forces the harm: only an empty slot is better.
    found = ranking_violation(values, values, np.zeros(3, dtype=bool))
    assert (found.above, found.below, found.slots, found.shortfall) == (1, None, 3, 1.0)
