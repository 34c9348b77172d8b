"""Watching a stream of shadowed inputs: the detector, units in pieces, the state file,
and what is refused.
"""

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepval
from commands import refusal, run
from deepval.basics.errors import InputError
from deepval.judge.unit_blocks import block_length, block_means
from deepval.judge.watching import BETS, HORIZON, RISK, Claim, evidence, usual_claims
from doc_blocks import run_page
from project import ROOT


def rows_of(units, skill, first=0, seed=0, inputs=20):
    rng = np.random.default_rng([seed, first])
    number = units * inputs
    value = np.where(rng.random(number) < 0.3, rng.normal(0.3, 1, number), 0.0)
    cheap = rng.gamma(1, 1, number)
    return {
        "unit": [f"u{first + at // inputs}" for at in range(number)],
        "input": np.arange(number),
        "score": skill * value + rng.normal(0, 0.5, number),
        "loss_cheap": cheap,
        "loss_full": cheap - value,
    }


def part(rows, begin, end):
    return {name: column[begin:end] for name, column in rows.items()}


@pytest.fixture(scope="module")
def fresh():
    return deepval.Watch.begin(rows_of(50, 1.0), alpha=0.2)


def test_the_evidence_is_the_sum_over_all_beginnings():
    z = np.array([0.5, -1.0, 0.25, 2.0])
    by_hand = [
        np.mean(
            [sum(np.prod(1 + g * z[k : t + 1]) for k in range(t + 1)) for g in BETS]
        )
        for t in range(len(z))
    ]
    np.testing.assert_allclose(evidence(z[:, None]), by_hand)


@given(st.floats(-0.9, 0.9), st.floats(0.05, 0.9), st.floats(0.0, 1.0))
def test_what_a_unit_says_is_bounded_and_linear(seen, limit, share):
    claims = (
        (Claim("gain", limit - 0.5), seen),
        (Claim("harm", limit), abs(seen)),
        (Claim("rate", limit, 0.05), share),
    )
    for claim, number in claims:
        z = claim.against(np.array([number, claim.limit]), 1.0)
        assert (z >= -1 - 1e-12).all()
        # a unit at the limit says nothing against the claim
        assert (z[1] <= 1e-12).all()


def test_a_unit_is_weighed_by_hand():
    columns = {
        "unit": ["a", "a", "b"],
        "input": [1, 2, 3],
        "loss_s": [2.0, 1.0, 3.0],
        "loss_l": [1.0, 2.0, 3.0],
    }
    watch = deepval.Watch.begin(
        columns | {"escalated": [1, 1, 0], "propensity": [0.5, 1.0, 1.0]},
        ["rate=0.75+-0.5"],
        cap=1.0,
    )
    assert watch.rate == pytest.approx(3 / 4)
    assert watch.loss == pytest.approx((2 * 2 + 1 + 3) / 4)
    watch = watch.read(
        columns | {"escalated": [1, 1, 0], "propensity": [0.5, 1.0, 1.0]}, end=True
    )
    (_, gain, harm, rate), (_, *rest) = watch.units
    assert (gain, harm, rate) == pytest.approx(
        ((2 * 0.25 - 0.25) / 3 / 2, 1 / 3 / 2, 1.0)
    )
    assert rest == [0.0, 0.0, 0.0]


@given(st.lists(st.integers(0, 200), max_size=4))
def test_pieces_of_a_stream_make_the_same_watch(fresh, cuts):
    rows, ends = rows_of(10, 1.0, 100), [0, *sorted(cuts), 200]
    watch = fresh
    for begin, end in itertools.pairwise(ends):
        watch = watch if begin == end else watch.read(part(rows, begin, end))
    assert watch.read(None, end=True) == fresh.read(rows, end=True)
    assert len(watch.units) == 9


def test_a_log_that_grows_is_read_once(fresh):
    rows = rows_of(10, 1.0, 100)
    watch = fresh.read(part(rows, 0, 90))
    assert watch.read(rows, skip_seen=True) == fresh.read(rows)
    with pytest.raises(InputError, match="unit 'u100' was complete"):
        watch.read(rows)


def test_an_alarm_comes_after_the_score_became_noise_and_stays(fresh):
    watch = fresh.read(rows_of(100, 1.0, 100), end=True)
    assert not watch.alarm
    watch = watch.read(rows_of(200, 0.0, 300), end=True)
    gain = watch.states[0]
    assert gain.claim.startswith("gain>=")
    assert 100 < gain.after < 200
    assert gain.alarm == f"u{300 + gain.after - 101}"
    assert gain.after % watch.block == 0
    assert "ALARM at unit" in gain.sentence
    assert watch.read(rows_of(400, 1.0, 600), end=True).states[0].after == gain.after


