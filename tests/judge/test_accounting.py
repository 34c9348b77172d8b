"""Both splits of the gap add up, and the break-even set is what trying every cost
finds.
"""

import math

import numpy as np
import pytest

import deepval
from deepval.judge.allowances import allowance
from deepval.judge.bootstrap import Cap
from deepval.judge.differences import Comparison, Figure
from deepval.judge.extras.break_even import break_even
from deepval.judge.extras.gaps import split_gap
from deepval.judge.judgement import Figures
from reference import evaluation as slow
from worlds import (
    COSTS,
    judge,
    random_budget,
    random_losses,
    random_scores,
    random_table,
    read_only,
    table_of,
)


def random_case(rng, most=12):
    inputs = int(rng.integers(1, most))
    loss = random_losses(rng, inputs)
    budget = random_budget(rng)
    while budget.kind == "selection":
        budget = random_budget(rng)
    allowed = allowance(budget, ("cheap", "full"))
    return random_scores(rng, inputs), read_only(loss[:, 0] - loss[:, 1]), allowed


def still_reaches_random(score, values, allowed, cost) -> bool:
    """Straight from the definition, at one cost."""
    if cost > allowed.budget.alpha * allowed.full:
        return False
    measure = slow.Measure(
        allowed.budget.kind,
        allowed.budget.alpha,
        cheap=allowed.cheap,
        full=allowed.full,
        accounting=allowed.accounting,
    )
    gain = slow.expected_top(
        score.tolist(), values.tolist(), measure.slots(len(values), cost)
    )
    chance = slow.expected_top(
        [0.0] * len(values), values.tolist(), measure.slots(len(values))
    )
    return gain >= chance - slow.ROUNDING * sum(map(abs, values.tolist()))


def test_break_even_sets_equal_trying_every_cost():
    rng = np.random.default_rng(1)
    several = empty = 0
    for _ in range(300):
        score, values, allowed = random_case(rng)
        found = break_even(score, values, allowed)
        several += len(found.spans) > 1
        empty += not found.spans
        limit = allowed.budget.alpha * allowed.full
        ends = [end for span in found.spans for end in span]
        tried = {0.0, *rng.uniform(0, 1.1 * limit, 12)} | {
            e + d for e in ends for d in (-1e-6, 1e-6) if e + d >= 0
        }
        for cost in tried:
            # On the very end of a span the last digit decides.
            if all(abs(cost - end) > 1e-8 for end in ends) or cost == 0:
                assert found.holds(float(cost)) == still_reaches_random(
                    score, values, allowed, float(cost)
                ), cost
    assert several >= 10
    assert empty >= 3


def test_break_even_spans_are_disjoint_and_end_in_the_largest():
    rng = np.random.default_rng(2)
    for _ in range(300):
        found = break_even(*random_case(rng))
        flat = [end for span in found.spans for end in span]
        assert flat == sorted(flat)
        assert all(low < high for low, high in found.spans)
        assert found.largest == (found.spans[-1][1] if found.spans else None)
        assert found.largest is None or found.holds(found.largest)


