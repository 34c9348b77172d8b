"""Resamples and budgets -> samples of plans over all modes: the oracle, the best blind
mixture, scores, choices.

An exact knapsack chooses the mode of each input. Costs are integers (microseconds,
microjoules or nanodollars; one slot each under a selection budget) on top of the cheap
pass: C_m in a cascade, which runs a higher mode from scratch, and C_m - C_c for a
skipping router, which makes one call. The budget is floor(1000*N*(alpha*C_f - C_S) +
1e-6); a budget of money is rounded to nanodollars. Per-mode scores go through the same
knapsack; a score counts if it is above 0 or if the mode saves money, and ties are
broken by input id. A router that chooses modes itself is judged at what it spends.
Chance, the random baseline, is the best mixture of modes that ignores the inputs: it
chooses mode m for a random share p_m of them. If every input has costs of its own,
draws are planned by the relaxed knapsack, which keeps the budget in expectation as a
ranking does (`mode_plans.steps`). `optima` adds the plan of whole inputs with its
certificate.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.judging import fills, knapsack, mode_plans, oracle
from deepval.judging.allowances import Allowance, above_cheap
from deepval.judging.resamples import Allocator, Resamples, Sample
from deepval.results import Optimum, Spending, share_of
from deepval.tables import keys
from deepval.tables.costs import CONVENTIONS, Convention
from deepval.tables.scores import Scores
from deepval.tables.values import LARGEST_LOSS, ValueTable


def own_budgets(
    table: ValueTable, scores: Sequence[Allocator], allowances: Sequence[Allowance]
) -> Iterator[Allowance]:
    """For every router that chooses modes itself, the budget that it spends: one per
    kind of budget and accounting.

    A router that spends nothing has none: it never escalates.
    """
    of_kind = {
        (a.budget.kind, a.convention, a.accounting): a for a in reversed(allowances)
    }
    taken = {a.key for a in allowances}
    for item in scores:
        if not isinstance(item, Scores) or not item.choice:
            continue
        for allowed in reversed(of_kind.values()):
            if item.name in allowed.unpriced:
                continue
            paid = above_cheap_on(table, allowed)[
                np.arange(len(table)), item.chosen
            ] + allowed.cost_of(item.name)
            spent = np.bincount(table.unit, paid, minlength=len(table.unit_ids))
            alpha = float(paid.mean()) / allowed.full
            if alpha > 1:
                raise InputError(
                    f"{item.name}: a choice may cost at most {table.modes[-1]!r} on "
                    f"every input; it costs {alpha:.4g} times that "
                    f"({allowed.key.label}). Put the dearest mode last."
                )
            if alpha <= 0:
                continue
            own = replace(
                allowed,
                budget=replace(allowed.budget, alpha=alpha),
                spender=item.name,
                spent=spent,
            )
            # another budget of exactly this share; rows are told apart by their budget
            while own.key in taken:
                own = replace(
                    own,
                    budget=replace(
                        own.budget, alpha=math.nextafter(own.budget.alpha, 0.0)
                    ),
                )
            taken.add(own.key)
            yield own


def above_cheap_on(
    table: ValueTable, allowed: Allowance
) -> Float[np.ndarray, "input mode"]:
    """Cost of each mode on every input, on top of the cheap pass; one slot under a
    selection budget.
    """
    if allowed.per_input:
        return allowed.prices(table)
    if allowed.costs is None or allowed.convention is None:
        return np.broadcast_to(
            np.arange(len(table.modes)) > 0, table.losses.shape
        ).astype(np.float64)
    per_call = np.array(
        [[allowed.costs.of_mode(mode, allowed.convention) for mode in table.modes]]
    )
    return np.broadcast_to(
        above_cheap(per_call, allowed.accounting), table.losses.shape
    )


_PARTS: Mapping[Convention, int] = {
    "ms": 1000,
    "mj": 1000,
    "mj_gpu": 1000,
    "mj_all": 1000,
    "usd": 10**9,
}
"""Integer parts per unit of cost; dollars need more, as a call of a small language
model costs under a millidollar.
"""


def mode_costs(allowed: Allowance, modes: Sequence[str]) -> Int[np.ndarray, "mode"]:
    """Cost of each mode on top of the cheap pass, as integers; 0 for cheap, 0 or less
    if a call costs no more.
    """
    if allowed.costs is None or allowed.convention is None:
        return np.array([0] + [1] * (len(modes) - 1))
    per_call = [allowed.costs.of_mode(mode, allowed.convention) for mode in modes]
    saved = per_call[0] if allowed.accounting == "skipping" else 0.0
    above = [
        round(_PARTS[allowed.convention] * (cost - saved)) for cost in per_call[1:]
    ]
    free = [mode for mode, cost in zip(modes[1:], above, strict=True) if not cost]
    if free and allowed.accounting == "cascade":
        raise InputError(
            f"{allowed.costs.source}: a mode above cheap must cost something; "
            f"{free[0]!r} has {allowed.convention} = "
            f"{allowed.costs.of_mode(free[0], allowed.convention):g}, less than "
            "can be counted."
        )
    return np.array([0, *above])


def input_costs(allowed: Allowance, table: ValueTable) -> Int[np.ndarray, "input mode"]:
    """Cost of each mode on top of the cheap pass for each input, as integers; 0 for
    cheap.
    """
    assert allowed.convention is not None
    return np.rint(_PARTS[allowed.convention] * allowed.prices(table)).astype(np.int64)


def allowed_spend(allowed: Allowance, inputs: int, cost: float = 0.0) -> int:
    """Budget for escalation, in the same integers."""
    if allowed.costs is None or allowed.convention is None:
        return int(allowed.slots(inputs))
    slack = 0.5 if allowed.convention == "usd" else 1e-6
    parts = (
        _PARTS[allowed.convention]
        * inputs
        * (allowed.budget.alpha * allowed.full - cost)
    )
    return max(0, math.floor(parts + slack))


def _spends(resamples: Resamples, allowed: Allowance, cost: float = 0.0) -> list[int]:
    """Budget for escalation in every resample, in the same integers."""
    if allowed.convention is None:
        return allowed.slots_in(resamples.counts, resamples.inputs).tolist()
    if allowed.spent is None:
        return [
            allowed_spend(allowed, int(inputs), cost) for inputs in resamples.inputs
        ]
    return (
        np.rint(
            _PARTS[allowed.convention]
            * allowed.purses(resamples.table, resamples.counts)
        )
        .astype(np.int64)
        .tolist()
    )


def oracles(resamples: Resamples, allowances: Sequence[Allowance]) -> list[Sample]:
    """The best plan over more than two modes of every resample under each budget."""
    return [_oracle(resamples, allowed) for allowed in allowances]


def _oracle(resamples: Resamples, allowed: Allowance) -> Sample:
    values = resamples.table.mode_values
    # every escalation costs one slot, so each input has one best mode
    if allowed.costs is None:
        return resamples.best(
            allowed.slots_in(resamples.counts, resamples.inputs)[:, None],
            values.max(axis=1),
        )[0]
    return _plan(resamples, values, allowed, cost=0.0)


def chances(resamples: Resamples, allowances: Sequence[Allowance]) -> list[Sample]:
    """The best information-free mixture of more than two modes in every resample.

    Maximises N*sum_m p_m*mean(V^m) over p >= 0 with sum p <= 1 and N*sum_m p_m*C_m
    within what a free allocator may spend. It is an expectation, so a budget that pays
    for no whole escalation still buys a part of one.
    """
    table = resamples.table
    parts = (*table.mode_values.T, *np.maximum(table.mode_values, 0.0).T)
    units = len(table.unit_ids)
    totals = resamples.counts @ np.column_stack(
        [np.bincount(table.unit, part, minlength=units) for part in parts]
    )
    gains, benefits = np.hsplit(totals, 2)
    return [_mixture(resamples, allowed, gains, benefits) for allowed in allowances]


def _mixture(
    resamples: Resamples,
    allowed: Allowance,
    gains: Float[np.ndarray, "resample mode"],
    benefits: Float[np.ndarray, "resample mode"],
) -> Sample:
    """The best mixture, of at most two modes: a linear programme with two constraints
    has such an optimum.
    """
    costs, spend = _mean_costs(resamples, allowed)
    mean_spend = spend / np.maximum(resamples.inputs, 1.0)
    gain, benefit, escalated = np.zeros((3, len(mean_spend)))
    # A pair (m, m) is mode m alone, which matters if it costs no more than the cheap
    # one: no other pair contains it.
    for low, high in itertools.product(range(len(costs)), repeat=2):
        dearer = costs[high] > costs[low] if low != high else costs[low] <= 0
        more = np.divide(
            mean_spend - costs[low],
            costs[high] - costs[low],
            out=np.zeros(len(mean_spend)),
            where=dearer & (low != high),
        )
        dear = np.clip(more, 0.0, 1.0)
        mixed = (1 - dear) * gains[:, low] + dear * gains[:, high]
        better = (
            dearer & (costs[low] <= mean_spend) & (mixed > gain + 1e-12 * np.abs(gain))
        )
        gain = np.where(better, mixed, gain)
        benefit = np.where(
            better, (1 - dear) * benefits[:, low] + dear * benefits[:, high], benefit
        )
        share = (1 - dear) * (low > 0) + dear * (high > 0)
        escalated = np.where(better, resamples.inputs * share, escalated)
    return Sample(gain, benefit, escalated)


def _mean_costs(
    resamples: Resamples, allowed: Allowance
) -> tuple[Float[np.ndarray, "mode resample"], Float[np.ndarray, "resample"]]:
    """Mean cost per input of each mode in every resample, and the total budget
    there.
    """
    table, number = resamples.table, len(resamples.counts)
    if not allowed.per_input:
        spend = _spends(resamples, allowed)
        one = mode_costs(allowed, table.modes).astype(float)
        return np.broadcast_to(one[:, None], (len(one), number)), np.array(
            spend, dtype=float
        )
    totals = np.column_stack(
        [resamples.totals(price) for price in allowed.prices(table).T]
    )
    return (totals / np.maximum(resamples.inputs, 1.0)[:, None]).T, allowed.purses(
        resamples.table, resamples.counts
    )


def choice_sample(resamples: Resamples, scores: Scores) -> Sample:
    """Sums over the modes that a router chooses itself."""
    start, _ = _from_start(resamples, scores.chosen[:, None])
    return Sample(*start.T)


def plan_samples(
    resamples: Resamples, scores: Scores, allowances: Sequence[Allowance]
) -> list[Sample | None]:
    """Plans by an allocator's per-mode scores, at the capacity that its own cost
    leaves.

    None where the allocator cannot pay for itself.
    """
    if np.isposinf(scores.values).any():
        raise InputError(
            f"{scores.name}: scores per mode are added up, so "
            "none can be infinite; found +inf."
        )
    finite = scores.values[np.isfinite(scores.values)]
    if finite.size and np.abs(finite).max() > LARGEST_LOSS:
        raise InputError(
            f"{scores.name}: scores per mode are added up, so none can be above "
            f"{LARGEST_LOSS:g} in size; found {finite[np.abs(finite).argmax()]:g}."
        )
    samples: list[Sample | None] = []
    for allowed in allowances:
        cost = allowed.cost_of(scores.name)
        possible = allowed.feasible(cost)
        samples.append(
            _plan(
                resamples, _scored(resamples.table, scores, allowed), allowed, cost=cost
            )
            if possible
            else None
        )
    return samples


def _scored(
    table: ValueTable, scores: Scores, allowed: Allowance
) -> Float[np.ndarray, "input mode"]:
    """Scores of all modes, 0 for cheap.

    Only a mode that saves money can be worth its negative score.
    """
    costs = (
        allowed.prices(table) if allowed.per_input else mode_costs(allowed, table.modes)
    )
    saving = np.broadcast_to(costs[..., 1:] < 0, scores.values.shape)
    if np.isneginf(scores.values[saving]).any():
        raise InputError(
            f"{scores.name}: the score of a mode that costs less than "
            f"{table.modes[0]!r} must be finite; found -inf."
        )
    return np.column_stack(
        [
            np.zeros(len(table)),
            np.where(saving, scores.values, np.maximum(scores.values, 0.0)),
        ]
    )


def _plan(
    resamples: Resamples,
    scored: Float[np.ndarray, "input mode"],
    allowed: Allowance,
    *,
    cost: float,
) -> Sample:
    """Solve every resample from the cheapest modes on; inputs without a dearer mode of
    value are left out.
    """
    if allowed.per_input:
        return _relaxed_plan(resamples, scored, allowed, cost=cost)
    table, counts = resamples.table, resamples.counts
    problem = mode_plans.from_cheapest(scored, mode_costs(allowed, table.modes))
    start, quantities = _from_start(resamples, problem.modes)
    rows = np.flatnonzero((problem.values > 0).any(axis=1))
    rows = rows[np.argsort(keys.as_text(table.input[rows]), kind="stable")]
    if not len(rows):
        return Sample(*start.T)
    saved = int(problem.saved[0])
    spends = zip(_spends(resamples, allowed, cost), resamples.inputs, strict=True)
    spend = [own + saved * int(inputs) for own, inputs in spends]
    unit, scored, quantities = table.unit[rows], problem.values[rows], quantities[rows]
    sums, solved = fills.plan_sums(
        scored,
        problem.costs,
        unit,
        quantities=quantities,
        counts=counts,
        budgets=np.array(spend),
    )
    for index in resamples.watch(np.flatnonzero(~solved).tolist(), "planning draws"):
        drawn = np.repeat(np.arange(len(rows)), counts[index, unit].astype(np.int64))
        columns = knapsack.solve(scored[drawn], problem.costs, spend[index]).modes
        sums[index] = quantities[drawn, columns].sum(axis=0)
    return Sample(*(start + sums).T)


def _from_start(
    resamples: Resamples, modes: Int[np.ndarray, "input column"]
) -> tuple[
    Float[np.ndarray, "resample quantity"], Float[np.ndarray, "input column quantity"]
]:
    """Gain, benefit and number of escalations of the first column in every resample,
    and what others add to it.
    """
    table = resamples.table
    values = np.take_along_axis(table.mode_values, modes, axis=1)
    every = np.stack([values, np.maximum(values, 0.0), modes > 0], axis=2)
    start = np.column_stack([resamples.totals(quantity) for quantity in every[:, 0].T])
    return start, every - every[:, :1]


def _relaxed_plan(
    resamples: Resamples,
    scored: Float[np.ndarray, "input mode"],
    allowed: Allowance,
    *,
    cost: float,
) -> Sample:
    """The relaxed plan of every resample, with costs per input: steps of all hulls by
    falling slope.
    """
    table, prices = resamples.table, allowed.prices(resamples.table)
    problem = mode_plans.from_cheapest(scored, prices)
    start, quantities = _from_start(resamples, problem.modes)
    hull = mode_plans.steps(problem.values, problem.costs)
    added = quantities[hull.input, hull.target] - quantities[hull.input, hull.source]
    purse = allowed.purses(table, resamples.counts, cost) + resamples.totals(
        problem.saved
    )
    bought = oracle.purse_sums(
        hull.slope,
        list(added.T),
        table.unit[hull.input],
        price=hull.cost,
        counts=resamples.counts,
        purse=purse[:, None],
    )
    return Sample(*(start + bought[:, 0]).T)


def optima(table: ValueTable, allowances: Sequence[Allowance]) -> Iterator[Optimum]:
    """Per measured budget: the optimum with its certificate, and its value relative to
    other plans.

    Two modes need a plan only if every input has costs of its own.
    """
    planned_for = [
        a
        for a in allowances
        if a.costs is not None and (len(table.modes) > 2 or a.per_input)
    ]
    if not planned_for:
        # converting the ids of many inputs to text would take longer than judging them
        return
    order = np.argsort(keys.as_text(table.input), kind="stable")
    values = table.mode_values[order]
    for allowed in planned_for:
        spend = allowed_spend(allowed, len(table))
        costs = (
            input_costs(allowed, table)[order]
            if allowed.per_input
            else mode_costs(allowed, table.modes)
        )
        best = _certified(values, costs, spend)
        if allowed.per_input:
            full_only = _certified(values[:, [0, -1]], costs[:, [0, -1]], spend).value
        else:
            full_only = oracle.oracle_gain(
                table.decision_values, int(allowed.slots(len(table)))
            )
        modes = np.zeros_like(best.modes)
        modes[order] = best.modes
        yield Optimum(
            kind=allowed.budget.kind,
            alpha=allowed.budget.alpha,
            convention=allowed.convention,
            accounting=allowed.accounting,
            value=best.value,
            share_of_cheap_loss=share_of(best.value, table.cheap_loss),
            full_only=full_only,
            full_only_share=share_of(full_only, best.value),
            lp_bound=best.bound,
            gap=best.gap,
            multiplier=best.plan.multiplier,
            core_inputs=best.plan.core,
            modes={
                mode: int(np.count_nonzero(modes == m))
                for m, mode in enumerate(table.modes)
            },
            spent=tuple(
                _spent(modes, allowed, c, table)
                for c in CONVENTIONS
                if _has_costs(allowed, c, table)
            ),
        )


class _Certified(NamedTuple):
    """The best plan of whole inputs: its modes and value, a proven bound, the proven
    gap, and the plan as solved.
    """

    modes: Int[np.ndarray, "input"]
    value: float
    bound: float
    gap: float
    plan: mode_plans.Plan


def _certified(
    values: Float[np.ndarray, "input mode"], costs: mode_plans.Costs, spend: int
) -> _Certified:
    problem = mode_plans.from_cheapest(values, costs)
    plan = knapsack.solve(
        problem.values, problem.costs, spend + int(problem.saved.sum())
    )
    proof = mode_plans.check(plan, problem.values, problem.costs)
    rows = np.arange(len(values))
    start = float(values[rows, problem.modes[:, 0]].sum())
    return _Certified(
        problem.modes[rows, plan.modes],
        start + plan.value,
        start + plan.bound,
        float(proof.gap),
        plan,
    )


def _has_costs(allowed: Allowance, convention: Convention, table: ValueTable) -> bool:
    modes = {} if allowed.costs is None else allowed.costs.modes
    return convention in table.input_costs or all(
        convention in modes.get(mode, {}) for mode in table.modes
    )


def _spent(
    plan: Int[np.ndarray, "input"],
    allowed: Allowance,
    convention: Convention,
    table: ValueTable,
) -> Spending:
    """Cost of a plan's escalations in a convention, and its excess over the budget of
    the same alpha there.
    """
    if convention in table.input_costs:
        costs = table.input_costs[convention]
    else:
        assert allowed.costs is not None
        per_call = np.array(
            [allowed.costs.of_mode(mode, convention) for mode in table.modes]
        )
        costs = np.broadcast_to(per_call, table.losses.shape)
    spent = float(
        above_cheap(costs, allowed.accounting)[np.arange(len(plan)), plan].sum()
    )
    limit = allowed.budget.alpha * float(costs[:, -1].sum())
    return Spending(convention, spent, limit, float(spent / limit - 1))
