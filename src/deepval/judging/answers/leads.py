"""Every allocator against the best blind choice: is it worth running?

An allocator is worth running if it gains more than a choice that spends as much without
looking at the inputs. The difference is its *lead*, taken anew in every draw:

    lead = gain - H(own spend), where H is the gain of the best blind mixture
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.arrays import PerResample, ResampleRows
from deepval.judging.allowances import Allowance
from deepval.judging.answers.blind import BlindModes, spent
from deepval.judging.answers.scale import (
    Scale,
    bounds_at_once,
    figures_of,
    is_above_zero,
    is_below_zero,
)
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.differences import Figure
from deepval.judging.gains import Gains
from deepval.judging.intervals import Interval
from deepval.judging.policies import Policy

FEW_UNITS = 5.0
"""Effective units below which percentiles alone say `run` of noise too often."""

AnswerVerdict = Literal["run", "do not run", "not settled"]
"""The only three words. Every view of a result prints one of them."""


@dataclass(frozen=True)
class Mixture:
    """A blind mixture: the dearer mode on a random share, the other on the rest.

    Attributes:
        low: Number of the cheaper mode.
        high: Number of the dearer one.
        share: Share of the inputs that get the dearer one.
    """

    low: int
    high: int
    share: float


@dataclass(frozen=True)
class Margin:
    """A lead with its intervals, in one scale.

    Attributes:
        figure: The lead, with its own 95 % interval and second opinion.
        at_once: The interval that holds for all compared at once.
        is_on_few: Whether fewer than FEW_UNITS effective units decide.
    """

    figure: Figure
    at_once: Interval | None
    is_on_few: bool

    @property
    def value(self) -> float:
        """The lead; 0 where it is undefined."""
        return self.figure.value or 0.0

    @property
    def verdict(self) -> AnswerVerdict:
        """The verdict on an allocator, if it was picked among those compared.

        One lucky allocator makes `run` wrong, so that needs the bound for all at once,
        and the second opinion where few units decide. `Do not run` denies each for
        itself, so its own interval serves; but two calls of a dear mode can decide it,
        so the second opinion always has to agree.
        """
        if is_above_zero(self.at_once):
            if self.is_on_few and not is_above_zero(self.figure.second):
                return "not settled"
            return "run"
        if is_below_zero(self.figure.interval) and is_below_zero(self.figure.second):
            return "do not run"
        return "not settled"

    @property
    def bounds(self) -> Interval | None:
        """The interval that decides the verdict, which is the one to show."""
        verdict = self.verdict
        if verdict == "run":
            return self.at_once
        if verdict == "do not run" or self.at_once is None:
            return self.figure.interval
        if is_above_zero(self.at_once):
            # Only the second opinion stands between it and `run`.
            return self.figure.second
        if self.value > 0:
            return self.at_once
        # It is nearer to `do not run`, which rests on one of these two.
        if is_below_zero(self.figure.interval):
            return self.figure.second
        return self.figure.interval


@dataclass(frozen=True, eq=False)
class Lead:
    """One allocator against the best blind mixture at its own spend.

    Attributes:
        policy: The allocator.
        gain: Over the cheap mode, in the scale of the words.
        total: The same in units of the loss, over all inputs.
        margin: Its lead over the best blind mixture, in the scale of the words.
        of_rows: The same as rows show differences.
        spend: Beyond the cheap mode, per input.
        blind: What the best blind mixture gains, in the scale of the words.
        mixture: That mixture.
    """

    policy: Policy
    gain: float
    total: float
    margin: Margin
    of_rows: Margin
    spend: float
    blind: float
    mixture: Mixture

    @property
    def name(self) -> str:
        """Its name."""
        return self.policy.name

    @property
    def verdict(self) -> AnswerVerdict:
        """The verdict on it, if it was picked among those compared."""
        return self.margin.verdict

    @property
    def rank(self) -> tuple[bool, float]:
        """Those to run by their lead; below them the others by their lower bound."""
        is_to_run = self.verdict == "run"
        if not is_to_run and self.margin.at_once is not None:
            return is_to_run, self.margin.at_once.low
        return is_to_run, self.margin.value


def leads(
    bootstrap: Bootstrap,
    allowance: Allowance,
    entrants: Sequence[tuple[Policy, Gains]],
    spends: Sequence[PerResample] | None = None,
) -> list[Lead]:
    """The leads of allocators that are compared with each other, the best first.

    Of those shown to be better than blind it is the one with the largest lead; the
    bounds hold for all at once, so any of them could be named. Of others it is the one
    with the largest lower bound: not the best looking one, but the nearest to a `run`.

    Args:
        bootstrap: The resamples.
        allowance: The budget.
        entrants: The allocators with what they gain.
        spends: What each of them spends, where that is known already.
    """
    if not entrants or (bootstrap.rows is None and len(bootstrap.modes) > 2):
        return []
    gain = np.stack([gains.gain for _, gains in entrants])
    if spends is None:
        spends = [spent(one, gains, bootstrap, allowance) for one, gains in entrants]
    spend = np.stack(spends)
    mixtures = BlindModes.of(bootstrap, allowance).mixtures(spend)
    # Paired: gain, blind gain and divisor come from the same draw.
    difference = (gain - mixtures.gain)[:, : bootstrap.drawn.stop]
    scale = Scale.of(bootstrap)
    margins = _margins(bootstrap, scale, difference)
    scale_of_rows = Scale.of_rows(bootstrap)
    margins_of_rows = margins
    if scale_of_rows.kind != scale.kind:
        margins_of_rows = _margins(bootstrap, scale_of_rows, difference)

    gain_shown = scale.samples(bootstrap, gain[:, :1])[:, 0].tolist()
    blind_shown = scale.samples(bootstrap, mixtures.gain[:, :1])[:, 0].tolist()
    inputs = float(bootstrap.inputs[0])
    found = []
    for row, (policy, _) in enumerate(entrants):
        mixture = Mixture(mixtures.low[row], mixtures.high[row], mixtures.share[row])
        found.append(
            Lead(
                policy=policy,
                gain=gain_shown[row],
                total=float(gain[row, 0]),
                margin=margins[row],
                of_rows=margins_of_rows[row],
                spend=float(spend[row, 0]) / inputs,
                blind=blind_shown[row],
                mixture=mixture,
            )
        )
    return sorted(found, key=lambda one: one.rank, reverse=True)


def _margins(
    bootstrap: Bootstrap, scale: Scale, difference: ResampleRows
) -> list[Margin]:
    """Leads in a scale, with their own intervals and those that hold at once."""
    samples = scale.samples(bootstrap, difference)
    figures = figures_of(bootstrap, samples)
    at_once = bounds_at_once(bootstrap, samples)
    is_on_few = bool(bootstrap.effective_units < FEW_UNITS)
    return [
        Margin(figure, bounds, is_on_few)
        for figure, bounds in zip(figures, at_once, strict=True)
    ]
