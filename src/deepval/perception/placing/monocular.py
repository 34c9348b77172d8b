"""Monocular placing: image boxes -> perceived objects, by lift and box growth alone, as a vehicle could."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from deepval.arrays import Bool, Int
from deepval.errors import InputError
from deepval.geometry.classes import HEIGHT_M, LENGTH_M, lookup
from deepval.geometry.lift import LiftSettings, lift
from deepval.geometry.motion import expansion_per_s
from deepval.perception.reported.detections import Detections
from deepval.world.objects import Objects, box_objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


class Placing(ABC):
    """A method of placing detections: a frozen dataclass whose fields are its settings.

    Attributes:
        observes: Whether allocators look at the objects that it creates from the cheap mode's report, as the planner
            does, and not at image boxes.
    """

    observes: ClassVar[bool] = False

    @abstractmethod
    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, one per detection that `keep` marks (all where None) unless a placing states otherwise.

        Detections that it drops (the persistence filter) still serve as the earlier boxes of others. Only a placing
        whose docstring states it looks at the truth.
        """

    def behind(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Int[np.ndarray, "obj"]:
        """The index of the detection behind each object that `place` returns, -1 for an object without one."""
        return np.arange(len(detections)) if keep is None else np.flatnonzero(keep)


@dataclass(frozen=True)
class Monocular(Placing):
    """The lift of every image box; it does not look at the truth."""

    settings: LiftSettings = field(default_factory=LiftSettings)

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects: near face at the lifted range, far end a class length behind it."""
        return monocular_objects(detections, scene, keep=keep, settings=self.settings)


def monocular_objects(
    detections: Detections,
    scene: Scene,
    *,
    keep: Bool[np.ndarray, "det"] | None = None,
    settings: LiftSettings | None = None,
) -> Objects:
    """Perceived objects, one per detection: near face at the lifted range, far end a class length behind it.

    Closing speed = range times the box height's growth rate where that is positive, else 0. Boxes that
    `keep` drops (the persistence filter) still serve as the earlier boxes of others.
    """
    if np.isnan(detections.box_px).any():
        raise InputError(f"unit {detections.unit}: the monocular lift needs image boxes; this source has none.")
    lifted = lift(detections.box_px, lookup(detections.cls, HEIGHT_M), camera=scene.camera, settings=settings)
    growth = expansion_per_s(detections.frame, detections.box_px, class_code=detections.class_code, dt_s=scene.dt_s)
    objects = box_objects(
        len(scene),
        detections.frame,
        near_m=lifted.range_m,
        far_m=lifted.range_m + lookup(detections.cls, LENGTH_M),
        lateral_m=lifted.lateral_m,
        closing_mps=lifted.range_m * np.maximum(growth, 0.0),
        names=detections.cls,
        track=detections.track,
    )
    return objects if keep is None else objects.where(keep)
