"""Situation and agents -> a plan by PDM-Closed: the best of 15 simulated and scored IDM
proposals (Dauner 2023).

The proposals are three paths at five speeds. tuplan_garage's `PDMClosedPlanner` at its
released configuration, in our own code; a comment that starts with "Quirk" marks
unexpected behaviour of the published code that is reproduced. See docs/definitions.md,
PDM-Closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.planners import routes
from deepval.driving.planners.observation import (
    Agents,
    EgoState,
    ObservedAgents,
    Planner,
    Situation,
    Trajectory,
    observe,
)
from deepval.driving.planners.roads import (
    Geometry,
    LanePath,
    ground_around,
    roads_of,
    shapely,
)
from deepval.driving.planners.scoring import ProposalScores, rides, score_proposals
from deepval.driving.planners.tracking import AX, STEER, VX, YAW_RATE, simulate

STEP_S = 0.1
STEPS, PROPOSAL_STEPS = 80, 40
BRAKE_MPS2 = (-4.05, 2.40)
MARGIN_M = 1e-3
"""Slack of the first distance test: well above rounding, so that no agent in a corridor
is lost.
"""
LEAST_M = 1e-5
"""Quirk: the path's first pose is never used, only the one this far along it."""


@dataclass(frozen=True, eq=False)
class Guide:
    """A path to follow, the progress of the rear axle on it, and the corridor in which
    agents count as ahead.
    """

    path: LanePath
    start_m: float
    corridor: Geometry

    def poses(
        self, progress_m: Float[np.ndarray, "*batch"]
    ) -> Float[np.ndarray, "*batch 3"]:
        """Poses of the rear axle."""
        return self.path.at(progress_m, least_m=LEAST_M)


def guide(
    path: LanePath,
    rear_axle_m: Float[np.ndarray, "2"],
    *,
    ahead_m: float,
    half_width_m: float,
) -> Guide:
    """The guide of the ego along a path."""
    start_m = float(path.progress_at_m(rear_axle_m))
    # One corridor serves all speeds and times of a path: the ground that the fastest
    # proposal can cover.
    corridor = path.corridor(start_m, start_m + ahead_m, half_width_m=half_width_m)
    # Prepared once, because every agent in every map is tested against it.
    shapely.prepare(corridor)
    return Guide(path, start_m, corridor)


class ProposalMotion(NamedTuple):
    """Progress and speed on a path, and the leader (progress, speed, rear length) of
    the last step.
    """

    progress_m: Float[np.ndarray, "path speed index"]
    speed_mps: Float[np.ndarray, "path speed index"]
    leader: Float[np.ndarray, "path speed index 3"]


class Meetings(NamedTuple):
    """Agents that meet a corridor in one map: index of the guide, of the agent,
    progress of its centroid, polygon.
    """

    guide: list[int]
    who: list[int]
    progress_m: Float[np.ndarray, "met"]
    polygon: np.ndarray


