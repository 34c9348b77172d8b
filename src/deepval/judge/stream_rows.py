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

from deepval.basics.arrays import (
    Float,
    InputFloats,
    InputInts,
    InputNumbers,
    PerResample,
)
from deepval.basics.errors import InputError
from deepval.judge import priced_policies as priced
from deepval.judge.allowances import Allowance, no_prize
from deepval.judge.bootstrap import Bootstrap, Cap, Gains, gains_of_choices
from deepval.judge.differences import (
    compare_one,
    is_equal,
    ndg,
    unit_shown,
    why_undefined,
)
from deepval.judge.intervals import estimate, interval_over
from deepval.judge.pairs import Contender
from deepval.judge.policies import Oracle, Random, Ranking
from deepval.judge.results import BudgetKey, Reason, Stream, in_words, joined, known
from deepval.judge.row_columns import comparison_fields, second_fields
from deepval.judge.streaming import (
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    StreamRule,
    TokenBucket,
)
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.values import ValueTable

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
PAPER = ("frozen threshold", "causal cap", "adaptive threshold", "token bucket")
"""The paper's policies."""
BEYOND = ("dual price", "replay threshold", "conformal harm")
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
) -> StreamRule:
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
            scale = priced.score_scale(score)
            prices = [
                priced.DualPrice(frozen.theta, scale, alpha, eta) for eta in STEPS
            ]
            return tune_among(prices, STEPS, **about)[0]
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
        getattr(policy, name) for name in ("eta", "cap") if hasattr(policy, name)
    ]
    return next((setting for setting in settings if math.isfinite(setting)), None)


def tune_among(
    policies: Sequence[StreamRule],
    candidates: Sequence[float],
    *,
    score: InputFloats,
    unit: InputInts,
    order: InputNumbers,
    value: InputFloats,
    alpha: float,
    tolerance: float = RATE_TOLERANCE,
) -> tuple[StreamRule, list[Trial]]:
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


def streams(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    *,
    calibrated_on: tuple[ValueTable, Sequence[Scores]] | int,
) -> tuple[list[Contender], dict[tuple[str, BudgetKey], Cap]]:
    """Rows of every policy, and what the causal cap of each allocator gains.

    If `calibrated_on` is a number of folds, each fold of the judged units is calibrated
    on the others.
    """
    table = bootstrap.table
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
    rows: list[Contender] = []
    caps: dict[tuple[str, BudgetKey], Cap] = {}
    for allowance in allowances:
        for streamed in _streams_under(allowance, bootstrap, deciders):
            rows.append(streamed)
            row = streamed.row
            assert isinstance(row, Stream)
            if row.policy == "causal cap":
                caps[row.allocator, allowance.key] = Cap(
                    row.gain or 0.0, row.benefit or 0.0, row.harm or 0.0
                )
    return rows, caps


def _streams_under(
    allowance: Allowance, bootstrap: Bootstrap, deciders: Sequence[Decider]
) -> Iterator[Contender]:
    """Rows of every policy of every allocator under one budget.

    Each keeps the rate that the budget leaves after the allocator's own cost.
    """
    prize = _gain(Oracle.of(bootstrap.table), bootstrap, allowance)
    chance = _gain(Random(), bootstrap, allowance)
    for own, acceptances in deciders:
        start = Stream(own.name, "any", None, **vars(allowance.key))
        refused = _refused(start, own.name, allowance)
        if refused is not None:
            yield Contender(refused, None, prize)
            continue
        # Its own cost is paid first: a router may escalate fewer than the budget.
        rate = allowance.share(allowance.cost_of(own.name))
        ranked = _gain(Ranking.of(bootstrap.table, own), bootstrap, allowance)
        for accepted in acceptances(rate):
            yield _stream(
                start,
                bootstrap,
                allowance,
                accepted,
                rate=rate,
                prize=prize,
                chance=chance,
                ranked=ranked,
            )


def _gain(
    policy: Oracle | Random | Ranking, bootstrap: Bootstrap, allowance: Allowance
) -> PerResample:
    """What a policy that can run gains under one allowance."""
    (outcome,) = policy.outcomes(bootstrap, [allowance])
    assert outcome.gains is not None
    return outcome.gains.gain


def _refused(start: Stream, name: str, allowance: Allowance) -> Stream | None:
    """The row of an allocator that no policy can run; None where one can."""
    if name in allowance.unpriced:
        reason = allowance.unpriced[name].text()
        return replace(start, verdict_words=Reason.NO_COST.text(), reason=reason)
    if allowance.per_input:
        return replace(start, reason=Reason.RATE_ONLY.text())
    cost = allowance.cost_of(name)
    if allowance.feasible(cost) and allowance.share(cost) > 0:
        return None
    return replace(
        start,
        verdict="infeasible",
        verdict_words="infeasible",
        reason=Reason.NOTHING_LEFT.text(),
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
    """Every policy, calibrated for each fold of units on the others."""
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
    bootstrap: Bootstrap,
    allowance: Allowance,
    accepted: Acceptance,
    *,
    rate: float,
    prize: PerResample,
    chance: PerResample,
    ranked: PerResample,
) -> Contender:
    """The row of one policy: it fixes what it escalates, whatever the draw."""
    gains = gains_of_choices(bootstrap, accepted.weights)
    realised = float(gains.escalated[0] / bootstrap.inputs[0])
    random = compare_one(bootstrap, gains.gain, chance)
    reasons: list[Reason | str] = list(why_undefined(bootstrap))
    if not prize[0] > 0:
        benefit = float(bootstrap.full_benefit[0])
        reasons.insert(0, no_prize(allowance, int(bootstrap.inputs[0]), benefit))
    fields: dict[str, Any] = {
        "policy": accepted.policy,
        "parameter": accepted.parameter,
        "target_rate": rate,
        "rate": realised,
        "rate_missed": rate_missed(realised, rate),
        "gain": float(gains.gain[0]),
        "benefit": float(gains.benefit[0]),
        "harm": max(0.0, float(gains.benefit[0] - gains.gain[0])),
        "ndg": known(ndg(gains.gain, prize)[0]),
        "versus_random_unit": unit_shown(bootstrap),
        "versus_random_dropped": random.dropped,
        "verdict": random.verdict,
        "second_verdict": random.second_verdict,
        "verdict_words": in_words(
            random.verdict, effective_units=bootstrap.effective_units
        ),
        "draws": len(bootstrap.draws),
        "reason": joined(reasons),
    }
    fields |= comparison_fields("random", random)
    fields |= second_fields(random)
    fields |= _against_ranking(bootstrap, gains, ranked, prize)
    return Contender(replace(start, **fields), gains, prize)


def _against_ranking(
    bootstrap: Bootstrap, gains: Gains, ranked: PerResample, prize: PerResample
) -> dict[str, Any]:
    """The difference in nDG from the same scores ranked in hindsight, as fields."""
    behind = ndg(gains.gain, prize) - ndg(ranked, prize)
    # A draw in which the oracle gains nothing has no nDG; if both gains are equal
    # there, their difference is 0.
    same = (prize <= 0) & is_equal(bootstrap, gains.gain, ranked)
    drawn = np.where(same, 0.0, behind)[bootstrap.drawn]
    if not (bootstrap.has_intervals and prize[0] > 0):
        point = estimate(float(behind[0]), None)
        return {"versus_ranking": point, "versus_ranking_dropped": 0}
    bounds = interval_over(drawn, bootstrap.draws)
    return {
        "versus_ranking": estimate(float(behind[0]), bounds),
        "versus_ranking_dropped": int(np.count_nonzero(np.isnan(drawn))),
    }
