"""APGR, call-performance thresholds and areas between gain curves against sums over
every way to break ties.
"""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import deepval
from deepval.basics.errors import InputError
from deepval.judge.report import console
from deepval.judge.tie_expectations import cumulative_gain
from worlds import judge, random_scores, random_table, table_of


def mean_curve(score, values):
    """Gain after k escalations, a mean over all orders that the score allows."""
    curves = [
        np.cumsum(np.append(0.0, values[list(order)]))
        for order in itertools.permutations(range(len(score)))
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order))
    ]
    return np.mean(curves, axis=0)


def area_below(curve):
    return float(((curve[1:] + curve[:-1]) / 2).mean())


def first_share(curve, level):
    """Where a curve through (k/N, gain) first reaches a level."""
    for k, (low, high) in enumerate(itertools.pairwise(curve)):
        if low < level <= high + 1e-12:
            return (k + (level - low) / (high - low)) / (len(curve) - 1)
    return 0.0 if level <= 0 else None


@given(st.integers(0, 10**6))
@example(22460)  # values that sum to one rounding error
def test_recovery_is_a_mean_over_all_ways_to_break_ties(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng, inputs=int(rng.integers(1, 7)), units=3)
    score, values = random_scores(rng, len(table)), table.decision_values
    result = judge(table, {"mine": score}, [deepval.Selection(0.5)], draws=3)
    curve, total = mean_curve(score, values), values.sum()
    np.testing.assert_allclose(curve, cumulative_gain(score, values), atol=1e-9)
    mine, best = result.apgr([0.3, 0.5, 1.0])
    assert (mine.allocator, best.allocator) == ("mine", "oracle")
    assert result.area("mine", "random").loss == pytest.approx(
        area_below(curve) - total / 2, abs=1e-9
    )
    if total <= 1e-12:
        assert mine.apgr is None
        assert mine.verdict is None
        assert "no gap to recover" in mine.reason
        return
    assert mine.apgr == pytest.approx(area_below(curve) / total)
    assert best.apgr >= mine.apgr - 1e-9
    for call in mine.calls:
        assert call.share == pytest.approx(
            first_share(curve, call.recovered * total), abs=1e-7
        )
    assert result.cpt("mine", 0.5).share == mine.calls[1].share


def test_every_draw_is_a_table_of_its_own():
    rng = np.random.default_rng(4)
    table = table_of(rng.normal(0.4, 1, 12), unit=np.repeat(list("abcd"), 3), cheap=3.0)
    scores = {
        "mine": rng.normal(size=12),
        "other": rng.integers(0, 3, 12).astype(float),
    }
    result = judge(table, scores, [deepval.Selection(0.5)], draws=60, seed=5)
    units, values = len(table.unit_ids), table.decision_values
    picks = np.random.Generator(np.random.PCG64(5)).integers(0, units, (60, units))
    apgr, areas = [], []
    for pick in picks:
        rows = np.array([i for u in pick for i in np.flatnonzero(table.unit == u)])
        below = {
            n: area_below(cumulative_gain(s[rows], values[rows]))
            for n, s in scores.items()
        }
        areas.append(below["mine"] - below["other"])
        if values[rows].sum() > 0:
            apgr.append(below["mine"] / values[rows].sum())
    mine = result.apgr()[0]
    found = result.area("mine", "other")
    assert mine.dropped == 60 - len(apgr)
    assert 0 < len(apgr) <= 60
    assert (mine.apgr_lo, mine.apgr_hi) == pytest.approx(
        tuple(np.quantile(apgr, [0.025, 0.975]))
    )
    assert (found.loss_lo, found.loss_hi) == pytest.approx(
        tuple(np.quantile(areas, [0.025, 0.975])), abs=1e-12
    )
    assert result.area("other", "mine").loss == pytest.approx(-found.loss)


def test_two_lines_that_can_be_checked_by_hand():
    # Values 2, 1, 1 in the order of the score: gains 0, 2, 3, 4. Area (0+2)/2 +
    # (2+3)/2 + (3+4)/2 = 7, over 3: 7/3.
    table = table_of([2.0, 1.0, 1.0], unit=["a", "b", "c"])
    result = judge(
        table,
        {"mine": [3.0, 2.0, 1.0], "coin": [0.0, 0.0, 0.0]},
        [deepval.Selection(0.5)],
        draws="exact",
    )
    mine, coin, best = result.apgr()
    assert mine.apgr == pytest.approx(7 / 3 / 4) == best.apgr
    assert coin.apgr == pytest.approx(0.5)
    assert coin.verdict == "unresolved"
    # 0.8, 2 and 3.2 of 4
    assert [call.share for call in mine.calls] == pytest.approx(
        [0.4 / 3, 1 / 3, 2.2 / 3]
    )
    assert [call.share for call in coin.calls] == pytest.approx([0.2, 0.5, 0.8])
    assert result.area("mine", "coin").difference == pytest.approx((7 / 3 - 2) / 4)
    assert result.area("mine").loss == pytest.approx(1 / 3)


def test_results_keep_recovery_where_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    table = random_table(rng, inputs=20, units=4)
    result = judge(
        table,
        {"mine": table.decision_values + rng.normal(size=20)},
        [deepval.Selection(0.5)],
        draws=20,
    )
    result.save(tmp_path / "bare.json")
    bare = deepval.Result.load(tmp_path / "bare.json")
    with pytest.raises(InputError, match="APGR needs the"):
        bare.apgr()
    from dataclasses import replace

    kept = replace(result, recovery=result.apgr())
    kept.save(tmp_path / "kept.json")
    again = deepval.Result.load(tmp_path / "kept.json")
    assert again.apgr() == result.apgr()
    text = console.render(kept, width=160)
    assert "Performance gap recovered" in text
    assert "CPT(80%)" in text


def test_names_that_have_no_curve_are_refused():
    result = judge(
        table_of([1.0, 2.0], unit=["a", "b"]),
        {"router": [1.0, 2.0]},
        [deepval.Selection(0.5)],
        draws=0,
    )
    with pytest.raises(InputError, match="'rooter'"):
        result.area("rooter", "random")
    with pytest.raises(
        InputError, match=r"has no CPT of 'rooter'; it has router, oracle"
    ):
        result.cpt("rooter")
    with pytest.raises(InputError, match=r"alpha must be a share"):
        result.cpt("router", 1.5)


def test_the_commands_tell_of_whole_curves(tmp_path, capsys):
    import json

    from commands import call

    rng = np.random.default_rng(2)
    values = tmp_path / "values.csv"
    lines = [
        f"u{i // 5},q{i},{rng.random():.6f},{rng.random() * 0.5:.6f}" for i in range(40)
    ]
    values.write_text("\n".join(["unit,input,loss_s,loss_l", *lines]) + "\n")
    files = []
    for name in ("one", "two"):
        files.append(str(tmp_path / f"{name}.csv"))
        rows = [f"q{i},{rng.random():.6f}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["input,score", *rows]) + "\n")
    few = ("--alpha", "0.5", "--draws", "20", "--json")
    call("evaluate", values, "-s", *files, *few, "--apgr")
    told = json.loads(capsys.readouterr().out)
    assert [row["allocator"] for row in told["recovery"]] == ["one", "two", "oracle"]
    call("compare", values, *files, *few, "--of", "area")
    area = json.loads(capsys.readouterr().out)
    assert (area["candidate"], area["baseline"]) == ("one", "two")
    assert area["lo"] <= area["difference"] <= area["hi"]
