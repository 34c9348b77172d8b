"""Evidence of the fit units -> the labels that allocators learn to predict: an
objective per input, then a transform.

A target's labels are computed on the fit units only; its transform is fitted there and
can be applied elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, InputFloats
from deepval.basics.errors import InputError
from deepval.deploy.diagnostics import PerceptionGain
from deepval.driving.evidence import (
    ApSwap,
    Evidence,
    Objective,
    OricReleased,
    OricReward,
)
from deepval.judge.allowances import LEVELS
from deepval.judge.tables.values import quota
from deepval.judge.tie_expectations import inclusion

TIE = 1e-9
"""Gains whose difference is at most this share of the larger one count as equal."""


@dataclass(frozen=True, eq=False)
class Arbiter:
    """The estimator chosen for each share of escalated inputs, and the gains of all
    estimators there.

    Its cost is that of the chosen estimator, plus a look-up.
    """

    choice: Mapping[float, str]
    gains: Mapping[float, Mapping[str, float]]

    def choice_at(self, alpha: float) -> str:
        """Name of the estimator to follow at share `alpha`, which must be one of the
        fitted shares.
        """
        if alpha not in self.choice:
            raise InputError(
                "The arbiter was "
                f"fitted for shares {', '.join(map(str, self.choice))}; found {alpha}."
            )
        return self.choice[alpha]


def arbiter(
    scores: Mapping[str, InputFloats],
    values: InputFloats,
    *,
    alphas: Sequence[float] = LEVELS,
) -> Arbiter:
    """For each share, the estimator with the largest expected gain on the validation
    inputs; the first wins ties.

    Args:
        scores: Scores of each estimator on the validation inputs, by its name.
        values: Decision values of those inputs.
        alphas: Shares of inputs that may be escalated.
    """
    if not scores:
        raise InputError(
            "An arbiter needs at least one estimator to choose; found none."
        )
    for name, column in scores.items():
        if column.shape != values.shape or np.isnan(column).any():
            raise InputError(
                f"Estimator {name!r} must have a score for each of the {len(values)} "
                "validation inputs."
            )
    gains, choice = {}, {}
    for alpha in alphas:
        slots = int(quota(len(values), alpha))
        gains[alpha] = {
            name: float(inclusion(column, slots) @ values)
            for name, column in scores.items()
        }
        best = max(gains[alpha].values())
        # The tolerance keeps rounding differences between sums in another order from
        # changing the choice.
        choice[alpha] = next(
            name
            for name, gain in gains[alpha].items()
            if gain >= best - TIE * abs(best)
        )
    return Arbiter(choice, gains)


class Transform(ABC):
    """A map that is fitted on some values and applied to any; a frozen dataclass
    without state of its own.
    """

    def fit(self, values: Float[np.ndarray, "fit"]) -> "FittedTransform":
        """The transform, fitted on these values."""
        if not len(values) or not np.isfinite(values).all():
            raise InputError(
                "A transform is fitted on one or more finite values; found "
                f"{len(values)}, {np.count_nonzero(~np.isfinite(values))} of them "
                "not finite."
            )
        return FittedTransform(self, np.sort(values))

    @abstractmethod
    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """The labels of `values`, from the sorted values of the fit units."""


@dataclass(frozen=True, eq=False)
class FittedTransform:
    """A transform with the sorted values it was fitted on."""

    transform: Transform
    reference: Float[np.ndarray, "fit"]

    def apply(self, values: InputFloats) -> InputFloats:
        """The labels of any values, whether or not they are from the fit units."""
        return self.transform.labels(values, self.reference)


@dataclass(frozen=True)
class Identity(Transform):
    """The values themselves."""

    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """A copy."""
        return values.copy()


@dataclass(frozen=True)
class Binary(Transform):
    """1 where the value is positive, else 0."""

    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """1[value > 0]."""
        return (values > 0).astype(float)


@dataclass(frozen=True)
class Rank(Transform):
    """Rank among the fit values, as a share of their number; equal values share their
    mean rank.
    """

    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """(number below + number not above) / 2N, which is (rank - 1/2) / N for a fit
        value.
        """
        below = np.searchsorted(reference, values, side="left")
        return (below + np.searchsorted(reference, values, side="right")) / (
            2 * len(reference)
        )


@dataclass(frozen=True)
class Cdf(Transform):
    """Empirical distribution function of the fit values: the published detector
    routers' normalisation.
    """

    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """Share of the fit values that are not above each value."""
        return np.searchsorted(reference, values, side="right") / len(reference)


@dataclass(frozen=True)
class SignedCdf(Transform):
    """Separate distribution functions for benefit and harm; 0 stays 0:
    docs/definitions.md, Targets.

    The label is NaN if no fit value has the sign of the value: there is nothing to
    compare it with.
    """

    def labels(
        self, values: InputFloats, reference: Float[np.ndarray, "fit"]
    ) -> InputFloats:
        """For V > 0 the share of positive fit values <= V; for V < 0 minus the share of
        negative ones >= V.
        """
        helped, harmed = reference[reference > 0], reference[reference < 0]
        benefit = np.searchsorted(helped, values, side="right")
        harm = len(harmed) - np.searchsorted(harmed, values, side="left")
        labels = np.where(
            values > 0, benefit / max(len(helped), 1), -harm / max(len(harmed), 1)
        )
        labels[values == 0] = 0.0
        # No fit value of this sign: the share of none is undefined, not 0.
        labels[
            ((values > 0) & (not len(helped))) | ((values < 0) & (not len(harmed)))
        ] = np.nan
        return labels


@dataclass(frozen=True)
class DecisionValue(Objective):
    """V = loss(cheap) - loss(full) of the downstream system."""

    def values(self, evidence: Evidence) -> InputFloats:
        """Decision value of the full mode."""
        return evidence.table.decision_values.copy()


@dataclass(frozen=True)
class Gain(Objective):
    """A perception loss of the cheap mode minus that of the full one: E1 missed, E5
    combined, E8 risk.
    """

    loss: str

    def __post_init__(self) -> None:
        PerceptionGain(self.loss)

    def values(self, evidence: Evidence) -> InputFloats:
        """The gain, positive where the full mode perceives better."""
        return PerceptionGain(self.loss).scores(evidence)


@dataclass(frozen=True)
class Target:
    """A quantity to predict: an objective and a transform of it."""

    objective: Objective
    transform: Transform

    @property
    def classifies(self) -> bool:
        """Whether labels are 0 and 1, for a classifier, rather than numbers for a
        regressor.
        """
        return isinstance(self.transform, Binary)


@dataclass(frozen=True, eq=False)
class Labels:
    """A target on the fit units.

    Attributes:
        target: The target of the labels.
        objective: The objective's own values, per input of the table.
        fitted: The transform fitted on these values.
        values: The labels to train on, per input of the table.
    """

    target: Target
    objective: InputFloats
    fitted: FittedTransform
    values: InputFloats


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
        evidence: The losses of the fit units, with perception columns where the
            objective needs them.
    """
    if isinstance(target, str):
        if target not in TARGETS:
            raise InputError(
                f"A target must be one of {', '.join(TARGETS)}; found {target!r}."
            )
        target = TARGETS[target]
    objective = target.objective.values(evidence)
    fitted = target.transform.fit(objective)
    return Labels(target, objective, fitted, fitted.apply(objective))
