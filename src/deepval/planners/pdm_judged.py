"""Situation and several observations of it -> PDM-Closed's proposals for each, simulated and scored.

Branches share route, paths, ground and ego; a proposal that two branches have alike is simulated and laid on the road
once, and all that differ are simulated together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Int
from deepval.planners.comfort import comfortable
from deepval.planners.ground import ground_around
from deepval.planners.observation import observed
from deepval.planners.paths import LanePath
from deepval.planners.pdm_closed import PROPOSAL_STEPS, STEP_S, STEPS, PdmClosed
from deepval.planners.proposals import Course, Driver, DriverModel, ProposalMotion, guide
from deepval.planners.roads import roads_of
from deepval.planners.routes import (
    centreline,
    check_route,
    corrected_route,
    lanes_of,
    shortest_lanes,
    starting_lane,
)
from deepval.planners.scoring import ProposalScores, rides, scored
from deepval.planners.situation import Agents, EgoState, Situation
from deepval.planners.tracking import AX, STEER, VX, YAW_RATE, simulated


@dataclass(frozen=True, eq=False)
class Laid:
    """What the published planner lays at its first plan: the corrected route, the centreline, the paths beside it."""

    route: tuple[str, ...]
    middle: LanePath
    paths: tuple[LanePath, ...]


@dataclass(frozen=True, eq=False)
class JudgedProposals:
    """All proposals of one observation: how the driver model moves on the paths, the simulated states, the scores."""

    driver: Driver
    motion: ProposalMotion
    path_states: Float[np.ndarray, "prop 41 3"]
    simulated: Float[np.ndarray, "prop 41 11"]
    scores: ProposalScores

    def unrolled(self, best: int) -> tuple[Float[np.ndarray, "step 3"], Float[np.ndarray, "step"]]:
        """Poses and speeds of a proposal over 8 s: from 4 s on the driver model goes on alone."""
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
        rest = alone.driven(start, range(PROPOSAL_STEPS + 1, STEPS + 1))
        progress_m = np.concatenate([self.motion.progress_m[path, speed], rest.progress_m[0, 0, 1:]])
        speed_mps = np.concatenate([self.motion.speed_mps[path, speed], rest.speed_mps[0, 0, 1:]])
        return self.driver.guides[path].poses(progress_m), speed_mps


def laid(planner: PdmClosed, situation: Situation) -> Laid:
    """The paths from where the ego is now."""
    roads = roads_of(situation.lane_map)
    route = corrected_route(roads, check_route(roads, situation.route), situation.ego)
    start = starting_lane(roads, route, ego=situation.ego, farthest_m=planner.radius_m)
    middle = centreline(roads, shortest_lanes(roads, route, start))
    return Laid(route, middle, tuple(middle.beside(left_m) if left_m else middle for left_m in planner.left_m))


def judged_branches(
    planner: PdmClosed,
    situation: Situation,
    branches: Sequence[Agents],
    *,
    on: Laid | None = None,
    collided: frozenset[str] = frozenset(),
) -> list[JudgedProposals]:
    """Every branch's proposals, judged.

    Args:
        planner: Its constants.
        situation: Where the ego is.
        branches: What is observed.
        on: What was laid at the first plan of a drive; laid now where None.
        collided: Others and red lights that were overlapped at an earlier plan.
    """
    roads, ego = roads_of(situation.lane_map), situation.ego
    on = on or laid(planner, situation)
    start = starting_lane(roads, on.route, ego=ego, farthest_m=planner.radius_m)
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
    lanes = lanes_of(roads, on.route)
    shut = [lane for lane in lanes if roads.ids[lane] in situation.red_lights]
    drivers = [
        Driver(
            DriverModel.of(planner),
            guides,
            np.tile(speeds_mps, (len(guides), 1)),
            observed(agents, ego, roads=roads, shut=shut, radius_m=planner.radius_m, collided=collided),
            ego.vehicle,
        )
        for agents in branches
    ]
    motions = [driver.driven(_first_course(driver, ego), range(1, PROPOSAL_STEPS + 1)) for driver in drivers]
    path_states = [poses(driver, motion) for driver, motion in zip(drivers, motions, strict=True)]
    distinct, number = _distinct(path_states)
    states = simulated(distinct, state_of(ego), wheel_base_m=ego.vehicle.wheel_base_m)
    ground = ground_around(roads, ego.vehicle.centres_m(ego.pose), radius_m=planner.radius_m, route=set(lanes))
    ridden = rides(states, ego.vehicle, ground=ground, comfortable=comfortable(states), centreline=on.middle)
    return [
        JudgedProposals(driver, motion, planned, states[chosen], scored(ridden[chosen], driver.observation))
        for driver, motion, planned, chosen in zip(drivers, motions, path_states, number, strict=True)
    ]


def state_of(ego: EgoState) -> Float[np.ndarray, "11"]:
    """The ego as the simulation starts from it: no lateral motion."""
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


def _first_course(driver: Driver, ego: EgoState) -> Course:
    shape = driver.targets_mps.shape
    start_m = np.array([followed.start_m for followed in driver.guides])
    return Course(np.tile(start_m[:, None], shape[1]), np.full(shape, float(ego.speed_mps)), np.zeros((*shape, 3)))


def _distinct(
    branches: Sequence[Float[np.ndarray, "prop 41 3"]],
) -> tuple[Float[np.ndarray, "some 41 3"], list[Int[np.ndarray, "prop"]]]:
    """Proposals that differ, and the number among them of each proposal of each branch."""
    numbers: dict[bytes, int] = {}
    found = []
    chosen = []
    for branch in branches:
        rows = []
        for proposal in branch:
            key = proposal.tobytes()
            if key not in numbers:
                numbers[key] = len(found)
                found.append(proposal)
            rows.append(numbers[key])
        chosen.append(np.array(rows))
    return np.stack(found), chosen
