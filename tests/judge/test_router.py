"""Routers of scores: their decisions are those that streams are judged by, also from a
file that is read strictly.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import deepval
from commands import call, refusal
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files.canonical import sha256
from deepval.judge.deployment import deployment
from deepval.judge.pairs import POLICIES as CONTENDERS
from deepval.judge.prices import Price
from deepval.judge.routing import NAMED, SETTABLE, Routing, file_text
from deepval.judge.stream_rows import BEYOND, PAPER
from deepval.judge.streaming import (
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    TokenBucket,
)
from deepval.judge.tables.scores import align
from reference import streaming as slow
from worlds import judge

PARAMETERS = {"adaptive threshold": 0.05, "token bucket": 2.0}


def reread(router, tmp_path):
    router.save(tmp_path / "router.json")
    return deepval.Router.load(tmp_path / "router.json")


def routed(router, scores, unit, order):
    """The mode of each input, unit by unit in time order."""
    found = [""] * len(scores)
    for rows in slow.in_time(list(unit), list(order)):
        router.begin()
        for row in rows:
            found[row] = router.decide(scores[row])
    return found


def tied_world(seed):
    """Scores of few values in seven units, three of which are calibrated on."""
    rng = np.random.default_rng(seed)
    unit, order = rng.integers(0, 7, 140), rng.permutation(140)
    score, loss = (
        rng.integers(0, 5, 140) / 2,
        rng.exponential(size=(140, 2)) * [1.0, 0.6],
    )
    table = deepval.ValueTable.from_columns(
        unit=[f"u{n}" for n in unit],
        order=order,
        losses={"cheap": loss[:, 0], "full": loss[:, 1]},
    )
    return table, score, unit, order


@pytest.mark.parametrize("seed", range(3))
def test_a_router_from_a_file_decides_what_streams_are_judged_by(seed, tmp_path):
    table, score, unit, order = tied_world(seed)
    held = np.isin(unit, [0, 1, 2])
    result = judge(
        table,
        {"mine": score},
        [deepval.Selection(0.3)],
        calibration=["u0", "u1", "u2"],
        draws=0,
    )
    assert [row.policy for row in result.streams] == list(PAPER)
    values = table.decision_values[~held]
    for row in result.streams:
        made = deepval.Router.from_scores(
            score[held], 0.3, policy=row.policy, parameter=row.parameter
        )
        modes = routed(reread(made, tmp_path), score[~held], unit[~held], order[~held])
        full = np.array(modes) == "full"
        policy = made.policy.decide(score[~held], unit[~held], order[~held])
        assert full.tolist() == (policy == 1).tolist()
        # judged in expectation; sure answers are less than one input a unit off
        if row.policy == "frozen threshold":
            assert abs(full.sum() - row.rate * full.size) < 4
        else:
            assert full.mean() == row.rate
            assert values[full].sum() == pytest.approx(row.gain, abs=1e-12)
    cut = result.threshold("mine")
    frozen = deepval.Router.from_scores(
        score[held], 0.3, policy="frozen-threshold"
    ).policy
    assert frozen == FrozenThreshold(cut.threshold, cut.tie_acceptance)


FROM_SCORES = dict.fromkeys([*PAPER, *SETTABLE])


@pytest.mark.parametrize("policy", FROM_SCORES)
def test_without_reset_all_inputs_are_one_stream(policy, tmp_path):
    table, score, unit, order = tied_world(5)
    made = deepval.Router.from_scores(
        score, 0.25, policy=policy, parameter=PARAMETERS.get(policy), reset=False
    )
    router, units = reread(made, tmp_path), sorted(set(unit.tolist()))
    rows = [
        row
        for name in units
        for row in sorted(np.flatnonzero(unit == name), key=lambda r: order[r])
    ]
    answers = []
    for row in rows:
        router.begin()  # changes nothing
        answers.append(router.decide(float(score[row])) == "full")
    expected = made.policy.decide(
        score[rows], np.zeros(len(rows), int), np.arange(len(rows))
    )
    assert answers == (expected == 1).tolist()
    assert router.routing.reset is False
    assert table.order is not None


def test_scores_per_mode_ask_for_the_mode_of_the_largest_above_zero(tmp_path):
    scores = np.array([[0.1, 0.3], [0.6, 0.2], [-1.0, -2.0], [0.5, 0.5], [0.0, -1.0]])
    made = deepval.Router.from_scores(
        scores, 0.4, policy="frozen threshold", modes=["small", "medium", "large"]
    )
    assert made.policy == FrozenThreshold(0.5, 1.0)
    router = reread(made, tmp_path)
    assert [router.decide(row) for row in scores] == [
        "small",
        "medium",
        "small",
        "medium",
        "small",
    ]
    assert router.decide([0.1, 0.7]) == "large"
    assert router.score == 0.7
    # Two thirds of the inputs are not worth escalating: the threshold stays at 0 and
    # the rate below alpha.
    modest = deepval.Router.from_scores(
        scores, 0.9, policy="frozen threshold", modes=["small", "medium", "large"]
    )
    assert modest.policy == FrozenThreshold(0.0, 0.0)
    assert [modest.decide(row) for row in scores] == [
        "large",
        "medium",
        "small",
        "medium",
        "small",
    ]
    for policy in FROM_SCORES:
        asked = {
            "policy": policy,
            "parameter": PARAMETERS.get(policy),
            "modes": ["small", "medium", "large"],
        }
        router = deepval.Router.from_scores(scores, 0.9, **asked)
        assert {router.decide([-0.5, 0.0]) for _ in range(20)} == {"small"}


def test_with_costs_a_price_decides(tmp_path):
    scores = np.array([[4.0, 6.0], [4.0, 6.0], [0.0, 0.0], [0.0, 0.0]])
    made = deepval.Router.from_scores(
        scores, 0.375, modes=["s", "m", "l"], costs={"s": 2, "m": 3, "l": 6}
    )
    assert made.policy == Price(2 / 3, 0.5, (3.0, 6.0))
    router = reread(made, tmp_path)
    assert router.policy == made.policy
    # of ties every second goes up
    assert [router.decide(row) for row in scores] == ["m", "l", "s", "s"]
    assert router.decide([9.0, 9.0]) == "m"


def test_names_of_policies_are_those_of_contenders_and_files():
    assert (*PAPER, *BEYOND) == NAMED
    assert tuple(name.replace("-", " ") for name in CONTENDERS) == PAPER


@pytest.mark.parametrize(
    "policy",
    [
        FrozenThreshold(math.inf, 0.5),
        CausalCap(FrozenThreshold(-math.inf, 1.0), 0.2),
        TokenBucket(math.inf, FrozenThreshold(0.1, 1 / 3), 0.2),
        AdaptiveThreshold(0.01, np.array([3.0, -np.inf, 0.1 + 0.2]), 0.5),
    ],
)
def test_a_file_gives_back_every_digit(policy, tmp_path):
    read = reread(deepval.Router(None, policy, modes=("a", "b"), reset=False), tmp_path)
    assert (read.modes, read.routing.reset, read.allocator) == (("a", "b"), False, None)
    if isinstance(policy, AdaptiveThreshold):
        assert (
            read.policy.validation_scores.tolist() == policy.validation_scores.tolist()
        )
        assert (read.policy.eta, read.policy.alpha) == (0.01, 0.5)
    else:
        assert read.policy == policy
    first = (tmp_path / "router.json").read_bytes()
    reread(read, tmp_path)
    assert (tmp_path / "router.json").read_bytes() == first


def test_a_file_is_plain_and_says_what_it_rests_on(tmp_path):
    deepval.Router.from_scores([1, 2, 3, 4, 5], 0.4, about={"allocator": "mine"}).save(
        tmp_path / "router.json"
    )
    assert json.loads((tmp_path / "router.json").read_text()) == {
        "schema": "deepval/router/1",
        "modes": ["cheap", "full"],
        "scores": "one",
        "reset": True,
        "policy": {"name": "frozen threshold", "theta": 4.0, "tie_acceptance": 1.0},
        "about": {
            "alpha": 0.4,
            "calibration_inputs": 5,
            "rate": 0.4,
            "allocator": "mine",
        },
    }


ADAPTIVE = {
    "name": "adaptive threshold",
    "alpha": 0.2,
    "eta": 0.1,
    "validation_scores": [1.0],
}
DUAL = {"name": "dual price", "alpha": 0.2, "eta": 0.1, "theta": 0.0, "scale": 1.0}
BROKEN = {
    "another schema": (
        lambda c: c | {"schema": "deepval/router/9"},
        "'deepval/router/1'",
    ),
    "a list": (lambda c: [c], "found 'list'"),
    "a part too many": (lambda c: c | {"treshold": 1}, "found 'treshold'"),
    "a part too few": (
        lambda c: {k: v for k, v in c.items() if k != "modes"},
        "there is no 'modes'",
    ),
    "one mode": (lambda c: c | {"modes": ["cheap"]}, "two modes or more"),
    "a mode twice": (lambda c: c | {"modes": ["a", "a"]}, "different names"),
    "modes as text": (lambda c: c | {"modes": "ab"}, "a list of names"),
    "a mode that is no text": (lambda c: c | {"modes": [1, 2]}, "a list of names"),
    "a mode without a name": (lambda c: c | {"modes": ["", "b"]}, "different names"),
    "other scores": (lambda c: c | {"scores": "two"}, "'one' or 'per mode'"),
    "reset as a number": (lambda c: c | {"reset": 1}, "true or false"),
    "about as text": (lambda c: c | {"about": "me"}, "facts by name"),
    "no policy": (lambda c: c | {"policy": "causal cap"}, "one of frozen threshold"),
    "an unknown policy": (
        lambda c: c | {"policy": c["policy"] | {"name": "causal cup"}},
        "did you mean",
    ),
    "a strange field": (
        lambda c: c | {"policy": c["policy"] | {"eta": 1}},
        "found 'eta'",
    ),
    "a field too few": (
        lambda c: c | {"policy": {"name": "causal cap", "alpha": 0.2}},
        "there is no 'theta'",
    ),
    "a threshold as text": (
        lambda c: c | {"policy": c["policy"] | {"theta": "high"}},
        "'inf'",
    ),
    "a threshold as truth": (
        lambda c: c | {"policy": c["policy"] | {"theta": True}},
        "theta must be a number",
    ),
    "a threshold of 400 digits": (
        lambda c: c | {"policy": c["policy"] | {"theta": 10**400}},
        "theta must be a number",
    ),
    "scores of 400 digits": (
        lambda c: c | {"policy": ADAPTIVE | {"validation_scores": [10**400]}},
        "validation_scores must be a number",
    ),
    "a step below 0": (
        lambda c: c | {"policy": ADAPTIVE | {"eta": -1}},
        "eta must be a finite step",
    ),
    "a price that moves by steps below 0": (
        lambda c: c | {"policy": DUAL | {"eta": -1}},
        "eta must be a finite step",
    ),
    "a price that moves by infinite steps": (
        lambda c: c | {"policy": DUAL | {"eta": "inf"}},
        "eta must be a finite step",
    ),
    "a rate of 2": (
        lambda c: c | {"policy": c["policy"] | {"alpha": 2}},
        "alpha must lie",
    ),
    "ties beyond 1": (
        lambda c: c | {"policy": c["policy"] | {"tie_acceptance": 1.5}},
        "tie acceptance in",
    ),
    "a price for one": (
        lambda c: (
            c
            | {
                "policy": {
                    "name": "price",
                    "price": 1,
                    "tie_acceptance": 0,
                    "costs": [1],
                }
            }
        ),
        "a score and",
    ),
    "costs that are no list": (
        lambda c: (
            c
            | {
                "scores": "per mode",
                "policy": {
                    "name": "price",
                    "price": 1,
                    "tie_acceptance": 0,
                    "costs": 1,
                },
            }
        ),
        "a list of numbers",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_router_is_refused(case, tmp_path):
    change, told = BROKEN[case]
    path = tmp_path / "router.json"
    deepval.Router.from_scores([1.0, 2.0], 0.5, policy="causal cap").save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=told) as refused:
        deepval.Router.load(path)
    assert str(refused.value).startswith(str(path))


def test_files_that_cannot_be_read_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="can be read; No such file"):
        deepval.Router.load(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"schema": ')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name, told in (
        ("cut.json", "Expecting value"),
        ("deep.json", "may nest 100 deep; it goes deeper"),
    ):
        with pytest.raises(InputError, match=f"must be a router's file; .*{told}"):
            deepval.Router.load(tmp_path / name)
    monkeypatch.setattr("deepval.judge.routing.LARGEST_BYTES", 5)
    with pytest.raises(InputError, match="at most 5 bytes; it has 11"):
        deepval.Router.load(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: deepval.Router.from_scores([1, 2], 1.5), "alpha must be a share in"),
        (lambda: deepval.Router.from_scores([], 0.2), "got shape"),
        (lambda: deepval.Router.from_scores(["a"], 0.2), "must be numbers"),
        (lambda: deepval.Router.from_scores([1, math.nan], 0.2), "row 1 is nan"),
        (
            lambda: deepval.Router.from_scores(
                [[1, math.inf]], 0.2, modes=["a", "b", "c"]
            ),
            "finite",
        ),
        (lambda: deepval.Router.from_scores([[1, 2]], 0.2), "give modes="),
        (
            lambda: deepval.Router.from_scores([[1, 2]], 0.2, modes=["a", "b"]),
            "columns and the",
        ),
        (
            lambda: deepval.Router.from_scores([1, 2], 0.2, policy="causal cup"),
            "did you mean",
        ),
        (
            lambda: deepval.Router.from_scores([1, 2], 0.2, parameter=2),
            "no parameter to set",
        ),
        (
            lambda: deepval.Router.from_scores(
                [1, 2], 0.2, policy="adaptive threshold"
            ),
            "needs its step",
        ),
        (
            lambda: deepval.Router.from_scores(
                [1, 2], 0.2, policy="dual price", parameter=10**400
            ),
            "parameter must be a number",
        ),
        (
            lambda: deepval.Router.from_scores([1, 2], 0.2, costs={"full": 2}),
            "Costs are for",
        ),
        (
            lambda: deepval.Router.from_scores(
                [[1, 2]],
                0.2,
                modes=["a", "b", "c"],
                costs={"b": 1, "c": 2},
                policy="token bucket",
            ),
            "keeps a price",
        ),
        (
            lambda: deepval.Router.from_scores([1, 2], 0.2).decide([1, 2]),
            "one score per input",
        ),
        (
            lambda: deepval.Router.from_scores([1, 2], 0.2).decide(math.nan),
            "must not be NaN",
        ),
        (
            lambda: deepval.Router.from_scores(
                [[1, 2]], 0.2, modes=["a", "b", "c"]
            ).decide(1.0),
            "2 scores per input",
        ),
        (
            lambda: deepval.Router.from_scores(
                [[1, 2]], 0.2, modes=["a", "b", "c"]
            ).decide([1.0]),
            "2 scores per input",
        ),
        (
            lambda: deepval.Router(
                None, Routing(FrozenThreshold(0.0, 1.0)), modes=("a",)
            ),
            "leave these out",
        ),
        (
            lambda: deepval.Router(None, FrozenThreshold(0.0, 1.0)).decide("x"),
            "a number; got 'x'",
        ),
    ],
)
def test_what_a_router_cannot_do_is_said(make, told):
    with pytest.raises(InputError, match=told):
        make()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The tied world as a values file and scores, plain and per mode."""
    table, score, unit, order = tied_world(1)
    folder = tmp_path_factory.mktemp("files")
    losses = table.losses.tolist()
    lines = [
        f"u{u},i{n},{o},{losses[n][0]!r},{losses[n][1]!r}"
        for n, (u, o) in enumerate(zip(unit, order, strict=True))
    ]
    (folder / "values.csv").write_text(
        "\n".join(["unit,input,order,loss_cheap,loss_full", *lines]) + "\n"
    )
    rows = [f"i{n},{s},0,0" for n, s in enumerate(score)]
    (folder / "mine.csv").write_text(
        "\n".join(["input,score,fit_units,in_fit", *rows]) + "\n"
    )
    return folder, score, unit


