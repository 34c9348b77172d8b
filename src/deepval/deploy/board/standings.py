"""Results of a track's cells -> standings: means over cells, and the ranks that paired
differences allow.

An allocator's rank is 1 + the number of others whose paired difference with it is
resolved in their favour; allocators without a resolved difference share a rank. Its
worst rank is the number of allocators, itself included, that it does not resolvedly
beat. Differences are taken draw by draw, as equal-weight means over the cells.

The gains of a submission in every resample of a cell are cached. Their key is the hash
of its scores and costs, of the cell, of the budgets and of the draws. One file contains
all submissions of a cell under one kind of budget, and a hash of its own content. A
file that is damaged or of another version is judged again; submissions that left the
board are dropped from it. A leaderboard has the same bytes with and without the cache.
"""

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputWarning
from deepval.basics.files.canonical import digest_of, plain
from deepval.basics.files.writing import sealed_or_none, write_sealed
from deepval.deploy.board.resolved_pairs import resolved
from deepval.deploy.board.store import code_digest
from deepval.deploy.board.submissions import Submission
from deepval.deploy.board.tracks import TrackedCell
from deepval.judge import pooled
from deepval.judge.allocators import all_policies, policy_of
from deepval.judge.allowances import (
    Allowance,
    Budget,
    Energy,
    Latency,
    Money,
    Selection,
    allowance_on,
)
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.draws import Draws, child_seeds, make_draws, seeds_by_units
from deepval.judge.judgement import judge
from deepval.judge.ladders import references_among
from deepval.judge.pairs import Basis, Contender, contenders_of, reasons
from deepval.judge.policies import (
    FULL_ONLY,
    Outcome,
    Policy,
    References,
    Stored,
    refused,
)
from deepval.judge.results import (
    AllocatorRecord,
    BudgetKey,
    Estimate,
    row_from,
    share_of,
)
from deepval.judge.row_columns import Additions, rows_of
from deepval.judge.tables.costs import Convention, Costs
from deepval.judge.tables.scores import on_part

SHOWN_REFERENCES = ("oracle", "all-full", "random")
OTHER_REFERENCES = ("never", "oracle-ladder", "random-ladder")
"""References that are listed only where every cell has them."""


@dataclass(frozen=True, eq=False)
class Standing(AllocatorRecord):
    """One allocator's standing among those judged on the same cells under one budget.

    Attributes:
        allocator: Its name; references have no rank.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: The unit of a measured budget.
        accounting: cascade or skipping under a measured budget.
        cells: Number of cells.
        oracle: The reference that nDG divides by, as in `Row`.
        chance: The reference that stands for random below, as in `Row`; ranks compare
            gains whatever it is.
        rank: Best possible rank; None if it has none.
        rank_hi: Worst possible rank.
        versus_random: Mean over cells of (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        ndg: Mean over cells of nDG (normalized decision gain: share of the oracle's
            gain).
        ndg_lo: Lower bound over the draws in which every cell has a defined nDG.
        ndg_hi: Upper bound.
        gain_share: Mean over cells of gain / all-cheap loss.
        benefit_share: The same for the benefit.
        harm_share: The same for the harm, a positive number.
        verdict: better, worse or unresolved against random; infeasible if it cannot pay
            for itself.
        never_verdict: better, worse or unresolved against never escalating.
        reason: Why something is None.
    """

    cells: int = 0
    oracle: str | None = None
    chance: str | None = None
    rank: int | None = None
    rank_hi: int | None = None
    versus_random: Estimate | None = None
    ndg: Estimate | None = None
    gain_share: float | None = None
    benefit_share: float | None = None
    harm_share: float | None = None
    verdict: str | None = None
    never_verdict: str | None = None
    reason: str | None = None


def standings_of_bases(
    bases: Mapping[str, Basis], *, unranked: Collection[str] = ()
) -> tuple[Standing, ...]:
    """The standings from the basis of each result."""
    judged = {
        cell: {(item.row.allocator, item.row.budget): item for item in own.judged}
        for cell, own in bases.items()
    }
    by_key = {(row.allocator, row.budget): row for row in pooled.pool_bases(bases)}
    cells = list(bases.values())
    budgets = list(dict.fromkeys(item.row.budget for item in cells[0].judged))
    table: list[Standing] = []
    for budget in budgets:
        rows = {name: row for (name, key), row in by_key.items() if key == budget}
        others = [
            name
            for name in OTHER_REFERENCES
            if all((name, budget) in judged[cell] for cell in bases)
        ]
        references = (*SHOWN_REFERENCES, *others)
        members = {
            name: [judged[cell][name, budget] for cell in bases]
            for name in (*rows, *references)
        }
        ranked = {name: members[name] for name in rows if name not in unranked}
        ranks = _ranks(ranked, members["random"], cells)
        allocators = [
            _allocator_standing(row, members[name], ranks.get(name))
            for name, row in rows.items()
        ]
        table += sorted(allocators, key=_sort_key)
        table += [
            _reference_standing(name, budget, members[name], cells)
            for name in references
        ]
    return tuple(table)


