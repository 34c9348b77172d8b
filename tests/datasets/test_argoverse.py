"""Argoverse 2 scenarios (one real file) and sensor logs (files in the real schema);
faults are told.
"""

import json
import shutil

import numpy as np
import pytest

from argoverse_files import map_content, scenario_rows, write_scenario, write_sensor_log
from deepval.datasets import open_dataset
from deepval.datasets.logs.argoverse import (
    CAMERA,
    Argoverse2,
    differences_mps,
    middle_m,
    read_lane_map,
)
from deepval.errors import InputError, InputWarning
from deepval.geometry.camera import image_points_px
from deepval.geometry.vehicle import FUSION
from shared import shared_data


@pytest.mark.shared
def test_a_real_scenario_is_read():
    data = open_dataset("argoverse2", shared_data("argoverse2"))
    (unit,) = data.unit_ids()
    assert unit == "0a1e6f0a-1817-4a98-b02e-db8c9327d151"
    assert len(data.files(unit)) == 2
    scene, truth = data.read_unit(unit)
    assert len(scene) == 22
    assert truth.future.valid.all(axis=1).sum() == 14
    assert len(truth) == 461
    assert len(scene.lane_map.lanes) == 34
    assert scene.time_s[-1] == pytest.approx(10.5)
    assert set(scene.route) <= set(scene.lane_map.roadblocks)
    assert (np.diff(scene.route_starts) >= 0).all()
    # Every roadblock of the route is led to by the one before it.
    blocks = scene.lane_map.roadblocks
    for one, other in zip(scene.route, scene.route[1:], strict=False):
        assert {
            after
            for lane in blocks[one]
            for after in scene.lane_map.lanes[lane].successors
        } & set(blocks[other])


@pytest.mark.shared
def test_the_mean_of_the_boundaries_is_the_maps_own_centreline():
    from shapely import LineString, Point

    (path,) = shared_data("argoverse2").rglob("log_map_archive_*.json")
    off_m = []
    for told in json.loads(path.read_text())["lane_segments"].values():
        edges = [
            np.array([(row["x"], row["y"]) for row in told[f"{side}_lane_boundary"]])
            for side in ("left", "right")
        ]
        middle = LineString(middle_m(*edges))
        off_m += [
            middle.distance(Point(row["x"], row["y"])) for row in told["centerline"]
        ]
    assert max(off_m) < 0.12
    assert np.median(off_m) < 0.01


@pytest.mark.shared
def test_the_position_of_av_does_not_slip_as_a_centre_would():
    data = open_dataset("argoverse2", shared_data("argoverse2"))
    log = data.read_log(data.unit_ids()[0])
    turn, at = log.world_from_ego[:, :2, :2], log.world_from_ego[:, :2, 3]
    heading = np.unwrap(np.arctan2(turn[:, 1, 0], turn[:, 0, 0]))
    moved = np.einsum("sji,sj->si", turn[1:-1], (at[2:] - at[:-2]) / 0.2)
    bent = np.abs(np.gradient(heading, 0.1)[1:-1]) > 0.04
    assert bent.sum() > 5
    slip = moved[bent, 1] / np.gradient(heading, 0.1)[1:-1][bent]
    # A point ahead of the rear axle slips sideways by its distance times the yaw rate:
    # 1.4 m for the centre.
    assert abs(np.median(slip)) < 0.5


def test_a_scenario(tmp_path):
    write_scenario(tmp_path)
    data = Argoverse2(tmp_path)
    assert data.unit_ids() == ("made-scenario",)
    log = data.read_log("made-scenario")
    scene, truth = data.read_unit("made-scenario")
    assert log.step_s == pytest.approx(0.1)
    assert [track.id for track in log.tracks] == ["7", "8"]
    assert truth.cls.tolist() == [
        "Car",
        "Pedestrian",
        "Car",
        "Car",
        "Pedestrian",
        "Car",
        "Pedestrian",
    ]
    assert scene.ego_speed_mps == pytest.approx([5.0] * 4)
    assert scene.vehicle == FUSION
    assert scene.route == ("rb_1", "rb_4")
    assert truth.objects.corners_m[0].mean(axis=0) == pytest.approx([20, -0.1])
    assert log.tracks[0].size_m[0].tolist() == [4.6, 1.9, 1.53]


