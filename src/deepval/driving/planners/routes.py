"""Route and ego -> the lanes to follow: route correction, the lane to start on, the way
through the route's lanes.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from deepval.basics.errors import InputError
from deepval.driving.planners.observation import EgoState
from deepval.driving.planners.roads import Geometry, LanePath, Roads, shapely

Node = TypeVar("Node", bound=Hashable)

BACKWARD_DEPTH, FORWARD_DEPTH = 15, 30
"""Number of roadblocks that the correction searches back from the route's first, and
ahead.
"""
WINDOW = 30
"""Roadblocks that a centreline covers, the current one included."""
HERE_M = 1.0
ALIGNED_RAD, BESIDE_M = np.pi / 4, 3.0
LOOP_M2 = 1.0


class RouteSearch(NamedTuple):
    """A way through a graph, and whether it reaches a goal; without a goal it is the
    longest way searched.
    """

    way: list
    reached: bool


def breadth_first(
    start: Node,
    beyond: Callable[[Node], Iterable[Node]],
    *,
    is_goal: Callable[[Node, int], bool],
    most_depth: int,
) -> RouteSearch:
    """Breadth-first search by depth, the start at depth 1, in which a node may be met
    again at another depth.

    As published, a node's parent at a depth is the last that led to it, and the goal is
    the first that is met: the search therefore stores the nodes of a depth in both
    orders.
    """
    parents: list[dict[Node, Node | None]] = [{start: None}]
    first_met, last_met = [start], [start]
    while True:
        depth = len(parents)
        if depth > most_depth:
            break
        for node in first_met:
            if is_goal(node, depth):
                return RouteSearch(_way(parents, node), reached=True)
        children: dict[Node, Node | None] = {}
        for node in last_met:
            for child in beyond(node):
                children.pop(child, None)
                children[child] = node
        if not children:
            break
        first_met = list(
            dict.fromkeys(child for node in first_met for child in beyond(node))
        )
        last_met = list(children)
        parents.append(children)
    if len(parents) == 1:
        return RouteSearch([start], reached=False)
    final = parents[-1][last_met[-1]]
    assert final is not None, "only the start has no parent"
    return RouteSearch(_way(parents, next(iter(beyond(final)))), reached=False)


def _way(parents: Sequence[dict], end: Hashable) -> list:
    way = [end]
    for level in reversed(parents[1:]):
        way.append(level[way[-1]])
    return way[::-1]


def check_route(roads: Roads, route: Sequence[str]) -> tuple[str, ...]:
    """The roadblocks of a route without repetitions; InputError unless all are on the
    map.
    """
    if not route:
        raise InputError(
            "a planner needs a route; found none: name the roadblocks that the "
            "vehicle is to follow."
        )
    for index, block in enumerate(route):
        if block not in roads.blocks:
            raise InputError(
                f"a route must stay on the map; roadblock {block} (number {index + 1} "
                f"of {len(route)}) is not on it: cut the route "
                "there, or read a larger map."
            )
    return tuple(dict.fromkeys(route))


def lanes_of(roads: Roads, route: Iterable[str]) -> list[int]:
    """Lanes of a route's roadblocks."""
    return [lane for block in route for lane in roads.blocks[block]]


def lane_held_or_nearest(
    roads: Roads, lanes: Sequence[int], *, ego: EgoState, farthest_m: float
) -> int:
    """The first lane whose polygon contains the ego's centre, or else the lane nearest
    to its footprint.

    Raises:
        InputError: The nearest is beyond the planner's range, so that it could not see
            the agents on it.
    """
    centre_m = ego.vehicle.centres_m(ego.pose)
    polygons = roads.polygon[list(lanes)]
    inside = shapely.contains_xy(polygons, *centre_m)
    if inside.any():
        return lanes[int(np.argmax(inside))]
    distance_m = shapely.distance(
        polygons, shapely.Polygon(ego.vehicle.corners_m(ego.pose))
    )
    nearest = int(np.argmin(distance_m))
    if distance_m[nearest] > farthest_m:
        raise InputError(
            "the ego vehicle must be on its route, or near it; at "
            f"({centre_m[0]:.1f}, {centre_m[1]:.1f}) it is {distance_m[nearest]:.1f} "
            "m from the nearest lane of the route, and a planner that looks "
            f"{farthest_m:g} m far cannot go on: check the pose, the route and the "
            "frame they are in."
        )
    return lanes[nearest]


def breadth_first_lanes(roads: Roads, route: Sequence[str], start: int) -> list[int]:
    """IDM's way: fewest lanes from the starting lane to the last roadblock, through
    lanes of the route only.
    """
    allowed = frozenset(lanes_of(roads, route))
    # As published: a start in the second roadblock shortens the way by one.
    depth = len(route) - (len(route) > 1 and roads.block_of(start) == route[1])
    return breadth_first(
        start,
        lambda lane: [after for after in roads.after(lane) if after in allowed],
        is_goal=lambda lane, at: at == depth and roads.block_of(lane) == route[-1],
        most_depth=depth,
    ).way


def starting_lane(
    roads: Roads, route: Sequence[str], *, ego: EgoState, farthest_m: float
) -> int:
    """PDM's start: the best aligned of the route's lanes under the rear axle; without
    any, `lane_held_or_nearest`.
    """
    lanes = lanes_of(roads, route)
    under = [
        lane
        for lane in lanes
        if shapely.intersects_xy(roads.polygon[lane], ego.pose[0], ego.pose[1])
    ]
    if not under:
        return lane_held_or_nearest(roads, lanes, ego=ego, farthest_m=farthest_m)
    # Lanes are in the order of the map, before connectors: the first of two equally
    # aligned lanes counts.
    under = sorted(set(under), key=lambda lane: (roads.lanes[lane].connector, lane))
    return min(under, key=lambda lane: beside(roads, lane, ego)[1])


