"""Policies: everything that may choose which inputs to escalate.

An allocator and a reference are the same kind of thing. Under each allowance a policy
has an `Outcome`: its gains in every resample, or the reason why it cannot run.

Most policies choose each input with a fixed probability, so their gains are linear in
the units. Only a ranking and the oracle choose anew in every resample, because the
number of slots depends on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from deepval.basics.arrays import (
    BudgetSums,
    Float,
    InputFloats,
    PerResample,
    PerUnit,
    Purses,
    Slots,
)
from deepval.judge import purses
from deepval.judge.allowances import Allowance, above_cheap
from deepval.judge.bootstrap import Bootstrap, Gains, gains_of_share
from deepval.judge.highest import Highest, RankedScores, summed
from deepval.judge.results import Reason
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.values import ValueTable
from deepval.judge.tie_expectations import SORT_UP_TO


@dataclass(frozen=True)
class References:
    """What a policy is measured by.

    Attributes:
        oracle: The policy whose gain nDG divides by.
        chance: The policy that its verdict compares it with.
    """

    oracle: str
    chance: str


FULL_ONLY = References("oracle", "random")
"""References of policies that choose between the cheap and the full mode."""

Refusal = Literal["infeasible", "no cost known"]
"""Why an allocator is not judged under an allowance."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a policy comes to under one allowance.

    Attributes:
        gains: Its gains; None where it cannot run.
        own_cost: What it is charged per input; None where nothing is charged.
        slots: How many inputs of the sample it may escalate; None where the budget is
            a purse, or where it chooses among several modes.
        tied_share: Share of the selection that ties decide, not the score.
        refusal: Why the allocator is not judged; None where it is.
        has_ndg: Whether it respects the budget, so that nDG means something.
        reason: Why something is undefined, in words.
        is_listed: Whether it has a row, which a fixed mode has only where it fits.
    """

    gains: Gains | None
    own_cost: float | None = None
    slots: int | None = None
    tied_share: float | None = None
    refusal: Refusal | None = None
    has_ndg: bool = True
    reason: str | None = None
    is_listed: bool = True


class Policy(ABC):
    """Something that chooses which inputs to escalate; every subclass is final.

    Attributes:
        name: Name of its rows.
        references: The oracle and the chance over the modes that it may run.
        is_reference: Whether it is itself a yardstick, without a verdict.
        has_own_budget: Whether its choices are fixed, so that it is judged at what it
            spends and not under a budget of the user.
        is_by_groups: Whether it runs one mode in each group of inputs, a `GroupTable`.
    """

    name: str
    references: References
    is_reference: ClassVar[bool] = True
    has_own_budget: ClassVar[bool] = False
    is_by_groups: ClassVar[bool] = False

    @abstractmethod
    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """What the policy comes to under each allowance."""

    def enters(self, allowance: Allowance) -> bool:
        """Whether the policy is judged under an allowance."""
        if self.is_reference:
            return True
        if self.has_own_budget:
            return allowance.spender == self.name
        return allowance.spender is None


class Buyer(Policy, ABC):
    """A policy that chooses anew in every resample, as far as slots or money reach.

    Budgets are computed together, because one sort of the scores serves all of them:
    the cut moves, the order does not.
    """

    @abstractmethod
    def sums_of_slots(self, bootstrap: Bootstrap, slots: Slots) -> BudgetSums:
        """Gain, benefit and number of the inputs that fill the slots."""

    @abstractmethod
    def sums_of_purses(
        self, bootstrap: Bootstrap, price: InputFloats, purse: Purses
    ) -> BudgetSums:
        """Gain, benefit and number of the inputs that the purses pay for."""

    def gains(
        self,
        bootstrap: Bootstrap,
        allowances: Sequence[Allowance],
        own_costs: Sequence[float],
    ) -> list[Gains]:
        """Its gains under each allowance, after its own cost."""
        gains: dict[int, Gains] = {}
        for group in _alike(allowances):
            first = allowances[group[0]]
            if first.per_input:
                table = bootstrap.table
                purses_left = [
                    allowances[i].purses(table, bootstrap.counts, own_costs[i])
                    for i in group
                ]
                price = first.prices(table)[:, -1]
                purse = np.column_stack(purses_left)
                sums = self.sums_of_purses(bootstrap, price, purse)
            else:
                slots = [
                    allowances[i].slots_in(
                        bootstrap.counts, bootstrap.inputs, own_costs[i]
                    )
                    for i in group
                ]
                sums = self.sums_of_slots(bootstrap, np.column_stack(slots))
            for column, i in enumerate(group):
                gains[i] = Gains.of(sums[:, column])
        return [gains[i] for i in range(len(allowances))]


def _alike(allowances: Sequence[Allowance]) -> list[list[int]]:
    """Positions of allowances that can be computed together.

    All that count slots are alike, and so are all that charge the same prices.
    """
    groups: dict[object, list[int]] = {}
    for i, allowance in enumerate(allowances):
        key: object = "slots"
        if allowance.per_input:
            key = (allowance.convention, allowance.accounting)
        groups.setdefault(key, []).append(i)
    return list(groups.values())


# --- references -----------------------------------------------------------------------


@dataclass(frozen=True)
class Never(Policy):
    """Escalates nothing."""

    name: str = "never"
    references: References = FULL_ONLY

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """No gain and no harm."""
        outcome = Outcome(Gains.nothing(len(bootstrap.inputs)), slots=0)
        return [outcome] * len(allowances)


@dataclass(frozen=True)
class Always(Policy):
    """Runs the full mode on every input, and nothing else."""

    name: str = "all-full"
    references: References = FULL_ONLY

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The gain of the full mode, where it fits."""
        return [self._outcome(bootstrap, allowance) for allowance in allowances]

    def _outcome(self, bootstrap: Bootstrap, allowance: Allowance) -> Outcome:
        gains = Gains(bootstrap.full_gain, bootstrap.full_benefit, bootstrap.inputs)
        slots = int(bootstrap.inputs[0])
        # It escalates more than a selection budget allows, and is shown as a yardstick.
        if not allowance.is_measured:
            reason = Reason.BEYOND_SELECTION.text()
            return Outcome(gains, slots=slots, has_ndg=False, reason=reason)
        if allowance.uniform_fits:
            return Outcome(gains, slots=slots)
        reason = Reason.FULL_TOO_DEAR.text(alpha=allowance.uniform_from)
        return Outcome(None, reason=reason)


