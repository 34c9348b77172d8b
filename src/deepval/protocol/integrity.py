"""Submissions beside the cells -> notes that a reader should see, and flags that keep a submission out of the ranks.

A note is a question. A flag is a reason to doubt what is ranked: answers of the test units, scores of somebody else, a
card that contradicts itself or a measured cost. A flagged submission is judged and shown apart; neither is a refusal.

Answers of the test units: A(part) is the Spearman correlation of scores and decision values over the affected inputs of
a part. What is known before escalation tells of validation units as much as of test units, so the excess
A(test) - max(A(validation), 0) should be about 0 or below. Validation and test units are resampled separately; a note
is made iff the lower bound of the 95 % interval of the excess is above `MARGIN`, in a cell or in the mean over cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.judging.draws import Draws, child_seeds, make_draws
from deepval.protocol.cell_folders import TrackedCell
from deepval.protocol.history import History
from deepval.protocol.submissions import Submission
from deepval.results import Record, known
from deepval.tables.columns import positions
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

MARGIN = 0.2
"""How far the lower bound of the excess must lie above 0."""
FEWEST_AFFECTED = 20
"""Affected inputs that validation and test units must have, each, for the correlations to say anything."""
WORKED_FOR = frozenset({"image", "cheap-detections", "previous-frames"})
"""Inputs that cost something to look at."""


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


def _ranks(values: Float[np.ndarray, "input"]) -> Float[np.ndarray, "input"]:
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
    for profile, figures in card.costs.items():
        if figures.get("ms") == 0 and WORKED_FOR & set(card.inputs):
            used = ", ".join(sorted(WORKED_FOR & set(card.inputs)))
            flags.append(f"the card says 0 ms under {profile} and that the allocator looks at {used}")
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


def copies(submissions: Sequence[Submission], history: History) -> dict[str, dict[str, bool]]:
    """Per submission, the others with the same scores wherever both have scores, and whether that is a flag.

    It is one between two handles, unless the history shows that this submission had the scores in an earlier turn.
    """
    found: dict[str, dict[str, bool]] = {item.card.key: {} for item in submissions}
    digests = {item.card.key: {cell: s.digest for cell, s in item.scores.items()} for item in submissions}
    holders: dict[tuple[str, str], list[Submission]] = {}
    for item in submissions:
        for held in digests[item.card.key].items():
            holders.setdefault(held, []).append(item)
    for item in submissions:
        mine = digests[item.card.key]
        alike = {other.card.key: other for held in mine.items() for other in holders[held] if other is not item}
        for key, other in sorted(alike.items()):
            shared = mine.keys() & digests[key].keys()
            if all(mine[cell] == digests[key][cell] for cell in shared):
                own, its = history.since(item, shared), history.since(other, shared)
                first = own is not None and (its is None or own < its)
                found[item.card.key][key] = item.card.handle != other.card.handle and not first
    return found


def changes(versions: Sequence[Mapping[str, str]], now: Mapping[str, str]) -> str | None:
    """What a resubmission changed since its first version; None where nothing was ever different."""
    earlier = [dict(version) for version in versions if dict(version) != dict(now)]
    if not earlier:
        return None
    last = earlier[-1]
    names = sorted(name for name in {*last, *now} if last.get(name) != now.get(name))
    several = f"{len(earlier)} earlier version{'s' * (len(earlier) > 1)}"
    return f"resubmitted: {several} with other files; since the last, {', '.join(names)} changed"
