"""ScenarioNet records: lanes, routes and objects as the published planners' reference
has them; faults are told.
"""

import copy
import functools
import gzip
import json
import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

from deepval.basics.errors import InputError
from deepval.driving.datasets import open_dataset
from deepval.driving.datasets.logs.scenarionet import ScenarioNet, log_of
from deepval.driving.datasets.logs.scenarionet_records import lane_map_of, read_record
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.geometry.vehicle import ZOE
from shared import shared_data

SCENES = tuple(
    f"scene-{number}" for number in ("0103", "0553", "0757", "0916", "1077", "1100")
)
KINDS = {
    "VEHICLE": "vehicle",
    "PEDESTRIAN": "person",
    "BICYCLE": "cyclist",
    "TRAFFIC_CONE": "static",
} | {"BARRIER": "static"}


@functools.cache
def real_record(scene):
    return read_record(
        ScenarioNet(shared_data("scenarionet_nuscenes_mini")).paths[scene]
    )


@functools.cache
def real_log(scene):
    return log_of(real_record(scene), scene)


@pytest.mark.shared
@pytest.mark.parametrize("scene", SCENES)
def test_lanes_are_those_of_the_reference(scene):
    from shapely import Polygon

    record = real_record(scene)
    lanes = lane_map_of(record).lanes
    with gzip.open(shared_data("planner_reference", "map_lanes.json.gz")) as file:
        reference = json.load(file)[scene]
    assert len(reference) > 30
    for key, told in reference.items():
        lane = lanes[key]
        assert lane.connector == told["connector"]
        assert [after for after in lane.successors if after in lanes] == told[
            "successors"
        ]
        assert np.abs(lane.centreline_m - told["centreline"]).max() < 1e-6
        if not lane.connector:
            mine, theirs = (
                Polygon(lane.polygon_m).buffer(0),
                Polygon(told["polygon"], told["holes"]),
            )
            assert mine.symmetric_difference(theirs).area < 1e-3
    assert list(lanes) == [
        key
        for key, one in record["map_features"].items()
        if one["type"].startswith("LANE")
    ]


@pytest.mark.shared
@pytest.mark.parametrize("scene", SCENES)
def test_routes_are_those_of_the_reference(scene):
    told = json.loads(shared_data("planner_reference", "routes.json").read_text())[
        scene
    ]
    log = real_log(scene)
    assert list(log.route) == told["route_roadblock_ids"]
    assert log.route_starts[log.states].tolist() == told["keyframe_route_start"]


@pytest.mark.shared
@pytest.mark.parametrize("scene", SCENES)
def test_objects_and_ego_are_those_of_the_reference(scene):
    from deepval.driving.geometry.classes import SUPER_CLASS

    table = pq.read_table(
        shared_data("planner_reference", "objects.parquet"),
        filters=[("scene", "==", scene), ("branch", "==", "gt")],
    ).to_pandas()
    table = table.sort_values(["keyframe_index", "n"], kind="stable")
    log = real_log(scene)
    seen, truth = unit_of(log)
    objects = truth.objects
    assert objects.frame.tolist() == table.keyframe_index.tolist()
    assert [log.tracks[number].id for number in objects.track] == table.id.tolist()
    # Kinds are those that the planners tell apart: trailers and construction vehicles
    # are vehicles there too.
    kinds = [SUPER_CLASS[str(name)] for name in objects.cls]
    assert kinds == [KINDS[kind] for kind in table.type]
    pose = seen.world_from_ego[objects.frame]
    corners = (
        np.einsum("oij,ocj->oci", pose[:, :2, :2], objects.corners_m)
        + pose[:, None, :2, 3]
    )
    assert np.abs(corners.mean(axis=1) - table[["x", "y"]]).to_numpy().max() < 1e-9
    ahead = corners[:, 0] - corners[:, 3]
    assert np.abs(np.linalg.norm(ahead, axis=1) - table.length).max() < 1e-9
    assert (
        np.abs(
            np.linalg.norm(corners[:, 0] - corners[:, 1], axis=1) - table.width
        ).max()
        < 1e-9
    )
    off = np.arctan2(ahead[:, 1], ahead[:, 0]) - table.heading.to_numpy()
    assert np.abs(np.sin(off / 2)).max() < 1e-8
    velocity = np.einsum("oij,oj->oi", pose[:, :2, :2], objects.velocity_mps)
    assert np.abs(velocity - table[["vx", "vy"]]).to_numpy().max() < 1e-9
    ego = pq.read_table(
        shared_data("planner_reference", "keyframes.parquet"),
        filters=[("scene", "==", scene)],
    ).to_pandas()
    assert (
        np.abs(seen.world_from_ego[:, :2, 3] - ego[["ego_x", "ego_y"]]).to_numpy().max()
        < 1e-9
    )
    heading = np.arctan2(seen.world_from_ego[:, 1, 0], seen.world_from_ego[:, 0, 0])
    assert np.abs(np.sin((heading - ego.ego_heading) / 2)).max() < 1e-9
    assert np.abs(seen.ego_speed_mps - ego.ego_speed).max() < 1e-9
    assert seen.vehicle == ZOE
    assert truth.future.valid.all(axis=1).sum() == len(seen) - 8


