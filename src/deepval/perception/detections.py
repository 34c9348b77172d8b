"""Detections of one perception mode: flat arrays per unit, kept with what was run and what the scores mean.

A frame without detections was run and reported nothing; a frame whose mode failed or was never run says
nothing.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError, InputWarning
from deepval.geometry.objects import check_frames

ScoreKind = Literal["probabilities", "raw", "none"]
CuboidFrame = Literal["camera", "world", "ego"]
DONE, FAILED, NEVER_RUN = 0, 1, 2


@dataclass(frozen=True)
class Detections:
    """One mode on one unit, sorted by `frame`; `status` has one of DONE, FAILED, NEVER_RUN per frame.

    `score` is NaN where the source has none, `box_px` NaN where it reports no image box. `cuboid_m` is (x,
    y, z of the centre, length, width, height, yaw) in the frame `cuboid_frame`; `velocity_mps` is (x, y) in
    it.
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
    cuboid_frame: CuboidFrame = "camera"

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

    def of_classes(self, classes: Iterable[str]) -> "DetectionSet":
        """The detections of those classes."""
        wanted = np.array(sorted(classes), dtype=str)
        return self.where(lambda found: np.isin(found.cls, wanted))

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


def calibrated(detections: DetectionSet, calibration: Calibration) -> DetectionSet:
    """The set with raw scores turned into probabilities."""
    if detections.scores != "raw":
        raise InputError(f"only raw scores are calibrated; those of mode {detections.mode} are {detections.scores}.")
    units = {
        unit: replace(found, score=np.interp(found.score, calibration.raw, calibration.probability))
        for unit, found in detections.units.items()
    }
    return replace(detections, scores="probabilities", units=units)


class Coverage(NamedTuple):
    """How many frames of a data set a mode covers, and the units where it was run and found nothing."""

    frames: int
    failed: int
    never_run: int
    empty: int
    silent_units: tuple[str, ...]


def coverage(detections: DetectionSet, *, strict: bool = False) -> Coverage:
    """What a mode covers; warns of silent units (an error under `strict`) and of scores that are all the same."""
    status = np.concatenate([np.zeros(0, dtype=int), *(found.status for found in detections.units.values())])
    filled = sum(len(np.unique(found.frame)) for found in detections.units.values())
    silent = tuple(unit for unit, found in detections.units.items() if found.run.any() and not len(found))
    if silent:
        message = (
            f"mode {detections.mode} reports nothing at all in unit {', '.join(silent)}: "
            "check that it was run there; its frames count as frames without detections."
        )
        if strict:
            raise InputError(message)
        warnings.warn(message, InputWarning, stacklevel=2)
    scores = np.concatenate([np.zeros(0), *(found.score for found in detections.units.values())])
    if detections.scores != "none" and len(scores) > 1 and (scores == scores[0]).all():
        message = (
            f"all {len(scores):,} scores of mode {detections.mode} are {scores[0]:g}, so they say nothing: "
            "declare them as none."
        )
        warnings.warn(message, InputWarning, stacklevel=2)
    return Coverage(
        frames=len(status),
        failed=int((status == FAILED).sum()),
        never_run=int((status == NEVER_RUN).sum()),
        empty=int((status == DONE).sum()) - filled,
        silent_units=silent,
    )


def run_by_all(modes: Iterable[DetectionSet], unit: str) -> Bool[np.ndarray, "time"]:
    """Frames of a unit on which every mode was run: the inputs that can be compared."""
    marks = [mode[unit].run for mode in modes]
    if len({len(mark) for mark in marks}) != 1:
        raise InputError(f"unit {unit}: all modes must have as many frames; found {[len(mark) for mark in marks]}.")
    return np.logical_and.reduce(marks)
