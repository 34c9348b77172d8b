"""Results of a track's cells -> standings: means over cells, and the ranks that paired differences allow.

An allocator's rank is 1 + the number of others whose paired difference with it is resolved in their favour; allocators
that nothing tells apart share it. Its rank interval reaches up to the number of allocators, itself included, that it
does not resolvedly beat. Differences are taken draw by draw, as equal-weight means over the cells.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.judging.basis import Basis, basis
from deepval.judging.comparison import (
    Pooled,
    can_resample,
    mean_gained,
    mean_paired,
    pool_held,
    reasons,
    versus_random_bounds,
    yardsticks,
)
from deepval.judging.draws import Draws
from deepval.judging.rows import Judged
from deepval.protocol.resolved_pairs import resolved
from deepval.results import BudgetKey, BudgetRecord, Result, known

SHOWN_REFERENCES = ("oracle", "all-full", "random")
LADDER_REFERENCES = ("oracle-ladder", "random-ladder")
"""Shown where every cell has them."""


@dataclass(frozen=True)
class Standing(BudgetRecord):
    """One allocator's place among those judged on the same cells under one budget.

    Attributes:
        allocator: Its name; references have no rank.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        oracle: What nDG divides by, as in `Row`.
        chance: What stands for random below, as in `Row`; ranks compare gains, whatever each is measured by.
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
    accounting: str | None
    cells: int
    oracle: str | None = None
    chance: str | None = None
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
    return standings_held({cell: basis(result) for cell, result in results.items()}, unranked=unranked)


def standings_held(held: Mapping[str, Basis], *, unranked: Collection[str] = ()) -> tuple[Standing, ...]:
    """The same of what results rest on."""
    judged = {cell: _by_row(item) for cell, item in held.items()}
    pooled = {(row.allocator, row.budget): row for row in pool_held(held)}
    cells = list(held.values())
    budgets = list(dict.fromkeys(item.row.budget for item in cells[0].judged))
    table: list[Standing] = []
    for budget in budgets:
        rows = {name: row for (name, key), row in pooled.items() if key == budget}
        ladder = [name for name in LADDER_REFERENCES if all((name, budget) in judged[cell] for cell in held)]
        references = (*SHOWN_REFERENCES, *ladder)
        members = {name: [judged[cell][name, budget] for cell in held] for name in (*rows, *references)}
        ranked = {name: members[name] for name in rows if name not in unranked}
        ranks = _ranks(ranked, members["random"], cells)
        placed = [_allocator(row, members[name], ranks.get(name)) for name, row in rows.items()]
        table += sorted(placed, key=_place)
        table += [_reference(name, budget, members[name], cells) for name in references]
    return tuple(table)


def rank_intervals(
    samples: Mapping[str, Float[np.ndarray, "draw"]], draws: Draws, *, resampled: bool = True
) -> dict[str, tuple[int, int]]:
    """Best and worst rank of each allocator, from its samples draw by draw; higher samples are better."""
    if not resampled or not samples or not len(draws):
        return dict.fromkeys(samples, (1, len(samples)))
    better, beaten = resolved(np.stack(list(samples.values())), draws)
    return {
        name: (1 + int(lost), len(samples) - int(won)) for name, lost, won in zip(samples, better, beaten, strict=True)
    }


def _by_row(held: Basis) -> dict[tuple[str, BudgetKey], Judged]:
    return {(item.row.allocator, item.row.budget): item for item in held.judged}


def _ranks(
    members: Mapping[str, Sequence[Judged]], random: Sequence[Judged], cells: Sequence[Basis]
) -> dict[str, tuple[int, int]]:
    """Ranks by differences with plain random, whatever each is measured by: two allocators need one origin."""
    able = {name: rows for name, rows in members.items() if all(row.sample for row in rows)}
    samples = mean_gained(list(able.values()), random, cells)
    return rank_intervals(dict(zip(able, samples, strict=True)), cells[0].totals.draws, resampled=can_resample(cells))


def _allocator(row: Pooled, members: Sequence[Judged], rank: tuple[int, int] | None) -> Standing:
    best, worst = rank or (None, None)
    return Standing(
        row.allocator, **row.budget.fields, cells=row.cells, oracle=row.oracle, chance=row.chance,
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


def _reference(name: str, budget: BudgetKey, members: Sequence[Judged], cells: Sequence[Basis]) -> Standing:
    start = Standing(name, **budget.fields, cells=len(members), **yardsticks(members), reason=reasons(*members))
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