def rank_intervals(
    samples: Mapping[str, Float[np.ndarray, "draw"]],
    draws: Draws,
    *,
    resampled: bool = True,
) -> dict[str, tuple[int, int]]:
    """Best and worst rank of each allocator, from its samples draw by draw; higher
    samples are better.
    """
    if not resampled or not samples or not len(draws):
        return dict.fromkeys(samples, (1, len(samples)))
    better, beaten = resolved(np.stack(list(samples.values())), draws)
    return {
        name: (1 + int(lost), len(samples) - int(won))
        for name, lost, won in zip(samples, better, beaten, strict=True)
    }


def _ranks(
    members: Mapping[str, Sequence[Contender]],
    random: Sequence[Contender],
    cells: Sequence[Basis],
) -> dict[str, tuple[int, int]]:
    """Ranks by differences with plain random, whatever `chance` is: two allocators need
    the same origin.
    """
    feasible = {
        name: rows for name, rows in members.items() if all(row.gains for row in rows)
    }
    origin = [row.gains.gain for row in random if row.gains is not None]
    return rank_intervals(
        {
            name: pooled.mean_ahead(rows, cells, origin).drawn
            for name, rows in feasible.items()
        },
        cells[0].totals.draws,
        resampled=pooled.can_resample(cells),
    )


def _allocator_standing(
    row: pooled.Pooled, members: Sequence[Contender], rank: tuple[int, int] | None
) -> Standing:
    best, worst = rank or (None, None)
    return row_from(row, Standing, rank=best, rank_hi=worst, **_shares(members))


def _reference_standing(
    name: str, budget: BudgetKey, members: Sequence[Contender], cells: Sequence[Basis]
) -> Standing:
    start = Standing(
        name,
        **vars(budget),
        cells=len(members),
        **pooled.yardsticks(members),
        reason=reasons(*members),
    )
    if not all(member.gains for member in members):
        return start
    return replace(
        start,
        versus_random=pooled.mean_ahead_of_chance(members, cells).estimate,
        ndg=Estimate.of(pooled.mean_if_all([member.row.ndg for member in members])),
        **_shares(members),
    )


def _shares(members: Sequence[Contender]) -> dict[str, Any]:
    """Gain, benefit and harm as shares of the all-cheap loss, averaged over cells."""
    rows = [member.row for member in members]
    return {
        "gain_share": pooled.mean_if_all([row.gain_share for row in rows]),
        "benefit_share": pooled.mean_if_all(
            [share_of(row.benefit, row.cheap_loss) for row in rows]
        ),
        "harm_share": pooled.mean_if_all(
            [share_of(row.harm, row.cheap_loss) for row in rows]
        ),
    }


def _sort_key(row: Standing) -> tuple[float, float, float, str]:
    """Ranked before unranked, then by rank and point estimate; the name breaks ties."""
    none = float("inf")
    return (
        row.rank or none,
        row.rank_hi or none,
        -(row.versus_random or 0.0),
        row.allocator,
    )


DATASETS = ("kitti", "nuscenes", "nuplan", "synthetic")
"""Data sets whose draws have a seed of their own, in this order; all others share one
seed.
"""
PAID: Mapping[Convention, Callable[..., Budget]] = {
    "ms": Latency,
    "mj": Energy,
    "usd": Money,
}
"""Measured budgets of standings by convention; used where every cell of a track has
that cost for its modes.
"""
SCHEMA = "deepval/standings/1"
WHAT = "standings kept by `deepval leaderboard`"


