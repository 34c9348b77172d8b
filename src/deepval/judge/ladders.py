"""Policies that choose among three or more modes.

With two modes a policy says which inputs to escalate. With more it says how far, so its
answer is a plan: a mode for each input. A router names the modes itself (`Choice`); an
allocator that scores every mode leaves the best plan within the budget to a solver
(`Plan`). Their references choose among all modes, too: the oracle is the best plan, and
chance is the best mixture of modes that ignores the inputs.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Float, InputInts, ModeFloats
from deepval.basics.errors import InputError
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap, Gains, sums_by_unit
from deepval.judge.exact_plans import (
    Amounts,
    gains_of_best_plan,
    integer_prices,
    mean_costs,
)
from deepval.judge.intervals import ROUNDING
from deepval.judge.mode_plans import from_cheapest, steps
from deepval.judge.policies import (
    FULL_ONLY,
    Outcome,
    Policy,
    References,
    positive_part,
    refused,
    sums_of_best,
)
from deepval.judge.purses import purse_sums
from deepval.judge.tables.values import LARGEST_LOSS, ValueTable

ModeResamples = Float[np.ndarray, "mode resample"]

ALL_MODES = References("oracle-ladder", "random-ladder")
"""References of policies that choose among more than two modes."""


def references_among(modes: Sequence[str]) -> References:
    """What a policy that may run all of these modes is measured by."""
    if len(modes) > 2:
        return ALL_MODES
    return FULL_ONLY


@dataclass(frozen=True, eq=False)
class Choice(Policy):
    """Runs the mode that a router names for each input, at the router's own spend.

    Attributes:
        name: Name of the allocator.
        mode: The mode of each input, 0 for cheap.
        references: As in `Policy`.
    """

    name: str
    mode: InputInts
    references: References = ALL_MODES
    is_reference: ClassVar[bool] = False
    has_own_budget: ClassVar[bool] = True

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The same gains under each allowance: the choice is fixed."""
        gains = Gains.of(Amounts.of(bootstrap, self.mode[:, None]).start)
        return [Outcome(gains, allowed.charge(self.name)) for allowed in allowances]

    def own_allowance(
        self, allowance: Allowance, table: ValueTable
    ) -> Allowance | None:
        """What the router spends, as a budget of the kind of another one.

        None where it spends nothing, or where its own cost is unknown.
        """
        if self.name in allowance.unpriced:
            return None
        price = allowance.prices_on(table)[np.arange(len(table)), self.mode]
        paid = price + allowance.cost_of(self.name)
        alpha = float(paid.mean()) / allowance.full
        if alpha <= 0:
            return None
        if alpha > 1:
            raise InputError(
                f"{self.name}: a choice may cost at most {table.modes[-1]!r} on every "
                f"input; it costs {alpha:.4g} times that ({allowance.key.label}). Put "
                "the dearest mode last."
            )
        budget = replace(allowance.budget, alpha=alpha)
        spent = sums_by_unit(table, paid)
        return replace(allowance, budget=budget, spender=self.name, spent=spent)


@dataclass(frozen=True, eq=False)
class Plan(Policy):
    """Gives each input a mode so that the sum of its scores is largest.

    Attributes:
        name: Name of the allocator.
        score: Its estimate of the value of each mode above cheap.
        references: As in `Policy`.
    """

    name: str
    score: Float[np.ndarray, "input above"]
    references: References = ALL_MODES
    is_reference: ClassVar[bool] = False

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The gains of the plan of largest scores under each allowance."""
        self._check_scores()
        return [self._outcome(bootstrap, allowance) for allowance in allowances]

    def _outcome(self, bootstrap: Bootstrap, allowance: Allowance) -> Outcome:
        refusal = refused(self.name, allowance)
        if refusal is not None:
            return refusal
        scored = self._scored(bootstrap.table, allowance)
        own_cost = allowance.cost_of(self.name)
        gains = gains_of_plan(bootstrap, allowance, scored, own_cost)
        return Outcome(gains, allowance.charge(self.name))

    def _check_scores(self) -> None:
        """Raise where scores cannot be added up."""
        if np.isposinf(self.score).any():
            raise InputError(
                f"{self.name}: scores per mode are added up, so none can be infinite; "
                "found +inf."
            )
        finite = self.score[np.isfinite(self.score)]
        size = np.abs(finite)
        if size.max(initial=0.0) > LARGEST_LOSS:
            raise InputError(
                f"{self.name}: scores per mode are added up, so none can be above "
                f"{LARGEST_LOSS:g} in size; found {finite[size.argmax()]:g}."
            )

    def _scored(self, table: ValueTable, allowance: Allowance) -> ModeFloats:
        """Scores of all modes, 0 for cheap.

        Only a mode that saves money can be worth its negative score.
        """
        if allowance.per_input:
            prices = allowance.prices(table)
        else:
            prices = integer_prices(allowance, table.modes)
        saves = np.broadcast_to(prices[..., 1:] < 0, self.score.shape)
        # -inf means "never", which is fine unless the mode would free money for others.
        if np.isneginf(self.score[saves]).any():
            raise InputError(
                f"{self.name}: the score of a mode that costs less than "
                f"{table.modes[0]!r} must be finite; found -inf."
            )
        score = np.where(saves, self.score, np.maximum(self.score, 0.0))
        return np.column_stack([np.zeros(len(score)), score])


@dataclass(frozen=True)
class OracleLadder(Policy):
    """Runs the plan of greatest value over all modes; it costs nothing itself."""

    name: str = "oracle-ladder"
    references: References = ALL_MODES

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The best gain that each allowance pays for."""
        return [Outcome(self._gains(bootstrap, allowed)) for allowed in allowances]

    def _gains(self, bootstrap: Bootstrap, allowance: Allowance) -> Gains:
        values = bootstrap.table.mode_values
        if allowance.is_measured:
            return gains_of_plan(bootstrap, allowance, values, 0.0)
        # Every escalation takes one slot, so each input has one best mode.
        helpful, by_unit = positive_part(bootstrap.table, values.max(axis=1))
        slots = allowance.slots_in(bootstrap.counts, bootstrap.inputs)
        sums = sums_of_best(bootstrap, helpful, by_unit, slots[:, None])
        return Gains.of(sums[:, 0])


