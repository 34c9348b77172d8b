"""Objects in the ego frame: one type for perceived, labelled and logged objects, and
the braking they require.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.vehicle import extent_m, rectangles_m


@dataclass(frozen=True)
class Objects:
    """Flat lists of objects over `frames` frames, sorted by `frame`, by their four
    ground corners.

    Ego frame: x forward, y left, metres. `closing_mps` is the closing speed (0:
    unknown), `cls` the class ("": unknown), `track` the id within the unit (-1: none),
    `velocity_mps` the object's own (x, y) velocity (NaN: unknown).
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
            velocity_mps=np.full((len(frame), 2), np.nan)
            if velocity_mps is None
            else velocity_mps,
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
        """Centre (x, y): for an object lifted from an image half a class length behind
        its near face.
        """
        return np.column_stack(
            [(self.near_m + self.far_m) / 2, self.lateral_m.mean(axis=1)]
        )

    @property
    def middle_m(self) -> Float[np.ndarray, "obj 2"]:
        """Middle (x, y) of the footprint."""
        return self.corners_m.mean(axis=1)

    def where(self, keep: Bool[np.ndarray, "obj"]) -> "Objects":
        """The objects marked by `keep`."""
        columns = {
            f.name: getattr(self, f.name)[keep]
            for f in fields(self)
            if f.name != "frames"
        }
        return Objects(frames=self.frames, **columns)

    def at(self, frame: int) -> "Objects":
        """The objects of one frame, as a list over a single frame."""
        begin, end = np.searchsorted(self.frame, (frame, frame + 1)).tolist()
        return self._over_one_frame(begin, end)

    def by_frame(self) -> Iterator["Objects"]:
        """The objects of each frame in turn, as lists over a single frame."""
        bounds = np.searchsorted(self.frame, np.arange(self.frames + 1)).tolist()
        return (self._over_one_frame(begin, end) for begin, end in pairwise(bounds))

    def _over_one_frame(self, begin: int, end: int) -> "Objects":
        columns = {
            f.name: getattr(self, f.name)[begin:end]
            for f in fields(self)
            if f.name not in ("frames", "frame")
        }
        return Objects(frames=1, frame=np.zeros(end - begin, dtype=int), **columns)


@dataclass(frozen=True, slots=True)
class Outlines:
    """What rules need of objects: flat lists over `frames` frames or draws, sorted by
    `frame`, as in `Objects`.
    """

    frames: int
    frame: Int[np.ndarray, "obj"]
    near_m: Float[np.ndarray, "obj"]
    far_m: Float[np.ndarray, "obj"]
    lateral_m: Float[np.ndarray, "obj 2"]
    closing_mps: Float[np.ndarray, "obj"]

    def __len__(self) -> int:
        return len(self.frame)

    def where(self, keep: Bool[np.ndarray, "obj"]) -> "Outlines":
        """The obstacles marked by `keep`."""
        columns = (
            self.frame,
            self.near_m,
            self.far_m,
            self.lateral_m,
            self.closing_mps,
        )
        index = keep.nonzero()[0]
        return Outlines(self.frames, *(column[index] for column in columns))


class Outputs(NamedTuple):
    """The objects of a unit that an allocator must not see before it decides.

    `full` has those that the downstream system gets from the most expensive mode,
    `reference` the reference objects.
    """

    full: Objects
    reference: Objects


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
    return Objects.of(
        frames,
        frame,
        corners_m=corners_m,
        closing_mps=closing_mps,
        names=names,
        track=track,
    )


def check_frames(frame: Int[np.ndarray, "obj"], frames: int) -> None:
    """Raise unless frame indices are sorted and lie in 0..frames-1."""
    if len(frame) and (
        frame[0] < 0 or frame[-1] >= frames or (np.diff(frame) < 0).any()
    ):
        raise InputError(
            f"frame indices must be sorted and lie in 0 to {frames - 1}; "
            f"found {frame.min()} to {frame.max()}: sort the rows by frame and check "
            "the number of frames."
        )


