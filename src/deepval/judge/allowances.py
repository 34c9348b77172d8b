"""Budgets: a share alpha of what a zero-cost allocator could escalate -> how many
inputs an allocator may escalate.

A selection budget counts escalations: k = floor(alpha*N + 0.5), whatever an allocator
costs. A measured budget allows b = C_c + alpha*C_f per input, in milliseconds,
millijoules or dollars. In a cascade the cheap mode and the allocator run on every
input, so the share left is alpha - C_S/C_f; a skipping router runs the full mode
instead of the cheap one, which leaves (alpha*C_f - C_S)/(C_f - C_c), at most 1. Either
way k = floor(N*share + 1e-9), and an allocator is infeasible iff C_S > alpha*C_f.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal, cast, get_args

import numpy as np

from deepval.basics.arrays import Float, Int, ModeFloats, Num
from deepval.basics.checks import share_of_inputs
from deepval.basics.errors import InputError, argument, quote
from deepval.judge.results import BudgetKey, Reason
from deepval.judge.tables.costs import Convention, Costs
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.values import ValueTable, capacity, quota

Accounting = Literal["cascade", "skipping"]
LAST_DIGITS = 1e-12
"""Relative error of a product or quotient of decimals: 0.29*100 falls short of 29, (1 -
0.7)/1 exceeds 0.3.
"""
LEVELS = (0.1, 0.2, 0.3, 0.5)
"""The benchmark's shares, used if a caller names none."""
MissingCosts = Literal["error", "list"]
"""Treatment of an allocator without a cost under a measured budget: an error, or a row
without a verdict.
"""
MEANS = "charged input by input; a mean over the judged inputs is shown"
RAILS: tuple[Convention, ...] = ("mj", "mj_gpu", "mj_all")
DOLLARS: Convention = "usd"


@dataclass(frozen=True)
class Budget:
    """What a user allows: a share of the inputs, of their time, energy or money.

    `Selection`, `Latency`, `Energy` and `Money` make one.

    Attributes:
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        kind: selection, latency, energy or money.
        convention: The unit that is counted; None under a selection budget.
        accounting: Whether the full mode runs after the cheap one ("cascade") or
            instead of it ("skipping"); None under a selection budget.
        costs: Figures of modes and allocators; None to take the table's.
    """

    alpha: float
    kind: str
    convention: Convention | None = None
    accounting: Accounting | None = None
    costs: Costs | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", share_of_inputs(self.alpha))

    @property
    def is_measured(self) -> bool:
        """Whether it charges what modes and allocators cost."""
        return self.convention is not None

    @property
    def key(self) -> BudgetKey:
        """The fields that identify it in rows."""
        return BudgetKey(self.kind, self.alpha, self.convention, self.accounting)


def Selection(alpha: float) -> Budget:  # noqa: N802
    """A share `alpha` of the inputs may be escalated; allocators are free."""
    return Budget(alpha, "selection")


def Latency(  # noqa: N802
    alpha: float, costs: Any = None, accounting: Accounting = "cascade"
) -> Budget:
    """Every input may take C_c + alpha*C_f milliseconds on average, including the
    allocator's own time.

    Args:
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        costs: Figures of modes and allocators (a file, a mapping or `Costs`), or None
            to take the table's.
        accounting: Whether the full mode runs after the cheap one ("cascade") or
            instead of it ("skipping").
    """
    return _measured("latency", alpha, "ms", costs, accounting)


def Energy(  # noqa: N802
    alpha: float,
    costs: Any = None,
    accounting: Accounting = "cascade",
    convention: Convention = RAILS[0],
) -> Budget:
    """Every input may take C_c + alpha*C_f millijoules on average, including the
    allocator's own energy.

    Args:
        alpha: As for `Latency`.
        costs: As for `Latency`.
        accounting: As for `Latency`.
        convention: Rails that are counted: "mj" (module), "mj_gpu" (GPU rail only) or
            "mj_all" (all rails).
    """
    if not isinstance(convention, str) or convention not in RAILS:
        raise InputError(
            "The convention of an energy budget must "
            f"be one of {RAILS}; found {quote(convention)}."
        )
    return _measured("energy", alpha, convention, costs, accounting)


