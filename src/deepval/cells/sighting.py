"""A specification and a unit's id -> the unit as read: scene, truth, and each mode's report, whole and as used."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from deepval.arrays import Bool
from deepval.cells.spec import CellSpec, ModeSpec
from deepval.datasets import Dataset
from deepval.errors import InputError
from deepval.perception.placing import PLACINGS
from deepval.perception.reported.detection_rows import ModeReader
from deepval.perception.reported.detections import Detections, persistent
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth

Item = TypeVar("Item")


class _Cache(Generic[Item]):
    """The items read last, up to a number."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.items: OrderedDict[Hashable, Item] = OrderedDict()

    def item(self, key: Hashable, read: Callable[[], Item]) -> Item:
        """The item of a key, read now if it is not in the cache."""
        if key not in self.items:
            self.items[key] = read()
        self.items.move_to_end(key)
        self.resize(self.most)
        return self.items[key]

    def resize(self, most: int) -> None:
        """Limit the cache to `most` items from now on; the least recently used are dropped."""
        self.most = most
        while len(self.items) > most:
            self.items.popitem(last=False)


_UNITS: _Cache[tuple[Scene, Truth]] = _Cache(1)
_REPORTS: _Cache[Detections] = _Cache(4)


def hold_units(most: int = 1) -> None:
    """Hold this many units in memory from now on, for repeated passes over them; their files must not change."""
    _UNITS.resize(most)
    _REPORTS.resize(4 * most)


@dataclass(frozen=True)
class Sighting:
    """One unit as read: the scene, its truth, and by mode the reported detections and those used."""

    scene: Scene
    truth: Truth
    reported: Mapping[str, Detections]
    used: Mapping[str, Detections]

    @property
    def run(self) -> dict[str, Bool[np.ndarray, "time"]]:
        """For each mode, the frames on which it was run."""
        return {mode: detections.run for mode, detections in self.used.items()}


def sighting(spec: CellSpec, unit: str) -> Sighting:
    """The unit as the cell reads it; cached for other cells of the same data set and modes."""
    if spec.source is None:
        raise InputError(f"{spec.id}: nobody said where the data set lies; give its folder.")
    return _sighting(spec.source, spec.files_digest, spec.modes, unit)


@lru_cache(maxsize=1)
def _sighting(source: Dataset, files: str, modes: tuple[ModeSpec, ...], unit: str) -> Sighting:
    scene, truth = _read(source, files, unit)
    reported, used = {}, {}
    for mode in modes:
        report = reported[mode.name] = _report(source, files, unit, mode)
        used[mode.name] = used_of(mode, report)
    return Sighting(scene, truth, reported, used)


def _read(source: Dataset, files: str, unit: str) -> tuple[Scene, Truth]:
    return _UNITS.item((source, files, unit), lambda: source.read_unit(unit))


def _report(source: Dataset, files: str, unit: str, mode: ModeSpec) -> Detections:
    """A mode's report on a unit before any threshold; cached for variants of a cell."""
    key = (source, files, unit, _reader(mode), mode.classes)
    return _REPORTS.item(key, lambda: report_of(mode, *_read(source, files, unit)))


def report_of(mode: ModeSpec, scene: Scene, truth: Truth) -> Detections:
    """A mode's report on a unit, restricted to the mode's classes."""
    return _of_classes(_reader(mode).detections(scene, truth), mode.classes)


def _reader(mode: ModeSpec) -> ModeReader:
    if mode.reader is None:
        raise InputError(f"mode {mode.name}: nobody said where its report lies; give its file.")
    return mode.reader


def _of_classes(report: Detections, classes: tuple[str, ...] | None) -> Detections:
    return report if classes is None else report.where(np.isin(report.cls, np.array(sorted(classes), dtype=str)))


def used_of(mode: ModeSpec, report: Detections) -> Detections:
    """The detections of a report that reach the mode's threshold."""
    return report if mode.threshold is None else report.where(report.score >= mode.threshold)


def perceived(spec: CellSpec, seen: Sighting) -> dict[str, Objects]:
    """The downstream system's objects, by mode."""
    return {mode: placed(spec, seen, mode) for mode in seen.used}


def placed(spec: CellSpec, seen: Sighting, mode: str) -> Objects:
    """The downstream system's objects from one mode."""
    used = seen.used[mode]
    keep = persistent(used) if spec.persistence else None
    return PLACINGS[spec.geometry].place(used, seen.scene, seen.truth, keep=keep)
