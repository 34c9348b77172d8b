"""Submissions and cells -> notes for the reader of the leaderboard, and flags that
exclude a submission from the ranks.

A note is a question. A flag is a reason to doubt the ranking of a submission: it uses
the losses of the test units, it repeats the ranking of another handle, or its card
contradicts itself or a measured cost. A flagged submission is judged and listed in a
table of its own. Neither a note nor a flag is a refusal.

Use of test losses: A(part) is the Spearman correlation of scores and decision values
over the affected inputs of a part. Signals that exist before escalation are as
informative on validation units as on test units, so the excess A(test) -
max(A(validation), 0) should be about 0 or below. Validation and test units are
resampled separately. A submission is flagged iff the lower bound of the 95 % interval
of the excess is above `MARGIN`, in a cell or in the mean over cells.

Copies: two submissions are alike in a cell iff their rankings of the test inputs agree,
or nearly agree while their scores are linear functions of each other up to noise.
`studies/honest_pairs.py` measures how often allocators that were fitted independently
are alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.files.canonical import sha256
from deepval.judging.draws import Draws, child_seeds, make_draws
from deepval.protocol.submission_files import ENDINGS
from deepval.protocol.submissions import LONGEST_SKETCH, History, ScoreFile, Submission
from deepval.protocol.tracks import TrackedCell
from deepval.results import LO_HI, UNITS, Estimate, Record, known, lists_by_key
from deepval.tables.costs import Convention
from deepval.tables.keys import positions
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

MARGIN = 0.2
"""How far the lower bound of the excess must lie above 0."""
FEWEST_AFFECTED = 20
"""Affected inputs that validation and test units must each have for a meaningful
correlation.
"""
WORKED_FOR = {"image": 1.0, "cheap-detections": 0.01, "previous-frames": 0.01}
"""Inputs that cost something to process, and for each the least cost as a share of
`LEAST`.
"""
LEAST: Mapping[Convention, float] = {"ms": 0.01, "mj": 0.001, "mj_all": 0.001}
"""Least cost of processing an image: reading its 1.4 MB at the 137 GB/s of a Jetson AGX
Xavier, at 0.1 W.
"""
RANKS_ALIKE = 0.99
"""Least agreement of rankings at which two submissions are alike."""
VALUES_ALIKE, RANKS_NEAR = 0.998, 0.3
"""Two submissions are also alike at this least correlation of scores, given this least
agreement of rankings.

