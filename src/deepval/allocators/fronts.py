"""Glance -> the row of numbers that a learned allocator looks at.

A front is named in model files, with the names of its columns.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import nan
from typing import ClassVar

import numpy as np

from deepval.allocators.allocator import Part
from deepval.allocators.memory import MEMORY_NAMES, memory_features
from deepval.arrays import Float
from deepval.features import FEATURE_NAMES, TRACKED_NAMES, Glance, Sight, cheap_features, tracked_features
from deepval.features.tracks import KINDS
from deepval.geometry.camera import Camera
from deepval.geometry.classes import CLASSES


class Front(ABC):
    """What a learned allocator looks at. `uses` names the parts of the view that it reads."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[frozenset[Part]]

    @abstractmethod
    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The row of one frame as it arrives."""

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The row of each frame of a unit, made once for a sight."""
        return sight.rows(self.row, len(self.columns))


@dataclass(frozen=True)
class Cheap(Front):
    """The 65 cheap-side features."""

    name: ClassVar[str] = "cheap"
    columns: ClassVar[tuple[str, ...]] = FEATURE_NAMES
    uses: ClassVar[frozenset[Part]] = frozenset(
        {"ego speed", "cheap boxes", "cheap scores", "calibration", "previous frames", "image"}
    )

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The 65 features of one frame."""
        return cheap_features(glance)


@dataclass(frozen=True)
class CheapAndMemory(Front):
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
class DetectionList(Front):
    """The 25 most confident cheap boxes: how many of each class, then place, size and probability of each, padded by 0.

    Where the mode has no scores the nearest boxes come first. Places and sizes are shares of the
    image: docs/definitions.md, Detection list.
    """

    name: ClassVar[str] = "detection-list"
    columns: ClassVar[tuple[str, ...]] = (
        *(f"count_{name}" for name in CLASSES),
        *(f"box{slot}_{part}" for slot in range(1, SLOTS + 1) for part in SLOT),
    )
    uses: ClassVar[frozenset[Part]] = frozenset({"cheap boxes", "cheap scores", "calibration"})

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The list of one frame."""
        if not glance.frame.run:
            return np.full(len(self.columns), nan)
        boxes = glance.boxes
        if glance.mode.scores == "none":
            boxes = sorted(boxes, key=lambda box: box.near_m)
        width, height = size_px(glance.frame.camera)
        found = [0.0] * len(self.columns)
        for slot, box in enumerate(boxes[:SLOTS]):
            found[box.code] += 1.0
            begin = len(CLASSES) + len(SLOT) * slot
            place = (box.x1 + box.x2) / 2 / width, (box.y1 + box.y2) / 2 / height
            size = (box.x2 - box.x1) / width, (box.y2 - box.y1) / height
            found[begin : begin + len(SLOT)] = (*place, *size, box.probability)
        return np.array(found)


@dataclass(frozen=True)
class Tracked(Front):
    """The 18 features of the observed objects and the ego state."""

    name: ClassVar[str] = "tracked"
    columns: ClassVar[tuple[str, ...]] = TRACKED_NAMES
    uses: ClassVar[frozenset[Part]] = frozenset({"ego speed", "cheap objects", "previous frames", "route"})

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The 18 features of one frame."""
        return tracked_features(glance)


TRACK = ("x_m", "y_m", "length_m", "width_m", "vx_mps", "vy_mps", *KINDS)


@dataclass(frozen=True)
class TrackList(Front):
    """The 25 nearest observed objects: place, size, velocity and kind (1 for its own) of each, padded by 0.

    Places and velocities are in the ego frame; a velocity that is not known is NaN.
    """

    name: ClassVar[str] = "track-list"
    columns: ClassVar[tuple[str, ...]] = tuple(f"track{slot}_{part}" for slot in range(1, SLOTS + 1) for part in TRACK)
    uses: ClassVar[frozenset[Part]] = frozenset({"cheap objects"})

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The list of one frame."""
        if not glance.frame.run:
            return np.full(len(self.columns), nan)
        found: list[float] = []
        for track in glance.tracks[:SLOTS]:
            kind = [float(track.kind == code) for code in range(len(KINDS))]
            found += (track.x_m, track.y_m, track.length_m, track.width_m, track.vx_mps, track.vy_mps, *kind)
        return np.array(found + [0.0] * (len(self.columns) - len(found)))


def size_px(camera: Camera) -> tuple[float, float]:
    """Width and height of the image; twice the optical centre where the calibration does not say."""
    return float(camera.width_px or 2 * camera.cx_px), float(camera.height_px or 2 * camera.cy_px)


FRONTS: dict[str, Front] = {
    front.name: front for front in (Cheap(), CheapAndMemory(), DetectionList(), Tracked(), TrackList())
}
"""The fronts by the name that a model file gives them."""
OBSERVED: dict[str, str] = {"cheap": "tracked", "detection-list": "track-list"}
"""What is looked at in place of image boxes where the cheap mode observes."""
