"""A Waymo motion scenario as protobuf's JSON has it: 91 steps, a street of two lanes,
an intersection, a red light.
"""

import json
import re

import numpy as np

STEPS = 91
SPEED_MPS = 5.0
LENGTH_M = 5.0


def points(x0, x1, y, count=21):
    return [{"x": float(x), "y": y, "z": 0.0} for x in np.linspace(x0, x1, count)]


def lane(number, line, *, after=(), left=(), right=(), **told):
    neighbours = {
        side: [
            {
                "featureId": str(other),
                "selfStartIndex": 0,
                "selfEndIndex": len(line) - 1,
            }
            for other in others
        ]
        for side, others in (("leftNeighbors", left), ("rightNeighbors", right))
        if others
    }
    found = {
        "speedLimitMph": 25.0,
        "type": "TYPE_SURFACE_STREET",
        "polyline": line,
        **told,
        **neighbours,
    }
    # 64-bit numbers are text in protobuf's JSON.
    return {
        "id": str(number),
        "lane": found | ({"exitLanes": [str(each) for each in after]} if after else {}),
    }


def state(x, y, *, size=(LENGTH_M, 2.0, 1.6), speed=0.0):
    length, width, height = size
    told = dict(
        centerX=x,
        centerY=y,
        centerZ=height / 2,
        length=length,
        width=width,
        height=height,
    )
    return {**told, "heading": 0.0, "velocityX": speed, "velocityY": 0.0, "valid": True}


def scenario():
    """The ego (track 1) drives along y = 0 from x = 10 at 5 m/s; its lane is 1, beside
    it 2, then 3 and 4, then 5.
    """
    square = [
        {"x": 48.0, "y": -2.0},
        {"x": 52.0, "y": -2.0},
        {"x": 52.0, "y": 6.0},
        {"x": 48.0, "y": 6.0},
    ]
    ahead = [
        state(30 + SPEED_MPS * step * 0.1, 0.0, size=(4.5, 1.9, 1.5), speed=SPEED_MPS)
        for step in range(STEPS)
    ]
    seen = [
        state(50.0, 5.0, size=(0.7, 0.7, 1.8))
        if 10 <= step < 60
        else {"centerX": 0.0, "valid": False}
        for step in range(STEPS)
    ]
    return {
        "scenarioId": "a1b2c3",
        "timestampsSeconds": [round(0.1 * step, 5) for step in range(STEPS)],
        "currentTimeIndex": 10,
        "sdcTrackIndex": 1,
        "tracks": [
            {"id": 7, "objectType": "TYPE_VEHICLE", "states": ahead},
            {
                "id": 99,
                "objectType": "TYPE_VEHICLE",
                "states": [
                    state(10 + SPEED_MPS * step * 0.1, 0.0, speed=SPEED_MPS)
                    for step in range(STEPS)
                ],
            },
            {"id": 8, "objectType": "TYPE_PEDESTRIAN", "states": seen},
            {"id": 9, "objectType": "TYPE_OTHER", "states": [{"valid": False}] * STEPS},
        ],
        "mapFeatures": [
            lane(1, points(0, 40, 0.0), after=(3,), left=(2,)),
            lane(2, points(0, 40, 3.5), after=(4,), right=(1,)),
            lane(
                3,
                points(40, 60, 0.0),
                after=(5,),
                interpolating=True,
                speedLimitMph=0.0,
            ),
            lane(4, points(40, 60, 3.5), interpolating=True),
            lane(5, points(60, 200, 0.0)),
            lane(6, points(0, 200, -4.0), type="TYPE_BIKE_LANE"),
            lane(10, points(0, 0, 9.0)[:1]),
            {
                "id": "20",
                "roadEdge": {
                    "type": "TYPE_ROAD_EDGE_BOUNDARY",
                    "polyline": points(0, 200, -6.0),
                },
            },
            {"id": "21", "crosswalk": {"polygon": square}},
            {"id": "22", "driveway": {"polygon": square}},
            {
                "id": "23",
                "stopSign": {
                    "lane": ["5"],
                    "position": {"x": 60.0, "y": 0.0, "z": 0.0},
                },
            },
        ],
        "dynamicMapStates": [
            {
                "laneStates": [
                    {
                        "lane": "3",
                        "state": "LANE_STATE_STOP" if step < 40 else "LANE_STATE_GO",
                        "stopPoint": {"x": 40.0},
                    },
                    {
                        "lane": "4",
                        "state": "LANE_STATE_ARROW_STOP"
                        if step < 20
                        else "LANE_STATE_FLASHING_STOP",
                    },
                ]
            }
            for step in range(STEPS)
        ],
    }


def in_snake_case(message):
    """The same message with the field names of its definition."""
    if isinstance(message, list):
        return [in_snake_case(each) for each in message]
    if isinstance(message, dict):
        return {
            re.sub("([A-Z])", r"_\1", key).lower(): in_snake_case(each)
            for key, each in message.items()
        }
    return message


def write(root, message=None, name="a1b2c3"):
    root.mkdir(parents=True, exist_ok=True)
    (root / f"{name}.json").write_text(
        json.dumps(scenario() if message is None else message)
    )
    return root


def as_gpudrive(message, *, degrees=False):
    """The same scenario as GPUDrive writes it: lists per object, lines of lanes, no
    connections and no speed limits.
    """
    absent = {"x": -1e4, "y": -1e4, "z": -1e4}
    objects = []
    for track in message["tracks"]:
        states = [state if state["valid"] else None for state in track["states"]]
        last = next(
            (state for state in reversed(states) if state),
            dict.fromkeys(("length", "width", "height"), 0.0),
        )
        turn = 180 / np.pi if degrees else 1.0
        objects.append(
            {
                "position": [
                    {axis: s[f"center{axis.upper()}"] for axis in "xyz"}
                    if s
                    else absent
                    for s in states
                ],
                **{name: last[name] for name in ("width", "length", "height")},
                "heading": [s["heading"] * turn if s else -1e4 for s in states],
                "velocity": [
                    {axis: s[f"velocity{axis.upper()}"] for axis in "xy"}
                    if s
                    else absent
                    for s in states
                ],
                "valid": [s is not None for s in states],
                "goalPosition": absent,
                "type": track["objectType"].removeprefix("TYPE_").lower(),
                "id": track["id"],
                "mark_as_expert": False,
            }
        )
    roads = []
    for feature in message["mapFeatures"]:
        kind = next(key for key in feature if key != "id")
        content = feature[kind]
        line = (
            content.get("polyline") or content.get("polygon") or [content["position"]]
        )
        element = (3 if "BIKE" in content["type"] else 2) if kind == "lane" else 15
        name = re.sub("([A-Z])", r"_\1", kind).lower()
        roads.append(
            {
                "geometry": line,
                "type": name,
                "map_element_id": element,
                "id": int(feature["id"]),
            }
        )
    lights = {}
    for step, states in enumerate(message["dynamicMapStates"]):
        for light in states["laneStates"]:
            one = lights.setdefault(
                light["lane"],
                {"state": [], "x": [], "y": [], "z": [], "time_index": []},
            )
            one["state"].append(light["state"].removeprefix("LANE_STATE_").lower())
            one["time_index"].append(step)
    metadata = {
        "sdc_track_index": message["sdcTrackIndex"],
        "objects_of_interest": [],
        "tracks_to_predict": [],
    }
    return {
        "name": "x",
        "scenario_id": "a1b2c3",
        "objects": objects,
        "roads": roads,
        "tl_states": lights,
        "metadata": metadata,
    }
