"""A specification and a unit's id -> the unit as read: scene, truth, and what each mode reports and lets through."""

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
from deepval.perception.reported.detections import Detections, persistent
from deepval.perception.reported.modes import ModeReader
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth

Kept = TypeVar("Kept")


class _Held(Generic[Kept]):
    """What was read last, so much of it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.found: OrderedDict[Hashable, Kept] = OrderedDict()

    def asked(self, key: Hashable, read: Callable[[], Kept]) -> Kept:
        """What is held under a key, or is read now."""
        if key not in self.found:
            self.found[key] = read()
        self.found.move_to_end(key)
        self.hold(self.most)
        return self.found[key]

    def hold(self, most: int) -> None:
        """Hold so much from now on."""
        self.most = most
        while len(self.found) > most:
            self.found.popitem(last=False)


_UNITS: _Held[tuple[Scene, Truth]] = _Held(1)
_REPORTS: _Held[Detections] = _Held(4)


def hold_units(most: int = 1) -> None:
    """Hold so many units in memory from now on, for who goes through them again and again; files must not change."""
    _UNITS.hold(most)
    _REPORTS.hold(4 * most)


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
    return _sighting(spec.source, spec.files_digest, spec.modes, unit)


@lru_cache(maxsize=1)
def _sighting(source: Dataset, files: str, modes: tuple[ModeSpec, ...], unit: str) -> Sighting:
    scene, truth = _read(source, files, unit)
    reported, used = {}, {}
    for mode in modes:
        report = reported[mode.name] = _reported(source, files, unit, mode)
        used[mode.name] = used_of(mode, report)
    return Sighting(scene, truth, reported, used)


def _read(source: Dataset, files: str, unit: str) -> tuple[Scene, Truth]:
    return _UNITS.asked((source, files, unit), lambda: source.read_unit(unit))


def _reported(source: Dataset, files: str, unit: str, mode: ModeSpec) -> Detections:
    """What a mode reports of a unit, whatever threshold is put on it: held for variants of a cell."""
    key = (source, files, unit, _reader(mode), mode.classes)
    return _REPORTS.asked(key, lambda: report_of(mode, *_read(source, files, unit)))


def report_of(mode: ModeSpec, scene: Scene, truth: Truth) -> Detections:
    """What a mode reports of a unit, of the classes that are kept."""
    return _of_classes(_reader(mode).detections(scene, truth), mode.classes)


def _reader(mode: ModeSpec) -> ModeReader:
    if mode.reader is None:
        raise InputError(f"mode {mode.name}: nobody said where its report lies; give its file.")
    return mode.reader


def _of_classes(report: Detections, classes: tuple[str, ...] | None) -> Detections:
    return report if classes is None else report.where(np.isin(report.cls, np.array(sorted(classes), dtype=str)))


def used_of(mode: ModeSpec, report: Detections) -> Detections:
    """What is used of a report: all from the mode's threshold on."""
    return report if mode.threshold is None else report.where(report.score >= mode.threshold)


def perceived(spec: CellSpec, seen: Sighting) -> dict[str, Objects]:
    """For each mode, the objects that the downstream system is given."""
    return {mode: placed(spec, seen, mode) for mode in seen.used}


def placed(spec: CellSpec, seen: Sighting, mode: str) -> Objects:
    """The objects that the downstream system is given by one mode."""
    used = seen.used[mode]
    keep = persistent(used) if spec.persistence else None
    return PLACINGS[spec.geometry].place(used, seen.scene, seen.truth, keep=keep)
