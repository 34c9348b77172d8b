"""nuScenes tables -> scenes and truths: formulas on made tables, faults of tables, and
the shared mini set.
"""

import json
import shutil
import warnings
from dataclasses import fields, is_dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

import onnx_models
from commands import run
from deepval.basics.errors import InputError, InputWarning
from deepval.driving.cells.build import built
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.sources import ModeFile, from_files
from deepval.driving.cells.spec import specs
from deepval.driving.datasets import nuscenes, nuscenes_store
from deepval.driving.datasets.nuscenes import (
    NuScenes,
    expansion_lane_map,
    read_expansion,
)
from deepval.driving.geometry.camera import image_points_px
from deepval.driving.perception.placing import oracle_cuboids
from deepval.driving.perception.reported.detections import DONE, Detections
from shared import shared_data

HALF_TURN = [np.cos(0.25), 0.0, 0.0, np.sin(0.25)]
"""A quarter of a radian, twice: the heading of the made ego."""
CAMERA = [0.5, -0.5, 0.5, -0.5]
"""Looks along x: the usual turn of a front camera."""


def tables(folder: Path, *, frames: int = 10, **changed) -> dict:
    """Tables of one made scene: the ego drives 2.5 m per keyframe along 0.5 rad, a car
    keeps 20 m ahead.
    """
    ahead = np.array([np.cos(0.5), np.sin(0.5), 0.0])
    made: dict = {
        "scene": [
            {
                "token": "sc",
                "name": "scene-1",
                "first_sample_token": "s0",
                "nbr_samples": frames,
                "log_token": "lo",
            }
        ],
        "log": [{"token": "lo", "location": "here"}],
        "sample": [],
        "sample_data": [],
        "ego_pose": [],
        "sensor": [
            {"token": "cam", "channel": "CAM_FRONT"},
            {"token": "lid", "channel": "LIDAR_TOP"},
        ],
        "calibrated_sensor": [
            {
                "token": "cc",
                "sensor_token": "cam",
                "translation": [1.7, 0.0, 1.5],
                "rotation": CAMERA,
                "camera_intrinsic": [[1000.0, 0, 800.0], [0, 1000.0, 450.0], [0, 0, 1]],
            },
            {
                "token": "cl",
                "sensor_token": "lid",
                "translation": [0, 0, 0],
                "rotation": [1, 0, 0, 0],
                "camera_intrinsic": [],
            },
        ],
        "category": [
            {"token": "c0", "name": "vehicle.car"},
            {"token": "c1", "name": "animal"},
        ],
        "instance": [
            {"token": "i0", "category_token": "c0"},
            {"token": "i1", "category_token": "c1"},
        ],
        "sample_annotation": [],
    }
    for k in range(frames):
        ego = [100.0, 200.0, 0.0] + 2.5 * k * ahead
        made["sample"].append(
            {
                "token": f"s{k}",
                "timestamp": 1_000_000 + 500_000 * k,
                "scene_token": "sc",
                "next": f"s{k + 1}" if k + 1 < frames else "",
            }
        )
        for sensor, calibrated in (("cam", "cc"), ("lid", "cl")):
            made["sample_data"].append(
                {
                    "token": f"{sensor}{k}",
                    "sample_token": f"s{k}",
                    "ego_pose_token": f"p{k}",
                    "calibrated_sensor_token": calibrated,
                    "is_key_frame": True,
                    "filename": f"samples/{sensor}/{k}.jpg",
                }
            )
        made["ego_pose"].append(
            {"token": f"p{k}", "translation": ego.tolist(), "rotation": HALF_TURN}
        )
        for instance, side in (("i0", 20.0), ("i1", 10.0)):
            made["sample_annotation"].append(
                {
                    "token": f"{instance}-{k}",
                    "sample_token": f"s{k}",
                    "instance_token": instance,
                    "translation": (ego + side * ahead + [0, 0, 0.8]).tolist(),
                    "size": [2.0, 4.0, 1.6],
                    "rotation": HALF_TURN,
                    "prev": f"{instance}-{k - 1}" if k else "",
                    "next": f"{instance}-{k + 1}" if k + 1 < frames else "",
                    "num_lidar_pts": int(k != 5),
                    "num_radar_pts": 0,
                }
            )
    made |= changed
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in made.items():
        if rows is not None:
            (folder / f"{name}.json").write_text(json.dumps(rows))
    return made


