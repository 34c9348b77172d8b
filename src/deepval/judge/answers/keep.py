"""As good, for less: the cheapest option whose quality is shown to reach a floor.

A *family* has one option at every spend of a grid: the best blind mixture, the best
table by groups, an allocator at its thresholds. Grid and order of the options are set
before any result is seen. A family is walked from dear to cheap and the walk stops at
the first option that is not shown to reach the floor.

Why that holds for the whole walk: call an option bad if it misses the floor. To state a
bad option, the walk of a family must have passed its first bad option, and to pass that
one test has probability at most a. So a family states a bad option with probability at
most a, however many options it has and however these depend on each other. With F
families and a = 2.5 % / F, all statements hold together with probability 97.5 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from deepval.basics.arrays import (
    Bool,
    DrawRows,
    Float,
    Int,
    ModeFloats,
    PerRow,
    ResampleRows,
)
from deepval.judge.allowances import Allowance
from deepval.judge.answers.floors import Floor, Qualities
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.draws import Draws
from deepval.judge.group_tables import (
    Groups,
    SpendInputs,
    SpendUnits,
    Tables,
    bought,
    out_of_fold,
    table_name,
    unit_sums,
)
from deepval.judge.intervals import ROUNDING, spreads, student_quantile
from deepval.judge.ladders import Choice, Plan
from deepval.judge.mode_charges import Charged
from deepval.judge.mode_plans import Steps, steps
from deepval.judge.policies import Policy, Ranking
from deepval.judge.tables.values import LARGEST_LOSS, ValueTable

ERROR = 0.025
"""Probability that any statement of an answer is wrong: one side of a 95 % interval, as
everywhere. Not 5 %, because new requests, on which a reader checks the floor, are a
sample themselves, and miss it more often than the population does.
"""
STEP = 0.025
"""Width of the grid of spends, as a share of what the dearest mode costs."""
GRID = 1.0 - STEP * np.arange(round(1 / STEP) + 1)


@dataclass(frozen=True, eq=False)
class Family:
    """Options at falling spends.

    Attributes:
        name: What is told apart: `blind`, `table by task`, the name of an allocator.
        gain: Decision value of each option in each unit, out of fold where something
            was chosen by it.
        cost: What each option costs in each unit.
        chosen_gain: Decision value in the sample of the options to run, which were
            chosen on all of it.
        tables: The tables to run; None for allocators.
        groups: The groups of the tables.
        base: For a ranking, the mode below the threshold at each spend.
        escalated: For a ranking, the share of the inputs above the threshold.
        moved: The largest chance of any input not to get the dearest mode.
    """

    name: str
    gain: SpendUnits
    cost: SpendUnits
    chosen_gain: Float[np.ndarray, "spend"]
    moved: Float[np.ndarray, "spend"]
    tables: Tables | None = None
    groups: Groups | None = None
    base: tuple[int, ...] | None = None
    escalated: PerRow | None = None


def families(
    bootstrap: Bootstrap,
    charged: Charged,
    allowance: Allowance,
    policies: Sequence[Policy],
    columns: Sequence[str] = (),
) -> list[Family]:
    """The families of an answer; a table by groups stands in for blind mixtures.

    Such a table is a blind mixture where its groups do not differ, so that a family of
    blind mixtures beside it would cost power and add nothing.
    """
    table = bootstrap.table
    divisions = [Groups.by(table, column) for column in columns or (None,)]
    found = [_of_tables(table, charged, groups) for groups in divisions]
    for policy in policies:
        own_cost = allowance.cost_of(policy.name)
        if isinstance(policy, Ranking) and policy.score is not None:
            found.append(_of_ranking(table, charged, policy, own_cost))
        elif isinstance(policy, Plan):
            found.append(_of_plan(table, charged, policy, own_cost))
        elif isinstance(policy, Choice):
            found.append(_of_choice(table, charged, policy, own_cost))
    return found


def _of_tables(table: ValueTable, charged: Charged, groups: Groups) -> Family:
    """The best tables, or the best blind mixtures where there is one group."""
    spends = GRID * charged.per_input
    # No table is cheaper than the cheapest mode everywhere, which ends the walk.
    least = float(charged.blind.mean(axis=0).min())
    spends = np.append(spends[spends > least], least)
    value = table.mode_values
    fold = groups.folds(table)
    # Where a cheaper table is best, the rest of the money buys the dearest mode: every
    # walk begins at that mode, and leaves it in small steps.
    dearest = charged.dearest
    gain, cost = out_of_fold(groups, fold, value, charged.blind, spends, dearest)
    tables = Tables.fit(
        groups.of, len(groups.labels), value, charged.blind, spends, rest=dearest
    )
    chosen = tables.of_inputs(groups.of, value)
    return Family(
        name="blind" if groups.column is None else table_name(groups.column),
        gain=unit_sums(table, gain),
        cost=unit_sums(table, cost),
        chosen_gain=chosen.sum(axis=1),
        moved=1.0 - tables.shares[:, tables.row, dearest].min(axis=1),
        tables=tables,
        groups=groups,
    )


def _of_ranking(
    table: ValueTable, charged: Charged, ranking: Ranking, own_cost: float
) -> Family:
    """The dearest mode where the score is high, the best base elsewhere.

    The threshold follows from scores and prices alone. The base is chosen by its gain,
    out of fold: the units of a fold get the base that is best on the others.
    """
    spends = GRID * charged.per_input
    gains = []
    costs = []
    taken = []
    left = []
    for base in charged.bases:
        share = _above_threshold(table, charged, ranking, base, spends - own_cost)
        taken.append(share.mean(axis=1))
        left.append(1.0 - share.min(axis=1))
        values = table.mode_values
        prices = charged.after
        rise = values[:, charged.dearest] - values[:, base]
        gains.append(unit_sums(table, values[:, base] + share * rise))
        rise = prices[:, charged.dearest] - prices[:, base]
        costs.append(unit_sums(table, prices[:, base] + share * rise + own_cost))
    gain = np.stack(gains)
    cost = np.stack(costs)
    # A base that costs more than the spend is none; the walk ends where all do.
    can_pay = cost.sum(axis=2) <= spends * len(table) * (1 + 1e-9)
    able = can_pay.any(axis=0)
    able = np.logical_and.accumulate(able)
    gain, cost, can_pay = gain[:, able], cost[:, able], can_pay[:, able]

    fold = Groups.by(table, None).folds(table)
    fold_of_unit = np.zeros(gain.shape[2], dtype=np.int64)
    fold_of_unit[table.unit] = fold
    judged_gain = np.empty(gain.shape[1:])
    judged_cost = np.empty_like(judged_gain)
    for number in np.unique(fold):
        inside = fold_of_unit == number
        best = _best(gain[:, :, ~inside].sum(axis=2), can_pay)
        step = np.arange(len(best))
        judged_gain[:, inside] = gain[best, step][:, inside]
        judged_cost[:, inside] = cost[best, step][:, inside]
    best = _best(gain.sum(axis=2), can_pay)
    chosen = gain[best, np.arange(len(best))].sum(axis=1)
    bases = tuple(charged.bases[number] for number in best)
    escalated = np.stack(taken)[best, np.arange(len(best))]
    moved = np.stack(left)[best, np.arange(len(best))]
    return Family(
        name=ranking.name,
        gain=judged_gain,
        cost=judged_cost,
        chosen_gain=chosen,
        moved=moved,
        base=bases,
        escalated=escalated,
    )


def _best(
    gain: Float[np.ndarray, "base spend"], can_pay: Bool[np.ndarray, "base spend"]
) -> Int[np.ndarray, "spend"]:
    """The number of the best base that each spend pays for."""
    return np.where(can_pay, gain, -np.inf).argmax(axis=0)


def _above_threshold(
    table: ValueTable,
    charged: Charged,
    ranking: Ranking,
    base: int,
    spends: Float[np.ndarray, "spend"],
) -> SpendInputs:
    """The probability that each input gets the dearest mode; equal scores share."""
    assert ranking.score is not None
    _, level = np.unique(-ranking.score, return_inverse=True)
    price = charged.after[:, charged.dearest] - charged.after[:, base]
    price_of_level = np.bincount(level, weights=price)
    after = np.maximum.accumulate(np.cumsum(price_of_level))
    before = np.append(0.0, after[:-1])
    left = spends * len(table) - charged.after[:, base].sum()
    width = after - before
    share = (left[:, None] - before) / np.where(width > 0, width, 1.0)
    # A level that costs nothing is bought with the one before it.
    share = np.where(width > 0, share, left[:, None] >= before)
    return np.clip(share, 0.0, 1.0)[:, level]


def _of_plan(
    table: ValueTable, charged: Charged, plan: Plan, own_cost: float
) -> Family:
    """The modes of largest scores at each spend."""
    # -inf means "never", and sums of it are no sums.
    score = np.maximum(plan.score, -LARGEST_LOSS)
    score = np.column_stack([np.zeros(len(table)), score])
    spends = GRID * charged.per_input - own_cost
    spends = spends[spends >= charged.after.mean(axis=0).min()]
    hull = steps(score, charged.after)
    order, taken = bought(hull, charged.after, spends * len(table))
    gain = _climbed(table, hull, order, taken, table.mode_values)
    cost = _climbed(table, hull, order, taken, charged.after + own_cost)
    moved = np.ones(len(gain))
    return Family(plan.name, gain, cost, gain.sum(axis=1), moved)


def _climbed(
    table: ValueTable,
    hull: Steps,
    order: Int[np.ndarray, "step"],
    taken: Float[np.ndarray, "spend step"],
    amount: ModeFloats,
) -> SpendUnits:
    """Sums by unit of an amount after the steps that were bought."""
    inputs = hull.input[order]
    rise = amount[inputs, hull.target[order]] - amount[inputs, hull.source[order]]
    start = amount[np.arange(len(table)), hull.start]
    units = len(table.unit_ids)
    unit = table.unit[inputs]
    base = np.bincount(table.unit, weights=start, minlength=units)
    climbed = [np.bincount(unit, weights=row * rise, minlength=units) for row in taken]
    return base + np.stack(climbed)


def _of_choice(
    table: ValueTable, charged: Charged, choice: Choice, own_cost: float
) -> Family:
    """What a router chose itself: one option, at its own spend."""
    rows = np.arange(len(table))
    gain = unit_sums(table, table.mode_values[rows, choice.mode][None])
    cost = unit_sums(table, charged.after[rows, choice.mode][None] + own_cost)
    return Family(choice.name, gain, cost, gain.sum(axis=1), np.ones(1))


# --- the walk -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Walk:
    """A family after its walk.

    Attributes:
        family: The family.
        spend: What each option costs, as a share of the dearest mode.
        reached: What each option reaches of what the floor is about.
        low: Its lower bound at the level of the answer.
        passed: Number of options that are shown to reach the floor, the dearest first.
    """

    family: Family
    spend: PerRow
    reached: PerRow
    low: PerRow
    passed: int


def walk(
    bootstrap: Bootstrap,
    charged: Charged,
    family: Family,
    floor: Floor,
    *,
    error: float,
) -> Walk:
    """The options of a family from dear to cheap, until one is not shown.

    Args:
        bootstrap: The resamples.
        charged: What modes cost.
        family: The options.
        floor: The floor.
        error: Probability of a wrong statement that this family may have.
    """
    qualities = Qualities.of(bootstrap)
    drawn = bootstrap.counts[: bootstrap.drawn.stop]
    samples = qualities.reached(floor, bootstrap.modes, family.gain @ drawn.T)
    # What one input more is worth that an option has lost.
    lost = _size_of_input(bootstrap.table, charged.dearest) * family.moved
    if floor.mode != bootstrap.modes[charged.dearest]:
        is_exact = _is_exact(bootstrap.table, charged, family, floor, qualities)
        lost = np.where(is_exact, 0.0, lost.max())
    elif qualities.is_gain:
        is_cheap = _is_exact(bootstrap.table, charged, family, floor, qualities)
        lost = np.where(is_cheap, 0.0, lost)
    lost = lost / qualities.whole(floor, bootstrap.modes)
    low = lower_bounds(bootstrap, samples, error, lost)
    # No share of right answers is below 0, whatever is still to come.
    if bootstrap.has_intervals:
        low = np.maximum(low, qualities.least(floor, bootstrap.modes))

    # What was chosen on all rows is what would run: it has to reach the floor, too.
    chosen = qualities.reached(floor, bootstrap.modes, family.chosen_gain[:, None])
    low = np.minimum(np.minimum(low, samples[:, 0]), chosen[:, 0])
    passed = int(np.logical_and.accumulate(low >= floor.target - ROUNDING).sum())
    spend = family.cost.sum(axis=1) / (charged.per_input * len(bootstrap.table))
    return Walk(family, spend, samples[:, 0], low, passed)


def _size_of_input(table: ValueTable, dearest: int) -> float:
    """What one input more or less changes: 1 for right and wrong.

    The root of the mean square over the inputs on which the dearest mode differs.
    """
    value = table.mode_values[:, dearest] - table.mode_values.min(axis=1)
    different = value[value != 0]
    if not len(different):
        return 0.0
    return float(np.sqrt(np.mean(different**2)))


def _is_exact(
    table: ValueTable,
    charged: Charged,
    family: Family,
    floor: Floor,
    qualities: Qualities,
) -> Bool[np.ndarray, "spend"]:
    """Which options are a mode that the floor is measured by, so without any error."""
    measures = [table.modes.index(floor.mode)] if floor.mode is not None else []
    if qualities.is_gain and floor.share is not None:
        measures.append(0)
    exact = np.zeros(len(family.gain), dtype=bool)
    for mode in measures:
        gain = unit_sums(table, table.mode_values[None, :, mode])
        cost = unit_sums(table, charged.blind[None, :, mode])
        is_same = np.isclose(family.gain, gain) & np.isclose(family.cost, cost)
        exact |= is_same.all(axis=1)
    return exact


def lower_bounds(
    bootstrap: Bootstrap, samples: ResampleRows, error: float, lost: PerRow
) -> PerRow:
    """One-sided lower bounds of rows of samples; -inf without an interval.

    The lower of two. One is the percentile of the draws. The other is the second
    opinion, which allows for few or uneven units, as a score bound: draws repeat what
    occurred, so an option that lost nothing on the few inputs that it runs cheaper
    would have no error at all. Where single inputs of one size are lost, their number L
    has the variance L, and the bound is the L whose distance from what was lost is
    z sqrt(L): Wilson, J. Am. Stat. Assoc. 22 (1927). With no loss that is z^2 inputs,
    3.8 at 2.5 %, where the exact Poisson bound is 3.7.

    Args:
        bootstrap: The resamples.
        samples: What each option reaches.
        error: Probability that a bound is above the truth.
        lost: What one lost input changes.
    """
    point = samples[:, 0]
    drawn = samples[:, bootstrap.drawn]
    if not bootstrap.has_intervals:
        return np.full(len(samples), -np.inf)
    percentile = percentiles_at(drawn, bootstrap.draws, error)
    effective = bootstrap.effective_units
    degrees = effective - 1 if effective >= 2 else 1.0
    # A draw without anything to keep leaves no spread, and no bound.
    is_finite = np.isfinite(drawn).all(axis=1)
    spread = np.full(len(samples), np.inf)
    spread[is_finite] = spreads(drawn[is_finite], bootstrap.draws)
    units = len(bootstrap.unit_ids)
    width = student_quantile(error, degrees) * spread / np.sqrt(1 - 1 / units)
    rare = NormalDist().inv_cdf(1 - error) ** 2 * lost / 2
    width = rare + np.sqrt(width**2 + rare**2)
    return np.minimum(np.minimum(percentile, point - width), point)


def percentiles_at(samples: DrawRows, draws: Draws, level: float) -> PerRow:
    """The percentile of every row at a level."""
    order = np.argsort(samples, axis=1)
    ordered = np.take_along_axis(samples, order, axis=1)
    if draws.weights is None:
        # The draw below, so that a bound is never between a bad draw and a good one.
        return ordered[:, int(level * samples.shape[1])]
    reached = np.cumsum(draws.weights[order], axis=1)
    at = np.argmax(reached >= level - ROUNDING, axis=1)
    return ordered[np.arange(len(samples)), at]
