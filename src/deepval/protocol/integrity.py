"""Submissions beside the cells -> notes that a reader should see, and flags that keep a submission out of the ranks.

A note is a question. A flag is a reason to doubt what is ranked: answers of the test units, the ranking of another
handle, a card that contradicts itself or a measured cost. A flagged submission is judged and shown apart; neither is a
refusal.

Answers of the test units: A(part) is the Spearman correlation of scores and decision values over the affected inputs of
a part. What is known before escalation tells of validation units as much as of test units, so the excess
A(test) - max(A(validation), 0) should be about 0 or below. Validation and test units are resampled separately; a note
is made iff the lower bound of the 95 % interval of the excess is above `MARGIN`, in a cell or in the mean over cells.

Copies: two submissions are alike in a cell iff their rankings of the test inputs agree, or nearly agree while their
scores are a linear function of each other but for noise. `tools/honest_pairs.py` measures how often that is so of
allocators that were fitted apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.files.canonical import sha256
from deepval.judging.draws import Draws, child_seeds, make_draws
from deepval.protocol.history import LONGEST_SKETCH, History, ScoreFile
from deepval.protocol.submission_files import ENDINGS
from deepval.protocol.submissions import Submission
from deepval.protocol.tracks import TrackedCell
from deepval.results import UNITS, Record, known
from deepval.tables.columns import positions
from deepval.tables.costs import Convention
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

MARGIN = 0.2
"""How far the lower bound of the excess must lie above 0."""
FEWEST_AFFECTED = 20
"""Affected inputs that validation and test units must have, each, for the correlations to say anything."""
WORKED_FOR = {"image": 1.0, "cheap-detections": 0.01, "previous-frames": 0.01}
"""Inputs that cost something to look at, and the share of `LEAST` that this takes at least."""
LEAST: Mapping[Convention, float] = {"ms": 0.01, "mj": 0.001, "mj_all": 0.001}
"""What looking at an image takes at least: reading its 1.4 MB at the 137 GB/s of a Jetson AGX Xavier, at 0.1 W."""
RANKS_ALIKE = 0.99
"""Agreement of rankings from which on two submissions are alike."""
VALUES_ALIKE, RANKS_NEAR = 0.998, 0.3
"""Correlation of scores from which on they are alike too, where rankings agree at least this much.

Noise that is small beside the spread of scores shuffles the many inputs whose scores are nearly equal.
"""
COARSEST = 0.5
"""Least spread of the coarser ranking, as a share of the finer one's: few levels do not tell where they are from."""
FEWEST_COMPARED = 20
"""Test inputs with fewer of which only equal rankings are alike."""
MOST_NAMED = 3
"""Others that a note or a flag names."""
BLOCK = 512
"""Submissions that are compared with all others at once."""


@dataclass(frozen=True)
class Excess(Record):
    """How much better scores track decision values on test than on validation units.

    Attributes:
        cell: The cell; None for the mean over all cells in which something is known.
        validation: Spearman correlation over the affected inputs of the validation units.
        test: The same of the test units.
        excess: test - max(validation, 0).
        lo: Lower bound of its 95 % interval.
        hi: Upper bound.
        noted: Whether the lower bound is above the margin.
        reason: Why nothing is known.
    """

    cell: str | None
    validation: float | None = None
    test: float | None = None
    excess: float | None = None
    lo: float | None = None
    hi: float | None = None
    noted: bool = False
    reason: str | None = None


Part = Float[np.ndarray, "resample"]


def excesses(
    cells: Mapping[str, TrackedCell], scores: Mapping[str, Scores], *, draws: int = 1000, seed: int = 0
) -> tuple[Excess, ...]:
    """The excess of every scored cell, and of their mean where something is known of two or more."""
    seeds = child_seeds(seed, 2)
    found: list[Excess] = []
    known_parts: list[tuple[Part, Part]] = []
    for name, item in scores.items():
        split = cells[name].split
        validation = _tracked(cells[name].scored, item, split.validation, draws=draws, seed=seeds[0])
        test = _tracked(cells[name].scored, item, split.test, draws=draws, seed=seeds[1])
        if isinstance(validation, str) or isinstance(test, str):
            part, reason = ("validation", validation) if isinstance(validation, str) else ("test", test)
            found.append(Excess(name, reason=f"{part} units: {reason}"))
        else:
            known_parts.append((validation, test))
            found.append(_excess(name, [(validation, test)]))
    return (*found, _excess(None, known_parts)) if len(known_parts) > 1 else tuple(found)