def shortest_lanes(roads: Roads, route: Sequence[str], start: int) -> list[int]:
    """PDM's way: least length from the starting lane to the roadblock at most 30 ahead,
    through the route's lanes.
    """
    first = route.index(roads.block_of(start))
    target = route[first : first + WINDOW][-1]
    allowed = frozenset(lanes_of(roads, route))
    cost_m, parent, done = {start: 0.0}, {start: start}, set()
    end = start
    while open_lanes := [lane for lane in cost_m if lane not in done]:
        lane = min(open_lanes, key=cost_m.__getitem__)
        if roads.block_of(lane) == target:
            end = lane
            break
        done.add(lane)
        for after in roads.after(lane):
            length_m = cost_m[lane] + roads.length_m[after]
            if (
                after in allowed
                and after not in done
                and length_m < cost_m.get(after, np.inf)
            ):
                # If the target cannot be reached, the last lane discovered is the end.
                end = end if after in cost_m else after
                cost_m[after], parent[after] = length_m, lane
    way = [end]
    while parent[way[-1]] != way[-1]:
        way.append(parent[way[-1]])
    return way[::-1]


def centreline(roads: Roads, lanes: Sequence[int]) -> LanePath:
    """The path along lanes, joint vertices doubled as published."""
    return LanePath.through(np.concatenate([roads.pose[lane] for lane in lanes]))


def beside(roads: Roads, lane: int, ego: EgoState) -> tuple[float, float]:
    """Distance of the rear axle from the lane's nearest vertex, and the difference of
    their headings.
    """
    pose = roads.pose[lane]
    distance_m = np.hypot(pose[:, 0] - ego.pose[0], pose[:, 1] - ego.pose[1])
    nearest = int(np.argmin(distance_m))
    turned_rad = abs(float(pose[nearest, 2] - ego.pose[2])) % (2 * np.pi)
    return float(distance_m[nearest]), min(turned_rad, 2 * np.pi - turned_rad)


def corrected_route(
    roads: Roads, route: Sequence[str], ego: EgoState
) -> tuple[str, ...]:
    """The route with the way from the ego's roadblock to it, without gaps, and cut
    where it crosses itself.
    """
    here, candidates = _blocks_here(roads, route, ego)
    blocks = list(route)
    if here not in blocks:
        blocks = _with_approach(roads, blocks, here=here, candidates=candidates)
    return tuple(dict.fromkeys(_without_loops(roads, _without_gaps(roads, blocks))))


def _blocks_here(
    roads: Roads, route: Sequence[str], ego: EgoState
) -> tuple[str, list[str]]:
    """The ego's roadblock and all candidates for it: near and aligned, and only those
    on the route if there are any.
    """
    axle = shapely.Point(ego.pose[:2])
    near = [
        lane for lane in roads.near(axle, HERE_M).tolist() if lane < len(roads.lanes)
    ]
    if not near:
        near = [
            min(same, key=lambda lane: shapely.distance(roads.polygon[lane], axle))
            for same in _by_kind(roads)
        ]
    blocks = dict.fromkeys(
        roads.block_of(lane)
        for lane in sorted(near, key=lambda lane: roads.lanes[lane].connector)
    )
    rows = [
        (block, *beside(roads, lane, ego))
        for block in blocks
        for lane in roads.blocks[block]
    ]
    fitting = [row for row in rows if row[2] < ALIGNED_RAD and row[1] < BESIDE_M]
    chosen = [row for row in fitting if row[0] in route] or fitting
    if chosen:
        return min(chosen, key=lambda row: row[1])[0], [row[0] for row in chosen]
    return min(rows, key=lambda row: row[1])[0], list(blocks)


def _by_kind(roads: Roads) -> list[list[int]]:
    kinds = [
        [n for n, lane in enumerate(roads.lanes) if lane.connector is kind]
        for kind in (False, True)
    ]
    return [lanes for lanes in kinds if lanes]


def _with_approach(
    roads: Roads, route: list[str], *, here: str, candidates: list[str]
) -> list[str]:
    """A route that starts elsewhere, preceded by the way to its first roadblock or to
    one of its first three.
    """
    back = breadth_first(
        route[0],
        roads.blocks_before,
        is_goal=lambda block, _: block in candidates,
        most_depth=BACKWARD_DEPTH,
    )
    if back.reached:
        return back.way[:0:-1] + route
    ahead = breadth_first(
        here,
        roads.blocks_after,
        is_goal=lambda block, _: block in route[:3],
        most_depth=FORWARD_DEPTH,
    )
    if ahead.reached:
        return ahead.way + route[route.index(ahead.way[-1]) + 1 :]
    return route


def _without_gaps(roads: Roads, route: list[str]) -> list[str]:
    filled = route[:1]
    for before, after in pairwise(route):
        if before not in roads.blocks_before(after):
            search = breadth_first(
                before,
                roads.blocks_after,
                is_goal=lambda block, _, to=after: block == to,
                most_depth=FORWARD_DEPTH,
            )
            filled += search.way[1:-1] if search.reached else []
        filled.append(after)
    return filled


def _without_loops(roads: Roads, route: list[str]) -> list[str]:
    """The route up to the first roadblock in an intersection that overlaps an earlier
    one.
    """
    passed: list[Geometry] = []
    for index, block in enumerate(route):
        if roads.is_connector(block):
            polygon = roads.block_polygon(block)
            met = [other for other in passed if shapely.intersects(other, polygon)]
            if any(
                shapely.area(shapely.intersection(other, polygon)) > LOOP_M2
                for other in met
            ):
                return route[:index]
            passed.append(polygon)
    return route
