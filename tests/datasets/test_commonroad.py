"""CommonRoad scenarios are read as written; the real ones agree with a second reading;
faults get a sentence.
"""

import re

import numpy as np
import pytest

import commonroad_files as files
from deepval.datasets import open_dataset
from deepval.datasets.logs.commonroad import CommonRoad
from deepval.errors import InputError
from shared import shared_data

UNIT = "ZAM_Made-1_1_T-1"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return CommonRoad(files.write(tmp_path_factory.mktemp("commonroad"))).read_log(UNIT)


def read(tmp_path, text):
    return CommonRoad(files.write(tmp_path / "logs", text)).read_log(UNIT)


def test_files_at_any_depth_are_units(tmp_path):
    files.write(tmp_path / "a" / "b", name="two")
    files.write(tmp_path, name="one")
    dataset = open_dataset("commonroad", tmp_path)
    assert dataset.unit_ids() == ("one", "two")
    assert dataset.files("two") == {"two.xml": tmp_path / "a" / "b" / "two.xml"}
    files.write(tmp_path / "c", name="one")
    with pytest.raises(InputError, match="units must have different names"):
        dataset.unit_ids()


def test_the_ego_is_the_longest_vehicle(log):
    np.testing.assert_allclose(log.time_s, np.arange(91) * 0.1)
    assert log.states.tolist() == list(range(0, 91, 5))
    behind_m = 4.5 * (0.5 - 0.84 / 4.084)
    np.testing.assert_allclose(
        log.world_from_ego[:, 0, 3], 10 - behind_m + 5 * log.time_s
    )
    np.testing.assert_allclose(log.speed_mps, 5.0)
    assert (log.vehicle.length_m, log.vehicle.width_m) == pytest.approx((4.5, 1.8))


def test_of_equal_trajectories_the_nearest_to_the_problem_is_the_ego(tmp_path):
    content = files.parts()
    content["obstacles"] += files.obstacle(29, files.driven(12, 3.5)) + files.obstacle(
        28, files.driven(9, 0.2)
    )
    assert "28" not in {
        track.id for track in read(tmp_path, files.document(content)).tracks
    }
    del content["problems"]  # then it is the nearest to the first of them
    assert "31" not in {
        track.id for track in read(tmp_path, files.document(content)).tracks
    }


def test_tracks(log):
    tracks = {track.id: track for track in log.tracks}
    assert {key: track.cls for key, track in tracks.items()} == {
        "30": "Car", "32": "Truck", "33": "Pedestrian"
    }  # fmt: skip
    truck, walker, parked = tracks["32"], tracks["33"], tracks["30"]
    assert truck.valid.tolist() == [False] * 4 + [True] * 87
    np.testing.assert_allclose(truck.centre_m[4:, 0], 35 + 5 * log.time_s[4:])
    np.testing.assert_allclose(truck.size_m[4], [9, 2.5, 3.3])
    assert np.flatnonzero(walker.valid).tolist() == list(range(10, 40))
    np.testing.assert_allclose(walker.size_m[10], [0.8, 0.8, 1.75])
    # The file has no speed of it: 0.1 m a step.
    np.testing.assert_allclose(walker.velocity_mps[10:40], [[0, 1.0]] * 30, atol=1e-9)
    np.testing.assert_allclose(parked.centre_m, [[50, 3.5, 1.53 / 2]] * 91)
    np.testing.assert_allclose(parked.velocity_mps, 0.0)


