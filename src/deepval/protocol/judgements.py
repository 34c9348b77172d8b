"""Submissions and a cell -> what standings rest on: rows and a gain in every resample each, worked out once and kept.

What is kept of a submission has a key: the hash of its scores and costs, of the cell, of the budgets and the draws. A
file holds all submissions of a cell under one kind of budget, with a hash over itself; one that is damaged or of
another version is judged again, and who is no longer there goes. Kept or judged, a leaderboard has the same bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deepval.arrays import Float
from deepval.files.canonical import digest_of, plain, sealed_or_none, write_sealed
from deepval.judging.budgets import Allowance, Budget, allowance_on
from deepval.judging.contenders import Basis
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
"""A submission under one budget: its gain in every resample, then benefit and number escalated of the sample itself."""
Kept = tuple[Gains | None, ...]
"""Those under every budget; None where it cannot pay."""


def judgements(
    cell: TrackedCell,
    entered: Sequence[Submission],
    budgets: Sequence[Budget],
    *,
    draws: int,
    seed: int,
    cache: Path | None = None,
) -> Basis:
    """Every submission on a cell's test units under budgets, and the references."""
    whole, table = cell.scored, cell.scored.restrict(cell.split.test)
    resamples = Resamples.of(table, make_draws(len(table.unit_ids), draws, seed), leave_out_up_to=0)
    allowances = [resamples.allowed(allowance_on(budget, table)) for budget in budgets]
    keys = _keys(cell, entered, allowances, draws=draws, seed=seed)
    path = None if cache is None else cache / _file_name(cell, allowances[0])
    known = {} if path is None else _read(path, len(resamples.counts))
    given = [replace(item.scores[cell.name], name=item.card.key) for item in entered]
    kept = {
        keys[scores.name]: known.get(keys[scores.name])
        or tuple(map(_gains, ranked_samples(resamples, on_part(table, scores, whole, "error"), allowances)))
        for scores in given
    }
    if path is not None and kept.keys() != known.keys():
        _write(path, kept)
    ranked = {scores.name: [*map(_sample, kept[keys[scores.name]])] for scores in given}
    return Basis(resamples, tuple(judge(resamples, given, allowances, ranked=ranked, brief=True)))


def _gains(sample: Sample | None) -> Gains | None:
    return None if sample is None else np.concatenate([sample.gain, sample.benefit[:1], sample.escalated[:1]])


def _sample(gains: Gains | None) -> Sample | None:
    if gains is None:
        return None
    return Sample(gains[:-2], *(np.broadcast_to(of_sample, len(gains) - 2) for of_sample in gains[-2:]))


# What is kept, and where.


def _keys(
    cell: TrackedCell, entered: Sequence[Submission], allowances: Sequence[Allowance], *, draws: int, seed: int
) -> dict[str, str]:
    """The hash of everything that a submission's rows on a cell rest on, by submission."""
    shared = {
        "code": code_digest(JUDGES),
        "cell": cell.digest,
        "profile": cell.profile,
        "units": list(cell.split.test),
        "budgets": [plain(allowed.key.fields) for allowed in allowances],
        "draws": draws,
        "seed": seed,
    }
    found = {}
    for item in entered:
        own = {
            "name": item.card.key,
            "scores": item.scores[cell.name].digest,
            "costs": item.card.costs.get(cell.profile or "", {}),
        }
        found[item.card.key] = digest_of(shared | plain(own))
    return found


def _file_name(cell: TrackedCell, allowed: Allowance) -> str:
    plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", cell.name)[:60].lstrip(".")
    return f"{plain_name}-{digest_of([cell.name])[:8]}-{allowed.key.convention or allowed.key.kind}.judged"


def _write(path: Path, kept: Mapping[str, Kept]) -> None:
    paid = {key: [gains is not None for gains in each] for key, each in kept.items()}
    rows = (gains for each in kept.values() for gains in each if gains is not None)
    write_sealed(path, SCHEMA, paid, (np.ascontiguousarray(gains, dtype="<f8").data for gains in rows))


def _read(path: Path, resamples: int) -> dict[str, Kept]:
    """What is kept; nothing where there is no file, or it is damaged, of another version or of other draws."""
    paid, numbers = sealed_or_none(path, SCHEMA, WHAT) or ({}, b"")
    if 8 * (resamples + 2) * sum(map(sum, paid.values())) != len(numbers):
        return {}
    rows = iter(np.frombuffer(numbers, dtype="<f8").reshape(-1, resamples + 2))
    return {key: tuple(next(rows) if runs else None for runs in each) for key, each in paid.items()}
