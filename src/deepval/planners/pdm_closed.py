"""Situation and agents -> a plan by PDM-Closed: the best of 15 simulated and scored IDM proposals (Dauner 2023).

The proposals are three paths at five speeds. tuplan_garage's `PDMClosedPlanner` at its released configuration, in our
own code. See docs/definitions.md, PDM-Closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.arrays import Float, Int
from deepval.planners import routes
from deepval.planners.observation import Agents, EgoState, Planner, Situation, Trajectory, observe
from deepval.planners.proposals import Course, Driver, DriverModel, ProposalMotion, guide
from deepval.planners.roads import LanePath, ground_around, roads_of
from deepval.planners.scoring import ProposalScores, rides, score_proposals
from deepval.planners.tracking import AX, STEER, VX, YAW_RATE, simulate

STEP_S = 0.1
STEPS, PROPOSAL_STEPS = 80, 40
BRAKE_MPS2 = (-4.05, 2.40)


@dataclass(frozen=True, eq=False)
class PdmTrajectory(Trajectory):
    """A plan of PDM-Closed with the scores of its proposals, the chosen one, and whether the brake replaced it."""

    score: Float[np.ndarray, "prop"]
    chosen: int
    emergency_brake: bool


@dataclass(frozen=True)
class PdmClosed(Planner):
    """The planner at its released parameters; a proposal's number is path x speeds + speed.

    Attributes:
        speed_shares: Target speeds as shares of the speed limit.
        left_m: Offsets of the paths to the left of the centreline.
        fallback_mps: Speed limit where the map has none.
        brake_within_s: The emergency brake acts if the best proposal is at fault in a collision within this time and
            the ego is not faster than `brake_up_to_mps`.
        brake_up_to_mps: Highest speed at which the emergency brake acts.
    """

    speed_shares: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    left_m: tuple[float, ...] = (0.0, -1.0, 1.0)
    fallback_mps: float = 15.0
    min_gap_m: float = 1.0
    headway_s: float = 1.5
    acceleration_mps2: float = 1.5
    deceleration_mps2: float = 3.0
    exponent: float = 10.0
    radius_m: float = 50.0
    brake_within_s: float = 2.0
    brake_up_to_mps: float = 5.0

    has_proposals: ClassVar[bool] = True

    def plan(self, situation: Situation, agents: Agents) -> PdmTrajectory:
        """The best proposal's own path for 8 s, not its simulated states; or the brake."""
        return self.choose(situation.ego, proposals_of(self, situation, [agents])[0])

    def plans(self, situation: Situation, branches: Sequence[Agents]) -> list[Trajectory]:
        """The plans of several observations, which share map, paths and the simulation of equal proposals."""
        return [self.choose(situation.ego, proposals) for proposals in proposals_of(self, situation, branches)]

    def proposal_scores(self, situation: Situation, branches: Sequence[Agents]) -> list[Float[np.ndarray, "prop"]]:
        """The scores of the 15 proposals, observation by observation."""
        return [proposals.scores.score for proposals in proposals_of(self, situation, branches)]

    def session(self) -> Planner:
        """A session whose first plan fixes the paths; it ignores an agent from the first overlap on."""
        return PdmSession(self)

    def choose(self, ego: EgoState, proposals: "Proposals") -> PdmTrajectory:
        """The plan: the first proposal of the highest score, or the brake."""
        best = int(np.argmax(proposals.scores.score))
        times_s = STEP_S * np.arange(STEPS + 1)
        # As published: above the speed limit of the brake the best proposal is driven even into a collision.
        soon = proposals.scores.collision_s[best] <= self.brake_within_s
        if brake := bool(soon and ego.speed_mps <= self.brake_up_to_mps):
            signed_mps = braking_mps(ego)
            ahead = np.array([np.cos(ego.pose[2]), np.sin(ego.pose[2]), 0.0])
            pose, speed_mps = ego.pose + signed_mps * times_s[:, None] * ahead, np.full(STEPS + 1, signed_mps)
        else:
            pose, speed_mps = proposals.unroll(best)
        return PdmTrajectory(times_s, pose, speed_mps, proposals.scores.score, best, brake)


