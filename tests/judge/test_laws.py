"""Laws of the judgement, for any table and any score, through the public interface."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from worlds import COSTS, judge, quietly

few = settings(max_examples=15, derandomize=True)
LOSSES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0])
POSITIVE = st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0])
SCORES = st.sampled_from([-math.inf, -2.0, -0.0, 0.0, 0.1, 1.0, 5.0, math.inf])
FINITE = st.sampled_from([-2.0, -0.0, 0.0, 0.1, 1.0, 5.0])
NUMBERS = ("gain", "benefit", "harm", "oracle_gain", "escalated")
RATIOS = (
    "gain_share",
    "ndg",
    "ndg_lo",
    "ndg_hi",
    "versus_random",
    "versus_random_lo",
    "versus_random_hi",
)
KEPT = ("verdict", "draws_dropped", "versus_random_dropped", "slots")


@st.composite
def columns(draw, scores=SCORES, cheap=LOSSES):
    """(unit, losses, score) of a few inputs in two or three units; the first input has
    a positive cheap loss.
    """
    inputs = draw(st.integers(3, 10))
    unit = [
        "a",
        "b",
        *draw(
            st.lists(st.sampled_from("abc"), min_size=inputs - 2, max_size=inputs - 2)
        ),
    ]
    losses = draw(st.lists(st.tuples(cheap, LOSSES), min_size=inputs, max_size=inputs))
    losses[0] = (1.0, losses[0][1])
    return (
        np.array(unit),
        np.array(losses),
        np.array(draw(st.lists(scores, min_size=inputs, max_size=inputs))),
    )


def tabled(unit, losses, **more) -> deepval.ValueTable:
    named = {"cheap": losses[:, 0], "full": losses[:, 1]}
    return quietly(
        deepval.ValueTable.from_columns,
        unit=unit,
        input=np.arange(len(unit)),
        losses=named,
        **more,
    )


def rows_of(unit, losses, score, budgets=None, draws="exact"):
    budgets = budgets or [deepval.Selection(0.3), deepval.Latency(0.5, COSTS)]
    return judge(tabled(unit, losses), {"light": score}, budgets, draws=draws).rows


def assert_alike(rows, others, *, gains: float = 1.0, names=KEPT) -> None:
    """The same judgement; sums in units of the loss are `gains` times the others'."""
    for row, other in zip(rows, others, strict=True):
        for name in names:
            assert row[name] == other[name], name
        for name in (*NUMBERS, *RATIOS):
            assert (row[name] is None) == (other[name] is None), name
            times = gains if name in NUMBERS and name != "escalated" else 1.0
            if row[name] is not None:
                assert row[name] == pytest.approx(
                    times * other[name], rel=1e-9, abs=1e-12
                ), name


@few
@given(columns())
def test_no_allocator_within_the_budget_beats_the_oracle(case):
    for row in rows_of(*case):
        if row.gain is not None and row.allocator != "all-full":
            assert row.gain <= row.oracle_gain + 1e-12
            assert row.ndg is None or row.ndg <= 1 + 1e-12


@few
@given(columns())
def test_gain_is_benefit_less_harm(case):
    for row in rows_of(*case):
        if row.gain is not None:
            assert row.harm >= 0
            assert row.benefit >= 0
            assert row.gain + row.harm == pytest.approx(row.benefit, abs=1e-12)


@few
@given(columns(cheap=POSITIVE), st.sampled_from([0.001, 2.0, 7.3, 1e6]))
def test_scaling_losses_scales_gains_and_leaves_shares(case, factor):
    unit, losses, score = case
    assert_alike(
        rows_of(unit, losses * factor, score),
        rows_of(unit, losses, score),
        gains=factor,
    )


@few
@given(columns(), st.sampled_from([0.25, 1.0, 8.0]))
def test_shifting_all_losses_leaves_values(case, shift):
    unit, losses, score = case
    moved, still = tabled(unit, losses + shift), tabled(unit, losses)
    assert moved.decision_values.tolist() == still.decision_values.tolist()
    for row, other in zip(
        rows_of(unit, losses + shift, score), rows_of(unit, losses, score), strict=True
    ):
        for name in (*NUMBERS, "ndg", "ndg_lo", "ndg_hi", "draws_dropped"):
            assert row[name] == other[name], name


@few
@given(columns(FINITE))
def test_only_the_order_of_scores_counts(case):
    unit, losses, score = case
    plain = rows_of(unit, losses, score)
    for transformed in (np.exp(score), 3 * score + 100):
        assert [dict(row) for row in rows_of(unit, losses, transformed)] == [
            dict(row) for row in plain
        ]


