"""Waymo motion scenarios in JSON form -> scenes and truths, a scenario as a unit.

A file holds one `Scenario` message as protobuf's JSON writes it, with field names in
either manner (scenarioId or scenario_id), enumerations by name or number, and 64-bit
numbers as text or numbers. A missing number is 0, as in protobuf. A file with a list
`objects` is in GPUDrive's form (see `message_of`). Steps are 0.1 s; every fifth step
with 4 s ahead of it is a state.

The files lack a camera (a nominal one stands in), lane outlines (every lane is 3.5 m
wide), a route (it is matched to the driven path) and the positions of the axles (at the
same shares of the length as those of nuScenes' Zoe).

GPUDrive's form (`objects`, `roads`, `tl_states`): objects have lists of positions,
headings, velocities and valid flags, and one size. Lanes have only their lines: a lane
leads to the lanes that begin where it ends, and lanes side by side are neighbours.
There are no speed limits. Headings are in radians; older files have them in degrees.
Older files do not name the ego either: it is the last vehicle that is always valid,
since Waymo lists the ego last.
"""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.dataset import FileUnits
from deepval.datasets.logs.log import (
    Log,
    LoggedTrack,
    distinct_m,
    headings,
    poses_of,
    roadblocks_of,
    route_of,
)
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError, InputWarning
from deepval.files.canonical import read_json
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.vehicle import vehicle_like, wrap_rad
from deepval.world.lanes import Lane, LaneMap

STEP_S, LATE_S = 0.1, 0.03
EVERY, FUTURE_STEPS = 5, 40
HALF_WIDTH_M = 1.75
MPS_PER_MPH = 0.44704
CLASSES = {
    "TYPE_UNSET": "Misc",
    "TYPE_VEHICLE": "Car",
    "TYPE_PEDESTRIAN": "Pedestrian",
    "TYPE_CYCLIST": "Cyclist",
    "TYPE_OTHER": "Misc",
}
BIKE_LANES = ("TYPE_BIKE_LANE", 3)
STOPS = ("LANE_STATE_ARROW_STOP", 1, "LANE_STATE_STOP", 4)
STATE = (
    "centerX",
    "centerY",
    "centerZ",
    "length",
    "width",
    "height",
    "heading",
    "velocityX",
    "velocityY",
)
NOMINAL = Camera(
    fx_px=2055.0,
    fy_px=2055.0,
    cx_px=960.0,
    cy_px=640.0,
    ego_from_cam=looking_ahead(1.54, height_m=2.115),
    road_z_m=0.0,
    width_px=1920,
    height_px=1280,
)
"""Motion scenarios have no pictures: approximate pose and intrinsics of Waymo's front
camera.
"""


def read_scenario(path: Path) -> dict[str, Any]:
    """The scenario in a file, with its three main lists checked."""
    scenario = read_json(path)
    if not isinstance(scenario, dict):
        raise InputError(
            f"{path}: must hold one Waymo scenario; found {type(scenario).__name__}."
        )
    if isinstance(scenario.get("objects"), list):
        try:
            return message_of(scenario, path.stem)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    for name in ("timestampsSeconds", "tracks", "mapFeatures"):
        if not isinstance(field_value(scenario, name), list):
            raise InputError(
                f"{path}: a Waymo scenario must have a list {name}; it has none."
            )
    return scenario


def field_value(message: Any, name: str, default: Any = None) -> Any:
    """A field by its JSON name (scenarioId) or its name in the message's definition
    (scenario_id).
    """
    if not isinstance(message, Mapping):
        return default
    return message.get(
        name,
        message.get(
            re.sub("([A-Z])", lambda capital: f"_{capital[1].lower()}", name), default
        ),
    )


def field_list(message: Any, name: str) -> list[Any]:
    """A repeated field; empty where it is missing."""
    items = field_value(message, name, [])
    if not isinstance(items, list):
        raise InputError(f"{name} must be a list; found {items!r}.")
    return items


