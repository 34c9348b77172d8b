"""Results -> differences between allocators, and means over cells: paired draw by draw.

compare() tests whether one allocator is better than another on the same inputs. pool() averages allocators over cells
with equal weight. Cells of one dataset share their draws, so the mean over cells in a draw is a draw of the mean.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from deepval import checks
from deepval.arrays import Float
from deepval.errors import InputError, InputWarning
from deepval.judging.contenders import (
    Basis,
    Contender,
    Statistic,
    basis,
    checked,
    contenders,
    oracle_of,
    oriented,
    part,
)
from deepval.judging.draws import Draws, Interval
from deepval.judging.rows import Judged, paired_rows
from deepval.results import BudgetKey, BudgetRecord, Reason, Result, joined, known
from deepval.tables.scores import REFERENCES

AT_ONCE = 64
"""Rows to pool at a time: few enough for the cache."""


@dataclass(frozen=True)
class Comparison(BudgetRecord):
    """One allocator against another under one budget.

    Attributes:
        candidate: The allocator in question.
        baseline: What it is compared with.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        difference: (candidate's gain - baseline's gain) / all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        spread: Standard deviation over the draws.
        loss: The same difference in units of the loss.
        loss_lo: Lower bound of its paired 95 % interval.
        loss_hi: Upper bound.
        unit: share, or loss where the all-cheap loss is not positive or nearly zero: how to read it.
        second_lo: Lower bound of the second opinion on the difference, for few or unequal units.
        second_hi: Upper bound.
        second_loss_lo: Lower bound of the second opinion on the difference in units of the loss.
        second_loss_hi: Upper bound.
        ndg_difference: Difference of the two nDG, where both divide by the same oracle.
        verdict: better, worse or unresolved; infeasible where the candidate cannot pay for itself; None without an
            interval.
        second_verdict: What the second opinion says; None where there is no verdict.
        reason: Why something is None.
        of: What is compared: gain, benefit or harm; the candidate is better where it has less harm.
        draws: Number of draws.
        dropped: Draws that could not be compared, for want of a positive all-cheap loss.
    """

    candidate: str
    baseline: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    difference: float | None = None
    lo: float | None = None
    hi: float | None = None
    spread: float | None = None
    loss: float | None = None
    loss_lo: float | None = None
    loss_hi: float | None = None
    unit: str = "share"
    second_lo: float | None = None
    second_hi: float | None = None
    second_loss_lo: float | None = None
    second_loss_hi: float | None = None
    ndg_difference: float | None = None
    verdict: str | None = None
    second_verdict: str | None = None
    reason: str | None = None
    of: str = "gain"
    draws: int = 0
    dropped: int = 0


def compare(result: Result, candidate: str, baseline: str, *, of: Statistic = "gain") -> tuple[Comparison, ...]:
    """Paired differences of two contenders of one result with samples, under each budget of both.

    Args:
        result: Fresh from evaluate(), or loaded with its samples.
        candidate: An allocator or reference; `NAME@POLICY` under a causal policy, such as `mine@causal-cap`.
        baseline: What it is compared with, likewise.
        of: What is compared: gain, or its parts benefit and harm.
    """
    checked(of)
    cell_basis = basis(checks.instance(result, Result, "What is compared in"))
    ours, theirs = contenders(cell_basis, candidate), contenders(cell_basis, baseline)
    names = candidate, baseline
    return tuple(_compared(cell_basis, names, ours[key], theirs[key], of=of) for key in ours if key in theirs)


def _compared(
    cell_basis: Basis, names: tuple[str, str], one: Contender, other: Contender, *, of: Statistic
) -> Comparison:
    row, re = one.row, cell_basis.totals
    candidate, baseline = names
    start: dict[str, Any] = {"candidate": candidate, "baseline": baseline} | row.budget.fields
    start |= {"of": of, "draws": len(re.draws)}
    if one.sample is None or other.sample is None:
        missing, reason = (candidate, row.reason) if one.sample is None else (baseline, other.row.reason)
        verdict = row.verdict if one.sample is None else None
        return Comparison(**start, verdict=verdict, reason=f"{missing}: {reason}")
    paired = re.paired(part(one.sample, of), part(other.sample, of))
    bounds = re.versus(paired)
    both = of == "gain" and row.ndg is not None and other.row.ndg is not None
    ours, theirs = oracle_of(one), oracle_of(other)
    alike = ours == theirs
    unlike = Reason.OTHER_ORACLES.said(one=ours, other=theirs) if both and not alike else None
    return Comparison(
        **start,
        difference=known(paired.share[0]),
        lo=known(bounds.share.low),
        hi=known(bounds.share.high),
        spread=known(re.draws.spread(paired.share[re.drawn])) if re.resampled else None,
        loss=known(paired.loss[0]),
        loss_lo=known(bounds.loss.low),
        loss_hi=known(bounds.loss.high),
        unit=re.unit_shown,
        second_lo=known(bounds.second_share.low),
        second_hi=known(bounds.second_share.high),
        second_loss_lo=known(bounds.second_loss.low),
        second_loss_hi=known(bounds.second_loss.high),
        ndg_difference=(row.ndg or 0.0) - (other.row.ndg or 0.0) if both and alike else None,
        verdict=oriented(bounds.share, of).verdict or oriented(bounds.loss, of).verdict,
        second_verdict=oriented(bounds.second_share, of).verdict or oriented(bounds.second_loss, of).verdict,
        reason=joined([reasons(one, other), unlike]),
        dropped=bounds.dropped,
    )


@dataclass(frozen=True)
class Pooled(BudgetRecord):
    """One allocator's equal-weight mean over cells under one budget.

    Attributes:
        allocator: Its name.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        oracle: What the cells' nDG divide by, as in `Row`; several where cells differ.
        chance: What stands for random in them, likewise.
        versus_random: Mean of the cells' paired differences with random, shares of each all-cheap loss.
        versus_random_lo: Lower bound of its 95 % interval, every draw kept.
        versus_random_hi: Upper bound.
        ndg: Mean of the cells' nDG.
        ndg_lo: Lower bound over the draws that every cell keeps.
        ndg_hi: Upper bound.
        draws: Number of draws.
        draws_dropped: Draws that some cell drops from its nDG interval.
        verdict: better, worse or unresolved against random; None without an interval.
        reason: Why something is None.
        versus_random_dropped: Draws without a positive all-cheap loss in some cell, left out of the paired interval.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cells: int
    oracle: str | None = None
    chance: str | None = None
    versus_random: float | None = None
    versus_random_lo: float | None = None
    versus_random_hi: float | None = None
    ndg: float | None = None
    ndg_lo: float | None = None
    ndg_hi: float | None = None
    draws: int = 0
    draws_dropped: int = 0
    verdict: str | None = None
    reason: str | None = None
    versus_random_dropped: int = 0