def Money(  # noqa: N802
    alpha: float, costs: Any = None, accounting: Accounting = "cascade"
) -> Budget:
    """Every input may take C_c + alpha*C_f dollars on average, including the
    allocator's own cost.

    Args:
        alpha: As for `Latency`.
        costs: As for `Latency`.
        accounting: As for `Latency`.
    """
    return _measured("money", alpha, DOLLARS, costs, accounting)


def _measured(
    kind: str, alpha: float, convention: Convention, costs: Any, accounting: Any
) -> Budget:
    """A budget that charges what modes and allocators cost."""
    if not isinstance(accounting, str) or accounting not in get_args(Accounting):
        raise InputError(
            f"accounting must be 'cascade' or 'skipping'; found {quote(accounting)}."
        )
    figures = None if costs is None else Costs.of(costs)
    return Budget(alpha, kind, convention, cast(Accounting, accounting), figures)


def measured(
    kind: str,
    alpha: float,
    *,
    accounting: Accounting = "cascade",
    rails: Convention = RAILS[0],
) -> Budget:
    """The measured budget of a kind, with the costs of the table; an energy budget
    counts `rails`.
    """
    return _measured(kind, alpha, conventions(rails)[kind], None, accounting)


def conventions(rails: Convention = RAILS[0]) -> dict[str, Convention]:
    """What each kind of measured budget counts."""
    return {"latency": "ms", "energy": rails, "money": DOLLARS}


def energy_convention(
    costs: Costs | None, input_costs: Container[str] = ()
) -> Convention:
    """What an energy budget counts: the module where every mode has its energy, else
    the rails that every mode has.

    Args:
        costs: Costs of modes.
        input_costs: Conventions in which a table has costs of each input.
    """
    for convention in RAILS:
        if convention in input_costs:
            return convention
        if costs is not None and costs.has_all(convention):
            return convention
    return RAILS[0]


def budget_list(source: Any, table: ValueTable | None = None) -> list[Budget]:
    """Budgets from a user's argument: one or several shares or budgets.

    None means budgets at LEVELS: of money where the table has prices, else of inputs.
    Money is charged for the mode that runs, because a price list says what a call
    costs, not that two are made.
    """
    if source is None and table is not None and DOLLARS in table.input_costs:
        return [Money(alpha, accounting="skipping") for alpha in LEVELS]
    if source is None:
        return [Selection(alpha) for alpha in LEVELS]
    several = source.tolist() if isinstance(source, np.ndarray) else source
    if isinstance(several, Budget | Real | str | bytes | Mapping) or not isinstance(
        several, Iterable
    ):
        several = [several]
    budgets = [
        item if isinstance(item, Budget) else _of_share(item) for item in several
    ]
    if not budgets:
        raise InputError(
            "At least one budget is needed; found an empty list. Leave budgets out "
            "for the usual ones."
        )
    return budgets


def _of_share(share: Any) -> Budget:
    if isinstance(share, Real) and not isinstance(share, bool):
        return Selection(share_of_inputs(share))
    raise InputError(
        "A budget must be a share of the inputs such as 0.2, or Selection, Latency, "
        f"Energy or Money; found {quote(share)}."
    )


