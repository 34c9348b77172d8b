"""Log: a recorded drive of any source, step by step in the world frame; `states` turns
it into scenes and truths.

A source without a route gets the route of the driven path. The rear-axle path is
matched to the lane graph (Viterbi: every point lies on a lane, the next point on the
same lane, a parallel lane of its roadblock or a successor). The route then continues
along the straightest successors.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import Vehicle, wrap_rad
from deepval.driving.world.lanes import FARTHEST_M, Lane, LaneMap, on_earth

SPACING_M = 0.5
"""Points of the driven path closer than this to the last selected point are left
out.
"""
HEADING_M_PER_RAD = 3.5 / (np.pi / 2)
"""A heading error of 90 degrees costs as much as a distance of 3.5 m, a lane's width,
from the lane.
"""
REACH_M = 15.0
"""Lanes that are farther than this from the whole path are not considered."""
AHEAD_M = 300.0


class LoggedRoute(NamedTuple):
    """Roadblocks to follow, and for every step the index of the current one, at most
    the last but one.
    """

    lanes: tuple[str, ...]
    roadblocks: tuple[str, ...]
    starts: Int[np.ndarray, "step"]


def route_of(
    lane_map: LaneMap, pose: Float[np.ndarray, "step 3"], *, ahead_m: float = AHEAD_M
) -> LoggedRoute:
    """The route of a driven path of poses (x, y, heading), continued for `ahead_m`
    beyond its end.

    Args:
        lane_map: The road.
        pose: Rear-axle pose at each step; only one pose is matched while the vehicle
            stands still.
        ahead_m: Length of the successors that are added.
    """
    selected = spaced_indices(pose[:, :2], SPACING_M)
    driven, lane_of_point = lane_sequence(lane_map, pose[selected])
    lanes = [*driven, *straight_on(lane_map, driven[-1], ahead_m=ahead_m)]
    roadblocks, block_of_lane = [], []
    for lane in lanes:
        roadblock = lane_map.lanes[lane].roadblock
        if not roadblocks or roadblocks[-1] != roadblock:
            roadblocks.append(roadblock)
        block_of_lane.append(len(roadblocks) - 1)
    point_of_step = np.searchsorted(selected, np.arange(len(pose)), side="right") - 1
    starts = np.array(block_of_lane)[lane_of_point[point_of_step]]
    return LoggedRoute(
        tuple(lanes), tuple(roadblocks), np.minimum(starts, max(len(roadblocks) - 2, 0))
    )


def spaced_indices(
    path_m: Float[np.ndarray, "step 2"], least_m: float
) -> Int[np.ndarray, "selected"]:
    """Indices of points at least `least_m` from the last selected one; the first point
    is always selected.
    """
    selected = [0]
    for index in range(1, len(path_m)):
        if np.linalg.norm(path_m[index] - path_m[selected[-1]]) >= least_m:
            selected.append(index)
    return np.array(selected)


def lane_sequence(
    lane_map: LaneMap, pose: Float[np.ndarray, "point 3"]
) -> tuple[list[str], Int[np.ndarray, "point"]]:
    """The cheapest sequence of lanes under the poses, in driven order, and the index of
    the lane of each pose.

    The cost of a pose on a lane is its squared distance plus the squared heading error
    in metres.
    """
    near = _near(lane_map, pose[:, :2])
    cost = np.stack(
        [_costs(lane_map.lanes[lane].centreline_m, pose) for lane in near], axis=1
    )
    before = _before(lane_map, near)
    total = cost[0]
    back_pointer = np.zeros((len(pose), len(near)), dtype=int)
    for point in range(1, len(pose)):
        # Among equal costs argmin takes the first, which is the same lane (see
        # `_before`): stay on the lane.
        choice = np.argmin(total[before], axis=1)
        back_pointer[point] = before[np.arange(len(near)), choice]
        total = total[back_pointer[point]] + cost[point]
    path = np.zeros(len(pose), dtype=int)
    path[-1] = np.argmin(total)
    for point in range(len(pose) - 1, 0, -1):
        path[point - 1] = back_pointer[point, path[point]]
    changes = np.concatenate([[True], path[1:] != path[:-1]])
    return [near[index] for index in path[changes]], np.cumsum(changes) - 1


def straight_on(lane_map: LaneMap, lane: str, *, ahead_m: float) -> list[str]:
    """The straightest successors of a lane, up to a total of `ahead_m`, the end of the
    map or a repeated lane.
    """
    lanes: list[str] = []
    length_m, current = 0.0, lane
    while length_m < ahead_m:
        heading = headings(lane_map.lanes[current].centreline_m)[-1]
        candidates = [
            key
            for key in lane_map.lanes[current].successors
            if key in lane_map.lanes and key not in (lane, *lanes)
        ]
        if not candidates:
            break
        end_headings = np.array(
            [headings(lane_map.lanes[key].centreline_m)[-1] for key in candidates]
        )
        current = candidates[int(np.argmin(np.abs(wrap_rad(end_headings - heading))))]
        lanes.append(current)
        length_m += float(
            np.linalg.norm(
                np.diff(lane_map.lanes[current].centreline_m, axis=0), axis=1
            ).sum()
        )
    return lanes


def _near(lane_map: LaneMap, path_m: Float[np.ndarray, "point 2"]) -> list[str]:
    low, high = path_m.min(axis=0) - REACH_M, path_m.max(axis=0) + REACH_M
    lanes = []
    for lane in lane_map.lanes.values():
        line = lane.centreline_m
        close = (line.max(axis=0) >= low).all() and (line.min(axis=0) <= high).all()
        if close and _distances(line, path_m)[0].min() <= REACH_M:
            lanes.append(lane.id)
    if not lanes:
        raise InputError(
            f"a driven path must lie on the map; no lane is within {REACH_M:g} m of "
            "it: check that map and poses are in the same frame."
        )
    return lanes


def _before(lane_map: LaneMap, near: list[str]) -> Int[np.ndarray, "lane most"]:
    """Indices of the lanes that a vehicle may come from, per lane: the lane itself
    first and as padding of the row.
    """
    number = {lane: index for index, lane in enumerate(near)}
    rows = []
    for lane in near:
        parallel = lane_map.roadblocks[lane_map.lanes[lane].roadblock]
        rows.append([lane, *parallel, *lane_map.predecessors[lane]])
    rows = [[number[lane] for lane in row if lane in number] for row in rows]
    most = max(len(row) for row in rows)
    return np.array([row + row[:1] * (most - len(row)) for row in rows])


def _costs(
    line_m: Float[np.ndarray, "vertex 2"], pose: Float[np.ndarray, "point 3"]
) -> Float[np.ndarray, "point"]:
    distance_m, segment = _distances(line_m, pose[:, :2])
    turn_rad = wrap_rad(pose[:, 2] - headings(line_m)[segment])
    return distance_m**2 + (HEADING_M_PER_RAD * turn_rad) ** 2


def _distances(
    line_m: Float[np.ndarray, "vertex 2"], points_m: Float[np.ndarray, "point 2"]
) -> tuple[Float[np.ndarray, "point"], Int[np.ndarray, "point"]]:
    """Distance of points from a line, and the index of its nearest segment."""
    begin, along = line_m[:-1], np.diff(line_m, axis=0)
    offset = points_m[:, None] - begin
    share = np.clip((offset * along).sum(axis=-1) / (along**2).sum(axis=-1), 0.0, 1.0)
    away = np.linalg.norm(offset - share[..., None] * along, axis=-1)
    segment = away.argmin(axis=1)
    return away[np.arange(len(points_m)), segment], segment


def headings(line_m: Float[np.ndarray, "vertex 2"]) -> Float[np.ndarray, "segment"]:
    """Direction of every segment of a line, in radians."""
    along = np.diff(line_m, axis=0)
    return np.arctan2(along[:, 1], along[:, 0])


AHEAD = 3
"""Roadblocks that a vehicle may advance in one step; the limit prevents a jump where a
route crosses itself.
"""


def route_starts(
    lane_map: LaneMap, route: tuple[str, ...], *, place_m: Float[np.ndarray, "step 2"]
) -> Int[np.ndarray, "step"]:
    """Index in the route of the roadblock at each step, at most the last but one.

    It starts with the first roadblock under the first position on the route, and then
    only moves forward. Where the vehicle is off all lanes of the route, the index stays
    as at the step before.
    """
    on_block = np.zeros((len(route), len(place_m)), dtype=bool)
    for number, roadblock in enumerate(route):
        for lane in lane_map.roadblocks.get(roadblock, ()):
            on_block[number] |= holds(lane_map.lanes[lane], place_m)
    starts = np.zeros(len(place_m), dtype=int)
    current, on_route = 0, False
    for step in range(len(place_m)):
        window = on_block[current : current + AHEAD + 1 if on_route else None, step]
        if window.any():
            current, on_route = current + int(np.argmax(window)), True
        starts[step] = current
    return np.minimum(starts, max(len(route) - 2, 0))


def holds(lane: Lane, place_m: Float[np.ndarray, "step 2"]) -> Bool[np.ndarray, "step"]:
    """Whether positions are on a lane: inside its outline or, if it has none, within
    half its width of its middle.
    """
    if not len(lane.polygon_m):
        start, along = lane.centreline_m[:-1], np.diff(lane.centreline_m, axis=0)
        offset = place_m[:, None] - start
        share = (offset * along).sum(-1) / np.maximum(
            (along**2).sum(-1), np.finfo(float).tiny
        )
        off_m = offset - np.clip(share, 0, 1)[..., None] * along
        return (np.linalg.norm(off_m, axis=-1) <= lane.half_width_m).any(axis=1)
    a, b = lane.polygon_m, np.roll(lane.polygon_m, -1, axis=0)
    x, y = place_m[:, :1], place_m[:, 1:]
    # Even-odd rule: a point is inside iff a ray to the right crosses the outline an odd
    # number of times.
    crossing = (a[:, 1] > y) != (b[:, 1] > y)
    rise = np.where(b[:, 1] == a[:, 1], 1.0, b[:, 1] - a[:, 1])
    left = x < a[:, 0] + (y - a[:, 1]) / rise * (b[:, 0] - a[:, 0])
    return (crossing & left).sum(axis=1) % 2 == 1


MOST_STEP_S = 0.5
"""Largest time between states; also the step length of a log with a single step."""


@dataclass(frozen=True, eq=False)
class LoggedTrack:
    """One road user or static object: its logged values at each step where `valid`.

    Attributes:
        id: Its id in the source.
        cls: Class of the benchmark, as in `geometry.classes`.
        centre_m: Centre (x, y, z) in the world frame.
        heading_rad: Heading, counter-clockwise from x.
        size_m: Length, width, height.
        velocity_mps: Velocity (x, y) in the world frame.
        valid: Steps at which it was logged.
    """

    id: str
    cls: str
    centre_m: Float[np.ndarray, "step 3"]
    heading_rad: Float[np.ndarray, "step"]
    size_m: Float[np.ndarray, "step 3"]
    velocity_mps: Float[np.ndarray, "step 2"]
    valid: Bool[np.ndarray, "step"]

    def __post_init__(self) -> None:
        columns = (
            self.centre_m,
            self.heading_rad[:, None],
            self.size_m,
            self.velocity_mps,
        )
        if not all(on_earth(part[self.valid]) for part in columns):
            raise InputError(
                f"track {self.id}: where it is valid it must be finite, with numbers "
                f"of at most {FARTHEST_M:g}; found others."
            )
        if not (self.size_m[self.valid, :2] > 0).all():
            raise InputError(
                f"track {self.id}: where it is valid its length "
                "and width must be positive."
            )


@dataclass(frozen=True, eq=False)
class Log:
    """A recorded drive at equal steps.

    Attributes:
        unit: Id of the unit.
        time_s: Time of each step.
        world_from_ego: Pose of the ego's rear axle on the ground.
        speed_mps: Speed along its heading.
        vehicle: Its size.
        camera: The front camera of the detections; a nominal one where the source has
            none.
        tracks: All others, in the source's order.
        lane_map: The road.
        route: Roadblocks that the vehicle is to follow.
        route_starts: Index of the first roadblock still ahead, at each step; None: the
            whole route at every step.
        red_lights: Lanes shut by a red light, step by step, or empty.
        states: Steps that become inputs.
        acceleration_mps2: Acceleration along the heading, None where it was not logged.
    """

    unit: str
    time_s: Float[np.ndarray, "step"]
    world_from_ego: Float[np.ndarray, "step 4 4"]
    speed_mps: Float[np.ndarray, "step"]
    vehicle: Vehicle
    camera: Camera
    tracks: tuple[LoggedTrack, ...]
    lane_map: LaneMap
    route: tuple[str, ...]
    states: Int[np.ndarray, "state"]
    route_starts: Int[np.ndarray, "step"] | None = None
    red_lights: tuple[frozenset[str], ...] = ()
    acceleration_mps2: Float[np.ndarray, "step"] | None = None
    frame_ids: tuple[str, ...] = field(default=())
    """Id of each state; where empty, the step's number."""

    def __post_init__(self) -> None:
        steps = len(self.time_s)
        check_steps(self.unit, self.time_s)
        per_step = {
            "poses": len(self.world_from_ego),
            "speeds": len(self.speed_mps),
            "starts of the route": steps
            if self.route_starts is None
            else len(self.route_starts),
            "sets of red lights": len(self.red_lights) or steps,
            "accelerations": steps
            if self.acceleration_mps2 is None
            else len(self.acceleration_mps2),
        } | {f"rows of track {track.id}": len(track.valid) for track in self.tracks}
        for name, count in per_step.items():
            if count != steps:
                raise InputError(
                    f"unit {self.unit}: {name} must be {steps}, "
                    f"one per step; found {count}."
                )
        motion = [self.world_from_ego, self.speed_mps]
        if self.acceleration_mps2 is not None:
            motion.append(self.acceleration_mps2)
        if not all(map(on_earth, motion)):
            raise InputError(
                f"unit {self.unit}: poses, speeds and accelerations of the ego must be "
                f"finite, with numbers of at most {FARTHEST_M:g}; found others."
            )
        if not (
            len(self.states)
            and self.states[0] >= 0
            and self.states[-1] < steps
            and (np.diff(self.states) > 0).all()
        ):
            raise InputError(
                f"unit {self.unit}: states must be steps in "
                f"order, at least one; found {self.states}."
            )
        if self.frame_ids and len(self.frame_ids) != len(self.states):
            raise InputError(
                f"unit {self.unit}: frame ids "
                f"must be {len(self.states)}, one per state."
            )

    @property
    def step_s(self) -> float:
        """Time between steps: the median."""
        return (
            float(np.median(np.diff(self.time_s)))
            if len(self.time_s) > 1
            else MOST_STEP_S
        )


