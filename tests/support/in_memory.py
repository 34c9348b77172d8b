"""Data sets and detections read into memory at once, where a build reads them unit by
unit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.driving.datasets import Dataset, open_dataset
from deepval.driving.datasets.synthetic import Synthetic, WorldSettings
from deepval.driving.perception.reported.detection_files import open_detections
from deepval.driving.perception.reported.detection_rows import DetectionFile, Source
from deepval.driving.perception.reported.detections import Detections, ScoreKind
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True, eq=False)
class Recording(Dataset):
    """A data set in memory: scenes and truths of the same units in the same order."""

    called: str
    scenes: tuple[Scene, ...]
    truths: tuple[Truth, ...]

    def __post_init__(self) -> None:
        if self.units != tuple(truth.unit for truth in self.truths):
            raise InputError(
                f"data set {self.called}: scenes and truths must be of the same units "
                "in the same order."
            )
        for scene, truth in zip(self.scenes, self.truths, strict=True):
            if len(scene) != truth.frames:
                raise InputError(
                    f"unit {scene.unit}: scene and truth must have equally many "
                    f"frames; found {len(scene)} and {truth.frames}."
                )

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return self.called

    @property
    def units(self) -> tuple[str, ...]:
        """Ids of the units."""
        return tuple(scene.unit for scene in self.scenes)

    def files(self, unit: str) -> dict[str, Path]:
        """None: it is in memory."""
        return {}

    def unit_ids(self) -> tuple[str, ...]:
        """Ids of all its units, in order."""
        return self.units

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene and the reference of one unit."""
        index = self.units.index(unit)
        return self.scenes[index], self.truths[index]


def read_units(source: Dataset, units: Sequence[str] | None = None) -> Recording:
    """Units of a data set in memory, all where None."""
    pairs = [source.read_unit(unit) for unit in source.select(units)]
    return Recording(
        source.name,
        tuple(scene for scene, _ in pairs),
        tuple(truth for _, truth in pairs),
    )


def read_dataset(
    name: str, root: Any = None, units: Sequence[str] | None = None, **options: Any
) -> Recording:
    """The named units of a data set (all where None), in memory."""
    return read_units(open_dataset(name, root, **options).for_units(units), units)


def read_world(
    root: Any = None,
    units: Sequence[str] | None = None,
    *,
    seed: int = 0,
    scenes: int = 48,
    frames: int = 40,
    picture_format: str = "jpg",
) -> Recording:
    """The named scenes of the synthetic world (all where None); pictures are written
    under `root`, if any.
    """
    settings = WorldSettings(scenes=scenes, frames=frames)
    return read_units(
        Synthetic(root, seed=seed, settings=settings, picture_format=picture_format),
        units,
    )


@dataclass(frozen=True)
class DetectionSet:
    """One mode on a data set: name, kind of scores, detections per unit, and counts of
    dropped rows.
    """

    mode: str
    scores: ScoreKind
    units: Mapping[str, Detections]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(detections) for detections in self.units.values())

    def __getitem__(self, unit: str) -> Detections:
        if unit not in self.units:
            raise InputError(
                f"mode {self.mode} must cover unit {unit}; it does not: run it there, "
                "or leave it out."
            )
        return self.units[unit]

    def where(self, keep: Callable[[Detections], np.ndarray]) -> "DetectionSet":
        """The detections that `keep` marks in each unit."""
        return replace(
            self,
            units={
                unit: detections.where(keep(detections))
                for unit, detections in self.units.items()
            },
        )

    def of_units(self, units: Iterable[str]) -> "DetectionSet":
        """The set restricted to `units`."""
        return replace(self, units={unit: self[unit] for unit in units})

    def above(self, threshold: float) -> "DetectionSet":
        """The detections with score >= threshold; an error where the source has no
        scores.
        """
        if self.scores == "none":
            raise InputError(
                f"mode {self.mode} has no scores; a threshold needs some: leave the "
                "threshold out."
            )
        return self.where(lambda detections: detections.score >= threshold)


def over(file: DetectionFile, scenes: Sequence[Scene]) -> DetectionSet:
    """The detections of a file on several scenes."""
    file.check_units([scene.unit for scene in scenes])
    return DetectionSet(
        file.mode,
        file.scores,
        {scene.unit: file.on(scene) for scene in scenes},
        file.dropped,
    )


def read_detections(
    path: Path | str,
    scenes: Sequence[Scene],
    *,
    source: Source | None = None,
    annotations: Path | str | None = None,
) -> DetectionSet:
    """Detections of a file of any supported kind on some scenes; arguments as for
    `open_detections`.
    """
    units = [scene.unit for scene in scenes]
    return over(
        open_detections(path, source=source, annotations=annotations, units=units),
        scenes,
    )