@dataclass(frozen=True)
class Allowance:
    """A budget with the cost figures of one table, and the capacity that they leave.

    Attributes:
        budget: The budget.
        costs: Costs of modes and allocators; None under a selection budget, which
            charges nothing.
        cheap: C_c, the cost of the cheap mode.
        full: C_f, the cost of the full mode.
        per_input: Whether every input has costs of its own; C_c and C_f are then means
            over the inputs.
        unpriced: Allocators without a cost, listed without a verdict, and the reason
            for each.
        spender: A router that chooses modes itself; the budget is what it spends, and
            only it is judged under it.
        spent: What that router spends on every unit, in units of the convention or in
            escalations.
    """

    budget: Budget
    costs: Costs | None = None
    cheap: float = 0.0
    full: float = 1.0
    per_input: bool = False
    unpriced: Mapping[str, Reason] = field(default_factory=dict)
    spender: str | None = None
    spent: Float[np.ndarray, "unit"] | None = field(default=None, compare=False)

    def on(self, table: ValueTable) -> "Allowance":
        """The allowance over other inputs; with costs per input, C_c and C_f become the
        means over these inputs.
        """
        if not self.per_input or self.convention is None or not len(table):
            return self
        means = table.input_costs[self.convention].mean(axis=0)
        return replace(self, cheap=float(means[0]), full=float(means[-1]))

    def prices(self, table: ValueTable) -> Float[np.ndarray, "input mode"]:
        """Cost of each mode on top of the cheap pass for each input, 0 for cheap; a
        skipping router saves that pass.
        """
        assert self.convention is not None
        return above_cheap(table.input_costs[self.convention], self.accounting)

    @property
    def uniform_from(self) -> float:
        """Smallest alpha at which running the full mode alone on every input fits.

        C_f <= C_c + alpha*C_f, so alpha >= (C_f - C_c)/C_f.
        """
        return (self.full - self.cheap) / self.full

    @property
    def uniform_fits(self) -> bool:
        """Whether running the full mode alone on every input fits."""
        return self.budget.alpha >= self.uniform_from * (1 - LAST_DIGITS)

    @property
    def is_measured(self) -> bool:
        """Whether modes and allocators are charged."""
        return self.costs is not None

    @property
    def is_skipping(self) -> bool:
        """Whether the full mode runs instead of the cheap one."""
        return self.accounting == "skipping"

    @property
    def convention(self) -> Convention | None:
        """The unit that is counted, None under a selection budget."""
        return self.budget.convention

    @property
    def accounting(self) -> Accounting | None:
        """How an escalation is charged, None under a selection budget."""
        return self.budget.accounting

    @property
    def key(self) -> BudgetKey:
        """The fields that identify this budget in rows."""
        return self.budget.key

    def cost_of(self, allocator: str) -> float:
        """C_S of an allocator: 0 under a selection budget.

        Raises if a measured budget has no figure for it.
        """
        if self.costs is None or self.convention is None:
            return 0.0
        return self.costs.of_allocator(allocator, self.convention)

    def charge(self, allocator: str) -> float | None:
        """The own cost as a row shows it; None where nothing is charged."""
        if self.costs is None:
            return None
        return self.cost_of(allocator)

    def prices_on(self, table: ValueTable) -> ModeFloats:
        """Cost of each mode on top of the cheap pass, for each input of any table and
        under any budget.
        """
        if self.per_input:
            return self.prices(table)
        if not self.is_measured:
            # Nothing is charged, so every mode above cheap takes one slot.
            one_slot = np.arange(len(table.modes)) > 0
            return np.broadcast_to(one_slot, table.losses.shape).astype(np.float64)
        return np.broadcast_to(self.mode_prices(table.modes), table.losses.shape)

    def mode_prices(self, modes: Sequence[str]) -> Float[np.ndarray, "1 mode"]:
        """Cost of each mode on top of the cheap pass, where all inputs cost alike."""
        assert self.costs is not None
        assert self.convention is not None
        per_call = [self.costs.of_mode(mode, self.convention) for mode in modes]
        return above_cheap(np.array([per_call]), self.accounting)

    def feasible(self, cost: float) -> bool:
        """Whether an allocator of this cost can run at all: C_S <= alpha*C_f, up to the
        last digits of the product.
        """
        return cost <= self.budget.alpha * self.full * (1 + LAST_DIGITS)

    def share(self, cost: float = 0.0) -> float:
        """Share of the inputs that an allocator of this cost can escalate; negative
        where it is infeasible.
        """
        if self.is_skipping:
            limit = self.budget.alpha * self.full - cost
            return min(1.0, limit / self.per_escalation)
        return self.budget.alpha - cost / self.full

    def slots(
        self, inputs: int | Num[np.ndarray, "*draw"], cost: float = 0.0
    ) -> Int[np.ndarray, "*draw"]:
        """Number of inputs that an allocator of this cost may escalate."""
        if self.per_input:
            raise InputError(
                f"A {self.budget.kind} budget over inputs with costs of their own "
                "limits the total cost, not the number of inputs. Leave the columns "
                "of costs out, or use a selection budget."
            )
        if self.costs is None:
            return quota(inputs, self.budget.alpha)
        return capacity(inputs, self.share(cost))

    def slots_in(
        self,
        counts: Float[np.ndarray, "draw unit"],
        inputs: Num[np.ndarray, "draw"],
        cost: float = 0.0,
    ) -> Int[np.ndarray, "draw"]:
        """Number of inputs that may be escalated in every draw of units."""
        if self.spent is None:
            return self.slots(inputs, cost)
        # What buys exactly 3 escalations must not buy 2 because of the last digits.
        affordable = np.floor(counts @ self.spent / self.per_escalation + 1e-9)
        return np.minimum(affordable, inputs).astype(np.int64)

    @property
    def per_escalation(self) -> float:
        """What an escalation costs; a skipping router saves the cheap pass."""
        if self.is_skipping:
            return self.full - self.cheap
        return self.full

    def purses(
        self,
        table: ValueTable,
        counts: Float[np.ndarray, "draw unit"],
        cost: float = 0.0,
    ) -> Float[np.ndarray, "draw"]:
        """Budget for escalation in every draw: alpha * sum of C_f,i - N*C_S, at least
        0, or what a router spends.
        """
        if self.spent is not None:
            return counts @ self.spent
        assert self.convention is not None
        limit = self.budget.alpha * table.input_costs[self.convention][:, -1] - cost
        return np.maximum(
            counts @ np.bincount(table.unit, limit, minlength=counts.shape[1]), 0.0
        )


