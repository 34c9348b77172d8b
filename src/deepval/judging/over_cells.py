"""Results of several cells -> the mean over them of the paired difference between two contenders.

Every cell has the same weight. Cells with the same units share their draws, so the mean of a draw is a draw of the
mean; cells with other units have draws of their own. A draw in which the difference of some cell is undefined is left
out and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval import checks
from deepval.arrays import Bool, Float
from deepval.errors import InputError
from deepval.judging.comparison import can_resample, reasons, shared_draws
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
from deepval.judging.draws import Draws
from deepval.judging.resamples import Difference
from deepval.judging.streams import Streamed
from deepval.results import BudgetKey, BudgetRecord, Reason, Result, joined, known


@dataclass(frozen=True)
class PooledComparison(BudgetRecord):
    """One contender against another under one budget, as the equal-weight mean over cells.

    Attributes:
        candidate: The allocator in question, with its causal policy where it has one.
        baseline: What it is compared with.
        of: What is compared: gain, benefit or harm; the candidate is better where it has less harm.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        difference: Mean over cells of (candidate's - baseline's) / all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        spread: Standard deviation over the draws.
        ndg_difference: Mean over cells of the difference of the two nDG; of gain only.
        ndg_lo: Lower bound of its interval over the draws whose prize every cell keeps.
        ndg_hi: Upper bound.
        verdict: better, worse or unresolved; infeasible where the candidate cannot pay for itself in some cell; None
            without an interval.
        draws: Number of draws.
        dropped: Draws that could not be compared: in some cell the all-cheap loss is not positive.
        ndg_dropped: Draws left out of the nDG interval: in some cell their prize is small.
        cells_better: Cells whose own interval says better.
        cells_worse: Cells whose own interval says worse.
        rates_missed: Cells in which a causal policy of either side misses its rate; None where none is compared.
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
    difference: float | None = None
    lo: float | None = None
    hi: float | None = None
    spread: float | None = None
    ndg_difference: float | None = None
    ndg_lo: float | None = None
    ndg_hi: float | None = None
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
    """Both contenders in one cell. Samples end after the draws, because cells differ in the units to leave out."""

    cell: str
    held: Basis
    one: Contender
    other: Contender

    def difference(self, of: Statistic) -> Difference:
        """Their difference in every resample."""
        assert self.one.sample
        assert self.other.sample
        return self.held.totals.paired(part(self.one.sample, of), part(self.other.sample, of))

    def ndg(self) -> Float[np.ndarray, "sample"]:
        """The difference of their nDG in the sample and every draw; NaN where they divide by different oracles."""
        totals, ours, theirs = self.held.totals, self.one, self.other
        alike = oracle_of(ours) == oracle_of(theirs) and ours.row.ndg is not None and theirs.row.ndg is not None
        gained = self.difference("gain").loss if alike else np.full(len(ours.prize), np.nan)
        return totals.ndg(gained, ours.prize)[: totals.drawn.stop]

    def prized(self) -> Bool[np.ndarray, "draw"]:
        """Draws whose prize is not too small to divide by."""
        prize = self.one.prize
        return self.held.totals.prized(prize) & bool(prize[0] > 0)


def compare_over(
    cells: Mapping[str, Result], candidate: str, baseline: str, *, of: Statistic = "gain"
) -> tuple[PooledComparison, ...]:
    """Paired differences of two contenders as means over cells, under each budget that all cells judge both under.

    Args:
        cells: Per cell, a result with its samples. Cells with the same units need the same draws, cells with other
            units draws of another seed (`child_seeds`).
        candidate: An allocator or reference; `NAME@POLICY` under a causal policy, such as `mine@causal-cap`.
        baseline: What it is compared with, likewise.
        of: What is compared: gain, or its parts benefit and harm.
    """
    return compared_over(together(cells), candidate, baseline, of=of)


def together(cells: Mapping[str, Result]) -> dict[str, Basis]:
    """The bases of the results of cells; raises where their draws cannot be combined."""
    bases = {name: basis(result) for name, result in checks.by_cell(cells, Result, "Cells to compare over").items()}
    shared_draws(bases)
    return bases


