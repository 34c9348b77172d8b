"""What a placing is: detections of one mode on one unit -> perceived objects in the ego frame."""

from abc import ABC, abstractmethod

import numpy as np

from deepval.arrays import Bool, Int
from deepval.perception.reported.detections import Detections
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


class Placing(ABC):
    """A way to place detections: a frozen dataclass whose fields are its settings."""

    @abstractmethod
    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, one per detection that `keep` marks (all where None) unless a placing says otherwise.

        Those that it drops (the persistence filter) still serve as the earlier boxes of others. Only a placing that
        says so looks at the truth.
        """

    def behind(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Int[np.ndarray, "obj"]:
        """The place of the detection behind each object that `place` gives, -1 where there is none."""
        return np.arange(len(detections)) if keep is None else np.flatnonzero(keep)
