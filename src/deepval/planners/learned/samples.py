"""Scenes and truths with tracks -> samples to train the learned planner on: who, when, what it sees, where it goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.files.canonical import digest_of
from deepval.geometry.classes import super_class
from deepval.geometry.vehicle import ground_corners_m
from deepval.planners.learned.masks import AHEAD_S, STEPS, PlanGrid
from deepval.planners.learned.rasters import (
    RoadDrawing,
    drawn_map,
    ego_poses,
    own_size_m,
    road_raster,
    seen_from,
    whole_raster,
)
from deepval.world.scene import Scene
from deepval.world.truth import Truth

HORIZON_S = float(AHEAD_S[-1])
LEAST_WAY_M = 0.2
"""Others are samples only where they move further than this in the time that a plan spans."""
TOLERANCE_S = 0.05
"""Keyframes are not quite evenly spaced: a future may be this much shorter."""
VEHICLES = ("vehicle", "cyclist")
"""Super-classes that are samples beside the ego vehicle; trailers, which follow, are not."""


@dataclass(frozen=True, eq=False)
class Mover:
    """One road user in the world frame at the times when it was seen: (x, y, cos, sin), length and width."""

    time_s: Float[np.ndarray, "time"]
    state: Float[np.ndarray, "time 4"]
    size_m: tuple[float, float]
    vehicle: bool

    def at(self, time_s: Float[np.ndarray, "*when"]) -> Float[np.ndarray, "*when 3"]:
        """Pose (x, y, heading), linear between the times when it was seen."""
        x, y, cos, sin = (np.interp(time_s, self.time_s, column) for column in self.state.T)
        return np.stack([x, y, np.arctan2(sin, cos)], axis=-1)

    def there(self, time_s: float) -> bool:
        """Whether it was seen before and after."""
        return bool(self.time_s[0] <= time_s <= self.time_s[-1])

    def starts_s(self, every_s: float) -> Float[np.ndarray, "when"]:
        """Times from which it can be followed for as long as a plan spans."""
        room = self.time_s[-1] - self.time_s[0] - HORIZON_S + TOLERANCE_S
        return self.time_s[0] + every_s * np.arange(int(np.floor(room / every_s + 1e-9)) + 1 if room >= 0 else 0)


@dataclass(frozen=True, eq=False)
class UnitSamples:
    """The samples of one unit: sample i is road user `who[i]` (0: the ego vehicle) at `when_s[i]`."""

    unit: str
    drawing: RoadDrawing
    movers: tuple[Mover, ...]
    who: Int[np.ndarray, "sample"]
    when_s: Float[np.ndarray, "sample"]

    def __len__(self) -> int:
        return len(self.who)

    def raster(self, sample: int, grid: PlanGrid) -> Bool[np.ndarray, "5 x y"]:
        """What the road user sees: the road, all others, the ego vehicle among them, and itself."""
        mover, when = self.movers[self.who[sample]], float(self.when_s[sample])
        pose = mover.at(np.array(when))
        others = [each for each in self.movers if each is not mover and each.there(when)]
        poses = np.array([each.at(np.array(when)) for each in others]).reshape(-1, 3)
        size_m = np.array([each.size_m for each in others]).reshape(-1, 2)
        corners = ground_corners_m(seen_from(poses[:, :2], pose), size_m, yaw_rad=poses[:, 2] - pose[2])
        return whole_raster(road_raster(self.drawing, pose, grid=grid), corners, mover.size_m, grid=grid)

    def target(self, sample: int, grid: PlanGrid) -> Int[np.ndarray, "step 2"]:
        """The cell in which the road user is at each step; -1 where that is outside the grid."""
        mover, when = self.movers[self.who[sample]], float(self.when_s[sample])
        ahead = mover.at(np.minimum(when + AHEAD_S, mover.time_s[-1]))
        cells = grid.cell_of(seen_from(ahead[:, :2], mover.at(np.array(when))))
        inside = np.asarray(((cells >= 0) & (cells < grid.cells)).all(axis=1))
        return np.where(inside[:, None], cells, -1).astype(int)


@dataclass(frozen=True, eq=False)
class PlannerSamples:
    """The samples of several units, one after the other."""

    units: tuple[UnitSamples, ...]
    grid: PlanGrid

    def __len__(self) -> int:
        return sum(map(len, self.units))

    @cached_property
    def targets(self) -> Int[np.ndarray, "sample step 2"]:
        """The target of every sample."""
        found = [unit.target(sample, self.grid) for unit in self.units for sample in range(len(unit))]
        return np.array(found, dtype=int).reshape(-1, STEPS, 2)

    def raster(self, sample: int) -> Bool[np.ndarray, "5 x y"]:
        """What a sample sees."""
        ends = np.cumsum([len(unit) for unit in self.units])
        place = int(np.searchsorted(ends, sample, side="right"))
        return self.units[place].raster(sample - int(ends[place] - len(self.units[place])), self.grid)

    @cached_property
    def masks(self) -> Bool[np.ndarray, "step x y"]:
        """The cells that some sample is in at each step, with their mirror images."""
        found = np.zeros((STEPS, self.grid.cells, self.grid.cells), dtype=bool)
        step = np.broadcast_to(np.arange(STEPS), self.targets.shape[:2])
        inside = self.targets[..., 0] >= 0
        found[step[inside], self.targets[inside][:, 0], self.targets[inside][:, 1]] = True
        return found | found[:, :, ::-1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of who is where and when."""
        told = [[unit.unit, unit.who.tolist(), unit.when_s.tolist()] for unit in self.units]
        return digest_of([told, self.targets.tolist()])


