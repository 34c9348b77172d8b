"""Truth: the reference of one unit: labelled objects, regions where labels are not to
be trusted, the logged future.

Losses are computed against it. No module that an allocator imports may hold a truth.
"""

from dataclasses import dataclass, replace

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.world.objects import Objects, check_frames


@dataclass(frozen=True)
class Future:
    """The logged path of the vehicle after each frame: (x, y, yaw) in that frame's ego
    frame, `times_s` ahead.

    `valid` marks the logged poses; the others are undefined. A system that needs a
    future has a loss only at valid frames. `objects`, if other objects were logged too,
    has one item per time ahead: the other objects at that time, in the ego frame of the
    frame itself.
    """

    times_s: Float[np.ndarray, "ahead"]
    pose: Float[np.ndarray, "time ahead 3"]
    valid: Bool[np.ndarray, "time ahead"]
    objects: tuple[Objects, ...] = ()

    def __post_init__(self) -> None:
        if not np.isfinite(self.pose[self.valid]).all():
            raise InputError(
                "a logged future must be finite where it is "
                "valid; found NaN or infinity."
            )
        if self.objects and [objects.frames for objects in self.objects] != [
            len(self.pose)
        ] * len(self.times_s):
            raise InputError(
                "objects of a logged future must be given for each time ahead and "
                "span all frames."
            )


@dataclass(frozen=True, eq=False)
class Truth:
    """Reference objects of a unit with their image boxes, ignored image regions, and
    the future where it was logged.

    `occlusion` is KITTI's 0 (visible) to 3 (unknown); an object's closing speed is 0
    where the frame before lacks its track.
    """

    unit: str
    objects: Objects
    box_px: Float[np.ndarray, "obj 4"]
    occlusion: Int[np.ndarray, "obj"]
    ignored_frame: Int[np.ndarray, "region"]
    ignored_box_px: Float[np.ndarray, "region 4"]
    future: Future | None = None

    def __post_init__(self) -> None:
        check_frames(self.ignored_frame, self.frames)
        if not (
            np.isfinite(self.objects.corners_m).all()
            and np.isfinite(self.objects.closing_mps).all()
        ):
            raise InputError(
                f"unit {self.unit}: reference corners and closing "
                "speeds must be finite."
            )
        if self.future is not None and len(self.future.pose) != self.frames:
            raise InputError(
                f"unit {self.unit}: a logged future "
                f"needs a row per frame ({self.frames})."
            )

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def frames(self) -> int:
        """Number of frames of the unit."""
        return self.objects.frames

    @property
    def frame(self) -> Int[np.ndarray, "obj"]:
        """Frame of each object."""
        return self.objects.frame

    @property
    def cls(self) -> Shaped[np.ndarray, "obj"]:
        """Class of each object."""
        return self.objects.cls

    @property
    def height_px(self) -> Float[np.ndarray, "obj"]:
        """Height of the image box."""
        return self.box_px[:, 3] - self.box_px[:, 1]

    def where(self, keep: Bool[np.ndarray, "obj"]) -> "Truth":
        """The truth with the objects marked by `keep` only."""
        return replace(
            self,
            objects=self.objects.where(keep),
            box_px=self.box_px[keep],
            occlusion=self.occlusion[keep],
        )

    def judged(
        self, *, least_height_px: float = 25.0, most_occluded: int = 2
    ) -> Bool[np.ndarray, "obj"]:
        """Whether an object counts in matching: tall enough and not too occluded.

        The others are ignored.
        """
        return (self.height_px >= least_height_px) & (self.occlusion <= most_occluded)
