"""A table, an allocator's scores and a budget -> its threshold, the best policy in replay and its rate on new units.

Every possible policy is replayed in time order on the calibration units, as a router would run it. The losses of the
calibration units choose among policies and tune them. Losses of other units are not read, and no verdict is computed.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.arrays import Float, Num
from deepval.errors import InputError, InputWarning
from deepval.judging.budgets import Allowance, Budget, allowance_on
from deepval.judging.draws import make_draws
from deepval.judging.policies import AdaptiveThreshold, Policy, TokenBucket, rate_missed
from deepval.judging.prices import Price
from deepval.judging.resamples import Resamples
from deepval.judging.routing import POLICIES, Routing
from deepval.judging.streams import Trial, best_trial, times, tune_adaptive_threshold, tune_token_bucket
from deepval.judging.thresholds import replayed, thresholds
from deepval.results import Reason, Threshold
from deepval.tables.scores import CALIBRATE, JUDGE, Missing, Scores, on_part
from deepval.tables.values import ValueTable

BEST = "best"
"""Stands for the policy that replays best."""
NEAR = 0.02
"""A policy whose replayed rate is further than this from the target is chosen only if all are."""
TUNED = ("adaptive threshold", "token bucket")
"""Policies with a setting to tune."""


class PolicyReplay(NamedTuple):
    """A policy on the calibration units: its tuned parameter, the share that it escalates and its gain."""

    policy: str
    parameter: float | None
    rate: float
    gain: float


class Deployment(NamedTuple):
    """The threshold of an allocator, the routing that applies it input by input, and all replayed policies."""

    threshold: Threshold
    routing: Routing
    replays: tuple[PolicyReplay, ...]


def deployment(
    table: ValueTable,
    scores: Scores,
    budget: Budget,
    *,
    calibration: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    policy: str = BEST,
    reset: bool = True,
    missing: Missing = "error",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
) -> Deployment:
    """The threshold of an allocator under a budget and the routing by a policy over it.

    Args:
        table: The inputs.
        scores: The allocator's scores, aligned with them.
        budget: What may be escalated, or spent.
        calibration: Units that set the threshold; all where None.
        units: Units for which to expect a rate; the calibration units where None.
        policy: Name of a streaming policy; "best" for the largest gain on the calibration units among those whose rate
            there is within 2 points of the target, or else the nearest rate.
        reset: Whether units are streams of their own.
        missing: Whether an input without a score is an error or ranked last.
        draws: Number of draws of units for the interval of the rate.
        seed: Their seed.
    """
    calibration_table = table if calibration is None else table.restrict(calibration)
    apart = units is not None and set(units) != set(calibration_table.unit_ids)
    judged = table.restrict(units) if apart else calibration_table
    calibration_scores = on_part(calibration_table, scores, table, missing, role=CALIBRATE)
    own = on_part(judged, scores, table, missing, role=JUDGE) if apart else calibration_scores
    allowed = allowance_on(budget, calibration_table)
    if allowed.per_input:
        raise InputError(
            "A router does not see what the next input will cost, and the table has costs per input: give costs of the "
            "modes (--costs), or a selection budget."
        )
    resamples = Resamples.of(judged, make_draws(len(judged.unit_ids), draws, seed), leave_out_up_to=0)
    (cut,) = thresholds(resamples, [own], [allowed], calibration=[calibration_scores] if apart else None)
    if cut.rate is None:
        raise InputError(f"{scores.name} has no threshold under {allowed.key.label}: {cut.reason}.")
    target, costs = allowed.share(allowed.cost_of(scores.name)), _costs(allowed, scores, full=table.modes[-1])
    priced = bool(scores.modes and costs)
    about: dict[str, Any] = {
        "allocator": scores.name,
        "budget": allowed.key.label,
        "calibration_units": [str(unit) for unit in calibration_table.unit_ids],
        "scores": calibration_scores.digest,
    }
    asked: dict[str, Any] = {"modes": table.modes, "costs": costs if priced else None, "reset": reset, "about": about}
    routings = [
        Routing.calibrated(calibration_scores.values, target, policy=item, **asked)
        for item in _policies(policy, calibration_scores, calibration_table, target, priced=priced, reset=reset)
    ]
    replays = [_replay(routing, calibration_scores.values, calibration_table) for routing in routings]
    at = best_trial([Trial(n, item.rate, item.gain) for n, item in enumerate(replays)], target, NEAR)
    routing, replay = routings[at], replays[at]
    if not isinstance(routing.policy, Price) and rate_missed(replay.rate, target, NEAR):
        _note_rate(scores.name, replay, target, alone=len(replays) == 1)
    modes = routing.replay(own.values, judged.unit, _order(judged))
    threshold = replayed(
        resamples,
        cut,
        modes,
        costs or {},
        policy=replay.policy,
        parameter=replay.parameter,
        calibration_rate=replay.rate,
        gain=replay.gain,
    )
    facts = {name: threshold[name] for name in ("rate", "rate_lo", "rate_hi", "calibration_rate", "gain")}
    facts |= {"target_rate": threshold.target_rate, "rate_units": len(judged.unit_ids)}
    about |= facts | {"replays": [item._asdict() for item in replays]}
    return Deployment(threshold, replace(routing, about={**routing.about, **about}), tuple(replays))


def _policies(
    name: str, scores: Scores, table: ValueTable, rate: float, *, priced: bool, reset: bool
) -> list[str | Policy]:
    """The policies to replay: the one of this name, or all that can run; policies with a parameter are tuned."""
    plain = name.replace("-", " ")
    if plain == BEST and (priced or table.order is None):
        plain = "frozen threshold"  # the only one that needs no time order; with costs it stands for a price
    if priced and plain not in TUNED:
        return [plain]
    if plain != BEST:
        return [_tuned(plain, scores, table, rate, reset=reset)]
    names = [candidate for candidate in POLICIES if not scores.modes or candidate not in TUNED]
    return [_tuned(candidate, scores, table, rate, reset=reset) for candidate in names]


def _tuned(name: str, scores: Scores, table: ValueTable, rate: float, *, reset: bool) -> str | Policy:
    """The policy by name or, if it has a parameter, tuned on the calibration units."""
    tunes = dict(zip(TUNED, (tune_adaptive_threshold, tune_token_bucket), strict=True))
    if scores.modes and name in tunes:
        raise InputError(f"A {name} is tuned for one score per input, and {scores.name}: {Reason.NO_RANKING.text()}.")
    if name == "causal cap":
        times(table)  # its rate depends on the order in time
    if name not in tunes:
        return name
    unit = table.unit if reset else np.zeros(len(table), dtype=np.int64)
    return tunes[name](scores.values, unit, order=times(table), value=table.decision_values, alpha=rate).policy


def _replay(routing: Routing, scores: Float[np.ndarray, "input *mode"], table: ValueTable) -> PolicyReplay:
    modes = routing.replay(scores, table.unit, _order(table))
    gain = math.fsum(table.mode_values[np.arange(len(modes)), modes])
    parameter = None
    if isinstance(routing.policy, AdaptiveThreshold):
        parameter = routing.policy.eta
    elif isinstance(routing.policy, TokenBucket) and math.isfinite(routing.policy.cap):
        parameter = routing.policy.cap
    return PolicyReplay(routing.policy_name, parameter, int(np.count_nonzero(modes)) / len(modes), gain)


def _order(table: ValueTable) -> Num[np.ndarray, "input"]:
    """Arrival order of the inputs; that of the table if it has no times (the rate of a threshold ignores order)."""
    return np.arange(len(table)) if table.order is None else table.order


def _note_rate(name: str, replay: PolicyReplay, target: float, *, alone: bool) -> None:
    which = f"under {replay.policy} it" if alone else f"no policy comes within 2 points; the nearest, {replay.policy},"
    note = f"{name}: {target:.1%} of the calibration inputs should be escalated; {which} escalates {replay.rate:.1%}."
    warnings.warn(InputWarning(note), stacklevel=3)


def _costs(allowed: Allowance, scores: Scores, *, full: str) -> dict[str, float] | None:
    """Cost of an escalation to each mode; None under a selection budget."""
    if allowed.costs is None or allowed.convention is None:
        return None
    if not scores.modes:
        return {full: allowed.full - (allowed.cheap if allowed.accounting == "skipping" else 0.0)}
    return {mode: allowed.costs.of_mode(mode, allowed.convention) for mode in scores.modes}