def log_of(scenario: dict[str, Any], unit: str) -> Log:
    """The drive of a scenario as a log."""
    time_s = _times_s(scenario)
    tracks = field_list(scenario, "tracks")
    ego = _ego_number(scenario, len(tracks))
    logged_tracks = [_track(track, len(time_s)) for track in tracks]
    driven = logged_tracks.pop(ego)
    if not driven.valid.all():
        raise InputError(
            f"the ego (track {ego}) must be valid at every "
            f"step; it is not at {np.argmin(driven.valid)}."
        )
    vehicle = vehicle_like(*np.median(driven.size_m[:, :2], axis=0).tolist())
    forward = np.column_stack([np.cos(driven.heading_rad), np.sin(driven.heading_rad)])
    # Waymo's positions are box centres; the ego frame is at the rear axle.
    rear_axle = np.column_stack(
        [driven.centre_m[:, :2] - vehicle.centre_m * forward, driven.heading_rad]
    )
    lane_map = lane_map_of(scenario)
    route = route_of(lane_map, rear_axle)
    return Log(
        unit=unit,
        time_s=time_s,
        world_from_ego=poses_of(
            rear_axle, height_m=driven.centre_m[:, 2] - driven.size_m[:, 2] / 2
        ),
        speed_mps=np.maximum((driven.velocity_mps * forward).sum(axis=1), 0.0),
        vehicle=vehicle,
        camera=NOMINAL,
        tracks=tuple(track for track in logged_tracks if track.valid.any()),
        lane_map=lane_map,
        route=route.roadblocks,
        states=np.arange(0, len(time_s) - FUTURE_STEPS, EVERY),
        route_starts=route.starts,
        red_lights=_red_lights(scenario, len(time_s)),
    )


def lane_map_of(scenario: dict[str, Any]) -> LaneMap:
    """Lanes for cars in the scenario's order, in roadblocks of neighbours; driveways,
    crosswalks.

    A lane of a single point, as some scenarios have, leads nowhere and is left out.
    """
    car_lanes, areas = {}, {"crosswalk": [], "driveway": []}
    for feature in field_list(scenario, "mapFeatures"):
        lane = field_value(feature, "lane")
        if lane is not None and field_value(lane, "type") not in BIKE_LANES:
            car_lanes[str(field_value(feature, "id"))] = lane
        for kind, outlines in areas.items():
            if field_value(feature, kind) is not None:
                outlines.append(_points(field_value(feature, kind), "polygon"))
    lines = {
        key: distinct_m(_points(lane, "polyline")) for key, lane in car_lanes.items()
    }
    car_lanes = {key: lane for key, lane in car_lanes.items() if len(lines[key]) > 1}
    roadblocks = roadblocks_of(
        {key: set(_ids(lane, "exitLanes")) for key, lane in car_lanes.items()},
        {
            key: [
                str(field_value(neighbour, "featureId"))
                for side in ("leftNeighbors", "rightNeighbors")
                for neighbour in field_list(lane, side)
            ]
            for key, lane in car_lanes.items()
        },
    )
    lanes = {
        key: Lane(
            id=key,
            centreline_m=lines[key],
            roadblock=roadblocks[key],
            half_width_m=HALF_WIDTH_M,
            successors=_ids(lane, "exitLanes"),
            speed_limit_mps=_number(lane, "speedLimitMph") * MPS_PER_MPH or None,
            connector=field_value(lane, "interpolating") is True,
        )
        for key, lane in car_lanes.items()
    }
    if not lanes:
        raise InputError("its map must have lanes for cars; it has none.")
    return LaneMap(
        lanes,
        drivable_m=tuple(areas["driveway"]),
        crosswalks_m=tuple(areas["crosswalk"]),
    )


