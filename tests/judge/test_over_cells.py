"""Two allocators over several cells: a twin that adds inputs one by one, and laws that
hold whatever the cells.
"""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from commands import call
from deepval.basics.errors import InputError, InputWarning
from deepval.judge.draws import child_seeds
from deepval.judge.pairs import check_statistic, compare
from deepval.judge.pooled import compare_over, pool
from worlds import COSTS, judge, quietly, random_scores, table_of

FLIPPED = {"better": "worse", "worse": "better", "unresolved": "unresolved", None: None}
UNITS = ("a", "b", "c", "d")
PLACE = {
    "gain": lambda v: v,
    "benefit": lambda v: max(v, 0.0),
    "harm": lambda v: max(-v, 0.0),
}


def cell_of(rng, *, units=UNITS, seed=6, draws=25, inputs=16, **options):
    """A cell of these units with losses and scores of its own, judged at 30 %."""
    unit = np.array([units[i % len(units)] for i in range(inputs)])
    loss = rng.integers(0, 6, (inputs, 2)) / 4
    table = table_of(
        loss[:, 0] - loss[:, 1], unit=unit, cheap=loss[:, 0], order=np.arange(inputs)
    )
    scores = {"dear": random_scores(rng, inputs), "light": random_scores(rng, inputs)}
    budgets = options.pop("budgets", [deepval.Selection(0.3)])
    return (
        table,
        scores,
        judge(table, scores, budgets, draws=draws, seed=seed, **options),
    )


def reached(table, score, counts, of, *, alpha=0.3):
    """What the highest scores of a draw reach, ties shared out, input by input; and the
    draw's all-cheap loss.
    """
    drawn = [i for i in range(len(table)) for _ in range(int(counts[table.unit[i]]))]
    k = math.floor(alpha * len(drawn) + 0.5)
    ordered = sorted(drawn, key=lambda i: -score[i])
    total = 0.0
    if k:
        cut = score[ordered[k - 1]]
        above = [i for i in drawn if score[i] > cut]
        tied = [i for i in drawn if score[i] == cut]
        worth = PLACE[of]
        total = math.fsum(worth(table.decision_values[i]) for i in above)
        total += (
            (k - len(above))
            / len(tied)
            * math.fsum(worth(table.decision_values[i]) for i in tied)
        )
    return total, math.fsum(table.losses[i, 0] for i in drawn)


@pytest.mark.parametrize("of", ["gain", "benefit", "harm"])
def test_over_cells_matches_a_twin_that_adds_inputs_one_by_one(of):
    rng = np.random.default_rng(1)
    for _ in range(4):
        made = [cell_of(rng) for _ in range(3)]
        (found,) = compare_over(
            {str(i): result for i, (*_, result) in enumerate(made)},
            "dear",
            "light",
            of=of,
        )
        numbers = np.random.Generator(np.random.PCG64(6)).integers(0, 4, (25, 4))
        means = []
        for picked in [[0, 1, 2, 3], *numbers]:
            counts = np.bincount(picked, minlength=4)
            shares = []
            for table, scores, _ in made:
                ours, loss = reached(table, scores["dear"], counts, of)
                theirs, _ = reached(table, scores["light"], counts, of)
                shares.append((ours - theirs) / loss)
            means.append(math.fsum(shares) / 3)
        assert found.difference == pytest.approx(means[0], abs=1e-12)
        low, high = np.percentile(means[1:], [2.5, 97.5])
        assert (found.lo, found.hi) == pytest.approx((low, high), abs=1e-12)
        assert found.spread == pytest.approx(np.std(means[1:]), abs=1e-12)
        good, bad = (-high, -low) if of == "harm" else (low, high)
        assert found.verdict == (
            "better" if good > 1e-12 else "worse" if bad < -1e-12 else "unresolved"
        )
        assert (found.cells, found.draws, found.dropped, found.of) == (3, 25, 0, of)
        alone = [
            compare(result, "dear", "light", of=of)[0].verdict for *_, result in made
        ]
        assert (found.cells_better, found.cells_worse) == (
            alone.count("better"),
            alone.count("worse"),
        )


