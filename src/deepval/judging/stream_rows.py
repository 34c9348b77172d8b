"""Scores in time order, calibrated on other units -> the gain of causal policies, and
the cost of causality.

A ranking sees the whole test split before it decides. These policies see the inputs of
a unit one after another, at the rate that the budget leaves after the cost of the
allocator. The state resets at each unit, so a draw of units is a sum of unit totals.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, InputFloats, InputInts, InputNumbers, Int
from deepval.errors import InputError
from deepval.judging import priced_policies as priced
from deepval.judging import selections
from deepval.judging.allowances import Allowance, no_prize
from deepval.judging.policies import (
    BOUNDS,
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    Policy,
    TokenBucket,
    by_unit,
    highest,
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
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""First steps that a dual price is tuned over, in units of the scores' standard
deviation.
"""
DEBTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Debts that a virtual queue is tuned over."""
PAPER = ("frozen threshold", "causal cap", "adaptive threshold", "token bucket")
"""The paper's policies."""
BEYOND = ("dual price", "virtual queue", "replay threshold", "conformal harm")
"""Policies beyond the paper's."""


class Trial(NamedTuple):
    """A candidate setting with its share of inputs escalated and its gain on the
    validation units.
    """

    candidate: float
    rate: float
    gain: float


def tune(
    name: str,
    score: InputFloats,
    unit: InputInts,
    *,
    order: InputNumbers,
    value: InputFloats,
    alpha: float,
) -> Policy:
    """The policy of this name for the rate alpha, calibrated and tuned on the
    calibration units.
    """
    about = {
        "score": score,
        "unit": unit,
        "order": order,
        "value": value,
        "alpha": alpha,
    }
    frozen = FrozenThreshold.calibrate(score, alpha)
    start = (frozen.theta, priced.score_scale(score), alpha)
    match name:
        case "frozen threshold":
            return frozen
        case "causal cap":
            return CausalCap(frozen, alpha)
        case "adaptive threshold":
            return tune_among(
                [AdaptiveThreshold(eta, score, alpha) for eta in ETAS], ETAS, **about
            )[0]
        case "token bucket":
            return tune_among(
                [TokenBucket(cap, frozen, alpha) for cap in CAPS], CAPS, **about
            )[0]
        case "dual price":
            return tune_among(
                [priced.DualPrice(*start, eta) for eta in STEPS], STEPS, **about
            )[0]
        case "virtual queue":
            return tune_among(
                [priced.VirtualQueue(*start, debt) for debt in DEBTS], DEBTS, **about
            )[0]
        case "conformal harm":
            safe = priced.safe_threshold(
                score, unit, priced.harm_shares(value, unit), target=alpha
            )
            return priced.ConformalHarm.over(frozen, safe)
        case _:
            shares = [
                share for part in range(1, 51) if (share := alpha * part / 10) <= 1
            ]
            replayed = [
                priced.ReplayThreshold(cut, alpha)
                for cut in FrozenThreshold.calibrate_each(score, shares)
            ]
            # the cap keeps the rate
            return tune_among(replayed, shares, **about, tolerance=1.0)[0]


def setting_of(policy: Any) -> float | None:
    """The tuned setting of a policy; None if it has none, or an infinite one."""
    settings = [
        getattr(policy, name)
        for name in ("eta", "cap", "debt")
        if hasattr(policy, name)
    ]
    return next((setting for setting in settings if math.isfinite(setting)), None)


