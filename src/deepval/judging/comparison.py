"""A result with samples -> the difference between two of its allocators, paired draw by
draw.

`router` is the ranking in hindsight; `router@causal-cap` is the same scores under a
causal policy, which needs a result with calibration units. Two contenders are compared
by gain, or by benefit or harm alone.

Over all shares of the inputs at once, allocators are summarised by their gain curves:
APGR, CPTs, areas between curves. A gain curve is the expected sum of decision values
over the highest scores against the share of inputs escalated: linear within a group of
equal scores, so its area and its first crossing of a level are exact in every draw.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from deepval import checks
from deepval.arrays import Bool, Float
from deepval.checks import share_of_inputs
from deepval.errors import InputError, suggestion
from deepval.judging.draws import Draws, Interval
from deepval.judging.oracle import runs
from deepval.judging.resamples import Resamples, Resampling, Sample, Totals
from deepval.judging.rows import Judged
from deepval.judging.stream_rows import Streamed
from deepval.results import (
    LO_HI,
    Area,
    Bounds,
    BudgetKey,
    BudgetRecord,
    CallShare,
    Estimate,
    Reason,
    Recovery,
    Result,
    Samples,
    joined,
    known,
)
from deepval.tables.scores import Scores


@dataclass(frozen=True, eq=False)
class Basis:
    """The data for comparing and pooling: totals of every resample, and every row and
    stream with its samples.
    """

    totals: Totals
    judged: tuple[Judged, ...]
    streamed: tuple[Streamed, ...] = ()


def samples_of(
    resamples: Resampling, judged: Sequence[Judged], streamed: Sequence[Streamed] = ()
) -> Samples:
    """The samples of rows and streams, as a result stores them."""
    nothing = np.full(len(resamples.counts), np.nan)
    arrays = {
        f"{prefix}{name}": np.stack(
            [getattr(item.sample, name) if item.sample else nothing for item in items]
        )
        for prefix, items in (("", judged), ("stream_", streamed))
        for name in ("gain", "benefit", "escalated")
        if items
    }
    if streamed:
        arrays["stream_prize"] = np.stack([item.prize for item in streamed])
    return Samples(
        unit_ids=resamples.unit_ids,
        counts=resamples.draws.counts,
        weights=resamples.draws.weights,
        seed=resamples.draws.seed,
        cheap_loss=resamples.cheap_loss,
        full_gain=resamples.full_gain,
        full_benefit=resamples.full_benefit,
        prize=np.stack([item.prize for item in judged]),
        versus_random=np.stack([item.difference.loss for item in judged]),
        **arrays,
    )


def basis(result: Result) -> Basis:
    """The basis of a result; raises where the result has no samples."""
    samples = result.samples
    if samples is None:
        raise InputError(
            "Draw by draw comparisons need a result with its samples; this one has "
            "none. Take it fresh from evaluate(), or save it with result.save(path, "
            "samples=True)."
        )
    draws = Draws(samples.counts, samples.weights, samples.seed)
    even = result.setting.concentration.effective_units
    totals = Totals(
        samples.unit_ids,
        draws,
        samples.cheap_loss,
        samples.full_gain,
        samples.full_benefit,
        math.nan if even is None else even,
    )
    judged = []
    for index, row in enumerate(result.rows):
        sample = Sample(
            samples.gain[index], samples.benefit[index], samples.escalated[index]
        )
        runs = not np.isnan(sample.gain[0])
        difference = totals.difference(samples.versus_random[index])
        judged.append(
            Judged(row, sample if runs else None, samples.prize[index], difference)
        )
    return Basis(totals, tuple(judged), _stream_contenders(result, samples))


def _stream_contenders(result: Result, samples: Samples) -> tuple[Streamed, ...]:
    """The streams with their samples; results of older versions may not store them."""
    gain, benefit = samples.stream_gain, samples.stream_benefit
    escalated, prize = samples.stream_escalated, samples.stream_prize
    if gain is None or benefit is None or escalated is None or prize is None:
        return ()
    streamed = []
    for index, row in enumerate(result.streams):
        sample = (
            None
            if np.isnan(gain[index, 0])
            else Sample(gain[index], benefit[index], escalated[index])
        )
        streamed.append(Streamed(row, sample, prize[index]))
    return tuple(streamed)


Statistic = Literal["gain", "benefit", "harm"]
STATISTICS: tuple[str, ...] = get_args(Statistic)
POLICIES = ("frozen-threshold", "causal-cap", "adaptive-threshold", "token-bucket")
"""Causal policies, as written after the name of an allocator."""
RANKING = "ranking"
"""Written instead of a policy: the highest scores in hindsight."""
AT = "@"
Contender = Judged | Streamed


class Named(NamedTuple):
    """An allocator, and the causal policy that it runs under, if any."""

    allocator: str
    policy: str | None

    @property
    def text(self) -> str:
        """NAME or NAME@POLICY."""
        return (
            self.allocator
            if self.policy is None
            else f"{self.allocator}{AT}{self.policy}"
        )


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
    rankings = _rankings(cell_basis, name)
    allocator, policy = parse_name(name)
    if rankings or policy is None:
        rankings = rankings or _rankings(cell_basis, allocator)
        if not rankings:
            names = sorted({item.row.allocator for item in cell_basis.judged})
            raise InputError(
                "The result has no "
                "allocator "
                f"{allocator!r}; "
                f"it has {', '.join(names)}{suggestion(allocator, names)}"
            )
        return rankings
    if not cell_basis.streamed:
        raise InputError(
            f"{name!r} runs under a causal policy, and the result has none: give "
            "evaluate() calibration units (--calibrate)."
        )
    policies = ("any", policy.replace("-", " "))
    streams = [
        item
        for item in cell_basis.streamed
        if item.row.allocator == allocator and item.row.policy in policies
    ]
    if not streams:
        names = dict.fromkeys(item.row.allocator for item in cell_basis.streamed)
        raise InputError(
            "The result has no streams "
            f"of {allocator!r}; it has those of {', '.join(names)}."
        )
    return {item.row.budget: item for item in streams}


def _rankings(cell_basis: Basis, allocator: str) -> dict[BudgetKey, Contender]:
    return {
        item.row.budget: item
        for item in cell_basis.judged
        if item.row.allocator == allocator
    }


def part(sample: Sample, of: Statistic) -> Float[np.ndarray, "resample"]:
    """Gain, benefit or harm (a positive number) in every resample."""
    return {
        "gain": sample.gain,
        "benefit": sample.benefit,
        "harm": sample.benefit - sample.gain,
    }[of]


def orient(bounds: Interval, of: Statistic) -> Interval:
    """The interval oriented so that more is better: harm is negated."""
    return Interval(-bounds.high, -bounds.low) if of == "harm" else bounds


def check_statistic(of: str) -> None:
    """Raise where `of` is not a statistic."""
    checks.word(of, STATISTICS, "What is compared")


def oracle_of(contender: Contender) -> str | None:
    """The oracle that a contender's nDG divides by; for streams, always the oracle over
    the full mode only.
    """
    return contender.row.oracle if isinstance(contender, Judged) else "oracle"


@dataclass(frozen=True, eq=False)
class Comparison(BudgetRecord):
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
) -> tuple[Comparison, ...]:
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
    ours, theirs = contenders(cell_basis, candidate), contenders(cell_basis, baseline)
    names = candidate, baseline
    return tuple(
        _comparison(cell_basis, names, ours[key], theirs[key], of=of)
        for key in ours
        if key in theirs
    )


def _comparison(
    cell_basis: Basis,
    names: tuple[str, str],
    one: Contender,
    other: Contender,
    *,
    of: Statistic,
) -> Comparison:
    row, re = one.row, cell_basis.totals
    candidate, baseline = names
    start: dict[str, Any] = {"candidate": candidate, "baseline": baseline} | vars(
        row.budget
    )
    start |= {"of": of, "draws": len(re.draws)}
    if one.sample is None or other.sample is None:
        missing, reason = (
            (candidate, row.reason)
            if one.sample is None
            else (baseline, other.row.reason)
        )
        verdict = row.verdict if one.sample is None else None
        return Comparison(**start, verdict=verdict, reason=f"{missing}: {reason}")
    paired = re.paired_difference(part(one.sample, of), part(other.sample, of))
    bounds = re.versus(paired)
    both = of == "gain" and row.ndg is not None and other.row.ndg is not None
    ours, theirs = oracle_of(one), oracle_of(other)
    alike = ours == theirs
    unlike = (
        Reason.OTHER_ORACLES.text(one=ours, other=theirs)
        if both and not alike
        else None
    )
    return Comparison(
        **start,
        difference=bounds.share.estimate(paired.share[0]),
        loss=bounds.loss.estimate(paired.loss[0]),
        spread=known(re.draws.spread(paired.share[re.drawn])) if re.resampled else None,
        unit=re.unit_shown,
        second=bounds.second_share.bounds,
        second_loss=bounds.second_loss.bounds,
        ndg_difference=(row.ndg or 0.0) - (other.row.ndg or 0.0)
        if both and alike
        else None,
        verdict=orient(bounds.share, of).verdict or orient(bounds.loss, of).verdict,
        second_verdict=orient(bounds.second_share, of).verdict
        or orient(bounds.second_loss, of).verdict,
        reason=joined([reasons(one, other), unlike]),
        dropped=bounds.dropped,
    )


def reasons(*judged: Contender) -> str | None:
    """Why something is None on any side, each reason once."""
    return joined(item.row.reason for item in judged)


RECOVERED = (0.2, 0.5, 0.8)
"""Parts of the gap at which the share of calls is reported, as in RouteLLM."""
RANDOM, ORACLE = "random", "oracle"


@dataclass(frozen=True, eq=False)
class Fresh:
    """Data of a fresh result for whole curves: the resamples and the judged scores."""

    resamples: Resamples
    scores: tuple[Scores, ...]

    @property
    def gap(self) -> Bool[np.ndarray, "resample"]:
        """Whether the full mode has less total loss than the cheap one in each
        resample, beyond rounding error.
        """
        re = self.resamples
        return re.full_gain > 1e-12 * (2 * re.full_benefit - re.full_gain)


class _Curve(NamedTuple):
    """A gain curve in every resample: its area, in units of the loss, and the shares at
    which it reaches levels.
    """

    area: Float[np.ndarray, "resample"]
    reached: Float[np.ndarray, "resample level"]


def _curve(fresh: Fresh, name: str, levels: Sequence[float] = ()) -> _Curve:
    re = fresh.resamples
    if name == RANDOM:
        return _Curve(
            re.full_gain / 2,
            np.broadcast_to(np.array(levels), (len(re.counts), len(levels))),
        )
    values = re.table.decision_values
    if name == ORACLE:
        score, values = values, re.benefits
    else:
        score = _scores(fresh, name).values
    area, reached = (
        np.zeros(len(re.counts)),
        np.full((len(re.counts), len(levels)), np.nan),
    )
    number = np.maximum(re.inputs, 1.0)
    for part, (count, value) in runs(
        score, [np.ones(len(score)), values], re.table.unit, counts=re.counts
    ):
        before = np.cumsum(value, axis=1) - value
        area[part] = (count * (before + value / 2)).sum(axis=1) / number[part]
        for column, level in enumerate(levels):
            target = level * re.full_gain[part]
            over = before + value >= target[:, None] * (1 - 1e-12)
            at = over.argmax(axis=1)[:, None]
            start, rise, width, done = (
                np.take_along_axis(column_values, at, axis=1)[:, 0]
                for column_values in (
                    before,
                    value,
                    count,
                    np.cumsum(count, axis=1) - count,
                )
            )
            inside = np.divide(
                target - start, rise, out=np.zeros(len(rise)), where=rise > 0
            )
            share = (done + np.clip(inside, 0.0, 1.0) * width) / number[part]
            reached[part, column] = np.where(
                over.any(axis=1) & fresh.gap[part], share, np.nan
            )
    return _Curve(area, reached)


def _scores(fresh: Fresh, name: str) -> Scores:
    plain = {item.name: item for item in fresh.scores if not item.modes}
    if name not in plain:
        raise InputError(
            "A gain curve needs an allocator with one score per input; it must be one "
            "of "
            f"{', '.join([*plain, RANDOM, ORACLE])}; "
            f"found {name!r}{suggestion(name, plain)}"
        )
    return plain[name]


def recoveries(
    fresh: Fresh, levels: Sequence[float] = RECOVERED
) -> tuple[Recovery, ...]:
    """APGR and call-performance thresholds of every allocator with one score per input,
    and of the oracle.
    """
    levels = [share_of_inputs(level) for level in levels]
    names = [item.name for item in fresh.scores if not item.modes]
    return tuple(_recovery(fresh, name, levels) for name in [*names, ORACLE])


def _recovery(fresh: Fresh, name: str, levels: Sequence[float]) -> Recovery:
    re, gap = fresh.resamples, fresh.gap
    curve = _curve(fresh, name, levels)
    apgr = np.divide(
        curve.area, re.full_gain, out=np.full(len(curve.area), np.nan), where=gap
    )
    drawn = apgr[re.drawn]
    selected = ~np.isnan(drawn) & re.resampled & bool(gap[0])
    bounds, ahead = (
        re.draws.interval(drawn, selected),
        re.draws.interval(drawn - 0.5, selected).snap(),
    )
    reasons = [] if gap[0] else [Reason.NO_GAP]
    reasons += (
        []
        if re.resampled
        else [Reason.SINGLE_UNIT if len(re.draws) else Reason.NO_DRAWS]
    )
    calls = []
    for column, level in enumerate(levels):
        share = curve.reached[:, column]
        of = re.draws.interval(share[re.drawn], selected & ~np.isnan(share[re.drawn]))
        calls.append(CallShare(level, of.estimate(share[0])))
    return Recovery(
        allocator=name,
        apgr=bounds.estimate(apgr[0]),
        versus_random=ahead.estimate(apgr[0] - 0.5),
        verdict=None if name == ORACLE else ahead.verdict,
        calls=tuple(calls),
        draws=len(re.draws),
        dropped=int(np.count_nonzero(np.isnan(drawn))) if re.resampled else 0,
        reason=joined(reasons),
    )


def area(fresh: Fresh, candidate: str, baseline: str) -> Area:
    """The area between two gain curves, paired within every draw of units."""
    re = fresh.resamples
    paired = re.paired_difference(
        *(_curve(fresh, name).area for name in (candidate, baseline))
    )
    bounds = re.versus(paired)
    return Area(
        candidate=candidate,
        baseline=baseline,
        difference=bounds.share.estimate(paired.share[0]),
        loss=bounds.loss.estimate(paired.loss[0]),
        unit=re.unit_shown,
        verdict=bounds.verdict,
        draws=len(re.draws),
        dropped=bounds.dropped,
        reason=joined(re.undefined()),
    )
