import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from deepval.basics.errors import InputError
from deepval.judge import concordance
from deepval.judge.concordance import PairCounts, Reversal, Share
from deepval.judge.tie_expectations import TieAudit, tie_audit
from reference import agreement as slow

CASES = 2_000


def read_only(values) -> np.ndarray:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def tied_pairs_of_values(seed: int, largest: int):
    """Random pairs: few values, mostly zeros, many values, or related; in steps of 1/4,
    so sums are exact.
    """
    rng = np.random.default_rng(seed)
    for case in range(CASES):
        n = int(rng.integers(0, largest + 1))
        kind = case % 4
        if kind == 0:
            a, b = rng.integers(-2, 3, (2, n)) / 4
        elif kind == 1:
            a, b = np.where(
                rng.random((2, n)) < 0.6, 0.0, rng.integers(-6, 7, (2, n)) / 4
            )
        elif kind == 2:
            a, b = rng.integers(-400, 401, (2, n)) / 4
        else:
            a = rng.integers(0, 3, n) / 4
            b = a + rng.integers(0, 2, n) / 4
        yield read_only(a), read_only(b), rng


def assert_same(found, expected) -> None:
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def test_signs_by_hand():
    first, second = read_only([1, 2, -1, 0, 3]), read_only([-1, 2, -4, 5, 0])
    assert concordance.sign_disagreement(first, second) == Share(count=1, of=3)
    assert concordance.sign_disagreement(first, second).share == 1 / 3


def test_paper_counts_of_opposite_signs():
    assert Share(count=40, of=79).share == 40 / 79


def test_signs_without_a_common_input_are_undefined():
    nothing = concordance.sign_disagreement(read_only([1, 0]), read_only([0, 1]))
    assert nothing == Share(0, 0)
    assert math.isnan(nothing.share)


def test_tolerance_turns_noise_into_zero():
    first, second = read_only([1e-12, 1, 1]), read_only([-1, -1e-10, -1])
    assert concordance.sign_disagreement(first, second) == Share(3, 3)
    assert concordance.sign_disagreement(first, second, tolerance=1e-9) == Share(1, 1)
    assert concordance.affected(second, tolerance=1e-9).tolist() == [True, False, True]


def test_signs_match_the_slow_twin():
    for a, b, rng in tied_pairs_of_values(seed=1, largest=12):
        tolerance = float(rng.choice([0.0, 0.25, 0.3]))
        found = concordance.sign_disagreement(a, b, tolerance=tolerance)
        assert (found.count, found.of) == slow.sign_disagreement(
            a.tolist(), b.tolist(), tolerance
        )


def test_spearman_by_hand():
    # Ranks 1 2 3 against 2 1 3: 1 - 6*(1 + 1 + 0)/(3*(9 - 1)).
    assert concordance.spearman(
        read_only([10, 20, 30]), read_only([5, 1, 9])
    ) == pytest.approx(1 - 12 / 24)
    assert concordance.spearman(read_only([1, 1, 2]), read_only([3, 3, 8])) == 1.0
    assert concordance.spearman(np.array([1, 2, 3]), np.array([3, 2, 1])) == -1.0


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0]])
def test_spearman_of_nothing_or_a_constant_is_undefined(values):
    assert math.isnan(
        concordance.spearman(read_only(values), read_only(np.arange(len(values))))
    )


def test_spearman_on_affected_inputs_only():
    gain, value = read_only([1, 2, 3, 9]), read_only([3, 2, 1, 0])
    assert concordance.spearman(gain, value, among=concordance.affected(value)) == -1.0
    assert math.isnan(concordance.spearman(gain, value, among=np.zeros(4, dtype=bool)))


def test_spearman_matches_the_slow_twin():
    for a, b, rng in tied_pairs_of_values(seed=2, largest=12):
        among = rng.random(a.size) < rng.choice([0.5, 0.9, 1.0])
        assert_same(
            concordance.spearman(a, b, among=among),
            slow.spearman(a[among].tolist(), b[among].tolist()),
        )


def test_pair_counts_by_hand():
    # Pairs: 01 tied in first; 02 and 12 concordant; 03 and 13 discordant; 23
    # discordant.
    counts = concordance.pair_counts(read_only([1, 1, 2, 3]), read_only([4, 5, 6, 0]))
    assert counts == PairCounts(
        concordant=2, discordant=3, tied_first=1, tied_second=0, tied_both=0
    )
    assert counts.ordered_differently == 3 / 5
    assert counts.gamma == (2 - 3) / 5
    # Not tied in first: 5 pairs; not tied in second: 6.
    assert counts.tau_b == (2 - 3) / math.sqrt(5 * 6)


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0]])
def test_pair_statistics_without_a_strict_pair_are_undefined(values):
    counts = concordance.pair_counts(read_only(values), read_only(values))
    assert (counts.concordant, counts.discordant, counts.tied_both) == (
        0,
        0,
        max(0, len(values) - 1),
    )
    assert all(
        math.isnan(x) for x in (counts.gamma, counts.ordered_differently, counts.tau_b)
    )


