"""Policies and allowances -> rows: the figures and the verdict of each policy.

Every policy yields a vector of gains over the resamples, so that under one allowance
there is a matrix gain[policy, resample]. A reference is a row of that matrix like any
other. All figures of a row follow from it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deepval.basics.arrays import Float, ResampleRows
from deepval.judge.allowances import Allowance, no_prize
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.differences import (
    Comparison,
    Figure,
    compare,
    has_large_prize,
    ndg,
    paired_difference,
    why_undefined,
)
from deepval.judge.intervals import ROUNDING, Interval, intervals, percentiles
from deepval.judge.kernel import keep_freed_memory
from deepval.judge.policies import Oracle, Outcome, Policy, Ranking, References, Refusal
from deepval.judge.results import BudgetKey, Reason, joined, known


@dataclass(frozen=True)
class Ndg:
    """Normalized decision gain: the share of the oracle's gain.

    nDG = sum of V over the escalated inputs / the same sum for the oracle, where V is
    the decision value of an input. 1 is as good as possible under the budget, 0 gains
    nothing, and a policy that harms is below 0.

    Attributes:
        value: In the sample; None where the oracle gains nothing.
        interval: Over the draws whose oracle gains enough.
        draws_dropped: The number of the other draws.
        weight_dropped: Their probability.
        without: Smallest and largest value with any one unit left out.
        without_unit: The unit without which it is smallest.
    """

    value: float | None
    interval: Interval | None = None
    draws_dropped: int = 0
    weight_dropped: float = 0.0
    without: Interval | None = None
    without_unit: str | None = None


@dataclass(frozen=True)
class Figures:
    """What a policy comes to where it can run; in units of the loss unless stated.

    Attributes:
        escalated: Expected number of inputs escalated.
        gain: Sum of decision values over them.
        gain_share: The same as a share of the all-cheap loss.
        benefit: Positive part of the gain.
        harm: Negative part, as a positive number.
        ndg: Share of the oracle's gain; None where the budget is not respected.
        random: Against chance: `random` or `random-ladder`.
        never: Against escalating nothing; None without intervals.
        always: Against escalating everything; None without intervals.
        always_cost_ratio: What always escalating costs, relative to the budget; under
            a selection budget, relative to the escalated inputs.
        reasons: Why nDG or shares of the loss are in no draw defined.
    """

    escalated: float
    gain: float
    gain_share: float | None
    benefit: float
    harm: float
    ndg: Ndg | None
    random: Comparison
    never: Comparison | None
    always: Comparison | None
    always_cost_ratio: float | None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, eq=False)
class Judgement:
    """One policy under one allowance.

    Attributes:
        allocator: Name of the policy.
        budget: The budget.
        spender: The router whose own spend is the budget; None for other budgets.
        references: The oracle and the chance that the policy is measured by.
        is_reference: Whether the policy is a yardstick, which has no verdict.
        refusal: Why an allocator is not judged; None where it is.
        own_cost: What it is charged per input; None where nothing is charged.
        slots: Number of inputs that it may escalate, where a number limits it.
        tied_share: Share of the selection that ties decide.
        oracle_gain: What its oracle gains.
        always_fits: Whether always escalating fits the budget.
        figures: What it comes to; None where it cannot run.
        reason: Why something is undefined.
    """

    allocator: str
    budget: BudgetKey
    spender: str | None
    references: References
    is_reference: bool
    refusal: Refusal | None
    own_cost: float | None
    slots: int | None
    tied_share: float | None
    oracle_gain: float
    always_fits: bool
    figures: Figures | None
    reason: str | None

    @property
    def verdict(self) -> str | None:
        """The verdict against chance; None for references and without an interval."""
        if self.refusal == "infeasible":
            return "infeasible"
        if self.figures is None or self.is_reference:
            return None
        return self.figures.random.verdict


@dataclass(frozen=True, eq=False)
class Entry:
    """A policy under one allowance, what it comes to, and the judgement on it."""

    policy: Policy
    outcome: Outcome
    judgement: Judgement


@dataclass(frozen=True, eq=False)
class Contest:
    """All policies under one allowance, references included."""

    allowance: Allowance
    entries: tuple[Entry, ...]

    def gains(self, name: str) -> Gains:
        """The gains of a policy that can run."""
        for entry in self.entries:
            if entry.policy.name == name and entry.outcome.gains is not None:
                return entry.outcome.gains
        raise KeyError(name)

    @property
    def oracle(self) -> Oracle:
        """The oracle over the full mode."""
        for entry in self.entries:
            if isinstance(entry.policy, Oracle):
                return entry.policy
        raise KeyError("oracle")


def judged_rankings(
    contests: Iterable[Contest],
) -> Iterator[tuple[Contest, Ranking, Judgement]]:
    """Every ranking that can run, with its contest and the judgement on it."""
    for contest in contests:
        for entry in contest.entries:
            judgement = entry.judgement
            if isinstance(entry.policy, Ranking) and judgement.figures is not None:
                yield contest, entry.policy, judgement


def judge(
    bootstrap: Bootstrap,
    policies: Sequence[Policy],
    allowances: Sequence[Allowance],
    *,
    with_intervals: bool = True,
) -> list[Contest]:
    """Every policy under every allowance.

    Args:
        bootstrap: The resamples.
        policies: The allocators and the references, in the order of the rows.
        allowances: What each budget allows.
        with_intervals: Whether rows of allocators have intervals; without them,
            thousands of rows can be pooled later.
    """
    keep_freed_memory()
    # Policy by policy, because one sort of the scores serves all allowances.
    entrants: list[dict[str, tuple[Policy, Outcome]]] = [{} for _ in allowances]
    for policy in bootstrap.watch(policies, "ranking inputs"):
        entered = [i for i, allowed in enumerate(allowances) if policy.enters(allowed)]
        outcomes = policy.outcomes(bootstrap, [allowances[i] for i in entered])
        for i, outcome in zip(entered, outcomes, strict=True):
            if outcome.is_listed:
                entrants[i][policy.name] = (policy, outcome)
    # In the order of the policies, also where some do not enter.
    return [
        _contest(bootstrap, allowance, entered, with_intervals=with_intervals)
        for allowance, entered in zip(allowances, entrants, strict=True)
    ]


def _contest(
    bootstrap: Bootstrap,
    allowance: Allowance,
    entrants: Mapping[str, tuple[Policy, Outcome]],
    *,
    with_intervals: bool,
) -> Contest:
    """The judgements on all policies under one allowance."""
    gains = {}
    for name, (_, outcome) in entrants.items():
        if outcome.gains is not None:
            gains[name] = outcome.gains
    references = {name: policy.references for name, (policy, _) in entrants.items()}
    compared = list(gains)
    without_intervals: list[str] = []
    if not with_intervals:
        compared = [name for name in gains if entrants[name][0].is_reference]
        without_intervals = [name for name in gains if name not in compared]
    figures = _figures(bootstrap, allowance, compared, gains, references)
    figures |= _point_figures(
        bootstrap, allowance, without_intervals, gains, references
    )

    entries = []
    for name, (policy, outcome) in entrants.items():
        oracle_gain = float(gains[policy.references.oracle].gain[0])
        own = figures.get(name)  # None where it cannot run
        reasons: list[str] = []
        if own is not None:
            reasons = _reasons(bootstrap, allowance, own, oracle_gain)
            # A policy beyond its budget would divide by an oracle that keeps to it.
            if not outcome.has_ndg:
                own = replace(own, ndg=None)
        judgement = Judgement(
            allocator=name,
            budget=allowance.key,
            spender=allowance.spender,
            references=policy.references,
            is_reference=policy.is_reference,
            refusal=outcome.refusal,
            own_cost=outcome.own_cost,
            slots=outcome.slots,
            tied_share=outcome.tied_share,
            oracle_gain=oracle_gain,
            always_fits=allowance.uniform_fits,
            figures=own,
            reason=joined([*reasons, outcome.reason]),
        )
        entries.append(Entry(policy, outcome, judgement))
    return Contest(allowance, tuple(entries))


def _figures(
    bootstrap: Bootstrap,
    allowance: Allowance,
    names: Sequence[str],
    gains: Mapping[str, Gains],
    references: Mapping[str, References],
) -> dict[str, Figures]:
    """The figures of policies that can run, with intervals, computed together."""
    gain = np.stack([gains[name].gain for name in names])
    # The prize and the chance of a row are other rows of the same matrix.
    prize = np.stack([gains[references[name].oracle].gain for name in names])
    chance = np.stack([gains[references[name].chance].gain for name in names])
    always = np.broadcast_to(bootstrap.full_gain, gain.shape)

    ndgs = _ndgs(bootstrap, gain, prize)
    # Paired: both gains of a difference come from the same resample.
    with_random = compare(bootstrap, gain, chance)
    # Rows show a second opinion on the difference with chance alone.
    never = np.zeros_like(gain)
    with_never = compare(bootstrap, gain, never, with_second=False)
    with_always = compare(bootstrap, gain, always, with_second=False)

    figures = {}
    for row, name in enumerate(names):
        share = with_random[row].share
        figures[name] = _figures_of(
            bootstrap,
            allowance,
            gains[name],
            ndgs[row],
            random=with_random[row],
            never=with_never[row],
            always=with_always[row],
            reasons=_no_draw(
                lacks_prize=ndgs[row].value is not None and ndgs[row].interval is None,
                lacks_share=share.value is not None and share.interval is None,
            ),
        )
    return figures


def _point_figures(
    bootstrap: Bootstrap,
    allowance: Allowance,
    names: Sequence[str],
    gains: Mapping[str, Gains],
    references: Mapping[str, References],
) -> dict[str, Figures]:
    """The figures of policies that can run, without intervals."""
    figures = {}
    for name in names:
        own = gains[name]
        # A matrix of one row: stacked, thousands of samples would not fit the memory.
        gain = own.gain[None]
        prize = gains[references[name].oracle].gain[None]
        chance = gains[references[name].chance].gain[None]
        difference = paired_difference(bootstrap, gain, chance)
        value = known(ndg(gain, prize)[0, 0])
        share = difference.share[0]
        is_share_drawn = ~np.isnan(share[bootstrap.drawn])
        figures[name] = _figures_of(
            bootstrap,
            allowance,
            own,
            Ndg(value),
            random=Comparison(
                Figure(known(share[0])), Figure(float(difference.loss[0, 0]))
            ),
            never=None,
            always=None,
            reasons=_no_draw(
                lacks_prize=value is not None
                and not has_large_prize(bootstrap, prize).any(),
                lacks_share=not np.isnan(share[0]) and not is_share_drawn.any(),
            ),
        )
    return figures


def _figures_of(
    bootstrap: Bootstrap,
    allowance: Allowance,
    gains: Gains,
    own_ndg: Ndg,
    *,
    random: Comparison,
    never: Comparison | None,
    always: Comparison | None,
    reasons: tuple[Reason, ...],
) -> Figures:
    """The figures of one policy from its gains and comparisons."""
    gain = float(gains.gain[0])
    benefit = float(gains.benefit[0])
    escalated = float(gains.escalated[0])
    return Figures(
        escalated=escalated,
        gain=gain,
        gain_share=gain_share(bootstrap, gain),
        benefit=benefit,
        harm=max(0.0, benefit - gain),  # rounding must not make it negative
        ndg=own_ndg,
        random=random,
        never=never,
        always=always,
        always_cost_ratio=_always_cost_ratio(bootstrap, allowance, escalated),
        reasons=reasons,
    )


def _ndgs(bootstrap: Bootstrap, gain: ResampleRows, prize: ResampleRows) -> list[Ndg]:
    """The nDG of every policy, with its interval and its range without one unit."""
    samples = ndg(gain, prize)
    # Where the oracle gains nothing in the sample, no draw could be used: none counts
    # as dropped.
    has_interval = (prize[:, :1] > 0) & bootstrap.has_intervals
    is_used = has_large_prize(bootstrap, prize) & bootstrap.has_intervals
    drawn = np.where(is_used, samples[:, bootstrap.drawn], np.nan)
    bounds = percentiles(drawn, bootstrap.draws)
    without_units = _without_units(bootstrap, samples[:, bootstrap.left_out])
    is_dropped = ~is_used & has_interval
    draws_dropped = np.count_nonzero(is_dropped, axis=1).tolist()
    weight_dropped = bootstrap.draws.probabilities(is_dropped).tolist()
    # A quotient has no rounding error around 0 that could be removed.
    own = intervals(bounds, scale=0.0)
    ndgs = []
    for row, value in enumerate(samples[:, 0].tolist()):
        without, unit = without_units[row]
        ndgs.append(
            Ndg(
                value=known(value),
                interval=own[row],
                draws_dropped=draws_dropped[row],
                weight_dropped=weight_dropped[row],
                without=without,
                without_unit=unit,
            )
        )
    return ndgs


def _without_units(
    bootstrap: Bootstrap, left_out: Float[np.ndarray, "row unit"]
) -> list[tuple[Interval | None, str | None]]:
    """The range of each nDG without one unit, and the unit without which it is
    lowest.
    """
    is_defined = ~np.isnan(left_out)
    lowest = np.where(is_defined, left_out, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(is_defined, left_out, -np.inf).max(axis=1, initial=-np.inf)
    # Of units that differ by rounding only, the first is named: otherwise the last
    # digits of a sum would name another unit when more scores are judged beside.
    is_lowest = left_out <= lowest[:, None] + ROUNDING
    ranges: list[tuple[Interval | None, str | None]] = []
    for row, (low, high) in enumerate(
        zip(lowest.tolist(), highest.tolist(), strict=True)
    ):
        if math.isinf(low):  # without any unit, the oracle gains nothing
            ranges.append((None, None))
            continue
        unit = bootstrap.unit_ids[int(np.argmax(is_lowest[row]))]
        ranges.append((Interval(low, high), unit))
    return ranges


def gain_share(bootstrap: Bootstrap, gain: float) -> float | None:
    """A gain of the sample as a share of the all-cheap loss."""
    if not bootstrap.cheap_loss[0] > 0:
        return None
    if abs(gain) <= ROUNDING * bootstrap.sum_of_sizes[0]:
        return 0.0
    return gain / float(bootstrap.cheap_loss[0])


def _always_cost_ratio(
    bootstrap: Bootstrap, allowance: Allowance, escalated: float
) -> float | None:
    """What always escalating costs, relative to what the budget allows."""
    if allowance.is_measured:
        limit = allowance.budget.alpha * allowance.full
        return allowance.full / (allowance.cheap + limit)
    if escalated > 0:
        return float(bootstrap.inputs[0]) / escalated
    return None


def _reasons(
    bootstrap: Bootstrap,
    allowance: Allowance,
    figures: Figures,
    oracle_gain: float,
) -> list[str]:
    """Why figures of a policy that can run are undefined."""
    reasons = []
    if not oracle_gain > 0:
        inputs = int(bootstrap.inputs[0])
        reasons.append(no_prize(allowance, inputs, float(bootstrap.full_benefit[0])))
    reasons += [reason.text() for reason in why_undefined(bootstrap)]
    # Without any interval, the reasons for single ones would only repeat it.
    if bootstrap.has_intervals:
        reasons += [reason.text() for reason in figures.reasons]
    return reasons


def _no_draw(*, lacks_prize: bool, lacks_share: bool) -> tuple[Reason, ...]:
    """Why nDG or shares of the loss are defined in the sample and in no draw."""
    reasons = []
    if lacks_prize:
        reasons.append(Reason.NO_PRIZED_DRAW)
    if lacks_share:
        reasons.append(Reason.NO_SHARE_DRAWN)
    return tuple(reasons)