def tune_among(
    policies: Sequence[Policy],
    candidates: Sequence[float],
    *,
    score: InputFloats,
    unit: InputInts,
    order: InputNumbers,
    value: InputFloats,
    alpha: float,
    tolerance: float = RATE_TOLERANCE,
) -> tuple[Policy, list[Trial]]:
    """The best of some policies, with these settings, on the validation units, and
    every one tried, in their order.

    It has the largest gain among those that do not miss the rate; if all miss it, the
    rate nearest to alpha. In a tie, the one listed first is chosen.
    """
    if not policies or value.shape != score.shape or not np.isfinite(value).all():
        raise InputError(
            "Tuning needs at least one candidate and a finite decision value per "
            f"input, got {len(policies)} candidates and values of shape "
            f"{value.shape}: align them with the scores."
        )
    tried = []
    for policy, candidate in zip(policies, candidates, strict=True):
        escalated = policy.decide(score, unit, order) > 0
        rate = int(escalated.sum()) / score.size
        tried.append(Trial(candidate, rate, gain=math.fsum(value[escalated])))
    return policies[best_trial(tried, alpha, tolerance)], tried


def best_trial(
    tried: Sequence[Trial], alpha: float, tolerance: float = RATE_TOLERANCE
) -> int:
    """The trial with the largest gain among those that keep the rate alpha; if none
    does, the one nearest to alpha.
    """
    near = [
        i
        for i, trial in enumerate(tried)
        if not rate_missed(trial.rate, alpha, tolerance)
    ]
    if near:
        return max(near, key=lambda i: tried[i].gain)
    # Rates on either side of alpha are equally near up to float noise, and then the
    # first one wins.
    distances = [abs(trial.rate - alpha) for trial in tried]
    return next(
        i for i, distance in enumerate(distances) if distance <= min(distances) + 1e-12
    )


def rate_missed(
    realised: float, alpha: float, tolerance: float = RATE_TOLERANCE
) -> bool:
    """Whether the realised share is further from alpha than a tolerance (5 points);
    exactly at it, it is not missed.
    """
    if math.isnan(realised):
        raise InputError(
            "A realised share must be a number, got NaN: a rate "
            "needs at least one input."
        )
    return bool(abs(realised - alpha) > tolerance + 1e-12)


class Cap(NamedTuple):
    """Gain of the causal cap, in units of the loss."""

    gain: float
    benefit: float
    harm: float


@dataclass(frozen=True, eq=False)
class Acceptance:
    """The name of a policy, its tuned parameter, and the probability that it escalates
    each input.
    """

    policy: str
    parameter: float | None
    weights: InputFloats


class Decider(NamedTuple):
    """The scores of an allocator, and what each policy accepts by them at a rate."""

    scores: Scores
    acceptances: Callable[[float], Iterable[Acceptance]]


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
    calibrated_on: tuple[ValueTable, Sequence[Scores]] | int,
) -> tuple[list[Streamed], dict[tuple[str, int], Cap]]:
    """Rows of every policy, and the causal cap's gain by allocator and index of the
    budget.

    If `calibrated_on` is a number of folds, each fold of the judged units is calibrated
    on the others.
    """
    table = resamples.table
    if isinstance(calibrated_on, int):
        deciding = [
            partial(_acceptances_by_fold, own.values, table, calibrated_on)
            for own in scores
        ]
    else:
        calibration_table, others = calibrated_on
        pairs = zip(scores, others, strict=True)
        deciding = [
            partial(_acceptances, own.values, table, other.values, calibration_table)
            for own, other in pairs
        ]
    deciders = [
        Decider(own, decide)
        for own, decide in zip(scores, deciding, strict=True)
        if not own.modes
    ]
    streamed_rows: list[Streamed] = []
    caps: dict[tuple[str, int], Cap] = {}
    for index, allowed in enumerate(allowances):
        for streamed in _streams_under(allowed, resamples, deciders):
            streamed_rows.append(streamed)
            row = streamed.row
            if row.policy == "causal cap":
                caps[row.allocator, index] = Cap(
                    row.gain or 0.0, row.benefit or 0.0, row.harm or 0.0
                )
    return streamed_rows, caps