def test_signed_zeros_tie_and_infinities_rank():
    counts = concordance.pair_counts(
        read_only([0.0, -0.0, np.inf]), read_only([-np.inf, 1, np.inf])
    )
    assert counts == PairCounts(
        concordant=2, discordant=0, tied_first=1, tied_second=0, tied_both=0
    )
    counts = concordance.pair_counts(
        read_only([1, 2, 3]), read_only([np.inf, np.inf, -0.0])
    )
    assert counts == PairCounts(
        concordant=0, discordant=2, tied_first=0, tied_second=1, tied_both=0
    )


def test_pair_counts_match_the_slow_twin():
    for a, b, _ in tied_pairs_of_values(seed=3, largest=20):
        counts = concordance.pair_counts(a, b)
        found = (
            counts.concordant,
            counts.discordant,
            counts.tied_first,
            counts.tied_second,
            counts.tied_both,
        )
        assert found == slow.pair_counts(a.tolist(), b.tolist())
        assert sum(found) == a.size * (a.size - 1) // 2


def test_rank_statistics_match_scipy():
    rng = np.random.default_rng(4)
    for case in range(200):
        n = int(rng.integers(3, 400))
        levels = (3, 20, 10**6)[case % 3]
        a = rng.integers(0, levels, n).astype(float)
        b = np.where(rng.random(n) < 0.5, a, rng.integers(0, levels, n))
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            continue
        assert_same(concordance.pair_counts(a, b).tau_b, stats.kendalltau(a, b)[0])
        assert_same(concordance.spearman(a, b), stats.spearmanr(a, b)[0])


