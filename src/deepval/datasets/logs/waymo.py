"""Waymo motion scenarios in JSON form -> scenes and truths, a scenario as a unit.

A file holds one `Scenario` message as protobuf's JSON writes it, with field names in either manner (scenarioId or
scenario_id), enumerations by name or number, and 64-bit numbers as text or numbers. A missing number is 0, as in
protobuf. A file with a list `objects` is in GPUDrive's form (see `gpudrive`). Steps are 0.1 s; every fifth step with
4 s ahead of it is a state.

The files lack a camera (a nominal one stands in), lane outlines (every lane is 3.5 m wide), a route (it is matched to
the driven path) and the positions of the axles (at the same shares of the length as those of nuScenes' Zoe).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.dataset import FileUnits
from deepval.datasets.logs.gpudrive import message_of
from deepval.datasets.logs.log import Log, LoggedTrack, distinct_m, poses_of, roadblocks_of, route_of
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError
from deepval.files.canonical import read_json
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.vehicle import vehicle_like
from deepval.world.lanes import Lane, LaneMap
from deepval.world.scene import Scene
from deepval.world.truth import Truth

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
STATE = ("centerX", "centerY", "centerZ", "length", "width", "height", "heading", "velocityX", "velocityY")
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
"""Motion scenarios have no pictures: approximate pose and intrinsics of Waymo's front camera."""


def read_scenario(path: Path) -> dict[str, Any]:
    """The scenario in a file, with its three main lists checked."""
    scenario = read_json(path)
    if not isinstance(scenario, dict):
        raise InputError(f"{path}: must hold one Waymo scenario; found {type(scenario).__name__}.")
    if isinstance(scenario.get("objects"), list):
        try:
            return message_of(scenario, path.stem)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    for name in ("timestampsSeconds", "tracks", "mapFeatures"):
        if not isinstance(field_value(scenario, name), list):
            raise InputError(f"{path}: a Waymo scenario must have a list {name}; it has none.")
    return scenario


def field_value(message: Any, name: str, default: Any = None) -> Any:
    """A field by its JSON name (scenarioId) or its name in the message's definition (scenario_id)."""
    if not isinstance(message, Mapping):
        return default
    return message.get(name, message.get(re.sub("([A-Z])", lambda capital: f"_{capital[1].lower()}", name), default))


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
        raise InputError(f"the ego (track {ego}) must be valid at every step; it is not at {np.argmin(driven.valid)}.")
    vehicle = vehicle_like(*np.median(driven.size_m[:, :2], axis=0).tolist())
    forward = np.column_stack([np.cos(driven.heading_rad), np.sin(driven.heading_rad)])
    # Waymo's positions are box centres; the ego frame is at the rear axle.
    rear_axle = np.column_stack([driven.centre_m[:, :2] - vehicle.centre_m * forward, driven.heading_rad])
    lane_map = lane_map_of(scenario)
    route = route_of(lane_map, rear_axle)
    return Log(
        unit=unit,
        time_s=time_s,
        world_from_ego=poses_of(rear_axle, height_m=driven.centre_m[:, 2] - driven.size_m[:, 2] / 2),
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
    """Lanes for cars in the scenario's order, in roadblocks of neighbours; driveways, crosswalks.

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
    lines = {key: distinct_m(_points(lane, "polyline")) for key, lane in car_lanes.items()}
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
    return LaneMap(lanes, drivable_m=tuple(areas["driveway"]), crosswalks_m=tuple(areas["crosswalk"]))


def _times_s(scenario: dict[str, Any]) -> Float[np.ndarray, "step"]:
    try:
        time_s = np.array(field_value(scenario, "timestampsSeconds"), dtype=float).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"timestampsSeconds must be numbers; {error}.") from error
    if len(time_s) <= FUTURE_STEPS:
        raise InputError(
            f"a scenario must have more than {FUTURE_STEPS} steps, so that one has 4 s ahead; it has {len(time_s)}: "
            "take the training or validation set."
        )
    wrong = np.flatnonzero(~(np.abs(np.diff(time_s) - STEP_S) <= LATE_S))
    if len(wrong):
        step = int(wrong[0])
        raise InputError(
            f"timestampsSeconds must be {STEP_S:g} s apart; from {step} to {step + 1} there are "
            f"{time_s[step + 1] - time_s[step]:g} s."
        )
    return time_s


def _ego_number(scenario: dict[str, Any], tracks: int) -> int:
    number = field_value(scenario, "sdcTrackIndex")
    if not (isinstance(number, int) and 0 <= number < tracks):
        raise InputError(f"sdcTrackIndex must be the number of one of {tracks} tracks; found {number!r}.")
    return number


def _track(track: Any, steps: int) -> LoggedTrack:
    name, kind, states = (
        str(field_value(track, "id")),
        field_value(track, "objectType", "TYPE_UNSET"),
        field_list(track, "states"),
    )
    kind = tuple(CLASSES)[kind] if kind in range(len(CLASSES)) else str(kind)
    if kind not in CLASSES:
        raise InputError(f"track {name}: objectType must be one of {', '.join(CLASSES)}; found {kind!r}.")
    if len(states) != steps:
        raise InputError(f"track {name}: states must be {steps}, one per time stamp; found {len(states)}.")
    valid: Bool[np.ndarray, "step"] = np.array([field_value(state, "valid", default=False) is True for state in states])
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
        raise InputError(f"dynamicMapStates must be {steps}, one per time stamp, or none; found {len(by_step)}.")
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
    points = [(_number(point, "x"), _number(point, "y")) for point in field_list(message, name)]
    return np.array(points, dtype=float).reshape(-1, 2)


class Waymo(FileUnits):
    """Waymo scenarios."""

    called, patterns = "waymo", ("*.json",)
    requirement = "a folder of Waymo scenarios must hold JSON files"
    content, log = staticmethod(read_scenario), staticmethod(log_of)

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene at the states of a unit, and its reference."""
        return unit_of(self.read_log(unit))
