"""Scores and budgets -> the score from which on to escalate (per mode: a price), and the rate to expect of it.

A threshold is calibrated on units that are not judged where there are some, else on the judged ones, where its rate is
the target by construction. Its interval is a prediction interval: the rate on as many new units.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging import selections
from deepval.judging.budgets import Allowance
from deepval.judging.draws import Interval, predicted
from deepval.judging.kernel import at_least
from deepval.judging.policies import FrozenThreshold, slots_of
from deepval.judging.prices import Price
from deepval.judging.resamples import Allocator, Resamples, Resampling, held, order_of
from deepval.judging.sifting import SiftedScores
from deepval.judging.ties import TiedCut
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
    pairs = zip(scores, scores if calibration is None else calibration, strict=True)
    made = [_of_allocator(resamples, *pair, allowances, calibrated=calibration is not None) for pair in pairs]
    return tuple(_expected(resamples, [each[index] for index in range(len(allowances)) for each in made]))


class _Accepted(NamedTuple):
    """A threshold to be.

    Attributes:
        said: What it says before the draws are asked.
        by_mode: How many inputs of every unit it accepts in expectation, for each mode, and altogether if several.
        costs: What each mode costs.
        spend: What is wanted to be spent per input, None where nothing is counted.
    """

    said: dict[str, Any]
    by_mode: Sequence[Float[np.ndarray, "unit"]] = ()
    costs: Mapping[str, float] = {}
    spend: float | None = None


def _of_allocator(
    resamples: Resampling, own: Allocator, given: Allocator, allowances: Sequence[Allowance], *, calibrated: bool
) -> list[_Accepted]:
    """One allocator's under every budget."""
    start = {
        "allocator": own.name,
        "calibrated_on": "calibration" if calibrated else "judged",
        "calibration_inputs": len(given.values) if isinstance(given, Scores) else int(resamples.inputs[0]),
        "draws": len(resamples.draws),
    }
    starts = [start | allowed.key.fields for allowed in allowances]
    found: dict[int, _Accepted] = {}
    plain = []
    for index, (said, allowed) in enumerate(zip(starts, allowances, strict=True)):
        reason = _why_none(own, allowed)
        if reason is not None:
            found[index] = _Accepted(said | {"reason": reason.said()})
        elif isinstance(own, SiftedScores):
            found[index] = _sifted(said, resamples, own, allowed)
        elif allowed.each:
            found[index] = _paid(said | {"calibrated_on": "judged"}, held(resamples), own, allowed)
        elif own.modes and isinstance(given, Scores):
            found[index] = _priced(said, held(resamples), own, given.values, allowed)
        else:
            plain.append(index)
    if isinstance(own, Scores) and isinstance(given, Scores) and plain:
        shares = [allowances[index].share(allowances[index].cost_of(own.name)) for index in plain]
        frozen = FrozenThreshold.calibrate_each(given.values, shares, order_of(given))
        numbers = _numbers(held(resamples), own.values, [each.theta for each in frozen])
        for index, each, (above, equal) in zip(plain, frozen, numbers, strict=True):
            tied = int(np.count_nonzero(given.values == each.theta))
            accepted = above + each.tie_acceptance * equal
            found[index] = _frozen(starts[index], resamples, each, tied, accepted, allowed=allowances[index])
    return [found[index] for index in range(len(allowances))]


def _why_none(scores: Allocator, allowed: Allowance) -> Reason | None:
    """Why an allocator has no threshold under a budget; None where it has one."""
    if scores.name in allowed.unpriced:
        return allowed.unpriced[scores.name]
    cost = allowed.cost_of(scores.name)
    if scores.modes and allowed.accounting == "skipping":
        return Reason.NO_SKIPPING
    if scores.modes and allowed.each:
        return Reason.OWN_PRICES
    return None if allowed.feasible(cost) and allowed.share(cost) > 0 else Reason.NOTHING_LEFT


