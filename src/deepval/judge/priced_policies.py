"""Scores in time order -> causal escalations by policies beyond the paper's four, each
with a guarantee of its own.

docs/streaming.md states the guarantees and their conditions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, InputFlags, InputFloats, InputInts, ModeFloats
from deepval.basics.errors import InputError
from deepval.judge.streaming import (
    SLACK,
    CausalCap,
    FrozenThreshold,
    StreamRule,
    UnitStream,
    check_alpha,
    in_time,
    one_score,
    replay_steps,
)


@dataclass(frozen=True)
class DualPrice(StreamRule):
    """Escalates an input iff its score exceeds a price, which starts at theta.

    The t-th input moves the price by eta*scale/sqrt(t) * (escalated - alpha), a dual
    subgradient step; `scale` is the standard deviation of calibration scores.
    """

    theta: float
    scale: float
    alpha: float
    eta: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if math.isnan(self.theta) or not 0 < self.scale < math.inf:
            raise InputError(
                "A price needs a start that is not NaN and a finite scale above 0, got "
                f"{self.theta} and {self.scale}: calibrate it on validation scores."
            )
        if not 0 <= self.eta < math.inf:
            raise InputError(
                f"eta must be a finite step of at least 0, got {self.eta}."
            )

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated."""
        return replay_steps(self, score, first)

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
        self.price += (
            self.policy.eta
            * self.policy.scale
            / math.sqrt(self.seen)
            * (escalate - self.policy.alpha)
        )
        return escalate


@dataclass(frozen=True)
class ReplayThreshold(CausalCap):
    """A causal cap over the threshold whose own replay gains most on the calibration
    units.
    """


@dataclass(frozen=True)
class ConformalHarm(FrozenThreshold):
    """A threshold that bounds the expected harm of a new unit, by conformal risk
    control.
    """

    @classmethod
    def over(cls, frozen: FrozenThreshold, safe: float) -> "ConformalHarm":
        """The safe threshold, or `frozen` where that is higher; both bound the harm."""
        return (
            cls(frozen.theta, frozen.tie_acceptance)
            if frozen.theta > safe
            else cls(safe, 0.0)
        )


def harm_shares(
    value: InputFloats,
    unit: InputInts,
    whole: InputFloats | None = None,
    *,
    bound: float = 1.0,
) -> InputFloats:
    """Each input's harm over the sum of `whole` in its unit (where None, of harm), at
    most `bound`; 0 without harm.

    Harm in a unit whose sum is not above 0 has no share; it counts as the bound.
    """
    harm = np.maximum(-value, 0.0)
    sums = np.bincount(unit, harm if whole is None else whole)[unit]
    return np.minimum(
        np.divide(harm, sums, out=np.where(harm > 0, bound, 0.0), where=sums > 0), bound
    )


def safe_threshold(
    score: InputFloats,
    unit: InputInts,
    share: InputFloats,
    *,
    target: float,
    bound: float = 1.0,
) -> float:
    """The lowest theta with (sum of the n units' losses + bound)/(n + 1) <= target:
    conformal risk control.

    The loss of a unit is the sum of `share` over its scores above theta, at most
    `bound`. It never rises with theta, so the expected loss of a further, exchangeable
    unit is at most the target. Equal scores are above theta or not as a group. -inf
    where all may be escalated.
    """
    units, needed = len(np.unique(unit)), math.ceil(bound / target - SLACK) - 1
    if units < needed:
        raise InputError(
            f"A harm of at most {100 * target:.3g} % with a bound of "
            f"{100 * bound:.3g} % needs at least {needed:,} units; found {units:,}: "
            "calibrate on more units, allow more harm or lower the bound."
        )
    rows, first = in_time(unit, -score)
    parts = np.split(share[rows], np.flatnonzero(first == np.arange(len(rows)))[1:])
    added = np.concatenate(
        [np.diff(np.minimum(np.cumsum(part), bound), prepend=0.0) for part in parts]
    )
    levels, at = np.unique(-score[rows], return_inverse=True)
    # Escalating all scores above the k-th level from the top has the losses of the k
    # levels before it.
    losses = np.concatenate(
        [[0.0], np.cumsum(np.bincount(at.reshape(rows.shape), added))]
    )
    allowed = int(np.flatnonzero((losses + bound) / (units + 1) <= target + 1e-12)[-1])
    return 0.0 - float(levels[allowed]) if allowed < len(levels) else -math.inf


class HarmCertificate(NamedTuple):
    """What is certain about the harm of a threshold: on average, a new unit loses at
    most a share of its loss by it.

    The harm of a unit is the harm of its escalated inputs over its all-cheap loss, at
    most `bound`.

    Attributes:
        at_most: The certified share: the expected harm of a new unit that is
            exchangeable with the calibration units.
        bound: Harm of a unit beyond it is not counted.
        units: Number of calibration units.
        lowest: The lowest threshold that is certified, whatever the budget; None where
            all inputs may be escalated.
        figure: (sum of the units' harms + bound) / (units + 1), which is at most
            `at_most`.
        harm: Mean harm of the calibration units.
        plain_harm: The same at the threshold of the budget without a certificate.
        clipped_units: Number of calibration units whose harm exceeds the bound.
        clipped_share: Share of the harm, in units of the loss, that is beyond the bound
            and not counted.
    """

    at_most: float
    bound: float
    units: int
    lowest: float | None
    figure: float
    harm: float
    plain_harm: float
    clipped_units: int
    clipped_share: float


def certificate(
    score: InputFloats,
    unit: InputInts,
    losses: ModeFloats,
    *,
    taken: Sequence[InputFlags],
    at_most: float,
    bound: float,
) -> HarmCertificate:
    """The certificate of the first selection, above the lowest safe threshold, and the
    harm of the second.
    """
    value, present = losses[:, 0] - losses[:, -1], np.unique(unit)
    share = harm_shares(value, unit, losses[:, 0], bound=bound)
    lowest = safe_threshold(score, unit, share, target=at_most, bound=bound)
    harms, plain = (
        np.minimum(np.bincount(unit, share * flags)[present], bound) for flags in taken
    )
    whole = np.bincount(unit, np.maximum(-value, 0.0) * taken[0])[present]
    beyond = whole - bound * np.maximum(np.bincount(unit, losses[:, 0])[present], 0.0)
    beyond = np.where(beyond > SLACK * whole, beyond, 0.0)
    means = (
        float((harms.sum() + bound) / (len(present) + 1)),
        float(harms.mean()),
        float(plain.mean()),
    )
    clipped = (
        int(np.count_nonzero(beyond)),
        float(beyond.sum() / whole.sum()) if whole.any() else 0.0,
    )
    safe = lowest if math.isfinite(lowest) else None
    return HarmCertificate(at_most, bound, len(present), safe, *means, *clipped)


def score_scale(score: Float[np.ndarray, "calibration"]) -> float:
    """The standard deviation of the finite scores, the unit of a price's steps; 1 where
    it is 0.
    """
    finite = score[np.isfinite(score)]
    return float(finite.std() if len(finite) else 0.0) or 1.0