def test_lanes(log):
    lanes = log.lane_map.lanes
    assert list(lanes) == ["1", "2", "3", "4", "5", "6"]
    assert log.lane_map.roadblocks == {
        "rb_1": ("1", "2"),
        "rb_3": ("3",),
        "rb_4": ("4",),
        "rb_5": ("5",),
        "rb_6": ("6",),
    }
    np.testing.assert_allclose(lanes["1"].centreline_m, [[0, 0], [20, 0], [40, 0]])
    np.testing.assert_allclose(lanes["6"].centreline_m, [[40, 7], [20, 7], [0, 7]])
    np.testing.assert_allclose(
        lanes["3"].polygon_m[[0, 2, 3, 5]],
        [[40, 1.75], [60, 1.75], [60, -1.75], [40, -1.75]],
    )
    assert [lane.speed_limit_mps for lane in lanes.values()] == [
        13.9,
        None,
        None,
        None,
        None,
        None,
    ]
    assert [lane.connector for lane in lanes.values()] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert len(log.lane_map.drivable_m) == len(log.lane_map.crosswalks_m) == 1
    assert log.route == ("rb_1", "rb_3", "rb_5")


def test_predecessors_alone_connect_lanes(tmp_path):
    content = files.parts()
    content["lanelets"] = (
        content["lanelets"]
        .replace('<successor ref="3"/>', "")
        .replace('<lanelet id="3">', '<lanelet id="3"><predecessor ref="1"/>')
    )
    assert read(tmp_path, files.document(content)).lane_map.lanes["1"].successors == (
        "3",
    )


@pytest.mark.parametrize(
    ("direction", "expected"), [("straight", {"3"}), ("all", {"3"}), ("left", set())]
)
def test_red_lights_follow_their_cycle(tmp_path, direction, expected):
    content = files.parts()
    content["signs"] = content["signs"].replace("straight", direction)
    shut = read(tmp_path, files.document(content)).red_lights
    # 20 steps red, 30 green, from step 10 on; before it the end of the cycle.
    by_hand = [expected if (step - 10) % 50 < 20 else set() for step in range(91)]
    assert [set(lanes) for lanes in shut] == (by_hand if expected else [])


@pytest.mark.parametrize("step_s", [0.2, 0.04, 0.05, 0.5])
def test_other_time_steps_are_resampled(tmp_path, step_s):
    steps = round(9 / step_s) + 1
    log = read(tmp_path, files.document(files.parts(step_s, steps), step_s=step_s))
    np.testing.assert_allclose(log.time_s, np.arange(91) * 0.1)
    behind_m = 4.5 * (0.5 - 0.84 / 4.084)
    np.testing.assert_allclose(
        log.world_from_ego[:, 0, 3], 10 - behind_m + 5 * log.time_s
    )
    truck = next(track for track in log.tracks if track.id == "32")
    np.testing.assert_array_equal(truck.valid, log.time_s >= 4 * step_s - 1e-9)
    np.testing.assert_allclose(
        truck.centre_m[truck.valid, 0], 35 + 5 * log.time_s[truck.valid]
    )


def test_headings_are_interpolated_along_the_shorter_arc_and_gaps_stay(tmp_path):
    content = files.parts(0.2, 46)
    turns = [
        (step, 50.0, 3.5, {"heading": 3.1 if step % 2 else -3.1, "speed": 0.0})
        for step in (0, 1, 2, 5, 6)
    ]
    content["obstacles"] += files.obstacle(40, turns)
    track = next(
        track
        for track in read(tmp_path, files.document(content, step_s=0.2)).tracks
        if track.id == "40"
    )
    assert np.flatnonzero(track.valid).tolist() == [0, 1, 2, 3, 4, 10, 11, 12]
    np.testing.assert_allclose(np.cos(track.heading_rad[[1, 3, 11]]), -1.0)


def test_shapes_are_boxes_around_their_parts(tmp_path):
    content = files.parts()
    polygon = f"<polygon>{files.points((1, 0), (3, 1), (5, -1))}</polygon>"
    turned = (
        "<rectangle><length>4</length><width>2</width>"
        "<orientation>1.5707963267948966</orientation></rectangle>"
    )
    for key, shape in ((41, polygon), (42, turned)):
        content["obstacles"] += files.obstacle(
            key,
            [(0, 20, 3.5, {"heading": 1.5707963267948966})],
            kind="unknown",
            shape=shape,
            tag="staticObstacle",
        )
    tracks = {
        track.id: track for track in read(tmp_path, files.document(content)).tracks
    }
    np.testing.assert_allclose(tracks["41"].size_m[0], [4, 2, 1.9])
    # Its middle is 3 m ahead of the position, which is to the north.
    np.testing.assert_allclose(tracks["41"].centre_m[0, :2], [20, 6.5])
    np.testing.assert_allclose(tracks["42"].size_m[0, :2], [2, 4])