@pytest.fixture
def made(tmp_path) -> NuScenes:
    tables(tmp_path / "v1.0-mini")
    return NuScenes(tmp_path)


def test_ego_speed_is_causal_and_starts_at_0(made):
    scene, _ = made.read_unit("scene-1")
    assert scene.ego_speed_mps == pytest.approx([0.0, *[5.0] * 9])
    assert scene.frame_ids[:2].tolist() == ["s0", "s1"]
    assert scene.time_s[:3].tolist() == [0.0, 0.5, 1.0]


def test_reference_objects_are_annotations_of_known_classes_with_a_point(made):
    _, truth = made.read_unit("scene-1")
    assert truth.frame.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert set(truth.cls) == {"car"}
    assert truth.objects.near_m == pytest.approx(np.full(9, 18.0))
    assert truth.objects.lateral_m[0] == pytest.approx([-1.0, 1.0])
    assert truth.objects.closing_mps == pytest.approx(np.zeros(9), abs=1e-9)
    # Its own velocity, in ego axes; at the ends of the track by one difference, where
    # one is missing by two.
    assert truth.objects.velocity_mps == pytest.approx(
        np.tile([5.0, 0.0], (9, 1)), abs=1e-9
    )


def test_image_boxes_are_the_projected_corners(made):
    scene, truth = made.read_unit("scene-1")
    corners = [[x, y, z] for x in (18.0, 22.0) for y in (-1.0, 1.0) for z in (0.0, 1.6)]
    pixels = image_points_px(scene.camera, np.array(corners))
    assert truth.box_px[0] == pytest.approx([*pixels.min(axis=0), *pixels.max(axis=0)])


def test_the_logged_future_is_linear_between_keyframes(made):
    _, truth = made.read_unit("scene-1")
    future = truth.future
    assert future.times_s.tolist() == [0.25 * k for k in range(1, 17)]
    assert future.valid.sum(axis=1).tolist() == [16, 16, 14, 12, 10, 8, 6, 4, 2, 0]
    assert future.pose[0, :, 0] == pytest.approx(1.25 * np.arange(1, 17))
    assert future.pose[0, :, 1:] == pytest.approx(np.zeros((16, 2)), abs=1e-9)
    # the annotation without a point is no object
    assert future.objects[7].frame.tolist() == [0, 2, 3, 4, 5]
    assert future.objects[7].near_m == pytest.approx(np.full(5, 28.0))
    # between keyframes, both have it
    assert future.objects[8].frame.tolist() == [2, 3, 4]
    assert future.objects[8].near_m == pytest.approx(np.full(3, 29.25))


def test_the_time_stamps_decide_what_the_future_is(tmp_path):
    # Nine keyframes follow the first one, 3.999999 s to the last but one; the second
    # has less than 4 s left.
    us = [
        0,
        500_001,
        900_000,
        1_400_000,
        2_000_000,
        2_500_000,
        3_000_000,
        3_500_000,
        3_999_999,
        4_500_000,
    ]
    samples = tables(tmp_path / "v1.0-mini")["sample"]
    stamped = [
        {**row, "timestamp": 7_000_000 + stamp}
        for row, stamp in zip(samples, us, strict=True)
    ]
    tables(tmp_path / "v1.0-mini", sample=stamped)
    future = NuScenes(tmp_path).read_unit("scene-1")[1].future
    assert future.valid.all(axis=1).tolist() == [True, *[False] * 9]
    driven_m = np.interp(
        0.25 * np.arange(1, 17), np.array(us) / 1e6, 2.5 * np.arange(10)
    )
    assert future.pose[0, :, 0] == pytest.approx(driven_m)
    assert future.objects[15].near_m[0] == pytest.approx(18 + driven_m[-1])


