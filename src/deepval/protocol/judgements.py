"""Submissions and a cell -> rows and the gain in every resample, computed once and cached; standings are based on them.

The cached gains of a submission have a key: the hash of its scores and costs, of the cell, of the budgets and of the
draws. One file contains all submissions of a cell under one kind of budget, and a hash of its own content. A file that
is damaged or of another version is judged again; submissions that left the board are dropped from it. A leaderboard has
the same bytes with and without the cache.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deepval.arrays import Float
from deepval.files.canonical import digest_of, plain
from deepval.files.writing import sealed_or_none, write_sealed
from deepval.judging.budgets import Allowance, Budget, allowance_on
from deepval.judging.comparison import Basis
from deepval.judging.draws import make_draws
from deepval.judging.resamples import Resamples, Sample
from deepval.judging.rows import judge, ranked_samples
from deepval.protocol.keeping import code_digest
from deepval.protocol.submissions import Submission
from deepval.protocol.tracks import TrackedCell
from deepval.tables.scores import on_part

SCHEMA = "deepval/judgements/2"
WHAT = "judgements kept by `deepval leaderboard`"
JUDGES = "deepval.judging.rows"
Gains = Float[np.ndarray, "number"]
"""A submission under one budget: its gain in every resample, then benefit and number escalated in the full sample."""
Kept = tuple[Gains | None, ...]
"""The gains under every budget; None where the submission cannot pay for itself."""


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
    resamples = Resamples.of(table, make_draws(len(table.unit_ids), draws, seed), leave_out_up_to=0)
    allowances = [resamples.allowed(allowance_on(budget, table)) for budget in budgets]
    keys = _keys(cell, entered, allowances, draws=draws, seed=seed)
    path = None if cache is None else cache / _file_name(cell, allowances[0])
    stored = {} if path is None else _read(path, len(resamples.counts))
    entered_scores = [replace(item.scores[cell.name], name=item.card.key) for item in entered]
    gains = {
        keys[scores.name]: stored.get(keys[scores.name])
        or tuple(map(_gains, ranked_samples(resamples, on_part(table, scores, whole, "error"), allowances)))
        for scores in entered_scores
    }
    if path is not None and gains.keys() != stored.keys():
        _write(path, gains)
    ranked = {scores.name: [*map(_sample, gains[keys[scores.name]])] for scores in entered_scores}
    return Basis(resamples, tuple(judge(resamples, entered_scores, allowances, ranked=ranked, brief=True)))


def _gains(sample: Sample | None) -> Gains | None:
    """A sample as one row of numbers, for the cache."""
    return None if sample is None else np.concatenate([sample.gain, sample.benefit[:1], sample.escalated[:1]])


def _sample(gains: Gains | None) -> Sample | None:
    """The sample of a cached row; benefit and number escalated are constant, as only the full sample's are used."""
    if gains is None:
        return None
    return Sample(gains[:-2], *(np.broadcast_to(of_sample, len(gains) - 2) for of_sample in gains[-2:]))


# The cache: keys, file names and content.


def _keys(
    cell: TrackedCell, entered: Sequence[Submission], allowances: Sequence[Allowance], *, draws: int, seed: int
) -> dict[str, str]:
    """Per submission, the hash of everything that its rows on a cell depend on."""
    shared = {
        "code": code_digest(JUDGES),
        "cell": cell.digest,
        "profile": cell.profile,
        "units": list(cell.split.test),
        "budgets": [plain(allowed.key.fields) for allowed in allowances],
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
    return f"{plain_name}-{digest_of([cell.name])[:8]}-{allowed.key.convention or allowed.key.kind}.judged"


def _write(path: Path, judged: Mapping[str, Kept]) -> None:
    paid = {key: [gains is not None for gains in under_budgets] for key, under_budgets in judged.items()}
    rows = (gains for under_budgets in judged.values() for gains in under_budgets if gains is not None)
    write_sealed(path, SCHEMA, paid, (np.ascontiguousarray(gains, dtype="<f8").data for gains in rows))


def _read(path: Path, resamples: int) -> dict[str, Kept]:
    """The cached gains by key; empty where the file is missing, damaged, of another version or of other draws."""
    paid, numbers = sealed_or_none(path, SCHEMA, WHAT) or ({}, b"")
    if 8 * (resamples + 2) * sum(map(sum, paid.values())) != len(numbers):
        return {}
    rows = iter(np.frombuffer(numbers, dtype="<f8").reshape(-1, resamples + 2))
    return {key: tuple(next(rows) if runs else None for runs in under_budgets) for key, under_budgets in paid.items()}
