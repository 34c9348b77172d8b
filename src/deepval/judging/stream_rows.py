"""Scores in time order, calibrated on other units -> the gain of causal policies, and the cost of causality.

A ranking sees the whole test split before it decides. These policies see the inputs of a unit one after another, at the
rate that the budget leaves after the cost of the allocator. The state resets at each unit, so a draw of units is a sum
of unit totals.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from deepval.arrays import Float, InputFloats, InputInts, InputNumbers, Int
from deepval.errors import InputError
from deepval.judging import selections
from deepval.judging.allowances import Allowance, no_prize
from deepval.judging.policies import (
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    Policy,
    TokenBucket,
)
from deepval.judging.resamples import Resamples, Sample
from deepval.results import Reason, Stream, in_words, joined, known
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

RATE_TOLERANCE = 0.05
"""A realised share further than this from alpha misses the rate."""
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

    The chosen policy has the largest gain among the candidates that do not miss the rate; if all miss it, the rate
    nearest to alpha. In a tie, the candidate listed first is chosen.
    """

    policy: Tunable
    tried: tuple[Trial, ...]


def tune_adaptive_threshold(
    score: InputFloats,
    unit: InputInts,
    *,
    order: InputNumbers,
    value: InputFloats,
    alpha: float,
    etas: Sequence[float] = ETAS,
) -> TunedPolicy[AdaptiveThreshold]:
    """The adaptive threshold with the eta that does best on the validation units."""
    policies = [AdaptiveThreshold(eta, score, alpha) for eta in etas]
    return _tune(policies, etas, score=score, unit=unit, order=order, value=value, alpha=alpha)


def tune_token_bucket(
    score: InputFloats,
    unit: InputInts,
    *,
    order: InputNumbers,
    value: InputFloats,
    alpha: float,
    caps: Sequence[float] = CAPS,
) -> TunedPolicy[TokenBucket]:
    """The token bucket, over the threshold calibrated at alpha, with the cap that does best in validation."""
    threshold = FrozenThreshold.calibrate(score, alpha)
    policies = [TokenBucket(cap, threshold, alpha) for cap in caps]
    return _tune(policies, caps, score=score, unit=unit, order=order, value=value, alpha=alpha)


