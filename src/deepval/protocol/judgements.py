"""Submissions and a cell -> what standings rest on: rows and a gain in every resample each, judged once and kept.

What is kept of a submission has a key: the hash of its scores and costs, of the cell, of the budgets and the draws. A
file holds all submissions of a cell under one kind of budget, with a hash over itself; one that is damaged or of
another version is judged again, and who is no longer there goes. Kept or judged, a leaderboard has the same bytes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, json_content, json_packed, plain, sha256
from deepval.files.writing import write_atomically
from deepval.judging.basis import Basis
from deepval.judging.budgets import Allowance, Budget, allowance_on
from deepval.judging.draws import make_draws
from deepval.judging.resamples import Resamples, Sample
from deepval.judging.rows import Judged, judge
from deepval.judging.totals import Difference, Totals
from deepval.protocol.cell_folders import TrackedCell
from deepval.protocol.submissions import Submission
from deepval.results import Row
from deepval.tables.scores import Scores, align_all, on_part
from deepval.version import __version__

SCHEMA = "deepval/judgements/1"
AT_ONCE = 200
"""Submissions whose samples are held whole at the same time."""
WHAT = "judgements kept by `deepval leaderboard`"


@dataclass(frozen=True, eq=False)
class Gained(Judged):
    """A row whose difference with chance is worked out when it is asked for: thousands of them are held at once."""

    totals: Totals
    chance_gain: Float[np.ndarray, "resample"]

    @property
    def paired(self) -> Float[np.ndarray, "resample"]:
        """The paired difference with random as a share of the all-cheap loss, NaN where undefined."""
        return self._difference().share

    def _difference(self) -> Difference:
        if self.sample is None:
            return Difference(*[np.full(len(self.prize), np.nan)] * 2)
        return self.totals.paired(self.sample.gain, self.chance_gain)


@dataclass(frozen=True)
class KeptRows:
    """A submission's rows on a cell, one per budget, and its gain in every resample; none where it cannot pay."""

    rows: tuple[Row, ...]
    gains: tuple[Float[np.ndarray, "resample"] | None, ...]


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
    allowances = [allowance_on(budget, table) for budget in budgets]
    resamples = Resamples.of(table, make_draws(len(table.unit_ids), draws, seed))
    keys = _keys(cell, entered, allowances, draws=draws, seed=seed)
    path = None if cache is None else cache / _file_name(cell, allowances[0])
    known = {} if path is None else _read(path, len(resamples.counts), set(keys.values()))
    missing = [item for item in entered if keys[item.card.key] not in known]
    found = dict(known)
    for begin in range(0, len(missing), AT_ONCE):
        part = missing[begin : begin + AT_ONCE]
        named = {item.card.key: replace(item.scores[cell.name], name=item.card.key) for item in part}
        given = [on_part(table, scores, whole, "error") for scores in align_all(whole, named)]
        made = _judged(resamples, given, allowances)
        found |= {keys[name]: kept for name, kept in made.items()}
    if path is not None and (missing or len(known) != len(entered) or not reading.is_file(path)):
        _write(path, {keys[item.card.key]: found[keys[item.card.key]] for item in entered})
    return _basis(resamples, [found[keys[item.card.key]] for item in entered], allowances)


def _judged(resamples: Resamples, given: Sequence[Scores], allowances: Sequence[Allowance]) -> dict[str, KeptRows]:
    """Rows and gains by allocator."""
    by_name: dict[str, list[Judged]] = {scores.name: [] for scores in given}
    for item in judge(resamples, given, allowances):
        if item.row.allocator in by_name:
            by_name[item.row.allocator].append(item)
    return {
        name: KeptRows(
            tuple(item.row for item in items),
            # Copied: a sample is a column of a table that need not be held.
            tuple(None if item.sample is None else item.sample.gain.copy() for item in items),
        )
        for name, items in by_name.items()
    }


def _basis(resamples: Resamples, kept: Iterable[KeptRows], allowances: Sequence[Allowance]) -> Basis:
    references = judge(resamples, [], allowances)
    samples = {(item.row.allocator, item.row.budget): item for item in references}
    nothing = np.full(len(resamples.counts), np.nan)
    judged: list[Judged] = list(references)
    for item in kept:
        for row, gain in zip(item.rows, item.gains, strict=True):
            oracle, chance = (samples.get((name or "", row.budget)) for name in (row.oracle, row.chance))
            prize = nothing if oracle is None or oracle.sample is None else oracle.sample.gain
            origin = nothing if chance is None or chance.sample is None else chance.sample.gain
            sample = None if gain is None else Sample(gain, nothing, nothing)
            judged.append(Gained(row, sample, prize, Difference(nothing, nothing), resamples, origin))
    return Basis(resamples, tuple(judged))


# What is kept, and where.


def _keys(
    cell: TrackedCell, entered: Sequence[Submission], allowances: Sequence[Allowance], *, draws: int, seed: int
) -> dict[str, str]:
    """The hash of everything that a submission's rows on a cell rest on, by submission."""
    shared = {
        "schema": SCHEMA,
        "deepval": __version__,
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


def _write(path: Path, kept: Mapping[str, KeptRows]) -> None:
    head = {
        key: [[plain(row), gain is not None] for row, gain in zip(item.rows, item.gains, strict=True)]
        for key, item in kept.items()
    }
    gains = (gain for item in kept.values() for gain in item.gains if gain is not None)
    body = json_packed(head).encode() + b"\n" + b"".join(gain.astype("<f8").tobytes() for gain in gains)
    first = {"schema": SCHEMA, "sha256": sha256(body)}
    write_atomically(path, json_packed(first).encode() + b"\n" + body, make_folder=True)


def _read(path: Path, resamples: int, wanted: set[str]) -> dict[str, KeptRows]:
    """What is kept of wanted keys; nothing where there is no file, or it is damaged or of another version."""
    if not reading.is_file(path):
        return {}
    try:
        return {key: kept for key, kept in read_kept(path, resamples) if key in wanted}
    except InputError:
        return {}


def read_kept(path: Path, resamples: int | None = None) -> Iterator[tuple[str, KeptRows]]:
    """Keys and what is kept under them; an InputError where a file is not what was written."""
    data = reading.content(path, WHAT)
    first, _, body = data.partition(b"\n")
    told = json_content(first, path, WHAT)
    if not isinstance(told, dict) or told.get("schema") != SCHEMA or told.get("sha256") != sha256(body):
        raise InputError(f"{path}: must be {WHAT}, and is not as it was written: take it away and run it again.")
    head, _, numbers = body.partition(b"\n")
    entries = json_content(head, path, WHAT)
    gains = sum(runs for rows in entries.values() for _, runs in rows)
    length = resamples if resamples is not None else (len(numbers) // 8 // gains if gains else 0)
    if 8 * gains * length != len(numbers):
        raise InputError(f"{path}: must hold {length} numbers of each row; it holds others: take it away.")
    values, place = np.frombuffer(numbers, dtype="<f8").reshape(gains, length), 0
    for key, rows in entries.items():
        found: list[Float[np.ndarray, "resample"] | None] = []
        for _, runs in rows:
            found.append(values[place] if runs else None)
            place += runs
        yield key, KeptRows(tuple(Row(**row) for row, _ in rows), tuple(found))
