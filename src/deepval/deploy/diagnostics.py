"""Losses, reference and both modes' full outputs -> signals that no vehicle could
compute: never deployable.

They show the value of full information about perception. All have the kind
"diagnostic": they are ranked under a selection budget and refused under a measured one,
as there is no cost to charge for information from the reference.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError
from deepval.deploy.allocators.models import Boosting
from deepval.driving.evidence import Evidence
from deepval.driving.perception.reported.losses import LOSSES, perception_gains
from deepval.driving.planners.neural.plan_metrics import pkl_gain, tip_gain
from deepval.judge.tables.values import ValueTable


class Diagnostic(ABC):
    """A signal that uses the result of escalation; a frozen dataclass whose fields are
    its settings.
    """

    kind: ClassVar[Literal["diagnostic"]] = "diagnostic"

    @abstractmethod
    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """A score per input of the evidence's table, higher = escalate first."""


@dataclass(frozen=True)
class ReferenceCriticality(Diagnostic):
    """Deceleration that the reference objects require: the criticality that an
    error-free cheap mode would have.
    """

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """Required deceleration in m/s2 of the reference objects."""
        return evidence.column("reference_required_mps2").copy()


@dataclass(frozen=True)
class PerceptionGain(Diagnostic):
    """Perception loss of the cheap mode minus that of the full one, one of E1 to E8."""

    loss: str = "E1"

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(
                "A perception loss must "
                f"be one of {', '.join(LOSSES)}; found {self.loss!r}."
            )

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """The gain, positive where the full mode perceives better."""
        return evidence.column(f"cheap_{self.loss}") - evidence.column(
            f"full_{self.loss}"
        )


@dataclass(frozen=True)
class MultiMetric(Diagnostic):
    """Decision value predicted from all perception errors of both modes, for units that
    the model has not seen.

    Gradient-boosted trees as in the paper's gate, over the perception losses of the
    cheap mode, of the full mode and the gains. Units, sorted as text, are dealt out to
    the folds in turn. It is no upper bound over perception signals.
    """

    folds: int = 5
    learner: Boosting = field(default_factory=Boosting)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise InputError(
                f"Out-of-fold scores need two folds or more; found {self.folds}."
            )

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """Out-of-fold prediction of the decision value."""
        features, values = error_features(evidence), evidence.table.decision_values
        matrix = np.column_stack(list(features.values()))
        scores = np.full(len(values), np.nan)
        fold = unit_folds(evidence.table, self.folds)
        for number in np.unique(fold):
            # A unit is in one fold only, so no model predicts a unit that it was fitted
            # on.
            seen = fold != number
            scores[~seen] = self.learner.fit(
                matrix[seen], values[seen], classify=False
            ).predict(matrix[~seen])
        return scores


@dataclass(frozen=True)
class PlanningGain(Diagnostic):
    """Gain in a planning metric, PKL or TIP: how much less the full mode's errors
    change plans than the cheap one's.
    """

    metric: Literal["PKL", "TIP"] = "PKL"

    def scores(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """The gain, positive where the full mode perceives better: PKL falls, TIP rises
        towards 0.
        """
        if f"cheap_{self.metric}" not in evidence.columns:
            raise InputError(
                f"{self.metric} needs a cell whose downstream system is the learned "
                f"planner{', or PDM-Closed' if self.metric == 'TIP' else ''}: score a "
                "cell of `deepval build --system planner-self-ade` with the same "
                "modes and geometry."
            )
        cheap, full = (
            evidence.column(f"{end}_{self.metric}") for end in ("cheap", "full")
        )
        return pkl_gain(cheap, full) if self.metric == "PKL" else tip_gain(cheap, full)


def error_features(evidence: Evidence) -> dict[str, Float[np.ndarray, "input"]]:
    """Perception errors against the reference: E1 to E8 of the cheap mode, of the full
    mode, and the gains.
    """
    cheap, full = evidence.losses
    parts: Mapping[str, Mapping[str, np.ndarray]] = {
        "cheap": cheap,
        "full": full,
        "gain": perception_gains(cheap, full),
    }
    return {
        f"{part}-{name}": column
        for part, losses in parts.items()
        for name, column in losses.items()
    }


def unit_folds(table: ValueTable, folds: int) -> Int[np.ndarray, "input"]:
    """Fold of each input: its unit's rank as text among the units that have inputs,
    modulo the number of folds.
    """
    present, rank = np.unique(table.unit, return_inverse=True)
    if len(present) < 2:
        raise InputError(
            f"Out-of-fold scores need two units or more; the table has {len(present)}."
        )
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
PLANNING_DIAGNOSTICS: dict[str, Diagnostic] = {
    "gain-PKL": PlanningGain("PKL"),
    "gain-TIP": PlanningGain("TIP"),
}
"""Diagnostics of cells whose downstream system is the learned planner; TIP also of
PDM-Closed.
"""
