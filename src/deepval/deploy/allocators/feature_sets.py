"""Glance -> the row of numbers that a learned allocator reads.

Model files name the feature set and its columns.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError
from deepval.deploy.allocators.allocator import Part
from deepval.deploy.features import (
    FEATURE_NAMES,
    TRACKED_NAMES,
    Glance,
    Sight,
    cheap_features,
    tracked_features,
)
from deepval.deploy.features.cheap import Feature, features_of
from deepval.deploy.features.glances import (
    BRAKING,
    CORRIDORS_M,
    KINDS,
    PLACE,
    QUANTITIES,
    WINDOW,
    ahead,
    required_mps2,
)
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.classes import CLASSES
from deepval.judge.tables.columns import (
    ID_COLUMNS,
    LOSS_PREFIX,
    REWARD_PREFIX,
    read,
    refuse_repeated,
)
from deepval.judge.tables.keys import positions

LAGS = (1, 2, 4)
STEADY = 3
"""Number of consecutive frames from which an object counts as steady."""

CHANGES = features_of(
    "change",
    {
        f"{name}_change_{lag}": f"{name} - {name} {lag} frame{'s' * (lag > 1)} before"
        for name in QUANTITIES
        for lag in LAGS
    },
)
EXTREMES = features_of(
    "extreme",
    {
        f"{name}_most": (
            f"largest {name} over the last {WINDOW} frames, this one included"
        )
        for name in QUANTITIES
    }
    | {
        f"{name}_least": (
            f"smallest {name} over the last {WINDOW} frames, this one included"
        )
        for name in QUANTITIES
    },
)
LOST = features_of(
    "lost",
    {
        "lost_required": (
            "a_req of missing objects: seen in the last 8 frames, and no used box has "
            "overlapped their last box by IoU >= 0.3 since; range minus the distance "
            "travelled since, closing speed as last seen"
        ),
        "lost_required_wider_03": "the same with the corridor 0.3 m wider on each side",
        "lost_required_wider_08": "the same with the corridor 0.8 m wider on each side",
        ("lost_required_narrower_04"): (
            "the same with the corridor 0.4 m narrower on each side"
        ),
        "lost_count": "number of missing objects ahead (0 < range <= 80 m)",
        "lost_corridor_count": "number of missing objects in the corridor",
        "lost_nearest_m": (
            "smallest range of a missing object in the corridor, 80 if none"
        ),
        "lost_for": (
            "frames since the missing object that requires most was last seen (the "
            "fewest if several); NaN if none"
        ),
        "lost_age": (
            "frames in a row in which that object had been seen, at most 8 (the most "
            "if several); NaN if none"
        ),
        "steady_required": "a_req of used objects seen in at least 3 frames in a row",
        "sudden_required": "a_req of used objects seen in fewer than 3 frames in a row",
        "demanding_age": (
            "frames in a row in which the object that requires a_req has been seen (at "
            "most 8), if several, the most; NaN if a_req is 0"
        ),
    },
)
UNKNOWN = (nan,) * len(QUANTITIES)
MEMORY_FEATURES: tuple[Feature, ...] = CHANGES + EXTREMES + LOST
MEMORY_NAMES = tuple(feature.name for feature in MEMORY_FEATURES)
assert len(set(MEMORY_NAMES)) == len(MEMORY_FEATURES)


def memory_features(glance: Glance) -> Float[np.ndarray, "feature"]:
    """The memory features of a frame, in the order of MEMORY_FEATURES; extremes ignore
    frames without a report.
    """
    rows = (
        *((UNKNOWN,) * (WINDOW - 1 - len(glance.past.rows))),
        *glance.past.rows,
        glance.row,
    )
    table = np.array(rows)
    changes = table[-1][:, None] - table[[-1 - lag for lag in LAGS]].T
    columns = _lost(glance) if glance.frame.run else {}
    lost = [columns.get(feature.name, nan) for feature in LOST]
    return np.concatenate(
        [changes.ravel(), np.fmax.reduce(table), np.fmin.reduce(table), lost]
    )


def _lost(glance: Glance) -> dict[str, float]:
    gone, corridor_m = glance.lost, CORRIDORS_M["required"]
    demands = [item.demand_mps2 for item in gone]
    required = dict(zip(CORRIDORS_M, required_mps2(gone, demands), strict=True))
    in_front = [item for item in gone if ahead(item.near_m)]
    ranges = [item.near_m for item in in_front if item.aside_m < corridor_m]
    values = {f"lost_{name}": value for name, value in required.items()} | {
        "lost_count": len(in_front),
        "lost_corridor_count": len(ranges),
        "lost_nearest_m": min(ranges, default=BRAKING.farthest_m),
    }
    if required["required"] > 0:
        worst = [
            item
            for item in gone
            if item.aside_m < corridor_m and item.demand_mps2 == required["required"]
        ]
        values["lost_for"] = min(item.missing for item in worst)
        values["lost_age"] = max(item.age for item in worst)
    needed = glance.row[PLACE["required"]]
    seen = [
        (demand, item.age)
        for item, demand in zip(glance.objects, glance.demands, strict=True)
        if item.aside_m < corridor_m
    ]
    values["steady_required"] = max(
        (demand for demand, age in seen if age >= STEADY), default=0.0
    )
    values["sudden_required"] = max(
        (demand for demand, age in seen if age < STEADY), default=0.0
    )
    if needed > 0:
        values["demanding_age"] = max(age for demand, age in seen if demand == needed)
    return values


class FeatureSet(ABC):
    """The inputs of a learned allocator.

    `uses` names the parts of the view that it reads.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[frozenset[Part]]

    @abstractmethod
    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The row of one frame as it arrives."""

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The row of each frame of a unit, computed once per sight."""
        return sight.rows(self.row, len(self.columns))