def blocks_by_formula(gains):
    """ceil(2 tau), as the formulas state it."""
    n, d = len(gains), gains - gains.mean()
    rho = [1.0] + [d[:-k] @ d[k:] / (d @ d) for k in range(1, n)] + [0.0, 0.0]
    r = min(max(rho[1] + 1 / np.sqrt(n), 0), 0.97)
    pairs, j = [], 0
    while 2 * j + 1 < n and rho[2 * j] + rho[2 * j + 1] > 0:
        pairs.append(min([rho[2 * j] + rho[2 * j + 1], *pairs]))
        j += 1
    return int(np.ceil(2 * max((1 + r) / (1 - r), 2 * sum(pairs) - 1, 1)))


def autoregressive(rng, phi, shape):
    noise = rng.normal(size=shape) * np.sqrt(1 - phi**2)
    noise[..., 0] /= np.sqrt(1 - phi**2)
    for at in range(1, shape[-1]):
        noise[..., at] += phi * noise[..., at - 1]
    return noise


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.7, 0.85])
def test_blocks_are_as_long_as_units_resemble_each_other(phi):
    rng = np.random.default_rng(1)
    for units in (3, 20, 80, 300):
        gains = autoregressive(rng, phi, (units,))
        assert block_length(gains) == blocks_by_formula(gains)
    typical = np.median(
        [block_length(autoregressive(rng, phi, (300,))) for _ in range(50)]
    )
    least, most = {0.0: (3, 4), 0.3: (4, 6), 0.7: (11, 16), 0.85: (25, 42)}[phi]
    assert least <= typical <= most
    assert block_length(np.ones(100)) == 3  # r = 0 + 1 / 10


def test_units_that_resemble_their_neighbours_raise_no_false_alarms():
    rng = np.random.default_rng(2)
    alarms = {"blocks": 0, "alone": 0}
    for _ in range(60):
        reference = 0.02 + 0.05 * autoregressive(rng, 0.7, (80,))
        cap = float(np.quantile(np.abs(reference), 0.8))
        reference = np.clip(reference, -cap, cap)
        stream = np.clip(0.02 + 0.05 * autoregressive(rng, 0.7, (1000,)), -cap, cap)
        claim = Claim("gain", stream.mean())
        for name, block in (("blocks", block_length(reference)), ("alone", 1)):
            against = claim.against(block_means(stream, block), cap)
            alarms[name] += evidence(against).max() >= HORIZON / block / RISK
    assert alarms["blocks"] <= 3
    assert alarms["alone"] >= 20


def test_a_block_of_units_counts_as_one():
    reference = rows_of(50, 1.0)
    one = deepval.Watch.begin(reference, alpha=0.2, blocks=1)
    two = deepval.Watch.begin(reference, alpha=0.2, blocks=2)
    assert (two.enough, one.enough) == (50_000, 100_000)
    assert "2 in a row count as one" in two.promise
    assert "if units are independent" in one.promise
    rows = rows_of(9, 1.0, 100)
    one, two = (watch.read(rows, end=True) for watch in (one, two))
    seen = np.clip([unit[1] for unit in one.units], -one.cap, one.cap)
    means = (seen[0:8:2] + seen[1:8:2]) / 2  # the ninth waits for another one
    claim = two.parsed[0]
    np.testing.assert_allclose(
        two.paths[str(claim)], evidence(claim.against(means, two.cap))
    )


def test_false_alarms_stay_below_the_risk_on_the_border_of_the_claim():
    rng = np.random.default_rng(5)
    seen = rng.choice([-0.02, -0.01, 0.03, 0.05], (500, 300))
    claim = Claim("gain", 0.0125)
    assert (
        evidence(claim.against(seen, 0.05)).max(axis=1) >= 300 / 0.05
    ).mean() <= 0.05
    worse = evidence(claim.against(seen - 0.015, 0.05))
    assert (worse.max(axis=1) >= 300 / 0.05).mean() > 0.8
    assert HORIZON / RISK == 100_000


