"""Scenes and truths with tracks -> training samples of the learned planner: road user, time, raster, target cells."""

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
"""Other road users are samples only where they move farther than this within the horizon of a plan."""
TOLERANCE_S = 0.05
"""Keyframes are not quite evenly spaced: a future may be this much shorter."""
VEHICLES = ("vehicle", "cyclist")
"""Super-classes that are samples besides the ego vehicle; trailers, which only follow, are not."""


@dataclass(frozen=True, eq=False)
class Mover:
    """One road user in the world frame at the times of its observations: (x, y, cos, sin), length and width."""

    time_s: Float[np.ndarray, "time"]
    state: Float[np.ndarray, "time 4"]
    size_m: tuple[float, float]
    vehicle: bool

    def at(self, time_s: Float[np.ndarray, "*when"]) -> Float[np.ndarray, "*when 3"]:
        """Pose (x, y, heading), linear between observations."""
        x, y, cos, sin = (np.interp(time_s, self.time_s, column) for column in self.state.T)
        return np.stack([x, y, np.arctan2(sin, cos)], axis=-1)

    def there(self, time_s: float) -> bool:
        """Whether the time lies between its first and last observation."""
        return bool(self.time_s[0] <= time_s <= self.time_s[-1])

    def starts_s(self, every_s: float) -> Float[np.ndarray, "when"]:
        """Times whose future is observed over the horizon of a plan."""
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
        """The road user's raster: the road, all other road users with the ego vehicle, and itself."""
        mover, when = self.movers[self.who[sample]], float(self.when_s[sample])
        pose = mover.at(np.array(when))
        others = [other for other in self.movers if other is not mover and other.there(when)]
        poses = np.array([other.at(np.array(when)) for other in others]).reshape(-1, 3)
        size_m = np.array([other.size_m for other in others]).reshape(-1, 2)
        corners = ground_corners_m(seen_from(poses[:, :2], pose), size_m, yaw_rad=poses[:, 2] - pose[2])
        return whole_raster(road_raster(self.drawing, pose, grid=grid), corners, mover.size_m, grid=grid)

    def target(self, sample: int, grid: PlanGrid) -> Int[np.ndarray, "step 2"]:
        """The road user's cell at every step; -1 outside the grid."""
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
        cells = [unit.target(sample, self.grid) for unit in self.units for sample in range(len(unit))]
        return np.array(cells, dtype=int).reshape(-1, STEPS, 2)

    def raster(self, sample: int) -> Bool[np.ndarray, "5 x y"]:
        """The raster of a sample."""
        ends = np.cumsum([len(unit) for unit in self.units])
        index = int(np.searchsorted(ends, sample, side="right"))
        return self.units[index].raster(sample - int(ends[index] - len(self.units[index])), self.grid)

    @cached_property
    def masks(self) -> Bool[np.ndarray, "step x y"]:
        """The cells that some sample is in at each step, with their mirror images."""
        cells = np.zeros((STEPS, self.grid.cells, self.grid.cells), dtype=bool)
        step = np.broadcast_to(np.arange(STEPS), self.targets.shape[:2])
        inside = self.targets[..., 0] >= 0
        cells[step[inside], self.targets[inside][:, 0], self.targets[inside][:, 1]] = True
        return cells | cells[:, :, ::-1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of road users, times and target cells."""
        units = [[unit.unit, unit.who.tolist(), unit.when_s.tolist()] for unit in self.units]
        return digest_of([units, self.targets.tolist()])


def unit_samples(scene: Scene, truth: Truth, *, every_s: float = 0.25, ego_only: bool = True) -> UnitSamples:
    """The samples of one unit: its ego vehicle every `every_s`, and unless `ego_only` other vehicles that move."""
    movers = (_ego(scene), *_others(scene, truth))
    who, when = [], []
    for index, mover in enumerate(movers):
        if index and (ego_only or not mover.vehicle):
            continue
        starts = mover.starts_s(every_s)
        if index:
            end = np.minimum(starts + HORIZON_S, mover.time_s[-1])
            way = mover.at(end)[:, :2] - mover.at(starts)[:, :2] if len(starts) else np.zeros((0, 2))
            starts = starts[np.hypot(*way.T) > LEAST_WAY_M]
        who.append(np.full(len(starts), index))
        when.append(starts)
    return UnitSamples(scene.unit, drawn_map(scene), movers, np.concatenate(who), np.concatenate(when))


def samples_of(units: Sequence[UnitSamples], grid: PlanGrid) -> PlannerSamples:
    """Samples to train on; there must be some, and every step must stay on the grid for one of them."""
    samples = PlannerSamples(tuple(units), grid)
    if not len(samples):
        raise InputError(
            f"training a planner needs units that were logged for {HORIZON_S:g} s or more; of the {len(units)} given "
            "none was."
        )
    if not samples.masks.any(axis=(1, 2)).all():
        raise InputError("training a planner needs a road user that stays on the grid at every step; found none.")
    return samples


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
    movers = []
    for track in np.unique(objects.track):
        rows = np.flatnonzero(objects.track == track)
        first = rows[0]
        vehicle = str(kinds[first]) in VEHICLES and str(objects.cls[first]).lower() != "trailer"
        size = (float(size_m[first, 0]), float(size_m[first, 1]))
        movers.append(Mover(scene.time_s[objects.frame[rows]], state[rows], size, vehicle))
    return movers
