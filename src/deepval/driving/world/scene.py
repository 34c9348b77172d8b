"""Scene: the vehicle's information on one unit before escalation (ego motion,
calibration, time, images, map, route).

It has no part of the reference, so an allocator may read all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.world.lanes import FARTHEST_M, LaneMap, on_earth
from deepval.judge.report.text_tables import quantity

FASTEST_MPS = 200.0
"""Highest plausible ego speed: a higher one is a fault of the data."""


@dataclass(frozen=True, eq=False)
class Scene:
    """One unit in time order: frame t has id `frame_ids[t]`, time `time_s[t]` and speed
    `ego_speed_mps[t]`.

    `cameras` are by name; detectors use the first. `image_paths` has one path or None
    per frame of that camera, or is empty; `images` is a sequence whose item t is the
    picture of frame t (height, width, RGB, uint8). `world_from_ego` is None without
    poses, `lane_map` without a map, `vehicle` where the size of the ego vehicle is
    unknown. `unpictured` counts the frames of the recording that are left out because
    they have no picture.

    `route` names the roadblocks to follow. At frame t, `route_at(t)` is its part from
    index `route_starts[t]` (None: from the first) to before index `route_ends[t]`
    (None: to the last; set where a unit joins several drives). `red_lights` has the ids
    of the lanes that a red light shuts, frame by frame, or is empty. The ego frame is
    at the rear axle where planners drive.
    """

    unit: str
    frame_ids: Shaped[np.ndarray, "time"]
    time_s: Float[np.ndarray, "time"]
    ego_speed_mps: Float[np.ndarray, "time"]
    cameras: Mapping[str, Camera]
    image_paths: tuple[Path | None, ...] = ()
    # Items are untyped: a run-time type check of an item would draw a picture.
    images: Sequence[Any] | np.ndarray | None = field(default=None, repr=False)
    world_from_ego: Float[np.ndarray, "time 4 4"] | None = field(
        default=None, repr=False
    )
    lane_map: LaneMap | None = field(default=None, repr=False)
    route: tuple[str, ...] = ()
    route_starts: Int[np.ndarray, "time"] | None = None
    route_ends: Int[np.ndarray, "time"] | None = None
    red_lights: tuple[frozenset[str], ...] = ()
    vehicle: Vehicle | None = None
    ego_acceleration_mps2: Float[np.ndarray, "time"] | None = None
    unpictured: int = 0

    def __post_init__(self) -> None:
        frames = len(self.frame_ids)
        if not self.cameras:
            raise InputError(f"unit {self.unit}: a scene needs a camera; found none.")
        if not len(self.time_s) == len(self.ego_speed_mps) == frames:
            raise InputError(
                f"unit {self.unit}: times and speeds must have "
                f"one value per frame ({frames})."
            )
        if len(set(self.frame_ids.tolist())) != frames:
            raise InputError(f"unit {self.unit}: frame ids must be distinct.")
        if not ((np.diff(self.time_s) > 0).all() and np.isfinite(self.time_s).all()):
            raise InputError(
                f"unit {self.unit}: times must increase from frame to frame; check "
                "the time stamps."
            )
        strange = ~((self.ego_speed_mps >= 0) & (self.ego_speed_mps <= FASTEST_MPS))
        if strange.any():
            raise InputError(
                f"unit {self.unit}: ego speeds must be finite and not negative, and "
                f"at most {FASTEST_MPS:g} m/s; {self.inputs[strange][0]} has "
                f"{self.ego_speed_mps[strange][0]:g}: check the source of the speed."
            )
        if self.world_from_ego is not None and not on_earth(self.world_from_ego):
            raise InputError(
                f"unit {self.unit}: poses must be finite, with coordinates of at most "
                f"{FARTHEST_M:g} m; found others."
            )
        per_frame = {
            "image paths": self.image_paths or None,
            "images": self.images,
            "poses": self.world_from_ego,
            "starts of the route": self.route_starts,
            "ends of the route": self.route_ends,
            "sets of red lights": self.red_lights or None,
            "accelerations": self.ego_acceleration_mps2,
        }
        for name, items in per_frame.items():
            if items is not None and len(items) != frames:
                raise InputError(
                    f"unit {self.unit}: {name} must be {frames}, "
                    f"one per frame; found {len(items)}."
                )

    def __len__(self) -> int:
        return len(self.frame_ids)

    @property
    def camera(self) -> Camera:
        """The camera of the detectors: the first."""
        return next(iter(self.cameras.values()))

    @property
    def inputs(self) -> Shaped[np.ndarray, "time"]:
        """Ids of the inputs, unique over a data set: unit/frame id."""
        return np.array([f"{self.unit}/{frame_id}" for frame_id in self.frame_ids])

    @property
    def dt_s(self) -> Float[np.ndarray, "time"]:
        """Time since the frame before; NaN at the first frame."""
        return np.concatenate([[np.nan], np.diff(self.time_s)])[: len(self)]

    @property
    def has_image(self) -> Bool[np.ndarray, "time"]:
        """Whether a frame has a picture."""
        if self.images is not None:
            return np.ones(len(self), dtype=bool)
        return np.array(
            [path is not None for path in self.image_paths or [None] * len(self)],
            dtype=bool,
        )

    def route_at(self, frame: int) -> tuple[str, ...]:
        """Ids of the roadblocks to follow from a frame on."""
        start = None if self.route_starts is None else int(self.route_starts[frame])
        end = None if self.route_ends is None else int(self.route_ends[frame])
        return self.route[start:end]

    def image_source(self, frame: int) -> Path | np.ndarray:
        """The file with the picture of a frame, or the picture itself where it is in
        memory.
        """
        if self.images is not None:
            return self.images[frame]
        path = self.image_paths[frame] if self.image_paths else None
        if path is None:
            raise InputError(
                f"frame {self.frame_ids[frame]} of unit {self.unit} must have an "
                "image; none was found: add the file, or leave the frame out."
            )
        return path

    def part(self, frames: slice) -> "Scene":
        """A scene of some consecutive frames only."""

        def some(items: Any) -> Any:
            return None if items is None else items[frames]

        return replace(
            self,
            frame_ids=self.frame_ids[frames],
            time_s=self.time_s[frames],
            ego_speed_mps=self.ego_speed_mps[frames],
            image_paths=self.image_paths[frames],
            images=some(self.images),
            world_from_ego=some(self.world_from_ego),
            route_starts=some(self.route_starts),
            route_ends=some(self.route_ends),
            red_lights=self.red_lights[frames],
            ego_acceleration_mps2=some(self.ego_acceleration_mps2),
        )


class PictureFiles(NamedTuple):
    """Pictures of a data set by unit, with the numbers of frames and units that are
    left out for lack of a picture.
    """

    units: dict[str, list[tuple[int, Path]]]
    frames_left_out: int
    units_left_out: int

    @property
    def note(self) -> str:
        """The numbers in a sentence."""
        frames, units = (
            quantity(sum(map(len, self.units.values())), "frame"),
            quantity(len(self.units), "unit"),
        )
        others = (
            f"{quantity(self.frames_left_out, 'frame')}, "
            f"among them {quantity(self.units_left_out, 'whole unit')}"
        )
        return (
            f"pictures of {frames} in {units}; left "
            f"out for lack of one: {others if self.frames_left_out else 'none'}"
        )


def pictures_of(scenes: Iterable[Scene]) -> PictureFiles:
    """Pictures by unit: a frame's id is its number if frames are numbered, otherwise
    its index in the unit.
    """
    units, frames, empty = {}, 0, 0
    for scene in scenes:
        ids = scene.frame_ids.astype(str)
        numbers = ids.astype(int) if np.char.isdigit(ids).all() else np.arange(len(ids))
        paths = scene.image_paths or (None,) * len(ids)
        pictures = [
            (int(number), path)
            for number, path in zip(numbers, paths, strict=True)
            if path is not None
        ]
        frames += len(ids) + scene.unpictured - len(pictures)
        empty += not pictures
        units |= {scene.unit: pictures} if pictures else {}
    return PictureFiles(units, frames, empty)