def pool(cells: Mapping[str, Result]) -> tuple[Pooled, ...]:
    """Equal-weight means over cells of every allocator and budget that all of them judge."""
    return pool_held({name: basis(item) for name, item in checks.by_cell(cells, Result, "Cells to pool").items()})


def pool_held(bases: Mapping[str, Basis]) -> tuple[Pooled, ...]:
    """`pool` for the bases of results."""
    draws, cells = shared_draws(bases), list(bases.values())
    rows_of_cells = [{(item.row.allocator, item.row.budget): item for item in cell.judged} for cell in cells]
    shared = {
        (name, key): [rows[name, key] for rows in rows_of_cells]
        for name, key in rows_of_cells[0]
        if name not in REFERENCES and all((name, key) in rows for rows in rows_of_cells)
    }
    able = [key for key, members in shared.items() if all(member.sample for member in members)]
    pooled: dict[tuple[str, BudgetKey], Pooled] = {}
    for begin in range(0, len(able), AT_ONCE):
        part = able[begin : begin + AT_ONCE]
        pooled |= zip(part, _pooled(part, [shared[key] for key in part], cells, draws), strict=True)
    return tuple(pooled.get(key) or _infeasible(key, members, draws) for key, members in shared.items())


def _infeasible(key: tuple[str, BudgetKey], members: Sequence[Judged], draws: Draws) -> Pooled:
    row = next(member.row for member in members if member.sample is None)
    return Pooled(**_opening(key, members), draws=len(draws), verdict=row.verdict, reason=row.reason)


def _opening(key: tuple[str, BudgetKey], members: Sequence[Judged]) -> dict[str, Any]:
    name, budget = key
    return {"allocator": name} | budget.fields | {"cells": len(members)} | yardsticks(members)


def _pooled(
    keys: Sequence[tuple[str, BudgetKey]], rows: Sequence[Sequence[Judged]], cells: Sequence[Basis], draws: Draws
) -> Iterator[Pooled]:
    """Rows of allocators under their budgets, all of which can pay in every cell."""
    by_cell = list(zip(zip(*rows, strict=True), cells, strict=True))
    paired = [paired_rows(members) for members, _ in by_cell]
    prize = [np.stack([member.prize for member in members]) for members, _ in by_cell]
    each_ndg = [c.totals.ndg(gain_rows(members), p) for (members, c), p in zip(by_cell, prize, strict=True)]
    selected = np.all([c.totals.prized(p) & (p[:, :1] > 0) for p, c in zip(prize, cells, strict=True)], axis=0)
    mean, ndg = _mean_drawn(paired, cells), _mean_drawn(each_ndg, cells)
    against = draws.intervals(mean, ~np.isnan(mean) & can_resample(cells))
    of_ndg = draws.intervals(ndg, selected & can_resample(cells))
    dropped, undefined = np.count_nonzero(~selected, axis=1).tolist(), np.count_nonzero(np.isnan(mean), axis=1).tolist()
    for i, (key, members) in enumerate(zip(keys, rows, strict=True)):
        bounds = against[i].snapped()
        yield Pooled(
            **_opening(key, members),
            versus_random=known(float(np.mean([p[i, 0] for p in paired]))),
            versus_random_lo=known(bounds.low),
            versus_random_hi=known(bounds.high),
            ndg=known(float(np.mean([n[i, 0] for n in each_ndg]))),
            ndg_lo=known(of_ndg[i].low),
            ndg_hi=known(of_ndg[i].high),
            draws=len(draws),
            draws_dropped=dropped[i],
            verdict=bounds.verdict,
            reason=reasons(*members),
            versus_random_dropped=undefined[i] if bounds.verdict else 0,
        )