@dataclass(frozen=True)
class BrakingSettings:
    """Which objects count, and the distance to keep: docs/definitions.md, Braking
    controller.
    """

    corridor_m: float = 1.2
    farthest_m: float = 80.0
    standoff_m: float = 2.0
    reaction_s: float = 0.4
    limit_mps2: float = 9.0


def stopping_deceleration_mps2(
    range_m: Float[np.ndarray, "*batch"],
    speed_mps: Float[np.ndarray, "*batch"],
    *,
    settings: BrakingSettings,
) -> Float[np.ndarray, "*batch"]:
    """s² / 2d with d = range - standoff - reaction s; the limit where d <= 0; 0 where s
    <= 0.
    """
    room_m = range_m - settings.standoff_m - settings.reaction_s * speed_mps
    # Without room, the required deceleration is far beyond the limit.
    needed = speed_mps**2 / (2 * np.fmax(room_m, 1e-200))
    return np.where(speed_mps > 0, np.minimum(needed, settings.limit_mps2), 0.0)


def track_closing_mps(
    frame: Int[np.ndarray, "obj"],
    track: Int[np.ndarray, "obj"],
    *,
    range_m: Float[np.ndarray, "obj"],
    dt_s: Float[np.ndarray, "time"],
) -> Float[np.ndarray, "obj"]:
    """(range one frame earlier - range) / dt of the same track; 0 where the frame
    before lacks the track.
    """
    if not len(frame):
        return np.zeros(0)
    span = int(frame.max()) + 2
    key = (track - track.min()).astype(np.int64) * span + frame
    order = np.argsort(key, kind="stable")
    # Every track spans one key more than it has frames, so the key before its frame 0
    # belongs to no object.
    position = np.minimum(np.searchsorted(key[order], key - 1), len(key) - 1)
    before = order[position]
    tracked = key[before] == key - 1
    elapsed_s = np.where(tracked, dt_s[frame], 1.0)
    return np.where(tracked, (range_m[before] - range_m) / elapsed_s, 0.0)


def time_to_collision_s(
    range_m: Float[np.ndarray, "*batch"],
    closing_mps: Float[np.ndarray, "*batch"],
    *,
    longest_s: float = 10.0,
) -> Float[np.ndarray, "*batch"]:
    """max(range, 0) / closing speed, at most `longest_s`, which is also the value if
    the range does not close.
    """
    closing = closing_mps > 0
    with np.errstate(over="ignore"):
        time_s = np.maximum(range_m, 0.0) / np.where(closing, closing_mps, 1.0)
    return np.where(closing, np.minimum(time_s, longest_s), longest_s)


def object_deceleration_mps2(
    objects: Objects | Outlines,
    ego_speed_mps: Float[np.ndarray, "time"],
    *,
    settings: BrakingSettings | None = None,
) -> Float[np.ndarray, "obj"]:
    """Required deceleration of each object, the higher of its values at ego and closing
    speed; 0 off the corridor.
    """
    settings = settings or BrakingSettings()
    ahead = (objects.near_m > 0) & (objects.near_m <= settings.farthest_m)
    inside = (objects.lateral_m[:, 1] > -settings.corridor_m) & (
        objects.lateral_m[:, 0] < settings.corridor_m
    )
    at_ego = stopping_deceleration_mps2(
        objects.near_m, ego_speed_mps[objects.frame], settings=settings
    )
    at_closing = stopping_deceleration_mps2(
        objects.near_m, objects.closing_mps, settings=settings
    )
    return np.where(ahead & inside, np.maximum(at_ego, at_closing), 0.0)


def required_deceleration_mps2(
    objects: Objects | Outlines,
    ego_speed_mps: Float[np.ndarray, "time"],
    *,
    settings: BrakingSettings | None = None,
) -> Float[np.ndarray, "time"]:
    """a_req of docs/definitions.md, Braking controller: the maximum over the frame's
    objects, 0 without any.
    """
    required = np.zeros(objects.frames)
    np.maximum.at(
        required,
        objects.frame,
        object_deceleration_mps2(objects, ego_speed_mps, settings=settings),
    )
    return required