@pytest.mark.parametrize("policy", CONTENDERS)
@pytest.mark.filterwarnings(
    "ignore:mine. 30.0% of the calibration inputs should be"
    ":deepval.basics.errors.InputWarning"
)
def test_the_command_writes_the_router_that_is_judged(files, policy, tmp_path):
    folder, score, unit = files
    scores = (
        folder / "values.csv",
        "-s",
        folder / "mine.csv",
        "--alpha",
        0.3,
        "--calibrate",
        "u0,u1,u2",
        "--draws",
        40,
    )
    said = call(
        "threshold",
        *scores,
        "--units",
        "u3,u4",
        "--policy",
        policy,
        "--out",
        tmp_path / "r.json",
    )
    assert f"mine under {policy} answers cheap or full" in said
    router = deepval.Router.load(tmp_path / "r.json")
    judged = json.loads(call("evaluate", *scores, "--units", "u3,u4", "--json"))
    (row,) = [
        row for row in judged["streams"] if row["policy"] == policy.replace("-", " ")
    ]
    made = deepval.Router.from_scores(
        score[unit < 3], 0.3, policy=policy, parameter=row["parameter"]
    )
    plain = [deepval.Router(None, each.policy).routing for each in (router, made)]
    assert file_text(plain[0]) == file_text(plain[1])
    # Units may be names of customers: the file holds digests of them.
    assert router.routing.about["calibration_units"] == [
        sha256(name.encode())[:16] for name in ("u0", "u1", "u2")
    ]
    printed = json.loads(call("threshold", *scores, "--units", "u3,u4", "--json"))[
        "threshold"
    ]
    in_python = deepval.evaluate(
        folder / "values.csv",
        {"mine": folder / "mine.csv"},
        0.3,
        calibration=["u0", "u1", "u2"],
        units=["u3", "u4"],
        draws=40,
        thresholds=True,
    )
    (in_result,) = in_python.to_dict()["thresholds"]
    same = (
        "threshold",
        "tie_acceptance",
        "tied",
        "target_rate",
        "calibration_inputs",
        "calibrated_on",
        "draws",
    )
    assert [printed[name] for name in same] == [in_result[name] for name in same]