def check_steps(unit: str, time_s: Float[np.ndarray, "step"]) -> None:
    """Raise, with the step, where time stamps are not equally spaced (within half a
    step).
    """
    if not (len(time_s) and np.isfinite(time_s).all()):
        raise InputError(
            f"unit {unit}: a log needs finite time stamps, at "
            "least one; check its time stamps."
        )
    step_s = np.diff(time_s)
    usual_s = float(np.median(step_s)) if len(step_s) else MOST_STEP_S
    strange = np.flatnonzero(~(np.abs(step_s - usual_s) < usual_s / 2))
    if len(strange):
        step = int(strange[0])
        raise InputError(
            f"unit {unit}: a log must have a step every {usual_s:g} s; from step "
            f"{step} to {step + 1} there are {step_s[step]:g} s: give the part before "
            "or after the gap."
        )


def poses_of(
    pose: Float[np.ndarray, "step 3"],
    *,
    height_m: Float[np.ndarray, "step"] | None = None,
) -> Float[np.ndarray, "step 4 4"]:
    """Poses (x, y, heading) on the ground as transforms from their frames to the
    world.
    """
    world_from_ego = np.tile(np.eye(4), (len(pose), 1, 1))
    world_from_ego[:, 0, 0] = world_from_ego[:, 1, 1] = np.cos(pose[:, 2])
    world_from_ego[:, 1, 0] = np.sin(pose[:, 2])
    world_from_ego[:, 0, 1] = -world_from_ego[:, 1, 0]
    world_from_ego[:, :2, 3] = pose[:, :2]
    world_from_ego[:, 2, 3] = 0.0 if height_m is None else height_m
    return world_from_ego


SAME_M = 1e-3
"""A vertex closer than this to the one before it is a duplicate."""


def distinct_m(line_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "distinct 2"]:
    """A line without points that repeat the one before them (closer than `SAME_M`)."""
    repeats = (np.linalg.norm(np.diff(line_m, axis=0), axis=1) < SAME_M).any()
    return line_m[spaced_indices(line_m, SAME_M)] if repeats else line_m
