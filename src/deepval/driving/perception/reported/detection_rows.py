"""Rows of a detection file -> one mode's detections laid over scenes, with frames run
and rows dropped.

Names are mapped to the benchmark's classes (others are dropped and counted), boxes
without width or height are dropped and counted, and frames are those of the scenes
passed in. Impossible numbers, such as half a frame or an infinite box, are refused with
their row.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.boxes import proper
from deepval.driving.perception.reported.detections import (
    DONE,
    FAILED,
    NEVER_RUN,
    Detections,
    ScoreKind,
)
from deepval.driving.world.scene import FASTEST_MPS, Scene
from deepval.driving.world.truth import Truth

LARGEST_PX, FARTHEST_M, MOST_NUMBERED = 1e6, 1e8, 2**53
"""Upper limits of an image box, of a position in the world and of a frame number:
beyond them the file is at fault.
"""

LONGEST = "<U20"
"""Room for the longest name of a class."""

Listed = Sequence[Any] | np.ndarray
"""Frames by number or by id."""


@dataclass(frozen=True)
class FramesByUnit:
    """Frames of a scene that follow from the entry of its unit, or from None for a unit
    without an entry.
    """

    entries: Mapping[str, Any]
    frames: Callable[[Any, Scene], Listed]

    def __call__(self, scene: Scene) -> Listed:
        """The frames of a scene."""
        return self.frames(self.entries.get(scene.unit), scene)


Frames = Mapping[str, Listed] | FramesByUnit | Callable[[Scene], Listed]
"""Frames by the name of their unit, or a function from scenes to frames."""


@dataclass(frozen=True)
class Rows:
    """Rows of a file before they are laid over scenes; `frame` holds numbers or frame
    ids.

    `unit` is None where frame ids are different in all units. `line` is the line number
    of a row in its file, where that differs from its index here.
    """

    unit: Shaped[np.ndarray, "det"] | None
    frame: Shaped[np.ndarray, "det"]
    cls: Shaped[np.ndarray, "det"]
    score: Float[np.ndarray, "det"]
    box_px: Float[np.ndarray, "det 4"]
    track: Shaped[np.ndarray, "det"] | None = None
    cuboid_m: Float[np.ndarray, "det 7"] | None = None
    velocity_mps: Float[np.ndarray, "det 2"] | None = None
    cuboid_frame: str = "image_00"
    line: Int[np.ndarray, "det"] | None = None


@dataclass(frozen=True)
class Source:
    """How to read a file: the mode's name, the kind of its scores, its class names, and
    the frames that were run.

    `scores=None` takes the kind that the file declares, or probabilities if it has
    scores of undeclared kind. `frames_run` and `frames_failed` list frame ids (or frame
    numbers) per unit; a unit that `frames_run` leaves out was never run.
    """

    mode: str | None = None
    scores: ScoreKind | None = None
    classes: Mapping[str, str] | None = None
    frames_run: Frames | None = None
    frames_failed: Frames | None = None


@dataclass(frozen=True, eq=False)
class DetectionFile:
    """One mode's report as a file holds it: rows with the benchmark's classes, to be
    laid over one scene after another.

    Attributes:
        path: The file.
        mode: The mode's name.
        scores: The kind of the scores.
        rows: Its rows; without units where frame ids are different in all units.
        cls: The benchmark's class of each row.
        valid: Rows with a known class and a proper box.
        source: How it is read.
        dropped: Rows that are not valid, counted by reason.
    """

    path: Path
    mode: str
    scores: ScoreKind
    rows: Rows
    cls: Shaped[np.ndarray, "det"]
    valid: Bool[np.ndarray, "det"]
    source: Source
    dropped: Mapping[str, int]

    def check_units(self, units: Sequence[str]) -> None:
        """Raise where the file holds no unit of a data set."""
        file_units = (
            np.unique(self.rows.unit).tolist() if self.rows.unit is not None else []
        )
        if file_units and not set(units) & set(file_units):
            raise InputError(
                f"{self.path} must hold units of the data set "
                f"({', '.join(sorted(units)[:3])}, ...); found "
                f"{', '.join(file_units[:3])}: check that both belong together."
            )

    def on(self, scene: Scene) -> Detections:
        """The mode's detections on one scene, sorted by frame."""
        rows = self.rows
        index = (
            np.flatnonzero(np.isin(rows.frame, scene.frame_ids) & self.valid)
            if rows.unit is None
            else self._of(scene.unit)
        )
        frame = frame_index(rows.frame[index], scene, path=self.path)
        order = np.argsort(frame, kind="stable")
        index, frame = index[order], frame[order]
        return Detections(
            unit=scene.unit,
            frame=frame,
            cls=self.cls[index],
            score=np.full(len(index), np.nan)
            if self.scores == "none"
            else rows.score[index],
            box_px=rows.box_px[index],
            status=frame_status(scene, self.source, path=self.path),
            track=None if rows.track is None else rows.track[index],
            cuboid_m=None if rows.cuboid_m is None else rows.cuboid_m[index],
            velocity_mps=None
            if rows.velocity_mps is None
            else rows.velocity_mps[index],
            cuboid_frame=rows.cuboid_frame,
        )

    def _of(self, unit: str) -> Int[np.ndarray, "row"]:
        """Indices of a unit's valid rows."""
        return self._by_unit.get(unit, np.zeros(0, dtype=int))

    @cached_property
    def _by_unit(self) -> dict[str, Int[np.ndarray, "row"]]:
        index = np.flatnonzero(self.valid)
        names, code = np.unique(
            np.zeros(0, str) if self.rows.unit is None else self.rows.unit[index],
            return_inverse=True,
        )
        order = np.argsort(code, kind="stable")
        cuts = np.searchsorted(code[order], np.arange(1, len(names)))
        return dict(zip(names.tolist(), np.split(index[order], cuts), strict=False))


