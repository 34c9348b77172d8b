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
from deepval.arrays import Bool, Float
from deepval.errors import InputError, InputWarning
from deepval.judging.comparison import (
    Basis,
    Contender,
    Statistic,
    basis,
    check_statistic,
    contenders,
    oracle_of,
    orient,
    part,
    reasons,
)
from deepval.judging.draws import Draws, Interval
from deepval.judging.resamples import Difference
from deepval.judging.rows import Judged, paired_differences
from deepval.judging.stream_rows import Streamed
from deepval.results import (
    LO_HI,
    AllocatorRecord,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Reason,
    Result,
    answer,
    joined,
    known,
)
from deepval.tables.scores import REFERENCES

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
        answer: As in `Row`; None where a verdict is missing.
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
    answer: str | None = None
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
        if name not in REFERENCES and all((name, key) in rows for rows in rows_of_cells)
    }
    able = [
        key
        for key, members in shared.items()
        if all(member.sample for member in members)
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
    key: tuple[str, BudgetKey], members: Sequence[Judged], draws: Draws
) -> Pooled:
    row = next(member.row for member in members if member.sample is None)
    return Pooled(
        **_opening(key, members),
        draws=len(draws),
        verdict=row.verdict,
        reason=row.reason,
    )


def _opening(key: tuple[str, BudgetKey], members: Sequence[Judged]) -> dict[str, Any]:
    name, budget = key
    return (
        {"allocator": name}
        | vars(budget)
        | {"cells": len(members)}
        | yardsticks(members)
    )


def _pool(
    keys: Sequence[tuple[str, BudgetKey]],
    rows: Sequence[Sequence[Judged]],
    cells: Sequence[Basis],
    draws: Draws,
) -> Iterator[Pooled]:
    """Rows of allocators under their budgets, all of which can pay in every cell."""
    by_cell = list(zip(zip(*rows, strict=True), cells, strict=True))
    paired = [paired_differences(members) for members, _ in by_cell]
    prize = [np.stack([member.prize for member in members]) for members, _ in by_cell]
    each_ndg = [
        c.totals.ndg(gain_rows(members), p)
        for (members, c), p in zip(by_cell, prize, strict=True)
    ]
    selected = np.all(
        [
            c.totals.large_prizes(p) & (p[:, :1] > 0)
            for p, c in zip(prize, cells, strict=True)
        ],
        axis=0,
    )
    mean, ndg = _mean_by_draw(paired, cells), _mean_by_draw(each_ndg, cells)
    against = draws.intervals(mean, ~np.isnan(mean) & can_resample(cells))
    of_ndg = draws.intervals(ndg, selected & can_resample(cells))
    uniform = {
        name: _versus_uniform(by_cell, draws, everything=name == "always")
        for name in ("never", "always")
    }
    dropped, undefined = (
        np.count_nonzero(~selected, axis=1).tolist(),
        np.count_nonzero(np.isnan(mean), axis=1).tolist(),
    )
    for i, (key, members) in enumerate(zip(keys, rows, strict=True)):
        bounds = against[i].snap()
        ratios = [member.row.always_cost_ratio for member in members]
        fields: dict[str, Any] = _opening(key, members) | {
            "verdict": bounds.verdict,
            "always_fits": all(member.row.always_fits for member in members),
            "always_cost_ratio": mean_if_all(ratios),
        }
        for name, versus in uniform.items():
            fields |= {f"versus_{name}": versus[i][0], f"{name}_verdict": versus[i][1]}
        yield Pooled(
            **fields,
            answer=answer(fields),
            versus_random=bounds.estimate(float(np.mean([p[i, 0] for p in paired]))),
            ndg=of_ndg[i].estimate(float(np.mean([n[i, 0] for n in each_ndg]))),
            draws=len(draws),
            draws_dropped=dropped[i],
            reason=reasons(*members),
            versus_random_dropped=undefined[i] if bounds.verdict else 0,
        )


def _versus_uniform(
    by_cell: Sequence[tuple[Sequence[Judged], Basis]], draws: Draws, *, everything: bool
) -> list[tuple[Estimate | None, str | None]]:
    """Per row, the mean difference with escalating nothing or everything, and its
    verdict.
    """
    cells = [cell for _, cell in by_cell]
    shares = [
        _ahead(members, cell, cell.totals.full_gain if everything else 0.0)
        for members, cell in by_cell
    ]
    mean = _mean_by_draw(shares, cells)
    bounds = [
        interval.snap()
        for interval in draws.intervals(mean, ~np.isnan(mean) & can_resample(cells))
    ]
    points = np.mean([share[:, 0] for share in shares], axis=0)
    return [
        (of.estimate(float(point)), of.verdict)
        for of, point in zip(bounds, points, strict=True)
    ]


def _mean_by_draw(
    by_cell: Sequence[Float[np.ndarray, "row resample"]], cells: Sequence[Basis]
) -> Float[np.ndarray, "row draw"]:
    """Mean over cells of every row, draw by draw."""
    return np.mean(
        [rows[:, cell.totals.drawn] for rows, cell in zip(by_cell, cells, strict=True)],
        axis=0,
    )


def _ahead(
    members: Sequence[Judged], cell: Basis, start: Float[np.ndarray, "resample"] | float
) -> Float[np.ndarray, "row resample"]:
    """Gains of rows of a cell less `start`, paired, as shares of the all-cheap loss."""
    gains = gain_rows(members)
    return cell.totals.paired_difference(
        gains, np.broadcast_to(start, gains.shape)
    ).share


def gain_rows(judged: Sequence[Judged]) -> Float[np.ndarray, "row resample"]:
    """Gains of rows that can pay."""
    return np.stack([item.sample.gain for item in judged if item.sample is not None])


