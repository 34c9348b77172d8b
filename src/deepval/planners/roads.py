"""LaneMap -> what planners ask of a road: polygons, vertex headings, which lanes are near, which roadblock follows.

A lane's polygon is its outline made valid, or its middle widened by half its width; a vertex heads where the segment
that starts there heads, the last one where the one before it does.
"""

from collections.abc import Iterable
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from deepval.arrays import Float, Int
from deepval.planners.shapes import Geometry, Polygon, STRtree, shapely
from deepval.world.lanes import Lane, LaneMap

INTERSECTION_TOLERANCE_M = 0.01


class Roads:
    """A lane map with its geometry, lane by lane in the map's order; made once per map by `roads_of`."""

    def __init__(self, lane_map: LaneMap) -> None:
        self.ids = tuple(lane_map.lanes)
        self.lanes = tuple(lane_map.lanes.values())
        self.number = {lane: index for index, lane in enumerate(self.ids)}
        self.blocks = {
            block: tuple(self.number[lane] for lane in lanes) for block, lanes in lane_map.roadblocks.items()
        }
        self._drivable_m, self._intersections_m = lane_map.drivable_m, lane_map.intersections_m
        self._before = tuple(tuple(self.number[lane] for lane in lane_map.predecessors[mine]) for mine in self.ids)
        self._block_polygon: dict[str, Geometry] = {}

    @cached_property
    def polygon(self) -> np.ndarray:
        """Polygons of the lanes."""
        found = np.empty(len(self.lanes), dtype=object)
        found[:] = [lane_polygon(lane) for lane in self.lanes]
        shapely.prepare(found)
        return found

    @cached_property
    def ground(self) -> np.ndarray:
        """Polygons that one may drive on: lanes, connectors, other ground."""
        others = np.empty(len(self._drivable_m), dtype=object)
        others[:] = [outlined(outline_m) for outline_m in self._drivable_m]
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
        """Intersections as the map outlines them; where it outlines none, its connectors."""
        outlines = [outlined(outline_m) for outline_m in self._intersections_m]
        connectors = [self.polygon[index] for index, lane in enumerate(self.lanes) if lane.connector]
        return shapely.STRtree(outlines or connectors)

    @cached_property
    def pose(self) -> tuple[Float[np.ndarray, "point 3"], ...]:
        """Vertices of each lane's middle with their headings."""
        return tuple(posed(lane.centreline_m) for lane in self.lanes)

    @cached_property
    def length_m(self) -> Float[np.ndarray, "lane"]:
        """Length of each lane's middle."""
        return np.array([np.hypot(*np.diff(lane.centreline_m, axis=0).T).sum() for lane in self.lanes])

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
            self._block_polygon[block] = lanes[0] if len(lanes) == 1 else shapely.union_all(lanes)
        return self._block_polygon[block]

    def after(self, lane: int) -> list[int]:
        """Lanes that a lane leads to, of those the map has."""
        return [self.number[lane] for lane in self.lanes[lane].successors if lane in self.number]

    def blocks_after(self, block: str) -> list[str]:
        """Roadblocks that a roadblock leads to."""
        return self._blocks_beyond(block, [after for lane in self.blocks[block] for after in self.after(lane)])

    def blocks_before(self, block: str) -> list[str]:
        """Roadblocks that lead to a roadblock."""
        return self._blocks_beyond(block, [before for lane in self.blocks[block] for before in self._before[lane]])

    def _blocks_beyond(self, block: str, lanes: Iterable[int]) -> list[str]:
        return [other for other in dict.fromkeys(self.block_of(lane) for lane in lanes) if other != block]

    def near(self, shape: Geometry, radius_m: float) -> Int[np.ndarray, "polygon"]:
        """Numbers of the ground's polygons within a distance of a shape, in the map's order."""
        return np.sort(self._tree.query(shape, predicate="dwithin", distance=radius_m))

    def in_intersection(self, points_m: Float[np.ndarray, "point 2"]) -> np.ndarray:
        """Whether points are in an intersection."""
        hit = np.zeros(len(points_m), dtype=bool)
        found = self._intersections.query(
            shapely.points(points_m), predicate="dwithin", distance=INTERSECTION_TOLERANCE_M
        )
        hit[found[0]] = True
        return hit


_ROADS: "WeakKeyDictionary[LaneMap, Roads]" = WeakKeyDictionary()


def roads_of(lane_map: LaneMap) -> Roads:
    """The geometry of a map, made once for each map object."""
    if lane_map not in _ROADS:
        _ROADS[lane_map] = Roads(lane_map)
    return _ROADS[lane_map]


def outlined(outline_m: Float[np.ndarray, "_ 2"]) -> Polygon:
    """A valid polygon from an outline."""
    return shapely.buffer(shapely.Polygon(outline_m), 0)


def lane_polygon(lane: Lane) -> Polygon:
    """The ground of a lane."""
    if len(lane.polygon_m):
        return outlined(lane.polygon_m)
    return shapely.buffer(shapely.LineString(lane.centreline_m), lane.half_width_m, cap_style="flat")


def posed(points_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 3"]:
    """Vertices with the heading of the segment that starts there; the last repeats the one before it."""
    steps = np.diff(points_m, axis=0)
    heading = np.arctan2(steps[:, 1], steps[:, 0])
    return np.column_stack([points_m, np.append(heading, heading[-1])])
