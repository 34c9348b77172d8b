"""A published planner drives; its plan is judged against the logged future: docs/definitions.md, External losses.

Plan = (x, y, heading) of the rear axle in the ego frame of the frame and speed, at 0.5, 1.0, ..., 4.0 s.
Loss = 10 collision + 1.5 shortfall^2 ("safety") + 0.1 deviation ("scalar").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.arrays import Bool, Float
from deepval.errors import InputError
from deepval.geometry.vehicle import Vehicle, clearance_m
from deepval.planners.observation import Agents, Planner, Situation, Trajectory, agents_of, situation_at, to_ego_m
from deepval.systems.logged_losses import AHEAD_S, judged_frames, places_of, pose_terms
from deepval.systems.proposal_tips import proposal_tips
from deepval.systems.system import System
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth

TRIED = 6
"""Objects of which the decisive one is looked for: those that come nearest to the planned way."""
SAME_M = 1e-6
"""Plans that differ by less are the same."""
TRIVIAL = "constant_velocity_"
"""What columns of evidence begin with that hold a term of the trivial predictor."""
STANDING_MPS = 0.1
STANDING_M = 0.5
BENDING_RAD = np.radians(15)
"""Bounds from which on a plan is described as a stop, a standstill or a bend."""


@dataclass(frozen=True)
class Driving(System):
    """A planner and what its plans cost; with the weights as they are, the safety loss."""

    planner: Planner
    margin_m: float = 1.0
    most_shortfall_m: float = 2.0
    collision_weight: float = 10.0
    shortfall_weight: float = 1.5
    deviation_weight: float = 0.0

    tolerance: ClassVar[float] = 1e-9
    loss_fields: ClassVar[frozenset[str]] = frozenset({"collision_weight", "shortfall_weight", "deviation_weight"})

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: Bool[np.ndarray, "time"] | None = None,
        previous: Float[np.ndarray, "time ahead 4"] | None = None,
    ) -> Float[np.ndarray, "time ahead 4"]:
        """The plan in each frame; a planner keeps nothing, so no plan rests on the one before."""
        return self.plan_branches({"": perceived}, scene, starts=starts)[""]

    def plan_branches(
        self, perceived: Mapping[str, Objects], scene: Scene, *, starts: Bool[np.ndarray, "time"] | None
    ) -> dict[str, Float[np.ndarray, "time ahead 4"]]:
        """The plans of all modes, frame by frame together; modes that perceive the same are planned for once."""
        plans = {mode: np.empty((len(scene), len(AHEAD_S), 4)) for mode in perceived}
        for t in range(len(scene)):
            situation = situation_at(scene, t)
            branches = [agents_of(objects.at(t), situation.ego.pose) for objects in perceived.values()]
            try:
                found = self._plans(situation, branches)
            except InputError as error:
                raise InputError(f"unit {scene.unit}, frame {scene.frame_ids[t]}: {error}") from error
            for made, plan in zip(plans.values(), found, strict=True):
                made[t] = plan
        return plans

    def _plans(self, situation: Situation, branches: Sequence[Agents]) -> list[Float[np.ndarray, "ahead 4"]]:
        """A plan for each observation of one situation."""
        keys = [_key(agents) for agents in branches]
        distinct = dict(zip(keys, branches, strict=True))
        trajectories = self.planner.plans(situation, list(distinct.values()))
        plans = {key: _plan(made, situation) for key, made in zip(distinct, trajectories, strict=True)}
        return [plans[key] for key in keys]

    def judged(self, scene: Scene, truth: Truth) -> Bool[np.ndarray, "time"]:
        """Frames with four seconds of logged future."""
        return judged_frames(truth)

    def terms(
        self,
        plans: Float[np.ndarray, "time ahead 4"],
        scene: Scene,
        truth: Truth,
        *,
        previous: Float[np.ndarray, "time ahead 4"],
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Collision, shortfall of clearance and deviation against what was logged, before weighting."""
        return pose_terms(
            plans[..., :3], truth, vehicle=_vehicle(scene), margin_m=self.margin_m, most_m=self.most_shortfall_m
        )

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term."""
        return {
            "collision": self.collision_weight,
            "shortfall": self.shortfall_weight,
            "deviation": self.deviation_weight,
        }

    def trivial(self, scene: Scene) -> dict[str, Float[np.ndarray, "time ahead 4"]]:
        """Straight on at the present speed."""
        speed_mps = np.broadcast_to(scene.ego_speed_mps[:, None], (len(scene), len(AHEAD_S)))
        still = np.zeros_like(speed_mps)
        return {"constant velocity": np.stack([speed_mps * AHEAD_S, still, still, speed_mps], axis=-1)}

    def evidence(self, ends: Mapping[str, Objects], scene: Scene, truth: Truth) -> dict[str, Float[np.ndarray, "time"]]:
        """Loss terms of constant velocity, and TIP of both modes where the planner scores proposals.

        A cell's folder keeps no truth to judge a trivial predictor by. Terms are NaN where a frame is not judged, and
        such a frame is no input.
        """
        (plans,) = self.trivial(scene).values()
        terms = self.terms(plans, scene, truth, previous=plans)
        trivial = {f"{TRIVIAL}{name}": term for name, term in terms.items()}
        return trivial | proposal_tips(self.planner, ends, scene, truth)

    def columns(self, plans: Float[np.ndarray, "time ahead 4"]) -> dict[str, Float[np.ndarray, "time"]]:
        """Speed at the end, way driven, and how far to the left that is."""
        return {
            "end_speed_mps": plans[:, -1, 3],
            "driven_m": np.array([_driven_m(plan) for plan in plans]),
            "end_left_m": plans[:, -1, 1],
        }

    def words(self, plan: Float[np.ndarray, "ahead 4"]) -> str:
        """Where to, and how fast after four seconds."""
        back_m, turn_rad, speed_mps, driven_m = -plan[-1, 0], plan[-1, 2], plan[-1, 3], _driven_m(plan)
        if speed_mps < -STANDING_MPS:
            return f"emergency brake, {back_m:.1f} m back after {AHEAD_S[-1]:g} s"
        if speed_mps < STANDING_MPS:
            return "stands still" if driven_m < STANDING_M else f"stops after {driven_m:.0f} m"
        side = "left" if turn_rad > 0 else "right"
        way = "straight on" if abs(turn_rad) < BENDING_RAD else f"bends {side}"
        return f"{way}, {speed_mps:.1f} m/s after {AHEAD_S[-1]:g} s"

    def path_m(self, plan: Float[np.ndarray, "ahead 4"], speed_mps: float) -> Float[np.ndarray, "point 2"]:
        """Where the rear axle goes."""
        return np.concatenate([np.zeros((1, 2)), plan[:, :2]])

    def poses(self, plan: Float[np.ndarray, "ahead 4"]) -> Float[np.ndarray, "ahead 4"]:
        """The planned poses of the rear axle with their times."""
        return np.column_stack([AHEAD_S, plan[:, :3]])

    def decisive(self, objects: Objects, scene: Scene, *, previous: Float[np.ndarray, "1 *plan"]) -> int | None:
        """Of the few objects that come nearest to the planned way, the first without which the plan is another.

        Where none is needed, the first that alone leads to the plan. The way is that of the plan and of the plan on an
        empty road; objects keep their velocity. More are not tried: each costs a plan or two.
        """
        situation = situation_at(scene, 0)
        agents, place = agents_of(objects, situation.ego.pose), np.arange(len(objects))
        made, empty = self._plans(situation, [agents, agents.where(place < 0)])
        if _same(made, empty):
            return None
        near = np.argsort(_nearness_m(objects, [made, empty], _vehicle(scene)), kind="stable")[:TRIED]
        without = self._plans(situation, [agents.where(place != i) for i in near])
        needed = [int(i) for i, plan in zip(near, without, strict=True) if not _same(plan, made)]
        if needed:
            return needed[0]
        alone = self._plans(situation, [agents.where(place == i) for i in near])
        return next((int(i) for i, plan in zip(near, alone, strict=True) if _same(plan, made)), None)


def _vehicle(scene: Scene) -> Vehicle:
    if scene.vehicle is None:
        raise InputError(f"unit {scene.unit}: plans are judged by the vehicle's footprint; its size must be known.")
    return scene.vehicle


def _plan(made: Trajectory, situation: Situation) -> Float[np.ndarray, "ahead 4"]:
    """A trajectory in the world as a plan in the ego frame, at the planner's own knots."""
    knots, ego = places_of(AHEAD_S, made.times_s), situation.ego.pose
    turn = made.pose[knots, 2] - ego[2]
    heading = np.arctan2(np.sin(turn), np.cos(turn))
    return np.column_stack([to_ego_m(made.pose[knots, :2], ego), heading, made.speed_mps[knots]])