def test_headings_turn_the_short_way_between_keyframes(tmp_path):
    """The ego and the car turn from 175 to -175 degrees within one keyframe,
    quaternions of opposite signs.
    """
    here = tables(tmp_path / "v1.0-mini", frames=2)
    turned = [[np.cos(a), 0.0, 0.0, np.sin(a)] for a in np.radians([87.5, -87.5])]
    for table in ("ego_pose", "sample_annotation"):
        for row in here[table]:
            row["rotation"] = turned[int(row["token"][-1])]
    scene, truth = NuScenes(
        tables(tmp_path / "v1.0-mini", frames=2, **here) and tmp_path
    ).read_unit("scene-1")
    assert len(scene) == 2
    assert truth.future.pose[0, 0, 2] == pytest.approx(np.radians(5))
    edge = np.diff(truth.future.objects[0].corners_m[0], axis=0)
    assert np.sort(np.linalg.norm(edge, axis=1)) == pytest.approx([2.0, 2.0, 4.0])
    along = edge[np.linalg.norm(edge, axis=1) > 3][0]
    assert np.arctan2(along[1], along[0]) % np.pi == pytest.approx(np.radians(5))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ego_pose": None}, "nuScenes needs the table ego_pose"),
        (
            {"category": []},
            "instance i0 names category 'c0', which category.json does not have",
        ),
        (
            {
                "ego_pose": [
                    {"token": "p0", "translation": [0, 0, 0], "rotation": [1, 0, 0, 0]}
                ]
            },
            "names ego_pose 'p1'",
        ),
        ({"sample_data": []}, "every keyframe must have a LIDAR_TOP sweep"),
        (
            {
                "scene": [
                    {
                        "token": "sc",
                        "name": "scene-1",
                        "first_sample_token": "s0",
                        "nbr_samples": 11,
                        "log_token": "lo",
                    }
                ]
            },
            "11 keyframes",
        ),
        (
            {"sample": [{"token": "s0", "timestamp": 1, "next": "s0"}]},
            "run in a circle",
        ),
        ({"scene": {"token": 1}}, "must be a list of records"),
        (
            {"ego_pose": {"token": 1}},
            "ego_pose.json must be a list of records with tokens; it is not",
        ),
        (
            {"sample_data": [3]},
            "sample_data.json must be a list of records with tokens; it is not",
        ),
        ({"sample_annotation": [{"token": 7}]}, "with text as 'token'; record 0 has 7"),
    ],
)
@pytest.mark.filterwarnings("ignore:the tables in")
@pytest.mark.parametrize("enough", [nuscenes_store.ENOUGH, 0])
def test_faults_of_tables_are_one_sentence(
    tmp_path, monkeypatch, changed, sentence, enough
):
    monkeypatch.setattr(nuscenes_store, "ENOUGH", enough)
    monkeypatch.setenv("DEEPVAL_CACHE", str(tmp_path / "cache"))
    tables(tmp_path / "v1.0-mini", **changed)
    with pytest.raises(InputError, match=sentence):
        NuScenes(tmp_path).read_unit("scene-1")


def test_the_folder_of_tables_is_the_only_one_or_the_one_that_has_the_units(tmp_path):
    with pytest.raises(
        InputError,
        match=r"must hold a folder of tables such as v1.0-trainval; .* has none",
    ):
        NuScenes(tmp_path).unit_ids()
    tables(tmp_path / "v1.0-mini")
    (tmp_path / "v1.0-trainval01_blobs").mkdir()  # without tables
    data = NuScenes(tmp_path)
    assert data.unit_ids() == ("scene-1",)
    row = {"first_sample_token": "s0", "nbr_samples": 10, "log_token": "lo"}
    tables(
        tmp_path / "v1.0-trainval",
        scene=[{"token": n, "name": f"scene-{n}", **row} for n in "12"],
    )
    for units in (None, ["scene-1"], ["scene-3"]):
        with pytest.raises(
            InputError,
            match=(
                r"has v1\.0-mini, v1\.0-trainval: give one "
                r"as --root, such as .*trainval,"
            ),
        ):
            data.for_units(units).unit_ids()
    assert data.for_units(["scene-2"]).folder.name == "v1.0-trainval"
    assert data.for_units(["scene-1", "scene-2"]).select(["scene-1", "scene-2"]) == (
        "scene-1",
        "scene-2",
    )
    assert NuScenes(tmp_path, version="v1.0-mini").for_units(
        ["scene-2"]
    ).unit_ids() == ("scene-1",)
    assert NuScenes(tmp_path / "v1.0-mini").unit_ids() == ("scene-1",)


