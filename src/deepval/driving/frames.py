"""The plans of a system as people see them: in words, as columns of a table, as a way
on the road, beside trivial plans, and with the object that decided them.

Each function has a default that fits any system. What a system has to say beyond it is
registered for its class, here for deepval's own: `@words.register(Mine)`.
"""

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.driving.geometry.vehicle import Vehicle, clearance_m
from deepval.driving.planners.controllers import travelled_m
from deepval.driving.planners.observation import agents_of, situation_at
from deepval.driving.systems import driving
from deepval.driving.systems.braking import Braking
from deepval.driving.systems.driving import Driving
from deepval.driving.systems.lateral import LateralCorridor
from deepval.driving.systems.learned import LearnedPlanner, constant_velocity_m
from deepval.driving.systems.receding_horizon import RecedingHorizon
from deepval.driving.systems.system import FrameValues, Plans, System
from deepval.driving.world.objects import Objects, object_deceleration_mps2
from deepval.driving.world.scene import Scene

Plan = Float[np.ndarray, "*plan"]
Path = Float[np.ndarray, "point 2"]
"""Positions (x, y) in the ego frame in the next seconds."""

MOST_COLUMNS = 8
"""Largest number of numbers of a plan that is stored and described in full."""
AHEAD_S = np.linspace(0.0, 3.0, 13)
"""Times at which the path of an action is drawn."""
FAR_M = 80.0
"""Length to which a corridor is drawn if the system has no limit of its own."""
TRIED = 6
"""Number of objects tried as the decisive one of a planner, as each costs two plans."""
STANDING_MPS = 0.1
STANDING_M = 0.5
BENDING_RAD = np.radians(15)
"""Bounds from which on a plan is described as a stop, a standstill or a bend."""
SAME_M = 1e-6
"""Plans of `Driving` that differ by less are the same."""


@singledispatch
def words(system: System, plan: Plan) -> str:
    """A plan in words: by default, its first numbers."""
    return ", ".join(f"{part:g}" for part in plan.ravel()[:MOST_COLUMNS])


@words.register(Braking)
def _(system: Braking, plan: Plan) -> str:
    braking_mps2 = float(plan[0])
    if not braking_mps2:
        return "keep speed"
    if braking_mps2 == system.hard_mps2:
        return f"brake hard, {braking_mps2:g} m/s²"
    return f"brake, {braking_mps2:g} m/s²"


@words.register(LateralCorridor)
def _(system: LateralCorridor, plan: Plan) -> str:
    return _sideways(float(plan[0]))


@words.register(RecedingHorizon)
def _(system: RecedingHorizon, plan: Plan) -> str:
    acceleration_mps2 = float(plan[0])
    speed = "keep speed"
    if acceleration_mps2:
        speed = f"brake, {-acceleration_mps2:.2g} m/s²"
    return f"{speed}, {_sideways(float(plan[1]))}"


@words.register(LearnedPlanner)
def _(system: LearnedPlanner, plan: Plan) -> str:
    side = _sideways(float(round(plan[-1, 1], 1)))
    return f"{plan[-1, 0]:.1f} m ahead in 4 s, {side}"


@words.register(Driving)
def _(system: Driving, plan: Plan) -> str:
    end_s = driving.AHEAD_S[-1]
    turn_rad = plan[-1, 2]
    speed_mps = plan[-1, 3]
    if speed_mps < -STANDING_MPS:
        return f"emergency brake, {-plan[-1, 0]:.1f} m back after {end_s:g} s"
    if speed_mps < STANDING_MPS:
        driven_m = _driven_m(plan)
        if driven_m < STANDING_M:
            return "stands still"
        return f"stops after {driven_m:.0f} m"
    way = "straight on"
    if abs(turn_rad) >= BENDING_RAD:
        way = "bends left" if turn_rad > 0 else "bends right"
    return f"{way}, {speed_mps:.1f} m/s after {end_s:g} s"


@singledispatch
def columns(system: System, plans: Plans) -> FrameValues:
    """The columns of plans in a cell, by name: by default, every number of a short plan
    and none of a long one.
    """
    flat = plans.reshape(len(plans), -1)
    if flat.shape[1] > MOST_COLUMNS:
        return {}
    return {f"action{part}": flat[:, part] for part in range(flat.shape[1])}


