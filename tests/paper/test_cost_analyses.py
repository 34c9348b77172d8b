"""Analyses of cost: against loops that try everything on tiny cells, and the paper's
designs on generated values.
"""

import itertools
import json
import math
from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.driving.cells.folder import BuiltCell
from deepval.judge.draws import make_draws, seeds_by_units
from deepval.judge.report.figures import write_figure
from deepval.judge.report.figures.gain_figures import charged_levels
from deepval.judge.results import KINDS
from deepval.judge.tables.costs import PROFILES, Costs
from deepval.judge.tables.scores import align
from deepval.judge.tables.split import Split
from deepval.paper import study
from deepval.paper.analyses import (
    break_even,
    budgets,
    capacity,
    gaps,
    ladder,
    skipping,
    streams,
    uniform,
)
from reference.evaluation import best_gain, expected_top
from small_cells import build_cells
from tidy_rows import flat_means, flat_rows, study_cells
from worlds import COSTS, judge, table_of

BOARDS = {
    "kitti": ("jetson-agx-xavier", 4),
    "nuscenes": ("jetson-agx-xavier-nuscenes", 6),
    "nuplan": ("jetson-agx-xavier-nuplan", 2),
}
"""The paper's twelve cells: four of KITTI, six of nuScenes, two of PDM-Closed."""
LEARNED = tuple(
    f"{front}-{kind}"
    for front in ("router-mlp", "router-gbm")
    for kind in ("value", "binary")
)
LEARNED = ("gate-ridge", "gate-gbm", *LEARNED)
UNITS = np.repeat(list("abcdef"), 20)
HELD = ["e", "f"]


def board(name: str) -> Costs:
    return Costs.of(PROFILES[name]).with_modes(
        {"cheap": "yolov8s-320", "full": "yolov8s-640"}
    )