def with_distinct_shares(
    own: Sequence[Allowance], stated: Sequence[Allowance]
) -> list[Allowance]:
    """What routers spend, with shares that differ from all others.

    A router may spend exactly what a budget states, and the budget identifies a row.
    """
    taken = {allowance.key for allowance in stated}
    distinct = []
    for allowance in own:
        while allowance.key in taken:
            # The next smaller number is a share of its own, and the same in reports.
            alpha = math.nextafter(allowance.budget.alpha, 0.0)
            budget = replace(allowance.budget, alpha=alpha)
            allowance = replace(allowance, budget=budget)
        taken.add(allowance.key)
        distinct.append(allowance)
    return distinct


def above_cheap(
    costs: Float[np.ndarray, "input mode"], accounting: Accounting | None
) -> Float[np.ndarray, "input mode"]:
    """Cost of each mode on top of the cheap pass, 0 for cheap; a skipping router saves
    that pass.
    """
    above = costs - costs[:, :1] if accounting == "skipping" else costs.copy()
    above[:, 0] = 0.0
    return above


def no_prize(allowed: Allowance, inputs: int, benefit: float) -> str:
    """The reason why the oracle gains nothing: no input gains by escalation, or the
    budget allows no escalation.
    """
    if not benefit > 0 or allowed.per_input or allowed.slots(inputs):
        return Reason.NO_PRIZE.text()
    return Reason.NO_SLOT.text(percent=100 * allowed.budget.alpha, inputs=inputs)


def allowance_on(budget: Budget, table: ValueTable) -> Allowance:
    """The budget on a table: with costs per input where the table has them, else with
    one cost per mode.
    """
    if budget.convention not in table.input_costs:
        return allowance(budget, table.modes, table.costs)
    return Allowance(
        budget, budget.costs or table.costs or Costs({}, {}, {}), per_input=True
    ).on(table)


