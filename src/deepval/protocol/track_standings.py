"""Cells of a track and submissions -> standings over all cells and in each: plain rows that are made once and kept.

Rows are kept under the hash of all that they rest on: cells, scores and costs of every submission, who is flagged,
shares, draws and code. Where one submission is new, the others' judgements are still kept (`judgements`).
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepval.errors import InputWarning
from deepval.files.canonical import digest_of, plain
from deepval.files.sealed import sealed_or_none, write_sealed
from deepval.judging.basis import Basis
from deepval.judging.budgets import Budget, Energy, Latency, Money, Selection
from deepval.judging.draws import child_seeds, seeds_by_units
from deepval.protocol.cell_folders import TrackedCell
from deepval.protocol.code_digest import code_digest
from deepval.protocol.judgements import judgements
from deepval.protocol.standings import Standing, standings_held
from deepval.protocol.submissions import Submission
from deepval.tables.costs import Convention, Costs

DATASETS = ("kitti", "nuscenes", "nuplan", "synthetic")
"""Data sets whose draws have a seed of their own, in this order; others share one more."""
PAID: Mapping[Convention, type[Latency | Energy | Money]] = {"ms": Latency, "mj": Energy, "usd": Money}
"""Measured budgets of standings by what they count, where every cell of a track knows it of its modes."""
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
    """Rows over all cells (`overall`) and of each (`by_cell`), of ranked, flagged and references alike."""
    entered = [(item.card, {key: item.scores[key].digest for key in cells if key in item.scores}) for item in accepted]
    rests_on = {
        "code": code_digest(__name__),
        "cells": {key: [cell.digest, cell.profile] for key, cell in cells.items()},
        "submissions": [[card.key, card.costs, scores] for card, scores in entered],
        "flagged": sorted(flagged),
        "alphas": alphas,
        "draws": [draws, seed],
    }
    key, path = digest_of(plain(rests_on)), None if cache is None else cache / f"{name}.ranked"
    kept, _ = (path and sealed_or_none(path, SCHEMA, WHAT)) or ({}, b"")
    if kept.get("key") == key:
        return kept["rows"]
    rows = _standings(cells, accepted, flagged, alphas, draws=draws, seed=seed, cache=cache)
    if path is not None:
        write_sealed(path, SCHEMA, {"key": key, "rows": rows})
    return rows


def _standings(
    cells: Mapping[str, TrackedCell],
    accepted: Sequence[Submission],
    flagged: Collection[str],
    alphas: Sequence[float],
    *,
    draws: int,
    seed: int,
    cache: Path | None,
) -> dict[str, Any]:
    """Rows over all cells and of each cell, as plain dicts."""
    overall: list[Standing] = []
    single: dict[str, list[Standing]] = {key: [] for key in cells}
    seeds = _seeds(cells, seed)
    for convention in _conventions(cells):
        held = {
            key: _judged(cell, accepted, alphas, convention=convention, draws=draws, seed=seeds[key], cache=cache)
            for key, cell in cells.items()
        }
        overall += standings_held(held, unranked=flagged)
        for key, judged in held.items():
            single[key] += standings_held({key: judged}, unranked=flagged)
    return {"overall": [*map(dict, overall)], "by_cell": {key: [*map(dict, rows)] for key, rows in single.items()}}


def _seeds(cells: Mapping[str, TrackedCell], seed: int) -> dict[str, int]:
    """The seed of each cell's draws: one per data set, or where its cells have several lists of units, one per list."""
    known = {key: cell.split.dataset for key, cell in cells.items()}
    places = {key: DATASETS.index(data) if data in DATASETS else len(DATASETS) for key, data in known.items()}
    found = {}
    for place, own in enumerate(child_seeds(seed, len(DATASETS) + 1)):
        units = {key: cells[key].split.test for key in cells if places[key] == place}
        found |= seeds_by_units(units, own) if units else {}
    return found


def _conventions(cells: Mapping[str, TrackedCell]) -> list[Convention | None]:
    """Selection (None), and what every cell of the track has measured its modes in."""
    measured: list[Convention | None] = [None]
    for convention in PAID:
        costs = [cell.table.costs for cell in cells.values()]
        modes = [(c, cell.table.modes) for c, cell in zip(costs, cells.values(), strict=True) if c is not None]
        if len(modes) == len(cells) and all(convention in c.modes.get(m, {}) for c, names in modes for m in names):
            measured.append(convention)
    return measured


def _judged(
    cell: TrackedCell,
    accepted: Sequence[Submission],
    alphas: Sequence[float],
    *,
    convention: Convention | None,
    draws: int,
    seed: int,
    cache: Path | None,
) -> Basis:
    """Submissions on a cell's test units; under a measured budget those that say what they cost."""
    entered = [item for item in accepted if cell.name in item.scores]
    budgets: list[Budget] = [Selection(alpha) for alpha in alphas]
    if convention is not None and cell.table.costs is not None and cell.profile is not None:
        profile = cell.profile
        paid = {item.card.key: item.card.costs.get(profile, {}) for item in entered}
        entered = [item for item in entered if convention in paid[item.card.key]]
        costs = Costs(cell.table.costs.modes, paid, {}, source=f"profile {profile}")
        budgets = [PAID[convention](a, costs) for a in alphas]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return judgements(cell, entered, budgets, draws=draws, seed=seed, cache=cache)
