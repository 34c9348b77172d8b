"""A table, scores and budgets -> the score threshold for escalation, its expected rate,
and the policy to deploy.

Per-mode scores have a price instead. A threshold is calibrated on units that are not
judged, if there are some. Otherwise it is calibrated on the judged units, where its
rate equals the target by construction. Its interval is a prediction interval: the rate
on as many new units.

For a deployment every possible policy is replayed in time order on the calibration
units, as a router would run it. The losses of the calibration units choose among
policies and tune them. Losses of other units are not read, and no verdict is computed.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval import checks
from deepval.arrays import Float, InputFloats, InputInts, InputNumbers, ModeFloats
from deepval.errors import InputError, InputWarning
from deepval.files.canonical import sha256
from deepval.judging.allowances import Allowance, Budget, allowance_on, budget_list
from deepval.judging.bootstrap import Bootstrap, sums_by_unit
from deepval.judging.draws import make_draws
from deepval.judging.intervals import (
    LEVEL,
    ROUNDING,
    Interval,
    spreads,
    student_quantile,
)
from deepval.judging.kernel import at_least
from deepval.judging.policies import Ranking, purse_of_sample
from deepval.judging.priced_policies import (
    ConformalHarm,
    HarmCertificate,
    certificate,
    harm_shares,
    safe_threshold,
)
from deepval.judging.prices import Price
from deepval.judging.purses import shares
from deepval.judging.routing import Routing
from deepval.judging.sieve import SiftedScores
from deepval.judging.stream_rows import (
    BEYOND,
    PAPER,
    Trial,
    best_trial,
    rate_missed,
    setting_of,
    times,
    tune,
)
from deepval.judging.streaming import FrozenThreshold, StreamRule, slots_of
from deepval.judging.tie_expectations import SORT_UP_TO, TiedCut
from deepval.results import Estimate, ModeRate, Reason, Threshold, joined
from deepval.tables.scores import CALIBRATE, JUDGE, Missing, Scores, align, on_part
from deepval.tables.values import ValueTable, read_values


def thresholds(
    bootstrap: Bootstrap,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    *,
    calibration: tuple[ValueTable, Sequence[Scores]] | None = None,
) -> tuple[Threshold, ...]:
    """The threshold of every allocator under every budget, calibrated on the
    `calibration` inputs if there are some.
    """
    table = None if calibration is None else calibration[0]
    pairs = zip(scores, scores if calibration is None else calibration[1], strict=True)
    by_allocator = [
        _of_allocator(bootstrap, *pair, allowances, calibrated_on=table)
        for pair in pairs
    ]
    return _budget_by_budget(bootstrap, by_allocator, len(allowances))


def thresholds_on_disk(
    bootstrap: Bootstrap, rankings: Sequence[Ranking], allowances: Sequence[Allowance]
) -> tuple[Threshold, ...]:
    """The thresholds of scores that are not in memory, calibrated on the judged
    inputs.
    """
    by_allocator = []
    for ranking in rankings:
        items = []
        for allowance in allowances:
            fields = _start(ranking.name, allowance, bootstrap)
            reason = _why_none(ranking.name, allowance)
            if reason is not None:
                items.append(_Accepted(fields | {"reason": reason.text()}))
                continue
            items.append(_threshold_on_disk(fields, bootstrap, ranking, allowance))
        by_allocator.append(items)
    return _budget_by_budget(bootstrap, by_allocator, len(allowances))


def _start(name: str, allowance: Allowance, bootstrap: Bootstrap) -> dict[str, Any]:
    """The fields that every threshold on the judged inputs has."""
    return {
        "allocator": name,
        "calibrated_on": "judged",
        "calibration_inputs": int(bootstrap.inputs[0]),
        "draws": len(bootstrap.draws),
        **vars(allowance.key),
    }


def _budget_by_budget(
    bootstrap: Bootstrap, by_allocator: Sequence[Sequence["_Accepted"]], budgets: int
) -> tuple[Threshold, ...]:
    """The thresholds in the order of rows: all allocators under the first budget."""
    ordered = [items[index] for index in range(budgets) for items in by_allocator]
    return tuple(_with_rates(bootstrap, ordered))


class _Accepted(NamedTuple):
    """A threshold before its rates are computed.

    Attributes:
        fields: Fields of `Threshold` that do not depend on the draws.
        modes: The modes above cheap that inputs can get.
        by_mode: Expected number of accepted inputs of every unit, for each mode, and in
            total if there are several.
        target_spend: Target cost per input, None under a selection budget.
        spent: Expected cost of every unit, None under a selection budget.
    """

    fields: dict[str, Any]
    modes: Sequence[str] = ()
    by_mode: Sequence[Float[np.ndarray, "unit"]] = ()
    target_spend: float | None = None
    spent: Float[np.ndarray, "unit"] | None = None


def _of_allocator(
    bootstrap: Bootstrap,
    own: Scores,
    source: Scores,
    allowances: Sequence[Allowance],
    *,
    calibrated_on: ValueTable | None,
) -> list[_Accepted]:
    """The thresholds of one allocator under every budget."""
    accepted_at: dict[int, _Accepted] = {}
    starts = []
    plain = []
    for index, allowance in enumerate(allowances):
        fields = _start(own.name, allowance, bootstrap)
        fields["calibration_inputs"] = len(source.values)
        if calibrated_on is not None:
            fields["calibrated_on"] = "calibration"
        starts.append(fields)
        reason = _why_none(own.name, allowance)
        if reason is not None:
            accepted_at[index] = _Accepted(fields | {"reason": reason.text()})
        elif own.modes:
            table = bootstrap.table if calibrated_on is None else calibrated_on
            calibration = (table, source.values)
            accepted_at[index] = _price(fields, bootstrap, own, calibration, allowance)
        elif allowance.per_input:
            fields["calibrated_on"] = "judged"
            accepted_at[index] = _threshold_of_purse(fields, bootstrap, own, allowance)
        else:
            plain.append(index)
    # All budgets of a ranking at once, because one pass over the scores serves them.
    frozen = _frozen_thresholds(
        [starts[index] for index in plain],
        bootstrap,
        own,
        source,
        [allowances[index] for index in plain],
    )
    accepted_at |= zip(plain, frozen, strict=True)
    return [accepted_at[index] for index in range(len(allowances))]


def _frozen_thresholds(
    starts: Sequence[dict[str, Any]],
    bootstrap: Bootstrap,
    own: Scores,
    source: Scores,
    allowances: Sequence[Allowance],
) -> Iterator[_Accepted]:
    """The thresholds of one score per input under budgets that leave a rate."""
    if not allowances:
        return
    rates = [allowed.share(allowed.cost_of(own.name)) for allowed in allowances]
    order = source.order if len(source.values) <= SORT_UP_TO else None
    frozen = FrozenThreshold.calibrate_each(source.values, rates, order)
    thetas = [threshold.theta for threshold in frozen]
    numbers = _numbers(bootstrap, own.values, thetas)
    for fields, allowance, threshold, (above, equal) in zip(
        starts, allowances, frozen, numbers, strict=True
    ):
        yield _frozen_threshold(
            fields,
            bootstrap,
            threshold,
            int(np.count_nonzero(source.values == threshold.theta)),
            above + threshold.tie_acceptance * equal,
            allowed=allowance,
        )


def _why_none(name: str, allowed: Allowance) -> Reason | None:
    """Why an allocator has no threshold under a budget; None where it has one."""
    if name in allowed.unpriced:
        return allowed.unpriced[name]
    cost = allowed.cost_of(name)
    if allowed.feasible(cost) and allowed.share(cost) > 0:
        return None
    return Reason.NOTHING_LEFT


def _threshold_on_disk(
    fields: dict[str, Any], bootstrap: Bootstrap, own: Ranking, allowed: Allowance
) -> _Accepted:
    """The threshold of scores that are not in memory."""
    assert isinstance(own.highest, SiftedScores)
    inputs = int(bootstrap.inputs[0])
    rate = allowed.share(allowed.cost_of(own.name))
    cut = own.highest.values.cut(slots_of(rate, inputs))
    above = cut.above[0]
    tied = cut.tied[0]
    at = TiedCut(cut.score, int(above.sum()), int(tied.sum()))
    frozen = FrozenThreshold.at(at, rate * inputs)
    accepted = above + frozen.tie_acceptance * tied
    return _frozen_threshold(
        fields, bootstrap, frozen, at.tied, accepted, allowed=allowed
    )


def _frozen_threshold(
    fields: dict[str, Any],
    bootstrap: Bootstrap,
    frozen: FrozenThreshold,
    tied: int,
    accepted: Float[np.ndarray, "unit"],
    *,
    allowed: Allowance,
) -> _Accepted:
    rate = allowed.share(allowed.cost_of(fields["allocator"]))
    cost = allowed.full - (allowed.cheap if allowed.accounting == "skipping" else 0.0)
    fields = (
        fields
        | _cut_at(frozen.theta)
        | {
            "tie_acceptance": frozen.tie_acceptance,
            "tied": tied,
            "target_rate": rate,
        }
    )
    spend, spent = (
        (None, None) if allowed.costs is None else (rate * cost, cost * accepted)
    )
    return _Accepted(fields, bootstrap.modes[-1:], [accepted], spend, spent)


def _cut_at(score: float) -> dict[str, Any]:
    """The threshold, or the reason why there is none."""
    if math.isfinite(score):
        return {"threshold": score}
    return {"reason": Reason.INFINITE_CUT.text(cut="inf" if score > 0 else "-inf")}


def _numbers(
    bootstrap: Bootstrap, score: InputFloats, thetas: Sequence[float]
) -> Iterator[tuple[Float[np.ndarray, "unit"], Float[np.ndarray, "unit"]]]:
    """For each threshold, the number of scores of every unit above it and equal to
    it.
    """
    # "Above theta" is "at least the next float", so one pass over descending edges
    # counts both.
    over = np.nextafter(thetas, np.inf)
    edges = np.sort([*thetas, *over])[::-1]
    reached = at_least(
        score, edges, bootstrap.table.unit, units=len(bootstrap.unit_ids)
    )
    upto, above = (
        reached[np.searchsorted(-edges, -np.array(cut))] for cut in (thetas, over)
    )
    above[over == thetas] = 0.0  # nothing is above infinity
    return zip(above, upto - above, strict=True)


def _threshold_of_purse(
    fields: dict[str, Any], bootstrap: Bootstrap, own: Scores, allowed: Allowance
) -> _Accepted:
    """The cut at which the judged inputs, each at its own cost, spend the whole
    budget.
    """
    table, score = bootstrap.table, own.values
    share = _chances_of_purse(table, own, allowed)
    if not share.any():
        return _Accepted(fields | {"reason": Reason.NOTHING_LEFT.text()})
    cut = float(score[share > 0].min())
    tied, prices = score == cut, allowed.prices(table)[:, -1]
    fields = (
        fields
        | _cut_at(cut)
        | {
            "tie_acceptance": float(share[tied][0]),
            "tied": int(np.count_nonzero(tied)),
            "calibration_inputs": len(score),
        }
    )
    spend = float(share @ prices) / len(score)
    return _Accepted(
        fields,
        table.modes[-1:],
        [sums_by_unit(bootstrap.table, share)],
        spend,
        sums_by_unit(bootstrap.table, share * prices),
    )


def _chances_of_purse(
    table: ValueTable, scores: Scores, allowed: Allowance
) -> InputFloats:
    """The probability that each input is escalated where each has its own price."""
    price = allowed.prices(table)[:, -1]
    purse = purse_of_sample(table, allowed, allowed.cost_of(scores.name))
    return shares(scores.values, price, purse)


def _price(
    fields: dict[str, Any],
    bootstrap: Bootstrap,
    own: Scores,
    calibration: tuple[ValueTable, Float[np.ndarray, "calibration mode"]],
    allowed: Allowance,
) -> _Accepted:
    (table, scores), rate = calibration, allowed.share(allowed.cost_of(own.name))
    price = calibrated_price(table, scores, allowed, allowed.cost_of(own.name))
    costs = allowed.prices_on(bootstrap.table)[:, 1:]
    bought = price.bought(scores, allowed.prices_on(table)[:, 1:])
    acceptance = price.expected(own.values, costs)
    fields = fields | {
        "policy": "price",
        "price": price.price,
        "tie_acceptance": price.tie_acceptance,
        "tied": int(np.count_nonzero(bought.least != bought.most)),
        "target_rate": rate if allowed.costs is None else None,
    }
    by_mode = [
        sums_by_unit(bootstrap.table, accepted)
        for accepted in (*acceptance.T, acceptance.sum(axis=1))
    ]
    if allowed.costs is None:
        return _Accepted(fields, own.modes, by_mode)
    spend = allowed.budget.alpha * allowed.on(table).full - allowed.cost_of(own.name)
    return _Accepted(
        fields,
        own.modes,
        by_mode,
        spend,
        sums_by_unit(bootstrap.table, (acceptance * costs).sum(axis=1)),
    )


def calibrated_price(
    table: ValueTable, scores: ModeFloats, allowed: Allowance, cost: float
) -> Price:
    """The price at which inputs spend what an allocator of this cost leaves of the
    budget.
    """
    costs, full = (
        allowed.prices_on(table)[:, 1:],
        allowed.on(table).full,
    )
    spend = allowed.budget.alpha * full - cost
    if allowed.costs is None:
        spend = allowed.share(cost)
    price = Price.calibrate(
        scores, costs if allowed.per_input else costs[0].tolist(), spend
    )
    return replace(
        price, skipping=allowed.per_input and allowed.accounting == "skipping"
    )


def with_replay(
    bootstrap: Bootstrap,
    threshold: Threshold,
    modes: InputInts,
    costs: Float[np.ndarray, "input above"],
    **fields: Any,
) -> Threshold:
    """The threshold with the rates of a policy that chose `modes` for the judged inputs
    (0: cheap) and other fields.

    `costs` are those of the modes above cheap on every judged input.
    """
    number = len(bootstrap.modes) - 1
    by_mode = [
        sums_by_unit(bootstrap.table, (modes == mode).astype(float))
        for mode in range(1, number + 1)
    ]
    taken = zip(bootstrap.modes[1:], _rates(bootstrap, by_mode), strict=True)
    rates = tuple(ModeRate(mode, rate) for mode, rate in taken)
    (rate,) = _rates(
        bootstrap, [sums_by_unit(bootstrap.table, (modes > 0).astype(float))]
    )
    paid = np.hstack([np.zeros((len(modes), 1)), costs])[np.arange(len(modes)), modes]
    spend = None if threshold.spend is None else float(paid.mean())
    return replace(
        threshold,
        rate=rate,
        rates=tuple(
            mode_rate
            for mode_rate in rates
            if mode_rate.mode in {of.mode for of in threshold.rates}
        ),
        spend=spend,
        **fields,
    )


def _with_rates(
    bootstrap: Bootstrap, accepted: Sequence[_Accepted]
) -> Iterator[Threshold]:
    """The thresholds with the rate of each mode and the total rate, over the judged
    inputs and over the draws.
    """
    rates = iter(
        _rates(bootstrap, [numbers for item in accepted for numbers in item.by_mode])
    )
    alone = (
        []
        if bootstrap.has_intervals
        else [Reason.SINGLE_UNIT if len(bootstrap.unit_ids) == 1 else Reason.NO_DRAWS]
    )
    for fields, modes, by_mode, target_spend, spent in accepted:
        if not by_mode:
            yield Threshold(**fields)
            continue
        own = [next(rates) for _ in by_mode]
        expected = {
            "rate": own[-1],
            "rates": tuple(
                ModeRate(mode, rate) for mode, rate in zip(modes, own, strict=False)
            ),
            "target_spend": target_spend,
            "spend": None
            if spent is None
            else float(spent.sum() / bootstrap.inputs[0]),
            "reason": joined([fields.get("reason"), *alone]),
        }
        yield Threshold(**fields | expected)


def _rates(
    bootstrap: Bootstrap, accepted: Sequence[Float[np.ndarray, "unit"]]
) -> list[Estimate]:
    """The shares of accepted inputs, each with its prediction interval, from the draws
    that contain any input.
    """
    if not accepted:
        return []
    taken = np.stack([bootstrap.counts @ by_unit for by_unit in accepted])
    undefined = np.full(taken.shape, np.nan)
    inputs = bootstrap.inputs
    rates = np.divide(taken, inputs, out=undefined, where=inputs > 0)
    spread = np.full(len(taken), np.nan)
    if bootstrap.has_intervals:
        spread = spreads(rates[:, bootstrap.drawn], bootstrap.draws)
    units = int(np.count_nonzero(bootstrap.by_unit.inputs))
    estimates = []
    for rate, own in zip(rates[:, 0].tolist(), spread.tolist(), strict=True):
        bounds = prediction_interval(rate, own, units)
        if bounds is None:
            estimates.append(Estimate(rate))
        else:
            estimates.append(Estimate(rate, bounds.low, bounds.high))
    return estimates


def prediction_interval(rate: float, spread: float, units: int) -> Interval | None:
    """The 95 % prediction interval of a rate on as many new units as it was calibrated
    or counted on.

    The rates of the old and the new units have the same variance, so their difference
    has twice the variance of one: rate +- Student's t with units - 1 degrees of freedom
    x spread over draws x sqrt(2 units / (units - 1)), on the scale of the rate and on
    that of its logit; each bound is the wider one, within 0 and 1.
    """
    if math.isnan(spread) or units < 2:
        return None
    if not spread > ROUNDING:
        return Interval(rate, rate)  # all units have the same rate
    t = student_quantile((1 - LEVEL) / 2, units - 1)
    half = t * spread * math.sqrt(2 * units / (units - 1))
    variance = rate * (1 - rate)
    # A rate that differs between units lies strictly between 0 and 1.
    if not variance > 0:
        return Interval(max(0.0, rate - half), min(1.0, rate + half))
    odds = rate / (1 - rate)
    factor = math.exp(min(half / variance, 700.0))  # bounded against overflow
    low = odds / factor / (1 + odds / factor)
    high = 1 - 1 / (1 + odds * factor)
    return Interval(max(0.0, min(rate - half, low)), min(1.0, max(rate + half, high)))


BEST = "best"
"""Stands for the policy that replays best."""
BOUND = 0.1
"""Largest harm of a unit that a certificate counts, as a share of its all-cheap loss,
where none is named.
"""
NEAR = 0.02
"""A policy whose replayed rate is further than this from the target is chosen only if
all policies' rates are.
"""


class PolicyReplay(NamedTuple):
    """A policy on the calibration units: its tuned parameter, the share that it
    escalates and its gain.
    """

    policy: str
    parameter: float | None
    rate: float
    gain: float


class Deployment(NamedTuple):
    """An allocator's threshold, the routing that applies it input by input, all
    replayed policies, its certificate.
    """

    threshold: Threshold
    routing: Routing
    replays: tuple[PolicyReplay, ...]
    certificate: HarmCertificate | None = None


def deployment(
    table: Any,
    scores: Any,
    budget: Budget | float = 0.2,
    *,
    calibration: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    policy: str = BEST,
    reset: bool = True,
    harm_at_most: float | None = None,
    bound: float = BOUND,
    missing: Missing = "error",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
) -> Deployment:
    """The threshold of an allocator under a budget and the routing by a policy over it.

    Args:
        table: The inputs: a `ValueTable`, or anything `read_values` reads.
        scores: The allocator's scores, an array in the table's order or columns `input`
            and `score`.
        budget: What may be escalated, or spent: a share of the inputs, `Selection`,
            `Latency`, `Energy` or `Money`.
        calibration: Units that set the threshold; None for all units.
        units: Units for which to expect a rate; None for the calibration units.
        policy: Name of a streaming policy, or "best". "best" is the policy with the
            largest gain on the calibration units among those whose rate there is within
            2 points of the target; if there is none, the policy with the nearest rate.
        reset: Whether units are streams of their own.
        harm_at_most: If set, the router runs a threshold, the budget's or a higher one,
            at which the expected harm of a new unit is at most this share of its
            all-cheap loss; see docs/guarantees.md.
        bound: Harm of a unit beyond this share of its loss is not counted.
        missing: Whether an input without a score is an error or ranked last.
        draws: Number of draws of units for the interval of the rate.
        seed: Their seed.
    """
    table = table if isinstance(table, ValueTable) else read_values(table)
    scores, (budget,) = (
        align(table, getattr(scores, "name", None) or "scores", scores),
        budget_list(budget),
    )
    calibration_table = table if calibration is None else table.restrict(calibration)
    apart = units is not None and set(units) != set(calibration_table.unit_ids)
    judged = table.restrict(units) if apart else calibration_table
    calibration_scores = on_part(
        calibration_table, scores, table, missing, role=CALIBRATE
    )
    own = (
        on_part(judged, scores, table, missing, role=JUDGE)
        if apart
        else calibration_scores
    )
    allowed = allowance_on(budget, calibration_table)
    drawn = make_draws(len(judged.unit_ids), draws, seed)
    bootstrap = Bootstrap.of(judged, drawn, leave_out=False)
    calibrated_on = (calibration_table, [calibration_scores]) if apart else None
    (cut,) = thresholds(bootstrap, [own], [allowed], calibration=calibrated_on)
    if cut.rate is None:
        raise InputError(
            f"{scores.name} has no threshold under {allowed.key.label}: {cut.reason}."
        )
    target = allowed.share(allowed.cost_of(scores.name))
    about: dict[str, Any] = {
        "allocator": scores.name,
        "budget": allowed.key.label,
        # Digests, because units may be names of customers.
        "calibration_units": [
            sha256(str(unit).encode())[:16] for unit in calibration_table.unit_ids
        ],
        "scores": calibration_scores.digest,
    }
    case = (policy, calibration_scores, calibration_table, allowed)
    policies = (
        _policies(*case, reset=reset)
        if harm_at_most is None
        else _certified(*case, harm_at_most, bound)
    )
    routings = [
        Routing.calibrate(
            calibration_scores.values,
            target,
            policy=item,
            modes=table.modes,
            reset=reset,
            about=about | {"rate": None},
        )
        for item in policies
    ]
    costs = [allowed.prices_on(part)[:, 1:] for part in (calibration_table, judged)]
    replays = [
        _replay(routing, calibration_scores.values, calibration_table, costs[0])
        for routing in routings
    ]
    at = best_trial(
        [Trial(n, item.rate, item.gain) for n, item in enumerate(replays)], target, NEAR
    )
    at = at if harm_at_most is None else 0
    routing, replay = routings[at], replays[at]
    rate_decides = (
        not isinstance(routing.policy, Price | ConformalHarm) and not allowed.per_input
    )
    if rate_decides and rate_missed(replay.rate, target, NEAR):
        _note_rate(scores.name, replay, target, alone=len(replays) == 1)
    threshold = with_replay(
        bootstrap,
        cut,
        routing.replay(
            own.values,
            judged.unit,
            _order(judged),
            costs[1] if allowed.per_input else None,
        ),
        costs[1],
        policy=replay.policy,
        parameter=replay.parameter,
        calibration_rate=replay.rate,
        gain=replay.gain,
    )
    certified = None
    if isinstance(routing.policy, ConformalHarm):
        tied = int(np.count_nonzero(calibration_scores.values == routing.policy.theta))
        ties = {"tie_acceptance": routing.policy.tie_acceptance, "tied": tied}
        threshold = replace(
            threshold, **{"threshold": None} | _cut_at(routing.policy.theta) | ties
        )
    if harm_at_most is not None:
        row = (
            calibration_scores.values,
            calibration_table.unit,
            _order(calibration_table),
        )
        taken = [of.replay(*row) > 0 for of in routings]
        certified = certificate(
            *row[:2],
            calibration_table.losses,
            taken=taken,
            at_most=harm_at_most,
            bound=bound,
        )
        about["certificate"] = certified._asdict()
    facts = {
        name: threshold[name]
        for name in ("rate", "rate_lo", "rate_hi", "calibration_rate", "gain")
    }
    facts |= {"target_rate": threshold.target_rate, "rate_units": len(judged.unit_ids)}
    about |= facts | {"replays": [item._asdict() for item in replays]}
    return Deployment(
        threshold,
        replace(routing, about={**routing.about, **about}),
        tuple(replays),
        certified,
    )


def _certified(
    name: str,
    scores: Scores,
    table: ValueTable,
    allowed: Allowance,
    at_most: float,
    bound: float,
) -> list[str | StreamRule | Price]:
    """The certified threshold, and the plain one of the budget."""
    if not 0 < checks.number(at_most, "harm_at_most") < checks.number(bound, "bound"):
        raise InputError(
            "The harm allowed (--harm-at-most) must be above 0 and below the bound "
            f"(--bound); found {at_most:g} and {bound:g}: lower the one or raise the "
            "other (1 % is 0.01 in Python)."
        )
    if table.estimated is not None:
        raise InputError(
            f"{scores.name}: harm is certified on measured losses "
            "only; here some are estimated."
        )
    if name.replace("-", " ") not in (BEST, BEYOND[-1]) or scores.modes:
        what = (
            f"{scores.name} has a score per mode"
            if scores.modes
            else f"found policy {name!r}: leave it out"
        )
        raise InputError(
            "Harm is certified for one score per input and a "
            f"threshold that never moves; {what}."
        )
    (plain,) = _policies(PAPER[0], scores, table, allowed, reset=True)
    if not isinstance(plain, FrozenThreshold):
        plain = FrozenThreshold.calibrate(
            scores.values, allowed.share(allowed.cost_of(scores.name))
        )
    share = harm_shares(
        table.decision_values, table.unit, table.losses[:, 0], bound=bound
    )
    safe = safe_threshold(scores.values, table.unit, share, target=at_most, bound=bound)
    return [ConformalHarm.over(plain, safe), plain]


def _policies(
    name: str, scores: Scores, table: ValueTable, allowed: Allowance, *, reset: bool
) -> list[str | StreamRule | Price]:
    """The policies to replay: the one of this name, or all that can run; policies with
    a parameter are tuned.
    """
    plain, cost = name.replace("-", " "), allowed.cost_of(scores.name)
    if (
        scores.modes
        and allowed.costs is not None
        and plain in (BEST, "price", "frozen threshold", "causal cap")
    ):
        return [calibrated_price(table, scores.values, allowed, cost)]
    if allowed.per_input and plain in (BEST, "frozen threshold"):
        # other policies keep a rate of inputs, not a spend
        share = _chances_of_purse(table, scores, allowed)
        cut = float(scores.values[share > 0].min())
        return [FrozenThreshold(cut, float(share[scores.values == cut][0]))]
    if allowed.costs is not None and (scores.modes or allowed.per_input):
        raise InputError(
            "Only a price or a frozen threshold can keep a spend; found policy "
            f"{name!r}: leave it out."
        )
    if plain == BEST and table.order is None:
        plain = "frozen threshold"  # the only policy that needs no time order
    rate = allowed.share(cost)
    if plain != BEST:
        return [_tune(plain, scores, table, rate, reset=reset)]
    names = PAPER[:2] if scores.modes else PAPER
    return [_tune(candidate, scores, table, rate, reset=reset) for candidate in names]


def _tune(
    name: str, scores: Scores, table: ValueTable, rate: float, *, reset: bool
) -> str | StreamRule:
    """The policy by name or, if losses calibrate or tune it, on the calibration
    units.
    """
    if name in (PAPER[0], PAPER[1]) or name not in (*PAPER, *BEYOND):
        if name == PAPER[1]:
            times(table)  # its rate depends on the order in time
        return name
    if scores.modes:
        raise InputError(
            f"A {name} is tuned for one score "
            f"per input, and {scores.name}: {Reason.NO_RANKING.text()}."
        )
    unit = table.unit if reset else np.zeros(len(table), dtype=np.int64)
    return tune(
        name,
        scores.values,
        unit,
        order=times(table),
        value=table.decision_values,
        alpha=rate,
    )


def _replay(
    routing: Routing,
    scores: Float[np.ndarray, "input *mode"],
    table: ValueTable,
    costs: Float[np.ndarray, "input above"],
) -> PolicyReplay:
    modes = routing.replay(scores, table.unit, _order(table), costs)
    gain = math.fsum(table.mode_values[np.arange(len(modes)), modes])
    parameter = (
        None if isinstance(routing.policy, Price) else setting_of(routing.policy)
    )
    return PolicyReplay(
        routing.policy_name, parameter, int(np.count_nonzero(modes)) / len(modes), gain
    )


def _order(table: ValueTable) -> InputNumbers:
    """Arrival order of the inputs; the table's order if it has no times (the rate of a
    threshold ignores order).
    """
    return np.arange(len(table)) if table.order is None else table.order


def _note_rate(name: str, replay: PolicyReplay, target: float, *, alone: bool) -> None:
    which = (
        f"under {replay.policy} it"
        if alone
        else f"no policy comes within 2 points; the nearest, {replay.policy},"
    )
    note = (
        f"{name}: {target:.1%} of the calibration inputs should "
        f"be escalated; {which} escalates {replay.rate:.1%}."
    )
    warnings.warn(InputWarning(note), stacklevel=3)
