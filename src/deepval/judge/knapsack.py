"""Values per mode, integer costs and a budget -> the plan of greatest value; `plans`
checks it.

Defined in docs/definitions.md, More than two modes.

Maximise Σ v[i, mode_i] subject to Σ c[mode_i] ≤ B, where mode 0 is cheap with value and
cost 0. For any λ ≥ 0 let UB(λ) = λ·B + Σ_i max_m(v_im − λ·c_m) and r_im = max_m'(v_im'
− λ·c_m') − (v_im − λ·c_m) ≥ 0, the reduced loss. Then value = UB(λ) − (λ·unspent + Σ_i
r_i,mode_i) for every plan: the best plan is the one of least *deficit* (in brackets).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, InputInts, Int, ModeFloats, Num
from deepval.judge.mode_plans import Costs, ModePlan, check_problem, steps, unspendable
from deepval.judge.results import lists_by_key

# of the bound: smaller differences of a total are rounding
SOLVE_TOLERANCE = 8 * float(np.finfo(np.float64).eps)
# room of the first search round, and its factor from then on
FIRST_INPUTS, FIRST_STATES, GROWTH = 16, 64, 8
# room of the last round; only values in exact proportion to large costs were seen to
# need more
MOST_STATES = 2**18


def solve(values: ModeFloats, costs: Costs, budget: int) -> ModePlan:
    """The plan of greatest value within the budget, exact up to the rounding of that
    value.

    Costs are one per mode, or one per input and mode.

    Hull steps of equal slope are filled in row order (sort the rows by input id), and
    the plan departs from that fill only where it gains. The same arguments give the
    same plan, bit for bit. Should `MOST_STATES` not suffice, the best plan so far is
    returned, and `check` reports that it is not proven.
    """
    check_problem(values, costs, budget)
    if costs.ndim == 2:
        return _solve_each(values, costs, budget)
    menu = _menu(values, costs, budget)
    best = _Solution(menu.values.argmax(axis=0))  # the first of equals is the cheapest
    if menu.costs[best.levels].sum() > budget:
        best = _optimum(menu, budget)
    modes = np.zeros(len(values), dtype=np.int64)
    modes[menu.inputs] = menu.modes[best.levels]
    for mode in menu.doubles:
        rivals = np.flatnonzero(costs[modes] == costs[mode])
        modes[rivals[values[rivals, mode] > values[rivals, modes[rivals]]]] = mode
    value = float(values[menu.inputs, modes[menu.inputs]].sum(dtype=np.float64))
    return best.plan(
        modes, value, spent=int(menu.costs[best.levels].sum()), budget=budget
    )


class _Menu(NamedTuple):
    """The inputs with something to gain; per level (a distinct affordable cost) its
    best value and first mode.

    Doubles are the modes that share their cost with an earlier one.
    """

    inputs: InputInts
    costs: Int[np.ndarray, "level"]
    values: Float[np.ndarray, "level input"]
    modes: Int[np.ndarray, "level"]
    doubles: list[int]


class _Solution(NamedTuple):
    levels: InputInts
    multiplier: float = 0.0
    bound: float = 0.0
    core: int = 0
    states: int = 1
    stop_loss: float = 0.0

    def plan(
        self, modes: InputInts, value: float, *, spent: int, budget: int
    ) -> ModePlan:
        """The plan with these modes, and its certificate: the fields after the
        levels.
        """
        certificate = self._replace(bound=max(self.bound, value))[1:]
        return ModePlan(modes, value, spent, budget, *certificate)


class _Changes(NamedTuple):
    """Departures from the greedy fill: the input goes to the level for `cost` more (or
    less) and a loss ≥ 0.

    Changes with the same key go from the same level to the same level. Changes with the
    same key // levels are between the same two levels, in either direction.
    """

    input: Int[np.ndarray, "change"]
    level: Int[np.ndarray, "change"]
    cost: Int[np.ndarray, "change"]
    loss: Float[np.ndarray, "change"]
    key: Int[np.ndarray, "change"]


class _Goal(NamedTuple):
    """A deficit λ·slack + loss below `best`, searched with at most `limit` partial
    plans in a list.
    """

    slack: int
    multiplier: float
    best: float
    tolerance: float
    limit: int


class _Step(NamedTuple):
    """A better plan: these inputs go to these levels."""

    deficit: float
    inputs: Int[np.ndarray, "change"]
    levels: Int[np.ndarray, "change"]
    states: int


class _Group(NamedTuple):
    """Options of which one is taken: the changes from `first` up to, not including,
    `stop`.
    """

    first: Int[np.ndarray, "option"]
    stop: Int[np.ndarray, "option"]
    cost: Int[np.ndarray, "option"]
    loss: Float[np.ndarray, "option"]


class _States(NamedTuple):
    """Partial plans, none dominated: slack falls along the list and so does the deficit
    λ·slack + loss.
    """

    slack: Int[np.ndarray, "state"]
    loss: Float[np.ndarray, "state"]
    steps: tuple[tuple[_Group, int, Int[np.ndarray, "_"]], ...] = ()
    peak: int = 1


def _menu(values: ModeFloats, costs: Int[np.ndarray, "mode"], budget: int) -> _Menu:
    affordable = np.flatnonzero(costs <= budget).tolist()
    equals = lists_by_key(
        (int(costs[mode]), mode) for mode in sorted(affordable, key=costs.__getitem__)
    )
    inputs = np.flatnonzero(
        np.logical_or.reduce([values[:, mode] > 0 for mode in affordable])
    )
    best = [
        np.maximum.reduce([values[:, mode][inputs] for mode in modes])
        for modes in equals.values()
    ]
    return _Menu(
        inputs=inputs,
        costs=np.array(list(equals), dtype=np.int64),
        values=np.array(best, dtype=np.float64),
        modes=np.array([modes[0] for modes in equals.values()]),
        doubles=[mode for modes in equals.values() for mode in modes[1:]],
    )


def hull_slopes(
    values: Float[np.ndarray, "level input"], costs: Num[np.ndarray, "level"]
) -> Float[np.ndarray, "level-1 input"]:
    """Slopes of each input's upper concave hull between neighbouring costs k and k + 1.

    min over a ≤ k of max over b > k of (v_b − v_a)/(c_b − c_a): never increases along
    k, rounding included.
    """
    hull = np.full((len(costs) - 1, values.shape[1]), np.inf)
    for a in range(len(costs) - 1):
        steepest = np.full(values.shape[1], -np.inf)
        for b in range(len(costs) - 1, a, -1):
            np.maximum(
                steepest, (values[b] - values[a]) / (costs[b] - costs[a]), out=steepest
            )
            np.minimum(hull[b - 1], steepest, out=hull[b - 1])
    return hull


def _multiplier(
    slopes: Float[np.ndarray, "step input"],
    lengths: Int[np.ndarray, "step"],
    budget: int,
) -> float:
    """λ: the slope at which hull steps filled from the steepest on exceed the budget
    (list halved, then sorted).
    """
    parts, size = list(slopes), slopes.size + 1
    while 2048 < sum(map(len, parts)) < size:
        size = sum(map(len, parts))
        pivot = np.median(np.concatenate([part[:: size // 512] for part in parts]))
        steeper = [part > pivot for part in parts]
        filled = int(lengths @ [np.count_nonzero(mask) for mask in steeper])
        if filled > budget:
            parts = [part[mask] for part, mask in zip(parts, steeper, strict=True)]
        else:
            parts = [part[~mask] for part, mask in zip(parts, steeper, strict=True)]
            budget -= filled
    slope, length = (
        np.concatenate(parts),
        np.repeat(lengths, [len(part) for part in parts]),
    )
    order = np.argsort(-slope)
    return float(
        slope[order[np.searchsorted(np.cumsum(length[order]), budget, side="right")]]
    )


def _greedy(menu: _Menu, budget: int) -> tuple[float, InputInts]:
    """λ, and the levels after every hull step steeper than λ and, in row order, those
    equal to it that fit.
    """
    slopes, lengths = hull_slopes(menu.values, menu.costs), np.diff(menu.costs)
    multiplier = _multiplier(slopes, lengths, budget)
    levels = (slopes > multiplier).sum(axis=0)
    tied = slopes == multiplier
    rows = np.flatnonzero(tied.any(axis=0))
    rows = rows[np.cumsum(lengths @ tied[:, rows]) <= budget - menu.costs[levels].sum()]
    levels[rows] += tied[:, rows].sum(axis=0)
    return multiplier, levels


def _optimum(menu: _Menu, budget: int) -> _Solution:
    """The levels of least deficit: changes of the greedy fill."""
    multiplier, base = _greedy(menu, budget)
    slack = budget - int(menu.costs[base].sum()) - unspendable(menu.costs, budget)
    fill = _Fill(
        menu.values - multiplier * menu.costs[:, None], base, multiplier, budget, slack
    )
    return _search(
        fill,
        lambda inputs, losses, best: _changes(menu, inputs, base[inputs], losses, best),
    )


def _solve_each(
    values: ModeFloats, costs: Int[np.ndarray, "input mode"], budget: int
) -> ModePlan:
    """`solve` for costs per input and mode: hull steps by falling slope, then changes
    input by input.
    """
    rows = np.arange(len(values))
    affordable = costs <= budget
    worth = np.where(affordable, values, -np.inf)
    hull = steps(np.where(affordable, values, 0.0), np.where(affordable, costs, 0))
    order = np.argsort(-hull.slope, kind="stable")
    spent = np.cumsum(hull.cost[order])
    whole = int(np.searchsorted(spent, budget, side="right"))
    base = hull.start.copy()
    # the last of an input's steps overwrites the others
    base[hull.input[order[:whole]]] = hull.target[order[:whole]]
    best = _Solution(base)
    if whole < len(order):
        multiplier = float(hull.slope[order[whole]])
        slack = (
            budget - int(spent[whole - 1] if whole else 0) - unspendable(costs, budget)
        )
        fill = _Fill((worth - multiplier * costs).T, base, multiplier, budget, slack)
        best = _search(
            fill,
            lambda inputs, losses, most: _own_changes(
                costs, inputs, base[inputs], losses, most
            ),
        )
    value = float(values[rows, best.levels].sum(dtype=np.float64))
    return best.plan(
        best.levels, value, spent=int(costs[rows, best.levels].sum()), budget=budget
    )


def _own_changes(
    costs: Int[np.ndarray, "input mode"],
    inputs: Int[np.ndarray, "core"],
    source: Int[np.ndarray, "core"],
    losses: Float[np.ndarray, "mode core"],
    best: float,
) -> _Changes:
    """The inputs' changes that lose less than `best`; each input is a group of its
    own.
    """
    level, column = np.nonzero(
        (losses < best) & (np.arange(len(losses))[:, None] != source)
    )
    rows = inputs[column]
    return _Changes(
        input=rows,
        level=level,
        cost=costs[rows, level] - costs[rows, source[column]],
        loss=losses[level, column],
        key=_apart(rows, level, len(losses)),
    )


def _apart(
    inputs: Int[np.ndarray, "change"], level: Int[np.ndarray, "change"], levels: int
) -> Int[np.ndarray, "change"]:
    """Keys of changes whose inputs are groups of their own."""
    return (levels**2 + inputs) * levels + level


class _Fill(NamedTuple):
    """A greedy fill at λ: reduced values, its levels, the budget and the part of it
    that is left.
    """

    reduced: Float[np.ndarray, "level input"]
    base: InputInts
    multiplier: float
    budget: int
    slack: int


def _search(fill: _Fill, changes_of: Callable[..., _Changes]) -> _Solution:
    """The levels of least deficit: changes of the fill, over ever more inputs until no
    other can matter.
    """
    reduced, base, multiplier, budget, slack = fill
    most, second = reduced[0], np.full(len(base), -np.inf)
    for level in reduced[1:]:
        most, second = (
            np.maximum(most, level),
            np.maximum(second, np.minimum(most, level)),
        )
    nearest = most - second
    optimum = _Solution(base, multiplier, bound=multiplier * budget + float(most.sum()))
    best, tolerance, size, limit = (
        multiplier * slack,
        SOLVE_TOLERANCE * optimum.bound,
        FIRST_INPUTS,
        FIRST_STATES,
    )
    while best > tolerance and limit <= MOST_STATES:
        inputs, reach = np.flatnonzero(nearest < best), best
        if len(inputs) > size:
            inputs = np.sort(inputs[np.argpartition(nearest[inputs], size)[:size]])
            reach = float(nearest[inputs].max())
        losses = np.maximum(most[inputs] - reduced[:, inputs], 0.0)
        step = _least_deficit(
            changes_of(inputs, losses, best),
            len(reduced),
            _Goal(slack, multiplier, best - tolerance, tolerance, limit),
        )
        stop_loss = reach if step.states <= limit else 0.0
        optimum = optimum._replace(
            core=len(inputs),
            states=max(step.states, optimum.states),
            stop_loss=stop_loss,
        )
        if len(step.inputs):
            best, levels = step.deficit, base.copy()
            levels[step.inputs] = step.levels
            optimum = optimum._replace(levels=levels)
        if best <= stop_loss:
            break
        size, limit = size * GROWTH, limit * GROWTH
    return optimum


def _changes(
    menu: _Menu,
    inputs: InputInts,
    source: InputInts,
    losses: Float[np.ndarray, "level input"],
    best: float,
) -> _Changes:
    """The inputs' changes that lose less than `best` and lead to a level worth more
    than all cheaper ones.
    """
    values, count = menu.values[:, inputs], len(menu.costs)
    useful = (losses < best) & (np.arange(count)[:, None] != source)
    useful[1:] &= values[1:] > np.maximum.accumulate(values, axis=0)[:-1]
    level, column = np.nonzero(useful)
    source = source[column]
    pair = np.minimum(source, level) * count + np.maximum(source, level)
    return _Changes(
        input=inputs[column],
        level=level,
        cost=menu.costs[level] - menu.costs[source],
        loss=losses[level, column],
        key=pair * count + (source > level),
    )


def _least_deficit(changes: _Changes, levels: int, goal: _Goal) -> _Step:
    """The changes with the smallest deficit, if that is below the goal's; no input
    changes twice.

    Changes from one level to another differ only in loss, so they are taken in that
    order, and never together with changes back. This relaxation lets an input change
    twice. Later inputs of the chain then replace it. If they lose more than the
    relaxation, the clashing inputs get groups of their own, and the problem is solved
    again.
    """
    none = np.zeros(0, np.int64)
    best = _Step(goal.best, none, none, 1)
    while True:
        order = np.lexsort((changes.loss, changes.key))
        changes = _Changes(*(column[order] for column in changes))
        relaxed, taken, peak = _meet(_groups(changes, levels, goal.best), goal)
        best = best._replace(states=max(best.states, peak))
        inputs = np.sort(changes.input[taken])
        clashes = inputs[1:][inputs[1:] == inputs[:-1]]
        once = _spread(changes, taken) if len(clashes) else taken
        deficit = relaxed + float(changes.loss[once].sum() - changes.loss[taken].sum())
        if len(once) == len(taken) and deficit < goal.best:
            best = best._replace(
                deficit=deficit, inputs=changes.input[once], levels=changes.level[once]
            )
            goal = goal._replace(best=deficit - goal.tolerance)
        if relaxed >= goal.best:
            return best
        apart = _apart(changes.input, changes.level, levels)
        changes = changes._replace(
            key=np.where(np.isin(changes.input, clashes), apart, changes.key)
        )


def _spread(changes: _Changes, taken: Int[np.ndarray, "_"]) -> Int[np.ndarray, "_"]:
    """As many changes of each key as in `taken`, by rising loss, with no input twice;
    fewer where inputs run out.
    """
    once = np.zeros(0, np.int64)
    for key, count in zip(
        *np.unique(changes.key[taken], return_counts=True), strict=True
    ):
        chain = np.flatnonzero(changes.key == key)
        free = chain[~np.isin(changes.input[chain], changes.input[once])]
        once = np.append(once, free[:count])
    return once


def _groups(changes: _Changes, levels: int, best: float) -> list[_Group]:
    """One group per pair of levels (key // levels).

    Its options: no change, or the first 1, 2, ... changes of one key, as long as their
    total loss is below `best`.
    """
    starts = [0, *(np.flatnonzero(changes.key[1:] != changes.key[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(changes.key)]
    loss = np.concatenate(
        [changes.loss[a:b].cumsum() for a, b in zip(starts, ends, strict=True)]
    )
    last = np.flatnonzero(loss < best)
    if len(last) == 0:
        return []
    first, pair = (
        np.repeat(starts, np.subtract(ends, starts))[last],
        changes.key[last] // levels,
    )
    cost = changes.cost[last] * (last - first + 1)
    fresh = np.append(True, pair[1:] != pair[:-1])
    # each group begins with its empty option
    position = np.arange(len(last)) + np.cumsum(fresh)
    columns = [
        np.zeros(position[-1] + 1, dtype=column.dtype)
        for column in (first, last, cost, loss)
    ]
    for column, filled in zip(
        columns, (first, last + 1, cost, loss[last]), strict=True
    ):
        column[position] = filled
    bounds = [*(position[fresh] - 1).tolist(), int(position[-1]) + 1]
    return [_Group(*(column[a:b] for column in columns)) for a, b in pairwise(bounds)]


def _meet(groups: list[_Group], goal: _Goal) -> tuple[float, Int[np.ndarray, "_"], int]:
    """The least deficit over one option per group, from two half searches joined by
    binary search.
    """
    left, right = (_States(np.array([start]), np.zeros(1)) for start in (goal.slack, 0))
    for group in groups:
        if (len(left.slack), len(left.steps)) <= (len(right.slack), len(right.steps)):
            left = _merge(left, group, goal)
        else:
            right = _merge(right, group, goal)
    peak = max(left.peak, right.peak)
    # the feasible one of least deficit
    partner = np.searchsorted(-right.slack, left.slack, side="right") - 1
    deficit = (
        goal.multiplier * left.slack
        + left.loss
        + (goal.multiplier * right.slack + right.loss)[partner]
    )
    deficit[partner < 0] = np.inf
    least = int(deficit.argmin())
    if not deficit[least] < goal.best:
        return goal.best, np.zeros(0, np.int64), peak
    return (
        float(deficit[least]),
        np.append(_taken(left, least), _taken(right, int(partner[least]))),
        peak,
    )


def _merge(states: _States, group: _Group, goal: _Goal) -> _States:
    """Every state with every option of the group, except combinations that lose too
    much or are dominated.

    If there are too many, only the options with costs nearest to 0 and the states with
    slacks nearest to 0 stay, and `peak` exceeds the limit.
    """
    peak, room = states.peak, 32 * goal.limit // len(states.slack)
    if len(group.cost) > room:
        group, peak = (
            _Group(*(column[_nearest(group.cost, room)] for column in group)),
            goal.limit + 1,
        )
    loss = (group.loss[:, None] + states.loss).ravel()
    slack = (states.slack - group.cost[:, None]).ravel()
    index = (loss < goal.best).nonzero()[0]
    index = index[(-slack[index]).argsort(kind="stable")]
    slack = slack[index]
    deficit = goal.multiplier * slack + loss[index]
    keep = np.ones(len(index), dtype=bool)
    keep[1:] = deficit[1:] < np.minimum.accumulate(deficit)[:-1]
    index, slack = index[keep], slack[keep]
    keep = np.ones(len(index), dtype=bool)
    # the last of equal slacks has the least deficit
    keep[:-1] = slack[1:] != slack[:-1]
    index, slack = index[keep], slack[keep]
    peak = max(peak, len(index))
    if len(index) > goal.limit:
        near = _nearest(slack, goal.limit)
        index, slack = index[near], slack[near]
    return _States(
        slack, loss[index], (*states.steps, (group, len(states.slack), index)), peak
    )


def _nearest(numbers: Int[np.ndarray, "_"], count: int) -> Int[np.ndarray, "_"]:
    """Positions of the `count` numbers nearest to 0, in order."""
    return np.sort(np.argpartition(np.abs(numbers), count)[:count])


def _taken(states: _States, state: int) -> Int[np.ndarray, "_"]:
    """The changes that led to a state, walking back through the merges."""
    taken = [np.zeros(0, np.int64)]
    for group, width, index in reversed(states.steps):
        option, state = divmod(int(index[state]), width)
        taken.append(np.arange(group.first[option], group.stop[option]))
    return np.concatenate(taken)
