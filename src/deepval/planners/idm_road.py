"""Situation and agents -> the path that IDM follows, and what stands in the corridor along it."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.geometry.corners import ground_corners_m
from deepval.geometry.vehicle import Vehicle
from deepval.planners.idm import Lead
from deepval.planners.paths import QUARTER, LanePath
from deepval.planners.roads import Roads, roads_of
from deepval.planners.routes import breadth_first_lanes, check_route, lane_held_or_nearest, lanes_of
from deepval.planners.shapes import LineString, shapely
from deepval.planners.situation import STATIC, Agents, EgoState, Situation

ROUND = np.cos(np.pi / (4 * QUARTER))
"""A corridor's bends are drawn with segments, which come as near to the path as this share of its half width."""

SAME_M = 1e-6
"""Vertices nearer than this are at one place: lanes meet up to rounding."""


@dataclass(frozen=True, eq=False)
class Road:
    """The path of the centre, the line on which it is found, the first lane's limit, the lanes that may be followed."""

    roads: Roads
    path: LanePath
    line: LineString
    speed_limit_mps: float | None
    lanes: tuple[int, ...]

    def start_m(self, ego: EgoState) -> float:
        """Where the ego's centre is along the line."""
        return float(shapely.line_locate_point(self.line, shapely.Point(ego.vehicle.centres_m(ego.pose))))


def road_ahead(situation: Situation, *, farthest_m: float) -> Road:
    """The route's lanes from the one that the ego is on, as one path."""
    roads, ego = roads_of(situation.lane_map), situation.ego
    route = check_route(roads, situation.route)
    start = lane_held_or_nearest(roads, lanes_of(roads, route[:2]), ego=ego, farthest_m=farthest_m)
    lanes = breadth_first_lanes(roads, route, start)
    pose = np.concatenate([roads.pose[lane] for lane in lanes])
    # As published: a vertex stays if the next one is elsewhere, so that the very last one goes; but the ego is
    # projected on the line through all of them.
    kept = np.append(np.hypot(*np.diff(pose[:, :2], axis=0).T) > SAME_M, False)
    if kept.sum() < 2:
        kept[-1] = True
    whole = shapely.LineString(pose[:, :2])
    limit_mps = roads.lanes[lanes[0]].speed_limit_mps
    return Road(roads, LanePath.through(pose[kept]), whole, limit_mps, tuple(lanes_of(roads, route)))


@dataclass(frozen=True, eq=False)
class Obstacles:
    """What may come into the corridor: polygons that do not move, with the speed and heading that they were seen at."""

    id: tuple[str, ...]
    polygon: np.ndarray
    speed_mps: Float[np.ndarray, "obstacle"]
    heading_rad: Float[np.ndarray, "obstacle"]
    path: LanePath
    vehicle: Vehicle

    def lead(self, pose: Float[np.ndarray, "3"], start_m: float, end_m: float) -> Lead | None:
        """The obstacle that meets footprint or corridor and is nearest to the footprint, of several the first."""
        if not self.id:
            return None
        distance_m = shapely.distance(self.polygon, shapely.polygons(self.vehicle.corners_m(pose)))
        line = None
        for nearest in np.argsort(distance_m, kind="stable").tolist():
            if distance_m[nearest] > 0 and line is None:
                line = self.path.part(start_m, end_m)
            if line is None or self._meets(nearest, line):
                along = np.cos(self.heading_rad[nearest] - pose[2])
                return Lead(self.id[nearest], float(distance_m[nearest]), float(self.speed_mps[nearest] * along), 0.0)
        return None

    def _meets(self, index: int, line: LineString) -> bool:
        """Whether an obstacle meets the corridor; its outline is only drawn where the distance leaves a doubt."""
        away_m, half_m = shapely.distance(self.polygon[index], line), self.vehicle.width_m / 2
        if away_m < half_m * ROUND or away_m > half_m * np.sqrt(2):
            return bool(away_m < half_m)
        corridor = shapely.buffer(line, half_m, quad_segs=QUARTER, cap_style="square")
        return bool(shapely.intersects(self.polygon[index], corridor))


def obstacles(situation: Situation, agents: Agents, *, road: Road, radius_m: float) -> Obstacles:
    """Agents within the radius and lanes of the route shut by red lights, of those near the path."""
    ego = situation.ego
    centre_m = ego.vehicle.centres_m(ego.pose)
    seen = agents.where(np.hypot(*(agents.pose[:, :2] - centre_m).T) < radius_m)
    shut = [lane for lane in road.lanes if road.roads.ids[lane] in situation.red_lights]
    boxes = shapely.polygons(ground_corners_m(seen.pose[:, :2], seen.size_m, yaw_rad=seen.pose[:, 2]))
    polygon = np.concatenate([boxes, road.roads.polygon[shut]])
    speed_mps = np.where(seen.kind == STATIC, 0.0, np.hypot(*seen.velocity_mps.T))
    still = np.zeros(len(shut))
    ids = (*seen.id.astype(str).tolist(), *(f"red_light_{road.roads.ids[lane]}" for lane in shut))
    # No footprint on the path reaches farther from it than half its diagonal, and no corridor does.
    ahead = road.path.part(road.start_m(ego), road.path.length_m)
    reach_m = np.hypot(ego.vehicle.length_m, ego.vehicle.width_m) / 2 + 0.01
    near = np.flatnonzero(
        (shapely.distance(polygon, ahead) <= reach_m)
        | (shapely.distance(polygon, shapely.Polygon(ego.vehicle.corners_m(ego.pose))) == 0)
    )
    return Obstacles(
        id=tuple(ids[index] for index in near),
        polygon=polygon[near],
        speed_mps=np.concatenate([speed_mps, still])[near],
        heading_rad=np.concatenate([seen.pose[:, 2], still])[near],
        path=road.path,
        vehicle=ego.vehicle,
    )
