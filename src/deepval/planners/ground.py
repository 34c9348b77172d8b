"""Footprints -> where on the road they are: off it, in several lanes, off the route, in an intersection."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.planners.roads import Roads
from deepval.planners.shapes import shapely


@dataclass(frozen=True, eq=False)
class DrivableGround:
    """Polygons that one may drive on around the ego, those of the route first."""

    roads: Roads
    numbers: Int[np.ndarray, "polygon"]
    on_route: int

    @cached_property
    def _bounds(self) -> Float[np.ndarray, "polygon 4"]:
        return self.roads.bounds[self.numbers]

    def held(self, points_m: Float[np.ndarray, "point 2"], polygons: range) -> Bool[np.ndarray, "point"]:
        """Whether points are in any of some polygons; a point that is in one is not asked of the next."""
        held = np.zeros(len(points_m), dtype=bool)
        x, y = np.ascontiguousarray(points_m[:, 0]), np.ascontiguousarray(points_m[:, 1])
        low, high = points_m.min(axis=0), points_m.max(axis=0)
        part = slice(polygons.start, polygons.stop)
        bounds = self._bounds[part]
        reached = (bounds[:, :2] <= high).all(axis=1) & (bounds[:, 2:] >= low).all(axis=1)
        for number, (left, bottom, right, top) in zip(
            self.numbers[part][reached].tolist(), bounds[reached].tolist(), strict=True
        ):
            asked = np.flatnonzero(~held & (x >= left) & (x <= right) & (y >= bottom) & (y <= top))
            if len(asked):
                held[asked] = shapely.contains_xy(self.roads.ground[number], x[asked], y[asked])
        return held

    def off_road(self, corners_m: Float[np.ndarray, "*batch 4 2"]) -> Bool[np.ndarray, "*batch"]:
        """Whether a corner is on none of the polygons."""
        held = self.held(corners_m.reshape(-1, 2), range(len(self.numbers)))
        return np.asarray(~held.reshape(corners_m.shape[:-1]).all(axis=-1))

    def off_route(self, centres_m: Float[np.ndarray, "*batch 2"]) -> Bool[np.ndarray, "*batch"]:
        """Whether a centre is on no lane of the route: published as oncoming traffic."""
        return ~self.held(centres_m.reshape(-1, 2), range(self.on_route)).reshape(centres_m.shape[:-1])

    def in_several_lanes(self, corners_m: Float[np.ndarray, "box 4 2"]) -> Bool[np.ndarray, "box"]:
        """Whether more than one polygon has a corner and none has all four."""
        points = corners_m.reshape(-1, 2)
        inside = shapely.contains_xy(self.roads.ground[self.numbers][:, None], points[:, 0], points[:, 1])
        corners = inside.reshape(len(self.numbers), len(corners_m), 4).sum(axis=2)
        return ((corners > 0).sum(axis=0) > 1) & ~(corners == 4).any(axis=0)


def ground_around(
    roads: Roads, centre_m: Float[np.ndarray, "2"], *, radius_m: float, route: set[int]
) -> DrivableGround:
    """Lanes of the roadblocks and other ground that reach within a distance of a point."""
    near = roads.near(shapely.Point(centre_m), radius_m)
    lanes = near[near < len(roads.lanes)]
    blocks = dict.fromkeys(roads.block_of(lane) for lane in lanes.tolist())
    numbers = [lane for block in blocks for lane in roads.blocks[block]]
    numbers += near[near >= len(roads.lanes)].tolist()
    numbers.sort(key=lambda number: number not in route)
    return DrivableGround(roads, np.array(numbers, dtype=int), sum(number in route for number in numbers))
