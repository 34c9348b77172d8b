from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from deepval import Costs, InputError, read_costs
from deepval.basics.errors import InputWarning
from deepval.judge.tables.costs import (
    ALL_RAILS,
    CONVENTIONS,
    GPU_RAIL,
    MODULE,
    PROFILES,
    check_modes,
    costs_bytes,
)
from worlds import quietly

PROFILE = {
    "modes": {
        "cheap": {"ms": 13.18, "mj": 41.1, "mj_gpu": 20.0, "mj_all": 60.0},
        "mid": {"ms": 14.38, "mj": 47.8},
        "full": {
            "ms": 18.47,
            "mj": 84.4,
            "mj_gpu": 50.0,
            "mj_all": 120.0,
            "usd": 0.0031,
        },
    },
    "allocators": {"mlp": {"ms": 0.65, "served": "single"}, "free": {"ms": 0, "mj": 0}},
}
TOML = """\
[modes.cheap]
ms = 13.18
mj = 41.1
mj_gpu = 20.0
mj_all = 60.0
[modes.mid]
ms = 14.38
mj = 47.8
[modes.full]
ms = 18.47
mj = 84.4
mj_gpu = 50
mj_all = 120
usd = 0.0031
[allocators.mlp]
ms = 0.65
served = "single"
[allocators.free]
ms = 0
mj = 0
"""


def two_modes(low, high) -> dict:
    return {"modes": {"cheap": low, "full": high}}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_and_a_mapping_give_the_same_costs(tmp_path, ends, mark):
    path = tmp_path / "costs.toml"
    path.write_bytes((mark + TOML.replace("\n", ends)).encode())
    for source in (path, str(path)):
        found = read_costs(source)
        assert found.to_dict() == read_costs(PROFILE).to_dict() == PROFILE
        assert found.source == str(path)


def test_costs_are_taken_as_they_are():
    costs = read_costs(PROFILE)
    assert Costs.of(costs) is costs
    assert deepval.Latency(0.2, costs).costs is costs
    assert read_costs(costs.to_dict()) == costs


def test_modes_keep_their_order_cheap_first():
    assert list(read_costs(PROFILE).modes) == ["cheap", "mid", "full"]


def test_every_convention_is_looked_up():
    costs = read_costs(PROFILE)
    assert CONVENTIONS == ("ms", "mj", "mj_gpu", "mj_all", "usd")
    assert (MODULE, GPU_RAIL, ALL_RAILS) == ("mj", "mj_gpu", "mj_all")
    assert [costs.of_mode("full", convention) for convention in CONVENTIONS] == [
        18.47,
        84.4,
        50,
        120,
        0.0031,
    ]
    assert costs.of_allocator("mlp", "ms") == 0.65
    assert costs.of_allocator("free", "mj") == 0
    assert costs.served == {"mlp": "single"}


def test_a_missing_figure_is_an_error_and_never_free():
    costs = read_costs(PROFILE)
    with pytest.raises(InputError, match="'mj'"):
        costs.of_allocator("mlp", "mj")
    with pytest.raises(InputError, match="'ms'"):
        costs.of_allocator("mine", "ms")
    with pytest.raises(InputError, match=r"'mj_gpu' of mode 'mid'"):
        costs.of_mode("mid", "mj_gpu")
    with pytest.raises(InputError, match=r"'ms' of mode 'other'"):
        costs.of_mode("other", "ms")


def test_numbers_of_numpy_are_numbers():
    costs = read_costs(two_modes({"ms": np.float32(0.5)}, {"ms": np.int64(2)}))
    assert costs.of_mode("cheap", "ms") == 0.5
    assert costs.of_mode("full", "ms") == 2
    assert type(costs.of_mode("full", "ms")) is float


def test_modes_may_be_named_by_numbers():
    costs = read_costs({"modes": {320: {"ms": 1}, 640: {"ms": 2}}})
    assert costs.of_mode("640", "ms") == 2


