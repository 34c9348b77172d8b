"""The learned planner's path against the logged future or against itself:
docs/definitions.md, Learned planner.

Plan = 16 positions, 0.25 to 4 s ahead, where the network's heat map is largest within
its masks. Loss = distance of the plan from its target: the mean over the steps (ADE) or
the last (FDE). The target is the logged path of the vehicle, for frames with a whole
future only, or the same planner's path under the reference boxes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError
from deepval.driving.planners.neural.plan_metrics import AHEAD_S, displacements_m
from deepval.driving.planners.neural.planner import (
    PUBLISHED,
    TRAINED_HERE,
    UNVERIFIED,
    LoadedPlanner,
    Origin,
    PlannerFiles,
    load_planner,
    planner_files,
)
from deepval.driving.systems.system import FrameFlags, FrameValues, System
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Future, Truth

Paths = Float[np.ndarray, "time step 2"]
HORIZON_S = float(AHEAD_S[-1])
LossOf = Literal["average-displacement", "final-displacement"]
TargetOf = Literal["logged", "self"]
LEARNED: dict[str, tuple[LossOf, TargetOf]] = {
    "planner-ade": ("average-displacement", "logged"),
    "planner-fde": ("final-displacement", "logged"),
    "planner-self-ade": ("average-displacement", "self"),
    "planner-self-fde": ("final-displacement", "self"),
}
"""Systems that need a planner's files: their loss, and the target that the plan is
compared with.
"""
MARKS: dict[Origin, str] = {
    PUBLISHED: "",
    TRAINED_HERE: "-trained-here",
    UNVERIFIED: "-unverified",
}
"""Suffix of a system's name, by the origin of its files."""


@dataclass(frozen=True)
class LearnedPlanner(System):
    """A planner by the hashes of its files, and how its plan is judged; `origin` is the
    source of the files.
    """

    loss: LossOf
    target: TargetOf
    weights_sha256: str
    masks_sha256: str
    origin: Origin
    weights_file: Path = field(compare=False, repr=False)
    masks_file: Path = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """Its name; unless the files are the published ones, with a mark that every
        table and page then shows.
        """
        return self.plain_name + MARKS[self.origin]

    @property
    def plain_name(self) -> str:
        """Its name as `--system` takes it, without the mark of the planner's origin."""
        return next(
            name
            for name, judged in LEARNED.items()
            if judged == (self.loss, self.target)
        )

    @property
    def planner(self) -> LoadedPlanner:
        """The planner in memory."""
        return load_planner(
            PlannerFiles(
                self.weights_file,
                self.masks_file,
                self.weights_sha256,
                self.masks_sha256,
                self.origin,
            )
        )

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of the only loss term."""
        return {"displacement": 1.0}

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Paths | None = None,
    ) -> Paths:
        """The planned path in each frame, independent of the previous plan."""
        return self.planner.paths_m(scene, perceived)

    def judged(self, scene: Scene, truth: Truth) -> Bool[np.ndarray, "time"]:
        """Frames with a logged future as long as a plan; all frames if the target is
        the planner's own path.
        """
        if self.target == "self":
            return np.ones(len(scene), dtype=bool)
        return (
            np.zeros(len(scene), dtype=bool)
            if truth.future is None
            else has_future(truth.future)
        )

    def terms(
        self, plans: Paths, scene: Scene, truth: Truth, *, previous: Paths
    ) -> FrameValues:
        """Distance of the plans from their target in metres."""
        if self.target == "self":
            wanted = self.planner.paths_m(scene, truth.objects)
        elif truth.future is None:
            return {"displacement": np.full(len(scene), np.nan)}
        else:
            wanted = logged_path_m(truth.future)
        off_m = displacements_m(plans, wanted)
        return {
            "displacement": off_m.mean(axis=1)
            if self.loss == "average-displacement"
            else off_m[:, -1]
        }

    def evidence(
        self, ends: Mapping[str, Objects], scene: Scene, truth: Truth
    ) -> FrameValues:
        """PKL and TIP of the cheap and of the full mode against the reference boxes."""
        found: dict[str, np.ndarray] = {}
        for end, objects in ends.items():
            found[f"{end}_PKL"], found[f"{end}_TIP"] = self.planner.pkl_and_tip(
                scene, truth.objects, objects
            )
        return found


def learned_planners(
    names: list[str], *, weights: Path, masks: Path
) -> list[LearnedPlanner]:
    """The named systems with the planner in these files, which are read and checked."""
    unknown = [name for name in names if name not in LEARNED]
    if unknown:
        raise InputError(
            "a system with a learned planner "
            f"must be one of {', '.join(LEARNED)}; found {unknown[0]!r}."
        )
    files = planner_files(weights, masks)
    hashes = (files.weights_sha256, files.masks_sha256, files.origin)
    return [
        LearnedPlanner(*LEARNED[name], *hashes, files.weights, files.masks)
        for name in names
    ]


def constant_velocity_m(scene: Scene) -> Paths:
    """Straight on at the present speed."""
    ahead_m = scene.ego_speed_mps[:, None] * AHEAD_S
    return np.stack([ahead_m, np.zeros_like(ahead_m)], axis=-1)


def has_future(future: Future) -> Bool[np.ndarray, "time"]:
    """Frames whose logged future covers the horizon of a plan."""
    needed = np.searchsorted(future.times_s, HORIZON_S - 1e-9) + 1
    if needed > len(future.times_s):
        return np.zeros(len(future.valid), dtype=bool)
    return np.asarray(future.valid[:, :needed].all(axis=1))


def logged_path_m(future: Future) -> Paths:
    """The logged positions at the steps of a plan: linear between logged times, at the
    origin now.
    """
    times_s = np.concatenate([[0.0], future.times_s])
    driven = np.concatenate(
        [np.zeros((len(future.pose), 1, 2)), future.pose[..., :2]], axis=1
    )
    after = np.clip(np.searchsorted(times_s, AHEAD_S - 1e-9), 1, len(times_s) - 1)
    share = ((AHEAD_S - times_s[after - 1]) / (times_s[after] - times_s[after - 1]))[
        :, None
    ]
    return driven[:, after - 1] * (1 - share) + driven[:, after] * share
