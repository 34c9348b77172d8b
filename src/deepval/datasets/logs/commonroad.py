"""CommonRoad scenarios (XML, format 2020a) -> logs, and the scenes and truths of their
states, a scenario as a unit.

A scenario has lanelets, obstacles and planning problems, but no logged ego. The vehicle
with the longest trajectory takes that role, of several the one nearest to the first
planning problem's start; the log spans its trajectory. Times are whole multiples of the
scenario's time step; other steps than 0.1 s are resampled to 0.1 s. The files lack
heights (those of the class), a camera (a nominal one stands in) and a route (it is
matched to the driven path).
"""

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.dataset import FileUnits
from deepval.datasets.logs.log import (
    Log,
    LoggedTrack,
    differences_mps,
    distinct_m,
    poses_of,
    roadblocks_of,
    route_of,
)
from deepval.datasets.logs.scenarionet_records import CAMERA
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError, reason
from deepval.files import reading
from deepval.geometry.classes import HEIGHT_M
from deepval.geometry.vehicle import vehicle_like, wrap_rad
from deepval.world.lanes import FARTHEST_M, Lane, LaneMap, check_line

Element = ElementTree.Element
VERSION = "2020a"
LARGEST = 2**26
"""Bytes of a scenario; published ones have at most a few million."""
STEP_S, MOST_STEP_S, EVERY = 0.1, 0.5, 5
LEAST_S = 4.0
"""The ego must be logged for longer than this, so that a state has 4 s ahead."""
CLASSES = {
    **dict.fromkeys(("car", "taxi", "priorityVehicle", "parkedVehicle"), "Car"),
    **dict.fromkeys(("truck",), "Truck"),
    **dict.fromkeys(("bus",), "Bus"),
    **dict.fromkeys(("train",), "Tram"),
    **dict.fromkeys(("motorcycle", "bicycle"), "Cyclist"),
    **dict.fromkeys(("pedestrian",), "Pedestrian"),
    **dict.fromkeys(
        ("constructionZone", "roadBoundary", "medianStrip", "median_strip"), "Barrier"
    ),
    **dict.fromkeys(("building", "pillar"), "Static"),
    **dict.fromkeys(("unknown",), "Misc"),
}
"""Types of obstacles -> classes."""
DRIVERS = ("car", "taxi", "truck", "bus", "priorityVehicle")
"""Types of obstacles that can be the ego."""
BESIDE = frozenset({"shoulder", "parking", "busStop", "driveWay"})
"""Lanelets of these types are drivable ground, and no lanes."""
WITHOUT_CARS = frozenset(
    {"sidewalk", "crosswalk", "bicycleLane", "border", "restricted", "restricted_area"}
)
SPEED_SIGNS = ("274", "R2-1", "r301")
"""Signs of a speed limit in Germany and most other countries, the USA and Spain; their
value is in m/s.
"""
TURNS = {"Left": "left", "Straight": "straight", "Right": "right"}


class ObstaclePath(NamedTuple):
    """An obstacle at its time steps: columns x, y, heading, and velocity along x and
    y.
    """

    id: str
    kind: str
    size_m: Float[np.ndarray, "2"]
    steps: Int[np.ndarray, "row"]
    rows: Float[np.ndarray, "row 5"]


def read_scenario(path: Path) -> Element:
    """The root of a scenario's file.

    Documents with type definitions are refused: entities could grow without bound.
    """
    text = reading.decode(
        reading.content(path, "a CommonRoad scenario", largest=LARGEST), path
    )
    if "<!doctype" in text.lower() or "<!entity" in text.lower():
        raise InputError(
            f"{path}: a CommonRoad scenario must have no DOCTYPE and no entities; it "
            "has: remove them."
        )
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{path}: must be an XML file; {reason(error)}.") from error
    version = root.get("commonRoadVersion")
    if root.tag != "commonRoad" or version != VERSION:
        raise InputError(
            f"{path}: must be a CommonRoad scenario of version {VERSION}; found "
            f"<{root.tag}> of version {version}: convert it with commonroad-io."
        )
    return root


