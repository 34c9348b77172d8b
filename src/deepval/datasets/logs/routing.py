"""A driven path on a lane map -> its route, for sources without one.

The rear-axle path is matched to the lane graph (Viterbi: every point lies on a lane, the next point on the same lane, a
parallel lane of its roadblock or a successor). The route then continues along the straightest successors.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.world.scene import LaneMap

SPACING_M = 0.5
"""Points of the driven path closer than this to the last selected point are left out."""
HEADING_M_PER_RAD = 3.5 / (np.pi / 2)
"""A quarter turn off a lane's direction costs as much as a lane's width of 3.5 m beside it."""
REACH_M = 15.0
"""Lanes farther from all of the path are not considered."""
AHEAD_M = 300.0


class LoggedRoute(NamedTuple):
    """Roadblocks to follow, and for every step the index of the first one still ahead, so that two or more remain."""

    lanes: tuple[str, ...]
    roadblocks: tuple[str, ...]
    starts: Int[np.ndarray, "step"]


def route_of(lane_map: LaneMap, pose: Float[np.ndarray, "step 3"], *, ahead_m: float = AHEAD_M) -> LoggedRoute:
    """The route of a driven path of poses (x, y, heading), continued for `ahead_m` beyond its end.

    Args:
        lane_map: The road.
        pose: Rear-axle pose at each step; while the vehicle stands still, one of them is matched.
        ahead_m: Length of the successors that are added.
    """
    selected = spaced_indices(pose[:, :2])
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
    return LoggedRoute(tuple(lanes), tuple(roadblocks), np.minimum(starts, max(len(roadblocks) - 2, 0)))


def spaced_indices(path_m: Float[np.ndarray, "step 2"]) -> Int[np.ndarray, "selected"]:
    """Indices of points at least `SPACING_M` from the last selected one; the first point is always selected."""
    selected = [0]
    for index in range(1, len(path_m)):
        if np.linalg.norm(path_m[index] - path_m[selected[-1]]) >= SPACING_M:
            selected.append(index)
    return np.array(selected)


def lane_sequence(lane_map: LaneMap, pose: Float[np.ndarray, "point 3"]) -> tuple[list[str], Int[np.ndarray, "point"]]:
    """The cheapest sequence of lanes under the poses, in driven order, and the index of the lane of each pose.

    The cost of a pose on a lane is its squared distance plus the squared heading error in metres.
    """
    near = _near(lane_map, pose[:, :2])
    cost = np.stack([_costs(lane_map.lanes[lane].centreline_m, pose) for lane in near], axis=1)
    before = _before(lane_map, near)
    total = cost[0]
    back_pointer = np.zeros((len(pose), len(near)), dtype=int)
    for point in range(1, len(pose)):
        # Among equal costs argmin takes the first, which is the same lane (see `_before`): stay on the lane.
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
    """The straightest successors of a lane, up to a total of `ahead_m`, the end of the map or a repeated lane."""
    lanes: list[str] = []
    length_m, current = 0.0, lane
    while length_m < ahead_m:
        heading = _headings(lane_map.lanes[current].centreline_m)[-1]
        candidates = [
            key for key in lane_map.lanes[current].successors if key in lane_map.lanes and key not in (lane, *lanes)
        ]
        if not candidates:
            break
        end_headings = np.array([_headings(lane_map.lanes[key].centreline_m)[-1] for key in candidates])
        current = candidates[int(np.argmin(np.abs(_wrapped(end_headings - heading))))]
        lanes.append(current)
        length_m += float(np.linalg.norm(np.diff(lane_map.lanes[current].centreline_m, axis=0), axis=1).sum())
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
            f"a driven path must lie on the map; no lane is within {REACH_M:g} m of it: check that map and poses "
            "are in the same frame."
        )
    return lanes


def _before(lane_map: LaneMap, near: list[str]) -> Int[np.ndarray, "lane most"]:
    """Indices of the lanes that a vehicle may come from, per lane: the lane itself first and as padding of the row."""
    number = {lane: index for index, lane in enumerate(near)}
    rows = []
    for lane in near:
        parallel = lane_map.roadblocks[lane_map.lanes[lane].roadblock]
        rows.append([lane, *parallel, *lane_map.predecessors[lane]])
    rows = [[number[lane] for lane in row if lane in number] for row in rows]
    most = max(len(row) for row in rows)
    return np.array([row + row[:1] * (most - len(row)) for row in rows])


def _costs(line_m: Float[np.ndarray, "vertex 2"], pose: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point"]:
    distance_m, segment = _distances(line_m, pose[:, :2])
    turn_rad = _wrapped(pose[:, 2] - _headings(line_m)[segment])
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


def _headings(line_m: Float[np.ndarray, "vertex 2"]) -> Float[np.ndarray, "segment"]:
    along = np.diff(line_m, axis=0)
    return np.arctan2(along[:, 1], along[:, 0])


def _wrapped(angle: np.ndarray) -> np.ndarray:
    return (angle + np.pi) % (2 * np.pi) - np.pi