@dataclass(frozen=True)
class Random(Policy):
    """Escalates inputs at random, in exact expectation; it costs nothing itself."""

    name: str = "random"
    references: References = FULL_ONLY

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The share of everything that each allowance pays for."""
        outcomes = []
        for allowance in allowances:
            gains = gains_of_share(bootstrap, random_share(bootstrap, allowance))
            slots = slots_of_sample(bootstrap, allowance)
            outcomes.append(Outcome(gains, slots=slots))
        return outcomes


def total_prices(
    bootstrap: Bootstrap, allowance: Allowance
) -> Float[np.ndarray, "mode resample"]:
    """Price of each mode on all inputs, where every input has costs of its own."""
    assert allowance.convention is not None
    costs = bootstrap.total_costs[allowance.convention]
    return above_cheap(costs.T, allowance.accounting).T


def random_share(bootstrap: Bootstrap, allowance: Allowance) -> PerResample:
    """The share of the inputs that an allowance pays for at random."""
    if allowance.per_input:
        table = bootstrap.table
        purse = allowance.purses(table, bootstrap.counts)
        price = total_prices(bootstrap, allowance)[-1]
        # A purse that holds the price of all inputs pays for all of them.
        share = np.ones(len(purse))
        return np.divide(purse, price, out=share, where=price > purse)
    slots = allowance.slots_in(bootstrap.counts, bootstrap.inputs)
    # A draw may hold no input at all; then there is nothing to share.
    return np.minimum(slots, bootstrap.inputs) / np.maximum(bootstrap.inputs, 1.0)


@dataclass(frozen=True, eq=False)
class Oracle(Buyer):
    """Escalates the inputs of largest positive value; it costs nothing itself.

    With slots it is a ranking by value, of the inputs that it would ever take.

    Attributes:
        helpful: The inputs of positive value, ranked by it.
        helpful_by_unit: Their number in each unit.
    """

    helpful: Highest
    helpful_by_unit: PerUnit
    name: str = "oracle"
    references: References = FULL_ONLY

    @classmethod
    def of(cls, table: ValueTable) -> "Oracle":
        """The oracle over the full mode of a table."""
        helpful, by_unit = positive_part(table, table.decision_values)
        return cls(helpful, by_unit)

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The best gain that each allowance pays for."""
        gains = self.gains(bootstrap, allowances, [0.0] * len(allowances))
        return [
            Outcome(own, slots=slots_of_sample(bootstrap, allowance))
            for own, allowance in zip(gains, allowances, strict=True)
        ]

    def sums_of_slots(self, bootstrap: Bootstrap, slots: Slots) -> BudgetSums:
        """Gain, benefit and number of the inputs that fill the slots."""
        return sums_of_best(bootstrap, self.helpful, self.helpful_by_unit, slots)

    def sums_of_purses(
        self, bootstrap: Bootstrap, price: InputFloats, purse: Purses
    ) -> BudgetSums:
        """Gain, benefit and number of the inputs that the purses pay for."""
        table = bootstrap.table
        return purses.best_purse_sums(
            table.decision_values,
            amounts_of(table.decision_values),
            table.unit,
            price=price,
            counts=bootstrap.counts,
            purse=purse,
        )

    def gain_of_sample(
        self, bootstrap: Bootstrap, allowance: Allowance, own_cost: float
    ) -> float:
        """What it gains in the sample with what an allocator of this cost leaves."""
        if allowance.per_input:
            table = bootstrap.table
            share = self.chances_of_purse(bootstrap, allowance, own_cost)
            return float(share @ table.decision_values)
        slots = int(allowance.slots(int(bootstrap.inputs[0]), own_cost))
        sums = self.helpful.sums(bootstrap.counts[:1], np.array([[slots]]))
        return float(sums[0, 0, 0])

    def gain_by_unit(self, bootstrap: Bootstrap, allowance: Allowance) -> PerUnit:
        """What it gains in each unit of the sample."""
        if allowance.per_input:
            table = bootstrap.table
            share = self.chances_of_purse(bootstrap, allowance, own_cost=0.0)
            gain = share * table.decision_values
            return summed(gain, table.unit, len(table.unit_ids))
        slots = int(allowance.slots(int(bootstrap.inputs[0])))
        helpful = int(self.helpful_by_unit.sum())
        return self.helpful.gain_by_unit(min(slots, helpful))

    def chances_of_purse(
        self, bootstrap: Bootstrap, allowance: Allowance, own_cost: float
    ) -> InputFloats:
        """The probability that each input of the sample is escalated."""
        table = bootstrap.table
        purse = purse_of_sample(table, allowance, own_cost)
        price = allowance.prices(table)[:, -1]
        return purses.best_shares(table.decision_values, price, purse)


