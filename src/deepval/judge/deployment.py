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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import (
    InputFloats,
    InputInts,
    InputNumbers,
    ModeFloats,
    PerUnit,
)
from deepval.basics.errors import InputError, InputWarning, argument
from deepval.basics.files.canonical import sha256
from deepval.judge.allowances import (
    Allowance,
    Budget,
    allowance_on,
    budget_list,
    free_of_charge,
)
from deepval.judge.bootstrap import Bootstrap, sums_by_unit
from deepval.judge.draws import make_draws
from deepval.judge.policies import Ranking, purse_of_sample
from deepval.judge.priced_policies import (
    ConformalHarm,
    HarmCertificate,
    certificate,
    harm_shares,
    safe_threshold,
)
from deepval.judge.prices import Price
from deepval.judge.purses import shares
from deepval.judge.rate_predictions import (
    RatePrediction,
    cuts_without,
    left_out_residuals,
    prediction,
    slots_without,
)
from deepval.judge.results import (
    Estimate,
    ModeRate,
    Reason,
    Threshold,
    joined,
    known,
)
from deepval.judge.routing import Routing
from deepval.judge.sieve import SiftedScores
from deepval.judge.stream_rows import (
    BEYOND,
    PAPER,
    Trial,
    best_trial,
    rate_missed,
    setting_of,
    times,
    tune,
)
from deepval.judge.streaming import FrozenThreshold, StreamRule, slots_of
from deepval.judge.tables.scores import (
    CALIBRATE,
    JUDGE,
    Missing,
    Scores,
    align,
    on_part,
)
from deepval.judge.tables.values import ValueTable, read_values
from deepval.judge.tie_expectations import SORT_UP_TO, TiedCut

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


@dataclass(frozen=True, eq=False)
class Calibration:
    """An allocator on the inputs that set its threshold.

    Attributes:
        table: These inputs.
        scores: The scores of the allocator.
        allowance: The budget.
        where: Whether the inputs are judged too.
    """

    table: ValueTable
    scores: Scores
    allowance: Allowance
    where: Literal["judged", "calibration"] = "judged"

    @property
    def own_cost(self) -> float:
        """What the allocator costs per input."""
        return self.allowance.cost_of(self.scores.name)

    @property
    def rate(self) -> float:
        """The share of the inputs that the budget leaves to escalate."""
        return self.allowance.share(self.own_cost)

    @property
    def spend(self) -> float:
        """What the budget leaves per input for escalations."""
        full = self.allowance.on(self.table).full
        return self.allowance.budget.alpha * full - self.own_cost

    def frozen(self) -> FrozenThreshold:
        """The threshold that keeps the rate."""
        values = self.scores.values
        order = None
        if len(values) <= SORT_UP_TO:
            order = self.scores.order
        return FrozenThreshold.calibrate_each(values, [self.rate], order)[0]

    def residuals(self) -> PerUnit | None:
        """What each unit says about the rate at the threshold of the others; None where
        the threshold is from other units, or is no rate of one score per input.
        """
        by_score = not (self.scores.modes or self.allowance.per_input)
        inputs = sums_by_unit(self.table, np.ones(len(self.table)))
        if self.where == "calibration" or not by_score:
            return None
        if np.count_nonzero(inputs) < 2:
            return None  # without the only unit, there is no threshold
        cuts = cuts_without(
            self.scores.values,
            self.table.unit,
            above=np.zeros(len(inputs)),
            slots=slots_without(inputs, self.rate),
            left_out=np.arange(len(inputs)),
        )
        return left_out_residuals(inputs, cuts, self.rate)

    def price(self) -> Price:
        """The price at which inputs spend what the budget leaves."""
        allowance = self.allowance
        costs = costs_above_cheap(allowance, self.table)
        return Price.calibrate(
            self.scores.values,
            costs if allowance.per_input else costs[0].tolist(),
            self.rate if allowance.costs is None else self.spend,
            skipping=allowance.per_input and allowance.is_skipping,
        )


def costs_above_cheap(allowance: Allowance, table: ValueTable) -> ModeFloats:
    """Cost of each mode above cheap on every input, on top of the cheap one."""
    return allowance.prices_on(table)[:, 1:]


