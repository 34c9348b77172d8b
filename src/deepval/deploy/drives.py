"""Allocators in closed loop: a scene and arms -> one drive per arm, with the same
traffic and the same noise.

An arm decides frame by frame which mode the downstream system sees; the system's action
moves its ego, and the next frame is what that ego sees. The other road users follow
their script and do not react. See docs/closed-loop.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.files.canonical import sha256
from deepval.deploy.allocators.allocator import Allocator
from deepval.deploy.allocators.router import Router
from deepval.deploy.features import Sight
from deepval.driving.cells.spec import DEFAULT_THRESHOLD
from deepval.driving.datasets.synthetic import WorldSettings, scene_of
from deepval.driving.datasets.synthetic.rides import Egos, Ride, Surroundings, followed
from deepval.driving.datasets.synthetic.traffic import LANE_M
from deepval.driving.geometry.vehicle import Vehicle, clearance_m
from deepval.driving.perception.placing import merge, monocular_objects
from deepval.driving.perception.reported.detections import DONE, Detections
from deepval.driving.planners.closed_loop import blamed, meeting
from deepval.driving.planners.controllers import Actions
from deepval.driving.planners.idm import Idm, Leader
from deepval.driving.planners.observation import (
    VEHICLE,
    Agents,
    agents_of,
    situation_at,
)
from deepval.driving.planners.pdm_closed import BRAKE_MPS2, PdmClosed
from deepval.driving.systems import Braking, RecedingHorizon
from deepval.driving.systems.system import FrameFlags, FrameValues
from deepval.driving.views import CheapMode, Frame, View, frames_of
from deepval.driving.world.lanes import Lane, LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.draws import Draws
from deepval.judge.intervals import interval_over
from deepval.judge.routing import Routing
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.terms import weighted_loss

PerEgo = Float[np.ndarray, "ego"]
EGO = Vehicle(front_m=2.0, rear_m=2.5, width_m=1.8, wheel_base_m=2.7)
"""The ego's body in its frame: its front is where the braking controller's stand-off
ends.
"""
COMFORT_MPS2, RETURN_MPS, HARD_MPS2 = 1.5, 0.5, 4.0
"""Acceleration on a free road, sideways speed back to the scripted offset, and
deceleration of a hard brake.
"""
AIM = 10
"""Index of the first second in a plan of PDM-Closed, whose steps are 0.1 s."""
NEVER, ALWAYS, RANDOM, PERFECT = "never", "always", "random", "perfect"
PLAIN = (NEVER, ALWAYS, RANDOM)
"""Arms without an allocator; the perfect one, which sees the truth, is driven in every
scene as the reference.
"""
CHEAP = CheapMode(threshold=DEFAULT_THRESHOLD)
"""How a router reads the cheap mode's report."""
REFERENCE = "reference"
"""The mode that reports the truth."""


@dataclass(frozen=True)
class RoadIdm(Braking):
    """IDM behind the nearest object in the corridor, judged by the loss of the braking
    controller.

    An action below 0 is an acceleration. `target_mps` is the desired speed.
    """

    idm: Idm = field(default_factory=Idm)
    target_mps: float = 10.0

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Actions | None = None,
    ) -> Actions:
        """The deceleration in each frame."""
        right_m, left_m = perceived.lateral_m.T
        inside = (
            (perceived.near_m > 0)
            & (left_m > -self.required.corridor_m)
            & (right_m < self.required.corridor_m)
        )
        rows = np.flatnonzero(inside)[
            np.argsort(-perceived.near_m[inside], kind="stable")
        ]
        gap_m, lead_mps = (
            np.full(len(scene), self.required.farthest_m),
            scene.ego_speed_mps.copy(),
        )
        # the nearest comes last and stays
        gap_m[perceived.frame[rows]] = perceived.near_m[rows]
        lead_mps[perceived.frame[rows]] -= perceived.closing_mps[rows]
        leads = zip(
            scene.ego_speed_mps.tolist(), gap_m.tolist(), lead_mps.tolist(), strict=True
        )
        follow = partial(self.idm.acceleration, target_mps=self.target_mps)
        decelerations = -np.array(
            [[follow(v, Leader("", gap, lead, EGO.front_m))] for v, gap, lead in leads]
        )
        # the last bits of an object depend on the number of egos
        return np.round(decelerations, 9)

    def terms(
        self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions
    ) -> FrameValues:
        """Loss terms of the decelerations; acceleration counts as none."""
        own, before = np.maximum(plans[:, :1], 0.0), np.maximum(previous[:, :1], 0.0)
        return super().terms(own, scene, truth, previous=before)