def test_the_map(tmp_path):
    folder = write_scenario(tmp_path)
    lane_map = read_lane_map(next(folder.glob("log_map*")))
    assert list(lane_map.lanes) == ["1", "2", "3", "4"]
    assert lane_map.roadblocks == {"rb_1": ("1", "2"), "rb_3": ("3",), "rb_4": ("4",)}
    assert [lane.connector for lane in lane_map.lanes.values()] == [
        False,
        False,
        False,
        True,
    ]
    assert lane_map.lanes["1"].successors == ("4",)
    assert lane_map.lanes["1"].speed_limit_mps is None
    assert lane_map.lanes["1"].centreline_m[[0, -1]].tolist() == [[-20, 0], [60, 0]]
    assert lane_map.lanes["3"].centreline_m[[0, -1]].tolist() == [[60, 7], [-20, 7]]
    assert len(lane_map.lanes["1"].centreline_m) == 41
    assert (len(lane_map.drivable_m), len(lane_map.crosswalks_m)) == (1, 1)
    assert lane_map.crosswalks_m[0].tolist() == [[50, -2], [50, 6], [53, 6], [53, -2]]


def test_a_cell_rests_on_the_files_of_every_log(tmp_path):
    log = write_sensor_log(tmp_path)
    shutil.copytree(log, log.with_name("another-log"))
    data = open_dataset("argoverse2", tmp_path)
    assert len({name for unit in data.unit_ids() for name in data.files(unit)}) == 2 * 5


def test_a_sensor_log(tmp_path):
    write_sensor_log(tmp_path)
    data = open_dataset("argoverse2", tmp_path)
    assert data.unit_ids() == ("made-log",)
    assert sorted(data.files("made-log")) == [
        "made-log/annotations.feather",
        "made-log/calibration/egovehicle_SE3_sensor.feather",
        "made-log/calibration/intrinsics.feather",
        "made-log/city_SE3_egovehicle.feather",
        "made-log/map/log_map_archive_made-log.json",
    ]
    log = data.read_log("made-log")
    scene, truth = data.read_unit("made-log")
    assert scene.ego_speed_mps == pytest.approx([5.0] * 4)
    assert [track.id for track in log.tracks] == ["car", "walker"]
    assert log.tracks[0].centre_m[0] == pytest.approx([30, 0, 20.8])
    assert np.abs(log.tracks[0].velocity_mps).max() < 1e-9
    assert log.tracks[0].heading_rad == pytest.approx(0.3)
    # The ground is 0.33 m below the axle, so the car of 1.6 m height stands on it.
    assert log.world_from_ego[3, :3, 3] == pytest.approx([1.5, 0, 20.0])
    assert scene.camera.height_m == pytest.approx(1.73)
    assert image_points_px(scene.camera, np.array([100.0, 0, 1.73])) == pytest.approx(
        [770, 1020]
    )
    assert truth.frame.tolist() == [0, 0, 1, 2, 3]
    assert truth.cls.tolist() == ["Car", "Pedestrian", "Car", "Car", "Car"]
    assert np.isfinite(truth.height_px[0])
    assert scene.route == ("rb_1", "rb_4")


def test_a_sensor_log_without_calibration_has_the_nominal_camera(tmp_path):
    folder = write_sensor_log(tmp_path)
    shutil.rmtree(folder / "calibration")
    with pytest.warns(
        InputWarning, match="log made-log has no folder calibration: a nominal camera"
    ):
        assert Argoverse2(tmp_path).read_log("made-log").camera is CAMERA