def chances_of_purse(
    table: ValueTable, scores: Scores, allowance: Allowance
) -> InputFloats:
    """The probability that each input is escalated where each has its own price."""
    price = allowance.prices(table)[:, -1]
    purse = purse_of_sample(table, allowance, allowance.cost_of(scores.name))
    return shares(scores.values, price, purse)


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
    table = bootstrap.table
    sources = scores
    where = "judged"
    if calibration is not None:
        table, sources = calibration
        where = "calibration"
    all_thresholds = []
    for allowance in allowances:
        for own, source in zip(scores, sources, strict=True):
            calibrated = Calibration(table, source, allowance, where)
            all_thresholds.append(_threshold(bootstrap, own, calibrated))
    return tuple(all_thresholds)


def thresholds_on_disk(
    bootstrap: Bootstrap, rankings: Sequence[Ranking], allowances: Sequence[Allowance]
) -> tuple[Threshold, ...]:
    """The thresholds of scores that are not in memory, calibrated on the judged
    inputs.
    """
    inputs = int(bootstrap.inputs[0])
    all_thresholds = []
    for allowance in allowances:
        for ranking in rankings:
            start = _start(bootstrap, ranking.name, allowance, inputs=inputs)
            if start.reason is None:
                start = _threshold_on_disk(start, bootstrap, ranking, allowance)
            all_thresholds.append(start)
    return tuple(all_thresholds)


def _start(
    bootstrap: Bootstrap,
    name: str,
    allowance: Allowance,
    *,
    inputs: int,
    where: str = "judged",
) -> Threshold:
    """What every threshold has, and the reason where there is none."""
    reason = allowance.unpriced.get(name)
    if reason is None:
        cost = allowance.cost_of(name)
        if not (allowance.feasible(cost) and allowance.share(cost) > 0):
            reason = Reason.NOTHING_LEFT
    return Threshold(
        name,
        **vars(allowance.key),
        calibrated_on=where,
        calibration_inputs=inputs,
        draws=len(bootstrap.draws),
        reason=None if reason is None else reason.text(),
    )


def _threshold(
    bootstrap: Bootstrap, own: Scores, calibration: Calibration
) -> Threshold:
    """The threshold of an allocator, with the rates on the judged inputs."""
    allowance = calibration.allowance
    inputs = len(calibration.table)
    where = calibration.where
    start = _start(bootstrap, own.name, allowance, inputs=inputs, where=where)
    if start.reason is not None:
        return start
    if own.modes:
        return _price(start, bootstrap, own, calibration)
    if allowance.per_input:
        return _threshold_of_purse(start, bootstrap, own, allowance)
    frozen = calibration.frozen()
    tied = int(np.count_nonzero(calibration.scores.values == frozen.theta))
    accepted = sums_by_unit(bootstrap.table, frozen.expected(own.values))
    return _frozen_threshold(
        start,
        bootstrap,
        allowance,
        frozen,
        tied=tied,
        accepted=accepted,
        residuals=calibration.residuals(),
    )


def _threshold_on_disk(
    start: Threshold, bootstrap: Bootstrap, own: Ranking, allowance: Allowance
) -> Threshold:
    """The threshold of scores that are not in memory."""
    assert isinstance(own.highest, SiftedScores)
    inputs = int(bootstrap.inputs[0])
    rate = allowance.share(allowance.cost_of(own.name))
    cut = own.highest.values.cut(slots_of(rate, inputs))
    above = cut.above[0]
    tied = cut.tied[0]
    at = TiedCut(cut.score, int(above.sum()), int(tied.sum()))
    frozen = FrozenThreshold.at(at, rate * inputs)
    accepted = above + frozen.tie_acceptance * tied
    residuals = None
    units = bootstrap.by_unit.inputs
    if np.count_nonzero(units) > 1:
        without = own.highest.values.cuts_without(slots_without(units, rate))
        residuals = left_out_residuals(units, without, rate)
    return _frozen_threshold(
        start,
        bootstrap,
        allowance,
        frozen,
        tied=at.tied,
        accepted=accepted,
        residuals=residuals,
    )