def braking_mps(ego: EgoState) -> float:
    """Signed speed of the published emergency brake: a straight line at constant speed, backwards if it is negative."""
    speed = ego.speed_mps
    if speed > 0.2:
        return float(1.1 * (speed + np.clip(-10 * speed, *BRAKE_MPS2)))
    return float(np.clip(-4 * speed - ego.acceleration_mps2, *BRAKE_MPS2))


@dataclass(frozen=True, eq=False)
class PdmPaths:
    """The paths that the published planner fixes at its first plan: corrected route, centreline, paths beside it."""

    route: tuple[str, ...]
    middle: LanePath
    paths: tuple[LanePath, ...]


@dataclass(frozen=True, eq=False)
class Proposals:
    """All proposals of one observation: the driver model's motion on the paths, the simulated states, the scores."""

    driver: Driver
    motion: ProposalMotion
    path_states: Float[np.ndarray, "prop 41 3"]
    simulated: Float[np.ndarray, "prop 41 11"]
    scores: ProposalScores

    def unroll(self, best: int) -> tuple[Float[np.ndarray, "step 3"], Float[np.ndarray, "step"]]:
        """Poses and speeds of a proposal over 8 s: after 4 s the driver model of this proposal alone continues."""
        path, speed = divmod(best, self.driver.targets_mps.shape[1])
        one = (slice(path, path + 1), slice(speed, speed + 1))
        alone = Driver(
            self.driver.policy,
            [self.driver.guides[path]],
            self.driver.targets_mps[one],
            self.driver.observation,
            self.driver.vehicle,
        )
        start = Course(*(part[one][:, :, -1] for part in self.motion))
        rest = alone.drive(start, range(PROPOSAL_STEPS + 1, STEPS + 1))
        progress_m = np.concatenate([self.motion.progress_m[path, speed], rest.progress_m[0, 0, 1:]])
        speed_mps = np.concatenate([self.motion.speed_mps[path, speed], rest.speed_mps[0, 0, 1:]])
        return self.driver.guides[path].poses(progress_m), speed_mps


def lay_paths(planner: PdmClosed, situation: Situation) -> PdmPaths:
    """The paths from the ego's present position."""
    roads = roads_of(situation.lane_map)
    route = routes.corrected_route(roads, routes.check_route(roads, situation.route), situation.ego)
    start = routes.starting_lane(roads, route, ego=situation.ego, farthest_m=planner.radius_m)
    middle = routes.centreline(roads, routes.shortest_lanes(roads, route, start))
    return PdmPaths(route, middle, tuple(middle.beside(left_m) if left_m else middle for left_m in planner.left_m))


