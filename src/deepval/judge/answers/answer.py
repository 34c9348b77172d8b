"""What should I run under one budget? One answer: run, do not run, or not settled.

Before there is any score: does the dearer mode help, how much, and where not?
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.judge.allowances import Allowance
from deepval.judge.answers.blind import BlindModes, OnTop, allowed, fits
from deepval.judge.answers.leads import AnswerVerdict, Lead, Scale, leads
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.differences import Figure
from deepval.judge.intervals import verdict_of
from deepval.judge.judgement import Contest
from deepval.judge.policies import Policy, Ranking

POWER = 0.84
"""Spreads beyond the bound at which four in five samples settle it."""
MOST_DATA = 10
"""More than this many times the units is not advice."""


@dataclass(frozen=True)
class Fixed:
    """One mode on every input.

    Attributes:
        mode: The mode.
        gain: Over the cheap mode, in the scale of the words.
        total: The same in units of the loss, over all inputs.
        spend: Beyond the cheap mode, per input.
        fits: Whether the budget pays for it.
    """

    mode: str
    gain: Figure
    total: float
    spend: float
    fits: bool


@dataclass(frozen=True, eq=False)
class Decision:
    """What to run under one budget.

    Attributes:
        verdict: run, do not run, or not settled.
        allowance: The budget.
        judged: All compared allocators, the candidate first; none where none can run.
        others: Allocators that are not the user's own, where those are named.
        refused: Why each other allocator is not judged.
        fixed: Every mode on all inputs, cheap first.
        best_fixed: The best of those that fit.
        more_units: How many more units would settle it; None where it is settled, or
            where more than ten times as many would be needed.
        on_top: The candidate's score on a better base, where that is worth running.
    """

    verdict: AnswerVerdict
    allowance: Allowance
    judged: tuple[Lead, ...]
    others: tuple[Lead, ...]
    refused: tuple[tuple[str, str], ...]
    fixed: tuple[Fixed, ...]
    best_fixed: Fixed
    more_units: int | None
    on_top: Lead | None

    @property
    def candidate(self) -> Lead | None:
        """The allocator that the verdict is about; None where none can run."""
        return self.judged[0] if self.judged else None


def decide(
    bootstrap: Bootstrap,
    contest: Contest,
    *,
    own: Collection[str] = (),
    never: Collection[str] = (),
) -> Decision:
    """The answer under one budget, which was named before the results were seen.

    Args:
        bootstrap: The resamples.
        contest: The allocators and references under the budget.
        own: The user's own allocators, which alone may become the candidate; of none
            all that can be deployed.
        never: Diagnostics, which cannot be deployed.
    """
    entrants, refused = _entrants(contest, never)
    allowance = contest.allowance
    named = [one for one in entrants if is_own(one[0].name, own)]
    rest = [one for one in entrants if not is_own(one[0].name, own)]
    judged = leads(bootstrap, allowance, named)
    fixed = fixed_modes(bootstrap, allowance)
    # Of modes that gain the same, the cheaper stands first, and max keeps it.
    best_fixed = max([mode for mode in fixed if mode.fits], key=lambda mode: mode.total)
    verdict = _verdict(judged)
    if not judged and _is_unaffordable(contest, own, never):
        verdict = "do not run"
    on_top = None
    if verdict != "run":
        on_top = _on_top(bootstrap, allowance, [policy for policy, _ in named])
    return Decision(
        verdict=verdict,
        allowance=allowance,
        judged=tuple(judged),
        others=tuple(leads(bootstrap, allowance, rest)),
        refused=tuple(refused),
        fixed=tuple(fixed),
        best_fixed=best_fixed,
        more_units=_more_units(bootstrap, judged[0], verdict) if judged else None,
        on_top=on_top,
    )


def is_own(allocator: str, own: Collection[str]) -> bool:
    """Whether an allocator may become the candidate: all may where none is named."""
    return allocator in own or not own


def _entrants(
    contest: Contest, never: Collection[str]
) -> tuple[list[tuple[Policy, Gains]], list[tuple[str, str]]]:
    """The allocators that can run with their gains, and why others cannot."""
    entrants = []
    refused = []
    for entry in contest.entries:
        if entry.policy.is_reference or entry.policy.name in never:
            continue
        if entry.outcome.gains is None:
            refused.append((entry.policy.name, entry.judgement.reason or ""))
        else:
            entrants.append((entry.policy, entry.outcome.gains))
    return entrants, refused


def _is_unaffordable(
    contest: Contest, own: Collection[str], never: Collection[str]
) -> bool:
    """Whether every allocator that may become the candidate costs more than the budget.

    One whose cost is not known may be worth running.
    """
    refusals = [
        entry.judgement.refusal
        for entry in contest.entries
        if not entry.policy.is_reference
        and entry.policy.name not in never
        and is_own(entry.policy.name, own)
    ]
    return bool(refusals) and set(refusals) == {"infeasible"}


def _verdict(judged: Sequence[Lead]) -> AnswerVerdict:
    """The verdict on all compared allocators, the candidate first."""
    if not judged:
        return "not settled"
    # A verdict on the candidate denies the others only if each is denied itself.
    if judged[0].verdict == "do not run" and any(
        other.verdict != "do not run" for other in judged
    ):
        return "not settled"
    return judged[0].verdict


def fixed_modes(bootstrap: Bootstrap, allowance: Allowance) -> list[Fixed]:
    """Every mode on all inputs, with what it gains and costs."""
    modes = BlindModes.of(bootstrap, allowance)
    scale = Scale.of(bootstrap)
    limit = float(allowed(bootstrap, allowance)[0])
    gains = scale.figures(bootstrap, modes.gain[:, : bootstrap.drawn.stop])
    fixed = []
    for number, name in enumerate(modes.names):
        cost = float(modes.cost[number, 0])
        fixed.append(
            Fixed(
                mode=name,
                gain=gains[number],
                total=float(modes.gain[number, 0]),
                spend=cost / float(bootstrap.inputs[0]),
                # The cheap mode is where every budget begins.
                fits=number == 0 or fits(cost, limit),
            )
        )
    return fixed


def _on_top(
    bootstrap: Bootstrap, allowance: Allowance, allocators: Sequence[Policy]
) -> Lead | None:
    """The same scores on better bases: the best that is worth running, if any is.

    All scores on all bases are compared at once, so that the hint is no lucky find.
    """
    # The cheap mode is the base already, and the full one leaves nothing to buy.
    bases = bootstrap.modes[1:-1]
    entrants: list[tuple[Policy, Gains]] = []
    for policy in allocators:
        if not isinstance(policy, Ranking):
            continue
        for base in bases:
            variant = OnTop(policy, base)
            gains = variant.outcomes(bootstrap, [allowance])[0].gains
            if gains is not None:
                entrants.append((variant, gains))
    judged = leads(bootstrap, allowance, entrants)
    if judged and judged[0].verdict == "run":
        return judged[0]
    return None


def _more_units(
    bootstrap: Bootstrap, candidate: Lead, verdict: AnswerVerdict
) -> int | None:
    """How many more units like these would settle a lead as large as this one.

    The distance from the lead to its bound shrinks with the square root of the number
    of units. It has to be shorter than the lead by POWER spreads.
    """
    lead = candidate.margin.value
    bounds = candidate.margin.bounds
    if verdict != "not settled" or bounds is None or lead == 0:
        return None
    # Of the two bounds, the one that has to pass 0.
    distance = bounds.high - lead
    if lead > 0:
        distance = lead - bounds.low
    spread = candidate.margin.figure.spread or 0.0  # None where there are no draws
    shrink = (distance + POWER * spread) / lead
    units = len(bootstrap.unit_ids)
    needed = units * shrink**2
    if needed > MOST_DATA * units:
        return None
    return max(1, math.ceil(needed) - units)


HelpVerdict = Literal["helps", "harms", "not settled"]


@dataclass(frozen=True)
class Room:
    """What a score could add under one budget: it lies between these two gains.

    Attributes:
        alpha: The share that the budget allows.
        perfect: What the oracle gains, in the scale of the words.
        blind: What the best blind mixture gains.
    """

    alpha: float
    perfect: float
    blind: float


@dataclass(frozen=True)
class UnitGain:
    """What the full mode gains in one unit.

    Attributes:
        unit: Its id.
        gain: Sum of decision values, in units of the loss.
        share: The same as a share of the gain of all units; None where all of them
            together gain nothing.
    """

    unit: str
    gain: float
    share: float | None


@dataclass(frozen=True)
class Help:
    """Whether the dearer mode helps, how much a router could gain, where it hurts.

    Attributes:
        verdict: Whether the full mode on every input is better than the cheap one.
        gain: Of the full mode on all inputs, in the scale of the words.
        changed: Inputs on which the two differ.
        helped: Those on which the full mode is better.
        harm_ratio: What it loses where it harms, by what it gains where it helps.
        room: What the oracle and the best blind mixture gain, budget by budget.
        largest: The unit that gains most; None where all units gain nothing.
        worse: Units in which the full mode is worse, the worst first.
    """

    verdict: HelpVerdict
    gain: Figure
    changed: int
    helped: int
    harm_ratio: float | None
    room: tuple[Room, ...]
    largest: UnitGain | None
    worse: tuple[UnitGain, ...]


def without_a_score(bootstrap: Bootstrap, contests: Sequence[Contest]) -> Help:
    """The answer on losses alone."""
    scale = Scale.of(bootstrap)
    sums = bootstrap.full_gain[None, : bootstrap.drawn.stop]
    gain = scale.figures(bootstrap, sums)[0]
    values = bootstrap.table.decision_values
    tolerance = bootstrap.table.tolerance

    benefit = float(bootstrap.full_benefit[0])
    harm = max(0.0, benefit - float(bootstrap.full_gain[0]))
    units = _unit_gains(bootstrap)
    # Of units that gain the same, the first is named.
    largest: UnitGain | None = max(units, key=lambda one: one.gain)
    if largest.share is None:
        largest = None
    return Help(
        verdict=_help_verdict(gain),
        gain=gain,
        changed=int(np.count_nonzero(np.abs(values) > tolerance)),
        helped=int(np.count_nonzero(values > tolerance)),
        harm_ratio=harm / benefit if benefit > 0 else None,
        room=_room(bootstrap, contests, scale),
        largest=largest,
        worse=tuple(unit for unit in units if unit.gain < 0),
    )


def _help_verdict(gain: Figure) -> HelpVerdict:
    """Whether the full mode helps in new units; both intervals have to agree.

    The second opinion is wider where few units hold most of the gain: what is so in
    these units may not be so in others.
    """
    verdicts = {verdict_of(gain.interval), verdict_of(gain.second)}
    if verdicts == {"better"}:
        return "helps"
    if verdicts == {"worse"}:
        return "harms"
    return "not settled"


def _room(
    bootstrap: Bootstrap, contests: Sequence[Contest], scale: Scale
) -> tuple[Room, ...]:
    """What a perfect router and a blind choice gain under every budget."""
    oracle = "oracle" if len(bootstrap.modes) == 2 else "oracle-ladder"
    rooms = []
    for contest in contests:
        if contest.allowance.spender is not None:
            continue
        perfect = contest.gains(oracle).gain[:1]
        blind = _best_blind(bootstrap, contest.allowance)
        gain = np.stack([perfect, np.array([blind])])
        perfect_shown, blind_shown = scale.samples(bootstrap, gain)[:, 0].tolist()
        alpha = contest.allowance.budget.alpha
        rooms.append(Room(alpha, perfect_shown, blind_shown))
    return tuple(rooms)


def _best_blind(bootstrap: Bootstrap, allowance: Allowance) -> float:
    """What the best blind mixture gains in the sample."""
    limit = allowed(bootstrap, allowance)[None]
    return float(BlindModes.of(bootstrap, allowance).mixtures(limit).gain[0, 0])


def _unit_gains(bootstrap: Bootstrap) -> list[UnitGain]:
    """What the full mode gains in every unit, the smallest first."""
    gains = bootstrap.by_unit.full_gain
    total = float(gains.sum())
    units = []
    for unit in np.argsort(gains, kind="stable").tolist():
        gain = float(gains[unit])
        share = gain / total if total > 0 else None
        units.append(UnitGain(bootstrap.unit_ids[unit], gain, share))
    return units
