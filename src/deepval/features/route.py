"""Scene with a lane map -> way along the route to the next connector (a lane through an intersection), frame by frame.

The vehicle is on the lane of its remaining route whose middle is nearest, of those that lead its way, within 5 m. From
there it is the rest of the lane and the roadblocks up to the first that holds a connector, each as long as its first
lane; 0 on a connector, at most 80 m. NaN off the route, and without a map, a route or a pose.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.world.lanes import LaneMap
from deepval.world.scene import Scene

FARTHEST_M = 80.0
OFF_ROUTE_M = 5.0


def connectors_m(scene: Scene) -> Float[np.ndarray, "time"]:
    """Way to the next connector at each frame."""
    found = np.full(len(scene), np.nan)
    if scene.lane_map is None or scene.world_from_ego is None:
        return found
    starts = np.zeros(len(scene), dtype=int) if scene.route_starts is None else scene.route_starts
    ends = np.full(len(scene), len(scene.route)) if scene.route_ends is None else scene.route_ends
    pieces = {end: _pieces(scene.lane_map, scene.route[:end]) for end in np.unique(ends).tolist()}
    for frame, pose in enumerate(scene.world_from_ego):
        found[frame] = _way_m(pieces[int(ends[frame])], pose, int(starts[frame]))
    return found


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Straight pieces of the route's lanes: where each begins, its vector, its roadblock's place in the route.

    `rest_m` is the rest of its lane from its beginning, `connector` whether that is one, `beyond_m` the way from the
    end of its roadblock to the next connector.
    """

    begin_m: Float[np.ndarray, "piece 2"]
    along_m: Float[np.ndarray, "piece 2"]
    place: Int[np.ndarray, "piece"]
    rest_m: Float[np.ndarray, "piece"]
    connector: Bool[np.ndarray, "piece"]
    beyond_m: Float[np.ndarray, "piece"]


def _pieces(lane_map: LaneMap, route: tuple[str, ...]) -> _Pieces:
    begin, along, place, rest, connector, beyond = [np.zeros((0, 2))], [np.zeros((0, 2))], [], [], [], []
    further_m = inf
    for number in reversed(range(len(route))):
        lanes = [lane_map.lanes[lane] for lane in lane_map.roadblocks.get(route[number], ())]
        lengths = []
        for lane in lanes:
            steps = np.diff(lane.centreline_m, axis=0)
            length = np.hypot(*steps.T)
            lengths.append(float(length.sum()))
            begin.append(lane.centreline_m[:-1])
            along.append(steps)
            place += [number] * len(steps)
            rest += (lengths[-1] - np.concatenate([[0.0], np.cumsum(length)[:-1]])).tolist()
            connector += [lane.connector] * len(steps)
            beyond += [further_m] * len(steps)
        # What lies beyond a roadblock that the map does not have is not known.
        further_m = inf if not lanes else 0.0 if any(lane.connector for lane in lanes) else lengths[0] + further_m
    return _Pieces(
        np.concatenate(begin),
        np.concatenate(along),
        np.array(place, dtype=int),
        np.array(rest, dtype=float),
        np.array(connector, dtype=bool),
        np.array(beyond, dtype=float),
    )


def _way_m(pieces: _Pieces, pose: Float[np.ndarray, "4 4"], start: int) -> float:
    """Way to the next connector from a pose, on the route from roadblock number `start` on."""
    offset = pose[:2, 3] - pieces.begin_m
    square = (pieces.along_m**2).sum(axis=1)
    share = np.divide((offset * pieces.along_m).sum(axis=1), square, out=np.zeros(len(square)), where=square > 0)
    share = np.clip(share, 0.0, 1.0)
    apart_m = np.hypot(*(offset - share[:, None] * pieces.along_m).T)
    leads = (pieces.along_m @ pose[:2, 0] > 0) & (pieces.place >= start)
    apart_m = np.where(leads, apart_m, inf)
    if not (apart_m <= OFF_ROUTE_M).any():
        return np.nan
    # Of equally near pieces (the end of a lane is the beginning of the next) the one further along counts.
    nearest = np.flatnonzero(apart_m == apart_m.min())
    here = int(nearest[np.lexsort((pieces.rest_m[nearest], -pieces.place[nearest]))[0]])
    if pieces.connector[here]:
        return 0.0
    left_m = pieces.rest_m[here] - share[here] * np.sqrt(square[here])
    return float(min(left_m + pieces.beyond_m[here], FARTHEST_M))
