"""A published planner drives; its plan is judged against the logged future:
docs/definitions.md, External losses.

Plan = (x, y, heading) of the rear axle in the ego frame of the frame and speed, at 0.5,
1.0, ..., 4.0 s. Loss = 10 collision + 1.5 shortfall^2 ("safety") + 0.1 deviation
("scalar").
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError
from deepval.driving.geometry.vehicle import Vehicle, clearance_m
from deepval.driving.planners.neural.plan_metrics import tip_of_utilities
from deepval.driving.planners.observation import (
    Agents,
    Planner,
    Situation,
    Trajectory,
    agents_of,
    situation_at,
    to_ego_m,
)
from deepval.driving.systems.system import FrameFlags, FrameValues, System
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Future, Truth

Plans = Float[np.ndarray, "time ahead 4"]
AHEAD_S = np.arange(1, 9) * 0.5
"""Times at which a plan is judged."""
CLOSE_S = 1e-3
"""Times that are nearer to each other than this are the same."""
TRIVIAL = "constant_velocity_"
"""Prefix of the evidence columns that hold a term of the trivial predictor."""


@dataclass(frozen=True)
class Driving(System):
    """A planner and the loss of its plans; with the default weights, the safety
    loss.
    """

    planner: Planner
    margin_m: float = 1.0
    most_shortfall_m: float = 2.0
    collision_weight: float = 10.0
    shortfall_weight: float = 1.5
    deviation_weight: float = 0.0

    tolerance: ClassVar[float] = 1e-9
    loss_fields: ClassVar[frozenset[str]] = frozenset(
        {"collision_weight", "shortfall_weight", "deviation_weight"}
    )

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Plans | None = None,
    ) -> Plans:
        """The plan in each frame; a planner has no state, so no plan depends on the one
        before.
        """
        return self.plan_branches({"": perceived}, scene, starts=starts)[""]

    def plan_branches(
        self,
        perceived: Mapping[str, Objects],
        scene: Scene,
        *,
        starts: FrameFlags | None,
    ) -> dict[str, Plans]:
        """The plans of all modes, frame by frame together; modes that perceive the same
        share one plan.
        """
        plans = {mode: np.empty((len(scene), len(AHEAD_S), 4)) for mode in perceived}
        for t in range(len(scene)):
            situation = situation_at(scene, t)
            branches = [
                agents_of(objects.at(t), situation.ego.pose)
                for objects in perceived.values()
            ]
            try:
                frame_plans = self.situation_plans(situation, branches)
            except InputError as error:
                raise InputError(
                    f"unit {scene.unit}, frame {scene.frame_ids[t]}: {error}"
                ) from error
            for mode_plans, plan in zip(plans.values(), frame_plans, strict=True):
                mode_plans[t] = plan
        return plans

    def situation_plans(
        self, situation: Situation, branches: Sequence[Agents]
    ) -> list[Float[np.ndarray, "ahead 4"]]:
        """A plan for each observation of one situation."""
        keys = [_key(agents) for agents in branches]
        distinct = dict(zip(keys, branches, strict=True))
        trajectories = self.planner.plans(situation, list(distinct.values()))
        plans = {
            key: _plan(trajectory, situation)
            for key, trajectory in zip(distinct, trajectories, strict=True)
        }
        return [plans[key] for key in keys]

    def judged(self, scene: Scene, truth: Truth) -> Bool[np.ndarray, "time"]:
        """Frames with four seconds of logged future."""
        return judged_frames(truth)

    def terms(
        self, plans: Plans, scene: Scene, truth: Truth, *, previous: Plans
    ) -> FrameValues:
        """Collision, shortfall of clearance and deviation against the log, before
        weighting.
        """
        return pose_terms(
            plans[..., :3],
            truth,
            vehicle=vehicle_of(scene),
            margin_m=self.margin_m,
            most_m=self.most_shortfall_m,
        )

    def evidence(
        self, ends: Mapping[str, Objects], scene: Scene, truth: Truth
    ) -> FrameValues:
        """Loss terms of constant velocity, and TIP of both modes where the planner
        scores proposals.

        They are stored because a cell's folder has no truth to judge a trivial
        predictor by. Terms are NaN in frames that are not judged, which are no inputs.
        """
        plans = constant_velocity(scene)
        terms = self.terms(plans, scene, truth, previous=plans)
        trivial = {f"{TRIVIAL}{name}": term for name, term in terms.items()}
        return trivial | proposal_tips(self.planner, ends, scene, truth)


def constant_velocity(scene: Scene) -> Plans:
    """The trivial predictor: straight on at the present speed."""
    speed_mps = np.broadcast_to(
        scene.ego_speed_mps[:, None], (len(scene), len(AHEAD_S))
    )
    still = np.zeros_like(speed_mps)
    return np.stack([speed_mps * AHEAD_S, still, still, speed_mps], axis=-1)


def logged_future(truth: Truth) -> Future:
    """The logged future of the vehicle and of other objects in a unit; an error if it
    was not logged.
    """
    future = truth.future
    if future is None or not future.objects:
        lacks = (
            "no logged future"
            if future is None
            else "no logged future of other objects"
        )
        raise InputError(
            f"unit {truth.unit}: a plan is judged against the logged future; this "
            f"unit has {lacks}: take a data set of logged drives, or another "
            "downstream system."
        )
    return future


def time_indices(
    needed_s: Float[np.ndarray, "needed"], times_s: Float[np.ndarray, "time"]
) -> Int[np.ndarray, "needed"]:
    """The index of each needed time in a list of times, which must contain them all."""
    apart_s = np.abs(times_s[None, :] - needed_s[:, None])
    lacking = needed_s[~(apart_s < CLOSE_S).any(axis=1)]
    if len(lacking):
        raise InputError(
            f"times ahead must include {', '.join(f'{t:g}' for t in needed_s)} s; "
            f"{lacking[0]:g} s is not there."
        )
    return apart_s.argmin(axis=1)


def judged_frames(truth: Truth) -> Bool[np.ndarray, "time"]:
    """Frames whose future was logged at all the times at which a plan is judged."""
    future = logged_future(truth)
    return np.asarray(
        future.valid[:, time_indices(AHEAD_S, future.times_s)].all(axis=1)
    )


def pose_terms(
    pose: Float[np.ndarray, "time ahead 3"],
    truth: Truth,
    *,
    vehicle: Vehicle,
    margin_m: float = 1.0,
    most_m: float = 2.0,
) -> FrameValues:
    """Loss terms of planned poses of the rear axle, in the ego frame of each frame; NaN
    where nothing was logged.

    Args:
        pose: (x, y, heading) at the times of `AHEAD_S`.
        truth: The unit's truth.
        vehicle: The ego vehicle.
        margin_m: Clearance from which on there is no shortfall.
        most_m: Upper bound of a shortfall.
    """
    future = logged_future(truth)
    indices = time_indices(AHEAD_S, future.times_s)
    logged = judged_frames(truth)
    worst_m = worst_clearances_m(pose, future, vehicle=vehicle)
    apart_m = np.linalg.norm(
        vehicle.centres_m(pose) - vehicle.centres_m(future.pose[:, indices]), axis=-1
    )
    terms = {
        "collision": (worst_m < 0).astype(float),
        "shortfall": np.clip(margin_m - worst_m, 0.0, most_m) ** 2,
        "deviation": apart_m.mean(axis=1),
    }
    return {name: np.where(logged, term, np.nan) for name, term in terms.items()}


def worst_clearances_m(
    pose: Float[np.ndarray, "time ahead 3"], future: Future, *, vehicle: Vehicle
) -> Float[np.ndarray, "time"]:
    """The smallest clearance of planned poses to any other logged object, +inf if there
    is none.

    An object that overlaps the logged ego vehicle at that time is left out: that
    contact is a fault of the log.
    """
    worst_m = np.full(len(pose), np.inf)
    for ahead, index in enumerate(time_indices(AHEAD_S, future.times_s)):
        others = future.objects[index]
        others = others.where(future.valid[others.frame, index])
        planned = vehicle.corners_m(pose[:, ahead])[others.frame]
        driven = vehicle.corners_m(future.pose[:, index])[others.frame]
        apart_m = clearance_m(planned, others.corners_m)
        apart_m[clearance_m(driven, others.corners_m) < 0] = np.inf
        np.minimum.at(worst_m, others.frame, apart_m)
    return worst_m


Request = tuple[Planner, Scene, tuple[Objects, ...]]
_RECENT: deque[tuple[Request, dict[str, np.ndarray]]] = deque(maxlen=2)
"""The last requests and their columns: systems that differ only in the weights of their
loss need the same columns.
"""


def proposal_tips(
    planner: Planner, ends: Mapping[str, Objects], scene: Scene, truth: Truth
) -> FrameValues:
    """TIP of the cheap and the full mode where the planner scores proposals, NaN in
    frames that are not judged.

    See docs/definitions.md, PKL and TIP: the four-term formula over a planner's
    candidates, here its proposals' scores.
    """
    if not planner.has_proposals:
        return {}
    request = (planner, scene, (truth.objects, *ends.values()))
    for (one, of_scene, objects), columns in _RECENT:
        if one == planner and of_scene is scene and _identical(objects, request[2]):
            return columns
    columns = {f"{end}_TIP": np.full(len(scene), np.nan) for end in ends}
    for frame in np.flatnonzero(judged_frames(truth)):
        situation = situation_at(scene, int(frame))
        branches = [
            agents_of(objects.at(int(frame)), situation.ego.pose)
            for objects in request[2]
        ]
        reference, *perceived = planner.proposal_scores(situation, branches)
        for column, scores in zip(columns.values(), perceived, strict=True):
            column[frame] = tip_of_utilities(reference, scores)
    _RECENT.append((request, columns))
    return columns


def _identical(one: tuple[Objects, ...], other: tuple[Objects, ...]) -> bool:
    return len(one) == len(other) and all(
        a is b for a, b in zip(one, other, strict=True)
    )


def vehicle_of(scene: Scene) -> Vehicle:
    """The vehicle by whose footprint plans are judged."""
    if scene.vehicle is None:
        raise InputError(
            f"unit {scene.unit}: plans are judged by the vehicle's footprint; its "
            "size must be known."
        )
    return scene.vehicle


def _plan(trajectory: Trajectory, situation: Situation) -> Float[np.ndarray, "ahead 4"]:
    """A trajectory in the world as a plan in the ego frame, at the planner's own
    knots.
    """
    knots, ego = time_indices(AHEAD_S, trajectory.times_s), situation.ego.pose
    turn = trajectory.pose[knots, 2] - ego[2]
    heading = np.arctan2(np.sin(turn), np.cos(turn))
    return np.column_stack(
        [
            to_ego_m(trajectory.pose[knots, :2], ego),
            heading,
            trajectory.speed_mps[knots],
        ]
    )


def _key(agents: Agents) -> tuple[bytes, ...]:
    """Content of an observation; equal observations have equal content."""
    names = tuple(str(name).encode() for name in agents.id)
    return (
        *names,
        *(
            part.tobytes()
            for part in (agents.kind, agents.pose, agents.size_m, agents.velocity_mps)
        ),
    )
