"""A straight road with a lane map, a logged future and a planner that stops for what it
sees: no extra is needed.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.driving.datasets import Dataset
from deepval.driving.geometry.vehicle import ZOE, ground_corners_m
from deepval.driving.planners.observation import Planner, Trajectory
from deepval.driving.systems.driving import AHEAD_S
from deepval.driving.world.lanes import Lane, LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.truth import Future
from driving import known, scene

FRAMES, SPEED_MPS = 6, 8.0
TURN_RAD, START_M = 0.3, np.array([100.0, 50.0])
"""The road runs at an angle through the world, so that frames are told apart."""


def in_world(points):
    """Points along and beside the road in the world."""
    cos, sin = np.cos(TURN_RAD), np.sin(TURN_RAD)
    return (
        np.asarray(points, dtype=float) @ np.array([[cos, sin], [-sin, cos]]) + START_M
    )


def lane(name, left_m, *, begin=-30.0, end=200.0, successors=()):
    middle = in_world([(x, left_m) for x in np.arange(begin, end + 1, 5.0)])
    outline = in_world(
        [(begin, left_m + 2), (end, left_m + 2), (end, left_m - 2), (begin, left_m - 2)]
    )
    return Lane(
        name,
        middle,
        f"block-{name}",
        outline,
        successors=successors,
        speed_limit_mps=13.0,
    )


LANES = {
    one.id: one
    for one in (
        lane("own", 0.0),
        lane("left", 4.0),
        lane("far", 0.0, begin=900.0, end=950.0),
    )
}


def road(frames=FRAMES, *, unit="road-0", speed_mps=SPEED_MPS, dt_s=0.5, **more):
    """A drive straight along the lane."""
    pose = np.tile(np.eye(4), (frames, 1, 1))
    pose[:, :2, :2] = [
        [np.cos(TURN_RAD), -np.sin(TURN_RAD)],
        [np.sin(TURN_RAD), np.cos(TURN_RAD)],
    ]
    pose[:, :2, 3] = in_world([(speed_mps * dt_s * t, 0.0) for t in range(frames)])
    told = {
        "world_from_ego": pose,
        "lane_map": LaneMap(LANES),
        "route": ("block-own",),
        "vehicle": ZOE,
    }
    return scene(frames, unit=unit, speed_mps=speed_mps, dt_s=dt_s, **told | more)


def things(rows, frames=FRAMES, *, velocity_mps=None):
    """Rows are (frame, x, y, yaw, class) in the ego frame; cars of 4 m by 2 m, all
    others of 0.8 m by 0.8 m.
    """
    size_m = np.array(
        [(4.0, 2.0) if row[4] == "Car" else (0.8, 0.8) for row in rows]
    ).reshape(-1, 2)
    place = np.array([row[1:4] for row in rows], dtype=float).reshape(-1, 3)
    return Objects.of(
        frames,
        np.array([row[0] for row in rows], dtype=int),
        corners_m=ground_corners_m(place[:, :2], size_m, yaw_rad=place[:, 2]),
        closing_mps=np.zeros(len(rows)),
        names=np.array([row[4] for row in rows], dtype="<U14"),
        track=np.arange(len(rows)),
        velocity_mps=velocity_mps,
    )


def driven(
    frames=FRAMES, *, speed_mps=SPEED_MPS, others=(), logged=None, times_s=AHEAD_S
):
    """A future straight on at a speed; `others` has rows for `things` per time
    ahead.
    """
    pose = np.zeros((frames, len(times_s), 3))
    pose[..., 0] = speed_mps * times_s
    valid = np.ones((frames, len(times_s)), dtype=bool) if logged is None else logged
    rows = others or [[] for _ in times_s]
    return Future(times_s, pose, valid, tuple(things(each, frames) for each in rows))


@dataclass(frozen=True)
class Stopper(Planner):
    """Straight on at the present speed, at most to 3 m before the nearest that it sees
    in its way; counts its plans.
    """

    half_width_m: float = 1.5
    step_s: float = 0.5
    made: ClassVar[list[int]] = []

    def plan(self, situation, agents):
        Stopper.made.append(len(agents))
        ego, times_s = situation.ego, np.arange(0, 8.01, self.step_s)
        ahead = np.array([np.cos(ego.pose[2]), np.sin(ego.pose[2])])
        offset = agents.pose[:, :2] - ego.pose[:2]
        along, aside = offset @ ahead, offset @ [-ahead[1], ahead[0]]
        blocking = along[
            (along > 0) & (np.abs(aside) < self.half_width_m + agents.size_m[:, 1] / 2)
        ]
        free_m = (
            max(blocking.min() - 2.0 - ego.vehicle.front_m - 3.0, 0.0)
            if len(blocking)
            else np.inf
        )
        x_m = np.minimum(ego.speed_mps * times_s, free_m)
        pose = np.column_stack(
            [ego.pose[:2] + x_m[:, None] * ahead, np.full(len(x_m), ego.pose[2])]
        )
        return Trajectory(times_s, pose, np.where(x_m < free_m, ego.speed_mps, 0.0))


@dataclass(frozen=True)
class Roads(Dataset):
    """Drives towards a car that stands somewhere ahead; the log stops 2 m before it."""

    root: str | None = None
    name = "roads"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return tuple(f"road-{place}" for place in range(6))

    def read_unit(self, unit):
        drive, wall_m = road(unit=unit), 22.0 + 2 * int(unit[-1])
        x_m = [wall_m - SPEED_MPS * drive.time_s[t] for t in range(FRAMES)]
        rows = [(t, x, 0.0, 0.0, "Car") for t, x in enumerate(x_m)] + [
            (t, x, 4.0, 0.2, "Car") for t, x in enumerate(x_m)
        ]
        rows = sorted(
            (t, *rest) for t, *rest in rows if rest[0] > ZOE.front_m + 2.5 or rest[1]
        )
        future = driven(others=[rows] * len(AHEAD_S))
        room_m = np.array([x - 2.0 - ZOE.front_m - 2.0 for x in x_m])
        pose = future.pose.copy()
        pose[..., 0] = np.minimum(pose[..., 0], np.maximum(room_m, 0.0)[:, None])
        logged = np.ones((FRAMES, len(AHEAD_S)), dtype=bool)
        logged[-1, -1] = False
        return drive, known(
            things(rows), unit, future=Future(AHEAD_S, pose, logged, future.objects)
        )