@dataclass(frozen=True)
class RandomLadder(Policy):
    """Runs the best mixture of modes that ignores the inputs.

    It maximises sum_m p_m * total value of mode m over chances p >= 0 whose sum is at
    most 1 and whose cost is within the budget. Two constraints bind at most, so the
    best mixture has at most two modes, and all pairs are tried.
    """

    name: str = "random-ladder"
    references: References = ALL_MODES

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The best mixture that each allowance pays for, in every resample anew."""
        values = bootstrap.table.mode_values
        benefits = np.maximum(values, 0.0)
        benefit = np.stack([bootstrap.totals(value) for value in benefits.T])
        return [
            Outcome(_best_mixture(bootstrap, allowance, bootstrap.mode_gains, benefit))
            for allowance in allowances
        ]


def _best_mixture(
    bootstrap: Bootstrap,
    allowance: Allowance,
    gain: ModeResamples,
    benefit: ModeResamples,
) -> Gains:
    """The best mixture of two modes in every resample, by trying all pairs."""
    cost, budget = mean_costs(bootstrap, allowance)
    best = Gains.nothing(len(budget))
    # Of mixtures that are equal up to the rounding of such sums, the first is kept:
    # relative to the sums, because a gain of 0 has no digits to be relative to.
    negligible = ROUNDING * benefit.max(axis=0)
    for low, high in itertools.product(range(len(cost)), repeat=2):
        rise = cost[high] - cost[low]
        is_mixture = rise > 0
        if low == high:
            # Alone, a mode must be free: a dearer one is mixed with the cheap mode.
            is_mixture = cost[low] <= 0

        # The chance of the dearer mode that spends the budget; the other has the rest.
        # Without a rise in cost the quotient is 0, and the first mode is run alone.
        chance = (budget - cost[low]) / np.where(rise > 0, rise, np.inf)
        chance = np.clip(chance, 0.0, 1.0)
        mixed = (1 - chance) * gain[low] + chance * gain[high]
        is_possible = is_mixture & (cost[low] <= budget)
        is_better = is_possible & (mixed > best.gain + negligible)

        # Each resample has a best pair of its own: replace only where it is beaten.
        mixed_benefit = (1 - chance) * benefit[low] + chance * benefit[high]
        share = (1 - chance) * (low > 0) + chance * (high > 0)
        best = Gains(
            gain=np.where(is_better, mixed, best.gain),
            benefit=np.where(is_better, mixed_benefit, best.benefit),
            escalated=np.where(is_better, bootstrap.inputs * share, best.escalated),
        )
    return best


def gains_of_plan(
    bootstrap: Bootstrap, allowance: Allowance, scored: ModeFloats, own_cost: float
) -> Gains:
    """Gains of the plan of largest scores, exact or, with a purse, in expectation."""
    if allowance.per_input:
        return _gains_of_relaxed_plan(bootstrap, allowance, scored, own_cost)
    return gains_of_best_plan(bootstrap, allowance, scored, own_cost)


def _gains_of_relaxed_plan(
    bootstrap: Bootstrap, allowance: Allowance, scored: ModeFloats, own_cost: float
) -> Gains:
    """Gains of the relaxed plan: the steps of all inputs in the order of their slope.

    Each input climbs its concave hull of score over price, step by step. A ranking of
    all steps by score per price is the relaxed optimum, and keeps the purse in
    expectation: Sinha and Zoltners, "The multiple-choice knapsack problem", Operations
    Research 27 (1979).
    """
    table = bootstrap.table
    # Every input starts at its cheapest mode, so that all steps have a positive price.
    problem = from_cheapest(scored, allowance.prices(table))
    amounts = Amounts.of(bootstrap, problem.modes)
    hull = steps(problem.values, problem.costs)
    # A step adds what its target mode adds beyond the mode before it.
    target = amounts.added[hull.input, hull.target]
    source = amounts.added[hull.input, hull.source]
    purse = allowance.purses(table, bootstrap.counts, own_cost)
    # What starting at the cheapest mode saves is added to the purse.
    saved = bootstrap.totals(np.asarray(problem.saved, dtype=np.float64))
    bought = purse_sums(
        hull.slope,
        list((target - source).T),
        table.unit[hull.input],
        price=hull.cost,
        counts=bootstrap.counts,
        purse=(purse + saved)[:, None],
    )
    return Gains.of(amounts.start + bought[:, 0])
