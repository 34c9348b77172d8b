"""Paired comparisons are antisymmetric and pooling is the mean of each draw; both need
draws in memory.
"""

import math

import numpy as np
import pytest

import deepval
from deepval.basics.errors import InputError
from deepval.judge.pairs import basis, compare
from deepval.judge.pooled import pool
from worlds import COSTS, judge, quietly, random_scores, random_world, table_of

FLIPPED = {"better": "worse", "worse": "better", "unresolved": "unresolved"}


def test_comparing_the_other_way_round_turns_the_sign():
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(40):
        world = random_world(rng, budgets=2)
        result = world.judged()
        for one, other in (
            ("light", "free"),
            ("dear", "oracle"),
            ("random", "all-full"),
        ):
            for there, back in zip(
                compare(result, one, other), compare(result, other, one), strict=True
            ):
                if there.difference is None:
                    assert there.reason
                    assert back.difference is None
                    continue
                compared += 1
                assert there.difference == pytest.approx(-back.difference, abs=1e-15)
                assert there.spread == back.spread or there.spread == pytest.approx(
                    back.spread
                )
                # Percentiles that step up to the next sample are not those that step
                # down from the other end.
                if there.lo is not None and world.draws != "exact":
                    assert (there.lo, there.hi) == pytest.approx(
                        (-back.hi, -back.lo), rel=1e-9, abs=1e-12
                    )
                    assert there.verdict == FLIPPED[back.verdict]
    assert compared > 60


def test_a_comparison_with_random_is_the_row_itself():
    rng = np.random.default_rng(2)
    for _ in range(30):
        result = random_world(rng, budgets=2).judged()
        rows = [row for row in result.rows if row.allocator == "light"]
        for row, found in zip(rows, compare(result, "light", "random"), strict=True):
            assert (found.kind, found.alpha, found.accounting) == (
                row.kind,
                row.alpha,
                row.accounting,
            )
            assert (found.difference, found.lo, found.hi) == (
                row.versus_random,
                row.versus_random_lo,
                row.versus_random_hi,
            )
            assert found.verdict == row.verdict
            assert found.spread == row.versus_random_spread


def test_an_allocator_against_itself_is_unresolved():
    table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "a", "b", "b"])
    (same,) = compare(
        judge(table, {"mine": np.arange(4.0)}, [deepval.Selection(0.5)]), "mine", "mine"
    )
    assert (same.difference, same.lo, same.hi, same.ndg_difference, same.verdict) == (
        0,
        0,
        0,
        0,
        "unresolved",
    )


def test_the_infeasible_side_is_named():
    table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "a", "b", "b"])
    result = judge(
        table,
        {"dear": np.arange(4.0), "light": np.arange(4.0)},
        [deepval.Latency(0.3, COSTS)],
    )
    (candidate,) = compare(result, "dear", "light")
    assert candidate.verdict == "infeasible"
    assert candidate.reason.startswith("dear: ")
    (baseline,) = compare(result, "light", "dear")
    assert baseline.verdict is None
    assert baseline.reason.startswith("dear: ")


def test_what_is_missing_on_either_side_has_a_reason():
    table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "a", "b", "b"])
    (found,) = compare(
        judge(table, {"mine": np.arange(4.0)}, [deepval.Selection(0.5)]),
        "mine",
        "all-full",
    )
    assert found.ndg_difference is None
    assert "no nDG" in found.reason


def test_unknown_names_and_loaded_results_are_refused(tmp_path):
    table = table_of([1.0, -1.0, 2.0], unit=["a", "a", "b"])
    result = judge(table, {"mine": np.arange(3.0)}, [deepval.Selection(0.5)], draws=5)
    with pytest.raises(InputError, match="no allocator 'yours'"):
        compare(result, "mine", "yours")
    result.save(tmp_path / "result.json")
    loaded = deepval.Result.load(tmp_path / "result.json")
    with pytest.raises(InputError, match="fresh from evaluate"):
        compare(loaded, "mine", "random")
    with pytest.raises(InputError, match="fresh from evaluate"):
        pool({"cell": loaded})
    with pytest.raises(InputError, match="at least one cell"):
        pool({})