def _excess(cell: str | None, parts: Sequence[tuple[Part, Part]]) -> Excess:
    """The mean over parts; a draw counts where validation and test are defined in every part."""
    validation = np.mean([v for v, _ in parts], axis=0)
    test = np.mean([t for _, t in parts], axis=0)
    difference = np.mean([t - np.maximum(v, 0.0) for v, t in parts], axis=0)
    drawn = difference[1:]
    bounds = Draws(np.zeros((len(drawn), 1)), None, None).interval(drawn, ~np.isnan(drawn)).snapped()
    return Excess(
        cell,
        validation=known(validation[0]),
        test=known(test[0]),
        excess=known(difference[0]),
        lo=known(bounds.low),
        hi=known(bounds.high),
        noted=bounds.low > MARGIN,
    )


def _tracked(table: ValueTable, scores: Scores, units: Sequence[str], *, draws: int, seed: int) -> Part | str:
    """Correlation in the part and in every draw of its units, NaN where undefined; or why there is none."""
    affected = _affected(table, tuple(units))
    if isinstance(affected, str):
        return affected
    score = scores.values[affected.rows] if scores.values.ndim == 1 else scores.values[affected.rows, -1]
    if np.all(score == score[0]):
        return "constant scores"
    return _correlations(_ranks(score), affected.ranks, affected.unit, _counts(len(units), draws, seed))


class _Affected(NamedTuple):
    """Affected inputs of a part: their rows, the ranks of their decision values, and their units."""

    rows: Int[np.ndarray, "input"]
    ranks: Float[np.ndarray, "input"]
    unit: Int[np.ndarray, "input"]


@lru_cache(maxsize=64)
def _affected(table: ValueTable, units: tuple[str, ...]) -> _Affected | str:
    """What a part shows whoever is asked about it, or why it shows nothing."""
    place = positions(table.unit_ids, np.sort(np.asarray(units)))[table.unit]
    rows = np.flatnonzero((place >= 0) & (table.decision_values != 0))
    if len(rows) < FEWEST_AFFECTED:
        return f"fewer than {FEWEST_AFFECTED} affected inputs"
    if len(np.unique(place[rows])) < 2:
        return "affected inputs in a single unit"
    return _Affected(rows, _ranks(table.decision_values[rows]), place[rows])


@lru_cache(maxsize=8)
def _counts(units: int, draws: int, seed: int) -> Float[np.ndarray, "resample unit"]:
    """The units as they are, and draws of them: the same for every submission."""
    return np.vstack([np.ones(units), make_draws(units, draws, seed).counts])


def _correlations(
    one: Float[np.ndarray, "input"],
    other: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    counts: Float[np.ndarray, "resample unit"],
) -> Float[np.ndarray, "resample"]:
    """Pearson correlation in every resample of units; NaN where one side does not vary."""
    a, b = one - one.mean(), other - other.mean()
    weights = np.ones_like(a), a, b, a * a, b * b, a * b
    moments = [np.bincount(unit, weights=w, minlength=counts.shape[1]) for w in weights]
    n, sa, sb, saa, sbb, sab = (counts @ np.column_stack(moments)).T
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (saa - sa * sa / n) * (sbb - sb * sb / n)
        return np.where(spread > 1e-12, (sab - sa * sb / n) / np.sqrt(spread), np.nan)