def mean_difference(
    members: Sequence[Judged], cells: Sequence[Basis]
) -> Float[np.ndarray, "draw"]:
    """Mean over cells of one allocator's paired difference with random, draw by
    draw.
    """
    return np.mean(
        [m.paired[c.totals.drawn] for m, c in zip(members, cells, strict=True)], axis=0
    )


def mean_gain_ahead(
    rows: Sequence[Sequence[Judged]], origin: Sequence[Judged], cells: Sequence[Basis]
) -> Float[np.ndarray, "row draw"]:
    """Mean over cells of the allocators' gains minus that of `origin`, as shares of
    all-cheap losses, draw by draw.
    """
    blocks = [np.empty((0, len(cells[0].totals.draws)))]
    starts = [
        np.zeros(1) if base.sample is None else base.sample.gain for base in origin
    ]
    for begin in range(0, len(rows), AT_ONCE):
        by_cell = zip(
            zip(*rows[begin : begin + AT_ONCE], strict=True), starts, cells, strict=True
        )
        shares = [_ahead(members, cell, start) for members, start, cell in by_cell]
        blocks.append(_mean_by_draw(shares, cells))
    return np.concatenate(blocks)


def yardsticks(members: Sequence[Judged]) -> dict[str, Any]:
    """The names of the oracles and chances that the rows are measured by, each once."""
    named = {
        part: dict.fromkeys(m.row[part] for m in members if m.row[part])
        for part in ("oracle", "chance")
    }
    return {part: ", ".join(names) or None for part, names in named.items()}


def can_resample(cells: Sequence[Basis]) -> bool:
    """Whether there are draws, and every cell has more than one unit."""
    return all(cell.totals.resampled for cell in cells)


def versus_random_bounds(
    paired: Float[np.ndarray, "draw"], cells: Sequence[Basis]
) -> Interval:
    """The interval of a mean difference over its draws, every draw kept."""
    return (
        cells[0]
        .totals.draws.interval(paired, ~np.isnan(paired) & can_resample(cells))
        .snap()
    )


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

    def difference(self, of: Statistic) -> Difference:
        """Their difference in every resample."""
        assert self.one.sample
        assert self.other.sample
        return self.held.totals.paired_difference(
            part(self.one.sample, of), part(self.other.sample, of)
        )

    def ndg(self) -> Float[np.ndarray, "sample"]:
        """The difference of their nDG in the sample and every draw; NaN where they
        divide by different oracles.
        """
        totals, ours, theirs = self.held.totals, self.one, self.other
        alike = (
            oracle_of(ours) == oracle_of(theirs)
            and ours.row.ndg is not None
            and theirs.row.ndg is not None
        )
        gained = (
            self.difference("gain").loss if alike else np.full(len(ours.prize), np.nan)
        )
        return totals.ndg(gained, ours.prize)[: totals.drawn.stop]

    def large_prizes(self) -> Bool[np.ndarray, "draw"]:
        """Draws whose prize is not too small to divide by."""
        prize = self.one.prize
        return self.held.totals.large_prizes(prize) & bool(prize[0] > 0)


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
    for side, name in (("one", candidate), ("other", baseline)):
        out = [pair for pair in pairs if getattr(pair, side).sample is None]
        if out:
            reason = joined(
                f"{name}: {getattr(pair, side).row.reason} ({pair.cell})"
                for pair in out
            )
            verdict = getattr(out[0], side).row.verdict if side == "one" else None
            return PooledComparison(**start, verdict=verdict, reason=reason)
    resampled = can_resample([pair.held for pair in pairs])
    drawn = slice(1, 1 + len(draws))
    differences = [pair.difference(of) for pair in pairs]
    mean = mean_over_cells([item.share[: drawn.stop] for item in differences])
    defined = ~np.isnan(mean[drawn]) & resampled
    bounds = draws.interval(mean[drawn], defined).snap()
    alone = [
        orient(pair.held.totals.versus(item).share, of).verdict
        for pair, item in zip(pairs, differences, strict=True)
    ]
    unlike = _unlike(pairs) if of == "gain" else None
    ndg = (
        mean_over_cells([pair.ndg() for pair in pairs])
        if of == "gain"
        else np.full(drawn.stop, np.nan)
    )
    selected = (
        np.all([pair.large_prizes() for pair in pairs], axis=0)
        & ~np.isnan(ndg[drawn])
        & resampled
    )
    of_ndg = draws.interval(ndg[drawn], selected & ~np.isnan(ndg[0])).snap()
    return PooledComparison(
        **start,
        difference=bounds.estimate(mean[0]),
        ndg_difference=of_ndg.estimate(ndg[0]),
        spread=known(draws.spread(mean[drawn])) if resampled else None,
        verdict=orient(bounds, of).verdict,
        dropped=int(np.count_nonzero(~defined)) if defined.any() else 0,
        ndg_dropped=int(np.count_nonzero(~selected)) if selected.any() else 0,
        cells_better=alone.count("better"),
        cells_worse=alone.count("worse"),
        reason=joined([*(reasons(pair.one, pair.other) for pair in pairs), unlike]),
    )


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
    oracles = ((oracle_of(pair.one), oracle_of(pair.other)) for pair in pairs)
    return joined(
        Reason.OTHER_ORACLES.text(one=ours, other=theirs)
        for ours, theirs in oracles
        if ours != theirs
    )


def _rates_missed(pairs: Sequence[Pair]) -> int | None:
    """Cells in which a causal policy escalates too many or too few."""
    sides = [
        [side.row for side in (pair.one, pair.other) if isinstance(side, Streamed)]
        for pair in pairs
    ]
    return (
        sum(any(row.rate_missed for row in rows) for rows in sides)
        if any(sides)
        else None
    )