def test_default_claims_allow_for_the_doubt_of_a_small_reference():
    rng, alarms = np.random.default_rng(8), dict.fromkeys(("ours", "no doubt"), 0)
    for _ in range(100):
        reference, stream = (
            np.stack(
                [
                    rng.normal(0.02, 0.05, units),
                    rng.random(units) < 0.1,
                    rng.random(units) / 2,
                ],
                axis=-1,
            )
            for units in (20, 500)
        )
        cap, (gain, harm, _) = 0.1, np.clip(reference, -0.1, 0.1).mean(axis=0)
        both = np.clip(stream[:, :2], -cap, cap)
        counted = np.column_stack(
            [np.clip(reference[:, :2], -cap, cap), reference[:, 2]]
        )
        ours = [Claim.parse(text) for text in usual_claims(counted, cap)]
        for name, claims in (
            ("ours", ours),
            ("no doubt", [Claim("gain", 0.8 * gain), Claim("harm", 1.25 * harm)]),
        ):
            seen = zip(claims, both.T, strict=False)
            alarms[name] += any(
                (evidence(c.against(x, cap)).max() >= HORIZON / RISK) for c, x in seen
            )
    assert alarms["ours"] <= 5
    assert alarms["no doubt"] >= 10  # a mean of 20 units is an estimate
    assert usual_claims(np.array([[0.05, 0.0, 0.2]]), 0.1) == [
        "gain>=-0.025",
        "harm<=0.05",
        "rate=0.2+-0.4",
    ]


def test_a_shadow_log_is_watched_by_the_rows_in_which_both_modes_ran(tmp_path):
    rows = rows_of(30, 1.0)
    ran, chance = np.arange(600) % 3 > 0, np.where(np.arange(600) % 3 == 1, 1.0, 0.5)
    shadow = deepval.ShadowLog(tmp_path / "log.csv")
    names = ("unit", "input", "score", "loss_cheap", "loss_full")
    for unit, name, score, cheap, full, both, p in zip(
        *(rows[n] for n in names), ran, chance, strict=True
    ):
        shadow.append(
            unit,
            name,
            score=score,
            propensity=p,
            losses=(cheap, full if both else None),
        )
    watch = deepval.Watch.begin(tmp_path / "log.csv")
    escalated = rows["score"] > watch.threshold.theta
    # of all rows: their scores are known
    assert watch.rate == pytest.approx(escalated.mean(), abs=0.01)
    assert watch.rate == pytest.approx(0.2, abs=0.01)
    loss = np.average(rows["loss_cheap"][ran], weights=1 / chance[ran])
    assert watch.loss == pytest.approx(loss)
    name, gain, harm, rate = watch.read(tmp_path / "log.csv", end=True).units[0]
    one, weight = slice(0, 20), ran[:20] / chance[:20]
    value, taken = (
        (rows["loss_cheap"] - rows["loss_full"])[one],
        watch.threshold.expected(rows["score"][one]),
    )
    assert (name, rate) == ("u0", pytest.approx(taken.mean()))
    assert gain == pytest.approx(
        np.average((taken - watch.rate) * value, weights=weight) / loss
    )
    assert harm == pytest.approx(
        np.average(taken * np.maximum(-value, 0), weights=weight) / loss
    )
    nothing = rows | {"loss_full": np.full(600, np.nan), "propensity": chance}
    assert watch.read(nothing, end=True).units == watch.units
    with pytest.raises(InputError, match="on which both modes ran; there are none"):
        deepval.Watch.begin(nothing)


