"""Glances in time order -> tracks of the objects that may be in the way.

The cheap mode's objects are followed by their near face, lateral middle and half-width:
constant velocity (a Kalman filter of the range and the object's own forward speed), the
vehicle's own way taken off, so that an object that the cheap mode loses stays in mind
for up to 60 frames. Everything is a column of one array, so that a frame takes a few
dozen array operations. Nothing here knows the reference.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.deploy.features import Glance
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.classes import CLASSES, LENGTH_M, SUPER_CLASS
from deepval.driving.world.objects import (
    BrakingSettings,
    Objects,
    Outlines,
    stopping_deceleration_mps2,
)

COLUMNS = (
    *(
        "x",
        "u",
        "xx",
        "xu",
        "uu",
        "y",
        "half",
        "hits",
        "misses",
        "age",
        "score",
        "height",
        "kind",
    ),
)
"""Columns of a track.

Range and own forward speed with their covariances; lateral middle and half-width;
frames with and without a cheap object, frames since the first sighting; probability and
height in pixels at the last cheap sighting; 0 for vehicles, 1 for others.
"""
(
    X,
    U,
    XX,
    XU,
    UU,
    Y,
    HALF,
    HITS,
    MISSES,
    AGE,
    SCORE,
    HEIGHT,
    KIND,
) = range(len(COLUMNS))
LONGEST = 60
"""Frames for which a missing object is remembered."""
MOST = 64
"""Largest number of tracks: the memory is bounded."""
BRAKING = BrakingSettings()
OFFSET_M = 5.0
"""Ranges are compared by their logarithm after adding this."""
GATE = 0.25
LENGTHS_M = np.array([LENGTH_M[name] for name in CLASSES])
KINDS = np.array([float(SUPER_CLASS[name] != "vehicle") for name in CLASSES])
KIND_OF: Mapping[str, float] = {
    name: float(kind != "vehicle") for name, kind in SUPER_CLASS.items()
} | {"": 0.0}
FEATURES = (
    *(
        "hits",
        "misses",
        "age",
        "hit_share",
        "range_m",
        "lateral_m",
        "aside_m",
        "own_speed_mps",
        "ego_speed_mps",
    ),
    *(
        "probability",
        "height_px",
        "occluders",
        "kind",
        "spread",
        "demand_mps2",
        "frame",
    ),
)
"""Features of a track."""


class Sightings(NamedTuple):
    """The objects of one frame in canonical order, as columns; probability and height
    are NaN where unknown.
    """

    obstacles: Outlines
    y_m: Float[np.ndarray, "obj"]
    half_m: Float[np.ndarray, "obj"]
    kind: Float[np.ndarray, "obj"]
    score: Float[np.ndarray, "obj"]
    height_px: Float[np.ndarray, "obj"]


def sightings(glance: Glance) -> Sightings:
    """The objects that the downstream system gets from the cheap mode."""
    if glance.frame.objects is not None:
        return sightings_of(glance.frame.objects)
    rows = np.array([item[:9] for item in glance.objects], float).reshape(-1, 9).T
    code, near_m, camera = rows[5].astype(int), rows[6], glance.frame.camera
    probability = np.array([box.probability for box in glance.boxes if box.used], float)
    lateral_m = _lateral_m(rows, camera)
    obstacles = Outlines(
        1,
        np.zeros(len(code), int),
        near_m,
        near_m + LENGTHS_M[code],
        lateral_m,
        rows[8],
    )
    return _sightings(obstacles, KINDS[code], probability, rows[3] - rows[1])


def _lateral_m(
    rows: Float[np.ndarray, "9 obj"], camera: Camera
) -> Float[np.ndarray, "obj 2"]:
    """Right and left end of lifted boxes, by their edges in the image."""
    depth_m = rows[6] - camera.ego_from_cam[0, 3]
    ends_m = (camera.cx_px - rows[[2, 0]]) * (
        depth_m / camera.fx_px
    ) + camera.ego_from_cam[1, 3]
    return ends_m.T


def sightings_of(objects: Objects) -> Sightings:
    """The objects of a single frame, sorted so that their order in the report never
    matters.
    """
    kind = np.array([KIND_OF.get(name, 0.0) for name in objects.cls.tolist()], float)
    order = np.lexsort((kind, objects.closing_mps, *objects.corners_m.reshape(-1, 8).T))
    columns = (
        objects.frame,
        objects.near_m,
        objects.far_m,
        objects.lateral_m,
        objects.closing_mps,
    )
    obstacles, unknown = (
        Outlines(1, *(column[order] for column in columns)),
        np.full(len(order), np.nan),
    )
    return _sightings(obstacles, kind[order], unknown, unknown)


def _sightings(
    obstacles: Outlines, kind: np.ndarray, score: np.ndarray, height_px: np.ndarray
) -> Sightings:
    right_m, left_m = obstacles.lateral_m.T
    return Sightings(
        obstacles,
        (right_m + left_m) / 2,
        (left_m - right_m) / 2,
        kind,
        score,
        height_px,
    )


class Belief:
    """The tracks of one unit: `see` each glance in order.

    Attributes:
        tracks: One column per track, rows as in COLUMNS.
        frames: Number of frames seen.
    """

    def __init__(self) -> None:
        self.tracks: Float[np.ndarray, "row track"] = np.zeros((len(COLUMNS), 0))
        self.frames = 0
        self.speed_mps = 0.0

    def copy(self) -> "Belief":
        """A belief that can go on without this one."""
        other = Belief()
        other.tracks, other.frames = self.tracks.copy(), self.frames
        other.speed_mps = self.speed_mps
        return other

    def see(self, glance: Glance, seen: Sightings | None = None) -> None:
        """Take in a frame; without a cheap run, objects only move on."""
        frame, tracks = glance.frame, self.tracks
        self.speed_mps = frame.ego_speed_mps
        if self.frames:
            dt_s = frame.dt_s
            tracks[X] += (tracks[U] - self.speed_mps) * dt_s
            tracks[XX] += dt_s * (2 * tracks[XU] + dt_s * tracks[UU]) + 0.05
            tracks[XU] += dt_s * tracks[UU]
            tracks[UU] += 16 * dt_s * dt_s
            tracks[AGE] += 1
        self.frames += 1
        if not frame.run:
            return
        seen = sightings(glance) if seen is None else seen
        old, new = self._match(seen, penalty=0.05)
        tracks[MISSES] += 1
        if len(old):
            self._update(old, new, seen)
            tracks[HITS, old] += 1
            tracks[MISSES, old] = 0
            tracks[SCORE, old], tracks[HEIGHT, old] = (
                seen.score[new],
                seen.height_px[new],
            )
        recent = tracks[MISSES] <= LONGEST
        self.tracks = tracks[:, recent & (tracks[X] > -OFFSET_M) & (tracks[X] < 120.0)]
        self._add(seen, new)

    def matches(
        self, objects: Objects
    ) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"], Sightings]:
        """Tracks and sightings of other objects that belong together whatever their
        kind: labels of a fit.
        """
        seen = sightings_of(objects)
        return (*self._match(seen, any_kind=True), seen)

    def _match(
        self, seen: Sightings, *, penalty: float = 0.0, any_kind: bool = False
    ) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]:
        """Pairs of a track and a sighting, the nearest first; each belongs to one pair
        at most.
        """
        tracks, near_m = self.tracks, np.maximum(seen.obstacles.near_m, 0.0)
        apart = np.log(np.maximum(tracks[X], 0.0) + OFFSET_M)[:, None] - np.log(
            near_m + OFFSET_M
        )
        aside = (tracks[Y][:, None] - seen.y_m) / (1.0 + 0.05 * near_m)
        apart, aside = np.abs(apart) / GATE, np.abs(aside)
        fits = (apart < 1.0) & (aside < 1.0)
        if not any_kind:
            fits &= tracks[KIND][:, None] == seen.kind
        old, new = fits.nonzero()
        cost = apart[old, new] + aside[old, new] + penalty * tracks[MISSES, old]
        return _first(old, new, np.argsort(cost, kind="stable"))

    def _update(
        self,
        old: Int[np.ndarray, "pair"],
        new: Int[np.ndarray, "pair"],
        seen: Sightings,
    ) -> None:
        tracks, near_m = self.tracks, seen.obstacles.near_m[new]
        x, u, xx, xu, uu, y, half = tracks[: HALF + 1, old]
        total = xx + _noise_m2(near_m)
        gain, speed_gain, error_m = xx / total, xu / total, near_m - x
        tracks[: HALF + 1, old] = (
            x + gain * error_m,
            np.minimum(np.maximum(u + speed_gain * error_m, -20.0), 45.0),
            (1 - gain) * xx,
            (1 - gain) * xu,
            uu - speed_gain * xu,
            y + 0.5 * (seen.y_m[new] - y),
            half + 0.5 * (seen.half_m[new] - half),
        )

    def _add(self, seen: Sightings, used: Int[np.ndarray, "pair"]) -> None:
        """Begin a track for every sighting that belongs to none."""
        count = len(seen.y_m)
        if len(used) == count:
            return
        fresh = np.zeros((len(COLUMNS), count))
        fresh[X], fresh[U], fresh[UU] = (
            seen.obstacles.near_m,
            0.5 * self.speed_mps,
            64.0,
        )
        fresh[XX], fresh[Y], fresh[HALF] = _noise_m2(fresh[X]), seen.y_m, seen.half_m
        fresh[HITS], fresh[AGE], fresh[KIND] = 1.0, 1.0, seen.kind
        fresh[SCORE], fresh[HEIGHT] = seen.score, seen.height_px
        free = np.ones(count, bool)
        free[used] = False
        tracks = np.concatenate([self.tracks, fresh[:, free]], axis=1)
        if tracks.shape[1] > MOST:
            tracks = tracks[
                :, np.sort(np.argsort(tracks[MISSES], kind="stable")[:MOST])
            ]
        self.tracks = tracks

    def features(
        self, reach_m: float, most: int, *, settings: BrakingSettings = BRAKING
    ) -> tuple[Int[np.ndarray, "chosen"], Float[np.ndarray, "chosen column"]]:
        """The tracks ahead within reach that ask for most deceleration, at most `most`,
        and their features.
        """
        tracks, speed_mps = self.tracks, self.speed_mps
        aside_m = np.abs(tracks[Y]) - tracks[HALF]
        within = ((tracks[X] < settings.farthest_m) & (aside_m < reach_m)).nonzero()[0]
        x, aside_m = tracks[X, within], aside_m[within]
        fastest_mps = np.maximum(speed_mps - np.minimum(tracks[U, within], 0.0), 0.0)
        demand = stopping_deceleration_mps2(x, fastest_mps, settings=settings)
        demand[(x <= 0) | (aside_m >= settings.corridor_m + 0.3)] = 0.0
        first = np.lexsort((x, -demand))[:most]
        chosen = within[first]
        part, x, aside_m = tracks[:, chosen], x[first], aside_m[first]
        rows = np.empty((len(FEATURES), len(chosen)))
        rows[:3], rows[3] = part[HITS : AGE + 1], part[HITS] / part[AGE]
        rows[4], rows[5], rows[6], rows[7], rows[8] = (
            x,
            np.abs(part[Y]),
            aside_m,
            part[U],
            speed_mps,
        )
        rows[9], rows[10], rows[11], rows[12] = (
            part[SCORE],
            part[HEIGHT],
            self._occluders(part),
            part[KIND],
        )
        rows[13], rows[14], rows[15] = (
            np.sqrt(part[XX]) / np.maximum(x, 1.0),
            demand[first],
            self.frames,
        )
        return chosen, np.minimum(rows, LARGEST).T

    def _occluders(
        self, part: Float[np.ndarray, "row chosen"]
    ) -> Int[np.ndarray, "chosen"]:
        """Tracks seen now that are at least 2 m nearer and in the same direction."""
        seen = self.tracks[:, self.tracks[MISSES] == 0]
        (bearing, width), (other, other_width) = (
            _directions(columns) for columns in (part, seen)
        )
        nearer = seen[X] < (part[X] - 2.0)[:, None]
        return (
            nearer
            & (np.abs(bearing[:, None] - other) < 0.5 * width[:, None] + other_width)
        ).sum(axis=1)


LARGEST = np.full((len(FEATURES), 1), np.inf)
LARGEST[[0, 2, 15], 0] = 40.0, 60.0, 100.0
"""Largest value of each feature."""


def _directions(
    tracks: Float[np.ndarray, "row track"],
) -> tuple[np.ndarray, np.ndarray]:
    """Tangent of the direction to each track, and its half-width as an angle."""
    range_m = np.maximum(tracks[X], 1.0)
    return tracks[Y] / range_m, tracks[HALF] / range_m


def _noise_m2(near_m: Float[np.ndarray, "obj"]) -> Float[np.ndarray, "obj"]:
    """Variance of a range as measured."""
    return (0.06 * np.maximum(near_m, 1.0) + 0.7) ** 2


def _first(
    old: Int[np.ndarray, "pair"],
    new: Int[np.ndarray, "pair"],
    order: Int[np.ndarray, "pair"],
) -> tuple[Int[np.ndarray, "chosen"], Int[np.ndarray, "chosen"]]:
    """The pairs in order, without those that repeat a member of an earlier one."""
    used_old: set[int] = set()
    used_new: set[int] = set()
    chosen: list[tuple[int, int]] = []
    for one, other in zip(old[order].tolist(), new[order].tolist(), strict=True):
        if one not in used_old and other not in used_new:
            used_old.add(one)
            used_new.add(other)
            chosen.append((one, other))
    pairs = np.array(chosen, int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
