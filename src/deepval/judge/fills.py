"""Values per mode, costs of the modes and draws of units -> sums over the best plan of
every draw, most draws at once.

The best plan of `knapsack` differs little from the greedy fill. The steps of all hulls
are sorted once. A matrix product gives the cost of whole blocks of steps in every draw,
and steps are visited only in the block in which the budget of a draw runs out. Then a
search finds the few inputs that change their level, in all draws of nearly the same
multiplier together. Changes from one level to another are taken by rising loss, so a
plan is a number of changes per pair of levels, and a list of all such numbers is short.
Draws whose best plan is not proven or not unique are left to `knapsack`.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, InputInts, Int, ModeFloats
from deepval.judge.kernel import DrawCounts, sums_before_blocks
from deepval.judge.knapsack import SOLVE_TOLERANCE, hull_slopes

BLOCK = 64
"""Steps in a block."""
AT_ONCE = 1 << 18
"""Limit of a search: draws that are searched together, times the length of half a
list.
"""
TRIES = ((128, 24), (512, 40))
"""Per attempt: steps on either side of the cuts whose inputs may change, and most
changes between two levels.
"""
MOST_LISTED, FIRST_LISTED = 10_000, 5
"""Most entries of half a list (a longer list gets fewer changes), and most changes of
the plans that give a bound.
"""


class Sums(NamedTuple):
    """Sums of quantities over the plan of each draw, and whether that plan is proven to
    be the only best one.
    """

    sums: Float[np.ndarray, "draw quantity"]
    solved: Bool[np.ndarray, "draw"]


class _Steps(NamedTuple):
    """Levels (distinct costs) of all inputs, and the steps of their hulls by falling
    slope, then by input.

    `useful` marks levels that are worth more than all cheaper ones; `step_index` gives
    the step that leads over each gap between levels, the number of steps where there is
    none.
    """

    costs: Int[np.ndarray, "level"]
    values: Float[np.ndarray, "input level"]
    useful: Bool[np.ndarray, "input level"]
    quantities: Float[np.ndarray, "input level quantity"]
    unit: InputInts
    input: Int[np.ndarray, "step"]
    source: Int[np.ndarray, "step"]
    target: Int[np.ndarray, "step"]
    slope: Float[np.ndarray, "step"]
    length: Float[np.ndarray, "step"]
    step_index: Int[np.ndarray, "input level-1"]


class _Fills(NamedTuple):
    """Greedy fills: all steps before `cut` and `copies` of the step `cut`; the slack
    remains unspent.
    """

    counts: DrawCounts
    cut: Int[np.ndarray, "draw"]
    copies: Float[np.ndarray, "draw"]
    multiplier: Float[np.ndarray, "draw"]
    slack: Float[np.ndarray, "draw"]
    tolerance: Float[np.ndarray, "draw"]

    def keep(self, draws: np.ndarray) -> "_Fills":
        return _Fills(*(column[draws] for column in self))


def plan_sums(
    values: ModeFloats,
    costs: Int[np.ndarray, "mode"],
    unit: InputInts,
    *,
    quantities: Float[np.ndarray, "input mode quantity"],
    counts: DrawCounts,
    budgets: Int[np.ndarray, "draw"],
) -> Sums:
    """Sums of quantities over the plan of greatest value in every draw; rows must be
    sorted by input id.
    """
    steps = _steps(values, costs, unit, quantities)
    sums, fills = _fill(steps, counts, budgets)
    # No plan exceeds the fill by more than multiplier * slack, so a fill whose slack is
    # worth nothing is the best plan.
    binding = fills.multiplier * fills.slack > fills.tolerance
    # Sums of costs up to 2**53 are exact in double precision; a budget below the
    # dearest mode changes the hulls.
    solved = (
        (budgets >= costs.max())
        & ~binding
        & (float(counts.sum(axis=1).max()) * len(values) * costs.max() < 2**53)
    )
    open_ = np.flatnonzero(~solved & (budgets >= costs.max()))
    # several plans may then be as good
    tied = len(np.unique(steps.slope)) < len(steps.slope)
    for reach, most in () if tied else TRIES:
        search = _Search.of(steps.costs, most)
        # Draws of nearly the same multiplier are cut at nearly the same steps, so few
        # inputs serve all of them.
        open_ = open_[np.argsort(fills.multiplier[open_], kind="stable")]
        at_once = max(1, AT_ONCE // len(search.left.cost))
        for first in range(0, len(open_), at_once):
            draws = open_[first : first + at_once]
            more, solved[draws] = _change_sums(
                steps, fills.keep(draws), search, reach=reach
            )
            sums[draws] += np.where(solved[draws][:, None], more, 0.0)
        open_ = open_[~solved[open_]]
    return Sums(sums, solved)


def _steps(
    values: ModeFloats,
    costs: Int[np.ndarray, "mode"],
    unit: InputInts,
    quantities: Float[np.ndarray, "input mode quantity"],
) -> _Steps:
    # Levels are distinct costs: only the most valuable of the modes with the same cost
    # can be in the best plan.
    rows, distinct = np.arange(len(values)), np.unique(costs)
    alike = [np.flatnonzero(costs == cost) for cost in distinct]
    # the first of the best
    mode = np.stack([modes[values[:, modes].argmax(axis=1)] for modes in alike], axis=1)
    values, quantities = values[rows[:, None], mode], quantities[rows[:, None], mode]
    slopes = hull_slopes(values.T, distinct)
    # Neighbouring gaps of equal slope belong to one step of the hull: a step begins
    # where the slope changes.
    fresh = np.vstack([np.ones((1, len(rows)), dtype=bool), slopes[1:] != slopes[:-1]])
    parts = []
    for source, target in combinations(range(len(distinct)), 2):
        whole = (
            fresh[source]
            & ~fresh[source + 1 : target].any(axis=0)
            & (slopes[source] > 0)
        )
        whole &= True if target == len(distinct) - 1 else fresh[target]
        which = np.flatnonzero(whole)
        parts.append(
            (
                which,
                np.full_like(which, source),
                np.full_like(which, target),
                slopes[source, which],
            )
        )
    row, source, target, slope = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    # Steepest first, as a greedy fill takes them. Where slopes are equal, the draws
    # that bind are left to `knapsack`.
    order = np.lexsort((row, -slope))
    row, source, target, slope = row[order], source[order], target[order], slope[order]
    step_index = np.full((len(rows), len(distinct) - 1), len(row))
    for level in range(len(distinct) - 1):
        over = np.flatnonzero((source <= level) & (level < target))
        step_index[row[over], level] = over
    # A level worth no more than a cheaper one is never needed: the cheaper one serves
    # as well.
    useful = np.ones(values.shape, dtype=bool)
    useful[:, 1:] = values[:, 1:] > np.maximum.accumulate(values, axis=1)[:, :-1]
    length = (distinct[target] - distinct[source]).astype(np.float64)
    return _Steps(
        distinct,
        values,
        useful,
        quantities,
        unit,
        row,
        source,
        target,
        slope,
        length,
        step_index,
    )


def _fill(
    steps: _Steps, counts: DrawCounts, budgets: Int[np.ndarray, "draw"]
) -> tuple[Float[np.ndarray, "draw quantity"], _Fills]:
    """Sums over the greedy fill of every draw, and the fill itself."""
    number, draws = len(steps.slope), np.arange(len(counts))
    gained = (
        steps.quantities[steps.input, steps.target]
        - steps.quantities[steps.input, steps.source]
    )
    worth = (steps.slope * steps.length)[:, None]
    columns = np.hstack([steps.length[:, None], worth, gained])
    unit = steps.unit[steps.input]
    upto = sums_before_blocks(columns, unit, size=BLOCK, units=counts.shape[1])
    # Costs are whole numbers, so these products are exact up to 2**53, and with them
    # the block of the cut.
    reached = counts @ upto[:, 0].T
    block = np.count_nonzero(reached <= budgets[:, None], axis=1) - 1
    sums = np.einsum("du,dcu->dc", counts, upto[block])
    rows = block[:, None] * BLOCK + np.arange(BLOCK)
    weight = np.take_along_axis(counts, unit.take(rows, mode="clip"), axis=1) * (
        rows < number
    )
    spent = reached[draws, block][:, None] + np.cumsum(
        weight * steps.length.take(rows, mode="clip"), axis=1
    )
    # Within the block, the cut is the first step that not all copies in the draw can
    # afford.
    over = spent > budgets[:, None]
    within = np.where(over.any(axis=1), over.argmax(axis=1), BLOCK)
    cut = block * BLOCK + within
    whole = cut >= number
    at = np.minimum(cut, number - 1)
    length, before = steps.length[at], spent[draws, np.minimum(within, BLOCK - 1)]
    before = before - np.where(
        whole, 0.0, weight[draws, np.minimum(within, BLOCK - 1)] * length
    )
    # A draw repeats inputs, so the step at the cut has several copies; as many are
    # taken as the rest pays for.
    copies = np.where(whole, 0.0, np.floor_divide(budgets - before, length))
    taken = np.where(np.arange(BLOCK) < within[:, None], weight, 0.0)
    sums += np.einsum("dr,drc->dc", taken, columns.take(rows, axis=0, mode="clip"))
    sums += copies[:, None] * columns[at]
    left = budgets - before - copies * length
    odd = budgets % np.gcd.reduce(steps.costs)  # every plan leaves this unspent
    multiplier = np.where(whole, 0.0, steps.slope[at])
    # relative to the bound, as in `knapsack`
    tolerance = SOLVE_TOLERANCE * (sums[:, 1] + multiplier * left)
    return sums[:, 2:], _Fills(counts, cut, copies, multiplier, left - odd, tolerance)


class _Half(NamedTuple):
    """All numbers of changes (up positive, down negative) for some pairs of levels,
    their costs and order by cost.
    """

    numbers: Int[np.ndarray, "list pair"]
    cost: Int[np.ndarray, "list"]
    order: Int[np.ndarray, "list"]

    @classmethod
    def of(cls, lengths: Int[np.ndarray, "pair"], most: int) -> "_Half":
        """The list with up to `most` changes of each pair, up or down."""
        shape = (2 * most + 1,) * len(lengths)
        numbers = np.indices(shape).reshape(len(lengths), math.prod(shape)).T - most
        cost = numbers @ lengths
        return cls(numbers, cost, np.argsort(cost, kind="stable"))

    def lost(
        self, totals: Sequence[Float[np.ndarray, "draw number"]], draws: int
    ) -> Float[np.ndarray, "draw list"]:
        """Loss of every entry of the list, from the losses of each number of changes of
        each pair.
        """
        lost = np.zeros((draws, 1))
        for total in totals:
            lost = (lost[:, :, None] + total[:, None, :]).reshape(draws, -1)
        return lost


class _Search(NamedTuple):
    """Pairs of levels, the most changes that are listed of each pair, and the lists of
    both halves of the pairs.
    """

    pairs: list[tuple[int, int]]
    most: int
    left: _Half
    right: _Half

    @classmethod
    def of(cls, costs: Int[np.ndarray, "level"], most: int) -> "_Search":
        """The search with up to `most` changes of each pair, or fewer where a list
        would be too long.
        """
        pairs = list(combinations(range(len(costs)), 2))
        lengths, middle = (
            np.array([costs[high] - costs[low] for low, high in pairs]),
            (len(pairs) + 1) // 2,
        )
        # Half a list has (2 * most + 1) ** middle entries, at most MOST_LISTED.
        most = min(most, int((MOST_LISTED ** (1 / middle) - 1) // 2))
        return cls(
            pairs,
            most,
            _Half.of(lengths[:middle], most),
            _Half.of(lengths[middle:], most),
        )


class _LeastChanges(NamedTuple):
    """The changes from one level to another of least loss, in every draw: their inputs
    and losses.

    Attributes:
        entry: Input of the first, second, ... change.
        loss: Loss of each change; a lower bound where it is not sure.
        total: Loss of the first 0, 1, 2, ... changes together.
        sure: Whether the losses of the first 0, 1, 2, ... changes are exact.
        alone: Whether no other changes have the same total loss.
    """

    entry: Int[np.ndarray, "draw change"]
    loss: Float[np.ndarray, "draw change"]
    total: Float[np.ndarray, "draw number"]
    sure: Bool[np.ndarray, "draw number"]
    alone: Bool[np.ndarray, "draw number"]


def _least_changes(
    loss: Float[np.ndarray, "draw entry"],
    number: Float[np.ndarray, "draw entry"],
    *,
    least: Float[np.ndarray, "draw"],
    tolerance: Float[np.ndarray, "draw"],
    most: int,
) -> _LeastChanges:
    """The changes of least loss, each input as often as it occurs; inputs outside the
    window lose at least `least`.
    """
    draws = np.arange(len(loss))[:, None]
    # Every entry of finite loss occurs at least once, so `most` + 1 entries hold that
    # many changes.
    entry = np.argpartition(loss, min(most, loss.shape[1] - 1), axis=1)[:, : most + 1]
    entry = entry[draws, np.argsort(loss[draws, entry], axis=1, kind="stable")]
    # The n-th change belongs to the first entry up to which there are n copies.
    upto = np.cumsum(number[draws, entry], axis=1)
    at = np.count_nonzero(
        upto[:, None, :] < np.arange(1, most + 2)[None, :, None], axis=2
    )
    there = at < entry.shape[1]
    entry = entry[draws, np.minimum(at, entry.shape[1] - 1)]
    lost = np.where(there, loss[draws, entry], np.inf)
    # No input outside the window loses less than `least`: losses below it are exact,
    # above it only a bound is known.
    certain = lost < least[:, None]
    lost = np.where(certain, lost, least[:, None])
    total = np.zeros((len(loss), most + 2))
    np.cumsum(lost, axis=1, out=total[:, 1:])
    sure = np.column_stack(
        [draws >= 0, np.logical_and.accumulate(certain[:, :most], axis=1)]
    )
    # Copies of one input are the same change, so equal losses among them leave the plan
    # unique.
    other = (lost[:, 1:] > lost[:, :-1] + tolerance[:, None]) | (
        entry[:, 1:] == entry[:, :-1]
    )
    return _LeastChanges(entry, lost, total, sure, np.column_stack([draws >= 0, other]))


def _least(
    fills: _Fills, search: _Search, totals: Sequence[Float[np.ndarray, "draw number"]]
) -> tuple[
    Float[np.ndarray, "draw"], Float[np.ndarray, "draw"], Int[np.ndarray, "draw pair"]
]:
    """The least deficit over all numbers of changes, the next larger deficit, and the
    numbers of least deficit.

    Only these entries count: in the right half, the best entry up to each cost; in the
    left half, entries whose own loss does not exceed a deficit that is reached already.
    """
    left, right, draws = search.left, search.right, np.arange(len(fills.slack))
    middle, rising = left.numbers.shape[1], right.cost[right.order]
    lost = left.lost(totals[:middle], len(draws))
    rest = (
        right.lost(totals[middle:], len(draws))[:, right.order]
        - fills.multiplier[:, None] * rising
    )
    # By rising cost, so that the best partner within any room is a running minimum.
    reached = np.minimum.accumulate(rest, axis=1)

    def met(
        draw: Int[np.ndarray, "state"], index: Int[np.ndarray, "state"]
    ) -> Float[np.ndarray, "state"]:
        room = fills.slack[draw] - left.cost[index]
        at = np.searchsorted(rising, room, side="right") - 1
        return np.where(
            at >= 0,
            lost[draw, index] + fills.multiplier[draw] * room + reached[draw, at],
            np.inf,
        )

    # Plans of few changes are cheap to try and give a good bound on the deficit for all
    # others.
    few = np.flatnonzero(np.abs(left.numbers).sum(axis=1) <= FIRST_LISTED)
    sooner = (
        met(np.repeat(draws, len(few)), np.tile(few, len(draws)))
        .reshape(len(draws), -1)
        .min(axis=1)
    )
    # rounding must exclude no plan
    enough = np.minimum(sooner, fills.multiplier * fills.slack) + fills.tolerance
    draw, index = np.nonzero(lost <= enough[:, None])
    deficits, start = met(draw, index), np.searchsorted(draw, draws)
    best = np.minimum.reduceat(deficits, start)
    which = np.flatnonzero(deficits == best[draw])
    which = which[np.searchsorted(draw[which], draws)]
    deficits[which] = np.inf
    second = np.minimum.reduceat(deficits, start)
    allowed = np.where(
        rising <= (fills.slack - left.cost[index[which]])[:, None], rest, np.inf
    )
    partner = allowed.argmin(axis=1)
    if allowed.shape[1] > 1:
        one, two = np.partition(allowed, 1, axis=1)[:, :2].T
        second = np.minimum(second, best + (two - one))
    return (
        best,
        second,
        np.column_stack(
            [left.numbers[index[which]], right.numbers[right.order[partner]]]
        ),
    )


def _change_sums(
    steps: _Steps, fills: _Fills, search: _Search, *, reach: int
) -> tuple[Float[np.ndarray, "draw quantity"], Bool[np.ndarray, "draw"]]:
    """The sums that the best changes of greedy fills add, and whether these changes are
    proven to be the only best.
    """
    number, draws = len(steps.slope), np.arange(len(fills.cut))
    first, last = (
        max(0, int(fills.cut.min()) - reach),
        min(number, int(fills.cut.max()) + 1 + reach),
    )
    rows = np.unique(steps.input[first:last])
    # An input without a step in the window loses at least this much per cost, up or
    # down.
    below = fills.multiplier - (steps.slope[last] if last < number else 0.0)
    above = (steps.slope[first - 1] if first else np.inf) - fills.multiplier
    # The input of the step `cut` takes it for some copies only, so it is listed twice:
    # once at either level.
    split = steps.input[fills.cut]
    level = np.column_stack(
        [
            np.sum(steps.step_index[rows] < fills.cut[:, None, None], axis=2),
            steps.target[fills.cut],
        ]
    )
    number_of = np.column_stack([fills.counts[:, steps.unit[rows]], fills.copies])
    number_of[draws, np.searchsorted(rows, split)] -= fills.copies
    entry = np.column_stack([np.broadcast_to(rows, (len(draws), len(rows))), split])
    # The fill has the largest reduced value v - multiplier * c of every input; a change
    # loses the difference.
    reduced = steps.values[entry] - fills.multiplier[:, None, None] * steps.costs
    loss = np.maximum(reduced.max(axis=2, keepdims=True) - reduced, 0.0)
    loss = np.where(steps.useful[entry] & (number_of > 0)[:, :, None], loss, np.inf)
    ways, pairs, most = [], search.pairs, search.most
    for low, high in pairs:
        cost = steps.costs[high] - steps.costs[low]
        for source, target, edge in ((low, high, below), (high, low, above)):
            own = np.where(level == source, loss[:, :, target], np.inf)
            ways.append(
                _least_changes(
                    own,
                    number_of,
                    least=edge * cost,
                    tolerance=fills.tolerance,
                    most=most,
                )
            )
    up, down = ways[::2], ways[1::2]
    totals = [
        np.column_stack([d.total[:, most:0:-1], u.total[:, : most + 1]])
        for u, d in zip(up, down, strict=True)
    ]
    best, second, numbers = _least(fills, search, totals)
    # Without changes the deficit is what the slack is worth; a change must be better by
    # more than rounding.
    greedy = fills.multiplier * fills.slack - fills.tolerance
    unchanged = greedy <= best
    best, numbers = np.minimum(best, greedy), np.where(unchanged[:, None], 0, numbers)
    # No longer chain of changes can be better if its own loss already reaches the best
    # deficit.
    longer = np.min([way.total[:, -1] for way in ways], axis=0)
    solved = (longer >= best) & (unchanged | (second - best > fills.tolerance))
    more, used = np.zeros((len(draws), steps.quantities.shape[2])), []
    for pair, (low, high) in enumerate(pairs):
        for way, source, target, count in (
            (up[pair], low, high, np.maximum(numbers[:, pair], 0)),
            (down[pair], high, low, np.maximum(-numbers[:, pair], 0)),
        ):
            solved &= way.sure[draws, count] & way.alone[draws, count]
            taken = np.arange(most + 1) < count[:, None]
            input_ = entry[draws[:, None], way.entry]
            gained = steps.quantities[input_, target] - steps.quantities[input_, source]
            more += np.einsum("dc,dcq->dq", taken, gained)
            used.append(np.where(taken, way.entry, -1))
    # An input that changes twice has no plan of its own: such draws are left to the
    # exact search.
    for one, other in combinations(used, 2):
        clash = (one[:, :, None] == other[:, None, :]) & (one >= 0)[:, :, None]
        solved &= ~clash.any(axis=(1, 2))
    return more, solved