def _ranks(values: Shaped[np.ndarray, "input"]) -> Float[np.ndarray, "input"]:
    """Ranks from 1, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def contradictions(submission: Submission, cells: Mapping[str, TrackedCell]) -> list[str]:
    """Where a card and its scores do not fit together, one sentence each: notes, then flags."""
    return [*card_notes(submission), *card_flags(submission, cells)]


def card_notes(submission: Submission) -> list[str]:
    """What a card leaves out or promises, and scores that say nothing."""
    card, notes = submission.card, []
    if card.cells is not None:
        scored, told = {*submission.scores}, {*card.cells}
        notes += [f"the card declares cell {name}, which has no scores" for name in sorted(told - scored)]
        notes += [f"cell {name} has scores and is not declared on the card" for name in sorted(scored - told)]
    constant = [name for name, scores in submission.scores.items() if _constant(scores)]
    return notes + [f"scores of cell {name} are constant: they rank as random does" for name in constant]


def card_flags(submission: Submission, cells: Mapping[str, TrackedCell]) -> list[str]:
    """Where a card cannot be true of its scores, or tells another cost than was measured."""
    card, flags = submission.card, []
    if not card.inputs:
        varied = [name for name, scores in submission.scores.items() if not _constant(scores)]
        flags += [f"the card says that nothing is looked at; scores of cell {n} differ between inputs" for n in varied]
    used = sorted(WORKED_FOR.keys() & set(card.inputs))
    share = max((WORKED_FOR[name] for name in used), default=0.0)
    for profile, figures in card.costs.items():
        low: list[Convention] = [unit for unit in LEAST if figures.get(unit, np.inf) < share * LEAST[unit]]
        flags += [
            f"the card says {figures[unit]:g} {UNITS[unit]} under {profile} and that the allocator looks at "
            f"{', '.join(used)}, which takes at least {share * LEAST[unit]:g} {UNITS[unit]}"
            for unit in low
        ]
    return flags + _costs_told_otherwise(submission, cells)


def _constant(scores: Scores) -> bool:
    return bool(np.all(scores.values == scores.values.flat[0]))


def _costs_told_otherwise(submission: Submission, cells: Mapping[str, TrackedCell]) -> list[str]:
    """Where a cell's cost profile measured an allocator of this name and found another cost."""
    card, notes = submission.card, dict[str, None]()
    for cell in (cells[name] for name in submission.scores):
        if cell.table.costs is None or cell.profile is None:
            continue
        measured = {name.lower(): entry for name, entry in cell.table.costs.allocators.items()}
        profiled = measured.get(card.name.lower().replace(" ", "-"), {})
        for convention, cost in card.costs.get(cell.profile, {}).items():
            if convention in profiled and profiled[convention] != cost:
                told = f"the card says {cost:g} {convention}, the profile {cell.profile} {profiled[convention]:g}"
                notes[told] = None
    return list(notes)


class Copies(NamedTuple):
    """What a submission shares with others: reasons to keep it out of the ranks, and notes."""

    flags: list[str]
    notes: list[str]


def copies(
    submissions: Sequence[Submission], cells: Mapping[str, TrackedCell], history: History
) -> tuple[list[Copies], dict[str, bytes]]:
    """Per submission, others that are alike in a cell; and the sketches of all rankings by the hash of their file.

    Between two handles that is a flag, unless the history shows that this one was alike to its present scores in an
    earlier turn. Rankings that the board accepted before count as well, though they were replaced or removed.
    """
    flagged, noted = (np.zeros((len(submissions), len(submissions)), dtype=bool) for _ in range(2))
    earlier: list[dict[str, None]] = [{} for _ in submissions]
    handles = np.array([item.card.handle for item in submissions])
    past: dict[str, list[ScoreFile]] = {}
    for file in history.score_files():
        past.setdefault(file.cell, []).append(file)
    sketches: dict[str, bytes] = {}
    for name, cell in cells.items():
        entered = np.array([i for i, item in enumerate(submissions) if name in item.scores], dtype=int)
        if not len(entered):
            continue
        present = _ScoredCell.of(cell, [submissions[i] for i in entered])
        sketches |= dict(zip(present.files, present.sketches, strict=True))
        since = present.since(past.get(name, []), handles[entered])
        for rows, alike in present.pairs():
            other = handles[entered[rows], None] != handles[None, entered]
            late = since[None, :] <= since[rows, None]
            flagged[np.ix_(entered[rows], entered)] |= alike & other & late
            noted[np.ix_(entered[rows], entered)] |= alike & ~(other & late)
        keys = [submissions[i].card.key for i in entered]
        for row, key in present.replaced(past.get(name, []), handles[entered], keys, since):
            earlier[int(entered[row])][key] = None
    here = {item.card.key for item in submissions}
    found = []
    for i, item in enumerate(submissions):
        pairs = [
            [submissions[j] for j in np.flatnonzero(part).tolist()] for part in (flagged[i], noted[i] & ~flagged[i])
        ]
        flags, notes = ([_likeness(item, other) for other in part[:MOST_NAMED]] for part in pairs)
        before = [key for key in sorted(earlier[i]) if not any(key == other.card.key for other in pairs[0])]
        flags += [
            f"the ranking of {key}, {'in an earlier version' if key in here else 'which left the board'}"
            for key in before[:MOST_NAMED]
        ]
        for sentences, part in ((flags, pairs[0]), (notes, pairs[1])):
            if len(part) > MOST_NAMED:
                sentences.append(f"as much alike with {len(part) - MOST_NAMED:,} more submissions")
        found.append(Copies(flags, notes))
    return found, sketches


