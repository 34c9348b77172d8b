"""The answer before there is any score: does the dearer mode help, and where not?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.judging.allowances import Allowance
from deepval.judging.answers.blind import BlindModes, allowed
from deepval.judging.answers.scale import Scale, is_above_zero, is_below_zero
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.differences import Figure
from deepval.judging.judgement import Contest

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
        verdict=_verdict(gain),
        gain=gain,
        changed=int(np.count_nonzero(np.abs(values) > tolerance)),
        helped=int(np.count_nonzero(values > tolerance)),
        harm_ratio=harm / benefit if benefit > 0 else None,
        room=_room(bootstrap, contests, scale),
        largest=largest,
        worse=tuple(unit for unit in units if unit.gain < 0),
    )


def _verdict(gain: Figure) -> HelpVerdict:
    """Whether the full mode helps in new units; both intervals have to agree.

    The second opinion is wider where few units hold most of the gain: what is so in
    these units may not be so in others.
    """
    if is_above_zero(gain.interval) and is_above_zero(gain.second):
        return "helps"
    if is_below_zero(gain.interval) and is_below_zero(gain.second):
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
