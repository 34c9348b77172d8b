"""Material of cells in memory, from made-up drives or from any other material, and the
evidence a build finds in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepval.driving.cells.build import built
from deepval.driving.cells.spec import Material, ModeSpec, specs
from deepval.driving.evidence import Evidence
from deepval.driving.perception.reported.detection_rows import ModeReader
from deepval.judge.tables.keys import positions
from deepval.judge.tables.split import Split
from deepval.judge.tables.values import ValueTable
from in_memory import DetectionSet, read_units
from worlds import quietly


@dataclass(frozen=True, eq=False)
class InMemory(ModeReader):
    """A report in memory, and what was said of it."""

    report: DetectionSet
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scores(self):
        return self.report.scores

    @property
    def definition(self):
        return dict(self.facts)

    def detections(self, scene, truth):
        return self.report[scene.unit]


def mode_of(report, *, threshold=None, made=None):
    """A mode whose report is in memory."""
    reader = InMemory(report, {} if made is None else made)
    return ModeSpec(report.mode, reader.definition, threshold, reader=reader)


def material_of(recording, reports, *, threshold=None):
    """The material of a recording and reports in memory, cheap first."""
    return Material(
        recording,
        tuple(mode_of(each, threshold=threshold) for each in reports),
        recording.units,
    )


def in_memory(found):
    """The same material read into memory, so that parts of it can be replaced."""
    recording = read_units(found.source, found.units)
    pairs = list(zip(recording.scenes, recording.truths, strict=True))
    modes = []
    for mode in found.modes:
        units = {
            scene.unit: mode.reader.detections(scene, truth) for scene, truth in pairs
        }
        report = DetectionSet(mode.name, mode.reader.scores, units)
        modes.append(mode_of(report, threshold=mode.threshold, made=mode.made))
    return Material(recording, tuple(modes), found.units)


def shared_of(found, *, fit=None):
    """What cells of a material share; `fit` names the training units where the frozen
    split is not meant.
    """
    (spec,) = specs(found)
    if fit is not None:
        spec.__dict__["roles"] = Split(
            spec.dataset, tuple(fit), (), tuple(set(spec.units) - set(fit))
        )
    return quietly(lambda: next(built([spec])).shared)


def evidence_of(found, losses, *, fit=None, rows=None):
    """Evidence with these losses, one row per frame, in the order of `rows`; found from
    all units or from `fit`.
    """
    shared = shared_of(found, fit=found.units if fit is None else fit)
    unit = np.repeat(found.units, [len(part.scene) for part in shared.parts])
    inputs = np.concatenate([part.scene.inputs for part in shared.parts])
    rows = np.arange(len(inputs)) if rows is None else rows
    columns = {
        mode.name: np.asarray(losses, float)[rows, place]
        for place, mode in enumerate(found.modes)
    }
    table = ValueTable.from_columns(unit=unit[rows], input=inputs[rows], losses=columns)
    place = positions(table.input, shared.inputs)
    return Evidence(
        table, {name: column[place] for name, column in shared.evidence.items()}
    )
