"""Evidence of the fit units -> the labels that allocators learn to predict: an objective per input, then a transform.

A target's labels are computed on the fit units only; its transform is fitted there and can be applied elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.diagnostics import Evidence
from deepval.errors import InputError
from deepval.targets.objectives import (
    ApSwap,
    Arbiter,
    Binary,
    Cdf,
    DecisionValue,
    Fitted,
    Gain,
    Identity,
    Objective,
    OricReleased,
    OricReward,
    Rank,
    SignedCdf,
    Transform,
    arbiter,
)

__all__ = [
    "TARGETS",
    "ApSwap",
    "Arbiter",
    "Binary",
    "Cdf",
    "DecisionValue",
    "Fitted",
    "Gain",
    "Identity",
    "Labels",
    "Objective",
    "OricReleased",
    "OricReward",
    "Rank",
    "SignedCdf",
    "Target",
    "Transform",
    "arbiter",
    "labels",
]


@dataclass(frozen=True)
class Target:
    """A quantity to predict: an objective and a transform of it."""

    objective: Objective
    transform: Transform

    @property
    def classifies(self) -> bool:
        """Whether labels are 0 and 1, for a classifier, rather than numbers for a regressor."""
        return isinstance(self.transform, Binary)


@dataclass(frozen=True, eq=False)
class Labels:
    """A target on the fit units.

    Attributes:
        target: The target of the labels.
        objective: The objective's own values, per input of the table.
        fitted: The transform as fitted on them.
        values: The labels to train on, per input of the table.
    """

    target: Target
    objective: Float[np.ndarray, "input"]
    fitted: Fitted
    values: Float[np.ndarray, "input"]


TARGETS: dict[str, Target] = {
    "value": Target(DecisionValue(), Identity()),
    "value-binary": Target(DecisionValue(), Binary()),
    "value-rank": Target(DecisionValue(), Rank()),
    "value-signed-cdf": Target(DecisionValue(), SignedCdf()),
    "gain-E1": Target(Gain("E1"), Identity()),
    "gain-E1-cdf": Target(Gain("E1"), Cdf()),
    "gain-E1-binary": Target(Gain("E1"), Binary()),
    "gain-E5": Target(Gain("E5"), Identity()),
    "gain-E5-cdf": Target(Gain("E5"), Cdf()),
    "gain-E5-binary": Target(Gain("E5"), Binary()),
    "gain-E8": Target(Gain("E8"), Identity()),
    "gain-E8-cdf": Target(Gain("E8"), Cdf()),
    "gain-E8-binary": Target(Gain("E8"), Binary()),
    "oric": Target(OricReward(), Identity()),
    "oric-cdf": Target(OricReward(), Cdf()),
    "oric-binary": Target(OricReward(), Binary()),
    "oric-released": Target(OricReleased(), Identity()),
    "oric-released-cdf": Target(OricReleased(), Cdf()),
    "oric-released-binary": Target(OricReleased(), Binary()),
    "ap-swap": Target(ApSwap(), Identity()),
    "ap-swap-cdf": Target(ApSwap(), Cdf()),
    "ap-swap-binary": Target(ApSwap(), Binary()),
}


def labels(target: str | Target, evidence: Evidence) -> Labels:
    """A target's labels on the evidence's inputs, which must be of fit units only.

    Args:
        target: A name in TARGETS, or a target.
        evidence: The losses of the fit units, with perception columns where the objective needs them.
    """
    if isinstance(target, str):
        if target not in TARGETS:
            raise InputError(f"A target must be one of {', '.join(TARGETS)}; found {target!r}.")
        target = TARGETS[target]
    objective = target.objective.values(evidence)
    fitted = target.transform.fit(objective)
    return Labels(target, objective, fitted, fitted.apply(objective))