def test_a_convention_measured_for_some_modes_only_is_allowed():
    costs = read_costs(two_modes({"ms": 1}, {"ms": 2, "mj": 3}))
    assert costs.of_mode("full", "mj") == 3


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ({"ms": -1}, {"ms": 2}, "mode 'cheap' has ms = -1"),
        ({"ms": 1}, {"ms": 2, "mj": float("nan")}, "mode 'full' has mj = nan"),
        ({"ms": 1}, {"ms": float("inf")}, "mode 'full' has ms = inf"),
        ({"ms": 1}, {"ms": 10**400}, "mode 'full' has ms = inf"),
        ({"ms": "1"}, {"ms": 2}, "'cheap'"),
        ({"ms": True}, {"ms": 2}, "'cheap'"),
        ({"ms": None}, {"ms": 2}, "'cheap'"),
        ({"ms": 3}, {"ms": 2}, "the full mode"),
        ({"ms": 2}, {"ms": 2}, "'full'"),
        ({"ms": 1, "mj": 5}, {"ms": 2, "mj": 4}, "'full'"),
    ],
)
def test_costs_that_cannot_be_are_refused(low, high, message):
    with pytest.raises(InputError) as caught:
        read_costs(two_modes(low, high))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"modes": {}},
        {"modes": {"full": {"ms": 1}}},
        {"mode": {"cheap": {"ms": 1}, "full": {"ms": 2}}},
        {"modes": {"cheap": 1, "full": 2}},
        {"modes": [1, 2]},
        two_modes({"ms": 1}, {"ms": 2}) | {"allocators": {"mine": 3}},
        two_modes({"ms": 1}, {"ms": 2}) | {"allocators": "mine"},
    ],
)
def test_costs_of_another_shape_are_refused(content):
    with pytest.raises(InputError, match=r"the costs given: "):
        read_costs(content)


def test_an_allocator_is_checked_as_a_mode_is():
    wrong = two_modes({"ms": 1}, {"ms": 2}) | {"allocators": {"mine": {"mj": -0.5}}}
    with pytest.raises(InputError, match="'mine'"):
        read_costs(wrong)


@pytest.mark.parametrize("source", [None, 3, ["costs.toml"], b"costs.toml"])
def test_costs_are_a_file_or_a_mapping(source):
    with pytest.raises(InputError, match="Costs must be"):
        read_costs(source)