def positive_part(
    table: ValueTable, values: InputFloats
) -> tuple[RankedScores, PerUnit]:
    """The inputs of positive value, ranked by it, and their number in each unit."""
    rows = np.flatnonzero(values > 0)
    unit = table.unit[rows]
    units = len(table.unit_ids)
    by_unit = np.bincount(unit, minlength=units).astype(np.float64)
    positive = values[rows]
    ranked = RankedScores(positive, positive, unit, units, is_signed=False)
    return ranked, by_unit


def sums_of_best(
    bootstrap: Bootstrap, helpful: Highest, helpful_by_unit: PerUnit, slots: Slots
) -> BudgetSums:
    """Gain, benefit and number of inputs of the largest positive values."""
    gain = helpful.sums(bootstrap.counts, slots)[:, :, 0]
    # An oracle leaves slots empty rather than do harm.
    taken = np.minimum(slots, (bootstrap.counts @ helpful_by_unit)[:, None])
    return np.stack([gain, gain, taken], axis=2)


# --- rankings -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranking(Buyer):
    """Escalates the highest scores, as many as the allowance pays for.

    Attributes:
        name: Name of the allocator.
        highest: Its scores, ranked.
        score: Its score of each input, for budgets with a price for each input; None
            where the scores are larger than memory.
    """

    name: str
    highest: Highest
    score: InputFloats | None = None
    references: References = FULL_ONLY
    is_reference: ClassVar[bool] = False

    @classmethod
    def of(cls, table: ValueTable, scores: Scores) -> "Ranking":
        """The ranking of an allocator's scores on a table."""
        # The order is cached with the scores, because notes and thresholds need it too.
        order = None
        if len(scores.values) <= SORT_UP_TO:
            order = scores.order
        units = len(table.unit_ids)
        values = table.decision_values
        highest = RankedScores(scores.values, values, table.unit, units, order)
        return cls(scores.name, highest, scores.values)

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The gains of the highest scores that each allowance pays for."""
        outcomes = [refused(self.name, allowance) for allowance in allowances]
        able = [
            allowance
            for allowance, refusal in zip(allowances, outcomes, strict=True)
            if refusal is None
        ]
        run = iter(self._outcomes(bootstrap, able))
        return [refusal or next(run) for refusal in outcomes]

    def _outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """What it comes to under allowances that can pay for it."""
        own_costs = [allowance.cost_of(self.name) for allowance in allowances]
        inputs = int(bootstrap.inputs[0])
        slots: list[int | None] = []
        for allowance, own_cost in zip(allowances, own_costs, strict=True):
            number = None
            if not allowance.per_input:
                number = int(allowance.slots(inputs, own_cost))
            slots.append(number)
        gains = self.gains(bootstrap, allowances, own_costs)
        # Where nothing is selected there is nothing that ties could decide.
        filled = [number for number in slots if number]
        tied = dict(zip(filled, self.highest.tied_shares(filled), strict=True))
        outcomes = []
        for index, allowance in enumerate(allowances):
            # None where no slot is filled, or where a purse limits the selection.
            tied_share = tied.get(slots[index] or 0)
            if allowance.per_input:
                tied_share = self._tied_cost(bootstrap, allowance, own_costs[index])
            outcomes.append(
                Outcome(
                    gains[index],
                    own_cost=allowance.charge(self.name),
                    slots=slots[index],
                    tied_share=tied_share,
                )
            )
        return outcomes

    def sums_of_slots(self, bootstrap: Bootstrap, slots: Slots) -> BudgetSums:
        """Gain, benefit and number of the inputs that fill the slots."""
        sums = self.highest.sums(bootstrap.counts, slots)
        # Ties are taken in proportion, so that the slots are filled whatever is tied.
        taken = np.minimum(slots, bootstrap.inputs[:, None])
        return np.concatenate([sums, taken[:, :, None]], axis=2)

    def sums_of_purses(
        self, bootstrap: Bootstrap, price: InputFloats, purse: Purses
    ) -> BudgetSums:
        """Gain, benefit and number of the inputs that the purses pay for."""
        table = bootstrap.table
        return purses.purse_sums(
            self._score,
            amounts_of(table.decision_values),
            table.unit,
            price=price,
            counts=bootstrap.counts,
            purse=purse,
        )

    def _tied_cost(
        self, bootstrap: Bootstrap, allowance: Allowance, own_cost: float
    ) -> float:
        """The share of the cost of a selection that ties decide."""
        table = bootstrap.table
        price = allowance.prices(table)[:, -1]
        purse = purse_of_sample(table, allowance, own_cost)
        return purses.tied_share(self._score, price, purse)

    def gain_by_unit(self, bootstrap: Bootstrap, allowance: Allowance) -> PerUnit:
        """Its gain in each unit of the sample."""
        own_cost = allowance.cost_of(self.name)
        if allowance.per_input:
            table = bootstrap.table
            price = allowance.prices(table)[:, -1]
            purse = purse_of_sample(table, allowance, own_cost)
            share = purses.shares(self._score, price, purse)
            gain = share * table.decision_values
            return summed(gain, table.unit, len(table.unit_ids))
        slots = int(allowance.slots(int(bootstrap.inputs[0]), own_cost))
        return self.highest.gain_by_unit(slots)

    @property
    def _score(self) -> InputFloats:
        # Prices for each input are refused where the rows are not in memory.
        assert self.score is not None
        return self.score


@dataclass(frozen=True, eq=False)
class Stored(Policy):
    """An allocator whose outcomes were computed before, such as a submission's.

    Attributes:
        name: Name of the allocator.
        by_allowance: Its outcome under each allowance, by the key of the budget.
    """

    name: str
    by_allowance: Mapping[object, Outcome] = field(repr=False)
    references: References = FULL_ONLY
    is_reference: ClassVar[bool] = False

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The stored outcomes."""
        return [self.by_allowance[allowance.key] for allowance in allowances]