def log_of(root: Element, unit: str) -> Log:
    """The drive of the vehicle that takes the ego's role, with all other obstacles."""
    step_s = _number(root.get("timeStepSize"), "timeStepSize")
    if not 0.001 <= step_s <= MOST_STEP_S:
        raise InputError(
            f"timeStepSize must be from 0.001 to {MOST_STEP_S} s; found {step_s:g}."
        )
    moving = [_moving(obstacle) for obstacle in root.findall("dynamicObstacle")]
    ego = _ego(root, moving, step_s=step_s)
    span_s = (len(ego.steps) - 1) * step_s
    time_s = np.arange(int(span_s / STEP_S + 1e-6) + 1) * STEP_S
    # In time steps of the file; rounding keeps a sample that falls on a logged step
    # there.
    samples = np.round(ego.steps[0] + time_s / step_s, 9)
    driven = _track(ego, samples)
    vehicle = vehicle_like(*ego.size_m.tolist())
    forward = np.column_stack([np.cos(driven.heading_rad), np.sin(driven.heading_rad)])
    # Positions are centres of obstacles; the ego frame is at the rear axle.
    pose = np.column_stack(
        [driven.centre_m[:, :2] - vehicle.centre_m * forward, driven.heading_rad]
    )
    tracks = [_track(other, samples) for other in moving if other is not ego]
    tracks += [
        _standing(obstacle, len(time_s)) for obstacle in root.findall("staticObstacle")
    ]
    lane_map = lane_map_of(root)
    route = route_of(lane_map, pose)
    return Log(
        unit=unit,
        time_s=time_s,
        world_from_ego=poses_of(pose),
        speed_mps=np.maximum((driven.velocity_mps * forward).sum(axis=1), 0.0),
        vehicle=vehicle,
        camera=CAMERA,
        tracks=tuple(track for track in tracks if track.valid.any()),
        lane_map=lane_map,
        route=route.roadblocks,
        states=np.arange(0, len(time_s), EVERY),
        route_starts=route.starts,
        red_lights=_red_lights(root, np.floor(samples).astype(int)),
    )


def _ego(root: Element, moving: list[ObstaclePath], *, step_s: float) -> ObstaclePath:
    """The vehicle of the longest trajectory without gaps; of several the nearest to the
    first problem's start.
    """
    least = LEAST_S / step_s
    candidates = [
        one
        for one in moving
        if one.kind in DRIVERS
        and np.ptp(one.steps) + 1 == len(one.steps) > least + 1 - 1e-9
    ]
    if not candidates:
        raise InputError(
            f"a scenario must have a vehicle with a trajectory of {LEAST_S:g} s or "
            "more without gaps, which becomes the ego; it has "
            "none: leave the file out."
        )
    problem = root.find("planningProblem")
    start_m = (
        candidates[0].rows[0, :2]
        if problem is None
        else _state(problem.find("initialState"), "its start")[1][:2]
    )
    longest = max(len(one.steps) for one in candidates)
    return min(
        (one for one in candidates if len(one.steps) == longest),
        key=lambda one: float(np.linalg.norm(one.rows[0, :2] - start_m)),
    )


def _moving(obstacle: Element) -> ObstaclePath:
    name, kind = _name_and_kind(obstacle)
    what = f"{obstacle.tag} {name}"
    if obstacle.find("occupancySet") is not None:
        raise InputError(
            f"{what}: must have a trajectory; it has an occupancySet, which is a "
            "forecast and no log: leave the file out."
        )
    size_m, offset_m = _box(obstacle.find("shape"), f"{what}: shape")
    states = [
        _state(state, what)
        for state in (
            obstacle.find("initialState"),
            *obstacle.findall("trajectory/state"),
        )
    ]
    states.sort(key=lambda state: state[0])
    steps, rows = (
        np.array([step for step, _ in states]),
        np.array([row for _, row in states]),
    )
    if (np.diff(steps) <= 0).any():
        raise InputError(
            f"{what}: every time step must have one state; two states "
            "are of the same step."
        )
    heading_rad, speed = rows[:, 2], rows[:, 3]
    forward = np.column_stack([np.cos(heading_rad), np.sin(heading_rad)])
    left = forward[:, ::-1] * [-1, 1]
    centre_m = rows[:, :2] + forward * offset_m[0] + left * offset_m[1]
    return ObstaclePath(
        name,
        kind,
        size_m,
        steps,
        np.column_stack([centre_m, heading_rad, forward * speed[:, None]]),
    )


