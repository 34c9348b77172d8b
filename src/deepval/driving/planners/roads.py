"""LaneMap -> the road geometry that planners need: polygons, vertex headings, near
lanes, next roadblocks.

A lane's polygon is its outline made valid, or its middle widened by half its width; a
vertex has the heading of the segment that starts there; the last vertex has the heading
of the one before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import library
from deepval.driving.world.lanes import Lane, LaneMap

if TYPE_CHECKING:
    from shapely import Geometry, LineString, Polygon, STRtree
else:
    Geometry = LineString = Polygon = STRtree = Any


class _Shapely:
    """shapely, imported at its first use: listing planners and data sets does not need
    it.
    """

    def __getattr__(self, name: str) -> Any:
        value = getattr(
            library("shapely", purpose="Planning on a lane map", extra="planners"), name
        )
        setattr(self, name, value)  # the next use finds it without this function
        return value


shapely: Any = _Shapely()
"""The shapely functions, untyped: its stubs do not cover arrays of geometries."""

__all__ = ["Geometry", "LineString", "Polygon", "STRtree", "shapely"]


QUARTER = 16
"""Segments of a quarter circle where a corridor goes round a bend."""


@dataclass(frozen=True, eq=False)
class LanePath:
    """A line through poses (x, y, heading), headings without jumps of a turn, by its
    arc length from the first.
    """

    pose: Float[np.ndarray, "point 3"]

    @classmethod
    def through(cls, pose: Float[np.ndarray, "point 3"]) -> "LanePath":
        """The path through poses whose headings may jump by a turn."""
        return cls(np.column_stack([pose[:, :2], np.unwrap(pose[:, 2])]))

    @cached_property
    def progress_m(self) -> Float[np.ndarray, "point"]:
        """Arc length up to each vertex."""
        steps = np.diff(self.pose[:, :2], axis=0)
        return np.concatenate([[0.0], np.cumsum(np.hypot(steps[:, 0], steps[:, 1]))])

    @property
    def length_m(self) -> float:
        """Arc length of the whole path."""
        return float(self.progress_m[-1])

    @cached_property
    def line(self) -> LineString:
        """The line itself."""
        return shapely.LineString(self.pose[:, :2])

    def at(
        self, progress_m: Float[np.ndarray, "*batch"], *, least_m: float = 0.0
    ) -> Float[np.ndarray, "*batch 3"]:
        """Poses at a progress, linear between vertices; progress is clipped to
        `least_m` .. length.
        """
        clipped_m = np.minimum(np.maximum(progress_m, least_m), self.progress_m[-1])
        # At a joint, where two vertices coincide, the first one counts: the search is
        # from the left.
        before = self.progress_m[1:-1].searchsorted(clipped_m)
        return (
            self.pose[before]
            + (clipped_m - self.progress_m[before])[..., None] * self._slope[before]
        )

    @cached_property
    def _slope(self) -> Float[np.ndarray, "gap 3"]:
        gaps_m = np.diff(self.progress_m)
        return np.diff(self.pose, axis=0) / np.where(gaps_m > 0, gaps_m, 1.0)[:, None]

    def progress_at_m(
        self, points_m: Float[np.ndarray, "*batch 2"]
    ) -> Float[np.ndarray, "*batch"]:
        """Progress of the nearest point on the path."""
        return np.asarray(
            shapely.line_locate_point(self.line, shapely.points(points_m)), dtype=float
        )

    def beside(self, left_m: float) -> "LanePath":
        """The path whose vertices lie `left_m` to the left of these; it has its own arc
        length.
        """
        to_left = self.pose[:, 2] + np.pi / 2
        moved = self.pose[:, :2] + left_m * np.column_stack(
            [np.cos(to_left), np.sin(to_left)]
        )
        return LanePath(np.column_stack([moved, self.pose[:, 2]]))

    def part(self, start_m: float, end_m: float) -> LineString:
        """The line from one progress to another, both clipped to the path."""
        start_m, end_m = (
            min(max(at_m, 0.0), self.length_m) for at_m in (start_m, end_m)
        )
        first, last = np.searchsorted(self.progress_m, [start_m, end_m], side="right")
        ends = self.at(np.array([start_m, max(start_m, end_m)]))[:, :2]
        return shapely.linestrings(
            np.concatenate(
                [ends[:1], self.pose[first : max(first, last), :2], ends[1:]]
            )
        )

    def corridor(self, start_m: float, end_m: float, *, half_width_m: float) -> Polygon:
        """The ground within `half_width_m` of a part of the path, with square ends."""
        return shapely.buffer(
            self.part(start_m, end_m),
            half_width_m,
            quad_segs=QUARTER,
            cap_style="square",
        )


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Rectangles of any leading axes: centre, unit vector along the length, half length
    and half width.
    """

    centre_m: Float[np.ndarray, "*batch 2"]
    ahead: Float[np.ndarray, "*batch 2"]
    half_m: Float[np.ndarray, "*batch 2"]

    def __getitem__(self, index: Any) -> "Rectangles":
        """Some of them, by an index over the leading axes."""
        return Rectangles(self.centre_m[index], self.ahead[index], self.half_m[index])