def test_a_million_inputs():
    n = 1_000_000
    x = np.arange(n, dtype=np.float64)
    assert concordance.pair_counts(x, -x).discordant == n * (n - 1) // 2
    # Blocks of four, 1 1 0 0 then 3 3 2 2 and so on: four inversions and two ties in
    # each.
    y = np.arange(n) // 4 * 2 + 1 - np.arange(n) % 4 // 2
    counts = concordance.pair_counts(x, y)
    assert (counts.discordant, counts.tied_second) == (4 * n // 4, 2 * n // 4)


@given(st.data())
def test_pair_statistics_obey_symmetry(data):
    n = data.draw(st.integers(0, 30))
    values = arrays(np.float64, n, elements=st.integers(-4, 4).map(float))
    a, b = data.draw(values), data.draw(values)
    forward, backward, mirrored = (
        concordance.pair_counts(a, b),
        concordance.pair_counts(b, a),
        concordance.pair_counts(a, -b),
    )
    assert (forward.concordant, forward.discordant) == (
        backward.concordant,
        backward.discordant,
    )
    assert (forward.concordant, forward.discordant) == (
        mirrored.discordant,
        mirrored.concordant,
    )
    assert (forward.tied_first, forward.tied_second) == (
        backward.tied_second,
        backward.tied_first,
    )
    assert_same(forward.gamma, 1 - 2 * forward.ordered_differently)
    assert_same(concordance.spearman(a, b), concordance.spearman(b, a))


def test_transfer_by_hand_with_a_tied_cut():
    value, other = read_only([5, 2, 2, 2, -1]), read_only([-1, 3, 0.5, -4, 9])
    found = concordance.transfer(value, other, k=2)
    # Input 0 is sure; one of 1, 2, 3 joins it: +3 at best, -4 at worst. The other's own
    # optimum is 9 + 3.
    assert found.most.escalated.tolist() == [True, True, False, False, False]
    assert found.least.escalated.tolist() == [True, False, False, True, False]
    assert (found.most.gain, found.least.gain, found.oracle_gain) == (
        -1 + 3,
        -1 - 4,
        9 + 3,
    )
    assert (found.most.ndg, found.least.ndg) == ((-1 + 3) / (9 + 3), (-1 - 4) / (9 + 3))


def test_transfer_by_hand_with_slots_to_spare():
    value, other = read_only([5, 0, 0, 0, -1]), read_only([-1, 3, 0.5, -4, 9])
    found = concordance.transfer(value, other, k=3)
    # Input 0 is sure; of the zeros at most two join: both useful ones at best, only the
    # harmful one at worst.
    assert (found.most.gain, found.least.gain, found.oracle_gain) == (
        -1 + 3 + 0.5,
        -1 - 4,
        9 + 3 + 0.5,
    )
    assert found.least.escalated.tolist() == [True, False, False, True, False]


def test_transfer_without_a_prize_is_undefined():
    found = concordance.transfer(read_only([1, 2]), read_only([-1, 0]), k=1)
    assert (found.most.gain, found.oracle_gain) == (0, 0)
    assert math.isnan(found.most.ndg)
    nothing = concordance.transfer(read_only([1, 2]), read_only([1, 2]), k=0)
    assert not nothing.most.escalated.any()
    assert math.isnan(nothing.most.ndg)


def test_transfer_matches_every_subset():
    undecided = 0
    for a, b, rng in tied_pairs_of_values(seed=5, largest=6):
        k = int(rng.integers(0, a.size + 2))
        found = concordance.transfer(a, b, k=k)
        most, least, own = slow.transfer(a.tolist(), b.tolist(), min(k, a.size))
        assert (found.most.gain, found.least.gain, found.oracle_gain) == (
            most,
            least,
            own,
        )
        best = slow.optima(a.tolist(), min(k, a.size))
        assert {
            tuple(np.flatnonzero(m.escalated)) for m in (found.most, found.least)
        } <= set(best)
        for member, gain in ((found.most, most), (found.least, least)):
            assert_same(member.ndg, gain / own if own > 0 else math.nan)
        undecided += most != least
    assert undecided > 300


@given(
    arrays(np.float64, st.integers(1, 20), elements=st.floats(-5, 5)),
    st.integers(1, 25),
)
def test_transfer_to_itself_is_optimal(value, k):
    found = concordance.transfer(value, value, k=k)
    assert found.most.gain == found.least.gain == found.oracle_gain
    assert found.most.ndg == 1 if (value > 0).any() else math.isnan(found.most.ndg)


def test_tie_audit_of_the_paper():
    score = read_only([2.0] * 326 + [1.0] * 366 + [0.0] * (3376 - 326 - 366))
    audit = tie_audit(score, math.floor(0.2 * 3376 + 0.5))
    assert audit == TieAudit(k=675, above=326, tied=366, slots=349)
    assert audit.share == 349 / 675


def test_ties_decide_nothing_where_the_group_fits():
    score = read_only([3, 1, 1, 0])
    assert tie_audit(score, 3) == TieAudit(k=3, above=1, tied=2, slots=2)
    assert tie_audit(score, 3).share == 0.0
    assert tie_audit(score, 4).share == 0.0
    assert math.isnan(tie_audit(score, 0).share)


def test_tie_audit_matches_the_slow_twin():
    for a, _, rng in tied_pairs_of_values(seed=6, largest=15):
        k = int(rng.integers(0, a.size + 1))
        audit = tie_audit(a, k)
        above, tied, slots, share = slow.tie_audit(a.tolist(), k)
        assert (audit.above, audit.tied, audit.slots) == (above, tied, slots)
        assert_same(audit.share, share)


def test_reversal_by_hand():
    assert concordance.reversal(
        read_only([1, 2, 9]), read_only([2, 1, -9])
    ) == Reversal(first=1, second=0)
    # Tied under one system is not an opposite strict order, nor is a pair that one
    # system does not want.
    assert concordance.reversal(read_only([1, 1, 2]), read_only([2, 1, 2])) is None
    assert concordance.reversal(read_only([1, 2, 0]), read_only([1, 2, 5])) is None
    assert concordance.reversal(read_only([]), read_only([])) is None


def test_reversal_is_found_iff_there_is_one():
    found_some = 0
    for a, b, rng in tied_pairs_of_values(seed=7, largest=12):
        if rng.random() < 0.5:
            a, b = np.abs(a), np.abs(b)
        witness, expected = (
            concordance.reversal(a, b),
            slow.reversals(a.tolist(), b.tolist()),
        )
        assert (witness is None) == (not expected)
        assert witness is None or tuple(witness) in expected
        found_some += witness is not None
    assert 200 < found_some < CASES - 200


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: concordance.pair_counts(np.array([1.0, np.nan]), np.zeros(2)), "NaN"),
        (lambda: tie_audit(np.array([np.nan]), 1), "NaN"),
        (lambda: tie_audit(np.zeros(3), 4), "between 0 and"),
        (lambda: tie_audit(np.zeros(3), -1), "got -1"),
        (lambda: concordance.transfer(np.zeros(3), np.zeros(3), k=-1), "at least 0"),
        (lambda: concordance.transfer(np.array([np.inf]), np.zeros(1), k=1), "finite"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("inputs", [129, 300, 1025])
def test_pairs_of_many_inputs_are_counted_as_one_by_one(inputs):
    """Enough inputs that long halves are merged; several of them tied in either
    order.
    """
    rng = np.random.default_rng(inputs)
    first, second = rng.integers(0, 60, inputs), rng.integers(0, 900, inputs)
    one, other = (
        np.sign(each[:, None] - each)[np.triu_indices(inputs, 1)]
        for each in (first, second)
    )
    found = concordance.pair_counts(first.astype(float), second.astype(float))
    assert found.concordant == np.count_nonzero(one * other > 0)
    assert found.discordant == np.count_nonzero(one * other < 0)
    assert found.tied_both == np.count_nonzero((one == 0) & (other == 0))
