"""Losses, reference and both modes' full outputs -> signals that no vehicle could compute: never deployable.

They show what a perfect view of perception would be worth. Each declares kind "diagnostic", so that they can be ranked
under a selection budget and refused under a measured one: there is no cost to charge for knowing the answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from deepval import columns
from deepval.allocators.models import Boosting
from deepval.arrays import Bool, Float, Int
from deepval.datasets.dataset import Dataset
from deepval.errors import InputError
from deepval.geometry.motion import BrakingSettings, required_deceleration_mps2
from deepval.perception.detections import DetectionSet
from deepval.perception.losses import LOSSES, perception_gains, perception_losses
from deepval.values import ValueTable


@dataclass(frozen=True)
class Perception:
    """Reference and outputs behind a table of losses.

    Attributes:
        dataset: Scenes and truths; the table's inputs are frames of it.
        cheap: What the cheap mode reports, as the downstream system uses it.
        full: The same of the full mode.
        scored: What both modes report down to a low score, as probabilities: what average precision is measured on;
            None where there is none, and then nothing that needs it can be made.
    """

    dataset: Dataset
    cheap: DetectionSet
    full: DetectionSet
    scored: tuple[DetectionSet, DetectionSet] | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """What labels and diagnostics may know of some inputs: their losses and, where there is one, the perception.

    Attributes:
        table: The losses.
        perception: Reference and outputs behind them.
        kept: Columns that a cell's folder keeps of what was once found from the perception, one number per input of the
            table; they are taken where they are given.
    """

    table: ValueTable
    perception: Perception | None = None
    kept: Mapping[str, Float[np.ndarray, "input"]] | None = None

    def restrict(self, units: Sequence[str]) -> "Evidence":
        """The evidence of the named units only."""
        table = self.table.restrict(units)
        if self.kept is None:
            return replace(self, table=table)
        rows = columns.positions(table.input, self.table.input)
        return replace(self, table=table, kept={name: column[rows] for name, column in self.kept.items()})

    def column(self, name: str) -> Float[np.ndarray, "input"] | None:
        """A column that was kept, None where the perception is here to find it from."""
        if self.kept is None:
            return None
        if name not in self.kept:
            raise InputError(
                f"The cell keeps no {name!r}: its modes have no probabilities to find it from, or it was built before "
                f"this version (then build it again). It keeps {', '.join(self.kept)}."
            )
        return self.kept[name]

    def found_from(self, role: str, name: str) -> "Evidence":
        """The evidence with a kept column as it was found from the units of a role alone."""
        column = self.column(role_column(name, role))
        return self if column is None else replace(self, kept={**(self.kept or {}), name: column})

    @property
    def perceived(self) -> Perception:
        """The perception; an error where the table came without it."""
        if self.perception is None:
            raise InputError("Reference and detections are needed beside the losses; none were given: give them.")
        return self.perception

    @cached_property
    def place(self) -> Int[np.ndarray, "input"]:
        """Frame of each input, all frames of the data set counted on from unit to unit."""
        scenes = self.perceived.dataset.scenes
        found = columns.positions(self.table.input, np.concatenate([scene.inputs for scene in scenes]))
        if (found < 0).any():
            absent = self.table.input[np.flatnonzero(found < 0)[0]]
            raise InputError(f"Every input of the table must be a frame of the data set; {str(absent)!r} is not.")
        return found

    @cached_property
    def frames(self) -> tuple[Bool[np.ndarray, "_"], ...]:
        """For each unit of the data set, which of its frames are inputs of the table."""
        lengths = [len(scene) for scene in self.perceived.dataset.scenes]
        marks = np.zeros(sum(lengths), dtype=bool)
        marks[self.place] = True
        return tuple(np.split(marks, np.cumsum(lengths)[:-1]))

    @cached_property
    def losses(self) -> tuple[dict[str, Float[np.ndarray, "input"]], dict[str, Float[np.ndarray, "input"]]]:
        """Perception losses E1 to E8 of each input, of the cheap and of the full mode."""
        if self.kept is not None:
            cheap, full = ({name: self.kept[f"{mode}_{name}"] for name in LOSSES} for mode in ("cheap", "full"))
            return cheap, full
        return self._losses(self.perceived.cheap), self._losses(self.perceived.full)

    def _losses(self, mode: DetectionSet) -> dict[str, Float[np.ndarray, "input"]]:
        units = []
        for truth, wanted in zip(self.perceived.dataset.truths, self.frames, strict=True):
            if not wanted.any():
                units.append(dict.fromkeys(LOSSES, np.full(truth.frames, np.nan)))
                continue
            units.append(perception_losses(mode[truth.unit], truth))
        found = {name: np.concatenate([unit[name] for unit in units])[self.place] for name in LOSSES}
        silent = np.flatnonzero(np.isnan(found["E1"]))
        if len(silent):
            first = str(self.table.input[silent[0]])
            raise InputError(f"Mode {mode.mode} must have been run on every input; on {first!r} it was not.")
        return found


def role_column(name: str, role: str) -> str:
    """Under which name a column is kept that was found from the units of a role."""
    return name if role == "fit" else f"{name}_{role}"


class Diagnostic(ABC):
    """A signal that looks at what escalation would show; a frozen dataclass whose fields are its settings."""

    kind: ClassVar[Literal["diagnostic"]] = "diagnostic"

    @abstractmethod
    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """A score per input of the evidence's table, higher = escalate first."""


