"""Results of a track's cells -> standings: means over cells, and the ranks that paired differences allow.

An allocator's rank is 1 + the number of others whose paired difference with it is resolved in their favour; allocators
that nothing tells apart share it. Its rank interval reaches up to the number of allocators, itself included, that it
does not resolvedly beat. Differences are taken draw by draw, as equal-weight means over the cells.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.comparison import Pooled, can_resample, mean_paired, pool, reasons, versus_random_bounds
from deepval.judging import Judged
from deepval.resampling import Draws
from deepval.results import Record, Result, known
from deepval.scoring import Evidence

SHOWN_REFERENCES = ("oracle", "all-full", "random")


@dataclass(frozen=True)
class Standing(Record):
    """One allocator's place among those judged on the same cells under one budget.

    Attributes:
        allocator: Its name; `oracle`, `all-full` and `random` are always there and have no rank.
        kind: selection, latency or energy.
        alpha: The budget's share.
        convention: What a measured budget counts.
        cells: Number of cells.
        rank: Best rank that it may have; None where it has none.
        rank_hi: Worst rank that it may have.
        versus_random: Mean over cells of (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        ndg: Mean over cells of nDG.
        ndg_lo: Lower bound over the draws that every cell keeps.
        ndg_hi: Upper bound.
        gain_share: Mean over cells of gain / all-cheap loss.
        benefit_share: The same of the benefit.
        harm_share: The same of the harm, a positive number.
        verdict: better, worse or unresolved against random; infeasible where it cannot pay for itself.
        reason: Why something is None.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    cells: int
    rank: int | None = None
    rank_hi: int | None = None
    versus_random: float | None = None
    versus_random_lo: float | None = None
    versus_random_hi: float | None = None
    ndg: float | None = None
    ndg_lo: float | None = None
    ndg_hi: float | None = None
    gain_share: float | None = None
    benefit_share: float | None = None
    harm_share: float | None = None
    verdict: str | None = None
    reason: str | None = None


def standings(results: Mapping[str, Result], *, unranked: Collection[str] = ()) -> tuple[Standing, ...]:
    """Everyone who is judged on all the cells, budget by budget: ranked first, then unranked, then references.

    Args:
        results: Per cell, the same allocators under the same budgets.
        unranked: Allocators that have no rank and count in nobody's.
    """
    judged = {cell: _by_row(result) for cell, result in results.items()}
    pooled = {(row.allocator, row.kind, row.alpha, row.convention): row for row in pool(results)}
    cells = [result.samples for result in results.values()]
    first = next(iter(results.values()))
    budgets = list(dict.fromkeys((row.kind, row.alpha, row.convention) for row in first.rows))
    found: list[Standing] = []
    for budget in budgets:
        rows = {key[0]: row for key, row in pooled.items() if key[1:] == budget}
        members = {name: [judged[cell][(name, *budget)] for cell in results] for name in (*rows, *SHOWN_REFERENCES)}
        ranks = _ranks({name: members[name] for name in rows if name not in unranked}, cells)
        placed = [_allocator(row, members[name], ranks.get(name)) for name, row in rows.items()]
        found += sorted(placed, key=_place)
        found += [_reference(name, budget, members[name], cells) for name in SHOWN_REFERENCES]
    return tuple(found)


def rank_intervals(
    samples: Mapping[str, Float[np.ndarray, "draw"]], draws: Draws, *, resampled: bool = True
) -> dict[str, tuple[int, int]]:
    """Best and worst rank of each allocator, from its samples draw by draw; higher samples are better."""
    better, beaten = dict.fromkeys(samples, 0), dict.fromkeys(samples, 0)
    for one, other in combinations(samples, 2):
        difference = samples[one] - samples[other]
        verdict = draws.interval(difference, ~np.isnan(difference) & resampled).snapped().verdict
        if verdict != "unresolved":
            winner, loser = (one, other) if verdict == "better" else (other, one)
            better[loser] += 1
            beaten[winner] += 1
    return {name: (1 + better[name], len(samples) - beaten[name]) for name in samples}


def _by_row(result: Result) -> dict[tuple[str, str, float, str | None], Judged]:
    rows = result.samples.judged
    return {(j.row.allocator, j.row.kind, j.row.alpha, j.row.convention): j for j in rows}


def _ranks(members: Mapping[str, Sequence[Judged]], cells: Sequence[Evidence]) -> dict[str, tuple[int, int]]:
    samples = {name: mean_paired(rows, cells) for name, rows in members.items() if all(row.sample for row in rows)}
    return rank_intervals(samples, cells[0].resamples.draws, resampled=can_resample(cells))


def _allocator(row: Pooled, members: Sequence[Judged], rank: tuple[int, int] | None) -> Standing:
    best, worst = rank or (None, None)
    return Standing(
        row.allocator, row.kind, row.alpha, row.convention, row.cells,
        rank=best,
        rank_hi=worst,
        versus_random=row.versus_random,
        versus_random_lo=row.versus_random_lo,
        versus_random_hi=row.versus_random_hi,
        ndg=row.ndg,
        ndg_lo=row.ndg_lo,
        ndg_hi=row.ndg_hi,
        verdict=row.verdict,
        reason=row.reason,
        **_shares(members),
    )  # fmt: skip


def _reference(
    name: str, budget: tuple[str, float, str | None], members: Sequence[Judged], cells: Sequence[Evidence]
) -> Standing:
    start = Standing(name, *budget, cells=len(members), reason=reasons(*members))
    if not all(member.sample for member in members):
        return start
    bounds = versus_random_bounds(mean_paired(members, cells), cells)
    return replace(
        start,
        versus_random=known(float(np.mean([member.paired[0] for member in members]))),
        versus_random_lo=known(bounds.low),
        versus_random_hi=known(bounds.high),
        ndg=_mean([member.row.ndg for member in members]),
        **_shares(members),
    )


def _shares(members: Sequence[Judged]) -> dict[str, Any]:
    rows = [member.row for member in members]

    def share(part: float | None, row: Judged) -> float | None:
        loss = row.row.cheap_loss
        return None if part is None or loss is None or not loss > 0 else part / loss

    return {
        "gain_share": _mean([row.gain_share for row in rows]),
        "benefit_share": _mean([share(m.row.benefit, m) for m in members]),
        "harm_share": _mean([share(m.row.harm, m) for m in members]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def _place(row: Standing) -> tuple[float, float, float, str]:
    """Ranked before unranked, then by rank and point estimate; the name settles the rest."""
    none = float("inf")
    return row.rank or none, row.rank_hi or none, -(row.versus_random or 0.0), row.allocator
