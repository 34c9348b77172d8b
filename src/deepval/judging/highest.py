"""The highest scores of some inputs, whether their rows are in memory or in files.

A ranking needs three answers only: sums over the highest scores in every resample, the
share of a selection that ties decide, and the gain of each unit. Scores in memory give
them by the kernel (`RankedScores`), scores in files by a sieve (`sieve.SiftedScores`).
Nothing that judges asks which of the two it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import BudgetSums, Counts, InputFloats, InputInts, PerUnit, Slots
from deepval.judging.kernel import top_sums
from deepval.judging.tie_expectations import SORT_UP_TO, cuts, inclusion, tie_audits


class Highest(ABC):
    """Inputs by falling score; every subclass is final."""

    @abstractmethod
    def sums(self, counts: Counts, slots: Slots) -> BudgetSums:
        """Expected gain of the highest scores in every resample.

        Then their benefit, unless no value is negative.
        """

    @abstractmethod
    def tied_shares(self, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of the selection that ties decide."""

    @abstractmethod
    def gain_by_unit(self, slots: int) -> PerUnit:
        """The gain in each unit of the sample over the highest scores."""


@dataclass(frozen=True, eq=False)
class RankedScores(Highest):
    """Scores of inputs in memory.

    Attributes:
        score: The score of each input.
        value: Its decision value.
        unit: Its unit.
        units: Number of units.
        presorted: The inputs by falling score, where they are sorted already.
        is_signed: Whether some values may be negative. Without harm, benefit is gain.
    """

    score: InputFloats
    value: InputFloats
    unit: InputInts
    units: int
    presorted: InputInts | None = None
    is_signed: bool = True

    @cached_property
    def order(self) -> InputInts | None:
        """The inputs by falling score; None where they are too many to be sorted."""
        if len(self.score) > SORT_UP_TO:
            return None
        if self.presorted is not None:
            return self.presorted
        # Any order within a group of equal scores will do: it is taken in proportion.
        return np.argsort(-self.score)

    @cached_property
    def valued(self) -> tuple[InputInts, InputInts]:
        """Places in the order of inputs with a value, and these inputs."""
        assert self.order is not None
        place = np.flatnonzero(self.value[self.order])
        return place, self.order[place]

    def sums(self, counts: Counts, slots: Slots) -> BudgetSums:
        """Expected gain, and benefit where values are signed."""
        amounts = [self.value]
        if self.is_signed:
            amounts.append(np.maximum(self.value, 0.0))
        return top_sums(
            self.score, amounts, self.unit, counts=counts, slots=slots, order=self.order
        )

    def tied_shares(self, slots: Sequence[int]) -> list[float]:
        """For each number of slots, the share of the selection that ties decide."""
        return [audit.share for audit in tie_audits(self.score, slots, self.order)]

    def chances(self, slots: int) -> InputFloats:
        """The probability that each input of the sample is among the highest."""
        return inclusion(self.score, slots, self.order)

    def gain_by_unit(self, slots: int) -> PerUnit:
        """The gain in each unit of the sample over the highest scores."""
        if self.order is None or not 0 < slots < len(self.score):
            return summed(self.chances(slots) * self.value, self.unit, self.units)
        (cut,) = cuts(self.score, [slots], self.order)
        # Inputs without value add nothing, and mostly they are most of all.
        place, moved = self.valued
        above, upto = np.searchsorted(place, [cut.above, cut.above + cut.tied])
        gain = self.value[moved[:upto]]
        gain[above:] *= (slots - cut.above) / cut.tied
        return summed(gain, self.unit[moved[:upto]], self.units)


def summed(amount: InputFloats, unit: InputInts, units: int) -> PerUnit:
    """The sum of an amount over the inputs of every unit."""
    # Mostly few inputs are escalated, and those that are not add nothing.
    some = np.flatnonzero(amount)
    sums = np.bincount(unit[some], weights=amount[some], minlength=units)
    return sums.astype(np.float64)  # bincount of no input has integers
