"""The name of an allocator, alone or with a causal policy -> what it reaches in every resample, budget by budget.

`router` is the ranking in hindsight; `router@causal-cap` the same scores under a causal policy, of results that were
given calibration units. What is compared of two contenders is their gain, or benefit and harm apart.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from deepval import checks
from deepval.arrays import Float
from deepval.errors import InputError, meant
from deepval.judging.basis import Basis
from deepval.judging.draws import Interval
from deepval.judging.resamples import Sample
from deepval.judging.rows import Judged
from deepval.judging.streams import Streamed
from deepval.results import BudgetKey

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
