"""Scores in time order -> causal escalations, by four policies that see the inputs of a
unit one after another.

A policy is its configuration. `decide` decides whole arrays; `start` returns a stream
for one unit that makes the same decisions input by input, for a deployed router. The
state resets at each unit. The rows of a unit are sorted by `order`, which should differ
within a unit (`ValueTable.time_rank` does); rows of equal order keep their sequence.
Scores may be infinite, not NaN.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.basics.arrays import (
    Float,
    InputFlags,
    InputFloats,
    InputInts,
    InputNumbers,
    Shaped,
)
from deepval.basics.errors import InputError
from deepval.judge.tie_expectations import TiedCut, cuts

SLACK = 1e-9
"""Tolerance of a count of inputs for rounding error."""


class UnitStream(ABC):
    """The state of a policy within one unit; the next unit needs a new one."""

    @abstractmethod
    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""

    def step(self, signal: Any, /) -> bool:
        """The same, from what the policy reads off a score: its level, its request, or
        the score itself.
        """
        return self.decide(signal)


class StreamRule(ABC):
    """A rule for escalation that uses only the inputs of the unit so far."""

    def decide(
        self, score: InputFloats, unit: InputInts, order: InputNumbers
    ) -> InputFloats:
        """Acceptance per input: 1 where it is escalated, 0 where it is not."""
        score = _scores(score)
        if not score.shape == unit.shape == order.shape or np.isnan(order).any():
            raise InputError(
                "Scores, units and orders must be one per input and orders not NaN, "
                "got shapes "
                f"{score.shape}, {unit.shape}, {order.shape}: align them by input."
            )
        rows, first = in_time(unit, order)
        acceptance = np.empty(score.size)
        acceptance[rows] = self.decide_sorted(score[rows], first)
        return acceptance

    @abstractmethod
    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated; rows are sorted by unit, then time, and `first` is
        the first row of their unit.
        """

    @abstractmethod
    def start(self) -> UnitStream:
        """A stream at the beginning of a unit."""


def in_time(unit: InputInts, order: InputNumbers) -> tuple[InputInts, InputInts]:
    """The rows by unit and time, and for each row the position of the first row of its
    unit.
    """
    rows = np.lexsort((order, unit))
    begins = np.diff(unit[rows], prepend=unit[rows[:1]] - 1) != 0
    return rows, np.maximum.accumulate(np.where(begins, np.arange(rows.size), 0))


def slots_of(alpha: float, inputs: int) -> int:
    """The rank of the score at which the share alpha of the inputs is cut; the highest
    score has rank 1.
    """
    return max(1, math.ceil(alpha * inputs - SLACK))