def directions(
    heading_rad: Float[np.ndarray, "*batch"],
) -> Float[np.ndarray, "*batch 2"]:
    """Unit vectors along headings."""
    return np.stack([np.cos(heading_rad), np.sin(heading_rad)], axis=-1)


def rectangles_overlap(
    first: Rectangles, second: Rectangles
) -> Bool[np.ndarray, "*both"]:
    """Whether rectangles overlap or touch, pair by pair: no side of either separates
    them (separating axes, exact).
    """
    between = second.centre_m - first.centre_m
    a, b = first.ahead, second.ahead
    cos = np.abs(a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1])
    sin = np.abs(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])
    free = np.zeros(cos.shape, dtype=bool)
    for own, axis, other in (
        (first.half_m, a, second.half_m),
        (second.half_m, b, first.half_m),
    ):
        along = np.abs(between[..., 0] * axis[..., 0] + between[..., 1] * axis[..., 1])
        across = np.abs(between[..., 1] * axis[..., 0] - between[..., 0] * axis[..., 1])
        free |= along > own[..., 0] + other[..., 0] * cos + other[..., 1] * sin
        free |= across > own[..., 1] + other[..., 0] * sin + other[..., 1] * cos
    return ~free


INTERSECTION_TOLERANCE_M = 0.01


