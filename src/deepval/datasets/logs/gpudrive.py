"""A Waymo scenario as GPUDrive publishes it (`objects`, `roads`, `tl_states`) -> the message that `waymo` reads.

Objects have lists of positions, headings, velocities and valid flags, 0.1 s apart, and one size. Lanes have only their
lines: a lane leads to the lanes that begin where it ends, and lanes side by side are neighbours. Files have no speed
limits. Headings are in radians; older files have them in degrees. Older files do not name the ego either: it is
the last vehicle that is always valid, since Waymo lists the ego last.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from deepval.datasets.logs.log import headings
from deepval.errors import InputError, InputWarning
from deepval.geometry.vehicle import wrap_rad

STEP_S = 0.1
SAME_M = 0.5
"""A lane leads to another that begins at most this far from its end."""
BESIDE_M = (2.0, 5.0)
"""Distances between the middles of neighbouring lanes."""
ALIGNED_RAD = np.radians(30.0)
"""Lanes follow each other or are neighbours if their headings differ by less."""
MOVING_MPS = 1.0


def message_of(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The scenario of that name as the fields of Waymo's message that the reader uses; it checks their values."""
    objects, roads = (_records(content, part) for part in ("objects", "roads"))
    steps = max((len(_items(one, "valid")) for one in objects), default=0)
    unit = _radians_per_unit(objects)
    return {
        "timestampsSeconds": (np.arange(steps) * STEP_S).tolist(),
        "sdcTrackIndex": _ego_number(content, objects, name),
        "tracks": [_track(one, number, radians=unit) for number, one in enumerate(objects)],
        "mapFeatures": _features(roads),
        "dynamicMapStates": _lights(content.get("tl_states") or {}, steps),
    }


def _ego_number(content: Mapping[str, Any], objects: list[Mapping[str, Any]], name: str) -> int:
    metadata = content.get("metadata")
    number = metadata.get("sdc_track_index") if isinstance(metadata, Mapping) else None
    if number is None:
        drivers = [number for number, one in enumerate(objects) if one.get("type") == "vehicle" and all(one["valid"])]
        if not drivers:
            raise InputError(
                "a file without metadata.sdc_track_index must have a vehicle that is always valid, as ego."
            )
        note = f"{name} does not name the ego: object {drivers[-1]}, the last vehicle that is always valid, stands in."
        warnings.warn(note, InputWarning, stacklevel=2)
        return drivers[-1]
    if not isinstance(number, int) or not 0 <= number < len(objects):
        raise InputError(
            f"metadata.sdc_track_index must be the number of one of {len(objects)} objects; found {number!r}."
        )
    return number


def _records(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    records = content.get(name)
    if not isinstance(records, list) or not all(isinstance(one, Mapping) for one in records):
        raise InputError(f"{name} must be a list of objects; it is not.")
    return records


def _items(one: Any, name: str) -> list[Any]:
    items = one.get(name) if isinstance(one, Mapping) else None
    if not isinstance(items, list):
        raise InputError(f"{name} must be a list; found {items!r}.")
    return items


def _track(one: Mapping[str, Any], number: int, *, radians: float) -> dict[str, Any]:
    columns = [_items(one, name) for name in ("position", "heading", "velocity", "valid")]
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"object {number}: position, heading, velocity and valid must be equally long; they are not.")
    size = {name: one.get(name) for name in ("length", "width", "height")}
    states = []
    for position, heading, velocity, valid in zip(*columns, strict=True):
        if not valid:
            states.append({"valid": False})
            continue
        values = {"heading": _value(heading, "heading") * radians, "valid": True, **size}
        values |= {f"center{axis.upper()}": position.get(axis, 0.0) for axis in "xyz"} if _is_point(position) else {}
        values |= {f"velocity{axis.upper()}": velocity.get(axis) for axis in "xy"} if _is_point(velocity) else {}
        if len(values) < 10:
            raise InputError(f"object {number}: positions and velocities must have x and y; one does not.")
        states.append(values)
    kind = str(one.get("type", "unset")).upper()
    return {"id": one.get("id", number), "objectType": f"TYPE_{kind}", "states": states}


def _is_point(point: Any) -> bool:
    return isinstance(point, Mapping) and {"x", "y"} <= set(point)


def _value(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e8:
        raise InputError(f"{what} must be a finite number; found {value!r}.")
    return float(value)


def _radians_per_unit(objects: list[Mapping[str, Any]]) -> float:
    """The unit in which headings agree better with the directions of motion; without motion, radians up to 2 pi."""
    headings, directions = [0.0], []
    for one in objects:
        for heading, velocity, valid in zip(
            _items(one, "heading"), _items(one, "velocity"), _items(one, "valid"), strict=False
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
    return min((1.0, np.pi / 180), key=lambda unit: float(np.median(np.abs(wrap_rad(heading * unit - direction)))))


def _features(roads: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lanes with their connections, crosswalks and driveways."""
    features, lines, lanes = [], {}, {}
    for number, road in enumerate(roads):
        key, kind = str(road.get("id", f"road {number}")), road.get("type")
        if kind not in ("lane", "crosswalk", "driveway"):
            continue
        line = _items(road, "geometry")
        if not all(map(_is_point, line)):
            raise InputError(f"road {key}: every point of its geometry must have x and y; one does not.")
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
    starts, ends = (np.array([line[index] for line in lines.values()]) for index in (0, -1))
    middles = np.array([line[len(line) // 2] for line in lines.values()])
    first, last = (
        np.array([headings(line[index])[0] for line in lines.values()]) for index in (slice(0, 2), slice(-2, None))
    )
    other_along = np.array([headings(line)[min(len(line) // 2, len(line) - 2)] for line in lines.values()])
    for number, key in enumerate(keys):
        near = np.linalg.norm(starts - ends[number], axis=1) <= SAME_M
        near &= np.abs(wrap_rad(first - last[number])) < ALIGNED_RAD
        lanes[key]["exitLanes"] = [keys[other] for other in np.flatnonzero(near) if other != number]
        away = np.linalg.norm(lines[key][:, None] - middles, axis=-1)
        gap_m, vertex = away.min(axis=0), away.argmin(axis=0)
        along = headings(lines[key])[np.minimum(vertex, len(lines[key]) - 2)]
        beside = (gap_m >= BESIDE_M[0]) & (gap_m <= BESIDE_M[1]) & (np.abs(wrap_rad(along - other_along)) < ALIGNED_RAD)
        lanes[key]["leftNeighbors"] = [{"featureId": keys[other]} for other in np.flatnonzero(beside)]


def _lights(lights: Any, steps: int) -> list[dict[str, Any]]:
    """For each step the states of the lights, by lane."""
    if not isinstance(lights, Mapping):
        raise InputError(f"tl_states must be an object of lanes; found {type(lights).__name__}.")
    by_step: list[dict[str, Any]] = [{"laneStates": []} for _ in range(steps)]
    for lane, light in lights.items():
        for index, state in zip(_items(light, "time_index"), _items(light, "state"), strict=False):
            if not isinstance(index, int) or not 0 <= index < steps:
                raise InputError(f"tl_states of lane {lane}: time_index must be in 0..{steps - 1}; found {index!r}.")
            by_step[index]["laneStates"].append({"lane": lane, "state": f"LANE_STATE_{str(state).upper()}"})
    return by_step if lights else []
