"""Situation and agents -> a plan by IDM, the intelligent driver model, along the
route's lanes.

nuPlan's `IDMPlanner` at its released configuration. The plan assumes that the other
agents stand still; the ego's centre moves along the path. See docs/definitions.md, IDM.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float
from deepval.driving.geometry.vehicle import Vehicle, ground_corners_m
from deepval.driving.planners.observation import (
    STATIC,
    Agents,
    EgoState,
    Planner,
    Situation,
    Trajectory,
)
from deepval.driving.planners.roads import (
    QUARTER,
    LanePath,
    LineString,
    Roads,
    roads_of,
    shapely,
)
from deepval.driving.planners.routes import (
    breadth_first_lanes,
    check_route,
    lane_held_or_nearest,
    lanes_of,
)


@dataclass(frozen=True, eq=False)
class IdmTrajectory(Trajectory):
    """A plan of IDM with its lead at every step.

    Attributes:
        progress_m: Progress of the centre on the path, before each step and at the end.
        lead_id: The lead; "" on a free road, where the end of the path is the lead.
        lead_m: Distance to the lead.
        lead_mps: Speed of the lead along the path.
    """

    progress_m: Float[np.ndarray, "step"]
    lead_id: tuple[str, ...]
    lead_m: Float[np.ndarray, "decision"]
    lead_mps: Float[np.ndarray, "decision"]


class Leader(NamedTuple):
    """The lead ahead: id, distance, speed along the path, and the part of the distance
    that is the ego's own length.
    """

    id: str
    distance_m: float
    speed_mps: float
    rear_m: float


@dataclass(frozen=True)
class Idm(Planner):
    """The planner at its released parameters; `fallback_mps` is the target where the
    map has no speed limit.
    """

    fallback_mps: float = 10.0
    min_gap_m: float = 1.0
    headway_s: float = 1.5
    acceleration_mps2: float = 1.0
    deceleration_mps2: float = 3.0
    exponent: float = 4.0
    steps: int = 16
    step_s: float = 0.5
    radius_m: float = 40.0

    def plan(self, situation: Situation, agents: Agents) -> IdmTrajectory:
        """The plan along the path from here."""
        return self.follow(*self.lay_road(situation), situation, agents)

    def session(self) -> Planner:
        """A session whose first plan fixes the path and the target speed for all its
        plans.
        """
        return IdmSession(self)

    def lay_road(self, situation: Situation) -> "tuple[Road, float]":
        """The path from the ego's present position, and the target speed."""
        road = road_ahead(situation, farthest_m=self.radius_m)
        limit_mps = (
            self.fallback_mps if road.speed_limit_mps is None else road.speed_limit_mps
        )
        # As published: the target is never below the present speed, so a fast ego keeps
        # its speed on a free road.
        return road, max(limit_mps, situation.ego.speed_mps)

    def follow(
        self, road: "Road", target_mps: float, situation: Situation, agents: Agents
    ) -> IdmTrajectory:
        """Forward Euler along the path; positions advance with the old speed, speeds do
        not go below 0.
        """
        ego = situation.ego
        obstacles = obstacles_of(situation, agents, road=road, radius_m=self.radius_m)
        progress_m, speed_mps = np.zeros(self.steps + 1), np.zeros(self.steps + 1)
        progress_m[0], speed_mps[0] = road.start_m(ego), ego.speed_mps
        leads = []
        for step in range(self.steps):
            at_m, now_mps = float(progress_m[step]), float(speed_mps[step])
            # As published: the first footprint is the true one, off the path; later
            # ones are centred on the path.
            pose = (
                ego.pose
                if step == 0
                else rear_axle_poses(road.path.at(progress_m[step : step + 1])[0], ego)
            )
            # The corridor ends where the target speed would take the ego in one
            # horizon.
            reach_m = at_m + target_mps * self.steps * self.step_s
            lead = obstacles.lead(pose, at_m, reach_m) or Leader(
                "", road.path.length_m - at_m, 0.0, ego.vehicle.length_m / 2
            )
            leads.append(lead)
            progress_m[step + 1] = at_m + self.step_s * now_mps
            change = self.acceleration(now_mps, lead, target_mps=target_mps)
            speed_mps[step + 1] = max(0.0, now_mps + self.step_s * change)
        return IdmTrajectory(
            times_s=self.step_s * np.arange(self.steps + 1),
            pose=rear_axle_poses(road.path.at(progress_m), ego),
            speed_mps=speed_mps,
            progress_m=progress_m,
            lead_id=tuple(lead.id for lead in leads),
            lead_m=np.array([lead.distance_m for lead in leads]),
            lead_mps=np.array([lead.speed_mps for lead in leads]),
        )

    def acceleration(
        self, speed_mps: float, lead: Leader, *, target_mps: float
    ) -> float:
        """The model's acceleration behind a lead, m/s²: a (1 - (v / v0)^4 - (s* / s)²),
        within its bounds.
        """
        softness = 2 * np.sqrt(self.acceleration_mps2 * self.deceleration_mps2)
        desired_gap_m = (
            self.min_gap_m
            + speed_mps * self.headway_s
            + speed_mps * (speed_mps - lead.speed_mps) / softness
        )
        # A gap below the minimum counts as the minimum: the braking term stays finite.
        gap_m = max(lead.distance_m - lead.rear_m, self.min_gap_m)
        free_road = 1 - (speed_mps / target_mps) ** self.exponent
        change = self.acceleration_mps2 * (free_road - (desired_gap_m / gap_m) ** 2)
        return float(min(max(change, -self.deceleration_mps2), self.acceleration_mps2))


