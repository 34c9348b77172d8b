"""IDM: the intelligent driver model along the route's lanes, nuPlan's `IDMPlanner` at its released configuration.

Others stand where they are seen while the plan is made; the ego's centre runs along the path. See
docs/definitions.md, IDM.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.planners.planner import Planner, Trajectory
from deepval.planners.situation import Agents, EgoState, Situation

if TYPE_CHECKING:
    from deepval.planners.idm_road import Road


@dataclass(frozen=True, eq=False)
class IdmTrajectory(Trajectory):
    """A plan of IDM with what it followed at each step.

    Attributes:
        progress_m: Progress of the centre on the path, before each step and at the end.
        lead_id: What was followed; "" where the road was free, and its end counts.
        lead_m: Distance to it.
        lead_mps: Its speed along the path.
    """

    progress_m: Float[np.ndarray, "step"]
    lead_id: tuple[str, ...]
    lead_m: Float[np.ndarray, "decision"]
    lead_mps: Float[np.ndarray, "decision"]


class Lead(NamedTuple):
    """What is ahead: id, distance, speed along the path, and how much of the distance is the ego's own length."""

    id: str
    distance_m: float
    speed_mps: float
    rear_m: float


@dataclass(frozen=True)
class Idm(Planner):
    """The planner at its released parameters; `fallback_mps` is the target where the map has no speed limit."""

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
        return self.followed(*self.laid(situation), situation, agents)

    def session(self) -> Planner:
        """Its first plan lays the path and sets the target speed for all."""
        from deepval.planners.idm_session import IdmSession

        return IdmSession(self)

    def laid(self, situation: Situation) -> "tuple[Road, float]":
        """The path from where the ego is now, and the speed that it is to have on it."""
        # shapely is loaded by who plans, not by who lists planners.
        from deepval.planners import idm_road

        road = idm_road.road_ahead(situation, farthest_m=self.radius_m)
        limit_mps = self.fallback_mps if road.speed_limit_mps is None else road.speed_limit_mps
        return road, max(limit_mps, situation.ego.speed_mps)

    def followed(self, road: "Road", target_mps: float, situation: Situation, agents: Agents) -> IdmTrajectory:
        """Forward Euler along the path; positions advance with the old speed, speeds do not go below 0."""
        from deepval.planners import idm_road

        ego = situation.ego
        obstacles = idm_road.obstacles(situation, agents, road=road, radius_m=self.radius_m)
        progress_m, speed_mps = np.zeros(self.steps + 1), np.zeros(self.steps + 1)
        progress_m[0], speed_mps[0] = road.start_m(ego), ego.speed_mps
        leads = []
        for step in range(self.steps):
            at_m, now_mps = float(progress_m[step]), float(speed_mps[step])
            # As published: the first footprint is the true one, off the path; later ones are centred on the path.
            pose = ego.pose if step == 0 else centred(road.path.at(progress_m[step : step + 1])[0], ego)
            reach_m = at_m + target_mps * self.steps * self.step_s
            lead = obstacles.lead(pose, at_m, reach_m) or Lead(
                "", road.path.length_m - at_m, 0.0, ego.vehicle.length_m / 2
            )
            leads.append(lead)
            progress_m[step + 1] = at_m + self.step_s * now_mps
            change = self.acceleration(now_mps, lead, target_mps=target_mps)
            speed_mps[step + 1] = max(0.0, now_mps + self.step_s * change)
        return IdmTrajectory(
            times_s=self.step_s * np.arange(self.steps + 1),
            pose=centred(road.path.at(progress_m), ego),
            speed_mps=speed_mps,
            progress_m=progress_m,
            lead_id=tuple(lead.id for lead in leads),
            lead_m=np.array([lead.distance_m for lead in leads]),
            lead_mps=np.array([lead.speed_mps for lead in leads]),
        )

    def acceleration(self, speed_mps: float, lead: Lead, *, target_mps: float) -> float:
        """The model's acceleration behind a lead, m/s²: a (1 - (v / v0)^4 - (s* / s)²), within its bounds."""
        softness = 2 * np.sqrt(self.acceleration_mps2 * self.deceleration_mps2)
        wanted_m = self.min_gap_m + speed_mps * self.headway_s + speed_mps * (speed_mps - lead.speed_mps) / softness
        gap_m = max(lead.distance_m - lead.rear_m, self.min_gap_m)
        free = 1 - (speed_mps / target_mps) ** self.exponent
        change = self.acceleration_mps2 * (free - (wanted_m / gap_m) ** 2)
        return float(min(max(change, -self.deceleration_mps2), self.acceleration_mps2))


def centred(pose: Float[np.ndarray, "*batch 3"], ego: EgoState) -> Float[np.ndarray, "*batch 3"]:
    """Poses of the rear axle where the vehicle's centre has the given ones."""
    heading = pose[..., 2]
    back = ego.vehicle.centre_m * np.stack([np.cos(heading), np.sin(heading), np.zeros_like(heading)], axis=-1)
    return pose - back
