"""Submissions and cells -> notes for the reader of the leaderboard, and flags that
exclude a submission from the ranks.

A flag needs a fact, never a suspicion: the submission orders all test inputs of a cell
exactly as a submission of another handle does. It is judged and listed in a table of
its own. A note is a fact beside the table and changes no rank. Neither is a refusal.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Shaped
from deepval.basics.files.canonical import sha256
from deepval.deploy.board.submission_files import ENDINGS
from deepval.deploy.board.submissions import History, ScoreFile, Submission
from deepval.deploy.board.tracks import TrackedCell
from deepval.judge.concordance import spearman
from deepval.judge.results import lists_by_key
from deepval.judge.tables.scores import Scores

MOST_NAMED = 3
"""Most submissions that the flags of a submission name."""


def rank_correlations(
    submission: Submission, cells: Mapping[str, TrackedCell]
) -> str | None:
    """A note on how scores and decision values correlate in each cell; None if it is
    undefined in all.

    The losses of test units are in the cells, so scores may have used them. A reader
    compares the number with that of the validation units; no verdict is drawn from it.
    """
    parts = []
    for name, scores in submission.scores.items():
        split = cells[name].split
        test = _rank_correlation(cells[name], scores, split.test)
        if test is not None:
            other = _rank_correlation(cells[name], scores, split.validation)
            parts.append(f"{name} {test} (validation: {other or 'undefined'})")
    if not parts:
        return None
    return (
        "Spearman correlation of scores and decision values over the affected test "
        f"inputs: {', '.join(parts)}"
    )


def _rank_correlation(
    cell: TrackedCell, scores: Scores, units: Sequence[str]
) -> str | None:
    """Spearman correlation over the affected inputs of these units, and their number;
    of scores per mode, those of the last one.
    """
    table = cell.scored
    values = scores.values if scores.values.ndim == 1 else scores.values[:, -1]
    among = np.isin(table.unit_ids[table.unit], units) & (table.decision_values != 0)
    correlation = spearman(values, table.decision_values, among=among)
    if math.isnan(correlation):
        return None
    return f"{correlation:.2f} on {np.count_nonzero(among)}"


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
    return notes + [
        f"scores of cell {name} are constant: they rank as random does"
        for name, scores in submission.scores.items()
        if np.all(scores.values == scores.values.flat[0])
    ]


class _RankedScores(NamedTuple):
    """How a submission ranks the test inputs of a cell, and the turn in which its
    handle first had this ranking (infinite if it is new).
    """

    submission: Submission
    file: str
    ranking: str
    since: float

    @property
    def handle(self) -> str:
        """Handle of the submitter."""
        return self.submission.card.handle


def copies(
    submissions: Sequence[Submission],
    cells: Mapping[str, TrackedCell],
    history: History,
) -> tuple[list[list[str]], dict[str, str]]:
    """Per submission, its flags; and the ranking of each file of scores by the SHA-256
    of the file.

    Of two handles with equal rankings, the one that had it in an earlier turn is not
    flagged; both are if the history does not show which was first. Rankings that the
    board accepted earlier count even if they were replaced or removed.
    """
    keys = [item.card.key for item in submissions]
    same: dict[str, dict[str, Submission]] = {key: {} for key in keys}
    earlier: dict[str, set[str]] = {key: set() for key in keys}
    rankings: dict[str, str] = {}
    past = lists_by_key((file.cell, file) for file in history.score_files())
    for name, cell in cells.items():
        files = past.get(name, [])
        entered = [item for item in submissions if name in item.scores]
        now = {item.card.key: _file_digest(item, name) for item in entered}
        # A version that is still on the board is compared as a submission.
        replaced = [file for file in files if now.get(file.key) != file.sha256]
        ranked = list(_ranked(cell, entered, files))
        by_ranking = lists_by_key((one.ranking, one) for one in ranked)
        for one in ranked:
            rankings[one.file] = one.ranking
            key = one.submission.card.key
            for other in by_ranking[one.ranking]:
                if other.handle != one.handle and other.since <= one.since:
                    same[key][other.submission.card.key] = other.submission
            for file in replaced:
                if file.handle != one.handle and file.turn <= one.since:
                    earlier[key] |= {file.key} if _equal(one, file) else set()
    flags = [_flags(item, same[item.card.key], earlier, keys) for item in submissions]
    return flags, rankings


def _ranked(
    cell: TrackedCell, entered: Sequence[Submission], past: Sequence[ScoreFile]
) -> Iterator[_RankedScores]:
    """The rankings of a cell's test inputs; constant scores rank nothing that could be
    another's.
    """
    table = cell.scored
    test = np.isin(table.unit_ids[table.unit], cell.split.test)
    for item in entered:
        ranking = ranking_digest(item.scores[cell.name].values[test])
        if ranking is None:
            continue
        one = _RankedScores(item, _file_digest(item, cell.name), ranking, math.inf)
        own = [file for file in past if file.handle == one.handle and _equal(one, file)]
        yield one._replace(since=min((file.turn for file in own), default=math.inf))


def _equal(one: _RankedScores, file: ScoreFile) -> bool:
    """Whether an earlier file has the same ranking; histories of older versions have
    the hashes of files alone.
    """
    return one.ranking == file.ranking or one.file == file.sha256


def _flags(
    item: Submission,
    same: Mapping[str, Submission],
    earlier: Mapping[str, set[str]],
    present: Sequence[str],
) -> list[str]:
    """One sentence for each submission or earlier version with the same ranking."""
    flags = [_similarity(item, other) for other in same.values()]
    for key in sorted(earlier[item.card.key] - same.keys()):
        when = "in an earlier version" if key in present else "which left the board"
        flags.append(f"the ranking of {key}, {when}")
    if len(flags) > MOST_NAMED:
        more = f"and that of {len(flags) - MOST_NAMED:,} more submissions"
        return [*flags[:MOST_NAMED], more]
    return flags


def _similarity(item: Submission, other: Submission) -> str:
    shared = item.scores.keys() & other.scores.keys()
    if all(item.scores[cell].digest == other.scores[cell].digest for cell in shared):
        return f"the same scores as {other.card.key}"
    return f"the same ranking as {other.card.key}"


def _file_digest(submission: Submission, cell: str) -> str:
    """SHA-256 of the file of scores of a cell."""
    names = [f"scores/{cell}{ending}" for ending in ENDINGS]
    return next(submission.files[name] for name in names if name in submission.files)


def ranking_digest(scores: Shaped[np.ndarray, "input *mode"]) -> str | None:
    """SHA-256 of the order of inputs, of every mode if there are several; None if all
    scores are equal.

    Equal scores share a place, so that every increasing function has the same digest.
    """
    columns = scores.reshape(len(scores), -1).T
    places = np.array([np.unique(column, return_inverse=True)[1] for column in columns])
    if not places.any():
        return None
    return sha256(np.ascontiguousarray(places, "<i8").tobytes())


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