def box(token: str, x: float, kind: str) -> dict:
    ahead = np.array([np.cos(0.5), np.sin(0.5), 0.0])
    place = np.array([100.0, 200.0, 0.8]) + (2.5 * int(token[1:]) + x) * ahead
    return {
        "sample_token": token,
        "translation": place.tolist(),
        "size": [1.0, 3.0, 1.5],
        "rotation": HALF_TURN,
        "velocity": [0.0, 0.0],
        "detection_name": kind,
        "detection_score": 0.9,
    }


def cuboid_report(x_m: list[float], kinds: list[str]) -> Detections:
    count = len(x_m)
    cuboids = np.zeros((count, 7))
    cuboids[:, 0], cuboids[:, 3:6] = x_m, (3.0, 1.0, 1.5)
    return Detections(
        unit="scene-1",
        frame=np.zeros(count, int),
        cls=np.array(kinds),
        score=np.ones(count),
        box_px=np.full((count, 4), np.nan),
        status=np.full(10, DONE),
        cuboid_m=cuboids,
        velocity_mps=np.zeros((count, 2)),
        cuboid_frame="ego",
    )


def test_oracle_geometry_of_cuboids_takes_the_nearest_reference_of_the_super_class_within_2_m(  # noqa: E501
    made,
):
    scene, truth = made.read_unit("scene-1")
    found = oracle_cuboids(
        cuboid_report([21.9, 22.1, 20.0], ["truck", "car", "pedestrian"]),
        scene,
        truth=truth,
    )
    # 1.9 m away: on the reference
    assert found.corners_m[0] == pytest.approx(truth.objects.corners_m[0])
    assert found.velocity_mps[0] == pytest.approx([5.0, 0.0])
    assert found.near_m[1] == pytest.approx(20.6)  # 2.1 m away: where it was put
    assert found.near_m[2] == pytest.approx(18.5)  # a pedestrian is no vehicle


def same(one, other) -> bool:
    """Whether two trees of dataclasses hold the same numbers."""
    if is_dataclass(one):
        return all(
            same(getattr(one, part.name), getattr(other, part.name))
            for part in fields(one)
        )
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(
            same(*pair) for pair in zip(one, other, strict=True)
        )
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return one == other


def read_large(root: Path, monkeypatch, cache: Path) -> NuScenes:
    """The data set, whose tables count as large."""
    monkeypatch.setenv("DEEPVAL_CACHE", str(cache))
    monkeypatch.setattr(nuscenes_store, "ENOUGH", 0)
    nuscenes._tables.cache_clear()
    return NuScenes(root)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_mini_is_the_same_if_its_tables_are_stored_by_scene(tmp_path, monkeypatch):
    mini = NuScenes(shared_data("nuscenes"))
    whole = [mini.read_unit(unit) for unit in mini.unit_ids()]
    stored = read_large(mini.root, monkeypatch, tmp_path)
    with pytest.warns(
        InputWarning,
        match="are large: they are read once, in a minute or two, and stored in",
    ):
        stored.unit_ids()
    assert all(
        same(stored.read_unit(scene.unit), (scene, truth)) for scene, truth in whole
    )
    assert not same(stored.read_unit("scene-0103"), whole[0])
    nuscenes._tables.cache_clear()
    # a second time nothing is streamed
    monkeypatch.setattr(nuscenes_store, "stream_rows", None)
    assert same(NuScenes(mini.root).read_unit("scene-1100"), whole[-1])
    (folder,) = (tmp_path / "nuscenes").iterdir()
    (folder / "00.parquet").write_text("no Parquet")
    with pytest.raises(
        InputError, match=f"must be a file of stored tables.*: delete {folder}"
    ):
        NuScenes(mini.root).read_unit("scene-0061")
    nuscenes._tables.cache_clear()


@pytest.mark.filterwarnings("ignore:the tables in")
def test_stored_tables_follow_their_files_and_an_unwritable_folder_is_one_sentence(
    tmp_path, monkeypatch
):
    tables(tmp_path / "v1.0-mini")
    data = read_large(tmp_path, monkeypatch, tmp_path / "cache")
    assert len(data.read_unit("scene-1")[0]) == 10
    tables(tmp_path / "v1.0-mini", frames=6)
    nuscenes._tables.cache_clear()
    assert len(data.read_unit("scene-1")[0]) == 6
    assert len(list((tmp_path / "cache" / "nuscenes").iterdir())) == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError,
        match=r"must be writable \(.*\): set DEEPVAL_CACHE to another folder",
    ):
        read_large(tmp_path, monkeypatch, tmp_path / "file").read_unit("scene-1")