def detection_file(
    rows: Rows, *, path: Path, source: Source, classes: Mapping[str, str]
) -> DetectionFile:
    """Rows with classes mapped and checked; rows with a broken box or an unknown class
    are marked and counted.
    """
    rows = check_rows(rows, path=path)
    table = source.classes or classes
    names, code = np.unique(rows.cls, return_inverse=True)
    mapped = np.array([table.get(str(name), "") for name in names], dtype=LONGEST)
    cls = mapped[code] if len(names) else np.zeros(0, dtype=LONGEST)
    good = proper(rows.box_px)
    valid = good & (cls != "")
    kind = score_kind(rows.score[valid], source.scores, path=path)
    dropped = {
        "degenerate": int((~good).sum()),
        "class": int((good & (cls == "")).sum()),
    }
    return DetectionFile(
        path, source.mode or path.stem, kind, rows, cls, valid, source, dropped
    )


def check_rows(rows: Rows, *, path: Path) -> Rows:
    """The rows, frame numbers and track ids as whole numbers; InputError for impossible
    numbers.
    """

    def refuse(
        strange: Bool[np.ndarray, "det ..."], requirement: str, values: np.ndarray
    ) -> None:
        if strange.any():
            row = int(np.argmax(strange.reshape(len(strange), -1).any(axis=1)))
            line = row + 1 if rows.line is None else rows.line[row]
            numbers_text = ", ".join(
                f"{value:g}" for value in np.atleast_1d(values[row])
            )
            raise InputError(
                f"{requirement}; {path} has {numbers_text} in row {line} "
                f"({_input(rows, row)}): repair the file."
            )

    def whole(numbers: np.ndarray, requirement: str) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            refuse(
                ~((numbers % 1 == 0) & (np.abs(numbers) < MOST_NUMBERED)),
                requirement,
                numbers,
            )
        return numbers.astype(int)

    numbered = np.issubdtype(rows.frame.dtype, np.number)
    frame = whole(rows.frame, "frame numbers must be whole") if numbered else rows.frame
    track = (
        None
        if rows.track is None
        else whole(rows.track, "track ids must be whole numbers")
    )
    beyond = ~(np.abs(rows.box_px) <= LARGEST_PX)
    if rows.cuboid_m is not None:
        beyond &= ~np.isnan(rows.box_px).all(axis=1, keepdims=True)
    refuse(beyond, f"boxes must be finite and within {LARGEST_PX:g} px", rows.box_px)
    refuse(np.isinf(rows.score), "scores must be finite", rows.score)
    if rows.cuboid_m is not None:
        unknown = np.isnan(rows.cuboid_m).all(axis=1, keepdims=True)
        beyond = ~(np.abs(rows.cuboid_m) <= FARTHEST_M) & ~unknown
        refuse(
            beyond, f"cuboids must be finite and within {FARTHEST_M:g} m", rows.cuboid_m
        )
    if rows.velocity_mps is not None:
        beyond = np.abs(rows.velocity_mps) > FASTEST_MPS
        refuse(
            beyond, f"velocities must be at most {FASTEST_MPS:g} m/s", rows.velocity_mps
        )
    return replace(rows, frame=frame, track=track)