def _track(one: ObstaclePath, samples: Float[np.ndarray, "step"]) -> LoggedTrack:
    """An obstacle at times in time steps, linear between two logged steps; absent
    beside a step that is not logged.
    """
    after = np.clip(np.searchsorted(one.steps, samples), 0, len(one.steps) - 1)
    exact = one.steps[after] == samples
    before = np.where(exact, after, np.maximum(after - 1, 0))
    valid = exact | ((one.steps[before] < samples) & (samples < one.steps[after])
                     & (one.steps[after] - one.steps[before] == 1))  # fmt: skip
    share = np.where(valid & ~exact, samples - one.steps[before], 0.0)[:, None]
    turned = one.rows[after] - one.rows[before]
    turned[:, 2] = wrap_rad(turned[:, 2])
    rows = one.rows[before] + share * turned
    velocity_mps = rows[:, 3:]
    differences = differences_mps(
        rows[:, :2], valid, time_s=np.arange(len(samples)) * STEP_S
    )
    return _logged(
        one,
        rows[:, :3],
        np.where(np.isnan(velocity_mps), differences, velocity_mps),
        valid,
    )


def _standing(obstacle: Element, steps: int) -> LoggedTrack:
    """A static obstacle, at its initial state throughout."""
    one = _moving(obstacle)
    rows = np.tile(one.rows[0], (steps, 1))
    return _logged(one, rows[:, :3], np.zeros((steps, 2)), np.ones(steps, dtype=bool))


def _logged(
    one: ObstaclePath, pose: np.ndarray, velocity_mps: np.ndarray, valid: np.ndarray
) -> LoggedTrack:
    cls = CLASSES[one.kind]
    height_m = HEIGHT_M[cls]
    return LoggedTrack(
        id=one.id,
        cls=cls,
        centre_m=np.column_stack([pose[:, :2], np.full(len(pose), height_m / 2)]),
        heading_rad=pose[:, 2],
        size_m=np.tile([*one.size_m, height_m], (len(pose), 1)),
        velocity_mps=velocity_mps,
        valid=valid,
    )


def _name_and_kind(obstacle: Element) -> tuple[str, str]:
    name, kind = str(obstacle.get("id")), (obstacle.findtext("type") or "").strip()
    if kind not in CLASSES:
        raise InputError(
            f"{obstacle.tag} {name}: type must "
            f"be one of {', '.join(CLASSES)}; found {kind!r}."
        )
    return name, kind


def _state(state: Element | None, what: str) -> tuple[int, list[float]]:
    """Time step of a state, and x, y, heading and speed; the speed is NaN where the
    file has none.
    """
    if state is None:
        raise InputError(f"{what}: must have an initialState; it has none.")
    step = _number(state.findtext("time/exact"), f"{what}: time/exact of a state")
    if step != int(step) or step < 0:
        raise InputError(
            f"{what}: time of a state must be a whole number "
            f"of steps, 0 or more; found {step:g}."
        )
    point = state.find("position/point")
    if point is None:  # an uncertain position: the middle of its region
        position_m = _box(state.find("position"), f"{what}: position of a state")[
            1
        ].tolist()
    else:
        position_m = [
            _number(point.findtext(axis), f"{what}: {axis} of a position")
            for axis in "xy"
        ]
    speed_mps = (
        np.nan if state.find("velocity") is None else _middle(state, "velocity", what)
    )
    return int(step), [*position_m, _middle(state, "orientation", what), speed_mps]


def _middle(state: Element, tag: str, what: str) -> float:
    """An exact value, or the middle of an interval."""
    ends = (
        ["exact"]
        if state.find(f"{tag}/exact") is not None
        else ["intervalStart", "intervalEnd"]
    )
    return sum(
        _number(state.findtext(f"{tag}/{end}"), f"{what}: {tag} of a state")
        for end in ends
    ) / len(ends)


