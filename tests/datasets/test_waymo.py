"""Waymo scenarios in JSON form are read as they were written, in either manner of
names, and faults are told.
"""

import json

import numpy as np
import pytest

import waymo_files as files
from deepval.datasets import open_dataset
from deepval.datasets.logs.waymo import NOMINAL, Waymo, lane_map_of
from deepval.errors import InputError, InputWarning

UNIT = "a1b2c3"


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return Waymo(files.write(tmp_path_factory.mktemp("waymo"))).read_unit(UNIT)


def read(tmp_path, message):
    return Waymo(files.write(tmp_path / "waymo", message)).read_unit(UNIT)


def test_a_scenario_is_a_unit(tmp_path, unit):
    dataset = open_dataset("waymo", files.write(tmp_path))
    assert dataset.unit_ids() == (UNIT,)
    assert list(dataset.files(UNIT)) == [f"{UNIT}.json"]
    scene, truth = unit
    # Every fifth of the 51 steps that have 4 s ahead.
    np.testing.assert_allclose(scene.time_s, np.arange(0, 51, 5) * 0.1)
    assert truth.future is not None
    assert truth.future.valid.all()
    assert scene.camera is NOMINAL


def test_the_ego_is_its_rear_axle(unit):
    scene, truth = unit
    np.testing.assert_allclose(scene.ego_speed_mps, 5.0)
    # The Zoe's rear axle is 0.84 m from the rear of its 4.084 m.
    behind_m = 5 * (0.5 - 0.84 / 4.084)
    np.testing.assert_allclose(
        scene.world_from_ego[:, 0, 3], 10 + 5 * scene.time_s - behind_m
    )
    np.testing.assert_allclose(scene.world_from_ego[:, 2, 3], 0.0, atol=1e-12)
    assert scene.vehicle.length_m == pytest.approx(5.0)
    assert scene.vehicle.wheel_base_m == pytest.approx(5 * 2.588 / 4.084)
    np.testing.assert_allclose(
        scene.vehicle.centres_m(np.array([10 - behind_m, 0, 0]))[0], 10
    )
    np.testing.assert_allclose(
        truth.future.pose[..., 0], np.broadcast_to(5 * truth.future.times_s, (11, 8))
    )


def test_tracks_are_where_they_were(unit):
    _, truth = unit
    first = truth.objects.at(0)
    assert first.cls.tolist() == ["Car"]
    np.testing.assert_allclose(first.centre_m, [[20 + 5 * (0.5 - 0.84 / 4.084), 0]])
    # The pedestrian is there from step 10 to 59, states 2 to 10.
    assert truth.frame[truth.cls == "Pedestrian"].tolist() == list(range(2, 11))


def test_lanes_and_roadblocks(unit):
    lane_map = unit[0].lane_map
    # Neither the bike lane nor the lane of one point.
    assert list(lane_map.lanes) == ["1", "2", "3", "4", "5"]
    assert lane_map.roadblocks == {
        "rb_1": ("1", "2"),
        "rb_3": ("3",),
        "rb_4": ("4",),
        "rb_5": ("5",),
    }
    lane = lane_map.lanes["1"]
    assert lane.successors == ("3",)
    assert lane.speed_limit_mps == pytest.approx(25 * 1609.344 / 3600)
    assert (lane.half_width_m, len(lane.polygon_m)) == (1.75, 0)
    assert [lane.connector for lane in lane_map.lanes.values()] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert lane_map.lanes["3"].speed_limit_mps is None
    assert len(lane_map.crosswalks_m) == len(lane_map.drivable_m) == 1


def test_lanes_that_follow_each_other_are_never_in_one_roadblock():
    message = files.scenario()
    # One long lane beside two short ones that follow each other.
    message["mapFeatures"] = [
        files.lane(1, files.points(0, 80, 0.0), left=(2, 3)),
        files.lane(2, files.points(0, 40, 3.5), after=(3,), right=(1,)),
        files.lane(3, files.points(40, 80, 3.5), right=(1,)),
    ]
    assert lane_map_of(message).roadblocks == {"rb_1": ("1", "2"), "rb_3": ("3",)}