def allowance(
    budget: Budget, modes: tuple[str, ...], costs: Costs | None = None
) -> Allowance:
    """The budget with the figures of its own costs, or else of the table's."""
    convention = budget.convention
    if convention is None:
        return Allowance(budget)
    figures = budget.costs or costs
    if figures is None:
        raise InputError(
            f"{'An' if budget.kind == 'energy' else 'A'} {budget.kind} budget needs "
            "costs; none were given: state "
            f"{argument('costs', 'costs.toml')}, or columns {convention}_<mode> in "
            "the table."
        )
    cheap = figures.of_mode(modes[0], convention)
    full = figures.of_mode(modes[-1], convention)
    if not full > cheap:
        raise InputError(
            f"{figures.source}: the full mode must cost more than the cheap one; "
            "found "
            f"{convention} = {full} "
            f"for {modes[-1]!r} and {cheap} for {modes[0]!r}."
        )
    return Allowance(budget, figures, cheap, full)


def free_of_charge(
    scores: Sequence[Scores], allowances: Sequence[Allowance]
) -> tuple[list[Allowance], list[str]]:
    """The allowances where allocators without a stated cost are charged 0, and their
    names.

    That is so where the table has the prices: there is no costs file in which the cost
    of an allocator was forgotten.
    """
    free: dict[str, None] = {}
    charged = []
    for allowance in allowances:
        costs = allowance.costs
        convention = allowance.convention
        has_prices = allowance.per_input and costs is not None and not costs.modes
        if not has_prices or costs is None or convention is None:
            charged.append(allowance)
            continue
        unstated = {
            one.name: {**costs.allocators.get(one.name, {}), convention: 0.0}
            for one in scores
            if one.kind != "diagnostic"
            and convention not in costs.allocators.get(one.name, {})
        }
        free |= dict.fromkeys(unstated)
        allocators = {**costs.allocators, **unstated}
        charged.append(replace(allowance, costs=replace(costs, allocators=allocators)))
    return charged, list(free)


def charging(
    kinds: Mapping[str, str],
    allowances: Sequence[Allowance],
    missing_costs: MissingCosts,
) -> list[Allowance]:
    """The allowances, each with the allocators it cannot charge.

    Unless missing costs are only listed, a diagnostic under a measured budget is an
    error.

    Args:
        kinds: Of every allocator, whether it can be deployed.
        allowances: The allowances.
        missing_costs: What to do where a cost is missing.
    """
    if missing_costs == "list":
        return [
            replace(allowed, unpriced=_unpriced(kinds, allowed))
            for allowed in allowances
        ]
    diagnostics = [name for name, kind in kinds.items() if kind == "diagnostic"]
    measured_kinds = [one.budget.kind for one in allowances if one.is_measured]
    if diagnostics and measured_kinds:
        raise InputError(
            f"{diagnostics[0]} is a diagnostic: it uses the answer, which no vehicle "
            f"has, so {measured_kinds[0]} budgets cannot charge it. Judge it under "
            "selection budgets only, or leave it out."
        )
    return list(allowances)


def _unpriced(kinds: Mapping[str, str], allowed: Allowance) -> dict[str, Reason]:
    """Allocators for which a budget has no cost to charge, with the reasons."""
    if allowed.costs is None:
        return {}
    reasons = {}
    for name, kind in kinds.items():
        if kind == "diagnostic":
            reasons[name] = Reason.DIAGNOSTIC
        elif allowed.convention not in allowed.costs.allocators.get(name, {}):
            reasons[name] = Reason.NO_COST
    return reasons


def cost_figures(
    allowances: Sequence[Allowance], table: ValueTable | None = None
) -> dict[str, Any] | None:
    """The charged costs, in the form of a costs file; costs per input as means over the
    judged inputs.
    """
    figures = next((a.costs for a in allowances if a.costs is not None), None)
    if figures is None:
        return None
    content = figures.to_dict()
    per_input: dict[Convention, None] = {
        a.convention: None for a in allowances if a.per_input and a.convention
    }
    if table is None:
        return content
    for unit in per_input:
        for mode, mean in zip(
            table.modes, table.input_costs[unit].mean(axis=0), strict=True
        ):
            content["modes"][mode] = content["modes"].get(mode, {}) | {
                unit: float(mean),
                "note": MEANS,
            }
    return content