@pytest.mark.shared
def test_the_data_set_reads_a_scene():
    data = open_dataset("scenarionet", shared_data("scenarionet_nuscenes_mini"))
    assert data.unit_ids() == SCENES
    assert list(data.files("scene-0757")) == ["sd_nuscenes_v1.0-mini_scene-0757.pkl"]
    scene, truth = data.read_unit("scene-0757")
    assert (scene.unit, len(scene), truth.frames) == ("scene-0757", 41, 41)
    with pytest.raises(
        InputError, match=r"units must be among scene-0103, .* found scene-9"
    ):
        data.read_unit("scene-9")


def made_record(steps=11):
    """A small record in ScenarioNet's schema: an ego along a lane, and a bus."""

    def made(x, y, *, size, kind, category):
        state = {
            "position": np.column_stack([x, np.full(steps, y), np.full(steps, 1.0)]),
            "heading": np.zeros(steps),
            "velocity": np.column_stack([np.full(steps, 5.0), np.zeros(steps)]),
            "valid": np.ones(steps),
        }
        state |= {
            part: np.full((steps, 1), told)
            for part, told in zip(("length", "width", "height"), size, strict=True)
        }
        return {"type": kind, "state": state, "metadata": {"type": category}}

    x = np.arange(steps) * 0.5
    line = np.column_stack([np.linspace(-5, 60, 14), np.zeros(14), np.zeros(14)])
    ring = np.array([[-5, -2], [60, -2], [60, 2], [-5, 2], [-5, -2]], dtype=float)
    lane = {
        "type": "LANE_SURFACE_STREET",
        "polyline": line,
        "polygon": ring,
        "entry_lanes": [],
        "exit_lanes": ["b"],
    }
    bend = {
        "type": "LANE_SURFACE_UNSTRUCTURE",
        "polyline": line + np.array([65.0, 0, 0]),
        "exit_lanes": [],
        "speed_limit_kmh": 100,
    }
    return {
        "id": "made",
        "length": steps,
        "metadata": {"dataset": "other", "sdc_id": "ego", "ts": np.arange(steps) * 0.1},
        "tracks": {
            "ego": made(x, 0.0, size=(5.0, 2.0, 1.6), kind="VEHICLE", category=""),
            "bus": made(
                x + 20,
                0.0,
                size=(11.0, 2.8, 3.2),
                kind="VEHICLE",
                category="vehicle.bus.rigid",
            ),
            "ambulance": made(
                x + 40,
                0.0,
                size=(6.0, 2.2, 2.8),
                kind="VEHICLE",
                category="vehicle.emergency.ambulance",
            ),
        },
        "map_features": {
            "a": lane,
            "b": bend,
            "c": {"type": "CROSSWALK", "polygon": ring},
        },
        "dynamic_map_states": {},
    }