def _frozen_threshold(
    start: Threshold,
    bootstrap: Bootstrap,
    allowance: Allowance,
    frozen: FrozenThreshold,
    *,
    tied: int,
    accepted: PerUnit,
    residuals: PerUnit | None,
) -> Threshold:
    """The threshold of one score per input under a budget that leaves a rate."""
    rate = allowance.share(allowance.cost_of(start.allocator))
    target_spend = None
    spend = None
    if allowance.costs is not None:
        cost = allowance.full
        if allowance.is_skipping:
            cost -= allowance.cheap
        target_spend = rate * cost
        spend = cost * float(accepted.sum() / bootstrap.inputs[0])
    return _with_rates(
        start,
        bootstrap,
        {bootstrap.modes[-1]: accepted},
        residuals,
        **_cut_fields(bootstrap, frozen, tied),
        target_rate=rate,
        target_spend=target_spend,
        spend=spend,
    )


def _cut_fields(
    bootstrap: Bootstrap, frozen: FrozenThreshold, tied: int
) -> dict[str, Any]:
    """The threshold with its ties, and why it or its interval is undefined."""
    threshold = frozen.theta
    infinite = None
    if not math.isfinite(frozen.theta):
        threshold = None
        infinite = Reason.INFINITE_CUT.text(cut=str(frozen.theta))
    return {
        "threshold": threshold,
        "tie_acceptance": frozen.tie_acceptance,
        "tied": tied,
        "reason": joined([infinite, _why_no_interval(bootstrap)]),
    }


def _why_no_interval(bootstrap: Bootstrap) -> str | None:
    if bootstrap.has_intervals:
        return None
    if len(bootstrap.unit_ids) == 1:
        return Reason.SINGLE_UNIT.text()
    return Reason.NO_DRAWS.text()


def _threshold_of_purse(
    start: Threshold, bootstrap: Bootstrap, own: Scores, allowance: Allowance
) -> Threshold:
    """The cut at which the judged inputs, each at its own cost, spend the whole
    budget.
    """
    table = bootstrap.table
    start = replace(start, calibrated_on="judged", calibration_inputs=len(table))
    frozen = _cut_of_purse(table, own, allowance)
    if frozen is None:
        return replace(start, reason=Reason.NOTHING_LEFT.text())
    share = chances_of_purse(table, own, allowance)
    spend = float(share @ allowance.prices(table)[:, -1]) / len(table)
    tied = int(np.count_nonzero(own.values == frozen.theta))
    return _with_rates(
        start,
        bootstrap,
        {table.modes[-1]: sums_by_unit(table, share)},
        **_cut_fields(bootstrap, frozen, tied),
        target_spend=spend,
        spend=spend,
    )


def _cut_of_purse(
    table: ValueTable, scores: Scores, allowance: Allowance
) -> FrozenThreshold | None:
    """The lowest score that a purse buys; None where it buys none."""
    share = chances_of_purse(table, scores, allowance)
    if not share.any():
        return None
    cut = float(scores.values[share > 0].min())
    return FrozenThreshold(cut, float(share[scores.values == cut][0]))


def _price(
    start: Threshold, bootstrap: Bootstrap, own: Scores, calibration: Calibration
) -> Threshold:
    """The price of scores per mode, in place of a threshold."""
    allowance = calibration.allowance
    table = bootstrap.table
    price = calibration.price()
    costs = costs_above_cheap(allowance, table)
    chances = price.expected(own.values, costs)
    bought = price.bought(
        calibration.scores.values, costs_above_cheap(allowance, calibration.table)
    )
    target: dict[str, Any] = {"target_rate": calibration.rate}
    if allowance.costs is not None:
        spend = float((chances * costs).sum() / bootstrap.inputs[0])
        target = {"target_spend": calibration.spend, "spend": spend}
    accepted = {
        mode: sums_by_unit(table, chance)
        for mode, chance in zip(own.modes, chances.T, strict=True)
    }
    return _with_rates(
        start,
        bootstrap,
        accepted,
        policy="price",
        price=price.price,
        tie_acceptance=price.tie_acceptance,
        tied=int(np.count_nonzero(bought.least != bought.most)),
        reason=_why_no_interval(bootstrap),
        **target,
    )