def test_velocities_come_from_neighbours_that_are_there():
    place = np.column_stack([np.array([0.0, 1, 4, 0, 9, 0]), np.zeros(6)])
    valid = np.array([True, True, True, False, True, False])
    found = differences_mps(place, valid, time_s=np.arange(6) * 0.5)
    assert found[:, 0].tolist() == [1 / 0.5, 4 / 1.0, 3 / 0.5, 0, 0, 0]


def changed(rows, place, **told):
    names = ("track_id", "object_type", "timestep", "position_x")
    row = list(rows[place])
    for name, value in told.items():
        row[names.index(name)] = value
    return [*rows[:place], tuple(row), *rows[place + 1 :]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"rows": [row for row in scenario_rows() if row[0] != "AV"]},
            "must have the track AV",
        ),
        (
            {"rows": [row for row in scenario_rows() if row[0] != "AV" or row[2] != 7]},
            "it is not at step 7",
        ),
        (
            {"rows": changed(scenario_rows(), 0, timestep=20)},
            "timesteps must lie in the scenario's 20",
        ),
        (
            {"rows": changed(scenario_rows(), 3, timestep=0)},
            "track 7: every step must have one row",
        ),
        ({"rows": changed(scenario_rows(), 0, object_type="boat")}, "found boat"),
        (
            {"rows": changed(scenario_rows(), 0, position_x=np.nan)},
            "column 'position_x' must hold finite numbers; row",
        ),
        (
            {"rows": changed(scenario_rows(), 0, position_x=None)},
            "every row must have a value of position_x",
        ),
        ({"drop": "heading"}, "must have a column 'heading'"),
        (
            {"content": {"lane_segments": {}}},
            "must have lanes for vehicles; found none",
        ),
        ({"content": {"drivable_areas": {}}}, "must have 'lane_segments'; it has none"),
        (
            {"content": {"lane_segments": {"1": {"lane_type": "BUS"}}}},
            r"lane_segments\.1 must have 'is_intersection'; it has none",
        ),
    ],
)
def test_faults_of_a_scenario_are_told(tmp_path, options, told):
    write_scenario(tmp_path, **options)
    with pytest.raises(InputError, match=told):
        Argoverse2(tmp_path).read_unit("made-scenario")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"late": range(8, 20)}, r"from step 7 to 8 there are 0\.8 s"),
        (
            {"poses": 9},
            (
                "every sweep must have an ego pose; the one at "
                "315986560359579008 ns has none"
            ),
        ),
        ({"category": "SPACESHIP"}, "found SPACESHIP"),
        ({"sensor": "ring_rear_left"}, "must have the sensor ring_front_center"),
        ({"steps": 1}, "two sweeps or more; found 1"),
    ],
)
def test_faults_of_a_sensor_log_are_told(tmp_path, options, told):
    write_sensor_log(tmp_path, **options)
    with pytest.raises(InputError, match=told):
        Argoverse2(tmp_path).read_unit("made-log")


def test_faults_of_a_folder_are_told(tmp_path):
    with pytest.raises(InputError, match="feather; found none"):
        Argoverse2(tmp_path).unit_ids()
    folder = write_scenario(tmp_path)
    with pytest.raises(
        InputError, match="units must be among made-scenario; found other"
    ):
        Argoverse2(tmp_path).read_unit("other")
    next(folder.glob("log_map*")).write_text("{")
    with pytest.raises(InputError, match="must be a map in JSON"):
        Argoverse2(tmp_path).read_unit("made-scenario")
    next(folder.glob("log_map*")).unlink()
    with pytest.raises(
        InputError, match=r"must hold one log_map_archive_\*\.json; found 0"
    ):
        Argoverse2(tmp_path).read_unit("made-scenario")
    write_scenario(tmp_path / "again")
    with pytest.raises(InputError, match="units must have different names"):
        Argoverse2(tmp_path).unit_ids()
    (folder / "scenario_made-scenario.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="must be a complete Parquet file"):
        Argoverse2(folder).read_unit("made-scenario")


def test_the_made_map_is_as_the_real_one():
    assert set(map_content()) == {
        "drivable_areas",
        "lane_segments",
        "pedestrian_crossings",
    }
