"""Results of several cells -> means over them: of allocators (`pool`), and of
differences between two (`compare_over`).

Every cell has the same weight. Cells with the same units share their draws, so the mean
of a draw is a draw of the mean; cells with other units have draws of their own. A draw
in which the difference of some cell is undefined is left out and counted.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Bool, Float, PerResample
from deepval.basics.errors import InputError, InputWarning
from deepval.judge.differences import (
    has_large_prize,
    ndg,
    paired_difference,
    paired_shares,
)
from deepval.judge.draws import Draws
from deepval.judge.intervals import (
    Interval,
    Verdict,
    estimate,
    interval_over,
    spread,
    verdict_of,
)
from deepval.judge.pairs import (
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
from deepval.judge.results import (
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
from deepval.judge.tables.scores import is_reference

PerSample = Float[np.ndarray, "sample"]
"""One number for the sample and one for each draw.

Resamples with a unit left out are not used, because cells have different units.
"""

OfCell = Float[np.ndarray, "_"]
"""One number for each resample of a cell; cells have different numbers of them."""


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a figure over cells, draw by draw.

    Attributes:
        samples: The sample, then the draws; NaN where a draw is left out.
        draws: The draws that the cells share.
        scale: Size of the numbers whose sum it is, as in `interval`.
    """

    samples: PerSample
    draws: Draws
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        by_cell: Sequence[OfCell],
        cells: Sequence[Basis],
        *,
        is_used: Bool[np.ndarray, "draw"] | None = None,
        scale: float = 1.0,
    ) -> "Mean":
        """The mean of a figure of every cell.

        Args:
            by_cell: The figure in the resamples of each cell.
            cells: The cells, whose draws fit together (`shared_draws`).
            is_used: The draws that count; None for all.
            scale: As in the attributes.
        """
        draws = cells[0].totals.draws
        samples = mean_over_cells([own[: 1 + len(draws)] for own in by_cell])
        if not can_resample(cells):
            samples[1:] = np.nan
        elif is_used is not None:
            samples[1:][~is_used] = np.nan
        return cls(samples, draws, scale)

    @property
    def drawn(self) -> PerSample:
        """The mean in every draw."""
        return self.samples[1:]

    @cached_property
    def interval(self) -> Interval | None:
        """Its 95 % interval."""
        return interval_over(self.drawn, self.draws, scale=self.scale)

    @property
    def estimate(self) -> Estimate | None:
        """The mean of the sample with its interval."""
        return estimate(float(self.samples[0]), self.interval)

    @property
    def verdict(self) -> Verdict | None:
        """Better, worse or unresolved; None without an interval."""
        return verdict_of(self.interval)

    @property
    def dropped(self) -> int:
        """Number of draws without a value; 0 where no draw has one."""
        is_undefined = np.isnan(self.drawn)
        if is_undefined.all():
            return 0
        return int(np.count_nonzero(is_undefined))


def mean_ahead(
    members: Sequence[Contender], cells: Sequence[Basis], others: Sequence[OfCell]
) -> Mean:
    """The mean over cells of an allocator's paired differences with other gains, as
    shares of the all-cheap losses.
    """
    shares = []
    for member, cell, other in zip(members, cells, others, strict=True):
        assert member.gains is not None
        shares.append(paired_shares(cell.totals, member.gains.gain, other))
    return Mean.of(shares, cells)


def mean_ahead_of_chance(members: Sequence[Contender], cells: Sequence[Basis]) -> Mean:
    """The mean over cells of an allocator's paired differences with chance."""
    pairs = zip(members, cells, strict=True)
    return Mean.of([own.ahead_of_chance(cell.totals) for own, cell in pairs], cells)


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
    return pool_bases(_bases(cells, "Cells to pool"))


def _bases(cells: Mapping[str, Result], what: str) -> dict[str, Basis]:
    results = checks.by_cell(cells, Result, what)
    return {name: basis(result) for name, result in results.items()}


def pool_bases(bases: Mapping[str, Basis]) -> tuple[Pooled, ...]:
    """`pool` for the bases of results."""
    shared_draws(bases)
    cells = list(bases.values())
    by_cell = [
        {(item.row.allocator, item.row.budget): item for item in cell.judged}
        for cell in cells
    ]
    rows = []
    for key in by_cell[0]:
        members = [own[key] for own in by_cell if key in own]
        if len(members) == len(cells) and not is_reference(key[0]):
            rows.append(_pooled(members, cells))
    return tuple(rows)