@pytest.mark.parametrize("block", [1, 7, 2**20])
@pytest.mark.parametrize(
    "text",
    [
        "[]",
        " [ ] ",
        '[{"token": "é[{]"} ,{"token": "b", "x": [1, {"y": 2}]}\n]\n',
        "[{}",
        "[{},]",
        "[{} {}]",
        "[{}] x",
        "[",
        "",
        "{}",
        '[{"a": 01}]',
        "[,]",
        '[{"a": "\\ud83d\\ude00"}]',
        "[1]",
        "\ufeff[{}]",
        "[" * 5000,
    ],
)
def test_streamed_rows_are_those_of_the_whole_file(tmp_path, monkeypatch, text, block):
    monkeypatch.setattr(nuscenes_store, "BLOCK", block)
    path = tmp_path / "ego_pose.json"
    path.write_text(text, encoding="utf-8")
    try:
        whole = json.loads(text.removeprefix("\ufeff"))
        assert all(isinstance(row, dict) for row in whole)
        assert isinstance(whole, list)
    except (ValueError, RecursionError, AssertionError):
        with pytest.raises(
            InputError, match=r"must be a (table in JSON|list of records)"
        ):
            list(nuscenes_store.stream_rows(path))
    else:
        assert list(nuscenes_store.stream_rows(path)) == whole