def replays(router, score, unit, order):
    """Mode by mode, what a router answers when the inputs of each unit arrive in time
    order.
    """
    modes = np.empty(len(score), dtype=object)
    for name in np.unique(unit):
        router.begin()
        for row in sorted(np.flatnonzero(unit == name), key=lambda row: order[row]):
            modes[row] = router.decide(score[row])
    return modes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["best", *CONTENDERS, *BEYOND])
@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_what_is_promised_is_what_the_router_does_on_the_calibration_units(
    policy, seed, tmp_path
):
    table, score, unit, order = tied_world(seed)
    found = deployment(
        table,
        align(table, "mine", score),
        deepval.Selection(0.3),
        policy=policy,
        draws=20,
    )
    made = deepval.Router(None, found.routing)
    full = replays(reread(made, tmp_path), score, unit, order) == "full"
    promised = found.threshold
    assert promised.rate == promised.calibration_rate == full.mean()
    assert promised.gain == pytest.approx(table.decision_values[full].sum(), abs=1e-12)
    about = reread(made, tmp_path).routing.about
    names = ("rate", "rate_lo", "rate_hi", "gain", "target_rate")
    assert [about[name] for name in names] == [
        getattr(promised, name) for name in names
    ]
    if policy == "best":
        assert [each.policy for each in found.replays] == list(PAPER)
        near = [each for each in found.replays if abs(each.rate - 0.3) <= 0.02]
        best = max(
            near or found.replays,
            key=lambda each: each.gain if near else -abs(each.rate - 0.3),
        )
        assert (promised.policy, promised.gain) == (best.policy, best.gain)