def compared_over(
    bases: Mapping[str, Basis], candidate: str, baseline: str, *, of: Statistic = "gain"
) -> tuple[PooledComparison, ...]:
    """`compare_over` for the bases of the results, which `together` returns."""
    checked(of)
    draws = next(iter(bases.values())).totals.draws
    ours = {name: contenders(item, candidate) for name, item in bases.items()}
    theirs = {name: contenders(item, baseline) for name, item in bases.items()}
    first = next(iter(bases))
    keys = [key for key in ours[first] if all(key in ours[name] and key in theirs[name] for name in bases)]
    if not keys:
        raise InputError(f"{candidate!r} and {baseline!r} have no budget that every cell judges both under.")
    rows = []
    for key in keys:
        pairs = [Pair(name, item, ours[name][key], theirs[name][key]) for name, item in bases.items()]
        rows.append(over_pairs(pairs, key, (candidate, baseline), of=of, draws=draws))
    return tuple(rows)


def over_pairs(
    pairs: Sequence[Pair], key: BudgetKey, names: tuple[str, str], *, of: Statistic = "gain", draws: Draws
) -> PooledComparison:
    """The mean over cells of the difference between two contenders, which may be others in each cell.

    Args:
        pairs: Both contenders in each cell.
        key: The budget.
        names: Names of the contenders in the result.
        of: What is compared.
        draws: The draws that the cells share (`shared_draws`).
    """
    candidate, baseline = names
    start: dict[str, Any] = {"candidate": candidate, "baseline": baseline, "of": of} | key.fields
    start |= {"cells": len(pairs), "draws": len(draws), "rates_missed": _rates_missed(pairs)}
    for side, name in (("one", candidate), ("other", baseline)):
        out = [pair for pair in pairs if getattr(pair, side).sample is None]
        if out:
            reason = joined(f"{name}: {getattr(pair, side).row.reason} ({pair.cell})" for pair in out)
            verdict = getattr(out[0], side).row.verdict if side == "one" else None
            return PooledComparison(**start, verdict=verdict, reason=reason)
    resampled = can_resample([pair.held for pair in pairs])
    drawn = slice(1, 1 + len(draws))
    differences = [pair.difference(of) for pair in pairs]
    mean = mean_over_cells([item.share[: drawn.stop] for item in differences])
    defined = ~np.isnan(mean[drawn]) & resampled
    bounds = draws.interval(mean[drawn], defined).snapped()
    alone = [
        oriented(pair.held.totals.versus(item).share, of).verdict for pair, item in zip(pairs, differences, strict=True)
    ]
    unlike = _unlike(pairs) if of == "gain" else None
    ndg = mean_over_cells([pair.ndg() for pair in pairs]) if of == "gain" else np.full(drawn.stop, np.nan)
    selected = np.all([pair.prized() for pair in pairs], axis=0) & ~np.isnan(ndg[drawn]) & resampled
    of_ndg = draws.interval(ndg[drawn], selected & ~np.isnan(ndg[0])).snapped()
    return PooledComparison(
        **start,
        difference=known(mean[0]),
        lo=known(bounds.low),
        hi=known(bounds.high),
        spread=known(draws.spread(mean[drawn])) if resampled else None,
        ndg_difference=known(ndg[0]),
        ndg_lo=known(of_ndg.low),
        ndg_hi=known(of_ndg.high),
        verdict=oriented(bounds, of).verdict,
        dropped=int(np.count_nonzero(~defined)) if defined.any() else 0,
        ndg_dropped=int(np.count_nonzero(~selected)) if selected.any() else 0,
        cells_better=alone.count("better"),
        cells_worse=alone.count("worse"),
        reason=joined([*(reasons(pair.one, pair.other) for pair in pairs), unlike]),
    )


def mean_over_cells(cells: Sequence[Float[np.ndarray, "sample"]]) -> Float[np.ndarray, "sample"]:
    """The mean over cells; values are added by size, so that the order of the cells does not affect rounding."""
    return np.sort(np.stack(cells), axis=0).mean(axis=0)


def _unlike(pairs: Sequence[Pair]) -> str | None:
    """The reason why there is no difference in nDG, if the two divide by different oracles."""
    oracles = ((oracle_of(pair.one), oracle_of(pair.other)) for pair in pairs)
    return joined(Reason.OTHER_ORACLES.said(one=ours, other=theirs) for ours, theirs in oracles if ours != theirs)


def _rates_missed(pairs: Sequence[Pair]) -> int | None:
    """Cells in which a causal policy escalates too many or too few."""
    sides = [[side.row for side in (pair.one, pair.other) if isinstance(side, Streamed)] for pair in pairs]
    return sum(any(row.rate_missed for row in rows) for rows in sides) if any(sides) else None