@pytest.mark.shared
def test_two_detectors_on_two_scenes_make_a_cell_that_is_judged_on_all_units(tmp_path):
    root = shared_data("nuscenes")
    files = [
        ModeFile(name, root / "results" / f"detector_{name.lower()}.json")
        for name in "AB"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        material = from_files(NuScenes(root), files, units=["scene-0103", "scene-0916"])
        cells = list(built(specs(material, geometries=["cuboids", "oracle"])))
    assert [len(cell.table.input) for cell in cells] == [81, 81]
    assert cells[0].spec.roles.test == ("scene-0103", "scene-0916")


def expansion() -> dict:
    """A straight lane of 20 m, a connector that bends left by a quarter with radius 10
    m, and a lane after it.
    """

    def piece(
        start: list[float], shape: str, radius: float, lengths: list[float]
    ) -> dict:
        return {
            "start_pose": start,
            "end_pose": None,
            "shape": shape,
            "radius": radius,
            "segment_length": lengths,
        }

    corners = [(0, -2), (20, -2), (20, 2), (0, 2)]
    quarter = np.pi / 2
    return {
        "node": [
            {"token": f"n{k}", "x": x, "y": y} for k, (x, y) in enumerate(corners)
        ],
        "line": [
            {"token": "l0", "node_tokens": ["n0", "n1"]},
            {"token": "l1", "node_tokens": []},
        ],
        "polygon": [
            {
                "token": "p0",
                "exterior_node_tokens": ["n0", "n1", "n2", "n3"],
                "holes": [],
            }
        ],
        "lane": [
            {"token": "a", "polygon_token": "p0"},
            {"token": "c", "polygon_token": "p0"},
        ],
        "lane_connector": [{"token": "b"}],
        "road_segment": [{"token": "r", "polygon_token": "p0"}],
        "road_divider": [
            {"token": "d", "line_token": "l0"},
            {"token": "e", "line_token": "l1"},
        ],
        "lane_divider": [],
        "ped_crossing": [{"token": "x", "polygon_token": "p0"}],
        "carpark_area": [],
        "connectivity": {
            "a": {"incoming": [], "outgoing": ["b"]},
            "b": {"incoming": ["a"], "outgoing": ["c"]},
        },
        "arcline_path_3": {
            "a": [piece([0.0, 0.0, 0.0], "LSR", 999.0, [0.0, 20.0, 0.0])],
            "b": [
                piece(
                    [20.0, 0.0, 0.0],
                    "LSL",
                    10.0,
                    [10 * quarter / 2, 0.0, 10 * quarter / 2],
                )
            ],
            "c": [piece([30.0, 10.0, quarter], "RSR", 50.0, [0.0, 5.0, 0.0])],
        },
    }


def test_a_map_expansion_becomes_a_lane_map():
    found = expansion_lane_map(expansion())
    assert list(found.lanes) == ["a", "c", "b"]
    assert found.lanes["a"].successors == ("b",)
    assert [lane.connector for lane in found.lanes.values()] == [False, False, True]
    bend = found.lanes["b"].centreline_m
    assert np.hypot(*(bend - [20.0, 10.0]).T) == pytest.approx(np.full(len(bend), 10.0))
    assert bend[-1] == pytest.approx([30.0, 10.0])
    assert np.hypot(*np.diff(bend, axis=0).T).max() <= 1.0
    assert len(found.lanes["b"].polygon_m) == 0
    assert [len(lines) for lines in found.dividers_m.values()] == [1, 0]


def test_a_file_that_is_no_expansion_is_refused(tmp_path):
    (tmp_path / "map.json").write_text('{"node": []}')
    with pytest.raises(InputError, match="must be a nuScenes map expansion"):
        read_expansion(tmp_path / "map.json")


def test_a_scene_has_the_road_of_the_expansion_and_the_route_that_was_driven(tmp_path):
    tables(tmp_path / "v1.0-mini")
    road = expansion() | {"connectivity": {}}
    road["arcline_path_3"] = {
        "a": [
            {
                "start_pose": [100.0, 200.0, 0.5],
                "end_pose": None,
                "shape": "LSR",
                "radius": 9.0,
                "segment_length": [0.0, 60.0, 0.0],
            }
        ]
    }
    (tmp_path / "maps" / "expansion").mkdir(parents=True)
    (tmp_path / "maps" / "expansion" / "here.json").write_text(json.dumps(road))
    data = NuScenes(tmp_path)
    scene, _ = data.read_unit("scene-1")
    assert scene.route == ("rb_a",)
    assert "maps/here.json" in data.files("scene-1")
    (tmp_path / "maps" / "expansion" / "here.json").unlink()
    assert NuScenes(tmp_path).read_unit("scene-1")[0].lane_map is None


@pytest.mark.filterwarnings("ignore:1 unit is too few for a split")
def test_pictures_of_a_data_set_are_perceived_and_judged_by_the_command(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path / "nuscenes" / "v1.0-mini")
    for k in range(10):
        path = tmp_path / "nuscenes" / "samples" / "cam" / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((90, 160, 3), 40 + 20 * k, dtype=np.uint8))
    onnx_models.yolov8(tmp_path / "made.onnx")
    asked = (
        "--dataset",
        "nuscenes",
        "--root",
        "nuscenes",
        "-w",
        "made.onnx",
        "--size",
        64,
        "--size",
        96,
    )
    done = run("detect", *asked, "--samples", 0, "--out", "cache")
    assert done.code == 0, done.err
    assert "on 10 frames of 1 unit (" in done.out
    modes = [
        word
        for size in (64, 96)
        for word in ("--mode", f"made-{size}=cache/made-{size}")
    ]
    built_by = run(
        "build",
        "--dataset",
        "nuscenes",
        "--root",
        "nuscenes",
        *modes,
        "--geometry",
        "monocular",
        "--geometry",
        "oracle",
        "--out",
        "cells",
    )
    assert built_by.code == 0, built_by.err
    assert len(read_cell(tmp_path / "cells" / "braking-monocular").table) == 10
    (tmp_path / "nuscenes" / "samples" / "cam" / "3.jpg").unlink()
    missing = run("detect", *asked, "--samples", 0, "--out", "again", notes=True)
    left_out = "left out for lack of one: 1 frame, among them 0 whole units"
    assert f"nuscenes: pictures of 9 frames in 1 unit; {left_out}" in " ".join(
        missing.err.split()
    )
    assert "on 9 frames of 1 unit (" in missing.out
    shutil.rmtree(tmp_path / "nuscenes" / "samples")
    empty = run("detect", *asked, "--samples", 0, "--out", "none")
    assert empty.code == 2
    assert (
        "Pictures of nuscenes must lie below nuscenes; none of 1 unit has one"
        in empty.err
    )
    assert not (tmp_path / "none").exists()
