"""Detections of one perception mode: flat arrays per unit, with the frames that were
run and the meaning of the scores.

A frame without detections was run and reported nothing; a frame on which the mode
failed or was never run carries no information.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError, InputWarning, few
from deepval.driving.geometry.boxes import frame_pairs, iou
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.world.objects import check_frames
from deepval.driving.world.scene import Scene

ScoreKind = Literal["probabilities", "raw", "none"]
DONE, FAILED, NEVER_RUN = 0, 1, 2


@dataclass(frozen=True)
class Detections:
    """One mode on one unit, sorted by `frame`; `status` has one of DONE, FAILED,
    NEVER_RUN per frame.

    `score` is NaN where the source has none, `box_px` NaN where it reports no image
    box. `cuboid_m` is (x, y, z of the centre, length, width, height, yaw) in the frame
    `cuboid_frame`: "world", "ego" or the name of one of the scene's cameras (KITTI's
    boxes are in the frame of its camera 0); `velocity_mps` is (x, y) in the same frame.
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
            raise InputError(
                f"unit {self.unit}: a frame's status must be done, failed or never "
                "run (0, 1, 2)."
            )
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
    def has_boxes(self) -> bool:
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

    def on(self, frames: Bool[np.ndarray, "time"]) -> "Detections":
        """The detections on some frames; the others count as never run."""
        return replace(
            self.where(frames[self.frame]),
            status=np.where(frames, self.status, NEVER_RUN),
        )


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from raw score to probability: linear between knots, flat
    outside.
    """

    raw: Float[np.ndarray, "knot"]
    probability: Float[np.ndarray, "knot"]


def calibrate(detections: Detections, calibration: Calibration) -> Detections:
    """The detections with raw scores turned into probabilities."""
    return replace(
        detections,
        score=np.interp(detections.score, calibration.raw, calibration.probability),
    )


@dataclass(frozen=True, eq=False)
class GroundBoxes:
    """One box per detection in the ego frame: centre, ground corners, and velocity
    (None where none is reported).
    """

    centre_m: Float[np.ndarray, "det 2"]
    corners_m: Float[np.ndarray, "det 4 2"]
    velocity_mps: Float[np.ndarray, "det 2"] | None


def has_ground_boxes(detections: Detections, scene: Scene) -> bool:
    """Whether every detection has a 3D box in a frame of the scene."""
    frames = (
        ("ego", *scene.cameras)
        if scene.world_from_ego is None
        else ("world", "ego", *scene.cameras)
    )
    box = detections.cuboid_m
    return (
        box is not None
        and detections.cuboid_frame in frames
        and bool(np.isfinite(box).all())
    )


def ground_boxes(
    detections: Detections, scene: Scene, *, wanted_by: str
) -> GroundBoxes:
    """The boxes of detections that all have one; the error message names `wanted_by` as
    the part that needs them.
    """
    if detections.cuboid_m is None or not np.isfinite(detections.cuboid_m).all():
        raise InputError(
            f"unit {detections.unit}: {wanted_by} needs 3D boxes; this source has none."
        )
    box = detections.cuboid_m
    turn = _ego_from_source(detections, scene)
    centre_m = np.einsum("dij,dj->di", turn[:, :3, :3], box[:, :3]) + turn[:, :3, 3]
    ahead = np.einsum("dij,dj->di", turn[:, :3, :3], _heading(box[:, 6], detections))
    corners_m = ground_corners_m(
        centre_m[:, :2], box[:, 3:5], yaw_rad=np.arctan2(ahead[:, 1], ahead[:, 0])
    )
    velocity_mps = None
    if detections.velocity_mps is not None:
        flat = np.column_stack([detections.velocity_mps, np.zeros(len(box))])
        velocity_mps = np.einsum("dij,dj->di", turn[:, :3, :3], flat)[:, :2]
    return GroundBoxes(centre_m[:, :2], corners_m, velocity_mps)


def _ego_from_source(
    detections: Detections, scene: Scene
) -> Float[np.ndarray, "det 4 4"]:
    """The transform from the frame of the boxes to the ego frame, per detection."""
    if detections.cuboid_frame == "world":
        if scene.world_from_ego is None:
            raise InputError(
                f"unit {scene.unit}: boxes in the world frame "
                "need poses; the scene has none."
            )
        return np.linalg.inv(scene.world_from_ego)[detections.frame]
    if detections.cuboid_frame not in ("ego", *scene.cameras):
        raise InputError(
            f"unit {scene.unit}: boxes must be in a frame that the scene has: world, "
            "ego or "
            "a camera "
            f"({', '.join(scene.cameras)}); found {detections.cuboid_frame!r}."
        )
    still = (
        np.eye(4)
        if detections.cuboid_frame == "ego"
        else scene.cameras[detections.cuboid_frame].ego_from_cam
    )
    return np.broadcast_to(still, (len(detections), 4, 4))


def _heading(
    yaw_rad: Float[np.ndarray, "det"], detections: Detections
) -> Float[np.ndarray, "det 3"]:
    """Direction of a box's front: yaw turns from x to y, but in camera axes from x
    towards -z.
    """
    cos, sin, none = np.cos(yaw_rad), np.sin(yaw_rad), np.zeros(len(yaw_rad))
    level = detections.cuboid_frame in ("world", "ego")
    return np.stack([cos, sin, none] if level else [cos, none, -sin], axis=-1)


FRAMES = 2
"""Number of preceding frames in which a detection must have been seen; the latency of
the filter in frames.
"""


def persistent(
    detections: Detections, *, frames: int = FRAMES, least_iou: float = 0.3
) -> Bool[np.ndarray, "det"]:
    """Whether each of the `frames` frames before has a box of the class with enough IoU
    to this one.

    The first `frames` frames of a unit pass nothing, nor do frames just after one that
    was not run.
    """
    passed = np.ones(len(detections), dtype=bool)
    code = detections.class_code
    for lag in range(1, frames + 1):
        pairs = frame_pairs(detections.frame, detections.frame, lag=lag)
        overlap = iou(detections.box_px[pairs.first], detections.box_px[pairs.second])
        seen = (overlap >= least_iou) & (code[pairs.first] == code[pairs.second])
        supported = np.zeros(len(detections), dtype=bool)
        supported[pairs.first[seen]] = True
        passed &= supported
    return passed


class Coverage(NamedTuple):
    """Coverage of a unit by a mode: frames, frames reached (run or failed), frames run
    to the end, boxes, scores.
    """

    frames: int
    reached: int
    run: int
    boxes: int
    low: float
    high: float


def coverage(detections: Detections) -> Coverage:
    """The coverage of one unit by a mode."""
    status, scores = detections.status, detections.score
    return Coverage(
        frames=len(status),
        reached=int(np.count_nonzero(status != NEVER_RUN)),
        run=int(np.count_nonzero(detections.run)),
        boxes=len(scores),
        low=float(np.min(scores, initial=np.inf)),
        high=float(np.max(scores, initial=-np.inf)),
    )


def check_whole(mode: str, units: Mapping[str, Coverage]) -> None:
    """Raise where a mode was not run at all on some unit: the cache is incomplete."""
    missing = [unit for unit, part in units.items() if not part.reached]
    if missing:
        raise InputError(
            f"mode {mode}: every unit must have been run, and {len(missing)} of "
            f"{len(units)} were not: {few(missing)}. Run `deepval detect` to "
            "its end, or name the others with --units."
        )


def check_scenes(mode: str, units: Mapping[str, Coverage]) -> None:
    """Raise where results that must list every frame of a unit list only some: they do
    not cover their split.
    """
    for unit, part in units.items():
        if 0 < part.reached < part.frames:
            raise InputError(
                f"mode {mode}: results must list every sample of a scene, and "
                f"{part.frames - part.reached} of {part.frames} of {unit} are "
                "missing: give those without boxes an empty list, or leave the scene "
                "out with --units."
            )


def check_coverage(
    mode: str, units: Mapping[str, Coverage], *, scored: bool, strict: bool = False
) -> None:
    """Warn of frames that a mode does not cover, of units without detections and of
    scores that are all equal.

    Args:
        mode: The mode's name.
        units: Its coverage by unit.
        scored: Whether it has scores.
        strict: Whether a unit in which it reports nothing is an error.
    """
    left = {
        unit: part.frames - part.reached
        for unit, part in units.items()
        if part.frames > part.reached
    }
    if left:
        _warn(
            f"mode {mode} was not run on {sum(left.values()):,} of "
            f"{sum(part.frames for part in units.values()):,} frames, which are no "
            f"inputs then: in unit {', '.join(left)}."
        )
    silent = [unit for unit, part in units.items() if part.run and not part.boxes]
    if silent:
        message = (
            f"mode {mode} reports nothing at all in unit {', '.join(silent)}: "
            "check that it was run there; its frames count "
            "as frames without detections."
        )
        if strict:
            raise InputError(message)
        _warn(message)
    low, high = (
        min(part.low for part in units.values()),
        max(part.high for part in units.values()),
    )
    boxes = sum(part.boxes for part in units.values())
    if scored and boxes > 1 and low == high:
        _warn(
            f"all {boxes:,} scores of mode {mode} are {low:g} and carry no "
            "information: declare them as none."
        )


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=4)