@dataclass(frozen=True)
class Cheap(FeatureSet):
    """The 65 cheap-side features."""

    name: ClassVar[str] = "cheap"
    columns: ClassVar[tuple[str, ...]] = FEATURE_NAMES
    uses: ClassVar[frozenset[Part]] = frozenset(
        {
            "ego speed",
            "cheap boxes",
            "cheap scores",
            "calibration",
            "previous frames",
            "image",
        }
    )

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The 65 features of one frame."""
        return cheap_features(glance)


@dataclass(frozen=True)
class CheapAndMemory(FeatureSet):
    """The 65 cheap-side features and the memory features."""

    name: ClassVar[str] = "cheap+memory"
    columns: ClassVar[tuple[str, ...]] = (*FEATURE_NAMES, *MEMORY_NAMES)
    uses: ClassVar[frozenset[Part]] = Cheap.uses

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """Features and memory of one frame."""
        return np.concatenate([cheap_features(glance), memory_features(glance)])


SLOTS = 25
SLOT = ("x", "y", "width", "height", "probability")


@dataclass(frozen=True)
class DetectionList(FeatureSet):
    """The 25 most confident cheap boxes: counts by class, then position, size and
    probability per box, padded by 0.

    If the mode has no scores, the nearest boxes come first. Positions and sizes are
    shares of the image (docs/definitions.md, Detection list).
    """

    name: ClassVar[str] = "detection-list"
    columns: ClassVar[tuple[str, ...]] = (
        *(f"count_{name}" for name in CLASSES),
        *(f"box{slot}_{part}" for slot in range(1, SLOTS + 1) for part in SLOT),
    )
    uses: ClassVar[frozenset[Part]] = frozenset(
        {"cheap boxes", "cheap scores", "calibration"}
    )

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The list of one frame."""
        if not glance.frame.run:
            return np.full(len(self.columns), nan)
        boxes = glance.boxes
        if glance.mode.scores == "none":
            boxes = sorted(boxes, key=lambda box: box.near_m)
        width, height = size_px(glance.frame.camera)
        values = [0.0] * len(self.columns)
        for slot, box in enumerate(boxes[:SLOTS]):
            values[box.code] += 1.0
            begin = len(CLASSES) + len(SLOT) * slot
            position = (box.x1 + box.x2) / 2 / width, (box.y1 + box.y2) / 2 / height
            size = (box.x2 - box.x1) / width, (box.y2 - box.y1) / height
            values[begin : begin + len(SLOT)] = (*position, *size, box.probability)
        return np.array(values)