def _likeness(item: Submission, other: Submission) -> str:
    shared = item.scores.keys() & other.scores.keys()
    if all(item.scores[cell].digest == other.scores[cell].digest for cell in shared):
        return f"the same scores as {other.card.key}"
    return f"nearly the same ranking as {other.card.key}"


class Rankings(NamedTuple):
    """Rows of centred ranks, and the sum of squares of each; equal scores share their mean rank."""

    ranks: Float[np.ndarray, "submission input"]
    spread: Float[np.ndarray, "submission"]

    @classmethod
    def of(cls, scores: Sequence[Shaped[np.ndarray, "input"]]) -> "Rankings":
        """The rankings of rows of scores, of the same inputs each."""
        # The mean rank is (n + 1) / 2 whatever the ties, so that a constant row is exactly 0.
        ranks = np.array([(_ranks(row) - (len(row) + 1) / 2) / len(row) for row in scores], dtype=np.float32)
        return cls(ranks, np.einsum("ij,ij->i", ranks, ranks))

    def rows(self, rows: slice) -> "Rankings":
        """Some of them."""
        return Rankings(self.ranks[rows], self.spread[rows])

    def agreement(self, other: "Rankings") -> Float[np.ndarray, "row other"]:
        """Covariance of ranks over the smaller variance: 1 where one ranking is the other, or rounds it.

        The mean rank of tied inputs is the mean of the ranks that they have without the ties, so that the covariance
        with a rounded ranking is the variance of that. 0 where a ranking is constant.
        """
        low = np.minimum.outer(self.spread, other.spread)
        return np.where(low > 0, self.ranks @ other.ranks.T, 0.0) / np.where(low > 0, low, 1.0)

    def alike(self, other: "Rankings") -> Bool[np.ndarray, "row other"]:
        """Which rankings agree, of those where the coarser one has enough spread to tell."""
        low, high = np.minimum.outer(self.spread, other.spread), np.maximum.outer(self.spread, other.spread)
        least = RANKS_ALIKE if self.ranks.shape[1] >= FEWEST_COMPARED else 1 - 1e-6
        return (self.agreement(other) >= least) & (low >= COARSEST * high)