def front_loaded():
    """Ten units of 100 inputs, scores 100 - t: all that a threshold asks for comes
    first.
    """
    unit, order = np.repeat(np.arange(10), 100), np.tile(np.arange(100), 10)
    losses = {"cheap": np.ones(1000), "full": np.where(order < 20, 0.0, 1.5)}
    return (
        deepval.ValueTable.from_columns(unit=unit, order=order, losses=losses),
        100.0 - order,
        unit,
        order,
    )


def test_inputs_asked_for_in_a_burst_are_escalated_at_the_rate_promised():
    table, score, unit, order = front_loaded()
    found = deployment(table, align(table, "mine", score), deepval.Selection(0.2))
    promised = found.threshold
    assert (promised.policy, promised.rate, promised.rate_lo, promised.rate_hi) == (
        "frozen threshold",
        0.2,
        0.2,
        0.2,
    )
    assert promised.gain == 200.0
    assert (
        replays(deepval.Router(None, found.routing), score, unit, order) == "full"
    ).mean() == 0.2
    # The causal cap, which was the default, escalates a quarter of that, and says so.
    with pytest.warns(InputWarning, match="of the calibration"):
        capped = deployment(
            table,
            align(table, "mine", score),
            deepval.Selection(0.2),
            policy="causal-cap",
        )
    assert (capped.threshold.rate, capped.threshold.gain) == (0.05, 50.0)
    assert (
        replays(deepval.Router(None, capped.routing), score, unit, order) == "full"
    ).mean() == 0.05


