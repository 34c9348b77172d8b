"""Scores and budgets -> the score from which on to escalate (per mode: a price), and the rate to expect of it.

A threshold is calibrated on units that are not judged where there are some, else on the judged ones, where its rate is
the wanted one by construction. Its interval keeps the threshold and draws the units: how much the rate depends on them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deepval.arrays import Float
from deepval.judging import selections
from deepval.judging.budgets import Allowance
from deepval.judging.draws import Interval
from deepval.judging.policies import FrozenThreshold
from deepval.judging.prices import Price
from deepval.judging.resamples import Resamples
from deepval.results import ModeRate, Reason, Threshold, joined, known
from deepval.tables.scores import Scores


def thresholds(
    resamples: Resamples,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    *,
    calibration: Sequence[Scores] | None = None,
) -> tuple[Threshold, ...]:
    """The threshold of every allocator under every budget; of scores of calibration units where there are some."""
    found = []
    for allowed in allowances:
        for own, held in zip(scores, scores if calibration is None else calibration, strict=True):
            start = Threshold(
                own.name,
                **allowed.key.fields,
                calibrated_on="judged" if calibration is None else "calibration",
                calibration_inputs=len(held.values),
                draws=len(resamples.draws),
            )
            cost = allowed.cost_of(own.name)
            reason = _why_none(own, allowed, cost)
            if reason is not None:
                found.append(replace(start, reason=reason.said()))
            elif allowed.each:
                found.append(_paid(replace(start, calibrated_on="judged"), resamples, own.values, allowed))
            elif own.modes:
                found.append(_priced(start, resamples, own, held.values, allowed))
            else:
                found.append(_plain(start, resamples, own.values, held.values, allowed))
    return tuple(found)


def _why_none(scores: Scores, allowed: Allowance, cost: float) -> Reason | None:
    if scores.modes and allowed.accounting == "skipping":
        return Reason.NO_SKIPPING
    if scores.modes and allowed.each:
        return Reason.OWN_PRICES
    return None if allowed.feasible(cost) and allowed.share(cost) > 0 else Reason.NOTHING_LEFT


def _plain(
    start: Threshold,
    resamples: Resamples,
    own: Float[np.ndarray, "input"],
    held: Float[np.ndarray, "held"],
    allowed: Allowance,
) -> Threshold:
    wanted = allowed.share(allowed.cost_of(start.allocator))
    frozen = FrozenThreshold.calibrate(held, wanted)
    cost = allowed.full - (allowed.cheap if allowed.accounting == "skipping" else 0.0)
    finite = bool(np.isfinite(frozen.theta))
    return _expected(
        replace(
            start,
            threshold=frozen.theta if finite else None,
            tie_acceptance=frozen.tie_acceptance,
            tied=int(np.count_nonzero(held == frozen.theta)),
            target_rate=wanted,
            reason=None if finite else Reason.INFINITE_CUT.said(cut="inf" if frozen.theta > 0 else "-inf"),
        ),
        resamples,
        frozen.expected(own)[:, None],
        modes={resamples.table.modes[-1]: cost},
        spend=None if allowed.costs is None else wanted * cost,
    )


def _paid(start: Threshold, resamples: Resamples, own: Float[np.ndarray, "input"], allowed: Allowance) -> Threshold:
    """The cut at which the judged inputs, each at its own cost, spend what there is."""
    table, cost = resamples.table, allowed.cost_of(start.allocator)
    share = selections.weights(table, own, allowed, cost)
    if not share.any():
        return replace(start, reason=Reason.NOTHING_LEFT.said())
    cut = float(own[share > 0].min())
    finite, tied = bool(np.isfinite(cut)), own == cut
    prices = allowed.prices(table)[:, -1]
    start = replace(
        start,
        threshold=cut if finite else None,
        tie_acceptance=float(share[tied][0]),
        tied=int(np.count_nonzero(tied)),
        calibration_inputs=len(own),
        reason=None if finite else Reason.INFINITE_CUT.said(cut="inf" if cut > 0 else "-inf"),
    )
    spend = float(share @ prices) / len(own)
    mean = spend / float(share.mean())
    return _expected(start, resamples, share[:, None], modes={table.modes[-1]: mean}, spend=spend)


def _priced(
    start: Threshold,
    resamples: Resamples,
    own: Scores,
    held: Float[np.ndarray, "held mode"],
    allowed: Allowance,
) -> Threshold:
    costs, convention, wanted = allowed.costs, allowed.convention, allowed.share(allowed.cost_of(own.name))
    each = {m: 1.0 if costs is None or convention is None else costs.of_mode(m, convention) for m in own.modes}
    spend = wanted * (1.0 if costs is None else allowed.full)
    price = Price.calibrate(held, list(each.values()), spend)
    least, most = price.bought(held)
    return _expected(
        replace(
            start,
            price=price.price,
            tie_acceptance=price.tie_acceptance,
            tied=int(np.count_nonzero(least != most)),
            target_rate=wanted if costs is None else None,
        ),
        resamples,
        price.expected(own.values),
        modes=each,
        spend=None if costs is None else spend,
    )


def _expected(
    start: Threshold,
    resamples: Resamples,
    acceptance: Float[np.ndarray, "input mode"],
    *,
    modes: dict[str, float],
    spend: float | None,
) -> Threshold:
    """The threshold with the rate of each mode, and of all together, over the judged inputs and over the draws."""
    table = resamples.table
    by_mode = [_rate(resamples, column) for column in acceptance.T]
    rate, bounds = by_mode[0] if len(by_mode) == 1 else _rate(resamples, acceptance.sum(axis=1))
    cost = sum(each * by_mode[place][0] for place, each in enumerate(modes.values()))
    alone = [] if resamples.resampled else [Reason.SINGLE_UNIT if len(table.unit_ids) == 1 else Reason.NO_DRAWS]
    return replace(
        start,
        rate=rate,
        rate_lo=known(bounds.low),
        rate_hi=known(bounds.high),
        rates=tuple(
            ModeRate(mode, share, known(of.low), known(of.high))
            for mode, (share, of) in zip(modes, by_mode, strict=True)
        ),
        target_spend=spend,
        spend=None if spend is None else cost,
        reason=joined([start.reason, *alone]),
    )


def _rate(resamples: Resamples, acceptance: Float[np.ndarray, "input"]) -> tuple[float, Interval]:
    """The share of the inputs that is accepted, and its interval over the draws that hold any input."""
    table, inputs = resamples.table, resamples.inputs
    accepted = resamples.counts @ np.bincount(table.unit, acceptance, minlength=len(table.unit_ids))
    shares = np.divide(accepted, inputs, out=np.full(len(inputs), np.nan), where=inputs > 0)
    drawn = shares[resamples.drawn]
    return float(shares[0]), resamples.draws.interval(drawn, ~np.isnan(drawn) & resamples.resampled)