def meetings_on(
    guides: list[Guide], observation: ObservedAgents, maps: range
) -> list[Meetings]:
    """The agents and red lights that meet a guide's corridor, map by map."""
    moves = np.asarray(observation.forecast_mps.any(axis=1))
    ends_m = np.moveaxis(observation.centres_m[[maps.start, maps.stop - 1]], 0, 1)
    # Forecasts are straight, so a segment from the first to the last map covers all
    # maps between: one distance test per agent removes most of them before any polygon
    # is built.
    ways = shapely.points(ends_m[:, 0])
    ways[moves] = shapely.linestrings(ends_m[moves])
    rows = []
    for number, followed in enumerate(guides):
        near = shapely.dwithin(followed.corridor, ways, observation.radius_m + MARGIN_M)
        near &= ~observation.collided[: len(observation)]
        # A standing agent is tested once, not in every map; map -1 below marks a row
        # that belongs to all maps.
        movers, standing = np.flatnonzero(near & moves), np.flatnonzero(near & ~moves)
        j = np.concatenate(
            [np.repeat(maps, len(movers)), np.full(len(standing), maps.start)]
        )
        who = np.concatenate([np.tile(movers, len(maps)), standing])
        polygon = observation.polygons(j, who)
        hit = shapely.intersects(followed.corridor, polygon)
        # As published, agents are ordered along the path by their centroids, not by
        # their nearest points.
        progress_m = followed.path.progress_at_m(
            observation.centres_m[j[hit], who[hit]]
        )
        rows.append(
            (
                np.where(moves[who[hit]], j[hit], -1),
                number,
                who[hit],
                progress_m,
                polygon[hit],
            )
        )
        red = np.flatnonzero(shapely.intersects(followed.corridor, observation.red))
        # A light whose lane already contains the whole ego no longer stops it.
        red = red[~observation.collided[len(observation) + red]]
        middles_m = shapely.get_coordinates(shapely.centroid(observation.red[red]))
        progress_m = followed.path.progress_at_m(middles_m)
        rows.append(
            (
                np.full(len(red), -1),
                number,
                len(observation) + red,
                progress_m,
                observation.red[red],
            )
        )
    in_map = np.concatenate([row[0] for row in rows])
    guide = np.concatenate([np.full(len(row[0]), row[1]) for row in rows])
    who, progress_m, polygon = (
        np.concatenate([row[part] for row in rows]) for part in (2, 3, 4)
    )
    met_maps = []
    for j in maps:
        here = np.flatnonzero((in_map == j) | (in_map == -1))
        met_maps.append(
            Meetings(
                guide[here].tolist(),
                who[here].tolist(),
                progress_m[here],
                polygon[here],
            )
        )
    return met_maps


class Course(NamedTuple):
    """State of IDM on every guide at every target speed, and its leader."""

    progress_m: Float[np.ndarray, "path speed"]
    speed_mps: Float[np.ndarray, "path speed"]
    leader: Float[np.ndarray, "path speed 3"]