def _pooled(members: Sequence[Contender], cells: Sequence[Basis]) -> Pooled:
    """The means of one allocator under one budget."""
    draws = cells[0].totals.draws
    rows = [member.row for member in members if isinstance(member.row, Row)]
    start: dict[str, Any] = {
        "allocator": rows[0].allocator,
        **vars(rows[0].budget),
        "cells": len(rows),
        "draws": len(draws),
        **yardsticks(members),
    }
    for member in members:
        if member.gains is None:
            row = member.row
            return Pooled(**start, verdict=row.verdict, reason=row.reason)
    random = mean_ahead_of_chance(members, cells)
    never = mean_ahead(
        members, cells, [np.zeros_like(cell.totals.full_gain) for cell in cells]
    )
    always = mean_ahead(members, cells, [cell.totals.full_gain for cell in cells])
    # A draw counts only if no cell's prize is too small to divide by.
    pairs = list(zip(members, cells, strict=True))
    is_large = _are_prizes_large(pairs)
    ndgs = [ndg(own.gains.gain, own.prize) for own in members if own.gains is not None]
    return Pooled(
        **start,
        versus_random=random.estimate,
        ndg=Mean.of(ndgs, cells, is_used=is_large, scale=0.0).estimate,
        draws_dropped=int(np.count_nonzero(~is_large)),
        verdict=random.verdict,
        versus_never=never.estimate,
        never_verdict=never.verdict,
        versus_always=always.estimate,
        always_verdict=always.verdict,
        always_fits=all(row.always_fits for row in rows),
        always_cost_ratio=mean_if_all([row.always_cost_ratio for row in rows]),
        reason=reasons(*members),
        versus_random_dropped=random.dropped,
    )


def _are_prizes_large(
    pairs: Sequence[tuple[Contender, Basis]],
) -> Bool[np.ndarray, "draw"]:
    """The draws in which the prize of every cell is large enough to divide by."""
    is_large = [
        has_large_prize(cell.totals, member.prize[None])[0] for member, cell in pairs
    ]
    return np.all(is_large, axis=0)


def yardsticks(members: Sequence[Contender]) -> dict[str, Any]:
    """The names of the oracles and chances that the rows are measured by, each once."""
    rows = [member.row for member in members if isinstance(member.row, Row)]
    return {
        "oracle": _each_once(row.oracle for row in rows),
        "chance": _each_once(row.chance for row in rows),
    }


def _each_once(names: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(name for name in names if name)) or None


def can_resample(cells: Sequence[Basis]) -> bool:
    """Whether there are draws, and every cell has more than one unit."""
    return all(cell.totals.has_intervals for cell in cells)


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
                "deepval.judge.draws.child_seeds, one per list of units."
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
    """Both contenders in one cell."""

    cell: str
    held: Basis
    one: Contender
    other: Contender

    def share(self, of: Statistic) -> PerResample:
        """Their difference in a statistic, as a share of the all-cheap loss."""
        assert self.one.gains is not None
        assert self.other.gains is not None
        ours = part(self.one.gains, of)
        return paired_shares(self.held.totals, ours, part(self.other.gains, of))

    def verdict(self, of: Statistic) -> Verdict | None:
        """The verdict of this cell alone."""
        alone = Mean.of([self.share(of)], [self.held])
        return verdict_of(orient(alone.interval, of))

    def ndg(self) -> PerResample:
        """The difference of their nDG; NaN where they divide by different oracles."""
        assert self.one.gains is not None
        assert self.other.gains is not None
        have_ndg = self.one.row.ndg is not None and self.other.row.ndg is not None
        if not have_ndg or self.one.oracle != self.other.oracle:
            return np.full(len(self.one.prize), np.nan)
        ours = self.one.gains.gain[None]
        theirs = self.other.gains.gain[None]
        difference = paired_difference(self.held.totals, ours, theirs)
        return ndg(difference.loss[0], self.one.prize)


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
    bases = _bases(cells, "Cells to compare over")
    shared_draws(bases)
    return bases