def test_where_no_policy_is_near_the_rate_the_nearest_is_taken():
    # One tied score in units of two inputs: of two ties at 0.4 each, floor(0.8) = 0 are
    # accepted.
    unit, order = np.repeat(np.arange(20), 2), np.tile([0, 1], 20)
    table = deepval.ValueTable.from_columns(
        unit=unit, order=order, losses={"cheap": np.ones(40), "full": np.zeros(40)}
    )
    with pytest.warns(InputWarning, match="no policy comes"):
        found = deployment(
            table, align(table, "mine", np.ones(40)), deepval.Selection(0.4)
        )
    distances = [abs(each.rate - 0.4) for each in found.replays]
    assert abs(found.threshold.rate - 0.4) == min(distances) > 0.02


def test_without_times_only_the_frozen_threshold_is_replayed():
    table, score, _, _ = front_loaded()
    table = replace(table, order=None)
    found = deployment(table, align(table, "mine", score), deepval.Selection(0.2))
    assert [each.policy for each in found.replays] == ["frozen threshold"]
    with pytest.raises(InputError, match="need the place of each input in time"):
        deployment(
            table,
            align(table, "mine", score),
            deepval.Selection(0.2),
            policy="causal-cap",
        )


def test_a_price_is_replayed_as_its_stream_decides():
    rng = np.random.default_rng(4)
    price = Price(0.5, 0.4, (2.0, 3.0))
    scores, unit, order = (
        rng.integers(-2, 5, (60, 2)) / 2,
        rng.integers(0, 5, 60),
        rng.permutation(60),
    )
    router = deepval.Router(None, price, modes=("s", "m", "l"))
    expected = replays(router, scores, unit, order)
    assert (
        np.array(router.modes, dtype=object)[price.decide(scores, unit, order)].tolist()
        == expected.tolist()
    )


