"""A data set and its modes -> what an allocator may see of it, and what only labels and diagnostics may know."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.benchmark.splits import Split, split
from deepval.benchmark.view_files import picture_files, view_files
from deepval.columns import positions
from deepval.datasets import Dataset
from deepval.diagnostics import Evidence, Perception, ReferenceCriticality, role_column
from deepval.errors import InputError
from deepval.perception.calibration import fit_calibration
from deepval.perception.detections import Calibration, DetectionSet, calibrated
from deepval.targets import ApSwap, OricReleased, OricReward
from deepval.values import ValueTable
from deepval.views import CheapMode, View


@dataclass(frozen=True)
class Mode:
    """One perception mode as a cell uses it.

    Attributes:
        detections: What the downstream system uses of its report, already restricted to classes and thresholds.
        definition: How it was made (file, threshold, classes, what its scores are): part of the cell's id.
        report: All that it reports of those classes, also below the threshold; `detections` if nothing more is known.
    """

    detections: DetectionSet
    definition: Mapping[str, Any] = field(default_factory=dict)
    report: DetectionSet | None = None

    @property
    def reported(self) -> DetectionSet:
        """What an allocator may look at where this mode is the cheap one."""
        return self.detections if self.report is None else self.report

    @property
    def threshold(self) -> float | None:
        """Detections of the report from this score on are used; None where all are."""
        return None if self.report is None else self.definition.get("threshold")


@dataclass(frozen=True)
class Material:
    """A data set and its modes (cheap first), ready to build cells from, with the SHA-256 of the data set's files."""

    dataset: Dataset
    modes: Mapping[str, Mode]
    provenance: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def roles(self) -> Split:
        """The frozen split of its units."""
        return split(self.dataset.name, self.dataset.units)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What an allocator may look at, unit by unit: scene and the cheap mode's report, never the reference."""
        name, cheap = next(iter(self.modes.items()))
        mode = CheapMode(cheap.reported.scores, cheap.threshold, self._calibration(name))
        return tuple(View(scene, cheap.reported[scene.unit], mode) for scene in self.dataset.scenes)

    @cached_property
    def view_files(self) -> dict[str, bytes]:
        """The views as files of a cell's folder."""
        return view_files(self.views)

    @cached_property
    def picture_files(self) -> dict[str, bytes]:
        """Their pictures as files, drawn or read once for all cells."""
        return picture_files(self.views)

    @cached_property
    def perception(self) -> Perception:
        """Reference, what both ends of the ladder report, and their scored reports where these are probabilities."""
        cheap, *_, full = self.modes
        scored = self._scored(cheap), self._scored(full)
        known = None if scored[0] is None or scored[1] is None else (scored[0], scored[1])
        return Perception(self.dataset, self.modes[cheap].detections, self.modes[full].detections, known)

    def evidence(self, table: ValueTable) -> dict[str, Float[np.ndarray, "input"]]:
        """Columns for labels and diagnostics, per input of the table.

        Perception losses of both modes and what the reference requires; where both modes have probabilities also the
        routing objectives, which look at many frames: found once from the fit units only and once from the training
        units only, NaN elsewhere, so that who fits on training units has not seen validation frames.
        """
        rows = positions(table.input, self._frames.input)
        return {name: column[rows] for name, column in self._evidence.items()}

    @cached_property
    def _frames(self) -> ValueTable:
        """Every frame on which both ends of the ladder were run, as a table without losses."""
        cheap, *_, full = self.modes.values()
        run = [cheap.detections[unit].run & full.detections[unit].run for unit in self.dataset.units]
        inputs = [scene.inputs[marks] for scene, marks in zip(self.dataset.scenes, run, strict=True)]
        units = [np.full(len(part), unit) for part, unit in zip(inputs, self.dataset.units, strict=True)]
        nothing = np.zeros(sum(map(len, inputs)))
        losses = {"cheap": nothing, "full": nothing}
        return ValueTable.from_columns(unit=np.concatenate(units), input=np.concatenate(inputs), losses=losses)

    @cached_property
    def _evidence(self) -> dict[str, Float[np.ndarray, "input"]]:
        evidence = Evidence(self._frames, self.perception)
        cheap, full = evidence.losses
        found = {f"cheap_{name}": column for name, column in cheap.items()}
        found |= {f"full_{name}": column for name, column in full.items()}
        found["reference_required_mps2"] = ReferenceCriticality().scores(evidence)
        if self.perception.scored is not None:
            for role, units in (("fit", self.roles.fit), ("train", self.roles.train)):
                found |= self._objectives(evidence, role, units)
        return found

    def _objectives(self, evidence: Evidence, role: str, units: Sequence[str]) -> dict[str, Float[np.ndarray, "input"]]:
        """The routing objectives of a role's units, found from those alone."""
        here = [unit for unit in units if unit in set(self._frames.unit_ids.tolist())]
        objectives = (OricReward(), ApSwap(), OricReleased())
        found = {role_column(str(each.column), role): np.full(len(self._frames), np.nan) for each in objectives}
        # A cell whose training units alone have nothing to find is a cell: there is only nothing to learn there.
        lenient = role == "train"
        if lenient and not here:
            return found
        seen = evidence.restrict(here)
        rows = positions(seen.table.input, self._frames.input)
        for column, objective in zip(found.values(), objectives, strict=True):
            with suppress(InputError) if lenient else nullcontext():
                column[rows] = objective.values(seen)
        return found

    def _calibration(self, name: str) -> Calibration | None:
        """The map from a mode's raw scores to probabilities, fitted once on the training units; None without any."""
        found = self.modes[name].reported
        if found.scores == "raw" and name not in self._calibrations:
            self._calibrations[name] = fit_calibration(found, self.dataset.of_units(self.roles.train).truths)
        return self._calibrations.get(name)

    @cached_property
    def _calibrations(self) -> dict[str, Calibration]:
        return {}

    def _scored(self, name: str) -> DetectionSet | None:
        """What a mode reports, as probabilities; None where it has no scores."""
        found, calibration = self.modes[name].reported, self._calibration(name)
        if calibration is not None:
            return calibrated(found, calibration)
        return found if found.scores == "probabilities" else None