def _key(agents: Agents) -> tuple[bytes, ...]:
    """Content of an observation; equal observations have equal content."""
    names = tuple(str(name).encode() for name in agents.id)
    return (*names, *(part.tobytes() for part in (agents.kind, agents.pose, agents.size_m, agents.velocity_mps)))


def _same(one: Float[np.ndarray, "ahead 4"], other: Float[np.ndarray, "ahead 4"]) -> bool:
    return bool(np.abs(one - other).max() < SAME_M)


def _driven_m(plan: Float[np.ndarray, "ahead 4"]) -> float:
    steps = np.diff(plan[:, :2], axis=0, prepend=np.zeros((1, 2)))
    return float(np.linalg.norm(steps, axis=-1).sum())


def _nearness_m(
    objects: Objects, plans: Sequence[Float[np.ndarray, "ahead 4"]], vehicle: Vehicle
) -> Float[np.ndarray, "obj"]:
    """How near each object comes to the vehicle now and on its planned ways, if it keeps its velocity."""
    times_s = np.concatenate([[0.0], AHEAD_S])
    moved = np.nan_to_num(objects.velocity_mps, nan=0.0)[:, None] * times_s[:, None]
    there_m = objects.corners_m[:, None] + moved[:, :, None]
    ways = [vehicle.corners_m(np.concatenate([np.zeros((1, 3)), plan[:, :3]])) for plan in plans]
    apart_m = [clearance_m(way[None], there_m).min(axis=1) for way in ways]
    return np.minimum.reduce(apart_m)