def test_a_record_of_another_source_has_its_centre_in_the_middle_of_the_vehicle(
    tmp_path,
):
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "sd_other_v1_made.pkl").write_bytes(pickle.dumps(made_record()))
    (tmp_path / "dataset_summary.pkl").write_bytes(b"not read")
    scene, truth = open_dataset("scenarionet", tmp_path).read_unit("made")
    assert scene.vehicle.length_m == pytest.approx(5.0)
    assert scene.vehicle.width_m == 2.0
    assert scene.world_from_ego[0, :2, 3] == pytest.approx([-scene.vehicle.centre_m, 0])
    assert truth.cls.tolist() == ["Bus", "Car"] * 3
    assert scene.route == ("rb_a", "rb_b")
    assert scene.lane_map.lanes["b"].connector
    assert scene.lane_map.lanes["b"].speed_limit_mps == 13.0
    assert len(scene.lane_map.crosswalks_m) == 1
    (folder / "sd_again_made.pkl").write_bytes(pickle.dumps(made_record()))
    with pytest.raises(InputError, match="units must have different names"):
        ScenarioNet(tmp_path).unit_ids()


def without(record, *keys):
    part = record
    for key in keys[:-1]:
        part = part[key]
    del part[keys[-1]]


def put(record, *keys, to):
    part = record
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = to


HOLE_S = np.arange(11) * 0.1 + 0.7 * (np.arange(11) > 3)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            lambda r: without(r, "tracks", "ego"),
            "must have the track of its ego .* no track 'ego'",
        ),
        (lambda r: without(r, "metadata", "ts"), "must have a time stamp per step"),
        (
            lambda r: put(r, "metadata", "ts", to=HOLE_S),
            r"from step 3 to 4 there are 0\.8 s",
        ),
        (
            lambda r: put(r, "metadata", "ts", to=np.arange(9) * 0.1),
            "track ego must have 9 rows of valid",
        ),
        (
            lambda r: put(r, "tracks", "bus", "state", "velocity", to=np.zeros(11)),
            "2 numbers a step as velocity",
        ),
        (
            lambda r: put(r, "tracks", "bus", "state", "width", to=None),
            "must have numbers as width",
        ),
        (
            lambda r: put(r, "tracks", "ego", "state", "valid", to=np.arange(11) != 4),
            "it is not at step 4",
        ),
        (lambda r: put(r, "tracks", "ambulance", "type", to="BOAT"), "found 'BOAT'"),
        (lambda r: put(r, "map_features", to={}), "map must have lanes; made has none"),
        (
            lambda r: put(r, "map_features", "a", "polyline", to=[1, 2]),
            "feature a: its polyline must be rows of x and y",
        ),
        (
            lambda r: put(r, "map_features", "a", "polyline", to=np.zeros((3, 2))),
            "two points or more; found 1",
        ),
        (
            lambda r: put(
                r, "tracks", "ego", "state", "position", to=np.full((11, 3), 1e4)
            ),
            "must lie on the map",
        ),
    ],
)
def test_faults_are_told(harm, told):
    record = copy.deepcopy(made_record())
    harm(record)
    with pytest.raises(InputError, match=told):
        log_of(record, "made")


def test_what_is_no_record_is_told(tmp_path):
    path = tmp_path / "sd_x.pkl"
    for content in ([1], {"metadata": {}, "tracks": {}}):
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(InputError, match="must be a ScenarioNet record; it"):
            read_record(path)
    with pytest.raises(InputError, match=r"must hold records sd_.*; found none"):
        ScenarioNet(tmp_path / "nothing").unit_ids()
