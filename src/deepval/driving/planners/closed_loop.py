"""A planner and a logged scene -> a drive: the vehicle tracks the plans, the other
agents follow their log.

Every `replan_s` the planner plans anew from the simulated state; in between, the LQR
tracks its last plan every 0.1 s and the kinematic bicycle of `tracking` drives it. The
other agents are replayed and do not react. See docs/definitions.md, Closed loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.driving.geometry.vehicle import Vehicle, clearance_m, ground_corners_m
from deepval.driving.planners import tracking
from deepval.driving.planners.observation import (
    STATIC,
    Agents,
    EgoState,
    Planner,
    Situation,
    Trajectory,
)
from deepval.driving.planners.roads import Rectangles, directions, rectangles_overlap
from deepval.driving.planners.scoring import SAMPLES, comfortable
from deepval.driving.planners.tracking import AX, HEADING, STEER, STEP_S, VX, Reference
from deepval.driving.world.lanes import LaneMap

STOPPED_MPS = 0.05
BEHIND_RAD = np.deg2rad(150.0)
EGO_STOPPED, OTHER_STOPPED, FROM_BEHIND = "ego stopped", "other stopped", "from behind"
AHEAD, BESIDE = "ahead", "beside"


@dataclass(frozen=True)
class Contact:
    """The first contact with one of the other agents.

    `how` is "ego stopped", "other stopped", "from behind", "ahead" (the front bumper
    touches) or "beside".
    """

    time_s: float
    agent: str
    how: str
    at_fault: bool
    ego_speed_mps: float
    agent_speed_mps: float


def footprints_m(agents: Agents) -> Float[np.ndarray, "agent 4 2"]:
    """Ground corners of the other agents."""
    return ground_corners_m(
        agents.pose[:, :2], agents.size_m, yaw_rad=agents.pose[:, 2]
    )


def agents_at(replayed: Sequence[Agents], step: int) -> Agents:
    """The other agents at a step; an agent that is absent at the next step gets the
    velocity of its last movement.

    Logs whose velocities are differences to the next position have none, or 0, at the
    end of a track.
    """
    now, before = replayed[step], replayed[max(step - 1, 0)]
    later = replayed[step + 1].id if step + 1 < len(replayed) else now.id[:0]
    velocity_mps, earlier_row = (
        now.velocity_mps.copy(),
        {str(name): row for row, name in enumerate(before.id)},
    )
    for row in np.flatnonzero(~np.isin(now.id, later)):
        if step and str(now.id[row]) in earlier_row:
            moved_m = now.pose[row, :2] - before.pose[earlier_row[str(now.id[row])], :2]
            velocity_mps[row] = moved_m / STEP_S
    return replace(now, velocity_mps=velocity_mps)


def meeting(
    pose: Float[np.ndarray, "3"],
    speed_mps: float,
    *,
    vehicle: Vehicle,
    agents: Agents,
    place: int,
) -> str:
    """The kind of contact between the vehicle and the agent at index `place`."""
    if abs(speed_mps) <= STOPPED_MPS:
        return EGO_STOPPED
    if (
        agents.kind[place] == STATIC
        or np.hypot(*agents.velocity_mps[place]) <= STOPPED_MPS
    ):
        return OTHER_STOPPED
    towards = agents.pose[place, :2] - pose[:2]
    angle = np.arctan2(towards[1], towards[0]) - pose[2]
    if abs(np.remainder(angle + np.pi, 2 * np.pi) - np.pi) > BEHIND_RAD:
        return FROM_BEHIND
    return (
        AHEAD if _hit_by_bumper(pose, vehicle, agents=agents, index=place) else BESIDE
    )


def at_fault(
    how: str, footprint_m: Float[np.ndarray, "4 2"], *, lane_map: LaneMap
) -> bool:
    """Whether the vehicle is at fault; for a contact at its side, only if it is in
    several lanes or off the road.
    """
    return blamed(how, lambda: astray(footprint_m, lane_map))


def blamed(how: str, out_of_lane: Callable[[], bool]) -> bool:
    """Whether the vehicle is at fault; whether it is out of its lane is asked for a
    contact at its side only.
    """
    return how in (OTHER_STOPPED, AHEAD) or (how == BESIDE and out_of_lane())


def astray(footprint_m: Float[np.ndarray, "4 2"], lane_map: LaneMap) -> bool:
    """Whether a corner is on no drivable ground, or the corners lie in several lanes
    and no lane contains them all.
    """
    from deepval.driving.planners.roads import roads_of, shapely

    roads = roads_of(lane_map)
    near = roads.ground[roads.near(shapely.Polygon(footprint_m), 0.0)]
    inside = shapely.contains_xy(near[:, None], *footprint_m.T)
    several = inside.any(axis=1).sum() > 1 and not inside.all(axis=1).any()
    return bool(several or not inside.any(axis=0).all())


def _hit_by_bumper(
    pose: Float[np.ndarray, "3"], vehicle: Vehicle, *, agents: Agents, index: int
) -> bool:
    """Whether the front bumper, a rectangle without length, touches the agent."""
    ahead, rows = directions(pose[2:]), slice(index, index + 1)
    bumper = Rectangles(
        pose[:2] + vehicle.front_m * ahead,
        ahead,
        np.array([[0.0, vehicle.width_m / 2]]),
    )
    other = Rectangles(
        agents.pose[rows, :2], directions(agents.pose[rows, 2]), agents.size_m[rows] / 2
    )
    return bool(rectangles_overlap(bumper, other)[0])


Observed = Callable[[int], Agents]
"""Perceived agents at a step, in the world frame."""
LOOK_AHEAD = 3
"""The vehicle's roadblock is searched among this many next roadblocks of the route, so
that no loop is skipped.
"""


@dataclass(frozen=True, eq=False)
class Replay:
    """The logged surroundings of a drive, in the world frame, every 0.1 s from its
    start on.

    Attributes:
        start: The ego vehicle at the first step.
        lane_map: The road.
        route: Roadblocks from the vehicle's own on.
        agents: The other agents as logged, step by step.
        logged_pose: Logged poses of the ego vehicle (rear axle: x, y, heading).
        red_lights: Lanes shut by a red light, step by step, or empty.
    """

    start: EgoState
    lane_map: LaneMap
    route: tuple[str, ...]
    agents: tuple[Agents, ...]
    logged_pose: Float[np.ndarray, "step 3"]
    red_lights: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        if len(self.agents) != len(self.logged_pose) or len(self.agents) < 2:
            raise InputError(
                "a drive needs two steps or more, with agents and a logged pose each; "
                f"found {len(self.agents)} and {len(self.logged_pose)}: start earlier."
            )


@dataclass(frozen=True, eq=False)
class DrivenScene:
    """The result of a drive: states (as in `tracking`), the distance to the nearest
    agent, and the contacts.

    `clearance_m` is infinite without other agents and negative where footprints
    overlap. Agents that overlap the vehicle at the first step are not its fault:
    neither contacts nor clearance count them.
    """

    states: Float[np.ndarray, "step 11"]
    clearance_m: Float[np.ndarray, "step"]
    contacts: tuple[Contact, ...]
    logged_pose: Float[np.ndarray, "step 3"]
    plans: int

    @property
    def pose(self) -> Float[np.ndarray, "step 3"]:
        """Rear axle: x, y, heading."""
        return self.states[:, : HEADING + 1]

    @property
    def speed_mps(self) -> Float[np.ndarray, "step"]:
        """Speed along the heading."""
        return self.states[:, VX]

    @property
    def seconds(self) -> float:
        """Duration of the drive."""
        return STEP_S * (len(self.states) - 1)

    @property
    def way_m(self) -> float:
        """Distance driven."""
        return _way_m(self.states)

    @property
    def logged_way_m(self) -> float:
        """Distance that the logged vehicle drove in the same time."""
        return _way_m(self.logged_pose)

    @property
    def deviation_m(self) -> float:
        """Distance from the logged vehicle at the end."""
        return float(np.hypot(*(self.states[-1, :2] - self.logged_pose[-1, :2])))

    @property
    def comfort(self) -> float:
        """Share of all spans of 4 s that are comfortable; NaN for a shorter drive."""
        if len(self.states) < SAMPLES:
            return np.nan
        spans = np.lib.stride_tricks.sliding_window_view(self.states, SAMPLES, axis=0)
        return float(comfortable(np.ascontiguousarray(np.swapaxes(spans, 1, 2))).mean())


def drive(
    planner: Planner,
    replay: Replay,
    *,
    seconds: float | None = None,
    replan_s: float = 0.1,
    observed: Observed | None = None,
) -> DrivenScene:
    """Let the planner drive the scene for `seconds`, or to its end if `seconds` is None
    or the end comes first.

    Args:
        planner: One instance serves any number of drives; every drive has a session of
            its own.
        replay: The scene.
        seconds: Duration.
        replan_s: Time between plans; a multiple of 0.1 s. Published planners plan every
            0.1 s, and the emergency brake of PDM-Closed relies on that: applied for 0.5
            s, it makes the vehicle drive backwards.
        observed: The perceived agents at a step; None takes the logged ones.
    """
    every = round(replan_s / STEP_S)
    if every < 1 or abs(every * STEP_S - replan_s) > 1e-9:
        raise InputError(
            "the time between plans must be a multiple "
            f"of {STEP_S:g} s above 0; found {replan_s:g} s."
        )
    last = len(replay.agents) - 1
    steps = last if seconds is None else min(last, round(seconds / STEP_S))
    if steps < 1:
        raise InputError(
            f"a drive must last {STEP_S:g} s or more; found {seconds:g} s."
        )
    observed, session = observed or replay.agents.__getitem__, planner.session()
    vehicle = replay.start.vehicle
    states = np.zeros((steps + 1, 11))
    states[0, : VX + 1] = *replay.start.pose, replay.start.speed_mps
    states[0, [AX, STEER]] = replay.start.acceleration_mps2, replay.start.steering_rad
    block, plan = 0, None
    for step in range(steps):
        block = _block(replay, block, states[step, :2])
        if plan is None or step % every == 0:
            situation = _situation(replay, states[step], block=block, step=step)
            plan = reference_of(
                session.plan(situation, observed(step)), replan_s=replan_s
            )
        states[step + 1] = tracking.next_state(
            states[None, step],
            plan,
            index=step % every,
            wheel_base_m=vehicle.wheel_base_m,
        )[0]
    room_m, contacts = _clearance_and_contacts(states, replay)
    return DrivenScene(
        states, room_m, contacts, replay.logged_pose[: steps + 1], -(-steps // every)
    )


def reference_of(plan: Trajectory, *, replan_s: float) -> Reference:
    """A plan at the planner's own times -> the tracker's reference, every 0.1 s: linear
    between two poses.
    """
    if plan.times_s[-1] < replan_s - 1e-6:
        raise InputError(
            f"plans must last {replan_s:.1f} s, until the next is made; found one of "
            f"{plan.times_s[-1]:.1f} s: plan anew more often."
        )
    times_s = STEP_S * np.arange(int(np.floor(plan.times_s[-1] / STEP_S + 1e-6)) + 1)
    x, y, heading = plan.pose[:, 0], plan.pose[:, 1], np.unwrap(plan.pose[:, HEADING])
    return tracking.reference(
        np.stack(
            [np.interp(times_s, plan.times_s, part) for part in (x, y, heading)], -1
        )[None]
    )


def _situation(
    replay: Replay, state: Float[np.ndarray, "11"], *, block: int, step: int
) -> Situation:
    """The planner's input apart from the agents: the vehicle's present state and the
    road.
    """
    speed, acceleration, steering = (float(state[part]) for part in (VX, AX, STEER))
    ego = EgoState(
        state[: HEADING + 1].copy(), speed, replay.start.vehicle, acceleration, steering
    )
    red_lights = replay.red_lights[step] if replay.red_lights else frozenset()
    return Situation(ego, replay.lane_map, replay.route[block:], red_lights)


def _block(replay: Replay, block: int, position_m: Float[np.ndarray, "2"]) -> int:
    """Index of the roadblock of the rear axle: the nearest one, never an earlier one;
    at least two remain.
    """
    ahead = replay.route[block : block + LOOK_AHEAD]
    far_m = [
        min(
            _distance_m(replay.lane_map.lanes[lane].centreline_m, position_m)
            for lane in lanes
        )
        for lanes in (replay.lane_map.roadblocks[name] for name in ahead)
    ]
    return max(block, min(block + int(np.argmin(far_m)), len(replay.route) - 2))


def _distance_m(
    line_m: Float[np.ndarray, "point 2"], point_m: Float[np.ndarray, "2"]
) -> float:
    """Distance of a point from a line."""
    way = np.diff(line_m, axis=0)
    offset = point_m - line_m[:-1]
    along = np.clip(
        (offset * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-12), 0.0, 1.0
    )
    return float(np.hypot(*(offset - along[:, None] * way).T).min())


def _clearance_and_contacts(
    states: Float[np.ndarray, "step 11"], replay: Replay
) -> tuple[Float[np.ndarray, "step"], tuple[Contact, ...]]:
    """The distance to the nearest agent at every step, and the first contact with every
    agent.
    """
    vehicle = replay.start.vehicle
    footprint = vehicle.corners_m(states[:, : HEADING + 1])
    room_m = np.full(len(states), np.inf)
    ignored: set[str] = set()
    contacts: list[Contact] = []
    for step, state in enumerate(states):
        agents = replay.agents[step]
        apart_m = (
            clearance_m(footprint[step], footprints_m(agents))
            if len(agents)
            else np.zeros(0)
        )
        if step == 0:
            ignored = {str(name) for name in agents.id[apart_m <= 0]}
        counted = np.array([str(name) not in ignored for name in agents.id], dtype=bool)
        room_m[step] = min(apart_m[counted], default=np.inf)
        touched = {contact.agent for contact in contacts}
        for row in np.flatnonzero(counted & (apart_m <= 0)):
            name, pose = str(agents.id[row]), state[: HEADING + 1]
            if name in touched:
                continue
            agents = agents_at(replay.agents, step)
            how = meeting(
                pose, float(state[VX]), vehicle=vehicle, agents=agents, place=int(row)
            )
            fault = at_fault(how, footprint[step], lane_map=replay.lane_map)
            speed = float(np.hypot(*agents.velocity_mps[row]))
            contacts.append(
                Contact(STEP_S * step, name, how, fault, float(state[VX]), speed)
            )
    return room_m, tuple(contacts)


def _way_m(poses: Float[np.ndarray, "step _"]) -> float:
    return float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum())