def test_uncertain_states_count_with_their_middles(tmp_path):
    content = files.parts()
    interval = (
        "<{0}><intervalStart>{1}</intervalStart><intervalEnd>{2}</intervalEnd></{0}>"
    )
    parked = (
        "<rectangle><length>2</length><width>1</width><center><x>51</x><y>3</y>"
        "</center></rectangle>"
    )
    content["obstacles"] = (
        content["obstacles"]
        .replace(
            "<velocity><exact>5.0</exact></velocity>",
            interval.format("velocity", 3.0, 5.0),
        )
        .replace(
            "<orientation><exact>0.0</exact></orientation>",
            interval.format("orientation", -0.1, 0.3),
        )
        .replace(files.points((50, 3.5)), parked)
    )
    log = read(tmp_path, files.document(content))
    tracks = {track.id: track for track in log.tracks}
    np.testing.assert_allclose(tracks["30"].centre_m[0, :2], [51, 3])
    np.testing.assert_allclose(tracks["32"].heading_rad[5], 0.1)
    np.testing.assert_allclose(log.speed_mps, 4.0)


def test_a_light_may_be_named_by_the_stop_line_alone(tmp_path):
    text = files.document()
    light = '<trafficLightRef ref="300"/>'
    line = (
        f"<stopLine>{files.points((40, 1.7), (40, -1.7))}<lineMarking>solid</"
        f"lineMarking>{light}</stopLine>"
    )
    assert (
        read(tmp_path, text.replace(light, line)).red_lights
        == read(tmp_path / "same", text).red_lights
    )


BOMB = '<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]>'


def with_(name, old, new):
    content = files.parts()
    assert old in content[name]
    return files.document(content | {name: content[name].replace(old, new, 1)})


