"""Validation units -> the streaming policy that does best on them, among a few candidates.

Chosen is the largest gain among the candidates that keep the rate, or else the rate nearest to the target.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from deepval.arrays import Float, Int, Num
from deepval.errors import InputError
from deepval.judging.policies import (
    RATE_TOLERANCE,
    AdaptiveThreshold,
    FrozenThreshold,
    Policy,
    TokenBucket,
    rate_missed,
)

ETAS = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Step sizes that an adaptive threshold is tuned over."""
CAPS = (1.0, 2.0, 5.0, 10.0, math.inf)
"""Capacities that a token bucket is tuned over."""


class Trial(NamedTuple):
    """A candidate setting with its share of inputs escalated and its gain on the validation units."""

    candidate: float
    rate: float
    gain: float


Tunable = TypeVar("Tunable", bound=Policy)


@dataclass(frozen=True)
class TunedPolicy(Generic[Tunable]):
    """The policy chosen on the validation units, and every candidate tried, in the order listed.

    Chosen is the largest gain among the candidates that do not miss the rate; where all miss it, the rate
    nearest to alpha. The first listed wins a tie.
    """

    policy: Tunable
    tried: tuple[Trial, ...]


def tune_adaptive_threshold(
    score: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    *,
    order: Num[np.ndarray, "input"],
    value: Float[np.ndarray, "input"],
    alpha: float,
    etas: Sequence[float] = ETAS,
) -> TunedPolicy[AdaptiveThreshold]:
    """The adaptive threshold with the eta that does best on the validation units."""
    policies = [AdaptiveThreshold(eta, score, alpha) for eta in etas]
    return _tuned(policies, etas, score=score, unit=unit, order=order, value=value, alpha=alpha)


def tune_token_bucket(
    score: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    *,
    order: Num[np.ndarray, "input"],
    value: Float[np.ndarray, "input"],
    alpha: float,
    caps: Sequence[float] = CAPS,
) -> TunedPolicy[TokenBucket]:
    """The token bucket, over the threshold calibrated at alpha, with the cap that does best in validation."""
    threshold = FrozenThreshold.calibrate(score, alpha)
    policies = [TokenBucket(cap, threshold, alpha) for cap in caps]
    return _tuned(policies, caps, score=score, unit=unit, order=order, value=value, alpha=alpha)


def _tuned(
    policies: Sequence[Tunable],
    candidates: Sequence[float],
    *,
    score: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    order: Num[np.ndarray, "input"],
    value: Float[np.ndarray, "input"],
    alpha: float,
) -> TunedPolicy[Tunable]:
    if not policies or value.shape != score.shape or not np.isfinite(value).all():
        raise InputError(
            "Tuning needs at least one candidate and a finite decision value per input, got "
            f"{len(policies)} candidates and values of shape {value.shape}: align them with the scores."
        )
    tried = []
    for policy, candidate in zip(policies, candidates, strict=True):
        escalated = policy.decide(score, unit, order) > 0
        rate = int(escalated.sum()) / score.size
        tried.append(Trial(candidate, rate, gain=math.fsum(value[escalated])))
    return TunedPolicy(policies[best_trial(tried, alpha)], tuple(tried))


def best_trial(tried: Sequence[Trial], alpha: float, tolerance: float = RATE_TOLERANCE) -> int:
    """The trial of the largest gain among those that keep the rate alpha, or else of the nearest rate."""
    near = [i for i, trial in enumerate(tried) if not rate_missed(trial.rate, alpha, tolerance)]
    if near:
        return max(near, key=lambda i: tried[i].gain)
    # Rates on either side of alpha are equally near up to float noise, and then the first one wins.
    distances = [abs(trial.rate - alpha) for trial in tried]
    return next(i for i, distance in enumerate(distances) if distance <= min(distances) + 1e-12)
