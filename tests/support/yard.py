"""A stranger's data set and system in one file: 3D boxes, two cameras, a logged future;
plans are trajectories.
"""

from dataclasses import dataclass

import numpy as np

from deepval.driving.datasets import Dataset
from deepval.driving.systems import System
from deepval.driving.world.truth import Future
from driving import camera, known, objects, scene

FRAMES, AHEAD_S = 8, np.arange(1, 5) * 0.5


@dataclass(frozen=True)
class Yard(Dataset):
    root: str | None = None
    name = "yard"

    def files(self, unit):
        return {}

    def unit_ids(self):
        return tuple(f"yard-{place}" for place in range(6))

    def read_unit(self, unit):
        cameras = {"left": camera(t_y=0.5), "right": camera(t_y=-0.5)}
        road = scene(FRAMES, unit=unit, speed_mps=4.0, dt_s=0.5, cameras=cameras)
        near_m = np.random.default_rng(int(unit[-1])).integers(6, 40, FRAMES) / 2
        things = objects(
            [(t, near, near + 4, -1, 1, 0) for t, near in enumerate(near_m)], FRAMES
        )
        driven = np.zeros((FRAMES, len(AHEAD_S), 3))
        driven[..., 0] = np.minimum(4.0 * AHEAD_S, near_m[:, None] - 2)
        logged = road.time_s[:, None] + AHEAD_S <= road.time_s[-1]
        return road, known(things, unit, future=Future(AHEAD_S, driven, logged))


@dataclass(frozen=True)
class Follow(System):
    gap_m: float = 2.0
    displacement_weight: float = 1.0

    def plan(self, perceived, scene, *, starts=None, previous=None):
        free_m = np.full(len(scene), np.inf)
        np.minimum.at(free_m, perceived.frame, perceived.near_m - self.gap_m)
        x_m = np.minimum(scene.ego_speed_mps[:, None] * AHEAD_S, free_m[:, None])
        return np.stack([x_m, np.zeros_like(x_m)], axis=-1)

    def terms(self, plans, scene, truth, *, previous):
        return {
            "displacement": np.linalg.norm(
                plans - truth.future.pose[..., :2], axis=-1
            ).mean(axis=1)
        }

    def judged(self, scene, truth):
        return truth.future.valid.all(axis=1)