class Roads:
    """A lane map with its geometry, lane by lane in the map's order; built once per map
    by `roads_of`.
    """

    def __init__(self, lane_map: LaneMap) -> None:
        self.ids = tuple(lane_map.lanes)
        self.lanes = tuple(lane_map.lanes.values())
        self.number = {lane: index for index, lane in enumerate(self.ids)}
        self.blocks = {
            block: tuple(self.number[lane] for lane in lanes)
            for block, lanes in lane_map.roadblocks.items()
        }
        self._drivable_m, self._intersections_m = (
            lane_map.drivable_m,
            lane_map.intersections_m,
        )
        self._before = tuple(
            tuple(self.number[lane] for lane in lane_map.predecessors[mine])
            for mine in self.ids
        )
        self._block_polygon: dict[str, Geometry] = {}

    @cached_property
    def polygon(self) -> np.ndarray:
        """Polygons of the lanes."""
        polygons = np.empty(len(self.lanes), dtype=object)
        polygons[:] = [lane_polygon(lane) for lane in self.lanes]
        shapely.prepare(polygons)
        return polygons

    @cached_property
    def ground(self) -> np.ndarray:
        """Drivable polygons: lanes, connectors, other ground."""
        others = np.empty(len(self._drivable_m), dtype=object)
        others[:] = [valid_polygon(outline_m) for outline_m in self._drivable_m]
        shapely.prepare(others)
        return np.concatenate([self.polygon, others])

    @cached_property
    def bounds(self) -> Float[np.ndarray, "polygon 4"]:
        """Bounds of the ground's polygons."""
        return shapely.bounds(self.ground)

    @cached_property
    def _tree(self) -> STRtree:
        return shapely.STRtree(self.ground)

    @cached_property
    def _intersections(self) -> STRtree:
        """Intersections of the map; connectors where it outlines none."""
        outlines = [valid_polygon(outline_m) for outline_m in self._intersections_m]
        connectors = [
            self.polygon[index]
            for index, lane in enumerate(self.lanes)
            if lane.connector
        ]
        return shapely.STRtree(outlines or connectors)

    @cached_property
    def pose(self) -> tuple[Float[np.ndarray, "point 3"], ...]:
        """Vertices of each lane's middle with their headings."""
        return tuple(vertex_poses(lane.centreline_m) for lane in self.lanes)

    @cached_property
    def length_m(self) -> Float[np.ndarray, "lane"]:
        """Length of each lane's middle."""
        return np.array(
            [
                np.hypot(*np.diff(lane.centreline_m, axis=0).T).sum()
                for lane in self.lanes
            ]
        )

    def block_of(self, lane: int) -> str:
        """The roadblock of a lane."""
        return self.lanes[lane].roadblock

    def is_connector(self, block: str) -> bool:
        """Whether a roadblock leads through an intersection."""
        return self.lanes[self.blocks[block][0]].connector

    def block_polygon(self, block: str) -> Geometry:
        """The ground of a roadblock: its lanes together."""
        if block not in self._block_polygon:
            lanes = self.polygon[list(self.blocks[block])]
            self._block_polygon[block] = (
                lanes[0] if len(lanes) == 1 else shapely.union_all(lanes)
            )
        return self._block_polygon[block]

    def after(self, lane: int) -> list[int]:
        """Lanes that a lane leads to, if they are on the map."""
        return [
            self.number[lane]
            for lane in self.lanes[lane].successors
            if lane in self.number
        ]

    def blocks_after(self, block: str) -> list[str]:
        """Roadblocks that a roadblock leads to."""
        return self._blocks_beyond(
            block, [after for lane in self.blocks[block] for after in self.after(lane)]
        )

    def blocks_before(self, block: str) -> list[str]:
        """Roadblocks that lead to a roadblock."""
        return self._blocks_beyond(
            block,
            [before for lane in self.blocks[block] for before in self._before[lane]],
        )

    def _blocks_beyond(self, block: str, lanes: Iterable[int]) -> list[str]:
        return [
            other
            for other in dict.fromkeys(self.block_of(lane) for lane in lanes)
            if other != block
        ]

    def near(self, shape: Geometry, radius_m: float) -> Int[np.ndarray, "polygon"]:
        """Numbers of the ground's polygons within a distance of a shape, in the map's
        order.
        """
        return np.sort(self._tree.query(shape, predicate="dwithin", distance=radius_m))

    def in_intersection(self, points_m: Float[np.ndarray, "point 2"]) -> np.ndarray:
        """Whether points are in an intersection."""
        inside = np.zeros(len(points_m), dtype=bool)
        pairs = self._intersections.query(
            shapely.points(points_m),
            predicate="dwithin",
            distance=INTERSECTION_TOLERANCE_M,
        )
        inside[pairs[0]] = True
        return inside


_ROADS: "WeakKeyDictionary[LaneMap, Roads]" = WeakKeyDictionary()


def roads_of(lane_map: LaneMap) -> Roads:
    """The geometry of a map, built once for each map object."""
    if lane_map not in _ROADS:
        _ROADS[lane_map] = Roads(lane_map)
    return _ROADS[lane_map]


def valid_polygon(outline_m: Float[np.ndarray, "_ 2"]) -> Polygon:
    """A valid polygon from an outline."""
    return shapely.buffer(shapely.Polygon(outline_m), 0)


def lane_polygon(lane: Lane) -> Polygon:
    """The ground of a lane."""
    if len(lane.polygon_m):
        return valid_polygon(lane.polygon_m)
    return shapely.buffer(
        shapely.LineString(lane.centreline_m), lane.half_width_m, cap_style="flat"
    )