def _tune(
    policies: Sequence[Tunable],
    candidates: Sequence[float],
    *,
    score: InputFloats,
    unit: InputInts,
    order: InputNumbers,
    value: InputFloats,
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
    """The trial with the largest gain among those that keep the rate alpha; if none does, the one nearest to alpha."""
    near = [i for i, trial in enumerate(tried) if not rate_missed(trial.rate, alpha, tolerance)]
    if near:
        return max(near, key=lambda i: tried[i].gain)
    # Rates on either side of alpha are equally near up to float noise, and then the first one wins.
    distances = [abs(trial.rate - alpha) for trial in tried]
    return next(i for i, distance in enumerate(distances) if distance <= min(distances) + 1e-12)


def rate_missed(realised: float, alpha: float, tolerance: float = RATE_TOLERANCE) -> bool:
    """Whether the realised share is further from alpha than a tolerance (5 points); exactly at it, it is not missed."""
    if math.isnan(realised):
        raise InputError("A realised share must be a number, got NaN: a rate needs at least one input.")
    return bool(abs(realised - alpha) > tolerance + 1e-12)


class Cap(NamedTuple):
    """Gain of the causal cap, in units of the loss."""

    gain: float
    benefit: float
    harm: float


@dataclass(frozen=True, eq=False)
class Acceptance:
    """The name of a policy, its tuned parameter, and the probability that it escalates each input.

    The rate is missed beyond `tolerance`; None if the policy enforces it.
    """

    policy: str
    parameter: float | None
    weights: InputFloats
    tolerance: float | None = RATE_TOLERANCE


class Decider(NamedTuple):
    """An allocator that decides in time order: what it accepts at a rate, and its scores if they can be ranked."""

    name: str
    acceptances: Callable[[float], Iterable[Acceptance]]
    ranked: Scores | None = None


@dataclass(frozen=True, eq=False)
class Streamed:
    """A stream's row, and the samples behind it: None where it cannot run."""

    row: Stream
    sample: Sample | None
    prize: Float[np.ndarray, "resample"]


def streams(
    resamples: Resamples,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    *,
    calibrated_on: tuple[ValueTable, Sequence[Scores]],
) -> tuple[list[Streamed], dict[tuple[str, int], Cap]]:
    """Rows of every policy, and the causal cap's gain by allocator and index of the budget."""
    calibration_table, calibration_scores = calibrated_on
    deciders = [
        Decider(own.name, partial(_acceptances, own.values, resamples.table, other.values, calibration_table), own)
        for own, other in zip(scores, calibration_scores, strict=True)
        if not own.modes
    ]
    streamed_rows: list[Streamed] = []
    caps: dict[tuple[str, int], Cap] = {}
    for index, allowed in enumerate(allowances):
        for streamed in streams_under(allowed, resamples, deciders):
            streamed_rows.append(streamed)
            row = streamed.row
            if row.policy == "causal cap":
                caps[row.allocator, index] = Cap(row.gain or 0.0, row.benefit or 0.0, row.harm or 0.0)
    return streamed_rows, caps


def streams_under(allowed: Allowance, resamples: Resamples, deciders: Sequence[Decider]) -> Iterator[Streamed]:
    """Rows of every policy of every allocator under one budget, at the rate that it leaves after their costs."""
    (prize,), (chance,) = (
        [sample.gain for sample in of(resamples, [allowed])] for of in (selections.best, selections.at_random)
    )
    for own in deciders:
        start = Stream(own.name, "any", None, **vars(allowed.key))
        if own.name in allowed.unpriced:
            words, reason = Reason.NO_COST.text(), allowed.unpriced[own.name].text()
            yield Streamed(replace(start, verdict_words=words, reason=reason), None, prize)
            continue
        cost = allowed.cost_of(own.name)
        if allowed.per_input:
            yield Streamed(replace(start, reason=Reason.RATE_ONLY.text()), None, prize)
            continue
        if not allowed.feasible(cost) or not allowed.share(cost) > 0:
            reason = Reason.NOTHING_LEFT.text()
            row = replace(start, verdict="infeasible", verdict_words="infeasible", reason=reason)
            yield Streamed(row, None, prize)
            continue
        rate, ranked = allowed.share(cost), None
        if own.ranked is not None:
            ranked = resamples.ranking(own.ranked, allowed.slots(resamples.inputs, cost)[:, None])[0].gain
        for accepted in own.acceptances(rate):
            yield _stream(
                start,
                resamples,
                accepted,
                rate=rate,
                without_prize=no_prize(allowed, len(resamples.table), float(resamples.full_benefit[0])),
                prize=prize,
                chance=chance,
                ranked=ranked,
            )


def times(table: ValueTable) -> InputInts:
    """The position of each input in time; all differ. Raises where the table has no times."""
    if table.order is None:
        raise InputError("Streaming policies need the place of each input in time: add a column 'order' to the table.")
    return table.time_rank


def _acceptances(
    score: InputFloats,
    table: ValueTable,
    calibration_score: Float[np.ndarray, "calibration"],
    calibration_table: ValueTable,
    rate: float,
) -> Iterator[Acceptance]:
    """The four policies at a rate, calibrated and tuned on the calibration units."""
    at = times(table)
    frozen = FrozenThreshold.calibrate(calibration_score, rate)
    yield Acceptance("frozen threshold", None, frozen.expected(score))
    capped = CausalCap(frozen, rate)
    yield Acceptance("causal cap", None, capped.decide(score, table.unit, at))
    tuning = {"order": times(calibration_table), "value": calibration_table.decision_values, "alpha": rate}
    adaptive = tune_adaptive_threshold(calibration_score, calibration_table.unit, **tuning).policy
    yield Acceptance("adaptive threshold", adaptive.eta, adaptive.decide(score, table.unit, at))
    bucket = tune_token_bucket(calibration_score, calibration_table.unit, **tuning).policy
    size = bucket.cap if math.isfinite(bucket.cap) else None
    yield Acceptance("token bucket", size, bucket.decide(score, table.unit, at))


def _stream(
    start: Stream,
    resamples: Resamples,
    accepted: Acceptance,
    *,
    rate: float,
    without_prize: str,
    prize: Float[np.ndarray, "resample"],
    chance: Float[np.ndarray, "resample"],
    ranked: Float[np.ndarray, "resample"] | None,
) -> Streamed:
    table, drawn, draws = resamples.table, resamples.drawn, resamples.draws
    totals = unit_totals(accepted.weights, table.decision_values, unit=table.unit, units=len(table.unit_ids))
    gain = resamples.counts @ totals.gain
    realised = float(totals.escalated.sum() / len(table))
    difference, resampled = resamples.paired_difference(gain, chance), resamples.resampled
    if ranked is not None:
        behind = resamples.ndg(gain, prize) - resamples.ndg(ranked, prize)
        # A draw in which the oracle gains nothing has no nDG; if both gains are equal there, their difference is 0.
        in_draws = np.where((prize <= 0) & resamples.same(gain, ranked), 0.0, behind)[drawn]
        compared = resampled and bool(prize[0] > 0)
        of_ranking = draws.interval(in_draws, ~np.isnan(in_draws) & compared).snap()
        dropped = int(np.count_nonzero(np.isnan(in_draws))) if compared else 0
        start = replace(start, versus_ranking=of_ranking.estimate(behind[0]), versus_ranking_dropped=dropped)
    of_random = resamples.versus(difference)
    reasons = ([] if prize[0] > 0 else [without_prize]) + resamples.undefined()
    row = replace(
        start,
        policy=accepted.policy,
        parameter=accepted.parameter,
        target_rate=rate,
        rate=realised,
        rate_missed=None if accepted.tolerance is None else rate_missed(realised, rate, accepted.tolerance),
        gain=float(gain[0]),
        benefit=float(totals.benefit.sum()),
        harm=float(totals.harm.sum()),
        ndg=known(resamples.ndg(gain, prize)[0]),
        **of_random.fields(difference),
        versus_random_unit=resamples.unit_shown,
        verdict_words=in_words(of_random.verdict, effective_units=resamples.effective_units),
        draws=len(draws),
        reason=joined(reasons),
    )
    return Streamed(row, Sample(gain, resamples.counts @ totals.benefit, resamples.counts @ totals.escalated), prize)


@dataclass(frozen=True)
class UnitTotals:
    """Sums per unit under an acceptance; a bootstrap draw is its counts per unit times these.

    Gain = benefit - harm; harm is a positive number; `escalated` is the (expected) number of escalations.
    """

    gain: Float[np.ndarray, " unit"]
    benefit: Float[np.ndarray, " unit"]
    harm: Float[np.ndarray, " unit"]
    escalated: Float[np.ndarray, " unit"]
    inputs: Int[np.ndarray, " unit"]


def unit_totals(acceptance: InputFloats, value: InputFloats, *, unit: InputInts, units: int) -> UnitTotals:
    """Gain, benefit, harm, escalations and inputs of each of the units 0 to `units` - 1."""
    if not acceptance.shape == value.shape == unit.shape:
        raise InputError(
            "Acceptances, values and units must be one per input, got shapes "
            f"{acceptance.shape}, {value.shape}, {unit.shape}: align them by input."
        )
    if unit.size and not 0 <= unit.min() <= unit.max() < units:
        raise InputError(
            f"Unit indices must lie between 0 and {units - 1}, got {unit.min()} to {unit.max()}: "
            "number the units from 0."
        )
    # bincount returns integers for empty weights, so the result is converted to float64.
    weights = np.stack([acceptance * np.maximum(value, 0), acceptance * np.maximum(-value, 0), acceptance])
    benefit, harm, escalated = (np.bincount(unit, w, minlength=units).astype(np.float64) for w in weights)
    return UnitTotals(
        gain=benefit - harm,
        benefit=benefit,
        harm=harm,
        escalated=escalated,
        inputs=np.bincount(unit, minlength=units),
    )
