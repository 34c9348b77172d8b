"""The name of an allocator, alone or with a causal policy -> what it reaches in every resample, budget by budget.

`router` is the ranking in hindsight; `router@causal-cap` the same scores under a causal policy, of results that were
given calibration units. What is compared of two contenders is their gain, or benefit and harm apart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from deepval import checks
from deepval.arrays import Float
from deepval.errors import InputError, meant
from deepval.judging.draws import Draws, Interval
from deepval.judging.resamples import Resampling, Sample
from deepval.judging.rows import Judged
from deepval.judging.streams import Streamed
from deepval.judging.totals import Totals
from deepval.results import BudgetKey, Result, Samples


@dataclass(frozen=True, eq=False)
class Basis:
    """What comparing and pooling work on: the totals of every resample, every row and stream with its samples."""

    totals: Totals
    judged: tuple[Judged, ...]
    streamed: tuple[Streamed, ...] = ()


def samples_of(resamples: Resampling, judged: Sequence[Judged], streamed: Sequence[Streamed] = ()) -> Samples:
    """What a result keeps of the samples of its rows and streams."""
    nothing = np.full(len(resamples.counts), np.nan)

    def stacked(part: Callable[[Judged], Float[np.ndarray, "resample"]]) -> Float[np.ndarray, "row resample"]:
        return np.stack([part(item) for item in judged])

    def of_streams(
        part: Callable[[Streamed], Float[np.ndarray, "resample"]],
    ) -> Float[np.ndarray, "stream resample"] | None:
        return np.stack([part(item) for item in streamed]) if streamed else None

    return Samples(
        unit_ids=resamples.unit_ids,
        counts=resamples.draws.counts,
        weights=resamples.draws.weights,
        seed=resamples.draws.seed,
        cheap_loss=resamples.cheap_loss,
        full_gain=resamples.full_gain,
        full_benefit=resamples.full_benefit,
        gain=stacked(lambda item: item.sample.gain if item.sample else nothing),
        benefit=stacked(lambda item: item.sample.benefit if item.sample else nothing),
        escalated=stacked(lambda item: item.sample.escalated if item.sample else nothing),
        prize=stacked(lambda item: item.prize),
        versus_random=stacked(lambda item: item.difference.loss),
        stream_gain=of_streams(lambda item: item.sample.gain if item.sample else nothing),
        stream_benefit=of_streams(lambda item: item.sample.benefit if item.sample else nothing),
        stream_escalated=of_streams(lambda item: item.sample.escalated if item.sample else nothing),
        stream_prize=of_streams(lambda item: item.prize),
    )


def basis(result: Result) -> Basis:
    """What a result rests on; raises where its samples were not kept."""
    held = result.samples
    if held is None:
        raise InputError(
            "Draw by draw comparisons need a result with its samples; this one has none. Take it fresh from "
            "evaluate(), or save it with result.save(path, samples=True)."
        )
    draws = Draws(held.counts, held.weights, held.seed)
    even = result.setting.concentration.effective_units
    totals = Totals(
        held.unit_ids, draws, held.cheap_loss, held.full_gain, held.full_benefit, math.nan if even is None else even
    )
    judged = []
    for index, row in enumerate(result.rows):
        sample = Sample(held.gain[index], held.benefit[index], held.escalated[index])
        runs = not np.isnan(sample.gain[0])
        difference = totals.difference(held.versus_random[index])
        judged.append(Judged(row, sample if runs else None, held.prize[index], difference))
    return Basis(totals, tuple(judged), _streamed(result, held))


def _streamed(result: Result, held: Samples) -> tuple[Streamed, ...]:
    """The streams with their samples; none where they were saved before streams kept theirs."""
    gain, benefit = held.stream_gain, held.stream_benefit
    escalated, prize = held.stream_escalated, held.stream_prize
    if gain is None or benefit is None or escalated is None or prize is None:
        return ()
    found = []
    for index, row in enumerate(result.streams):
        sample = None if np.isnan(gain[index, 0]) else Sample(gain[index], benefit[index], escalated[index])
        found.append(Streamed(row, sample, prize[index]))
    return tuple(found)


Statistic = Literal["gain", "benefit", "harm"]
STATISTICS: tuple[str, ...] = get_args(Statistic)
POLICIES = ("frozen-threshold", "causal-cap", "adaptive-threshold", "token-bucket")
"""Causal policies, as they are written behind a name."""
RANKING = "ranking"
"""What may stand there instead: no policy, the highest scores in hindsight."""
AT = "@"
Contender = Judged | Streamed


class Named(NamedTuple):
    """An allocator, and the causal policy that it runs under, if any."""

    allocator: str
    policy: str | None

    @property
    def text(self) -> str:
        """How the two are written."""
        return self.allocator if self.policy is None else f"{self.allocator}{AT}{self.policy}"


def parsed(name: str) -> Named:
    """NAME or NAME@POLICY; whatever else stands behind an @ is part of the name."""
    allocator, _, policy = name.rpartition(AT)
    if allocator and policy in (*POLICIES, RANKING):
        return Named(allocator, None if policy == RANKING else policy)
    return Named(name, None)


def contenders(held: Basis, name: str) -> dict[BudgetKey, Contender]:
    """What a contender reaches under each budget of a result."""
    checks.text(name, "An allocator to compare")
    rankings = _rankings(held, name)
    allocator, policy = parsed(name)
    if rankings or policy is None:
        rankings = rankings or _rankings(held, allocator)
        if not rankings:
            names = sorted({item.row.allocator for item in held.judged})
            raise InputError(
                f"The result has no allocator {allocator!r}; it has {', '.join(names)}{meant(allocator, names)}"
            )
        return rankings
    if not held.streamed:
        raise InputError(
            f"{name!r} runs under a causal policy, and the result has none: give evaluate() calibration units "
            "(--calibrate)."
        )
    wanted = ("any", policy.replace("-", " "))
    streams = [item for item in held.streamed if item.row.allocator == allocator and item.row.policy in wanted]
    if not streams:
        names = dict.fromkeys(item.row.allocator for item in held.streamed)
        raise InputError(f"The result has no streams of {allocator!r}; it has those of {', '.join(names)}.")
    return {item.row.budget: item for item in streams}


def _rankings(held: Basis, allocator: str) -> dict[BudgetKey, Contender]:
    return {item.row.budget: item for item in held.judged if item.row.allocator == allocator}


def part(sample: Sample, of: Statistic) -> Float[np.ndarray, "resample"]:
    """Gain, benefit or harm (a positive number) in every resample."""
    return {"gain": sample.gain, "benefit": sample.benefit, "harm": sample.benefit - sample.gain}[of]


def oriented(bounds: Interval, of: Statistic) -> Interval:
    """The interval turned so that more is better: less harm is."""
    return Interval(-bounds.high, -bounds.low) if of == "harm" else bounds


def checked(of: str) -> None:
    """Raise where a statistic is none."""
    checks.word(of, STATISTICS, "What is compared")


def oracle_of(contender: Contender) -> str | None:
    """What a contender's nDG divides by: streams have no ladder."""
    return contender.row.oracle if isinstance(contender, Judged) else "oracle"
