"""Choices that do not look at the inputs, and what any policy spends.

Without looking at the inputs one can run one mode on every input, or mix two at random.
The best such mixture at spend b gains H(b): the one comparator of every answer. For two
modes under a selection budget it is never, random or always, whichever is best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float, PerResample, ResampleRows
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.intervals import ROUNDING
from deepval.judge.policies import (
    FULL_ONLY,
    Outcome,
    Policy,
    Ranking,
    References,
    amounts_of,
    total_prices,
)
from deepval.judge.purses import purse_sums
from deepval.judge.results import ALWAYS_MODE, Reason

ModeRows = Float[np.ndarray, "mode resample"]


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The best blind mixture at some spends, one row per spend.

    A mixture runs the dearer mode on a random share, and the other one on the rest.

    Attributes:
        gain: What it gains in every resample.
        low: Number of the cheaper mode in the sample.
        high: Number of the dearer one.
        share: Share of the inputs of the sample that get the dearer one.
    """

    gain: ResampleRows
    low: list[int]
    high: list[int]
    share: list[float]


@dataclass(frozen=True, eq=False)
class BlindModes:
    """The totals of every mode, from which all blind choices are mixed.

    Attributes:
        names: The modes, cheap first.
        gain: Total decision value of each mode.
        cost: What each mode costs on all inputs beyond the cheap one.
    """

    names: tuple[str, ...]
    gain: ModeRows
    cost: ModeRows

    @classmethod
    def of(cls, bootstrap: Bootstrap, allowance: Allowance) -> "BlindModes":
        """The modes of a table under an allowance."""
        cost = _blind_costs(bootstrap, allowance)
        return cls(bootstrap.modes, bootstrap.mode_gains, cost)

    def mixtures(self, spend: ResampleRows) -> Mixtures:
        """The best mixture that costs no more than each spend, in every resample.

        H(spend) = max sum_m p_m V_m over p >= 0, sum p = 1, sum_m p_m C_m <= spend. Two
        constraints bind at most, so two modes suffice, and all pairs are tried.

        A quarter of the price of the large mode buys a quarter of its gain:

        >>> totals = np.array([[0.0], [10.0]]), np.array([[0.0], [4.0]])
        >>> best = BlindModes(("small", "large"), *totals).mixtures(np.array([[1.0]]))
        >>> best.gain.tolist(), best.share
        ([[2.5]], [0.25])
        """
        # A router that spends less than any blind choice must beat the cheapest one.
        cheapest = self.cost.argmin(axis=0)
        gain_of_cheapest = np.take_along_axis(self.gain, cheapest[None], axis=0)
        is_able = _pays(spend, self.cost.min(axis=0))
        best = np.where(is_able, -np.inf, gain_of_cheapest)
        low = [int(cheapest[0])] * len(spend)
        high = list(low)
        share = [0.0] * len(spend)
        for first, second in np.ndindex(len(self.cost), len(self.cost)):
            # A pair of a mode with itself is that mode alone.
            is_dearer = self.cost[second] > self.cost[first]
            if first != second and not is_dearer.any():
                continue
            gain, chance = self._mixed(first, second, spend)
            is_better = is_able & (gain > best)
            best = np.where(is_better, gain, best)
            # Words name the modes of the sample, which is resample 0.
            for row in np.flatnonzero(is_better[:, 0]).tolist():
                low[row] = first
                high[row] = second
                share[row] = float(chance[row, 0])
        return Mixtures(best, low, high, share)

    def _mixed(
        self, low: int, high: int, spend: ResampleRows
    ) -> tuple[ResampleRows, ResampleRows]:
        """The gain of two modes that spend everything, and the chance of the dearer.

        The gain is -inf where the spend does not pay for the cheaper mode.
        """
        rise = self.cost[high] - self.cost[low]
        # In a draw where the second mode is not dearer, it has no chance.
        rise = np.where(rise > 0, rise, np.inf)
        chance = np.clip((spend - self.cost[low]) / rise, 0.0, 1.0)
        gain = (1 - chance) * self.gain[low] + chance * self.gain[high]
        return np.where(_pays(spend, self.cost[low]), gain, -np.inf), chance


def _blind_costs(bootstrap: Bootstrap, allowance: Allowance) -> ModeRows:
    """What each mode costs on all inputs, beyond cheap, if inputs are not looked at.

    A blind choice is made before anything runs, so it never pays for a cheap pass that
    it will not use: a mode costs C_m - C_cheap, in a cascade, too. Where the cheap
    output is needed on every input, the table says so, and a mode costs C_m.
    """
    if not allowance.is_measured:
        above = np.arange(len(bootstrap.modes)) > 0
        return above[:, None] * bootstrap.inputs
    if not (bootstrap.cheap_always_runs or allowance.is_skipping):
        budget = replace(allowance.budget, accounting="skipping")
        allowance = replace(allowance, budget=budget)
    if allowance.per_input:
        return total_prices(bootstrap, allowance)
    return allowance.mode_prices(bootstrap.modes).T * bootstrap.inputs


def allowed(bootstrap: Bootstrap, allowance: Allowance) -> PerResample:
    """What the budget of the user allows beyond the cheap mode."""
    if allowance.spent is not None:
        return bootstrap.counts @ allowance.spent
    if not allowance.is_measured:
        return allowance.slots(bootstrap.inputs).astype(np.float64)
    if allowance.per_input:
        return allowance.purses(bootstrap.table, bootstrap.counts)
    return allowance.budget.alpha * allowance.full * bootstrap.inputs


def fits(cost: float, limit: float) -> bool:
    """Whether a limit pays for a cost."""
    # The last digits of a sum must not decide.
    return bool(cost <= limit + ROUNDING * abs(limit))