def test_break_even_by_hand():
    # 10 inputs at 8 ms, alpha = 0.5: 5 free slots, random gains 5/10*10 = 5. The best
    # score gains 1, 3, 6: three slots are enough, which a cost of up to (0.5 -
    # 3/10)*8 = 1.6 ms leaves.
    values = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    allowed = allowance(deepval.Latency(0.5, COSTS), ("cheap", "full"))
    found = break_even(np.arange(10.0)[::-1].copy(), values, allowed)
    assert found.largest == pytest.approx(1.6)
    assert found.spans == ((0.0, pytest.approx(1.6)),)
    # A harmful input comes second: 2 slots gain 6 - 5, 1 slot gains 6, so a dearer
    # allocator may do better.
    values = np.array([6.0, -5.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = break_even(np.arange(10.0)[::-1].copy(), values, allowed)
    assert found.spans == (
        (0.0, pytest.approx(0.0, abs=1e-8)),
        (pytest.approx(2.4), pytest.approx(3.2)),
    )
    # Where random loses, escalating nothing is good enough up to the last feasible
    # cost.
    found = break_even(np.arange(10.0), -np.ones(10), allowed)
    assert found.largest == pytest.approx(0.5 * 8)


def test_both_splits_add_up():
    rng = np.random.default_rng(3)
    for _ in range(25):
        table = random_table(rng, inputs=12, units=4, order=rng.permutation(12))
        scores = {name: random_scores(rng, 12) for name in COSTS["allocators"]}
        budgets = [
            deepval.Selection(0.3),
            deepval.Latency(0.5, COSTS),
            deepval.Energy(0.5, COSTS, "skipping"),
        ]
        held = (
            [str(table.unit_ids[0])]
            if len(table.unit_ids) > 1 and rng.random() < 0.5
            else None
        )
        result = judge(table, scores, budgets, draws=0, calibration=held)
        rows = [row for row in result.rows if row.allocator in scores]
        size = float(np.abs(table.decision_values).sum())
        for gap, row in zip(result.gaps, rows, strict=True):
            assert (gap.allocator, gap.kind, gap.alpha) == (
                row.allocator,
                row.kind,
                row.alpha,
            )
            if row.verdict == "infeasible":
                assert gap.gap is None
                assert gap.reason
                continue
            assert gap.gap == pytest.approx(
                gap.missed + gap.selected_harm - gap.left_out, abs=1e-11 * size
            )
            assert gap.gap == pytest.approx(
                gap.overhead + gap.ranking + (gap.causal or 0.0), abs=1e-11 * size
            )
            assert (
                min(
                    gap.missed,
                    gap.selected_harm,
                    gap.left_out,
                    gap.overhead,
                    gap.ranking,
                )
                >= -1e-11 * size
            )
            if held is None:
                assert gap.causal is None
                assert gap.gap == pytest.approx(
                    row.oracle_gain - row.gain, abs=1e-11 * size
                )
            assert (gap.break_even is None) or gap.break_even == gap.break_even_set[-1][
                1
            ]


def figures(*, gain, benefit, harm):
    """What a ranking of these sums comes to; nothing else enters its gap."""
    undefined = Comparison(Figure(None), Figure(None))
    return Figures(
        escalated=1.0,
        gain=gain,
        gain_share=None,
        benefit=benefit,
        harm=harm,
        ndg=None,
        random=undefined,
        never=None,
        always=None,
        always_cost_ratio=None,
    )


def test_a_causal_term_of_rounding_error_is_0():
    streamed = 0.1 + 0.2
    assert streamed != 0.3
    split = split_gap(
        figures(gain=0.3, benefit=0.3, harm=0.0),
        oracle=0.5,
        oracle_after_cost=0.5,
        all_benefit=0.5,
        causal=Cap(streamed, streamed, 0.0),
    )
    assert split.causal == 0.0


def test_split_by_hand():
    # V = 5, 3, 2, -1 with 2 slots for the oracle and 1 after the allocator's cost; the
    # score takes the 3.
    ranked = figures(gain=3.0, benefit=3.0, harm=0.0)
    split = split_gap(ranked, oracle=8.0, oracle_after_cost=5.0, all_benefit=10.0)
    assert (split.gap, split.missed, split.selected_harm, split.left_out) == (
        8 - 3,
        10 - 3,
        0,
        10 - 8,
    )
    assert (split.overhead, split.ranking, split.causal) == (8 - 5, 5 - 3, None)
    # The causal cap takes the 2 and the -1 instead.
    causal = Cap(gain=2.0 - 1.0, benefit=2.0, harm=1.0)
    split = split_gap(
        ranked, oracle=8.0, oracle_after_cost=5.0, all_benefit=10.0, causal=causal
    )
    assert (split.gap, split.missed, split.selected_harm, split.causal) == (
        8 - 1,
        10 - 2,
        1,
        3 - 1,
    )


def test_overhead_is_what_the_oracle_loses_to_the_cost():
    # 4 inputs, alpha = 0.5 at 8 ms: 2 slots free, 1 after 3 ms (0.5 - 3/8 = 0.125 ->
    # 0.5 of 4: none).
    table = table_of([5.0, 3.0, 2.0, -1.0], unit=["a", "a", "b", "b"])
    result = judge(
        table,
        {"dear": np.arange(4.0), "light": np.arange(4.0)},
        [deepval.Latency(0.5, COSTS)],
        draws=0,
    )
    dear, light = result.gaps
    assert (dear.overhead, dear.ranking) == (5 + 3, 0)
    # 0.5 - 0.5/8 = 0.4375 -> 1.75 of 4: one slot, which goes to the harmful input.
    assert (light.overhead, light.ranking, light.selected_harm) == (3, 5 + 1, 1)
    assert math.isclose(light.gap, 8 + 1)