def _box(
    shapes: Element | None, what: str
) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
    """Length and width of the box around rectangles, circles and polygons, and the
    position of its middle.
    """
    points = [np.zeros((0, 2))]
    for shape in () if shapes is None else shapes:
        if shape.tag == "polygon":
            points.append(_points(shape, what))
        elif shape.tag in ("rectangle", "circle"):
            names = (
                ("radius", "radius") if shape.tag == "circle" else ("length", "width")
            )
            half_m = np.array(
                [_number(shape.findtext(name), f"{what}: {name}") for name in names]
            )
            half_m = half_m if shape.tag == "circle" else half_m / 2
            turn_rad = _number(
                shape.findtext("orientation", "0"), f"{what}: orientation"
            )
            cos, sin = np.cos(turn_rad), np.sin(turn_rad)
            middle = [
                _number(shape.findtext(f"center/{axis}", "0"), f"{what}: center")
                for axis in "xy"
            ]
            corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * half_m
            points.append(corners @ np.array([[cos, sin], [-sin, cos]]) + middle)
    outline_m = np.concatenate(points)
    if not len(outline_m) or not (np.ptp(outline_m, axis=0) > 0).all():
        raise InputError(
            f"{what}: must have a rectangle, circle or polygon "
            "of positive size; found none."
        )
    return np.ptp(outline_m, axis=0), (
        outline_m.max(axis=0) + outline_m.min(axis=0)
    ) / 2


def lane_map_of(root: Element) -> LaneMap:
    """Lanes for cars in the file's order, in roadblocks of neighbours; drivable ground
    beside them; crosswalks.
    """
    lanelets = {str(lanelet.get("id")): lanelet for lanelet in root.findall("lanelet")}
    if len(lanelets) != len(root.findall("lanelet")):
        raise InputError("lanelets must have different ids; two have the same.")
    kinds = {
        key: {(kind.text or "").strip() for kind in one.findall("laneletType")}
        for key, one in lanelets.items()
    }
    bounds = {key: _bounds(key, lanelet) for key, lanelet in lanelets.items()}
    outlines = {
        key: np.concatenate([left, right[::-1]])
        for key, (left, right) in bounds.items()
    }
    driven = {
        key: one
        for key, one in lanelets.items()
        if not kinds[key] & (BESIDE | WITHOUT_CARS)
    }
    if not driven:
        raise InputError("its map must have lanelets for cars; it has none.")
    after = {key: _references(one, "successor") for key, one in driven.items()}
    for key, one in driven.items():
        for before in _references(one, "predecessor"):
            after[before] = tuple(dict.fromkeys((*after.get(before, ()), key)))
    beside = {key: _neighbours(one) for key, one in driven.items()}
    roadblocks = roadblocks_of({key: set(after[key]) for key in driven}, beside)
    limits, inside = (
        _limits_mps(root),
        {key for turn in TURNS for key in _turning(root, turn)},
    )
    lanes = {
        key: Lane(
            id=key,
            centreline_m=distinct_m(np.mean(bounds[key], axis=0)),
            roadblock=roadblocks[key],
            polygon_m=outlines[key],
            successors=after[key],
            speed_limit_mps=min(
                (limits[s] for s in _references(one, "trafficSignRef") if s in limits),
                default=None,
            ),
            connector=key in inside or "intersection" in kinds[key],
        )
        for key, one in driven.items()
    }
    return LaneMap(
        lanes,
        drivable_m=tuple(
            outlines[key]
            for key in lanelets
            if kinds[key] & BESIDE and not kinds[key] & WITHOUT_CARS
        ),
        crosswalks_m=tuple(
            outlines[key] for key in lanelets if "crosswalk" in kinds[key]
        ),
    )


def _bounds(key: str, lanelet: Element) -> tuple[np.ndarray, np.ndarray]:
    """Both bounds; the centreline of the format is the mean of their points, so they
    have equally many.
    """
    sides = []
    for side in ("leftBound", "rightBound"):
        bound = lanelet.find(side)
        line_m = np.zeros((0, 2)) if bound is None else _points(bound, f"lanelet {key}")
        check_line(line_m, f"lanelet {key}: its {side}")
        sides.append(line_m)
    if len(sides[0]) != len(sides[1]):
        raise InputError(
            f"lanelet {key}: both bounds must have equally "
            f"many points; found {len(sides[0])} and {len(sides[1])}."
        )
    return sides[0], sides[1]