def _mean_drawn(
    by_cell: Sequence[Float[np.ndarray, "row resample"]], cells: Sequence[Basis]
) -> Float[np.ndarray, "row draw"]:
    """Mean over cells of every row, draw by draw."""
    return np.mean([rows[:, cell.totals.drawn] for rows, cell in zip(by_cell, cells, strict=True)], axis=0)


def gain_rows(judged: Sequence[Judged]) -> Float[np.ndarray, "row resample"]:
    """Gains of rows that can pay."""
    return np.stack([item.sample.gain for item in judged if item.sample is not None])


def mean_paired(members: Sequence[Judged], cells: Sequence[Basis]) -> Float[np.ndarray, "draw"]:
    """Mean over cells of one allocator's paired difference with random, draw by draw."""
    return np.mean([m.paired[c.totals.drawn] for m, c in zip(members, cells, strict=True)], axis=0)


def mean_gained(
    rows: Sequence[Sequence[Judged]], origin: Sequence[Judged], cells: Sequence[Basis]
) -> Float[np.ndarray, "row draw"]:
    """Mean over cells of the allocators' gains minus that of `origin`, as shares of all-cheap losses, draw by draw."""
    blocks = [np.empty((0, len(cells[0].totals.draws)))]
    starts = [np.zeros(1) if base.sample is None else base.sample.gain for base in origin]
    for begin in range(0, len(rows), AT_ONCE):
        by_cell = zip(zip(*rows[begin : begin + AT_ONCE], strict=True), starts, cells, strict=True)
        shares = []
        for members, start, cell in by_cell:
            gains = gain_rows(members)
            shares.append(cell.totals.paired(gains, np.broadcast_to(start, gains.shape)).share)
        blocks.append(_mean_drawn(shares, cells))
    return np.concatenate(blocks)


def yardsticks(members: Sequence[Judged]) -> dict[str, Any]:
    """The names of the oracles and chances that the rows are measured by, each once."""
    named = {part: dict.fromkeys(m.row[part] for m in members if m.row[part]) for part in ("oracle", "chance")}
    return {part: ", ".join(names) or None for part, names in named.items()}


def can_resample(cells: Sequence[Basis]) -> bool:
    """Whether there are draws, and every cell has more than one unit."""
    return all(cell.totals.resampled for cell in cells)


def versus_random_bounds(paired: Float[np.ndarray, "draw"], cells: Sequence[Basis]) -> Interval:
    """The interval of a mean difference over its draws, every draw kept."""
    return cells[0].totals.draws.interval(paired, ~np.isnan(paired) & can_resample(cells)).snapped()


def reasons(*judged: Contender) -> str | None:
    """Why something is None on any side, each reason once."""
    return joined(item.row.reason for item in judged)


def _ndg(judged: Judged, cell_basis: Basis) -> Float[np.ndarray, "resample"]:
    assert judged.sample is not None
    return cell_basis.totals.ndg(judged.sample.gain, judged.prize)


def shared_draws(bases: Mapping[str, Basis]) -> Draws:
    """The draws of the first cell; raises where the draws of another cell cannot be combined with them.

    Cells with the same units must have the same draws. Cells with other units must have draws of another seed: with the
    same seed their draws would be correlated without a reason.
    """
    first = next(iter(bases.values())).totals.draws
    lists: dict[tuple[str, ...], tuple[str, Draws]] = {}
    for name, item in bases.items():
        draws = item.totals.draws
        if draws.method != first.method or len(draws) != len(first):
            raise InputError(
                f"Cells are pooled draw by draw, so each needs as many draws of the same kind; {name!r} has "
                f"{len(draws)} {draws.method}, another has {len(first)} {first.method}. Give a number of draws."
            )
        _, before = lists.setdefault(tuple(item.totals.unit_ids), (name, draws))
        if not np.array_equal(before.counts, draws.counts):
            raise InputError(f"Cells with the same units must share their draws; {name!r} has another seed.")
    for (units, (name, one)), (others, (other_name, other)) in combinations(lists.items(), 2):
        if first.method == "exact":
            raise InputError("Exact draws can be pooled only over cells with the same units. Give a number of draws.")
        if first.method == "drawn" and one.seed == other.seed:
            raise InputError(
                f"Cells with other units need draws of another seed; {name!r} and {other_name!r} both have "
                f"{one.seed}: take seeds from deepval.judging.draws.child_seeds, one per list of units."
            )
        shared = set(units) & set(others)
        if shared:
            warnings.warn(
                f"{name} and {other_name} share {len(shared)} of their units ({min(shared)}, ...) but not the list of "
                "them, so these are drawn apart: if they are the same scenes, judge both cells on the same units.",
                InputWarning,
                stacklevel=3,
            )
    return first
