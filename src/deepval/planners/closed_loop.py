"""A planner and a logged scene -> a drive: the plan is tracked, the others do what they did when they were logged.

Every `replan_s` the planner is asked again from where the vehicle really is; in between, its last plan is tracked every
0.1 s by the LQR and driven by the kinematic bicycle of `tracking`. The others are replayed and take no notice. See
docs/definitions.md, Closed loop.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.geometry.rectangles import clearance_m
from deepval.planners import tracking
from deepval.planners.comfort import SAMPLES, comfortable
from deepval.planners.contacts import Contact, as_moved, at_fault, footprints_m, meeting
from deepval.planners.planner import Planner, Trajectory
from deepval.planners.situation import Agents, EgoState, Situation
from deepval.planners.tracking import AX, HEADING, STEER, STEP_S, VX, Reference
from deepval.world.lanes import LaneMap

Observed = Callable[[int], Agents]
"""The others as they are perceived at a step, in the world frame."""
LOOK_AHEAD = 3
"""Among so many roadblocks of the route the vehicle's own is looked for, so that a loop is not cut short."""


@dataclass(frozen=True, eq=False)
class Replay:
    """What a drive meets, in the world frame, every 0.1 s from its start on.

    Attributes:
        start: The ego vehicle at the first step.
        lane_map: The road.
        route: Roadblocks from the vehicle's own on.
        agents: The others as they were logged, step by step.
        logged_pose: Where the ego vehicle was when it was logged (rear axle: x, y, heading).
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
                f"a drive needs two steps or more, with agents and a logged pose each; found {len(self.agents)} and "
                f"{len(self.logged_pose)}: start earlier."
            )


@dataclass(frozen=True, eq=False)
class DrivenScene:
    """What came of it: states (as in `tracking`), the room to the nearest other, and whom the vehicle touched.

    `clearance_m` is infinite where nobody is there and negative where footprints overlap. Others that overlap the
    vehicle at the very start are none of its doing: neither contact nor clearance counts them.
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
        """How long it took."""
        return STEP_S * (len(self.states) - 1)

    @property
    def way_m(self) -> float:
        """Length of the way driven."""
        return _way_m(self.states)

    @property
    def logged_way_m(self) -> float:
        """Length of the way that the logged vehicle drove in the same time."""
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
    """Let the planner drive the scene for so many seconds, or to its end where None or where that comes first.

    Args:
        planner: One instance serves any number of drives; each has a session of its own.
        replay: The scene.
        seconds: How long.
        replan_s: How often it plans anew; a multiple of 0.1 s. Published planners are asked every 0.1 s, and the
            emergency brake of PDM-Closed counts on it: held for 0.5 s it ends in driving backwards.
        observed: The others as they are perceived at each step; as they were logged where None.
    """
    every = round(replan_s / STEP_S)
    if every < 1 or abs(every * STEP_S - replan_s) > 1e-9:
        raise InputError(f"the time between plans must be a multiple of {STEP_S:g} s above 0; found {replan_s:g} s.")
    last = len(replay.agents) - 1
    steps = last if seconds is None else min(last, round(seconds / STEP_S))
    if steps < 1:
        raise InputError(f"a drive must last {STEP_S:g} s or more; found {seconds:g} s.")
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
            plan = tracked(session.plan(situation, observed(step)), replan_s=replan_s)
        states[step + 1] = tracking.next_state(
            states[None, step], plan, index=step % every, wheel_base_m=vehicle.wheel_base_m
        )[0]
    room_m, contacts = _met(states, replay)
    return DrivenScene(states, room_m, contacts, replay.logged_pose[: steps + 1], -(-steps // every))


def tracked(plan: Trajectory, *, replan_s: float) -> Reference:
    """A plan at the planner's own times -> what the tracker follows, every 0.1 s: straight between two poses."""
    if plan.times_s[-1] < replan_s - 1e-6:
        raise InputError(
            f"plans must last {replan_s:.1f} s, until the next is made; found one of {plan.times_s[-1]:.1f} s: "
            "plan anew more often."
        )
    times_s = STEP_S * np.arange(int(np.floor(plan.times_s[-1] / STEP_S + 1e-6)) + 1)
    x, y, heading = plan.pose[:, 0], plan.pose[:, 1], np.unwrap(plan.pose[:, HEADING])
    return tracking.reference(np.stack([np.interp(times_s, plan.times_s, part) for part in (x, y, heading)], -1)[None])


def _situation(replay: Replay, state: Float[np.ndarray, "11"], *, block: int, step: int) -> Situation:
    """What the planner is told of itself and the road: where the vehicle is now."""
    speed, acceleration, steering = (float(state[part]) for part in (VX, AX, STEER))
    ego = EgoState(state[: HEADING + 1].copy(), speed, replay.start.vehicle, acceleration, steering)
    red_lights = replay.red_lights[step] if replay.red_lights else frozenset()
    return Situation(ego, replay.lane_map, replay.route[block:], red_lights)


def _block(replay: Replay, block: int, place_m: Float[np.ndarray, "2"]) -> int:
    """Which roadblock of the route the rear axle is in: the nearest, never one that was left; two at least remain."""
    ahead = replay.route[block : block + LOOK_AHEAD]
    far_m = [min(_distance_m(replay.lane_map.lanes[lane].centreline_m, place_m) for lane in lanes)
             for lanes in (replay.lane_map.roadblocks[name] for name in ahead)]  # fmt: skip
    return max(block, min(block + int(np.argmin(far_m)), len(replay.route) - 2))


def _distance_m(line_m: Float[np.ndarray, "point 2"], place_m: Float[np.ndarray, "2"]) -> float:
    """Distance of a place from a line."""
    way = np.diff(line_m, axis=0)
    offset = place_m - line_m[:-1]
    along = np.clip((offset * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-12), 0.0, 1.0)
    return float(np.hypot(*(offset - along[:, None] * way).T).min())


def _met(states: Float[np.ndarray, "step 11"], replay: Replay) -> tuple[Float[np.ndarray, "step"], tuple[Contact, ...]]:
    """The room to the nearest other at each step, and the first touch of each of them."""
    vehicle = replay.start.vehicle
    footprint = vehicle.corners_m(states[:, : HEADING + 1])
    room_m = np.full(len(states), np.inf)
    ignored: set[str] = set()
    met: list[Contact] = []
    for step, state in enumerate(states):
        agents = replay.agents[step]
        apart_m = clearance_m(footprint[step], footprints_m(agents)) if len(agents) else np.zeros(0)
        if step == 0:
            ignored = {str(name) for name in agents.id[apart_m <= 0]}
        counted = np.array([str(name) not in ignored for name in agents.id], dtype=bool)
        room_m[step] = min(apart_m[counted], default=np.inf)
        touched = {contact.agent for contact in met}
        for place in np.flatnonzero(counted & (apart_m <= 0)):
            name, pose = str(agents.id[place]), state[: HEADING + 1]
            if name in touched:
                continue
            agents = as_moved(replay.agents, step)
            how = meeting(pose, float(state[VX]), vehicle=vehicle, agents=agents, place=int(place))
            fault = at_fault(how, footprint[step], lane_map=replay.lane_map)
            speed = float(np.hypot(*agents.velocity_mps[place]))
            met.append(Contact(STEP_S * step, name, how, fault, float(state[VX]), speed))
    return room_m, tuple(met)


def _way_m(poses: Float[np.ndarray, "step _"]) -> float:
    return float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum())