def _sifted(said: dict[str, Any], resamples: Resampling, own: SiftedScores, allowed: Allowance) -> _Accepted:
    """That of scores that are not in memory, calibrated on the judged inputs."""
    inputs, wanted = int(resamples.inputs[0]), allowed.share(allowed.cost_of(own.name))
    cut = own.values.cut(slots_of(wanted, inputs))
    above, tied = cut.above[0], cut.tied[0]
    frozen = FrozenThreshold.at(TiedCut(cut.score, int(above.sum()), int(tied.sum())), wanted * inputs)
    return _frozen(said, resamples, frozen, int(tied.sum()), above + frozen.tie_acceptance * tied, allowed=allowed)


def _frozen(
    said: dict[str, Any],
    resamples: Resampling,
    frozen: FrozenThreshold,
    tied: int,
    accepted: Float[np.ndarray, "unit"],
    *,
    allowed: Allowance,
) -> _Accepted:
    wanted = allowed.share(allowed.cost_of(said["allocator"]))
    cost = allowed.full - (allowed.cheap if allowed.accounting == "skipping" else 0.0)
    said = (
        said
        | _cut_at(frozen.theta)
        | {
            "tie_acceptance": frozen.tie_acceptance,
            "tied": tied,
            "target_rate": wanted,
        }
    )
    return _Accepted(said, [accepted], {resamples.modes[-1]: cost}, None if allowed.costs is None else wanted * cost)


def _cut_at(score: float) -> dict[str, Any]:
    """The threshold, or why there is none."""
    if math.isfinite(score):
        return {"threshold": score}
    return {"reason": Reason.INFINITE_CUT.said(cut="inf" if score > 0 else "-inf")}


def _numbers(
    resamples: Resamples, score: Float[np.ndarray, "input"], thetas: Sequence[float]
) -> Iterator[tuple[Float[np.ndarray, "unit"], Float[np.ndarray, "unit"]]]:
    """For each threshold, how many scores of every unit are above it, and equal to it."""
    over = np.nextafter(thetas, np.inf)
    edges = np.sort([*thetas, *over])[::-1]
    reached = at_least(score, edges, resamples.table.unit, units=len(resamples.unit_ids))
    upto, above = (reached[np.searchsorted(-edges, -np.array(each))] for each in (thetas, over))
    above[over == thetas] = 0.0  # nothing is above infinity
    return zip(above, upto - above, strict=True)


def _by_unit(resamples: Resamples, acceptance: Float[np.ndarray, "input"]) -> Float[np.ndarray, "unit"]:
    return np.bincount(resamples.table.unit, acceptance, minlength=len(resamples.unit_ids))


def _paid(said: dict[str, Any], resamples: Resamples, own: Scores, allowed: Allowance) -> _Accepted:
    """The cut at which the judged inputs, each at its own cost, spend what there is."""
    table, score = resamples.table, own.values
    share = selections.weights(table, own, allowed, allowed.cost_of(own.name))
    if not share.any():
        return _Accepted(said | {"reason": Reason.NOTHING_LEFT.said()})
    cut = float(score[share > 0].min())
    tied, prices = score == cut, allowed.prices(table)[:, -1]
    said = (
        said
        | _cut_at(cut)
        | {
            "tie_acceptance": float(share[tied][0]),
            "tied": int(np.count_nonzero(tied)),
            "calibration_inputs": len(score),
        }
    )
    spend = float(share @ prices) / len(score)
    return _Accepted(said, [_by_unit(resamples, share)], {table.modes[-1]: spend / float(share.mean())}, spend)


