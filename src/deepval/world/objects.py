"""Objects in the ego frame: one type for perceived, labelled and logged objects, and the braking they require."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.geometry.motion import BrakingSettings, stopping_deceleration_mps2
from deepval.geometry.vehicle import extent_m, rectangles_m


@dataclass(frozen=True)
class Objects:
    """Flat lists of objects over `frames` frames, sorted by `frame`, by their four ground corners.

    Ego frame: x forward, y left, metres. `closing_mps` is the closing speed (0: unknown), `cls` the class ("":
    unknown), `track` the id within the unit (-1: none), `velocity_mps` the object's own (x, y) velocity (NaN: unknown).
    """

    frames: int
    frame: Int[np.ndarray, "obj"]
    corners_m: Float[np.ndarray, "obj 4 2"]
    closing_mps: Float[np.ndarray, "obj"]
    cls: Shaped[np.ndarray, "obj"]
    track: Int[np.ndarray, "obj"]
    velocity_mps: Float[np.ndarray, "obj 2"]

    def __post_init__(self) -> None:
        check_frames(self.frame, self.frames)

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def of(
        cls,
        frames: int,
        frame: Int[np.ndarray, "obj"],
        *,
        corners_m: Float[np.ndarray, "obj 4 2"],
        closing_mps: Float[np.ndarray, "obj"],
        names: Shaped[np.ndarray, "obj"] | None = None,
        track: Int[np.ndarray, "obj"] | None = None,
        velocity_mps: Float[np.ndarray, "obj 2"] | None = None,
    ) -> "Objects":
        """Objects whose class, track or velocity may be unknown (None)."""
        return cls(
            frames=frames,
            frame=frame,
            corners_m=corners_m,
            closing_mps=closing_mps,
            cls=np.full(len(frame), "") if names is None else names,
            track=np.full(len(frame), -1) if track is None else track,
            velocity_mps=np.full((len(frame), 2), np.nan) if velocity_mps is None else velocity_mps,
        )

    @cached_property
    def near_m(self) -> Float[np.ndarray, "obj"]:
        """Range: smallest x of the ground corners (the near face)."""
        return extent_m(self.corners_m, 0)[:, 0]

    @cached_property
    def far_m(self) -> Float[np.ndarray, "obj"]:
        """Largest x of the ground corners."""
        return extent_m(self.corners_m, 0)[:, 1]

    @cached_property
    def lateral_m(self) -> Float[np.ndarray, "obj 2"]:
        """Smallest and largest y of the ground corners."""
        return extent_m(self.corners_m, 1)

    @property
    def centre_m(self) -> Float[np.ndarray, "obj 2"]:
        """Centre (x, y): for an object lifted from an image half a class length behind its near face."""
        return np.column_stack([(self.near_m + self.far_m) / 2, self.lateral_m.mean(axis=1)])

    @property
    def middle_m(self) -> Float[np.ndarray, "obj 2"]:
        """Middle (x, y) of the footprint."""
        return self.corners_m.mean(axis=1)

    def where(self, keep: Bool[np.ndarray, "obj"]) -> "Objects":
        """The objects marked by `keep`."""
        columns = {f.name: getattr(self, f.name)[keep] for f in fields(self) if f.name != "frames"}
        return Objects(frames=self.frames, **columns)

    def at(self, frame: int) -> "Objects":
        """The objects of one frame, as a list over a single frame."""
        here = self.where(self.frame == frame)
        columns = {f.name: getattr(here, f.name) for f in fields(here) if f.name not in ("frames", "frame")}
        return Objects(frames=1, frame=np.zeros(len(here), dtype=int), **columns)


def box_objects(
    frames: int,
    frame: Int[np.ndarray, "obj"],
    *,
    near_m: Float[np.ndarray, "obj"],
    far_m: Float[np.ndarray, "obj"],
    lateral_m: Float[np.ndarray, "obj 2"],
    closing_mps: Float[np.ndarray, "obj"],
    names: Shaped[np.ndarray, "obj"] | None = None,
    track: Int[np.ndarray, "obj"] | None = None,
) -> Objects:
    """Objects whose footprints are rectangles along the ego axes."""
    corners_m = rectangles_m(near_m, far_m, lateral_m=lateral_m)
    return Objects.of(frames, frame, corners_m=corners_m, closing_mps=closing_mps, names=names, track=track)


def check_frames(frame: Int[np.ndarray, "obj"], frames: int) -> None:
    """Raise unless frame indices are sorted and lie in 0..frames-1."""
    if len(frame) and (frame[0] < 0 or frame[-1] >= frames or (np.diff(frame) < 0).any()):
        raise InputError(
            f"frame indices must be sorted and lie in 0 to {frames - 1}; "
            f"found {frame.min()} to {frame.max()}: sort the rows by frame and check the number of frames."
        )


def object_deceleration_mps2(
    objects: Objects, ego_speed_mps: Float[np.ndarray, "time"], *, settings: BrakingSettings | None = None
) -> Float[np.ndarray, "obj"]:
    """Required deceleration of each object, the higher of those at ego and closing speed; 0 outside the corridor."""
    settings = settings or BrakingSettings()
    ahead = (objects.near_m > 0) & (objects.near_m <= settings.farthest_m)
    inside = (objects.lateral_m[:, 1] > -settings.corridor_m) & (objects.lateral_m[:, 0] < settings.corridor_m)
    at_ego = stopping_deceleration_mps2(objects.near_m, ego_speed_mps[objects.frame], settings=settings)
    at_closing = stopping_deceleration_mps2(objects.near_m, objects.closing_mps, settings=settings)
    return np.where(ahead & inside, np.maximum(at_ego, at_closing), 0.0)


def required_deceleration_mps2(
    objects: Objects, ego_speed_mps: Float[np.ndarray, "time"], *, settings: BrakingSettings | None = None
) -> Float[np.ndarray, "time"]:
    """a_req of docs/definitions.md, Braking controller: the maximum over the frame's objects, 0 without any."""
    required = np.zeros(objects.frames)
    np.maximum.at(required, objects.frame, object_deceleration_mps2(objects, ego_speed_mps, settings=settings))
    return required
