"""Observed agents -> what PDM-Closed keeps of them: the nearest of each kind, forecast at constant velocity.

Map j holds everybody where the forecast has them at 0.2 j seconds; a state at 0.1 i seconds looks at map i // 2. The
order is that of the published occupancy maps: static objects, vehicles, pedestrians, bicycles, each from near to far,
then red lights. See
docs/definitions.md, PDM-Closed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.geometry.corners import ground_corners_m
from deepval.planners.rectangles import Rectangles, directions, overlapping
from deepval.planners.roads import Roads
from deepval.planners.shapes import Geometry, shapely
from deepval.planners.situation import BICYCLE, PEDESTRIAN, STATIC, VEHICLE, Agents, EgoState

MAP_STEP_S = 0.2
MAPS = 42
KEPT = {STATIC: 50, VEHICLE: 50, PEDESTRIAN: 25, BICYCLE: 10}
"""How many of each kind are kept, in the order in which the maps hold them."""


@dataclass(frozen=True, eq=False)
class ObservedAgents:
    """Others and red lights; an index up to the number of others is one of them, a higher one a red light.

    Attributes:
        id: Names.
        static: Which are static objects.
        speed_mps: Speeds; 0 for static objects.
        heading_rad: Headings as observed.
        size_m: Length and width.
        centre_m: Centres now.
        forecast_mps: Velocities of the forecast.
        red: Polygons of lanes of the route shut by red lights.
        collided: Others and red lights that the ego overlaps already, which nothing reacts to.
    """

    id: Shaped[np.ndarray, "all"]
    static: Bool[np.ndarray, "other"]
    speed_mps: Float[np.ndarray, "other"]
    heading_rad: Float[np.ndarray, "other"]
    size_m: Float[np.ndarray, "other 2"]
    centre_m: Float[np.ndarray, "other 2"]
    forecast_mps: Float[np.ndarray, "other 2"]
    red: np.ndarray
    collided: Bool[np.ndarray, "all"]

    def __len__(self) -> int:
        return len(self.speed_mps)

    @cached_property
    def centres_m(self) -> Float[np.ndarray, "map other 2"]:
        """Centres in every map."""
        times_s = MAP_STEP_S * np.arange(MAPS)
        return self.centre_m + times_s[:, None, None] * self.forecast_mps

    @cached_property
    def corners_m(self) -> Float[np.ndarray, "other 4 2"]:
        """Footprints now."""
        return ground_corners_m(self.centre_m, self.size_m, yaw_rad=self.heading_rad)

    @cached_property
    def ahead(self) -> Float[np.ndarray, "other 2"]:
        """Unit vectors along the headings."""
        return directions(self.heading_rad)

    @cached_property
    def radius_m(self) -> Float[np.ndarray, "other"]:
        """Half the diagonals."""
        return np.hypot(self.size_m[:, 0], self.size_m[:, 1]) / 2

    def rectangles(self, maps: Int[np.ndarray, "pair"], others: Int[np.ndarray, "pair"]) -> Rectangles:
        """Footprints of others in maps, pair by pair."""
        return Rectangles(self.centres_m[maps, others], self.ahead[others], self.size_m[others] / 2)

    def polygons(self, maps: Int[np.ndarray, "pair"], others: Int[np.ndarray, "pair"]) -> np.ndarray:
        """The same as polygons."""
        moved = self.centres_m[maps, others] - self.centre_m[others]
        return shapely.polygons(self.corners_m[others] + moved[:, None])

    def tree_order(self, in_map: int, shape: Geometry) -> Int[np.ndarray, "met"]:
        """What meets a shape, in the order in which the published spatial index names it."""
        everybody = np.arange(len(self))
        polygons = np.concatenate([self.polygons(np.full(len(self), in_map), everybody), self.red])
        return shapely.STRtree(polygons).query(shape, predicate="intersects")


def observed(
    agents: Agents,
    ego: EgoState,
    *,
    roads: Roads,
    shut: list[int],
    radius_m: float,
    collided: frozenset[str] = frozenset(),
) -> ObservedAgents:
    """What is kept of the agents around the ego, and the lanes `shut` by a red light.

    `collided` names what was overlapped earlier: agents of that name are left out, red lights are kept and ignored.
    """
    if collided:
        agents = agents.where(~np.isin(agents.id, list(collided)))
    centre_m = ego.vehicle.centres_m(ego.pose)
    away_m = np.hypot(*(agents.pose[:, :2] - centre_m).T)
    order = np.argsort(away_m, kind="stable")
    order = order[away_m[order] <= radius_m]
    kept = np.concatenate([order[agents.kind[order] == kind][:most] for kind, most in KEPT.items()])
    static = agents.kind[kept] == STATIC
    velocity_mps = np.where(static[:, None], 0.0, agents.velocity_mps[kept])
    speed_mps = np.hypot(*velocity_mps.T)
    ahead = directions(agents.pose[kept, 2])
    # As published: the forecast runs along the heading, or against it where the velocity points backwards; leading
    # speeds and everything else take the heading as observed.
    backwards = (velocity_mps * ahead).sum(axis=1) <= 0
    forecast_mps = np.where(backwards, -speed_mps, speed_mps)[:, None] * ahead
    size_m = agents.size_m[kept]
    own = Rectangles(centre_m, directions(ego.pose[2:])[0], np.array([ego.vehicle.length_m, ego.vehicle.width_m]) / 2)
    touched = overlapping(own, Rectangles(agents.pose[kept, :2], ahead, size_m / 2))
    red = roads.polygon[shut]
    inside = shapely.contains(red, shapely.Polygon(ego.vehicle.corners_m(ego.pose)))
    lights = np.array([f"red_light_{roads.ids[n]}" for n in shut], dtype=str)
    return ObservedAgents(
        id=np.concatenate([agents.id[kept].astype(str), lights]),
        static=static,
        speed_mps=speed_mps,
        heading_rad=agents.pose[kept, 2],
        size_m=size_m,
        centre_m=agents.pose[kept, :2],
        forecast_mps=forecast_mps,
        red=red,
        collided=np.concatenate([touched, np.atleast_1d(inside) | np.isin(lights, list(collided))]),
    )