Noise that is small compared with the spread of scores reorders the many inputs whose
scores are nearly equal.
"""
COARSEST = 0.5
"""Least spread of the coarser ranking, as a share of the finer one's: a ranking with
few levels agrees with too many."""
FEWEST_COMPARED = 20
"""With fewer test inputs than this, only equal rankings are alike."""
MOST_NAMED = 3
"""Most submissions that a note or a flag names."""
BLOCK = 512
"""Number of submissions that are compared with all others in one step."""


@dataclass(frozen=True)
class Excess(Record):
    """How much better scores track decision values on test than on validation units.

    Attributes:
        cell: The cell; None for the mean over all cells in which the excess is defined.
        validation: Spearman correlation over the affected inputs of the validation
            units.
        test: The same for the test units.
        excess: test - max(validation, 0).
        lo: Lower bound of its 95 % interval.
        hi: Upper bound.
        noted: Whether the lower bound is above the margin.
        reason: Why the excess is undefined.
    """

    cell: str | None
    validation: float | None = None
    test: float | None = None
    excess: Estimate | None = field(default=None, metadata=LO_HI)
    noted: bool = False
    reason: str | None = None


Part = Float[np.ndarray, "resample"]


def excesses(
    cells: Mapping[str, TrackedCell],
    scores: Mapping[str, Scores],
    *,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[Excess, ...]:
    """The excess of every scored cell, and of their mean where it is defined in two or
    more cells.
    """
    seeds = child_seeds(seed, 2)
    results: list[Excess] = []
    defined_parts: list[tuple[Part, Part]] = []
    for name, item in scores.items():
        split = cells[name].split
        validation = _part_correlations(
            cells[name].scored, item, split.validation, draws=draws, seed=seeds[0]
        )
        test = _part_correlations(
            cells[name].scored, item, split.test, draws=draws, seed=seeds[1]
        )
        if isinstance(validation, str) or isinstance(test, str):
            part, reason = (
                ("validation", validation)
                if isinstance(validation, str)
                else ("test", test)
            )
            results.append(Excess(name, reason=f"{part} units: {reason}"))
        else:
            defined_parts.append((validation, test))
            results.append(_excess(name, [(validation, test)]))
    return (
        (*results, _excess(None, defined_parts))
        if len(defined_parts) > 1
        else tuple(results)
    )


def _excess(cell: str | None, parts: Sequence[tuple[Part, Part]]) -> Excess:
    """The excess of the mean over cells; a draw counts if both correlations are defined
    in every cell.
    """
    validation = np.mean([v for v, _ in parts], axis=0)
    test = np.mean([t for _, t in parts], axis=0)
    difference = np.mean([t - np.maximum(v, 0.0) for v, t in parts], axis=0)
    drawn = difference[1:]
    bounds = (
        Draws(np.zeros((len(drawn), 1)), None, None)
        .interval(drawn, ~np.isnan(drawn))
        .snap()
    )
    return Excess(
        cell,
        validation=known(validation[0]),
        test=known(test[0]),
        excess=bounds.estimate(difference[0]),
        noted=bounds.low > MARGIN,
    )


def _part_correlations(
    table: ValueTable, scores: Scores, units: Sequence[str], *, draws: int, seed: int
) -> Part | str:
    """Correlation in the part and in every draw of its units (NaN if undefined), or the
    reason why it has none.
    """
    affected = _affected(table, tuple(units))
    if isinstance(affected, str):
        return affected
    score = (
        scores.values[affected.rows]
        if scores.values.ndim == 1
        else scores.values[affected.rows, -1]
    )
    if np.all(score == score[0]):
        return "constant scores"
    return _correlations(
        _ranks(score), affected.ranks, affected.unit, _counts(len(units), draws, seed)
    )


class _Affected(NamedTuple):
    """Affected inputs of a part: their rows, the ranks of their decision values, and
    their units.
    """

    rows: Int[np.ndarray, "input"]
    ranks: Float[np.ndarray, "input"]
    unit: Int[np.ndarray, "input"]


@lru_cache(maxsize=64)
def _affected(table: ValueTable, units: tuple[str, ...]) -> _Affected | str:
    """The affected inputs of a part, which all submissions share; or why the
    correlation is undefined.
    """
    unit_index = positions(table.unit_ids, np.sort(np.asarray(units)))[table.unit]
    rows = np.flatnonzero((unit_index >= 0) & (table.decision_values != 0))
    if len(rows) < FEWEST_AFFECTED:
        return f"fewer than {FEWEST_AFFECTED} affected inputs"
    if len(np.unique(unit_index[rows])) < 2:
        return "affected inputs in a single unit"
    return _Affected(rows, _ranks(table.decision_values[rows]), unit_index[rows])


@lru_cache(maxsize=8)
def _counts(units: int, draws: int, seed: int) -> Float[np.ndarray, "resample unit"]:
    """Counts of the units in the sample itself (first row) and in its draws; the same
    for every submission.
    """
    return np.vstack([np.ones(units), make_draws(units, draws, seed).counts])


def _correlations(
    one: Float[np.ndarray, "input"],
    other: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    counts: Float[np.ndarray, "resample unit"],
) -> Float[np.ndarray, "resample"]:
    """Pearson correlation in every resample of units; NaN if one side does not vary."""
    # Centred values keep the sums below accurate; sums per unit make each draw a
    # weighted sum over units.
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


def contradictions(
    submission: Submission, cells: Mapping[str, TrackedCell]
) -> list[str]:
    """One sentence for each contradiction between a card and its scores: notes, then
    flags.
    """
    return [*card_notes(submission), *card_flags(submission, cells)]


def card_notes(submission: Submission) -> list[str]:
    """Notes: cells that only the card or only the scores have, and constant scores."""
    card, notes = submission.card, []
    if card.cells is not None:
        scored, declared = {*submission.scores}, {*card.cells}
        notes += [
            f"the card declares cell {name}, which has no scores"
            for name in sorted(declared - scored)
        ]
        notes += [
            f"cell {name} has scores and is not declared on the card"
            for name in sorted(scored - declared)
        ]
    constant = [
        name for name, scores in submission.scores.items() if _is_constant(scores)
    ]
    return notes + [
        f"scores of cell {name} are constant: they rank as random does"
        for name in constant
    ]


def card_flags(submission: Submission, cells: Mapping[str, TrackedCell]) -> list[str]:
    """Flags: scores that contradict the card, and costs that are too low or differ from
    a measurement.
    """
    card, flags = submission.card, []
    if not card.inputs:
        varied = [
            name
            for name, scores in submission.scores.items()
            if not _is_constant(scores)
        ]
        flags += [
            f"the card lists no inputs, but scores of cell {n} differ between inputs"
            for n in varied
        ]
    used = sorted(WORKED_FOR.keys() & set(card.inputs))
    share = max((WORKED_FOR[name] for name in used), default=0.0)
    for profile, figures in card.costs.items():
        low: list[Convention] = [
            unit for unit in LEAST if figures.get(unit, np.inf) < share * LEAST[unit]
        ]
        flags += [
            f"the card says {figures[unit]:g} {UNITS[unit]} under {profile} and that "
            f"the allocator looks at {', '.join(used)}, "
            f"which takes at least {share * LEAST[unit]:g} {UNITS[unit]}"
            for unit in low
        ]
    return flags + _cost_contradictions(submission, cells)


def _is_constant(scores: Scores) -> bool:
    return bool(np.all(scores.values == scores.values.flat[0]))


def _cost_contradictions(
    submission: Submission, cells: Mapping[str, TrackedCell]
) -> list[str]:
    """Costs on the card that differ from those of an allocator of this name in a cell's
    cost profile.
    """
    card, notes = submission.card, dict[str, None]()
    for cell in (cells[name] for name in submission.scores):
        if cell.table.costs is None or cell.profile is None:
            continue
        measured = {
            name.lower(): entry for name, entry in cell.table.costs.allocators.items()
        }
        profiled = measured.get(card.name.lower().replace(" ", "-"), {})
        for convention, cost in card.costs.get(cell.profile, {}).items():
            if convention in profiled and profiled[convention] != cost:
                sentence = (
                    "the card says "
                    f"{cost:g} {convention}, "
                    f"the profile {cell.profile} {profiled[convention]:g}"
                )
                notes[sentence] = None
    return list(notes)


class Copies(NamedTuple):
    """Similarities of a submission to others: those that exclude it from the ranks, and
    those that are only noted.
    """

    flags: list[str]
    notes: list[str]


def copies(
    submissions: Sequence[Submission],
    cells: Mapping[str, TrackedCell],
    history: History,
) -> tuple[list[Copies], dict[str, bytes]]:
    """Per submission, the others that are alike in a cell; and the sketches of all
    rankings by the hash of their file.

    A similarity between two handles is a flag, unless the history shows that this
    handle had a ranking like its present one in an earlier turn. Rankings that the
    board accepted earlier count even if they were replaced or removed.
    """
    flagged, noted = (
        np.zeros((len(submissions), len(submissions)), dtype=bool) for _ in range(2)
    )
    earlier: list[dict[str, None]] = [{} for _ in submissions]
    handles = np.array([item.card.handle for item in submissions])
    past = lists_by_key((file.cell, file) for file in history.score_files())
    sketches: dict[str, bytes] = {}
    for name, cell in cells.items():
        entered = np.array(
            [i for i, item in enumerate(submissions) if name in item.scores], dtype=int
        )
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
        for row, key in present.replaced(
            past.get(name, []), handles[entered], keys, since
        ):
            earlier[int(entered[row])][key] = None
    present_keys = {item.card.key for item in submissions}
    results = []
    for i, item in enumerate(submissions):
        pairs = [
            [submissions[j] for j in np.flatnonzero(part).tolist()]
            for part in (flagged[i], noted[i] & ~flagged[i])
        ]
        flags, notes = (
            [_similarity(item, other) for other in part[:MOST_NAMED]] for part in pairs
        )
        earlier_keys = [
            key
            for key in sorted(earlier[i])
            if not any(key == other.card.key for other in pairs[0])
        ]
        flags += [
            (
                "the "
                "ranking "
                "of "
                f"{key}, "
                f"{'in an earlier version' if key in present_keys else 'which left the board'}"  # noqa: E501
            )
            for key in earlier_keys[:MOST_NAMED]
        ]
        for sentences, part in ((flags, pairs[0]), (notes, pairs[1])):
            if len(part) > MOST_NAMED:
                sentences.append(
                    f"as much alike with {len(part) - MOST_NAMED:,} more submissions"
                )
        results.append(Copies(flags, notes))
    return results, sketches


def _similarity(item: Submission, other: Submission) -> str:
    shared = item.scores.keys() & other.scores.keys()
    if all(item.scores[cell].digest == other.scores[cell].digest for cell in shared):
        return f"the same scores as {other.card.key}"
    return f"nearly the same ranking as {other.card.key}"


class Rankings(NamedTuple):
    """Rows of centred ranks, and the sum of squares of each; equal scores share their
    mean rank.
    """

    ranks: Float[np.ndarray, "submission input"]
    spread: Float[np.ndarray, "submission"]

    @classmethod
    def of(cls, scores: Sequence[Shaped[np.ndarray, "input"]]) -> "Rankings":
        """The rankings of rows of scores; all rows score the same inputs."""
        # The mean rank is (n + 1) / 2 with or without ties, so that a constant row
        # becomes exactly 0.
        ranks = np.array(
            [(_ranks(row) - (len(row) + 1) / 2) / len(row) for row in scores],
            dtype=np.float32,
        )
        return cls(ranks, np.einsum("ij,ij->i", ranks, ranks))

    def rows(self, rows: slice) -> "Rankings":
        """The selected rows."""
        return Rankings(self.ranks[rows], self.spread[rows])

    def agreement(self, other: "Rankings") -> Float[np.ndarray, "row other"]:
        """Covariance of ranks over the smaller variance: 1 if one ranking equals the
        other or is a rounding of it.

        Tied inputs share the mean of the ranks that they would have without ties, so
        the covariance of a ranking with its rounding is the variance of the rounding. 0
        if a ranking is constant.
        """
        low = np.minimum.outer(self.spread, other.spread)
        return np.where(low > 0, self.ranks @ other.ranks.T, 0.0) / np.where(
            low > 0, low, 1.0
        )

    def alike(self, other: "Rankings") -> Bool[np.ndarray, "row other"]:
        """Which pairs of rankings agree while the coarser one has enough spread."""
        low, high = (
            np.minimum.outer(self.spread, other.spread),
            np.maximum.outer(self.spread, other.spread),
        )
        least = RANKS_ALIKE if self.ranks.shape[1] >= FEWEST_COMPARED else 1 - 1e-6
        return (self.agreement(other) >= least) & (low >= COARSEST * high)


class _ScoredCell(NamedTuple):
    """Scores of submissions on a cell's test inputs, prepared for comparison."""

    rankings: Rankings
    values: Float[np.ndarray, "submission input"]
    files: list[str]
    sketches: list[bytes]

    @classmethod
    def of(cls, cell: TrackedCell, submissions: Sequence[Submission]) -> "_ScoredCell":
        table = cell.scored
        rows = np.flatnonzero(np.isin(table.unit_ids[table.unit], cell.split.test))
        # The order of hashes picks the same inputs in every run, without a seed.
        sample = rows[
            np.argsort([sha256(str(name).encode()) for name in table.input[rows]])[
                :LONGEST_SKETCH
            ]
        ]
        scores = [item.scores[cell.name].values for item in submissions]
        scores = [values if values.ndim == 1 else values[:, -1] for values in scores]
        names = {f"scores/{cell.name}{ending}" for ending in ENDINGS}
        return cls(
            Rankings.of([values[rows] for values in scores]),
            np.array(
                [standardised(values[rows]) for values in scores], dtype=np.float32
            ),
            [
                next(sha for name, sha in item.files.items() if name in names)
                for item in submissions
            ],
            [sketch(values[sample]) for values in scores],
        )

    def pairs(
        self,
    ) -> Iterator[tuple[Int[np.ndarray, "row"], Bool[np.ndarray, "row submission"]]]:
        """Submissions in blocks, and for each the other submissions whose scores are
        like its own.
        """
        for start in range(0, len(self.files), BLOCK):
            block = slice(start, start + BLOCK)
            rows = np.arange(len(self.files))[block]
            alike = alike_pairs(
                self.rankings.rows(block),
                self.rankings,
                self.values[block],
                self.values,
            )
            alike[np.arange(len(rows)), rows] = False
            yield rows, alike

    def since(
        self, past: Sequence[ScoreFile], handles: Shaped[np.ndarray, "submission"]
    ) -> Float[np.ndarray, "submission"]:
        """The first turn in which a handle had a ranking like its present one; infinite
        if the ranking is new.
        """
        own = lists_by_key((file.handle, file) for file in past)
        turns = np.full(len(handles), np.inf)
        for i, handle in enumerate(handles.tolist()):
            files = own.get(handle, [])
            same = _same_ranking(self.sketches[i], [file.sketch for file in files])
            alike = [
                file.turn
                for file, yes in zip(files, same, strict=True)
                if yes or file.sha256 == self.files[i]
            ]
            turns[i] = min(alike, default=np.inf)
        return turns

    def replaced(
        self,
        past: Sequence[ScoreFile],
        handles: Shaped[np.ndarray, "submission"],
        keys: Sequence[str],
        since: Float[np.ndarray, "submission"],
    ) -> Iterator[tuple[int, str]]:
        """Rows that are like an earlier or equally old ranking of another handle, and
        the key of that ranking.
        """
        files = [
            file
            for file in past
            if file.sketch is not None and len(file.sketch) == len(self.sketches[0])
        ]
        now = dict(zip(keys, self.files, strict=True))
        files = [file for file in files if now.get(file.key) != file.sha256]
        if not files or not self.sketches[0]:
            return
        earlier = Rankings.of(
            [np.frombuffer(file.sketch or b"", np.uint8) for file in files]
        )
        owners, turns = (
            np.array([file.handle for file in files]),
            np.array([file.turn for file in files]),
        )
        for start in range(0, len(self.files), BLOCK):
            block = slice(start, start + BLOCK)
            present = Rankings.of(
                [np.frombuffer(text, np.uint8) for text in self.sketches[block]]
            )
            alike = present.alike(earlier)
            alike &= (handles[block, None] != owners[None]) & (
                turns[None] <= since[block, None]
            )
            for row in np.flatnonzero(alike.any(axis=1)).tolist():
                for column in np.flatnonzero(alike[row])[: 2 * MOST_NAMED].tolist():
                    yield start + row, files[column].key


