"""Scores in time order -> causal escalations by policies beyond the paper's four, each with a guarantee of its own.

docs/streaming.md states the guarantees and their conditions.
"""

import math
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, InputFlags, InputFloats, InputInts
from deepval.errors import InputError
from deepval.judging.policies import (
    CausalCap,
    FrozenThreshold,
    Policy,
    UnitStream,
    check_alpha,
    one_score,
    replay_steps,
)


@dataclass(frozen=True)
class Priced(Policy):
    """A policy with a price in units of the score: an input is escalated iff its score exceeds the price.

    The price starts at theta; `scale` is the unit of its steps, the standard deviation of calibration scores.
    """

    theta: float
    scale: float
    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if math.isnan(self.theta) or not 0 < self.scale < math.inf:
            raise InputError(
                "A price needs a start that is not NaN and a finite scale above 0, got "
                f"{self.theta} and {self.scale}: calibrate it on validation scores."
            )

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated."""
        return replay_steps(self, score, first)


@dataclass(frozen=True)
class DualPrice(Priced):
    """Moves the price at the t-th input by eta*scale/sqrt(t) * (escalated - alpha): a dual subgradient step."""

    eta: float

    def start(self) -> "PriceWalk":
        """A stream at the beginning of a unit."""
        return PriceWalk(self, self.theta)


@dataclass
class PriceWalk(UnitStream):
    """A dual price within one unit."""

    policy: DualPrice
    price: float
    seen: int = 0

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        score = one_score(score)
        self.seen += 1
        escalate = score > self.price
        self.price += self.policy.eta * self.policy.scale / math.sqrt(self.seen) * (escalate - self.policy.alpha)
        return escalate


@dataclass(frozen=True)
class VirtualQueue(Priced):
    """Drift plus penalty: the price is theta + scale * queue/debt, the queue max(0, queue + escalated - alpha).

    `debt` is the number of escalations beyond the rate that raise the price by one scale.
    """

    debt: float

    def start(self) -> "QueueStream":
        """A stream at the beginning of a unit."""
        return QueueStream(self)


@dataclass
class QueueStream(UnitStream):
    """A virtual queue within one unit."""

    policy: VirtualQueue
    queue: float = 0.0

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        score = one_score(score)
        policy = self.policy
        escalate = score > policy.theta + policy.scale * self.queue / policy.debt
        self.queue = max(0.0, self.queue + escalate - policy.alpha)
        return escalate


@dataclass(frozen=True)
class ReplayThreshold(CausalCap):
    """A causal cap over the threshold whose own replay gains most on the calibration units."""


@dataclass(frozen=True)
class ConformalHarm(FrozenThreshold):
    """A threshold that bounds the expected share of a unit's possible harm, by conformal risk control."""

    @classmethod
    def within(
        cls, score: InputFloats, unit: InputInts, value: InputFloats, *, alpha: float, target: float | None = None
    ) -> "ConformalHarm":
        """The lowest threshold with (sum of the n units' losses + 1)/(n + 1) <= target that also keeps the rate alpha.

        The loss of a unit is the harm of its escalated inputs over the harm of escalating all of them, 0 where
        there is none. The target is alpha, which is what random choice does at that rate, where None.
        """
        target = alpha if target is None else target
        units = len(np.unique(unit))
        if (units + 1) * target < 1 - 1e-12:
            raise InputError(
                f"Harm can be kept below {target:.3g} of what is possible with {math.ceil(1 / target - 1e-9) - 1} "
                f"calibration units or more; found {units}: calibrate on more units, or take another policy."
            )
        harm = np.maximum(-value, 0.0)
        possible = np.bincount(unit, harm)[unit]
        share = np.divide(harm, possible, out=np.zeros(harm.shape), where=possible > 0)
        levels, at = np.unique(-score, return_inverse=True)
        # Escalating all scores above the k-th level from the top has the losses of the k levels before it.
        losses = np.concatenate([[0.0], np.cumsum(np.bincount(at.reshape(score.shape), share))])
        allowed = int(np.flatnonzero((losses + 1) / (units + 1) <= target + 1e-12)[-1])
        safe = -float(levels[allowed]) if allowed < len(levels) else -math.inf
        frozen = FrozenThreshold.calibrate(score, alpha)
        return cls(frozen.theta, frozen.tie_acceptance) if frozen.theta > safe else cls(safe, 0.0)


def score_scale(score: Float[np.ndarray, "calibration"]) -> float:
    """The standard deviation of the finite scores, the unit of a price's steps; 1 where it is 0."""
    finite = score[np.isfinite(score)]
    return float(finite.std() if len(finite) else 0.0) or 1.0
