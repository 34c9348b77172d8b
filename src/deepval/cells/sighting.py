"""A specification and a unit's id -> the unit as read: scene, truth, and what each mode reports and lets through."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deepval.arrays import Bool
from deepval.cells.spec import CellSpec, ModeSpec
from deepval.datasets import Dataset
from deepval.errors import InputError
from deepval.perception.placing import PLACINGS
from deepval.perception.reported.detections import Detections
from deepval.perception.reported.persistence import persistent
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Sighting:
    """One unit as read: the scene, its truth, what each mode reports of it and what is used of that."""

    scene: Scene
    truth: Truth
    reported: Mapping[str, Detections]
    used: Mapping[str, Detections]

    @property
    def run(self) -> dict[str, Bool[np.ndarray, "time"]]:
        """For each mode, the frames on which it was run."""
        return {mode: detections.run for mode, detections in self.used.items()}


def sighting(spec: CellSpec, unit: str) -> Sighting:
    """The unit as the cell reads it; kept for the other cells that share data set and modes."""
    if spec.source is None:
        raise InputError(f"{spec.id}: nobody said where the data set lies; give its folder.")
    return _sighting(spec.source, spec.modes, unit)


@lru_cache(maxsize=1)
def _sighting(source: Dataset, modes: tuple[ModeSpec, ...], unit: str) -> Sighting:
    scene, truth = source.read_unit(unit)
    reported, used = {}, {}
    for mode in modes:
        if mode.reader is None:
            raise InputError(f"mode {mode.name}: nobody said where its report lies; give its file.")
        report = mode.reader.detections(scene, truth)
        if mode.classes is not None:
            report = report.where(np.isin(report.cls, np.array(sorted(mode.classes), dtype=str)))
        reported[mode.name] = report
        used[mode.name] = report if mode.threshold is None else report.where(report.score >= mode.threshold)
    return Sighting(scene, truth, reported, used)


def perceived(spec: CellSpec, seen: Sighting) -> dict[str, Objects]:
    """For each mode, the objects that the downstream system is given."""
    place = PLACINGS[spec.geometry].place
    return {
        mode: place(used, seen.scene, seen.truth, keep=persistent(used) if spec.persistence else None)
        for mode, used in seen.used.items()
    }
