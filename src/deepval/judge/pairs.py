"""A result with samples -> the difference between two of its allocators, paired draw by
draw.

`router` is the ranking in hindsight; `router@causal-cap` is the same scores under a
causal policy, which needs a result with calibration units. Two contenders are compared
by gain, or by benefit or harm alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import PerResample
from deepval.basics.errors import InputError, argument, suggestion
from deepval.judge.bootstrap import Gains, Totals
from deepval.judge.differences import (
    compare_one,
    paired_loss,
    paired_shares,
    unit_shown,
)
from deepval.judge.draws import Draws
from deepval.judge.intervals import Interval, bounds_of, verdict_of
from deepval.judge.judgement import Contest
from deepval.judge.results import (
    LO_HI,
    Bounds,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Reason,
    Result,
    Row,
    Samples,
    Stream,
    joined,
)


@dataclass(frozen=True, eq=False)
class Contender:
    """A row of a result with what it rests on, draw by draw.

    Attributes:
        row: The row of an allocator, or of a causal policy.
        gains: Its gains; None where it cannot run.
        prize: What its oracle gains.
        chance: What chance gains; None for causal policies, which no one pools.
    """

    row: Row | Stream
    gains: Gains | None
    prize: PerResample
    chance: PerResample | None = None

    @property
    def oracle(self) -> str | None:
        """The oracle that its nDG divides by."""
        if isinstance(self.row, Row):
            return self.row.oracle
        return "oracle"  # causal policies choose the full mode only

    def ahead_of_chance(self, totals: Totals) -> PerResample:
        """Its difference with chance as a share of the loss; NaN where undefined."""
        assert self.gains is not None
        assert self.chance is not None
        return paired_shares(totals, self.gains.gain, self.chance)


@dataclass(frozen=True, eq=False)
class Basis:
    """What comparing and pooling rest on.

    Attributes:
        totals: Totals of every resample.
        judged: Every row of the result.
        streamed: Every causal policy.
    """

    totals: Totals
    judged: tuple[Contender, ...]
    streamed: tuple[Contender, ...] = ()


def contenders_of(
    rows: Sequence[Row], contests: Sequence[Contest]
) -> tuple[Contender, ...]:
    """The rows of contests with their samples."""
    contenders = []
    remaining = iter(rows)
    for contest in contests:
        for entry in contest.entries:
            references = entry.policy.references
            contenders.append(
                Contender(
                    row=next(remaining),
                    gains=entry.outcome.gains,
                    prize=contest.gains(references.oracle).gain,
                    chance=contest.gains(references.chance).gain,
                )
            )
    return tuple(contenders)


def samples_of(
    totals: Totals, judged: Sequence[Contender], streamed: Sequence[Contender] = ()
) -> Samples:
    """The samples of rows and of causal policies, as a result stores them."""
    resamples = len(totals.cheap_loss)
    arrays = _stacked("", judged, resamples)
    chances = np.stack([item.chance for item in judged if item.chance is not None])
    versus_random = paired_loss(totals, arrays["gain"], chances)
    if streamed:
        arrays |= _stacked("stream_", streamed, resamples)
    return Samples(
        unit_ids=totals.unit_ids,
        counts=totals.draws.counts,
        weights=totals.draws.weights,
        seed=totals.draws.seed,
        cheap_loss=totals.cheap_loss,
        full_gain=totals.full_gain,
        full_benefit=totals.full_benefit,
        versus_random=versus_random,
        **arrays,
    )


def _stacked(
    prefix: str, contenders: Sequence[Contender], resamples: int
) -> dict[str, np.ndarray]:
    """The samples of contenders as arrays; NaN for the gains of those that cannot
    run.
    """
    undefined = np.full(resamples, np.nan)
    nothing = Gains(undefined, undefined, undefined)
    gains = [item.gains or nothing for item in contenders]
    return {
        f"{prefix}gain": np.stack([own.gain for own in gains]),
        f"{prefix}benefit": np.stack([own.benefit for own in gains]),
        f"{prefix}escalated": np.stack([own.escalated for own in gains]),
        f"{prefix}prize": np.stack([item.prize for item in contenders]),
    }


def basis(result: Result) -> Basis:
    """The basis of a result; raises where the result has no samples."""
    samples = result.samples
    if samples is None:
        raise InputError(
            "Draw by draw comparisons need a result with its samples; this one has "
            "none. Take it fresh from evaluate(), or save it with result.save(path, "
            "samples=True)."
        )
    effective_units = result.setting.concentration.effective_units
    if effective_units is None:
        effective_units = math.nan
    totals = Totals(
        unit_ids=samples.unit_ids,
        draws=Draws(samples.counts, samples.weights, samples.seed),
        cheap_loss=samples.cheap_loss,
        full_gain=samples.full_gain,
        full_benefit=samples.full_benefit,
        effective_units=effective_units,
    )
    judged = []
    for index, row in enumerate(result.rows):
        gain = samples.gain[index]
        gains = _gains(gain, samples.benefit[index], samples.escalated[index])
        chance = gain - samples.versus_random[index]
        judged.append(Contender(row, gains, samples.prize[index], chance))
    return Basis(totals, tuple(judged), _stream_contenders(result, samples))


def _gains(
    gain: PerResample, benefit: PerResample, escalated: PerResample
) -> Gains | None:
    """Stored gains; None for those of a contender that cannot run."""
    if np.isnan(gain[0]):
        return None
    return Gains(gain, benefit, escalated)


def _stream_contenders(result: Result, samples: Samples) -> tuple[Contender, ...]:
    """The causal policies with their samples.

    Results of older versions may not store them.
    """
    gain = samples.stream_gain
    benefit = samples.stream_benefit
    escalated = samples.stream_escalated
    prize = samples.stream_prize
    if gain is None or benefit is None or escalated is None or prize is None:
        return ()
    streamed = []
    for index, row in enumerate(result.streams):
        gains = _gains(gain[index], benefit[index], escalated[index])
        streamed.append(Contender(row, gains, prize[index]))
    return tuple(streamed)


Statistic = Literal["gain", "benefit", "harm"]
STATISTICS: tuple[str, ...] = get_args(Statistic)
POLICIES = ("frozen-threshold", "causal-cap", "adaptive-threshold", "token-bucket")
"""Causal policies, as written after the name of an allocator."""
RANKING = "ranking"
"""Written instead of a policy: the highest scores in hindsight."""
AT = "@"


class Named(NamedTuple):
    """An allocator, and the causal policy that it runs under, if any."""

    allocator: str
    policy: str | None

    @property
    def text(self) -> str:
        """NAME or NAME@POLICY."""
        if self.policy is None:
            return self.allocator
        return f"{self.allocator}{AT}{self.policy}"


def parse_name(name: str) -> Named:
    """The parts of NAME or NAME@POLICY; any other text after an @ belongs to the
    name.
    """
    allocator, _, policy = name.rpartition(AT)
    if allocator and policy in (*POLICIES, RANKING):
        return Named(allocator, None if policy == RANKING else policy)
    return Named(name, None)


def contenders(cell_basis: Basis, name: str) -> dict[BudgetKey, Contender]:
    """The row or stream of a contender under each budget of a result."""
    checks.text(name, "An allocator to compare")
    allocator, policy = parse_name(name)
    # An allocator may itself be called NAME@POLICY.
    rankings = _of_allocator(cell_basis.judged, name)
    if not rankings and policy is None:
        rankings = _of_allocator(cell_basis.judged, allocator)
    if rankings:
        return rankings
    if policy is None:
        names = sorted({item.row.allocator for item in cell_basis.judged})
        raise InputError(
            f"The result has no allocator {allocator!r}; it has "
            f"{', '.join(names)}{suggestion(allocator, names)}"
        )
    if not cell_basis.streamed:
        raise InputError(
            f"{name!r} runs under a causal policy, and the result has none: give "
            f"evaluate calibration units ({argument('calibration')})."
        )
    policies = ("any", policy.replace("-", " "))
    streams = [item for item in cell_basis.streamed if item.row.policy in policies]
    by_budget = _of_allocator(streams, allocator)
    if not by_budget:
        names = dict.fromkeys(item.row.allocator for item in cell_basis.streamed)
        raise InputError(
            f"The result has no streams of {allocator!r}; it has those of "
            f"{', '.join(names)}."
        )
    return by_budget


def _of_allocator(
    items: Sequence[Contender], allocator: str
) -> dict[BudgetKey, Contender]:
    return {item.row.budget: item for item in items if item.row.allocator == allocator}


def part(gains: Gains, of: Statistic) -> PerResample:
    """Gain, benefit or harm (a positive number) in every resample."""
    if of == "gain":
        return gains.gain
    if of == "benefit":
        return gains.benefit
    return gains.benefit - gains.gain


def orient(bounds: Interval | None, of: Statistic) -> Interval | None:
    """The interval oriented so that more is better: harm is negated."""
    if bounds is None or of != "harm":
        return bounds
    return Interval(-bounds.high, -bounds.low)


def check_statistic(of: str) -> None:
    """Raise where `of` is not a statistic."""
    checks.word(of, STATISTICS, "What is compared")


@dataclass(frozen=True, eq=False)
class ComparisonRow(BudgetRecord):
    """One allocator against another under one budget.

    Attributes:
        candidate: The allocator in question.
        baseline: What it is compared with.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        difference: (candidate's gain - baseline's gain) / all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        spread: Standard deviation over the draws.
        loss: The same difference in units of the loss.
        loss_lo: Lower bound of its paired 95 % interval.
        loss_hi: Upper bound.
        unit: Unit in which to read the difference: share, or loss where the all-cheap
            loss is not positive or nearly zero.
        second_lo: Lower bound of the second opinion on the difference, for few or
            unequal units.
        second_hi: Upper bound.
        second_loss_lo: Lower bound of the second opinion on the difference in units of
            the loss.
        second_loss_hi: Upper bound.
        ndg_difference: Difference of the two nDG, where both divide by the same oracle.
        verdict: better, worse or unresolved; infeasible where the candidate cannot pay
            for itself; None without an interval.
        second_verdict: Verdict of the second opinion; None where there is no verdict.
        reason: Why something is None.
        of: What is compared: gain, benefit or harm; the candidate is better where it
            has less harm.
        draws: Number of draws.
        dropped: Draws that could not be compared, because their all-cheap loss is not
            positive.
    """

    candidate: str
    baseline: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    difference: Estimate | None = field(default=None, metadata=LO_HI)
    spread: float | None = None
    loss: Estimate | None = None
    unit: str = "share"
    second: Bounds | None = None
    second_loss: Bounds | None = None
    ndg_difference: float | None = None
    verdict: str | None = None
    second_verdict: str | None = None
    reason: str | None = None
    of: str = "gain"
    draws: int = 0
    dropped: int = 0


def compare(
    result: Result, candidate: str, baseline: str, *, of: Statistic = "gain"
) -> tuple[ComparisonRow, ...]:
    """Paired differences of two contenders of one result with samples, under each
    budget that both have.

    Args:
        result: Fresh from evaluate(), or loaded with its samples.
        candidate: An allocator or reference; `NAME@POLICY` under a causal policy, such
            as `mine@causal-cap`.
        baseline: What it is compared with, likewise.
        of: What is compared: gain, or its parts benefit and harm.
    """
    check_statistic(of)
    cell_basis = basis(checks.instance(result, Result, "What is compared in"))
    ours = contenders(cell_basis, candidate)
    theirs = contenders(cell_basis, baseline)
    totals = cell_basis.totals
    rows = []
    for key, one in ours.items():
        if key in theirs:
            start = ComparisonRow(
                candidate, baseline, **vars(key), of=of, draws=len(totals.draws)
            )
            rows.append(_comparison(start, totals, one, theirs[key], of))
    return tuple(rows)


def _comparison(
    start: ComparisonRow,
    totals: Totals,
    one: Contender,
    other: Contender,
    of: Statistic,
) -> ComparisonRow:
    """A comparison with its figures, or the reason why there are none."""
    if one.gains is None:
        reason = f"{start.candidate}: {one.row.reason}"
        return replace(start, verdict=one.row.verdict, reason=reason)
    if other.gains is None:
        return replace(start, reason=f"{start.baseline}: {other.row.reason}")
    comparison = compare_one(totals, part(one.gains, of), part(other.gains, of))
    share = comparison.share
    loss = comparison.loss
    ndg_difference = None
    unlike = None
    if of == "gain" and one.row.ndg is not None and other.row.ndg is not None:
        if one.oracle == other.oracle:
            ndg_difference = one.row.ndg - other.row.ndg
        else:
            unlike = Reason.OTHER_ORACLES.text(one=one.oracle, other=other.oracle)
    return replace(
        start,
        difference=share.estimate,
        loss=loss.estimate,
        spread=share.spread,
        unit=unit_shown(totals),
        second=bounds_of(share.second),
        second_loss=bounds_of(loss.second),
        ndg_difference=ndg_difference,
        verdict=verdict_of(orient(share.interval, of), orient(loss.interval, of)),
        second_verdict=verdict_of(orient(share.second, of), orient(loss.second, of)),
        reason=joined([reasons(one, other), unlike]),
        dropped=comparison.dropped,
    )


def reasons(*judged: Contender) -> str | None:
    """Why something is None on any side, each reason once."""
    return joined(item.row.reason for item in judged)