def _limits_mps(root: Element) -> dict[str, float]:
    limits = {}
    for sign in root.findall("trafficSign"):
        for part in sign.findall("trafficSignElement"):
            if (part.findtext("trafficSignID") or "").strip() in SPEED_SIGNS:
                key = str(sign.get("id"))
                limit_mps = _number(
                    part.findtext("additionalValue"),
                    f"trafficSign {key}: additionalValue",
                )
                if limit_mps <= 0:
                    raise InputError(
                        f"trafficSign {key}: a speed limit must "
                        f"be positive; found {limit_mps:g}."
                    )
                limits[key] = min(limit_mps, limits.get(key, np.inf))
    return limits


def _red_lights(
    root: Element, steps: Int[np.ndarray, "step"]
) -> tuple[frozenset[str], ...]:
    """For each step the lanes behind a red light: the successors, in its directions, of
    lanelets that refer to it.
    """
    shut: list[set[str]] = [set() for _ in steps]
    for light in root.findall("trafficLight"):
        key, direction = (
            str(light.get("id")),
            (light.findtext("direction") or "all").lower(),
        )
        cycle = [
            (
                _number(part.findtext("duration"), f"trafficLight {key}: duration"),
                part.findtext("color"),
            )
            for part in light.findall("cycle/cycleElement")
        ]
        ends = np.cumsum([duration for duration, _ in cycle])
        if not cycle or (light.findtext("active") or "true").strip() in ("false", "0"):
            continue
        if min(duration for duration, _ in cycle) <= 0:
            raise InputError(
                f"trafficLight {key}: every duration of its cycle "
                "must be positive; one is not."
            )
        offset = _number(
            light.findtext("cycle/timeOffset", "0"), f"trafficLight {key}: timeOffset"
        )
        phases = np.searchsorted(ends, (steps - offset) % ends[-1], side="right")
        is_red = np.array([color in ("red", "redYellow") for _, color in cycle])[
            np.minimum(phases, len(cycle) - 1)
        ]
        lanes = {
            after
            for lanelet in root.findall("lanelet")
            if key in _references(lanelet, ".//trafficLightRef")
            for after in _references(lanelet, "successor")
        }
        others = {
            lane
            for turn, word in TURNS.items()
            if word not in direction
            for lane in _turning(root, turn)
        }
        for step in np.flatnonzero(is_red):
            shut[step] |= lanes if direction == "all" else lanes - others
    return tuple(map(frozenset, shut)) if any(shut) else ()


def _turning(root: Element, turn: str) -> list[str]:
    """Lanelets through intersections in a direction."""
    return [
        str(lane.get("ref"))
        for lane in root.findall(f"intersection/incoming/successors{turn}")
    ]


def _references(element: Element, tag: str) -> tuple[str, ...]:
    return tuple(str(reference.get("ref")) for reference in element.findall(tag))


def _neighbours(lanelet: Element) -> list[str]:
    beside = [*lanelet.findall("adjacentLeft"), *lanelet.findall("adjacentRight")]
    return [str(one.get("ref")) for one in beside if one.get("drivingDir") == "same"]


def _points(element: Element, what: str) -> Float[np.ndarray, "point 2"]:
    rows = [
        [_number(point.findtext(axis), f"{what}: {axis} of a point") for axis in "xy"]
        for point in element.findall("point")
    ]
    return np.array(rows, dtype=float).reshape(-1, 2)


def _number(text: str | None, what: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = np.nan
    if not abs(number) <= FARTHEST_M:
        raise InputError(
            f"{what} must be a finite number of at most {FARTHEST_M:g}; found {text!r}."
        )
    return number


class CommonRoad(FileUnits):
    """CommonRoad scenarios."""

    called, patterns = "commonroad", ("*.xml",)
    requirement = "a CommonRoad folder must hold scenarios (.xml)"
    content, log, states = (
        staticmethod(read_scenario),
        staticmethod(log_of),
        staticmethod(unit_of),
    )
