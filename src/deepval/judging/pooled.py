"""Results of several cells -> means over them: of allocators (`pool`), and of
differences between two (`compare_over`).

Every cell has the same weight. Cells with the same units share their draws, so the mean
of a draw is a draw of the mean; cells with other units have draws of their own. A draw
in which the difference of some cell is undefined is left out and counted.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from deepval import checks
from deepval.arrays import Bool, DrawRows, Float, PerDraw, PerResample, ResampleRows
from deepval.errors import InputError, InputWarning
from deepval.judging.differences import (
    Difference,
    compare,
    has_large_prize,
    ndg,
    paired_difference,
)
from deepval.judging.draws import Draws
from deepval.judging.intervals import (
    Interval,
    estimate,
    interval_over,
    intervals_over,
    spread,
    verdict_of,
)
from deepval.judging.pairs import (
    Basis,
    Contender,
    Statistic,
    basis,
    check_statistic,
    contenders,
    orient,
    part,
    reasons,
)
from deepval.results import (
    LO_HI,
    AllocatorRecord,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Reason,
    Result,
    Row,
    Stream,
    joined,
    known,
)
from deepval.tables.scores import is_reference

AT_ONCE = 64
"""Rows to pool at a time: few enough for the cache."""


@dataclass(frozen=True, eq=False)
class Pooled(AllocatorRecord):
    """One allocator's equal-weight mean over cells under one budget.

    Attributes:
        allocator: Its name.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        oracle: The oracle that the cells' nDG divide by, as in `Row`; several names
            where cells differ.
        chance: The random reference of the cells, as in `Row`; several names where
            cells differ.
        versus_random: Mean of the cells' paired differences with random, each as a
            share of the cell's all-cheap loss.
        versus_random_lo: Lower bound of its 95 % interval, every draw kept.
        versus_random_hi: Upper bound.
        ndg: Mean of the cells' nDG.
        ndg_lo: Lower bound over the draws that every cell keeps.
        ndg_hi: Upper bound.
        draws: Number of draws.
        draws_dropped: Draws that some cell drops from its nDG interval.
        verdict: better, worse or unresolved against random; None without an interval.
        versus_never: Mean of the cells' gains over never escalating, each as a share of
            the cell's all-cheap loss.
        versus_never_lo: Lower bound of its 95 % interval, every draw kept.
        versus_never_hi: Upper bound.
        never_verdict: better, worse or unresolved against never escalating.
        versus_always: Mean of the cells' differences with always escalating, likewise.
        versus_always_lo: Lower bound of its paired 95 % interval.
        versus_always_hi: Upper bound.
        always_verdict: better, worse or unresolved against always escalating.
        always_fits: Whether always escalating fits the budget in every cell.
        always_cost_ratio: Mean over the cells of the ratio in `Row`.
        reason: Why something is None.
        versus_random_dropped: Draws without a positive all-cheap loss in some cell,
            left out of the paired interval.
    """

    cells: int = 0
    oracle: str | None = None
    chance: str | None = None
    versus_random: Estimate | None = None
    ndg: Estimate | None = None
    draws: int = 0
    draws_dropped: int = 0
    verdict: str | None = None
    versus_never: Estimate | None = None
    never_verdict: str | None = None
    versus_always: Estimate | None = None
    always_verdict: str | None = None
    always_fits: bool | None = None
    always_cost_ratio: float | None = None
    reason: str | None = None
    versus_random_dropped: int = 0


def pool(cells: Mapping[str, Result]) -> tuple[Pooled, ...]:
    """Equal-weight means over cells of every allocator and budget that all of them
    judge.
    """
    return pool_bases(
        {
            name: basis(item)
            for name, item in checks.by_cell(cells, Result, "Cells to pool").items()
        }
    )


def pool_bases(bases: Mapping[str, Basis]) -> tuple[Pooled, ...]:
    """`pool` for the bases of results."""
    draws, cells = shared_draws(bases), list(bases.values())
    rows_of_cells = [
        {(item.row.allocator, item.row.budget): item for item in cell.judged}
        for cell in cells
    ]
    shared = {
        (name, key): [rows[name, key] for rows in rows_of_cells]
        for name, key in rows_of_cells[0]
        if not is_reference(name) and all((name, key) in rows for rows in rows_of_cells)
    }
    able = [
        key
        for key, members in shared.items()
        if all(member.gains for member in members)
    ]
    pooled: dict[tuple[str, BudgetKey], Pooled] = {}
    for begin in range(0, len(able), AT_ONCE):
        part = able[begin : begin + AT_ONCE]
        pooled |= zip(
            part, _pool(part, [shared[key] for key in part], cells, draws), strict=True
        )
    return tuple(
        pooled.get(key) or _infeasible(key, members, draws)
        for key, members in shared.items()
    )


def _infeasible(
    key: tuple[str, BudgetKey], members: Sequence[Contender], draws: Draws
) -> Pooled:
    row = next(member.row for member in members if member.gains is None)
    return Pooled(
        **_opening(key, members),
        draws=len(draws),
        verdict=row.verdict,
        reason=row.reason,
    )


def _opening(
    key: tuple[str, BudgetKey], members: Sequence[Contender]
) -> dict[str, Any]:
    name, budget = key
    return (
        {"allocator": name}
        | vars(budget)
        | {"cells": len(members)}
        | yardsticks(members)
    )


def _pool(
    keys: Sequence[tuple[str, BudgetKey]],
    rows: Sequence[Sequence[Contender]],
    cells: Sequence[Basis],
    draws: Draws,
) -> Iterator[Pooled]:
    """Rows of allocators under their budgets, all of which can pay in every cell."""
    by_cell = list(zip(zip(*rows, strict=True), cells, strict=True))
    gains = [gain_rows(members) for members, _ in by_cell]
    prizes = [np.stack([one.prize for one in members]) for members, _ in by_cell]
    paired = [_ahead_of_chance(members, cell) for members, cell in by_cell]
    each_ndg = [ndg(own, prize) for own, prize in zip(gains, prizes, strict=True)]
    # A draw counts only if no cell's prize is too small to divide by.
    is_used = np.all(
        [
            has_large_prize(cell.totals, prize)
            for prize, cell in zip(prizes, cells, strict=True)
        ],
        axis=0,
    )
    mean = _mean_by_draw(paired, cells)
    mean_ndg = np.where(is_used, _mean_by_draw(each_ndg, cells), np.nan)
    against = _intervals(mean, cells)
    of_ndg = _intervals(mean_ndg, cells, scale=0.0)
    never = _versus_uniform(by_cell, everything=False)
    always = _versus_uniform(by_cell, everything=True)
    draws_dropped = np.count_nonzero(~is_used, axis=1).tolist()
    undefined = np.count_nonzero(np.isnan(mean), axis=1).tolist()
    for i, (key, members) in enumerate(zip(keys, rows, strict=True)):
        verdict = verdict_of(against[i])
        ratios = [_row(member).always_cost_ratio for member in members]
        fields: dict[str, Any] = _opening(key, members) | {
            "verdict": verdict,
            "versus_never": never[i].estimate,
            "never_verdict": never[i].verdict,
            "versus_always": always[i].estimate,
            "always_verdict": always[i].verdict,
            "always_fits": all(_row(member).always_fits for member in members),
            "always_cost_ratio": mean_if_all(ratios),
        }
        point = float(np.mean([own[i, 0] for own in paired]))
        ndg_point = float(np.mean([own[i, 0] for own in each_ndg]))
        yield Pooled(
            **fields,
            versus_random=estimate(point, against[i]),
            ndg=estimate(ndg_point, of_ndg[i]),
            draws=len(draws),
            draws_dropped=draws_dropped[i],
            reason=reasons(*members),
            versus_random_dropped=undefined[i] if verdict else 0,
        )


def _row(member: Contender) -> Row:
    """The row of an allocator."""
    assert isinstance(member.row, Row)
    return member.row


def _ahead_of_chance(members: Sequence[Contender], cell: Basis) -> ResampleRows:
    """Differences of rows of a cell with chance, as shares of the all-cheap loss."""
    chances = [member.chance for member in members if member.chance is not None]
    return paired_difference(cell.totals, gain_rows(members), np.stack(chances)).share


def _intervals(
    samples: DrawRows, cells: Sequence[Basis], *, scale: float = 1.0
) -> list[Interval | None]:
    """The intervals of means over cells; None where some cell has a single unit."""
    if not can_resample(cells):
        return [None] * len(samples)
    return intervals_over(samples, cells[0].totals.draws, scale=scale)


@dataclass(frozen=True)
class Uniform:
    """The mean difference with escalating nothing or everything, and its verdict."""

    estimate: Estimate | None
    verdict: str | None


def _versus_uniform(
    by_cell: Sequence[tuple[Sequence[Contender], Basis]], *, everything: bool
) -> list[Uniform]:
    """Per row, the mean difference with escalating nothing or everything."""
    cells = [cell for _, cell in by_cell]
    shares = []
    for members, cell in by_cell:
        start = np.zeros_like(cell.totals.full_gain)
        if everything:
            start = cell.totals.full_gain
        shares.append(_ahead(members, cell, start))
    intervals = _intervals(_mean_by_draw(shares, cells), cells)
    points = np.mean([share[:, 0] for share in shares], axis=0).tolist()
    return [
        Uniform(estimate(point, own), verdict_of(own))
        for point, own in zip(points, intervals, strict=True)
    ]


def _mean_by_draw(by_cell: Sequence[ResampleRows], cells: Sequence[Basis]) -> DrawRows:
    """Mean over cells of every row, draw by draw."""
    drawn = [
        rows[:, cell.totals.drawn] for rows, cell in zip(by_cell, cells, strict=True)
    ]
    return np.mean(drawn, axis=0)


def _ahead(
    members: Sequence[Contender], cell: Basis, start: PerResample
) -> ResampleRows:
    """Gains of rows of a cell less `start`, paired, as shares of the all-cheap loss."""
    gains = gain_rows(members)
    others = np.broadcast_to(start, gains.shape)
    return paired_difference(cell.totals, gains, others).share


def gain_rows(members: Sequence[Contender]) -> ResampleRows:
    """Gains of rows that can run."""
    return np.stack([one.gains.gain for one in members if one.gains is not None])


def mean_difference(members: Sequence[Contender], cells: Sequence[Basis]) -> PerDraw:
    """Mean over cells of one allocator's paired difference with chance, draw by
    draw.
    """
    ahead = [
        member.ahead_of_chance(cell.totals)[cell.totals.drawn]
        for member, cell in zip(members, cells, strict=True)
    ]
    return np.mean(ahead, axis=0)


def mean_gain_ahead(
    rows: Sequence[Sequence[Contender]],
    origin: Sequence[Contender],
    cells: Sequence[Basis],
) -> DrawRows:
    """Mean over cells of the allocators' gains minus that of `origin`, as shares of
    all-cheap losses, draw by draw.
    """
    blocks = [np.empty((0, len(cells[0].totals.draws)))]
    starts = []
    for base, cell in zip(origin, cells, strict=True):
        start = np.zeros_like(cell.totals.full_gain)
        if base.gains is not None:
            start = base.gains.gain
        starts.append(start)
    for begin in range(0, len(rows), AT_ONCE):
        by_cell = zip(*rows[begin : begin + AT_ONCE], strict=True)
        shares = [
            _ahead(members, cell, start)
            for members, cell, start in zip(by_cell, cells, starts, strict=True)
        ]
        blocks.append(_mean_by_draw(shares, cells))
    return np.concatenate(blocks)


def yardsticks(members: Sequence[Contender]) -> dict[str, Any]:
    """The names of the oracles and chances that the rows are measured by, each once."""
    oracles = dict.fromkeys(_row(member).oracle for member in members)
    chances = dict.fromkeys(_row(member).chance for member in members)
    return {
        "oracle": ", ".join(name for name in oracles if name) or None,
        "chance": ", ".join(name for name in chances if name) or None,
    }


def can_resample(cells: Sequence[Basis]) -> bool:
    """Whether there are draws, and every cell has more than one unit."""
    return all(cell.totals.has_intervals for cell in cells)


def versus_random_bounds(paired: PerDraw, cells: Sequence[Basis]) -> Interval | None:
    """The interval of a mean difference over its draws, every draw kept."""
    return _intervals(paired[None], cells)[0]


def shared_draws(bases: Mapping[str, Basis]) -> Draws:
    """The draws of the first cell; raises where the draws of another cell cannot be
    combined with them.

    Cells with the same units must have the same draws. Cells with other units must have
    draws of another seed: with the same seed their draws would be correlated without a
    reason.
    """
    first = next(iter(bases.values())).totals.draws
    lists: dict[tuple[str, ...], tuple[str, Draws]] = {}
    for name, item in bases.items():
        draws = item.totals.draws
        if draws.method != first.method or len(draws) != len(first):
            raise InputError(
                "Cells are pooled draw by draw, so each needs as many draws of the "
                f"same kind; {name!r} has {len(draws)} {draws.method}, another has "
                f"{len(first)} {first.method}. Give a number of draws."
            )
        _, before = lists.setdefault(tuple(item.totals.unit_ids), (name, draws))
        if not np.array_equal(before.counts, draws.counts):
            raise InputError(
                "Cells with the same units must share "
                f"their draws; {name!r} has another seed."
            )
    for (units, (name, one)), (others, (other_name, other)) in combinations(
        lists.items(), 2
    ):
        if first.method == "exact":
            raise InputError(
                "Exact draws can be pooled only over cells with the same units. Give "
                "a number of draws."
            )
        if first.method == "drawn" and one.seed == other.seed:
            raise InputError(
                f"Cells with other units need draws of another seed; {name!r} and "
                f"{other_name!r} both have {one.seed}: take seeds from "
                "deepval.judging.draws.child_seeds, one per list of units."
            )
        shared = set(units) & set(others)
        if shared:
            warnings.warn(
                f"{name} and {other_name} share {len(shared)} of their units "
                f"({min(shared)}, ...) but not the list of them, so these are drawn "
                "apart: if they are the same scenes, judge both "
                "cells on the same units.",
                InputWarning,
                stacklevel=3,
            )
    return first


@dataclass(frozen=True, eq=False)
class PooledComparison(BudgetRecord):
    """One contender against another under one budget, as the equal-weight mean over
    cells.

    Attributes:
        candidate: The allocator in question, with its causal policy where it has one.
        baseline: What it is compared with.
        of: What is compared: gain, benefit or harm; the candidate is better where it
            has less harm.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        difference: Mean over cells of (candidate's - baseline's) / all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        spread: Standard deviation over the draws.
        ndg_difference: Mean over cells of the difference of the two nDG; None unless
            gain is compared.
        ndg_lo: Lower bound of its interval over the draws whose prize every cell keeps.
        ndg_hi: Upper bound.
        verdict: better, worse or unresolved; infeasible where the candidate cannot pay
            for itself in some cell; None without an interval.
        draws: Number of draws.
        dropped: Draws that could not be compared: in some cell the all-cheap loss is
            not positive.
        ndg_dropped: Draws left out of the nDG interval: in some cell their prize is
            small.
        cells_better: Cells whose own verdict is better.
        cells_worse: Cells whose own verdict is worse.
        rates_missed: Cells in which a causal policy of either side misses its rate;
            None if no policy is compared.
        reason: Why something is None.
    """

    candidate: str
    baseline: str
    of: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    cells: int = 0
    difference: Estimate | None = field(default=None, metadata=LO_HI)
    spread: float | None = None
    ndg_difference: Estimate | None = field(
        default=None, metadata={"bounds": ("ndg_lo", "ndg_hi")}
    )
    verdict: str | None = None
    draws: int = 0
    dropped: int = 0
    ndg_dropped: int = 0
    cells_better: int = 0
    cells_worse: int = 0
    rates_missed: int | None = None
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Pair:
    """Both contenders in one cell.

    Resamples with a unit left out are not used, because cells have different units.
    """

    cell: str
    held: Basis
    one: Contender
    other: Contender

    def gain(self, of: Statistic) -> ResampleRows:
        """What the first has, then the other, of a statistic."""
        assert self.one.gains is not None
        assert self.other.gains is not None
        return np.stack([part(self.one.gains, of), part(self.other.gains, of)])

    def difference(self, of: Statistic) -> Difference:
        """Their difference in every resample, as a matrix of one row."""
        gain = self.gain(of)
        return paired_difference(self.held.totals, gain[:1], gain[1:])

    def verdict(self, of: Statistic) -> str | None:
        """The verdict of this cell alone, by the share of its loss."""
        gain = self.gain(of)
        (alone,) = compare(self.held.totals, gain[:1], gain[1:])
        return verdict_of(orient(alone.share.interval, of))

    def ndg(self) -> Float[np.ndarray, "sample"]:
        """The difference of their nDG in the sample and every draw.

        NaN where they divide by different oracles.
        """
        totals = self.held.totals
        have_ndg = self.one.row.ndg is not None and self.other.row.ndg is not None
        upto = totals.drawn.stop
        if not have_ndg or self.one.oracle != self.other.oracle:
            return np.full(upto, np.nan)
        gained = self.difference("gain").loss
        return ndg(gained, self.one.prize[None])[0, :upto]

    def large_prizes(self) -> Bool[np.ndarray, "draw"]:
        """Draws whose prize is not too small to divide by."""
        return has_large_prize(self.held.totals, self.one.prize[None])[0]


def compare_over(
    cells: Mapping[str, Result],
    candidate: str,
    baseline: str,
    *,
    of: Statistic = "gain",
) -> tuple[PooledComparison, ...]:
    """Paired differences of two contenders as means over cells, under each budget that
    every cell has for both.

    Args:
        cells: Per cell, a result with its samples. Cells with the same units need the
            same draws, cells with other units draws of another seed (`child_seeds`).
        candidate: An allocator or reference; `NAME@POLICY` under a causal policy, such
            as `mine@causal-cap`.
        baseline: What it is compared with, likewise.
        of: What is compared: gain, or its parts benefit and harm.
    """
    return compare_bases(together(cells), candidate, baseline, of=of)


def together(cells: Mapping[str, Result]) -> dict[str, Basis]:
    """The bases of the results of cells; raises where their draws cannot be
    combined.
    """
    bases = {
        name: basis(result)
        for name, result in checks.by_cell(
            cells, Result, "Cells to compare over"
        ).items()
    }
    shared_draws(bases)
    return bases


def compare_bases(
    bases: Mapping[str, Basis], candidate: str, baseline: str, *, of: Statistic = "gain"
) -> tuple[PooledComparison, ...]:
    """`compare_over` for the bases of the results, which `together` returns."""
    check_statistic(of)
    draws = next(iter(bases.values())).totals.draws
    ours = {name: contenders(item, candidate) for name, item in bases.items()}
    theirs = {name: contenders(item, baseline) for name, item in bases.items()}
    first = next(iter(bases))
    keys = [
        key
        for key in ours[first]
        if all(key in ours[name] and key in theirs[name] for name in bases)
    ]
    if not keys:
        raise InputError(
            f"{candidate!r} and {baseline!r} have no budget that "
            "every cell judges both under."
        )
    rows = []
    for key in keys:
        pairs = [
            Pair(name, item, ours[name][key], theirs[name][key])
            for name, item in bases.items()
        ]
        rows.append(over_pairs(pairs, key, (candidate, baseline), of=of, draws=draws))
    return tuple(rows)


def over_pairs(
    pairs: Sequence[Pair],
    key: BudgetKey,
    names: tuple[str, str],
    *,
    of: Statistic = "gain",
    draws: Draws,
) -> PooledComparison:
    """The mean over cells of the difference between two contenders, which may be
    different ones in each cell.

    Args:
        pairs: Both contenders in each cell.
        key: The budget.
        names: Names of the contenders in the result.
        of: What is compared.
        draws: The draws that the cells share (`shared_draws`).
    """
    candidate, baseline = names
    start: dict[str, Any] = {
        "candidate": candidate,
        "baseline": baseline,
        "of": of,
    } | vars(key)
    start |= {
        "cells": len(pairs),
        "draws": len(draws),
        "rates_missed": _rates_missed(pairs),
    }
    refused = _refused(pairs, names)
    if refused is not None:
        return PooledComparison(**start, **refused)
    drawn = slice(1, 1 + len(draws))
    mean = mean_over_cells(
        [pair.difference(of).share[0, : drawn.stop] for pair in pairs]
    )
    each_ndg = [np.full(drawn.stop, np.nan)]
    unlike = None
    if of == "gain":
        each_ndg = [pair.ndg() for pair in pairs]
        unlike = _unlike(pairs)
    mean_ndg = mean_over_cells(each_ndg)
    is_large = np.all([pair.large_prizes() for pair in pairs], axis=0)

    share_drawn = mean[drawn]
    ndg_drawn = np.where(is_large, mean_ndg[drawn], np.nan)
    if not can_resample([pair.held for pair in pairs]):
        share_drawn = np.full(len(draws), np.nan)
        ndg_drawn = np.full(len(draws), np.nan)
    bounds = interval_over(share_drawn, draws)
    alone = [pair.verdict(of) for pair in pairs]
    return PooledComparison(
        **start,
        difference=estimate(float(mean[0]), bounds),
        ndg_difference=_ndg_difference(float(mean_ndg[0]), ndg_drawn, draws),
        spread=known(spread(share_drawn, draws)),
        verdict=verdict_of(orient(bounds, of)),
        dropped=_number_dropped(share_drawn),
        ndg_dropped=_number_dropped(ndg_drawn),
        cells_better=alone.count("better"),
        cells_worse=alone.count("worse"),
        reason=joined([*(reasons(pair.one, pair.other) for pair in pairs), unlike]),
    )


def _ndg_difference(point: float, drawn: PerDraw, draws: Draws) -> Estimate | None:
    """The mean difference of nDG; without a difference there is no interval."""
    if np.isnan(point):
        return None
    return estimate(point, interval_over(drawn, draws))


def _number_dropped(samples: PerDraw) -> int:
    """Number of draws without a value; 0 where no draw has one."""
    is_undefined = np.isnan(samples)
    if is_undefined.all():
        return 0
    return int(np.count_nonzero(is_undefined))


def _refused(pairs: Sequence[Pair], names: tuple[str, str]) -> dict[str, Any] | None:
    """The fields of a comparison in which one side cannot run; None where both can."""
    candidate, baseline = names
    out = [pair for pair in pairs if pair.one.gains is None]
    if out:
        reasons_of = [f"{candidate}: {one.one.row.reason} ({one.cell})" for one in out]
        return {"verdict": out[0].one.row.verdict, "reason": joined(reasons_of)}
    out = [pair for pair in pairs if pair.other.gains is None]
    if out:
        reasons_of = [f"{baseline}: {one.other.row.reason} ({one.cell})" for one in out]
        return {"verdict": None, "reason": joined(reasons_of)}
    return None


def mean_over_cells(
    cells: Sequence[Float[np.ndarray, "sample"]],
) -> Float[np.ndarray, "sample"]:
    """The mean over cells; values are added by size, so that the order of the cells
    does not affect rounding.
    """
    return np.sort(np.stack(cells), axis=0).mean(axis=0)


def mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean of a figure over cells; None where a cell has none."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def _unlike(pairs: Sequence[Pair]) -> str | None:
    """The reason why there is no difference in nDG, if the two divide by different
    oracles.
    """
    oracles = [(pair.one.oracle, pair.other.oracle) for pair in pairs]
    return joined(
        Reason.OTHER_ORACLES.text(one=ours, other=theirs)
        for ours, theirs in oracles
        if ours != theirs
    )


def _rates_missed(pairs: Sequence[Pair]) -> int | None:
    """Cells in which a causal policy escalates too many or too few."""
    sides = [
        [side.row for side in (pair.one, pair.other) if isinstance(side.row, Stream)]
        for pair in pairs
    ]
    return (
        sum(any(row.rate_missed for row in rows) for rows in sides)
        if any(sides)
        else None
    )