@dataclass(frozen=True)
class ReferenceCriticality(Diagnostic):
    """Deceleration that the reference objects require: what cheap-side criticality would be without errors."""

    settings: BrakingSettings = field(default_factory=BrakingSettings)

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """Required deceleration in m/s2 of the reference objects, DEFINITIONS section 6."""
        kept = evidence.column("reference_required_mps2")
        if kept is not None:
            return kept.copy()
        dataset = evidence.perceived.dataset
        required = [
            required_deceleration_mps2(truth.objects, scene.ego_speed_mps, settings=self.settings)
            for scene, truth in zip(dataset.scenes, dataset.truths, strict=True)
        ]
        return np.concatenate(required)[evidence.place]


@dataclass(frozen=True)
class PerceptionGain(Diagnostic):
    """Perception loss of the cheap mode minus that of the full one, one of E1 to E8."""

    loss: str = "E1"

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(f"A perception loss must be one of {', '.join(LOSSES)}; found {self.loss!r}.")

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """The gain, positive where the full mode perceives better."""
        cheap, full = evidence.losses
        return perception_gains(cheap, full)[self.loss]


@dataclass(frozen=True)
class MultiMetric(Diagnostic):
    """Decision value predicted from all perception errors of both modes, for units that the model has not seen.

    Gradient-boosted trees as in the paper's gate, over the perception losses of the cheap mode, of the full mode and
    the gains. Units, sorted as text, are dealt out to the folds in turn. It is no upper bound over perception signals.
    """

    folds: int = 5
    learner: Boosting = field(default_factory=Boosting)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise InputError(f"Out-of-fold scores need two folds or more; found {self.folds}.")

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """Out-of-fold prediction of the decision value."""
        features, values = error_features(evidence), evidence.table.decision_values
        matrix = np.column_stack(list(features.values()))
        scores = np.full(len(values), np.nan)
        fold = unit_folds(evidence.table, self.folds)
        for held in np.unique(fold):
            seen = fold != held
            scores[~seen] = self.learner.fit(matrix[seen], values[seen], classify=False).predict(matrix[~seen])
        return scores


def error_features(evidence: Evidence) -> dict[str, Float[np.ndarray, "input"]]:
    """Perception errors against the reference: E1 to E8 of the cheap mode, of the full mode, and the gains."""
    cheap, full = evidence.losses
    parts: Mapping[str, Mapping[str, np.ndarray]] = {
        "cheap": cheap,
        "full": full,
        "gain": perception_gains(cheap, full),
    }
    return {f"{part}-{name}": column for part, losses in parts.items() for name, column in losses.items()}


def unit_folds(table: ValueTable, folds: int) -> Int[np.ndarray, "input"]:
    """Fold of each input: its unit's rank as text among the units that have inputs, modulo the number of folds."""
    present, rank = np.unique(table.unit, return_inverse=True)
    if len(present) < 2:
        raise InputError(f"Out-of-fold scores need two units or more; the table has {len(present)}.")
    return rank.reshape(len(table)) % folds


DIAGNOSTICS: dict[str, Diagnostic] = {
    "reference-criticality": ReferenceCriticality(),
    "gain-E1": PerceptionGain("E1"),
    "gain-E2": PerceptionGain("E2"),
    "gain-E3": PerceptionGain("E3"),
    "gain-E4": PerceptionGain("E4"),
    "gain-E5": PerceptionGain("E5"),
    "gain-E6": PerceptionGain("E6"),
    "gain-E7": PerceptionGain("E7"),
    "gain-E8": PerceptionGain("E8"),
    "multi-metric": MultiMetric(),
}