def random_cells(rng, draws, *, cells=3):
    """Cells of one dataset: the same units, other losses and scores."""
    unit = np.repeat(["a", "b", "c"], 4)
    found = {}
    for cell in range(cells):
        loss = rng.integers(1, 6, (12, 2)) / 4
        table = table_of(loss[:, 0] - loss[:, 1], unit=unit, cheap=loss[:, 0])
        scores = {"dear": random_scores(rng, 12), "light": random_scores(rng, 12)}
        budgets = [deepval.Selection(0.3), deepval.Latency(0.3, COSTS)]
        found[f"cell {cell}"] = judge(table, scores, budgets, draws=draws, seed=6)
    return found


@pytest.mark.parametrize("draws", [25, "exact"])
def test_pooling_is_the_mean_of_each_draw(draws):
    rng = np.random.default_rng(4)
    for _ in range(6):
        cells = random_cells(rng, draws)
        pooled = pool(cells)
        keys = [
            (row.allocator, row.kind)
            for row in next(iter(cells.values())).rows
            if row.verdict
        ]
        assert [(item.allocator, item.kind) for item in pooled] == keys
        for position, item in enumerate(pooled):
            judged = [
                [j for j in basis(r).judged if j.row.verdict][position]
                for r in cells.values()
            ]
            if item.verdict == "infeasible":
                assert any(j.row.verdict == "infeasible" for j in judged)
                assert item.reason
                continue
            resamples = [basis(r).totals for r in cells.values()]
            number = len(resamples[0].draws)
            means, ndg = [], []
            ahead = [
                j.ahead_of_chance(totals)
                for j, totals in zip(judged, resamples, strict=True)
            ]
            for draw in range(1, number + 1):
                means.append(math.fsum(own[draw] for own in ahead) / 3)
                if all(j.prize[draw] >= j.prize[0] / 4 > 0 for j in judged):
                    ndg.append(
                        math.fsum(j.gains.gain[draw] / j.prize[draw] for j in judged)
                        / 3
                    )
            assert item.versus_random == pytest.approx(
                sum(j.row.versus_random for j in judged) / 3, abs=1e-12
            )
            assert (item.cells, item.draws, item.draws_dropped) == (
                3,
                number,
                number - len(ndg),
            )
            if all(j.row.ndg is not None for j in judged):
                assert item.ndg == pytest.approx(
                    sum(j.row.ndg for j in judged) / 3, abs=1e-12
                )
            if draws != "exact":
                low, high = np.percentile(means, [2.5, 97.5])
                assert (item.versus_random_lo, item.versus_random_hi) == pytest.approx(
                    (low, high), abs=1e-12
                )
                if ndg:
                    assert (item.ndg_lo, item.ndg_hi) == pytest.approx(
                        np.percentile(ndg, [2.5, 97.5]), abs=1e-12
                    )
            low, high = item.versus_random_lo, item.versus_random_hi
            assert item.verdict == (
                "better" if low > 0 else "worse" if high < 0 else "unresolved"
            )


def test_a_cell_pooled_with_itself_is_that_cell():
    (result,) = random_cells(np.random.default_rng(5), "exact", cells=1).values()
    rows = [row for row in result.rows if row.verdict]
    for row, item in zip(rows, pool({"one": result, "two": result}), strict=True):
        assert item.verdict == row.verdict
        if row.verdict != "infeasible":
            names = (
                "versus_random",
                "versus_random_lo",
                "versus_random_hi",
                "ndg",
                "ndg_lo",
                "ndg_hi",
            )
            assert [item[name] for name in names] == pytest.approx(
                [row[name] for name in names]
            )
            assert item.draws_dropped == row.draws_dropped


