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
from deepval.judging.policies import FrozenThreshold, slots_of
from deepval.judging.prices import Price
from deepval.judging.resamples import Allocator, Resamples, Resampling, held
from deepval.judging.sifting import SiftedScores, Sifting
from deepval.results import ModeRate, Reason, Threshold, joined, known
from deepval.tables.scores import Scores


def thresholds(
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    *,
    calibration: Sequence[Scores] | None = None,
) -> tuple[Threshold, ...]:
    """The threshold of every allocator under every budget; of scores of calibration units where there are some."""
    found = []
    for allowed in allowances:
        for own, given in zip(scores, scores if calibration is None else calibration, strict=True):
            start = Threshold(
                own.name,
                **allowed.key.fields,
                calibrated_on="judged" if calibration is None else "calibration",
                calibration_inputs=len(given.values) if isinstance(given, Scores) else int(resamples.inputs[0]),
                draws=len(resamples.draws),
            )
            cost = allowed.cost_of(own.name)
            reason = _why_none(own, allowed, cost)
            if reason is not None:
                found.append(replace(start, reason=reason.said()))
            elif isinstance(own, Scores) and isinstance(given, Scores):
                found.append(_in_memory(start, held(resamples), own, given.values, allowed=allowed))
            elif isinstance(own, SiftedScores):
                found.append(_sifted(start, resamples, own.values, allowed))
    return tuple(found)


def _in_memory(
    start: Threshold,
    resamples: Resamples,
    own: Scores,
    given: Float[np.ndarray, "held *mode"],
    *,
    allowed: Allowance,
) -> Threshold:
    if allowed.each:
        return _paid(replace(start, calibrated_on="judged"), resamples, own.values, allowed)
    if own.modes:
        return _priced(start, resamples, own, given, allowed)
    return _plain(start, resamples, own.values, given, allowed)


def _why_none(scores: Allocator, allowed: Allowance, cost: float) -> Reason | None:
    if scores.modes and allowed.accounting == "skipping":
        return Reason.NO_SKIPPING
    if scores.modes and allowed.each:
        return Reason.OWN_PRICES
    return None if allowed.feasible(cost) and allowed.share(cost) > 0 else Reason.NOTHING_LEFT


def _plain(
    start: Threshold,
    resamples: Resamples,
    own: Float[np.ndarray, "input"],
    given: Float[np.ndarray, "held"],
    allowed: Allowance,
) -> Threshold:
    frozen = FrozenThreshold.calibrate(given, allowed.share(allowed.cost_of(start.allocator)))
    tied = int(np.count_nonzero(given == frozen.theta))
    return _frozen(start, resamples, frozen, tied, _by_unit(resamples, frozen.expected(own)), allowed=allowed)


def _sifted(start: Threshold, resamples: Resampling, own: Sifting, allowed: Allowance) -> Threshold:
    """The same of scores that are not in memory, calibrated on the judged inputs."""
    inputs, wanted = int(resamples.inputs[0]), allowed.share(allowed.cost_of(start.allocator))
    cut = own.cut(slots_of(wanted, inputs))
    above, tied = cut.above[0], cut.tied[0]
    accepted = min(1.0, (wanted * inputs - float(above.sum())) / float(tied.sum()))
    frozen = FrozenThreshold(cut.score + 0.0, accepted)
    return _frozen(start, resamples, frozen, int(tied.sum()), above + accepted * tied, allowed=allowed)


def _frozen(
    start: Threshold,
    resamples: Resampling,
    frozen: FrozenThreshold,
    tied: int,
    accepted: Float[np.ndarray, "unit"],
    *,
    allowed: Allowance,
) -> Threshold:
    wanted = allowed.share(allowed.cost_of(start.allocator))
    cost = allowed.full - (allowed.cheap if allowed.accounting == "skipping" else 0.0)
    finite = bool(np.isfinite(frozen.theta))
    return _expected(
        replace(
            start,
            threshold=frozen.theta if finite else None,
            tie_acceptance=frozen.tie_acceptance,
            tied=tied,
            target_rate=wanted,
            reason=None if finite else Reason.INFINITE_CUT.said(cut="inf" if frozen.theta > 0 else "-inf"),
        ),
        resamples,
        [accepted],
        accepted,
        modes={resamples.modes[-1]: cost},
        spend=None if allowed.costs is None else wanted * cost,
    )


def _by_unit(resamples: Resamples, acceptance: Float[np.ndarray, "input"]) -> Float[np.ndarray, "unit"]:
    return np.bincount(resamples.table.unit, acceptance, minlength=len(resamples.unit_ids))


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
    accepted = _by_unit(resamples, share)
    return _expected(start, resamples, [accepted], accepted, modes={table.modes[-1]: mean}, spend=spend)


def _priced(
    start: Threshold,
    resamples: Resamples,
    own: Scores,
    given: Float[np.ndarray, "held mode"],
    allowed: Allowance,
) -> Threshold:
    costs, convention, wanted = allowed.costs, allowed.convention, allowed.share(allowed.cost_of(own.name))
    each = {m: 1.0 if costs is None or convention is None else costs.of_mode(m, convention) for m in own.modes}
    spend = wanted * (1.0 if costs is None else allowed.full)
    price = Price.calibrate(given, list(each.values()), spend)
    least, most = price.bought(given)
    acceptance = price.expected(own.values)
    return _expected(
        replace(
            start,
            price=price.price,
            tie_acceptance=price.tie_acceptance,
            tied=int(np.count_nonzero(least != most)),
            target_rate=wanted if costs is None else None,
        ),
        resamples,
        [_by_unit(resamples, column) for column in acceptance.T],
        _by_unit(resamples, acceptance.sum(axis=1)),
        modes=each,
        spend=None if costs is None else spend,
    )


def _expected(
    start: Threshold,
    resamples: Resampling,
    accepted: Sequence[Float[np.ndarray, "unit"]],
    altogether: Float[np.ndarray, "unit"],
    *,
    modes: dict[str, float],
    spend: float | None,
) -> Threshold:
    """The threshold with the rate of each mode, and of all together, over the judged inputs and over the draws."""
    by_mode = [_rate(resamples, of_mode) for of_mode in accepted]
    rate, bounds = _rate(resamples, altogether)
    cost = sum(each * by_mode[place][0] for place, each in enumerate(modes.values()))
    alone = [] if resamples.resampled else [Reason.SINGLE_UNIT if len(resamples.unit_ids) == 1 else Reason.NO_DRAWS]
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


def _rate(resamples: Resampling, accepted: Float[np.ndarray, "unit"]) -> tuple[float, Interval]:
    """The share of the inputs that is accepted, and its interval over the draws that hold any input."""
    inputs = resamples.inputs
    shares = np.divide(resamples.counts @ accepted, inputs, out=np.full(len(inputs), np.nan), where=inputs > 0)
    drawn = shares[resamples.drawn]
    return float(shares[0]), resamples.draws.interval(drawn, ~np.isnan(drawn) & resamples.resampled)