def refused(name: str, allowance: Allowance) -> Outcome | None:
    """The outcome of an allocator that is not judged; None where it can run."""
    if name in allowance.unpriced:
        reason = allowance.unpriced[name].text()
        return Outcome(None, refusal="no cost known", reason=reason)
    own_cost = allowance.cost_of(name)
    if allowance.feasible(own_cost):
        return None
    reason = Reason.TOO_DEAR.text(
        cost=own_cost,
        convention=allowance.convention,
        limit=allowance.budget.alpha * allowance.full,
    )
    return Outcome(None, own_cost, refusal="infeasible", reason=reason)


def slots_of_sample(bootstrap: Bootstrap, allowance: Allowance) -> int | None:
    """How many inputs of the sample a free policy may escalate, where that counts."""
    if allowance.per_input or allowance.spender is not None:
        return None
    return int(allowance.slots(int(bootstrap.inputs[0])))


def purse_of_sample(table: ValueTable, allowance: Allowance, own_cost: float) -> float:
    """What may be spent on escalations in the sample, at least 0."""
    assert allowance.convention is not None
    full = float(table.input_costs[allowance.convention][:, -1].sum())
    return max(allowance.budget.alpha * full - own_cost * len(table), 0.0)


def amounts_of(values: InputFloats) -> list[InputFloats]:
    """Gain, benefit and number of every input, from what it gains."""
    return [values, np.maximum(values, 0.0), np.ones(len(values))]
