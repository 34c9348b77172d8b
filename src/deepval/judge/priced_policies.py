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
from deepval.judge.harm_certainty import (
    chances_of_luck,
    fewest_units,
    harmless_chance,
)
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
    certainty: float | None = None,
) -> float:
    """The lowest theta with (sum of the n units' losses + bound)/(n + 1) <= target:
    conformal risk control. With a certainty, the lowest that is certain down from the
    highest (`harm_certainty`).

    The loss of a unit is the sum of `share` over its scores above theta, at most
    `bound`. It never rises with theta, so the expected loss of a further, exchangeable
    unit is at most the target. Equal scores are above theta or not as a group. -inf
    where all may be escalated.
    """
    units = len(np.unique(unit))
    if certainty is None:
        needed = math.ceil(bound / target - SLACK) - 1
        is_enough = units >= needed
        words = ""
    else:
        needed = fewest_units(target / bound, certainty)
        is_enough = harmless_chance(units, target / bound) <= 1 - certainty + 1e-12
        words = f" and a certainty of {100 * certainty:.3g} %"
    if not is_enough:
        raise InputError(
            f"A harm of at most {100 * target:.3g} % with a bound of "
            f"{100 * bound:.3g} %{words} needs at least {needed:,} units; found "
            f"{units:,}: calibrate on more units, allow more harm or lower the bound."
        )
    rows, first = in_time(unit, -score)
    parts = np.split(share[rows], np.flatnonzero(first == np.arange(len(rows)))[1:])
    reached = [np.minimum(np.cumsum(part), bound) for part in parts]
    added = np.concatenate([np.diff(own, prepend=0.0) for own in reached])
    levels, at = np.unique(-score[rows], return_inverse=True)
    level = at.reshape(rows.shape)
    # Escalating all scores above the k-th level from the top has the losses of the k
    # levels before it.
    if certainty is None:
        losses = np.concatenate([[0.0], np.cumsum(np.bincount(level, added))])
        is_safe = (losses + bound) / (units + 1) <= target + 1e-12
        allowed = int(np.flatnonzero(is_safe)[-1])
    else:
        before = np.concatenate([np.append(0.0, own[:-1]) for own in reached])
        chances = chances_of_luck(
            np.concatenate(reached) / bound,
            before / bound,
            level,
            units=units,
            target=target / bound,
        )
        is_luck = np.append(chances > 1 - certainty + 1e-12, True)
        allowed = int(np.argmax(is_luck)) - 1
    return 0.0 - float(levels[allowed]) if allowed < len(levels) else -math.inf


class HarmCertificate(NamedTuple):
    """What is certified about the harm of a threshold: a new unit loses at most a share
    of its loss by it, on average over calibrations, or for this one with a certainty.

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
        beyond: Mean harm beyond the bound, as a share of a unit's all-cheap loss, which
            is not counted; of units with a positive loss.
        certainty: Probability, over which units were drawn, that the expected harm of a
            new one is at most `at_most`; None if that holds on average over
            calibrations.
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
    beyond: float
    certainty: float | None = None


def certificate(
    score: InputFloats,
    unit: InputInts,
    losses: ModeFloats,
    *,
    taken: Sequence[InputFlags],
    at_most: float,
    bound: float,
    certainty: float | None = None,
) -> HarmCertificate:
    """The certificate of the first selection, above the lowest safe threshold, and the
    harm of the second.
    """
    value, present = losses[:, 0] - losses[:, -1], np.unique(unit)
    share = harm_shares(value, unit, losses[:, 0], bound=bound)
    lowest = safe_threshold(
        score, unit, share, target=at_most, bound=bound, certainty=certainty
    )
    harms, plain = (
        np.minimum(np.bincount(unit, share * flags)[present], bound) for flags in taken
    )
    whole = np.bincount(unit, np.maximum(-value, 0.0) * taken[0])[present]
    cheap = np.bincount(unit, losses[:, 0])[present]
    beyond = whole - bound * np.maximum(cheap, 0.0)
    beyond = np.where(beyond > SLACK * whole, beyond, 0.0)
    has_loss = cheap > 0
    beyond_share = 0.0
    if has_loss.any():
        beyond_share = float((beyond[has_loss] / cheap[has_loss]).mean())
    clipped_share = 0.0
    if whole.any():
        clipped_share = float(beyond.sum() / whole.sum())
    return HarmCertificate(
        at_most,
        bound,
        units=len(present),
        lowest=lowest if math.isfinite(lowest) else None,
        figure=float((harms.sum() + bound) / (len(present) + 1)),
        harm=float(harms.mean()),
        plain_harm=float(plain.mean()),
        clipped_units=int(np.count_nonzero(beyond)),
        clipped_share=clipped_share,
        beyond=beyond_share,
        certainty=certainty,
    )


def score_scale(score: Float[np.ndarray, "calibration"]) -> float:
    """The standard deviation of the finite scores, the unit of a price's steps; 1 where
    it is 0.
    """
    finite = score[np.isfinite(score)]
    return float(finite.std() if len(finite) else 0.0) or 1.0
