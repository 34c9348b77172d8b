"""Truth: the reference state of one unit (labelled objects and regions where labels are not to be trusted).

Losses are judged against it. Nothing that an allocator can import may hold one.
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.geometry.corners import extent_m
from deepval.geometry.objects import Objects, check_frames


@dataclass(frozen=True)
class Truth:
    """Reference objects of a unit of `frames` frames, sorted by `frame`, and ignored image regions.

    `corners_m` are the four ground corners in the ego frame, `closing_mps` the closing speed (0 where the
    track was not there one frame earlier), `occlusion` KITTI's 0 (visible) to 3 (unknown).
    """

    unit: str
    frames: int
    frame: Int[np.ndarray, "obj"]
    cls: Shaped[np.ndarray, "obj"]
    track: Int[np.ndarray, "obj"]
    box_px: Float[np.ndarray, "obj 4"]
    occlusion: Int[np.ndarray, "obj"]
    corners_m: Float[np.ndarray, "obj 4 2"]
    closing_mps: Float[np.ndarray, "obj"]
    ignored_frame: Int[np.ndarray, "region"]
    ignored_box_px: Float[np.ndarray, "region 4"]

    def __post_init__(self) -> None:
        check_frames(self.frame, self.frames)
        check_frames(self.ignored_frame, self.frames)
        if not (np.isfinite(self.corners_m).all() and np.isfinite(self.closing_mps).all()):
            raise InputError(f"unit {self.unit}: reference corners and closing speeds must be finite.")

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def range_m(self) -> Float[np.ndarray, "obj"]:
        """Near face: smallest x of the ground corners."""
        return extent_m(self.corners_m, 0)[:, 0]

    @property
    def lateral_m(self) -> Float[np.ndarray, "obj 2"]:
        """Smallest and largest y of the ground corners."""
        return extent_m(self.corners_m, 1)

    @property
    def height_px(self) -> Float[np.ndarray, "obj"]:
        """Height of the image box."""
        return self.box_px[:, 3] - self.box_px[:, 1]

    @property
    def objects(self) -> Objects:
        """The reference objects as a decision rule sees them."""
        forward = extent_m(self.corners_m, 0)
        return Objects(self.frames, self.frame, forward[:, 0], forward[:, 1], self.lateral_m, self.closing_mps)

    def judged(self, *, least_height_px: float = 25.0, most_occluded: int = 2) -> Bool[np.ndarray, "obj"]:
        """Whether an object counts in matching: tall enough and not too occluded. The others are ignored."""
        return (self.height_px >= least_height_px) & (self.occlusion <= most_occluded)