def track_standings(
    name: str,
    cells: Mapping[str, TrackedCell],
    accepted: Sequence[Submission],
    flagged: Collection[str],
    *,
    alphas: Sequence[float],
    draws: int,
    seed: int,
    cache: Path | None,
) -> dict[str, Any]:
    """Rows over all cells (`overall`) and of each cell (`by_cell`): ranked and flagged
    submissions, and references.
    """
    entered = [
        (
            item.card,
            {key: item.scores[key].digest for key in cells if key in item.scores},
        )
        for item in accepted
    ]
    rests_on = {
        "code": code_digest(__name__),
        "cells": {key: [cell.digest, cell.profile] for key, cell in cells.items()},
        "submissions": [[card.key, card.costs, scores] for card, scores in entered],
        "flagged": sorted(flagged),
        "alphas": alphas,
        "draws": [draws, seed],
    }
    key, path = (
        digest_of(plain(rests_on)),
        None if cache is None else cache / f"{name}.ranked",
    )
    stored, _ = (path and sealed_or_none(path, SCHEMA, WHAT)) or ({}, b"")
    if stored.get("key") == key:
        return stored["rows"]
    overall: list[Standing] = []
    single: dict[str, list[Standing]] = {label: [] for label in cells}
    seeds = _seeds(cells, seed)
    for convention in _conventions(cells):
        bases = {
            label: _cell_basis(
                cell,
                accepted,
                alphas,
                convention=convention,
                draws=draws,
                seed=seeds[label],
                cache=cache,
            )
            for label, cell in cells.items()
        }
        overall += standings_of_bases(bases, unranked=flagged)
        for label, judged in bases.items():
            single[label] += standings_of_bases({label: judged}, unranked=flagged)
    rows = {
        "overall": [*map(dict, overall)],
        "by_cell": {label: [*map(dict, own)] for label, own in single.items()},
    }
    if path is not None:
        write_sealed(path, SCHEMA, {"key": key, "rows": rows})
    return rows


def _seeds(cells: Mapping[str, TrackedCell], seed: int) -> dict[str, int]:
    """The seed of each cell's draws: one per data set, or one per list of units if its
    cells have different lists.
    """
    datasets = {key: cell.split.dataset for key, cell in cells.items()}
    positions = {
        key: DATASETS.index(data) if data in DATASETS else len(DATASETS)
        for key, data in datasets.items()
    }
    seeds = {}
    for position, dataset_seed in enumerate(child_seeds(seed, len(DATASETS) + 1)):
        units = {
            key: cells[key].split.test for key in cells if positions[key] == position
        }
        seeds |= seeds_by_units(units, dataset_seed) if units else {}
    return seeds


def _conventions(cells: Mapping[str, TrackedCell]) -> list[Convention | None]:
    """Selection (None), and the conventions in which every cell of the track has costs
    of all its modes.
    """
    measured: list[Convention | None] = [None]
    for convention in PAID:
        costs = [cell.table.costs for cell in cells.values()]
        modes = [
            (c, cell.table.modes)
            for c, cell in zip(costs, cells.values(), strict=True)
            if c is not None
        ]
        if len(modes) == len(cells) and all(
            convention in c.modes.get(m, {}) for c, names in modes for m in names
        ):
            measured.append(convention)
    return measured


def _cell_basis(
    cell: TrackedCell,
    accepted: Sequence[Submission],
    alphas: Sequence[float],
    *,
    convention: Convention | None,
    draws: int,
    seed: int,
    cache: Path | None,
) -> Basis:
    """Submissions on a cell's test units; under a measured budget, only those that
    declare their cost.
    """
    entered = [item for item in accepted if cell.name in item.scores]
    if convention is not None and cell.profile is not None:
        entered = [
            item
            for item in entered
            if convention in item.card.costs.get(cell.profile, {})
        ]
    budgets = [_budget(cell, entered, alpha, convention) for alpha in alphas]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return judgements(cell, entered, budgets, draws=draws, seed=seed, cache=cache)


def _budget(
    cell: TrackedCell,
    entered: Sequence[Submission],
    alpha: float,
    convention: Convention | None,
) -> Budget:
    """Selection, or a measured budget that charges what the cards declare for the
    cell's profile.
    """
    if convention is None or cell.table.costs is None or cell.profile is None:
        return Selection(alpha)
    paid = {item.card.key: item.card.costs.get(cell.profile, {}) for item in entered}
    return PAID[convention](
        alpha, Costs(cell.table.costs.modes, paid, {}, source=f"profile {cell.profile}")
    )


JUDGEMENTS_SCHEMA = "deepval/judgements/2"
JUDGEMENTS_WHAT = "judgements kept by `deepval leaderboard`"
JUDGES = "deepval.judge.judgement"
Numbers = Float[np.ndarray, "number"]
"""A submission under one budget: its gain in every resample, then benefit and number
escalated in the full sample.
"""
GainsByBudget = tuple[Numbers | None, ...]
"""The gains under every budget; None if the submission cannot pay for itself."""