def _input(rows: Rows, row: int) -> str:
    return (
        str(rows.frame[row])
        if rows.unit is None
        else f"{rows.unit[row]}/{rows.frame[row]}"
    )


def score_kind(
    score: Float[np.ndarray, "det"], declared: ScoreKind | None, *, path: Path
) -> ScoreKind:
    """The kind of the scores; InputError where they contradict the declared kind."""
    if declared is not None and declared not in get_args(ScoreKind):
        raise InputError(
            f"scores must be probabilities, raw or none; found {declared!r} for {path}."
        )
    if declared == "none" or (
        declared is None and np.isnan(score).all() and len(score)
    ):
        return "none"
    if np.isnan(score).any():
        raise InputError(
            f"every detection must have a score; {path} has some without: "
            "--scores-are NAME=none."
        )
    if declared == "raw":
        return "raw"
    if len(score) and not (score.min() >= 0 and score.max() <= 1):
        raise InputError(
            f"probabilities must lie in 0 to 1; {path} has {score.min():g} to "
            f"{score.max():g}: declare them as raw (--scores-are NAME=raw)."
        )
    return "probabilities"


def frame_index(
    frame: Shaped[np.ndarray, "det"], scene: Scene, *, path: Path
) -> Int[np.ndarray, "det"]:
    """Positions in the scene of frames given by number (12 for the frame id 000012) or
    by frame id.
    """
    ids = scene.frame_ids
    if not len(frame):
        return np.zeros(0, dtype=int)
    if np.issubdtype(frame.dtype, np.number):
        digits = np.char.isdigit(ids.astype(str)).all()
        ids = ids.astype(int) if digits else np.arange(len(ids))
    order = np.argsort(ids, kind="stable")
    rank = np.minimum(np.searchsorted(ids, frame, sorter=order), len(ids) - 1)
    index = order[rank]
    strange = ids[index] != frame
    if strange.any():
        raise InputError(
            f"frames must be those of unit {scene.unit} ({len(scene)} frames); "
            f"{path} has {frame[strange][0]}: check that these "
            "frames belong to this data set."
        )
    return index


def frame_status(
    scene: Scene, source: Source, *, path: Path
) -> Int[np.ndarray, "time"]:
    """Whether the mode was run on each frame of the scene, failed there, or was never
    run.
    """
    status = np.full(len(scene), DONE)
    if source.frames_run is not None:
        status[:] = NEVER_RUN
        status[
            frame_index(_scene_frames(source.frames_run, scene), scene, path=path)
        ] = DONE
    if source.frames_failed is not None:
        status[
            frame_index(_scene_frames(source.frames_failed, scene), scene, path=path)
        ] = FAILED
    return status


def _scene_frames(frames: Frames, scene: Scene) -> np.ndarray:
    return as_frames(frames(scene) if callable(frames) else frames.get(scene.unit, ()))


def as_frames(frames: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Frame numbers or frame ids as an array; a mask of frames counts as their
    numbers.
    """
    array = np.asarray(frames)
    return np.flatnonzero(array) if array.dtype == bool else array


class ModeReader(ABC):
    """The source of a mode's report: small and plain, so that it can be sent to another
    process.
    """

    @property
    @abstractmethod
    def scores(self) -> ScoreKind:
        """The kind of its scores."""

    @property
    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """Its origin, files by their hashes: part of a cell's id."""

    @property
    def whole(self) -> bool:
        """Whether a unit on which it was not run at all is a mistake rather than a
        gap.
        """
        return False

    @property
    def by_definition(self) -> bool:
        """Whether its report follows from its definition, so that no detections or
        equal scores are no mistake.
        """
        return False

    @property
    def by_scene(self) -> bool:
        """Whether a unit on which it was run in part is a mistake: results of a split
        list every frame.
        """
        return False

    @abstractmethod
    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """All detections of the mode on one unit; only a simulation looks at the
        truth.
        """