def proposals_of(
    planner: PdmClosed,
    situation: Situation,
    branches: Sequence[Agents],
    *,
    on: PdmPaths | None = None,
    collided: frozenset[str] = frozenset(),
) -> list[Proposals]:
    """The proposals of every branch with their simulation and scores.

    Args:
        planner: Its constants.
        situation: State and task of the ego.
        branches: Observed agents, branch by branch.
        on: Paths of the first plan of a drive; None computes them now.
        collided: Agents and red lights that were overlapped at an earlier plan.
    """
    roads, ego = roads_of(situation.lane_map), situation.ego
    on = on or lay_paths(planner, situation)
    start = routes.starting_lane(roads, on.route, ego=ego, farthest_m=planner.radius_m)
    limit_mps = roads.lanes[start].speed_limit_mps
    speeds_mps = np.array(planner.speed_shares) * (planner.fallback_mps if limit_mps is None else limit_mps)
    guides = [
        guide(
            path,
            ego.pose[:2],
            ahead_m=float(speeds_mps.max()) * STEPS * STEP_S,
            half_width_m=ego.vehicle.width_m / 2,
        )
        for path in on.paths
    ]
    lanes = routes.lanes_of(roads, on.route)
    shut = [lane for lane in lanes if roads.ids[lane] in situation.red_lights]
    drivers = [
        Driver(
            DriverModel.of(planner),
            guides,
            np.tile(speeds_mps, (len(guides), 1)),
            observe(agents, ego, roads=roads, shut=shut, radius_m=planner.radius_m, collided=collided),
            ego.vehicle,
        )
        for agents in branches
    ]
    # All branches start alike: at the rear axle on each path, at the ego's speed, behind no leader.
    start_m = np.tile(np.array([[followed.start_m] for followed in guides]), len(speeds_mps))
    course = Course(start_m, np.full(start_m.shape, float(ego.speed_mps)), np.zeros((*start_m.shape, 3)))
    motions = [driver.drive(course, range(1, PROPOSAL_STEPS + 1)) for driver in drivers]
    path_states = [poses(driver, motion) for driver, motion in zip(drivers, motions, strict=True)]
    # Branches often differ in few proposals: each distinct one is simulated once.
    distinct, number = _distinct(path_states)
    states = simulate(distinct, state_of(ego), wheel_base_m=ego.vehicle.wheel_base_m)
    ground = ground_around(roads, ego.vehicle.centres_m(ego.pose), radius_m=planner.radius_m, route=set(lanes))
    ridden = rides(states, ego.vehicle, ground=ground, centreline=on.middle)
    return [
        Proposals(driver, motion, planned, states[chosen], score_proposals(ridden[chosen], driver.observation))
        for driver, motion, planned, chosen in zip(drivers, motions, path_states, number, strict=True)
    ]


def state_of(ego: EgoState) -> Float[np.ndarray, "11"]:
    """The first state of the simulation: the ego without lateral motion."""
    state = np.zeros(11)
    state[:3] = ego.pose
    state[VX], state[AX], state[STEER] = ego.speed_mps, ego.acceleration_mps2, ego.steering_rad
    state[YAW_RATE] = ego.speed_mps * np.tan(ego.steering_rad) / ego.vehicle.wheel_base_m
    return state


def poses(driver: Driver, motion: ProposalMotion) -> Float[np.ndarray, "prop 41 3"]:
    """Poses of all proposals, path by path."""
    return np.concatenate(
        [followed.poses(progress_m) for followed, progress_m in zip(driver.guides, motion.progress_m, strict=True)]
    )


def _distinct(
    branches: Sequence[Float[np.ndarray, "prop 41 3"]],
) -> tuple[Float[np.ndarray, "some 41 3"], list[Int[np.ndarray, "prop"]]]:
    """The distinct proposals, and the index among them of every proposal, branch by branch."""
    numbers: dict[bytes, int] = {}
    distinct = []
    indices = []
    for branch in branches:
        rows = []
        for proposal in branch:
            key = proposal.tobytes()
            if key not in numbers:
                numbers[key] = len(distinct)
                distinct.append(proposal)
            rows.append(numbers[key])
        indices.append(np.array(rows))
    return np.stack(distinct), indices


@dataclass(eq=False)
class PdmSession(Planner):
    """The planner over a whole drive; as published, all plans follow the route of the first plan.

    Attributes:
        planner: Its constants.
        on: Paths of the first plan.
        collided: Agents and red lights that the ego has overlapped at a plan.
    """

    planner: PdmClosed
    on: PdmPaths | None = None
    collided: frozenset[str] = frozenset()

    def plan(self, situation: Situation, agents: Agents) -> PdmTrajectory:
        """The plan from the present state, along the paths of the first plan."""
        self.on = self.on or lay_paths(self.planner, situation)
        (proposals,) = proposals_of(self.planner, situation, [agents], on=self.on, collided=self.collided)
        seen = proposals.driver.observation
        self.collided |= set(np.asarray(seen.id)[seen.collided].tolist())
        return self.planner.choose(situation.ego, proposals)