def _streams_under(
    allowed: Allowance, resamples: Resamples, deciders: Sequence[Decider]
) -> Iterator[Streamed]:
    """Rows of every policy of every allocator under one budget, at the rate that it
    leaves after their costs.
    """
    (prize,), (chance,) = (
        [sample.gain for sample in of(resamples, [allowed])]
        for of in (selections.best, selections.at_random)
    )
    for own, acceptances in deciders:
        start = Stream(own.name, "any", None, **vars(allowed.key))
        if own.name in allowed.unpriced:
            words, reason = Reason.NO_COST.text(), allowed.unpriced[own.name].text()
            yield Streamed(
                replace(start, verdict_words=words, reason=reason), None, prize
            )
            continue
        cost = allowed.cost_of(own.name)
        if allowed.per_input:
            yield Streamed(replace(start, reason=Reason.RATE_ONLY.text()), None, prize)
            continue
        if not allowed.feasible(cost) or not allowed.share(cost) > 0:
            reason = Reason.NOTHING_LEFT.text()
            row = replace(
                start, verdict="infeasible", verdict_words="infeasible", reason=reason
            )
            yield Streamed(row, None, prize)
            continue
        rate = allowed.share(cost)
        ranked = resamples.ranking(own, allowed.slots(resamples.inputs, cost)[:, None])[
            0
        ].gain
        for accepted in acceptances(rate):
            yield _stream(
                start,
                resamples,
                accepted,
                rate=rate,
                without_prize=no_prize(
                    allowed, len(resamples.table), float(resamples.full_benefit[0])
                ),
                prize=prize,
                chance=chance,
                ranked=ranked,
            )


def times(table: ValueTable) -> InputInts:
    """The position of each input in time; all differ.

    Raises where the table has no times.
    """
    if table.order is None:
        raise InputError(
            "Streaming policies need the place of each input in time: add a column "
            "'order' to the table."
        )
    return table.time_rank


def _acceptances(
    score: InputFloats,
    table: ValueTable,
    calibration_score: Float[np.ndarray, "calibration"],
    calibration_table: ValueTable,
    rate: float,
    *,
    names: Sequence[str] = PAPER,
) -> Iterator[Acceptance]:
    """Policies at a rate, calibrated and tuned on the calibration units."""
    at = times(table)
    tuning = {
        "order": times(calibration_table),
        "value": calibration_table.decision_values,
        "alpha": rate,
    }
    for name in names:
        policy = tune(name, calibration_score, calibration_table.unit, **tuning)
        frozen = type(policy) is FrozenThreshold
        weights = (
            policy.expected(score) if frozen else policy.decide(score, table.unit, at)
        )
        yield Acceptance(name, setting_of(policy), weights)


def _acceptances_by_fold(
    score: InputFloats, table: ValueTable, folds: int, rate: float
) -> Iterator[Acceptance]:
    """Every policy, calibrated for each fold of units on the others, after the same
    scores in hindsight.
    """
    at, value = times(table), table.decision_values
    yield Acceptance(
        "all units", None, highest(score, max(1, math.floor(rate * len(table) + 0.5)))
    )
    for name, accept in BOUNDS.items():
        weights = by_unit(
            table.unit, at, lambda rows, of=accept: of(score[rows], rate, value[rows])
        )
        yield Acceptance(name, None, weights)
    present, rank = np.unique(table.unit, return_inverse=True)
    fold, calibrating = (
        rank.reshape(len(table)) % folds,
        len(present) - math.ceil(len(present) / folds),
    )
    names = [
        name
        for name in (*PAPER, *BEYOND)
        if name != BEYOND[-1] or (calibrating + 1) * rate >= 1
    ]
    weights, settings = np.zeros((len(names), len(table))), dict[str, float | None]()
    for number in np.unique(fold).tolist():
        own, others = fold == number, fold != number
        parts = _acceptances(
            score[own],
            table.keep(own),
            score[others],
            table.keep(others),
            rate,
            names=names,
        )
        for index, part in enumerate(parts):
            weights[index, own] = part.weights
            settings[part.policy] = settings.get(part.policy) or part.parameter
    yield from (
        Acceptance(name, settings[name], of)
        for name, of in zip(names, weights, strict=True)
    )