@dataclass(frozen=True, eq=False)
class Driver:
    """IDM on several guides at several target speeds among the observed agents."""

    policy: "PdmClosed"
    guides: list[Guide]
    targets_mps: Float[np.ndarray, "path speed"]
    observation: ObservedAgents
    vehicle: Vehicle

    def drive(self, start: Course, indices: range) -> ProposalMotion:
        """Progress, speed and leader at the start and at every index (0.1 s apart)
        after it.
        """
        # Maps are two steps apart: leaders are searched at even indices only, index i
        # in map i / 2.
        first_map, last_map = (indices.start + 1) // 2, (indices.stop - 1) // 2
        met = meetings_on(self.guides, self.observation, range(first_map, last_map + 1))
        policy = self.policy
        softness = 2 * np.sqrt(policy.acceleration_mps2 * policy.deceleration_mps2)
        courses = [start]
        progress_m, speed_mps, leader = start
        for index in indices:
            # Quirk: at odd indices the leaders of the index before stay; at index 1
            # these are the zeros of index 0, a leader at progress 0, so that a moving
            # ego brakes hard for the first 0.1 s.
            if index % 2 == 0:
                leader = self._leaders(
                    progress_m, met[index // 2 - first_map], in_map=index // 2
                )
            # A gap below the minimum counts as the minimum: the braking term stays
            # finite.
            gap_m = np.maximum(
                leader[..., 0] - progress_m - leader[..., 2], policy.min_gap_m
            )
            # s* = s0 + v T + v (v - v_lead) / (2 sqrt(a b)), with v factored out.
            closing = policy.headway_s + (speed_mps - leader[..., 1]) / softness
            desired_gap_m = policy.min_gap_m + speed_mps * closing
            change = policy.acceleration_mps2 * (
                1
                - (speed_mps / self.targets_mps) ** policy.exponent
                - (desired_gap_m / gap_m) ** 2
            )
            # The formula has no lower limit of its own: close behind a leader it would
            # brake without bound.
            change = np.minimum(
                np.maximum(change, -policy.deceleration_mps2), policy.acceleration_mps2
            )
            # Forward Euler: progress advances with the speed before its change.
            # Quirk: speeds may fall below 0; poses do not go back beyond the path's
            # beginning.
            progress_m, speed_mps = (
                progress_m + STEP_S * speed_mps,
                speed_mps + STEP_S * change,
            )
            courses.append(Course(progress_m, speed_mps, leader))
        return ProposalMotion(
            *(np.stack(part, axis=2) for part in zip(*courses, strict=True))
        )

    def _leaders(
        self, progress_m: Float[np.ndarray, "path speed"], met: Meetings, *, in_map: int
    ) -> Float[np.ndarray, "path speed 3"]:
        """The leader of every proposal, from its state one index before and the map of
        the index itself.
        """
        if not met.who:
            return self._free
        pose = np.stack(
            [
                guide.poses(mine_m)
                for guide, mine_m in zip(self.guides, progress_m, strict=True)
            ]
        )
        footprints = shapely.polygons(self.vehicle.corners_m(pose))
        # Row: an agent that meets a corridor. Column: a target speed of that corridor's
        # path.
        away_m = shapely.distance(met.polygon[:, None], footprints[met.guide])
        # Only agents whose centroid is farther along the path can lead.
        away_m = np.where(
            met.progress_m[:, None] > progress_m[met.guide], away_m, np.inf
        )
        nearest = self._nearest(met, away_m, in_map=in_map)
        leader = np.empty((*progress_m.shape, 3))
        for row, guide in enumerate(self.guides):
            # Quirk: one buffer (progress, speed, rear length), zeros at first, goes
            # through the proposals of a path. An object writes progress and speed, a
            # red light only progress, a free road progress and rear length; a value
            # that is not written stays as the previous proposal left it.
            speed_mps = rear_m = 0.0
            for column, (who, distance_m) in enumerate(nearest[row]):
                if who < 0:
                    to_m, rear_m = guide.path.length_m, self.vehicle.length_m / 2
                else:
                    # A distance between footprints: an object needs no rear length.
                    to_m = progress_m[row, column] + distance_m
                    # Only the part of the leader's speed along the ego's heading
                    # counts.
                    if who < len(self.observation):
                        turned_rad = (
                            self.observation.heading_rad[who] - pose[row, column, 2]
                        )
                        speed_mps = self.observation.speed_mps[who] * np.cos(turned_rad)
                leader[row, column] = to_m, speed_mps, rear_m
        return leader

    @cached_property
    def _free(self) -> Float[np.ndarray, "path speed 3"]:
        """The leader on a free road: the end of the path."""
        leader = np.zeros((*self.targets_mps.shape, 3))
        leader[..., 0] = np.array([[guide.path.length_m] for guide in self.guides])
        leader[..., 2] = self.vehicle.length_m / 2
        return leader

    def _nearest(
        self, met: Meetings, away_m: Float[np.ndarray, "met speed"], *, in_map: int
    ) -> list[list[tuple[int, float]]]:
        """The nearest agent of every proposal and its distance; -1 on a free road."""
        nearest = [[(-1, np.inf)] * away_m.shape[1] for _ in self.guides]
        tied = set()
        for row, who, distances_m in zip(
            met.guide, met.who, away_m.tolist(), strict=True
        ):
            for column, distance_m in enumerate(distances_m):
                if distance_m < nearest[row][column][1]:
                    nearest[row][column] = who, distance_m
                # Only an exact tie needs the spatial index, and building one is
                # expensive.
                elif distance_m == nearest[row][column][1] < np.inf:
                    tied.add(row)
        for row in tied:
            # Quirk: among several agents that are equally near (overlapping
            # footprints), the published spatial index decides.
            tree_order = self.observation.tree_order(
                in_map, self.guides[row].corridor
            ).tolist()
            mine = {
                who: away_m[index]
                for index, who in enumerate(met.who)
                if met.guide[index] == row
            }
            for column in range(away_m.shape[1]):
                # `min` returns the first of equals, so the order of the index decides.
                first = min(
                    (who for who in tree_order if who in mine),
                    key=lambda who: mine[who][column],
                )
                if mine[first][column] < np.inf:
                    nearest[row][column] = first, float(mine[first][column])
        return nearest


@dataclass(frozen=True, eq=False)
class PdmTrajectory(Trajectory):
    """A plan of PDM-Closed with the scores of its proposals, the chosen one, and
    whether the brake replaced it.
    """

    score: Float[np.ndarray, "prop"]
    chosen: int
    emergency_brake: bool


@dataclass(frozen=True)
class PdmClosed(Planner):
    """The planner at its released parameters; a proposal's number is path x speeds +
    speed.

    Attributes:
        speed_shares: Target speeds as shares of the speed limit.
        left_m: Offsets of the paths to the left of the centreline.
        fallback_mps: Speed limit where the map has none.
        brake_within_s: The emergency brake acts if the best proposal is at fault in a
            collision within this time and the ego is not faster than `brake_up_to_mps`.
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
        """The best proposal's own path for 8 s, not its simulated states; or the
        brake.
        """
        return self.choose(situation.ego, proposals_of(self, situation, [agents])[0])

    def plans(
        self, situation: Situation, branches: Sequence[Agents]
    ) -> list[Trajectory]:
        """The plans of several observations, which share map, paths and the simulation
        of equal proposals.
        """
        return [
            self.choose(situation.ego, proposals)
            for proposals in proposals_of(self, situation, branches)
        ]

    def proposal_scores(
        self, situation: Situation, branches: Sequence[Agents]
    ) -> list[Float[np.ndarray, "prop"]]:
        """The scores of the 15 proposals, observation by observation."""
        return [
            proposals.scores.score
            for proposals in proposals_of(self, situation, branches)
        ]

    def session(self) -> Planner:
        """A session whose first plan fixes the paths; it ignores an agent from the
        first overlap on.
        """
        return PdmSession(self)

    def choose(self, ego: EgoState, proposals: "Proposals") -> PdmTrajectory:
        """The plan: the first proposal of the highest score, or the brake."""
        best = int(np.argmax(proposals.scores.score))
        times_s = STEP_S * np.arange(STEPS + 1)
        # As published: above the speed limit of the brake the best proposal is driven
        # even into a collision.
        soon = proposals.scores.collision_s[best] <= self.brake_within_s
        if brake := bool(soon and ego.speed_mps <= self.brake_up_to_mps):
            signed_mps = braking_mps(ego)
            ahead = np.array([np.cos(ego.pose[2]), np.sin(ego.pose[2]), 0.0])
            pose, speed_mps = (
                ego.pose + signed_mps * times_s[:, None] * ahead,
                np.full(STEPS + 1, signed_mps),
            )
        else:
            pose, speed_mps = proposals.unroll(best)
        return PdmTrajectory(
            times_s, pose, speed_mps, proposals.scores.score, best, brake
        )


def braking_mps(ego: EgoState) -> float:
    """Signed speed of the published emergency brake: a straight line at constant speed,
    backwards if it is negative.
    """
    speed = ego.speed_mps
    if speed > 0.2:
        return float(1.1 * (speed + np.clip(-10 * speed, *BRAKE_MPS2)))
    return float(np.clip(-4 * speed - ego.acceleration_mps2, *BRAKE_MPS2))


@dataclass(frozen=True, eq=False)
class PdmPaths:
    """The paths that the published planner fixes at its first plan: corrected route,
    centreline, paths beside it.
    """

    route: tuple[str, ...]
    middle: LanePath
    paths: tuple[LanePath, ...]


@dataclass(frozen=True, eq=False)
class Proposals:
    """All proposals of one observation: the driver model's motion on the paths, the
    simulated states, the scores.
    """

    driver: Driver
    motion: ProposalMotion
    path_states: Float[np.ndarray, "prop 41 3"]
    simulated: Float[np.ndarray, "prop 41 11"]
    scores: ProposalScores

    def unroll(
        self, best: int
    ) -> tuple[Float[np.ndarray, "step 3"], Float[np.ndarray, "step"]]:
        """Poses and speeds of a proposal over 8 s: after 4 s the driver model of this
        proposal alone continues.
        """
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
        progress_m = np.concatenate(
            [self.motion.progress_m[path, speed], rest.progress_m[0, 0, 1:]]
        )
        speed_mps = np.concatenate(
            [self.motion.speed_mps[path, speed], rest.speed_mps[0, 0, 1:]]
        )
        return self.driver.guides[path].poses(progress_m), speed_mps


def lay_paths(planner: PdmClosed, situation: Situation) -> PdmPaths:
    """The paths from the ego's present position."""
    roads = roads_of(situation.lane_map)
    route = routes.corrected_route(
        roads, routes.check_route(roads, situation.route), situation.ego
    )
    start = routes.starting_lane(
        roads, route, ego=situation.ego, farthest_m=planner.radius_m
    )
    middle = routes.centreline(roads, routes.shortest_lanes(roads, route, start))
    return PdmPaths(
        route,
        middle,
        tuple(middle.beside(left_m) if left_m else middle for left_m in planner.left_m),
    )


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
    speeds_mps = np.array(planner.speed_shares) * (
        planner.fallback_mps if limit_mps is None else limit_mps
    )
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
            planner,
            guides,
            np.tile(speeds_mps, (len(guides), 1)),
            observe(
                agents,
                ego,
                roads=roads,
                shut=shut,
                radius_m=planner.radius_m,
                collided=collided,
            ),
            ego.vehicle,
        )
        for agents in branches
    ]
    # All branches start alike: at the rear axle on each path, at the ego's speed,
    # behind no leader.
    start_m = np.tile(
        np.array([[followed.start_m] for followed in guides]), len(speeds_mps)
    )
    course = Course(
        start_m,
        np.full(start_m.shape, float(ego.speed_mps)),
        np.zeros((*start_m.shape, 3)),
    )
    motions = [driver.drive(course, range(1, PROPOSAL_STEPS + 1)) for driver in drivers]
    path_states = [
        poses(driver, motion) for driver, motion in zip(drivers, motions, strict=True)
    ]
    # Branches often differ in few proposals: each distinct one is simulated once.
    distinct, number = _distinct(path_states)
    states = simulate(distinct, state_of(ego), wheel_base_m=ego.vehicle.wheel_base_m)
    ground = ground_around(
        roads,
        ego.vehicle.centres_m(ego.pose),
        radius_m=planner.radius_m,
        route=set(lanes),
    )
    ridden = rides(states, ego.vehicle, ground=ground, centreline=on.middle)
    return [
        Proposals(
            driver,
            motion,
            planned,
            states[chosen],
            score_proposals(ridden[chosen], driver.observation),
        )
        for driver, motion, planned, chosen in zip(
            drivers, motions, path_states, number, strict=True
        )
    ]


