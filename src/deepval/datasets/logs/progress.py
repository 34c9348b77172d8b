"""Where along its route a vehicle is, step by step."""

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.world.lanes import Lane, LaneMap

AHEAD = 3
"""How many roadblocks a vehicle may be on from one step to the next, so that a route that crosses itself is no leap."""


def route_starts(
    lane_map: LaneMap, route: tuple[str, ...], *, place_m: Float[np.ndarray, "step 2"]
) -> Int[np.ndarray, "step"]:
    """Number of the roadblock of the route that each place is on, at most that of the last but one.

    The first that holds the first place that is on the route, later ones as they are reached; off all lanes of the
    route it is that of the step before.
    """
    held = np.zeros((len(route), len(place_m)), dtype=bool)
    for number, roadblock in enumerate(route):
        for lane in lane_map.roadblocks.get(roadblock, ()):
            held[number] |= holds(lane_map.lanes[lane], place_m)
    starts = np.zeros(len(place_m), dtype=int)
    now, known = 0, False
    for step in range(len(place_m)):
        window = held[now : now + AHEAD + 1 if known else None, step]
        if window.any():
            now, known = now + int(np.argmax(window)), True
        starts[step] = now
    return np.minimum(starts, max(len(route) - 2, 0))


def holds(lane: Lane, place_m: Float[np.ndarray, "step 2"]) -> Bool[np.ndarray, "step"]:
    """Whether places are on a lane: within its outline, or half its width from its middle where it has none."""
    if not len(lane.polygon_m):
        start, along = lane.centreline_m[:-1], np.diff(lane.centreline_m, axis=0)
        gone = place_m[:, None] - start
        share = (gone * along).sum(-1) / np.maximum((along**2).sum(-1), np.finfo(float).tiny)
        off_m = gone - np.clip(share, 0, 1)[..., None] * along
        return (np.linalg.norm(off_m, axis=-1) <= lane.half_width_m).any(axis=1)
    a, b = lane.polygon_m, np.roll(lane.polygon_m, -1, axis=0)
    x, y = place_m[:, :1], place_m[:, 1:]
    crossing = (a[:, 1] > y) != (b[:, 1] > y)
    rise = np.where(b[:, 1] == a[:, 1], 1.0, b[:, 1] - a[:, 1])
    left = x < a[:, 0] + (y - a[:, 1]) / rise * (b[:, 0] - a[:, 0])
    return (crossing & left).sum(axis=1) % 2 == 1