@dataclass(frozen=True)
class RoadPdm(RoadIdm):
    """PDM-Closed on the scripted road, judged by the loss of the braking controller.

    The action is the mean deceleration in the first second of its plan, at which
    trackers aim too, and the offset of the path that it follows.
    """

    pdm: PdmClosed = field(default_factory=PdmClosed)
    lane_map: LaneMap | None = None

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Actions | None = None,
    ) -> Actions:
        """Deceleration and offset in each frame; an object moves along the lane at the
        speed that closing implies.
        """
        actions = []
        for frame, v in enumerate(scene.ego_speed_mps.tolist()):
            objects, situation = perceived.at(frame), situation_at(scene, frame)
            along_mps = v - np.nan_to_num(objects.closing_mps)
            velocity_mps = np.column_stack([along_mps, np.zeros(len(objects))])
            agents = replace(
                agents_of(objects, situation.ego.pose), velocity_mps=velocity_mps
            )
            plan = self.pdm.plan(situation, agents)
            brake_mps2 = (
                -BRAKE_MPS2[0]
                if plan.emergency_brake
                else (v - plan.speed_mps[AIM]) / plan.times_s[AIM]
            )
            actions.append(
                (
                    round(float(brake_mps2), 9),
                    self.pdm.left_m[plan.chosen // len(self.pdm.speed_shares)],
                )
            )
        return np.array(actions)

    def on_road(self, scene: Scene, d_m: PerEgo) -> Scene:
        """The scene with the lanes around every ego; the road bends by its
        curvature.
        """
        world_from_ego = np.tile(np.eye(4), (len(scene), 1, 1))
        world_from_ego[:, 1, 3] = d_m
        return replace(
            scene,
            world_from_ego=world_from_ego,
            lane_map=self.lane_map,
            route=("own",),
            vehicle=EGO,
        )


def _lanes(ride: Ride) -> LaneMap:
    """The ego's lane and the oncoming one, as far as a plan reaches; the desired speed
    is the limit.
    """
    x_m = np.arange(-60.0, 301.0, 5.0)
    own_m, limit_mps = (
        np.column_stack([x_m, ride.script.curvature_per_m * x_m**2 / 2]),
        desired_mps(ride),
    )
    lines_m = {"own": own_m, "oncoming": own_m[::-1] + np.array([0.0, LANE_M])}
    lane = partial(Lane, half_width_m=LANE_M / 2, speed_limit_mps=limit_mps)
    return LaneMap({name: lane(name, line_m, name) for name, line_m in lines_m.items()})


Controller = Braking | RecedingHorizon
CONTROLLERS: dict[str, Controller] = {
    "braking": Braking(),
    "receding-horizon": RecedingHorizon(),
    "idm": RoadIdm(),
    "pdm-closed": RoadPdm(),
}
"""Systems that can drive the synthetic world."""


@dataclass(frozen=True, eq=False)
class Arm:
    """A way to choose the mode: never, always, at random, or an allocator with the
    routing of its scores.
    """

    name: str
    allocator: Allocator | None = None
    routing: Routing | None = None


@dataclass(frozen=True, eq=False)
class DriveSetting:
    """Everything that the drives of one world share: the world, two modes (cheap
    first), the system and the arms.
    """

    system: str
    arms: tuple[Arm, ...] = ()
    seed: int = 1
    settings: WorldSettings = field(default_factory=lambda: WorldSettings(200, 100))
    modes: tuple[tuple[str, int | None], ...] = (
        ("yolov8s-320", 320),
        ("yolov8s-640", 640),
    )
    alpha: float = 0.2

    def ride(self, unit: str) -> Ride:
        """A scene to be driven."""
        sizes = tuple(dict.fromkeys(size for _, size in self.modes if size is not None))
        return Ride(scene_of(self.seed, self.settings, unit), sizes)

    def controller(self, ride: Ride) -> Controller:
        """The system; the desired speed is the highest of the scripted ego."""
        system = CONTROLLERS[self.system]
        system = (
            replace(system, target_mps=desired_mps(ride))
            if isinstance(system, RoadIdm)
            else system
        )
        return (
            replace(system, lane_map=_lanes(ride))
            if isinstance(system, RoadPdm)
            else system
        )


def desired_mps(ride: Ride) -> float:
    """The speed that an ego returns to on a free road: the highest of the scripted ego,
    and at least 1 m/s.
    """
    return max(float(ride.script.speed_mps.max()), 1.0)


class ModeReports(NamedTuple):
    """Reports and objects of both modes, cheap first."""

    reports: list[Detections]
    objects: list[Objects]


def perceive(
    course: DriveSetting,
    ride: Ride,
    egos: Egos,
    truth: Truth,
    *,
    before: ModeReports | None,
    one_ego: bool = False,
) -> ModeReports:
    """What the modes report around each ego; closing speeds come from the same mode's
    boxes one step earlier.
    """
    by_size, reports, objects = ride.detections(egos, truth), [], []
    for index, (_, size) in enumerate(course.modes):
        if size is None:
            reports.append(_reference_report(truth))
            objects.append(truth.objects)
            continue
        report = by_size[size]
        used = report.where(report.score >= DEFAULT_THRESHOLD)
        if one_ego:
            objects.append(monocular_objects(used, ride.scene(egos.speed_mps)))
        else:
            old = None if before is None else before.reports[index]
            both = followed(
                used, None if old is None else old.where(old.score >= DEFAULT_THRESHOLD)
            )
            lifted = monocular_objects(both, ride.scene(np.zeros(len(both.status))))
            now = lifted.where(lifted.frame % 2 == 1)
            objects.append(replace(now, frames=len(egos.step), frame=now.frame // 2))
        reports.append(report)
    return ModeReports(reports, objects)


def _reference_report(truth: Truth) -> Detections:
    status = np.full(truth.frames, DONE)
    return Detections(
        truth.unit, truth.frame, truth.cls, np.ones(len(truth)), truth.box_px, status
    )


class DriveChoice:
    """The decisions of one arm in one scene; `router` is None for an arm without an
    allocator.
    """

    def __init__(
        self, arm: Arm, course: DriveSetting, unit: str, mode: CheapMode
    ) -> None:
        self.name, self.alpha, self.router = arm.name, course.alpha, None
        digest = int(sha256(f"{arm.name} {unit}".encode())[:16], 16)
        self.rng = np.random.default_rng([course.seed, digest])
        if arm.routing is not None:
            self.router = Router(arm.allocator, arm.routing, mode=mode)

    def escalates(self, frame: Frame) -> bool:
        """Whether the full mode is run on the next frame."""
        if self.router is None:
            return {NEVER: False, ALWAYS: True}.get(
                self.name, bool(self.rng.random() < self.alpha)
            )
        return self.router.decide(frame) != self.router.modes[0]


class FirstContact(NamedTuple):
    """The first contact with a road user: its frame, its kind, and whether the ego is
    at fault.
    """

    frame: int
    how: str
    at_fault: bool


@dataclass(frozen=True, eq=False)
class Driven:
    """The states of one arm's ego in one scene, step by step, and the road users that
    it touched.

    `escalated` is by frame. `off_log` counts the steps on which detections of a log no
    longer apply.
    """

    unit: str
    arm: str
    s_m: Float[np.ndarray, "time"]
    d_m: Float[np.ndarray, "time"]
    speed_mps: Float[np.ndarray, "time"]
    action: Float[np.ndarray, "time"]
    escalated: Bool[np.ndarray, "frame"]
    loss: Float[np.ndarray, "time"]
    clearance_m: Float[np.ndarray, "time"]
    contacts: tuple[FirstContact, ...]
    seconds: float
    start: int = 0
    off_log: int | None = None


def drive_scene(course: DriveSetting, unit: str) -> list[Driven]:
    """One drive per arm, and last the drive with perfect perception."""
    ride, arms = course.ride(unit), [*(arm.name for arm in course.arms), PERFECT]
    system, script, count = course.controller(ride), ride.script, len(arms)
    choices = [DriveChoice(arm, course, unit, CHEAP) for arm in course.arms]
    s_m, d_m, speed_mps = (
        np.full(count, float(path[0]))
        for path in (script.s_m, script.d_m, script.speed_mps)
    )
    previous = np.full(
        (count, 2 if isinstance(system, RecedingHorizon | RoadPdm) else 1), np.nan
    )
    view, seen, rows = None, None, []
    touched: list[dict[int, FirstContact]] = [{} for _ in arms]
    for step in range(ride.frames):
        egos = Egos(np.full(count, step), s_m, d_m, speed_mps)
        view, scene = ride.look(egos, view), ride.scene(speed_mps)
        seen = perceive(course, ride, egos, view.truth, before=seen)
        frames = zip(
            choices,
            frames_of(View(scene, seen.reports[0], CHEAP), images=False),
            strict=False,
        )
        marks = [one.escalates(replace(frame, dt_s=ride.dt_s)) for one, frame in frames]
        escalated = np.array([*marks, False])
        scene = system.on_road(scene, d_m) if isinstance(system, RoadPdm) else scene
        action = system.plan(
            _chosen(seen, view.truth, escalated), scene, previous=previous
        )
        loss = weighted_loss(
            system.terms(action, scene, view.truth, previous=previous), system.weights
        )
        asked_mps2 = (
            action[:, 0] if isinstance(system, RecedingHorizon) else -action[:, 0]
        )
        room_m = _contacts(touched, ride, egos, view)
        rows.append(
            (s_m, d_m, speed_mps, np.maximum(-asked_mps2, 0.0), escalated, loss, room_m)
        )
        change_mps2, sideways_mps = _motion(system, action, asked_mps2, ride, egos)
        speed_mps = np.maximum(speed_mps + change_mps2 * ride.dt_s, 0.0)
        s_m, d_m = (
            s_m + speed_mps * ride.dt_s,
            d_m + np.where(speed_mps > 0, sideways_mps * ride.dt_s, 0.0),
        )
        previous = action
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    seconds = (ride.frames - 1) * ride.dt_s
    # Road users that overlap the ego at the first frame do not count.
    contacts = [
        tuple(contact for contact in own.values() if contact.frame) for own in touched
    ]
    return [
        Driven(
            unit,
            arm,
            *(column[:, i] for column in columns),
            contacts=contacts[i],
            seconds=seconds,
        )
        for i, arm in enumerate(arms)
    ]


def _motion(
    system: Controller, action: Actions, asked_mps2: PerEgo, ride: Ride, egos: Egos
) -> tuple[PerEgo, PerEgo]:
    """The acceleration and the sideways speed of each ego until the next step."""
    free_mps2 = np.minimum(
        COMFORT_MPS2, (desired_mps(ride) - egos.speed_mps) / ride.dt_s
    )
    if isinstance(system, RoadIdm):
        free_mps2 = np.minimum(free_mps2, asked_mps2)
    path_m = ride.script.d_m[np.minimum(egos.step + 1, ride.frames - 1)]
    back_m = (action[:, 1] if isinstance(system, RoadPdm) else path_m) - egos.d_m
    sideways_mps = np.clip(back_m / ride.dt_s, -RETURN_MPS, RETURN_MPS)
    if isinstance(system, RecedingHorizon):
        sideways_mps = np.where(
            action[:, 1] == 0, sideways_mps, action[:, 1] / system.horizon_s
        )
    return np.where(asked_mps2 < 0, asked_mps2, free_mps2), sideways_mps


def _chosen(
    seen: ModeReports, truth: Truth, escalated: Bool[np.ndarray, "ego"]
) -> Objects:
    """The objects that each ego's system receives; the last ego receives the truth."""
    cheap, full = seen.objects
    last = len(escalated) - 1
    parts = (
        cheap.where(~escalated[cheap.frame] & (cheap.frame < last)),
        full.where(escalated[full.frame]),
        truth.objects.where(truth.frame == last),
    )
    return reduce(lambda one, other: merge(one, other)[0], parts)


def _contacts(
    touched: list[dict[int, FirstContact]], ride: Ride, egos: Egos, view: Surroundings
) -> PerEgo:
    """The distance of each ego from the nearest road user; new contacts are added to
    `touched`.
    """
    bodies, step = view.bodies, int(egos.step[0])
    apart_m = clearance_m(EGO.corners_m(np.zeros(3)), bodies.corners_m)
    room_m = np.full(len(egos.step), np.inf)
    np.minimum.at(room_m, bodies.frame, apart_m)
    actors, earlier = ride.script.actors, max(step - 1, 0)
    for row in np.flatnonzero(apart_m <= 0).tolist():
        ego, actor, corners_m = (
            int(bodies.frame[row]),
            int(bodies.actor[row]),
            bodies.corners_m[row],
        )
        if actor not in touched[ego]:
            moved_m = [
                path[actor, step] - path[actor, earlier]
                for path in (actors.s_m, actors.d_m)
            ]
            pose = np.array(
                [
                    [
                        *corners_m.mean(axis=0),
                        np.arctan2(*(corners_m[0] - corners_m[3])[::-1]),
                    ]
                ]
            )
            about = (
                np.array([str(actor)]),
                np.array([VEHICLE]),
                pose,
                actors.size_m[actor, None, :2],
            )
            other = Agents(*about, np.array([moved_m]) / ride.dt_s)
            how = meeting(
                np.zeros(3),
                float(egos.speed_mps[ego]),
                vehicle=EGO,
                agents=other,
                place=0,
            )
            out_of_lane = bool(abs(egos.d_m[ego]) > (LANE_M - EGO.width_m) / 2)
            touched[ego][actor] = FirstContact(
                step, how, blamed(how, lambda out=out_of_lane: out)
            )
    return room_m


class Followed(NamedTuple):
    """A scene along its script: the scene, its truth, what both modes report, and what
    an allocator sees of it.
    """

    scene: Scene
    truth: Truth
    seen: ModeReports
    sight: Sight


def follow_script(
    course: DriveSetting,
    unit: str,
    *,
    ahead_m: float = 0.0,
    left_m: float = 0.0,
    faster_mps: float = 0.0,
) -> Followed:
    """The scene as the scripted ego sees it, or one that is displaced from it in every
    frame.
    """
    ride = course.ride(unit)
    script = ride.script
    speed_mps = np.maximum(script.speed_mps + faster_mps, 0.0)
    egos = Egos(
        np.arange(ride.frames), script.s_m + ahead_m, script.d_m + left_m, speed_mps
    )
    truth = ride.look(egos, None, one_ego=True).truth
    seen, scene = (
        perceive(course, ride, egos, truth, before=None, one_ego=True),
        ride.scene(speed_mps),
    )
    return Followed(
        scene, truth, seen, Sight(View(scene, seen.reports[0], CHEAP), images=False)
    )


class DriveChoices(NamedTuple):
    """The score of each frame (NaN without one), and whether it is escalated."""

    score: Float[np.ndarray, "time"]
    escalated: Bool[np.ndarray, "time"]


def choices_along(arm: Arm, course: DriveSetting, along: Followed) -> DriveChoices:
    """The scores and choices of an arm along a script or log as the frames arrive; a
    score is NaN without one.
    """
    escalated = np.zeros(len(along.scene), dtype=bool)
    if arm.routing is not None and arm.allocator is not None:
        score = arm.allocator.score(along.sight)
        rows = np.flatnonzero(~np.isnan(score))
        escalated[rows] = arm.routing.replay(score[rows], np.zeros_like(rows), rows) > 0
        return DriveChoices(score, escalated)
    choice = DriveChoice(arm, course, along.scene.unit, along.sight.view.mode)
    for number, frame in enumerate(frames_of(along.sight.view, images=False)):
        escalated[number] = choice.escalates(frame)
    return DriveChoices(np.full(len(along.scene), np.nan), escalated)


def calibrated(
    allocator: Allocator,
    course: DriveSetting,
    scenes: Sequence[Followed],
    *,
    policy: str,
) -> Arm:
    """The allocator with a policy that escalates the course's share of these scenes,
    along their script or log.
    """
    scores = np.concatenate([allocator.score(one.sight) for one in scenes])
    routing = Routing.calibrate(
        scores[~np.isnan(scores)],
        course.alpha,
        policy=policy,
        modes=allocator.modes,
    )
    return Arm(allocator.name, allocator, routing)


def time_lost_s(progress_m: float, perfect_m: float, seconds: float) -> float:
    """Time behind perfect perception at its mean speed, taken as 1 m/s or more."""
    return (perfect_m - progress_m) / max(perfect_m / seconds, 1.0)


def onsets(decelerations_mps2: Float[np.ndarray, "time"]) -> int:
    """How often a hard brake begins."""
    hard = decelerations_mps2 >= HARD_MPS2 - 1e-9
    return int((hard & ~np.concatenate([[False], hard[:-1]])).sum())


def outcomes(
    driven: Sequence[Driven], modes: Sequence[str], costs: Costs
) -> list[dict[str, Any]]:
    """What came of the drives from one start, a row each; the last has perfect
    perception and no cost.

    `time_lost_s` compares the way driven with that of perfect perception, at its mean
    speed. `loss` is the system's own loss on the driven states, mean per frame; NaN on
    logged scenes. `compute_ms` is NaN where a cost is unknown.
    """
    way_m = [float(drive.s_m[-1] - drive.s_m[0]) for drive in driven]
    return [
        {
            "unit": drive.unit,
            "start": drive.start,
            "allocator": drive.arm,
            "seconds": drive.seconds,
            "collisions": len(drive.contacts),
            "at_fault": sum(contact.at_fault for contact in drive.contacts),
            "clearance_m": float(drive.clearance_m.min()),
            "hard_brakes": onsets(drive.action),
            "progress_m": own_m,
            "time_lost_s": time_lost_s(own_m, way_m[-1], drive.seconds),
            "loss": float(drive.loss.mean()),
            "frames": len(drive.escalated),
            "escalations": int(drive.escalated.sum()),
            "compute_ms": compute_ms(
                drive.arm,
                len(drive.escalated),
                int(drive.escalated.sum()),
                modes,
                costs,
            ),
            "off_log": drive.off_log,
        }
        for drive, own_m in zip(driven, way_m, strict=True)
    ]


def compute_ms(
    arm: str, frames: int, escalations: int, modes: Sequence[str], costs: Costs
) -> float:
    """Latency of a drive: cheap mode and allocator on all frames, full mode on
    escalated ones; NaN if one is unknown.

    Always running the full mode needs neither the cheap one nor an allocator.
    """
    cheap, full = (costs.modes.get(mode, {}).get("ms", np.nan) for mode in modes)
    own = 0.0 if arm in PLAIN else costs.allocators.get(arm, {}).get("ms", np.nan)
    return (
        frames * full if arm == ALWAYS else frames * (cheap + own) + escalations * full
    )


MEASURES = (
    "loss",
    "collisions",
    "at_fault",
    "hard_brakes",
    "progress_m",
    "time_lost_s",
    "compute_ms",
)


def summaries(rows: Sequence[Mapping[str, Any]], draws: Draws) -> list[dict[str, Any]]:
    """Per arm, the mean of each measure per drive, its interval, and the paired
    difference from the first arm.

    Units are resampled. A measure that some drive lacks is None. Rows of all arms are
    in the same order of drives.
    """
    base, names = (
        rows[0]["allocator"],
        list(dict.fromkeys(row["allocator"] for row in rows)),
    )
    by_arm = {name: [row for row in rows if row["allocator"] == name] for name in names}
    unit = np.unique([row["unit"] for row in by_arm[base]], return_inverse=True)[1]
    drawn = draws.counts @ np.bincount(unit)

    def estimate(values: Float[np.ndarray, "drive"]) -> dict[str, float | None] | None:
        if np.isnan(values).any():
            return None
        means = draws.counts @ np.bincount(unit, weights=values) / drawn
        bounds = interval_over(means, draws, scale=0.0)
        return {
            "mean": float(values.mean()),
            "low": None if bounds is None else bounds.low,
            "high": None if bounds is None else bounds.high,
        }

    table = []
    for arm, drives in by_arm.items():
        total = {
            name: sum(row[name] or 0 for row in drives)
            for name in ("escalations", "frames", "off_log")
        }
        entry: dict[str, Any] = {"allocator": arm, "drives": len(drives), "base": base}
        entry |= {
            "rate": total["escalations"] / total["frames"],
            "off_log": total["off_log"],
        }
        entry["clearance_m"] = min(row["clearance_m"] for row in drives)
        for name in MEASURES:
            own, first = (
                np.array([row[name] for row in by_arm[who]], dtype=float)
                for who in (arm, base)
            )
            entry |= {name: estimate(own), f"{name}_change": estimate(own - first)}
        table.append(entry)
    return table


def playback(
    course: DriveSetting, by_scene: Sequence[Sequence[Driven]]
) -> dict[str, Any]:
    """Numbers for a page that plays the first two arms, or the first and perfect
    perception, where they differ most.
    """
    driven = max(
        by_scene, key=lambda scene: abs(float((scene[0].loss - scene[1].loss).sum()))
    )
    actors = course.ride(driven[0].unit).script.actors

    def plain(values: np.ndarray) -> list[Any]:
        return np.round(values.astype(float), 2).tolist()

    arms = [
        {
            name: plain(getattr(drive, name))
            for name in ("s_m", "d_m", "speed_mps", "action", "escalated", "loss")
        }
        | {"name": drive.arm, "contacts": [list(contact) for contact in drive.contacts]}
        for drive in driven[:2]
    ]
    others = {
        name: plain(getattr(actors, name))
        for name in ("size_m", "s_m", "d_m", "heading_rad")
    }
    return {
        "unit": driven[0].unit,
        "system": course.system,
        "arms": arms,
        "actors": others,
    }