def _pays(limit: ResampleRows, cost: PerResample) -> Bool[np.ndarray, "row resample"]:
    """The same for many spends and the cost of one mode."""
    return cost <= limit + ROUNDING * np.abs(limit)


def spent_under(
    policy: Policy,
    gains: Sequence[Gains],
    bootstrap: Bootstrap,
    allowances: Sequence[Allowance],
) -> list[PerResample]:
    """What an allocator spends beyond the cheap mode in every resample.

    Args:
        policy: The allocator.
        gains: What it gains under each allowance.
        bootstrap: The resamples.
        allowances: What it may spend: budgets of one kind, whose prices are equal.
    """
    # The prices and the cost of choosing are the same in all of them.
    first = allowances[0]
    if isinstance(policy, AlwaysMode):
        cost = _blind_costs(bootstrap, first)[bootstrap.modes.index(policy.mode)]
        return [cost] * len(allowances)
    if policy.is_by_groups:
        # Tables and the plans they rest on are loaded only where one is judged.
        from deepval.judge.group_tables import GroupTable

        assert isinstance(policy, GroupTable)
        return policy.spends(bootstrap, allowances)
    if first.spent is not None:
        return [bootstrap.counts @ first.spent] * len(allowances)
    own_cost = bootstrap.inputs * first.cost_of(charged_name(policy))
    if not first.is_measured:
        # Every escalation takes one slot, whatever mode it runs.
        return [one.escalated for one in gains]
    if len(bootstrap.modes) == 2 and not first.per_input:
        price = first.mode_prices(bootstrap.modes)[0, -1]
        return [one.escalated * price + own_cost for one in gains]
    # Spend is a sum over the same inputs as gain. So it is the gain of the same policy
    # on a table whose decision values are prices; its choices rest on its scores alone.
    prices = np.asarray(first.prices_on(bootstrap.table))
    on_prices = replace(bootstrap.table, losses=np.asfortranarray(-prices))
    spends = []
    for outcome in policy.outcomes(replace(bootstrap, rows=on_prices), allowances):
        assert outcome.gains is not None
        spends.append(outcome.gains.gain + own_cost)
    return spends


def charged_name(policy: Policy) -> str:
    """Whose own cost a policy pays."""
    if isinstance(policy, OnTop):
        return policy.ranking.name
    return policy.name


# --- policies -------------------------------------------------------------------------


@dataclass(frozen=True)
class AlwaysMode(Policy):
    """Runs one mode on every input, and nothing else."""

    mode: str
    references: References = FULL_ONLY

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`always gpt-4`."""
        return ALWAYS_MODE + self.mode

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The value of the mode on all inputs, where the budget pays for it."""
        number = bootstrap.modes.index(self.mode)
        gain = bootstrap.mode_gains[number]
        benefit = bootstrap.full_benefit
        if 0 < number < len(bootstrap.modes) - 1:
            value = bootstrap.table.mode_values[:, number]
            benefit = bootstrap.totals(np.maximum(value, 0.0))
        escalated = bootstrap.inputs
        if number == 0:
            benefit = escalated = np.zeros(len(gain))
        outcomes = []
        for allowance in allowances:
            cost = _blind_costs(bootstrap, allowance)[number, 0]
            # Every budget begins with the cheap mode.
            does_fit = number == 0 or fits(cost, allowed(bootstrap, allowance)[0])
            gains = Gains(gain, benefit, escalated) if does_fit else None
            reason = Reason.FIXED.text()
            outcomes.append(
                Outcome(gains, has_ndg=False, reason=reason, is_listed=does_fit)
            )
        return outcomes


@dataclass(frozen=True, eq=False)
class OnTop(Policy):
    """A score on top of a better fixed mode: that mode, or the full one where it is.

    The order of the columns names the cheap mode, not the user. Where another mode is
    the better base, the same score may be worth running on it. It needs an accounting
    in which a mode runs instead of another: in a cascade the base would be a second
    cheap pass.
    """

    ranking: Ranking
    base: str
    references: References = FULL_ONLY
    is_reference: ClassVar[bool] = False

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`mine on yi-34b`."""
        return f"{self.ranking.name} on {self.base}"

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The base everywhere, and the highest scores with what is left."""
        return [self._outcome(bootstrap, allowance) for allowance in allowances]

    def _outcome(self, bootstrap: Bootstrap, allowance: Allowance) -> Outcome:
        score = self.ranking.score
        if score is None or not allowance.is_measured or not allowance.is_skipping:
            return Outcome(None)
        table = bootstrap.table
        number = table.modes.index(self.base)
        base_value = table.mode_values[:, number]
        prices = allowance.prices_on(table)
        base_price = prices[:, number]

        own_cost = bootstrap.inputs * allowance.cost_of(self.ranking.name)
        left = allowed(bootstrap, allowance) - own_cost - bootstrap.totals(base_price)
        price = prices[:, -1] - base_price
        if left[0] < 0:
            return Outcome(None)

        # Here the base plays the part of the cheap mode.
        bought = purse_sums(
            score,
            amounts_of(table.decision_values - base_value),
            table.unit,
            price=price,
            counts=bootstrap.counts,
            # A draw whose base alone is too dear escalates nothing.
            purse=np.maximum(left, 0.0)[:, None],
        )
        gain, benefit, escalated = bought[:, 0].T
        return Outcome(Gains(bootstrap.totals(base_value) + gain, benefit, escalated))


def always_modes(modes: Sequence[str]) -> list[AlwaysMode]:
    """Every mode on all inputs, cheap first."""
    return [AlwaysMode(mode) for mode in modes]