@dataclass(frozen=True)
class Tracked(FeatureSet):
    """The 18 features of the observed objects and the ego state."""

    name: ClassVar[str] = "tracked"
    columns: ClassVar[tuple[str, ...]] = TRACKED_NAMES
    uses: ClassVar[frozenset[Part]] = frozenset(
        {"ego speed", "cheap objects", "previous frames", "route"}
    )

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The 18 features of one frame."""
        return tracked_features(glance)


TRACK = ("x_m", "y_m", "length_m", "width_m", "vx_mps", "vy_mps", *KINDS)


@dataclass(frozen=True)
class TrackList(FeatureSet):
    """The 25 nearest observed objects: position, size, velocity and kind (one-hot) per
    object, padded by 0.

    Positions and velocities are in the ego frame; an unknown velocity is NaN.
    """

    name: ClassVar[str] = "track-list"
    columns: ClassVar[tuple[str, ...]] = tuple(
        f"track{slot}_{part}" for slot in range(1, SLOTS + 1) for part in TRACK
    )
    uses: ClassVar[frozenset[Part]] = frozenset({"cheap objects"})

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The list of one frame."""
        if not glance.frame.run:
            return np.full(len(self.columns), nan)
        values: list[float] = []
        for track in glance.tracks[:SLOTS]:
            kind = [float(track.kind == code) for code in range(len(KINDS))]
            values += (
                track.x_m,
                track.y_m,
                track.length_m,
                track.width_m,
                track.vx_mps,
                track.vy_mps,
                *kind,
            )
        return np.array(values + [0.0] * (len(self.columns) - len(values)))


@dataclass(frozen=True, eq=False)
class OwnFeatures(FeatureSet):
    """Numbers of a user's table, by the id of their input; a frame as it arrives has no
    id, so it has no row.
    """

    input: Shaped[np.ndarray, "input"]
    numbers: Float[np.ndarray, "input column"]
    columns: tuple[str, ...]  # pyright: ignore[reportIncompatibleVariableOverride]
    name: ClassVar[str] = "own"
    uses: ClassVar[frozenset[Part]] = frozenset()

    @classmethod
    def read(cls, source: Any, inputs: Shaped[np.ndarray, "needed"]) -> "OwnFeatures":
        """The features in a file with columns `input` and numbers; every input that is
        needed must have a row.
        """
        raw = read(source)
        raw.require("input")
        answers = [
            name for name in raw.data if name.startswith((LOSS_PREFIX, REWARD_PREFIX))
        ]
        if answers:
            raise InputError(
                f"{raw.source}: features must not contain the "
                f"answer; found column {answers[0]!r}."
            )
        names = tuple(name for name in raw.data if name not in ID_COLUMNS)
        if not names:
            raise InputError(
                f"{raw.source}: at least one column of numbers is needed beside "
                "'input'; found none."
            )
        ids = raw.ids("input")
        refuse_repeated(ids, raw.source)
        lacking = inputs[positions(inputs, ids) < 0]
        if len(lacking):
            raise InputError(
                f"{raw.source}: every input of the cell needs a row; "
                f"{str(lacking[0])!r} has "
                "none"
                f"{f', nor have {len(lacking) - 1} more' if len(lacking) > 1 else ''}."
            )
        return cls(ids, np.column_stack([raw.numbers(name) for name in names]), names)

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """None: the table has rows for inputs, not for frames."""
        raise InputError(
            "features from a table belong to inputs; a frame that arrives has none."
        )

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The row of each frame of a unit; NaN for a frame that is no input."""
        at = positions(sight.view.scene.inputs, self.input)
        return np.where((at >= 0)[:, None], self.numbers[at], nan)


def size_px(camera: Camera) -> tuple[float, float]:
    """Width and height of the image; twice the optical centre if the calibration has no
    size.
    """
    return float(camera.width_px or 2 * camera.cx_px), float(
        camera.height_px or 2 * camera.cy_px
    )


FEATURE_SETS: dict[str, FeatureSet] = {
    features.name: features
    for features in (Cheap(), CheapAndMemory(), DetectionList(), Tracked(), TrackList())
}
"""Name in model files -> feature set."""
OBSERVED: dict[str, str] = {"cheap": "tracked", "detection-list": "track-list"}
"""Feature set for image boxes -> feature set for observed objects, used if the cheap
mode observes.
"""