def _times_s(scenario: dict[str, Any]) -> Float[np.ndarray, "step"]:
    try:
        time_s = np.array(
            field_value(scenario, "timestampsSeconds"), dtype=float
        ).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"timestampsSeconds must be numbers; {error}.") from error
    if len(time_s) <= FUTURE_STEPS:
        raise InputError(
            f"a scenario must have more than {FUTURE_STEPS} steps, so that one has 4 "
            f"s ahead; it has {len(time_s)}: take the training or validation set."
        )
    wrong = np.flatnonzero(~(np.abs(np.diff(time_s) - STEP_S) <= LATE_S))
    if len(wrong):
        step = int(wrong[0])
        raise InputError(
            f"timestampsSeconds must be {STEP_S:g} s apart; from {step} to {step + 1} "
            f"there are {time_s[step + 1] - time_s[step]:g} s."
        )
    return time_s


def _ego_number(scenario: dict[str, Any], tracks: int) -> int:
    number = field_value(scenario, "sdcTrackIndex")
    if not (isinstance(number, int) and 0 <= number < tracks):
        raise InputError(
            "sdcTrackIndex must be the number of one "
            f"of {tracks} tracks; found {number!r}."
        )
    return number


def _track(track: Any, steps: int) -> LoggedTrack:
    name, kind, states = (
        str(field_value(track, "id")),
        field_value(track, "objectType", "TYPE_UNSET"),
        field_list(track, "states"),
    )
    kind = tuple(CLASSES)[kind] if kind in range(len(CLASSES)) else str(kind)
    if kind not in CLASSES:
        raise InputError(
            f"track {name}: objectType must "
            f"be one of {', '.join(CLASSES)}; found {kind!r}."
        )
    if len(states) != steps:
        raise InputError(
            f"track {name}: states must be {steps}, one "
            f"per time stamp; found {len(states)}."
        )
    valid: Bool[np.ndarray, "step"] = np.array(
        [field_value(state, "valid", default=False) is True for state in states]
    )
    columns = np.full((steps, len(STATE)), np.nan)
    for step in np.flatnonzero(valid):
        columns[step] = [_number(states[step], field) for field in STATE]
    return LoggedTrack(
        id=name,
        cls=CLASSES[kind],
        centre_m=columns[:, :3],
        size_m=columns[:, 3:6],
        heading_rad=columns[:, 6],
        velocity_mps=columns[:, 7:],
        valid=valid,
    )


def _red_lights(scenario: dict[str, Any], steps: int) -> tuple[frozenset[str], ...]:
    by_step = field_list(scenario, "dynamicMapStates")
    if by_step and len(by_step) != steps:
        raise InputError(
            f"dynamicMapStates must be {steps}, one per time "
            f"stamp, or none; found {len(by_step)}."
        )
    return tuple(
        frozenset(
            str(field_value(light, "lane"))
            for light in field_list(step, "laneStates")
            if field_value(light, "state") in STOPS
        )
        for step in by_step
    )


def _ids(message: Any, name: str) -> tuple[str, ...]:
    return tuple(str(number) for number in field_list(message, name))


def _number(message: Any, name: str) -> float:
    value = field_value(message, name, 0.0)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{name} must be a finite number; found {value!r}.")
    return number


def _points(message: Any, name: str) -> Float[np.ndarray, "point 2"]:
    points = [
        (_number(point, "x"), _number(point, "y"))
        for point in field_list(message, name)
    ]
    return np.array(points, dtype=float).reshape(-1, 2)


class Waymo(FileUnits):
    """Waymo scenarios."""

    called, patterns = "waymo", ("*.json",)
    requirement = "a folder of Waymo scenarios must hold JSON files"
    content, log, states = (
        staticmethod(read_scenario),
        staticmethod(log_of),
        staticmethod(unit_of),
    )


STEP_S = 0.1
SAME_M = 0.5
"""A lane leads to another that begins at most this far from its end."""
BESIDE_M = (2.0, 5.0)
"""Distances between the middles of neighbouring lanes."""
ALIGNED_RAD = np.radians(30.0)
"""Lanes follow each other or are neighbours if their headings differ by less."""
MOVING_MPS = 1.0