@pytest.mark.parametrize(
    "policy", ["frozen-threshold", "causal-cap", "adaptive-threshold", "token-bucket"]
)
def test_streams_over_cells_match_units_judged_alone(policy):
    rng = np.random.default_rng(2)
    held = ("x", "y")
    made = [
        cell_of(rng, units=(*UNITS, *held), inputs=30, calibration=held)
        for _ in range(2)
    ]
    cells = {str(i): result for i, (*_, result) in enumerate(made)}
    for of in ("gain", "benefit", "harm"):
        (found,) = compare_over(cells, f"dear@{policy}", f"light@{policy}", of=of)
        shares = []
        for table, scores, result in made:
            alone = [
                judge(
                    table,
                    scores,
                    [deepval.Selection(0.3)],
                    draws=0,
                    units=[u],
                    calibration=held,
                )
                for u in UNITS
            ]
            word = policy.replace("-", " ")
            parts = {
                name: np.array(
                    [
                        next(
                            s
                            for s in r.streams
                            if (s.allocator, s.policy) == (name, word)
                        )[of]
                        for r in alone
                    ]
                )
                for name in scores
            }
            losses = np.array([r.setting.cheap_loss for r in alone])
            counts = np.vstack([np.ones((1, 4)), result.samples.counts])
            shares.append(counts @ (parts["dear"] - parts["light"]) / (counts @ losses))
        mean = np.mean(shares, axis=0)
        assert found.difference == pytest.approx(mean[0], abs=1e-12)
        assert (found.lo, found.hi) == pytest.approx(
            np.percentile(mean[1:], [2.5, 97.5]), abs=1e-12
        )
        missed = [
            any(
                s.rate_missed for s in r.streams if s.policy == policy.replace("-", " ")
            )
            for r in cells.values()
        ]
        assert found.rates_missed == sum(missed)


def test_a_stream_against_its_own_ranking_is_what_the_stream_row_says():
    rng = np.random.default_rng(3)
    _, _, result = cell_of(rng, units=(*UNITS, "x"), inputs=30, calibration=["x"])
    for row in result.streams:
        name = f"{row.allocator}@{row.policy.replace(' ', '-')}"
        (behind,) = compare(result, name, f"{row.allocator}@ranking")
        assert behind.ndg_difference == pytest.approx(row.versus_ranking, abs=1e-12)
        (random,) = compare(result, name, "random")
        assert (random.difference, random.lo, random.hi) == (
            row.versus_random,
            row.versus_random_lo,
            row.versus_random_hi,
        )
        assert random.verdict == row.verdict


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    number=st.integers(1, 4),
    of=st.sampled_from(["gain", "benefit", "harm"]),
)
def test_the_other_way_round_and_in_another_order(seed, number, of):
    rng = np.random.default_rng(seed)
    cells = {str(i): cell_of(rng, draws=15)[2] for i in range(number)}
    (there,) = compare_over(cells, "dear", "light", of=of)
    (back,) = compare_over(cells, "light", "dear", of=of)
    shuffled = {name: cells[name] for name in rng.permutation(list(cells)).tolist()}
    assert compare_over(shuffled, "dear", "light", of=of) == (there,)
    assert there.verdict == FLIPPED[back.verdict]
    assert there.dropped == back.dropped
    assert (there.cells_better, there.cells_worse) == (
        back.cells_worse,
        back.cells_better,
    )
    if there.difference is not None:
        assert there.difference == pytest.approx(-back.difference, abs=1e-15)
        assert (there.lo, there.hi) == pytest.approx((-back.hi, -back.lo), abs=1e-12)
    if there.ndg_lo is not None:
        assert (there.ndg_lo, there.ndg_hi) == pytest.approx(
            (-back.ndg_hi, -back.ndg_lo), abs=1e-12
        )


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    of=st.sampled_from(["gain", "benefit", "harm"]),
    draws=st.sampled_from([15, "exact"]),
)
def test_over_one_cell_it_is_the_comparison_itself(seed, of, draws):
    rng = np.random.default_rng(seed)
    budgets = [deepval.Selection(0.3), deepval.Latency(0.3, COSTS)]
    result = cell_of(rng, draws=draws, budgets=budgets)[2]
    for names in (("light", "random"), ("dear", "light"), ("all-full", "light")):
        alone, over = (
            compare(result, *names, of=of),
            compare_over({"one": result}, *names, of=of),
        )
        for one, pooled in zip(alone, over, strict=True):
            parts = (
                "difference",
                "lo",
                "hi",
                "spread",
                "verdict",
                "draws",
                "dropped",
                "budget",
            )
            assert [getattr(one, part) for part in parts] == [
                getattr(pooled, part) for part in parts
            ]
            if one.ndg_difference is not None:
                assert pooled.ndg_difference == pytest.approx(
                    one.ndg_difference, abs=1e-12
                )


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), number=st.integers(1, 3))
def test_benefit_less_harm_is_gain_and_random_is_what_pool_compares_with(seed, number):
    rng = np.random.default_rng(seed)
    cells = {str(i): cell_of(rng, draws=15)[2] for i in range(number)}
    parts = {
        of: compare_over(cells, "dear", "random", of=of)[0]
        for of in ("gain", "benefit", "harm")
    }
    differences = {of: row.difference for of, row in parts.items()}
    pooled = next(row for row in pool(cells) if row.allocator == "dear")
    if differences["gain"] is None:
        assert pooled.versus_random is None
        return
    assert differences["benefit"] - differences["harm"] == pytest.approx(
        differences["gain"], abs=1e-12
    )
    row = parts["gain"]
    assert (row.difference, row.lo, row.hi) == pytest.approx(
        (pooled.versus_random, pooled.versus_random_lo, pooled.versus_random_hi),
        abs=1e-12,
    )
    assert (row.verdict, row.dropped) == (pooled.verdict, pooled.versus_random_dropped)