@dataclass(frozen=True)
class FrozenThreshold(StreamRule):
    """Escalates scores above theta, and scores equal to it with probability
    `tie_acceptance` = p.

    Decisions are in the sure form: the j-th tied input of a unit is accepted iff
    floor(j*p) > floor((j-1)*p).
    """

    theta: float
    tie_acceptance: float

    def __post_init__(self) -> None:
        if math.isnan(self.theta) or not 0 <= self.tie_acceptance <= 1:
            raise InputError(
                "A frozen threshold needs a theta that is not NaN and a tie "
                f"acceptance in [0, 1], got {self.theta} and {self.tie_acceptance}: "
                "calibrate it on validation scores."
            )

    @classmethod
    def calibrate(
        cls, validation_scores: InputFloats, alpha: float
    ) -> "FrozenThreshold":
        """The threshold that accepts the expected share alpha of the validation scores.

        theta is the largest score with share(s >= theta) >= alpha, and p = (alpha -
        share(s > theta))/share(s = theta). Shares are taken as counts, count(s >=
        theta) >= alpha*n - 1e-9, so that float noise in alpha*n does not move theta to
        the next score; p is at most 1 for the same reason.
        """
        return cls.calibrate_each(validation_scores, [alpha])[0]

    @classmethod
    def calibrate_each(
        cls,
        validation_scores: InputFloats,
        alphas: Sequence[float],
        order: InputInts | None = None,
    ) -> list["FrozenThreshold"]:
        """The thresholds of several shares; `order` sorts the scores from the highest
        down, if passed.
        """
        for alpha in alphas:
            check_alpha(alpha)
        scores = _validation(validation_scores)
        score_cuts = cuts(
            scores, [slots_of(alpha, scores.size) for alpha in alphas], order
        )
        return [
            cls.at(cut, alpha * scores.size)
            for cut, alpha in zip(score_cuts, alphas, strict=True)
        ]

    @classmethod
    def at(cls, cut: TiedCut, accepted: float) -> "FrozenThreshold":
        """The threshold at a cut that accepts a number of inputs in expectation."""
        theta = cut.score + 0.0  # -0.0 becomes 0.0
        return cls(theta, tie_acceptance=min(1.0, (accepted - cut.above) / cut.tied))

    def expected(self, score: InputFloats) -> InputFloats:
        """Expected acceptance per input: 1 above theta, p at theta, 0 below; for the
        exact expected gain.
        """
        score = _scores(score)
        return (score > self.theta) + self.tie_acceptance * (score == self.theta)

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated."""
        tied = score == self.theta
        turn = running_count(tied, first)
        accepted = np.floor(turn * self.tie_acceptance) > np.floor(
            (turn - 1) * self.tie_acceptance
        )
        return (score > self.theta) | (tied & accepted)

    def start(self) -> "FrozenStream":
        """A stream at the beginning of a unit."""
        return FrozenStream(self)


@dataclass
class FrozenStream(UnitStream):
    """A frozen threshold within one unit, with the tied inputs seen so far."""

    policy: FrozenThreshold
    tied: int = 0

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        score = one_score(score)
        if score != self.policy.theta:
            return score > self.policy.theta
        self.tied += 1
        p = self.policy.tie_acceptance
        return math.floor(self.tied * p) > math.floor((self.tied - 1) * p)


@dataclass(frozen=True)
class CausalCap(StreamRule):
    """Escalates the inputs above the threshold, at most floor(1 + alpha*t + 1e-9) of a
    unit's first t inputs.
    """

    threshold: FrozenThreshold
    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    @classmethod
    def calibrate(cls, validation_scores: InputFloats, alpha: float) -> "CausalCap":
        """The cap at rate alpha over the threshold calibrated at that rate."""
        return cls(FrozenThreshold.calibrate(validation_scores, alpha), alpha)

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated: e_t = W_t + min(0, min_{j<=t} (cap_j - W_j)), with
        W_t requests up to t.
        """
        row = np.arange(score.size)
        wants = running_count(self.threshold.decide_sorted(score, first), first)
        cap = np.floor(1 + self.alpha * (row - first + 1) + SLACK).astype(np.int64)
        # Each unit is lowered below all earlier ones, so that one running minimum
        # serves them all.
        drop = np.cumsum(first == row) * (2 * score.size + 2)
        lowest = np.minimum.accumulate(cap - wants - drop) + drop
        escalated = wants + np.minimum(0, lowest)
        before = np.where(
            first == row, 0, np.concatenate([[0], escalated])[: score.size]
        )
        return escalated > before

    def start(self) -> "CappedStream":
        """A stream at the beginning of a unit."""
        return CappedStream(self, self.threshold.start())


@dataclass
class CappedStream(UnitStream):
    """A causal cap within one unit, with the inputs and the escalations so far."""

    policy: CausalCap
    wants: FrozenStream
    seen: int = 0
    escalated: int = 0

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        requested = self.wants.decide(score)
        self.seen += 1
        escalate = requested and self.escalated < math.floor(
            1 + self.policy.alpha * self.seen + SLACK
        )
        self.escalated += escalate
        return escalate