DAMAGE = {
    "no xml": ("{}", "must be an XML file; "),
    "cut": (files.document()[:-30], "must be an XML file; "),
    "bomb": (files.document(head=BOMB), "must have no DOCTYPE and no entities"),
    "entity": (
        files.document(head=BOMB.replace("DOCTYPE", "doctype")),
        "must have no DOCTYPE and no entities",
    ),
    "version": (
        files.document(version="2018b"),
        "of version 2020a; found <commonRoad> of version 2018b",
    ),
    "solution": ("<CommonRoadSolution/>", "found <CommonRoadSolution> of version None"),
    "step": (
        files.document(step_s=0.7),
        "timeStepSize must be from 0.001 to 0.5 s; found 0.7",
    ),
    "no step": (
        files.document().replace("timeStepSize", "t"),
        "timeStepSize must be a finite number .* found None",
    ),
    "short": (
        files.document(files.parts(steps=40)),
        "a vehicle with a trajectory of 4 s or more without gaps",
    ),
    "occupancy": (
        with_("obstacles", "<trajectory>", "<occupancySet/><trajectory>"),
        "it has an occupancySet",
    ),
    "type": (
        with_("obstacles", "truck", "ufo"),
        "dynamicObstacle 32: type must be one of car.* found 'ufo'",
    ),
    "interval": (
        with_("obstacles", "<exact>4</exact>", "<a/>"),
        "31: time/exact of a state must be a finite number",
    ),
    "nan": (
        with_("obstacles", "<x>37.0</x>", "<x>NaN</x>"),
        "x of a position must be a finite number",
    ),
    "twice": (
        with_("obstacles", "<exact>6</exact>", "<exact>7</exact>"),
        "two states are of the same step",
    ),
    "half": (
        with_("obstacles", "<exact>6</exact>", "<exact>6.5</exact>"),
        "whole number of steps",
    ),
    "size": (
        with_("obstacles", "<length>9</length>", "<length>0</length>"),
        "polygon of positive size",
    ),
    "no shape": (
        with_("obstacles", files.rectangle(9, 2.5), ""),
        "polygon of positive size",
    ),
    "bounds": (
        with_("lanelets", files.points((0, 1.75)), ""),
        "lanelet 1: both bounds must have equally many points",
    ),
    "no bound": (with_("lanelets", "leftBound", "bound"), "must be an XML file"),
    "limit": (
        with_("signs", "13.9", "fast"),
        "trafficSign 200: additionalValue must be a finite number",
    ),
    "cycle": (
        with_("signs", "<duration>20", "<duration>0"),
        "every duration of its cycle must be positive",
    ),
    "same ids": (
        with_("lanelets", '<lanelet id="2">', '<lanelet id="1">'),
        "lanelets must have different ids",
    ),
    "region": (
        with_("obstacles", files.points((50, 3.5)), ""),
        "staticObstacle 30: position of a state: must have",
    ),
    "no lanes": (
        files.document(files.parts() | {"lanelets": ""}),
        "its map must have lanelets for cars",
    ),
    "far": (
        files.document().replace("<y>0.0</y>", "<y>900.0</y>"),
        "no lane is within",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_faults_are_refused_in_a_sentence(tmp_path, name):
    text, sentence = DAMAGE[name]
    with pytest.raises(InputError, match=sentence) as refusal:
        read(tmp_path, text)
    assert f"{UNIT}.xml" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_hidden_document_type_is_refused(tmp_path):
    """In another encoding than UTF-8 the check for a document type would not see it."""
    (tmp_path / "x.xml").write_bytes(
        files.document(head='<?xml version="1.0" encoding="UTF-16"?>' + BOMB).encode(
            "utf-16"
        )
    )
    with pytest.raises(InputError, match="UTF-8"):
        CommonRoad(tmp_path).read_log("x")


@pytest.mark.shared
def test_the_real_scenarios_are_as_a_second_reading_has_them():
    """Obstacles by regular expressions: positions at whole steps, for the ego's
    span.
    """
    root = shared_data("commonroad")
    for unit, every, count in (
        ("C-DEU_MONAMerge-2_1_T-299", 2, 73),
        ("USA_US101-5_1_T-1", 1, 101),
    ):
        log = CommonRoad(root).read_log(unit)
        assert len(log.time_s) == count
        text = (root / f"{unit}.xml").read_text()
        blocks = re.findall(
            r'<dynamicObstacle id="(\d+)">(.*?)</dynamicObstacle>', text, re.DOTALL
        )
        paths = {}
        for key, block in blocks:
            states = re.findall(
                r"<(?:initialState|state)>(.*?)</(?:initialState|state)>",
                block,
                re.DOTALL,
            )
            paths[key] = {
                int(re.search(r"<time>\s*<exact>(\d+)", one)[1]): [
                    float(re.search(rf"<{axis}>\s*([-.\de]+)", one)[1]) for axis in "xy"
                ]
                for one in states
            }
        longest = max(len(path) for path in paths.values())
        (ego,) = set(paths) - {track.id for track in log.tracks} - {
            key for key, path in paths.items() if len(path) < longest
        }  # fmt: skip
        first = min(paths[ego])
        for track in log.tracks:
            for step in np.flatnonzero(track.valid[::every]):
                np.testing.assert_allclose(
                    track.centre_m[step * every, :2],
                    paths[track.id][first + step],
                    atol=1e-9,
                )
            logged = [step for step in paths[track.id] if 0 <= step - first < longest]
            assert len(logged) == track.valid[::every].sum()