def test_draws_that_cannot_be_compared_are_counted():
    unit = ["a", "a", "b", "b"]
    fine = judge(
        table_of([1.0, -1.0, 2.0, 0.5], unit=unit, cheap=2.0),
        {"dear": np.arange(4.0), "light": -np.arange(4.0)},
        [deepval.Selection(0.5)],
        draws=200,
    )
    # Unit a alone has no all-cheap loss, and the two differ there.
    empty = judge(
        table_of([0.0, -1.0, 2.0, 0.5], unit=unit, cheap=[0.0, 0.0, 3.0, 3.0]),
        {"dear": np.arange(4.0), "light": -np.arange(4.0)},
        [deepval.Selection(0.5)],
        draws=200,
    )
    (found,) = compare_over({"fine": fine, "empty": empty}, "dear", "light")
    only_a = int((fine.samples.counts[:, 1] == 0).sum())
    assert 0 < only_a == found.dropped
    assert compare(empty, "dear", "light")[0].dropped == only_a
    assert pool({"fine": fine, "empty": empty})[0].versus_random_dropped == only_a


def test_cells_of_other_units_have_draws_of_their_own():
    rng = np.random.default_rng(5)
    seeds = child_seeds(0, 2)
    one = cell_of(rng, seed=seeds[0])[2]
    other = cell_of(rng, units=("p", "q", "r"), seed=seeds[1])[2]
    (found,) = compare_over({"one": one, "other": other}, "dear", "light")
    mean = np.mean([compare(r, "dear", "light")[0].difference for r in (one, other)])
    assert found.difference == pytest.approx(mean, abs=1e-15)
    same_seed = cell_of(rng, units=("p", "q", "r"), seed=seeds[0])[2]
    with pytest.raises(InputError, match="draws of another seed"):
        compare_over({"one": one, "other": same_seed}, "dear", "light")
    other_seed = cell_of(rng, seed=seeds[1])[2]
    with pytest.raises(InputError, match="must share their draws"):
        compare_over({"one": one, "other": other_seed}, "dear", "light")
    partly = cell_of(rng, units=("a", "b", "z"), seed=seeds[1])[2]
    with pytest.warns(InputWarning, match="share 2 of their units"):
        compare_over({"one": one, "partly": partly}, "dear", "light")


def test_what_cannot_be_compared_over_cells_is_said():
    rng = np.random.default_rng(6)
    first = cell_of(rng, budgets=[deepval.Latency(0.3, COSTS)])[2]
    second = cell_of(rng, budgets=[deepval.Latency(0.3, COSTS)])[2]
    cells = {"first": first, "second": second}
    (candidate,) = compare_over(cells, "dear", "light")
    assert candidate.verdict == "infeasible"
    assert "dear: infeasible" in candidate.reason
    assert "(first)" in candidate.reason
    (baseline,) = compare_over(cells, "light", "dear")
    assert (baseline.verdict, baseline.difference) == (None, None)
    with pytest.raises(InputError, match="no allocator 'yours'"):
        compare_over(cells, "yours", "dear")
    with pytest.raises(InputError, match="causal policy, and the result has none"):
        compare_over(cells, "light@causal-cap", "dear")
    with pytest.raises(InputError, match="gain, benefit, harm; found 'loss'"):
        check_statistic("loss")
    with pytest.raises(InputError, match="at least one cell"):
        compare_over({}, "light", "dear")
    with pytest.raises(InputError, match="no budget that every cell"):
        compare_over({"first": first, "other": cell_of(rng)[2]}, "light", "dear")


