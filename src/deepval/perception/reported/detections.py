"""Detections of one perception mode: flat arrays per unit, kept with what was run and what the scores mean.

A frame without detections was run and reported nothing; a frame whose mode failed or was never run says
nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.world.objects import check_frames

ScoreKind = Literal["probabilities", "raw", "none"]
DONE, FAILED, NEVER_RUN = 0, 1, 2


@dataclass(frozen=True)
class Detections:
    """One mode on one unit, sorted by `frame`; `status` has one of DONE, FAILED, NEVER_RUN per frame.

    `score` is NaN where the source has none, `box_px` NaN where it reports no image box. `cuboid_m` is (x,
    y, z of the centre, length, width, height, yaw) in the frame `cuboid_frame`: "world", "ego" or the name of one
    of the scene's cameras (KITTI's are given in that of its camera 0); `velocity_mps` is (x, y) in it.
    """

    unit: str
    frame: Int[np.ndarray, "det"]
    cls: Shaped[np.ndarray, "det"]
    score: Float[np.ndarray, "det"]
    box_px: Float[np.ndarray, "det 4"]
    status: Int[np.ndarray, "time"]
    track: Int[np.ndarray, "det"] | None = None
    cuboid_m: Float[np.ndarray, "det 7"] | None = None
    velocity_mps: Float[np.ndarray, "det 2"] | None = None
    cuboid_frame: str = "image_00"

    def __post_init__(self) -> None:
        check_frames(self.frame, len(self.status))
        if not np.isin(self.status, (DONE, FAILED, NEVER_RUN)).all():
            raise InputError(f"unit {self.unit}: a frame's status must be done, failed or never run (0, 1, 2).")
        silent = np.unique(self.frame[self.status[self.frame] != DONE])
        if len(silent):
            raise InputError(
                f"unit {self.unit}: only frames that were run may hold detections; "
                f"frame {silent[0]} has some: mark it as run, or drop them."
            )

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def run(self) -> Bool[np.ndarray, "time"]:
        """Frames on which the mode was run to its end."""
        return self.status == DONE

    @property
    def boxed(self) -> bool:
        """Whether every detection has an image box."""
        return not np.isnan(self.box_px).any()

    @property
    def class_code(self) -> Int[np.ndarray, "det"]:
        """A number per class, for comparisons within the unit."""
        _, code = np.unique(self.cls, return_inverse=True)
        return code.reshape(len(self))

    def where(self, keep: Bool[np.ndarray, "det"]) -> "Detections":
        """The detections marked by `keep`."""
        return replace(
            self,
            frame=self.frame[keep],
            cls=self.cls[keep],
            score=self.score[keep],
            box_px=self.box_px[keep],
            track=None if self.track is None else self.track[keep],
            cuboid_m=None if self.cuboid_m is None else self.cuboid_m[keep],
            velocity_mps=None if self.velocity_mps is None else self.velocity_mps[keep],
        )


@dataclass(frozen=True)
class DetectionSet:
    """One mode on a data set: name, kind of scores, detections per unit, and what was dropped."""

    mode: str
    scores: ScoreKind
    units: Mapping[str, Detections]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(detections) for detections in self.units.values())

    def __getitem__(self, unit: str) -> Detections:
        if unit not in self.units:
            raise InputError(f"mode {self.mode} must cover unit {unit}; it does not: run it there, or leave it out.")
        return self.units[unit]

    def where(self, keep: Callable[[Detections], Bool[np.ndarray, "det"]]) -> "DetectionSet":
        """The detections that `keep` marks in each unit."""
        return replace(self, units={unit: found.where(keep(found)) for unit, found in self.units.items()})

    def of_units(self, units: Iterable[str]) -> "DetectionSet":
        """The set restricted to `units`."""
        return replace(self, units={unit: self[unit] for unit in units})

    def above(self, threshold: float) -> "DetectionSet":
        """The detections with score >= threshold; an error where the source has no scores."""
        if self.scores == "none":
            raise InputError(f"mode {self.mode} has no scores; a threshold needs some: leave the threshold out.")
        return self.where(lambda found: found.score >= threshold)


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from raw score to probability: linear between knots, flat outside."""

    raw: Float[np.ndarray, "knot"]
    probability: Float[np.ndarray, "knot"]


def calibrated(detections: Detections, calibration: Calibration) -> Detections:
    """The detections with raw scores turned into probabilities."""
    return replace(detections, score=np.interp(detections.score, calibration.raw, calibration.probability))