@columns.register(Driving)
def _(system: Driving, plans: Plans) -> FrameValues:
    return {
        "end_speed_mps": plans[:, -1, 3],
        "driven_m": np.array([_driven_m(plan) for plan in plans]),
        "end_left_m": plans[:, -1, 1],
    }


@singledispatch
def trivial_plans(system: System, scene: Scene) -> dict[str, Plans]:
    """By name, the plans of trivial predictors to beat, which perceive nothing: by
    default, none.
    """
    return {}


@trivial_plans.register(Braking)
@trivial_plans.register(LateralCorridor)
@trivial_plans.register(RecedingHorizon)
def _(
    system: Braking | LateralCorridor | RecedingHorizon, scene: Scene
) -> dict[str, Plans]:
    return {
        f"always {', '.join(f'{part:g}' for part in choice)}": np.tile(
            choice, (len(scene), 1)
        )
        for choice in system.choices
    }


@trivial_plans.register(LearnedPlanner)
def _(system: LearnedPlanner, scene: Scene) -> dict[str, Plans]:
    return {"constant velocity": constant_velocity_m(scene)}


@trivial_plans.register(Driving)
def _(system: Driving, scene: Scene) -> dict[str, Plans]:
    return {"constant velocity": driving.constant_velocity(scene)}


@singledispatch
def path_m(system: System, plan: Plan, speed_mps: float) -> Path | None:
    """The path of a plan; by default None, as a plan does not define it."""
    return None


@path_m.register(Braking)
def _(system: Braking, plan: Plan, speed_mps: float) -> Path:
    return _smooth_path_m(speed_mps, acceleration_mps2=-float(plan[0]), shift_m=0.0)


@path_m.register(LateralCorridor)
def _(system: LateralCorridor, plan: Plan, speed_mps: float) -> Path:
    return _smooth_path_m(speed_mps, acceleration_mps2=0.0, shift_m=float(plan[0]))


@path_m.register(RecedingHorizon)
def _(system: RecedingHorizon, plan: Plan, speed_mps: float) -> Path:
    return _smooth_path_m(
        speed_mps, acceleration_mps2=float(plan[0]), shift_m=float(plan[1])
    )


@path_m.register(LearnedPlanner)
@path_m.register(Driving)
def _(system: LearnedPlanner | Driving, plan: Plan, speed_mps: float) -> Path:
    return np.concatenate([np.zeros((1, 2)), plan[:, :2]])


@singledispatch
def poses(system: System, plan: Plan) -> Float[np.ndarray, "point 4"] | None:
    """Times and poses (s, x, y, heading) of the rear axle in the ego frame; by default
    None, as a plan has none.
    """
    return None


@poses.register(Driving)
def _(system: Driving, plan: Plan) -> Float[np.ndarray, "point 4"]:
    return np.column_stack([driving.AHEAD_S, plan[:, :3]])


@singledispatch
def corridor_m(system: System) -> Mapping[str, float] | None:
    """Half the width and the length of the corridor in which objects count; by default
    None: there is none.
    """
    return None


@corridor_m.register(Braking)
def _(system: Braking) -> Mapping[str, float]:
    required = system.required
    return {"half_width": required.corridor_m, "far": required.farthest_m}


@corridor_m.register(LateralCorridor)
@corridor_m.register(RecedingHorizon)
def _(system: LateralCorridor | RecedingHorizon) -> Mapping[str, float]:
    return {"half_width": system.half_width_m, "far": FAR_M}


@singledispatch
def decisive(
    system: System, objects: Objects, scene: Scene, previous: Plans
) -> int | None:
    """The object of a single frame that determines the plan; None if the plan is the
    same on an empty road.

    By default it is the nearest object without which the plan would be different. If
    there is none, because several objects lead to the same plan, it is the nearest
    object that alone leads to the plan.
    """
    order = np.argsort(objects.near_m, kind="stable")
    return _first_decisive(system, objects, scene, previous, order)


@decisive.register(Braking)
def _(system: Braking, objects: Objects, scene: Scene, previous: Plans) -> int | None:
    # the object that requires the most deceleration, where that is enough to brake
    demand = object_deceleration_mps2(
        objects, scene.ego_speed_mps, settings=system.required
    )
    brakes = system.plan(objects, scene, previous=previous)[0, 0] > 0
    return int(np.argmax(demand)) if brakes else None