def _with_rates(
    start: Threshold,
    bootstrap: Bootstrap,
    accepted: Mapping[str, PerUnit],
    residuals: PerUnit | None = None,
    **fields: Any,
) -> Threshold:
    """A threshold with its other fields, the rate of each mode and the total rate.

    Args:
        start: The threshold.
        bootstrap: The resamples of the judged inputs.
        accepted: By mode above cheap, the number of inputs of every unit that get it.
        residuals: Those of one mode where the judged units set the threshold.
        fields: Further fields of the threshold.
    """
    total = np.sum(list(accepted.values()), axis=0)
    rate, predicted = _predicted(bootstrap, total, residuals)
    effective = None
    if predicted is not None:
        effective = known(predicted.effective_units)
    rates = []
    for mode, number in accepted.items():
        own = _predicted(bootstrap, number, residuals)
        rates.append(ModeRate(mode, _rate(*own)))
    return replace(
        start,
        rate=_rate(rate, predicted),
        rates=tuple(rates),
        rate_units=int(np.count_nonzero(bootstrap.by_unit.inputs)),
        effective_units=effective,
        **fields,
    )


def _rate(rate: float, predicted: RatePrediction | None) -> Estimate:
    """A rate with its prediction interval, where there is one."""
    if predicted is None:
        return Estimate(rate)
    return Estimate(rate, predicted.interval.low, predicted.interval.high)