def test_streams_are_compared_after_loading_too(tmp_path):
    rng = np.random.default_rng(7)
    result = cell_of(rng, units=(*UNITS, "x"), inputs=30, calibration=["x"])[2]
    result.save(tmp_path / "result.json", samples=True)
    loaded = deepval.Result.load(tmp_path / "result.json")
    names = "dear@token-bucket", "light@frozen-threshold"
    assert compare_over({"c": loaded}, *names) == compare_over({"c": result}, *names)


def files(folder, rng, *, units=UNITS, name="values"):
    """A values file, and the scores of two allocators for all its inputs."""
    table, scores, _ = cell_of(rng, units=units, inputs=30, draws=0)
    columns = zip(table.unit_ids[table.unit], table.losses.tolist(), strict=True)
    lines = [
        f"{unit},{i},{i},{cheap},{full}"
        for i, (unit, (cheap, full)) in enumerate(columns)
    ]
    (folder / f"{name}.csv").write_text(
        "\n".join(["unit,input,order,loss_cheap,loss_full", *lines]) + "\n"
    )
    for allocator, score in scores.items():
        rows = [f"{i},{v}" for i, v in enumerate(score)]
        (folder / f"{allocator}.csv").write_text(
            "\n".join(["input,score", *rows]) + "\n"
        )
    return folder / f"{name}.csv"


def compared(*words):
    return json.loads(
        quietly(call, "compare", *words, "--json", "--draws", "40", "--alpha", "0.3")
    )


def test_the_command_compares_over_files_in_any_order(tmp_path):
    rng = np.random.default_rng(8)
    one, two = files(tmp_path, rng), files(tmp_path, rng, name="more")
    other = files(tmp_path, rng, units=("p", "q", "r"), name="other")
    pair = tmp_path / "dear.csv", tmp_path / "light.csv"
    (there,) = compared(one, two, other, *pair)
    (back,) = compared(other, one, two, *pair)
    assert there == back
    assert there["cells"] == 3
    alone = [compared(path, *pair)[0]["difference"] for path in (one, two, other)]
    assert there["difference"] == pytest.approx(np.mean(alone), abs=1e-12)
    # Cells of one list of units are drawn with the seed itself, as each is alone.
    results = {
        str(path): judge(deepval.read_values(path), {p.stem: p for p in pair}, draws=40)
        for path in (one, two)
    }
    expected = next(
        row for row in compare_over(results, "dear", "light") if row.alpha == 0.3
    )
    (found,) = compared(one, two, *pair)
    assert found.pop("provenance") == {
        str(path): {"cell": None, "split": None} for path in (one, two)
    }
    assert found == dict(expected)


def test_the_command_compares_causal_policies_and_harm(tmp_path):
    rng = np.random.default_rng(9)
    one, two = (
        files(tmp_path, rng, units=(*UNITS, "x")),
        files(tmp_path, rng, units=(*UNITS, "x"), name="more"),
    )
    light = tmp_path / "light.csv"
    (row,) = compared(
        one,
        two,
        f"{light}@causal-cap",
        f"{light}@ranking",
        "--calibrate",
        "x",
        "--of",
        "harm",
    )
    assert (row["candidate"], row["baseline"], row["of"]) == (
        "light@causal-cap",
        "light",
        "harm",
    )
    assert row["rates_missed"] is not None
    with pytest.raises(InputError, match="causal policy, and the result has none"):
        compared(one, f"{light}@causal-cap", light)
    with pytest.raises(InputError, match="must differ"):
        compared(one, light, light)
    with pytest.raises(InputError, match="one is given twice"):
        compared(one, one, light, tmp_path / "dear.csv")
    with pytest.raises(InputError, match=r"--of.*gain.*benefit.*harm"):
        compared(one, light, tmp_path / "dear.csv", "--of", "loss")
