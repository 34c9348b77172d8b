"""A floor: how good an option must be, as a quality relative to that of other modes.

    keep 99 %           quality >= 0.99 x quality of the dearest mode
    at least 0.83       quality >= 0.83
    at least MODE-1pt   quality >= quality of MODE - 0.01

Quality is the share of right answers or the mean reward. Of losses it is the gain over
the cheap mode: to keep 99 % is to lose at most 1 % of the gain from cheap to dear.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import PerResample, ResampleRows
from deepval.basics.errors import InputError, argument, quote
from deepval.judge.answers.leads import Scale
from deepval.judge.bootstrap import Bootstrap

MODE_AND_POINTS = re.compile(r"(?P<mode>.+?)(-(?P<points>\d+(\.\d+)?) ?pt)?")


@dataclass(frozen=True)
class Floor:
    """What quality must be reached.

    Attributes:
        share: Share of the quality of `mode` that must be kept; None where a
            difference counts.
        mode: The mode it is relative to; None for a quality of its own.
        quality: The quality, or what is added to that of the mode.
    """

    share: float | None = None
    mode: str | None = None
    quality: float = 0.0

    @classmethod
    def of(
        cls, keep: object, at_least: object, modes: Sequence[str], dearest: str
    ) -> "Floor":
        """The floor in the words of a user: exactly one of the two is stated.

        >>> Floor.of(None, "gpt-4-1.5pt", ["yi", "gpt-4"], "gpt-4")
        Floor(share=None, mode='gpt-4', quality=-0.015)
        """
        if (keep is None) == (at_least is None):
            raise InputError(
                f"{argument('keep')} and {argument('at_least')} are two floors: give "
                "one."
            )
        if keep is not None:
            share = _number(keep, argument("keep"))
            if not 0 <= share <= 1:
                raise InputError(
                    f"{argument('keep')} must be a share from 0 to 1, such as 99% or "
                    "0.99; "
                    f"found {quote(keep)}."
                )
            return cls(share=share, mode=dearest)
        if isinstance(at_least, str):
            named = MODE_AND_POINTS.fullmatch(at_least.strip())
            # A mode may be called gpt-4-1pt itself.
            if at_least in modes:
                return cls(mode=at_least)
            if named is not None and named["mode"] in modes:
                points = float(named["points"] or 0)
                return cls(mode=named["mode"], quality=-points / 100)
        try:
            return cls(quality=_number(at_least, argument("at_least")))
        except InputError:
            raise InputError(
                f"{argument('at_least')} must be a quality such as 0.83, or a mode "
                f"such as {dearest} or {dearest}-1pt; found {quote(at_least)}, the "
                f"modes are {', '.join(modes)}."
            ) from None

    @property
    def target(self) -> float:
        """What `reached` must come to."""
        return self.quality if self.share is None else self.share


def _number(value: object, name: str) -> float:
    """A number, or the text of one, which may be in percent."""
    if not isinstance(value, str):
        return checks.number(value, name)
    plain = value.strip().removesuffix("%")
    number = checks.number_in(plain, name)
    if plain == value.strip():
        return number
    return number / 100


@dataclass(frozen=True, eq=False)
class Qualities:
    """What floors are about, in every resample.

    Attributes:
        is_gain: Whether losses were given: quality is then the gain over cheap.
        is_positive: Whether no input can have a quality below 0.
        cheap: Sum of the quality of the cheap mode.
        modes: The same of every mode.
        inputs: Number of inputs.
    """

    is_gain: bool
    is_positive: bool
    cheap: PerResample
    modes: ResampleRows
    inputs: PerResample

    @classmethod
    def of(cls, bootstrap: Bootstrap) -> "Qualities":
        """The qualities of a table."""
        drawn = slice(0, bootstrap.drawn.stop)
        inputs = bootstrap.inputs[drawn]
        cheap = np.zeros(len(inputs))
        kind = Scale.of(bootstrap).kind
        if bootstrap.has_rewards:
            # Rewards are stored as negative losses; else a right answer has no loss.
            cheap = -bootstrap.cheap_loss[drawn]
        elif kind == "right":
            cheap = inputs - bootstrap.cheap_loss[drawn]
        is_gain = not bootstrap.has_rewards and kind != "right"
        is_positive = not is_gain
        if bootstrap.has_rewards:
            is_positive = bool((bootstrap.table.losses <= 0).all())
        modes = cheap + bootstrap.mode_gains[:, drawn]
        return cls(is_gain, is_positive, cheap, modes, inputs)

    def whole(self, floor: Floor, names: Sequence[str]) -> float:
        """What a sum of quality is divided by in the sample."""
        if floor.share is None or floor.mode is None:
            return float(self.inputs[0])
        return float(self.modes[names.index(floor.mode), 0])

    def least(self, floor: Floor, names: Sequence[str]) -> float:
        """What every option reaches for certain."""
        if not self.is_positive:
            return -np.inf
        if floor.mode is None or floor.share is not None:
            return 0.0
        return -float(self.modes[names.index(floor.mode), 0] / self.inputs[0])

    def check(self, floor: Floor, names: Sequence[str]) -> None:
        """Raise where the floor means nothing on this table."""
        if floor.share is not None:
            assert floor.mode is not None
            whole = float(self.modes[names.index(floor.mode), 0])
            if not whole > 0:
                what = "gains nothing" if self.is_gain else "has no positive quality"
                raise InputError(
                    f"{argument('keep')} needs something to keep; {floor.mode} {what}: "
                    f"say {argument('at_least', 'MODE')} instead."
                )
        elif self.is_gain and (floor.mode is None or floor.quality):
            raise InputError(
                f"{argument('at_least')} needs right answers or rewards, of which "
                f"there is a quality; found losses: say {argument('keep', '99%')}, or "
                "name a mode without points."
            )

    def reached(
        self, floor: Floor, names: Sequence[str], gain: ResampleRows
    ) -> ResampleRows:
        """What each option reaches of what the floor is about, paired in each draw.

        A share of the mode's quality, a difference to it, or a quality.
        """
        resamples = gain.shape[1]
        quality = self.cheap[:resamples] + gain
        inputs = np.maximum(self.inputs[:resamples], 1.0)
        if floor.mode is None:
            return quality / inputs
        reference = self.modes[names.index(floor.mode), :resamples]
        if floor.share is None:
            return (quality - reference) / inputs
        # A draw in which there is nothing to keep speaks against every option.
        has_any = reference > 0
        share = quality / np.where(has_any, reference, 1.0)
        return np.where(has_any, share, -np.inf)