@few
@given(columns(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(case, random):
    unit, losses, score = case
    order = list(range(len(unit)))
    random.shuffle(order)
    # Losses are quarters, so that sums are exact in any order.
    assert_alike(
        rows_of(unit[order], losses[order], score[order]), rows_of(unit, losses, score)
    )


@few
@given(columns(), st.sampled_from([0.1, 0.3, 0.5, 1.0]))
def test_a_constant_score_is_random(case, alpha):
    unit, losses, _ = case
    budgets = [deepval.Selection(alpha)]
    result = judge(
        tabled(unit, losses), {"light": np.full(len(unit), 3.0)}, budgets, draws="exact"
    )
    constant, random = (
        result.row("light", alpha=alpha),
        result.row("random", alpha=alpha),
    )
    for name in (*NUMBERS, "gain_share", "ndg", "ndg_lo", "ndg_hi"):
        assert (constant[name] is None) == (random[name] is None), name
        if random[name] is not None:
            assert constant[name] == pytest.approx(
                random[name], rel=1e-12, abs=1e-15
            ), name
    assert constant.versus_random == pytest.approx(0, abs=1e-15)
    assert (constant.versus_random_lo, constant.versus_random_hi, constant.verdict) == (
        0.0,
        0.0,
        "unresolved",
    )


@few
@given(columns(), st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0]))
def test_the_values_themselves_are_the_best_score(case, alpha):
    unit, losses, _ = case
    table = tabled(unit, losses)
    result = judge(
        table, {"light": table.decision_values}, [deepval.Selection(alpha)], draws=0
    )
    row = result.row("light", alpha=alpha)
    if row.slots <= np.count_nonzero(table.decision_values >= 0):
        assert row.gain == pytest.approx(row.oracle_gain, rel=1e-12)
    else:
        assert row.gain < row.oracle_gain


@few
@given(columns())
def test_every_input_twice_is_every_unit_twice_as_heavy(case):
    unit, losses, score = case
    budgets = [deepval.Selection(1.0), deepval.Latency(1.0, COSTS)]
    twice = [np.concatenate([column, column]) for column in (unit, losses, score)]
    once, double = rows_of(unit, losses, score, budgets), rows_of(*twice, budgets)
    # All is escalated by whoever costs nothing, so that no rounding of k differs; every
    # sum doubles, shares stay.
    for row, other in zip(double, once, strict=True):
        if row.allocator != "light" or row.kind == "selection":
            assert row.escalated == pytest.approx(2 * other.escalated)
            assert_alike(
                [replace_escalated(row, other)],
                [other],
                gains=2.0,
                names=("verdict", "draws_dropped"),
            )


def replace_escalated(row: deepval.Row, other: deepval.Row) -> deepval.Row:
    return replace(row, escalated=other.escalated)


@few
@given(columns(), st.integers(0, 2))
def test_a_unit_counted_twice_is_a_unit_copied(case, which):
    # Draws count units: the same sums come from a weight of 2 and from a copy of the
    # unit's rows.
    from deepval.judge.kernel import top_sums

    unit, losses, score = case
    names = np.unique(unit)
    heavy = names[which % len(names)]
    number = np.searchsorted(names, unit)
    value = losses[:, 0] - losses[:, 1]
    copied = np.concatenate([np.arange(len(unit)), np.flatnonzero(unit == heavy)])
    slots = np.arange(len(copied) + 1)[None]
    weights = np.where(names == heavy, 2.0, 1.0)[None]
    weighted = top_sums(score, value[None], number, counts=weights, slots=slots)
    plain = top_sums(
        score[copied],
        value[None][:, copied],
        number[copied],
        counts=np.ones((1, len(names))),
        slots=slots,
    )
    assert weighted == pytest.approx(plain, rel=1e-12, abs=1e-14)


@few
@given(columns(), st.sampled_from([0.1, 0.3, 0.5]))
def test_a_dearer_allocator_never_gets_more_slots(case, alpha):
    unit, losses, score = case
    budgets = [deepval.Latency(alpha, COSTS), deepval.Latency(alpha, COSTS, "skipping")]
    result = judge(
        tabled(unit, losses),
        {"free": score, "light": score, "dear": score},
        budgets,
        draws=0,
    )
    for accounting in ("cascade", "skipping"):
        slots = [
            r.slots
            for r in result.rows
            if r.accounting == accounting and r.verdict and r.slots is not None
        ]
        assert slots == sorted(slots, reverse=True)