def world(seed: int, *, costs=None, inputs: int = 120):
    """A table in time order, and its decision values."""
    rng = np.random.default_rng(seed)
    values = np.where(
        rng.random(inputs) < 0.5, 0.0, np.round(rng.normal(0.3, 1, inputs), 2)
    )
    unit = UNITS if inputs == len(UNITS) else np.repeat(list("abcdef"), inputs // 6)
    order = np.tile(np.arange(inputs // 6), 6)
    return table_of(
        values, unit=unit, cheap=np.abs(values) + 1, order=order, costs=costs
    ), values


def paper_results(names, budgets_, *, boards=tuple(BOARDS), draws=0, **options):
    found = {}
    for data, (profile, number) in BOARDS.items():
        for cell in range(number if data in boards else 0):
            table, values = world(len(found), costs=board(profile), inputs=36)
            rng = np.random.default_rng(100 + len(found))
            scores = {name: values + rng.normal(size=len(values)) for name in names}
            found[f"{data}-{cell}"] = judge(
                table, scores, budgets_, draws=draws, **options
            )
    return found


@pytest.fixture(scope="module")
def causal():
    """The paper's twelve cells and six learned allocators at 20 and 50 % of measured
    latency, policies calibrated.
    """
    return paper_results(
        LEARNED, [deepval.Latency(a) for a in (0.2, 0.5)], calibration=HELD
    )


def test_the_papers_cells_have_62_feasible_rows(causal):
    rows = flat_rows(gaps.GAPS, study_cells(causal=causal), kinds=KINDS)
    assert len(rows) == 12 * 6 * 2
    feasible = [row for row in rows if row.feasible]
    count = {
        (a, n): sum((r.alpha, r.allocator) == (a, n) for r in feasible)
        for a in (0.2, 0.5)
        for n in LEARNED
    }
    assert {key: number for key, number in count.items() if number} == {
        (0.2, "router-mlp-value"): 12,
        (0.2, "router-mlp-binary"): 12,
        (0.5, "router-mlp-value"): 12,
        (0.5, "router-mlp-binary"): 12,
        (0.5, "gate-ridge"): 12,
        (0.2, "gate-ridge"): 2,
    }
    assert len(feasible) == 62
    assert {
        row.cell
        for row in feasible
        if (row.alpha, row.allocator) == (0.2, "gate-ridge")
    } == {
        "nuplan-0",
        "nuplan-1",
    }
    negative = sum(row.causal < 0 for row in feasible)
    assert (
        "62 of 144 rows are feasible; the causal "
        f"term is negative in {negative} of the 62"
    ) in gaps.tables(rows)[0].notes[0]


def capped(score, held, rate):
    """The causal cap, one input after the other: how much of each input is escalated,
    all units alike.
    """
    ordered = sorted(held, reverse=True)
    theta = next(
        s for s in ordered if sum(h >= s for h in ordered) >= rate * len(ordered) - 1e-9
    )
    above, tied = sum(h > theta for h in ordered), sum(h == theta for h in ordered)
    p, taken, seen_tied, out = min(1.0, (rate * len(ordered) - above) / tied), 0, 0, []
    for t, s in enumerate(score, 1):
        seen_tied += s == theta
        wanted = s > theta or (
            s == theta and math.floor(seen_tied * p) > math.floor((seen_tied - 1) * p)
        )
        go = wanted and taken < math.floor(1 + rate * t + 1e-9)
        taken += go
        out.append(bool(go))
    return out


def test_the_causal_term_is_that_of_a_loop_over_time():
    table, values = world(3, costs=COSTS)
    score = np.round(values + np.random.default_rng(8).normal(size=len(values)), 1)
    result = judge(
        table, {"light": score}, [deepval.Latency(0.3)], draws=0, calibration=HELD
    )
    (row,) = flat_rows(gaps.GAPS, study_cells(causal={"cell": result}), kinds=KINDS)
    rate = 0.3 - 0.5 / 8.0
    held, tested = np.isin(UNITS, HELD), ~np.isin(UNITS, HELD)
    go = [
        each
        for unit in "abcd"
        for each in capped(score[unit == UNITS], score[held], rate)
    ]
    own, number = values[tested], int(tested.sum())
    loss = (np.abs(own) + 1).sum()
    slots = math.floor(number * rate + 1e-9)
    ranked = float(
        expected_top(
            [Fraction(s) for s in score[tested]], [Fraction(v) for v in own], slots
        )
    )
    assert row.causal == pytest.approx((ranked - own[go].sum()) / loss)
    assert row.ranking == pytest.approx(
        (best_gain(own.tolist(), slots) - ranked) / loss
    )
    free = best_gain(own.tolist(), math.floor(number * 0.3 + 1e-9))
    assert row.overhead == pytest.approx((free - best_gain(own.tolist(), slots)) / loss)


def test_shares_left_are_those_of_the_papers_table():
    """Printed as nuScenes / KITTI at 20 and 50 %; rounded costs and whole inputs leave
    a tenth of a point.
    """
    printed = {
        "random": ((20.0, 20.0), (50.0, 50.0)),
        "uncertainty": ((18.5, 18.8), (48.5, 48.8)),
        "criticality": ((12.4, 12.9), (42.4, 42.9)),
        "router-mlp-value": ((16.6, 16.5), (46.6, 46.5)),
        "gate-ridge": ((None, None), (29.7, 28.7)),
        "gate-gbm-batched": ((1.7, 0.8), (31.7, 30.8)),
        "gate-gbm": ((None, None), (None, None)),
        "router-pixel": ((None, None), (None, 23.9)),
    }
    names, levels = (
        [name for name in printed if name != "random"],
        [deepval.Latency(a) for a in (0.2, 0.5)],
    )
    found = {}
    for data in ("nuscenes", "kitti"):
        costs = board(BOARDS[data][0])
        table, values = world(0, costs=costs, inputs=3000)
        found[data] = judge(table, {name: values for name in names}, levels, draws=0)
    rows = flat_means(
        budgets.BUDGETS, flat_rows(budgets.BUDGETS, study_cells(charged=found))
    )
    for name, shares in printed.items():
        for alpha, pair in zip((0.2, 0.5), shares, strict=True):
            for data, share in zip(found, pair, strict=True):
                full = board(BOARDS[data][0]).of_mode("full", "ms")
                (row,) = [
                    r
                    for r in rows
                    if (r.allocator, r.alpha, r.full_cost) == (name, alpha, full)
                ]
                assert (row.cells, row.infeasible) == (1, int(share is None))
                assert (
                    row.share is None
                    if share is None
                    else 100 * row.share == pytest.approx(share, abs=0.11)
                )


@pytest.fixture(scope="module")
def levelled():
    """Three cells with selection and latency budgets."""
    levels = [
        kind(a) for kind in (deepval.Selection, deepval.Latency) for a in (0.2, 0.5)
    ]
    found = paper_results(
        ("gate-ridge", "router-mlp-value", "router-gbm-value"),
        levels,
        boards=("kitti", "nuplan"),
    )
    return {name: found[name] for name in ("kitti-0", "kitti-1", "nuplan-0")}


def test_the_figure_of_levels_leaves_out_what_cannot_run(levelled, tmp_path):
    panels = budgets.levels(
        flat_rows(
            budgets.BUDGETS,
            study_cells(
                charged={name: levelled[name] for name in ("kitti-0", "nuplan-0")}
            ),
        )
    )
    assert [panel.cell for panel in panels] == ["kitti-0", "nuplan-0"]
    assert "router-gbm-value" not in panels[0].curves
    assert [alpha for alpha, _ in panels[0].curves["gate-ridge"]] == [0.5]
    assert panels[0].pairs["gate-ridge"][1] is None
    assert panels[1].pairs["gate-ridge"][1] is not None
    with pytest.raises(
        InputError, match="no allocator has an nDG under a measured budget"
    ):
        write_figure(tmp_path / "none.png", lambda: charged_levels([]))


def test_uniform_full_fidelity_meets_the_best_causal_allocator():
    levels = [deepval.Selection(0.5), deepval.Latency(0.5)]
    found = paper_results(
        ("router-mlp-value", "gate-ridge"),
        levels,
        boards=("kitti",),
        draws=20,
        calibration=HELD,
    )
    rows = flat_rows(uniform.UNIFORM, study_cells(causal=found))
    for row in rows:
        result = found[row.cell]
        loss = result.setting.cheap_loss
        caps = [
            s for s in result.streams if (s.kind, s.policy) == ("latency", "causal cap")
        ]
        best = max(caps, key=lambda s: s.gain)
        assert (row.best, row.feasible) == (best.allocator, 2)
        assert row.best_share == pytest.approx(best.gain / loss)
        own = result.row("all-full", "latency").gain / loss
        assert row.uniform == pytest.approx(own)
        assert row.difference == pytest.approx(own - best.gain / loss)
        assert row.leader == ("uniform" if own > best.gain / loss else "allocator")
        assert row.lo <= row.hi
        (at,) = [
            c
            for c in deepval.compare(result, "all-full", f"{best.allocator}@causal-cap")
            if c.budget == row.budget
        ]
        assert (row.lo, row.hi, row.verdict) == (at.lo, at.hi, at.verdict)
    (over,) = flat_means(uniform.UNIFORM, rows)
    assert (over.cells, over.fits, over.compared) == (4, 4, 4)
    assert over.leads == sum(row.leader == "uniform" for row in rows)
    ranked = flat_rows(uniform.UNIFORM, study_cells(causal=found), policy="ranking")
    assert {row.best_share for row in ranked} != {row.best_share for row in rows}
    with pytest.raises(InputError, match="policy must be one of"):
        flat_rows(uniform.UNIFORM, study_cells(causal=found), policy="hope")


def test_a_causal_comparison_needs_streams():
    table, values = world(0, costs=COSTS)
    result = judge(table, {"light": values}, [deepval.Latency(0.5)], draws=0)
    with pytest.raises(InputError, match="judge with calibration units"):
        flat_rows(uniform.UNIFORM, study_cells(causal={"cell": result}))


def test_skipping_has_the_papers_combinations_and_shares():
    """The pixel router can escalate anything on KITTI alone, at 30 and 50 %: 8 of 40
    combinations.
    """
    levels = [
        deepval.Latency(a, accounting=how)
        for how in ("cascade", "skipping")
        for a in (0.1, 0.2, 0.3, 0.5)
    ]
    found = paper_results(
        ("router-pixel",), levels, boards=("kitti", "nuscenes"), draws=20
    )
    rows = flat_rows(skipping.SKIPPING, study_cells(skipping=found))
    assert study.skippers() == ("ego-speed", "router-pixel")
    assert len(rows) == 40
    positive = [row for row in rows if row.share]
    assert {(row.cell[:5], row.alpha) for row in positive} == {
        ("kitti", 0.3),
        ("kitti", 0.5),
    }
    assert len(positive) == 8
    counts = flat_means(skipping.SKIPPING, rows)
    assert sum(count.positive for count in counts) == 8
    for verdict in ("better", "worse", "unresolved"):
        assert sum(count[verdict] for count in counts) == sum(
            row.verdict == verdict for row in positive
        )
    # To the tenth the paper's shares are those of 4.82 ms, which its table rounds to
    # 4.8.
    exact = Costs.of(
        {
            "modes": board("jetson-agx-xavier").modes,
            "allocators": {"router-pixel": {"ms": 4.82}},
        }
    )
    table, values = world(0, costs=exact, inputs=3000)
    result = judge(table, {"router-pixel": values}, levels, draws=0)
    (row,) = [
        row
        for row in flat_rows(skipping.SKIPPING, study_cells(skipping={"cell": result}))
        if row.alpha == 0.5
    ]
    # 2,503 of 3,000
    assert (round(100 * row.share, 1), round(100 * row.cascade_share, 1)) == (
        83.4,
        23.9,
    )
    assert round(100 * (0.5 * 18.47 - 4.82) / (18.47 - 13.18), 1) == 83.5


def test_skipping_needs_its_budgets():
    table, values = world(0, costs=COSTS)
    result = judge(table, {"light": values}, [deepval.Latency(0.5)], draws=0)
    with pytest.raises(InputError, match="is judged under skipping budgets"):
        flat_rows(
            skipping.SKIPPING,
            study_cells(skipping={"cell": result}),
            allocators=["light"],
        )


def cell_of(table, *, test=("a", "b", "c", "d"), validation=("e", "f")) -> BuiltCell:
    """A cell that is its table and its split."""
    cell = object.__new__(BuiltCell)
    cell.__dict__.update(table=table, split=Split("made", (), validation, test))
    return cell


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_break_even_sets_hold_what_scoring_at_that_cost_does(seed):
    rng = np.random.default_rng(seed)
    number = int(rng.integers(2, 9))
    values, score = (
        rng.integers(-3, 4, number) / 2,
        rng.integers(0, 3, number).astype(float),
    )
    cell = cell_of(
        table_of(values, unit=np.full(number, "a"), cheap=3.0, costs=COSTS),
        test=("a",),
        validation=(),
    )
    alpha = float(rng.choice([0.2, 0.3, 0.5, 1.0]))
    scores = {"cell": {"light": align(cell.table, "light", score)}}
    (row,) = flat_rows(
        break_even.BREAK_EVEN,
        study_cells({"cell": cell}, scores_with_cost=scores),
        budgets=[deepval.Latency(alpha)],
    )
    exact = (
        [Fraction(v) for v in values.tolist()],
        [Fraction(s) for s in score.tolist()],
    )
    chance = Fraction(math.floor(number * alpha + 1e-9), number) * sum(exact[0])
    for cost in np.linspace(0, 8, 41):
        if cost > alpha * 8:
            reached = False
        else:
            slots = max(0, math.floor(number * (alpha - cost / 8) + 1e-9))
            reached = expected_top(exact[1], exact[0], slots) >= chance
        inside = any(low < cost <= high or cost == low == 0 for low, high in row.spans)
        near = any(abs(cost - bound) < 1e-6 for span in row.spans for bound in span)
        assert inside == reached or near
    assert row.largest == (row.spans[-1][1] if row.spans else None)
    assert (row.cost, row.inside) == (
        0.5,
        any(low < 0.5 <= high for low, high in row.spans),
    )


@settings(max_examples=60)
@given(
    st.lists(st.integers(-2, 2), min_size=1, max_size=7),
    st.sampled_from([0.2, 0.5, 0.8, 1.0]),
)
def test_capacity_and_quota_differ_where_harm_is_forced(values, alpha):
    cell = cell_of(
        table_of(values, unit=["a"] * len(values), cheap=2.0),
        test=("a",),
        validation=(),
    )
    (row,) = flat_rows(capacity.CAPACITY, study_cells({"cell": cell}), alphas=[alpha])
    number = math.floor(alpha * len(values) + 0.5)
    exactly = max(sum(chosen) for chosen in itertools.combinations(values, number))
    at_most = max(
        sum(chosen)
        for k in range(number + 1)
        for chosen in itertools.combinations(values, k)
    )
    assert (row.quota, row.quota_gain, row.capacity_gain) == (number, exactly, at_most)
    assert row.not_harmed == sum(value >= 0 for value in values)
    assert row.coincide == (row.not_harmed >= number)
    assert row.coincide == (exactly == at_most)
    assert row.forced_share == pytest.approx((at_most - exactly) / (2.0 * len(values)))


LADDER = {
    "modes": {
        "low": {"ms": 2.0, "mj": 5.0},
        "mid": {"ms": 3.0, "mj": 6.0},
        "top": {"ms": 4.0, "mj": 12.0},
    },
    "allocators": {},
}


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_a_ladder_is_the_best_of_all_plans(seed):
    rng = np.random.default_rng(seed)
    losses = {mode: rng.integers(0, 5, 4).astype(float) for mode in LADDER["modes"]}
    losses["low"] += 1
    table = deepval.ValueTable.from_columns(
        unit=list("aabb"), input=list("wxyz"), losses=losses, costs=LADDER
    )
    budgets_ = [deepval.Latency(0.5), deepval.Energy(0.5)]
    rows = flat_rows(
        ladder.LADDER,
        study_cells({"cell": cell_of(table, test=("a", "b"), validation=())}),
        budgets=budgets_,
    )
    for row, unit in zip(rows, ("ms", "mj"), strict=True):
        each = {
            c: [0.0, *(LADDER["modes"][mode][c] for mode in ("mid", "top"))]
            for c in ("ms", "mj")
        }
        limit = {c: 4 * 0.5 * each[c][2] for c in each}
        gains = np.column_stack(
            [losses["low"] - losses[mode] for mode in LADDER["modes"]]
        )
        plans = {
            plan: sum(gains[i, m] for i, m in enumerate(plan))
            for plan in itertools.product(range(3), repeat=4)
            if sum(each[unit][m] for m in plan) <= limit[unit]
        }
        best = max(plans.values())
        top = max(gain for plan, gain in plans.items() if 1 not in plan)
        assert row.optimum_share == pytest.approx(best / losses["low"].sum())
        assert row.top_only_share == (pytest.approx(top / best) if best > 0 else None)
        assert row.worth_more == (pytest.approx(best / top - 1) if top > 0 else None)
        spent = {
            c: sum(n * cost for n, cost in zip(row.planned, each[c], strict=True))
            for c in each
        }
        for c in each:
            assert row[f"excess_{c}"] == pytest.approx(spent[c] / limit[c] - 1)
        assert spent[unit] <= limit[unit]
        assert sum(row.planned) == row.inputs == 4
        assert row.relative_cost == tuple(
            LADDER["modes"][m][unit] / LADDER["modes"]["top"][unit] for m in row.modes
        )


def _other(table, scores):
    """The first three units under other names, and those held."""
    kept = table.restrict([*"abc", *HELD])
    names = {"a": "g", "b": "h", "c": "i"}
    unit = [names.get(u, u) for u in np.array(kept.unit_ids)[kept.unit]]
    losses = {mode: kept.losses[:, m] for m, mode in enumerate(kept.modes)}
    made = deepval.ValueTable.from_columns(
        unit=unit, input=kept.input, losses=losses, order=kept.order
    )
    inside = np.isin(UNITS, kept.unit_ids)
    return made, {name: score[inside] for name, score in scores.items()}


@pytest.fixture(scope="module")
def streamed():
    """Two cells of the same units and one of others, two allocators and controls."""
    results, units = (
        {},
        {"one": list("abcd"), "two": list("abcd"), "three": list("ghi")},
    )
    for place, (name, seed) in enumerate(seeds_by_units(units, 5).items()):
        table, values = world(place)
        rng = np.random.default_rng(place)
        scores = {
            each: np.round(values + rng.normal(size=len(values)), 1)
            for each in ("good", "other")
        }
        scores |= study.control_scores(len(values), 2)
        if name == "three":
            table, scores = _other(table, scores)
        results[name] = judge(
            table,
            scores,
            [deepval.Selection(0.2)],
            draws=15,
            seed=seed,
            calibration=HELD,
        )
        results[name].__dict__["made"] = (table, scores, seed)
    return results


def test_streams_pool_draw_by_draw(streamed):
    """The mean over cells and allocators in every draw, from plain loops over the
    draws' inputs.
    """
    rows = {
        (row.policy, row.allocator): row
        for row in flat_rows(streams.STREAMS, study_cells(streamed=streamed))
    }
    for policy in ("frozen threshold", "causal cap"):
        per_row = {}
        for cell, result in streamed.items():
            table, scores, seed = result.__dict__["made"]
            judged = table.restrict([u for u in table.unit_ids if u not in HELD])
            unit = np.array(judged.unit_ids)[judged.unit]
            held = np.isin(np.array(table.unit_ids)[table.unit], HELD)
            values = judged.decision_values
            counts = make_draws(len(judged.unit_ids), 15, seed).counts
            for name in ("good", "other"):
                own, other = scores[name][~held], scores[name][held]
                go = np.concatenate(
                    [capped(own[unit == u], other, 0.2) for u in judged.unit_ids]
                ).astype(float)
                if policy == "frozen threshold":
                    found = deepval.judge.streaming.FrozenThreshold.calibrate(
                        other, 0.2
                    )
                    go = (own > found.theta) + found.tie_acceptance * (
                        own == found.theta
                    )
                seen = []
                for count in [np.ones(len(judged.unit_ids)), *counts]:
                    rows_ = np.repeat(
                        np.arange(len(values)), count[judged.unit].astype(int)
                    )
                    slots = math.floor(0.2 * len(rows_) + 0.5)
                    prize = best_gain(values[rows_].tolist(), slots)
                    ranked = float(
                        expected_top(own[rows_].tolist(), values[rows_].tolist(), slots)
                    )
                    seen.append((float(go[rows_] @ values[rows_]) - ranked) / prize)
                per_row[cell, name] = seen
        for allocator in ("all", "good", "other"):
            wanted = [
                seen
                for (_, name), seen in per_row.items()
                if allocator in ("all", name)
            ]
            mean = np.mean(wanted, axis=0)
            row = rows[policy, allocator]
            assert row.rows == row.compared == len(wanted)
            assert row.difference == pytest.approx(mean[0])
            assert (row.lo, row.hi) == pytest.approx(
                tuple(np.percentile(mean[1:], [2.5, 97.5]))
            )
            assert (row.draws, row.dropped) == (15, 0)


def test_streams_count_rows_that_miss_the_rate(streamed):
    rows = flat_rows(streams.STREAMS, study_cells(streamed=streamed))
    assert {row.allocator for row in rows} == {"all", "good", "other", "random scores"}
    for row in rows:
        names = {
            "all": ("good", "other"),
            "random scores": tuple(study.control_scores(1, 2)),
        }.get(row.allocator, (row.allocator,))
        own = [
            s
            for r in streamed.values()
            for s in r.streams
            if s.policy == row.policy and s.allocator in names
        ]
        assert row.rows == len(own) == 3 * len(names)
        assert row.missed == sum(abs(s.rate - 0.2) > 0.05 + 1e-12 for s in own)
        assert row.rate == pytest.approx(median(s.rate for s in own))
        assert row.better == sum(s.verdict == "better" for s in own)
        if row.policy == "token bucket":
            assert row.unbounded == sum(s.parameter is None for s in own)
    assert "random scores know nothing" in streams.tables(rows)[0].notes[-1]


def test_streams_need_calibration_units():
    table, values = world(0)
    with pytest.raises(InputError, match="the result has no streams"):
        flat_rows(
            streams.STREAMS,
            study_cells(streamed={"cell": judge(table, {"mine": values}, draws=5)}),
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cell of the synthetic world with scores beside it."""
    folder = (
        build_cells(tmp_path_factory.mktemp("cells"), systems=("braking",))
        / "braking-monocular"
    )
    for name in ("ego-speed", "criticality"):
        call("score", folder, name, "--units", "all")
    return folder


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("budgets", "--draws", "10"), ("rows", "over_cells")),
        (("break-even",), ("rows", "over_cells")),
        (("gaps", "-a", "gate-ridge"), ("rows", "over_cells")),
        (("uniform", "-a", "ego-speed", "--draws", "0"), ("rows", "over_cells")),
        (("skipping", "--draws", "0"), ("rows", "over_cells")),
        (("streams", "-a", "ego-speed", "--controls", "1", "--draws", "10"), None),
        (("capacity",), None),
    ],
)
def test_commands_tell_rows_and_what_they_come_to(words, parts, built, capsys):
    name, *rest = words
    charged_ = (
        [] if name in ("streams", "capacity") else ["--costs", "jetson-agx-xavier"]
    )
    call("analyse", name, built, *rest, *charged_, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told if parts is None else set(told) == set(parts)
    assert parts is None or all(told[part] for part in parts)


@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_commands_write_tables_and_figures(built, tmp_path, capsys):
    words = [
        "analyse",
        "budgets",
        str(built),
        "--costs",
        "jetson-agx-xavier",
        "--alpha",
        "0.2",
        "--draws",
        "0",
    ]
    call(*words, "--figure", tmp_path / "levels.png")
    assert "Share of inputs left after paying for oneself" in capsys.readouterr().out
    assert (tmp_path / "levels.png").read_bytes().startswith(b"\x89PNG")
    call(*words, "--format", "csv")
    assert capsys.readouterr().out.startswith("cell,allocator,kind,alpha")
