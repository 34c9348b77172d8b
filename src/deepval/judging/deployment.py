"""A table, an allocator's scores and a budget -> its threshold with the rate to expect, and the routing that keeps it.

Scores alone set a threshold. Losses of the calibration units are looked at only where a policy has a step or a size to
tune; nothing is judged.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from deepval.errors import InputError
from deepval.judging.budgets import Allowance, Budget, allowance_on
from deepval.judging.draws import make_draws
from deepval.judging.policies import Policy
from deepval.judging.resamples import Resamples
from deepval.judging.routing import Routing
from deepval.judging.streams import times
from deepval.judging.thresholds import thresholds
from deepval.judging.tuning import tune_adaptive_threshold, tune_token_bucket
from deepval.results import Reason, Threshold
from deepval.tables.scores import CALIBRATE, JUDGE, Missing, Scores, on_part
from deepval.tables.values import ValueTable


class Deployment(NamedTuple):
    """Where an allocator escalates from, and what decides so input by input."""

    threshold: Threshold
    routing: Routing


def deployment(
    table: ValueTable,
    scores: Scores,
    budget: Budget,
    *,
    calibration: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    policy: str = "causal cap",
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
        units: Units to expect a rate of; those of the calibration where None.
        policy: Name of a streaming policy.
        reset: Whether units are streams of their own.
        missing: What an input without a score is: an error, or ranked last.
        draws: Draws of units behind the interval of the rate.
        seed: Their seed.
    """
    held = table if calibration is None else table.restrict(calibration)
    apart = units is not None and set(units) != set(held.unit_ids)
    judged = table.restrict(units) if apart else held
    held_scores = on_part(held, scores, table, missing, role=CALIBRATE)
    own = on_part(judged, scores, table, missing, role=JUDGE) if apart else held_scores
    allowed = allowance_on(budget, held)
    if allowed.each:
        raise InputError(
            "A router does not see what the next input will cost, and the table has costs per input: give costs of the "
            "modes (--costs), or a selection budget."
        )
    resamples = Resamples.of(judged, make_draws(len(judged.unit_ids), draws, seed), leave_out_up_to=0)
    (found,) = thresholds(resamples, [own], [allowed], calibration=[held_scores] if apart else None)
    if found.rate is None:
        raise InputError(f"{scores.name} has no threshold under {allowed.key.label}: {found.reason}.")
    routing = Routing.calibrated(
        held_scores.values,
        allowed.share(allowed.cost_of(scores.name)),
        policy=_tuned(policy, held_scores, held, allowed, reset=reset),
        modes=table.modes,
        costs=_costs(allowed, scores),
        reset=reset,
        about={
            "allocator": scores.name,
            "budget": allowed.key.label,
            "calibration_units": [str(unit) for unit in held.unit_ids],
            "scores": held_scores.digest,
            "rate": found.rate,
            "rate_lo": found.rate_lo,
            "rate_hi": found.rate_hi,
        },
    )
    return Deployment(found, routing)


def _costs(allowed: Allowance, scores: Scores) -> dict[str, float] | None:
    """What modes cost, where scores per mode are to be spent on."""
    if allowed.costs is None or allowed.convention is None or not scores.modes:
        return None
    return {mode: allowed.costs.of_mode(mode, allowed.convention) for mode in scores.modes}


def _tuned(policy: str, scores: Scores, held: ValueTable, allowed: Allowance, *, reset: bool) -> str | Policy:
    """The policy by name or, where it has something to tune, tuned on the calibration units."""
    tunes = {"adaptive threshold": tune_adaptive_threshold, "token bucket": tune_token_bucket}
    tune = tunes.get(policy.replace("-", " "))
    if tune is None:
        return policy
    if scores.modes:
        raise InputError(f"A {policy} is tuned for one score per input, and {scores.name}: {Reason.NO_RANKING.said()}.")
    rate = allowed.share(allowed.cost_of(scores.name))
    unit = held.unit if reset else np.zeros(len(held), dtype=np.int64)
    return tune(scores.values, unit, order=times(held), value=held.decision_values, alpha=rate).policy