def rear_axle_poses(
    pose: Float[np.ndarray, "*batch 3"], ego: EgoState
) -> Float[np.ndarray, "*batch 3"]:
    """Poses of the rear axle from poses of the vehicle's centre."""
    heading = pose[..., 2]
    back = ego.vehicle.centre_m * np.stack(
        [np.cos(heading), np.sin(heading), np.zeros_like(heading)], axis=-1
    )
    return pose - back


ROUND = np.cos(np.pi / (4 * QUARTER))
"""A corridor's bends are polygons: their segments come as near to the path as this
share of its half width.
"""

SAME_M = 1e-6
"""Vertices nearer than this coincide: lanes meet up to rounding."""


@dataclass(frozen=True, eq=False)
class Road:
    """The path of the centre, the line for its projection, the first lane's speed
    limit, the lanes of the route.
    """

    roads: Roads
    path: LanePath
    line: LineString
    speed_limit_mps: float | None
    lanes: tuple[int, ...]

    def start_m(self, ego: EgoState) -> float:
        """Progress of the ego's centre along the line."""
        return float(
            shapely.line_locate_point(
                self.line, shapely.Point(ego.vehicle.centres_m(ego.pose))
            )
        )


def road_ahead(situation: Situation, *, farthest_m: float) -> Road:
    """The route's lanes from the ego's lane on, as one path."""
    roads, ego = roads_of(situation.lane_map), situation.ego
    route = check_route(roads, situation.route)
    start = lane_held_or_nearest(
        roads, lanes_of(roads, route[:2]), ego=ego, farthest_m=farthest_m
    )
    lanes = breadth_first_lanes(roads, route, start)
    pose = np.concatenate([roads.pose[lane] for lane in lanes])
    # As published: a vertex stays if the next one is elsewhere, so that the very last
    # vertex is dropped; but the ego is projected on the line through all vertices.
    distinct = np.append(np.hypot(*np.diff(pose[:, :2], axis=0).T) > SAME_M, False)
    if distinct.sum() < 2:
        distinct[-1] = True
    whole = shapely.LineString(pose[:, :2])
    limit_mps = roads.lanes[lanes[0]].speed_limit_mps
    return Road(
        roads,
        LanePath.through(pose[distinct]),
        whole,
        limit_mps,
        tuple(lanes_of(roads, route)),
    )