def compare_bases(
    bases: Mapping[str, Basis], candidate: str, baseline: str, *, of: Statistic = "gain"
) -> tuple[PooledComparison, ...]:
    """`compare_over` for the bases of the results, which `together` returns."""
    check_statistic(of)
    ours = {name: contenders(item, candidate) for name, item in bases.items()}
    theirs = {name: contenders(item, baseline) for name, item in bases.items()}
    rows = []
    for key in next(iter(ours.values())):
        pairs = [
            Pair(name, item, ours[name][key], theirs[name][key])
            for name, item in bases.items()
            if key in ours[name] and key in theirs[name]
        ]
        if len(pairs) == len(bases):
            rows.append(over_pairs(pairs, key, (candidate, baseline), of=of))
    if not rows:
        raise InputError(
            f"{candidate!r} and {baseline!r} have no budget that "
            "every cell judges both under."
        )
    return tuple(rows)


def over_pairs(
    pairs: Sequence[Pair],
    key: BudgetKey,
    names: tuple[str, str],
    *,
    of: Statistic = "gain",
) -> PooledComparison:
    """The mean over cells of the difference between two contenders, which may be
    different ones in each cell.

    Args:
        pairs: Both contenders in each cell, whose draws fit together (`shared_draws`).
        key: The budget.
        names: Names of the contenders in the result.
        of: What is compared.
    """
    candidate, baseline = names
    cells = [pair.held for pair in pairs]
    start: dict[str, Any] = {
        "candidate": candidate,
        "baseline": baseline,
        "of": of,
        **vars(key),
        "cells": len(pairs),
        "draws": len(cells[0].totals.draws),
        "rates_missed": _rates_missed(pairs),
    }
    out = [pair for pair in pairs if pair.one.gains is None]
    if out:
        reason = joined(f"{candidate}: {it.one.row.reason} ({it.cell})" for it in out)
        return PooledComparison(**start, verdict=out[0].one.row.verdict, reason=reason)
    out = [pair for pair in pairs if pair.other.gains is None]
    if out:
        reason = joined(f"{baseline}: {it.other.row.reason} ({it.cell})" for it in out)
        return PooledComparison(**start, reason=reason)

    share = Mean.of([pair.share(of) for pair in pairs], cells)
    each_ndg = [np.full_like(pair.one.prize, np.nan) for pair in pairs]
    unlike = []
    if of == "gain":
        each_ndg = [pair.ndg() for pair in pairs]
        unlike = _unlike_oracles(pairs)
    is_large = _are_prizes_large([(pair.one, pair.held) for pair in pairs])
    ndg_mean = Mean.of(each_ndg, cells, is_used=is_large)
    alone = [pair.verdict(of) for pair in pairs]
    return PooledComparison(
        **start,
        difference=share.estimate,
        ndg_difference=ndg_mean.estimate,
        spread=known(spread(share.drawn, share.draws)),
        verdict=verdict_of(orient(share.interval, of)),
        dropped=share.dropped,
        ndg_dropped=ndg_mean.dropped,
        cells_better=alone.count("better"),
        cells_worse=alone.count("worse"),
        reason=joined([*(reasons(pair.one, pair.other) for pair in pairs), *unlike]),
    )


def mean_over_cells(cells: Sequence[PerSample]) -> PerSample:
    """The mean over cells; values are added by size, so that the order of the cells
    does not affect rounding.
    """
    return np.sort(np.stack(cells), axis=0).mean(axis=0)


def mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean of a figure over cells; None where a cell has none."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return None
    return float(np.mean(numbers))


def _unlike_oracles(pairs: Sequence[Pair]) -> list[str]:
    """Why there is no difference in nDG, where the two divide by different oracles."""
    return [
        Reason.OTHER_ORACLES.text(one=pair.one.oracle, other=pair.other.oracle)
        for pair in pairs
        if pair.one.oracle != pair.other.oracle
    ]


def _rates_missed(pairs: Sequence[Pair]) -> int | None:
    """Cells in which a causal policy escalates too many or too few; None where no
    causal policy is compared.
    """
    is_missed = {}
    for pair in pairs:
        for row in (pair.one.row, pair.other.row):
            if isinstance(row, Stream):
                missed = is_missed.get(pair.cell, False) or bool(row.rate_missed)
                is_missed[pair.cell] = missed
    if not is_missed:
        return None
    return sum(is_missed.values())