class _ScoredCell(NamedTuple):
    """Scores of submissions on a cell's test inputs, as they are compared."""

    rankings: Rankings
    values: Float[np.ndarray, "submission input"]
    files: list[str]
    sketches: list[bytes]

    @classmethod
    def of(cls, cell: TrackedCell, submissions: Sequence[Submission]) -> "_ScoredCell":
        table = cell.scored
        rows = np.flatnonzero(np.isin(table.unit_ids[table.unit], cell.split.test))
        sample = rows[np.argsort([sha256(str(name).encode()) for name in table.input[rows]])[:LONGEST_SKETCH]]
        scores = [item.scores[cell.name].values for item in submissions]
        scores = [values if values.ndim == 1 else values[:, -1] for values in scores]
        names = {f"scores/{cell.name}{ending}" for ending in ENDINGS}
        return cls(
            Rankings.of([values[rows] for values in scores]),
            np.array([standardised(values[rows]) for values in scores], dtype=np.float32),
            [next(sha for name, sha in item.files.items() if name in names) for item in submissions],
            [sketch(values[sample]) for values in scores],
        )

    def pairs(self) -> Iterator[tuple[Int[np.ndarray, "row"], Bool[np.ndarray, "row submission"]]]:
        """Blocks of rows, and with which others each is alike."""
        for start in range(0, len(self.files), BLOCK):
            block = slice(start, start + BLOCK)
            rows = np.arange(len(self.files))[block]
            alike = alike_pairs(self.rankings.rows(block), self.rankings, self.values[block], self.values)
            alike[np.arange(len(rows)), rows] = False
            yield rows, alike

    def since(
        self, past: Sequence[ScoreFile], handles: Shaped[np.ndarray, "submission"]
    ) -> Float[np.ndarray, "submission"]:
        """The first turn in which a handle had a ranking alike to its present one, infinite where that is now."""
        own: dict[str, list[ScoreFile]] = {}
        for file in past:
            own.setdefault(file.handle, []).append(file)
        turns = np.full(len(handles), np.inf)
        for i, handle in enumerate(handles.tolist()):
            files = own.get(handle, [])
            same = _same_ranking(self.sketches[i], [file.sketch for file in files])
            alike = [file.turn for file, yes in zip(files, same, strict=True) if yes or file.sha256 == self.files[i]]
            turns[i] = min(alike, default=np.inf)
        return turns

    def replaced(
        self,
        past: Sequence[ScoreFile],
        handles: Shaped[np.ndarray, "submission"],
        keys: Sequence[str],
        since: Float[np.ndarray, "submission"],
    ) -> Iterator[tuple[int, str]]:
        """Rows that are alike to a ranking of another handle that the board accepted no later, and whose that was."""
        files = [file for file in past if file.sketch is not None and len(file.sketch) == len(self.sketches[0])]
        now = dict(zip(keys, self.files, strict=True))
        files = [file for file in files if now.get(file.key) != file.sha256]
        if not files or not self.sketches[0]:
            return
        before = Rankings.of([np.frombuffer(file.sketch or b"", np.uint8) for file in files])
        owners, turns = np.array([file.handle for file in files]), np.array([file.turn for file in files])
        for start in range(0, len(self.files), BLOCK):
            block = slice(start, start + BLOCK)
            here = Rankings.of([np.frombuffer(text, np.uint8) for text in self.sketches[block]])
            alike = here.alike(before)
            alike &= (handles[block, None] != owners[None]) & (turns[None] <= since[block, None])
            for row in np.flatnonzero(alike.any(axis=1)).tolist():
                for column in np.flatnonzero(alike[row])[: 2 * MOST_NAMED].tolist():
                    yield start + row, files[column].key


def alike_pairs(
    one: Rankings,
    other: Rankings,
    one_values: Float[np.ndarray, "row input"],
    other_values: Float[np.ndarray, "submission input"],
) -> Bool[np.ndarray, "row submission"]:
    """Which scores are taken for copies of which: by their rankings, and by values of zero mean and unit length."""
    near = (one.agreement(other) >= RANKS_NEAR) & (one.ranks.shape[1] >= FEWEST_COMPARED)
    return one.alike(other) | (near & (one_values @ other_values.T >= VALUES_ALIKE))


def sketch(scores: Float[np.ndarray, "input"]) -> bytes:
    """Ranks in 256 steps, a byte for every input."""
    if len(scores) < 2:
        return b""
    return np.round((_ranks(scores) - 1) * 255 / (len(scores) - 1)).astype(np.uint8).tobytes()


def _same_ranking(own: bytes, others: Sequence[bytes | None]) -> list[bool]:
    comparable = [i for i, text in enumerate(others) if text and len(text) == len(own)]
    same = [False] * len(others)
    if comparable:
        texts = [own, *(others[i] or b"" for i in comparable)]
        rankings = Rankings.of([np.frombuffer(text, np.uint8) for text in texts])
        for i, alike in zip(comparable, rankings.rows(slice(1)).alike(rankings)[0, 1:], strict=True):
            same[i] = bool(alike)
    return same


def standardised(scores: Float[np.ndarray, "input"]) -> Float[np.ndarray, "input"]:
    """Scores with mean 0 and length 1; zeros where they are constant or not finite."""
    largest = np.max(np.abs(scores), initial=0.0)
    if not 0 < largest < np.inf:
        return np.zeros(len(scores))
    centred = scores / largest
    centred = centred - centred.mean()
    length = np.linalg.norm(centred)
    return centred / length if length > 0 else np.zeros(len(scores))


def changes(versions: Sequence[Mapping[str, str]], now: Mapping[str, str]) -> str | None:
    """What a resubmission changed since its first version; None where nothing was ever different."""
    earlier = [dict(version) for version in versions if dict(version) != dict(now)]
    if not earlier:
        return None
    last = earlier[-1]
    names = sorted(name for name in {*last, *now} if last.get(name) != now.get(name))
    several = f"{len(earlier)} earlier version{'s' * (len(earlier) > 1)}"
    return f"resubmitted: {several} with other files; since the last, {', '.join(names)} changed"