@dataclass(frozen=True, eq=False)
class Obstacles:
    """Objects that may block the corridor: polygons that do not move, with their
    observed speed and heading.
    """

    id: tuple[str, ...]
    polygon: np.ndarray
    speed_mps: Float[np.ndarray, "obstacle"]
    heading_rad: Float[np.ndarray, "obstacle"]
    path: LanePath
    vehicle: Vehicle

    def lead(
        self, pose: Float[np.ndarray, "3"], start_m: float, end_m: float
    ) -> Leader | None:
        """The obstacle on footprint or corridor that is nearest to the footprint; the
        first of equally near ones.
        """
        if not self.id:
            return None
        distance_m = shapely.distance(
            self.polygon, shapely.polygons(self.vehicle.corners_m(pose))
        )
        line = None
        # By rising distance, so that the first obstacle that meets the corridor is the
        # lead; most steps test one.
        for nearest in np.argsort(distance_m, kind="stable").tolist():
            # At distance 0 an obstacle overlaps the footprint and leads without a test
            # of the corridor.
            if distance_m[nearest] > 0 and line is None:
                line = self.path.part(start_m, end_m)
            if line is None or self._meets(nearest, line):
                along = np.cos(self.heading_rad[nearest] - pose[2])
                return Leader(
                    self.id[nearest],
                    float(distance_m[nearest]),
                    float(self.speed_mps[nearest] * along),
                    0.0,
                )
        return None

    def _meets(self, index: int, line: LineString) -> bool:
        """Whether an obstacle meets the corridor; its outline is built only where the
        distance does not decide.
        """
        away_m, half_m = (
            shapely.distance(self.polygon[index], line),
            self.vehicle.width_m / 2,
        )
        # The distance decides if it is nearer than the polygons of the bends or beyond
        # the corners of the square ends.
        if away_m < half_m * ROUND or away_m > half_m * np.sqrt(2):
            return bool(away_m < half_m)
        corridor = shapely.buffer(line, half_m, quad_segs=QUARTER, cap_style="square")
        return bool(shapely.intersects(self.polygon[index], corridor))


def obstacles_of(
    situation: Situation, agents: Agents, *, road: Road, radius_m: float
) -> Obstacles:
    """Agents within the radius and lanes of the route with a red light, if near the
    path.
    """
    ego = situation.ego
    centre_m = ego.vehicle.centres_m(ego.pose)
    seen = agents.where(np.hypot(*(agents.pose[:, :2] - centre_m).T) < radius_m)
    shut = [lane for lane in road.lanes if road.roads.ids[lane] in situation.red_lights]
    boxes = shapely.polygons(
        ground_corners_m(seen.pose[:, :2], seen.size_m, yaw_rad=seen.pose[:, 2])
    )
    polygon = np.concatenate([boxes, road.roads.polygon[shut]])
    speed_mps = np.where(seen.kind == STATIC, 0.0, np.hypot(*seen.velocity_mps.T))
    still = np.zeros(len(shut))
    ids = (
        *seen.id.astype(str).tolist(),
        *(f"red_light_{road.roads.ids[lane]}" for lane in shut),
    )
    # No footprint on the path reaches farther from it than half its diagonal, and no
    # corridor does.
    ahead = road.path.part(road.start_m(ego), road.path.length_m)
    reach_m = np.hypot(ego.vehicle.length_m, ego.vehicle.width_m) / 2 + 0.01
    near = np.flatnonzero(
        (shapely.distance(polygon, ahead) <= reach_m)
        | (
            shapely.distance(polygon, shapely.Polygon(ego.vehicle.corners_m(ego.pose)))
            == 0
        )
    )
    return Obstacles(
        id=tuple(ids[index] for index in near),
        polygon=polygon[near],
        speed_mps=np.concatenate([speed_mps, still])[near],
        heading_rad=np.concatenate([seen.pose[:, 2], still])[near],
        path=road.path,
        vehicle=ego.vehicle,
    )


@dataclass(eq=False)
class IdmSession(Planner):
    """The planner over a whole drive; as published, all plans follow the route of the
    first plan.

    Attributes:
        planner: Its constants.
        course: Path and target speed of the first plan.
    """

    planner: Idm
    course: tuple[Road, float] | None = None

    def plan(self, situation: Situation, agents: Agents) -> IdmTrajectory:
        """The plan from the present state, along the path of the first plan."""
        self.course = self.course or self.planner.lay_road(situation)
        return self.planner.follow(*self.course, situation, agents)
