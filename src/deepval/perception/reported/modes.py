"""Sources of a mode's report (file, memory, simulation) -> its detections, unit by unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import file_digest, folder_digests
from deepval.perception.reported.detection_files import is_cache, open_detections
from deepval.perception.reported.detection_rows import DetectionFile, ModeReader, Source
from deepval.perception.reported.detections import Detections, ScoreKind
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class FileMode(ModeReader):
    """A report in a file, or in a mode's folder of a cache.

    Attributes:
        path: Detections of any kind that `open_detections` reads.
        mode: The mode's name.
        declared: The kind of its scores; None takes the file's declaration.
        units: Units of the data set, of which the file must contain some.
        sha256: Hash of the file, or of each file of the folder as pairs of name and hash: the bytes read must match.
        classes: The data set's name for each class that may be reported, as pairs; None: the usual names of the file.
        frames_run: Numbers of the frames that it was run on, as pairs of unit and numbers; None: from the file.
    """

    path: Path
    mode: str
    declared: ScoreKind | None
    units: tuple[str, ...]
    sha256: str | tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, str], ...] | None = None
    frames_run: tuple[tuple[str, tuple[int, ...]], ...] | None = None

    @classmethod
    def of(
        cls,
        path: Path | str,
        mode: str,
        scores: ScoreKind | None,
        units: Sequence[str],
        classes: Mapping[str, str] | None = None,
        *,
        frames_run: Mapping[str, Sequence[int]] | None = None,
    ) -> "FileMode":
        """The report at a path, with its present hash."""
        path = Path(path)
        if not reading.exists(path):
            raise InputError(f"detections must be at {path}; there is nothing there: check the path.")
        pairs = None if classes is None else tuple(classes.items())
        run = None if frames_run is None else tuple((unit, tuple(frames)) for unit, frames in frames_run.items())
        return cls(path, mode, scores, tuple(units), _digests(path), pairs, run)

    @property
    def scores(self) -> ScoreKind:
        """The kind of its scores."""
        return _open_file(self).scores

    @property
    def made(self) -> dict[str, Any]:
        """The file by name and hash, the kind of its scores, and the frames it was run on where these were listed."""
        sha256 = self.sha256 if isinstance(self.sha256, str) else dict(self.sha256)
        run = (
            {} if self.frames_run is None else {"frames_run": {unit: list(frames) for unit, frames in self.frames_run}}
        )
        return {"source": self.path.name, "sha256": sha256, "scores": self.scores, **run}

    @property
    def whole(self) -> bool:
        """A cache is filled unit by unit, so a missing unit was not reached yet."""
        return is_cache(self.path)

    @property
    def by_scene(self) -> bool:
        """Results that name frames by tokens (nuScenes) list every frame of a scene, also frames without boxes."""
        return _open_file(self).rows.unit is None

    def rests_on(self, unit: str) -> Any:
        """The hash of the unit's rows, or the whole file where its rows have no units."""
        return _open_file(self).unit_digest(unit) or self.made

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """The mode's detections on one unit."""
        return _open_file(self).on(scene)


@lru_cache(maxsize=8)
def _open_file(mode: FileMode) -> DetectionFile:
    """The file of a mode, read once in each process."""
    run = None if mode.frames_run is None else dict(mode.frames_run)
    source = Source(mode.mode, mode.declared, None if mode.classes is None else dict(mode.classes), run)
    file = open_detections(mode.path, source=source, units=mode.units)
    if _digests(mode.path) != mode.sha256:
        raise InputError(f"{mode.path}: must not change while it is read, and did: build again when it is whole.")
    file.check_units(mode.units)
    return file


def _digests(path: Path) -> str | tuple[tuple[str, str], ...]:
    return file_digest(path) if reading.is_file(path) else tuple(folder_digests(path, ["**/*"]).items())