def test_the_route_is_that_of_the_driven_path(unit):
    scene, _ = unit
    assert scene.route_at(0) == ("rb_1", "rb_3", "rb_5")
    # At 4.5 s the rear axle is at 31, on lane 1 still.
    assert scene.route_at(9) == ("rb_1", "rb_3", "rb_5")


def test_red_lights_are_stops_at_their_step(unit):
    scene, _ = unit
    expected = [
        {"3", "4"} if step < 20 else {"3"} if step < 40 else set()
        for step in range(0, 51, 5)
    ]
    assert [set(shut) for shut in scene.red_lights] == expected


def same(unit, other):
    scene, truth = unit
    assert scene.route == other[0].route
    assert scene.red_lights == other[0].red_lights
    assert truth.cls.tolist() == other[1].cls.tolist()
    np.testing.assert_array_equal(truth.objects.corners_m, other[1].objects.corners_m)
    for key, lane in scene.lane_map.lanes.items():
        np.testing.assert_array_equal(
            lane.centreline_m, other[0].lane_map.lanes[key].centreline_m
        )


def test_names_in_the_manner_of_the_definition_are_read(tmp_path, unit):
    message = files.in_snake_case(files.scenario())
    assert "sdc_track_index" in message
    same(unit, read(tmp_path, message))


def test_numbers_for_enumerations_and_ids_are_read(tmp_path, unit):
    message = files.scenario()
    kinds = {"TYPE_VEHICLE": 1, "TYPE_PEDESTRIAN": 2, "TYPE_OTHER": 4}
    lights = {
        "LANE_STATE_ARROW_STOP": 1,
        "LANE_STATE_STOP": 4,
        "LANE_STATE_GO": 6,
        "LANE_STATE_FLASHING_STOP": 7,
    }
    for track in message["tracks"]:
        track["objectType"] = kinds[track["objectType"]]
    for feature in message["mapFeatures"]:
        feature["id"] = int(feature["id"])
        if "lane" in feature:
            feature["lane"]["type"] = 3 if "BIKE" in feature["lane"]["type"] else 2
            feature["lane"]["exitLanes"] = [
                int(each) for each in feature["lane"].get("exitLanes", [])
            ]
    for step in message["dynamicMapStates"]:
        for each in step["laneStates"]:
            each["lane"], each["state"] = int(each["lane"]), lights[each["state"]]
    same(unit, read(tmp_path, message))


def test_numbers_that_are_left_out_are_0(tmp_path, unit):
    message = files.scenario()
    for track in message["tracks"]:
        for state in track["states"]:
            for key in [key for key, value in state.items() if value == 0.0]:
                del state[key]
    del message["tracks"][0]["states"][0]
    message["tracks"][0]["states"].insert(
        0, files.state(30.0, 0.0, size=(4.5, 1.9, 1.5), speed=5.0)
    )
    same(unit, read(tmp_path, message))


def test_without_signals_nothing_is_red(tmp_path):
    message = files.scenario()
    del message["dynamicMapStates"]
    assert read(tmp_path, message)[0].red_lights == ()


def turned(message, angle):
    """The same scenario, turned by an angle."""
    message = json.loads(json.dumps(message))
    cos, sin = np.cos(angle), np.sin(angle)

    def turn(point, x="x", y="y"):
        if point.get("valid", True):
            point[x], point[y] = (
                cos * point[x] - sin * point[y],
                sin * point[x] + cos * point[y],
            )

    for track in message["tracks"]:
        for state in track["states"]:
            turn(state, "centerX", "centerY")
            turn(state, "velocityX", "velocityY")
            state["heading"] = state.get("heading", 0.0) + angle
    for feature in message["mapFeatures"]:
        for part in feature.values():
            for name in ("polyline", "polygon") if isinstance(part, dict) else ():
                for point in part.get(name, ()):
                    turn(point)
    return message