def test_cells_with_other_draws_are_refused():
    table = table_of([1.0, -1.0, 2.0], unit=["a", "a", "b"])
    other = table_of([1.0, -1.0, 2.0], unit=["c", "c", "d"])
    budget, score = [deepval.Selection(0.5)], {"mine": np.arange(3.0)}
    few, many = (
        judge(table, score, budget, draws=5),
        judge(table, score, budget, draws=6),
    )
    exact, elsewhere = (
        judge(table, score, budget, draws="exact"),
        judge(other, score, budget, draws="exact"),
    )
    for cells in ({"x": few, "y": many}, {"x": few, "y": exact}):
        with pytest.raises(InputError, match="as many draws of the same kind"):
            pool(cells)
    # As many draws, but of other units: draw 1 of one has nothing to do with draw 1 of
    # the other.
    with pytest.raises(InputError, match="same units"):
        pool({"x": exact, "y": elsewhere})


def test_cells_of_other_units_are_pooled_over_draws_of_their_own():
    """With one seed, draw 7 would take the first unit of both as often: they would move
    together for no reason.
    """
    names, budget = ("one", "other"), [deepval.Selection(0.5)]
    tables = [
        table_of([1.0, -1.0, 2.0, 0.5], unit=[u, u, v, v], cheap=3.0)
        for u, v in (("a", "b"), ("c", "d"))
    ]
    score = {"mine": np.array([0.0, 1.0, 2.0, 3.0])}

    def cells(*seeds):
        return {
            name: judge(table, score, budget, draws=40, seed=seed)
            for name, table, seed in zip(names, tables, seeds, strict=True)
        }

    with pytest.raises(InputError, match="'one'"):
        pool(cells(4, 4))
    apart = cells(4, 5)
    (found,) = pool(apart)
    ahead = []
    for result in apart.values():
        own = basis(result)
        (mine,) = (j for j in own.judged if j.row.verdict)
        ahead.append(mine.ahead_of_chance(own.totals)[1:41])
    mean = (ahead[0] + ahead[1]) / 2
    assert (found.versus_random_lo, found.versus_random_hi) == pytest.approx(
        tuple(np.percentile(mean, [2.5, 97.5]))
    )
    same = judge(tables[0], score, budget, draws=40, seed=5)
    with pytest.raises(InputError, match="'again'"):
        pool({"one": apart["one"], "again": same})


def test_cells_that_cannot_be_resampled_have_no_pooled_interval():
    single = judge(
        table_of([2.0, -1.0, 0.0]),
        {"mine": np.array([2.0, 1.0, 0.0])},
        [deepval.Selection(0.3)],
        draws=20,
    )
    assert single.row("mine", alpha=0.3).verdict is None
    (item,) = quietly(pool, {"one": single})
    assert item.versus_random == pytest.approx((2 - 1 / 3) / 2)
    assert (item.versus_random_lo, item.ndg_lo, item.verdict) == (None, None, None)
    assert "single unit" in item.reason


def test_cells_without_a_positive_loss_or_a_prize_say_why():
    unit, budget, score = (
        ["a", "b", "b"],
        [deepval.Selection(0.3)],
        {"mine": np.arange(3.0)},
    )
    fine = judge(table_of([2.0, -1.0, 1.0], unit=unit), score, budget, draws=20)
    negative = judge(
        table_of([2.0, -1.0, 1.0], unit=unit, cheap=-1.0), score, budget, draws=20
    )
    (item,) = pool({"fine": fine, "negative": negative})
    assert (item.versus_random, item.versus_random_lo, item.verdict) == (
        None,
        None,
        None,
    )
    assert "not positive" in item.reason
    flat = judge(
        table_of([0.0, -1.0, 0.0], unit=unit, cheap=1.0), score, budget, draws=20
    )
    (item,) = pool({"fine": fine, "flat": flat})
    assert (item.ndg, item.ndg_lo) == (None, None)
    assert "no nDG" in item.reason
