"""Sight or Glance -> the row of numbers per frame that a learned allocator looks at.

A front is named in model files, with the names of its columns. A unit at once and a frame as it arrives give the same
bits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import nan
from typing import ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.features import FEATURE_NAMES, Glance, Sight, cheap_features, frame_features
from deepval.geometry.camera import Camera
from deepval.geometry.classes import CLASSES
from deepval.memory import MEMORY_NAMES, frame_memory, memory_features
from deepval.signals import Part


class Front(ABC):
    """What a learned allocator looks at. `uses` names the parts of the view that it reads."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[frozenset[Part]]

    @abstractmethod
    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The row of each frame of a unit."""

    @abstractmethod
    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The row of one frame as it arrives."""


@dataclass(frozen=True)
class Cheap(Front):
    """The 65 cheap-side features."""

    name: ClassVar[str] = "cheap"
    columns: ClassVar[tuple[str, ...]] = FEATURE_NAMES
    uses: ClassVar[frozenset[Part]] = frozenset(
        {"ego speed", "cheap boxes", "cheap scores", "calibration", "previous frames", "image"}
    )

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The 65 features of each frame."""
        return cheap_features(sight)

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """The 65 features of one frame."""
        return frame_features(glance)


@dataclass(frozen=True)
class CheapAndMemory(Front):
    """The 65 cheap-side features and the memory features."""

    name: ClassVar[str] = "cheap+memory"
    columns: ClassVar[tuple[str, ...]] = (*FEATURE_NAMES, *MEMORY_NAMES)
    uses: ClassVar[frozenset[Part]] = Cheap.uses

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """Features and memory of each frame."""
        return np.concatenate([cheap_features(sight), memory_features(sight)], axis=1)

    def row(self, glance: Glance) -> Float[np.ndarray, "column"]:
        """Features and memory of one frame."""
        return np.concatenate([frame_features(glance), frame_memory(glance)])


SLOTS = 25
SLOT = ("x", "y", "width", "height", "probability")


@dataclass(frozen=True)
class DetectionList(Front):
    """The 25 most confident cheap boxes: how many of each class, then place, size and probability of each, padded by 0.

    Where the mode has no scores the nearest boxes come first. Places and sizes are shares of the image. M63, A29.
    """

    name: ClassVar[str] = "detection-list"
    columns: ClassVar[tuple[str, ...]] = (
        *(f"count_{name}" for name in CLASSES),
        *(f"box{slot}_{part}" for slot in range(1, SLOTS + 1) for part in SLOT),
    )
    uses: ClassVar[frozenset[Part]] = frozenset({"cheap boxes", "cheap scores", "calibration"})

    def rows(self, sight: Sight) -> Float[np.ndarray, "time column"]:
        """The list of each frame."""
        boxes = sight.boxes
        frame = boxes.frames.frame
        nearness = boxes.near_m if sight.view.mode.scores == "none" else np.zeros(len(frame))
        order = np.lexsort((nearness, frame))
        slot = np.arange(len(order)) - boxes.frames.start[frame[order]]
        listed, slot = order[slot < SLOTS], slot[slot < SLOTS]
        found = np.zeros((len(sight), len(self.columns)))
        np.add.at(found, (frame[listed], boxes.code[listed]), 1.0)
        (width, height), (x1, y1, x2, y2) = size_px(sight.view.scene.camera), boxes.box_px[listed].T
        parts = (x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height
        for number, part in enumerate((*parts, boxes.probability[listed])):
            found[frame[listed], len(CLASSES) + len(SLOT) * slot + number] = part
        found[~sight.view.detections.run] = np.nan
        return found

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


def size_px(camera: Camera) -> tuple[float, float]:
    """Width and height of the image; twice the optical centre where the calibration does not say."""
    return float(camera.width_px or 2 * camera.cx_px), float(camera.height_px or 2 * camera.cy_px)


FRONTS: dict[str, Front] = {front.name: front for front in (Cheap(), CheapAndMemory(), DetectionList())}
"""The fronts by the name that a model file gives them."""