def unit_samples(scene: Scene, truth: Truth, *, every_s: float = 0.25, ego_only: bool = True) -> UnitSamples:
    """The samples of one unit: its ego vehicle every so often, and other vehicles that move where wanted."""
    movers = (_ego(scene), *_others(scene, truth))
    who, when = [], []
    for place, mover in enumerate(movers):
        if place and (ego_only or not mover.vehicle):
            continue
        starts = mover.starts_s(every_s)
        if place:
            end = np.minimum(starts + HORIZON_S, mover.time_s[-1])
            way = mover.at(end)[:, :2] - mover.at(starts)[:, :2] if len(starts) else np.zeros((0, 2))
            starts = starts[np.hypot(*way.T) > LEAST_WAY_M]
        who.append(np.full(len(starts), place))
        when.append(starts)
    return UnitSamples(scene.unit, drawn_map(scene), movers, np.concatenate(who), np.concatenate(when))


def samples_of(units: Sequence[UnitSamples], grid: PlanGrid) -> PlannerSamples:
    """Samples to train on; there must be some, and every step must stay on the grid for one of them."""
    found = PlannerSamples(tuple(units), grid)
    if not len(found):
        raise InputError(
            f"training a planner needs units that were logged for {HORIZON_S:g} s or more; of the {len(units)} given "
            "none was."
        )
    if not found.masks.any(axis=(1, 2)).all():
        raise InputError("training a planner needs a road user that stays on the grid at every step; found none.")
    return found


def _ego(scene: Scene) -> Mover:
    pose = ego_poses(scene)
    state = np.column_stack([pose[:, :2], np.cos(pose[:, 2]), np.sin(pose[:, 2])])
    return Mover(scene.time_s, state, own_size_m(scene), vehicle=True)


def _others(scene: Scene, truth: Truth) -> list[Mover]:
    """The reference's tracks in the world, from footprints in the ego frame."""
    objects, poses = truth.objects, ego_poses(scene)
    if (objects.track < 0).any():
        raise InputError(f"unit {scene.unit}: training a planner needs a track id for every reference object.")
    corners = objects.corners_m
    front, rear = corners[:, :2].mean(axis=1), corners[:, 2:].mean(axis=1)
    ahead, across = front - rear, corners[:, 0] - corners[:, 1]
    pose = poses[objects.frame]
    yaw = np.arctan2(ahead[:, 1], ahead[:, 0]) + pose[:, 2]
    cos, sin = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    x, y = corners.mean(axis=1).T
    state = np.column_stack([cos * x - sin * y + pose[:, 0], sin * x + cos * y + pose[:, 1], np.cos(yaw), np.sin(yaw)])
    size_m = np.column_stack([np.hypot(*ahead.T), np.hypot(*across.T)])
    kinds = super_class(objects.cls)
    found = []
    for track in np.unique(objects.track):
        rows = np.flatnonzero(objects.track == track)
        first = rows[0]
        vehicle = str(kinds[first]) in VEHICLES and str(objects.cls[first]).lower() != "trailer"
        size = (float(size_m[first, 0]), float(size_m[first, 1]))
        found.append(Mover(scene.time_s[objects.frame[rows]], state[rows], size, vehicle))
    return found
