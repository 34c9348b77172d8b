"""`deepval.evaluate` against its slow twin, and the prescriptions of draws, percentiles
and dropped draws by hand.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import deepval
from deepval.judge.pairs import compare
from reference import evaluation as slow
from worlds import COSTS, World, judge, random_world, table_of

CALLS = 170
"""Times 4 budgets times 3 allocators: 2,040 judged cases, and as many rows of
references.
"""
IN_LOSS_UNITS = ("gain", "benefit", "harm", "oracle_gain")
SHARES = tuple(
    f"versus_{name}{end}"
    for name in ("random", "never", "always")
    for end in ("", "_lo", "_hi")
)
LOSS_DIFFERENCES = tuple(
    f"versus_{n}_loss{end}"
    for n in ("random", "never", "always")
    for end in ("", "_lo", "_hi")
)
NUMBERS = (
    *IN_LOSS_UNITS,
    "gain_share",
    "ndg",
    "ndg_lo",
    "ndg_hi",
    "escalated",
    "weight_dropped",
)
NUMBERS = (*NUMBERS, *SHARES, *LOSS_DIFFERENCES)
SAME = (
    "allocator",
    "kind",
    "alpha",
    "verdict",
    "never_verdict",
    "always_verdict",
    "draws_dropped",
)


def measure(budget) -> slow.Measure:
    if budget.kind == "selection":
        return slow.Measure("selection", budget.alpha)
    cheap, full = (
        COSTS["modes"][mode][budget.convention] for mode in ("cheap", "full")
    )
    return slow.Measure(
        budget.kind, budget.alpha, cheap=cheap, full=full, accounting=budget.accounting
    )


def twin(world: World) -> list[dict]:
    table = world.table
    rows = [
        (
            str(table.unit_ids[table.unit[i]]),
            *table.losses[i].tolist(),
            {n: float(s[i]) for n, s in world.scores.items()},
        )
        for i in range(len(table))
    ]
    costs = {
        name: [
            0.0 if b.kind == "selection" else COSTS["allocators"][name][b.convention]
            for b in world.budgets
        ]
        for name in world.scores
    }
    measures = [measure(b) for b in world.budgets]
    return slow.judge(
        rows,
        world.units,
        world.scores,
        measures,
        costs=costs,
        draws=world.draws,
        seed=world.seed,
    )


def assert_same(row: deepval.Row, expected: dict, scale: float) -> None:
    for name in SAME:
        assert row[name] == expected[name], (name, row, expected)
    if row.versus_random is not None:
        assert row.versus_random_dropped == expected["versus_random_dropped"], (
            row,
            expected,
        )
    for name in NUMBERS:
        ours, theirs = row[name], expected[name]
        assert (ours is None) == (theirs is None), (name, row, expected)
        # Sums that cancel are compared with the size of what is summed.
        noise = (
            1e-12 * scale
            if name in LOSS_DIFFERENCES
            else 1e-13 * scale
            if name in IN_LOSS_UNITS
            else 1e-12
        )
        if ours is not None:
            assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=noise), (
                name,
                ours,
                float(theirs),
                row,
            )


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_every_row_equals_the_slow_twin(part):
    rng = np.random.default_rng([2026, part])
    for _ in range(CALLS // 5):
        world = random_world(rng, budgets=4)
        result, expected = world.judged(), twin(world)
        # Fixed modes have a twin of their own, in test_answers.
        rows = [row for row in result.rows if not row.allocator.startswith("always ")]
        assert len(rows) == len(expected)
        scale = max(1.0, float(np.abs(world.table.decision_values).sum()))
        for row, other in zip(rows, expected, strict=True):
            assert row.inputs == len(world.table)
            if not other["on_edge"]:
                assert_same(row, other, scale)


@pytest.mark.parametrize("score", [[1.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
def test_where_everything_is_escalated_no_draw_differs_from_random(score):
    # Unit b has no cheap loss. In bb the gain is -2*(0.1 + 0.2 + 0.3), added in any
    # order: a difference of 0.
    table = table_of([2.0, 2.0, 2.0, -0.1, -0.2, -0.3], unit=["a"] * 3 + ["b"] * 3)
    row = judge(
        table,
        {"mine": np.array([9.0, 8.0, 7.0, *score])},
        [deepval.Selection(1.0)],
        draws="exact",
    ).row("mine", alpha=1.0)
    assert row.versus_random_dropped == 0


def test_the_unit_of_measure_drops_no_draw():
    # In units b and c nothing is lost by cheap; the score takes c's harmful input no
    # sooner than random does in cc.
    def dropped(factor: float) -> list[int]:
        cheap = [1.0 * factor] + [0.0] * 6
        table = table_of(
            [factor, 0, 0, 0, 0, 0, -0.25 * factor], unit=list("abaaaac"), cheap=cheap
        )
        score = np.array([-np.inf] * 6 + [-2.0])
        budgets = [deepval.Selection(0.3), deepval.Latency(0.5, COSTS)]
        rows = judge(table, {"light": score}, budgets, draws="exact").rows
        return [row.versus_random_dropped for row in rows]

    assert dropped(7.3) == dropped(1.0)


def test_a_quarter_of_the_prize_is_kept_in_tenths_too():
    # Eight values of 0.7; bb holds two of them, a quarter of the prize.
    row = judge(
        table_of([0.7] * 8, unit=["a"] * 7 + ["b"]),
        {"mine": np.arange(8.0)},
        [deepval.Selection(1.0)],
        draws="exact",
    ).row("mine", alpha=1.0)
    assert row.draws_dropped == 0


def hand_made(draws, seed=0, **options) -> deepval.Result:
    """Unit ids whose order as text (10, 9, a) is not that of numbers; one input each
    has something to gain.
    """
    table = table_of(
        [4.0, 0.0, 2.0, -1.0, 1.0, 0.0], unit=["9", "9", "10", "10", "a", "a"]
    )
    score = np.array([3.0, 2.0, 5.0, 4.0, 1.0, 0.0])
    return judge(
        table,
        {"mine": score},
        [deepval.Selection(0.5)],
        draws=draws,
        seed=seed,
        **options,
    )


def test_draws_are_pcg64_integers_over_units_sorted_as_text():
    # Gain, random's gain and loss of the three picked units, written out for every row
    # of picks. Totals of 10, 9 and a: V = 2 - 1, 4, 1. Best two of a 6-input sample by
    # score: all of 10, then all of 9, then a.
    picks = np.random.Generator(np.random.PCG64(5)).integers(0, 3, (200, 3))
    inputs_of = {
        0: [(5, 2.0, 2.0), (4, -1.0, 0.0)],
        1: [(3, 4.0, 4.0), (2, 0.0, 0.0)],
        2: [(1, 1.0, 1.0), (0, 0.0, 0.0)],
    }
    samples = []
    for pick in picks:
        drawn = [entry for unit in pick.tolist() for entry in inputs_of[unit]]
        gain = slow.expected_top([s for s, _, _ in drawn], [v for _, v, _ in drawn], 3)
        samples.append(
            (gain - sum(Fraction(v) for _, v, _ in drawn) / 2)
            / sum(Fraction(c) for _, _, c in drawn)
        )
    low, high = np.percentile([float(s) for s in samples], [2.5, 97.5])
    row = hand_made(200, seed=5).row("mine", alpha=0.5)
    assert (row.versus_random_lo, row.versus_random_hi) == pytest.approx(
        (low, high), rel=1e-9
    )
    # The order in which rows or the list of units are given changes nothing; the seed
    # does.
    assert (
        hand_made(200, seed=5, units=["a", "9", "10"]).rows
        == hand_made(200, seed=5).rows
    )
    assert hand_made(200, seed=6).rows != hand_made(200, seed=5).rows


def test_exact_draws_have_no_seed_and_step_percentiles():
    # Two units: {a,a} 1/4, {a,b} 1/2, {b,b} 1/4. At 50 % the score picks each input
    # with V = 1 or V = 3.
    table = table_of([1.0, 0.0, 3.0, -3.0], unit=["a", "a", "b", "b"])
    result = judge(
        table,
        {"mine": np.array([1.0, 0.0, 1.0, 0.0])},
        [deepval.Selection(0.5)],
        draws="exact",
        seed=3,
    )
    row = result.row("mine", alpha=0.5)
    # Differences with random: aa (2 - 1)/2, ab (4 - 1/2)/4, bb (6 - 0)/6; F reaches 2.5
    # % and 97.5 % at the ends.
    assert (row.versus_random_lo, row.versus_random_hi) == pytest.approx(
        ((2 - 1) / 2, 6 / 6)
    )
    assert row.draws == 3
    assert result.provenance["draws"] == {"method": "exact", "number": 3, "seed": None}
    assert row.verdict == "better"


def test_small_prizes_leave_the_ndg_interval_and_are_counted_with_their_weight():
    # The prize of the sample is 8; draws aa, ab, bb have 16, 8 and 0: only bb (weight
    # 1/4) is below 8/4.
    table = table_of([8.0, 0.0, 0.0, -1.0], unit=["a", "a", "b", "b"])
    row = judge(
        table,
        {"mine": np.array([1.0, 2.0, 4.0, 3.0])},
        [deepval.Selection(0.5)],
        draws="exact",
    ).row("mine", alpha=0.5)
    assert (row.draws_dropped, row.weight_dropped) == (1, pytest.approx(1 / 4))
    # Gain in aa: k = 2 of the scores 2, 2, 1, 1 -> 0. In ab: 0 - 1.
    assert (row.ndg_lo, row.ndg_hi) == pytest.approx((-1 / 8, 0 / 16))


def test_a_prize_of_exactly_a_quarter_is_kept():
    table = table_of([3.0, 1.0], unit=["a", "b"])
    row = judge(
        table, {"mine": np.array([1.0, 0.0])}, [deepval.Selection(1.0)], draws="exact"
    ).row("mine", alpha=1.0)
    # Sample 4; bb has 2, which is half; with V = 7 and 1 the prize is 8 and bb's 2 is a
    # quarter.
    assert row.draws_dropped == 0
    table = table_of([7.0, 1.0], unit=["a", "b"])
    row = judge(
        table, {"mine": np.array([1.0, 0.0])}, [deepval.Selection(1.0)], draws="exact"
    ).row("mine", alpha=1.0)
    assert row.draws_dropped == 0


def test_draws_without_a_positive_loss_count_as_zero_or_are_dropped():
    # Unit b has no cheap loss; full harms its first input by 1, and the score picks
    # that one.
    table = table_of(
        [2.0, 0.0, -1.0, 0.0], unit=["a", "a", "b", "b"], cheap=[2.0, 0.0, 0.0, 0.0]
    )
    budget = [deepval.Selection(0.5)]
    harmful = judge(
        table, {"mine": np.array([1.0, 0.0, 1.0, 0.0])}, budget, draws="exact"
    ).row("mine", alpha=0.5)
    assert harmful.versus_random_dropped == 1  # bb: gain -2, random's gain -1, loss 0
    # A constant score is random itself: bb's difference is 0, so it is kept.
    constant = judge(table, {"mine": np.zeros(4)}, budget, draws="exact").row(
        "mine", alpha=0.5
    )
    assert constant.versus_random_dropped == 0
    assert (constant.versus_random_lo, constant.versus_random_hi, constant.verdict) == (
        0.0,
        0.0,
        "unresolved",
    )


def test_bounds_within_1e_12_of_zero_are_zero_and_zero_is_no_win():
    # In unit a the score gains 1e-12/2 of the loss more than random, in unit b nothing.
    table = table_of([1e-12, 0.0, 0.0, 0.0], unit=["a", "a", "b", "b"], cheap=1.0)
    row = judge(
        table,
        {"mine": np.array([1.0, 0.0, 0.0, 0.0])},
        [deepval.Selection(0.5)],
        draws="exact",
    ).row("mine", alpha=0.5)
    assert 0 < row.versus_random < 1e-12
    assert (row.versus_random_lo, row.versus_random_hi, row.verdict) == (
        0.0,
        0.0,
        "unresolved",
    )


def test_nulls_come_with_a_reason():
    single = judge(
        table_of([1.0, -1.0]), {"mine": np.array([1.0, 0.0])}, [deepval.Selection(0.5)]
    ).row("mine", alpha=0.5)
    assert (single.verdict, single.versus_random_lo) == (None, None)
    assert "single unit" in single.reason
    nothing = judge(
        table_of([0.0, 0.0], unit=["a", "b"], cheap=1.0),
        {"mine": np.zeros(2)},
        [deepval.Selection(0.5)],
    )
    row = nothing.row("mine", alpha=0.5)
    assert (row.ndg, row.gain, row.versus_random) == (None, 0.0, 0.0)
    assert "oracle gains nothing" in row.reason
    negative = judge(
        table_of([1.0, -1.0], unit=["a", "b"], cheap=-1.0),
        {"mine": np.zeros(2)},
        [deepval.Selection(0.5)],
    )
    row = negative.row("mine", alpha=0.5)
    assert (row.gain_share, row.versus_random, row.versus_random_lo) == (
        None,
        None,
        None,
    )
    assert "not positive" in row.reason
    undrawn = judge(
        table_of([1.0, 1.0], unit=["a", "b"]),
        {"mine": np.zeros(2)},
        [deepval.Selection(0.5)],
        draws=0,
    )
    undrawn = undrawn.row("mine", alpha=0.5)
    assert (undrawn.verdict, undrawn.reason) == (None, "no draws: no interval")
    assert (undrawn.versus_random, undrawn.versus_random_loss) == (0.0, 0.0)


def test_a_negative_all_cheap_loss_leaves_the_difference_defined():
    # Every unit: the score finds the one input of four that gains 1; random gains 1/4
    # of it.
    value, unit = np.tile([1.0, 0.0, 0.0, 0.0], 6), np.repeat(list("abcdef"), 4)
    score = {"good": value, "bad": -value, "flat": np.zeros(24)}
    for cheap in (-5.0, 0.0):
        result = judge(
            table_of(value, unit=unit, cheap=cheap),
            score,
            [deepval.Selection(0.25)],
            draws=100,
        )
        good, bad, flat = (
            result.row(name, alpha=0.25) for name in ("good", "bad", "flat")
        )
        assert (good.verdict, bad.verdict, flat.verdict) == (
            "better",
            "worse",
            "unresolved",
        )
        assert (
            good.versus_random_loss,
            good.versus_random_loss_lo,
            good.versus_random_loss_hi,
        ) == (4.5, 4.5, 4.5)
        assert (good.versus_random, good.versus_random_lo, good.versus_random_unit) == (
            None,
            None,
            "loss",
        )
        assert result.comparisons == 3
    # Accuracy as a reward: the same verdicts as under losses of 1 - accuracy, of which
    # shares are defined.
    rng = np.random.default_rng(1)
    small, large = (rng.random((2, 400)) < [[0.6], [0.8]]).astype(float)
    unit, scores = (
        np.repeat(np.arange(20), 20),
        {"s": large - small + rng.normal(size=400), "n": rng.normal(size=400)},
    )
    right = deepval.ValueTable.from_columns(
        unit=unit, rewards={"small": small, "large": large}
    )
    wrong = deepval.ValueTable.from_columns(
        unit=unit, losses={"small": 1 - small, "large": 1 - large}
    )
    ours, theirs = judge(right, scores), judge(wrong, scores)
    assert [row.verdict for row in ours.rows] == [row.verdict for row in theirs.rows]
    assert "better" in {row.verdict for row in ours.rows}
    for one, other in zip(ours.rows, theirs.rows, strict=True):
        assert one.versus_random_loss_lo == pytest.approx(
            other.versus_random_loss_lo, abs=1e-9
        )
        assert (one.versus_random_unit, other.versus_random_unit) == ("loss", "share")
        assert other.versus_random_loss == pytest.approx(
            other.versus_random * other.cheap_loss, abs=1e-9
        )
    (compared,) = compare(judge(right, scores, [deepval.Selection(0.2)]), "s", "n")
    assert (compared.verdict, compared.difference, compared.unit) == (
        "better",
        None,
        "loss",
    )
    assert 0 < compared.loss_lo < compared.loss < compared.loss_hi


def test_shares_of_a_nearly_zero_loss_are_not_shown():
    value, unit = np.tile([1.0, 0.0, 0.0, -1.0], 6), np.repeat(list("abcdef"), 4)
    score, budget = {"mine": value}, [deepval.Selection(0.25)]
    # of 2 that escalation changes in each unit
    for cheap, shown in ((1e-9, "loss"), (0.04, "loss"), (0.06, "share")):
        row = judge(
            table_of(value, unit=unit, cheap=cheap), score, budget, draws=20
        ).row("mine", alpha=0.25)
        assert row.versus_random_unit == shown
        assert row.verdict == "better"  # by the share, which is defined
        assert row.versus_random_lo == pytest.approx(6 / (24 * cheap))
        assert row.versus_random_loss_lo == pytest.approx(6)
    # A third of the draws lack the only unit with a loss: nothing is changed in them,
    # so 0 is a share of nothing.
    alone = np.where(unit == "a", value, 0.0)
    row = judge(
        table_of(alone, unit=unit, cheap=np.where(unit == "a", 1.0, 0.0)), score, budget
    ).row("mine", alpha=0.25)
    assert row.versus_random_unit == "share"


def test_odd_tables_are_warned_of():
    with pytest.warns(deepval.InputWarning, match="single unit"):
        deepval.evaluate(table_of([1.0, -1.0]), {}, [deepval.Selection(0.5)])
    with pytest.warns(deepval.InputWarning, match="decision values are zero"):
        deepval.evaluate(
            table_of([0.0, 0.0, 0.0], unit=["a", "a", "b"], cheap=1.0),
            {},
            [deepval.Selection(0.5)],
        )
    with pytest.warns(deepval.InputWarning, match="not positive"):
        deepval.evaluate(
            table_of([1.0, -1.0, 0.0], unit=["a", "a", "b"], cheap=-1.0),
            {},
            [deepval.Selection(0.5)],
        )


def test_references_are_always_there_and_have_no_verdict():
    result = judge(
        table_of([1.0, -1.0, 2.0], unit=["a", "b", "b"]),
        {},
        [deepval.Selection(0.5), deepval.Latency(0.5, COSTS)],
    )
    references = ["random", "never", "all-full", "oracle", "always cheap"]
    # A latency budget of a half pays for the full mode on every input.
    assert [row.allocator for row in result.rows] == [
        *references,
        *references,
        "always full",
    ]
    assert all(
        row[name] is None
        for row in result.rows
        for name in ("verdict", "never_verdict", "always_verdict")
    )
    assert result.row("all-full", alpha=0.5).ndg is None
    assert result.row("always", alpha=0.5, kind="selection") is result.row(
        "all-full", alpha=0.5, kind="selection"
    )
    never = result.row("never", "latency", 0.5)
    assert (never.gain, never.benefit, never.harm, never.escalated, never.ndg) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert never.versus_random == -result.row("random", "latency", 0.5).versus_never
    # (8 - 5)/8 = 0.375 <= 0.5: running the full mode alone fits.
    assert result.row("all-full", "latency", 0.5).ndg == pytest.approx((1 - 1 + 2) / 2)
    too_small = judge(
        table_of([1.0, -1.0, 2.0], unit=["a", "b", "b"]),
        {},
        [deepval.Latency(0.3, COSTS)],
    )
    row = too_small.row("all-full", "latency", 0.3)
    assert (row.gain, row.ndg, row.verdict) == (None, None, None)
    assert "infeasible" in row.reason


def test_an_allocator_without_a_measured_cost_is_refused():
    with pytest.raises(deepval.InputError, match="'mine'"):
        judge(
            table_of([1.0, -1.0], unit=["a", "b"]),
            {"mine": np.zeros(2)},
            [deepval.Latency(0.5, COSTS)],
        )


def test_calibration_units_are_not_judged():
    table = table_of(
        [1.0, 2.0, 3.0, 4.0], unit=["a", "a", "b", "c"], order=np.arange(4.0)
    )
    result = judge(
        table,
        {"mine": np.arange(4.0)},
        [deepval.Selection(0.5)],
        calibration=["c"],
        draws=10,
    )
    assert result.rows[0].inputs == 3
    assert result.provenance["units"] == ("a", "b")
    with pytest.raises(deepval.InputError, match="both lists"):
        judge(table, {}, [deepval.Selection(0.5)], units=["a", "c"], calibration=["c"])
    with pytest.raises(deepval.InputError, match="left to judge"):
        judge(table, {}, [deepval.Selection(0.5)], calibration=["a", "b", "c"])


def test_units_that_are_not_there_are_refused_and_listed():
    table = table_of(
        [1.0, 2.0, 3.0, 4.0], unit=["a", "a", "b", "c"], order=np.arange(4.0)
    )
    score = {"mine": np.arange(4.0)}
    with pytest.raises(deepval.InputError, match="sX, sY are not"):
        judge(table, score, [deepval.Selection(0.5)], units=["a", "b", "sX", "sY"])
    with pytest.raises(deepval.InputError, match="sX is not"):
        judge(table, score, [deepval.Selection(0.5)], calibration=["c", "sX"])
    # A unit of the data set that holds no inputs of this table is drawn once it is
    # listed.
    listed = judge(
        table.with_units(["d"]),
        score,
        [deepval.Selection(0.5)],
        units=["a", "b", "d"],
        draws=10,
    )
    assert listed.provenance["units"] == ("a", "b", "d")
    assert listed.rows[0].inputs == 3


@pytest.mark.parametrize("size", [1e150, 1e-150])
def test_losses_of_any_accepted_size_are_judged_without_overflow_and_can_be_saved(
    size, tmp_path
):
    rng = np.random.default_rng(3)
    losses = np.clip(rng.normal(size=(240, 2)), -1, 1) * size
    table = table_of(
        losses[:, 0] / 2 - losses[:, 1] / 2,
        unit=np.repeat(np.arange(12), 20),
        cheap=losses[:, 0] / 2,
    )
    with np.errstate(over="raise", invalid="raise"):
        result = judge(
            table,
            {"mine": rng.normal(size=240)},
            draws=50,
            simultaneous_intervals=True,
            curve_points=5,
        )
    result.save(tmp_path / "result.json")
    assert deepval.Result.load(tmp_path / "result.json").rows == result.rows