def message_of(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The scenario of that name as the fields of Waymo's message that the reader uses;
    it checks their values.
    """
    objects, roads = (_records(content, part) for part in ("objects", "roads"))
    steps = max((len(_items(one, "valid")) for one in objects), default=0)
    unit = _radians_per_unit(objects)
    return {
        "timestampsSeconds": (np.arange(steps) * STEP_S).tolist(),
        "sdcTrackIndex": _gpudrive_ego(content, objects, name),
        "tracks": [
            _gpudrive_track(one, number, radians=unit)
            for number, one in enumerate(objects)
        ],
        "mapFeatures": _features(roads),
        "dynamicMapStates": _lights(content.get("tl_states") or {}, steps),
    }


def _gpudrive_ego(
    content: Mapping[str, Any], objects: list[Mapping[str, Any]], name: str
) -> int:
    metadata = content.get("metadata")
    number = metadata.get("sdc_track_index") if isinstance(metadata, Mapping) else None
    if number is None:
        drivers = [
            number
            for number, one in enumerate(objects)
            if one.get("type") == "vehicle" and all(one["valid"])
        ]
        if not drivers:
            raise InputError(
                "a file without metadata.sdc_track_index must have a vehicle that is "
                "always valid, as ego."
            )
        note = (
            f"{name} does not name the ego: object {drivers[-1]}, the last vehicle "
            "that is always valid, stands in."
        )
        warnings.warn(note, InputWarning, stacklevel=2)
        return drivers[-1]
    if not isinstance(number, int) or not 0 <= number < len(objects):
        raise InputError(
            f"metadata.sdc_track_index must be the number of one of {len(objects)} "
            f"objects; found {number!r}."
        )
    return number


def _records(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    records = content.get(name)
    if not isinstance(records, list) or not all(
        isinstance(one, Mapping) for one in records
    ):
        raise InputError(f"{name} must be a list of objects; it is not.")
    return records


def _items(one: Any, name: str) -> list[Any]:
    items = one.get(name) if isinstance(one, Mapping) else None
    if not isinstance(items, list):
        raise InputError(f"{name} must be a list; found {items!r}.")
    return items


def _gpudrive_track(
    one: Mapping[str, Any], number: int, *, radians: float
) -> dict[str, Any]:
    columns = [
        _items(one, name) for name in ("position", "heading", "velocity", "valid")
    ]
    if len({len(column) for column in columns}) > 1:
        raise InputError(
            f"object {number}: position, heading, velocity and valid must be equally "
            "long; they are not."
        )
    size = {name: one.get(name) for name in ("length", "width", "height")}
    states = []
    for position, heading, velocity, valid in zip(*columns, strict=True):
        if not valid:
            states.append({"valid": False})
            continue
        values = {
            "heading": _value(heading, "heading") * radians,
            "valid": True,
            **size,
        }
        values |= (
            {f"center{axis.upper()}": position.get(axis, 0.0) for axis in "xyz"}
            if _is_point(position)
            else {}
        )
        values |= (
            {f"velocity{axis.upper()}": velocity.get(axis) for axis in "xy"}
            if _is_point(velocity)
            else {}
        )
        if len(values) < 10:
            raise InputError(
                f"object {number}: positions and velocities must "
                "have x and y; one does not."
            )
        states.append(values)
    kind = str(one.get("type", "unset")).upper()
    return {"id": one.get("id", number), "objectType": f"TYPE_{kind}", "states": states}


def _is_point(point: Any) -> bool:
    return isinstance(point, Mapping) and {"x", "y"} <= set(point)


def _value(value: Any, what: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= 1e8
    ):
        raise InputError(f"{what} must be a finite number; found {value!r}.")
    return float(value)


def _radians_per_unit(objects: list[Mapping[str, Any]]) -> float:
    """The unit in which headings agree better with the directions of motion; without
    motion, radians up to 2 pi.
    """
    headings, directions = [0.0], []
    for one in objects:
        for heading, velocity, valid in zip(
            _items(one, "heading"),
            _items(one, "velocity"),
            _items(one, "valid"),
            strict=False,
        ):
            if not (valid and _is_point(velocity)):
                continue
            headings.append(_value(heading, "heading"))
            vx, vy = (_value(velocity[axis], "velocity") for axis in "xy")
            if np.hypot(vx, vy) > MOVING_MPS:
                directions.append((headings[-1], np.arctan2(vy, vx)))
    if not directions:
        return 1.0 if max(map(abs, headings)) <= 2 * np.pi + 1e-6 else np.pi / 180
    heading, direction = np.array(directions).T
    return min(
        (1.0, np.pi / 180),
        key=lambda unit: float(np.median(np.abs(wrap_rad(heading * unit - direction)))),
    )


def _features(roads: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lanes with their connections, crosswalks and driveways."""
    features, lines, lanes = [], {}, {}
    for number, road in enumerate(roads):
        key, kind = str(road.get("id", f"road {number}")), road.get("type")
        if kind not in ("lane", "crosswalk", "driveway"):
            continue
        line = _items(road, "geometry")
        if not all(map(_is_point, line)):
            raise InputError(
                f"road {key}: every point of its geometry must have "
                "x and y; one does not."
            )
        points = [(_value(point["x"], "x"), _value(point["y"], "y")) for point in line]
        if kind != "lane":
            features.append({"id": key, kind: {"polygon": line}})
            continue
        lanes[key] = {"polyline": line, "type": road.get("map_element_id", 0)}
        if len(points) > 1 and points[0] != points[-1]:
            lines[key] = np.array(points)
        features.append({"id": key, "lane": lanes[key]})
    if lines:
        _connect(lanes, lines)
    return features


def _connect(lanes: dict[str, dict[str, Any]], lines: dict[str, np.ndarray]) -> None:
    keys = list(lines)
    starts, ends = (
        np.array([line[index] for line in lines.values()]) for index in (0, -1)
    )
    middles = np.array([line[len(line) // 2] for line in lines.values()])
    first, last = (
        np.array([headings(line[index])[0] for line in lines.values()])
        for index in (slice(0, 2), slice(-2, None))
    )
    other_along = np.array(
        [headings(line)[min(len(line) // 2, len(line) - 2)] for line in lines.values()]
    )
    for number, key in enumerate(keys):
        near = np.linalg.norm(starts - ends[number], axis=1) <= SAME_M
        near &= np.abs(wrap_rad(first - last[number])) < ALIGNED_RAD
        lanes[key]["exitLanes"] = [
            keys[other] for other in np.flatnonzero(near) if other != number
        ]
        away = np.linalg.norm(lines[key][:, None] - middles, axis=-1)
        gap_m, vertex = away.min(axis=0), away.argmin(axis=0)
        along = headings(lines[key])[np.minimum(vertex, len(lines[key]) - 2)]
        beside = (
            (gap_m >= BESIDE_M[0])
            & (gap_m <= BESIDE_M[1])
            & (np.abs(wrap_rad(along - other_along)) < ALIGNED_RAD)
        )
        lanes[key]["leftNeighbors"] = [
            {"featureId": keys[other]} for other in np.flatnonzero(beside)
        ]


def _lights(lights: Any, steps: int) -> list[dict[str, Any]]:
    """For each step the states of the lights, by lane."""
    if not isinstance(lights, Mapping):
        raise InputError(
            f"tl_states must be an object of lanes; found {type(lights).__name__}."
        )
    by_step: list[dict[str, Any]] = [{"laneStates": []} for _ in range(steps)]
    for lane, light in lights.items():
        for index, state in zip(
            _items(light, "time_index"), _items(light, "state"), strict=False
        ):
            if not isinstance(index, int) or not 0 <= index < steps:
                raise InputError(
                    f"tl_states of lane {lane}: time_index "
                    f"must be in 0..{steps - 1}; found {index!r}."
                )
            by_step[index]["laneStates"].append(
                {"lane": lane, "state": f"LANE_STATE_{str(state).upper()}"}
            )
    return by_step if lights else []
