"""Scene: what the vehicle knows of one unit before escalation (ego motion, calibration, time, images).

Nothing of the reference is in here, so an allocator may read all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float, Shaped
from deepval.errors import InputError
from deepval.geometry.camera import Camera

FASTEST_MPS = 200.0
"""No vehicle is faster: an ego speed beyond it is a fault of the data."""


@dataclass(frozen=True)
class Scene:
    """One unit in time order: frame t has id `frame_ids[t]`, time `time_s[t]` and speed `ego_speed_mps[t]`.

    `image_paths` has one path or None per frame, or is empty; `images` is any sequence that gives the
    picture of frame t (height, width, RGB, uint8) on `images[t]`. `world_from_ego` is None where no pose is
    known.
    """

    unit: str
    frame_ids: Shaped[np.ndarray, "time"]
    time_s: Float[np.ndarray, "time"]
    ego_speed_mps: Float[np.ndarray, "time"]
    camera: Camera
    image_paths: tuple[Path | None, ...] = ()
    # Items are not typed: a run-time check would draw a picture to look at it.
    images: Sequence[Any] | np.ndarray | None = field(default=None, repr=False)
    world_from_ego: Float[np.ndarray, "time 4 4"] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        frames = len(self.frame_ids)
        if not len(self.time_s) == len(self.ego_speed_mps) == frames:
            raise InputError(f"unit {self.unit}: times and speeds must have one value per frame ({frames}).")
        if len(set(self.frame_ids.tolist())) != frames:
            raise InputError(f"unit {self.unit}: frame ids must be distinct.")
        if not ((np.diff(self.time_s) > 0).all() and np.isfinite(self.time_s).all()):
            raise InputError(f"unit {self.unit}: times must increase from frame to frame; check the time stamps.")
        strange = ~((self.ego_speed_mps >= 0) & (self.ego_speed_mps <= FASTEST_MPS))
        if strange.any():
            raise InputError(
                f"unit {self.unit}: ego speeds must be finite and not negative, and at most {FASTEST_MPS:g} m/s; "
                f"{self.inputs[strange][0]} has {self.ego_speed_mps[strange][0]:g}: check what the speed was read from."
            )
        for name, pictures in (("image paths", self.image_paths or None), ("images", self.images)):
            if pictures is not None and len(pictures) != frames:
                raise InputError(f"unit {self.unit}: {name} must be {frames}, one per frame; found {len(pictures)}.")

    def __len__(self) -> int:
        return len(self.frame_ids)

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
        """Whether there is a picture of each frame."""
        if self.images is not None:
            return np.ones(len(self), dtype=bool)
        return np.array([path is not None for path in self.image_paths or [None] * len(self)], dtype=bool)

    def image_source(self, frame: int) -> Path | np.ndarray:
        """The file with the picture of a frame, or the picture itself where it is held in memory."""
        if self.images is not None:
            return self.images[frame]
        path = self.image_paths[frame] if self.image_paths else None
        if path is None:
            raise InputError(
                f"frame {self.frame_ids[frame]} of unit {self.unit} must have an image; none was found: "
                "add the file, or leave the frame out."
            )
        return path


@dataclass(frozen=True)
class Ego:
    """The vehicle over the frames of one or more units: its speed, and where a chain of actions begins.

    `first[t]` says that frame t has no previous action: a unit's first frame, or one after a gap.
    """

    speed_mps: Float[np.ndarray, "time"]
    first: Bool[np.ndarray, "time"]


def ego_of(scenes: Sequence[Scene], run: Sequence[Bool[np.ndarray, "_"]] | None = None) -> Ego:
    """The vehicle over the frames of `scenes`, one after the other.

    Where `run` marks, per scene, the frames on which the cheap mode was run, an action has no predecessor
    after a frame on which it was not.
    """
    first = []
    for place, scene in enumerate(scenes):
        before = np.ones(len(scene), dtype=bool) if run is None else run[place]
        first.append(np.concatenate([[True], ~before[:-1]])[: len(scene)])
    speeds = [scene.ego_speed_mps for scene in scenes]
    return Ego(np.concatenate([np.zeros(0), *speeds]), np.concatenate([np.zeros(0, dtype=bool), *first]))
