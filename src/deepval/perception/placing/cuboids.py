"""Cuboid placing: reported 3D boxes -> perceived objects, by their ground corners in the ego frame.

Closing speed = ego speed - x-component of the object's own velocity in the ego frame (which is 0 where none is given).
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Bool
from deepval.perception.placing.placing import Placing
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.ground import ground_boxes
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Cuboids(Placing):
    """Every 3D box where its detector put it; the truth is not looked at."""

    def place(
        self, detections: Detections, scene: Scene, truth: Truth, *, keep: Bool[np.ndarray, "det"] | None = None
    ) -> Objects:
        """The objects, with their own velocity and track where the detector reports them."""
        box, frame = ground_boxes(detections, scene, wanted_by="the placing 'cuboids'"), detections.frame
        own_mps = np.zeros(len(frame)) if box.velocity_mps is None else np.nan_to_num(box.velocity_mps[:, 0])
        objects = Objects.of(
            len(scene),
            frame,
            corners_m=box.corners_m,
            closing_mps=scene.ego_speed_mps[frame] - own_mps,
            names=detections.cls,
            track=detections.track,
            velocity_mps=box.velocity_mps,
        )
        return objects if keep is None else objects.where(keep)