@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("angle", [0.05, 2.0])
def test_the_form_of_gpudrive_is_read_as_the_message(tmp_path, degrees, angle):
    message = turned(files.scenario(), angle)
    scene, truth = read(tmp_path / "message", message)
    other, other_truth = read(
        tmp_path / "gpudrive", files.as_gpudrive(message, degrees=degrees)
    )
    np.testing.assert_allclose(other.world_from_ego, scene.world_from_ego, atol=1e-9)
    np.testing.assert_allclose(
        other_truth.objects.corners_m, truth.objects.corners_m, atol=1e-9
    )
    assert (other.route, other.red_lights, truth.cls.tolist()) == (
        scene.route,
        scene.red_lights,
        other_truth.cls.tolist(),
    )
    assert list(other.lane_map.lanes) == list(scene.lane_map.lanes)
    for key, lane in scene.lane_map.lanes.items():
        assert other.lane_map.lanes[key].successors == lane.successors
        assert other.lane_map.lanes[key].speed_limit_mps is None
    # Lanes side by side are one roadblock; the message does not say so of 3 and 4.
    assert other.lane_map.roadblocks == {
        "rb_1": ("1", "2"),
        "rb_3": ("3", "4"),
        "rb_5": ("5",),
    }


def test_without_an_index_the_ego_is_the_last_vehicle_that_is_always_valid(tmp_path):
    """Older files of GPUDrive have no metadata; roads without ids and positions without
    heights are read too.
    """
    message = files.as_gpudrive(files.scenario())
    expected, _ = read(tmp_path / "with", message)
    del message["metadata"], message["objects"][3]
    for road in message["roads"]:
        del road["id"]
    for position in message["objects"][0]["position"]:
        del position["z"]
    with pytest.warns(
        InputWarning, match=f"{UNIT} does not name the ego: object 1, the last vehicle"
    ):
        scene, truth = read(tmp_path / "without", message)
    np.testing.assert_array_equal(scene.world_from_ego, expected.world_from_ego)
    assert set(truth.cls) == {"Car", "Pedestrian"}
    assert len(scene.lane_map.lanes) == len(expected.lane_map.lanes)
    message["objects"][0]["valid"][0] = message["objects"][1]["valid"][0] = False
    with pytest.raises(InputError, match="must have a vehicle that is always valid"):
        read(tmp_path / "none", message)


def at(*keys, to, message=None):
    """A scenario with one value set, or with `to(value)` where it is a function."""
    message = files.scenario() if message is None else message
    inner = message
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to(inner[keys[-1]]) if callable(to) else to
    return message


def gpudrive(*keys, to):
    return at(*keys, to=to, message=files.as_gpudrive(files.scenario()))


GPUDRIVE_DAMAGE = {
    "roads": (gpudrive("roads", to=3), "roads must be a list of objects"),
    "ego": (
        gpudrive("metadata", "sdc_track_index", to=4),
        "sdc_track_index must be the number of one of 4 objects; ",
    ),
    "no ego": (
        gpudrive("metadata", "sdc_track_index", to="1"),
        "one of 4 objects; found '1'",
    ),
    "lengths": (
        gpudrive("objects", 0, "heading", to=[0.0]),
        "object 0: position, heading, velocity and valid must be",
    ),
    "heading": (
        gpudrive("objects", 0, "heading", 3, to="north"),
        "heading must be a finite number; found 'north'",
    ),
    "position": (
        gpudrive("objects", 0, "position", 3, to=None),
        "object 0: positions and velocities must have x",
    ),
    "type": (
        gpudrive("objects", 0, "type", to="ufo"),
        "objectType must be one of .*TYPE_UFO",
    ),
    "light": (
        gpudrive("tl_states", "3", "time_index", 0, to=91),
        "time_index must be in 0..90; found 91",
    ),
    "lights": (gpudrive("tl_states", to=[1]), "tl_states must be an object of lanes"),
    "geometry": (gpudrive("roads", 0, "geometry", to=None), "geometry must be a list"),
    "point": (
        gpudrive("roads", 0, "geometry", to=[[0, 0], [1, 0]]),
        "road 1: every point .* must have x and y",
    ),
}


@pytest.mark.parametrize("name", GPUDRIVE_DAMAGE)
def test_faults_in_the_form_of_gpudrive_are_refused(tmp_path, name):
    message, sentence = GPUDRIVE_DAMAGE[name]
    with pytest.raises(InputError, match=sentence) as refusal:
        read(tmp_path, message)
    assert f"{UNIT}.json" in str(refusal.value)