def test_shipped_profiles_are_read_by_name_unless_there_is_a_file_of_that_name(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    board = read_costs("jetson-agx-xavier")
    assert board.of_mode("yolov8s-384", "ms") / board.of_mode(
        "yolov8s-640", "ms"
    ) == pytest.approx(0.78, abs=0.005)
    assert board.of_mode("yolov8s-384", "mj") / board.of_mode(
        "yolov8s-640", "mj"
    ) == pytest.approx(0.57, abs=0.005)
    assert board.served["gate-gbm-batched"] == "batched"
    (tmp_path / "jetson-agx-xavier").write_text(TOML)
    assert read_costs("jetson-agx-xavier").to_dict() == PROFILE
    assert (
        costs_bytes(Path("jetson-agx-xavier-nuplan"))
        == PROFILES["jetson-agx-xavier-nuplan"].read_bytes()
    )
    with pytest.raises(InputError, match="must be costs"):
        costs_bytes(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="or a shipped"):
        read_costs("jetson")


@pytest.mark.parametrize(
    ("profile", "allocator", "alpha", "share"),
    [
        ("jetson-agx-xavier", "uncertainty", 0.2, 0.188),
        ("jetson-agx-xavier", "criticality", 0.2, 0.129),
        ("jetson-agx-xavier", "router-mlp-value", 0.2, 0.165),
        ("jetson-agx-xavier", "gate-ridge", 0.5, 0.287),
        ("jetson-agx-xavier", "gate-gbm-batched", 0.2, 0.008),
        ("jetson-agx-xavier", "router-pixel", 0.5, 0.239),
        ("jetson-agx-xavier-nuscenes", "uncertainty", 0.2, 0.185),
        ("jetson-agx-xavier-nuscenes", "criticality", 0.2, 0.124),
        ("jetson-agx-xavier-nuscenes", "router-mlp-binary", 0.2, 0.166),
        ("jetson-agx-xavier-nuscenes", "gate-ridge", 0.5, 0.297),
        ("jetson-agx-xavier-nuscenes", "gate-gbm-batched", 0.2, 0.017),
        ("jetson-agx-xavier-nuplan", "gate-gbm-batched", 0.2, 0.05),
    ],
)
def test_shipped_profiles_leave_the_shares_that_the_paper_prints(
    profile, allocator, alpha, share
):
    costs = read_costs(profile)
    left = alpha - costs.of_allocator(allocator, "ms") / costs.of_mode(
        "yolov8s-640", "ms"
    )
    # Both the cost and the share are printed with one decimal less than they were
    # measured with.
    assert left == pytest.approx(share, abs=0.0015)


def test_nuplan_s_allocators_are_charged_the_nuscenes_time():
    there, here = (
        read_costs(f"jetson-agx-xavier-{name}") for name in ("nuscenes", "nuplan")
    )
    assert {
        mode: (here.of_mode(mode, "ms"), here.of_mode(mode, "mj"))
        for mode in here.modes
    } == {
        "yolov8s-320": (14.4, 69.5),
        "yolov8s-640": (23.6, 143.8),
    }
    assert set(there.allocators) - set(here.allocators) == {"box-count", "router-pixel"}
    for name in here.allocators:
        assert here.of_allocator(name, "ms") == there.of_allocator(name, "ms")


@pytest.mark.parametrize("profile", PROFILES)
def test_no_shipped_allocator_is_free_unless_it_only_reads(profile):
    costs = read_costs(profile)
    assert {name for name, entry in costs.allocators.items() if entry["ms"] == 0} <= {
        "ego-speed",
        "box-count",
    }
    assert not {
        "gate-multi-fidelity",
        "memory",
        "lost",
        "gate-gbm-memory",
        "router-two-head",
    } & set(costs.allocators)
    for name in ("gate-gbm", "router-gbm-value", "router-gbm-binary"):
        assert costs.of_allocator(name, "ms") > 0.5 * costs.of_mode("yolov8s-640", "ms")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"latency_ms": 13}, "'latency_ms'"),
        ({"ms": 1, "energy_mj": 13}, "'energy_mj'"),
        ({"MS": 13}, "'MS'"),
        ({"ms": 1, "mj_gpus": 13}, "'mj_gpus'"),
        ({"ms": 1, "serve": "single"}, "'serve'"),
        ({"ms": 1, "more": {"ms": 3}}, "found 'more'"),
        ({"ms": 1, "preprocess_ms": 1}, "'preprocess_ms'"),
        ({"ms": 1, "_p95_ms": 1}, "'_p95_ms'"),
    ],
)
@pytest.mark.parametrize("kind", ["mode", "allocator"])
def test_an_unknown_key_is_refused_with_the_nearest_right_name(kind, wrong, right):
    content = two_modes({"ms": 1}, {"ms": 20}) | {"allocators": {"mine": {"ms": 1}}}
    content = (
        {"modes": {**content["modes"], "cheap": wrong}}
        if kind == "mode"
        else content | {"allocators": {"mine": wrong}}
    )
    with pytest.raises(InputError) as caught:
        read_costs(content)
    assert f"{kind} 'cheap'" in str(caught.value) or f"{kind} 'mine'" in str(
        caught.value
    )
    assert right in str(caught.value)
    assert "mj_gpu" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("mode", "modes"),
        ("Modes", "modes"),
        ("allocator", "allocators"),
        ("profil", "profile"),
    ],
)
def test_an_unknown_table_is_refused_with_the_nearest_right_name(tmp_path, key, right):
    with pytest.raises(
        InputError, match=rf"found '{key}' \(did you mean '{right}'\?\)"
    ):
        read_costs(two_modes({"ms": 1}, {"ms": 2}) | {key: {}})
    path = tmp_path / "costs.toml"
    path.write_text(f"{TOML}[{key}.x]\nms = 1\n")
    with pytest.raises(
        InputError, match=rf"costs.toml: keys must be among .*'{right}'"
    ):
        read_costs(path)


def test_what_was_measured_beside_a_figure_may_stand_there():
    stage = {
        "ms": 2,
        "features_ms": 1.0,
        "features_p95_ms": 2.0,
        "no_decode_ms": 1.0,
        "no_decode_p95_ms": 1.0,
    }
    told = {
        "p95_ms": 3.0,
        "ms_lo": 1.9,
        "ms_hi": 2.1,
        "gpu_ms": 1.0,
        "calls": 9,
        "tight": True,
        "note": "none",
    }
    costs = read_costs(
        {"profile": "mine", "modes": {"cheap": {"ms": 1}, "full": stage | told}}
    )
    assert costs.modes["full"] == {"ms": 2.0}
    for name in PROFILES:
        assert read_costs(name).modes