def test_a_shadow_log_that_grows_may_have_units_without_shadowed_inputs():
    rows = rows_of(10, 1.0) | {"propensity": np.full(200, 0.5)}
    ran = np.isin(np.arange(200) // 20, [0, 1, 3, 6]) & (np.arange(200) % 2 == 0)
    rows["loss_full"] = np.where(ran, rows["loss_full"], np.nan)
    watch = begun = deepval.Watch.begin(rows, ["rate=0.5+-0.4"], alpha=0.5)
    for end in (30, 70, 75, 140, 150, 200):
        watch = watch.read(part(rows, 0, end), skip_seen=True)
    assert watch.read(None, end=True) == begun.read(rows, end=True)
    assert [unit[0] for unit in watch.units] == ["u0", "u1", "u3", "u6"]


def test_a_stream_is_shadowed_as_its_reference_is(fresh):
    rows = rows_of(3, 1.0, 100)
    with pytest.raises(InputError, match="it has propensities"):
        fresh.read(rows | {"propensity": np.full(60, 0.5)})
    sparse = deepval.Watch.begin(
        rows_of(50, 1.0) | {"propensity": np.full(1000, 0.5)}, alpha=0.2
    )
    with pytest.raises(InputError, match="it has no"):
        sparse.read(rows)
    gaps = rows | {"loss_full": np.where(np.arange(60) == 7, np.nan, rows["loss_full"])}
    with pytest.raises(InputError, match="'7'"):
        fresh.read(gaps)
    wrong = gaps | {
        "propensity": np.full(60, 0.5),
        "loss_cheap": np.where(np.arange(60) == 9, np.nan, 1.0),
    }
    with pytest.raises(InputError, match="row 10"):
        sparse.read(wrong)
    for column, number in (("propensity", 1.5), ("score", np.nan)):
        with pytest.raises(InputError, match="row 8"):
            sparse.read(
                gaps
                | {"propensity": np.full(60, 0.5)}
                | {column: np.where(np.arange(60) == 7, number, 0.5)}
            )
    with pytest.raises(InputError, match="'loss_full' is needed"):
        sparse.read(
            {("loss_big" if n == "loss_full" else n): v for n, v in rows.items()}
            | {"propensity": np.ones(60)}
        )


def test_a_stream_is_shadowed_as_much_as_its_reference():
    """Of units with few runs, the cap takes more, which looked like a fault."""
    rng = np.random.default_rng(4)

    def logged(first, share, units=50):
        rows = rows_of(units, 1.0, first)
        ran = rng.random(units * 20) < share
        full = np.where(ran, rows["loss_full"], np.nan)
        return rows | {"loss_full": full, "propensity": np.full(units * 20, share)}

    both = deepval.Watch.begin(logged(0, 1.0), alpha=0.2)
    with pytest.raises(InputError, match=r"ran on 0\.1 of the inputs, and on 1 of"):
        both.read(logged(100, 0.1))
    thin = deepval.Watch.begin(logged(0, 0.1), alpha=0.2)
    assert thin.read(logged(100, 0.1)).units
    assert thin.read(logged(200, 0.2)).units


def test_a_line_that_is_being_written_is_left_for_the_next_run(fresh, tmp_path):
    write(tmp_path / "log.csv", rows_of(3, 1.0, 100))
    text = (tmp_path / "log.csv").read_text()
    (tmp_path / "log.csv").write_text(text[:-4])
    with pytest.raises(InputError, match="the last line"):
        fresh.read(tmp_path / "log.csv")


def test_options_that_would_do_nothing_are_refused(tmp_path):
    write(tmp_path / "ref.csv", rows_of(50, 1.0))
    write(tmp_path / "e.csv", rows_of(50, 1.0) | {"escalated": np.arange(1000) % 2})
    begin = ("watch", tmp_path / "s.json", "--reference")
    assert "need rows" in refusal(*begin, tmp_path / "ref.csv", "--end")
    assert "no share (--alpha) can be set" in refusal(
        *begin, tmp_path / "e.csv", "--alpha", 0.5
    )
    run(*begin, tmp_path / "ref.csv")
    assert "begin a watch" in refusal(
        "watch", tmp_path / "s.json", tmp_path / "ref.csv", "--alpha", 0.5
    )
    write(
        tmp_path / "some.csv",
        part({n: rows_of(50, 1.0)[n] for n in ("input", "score")}, 0, 400),
    )
    done = run(
        "watch",
        tmp_path / "t.json",
        "--reference",
        tmp_path / "ref.csv",
        "-s",
        tmp_path / "some.csv",
        notes=True,
    )
    assert "inputs have no" in done.err


def test_the_state_survives_the_disk_and_a_changed_one_is_refused(fresh, tmp_path):
    watch = fresh.read(rows_of(10, 1.0, 100))
    watch.save(tmp_path / "state.json")
    assert deepval.Watch.load(tmp_path / "state.json") == watch
    text = (tmp_path / "state.json").read_text()
    (tmp_path / "changed.json").write_text(
        text.replace('"horizon":1000', '"horizon":2000')
    )
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    (tmp_path / "other.json").write_text("{}")
    for name, words in (
        ("changed", "was changed"),
        ("cut", "must be the state"),
        ("other", "another file"),
    ):
        with pytest.raises(InputError, match=words):
            deepval.Watch.load(tmp_path / f"{name}.json")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        (["gain>0.1"], "must be gain>=X"),
        (["gain>=1.2.3"], "must be gain>=X"),
        (["gain>=5"], "the cap"),
        (["harm<=0"], "the cap"),
        (["rate=0.5+-0.02"], "the reference itself"),
        (["rate=20%+-200%"], "must leave some rate that breaks it"),
        (["rate=0.2+-0.02", "rate=20%+-2%"], "must be different"),
    ],
)
def test_claims_that_are_none(claims, words):
    with pytest.raises(InputError, match=words):
        deepval.Watch.begin(rows_of(50, 1.0), claims, alpha=0.2)