def _predicted(
    bootstrap: Bootstrap, accepted: PerUnit, residuals: PerUnit | None
) -> tuple[float, RatePrediction | None]:
    """The share of the inputs that are accepted, and what to expect of new units."""
    inputs = bootstrap.by_unit.inputs
    rate = float(accepted.sum() / inputs.sum())
    if not bootstrap.has_intervals:
        return rate, None
    if residuals is None:
        residuals = accepted - rate * inputs
    return rate, prediction(rate, residuals, inputs)


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
    certainty: float | None = None,
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
        certainty: Probability with which the harm is so small, over which units were
            drawn; None for a harm that is so small on average over calibrations.
        missing: Whether an input without a score is an error or ranked last.
        draws: Number of draws of units for the interval of the rate.
        seed: Their seed.
    """
    if not isinstance(table, ValueTable):
        table = read_values(table)
    aligned = align(table, getattr(scores, "name", None) or "scores", scores)
    (budget,) = budget_list(budget)
    judged = table if calibration is None else table.restrict(calibration)
    own = on_part(judged, aligned, table, missing, role=CALIBRATE)
    # As in a judgement: choosing is free where the table has the prices.
    (allowed,), _ = free_of_charge([own], [allowance_on(budget, judged)])
    source = Calibration(judged, own, allowed)
    if units is not None and set(units) != set(judged.unit_ids):
        judged = table.restrict(units)
        own = on_part(judged, aligned, table, missing, role=JUDGE)
        source = replace(source, where="calibration")
    drawn = make_draws(len(judged.unit_ids), draws, seed)
    bootstrap = Bootstrap.of(judged, drawn, leave_out=False)
    threshold = _threshold(bootstrap, own, source)
    label = source.allowance.key.label
    if threshold.rate is None:
        raise InputError(
            f"{own.name} has no threshold under {label}: {threshold.reason}."
        )
    if harm_at_most is None:
        if certainty is not None:
            raise InputError(
                f"{argument('certainty')} applies only to {argument('harm_at_most')}: "
                "give it too, or leave it out."
            )
        policies = _policies(policy, source, reset=reset)
    else:
        policies = _certified(policy, source, harm_at_most, bound, certainty)
    about: dict[str, Any] = {
        "allocator": own.name,
        "budget": label,
        # Digests, because units may be names of customers.
        "calibration_units": [
            sha256(str(unit).encode())[:16] for unit in source.table.unit_ids
        ],
        "scores": source.scores.digest,
        # Not that of the calibration scores, but of the judged units: see below.
        "rate": None,
    }
    routings = [
        Routing.calibrate(
            source.scores.values,
            source.rate,
            policy=item,
            modes=table.modes,
            reset=reset,
            about=about,
        )
        for item in policies
    ]
    replays = [_replay(routing, source) for routing in routings]
    chosen = 0
    if harm_at_most is None:
        trials = [Trial(n, item.rate, item.gain) for n, item in enumerate(replays)]
        chosen = best_trial(trials, source.rate, NEAR)
    routing = routings[chosen]
    replay = replays[chosen]
    _note_rate(source, routing, replay, alone=len(replays) == 1)
    threshold = _deployed(threshold, bootstrap, own, source, routing, replay)

    certified = None
    if harm_at_most is not None:
        taken = [_modes(item, source.table, source.scores) > 0 for item in routings]
        certified = certificate(
            source.scores.values,
            source.table.unit,
            source.table.losses,
            taken=taken,
            at_most=harm_at_most,
            bound=bound,
            certainty=certainty,
        )
        about["certificate"] = certified._asdict()
    for name in ("rate", "rate_lo", "rate_hi", "calibration_rate", "gain"):
        about[name] = threshold[name]
    about["target_rate"] = threshold.target_rate
    about["rate_units"] = len(judged.unit_ids)
    about["replays"] = [item._asdict() for item in replays]
    routing = replace(routing, about={**routing.about, **about})
    return Deployment(threshold, routing, tuple(replays), certified)


def _deployed(
    threshold: Threshold,
    bootstrap: Bootstrap,
    own: Scores,
    source: Calibration,
    routing: Routing,
    replay: PolicyReplay,
) -> Threshold:
    """A threshold with the rates of a policy in place of those of the threshold."""
    judged = bootstrap.table
    costs = costs_above_cheap(source.allowance, judged)
    modes = _modes(routing, judged, own, costs if source.allowance.per_input else None)
    accepted = {
        rate.mode: sums_by_unit(
            judged, (modes == judged.modes.index(rate.mode)).astype(float)
        )
        for rate in threshold.rates
    }
    fields: dict[str, Any] = {}
    if isinstance(routing.policy, ConformalHarm):
        theta = routing.policy.theta
        tied = int(np.count_nonzero(source.scores.values == theta))
        fields = _cut_fields(bootstrap, routing.policy, tied)
    residuals = None
    if type(routing.policy) is FrozenThreshold:
        residuals = source.residuals()
    spend = None
    if threshold.spend is not None:
        spend = float(_taken(np.pad(costs, ((0, 0), (1, 0))), modes).mean())
    return _with_rates(
        threshold,
        bootstrap,
        accepted,
        residuals,
        policy=replay.policy,
        parameter=replay.parameter,
        calibration_rate=replay.rate,
        gain=replay.gain,
        spend=spend,
        **fields,
    )


def _taken(amounts: ModeFloats, modes: InputInts) -> InputFloats:
    """The amount of the mode of each input."""
    return amounts[np.arange(len(modes)), modes]


def _certified(
    name: str,
    source: Calibration,
    at_most: float,
    bound: float,
    certainty: float | None,
) -> list[str | StreamRule | Price]:
    """The certified threshold, and the plain one of the budget."""
    checks.share_of_inputs(at_most, argument("harm_at_most"))
    checks.share_of_inputs(bound, argument("bound"))
    if not at_most < bound:
        raise InputError(
            f"The harm allowed ({argument('harm_at_most')}) must be above 0 and below "
            f"the bound ({argument('bound')}); found {at_most:g} and {bound:g}: "
            "lower the one or raise the other (1 % is 0.01)."
        )
    if certainty is not None and not 0 < certainty < 1:
        raise InputError(
            f"{argument('certainty')} must be above 0 and below 1; found "
            f"{certainty:g}. Write 0.9 for 90 %."
        )
    table = source.table
    scores = source.scores
    if table.estimated is not None:
        raise InputError(
            f"{scores.name}: harm is certified on measured losses "
            "only; here some are estimated."
        )
    unfit = None
    if scores.modes:
        unfit = f"{scores.name} has a score per mode"
    elif _with_spaces(name) not in (BEST, BEYOND[-1]):
        unfit = f"found policy {name!r}: leave it out"
    if unfit is not None:
        raise InputError(
            "Harm is certified for one score per input and a "
            f"threshold that never moves; {unfit}."
        )
    plain = source.frozen()
    if source.allowance.per_input:
        plain = _cut_of_purse(table, scores, source.allowance) or plain
    share = harm_shares(
        table.decision_values, table.unit, table.losses[:, 0], bound=bound
    )
    safe = safe_threshold(
        scores.values,
        table.unit,
        share,
        target=at_most,
        bound=bound,
        certainty=certainty,
    )
    return [ConformalHarm.over(plain, safe), plain]


def _policies(
    name: str, source: Calibration, *, reset: bool
) -> list[str | StreamRule | Price]:
    """The policies to replay: the one of this name, or all that can run; policies with
    a parameter are tuned.
    """
    plain = _with_spaces(name)
    allowance = source.allowance
    has_modes = bool(source.scores.modes)
    if allowance.costs is not None and (has_modes or allowance.per_input):
        # Other policies keep a rate of inputs, not a spend.
        if has_modes and plain in (BEST, "price", *PAPER[:2]):
            return [source.price()]
        if allowance.per_input and plain in (BEST, PAPER[0]):
            frozen = _cut_of_purse(source.table, source.scores, allowance)
            return [frozen or FrozenThreshold(math.inf, 0.0)]
        raise InputError(
            "Only a price or a frozen threshold can keep a spend; found policy "
            f"{name!r}: leave it out."
        )
    if plain == BEST and source.table.order is None:
        plain = PAPER[0]  # the only policy that needs no time order
    names: Sequence[str] = [plain]
    if plain == BEST:
        names = PAPER[:2] if has_modes else PAPER
    return [_tune(candidate, source, reset=reset) for candidate in names]


def _with_spaces(name: str) -> str:
    return name.replace("-", " ")


def _tune(name: str, source: Calibration, *, reset: bool) -> str | StreamRule:
    """The policy by name or, if losses calibrate or tune it, on the calibration
    units.
    """
    table = source.table
    scores = source.scores
    if name == PAPER[1]:
        times(table)  # its rate depends on the order in time
    if name not in (*PAPER[2:], *BEYOND):
        return name
    if scores.modes:
        raise InputError(
            f"A {name} is tuned for one score "
            f"per input, and {scores.name}: {Reason.NO_RANKING.text()}."
        )
    return tune(
        name,
        scores.values,
        table.unit if reset else np.zeros_like(table.unit),
        order=times(table),
        value=table.decision_values,
        alpha=source.rate,
    )


def _replay(routing: Routing, source: Calibration) -> PolicyReplay:
    """What a policy does on the calibration units."""
    table = source.table
    costs = costs_above_cheap(source.allowance, table)
    modes = _modes(routing, table, source.scores, costs)
    parameter = None
    if not isinstance(routing.policy, Price):
        parameter = setting_of(routing.policy)
    return PolicyReplay(
        policy=routing.policy_name,
        parameter=parameter,
        rate=int(np.count_nonzero(modes)) / len(modes),
        gain=math.fsum(_taken(table.mode_values, modes)),
    )


def _modes(
    routing: Routing,
    table: ValueTable,
    scores: Scores,
    costs: ModeFloats | None = None,
) -> InputInts:
    """The modes that a router chooses; in the table's order if it has no times (the
    rate of a threshold ignores order).
    """
    order: InputNumbers = np.arange(len(table))
    if table.order is not None:
        order = table.order
    return routing.replay(scores.values, table.unit, order, costs)


def _note_rate(
    source: Calibration, routing: Routing, replay: PolicyReplay, *, alone: bool
) -> None:
    """Warn where a policy that keeps a rate misses it on the calibration units."""
    if isinstance(routing.policy, Price | ConformalHarm) or source.allowance.per_input:
        return
    if not rate_missed(replay.rate, source.rate, NEAR):
        return
    which = f"no policy comes within 2 points; the nearest, {replay.policy},"
    if alone:
        which = f"under {replay.policy} it"
    note = (
        f"{source.scores.name}: {source.rate:.1%} of the calibration inputs should "
        f"be escalated; {which} escalates {replay.rate:.1%}."
    )
    warnings.warn(InputWarning(note), stacklevel=3)
