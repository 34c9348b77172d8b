"""Made-up drives for tests: a straight road, others that move evenly, a planner that
keeps its speed, a log of both.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deepval.driving.datasets import Dataset
from deepval.driving.datasets.logs.log import Log, LoggedTrack
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners.closed_loop import Replay
from deepval.driving.planners.observation import (
    VEHICLE,
    Agents,
    EgoState,
    Planner,
    Trajectory,
)
from deepval.driving.world.lanes import Lane, LaneMap
from driving import camera

PARKED = ("car", VEHICLE, 30.0, 0.0, 0.0, 4.0, 2.0, 0.0, 0.0)


@dataclass(frozen=True)
class Cruise(Planner):
    """Keeps to y = 0 at its speed, and stands still before whatever it sees within
    `room_m` ahead of it.
    """

    speed_mps: float = 5.0
    room_m: float = 0.0
    step_s: float = 0.5
    asked: list = field(default_factory=list)

    def plan(self, situation, agents):
        self.asked.append((situation, agents))
        pose = situation.ego.pose
        ahead = agents.pose[:, 0] - pose[0]
        speed = 0.0 if ((ahead > 0) & (ahead < self.room_m)).any() else self.speed_mps
        times = np.arange(0, 8.01, self.step_s)
        poses = np.column_stack(
            [pose[0] + speed * times, np.zeros_like(times), np.zeros_like(times)]
        )
        return Trajectory(times, poses, np.full(len(times), speed))


def straight(*, length_m=100.0, lanes=3):
    """Lanes one after another along x, 4 m wide, each a roadblock, beside each other a
    second row to the left.
    """
    made = {}
    for row, y in enumerate((0.0, 4.0)):
        for place in range(lanes):
            low, high = place * length_m, (place + 1) * length_m
            outline = np.array(
                [[low, y - 2], [high, y - 2], [high, y + 2], [low, y + 2]]
            )
            name = f"{'ab'[row]}{place}"
            after = (f"{'ab'[row]}{place + 1}",) if place + 1 < lanes else ()
            line = np.array([[low, y], [high, y]])
            made[name] = Lane(
                name,
                line,
                f"rb_{name}",
                outline if row else np.zeros((0, 2)),
                2.0,
                after,
                13.0,
            )
    return LaneMap(made)


def others(*rows):
    """Rows are (id, kind, x, y, heading, length, width, vx, vy)."""
    table = np.array([row[2:] for row in rows], dtype=float).reshape(-1, 7)
    ids, kinds = (
        np.array([row[0] for row in rows], dtype=str),
        np.array([row[1] for row in rows], dtype=int),
    )
    return Agents(ids, kinds, table[:, :3], table[:, 3:5], table[:, 5:])


def replay(*rows, steps=61, speed=5.0, x=10.0, y=0.0, **more):
    """The others move evenly from where the rows say."""
    seen = [
        others(
            *[
                (r[0], r[1], r[2] + 0.1 * step * r[7], r[3] + 0.1 * step * r[8], *r[4:])
                for r in rows
            ]
        )
        for step in range(steps)
    ]
    pose = np.array([x, y, 0.0])
    logged = np.tile(pose, (steps, 1)) + np.outer(
        0.1 * speed * np.arange(steps), [1, 0, 0]
    )
    lane_map = straight()
    route = more.pop("route", ("rb_a0", "rb_a1", "rb_a2"))
    return Replay(
        EgoState(pose, speed, ZOE), lane_map, route, tuple(seen), logged, **more
    )


def log(*, steps=41, step_s=0.1, valid=None, **more):
    """An ego at 5 m/s along x and a car 20 m ahead at 3 m/s that turns across pi."""
    times = step_s * np.arange(steps)
    world_from_ego = np.tile(np.eye(4), (steps, 1, 1))
    world_from_ego[:, 0, 3] = 10 + 5 * times
    track = LoggedTrack(
        id="car",
        cls="Car",
        centre_m=np.column_stack([30 + 3 * times, np.zeros((steps, 2))]),
        heading_rad=np.arctan2(np.sin(3.0 + 0.5 * times), np.cos(3.0 + 0.5 * times)),
        size_m=np.tile([4.0, 2.0, 1.5], (steps, 1)),
        velocity_mps=np.tile([3.0, 0.0], (steps, 1)),
        valid=np.ones(steps, dtype=bool) if valid is None else np.array(valid),
    )
    return Log(
        unit="made",
        time_s=7.0 + times,
        world_from_ego=world_from_ego,
        speed_mps=np.full(steps, 5.0),
        vehicle=ZOE,
        camera=replace(camera(), width_px=1242, height_px=375),
        tracks=(track,),
        lane_map=straight(),
        route=("rb_a0", "rb_a1", "rb_a2"),
        states=np.arange(0, steps, 5),
        **more,
    )


@dataclass(frozen=True)
class TwoLogs(Dataset):
    """Two logs: one vehicle drives 2 m/s faster than the other before it."""

    root: Path
    name = "yard"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return ("far", "near")

    def read_log(self, unit):
        return log(steps=41 if unit == "far" else 121)

    def read_unit(self, unit):
        return unit_of(self.read_log(unit))