def alike_pairs(
    one: Rankings,
    other: Rankings,
    one_values: Float[np.ndarray, "row input"],
    other_values: Float[np.ndarray, "submission input"],
) -> Bool[np.ndarray, "row submission"]:
    """Which scores count as copies of which: by their rankings, and by values of zero
    mean and unit length.
    """
    near = (one.agreement(other) >= RANKS_NEAR) & (
        one.ranks.shape[1] >= FEWEST_COMPARED
    )
    return one.alike(other) | (near & (one_values @ other_values.T >= VALUES_ALIKE))


def sketch(scores: Float[np.ndarray, "input"]) -> bytes:
    """Ranks rounded to 256 levels, one byte per input."""
    if len(scores) < 2:
        return b""
    return (
        np.round((_ranks(scores) - 1) * 255 / (len(scores) - 1))
        .astype(np.uint8)
        .tobytes()
    )


def _same_ranking(own: bytes, others: Sequence[bytes | None]) -> list[bool]:
    """Which sketches of the same inputs are like a submission's own."""
    comparable = [i for i, text in enumerate(others) if text and len(text) == len(own)]
    same = [False] * len(others)
    if comparable:
        texts = [own, *(others[i] or b"" for i in comparable)]
        rankings = Rankings.of([np.frombuffer(text, np.uint8) for text in texts])
        for i, alike in zip(
            comparable, rankings.rows(slice(1)).alike(rankings)[0, 1:], strict=True
        ):
            same[i] = bool(alike)
    return same


def standardised(scores: Float[np.ndarray, "input"]) -> Float[np.ndarray, "input"]:
    """Scores with mean 0 and length 1; zeros if the scores are constant or not
    finite.
    """
    largest = np.max(np.abs(scores), initial=0.0)
    if not 0 < largest < np.inf:
        return np.zeros(len(scores))
    # first scaled, so that squares of large scores do not overflow
    centred = scores / largest
    centred = centred - centred.mean()
    length = np.linalg.norm(centred)
    return centred / length if length > 0 else np.zeros(len(scores))


def changes(
    versions: Sequence[Mapping[str, str]], now: Mapping[str, str]
) -> str | None:
    """The files that a resubmission changed since its last different version; None if
    there is no such version.
    """
    earlier = [dict(version) for version in versions if dict(version) != dict(now)]
    if not earlier:
        return None
    last = earlier[-1]
    names = sorted(name for name in {*last, *now} if last.get(name) != now.get(name))
    several = f"{len(earlier)} earlier version{'s' * (len(earlier) > 1)}"
    return (
        f"resubmitted: {several} with other files; "
        f"since the last, {', '.join(names)} changed"
    )
