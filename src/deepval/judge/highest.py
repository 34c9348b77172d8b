"""The highest scores of some inputs, whether their rows are in memory or in files.

A ranking needs three answers only: sums over the highest scores in every resample, the
share of a selection that ties decide, and the gain of each unit. Scores in memory give
them by the kernel (`RankedScores`), scores in files by a sieve (`sieve.SiftedScores`).
Nothing that judges asks which of the two it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deepval.basics.arrays import (
    BudgetSums,
    Counts,
    InputFloats,
    InputInts,
    PerUnit,
    Slots,
)
from deepval.judge.kernel import top_sums
from deepval.judge.tie_expectations import SORT_UP_TO, TieAudit, TiedCut, cuts


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
        cuts: Where selections of the sample are cut, by their size, as far as known:
            rows, units and notes ask for the same ones.
    """

    score: InputFloats
    value: InputFloats
    unit: InputInts
    units: int
    presorted: InputInts | None = None
    is_signed: bool = True
    cuts: dict[int, TiedCut] = field(default_factory=dict, repr=False)

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
    def valued(self) -> tuple[InputInts, InputFloats, InputInts]:
        """Inputs with a value: their places in the order, values and units."""
        assert self.order is not None
        place = np.flatnonzero(self.value[self.order])
        rows = self.order[place]
        return place, self.value[rows], self.unit[rows]

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
        self._look_up(slots)
        return [TieAudit.of(self.cuts[number], number).share for number in slots]

    def _look_up(self, slots: Iterable[int]) -> None:
        """Find where selections of these sizes are cut, unless that is known."""
        unknown = [number for number in slots if number not in self.cuts]
        if not unknown:
            return
        # All at once, because scores that are not sorted are searched in one pass.
        found = cuts(self.score, unknown, self.order)
        self.cuts.update(zip(unknown, found, strict=True))

    def gain_by_unit(self, slots: int) -> PerUnit:
        """The gain in each unit of the sample over the highest scores."""
        if slots == 0:
            return np.zeros(self.units)
        if slots >= len(self.score):
            return summed(self.value, self.unit, self.units)
        self._look_up([slots])
        cut = self.cuts[slots]
        if self.order is None:
            chance = cut.chances(self.score, slots)
            return summed(chance * self.value, self.unit, self.units)
        # Inputs without value add nothing, and mostly they are most of all.
        place, gain, unit = self.valued
        above, upto = np.searchsorted(place, [cut.above, cut.above + cut.tied])
        taken = gain[:upto].copy()
        # The group at the cut counts in proportion to the slots that are left for it.
        taken[above:] *= cut.share(slots)
        sums = np.bincount(unit[:upto], weights=taken, minlength=self.units)
        return sums.astype(np.float64)  # bincount of no input has integers


def summed(amount: InputFloats, unit: InputInts, units: int) -> PerUnit:
    """The sum of an amount over the inputs of every unit."""
    # Mostly few inputs are escalated, and those that are not add nothing.
    some = np.flatnonzero(amount)
    sums = np.bincount(unit[some], weights=amount[some], minlength=units)
    return sums.astype(np.float64)  # bincount of no input has integers