def _priced(
    said: dict[str, Any], resamples: Resamples, own: Scores, given: Float[np.ndarray, "held mode"], allowed: Allowance
) -> _Accepted:
    costs, convention, wanted = allowed.costs, allowed.convention, allowed.share(allowed.cost_of(own.name))
    each = {m: 1.0 if costs is None or convention is None else costs.of_mode(m, convention) for m in own.modes}
    spend = wanted * (1.0 if costs is None else allowed.full)
    price = Price.calibrate(given, list(each.values()), spend)
    least, most = price.bought(given)
    acceptance = price.expected(own.values)
    said = said | {
        "policy": "price",
        "price": price.price,
        "tie_acceptance": price.tie_acceptance,
        "tied": int(np.count_nonzero(least != most)),
        "target_rate": wanted if costs is None else None,
    }
    by_mode = [_by_unit(resamples, accepted) for accepted in (*acceptance.T, acceptance.sum(axis=1))]
    return _Accepted(said, by_mode, each, None if costs is None else spend)


def replayed(
    resamples: Resamples,
    threshold: Threshold,
    modes: Int[np.ndarray, "input"],
    costs: Mapping[str, float],
    **fields: Any,
) -> Threshold:
    """A threshold with the rates of a policy that gives every judged input its mode (0: cheap), and other fields."""
    number = len(resamples.modes) - 1
    by_mode = [_by_unit(resamples, (modes == mode).astype(float)) for mode in range(1, number + 1)]
    taken = zip(resamples.modes[1:], _rates(resamples, by_mode), strict=True)
    rates = tuple(ModeRate(mode, rate, known(of.low), known(of.high)) for mode, (rate, of) in taken)
    ((rate, bounds),) = _rates(resamples, [_by_unit(resamples, (modes > 0).astype(float))])
    spend = None if threshold.spend is None else sum(costs[each.mode] * each.rate for each in rates if each.rate)
    return replace(
        threshold,
        rate=rate,
        rate_lo=known(bounds.low),
        rate_hi=known(bounds.high),
        rates=tuple(each for each in rates if each.mode in {of.mode for of in threshold.rates}),
        spend=spend,
        **fields,
    )


def _expected(resamples: Resampling, made: Sequence[_Accepted]) -> Iterator[Threshold]:
    """The thresholds with the rate of each mode, and of all together, over the judged inputs and over the draws."""
    rates = iter(_rates(resamples, [accepted for each in made for accepted in each.by_mode]))
    alone = [] if resamples.resampled else [Reason.SINGLE_UNIT if len(resamples.unit_ids) == 1 else Reason.NO_DRAWS]
    for said, by_mode, costs, spend in made:
        if not by_mode:
            yield Threshold(**said)
            continue
        own = [next(rates) for _ in by_mode]
        (rate, bounds), of_modes = own[-1], list(zip(costs, own, strict=False))
        expected = {
            "rate": rate,
            "rate_lo": known(bounds.low),
            "rate_hi": known(bounds.high),
            "rates": tuple(ModeRate(mode, share, known(of.low), known(of.high)) for mode, (share, of) in of_modes),
            "target_spend": spend,
            "spend": None if spend is None else sum(costs[mode] * share for mode, (share, _) in of_modes),
            "reason": joined([said.get("reason"), *alone]),
        }
        yield Threshold(**said | expected)


def _rates(resamples: Resampling, accepted: Sequence[Float[np.ndarray, "unit"]]) -> Iterator[tuple[float, Interval]]:
    """The shares of the inputs that are accepted, each with its prediction interval, from draws that hold any input."""
    if not accepted:
        return iter(())
    inputs, taken = resamples.inputs, np.stack([resamples.counts @ each for each in accepted])
    shares = np.divide(taken, inputs, out=np.full(taken.shape, np.nan), where=inputs > 0)
    spread = resamples.draws.spreads(shares[:, resamples.drawn]) if resamples.resampled else np.full(len(taken), np.nan)
    units = int(np.count_nonzero(resamples.per_unit[:, 0]))
    rates = shares[:, 0].tolist()
    return zip(
        rates, [predicted(rate, own, units) for rate, own in zip(rates, spread.tolist(), strict=True)], strict=True
    )