def vertex_poses(
    points_m: Float[np.ndarray, "point 2"],
) -> Float[np.ndarray, "point 3"]:
    """Vertices with the heading of the segment that starts there; the last repeats the
    one before it.
    """
    steps = np.diff(points_m, axis=0)
    heading = np.arctan2(steps[:, 1], steps[:, 0])
    return np.column_stack([points_m, np.append(heading, heading[-1])])


@dataclass(frozen=True, eq=False)
class DrivableGround:
    """Drivable polygons around the ego, first those of the route."""

    roads: Roads
    numbers: Int[np.ndarray, "polygon"]
    on_route: int

    @cached_property
    def _bounds(self) -> Float[np.ndarray, "polygon 4"]:
        return self.roads.bounds[self.numbers]

    def inside(
        self, points_m: Float[np.ndarray, "point 2"], polygons: range
    ) -> Bool[np.ndarray, "point"]:
        """Whether points are in any of some polygons; a point inside one is not tested
        against the next.
        """
        inside = np.zeros(len(points_m), dtype=bool)
        x, y = (
            np.ascontiguousarray(points_m[:, 0]),
            np.ascontiguousarray(points_m[:, 1]),
        )
        low, high = points_m.min(axis=0), points_m.max(axis=0)
        part = slice(polygons.start, polygons.stop)
        # Bounds first: they exclude most polygons and points before the exact test.
        bounds = self._bounds[part]
        reached = (bounds[:, :2] <= high).all(axis=1) & (bounds[:, 2:] >= low).all(
            axis=1
        )
        for number, (left, bottom, right, top) in zip(
            self.numbers[part][reached].tolist(), bounds[reached].tolist(), strict=True
        ):
            rows = np.flatnonzero(
                ~inside & (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
            )
            if len(rows):
                inside[rows] = shapely.contains_xy(
                    self.roads.ground[number], x[rows], y[rows]
                )
        return inside

    def off_road(
        self, corners_m: Float[np.ndarray, "*batch 4 2"]
    ) -> Bool[np.ndarray, "*batch"]:
        """Whether a corner is on none of the polygons."""
        inside = self.inside(corners_m.reshape(-1, 2), range(len(self.numbers)))
        return np.asarray(~inside.reshape(corners_m.shape[:-1]).all(axis=-1))

    def off_route(
        self, centres_m: Float[np.ndarray, "*batch 2"]
    ) -> Bool[np.ndarray, "*batch"]:
        """Whether a centre is on no lane of the route: published as oncoming
        traffic.
        """
        return ~self.inside(centres_m.reshape(-1, 2), range(self.on_route)).reshape(
            centres_m.shape[:-1]
        )

    def in_several_lanes(
        self, corners_m: Float[np.ndarray, "box 4 2"]
    ) -> Bool[np.ndarray, "box"]:
        """Whether more than one polygon contains a corner and none contains all
        four.
        """
        points = corners_m.reshape(-1, 2)
        inside = shapely.contains_xy(
            self.roads.ground[self.numbers][:, None], points[:, 0], points[:, 1]
        )
        corners = inside.reshape(len(self.numbers), len(corners_m), 4).sum(axis=2)
        return ((corners > 0).sum(axis=0) > 1) & ~(corners == 4).any(axis=0)


def ground_around(
    roads: Roads, centre_m: Float[np.ndarray, "2"], *, radius_m: float, route: set[int]
) -> DrivableGround:
    """Lanes of the roadblocks and other ground that reach within a distance of a
    point.
    """
    near = roads.near(shapely.Point(centre_m), radius_m)
    lanes = near[near < len(roads.lanes)]
    blocks = dict.fromkeys(roads.block_of(lane) for lane in lanes.tolist())
    numbers = [lane for block in blocks for lane in roads.blocks[block]]
    numbers += near[near >= len(roads.lanes)].tolist()
    numbers.sort(key=lambda number: number not in route)
    return DrivableGround(
        roads, np.array(numbers, dtype=int), sum(number in route for number in numbers)
    )