def state_of(ego: EgoState) -> Float[np.ndarray, "11"]:
    """The first state of the simulation: the ego without lateral motion."""
    state = np.zeros(11)
    state[:3] = ego.pose
    state[VX], state[AX], state[STEER] = (
        ego.speed_mps,
        ego.acceleration_mps2,
        ego.steering_rad,
    )
    state[YAW_RATE] = (
        ego.speed_mps * np.tan(ego.steering_rad) / ego.vehicle.wheel_base_m
    )
    return state


def poses(driver: Driver, motion: ProposalMotion) -> Float[np.ndarray, "prop 41 3"]:
    """Poses of all proposals, path by path."""
    return np.concatenate(
        [
            followed.poses(progress_m)
            for followed, progress_m in zip(
                driver.guides, motion.progress_m, strict=True
            )
        ]
    )


def _distinct(
    branches: Sequence[Float[np.ndarray, "prop 41 3"]],
) -> tuple[Float[np.ndarray, "some 41 3"], list[Int[np.ndarray, "prop"]]]:
    """The distinct proposals, and the index among them of every proposal, branch by
    branch.
    """
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
    """The planner over a whole drive; as published, all plans follow the route of the
    first plan.

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
        (proposals,) = proposals_of(
            self.planner, situation, [agents], on=self.on, collided=self.collided
        )
        seen = proposals.driver.observation
        self.collided |= set(np.asarray(seen.id)[seen.collided].tolist())
        return self.planner.choose(situation.ego, proposals)