def judgements(
    cell: TrackedCell,
    entered: Sequence[Submission],
    budgets: Sequence[Budget],
    *,
    draws: int,
    seed: int,
    cache: Path | None = None,
) -> Basis:
    """Every submission and the references on a cell's test units under the budgets."""
    whole, table = cell.scored, cell.scored.restrict(cell.split.test)
    drawn = make_draws(len(table.unit_ids), draws, seed)
    bootstrap = Bootstrap.of(table, drawn, leave_out=False)
    allowances = [allowance_on(budget, table) for budget in budgets]
    keys = _keys(cell, entered, allowances, draws=draws, seed=seed)
    path = None if cache is None else cache / _file_name(cell, allowances[0])
    stored = {} if path is None else _read_gains(path, len(bootstrap.counts))
    gains: dict[str, GainsByBudget] = {}
    policies: list[Policy] = []
    for item in entered:
        key = keys[item.card.key]
        scores = replace(item.scores[cell.name], name=item.card.key)
        own = stored.get(key)
        # Aligning and sorting scores is the costly part, which the cache saves.
        if own is None:
            policy = policy_of(table, on_part(table, scores, whole, "error"))
            own = _numbers(policy, bootstrap, allowances)
        gains[key] = own
        references = references_among(table.modes) if scores.modes else FULL_ONLY
        policies.append(_stored(scores.name, references, allowances, own))
    if path is not None and gains.keys() != stored.keys():
        _write_gains(path, gains)
    contests = judge(
        bootstrap, all_policies(table, policies), allowances, with_intervals=False
    )
    rows = rows_of(bootstrap, contests, Additions())
    return Basis(bootstrap, contenders_of(rows, contests))


def _numbers(
    policy: Policy, bootstrap: Bootstrap, allowances: Sequence[Allowance]
) -> GainsByBudget:
    """A policy's gains under every budget, for the cache."""
    numbers: list[Numbers | None] = []
    for outcome in policy.outcomes(bootstrap, allowances):
        own = outcome.gains
        if own is None:
            numbers.append(None)
            continue
        # Of benefit and number escalated, only those of the sample are used.
        numbers.append(np.concatenate([own.gain, own.benefit[:1], own.escalated[:1]]))
    return tuple(numbers)


def _stored(
    name: str,
    references: References,
    allowances: Sequence[Allowance],
    numbers: GainsByBudget,
) -> Policy:
    """A policy that answers from the cache."""
    outcomes: dict[object, Outcome] = {}
    for allowance, own in zip(allowances, numbers, strict=True):
        refusal = refused(name, allowance)
        if own is None or refusal is not None:
            assert refusal is not None
            outcomes[allowance.key] = refusal
            continue
        resamples = len(own) - 2
        benefit, escalated = own[-2:]
        gains = Gains(
            gain=own[:-2],
            benefit=np.broadcast_to(benefit, resamples),
            escalated=np.broadcast_to(escalated, resamples),
        )
        outcomes[allowance.key] = Outcome(gains, allowance.charge(name))
    return Stored(name, outcomes, references)


def _keys(
    cell: TrackedCell,
    entered: Sequence[Submission],
    allowances: Sequence[Allowance],
    *,
    draws: int,
    seed: int,
) -> dict[str, str]:
    """Per submission, the hash of everything that its rows on a cell depend on."""
    shared = {
        "code": code_digest(JUDGES),
        "cell": cell.digest,
        "profile": cell.profile,
        "units": list(cell.split.test),
        "budgets": [plain(vars(allowed.key)) for allowed in allowances],
        "draws": draws,
        "seed": seed,
    }
    keys = {}
    for item in entered:
        own = {
            "name": item.card.key,
            "scores": item.scores[cell.name].digest,
            "costs": item.card.costs.get(cell.profile or "", {}),
        }
        keys[item.card.key] = digest_of(shared | plain(own))
    return keys


def _file_name(cell: TrackedCell, allowed: Allowance) -> str:
    plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", cell.name)[:60].lstrip(".")
    return (
        f"{plain_name}-{digest_of([cell.name])[:8]}-"
        f"{allowed.key.convention or allowed.key.kind}.judged"
    )


def _write_gains(path: Path, judged: Mapping[str, GainsByBudget]) -> None:
    paid = {
        key: [gains is not None for gains in under_budgets]
        for key, under_budgets in judged.items()
    }
    rows = (
        gains
        for under_budgets in judged.values()
        for gains in under_budgets
        if gains is not None
    )
    write_sealed(
        path,
        JUDGEMENTS_SCHEMA,
        paid,
        (np.ascontiguousarray(gains, dtype="<f8").data for gains in rows),
    )


def _read_gains(path: Path, resamples: int) -> dict[str, GainsByBudget]:
    """The cached gains by key; empty if the file is missing, damaged, of another
    version or of other draws.
    """
    paid, numbers = sealed_or_none(path, JUDGEMENTS_SCHEMA, JUDGEMENTS_WHAT) or (
        {},
        b"",
    )
    if 8 * (resamples + 2) * sum(map(sum, paid.values())) != len(numbers):
        return {}
    rows = iter(np.frombuffer(numbers, dtype="<f8").reshape(-1, resamples + 2))
    return {
        key: tuple(next(rows) if runs else None for runs in under_budgets)
        for key, under_budgets in paid.items()
    }