DAMAGE = {
    "a list": ([], "must hold one Waymo scenario; found list"),
    "no scenario": (
        {"a": 1},
        "a Waymo scenario must have a list timestampsSeconds; it has none",
    ),
    "no tracks": (at("tracks", to=None), "must have a list tracks"),
    "no map": (at("mapFeatures", to={}), "must have a list mapFeatures"),
    "no lanes": (at("mapFeatures", to=[]), "must have lanes for cars"),
    "ego beyond": (
        at("sdcTrackIndex", to=4),
        "sdcTrackIndex must be the number of one of 4 tracks; found 4",
    ),
    "ego below": (at("sdcTrackIndex", to=-1), "found -1"),
    "no ego": (at("sdcTrackIndex", to=None), "found None"),
    "ego gone": (
        at("tracks", 1, "states", 33, to={"valid": False}),
        r"the ego \(track 1\) must be valid .* not at 33",
    ),
    "a hole": (
        at("timestampsSeconds", to=lambda times: [t + 1.0 * (t > 4.01) for t in times]),
        r"must be 0.1 s apart; from 40 to 41 there are 1.1 s",
    ),
    "times": (
        at("timestampsSeconds", to=["a"] * 91),
        "timestampsSeconds must be numbers",
    ),
    "nan": (at("timestampsSeconds", 3, to=float("nan")), "must be 0.1 s apart"),
    "short": (
        at("timestampsSeconds", to=lambda times: times[:11]),
        "must have more than 40 steps.* it has 11",
    ),
    "states": (
        at("tracks", 0, "states", to=lambda each: each[1:]),
        "track 7: states must be 91",
    ),
    "signals": (
        at("dynamicMapStates", to=lambda each: each[1:]),
        "dynamicMapStates must be 91",
    ),
    "type": (
        at("tracks", 0, "objectType", to="TYPE_UFO"),
        "objectType must be one of TYPE_UNSET.*'TYPE_UFO'",
    ),
    "type list": (at("tracks", 0, "objectType", to=[1]), "objectType must be one of"),
    "word": (
        at("tracks", 0, "states", 4, "centerX", to="east"),
        "centerX must be a finite number; found 'east'",
    ),
    "infinite": (
        at("tracks", 0, "states", 4, "centerX", to="Infinity"),
        "centerX must be a finite number",
    ),
    "size": (
        at("tracks", 0, "states", 4, "length", to=0.0),
        "length and width must be positive",
    ),
    "ego size": (
        at("tracks", 1, "states", 4, "length", to=-1.0),
        "length and width must be positive",
    ),
    "line": (
        at("mapFeatures", 0, "lane", "polyline", to=3),
        "polyline must be a list; found 3",
    ),
    "point": (
        at("mapFeatures", 0, "lane", "polyline", 0, "x", to="NaN"),
        "x must be a finite number; found 'NaN'",
    ),
    "far": (
        at("mapFeatures", to=[files.lane(1, files.points(9000, 9100, 0.0))]),
        "no lane is within",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_wrong_is_told_in_a_sentence(tmp_path, name):
    message, sentence = DAMAGE[name]
    with pytest.raises(InputError, match=sentence) as told:
        read(tmp_path, message)
    assert f"{UNIT}.json" in str(told.value)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_told(tmp_path, content):
    (tmp_path / f"{UNIT}.json").write_bytes(content)
    with pytest.raises(InputError, match=r"must be a JSON file; |text must be UTF-8"):
        Waymo(tmp_path).read_unit(UNIT)


def test_a_folder_without_scenarios_is_told(tmp_path):
    with pytest.raises(InputError, match="must hold JSON files"):
        Waymo(tmp_path).unit_ids()
    files.write(tmp_path / "deep" / "er")
    assert Waymo(tmp_path).unit_ids() == (UNIT,)
    with pytest.raises(InputError, match="units must be among a1b2c3; found b"):
        Waymo(tmp_path).read_unit("b")
