"""A driven path on a lane map -> the route behind it, for sources that give none.

The driven rear-axle path is matched to the lane graph (Viterbi: each point lies on a lane, and the next one on the same
lane, a parallel lane of its roadblock or a successor), then the route goes on by the straightest successors.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.world.scene import LaneMap

SPACING_M = 0.5
"""Points of the driven path nearer than this to the one before are left out."""
HEADING_M_PER_RAD = 3.5 / (np.pi / 2)
"""A quarter turn off a lane's direction costs as much as a lane's width of 3.5 m beside it."""
REACH_M = 15.0
"""Lanes farther from all of the path are not considered."""
AHEAD_M = 300.0


class LoggedRoute(NamedTuple):
    """Roadblocks to follow, and for each step the number of the first one that is still ahead (at least two are)."""

    lanes: tuple[str, ...]
    roadblocks: tuple[str, ...]
    starts: Int[np.ndarray, "step"]


def route_of(lane_map: LaneMap, pose: Float[np.ndarray, "step 3"], *, ahead_m: float = AHEAD_M) -> LoggedRoute:
    """The route of a driven path of poses (x, y, heading), going on for `ahead_m` behind its end.

    Args:
        lane_map: The road.
        pose: Rear-axle pose at each step; a vehicle that stands still has one point.
        ahead_m: Length of the successors that are added.
    """
    kept = spaced(pose[:, :2])
    driven, number = matched(lane_map, pose[kept])
    lanes = [*driven, *straight_on(lane_map, driven[-1], ahead_m=ahead_m)]
    roadblocks, place = [], []
    for lane in lanes:
        roadblock = lane_map.lanes[lane].roadblock
        if not roadblocks or roadblocks[-1] != roadblock:
            roadblocks.append(roadblock)
        place.append(len(roadblocks) - 1)
    steps = np.searchsorted(kept, np.arange(len(pose)), side="right") - 1
    starts = np.array(place)[number[steps]]
    return LoggedRoute(tuple(lanes), tuple(roadblocks), np.minimum(starts, max(len(roadblocks) - 2, 0)))


def spaced(path_m: Float[np.ndarray, "step 2"]) -> Int[np.ndarray, "kept"]:
    """Numbers of the points that are at least `SPACING_M` from the one kept before; the first always."""
    kept = [0]
    for place in range(1, len(path_m)):
        if np.linalg.norm(path_m[place] - path_m[kept[-1]]) >= SPACING_M:
            kept.append(place)
    return np.array(kept)


def matched(lane_map: LaneMap, pose: Float[np.ndarray, "point 3"]) -> tuple[list[str], Int[np.ndarray, "point"]]:
    """Lanes that poses lie on, in driven order, and the number of its lane for each pose: the cheapest way.

    The cost of a pose on a lane is its squared distance plus the squared heading error in metres.
    """
    near = _near(lane_map, pose[:, :2])
    cost = np.stack([_costs(lane_map.lanes[lane].centreline_m, pose) for lane in near], axis=1)
    before = _before(lane_map, near)
    total = cost[0]
    back = np.zeros((len(pose), len(near)), dtype=int)
    for point in range(1, len(pose)):
        # Of equally cheap ways the one that stays on its lane: it is first in each row.
        choice = np.argmin(total[before], axis=1)
        back[point] = before[np.arange(len(near)), choice]
        total = total[back[point]] + cost[point]
    way = np.zeros(len(pose), dtype=int)
    way[-1] = np.argmin(total)
    for point in range(len(pose) - 1, 0, -1):
        way[point - 1] = back[point, way[point]]
    turns = np.concatenate([[True], way[1:] != way[:-1]])
    return [near[place] for place in way[turns]], np.cumsum(turns) - 1


def straight_on(lane_map: LaneMap, lane: str, *, ahead_m: float) -> list[str]:
    """The straightest successors of a lane, until they are `ahead_m` long together, the map ends or a lane repeats."""
    found: list[str] = []
    length_m, at = 0.0, lane
    while length_m < ahead_m:
        heading = _headings(lane_map.lanes[at].centreline_m)[-1]
        after = [key for key in lane_map.lanes[at].successors if key in lane_map.lanes and key not in (lane, *found)]
        if not after:
            break
        leaves = np.array([_headings(lane_map.lanes[key].centreline_m)[-1] for key in after])
        at = after[int(np.argmin(np.abs(_wrapped(leaves - heading))))]
        found.append(at)
        length_m += float(np.linalg.norm(np.diff(lane_map.lanes[at].centreline_m, axis=0), axis=1).sum())
    return found


def _near(lane_map: LaneMap, path_m: Float[np.ndarray, "point 2"]) -> list[str]:
    low, high = path_m.min(axis=0) - REACH_M, path_m.max(axis=0) + REACH_M
    found = []
    for lane in lane_map.lanes.values():
        line = lane.centreline_m
        close = (line.max(axis=0) >= low).all() and (line.min(axis=0) <= high).all()
        if close and _distances(line, path_m)[0].min() <= REACH_M:
            found.append(lane.id)
    if not found:
        raise InputError(
            f"a driven path must lie on the map; no lane is within {REACH_M:g} m of it: check that map and poses "
            "are in the same frame."
        )
    return found


def _before(lane_map: LaneMap, near: list[str]) -> Int[np.ndarray, "lane most"]:
    """Numbers of the lanes that one may have been on a point earlier: itself first; rows are filled with itself."""
    number = {lane: place for place, lane in enumerate(near)}
    rows = []
    for lane in near:
        beside = lane_map.roadblocks[lane_map.lanes[lane].roadblock]
        rows.append([lane, *beside, *lane_map.predecessors[lane]])
    rows = [[number[lane] for lane in row if lane in number] for row in rows]
    most = max(len(row) for row in rows)
    return np.array([row + row[:1] * (most - len(row)) for row in rows])


def _costs(line_m: Float[np.ndarray, "vertex 2"], pose: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point"]:
    distance_m, segment = _distances(line_m, pose[:, :2])
    off = _wrapped(pose[:, 2] - _headings(line_m)[segment])
    return distance_m**2 + (HEADING_M_PER_RAD * off) ** 2


def _distances(
    line_m: Float[np.ndarray, "vertex 2"], points_m: Float[np.ndarray, "point 2"]
) -> tuple[Float[np.ndarray, "point"], Int[np.ndarray, "point"]]:
    """Distance of points from a line, and the number of its nearest segment."""
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