def test_the_command_refuses_what_it_cannot_do(files, tmp_path):
    folder, _, _ = files
    values, mine = folder / "values.csv", folder / "mine.csv"
    for words, told in (
        (("-s", mine, "-s", f"other={mine}"), "belongs to one"),
        (("-s", mine, "--policy", "cap"), "--policy"),
        (("-s", mine, "--alpha", 2), "alpha must be a share"),
        (("-s", mine, "--budget", "latency"), "needs costs"),
        (("-s", mine, "--calibrate", "u9"), "Named units must"),
    ):
        assert told in refusal(
            "threshold", values, *words, "--out", tmp_path / "r.json"
        )
        assert not (tmp_path / "r.json").exists()


def test_per_mode_scores_under_a_latency_budget_become_a_price():
    rng = np.random.default_rng(2)
    costs = {
        "modes": {"s": {"ms": 2}, "m": {"ms": 3}, "l": {"ms": 6}},
        "allocators": {"each": {"ms": 0.6}},
    }
    table = deepval.ValueTable.from_columns(
        unit=np.arange(60) // 6,
        costs=costs,
        losses={mode: rng.exponential(size=60) for mode in "sml"},
    )
    scores = align(table, "each", rng.integers(-2, 5, (60, 2)) / 2)
    found = deployment(
        table,
        scores,
        deepval.Latency(0.4),
        calibration=list("01234"),
        units=list("56789"),
        draws=50,
    )
    policy = found.routing.policy
    assert policy == Price(
        found.threshold.price, found.threshold.tie_acceptance, (3.0, 6.0)
    )
    # What an input may spend is 0.4 * 6 - 0.6 ms, and on the calibration units it is
    # spent.
    assert found.threshold.target_spend == pytest.approx(1.8)
    assert (policy.expected(scores.values[:30]) @ [3.0, 6.0]).mean() == pytest.approx(
        1.8
    )
    modes = policy.decide(scores.values[30:], np.arange(30) // 6, np.arange(30))
    assert [each.rate for each in found.threshold.rates] == [
        np.mean(modes == mode) for mode in (1, 2)
    ]
    assert found.threshold.spend == pytest.approx(np.take([0, 3, 6], modes).mean())
    with pytest.raises(InputError, match="tuned for one score per input"):
        deployment(table, scores, deepval.Selection(0.4), policy="token bucket")