def write(path, rows):
    lines = [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    path.write_text("\n".join([",".join(rows), *lines]) + "\n")


def test_the_command_from_begin_to_alarm(tmp_path):
    for name, rows in (
        ("ref", rows_of(50, 1.0)),
        ("good", rows_of(20, 1.0, 100)),
        ("bad", rows_of(150, -1.0, 300)),
    ):
        write(tmp_path / f"{name}.csv", rows)
    write(
        tmp_path / "twice.csv",
        part(rows_of(50, 1.0), 0, 5) | {"input": [1, 1, 2, 3, 4]},
    )
    begun = run("watch", "s.json", "--reference", "ref.csv", cwd=tmp_path)
    assert begun.code == 0
    assert begun.out.count("no unit is complete yet") == 3
    done = run("watch", "s.json", "good.csv", "--json", cwd=tmp_path)
    assert done.code == 0
    assert json.loads(done.out)["claims"][0]["units"] == 19
    before = (tmp_path / "s.json").read_text()
    assert run("watch", "s.json", "good.csv", cwd=tmp_path).code == 2
    assert run("watch", "s.json", "twice.csv", cwd=tmp_path).code == 2
    assert run("watch", "s.json", "--reference", "ref.csv", cwd=tmp_path).code == 2
    assert run("watch", "s.json", "--claim", "gain>=0.1", cwd=tmp_path).code == 2
    assert run("watch", "none.json", "good.csv", cwd=tmp_path).code == 2
    assert (tmp_path / "s.json").read_text() == before
    done = run("watch", "s.json", "bad.csv", "--page", "p.html", cwd=tmp_path)
    assert done.code == 3
    assert "ALARM at unit u3" in done.out
    page = (tmp_path / "p.html").read_text()
    assert page.count("<svg") == 3
    assert "<h1>Alarm</h1>" in page


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="/dev/full is a device of Linux"
)
def test_rows_whose_page_finds_no_room_can_be_read_again(tmp_path):
    write(tmp_path / "ref.csv", rows_of(50, 1.0))
    write(tmp_path / "new.csv", rows_of(20, 1.0, 100))
    assert run("watch", "s.json", "--reference", "ref.csv", cwd=tmp_path).code == 0
    words = ("watch", "s.json", "new.csv", "--page")
    assert run(*words, "/dev/full", cwd=tmp_path).code == 2
    assert run(*words, "page.html", cwd=tmp_path).code == 0


def test_bad_rows_name_the_row(tmp_path):
    rows = part(rows_of(2, 1.0), 0, 6)
    write(
        tmp_path / "e.csv",
        {k: v for k, v in rows.items() if k != "score"}
        | {"escalated": [0, 1, 2, 0, 0, 0]},
    )
    write(tmp_path / "p.csv", rows | {"propensity": [1, 1, 1, 0, 1, 1]})
    assert "row 3 (input '2') holds 2" in refusal(
        "watch", tmp_path / "s.json", "--reference", tmp_path / "e.csv"
    )
    assert "row 4 (input '3') holds 0" in refusal(
        "watch", tmp_path / "s.json", "--reference", tmp_path / "p.csv"
    )
    assert not (tmp_path / "s.json").exists()


def test_the_page_on_guarantees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = rows_of(10, 1.0)
    table = deepval.ValueTable.from_columns(
        unit=rows["unit"],
        input=rows["input"],
        losses={"cheap": rows["loss_cheap"], "full": rows["loss_full"]},
    )
    deepval.shadow_plan(table, rows["score"], 0.2).save("plan.json")
    full = dict(zip(rows["input"], rows["loss_full"], strict=True))
    stream = zip(
        rows["unit"],
        rows["input"],
        rows["score"].tolist(),
        rows["loss_cheap"].tolist(),
        strict=True,
    )
    names = run_page(
        ROOT / "docs" / "guarantees.md",
        shown=("sh",),
        stream=stream,
        run_full=lambda name: full[name],
    )
    gain, harm, rate = names["watch"].states
    assert gain.after > 80  # the score is noise from unit 81 on
    assert (harm.after, rate.after) == (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "all modes ran on" in deepval.read_values("log.csv").estimated