def test_costs_of_modes_are_those_of_every_mode_named(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text("[modes.cheap]\nms = 1.0\n[modes.full]\nms = 2.0\n")
    check_modes(path, ["cheap", "full"])
    with pytest.raises(InputError, match=r"none of ful .did you mean 'full'"):
        check_modes(path, ["cheap", "ful"])


def test_allocators_without_a_cost_are_listed_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=(60, 3))
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(list("abcdef"), 10),
        order=np.tile(np.arange(10), 6),
        losses={
            "small": losses[:, 0],
            "middle": losses[:, 1] / 2,
            "large": losses[:, 2] / 3,
        },
    )
    costs = {
        "modes": {"small": {"ms": 4}, "middle": {"ms": 6}, "large": {"ms": 9}},
        "allocators": {"mine": {"ms": 1}},
    }
    scores = {
        "mine": rng.normal(size=60),
        "other": rng.normal(size=60),
        "many": rng.exponential(size=(60, 2)),
    }
    budgets = [deepval.Selection(0.3), deepval.Latency(0.3, costs)]
    with pytest.raises(InputError, match="'ms'"):
        quietly(deepval.evaluate, table, scores, budgets, draws=20)
    settings = {
        "draws": 20,
        "calibration": ["a"],
        "curve_points": 3,
        "simultaneous_intervals": False,
        "thresholds": True,
    }
    with pytest.warns(InputWarning, match="No cost known"):
        result = deepval.evaluate(
            table, scores, budgets, **settings, missing_costs="list"
        )
    alone = quietly(
        deepval.evaluate, table, {"mine": scores["mine"]}, budgets, **settings
    )
    for part in ("rows", "gaps", "streams", "thresholds"):
        # The bounds of a lead hold for all that are compared, so they depend on these.
        of_mine, of_mine_alone = (
            [
                {name: row[name] for name in row if not name.startswith("lead")}
                for row in getattr(one, part)
                if row.allocator == "mine"
            ]
            for one in (result, alone)
        )
        assert of_mine == of_mine_alone
        listed = [
            row
            for row in getattr(result, part)
            if row.allocator == "other" and row.kind == "latency"
        ]
        assert [row.reason for row in listed] == ["no cost known"]
    listed = [
        row
        for row in result.rows
        if row.kind == "latency" and row.allocator in ("other", "many")
    ]
    assert [(row.gain, row.cost, row.verdict, row.verdict_words) for row in listed] == [
        (None, None, None, "no cost known")
    ] * 2
    compared = deepval.compare(result, "other", "mine")
    assert [row.verdict for row in compared if row.kind == "latency"] == [None]
    assert [row.reason for row in compared if row.kind == "latency"] == [
        "other: no cost known"
    ]


def test_allocators_without_a_cost_are_listed_where_a_table_stays_on_disk(tmp_path):
    rng = np.random.default_rng(1)
    columns = {
        "unit": np.repeat(list("abcd"), 8),
        "input": np.arange(32),
        "loss_s": rng.exponential(size=32),
    }
    columns |= {"loss_l": rng.exponential(size=32)}
    pq.write_table(pa.table(columns), tmp_path / "values.parquet")
    for name in ("mine", "other"):
        pq.write_table(
            pa.table({"input": np.arange(32), "score": rng.normal(size=32)}),
            tmp_path / f"{name}.parquet",
        )
    costs = {
        "modes": {"s": {"ms": 4}, "l": {"ms": 9}},
        "allocators": {"mine": {"ms": 1}},
    }
    files = {name: tmp_path / f"{name}.parquet" for name in ("mine", "other")}
    results = [
        quietly(
            deepval.evaluate,
            tmp_path / "values.parquet",
            files,
            [deepval.Latency(0.3, costs)],
            draws=10,
            missing_costs="list",
            memory=memory,
        )
        for memory in (None, 0)
    ]
    one, other = (
        [(row.allocator, row.verdict, row.reason) for row in result.rows]
        for result in results
    )
    assert one == other
    assert [row.gain for row in results[1].rows] == pytest.approx(
        [row.gain for row in results[0].rows]
    )
    assert [row.reason for row in results[1].rows if row.allocator == "other"] == [
        "no cost known"
    ]