def _stream(
    start: Stream,
    resamples: Resamples,
    accepted: Acceptance,
    *,
    rate: float,
    without_prize: str,
    prize: Float[np.ndarray, "resample"],
    chance: Float[np.ndarray, "resample"],
    ranked: Float[np.ndarray, "resample"],
) -> Streamed:
    table, drawn, draws = resamples.table, resamples.drawn, resamples.draws
    totals = unit_totals(
        accepted.weights,
        table.decision_values,
        unit=table.unit,
        units=len(table.unit_ids),
    )
    gain = resamples.counts @ totals.gain
    realised = float(totals.escalated.sum() / len(table))
    difference, resampled = (
        resamples.paired_difference(gain, chance),
        resamples.resampled,
    )
    behind = resamples.ndg(gain, prize) - resamples.ndg(ranked, prize)
    # A draw in which the oracle gains nothing has no nDG; if both gains are equal
    # there, their difference is 0.
    in_draws = np.where((prize <= 0) & resamples.same(gain, ranked), 0.0, behind)[drawn]
    compared = resampled and bool(prize[0] > 0)
    of_ranking = draws.interval(in_draws, ~np.isnan(in_draws) & compared).snap()
    dropped = int(np.count_nonzero(np.isnan(in_draws))) if compared else 0
    of_random = resamples.versus(difference)
    reasons = ([] if prize[0] > 0 else [without_prize]) + resamples.undefined()
    row = replace(
        start,
        policy=accepted.policy,
        parameter=accepted.parameter,
        target_rate=rate,
        rate=realised,
        rate_missed=rate_missed(realised, rate),
        gain=float(gain[0]),
        benefit=float(totals.benefit.sum()),
        harm=float(totals.harm.sum()),
        ndg=known(resamples.ndg(gain, prize)[0]),
        versus_ranking=of_ranking.estimate(behind[0]),
        versus_ranking_dropped=dropped,
        **of_random.fields(difference),
        versus_random_unit=resamples.unit_shown,
        verdict_words=in_words(
            of_random.verdict, effective_units=resamples.effective_units
        ),
        draws=len(draws),
        reason=joined(reasons),
    )
    return Streamed(
        row,
        Sample(
            gain, resamples.counts @ totals.benefit, resamples.counts @ totals.escalated
        ),
        prize,
    )


@dataclass(frozen=True)
class UnitTotals:
    """Sums per unit under an acceptance; a bootstrap draw is its counts per unit times
    these.

    Gain = benefit - harm; harm is a positive number; `escalated` is the (expected)
    number of escalations.
    """

    gain: Float[np.ndarray, " unit"]
    benefit: Float[np.ndarray, " unit"]
    harm: Float[np.ndarray, " unit"]
    escalated: Float[np.ndarray, " unit"]
    inputs: Int[np.ndarray, " unit"]


def unit_totals(
    acceptance: InputFloats, value: InputFloats, *, unit: InputInts, units: int
) -> UnitTotals:
    """Gain, benefit, harm, escalations and inputs of each of the units 0 to
    `units` - 1.
    """
    if not acceptance.shape == value.shape == unit.shape:
        raise InputError(
            "Acceptances, values and units must be one per input, got shapes "
            f"{acceptance.shape}, {value.shape}, {unit.shape}: align them by input."
        )
    if unit.size and not 0 <= unit.min() <= unit.max() < units:
        raise InputError(
            f"Unit indices must lie between 0 and {units - 1}, got {unit.min()} to "
            f"{unit.max()}: number the units from 0."
        )
    # bincount returns integers for empty weights, so the result is converted to
    # float64.
    weights = np.stack(
        [
            acceptance * np.maximum(value, 0),
            acceptance * np.maximum(-value, 0),
            acceptance,
        ]
    )
    benefit, harm, escalated = (
        np.bincount(unit, w, minlength=units).astype(np.float64) for w in weights
    )
    return UnitTotals(
        gain=benefit - harm,
        benefit=benefit,
        harm=harm,
        escalated=escalated,
        inputs=np.bincount(unit, minlength=units),
    )