@decisive.register(LearnedPlanner)
def _(
    system: LearnedPlanner, objects: Objects, scene: Scene, previous: Plans
) -> int | None:
    # only the few objects with a corner nearest to the planned way are tried
    way_m = path_m(system, system.plan(objects, scene)[0], 0.0)
    corners_m = objects.corners_m[:, :, None]
    apart_m = np.linalg.norm(corners_m - way_m, axis=-1).min(axis=(1, 2))
    order = np.argsort(apart_m, kind="stable")[:TRIED]
    return _first_decisive(system, objects, scene, previous, order)


def _first_decisive(
    system: System,
    objects: Objects,
    scene: Scene,
    previous: Plans,
    order: Int[np.ndarray, "_"],
) -> int | None:
    """The first object in an order of trial without which the plan would be different,
    else the first that alone leads to it.
    """
    index = np.arange(len(objects))
    plan = system.plan(objects, scene, previous=previous)

    def same(keep: np.ndarray) -> bool:
        other = system.plan(objects.where(keep), scene, previous=previous)
        return np.array_equal(other, plan)

    if same(index < 0):
        return None
    for i in order:
        if not same(index != i):
            return int(i)
    for i in order:
        if same(index == i):
            return int(i)
    return None


@decisive.register(Driving)
def _(system: Driving, objects: Objects, scene: Scene, previous: Plans) -> int | None:
    # Nearness is measured to the way of the plan and to that of the plan on an empty
    # road, with objects at constant velocity. The trials of a round are planned
    # together.
    situation = situation_at(scene, 0)
    agents = agents_of(objects, situation.ego.pose)
    index = np.arange(len(objects))
    nothing = agents.where(index < 0)
    plan, empty = system.situation_plans(situation, [agents, nothing])
    if _same(plan, empty):
        return None
    nearness_m = _nearness_m(objects, [plan, empty], driving.vehicle_of(scene))
    near = np.argsort(nearness_m, kind="stable")[:TRIED]
    without = [agents.where(index != i) for i in near]
    others = system.situation_plans(situation, without)
    for i, other in zip(near, others, strict=True):
        if not _same(other, plan):
            return int(i)
    alone = [agents.where(index == i) for i in near]
    others = system.situation_plans(situation, alone)
    for i, other in zip(near, others, strict=True):
        if _same(other, plan):
            return int(i)
    return None


def _same(
    one: Float[np.ndarray, "ahead 4"], other: Float[np.ndarray, "ahead 4"]
) -> bool:
    return bool(np.abs(one - other).max() < SAME_M)


def _driven_m(plan: Float[np.ndarray, "ahead 4"]) -> float:
    steps = np.diff(plan[:, :2], axis=0, prepend=np.zeros((1, 2)))
    return float(np.linalg.norm(steps, axis=-1).sum())


def _nearness_m(
    objects: Objects, plans: Sequence[Float[np.ndarray, "ahead 4"]], vehicle: Vehicle
) -> Float[np.ndarray, "obj"]:
    """How near each object comes to the vehicle now and on its planned ways, if it
    keeps its velocity.
    """
    times_s = np.concatenate([[0.0], driving.AHEAD_S])
    moved = np.nan_to_num(objects.velocity_mps, nan=0.0)[:, None] * times_s[:, None]
    there_m = objects.corners_m[:, None] + moved[:, :, None]
    ways = [
        vehicle.corners_m(np.concatenate([np.zeros((1, 3)), plan[:, :3]]))
        for plan in plans
    ]
    apart_m = [clearance_m(way[None], there_m).min(axis=1) for way in ways]
    return np.minimum.reduce(apart_m)


def _smooth_path_m(
    speed_mps: float, *, acceleration_mps2: float, shift_m: float
) -> Path:
    """Positions of the vehicle at the next times if it keeps the acceleration and moves
    over by the shift.
    """
    u = AHEAD_S / AHEAD_S[-1]
    x_m = travelled_m(np.full(len(u), speed_mps), acceleration_mps2, AHEAD_S)
    return np.column_stack([x_m, shift_m * (3 * u**2 - 2 * u**3)])


def _sideways(shift_m: float) -> str:
    """A shift in words."""
    if not shift_m:
        return "straight on"
    side = "left" if shift_m > 0 else "right"
    return f"{abs(shift_m):g} m to the {side}"