@dataclass(frozen=True, eq=False)
class AdaptiveThreshold(StreamRule):
    """Escalates iff F(s) > q, where F(s) is the share of validation scores <= s, and q
    follows the rate.

    q starts at 1 - alpha and moves by eta*(escalated - alpha), kept in [0, 1]. The
    scores are kept sorted.
    """

    eta: float
    validation_scores: InputFloats
    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not 0 <= self.eta < math.inf:
            raise InputError(
                f"eta must be a finite step of at least 0, got {self.eta}."
            )
        ascending = np.sort(_validation(self.validation_scores))
        ascending.flags.writeable = False
        object.__setattr__(self, "validation_scores", ascending)

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated."""
        return replay_steps(self, self.level(score), first)

    def start(self) -> "AdaptiveStream":
        """A stream at the beginning of a unit."""
        return AdaptiveStream(self, 1 - self.alpha)

    def level(self, score: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """F(s): the share of validation scores that do not exceed each score."""
        below = np.searchsorted(self.validation_scores, score, side="right")
        return np.asarray(below / self.validation_scores.size)


@dataclass
class AdaptiveStream(UnitStream):
    """An adaptive threshold within one unit, with the quantile that the next score must
    exceed.
    """

    policy: AdaptiveThreshold
    q: float

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        return self.step(self.policy.level(np.array(one_score(score))).item())

    def step(self, level: float, /) -> bool:
        """The decision on an input, from F of its score."""
        escalate = level > self.q
        self.q = min(
            1.0, max(0.0, self.q + self.policy.eta * (escalate - self.policy.alpha))
        )
        return escalate


@dataclass(frozen=True)
class TokenBucket(StreamRule):
    """Escalates the inputs above the threshold while a token is left.

    The level starts at 1; each input first adds alpha up to `cap`; an escalation needs
    a level of at least 1 - 1e-9 and costs 1. With an infinite cap the level is 1 +
    alpha*t - escalations, which is the causal cap but for the float noise that the
    level gathers in units of some 1e5 inputs.
    """

    cap: float
    threshold: FrozenThreshold
    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not self.cap >= 1:
            raise InputError(
                "A bucket must hold at least the one token it starts "
                f"with, got a cap of {self.cap}."
            )

    def decide_sorted(self, score: InputFloats, first: InputInts) -> InputFlags:
        """Which rows are escalated."""
        return replay_steps(self, self.threshold.decide_sorted(score, first), first)

    def start(self) -> "BucketStream":
        """A stream at the beginning of a unit."""
        return BucketStream(self, self.threshold.start())


@dataclass
class BucketStream(UnitStream):
    """A token bucket within one unit, with its level."""

    policy: TokenBucket
    wants: FrozenStream
    level: float = 1.0

    def decide(self, score: float) -> bool:
        """Whether the next input of the unit is escalated."""
        return self.step(self.wants.decide(score))

    def step(self, requested: int, /) -> bool:
        """The decision on an input that requests one token or none."""
        self.level = min(self.policy.cap, self.level + self.policy.alpha)
        escalate = requested > 0 and self.level >= 1 - SLACK
        self.level -= escalate
        return escalate


def replay_steps(
    policy: StreamRule, signal: Shaped[np.ndarray, "input"], first: InputInts
) -> InputFlags:
    """The decisions of a new stream per unit, step by step over the signal of each
    row.
    """
    begins = first == np.arange(signal.size)
    stream, escalated = policy.start(), []
    for value, new in zip(signal.tolist(), begins.tolist(), strict=True):
        stream = policy.start() if new else stream
        escalated.append(stream.step(value))
    return np.array(escalated, dtype=bool)


def running_count(flag: InputFlags, first: InputInts) -> InputInts:
    """Number of flags set from the first row of the unit up to each row."""
    count = np.cumsum(flag, dtype=np.int64)
    return count - (count - flag)[first]


def check_alpha(alpha: float) -> None:
    """Raise where alpha is no share of inputs."""
    if not 0 < alpha <= 1:
        raise InputError(
            f"alpha must lie in (0, 1], got {alpha}: pass the "
            "share of inputs to escalate."
        )


def one_score(score: float) -> float:
    """The score as a number; NaN raises."""
    if math.isnan(score):
        raise InputError("Scores must not be NaN, got one: give every input a score.")
    return float(score)


def _scores(score: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The scores as float64, none of them NaN."""
    if np.isnan(score).any():
        row = int(np.flatnonzero(np.isnan(score))[0])
        raise InputError(
            f"Scores must not be NaN, found one in row {row}: give every input a score."
        )
    return np.asarray(score, dtype=np.float64)


def _validation(scores: Float[np.ndarray, "..."]) -> InputFloats:
    """Validation scores, at least one."""
    if scores.ndim != 1 or scores.size == 0:
        raise InputError(
            "Calibration needs one score for at least one validation input, got shape "
            f"{scores.shape}: pass the scores of the validation units."
        )
    return _scores(scores)
