"""Losses and scores in Parquet files larger than memory -> the same checks, digests and
columns, piece by piece.

The checks and digests are those of `values` and `scores`, applied to one column after
the other. Errors count rows over all files. Unit numbers, and scores in another order
than the table, are stored in temporary files.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Float, Int, PerRow, RowInts, RowValues, Shaped, UnitIds
from deepval.errors import InputError
from deepval.progress import Watch, unwatched
from deepval.tables import input_costs, joins
from deepval.tables.chunks import CHUNK, Parts, as_numbers, number_error
from deepval.tables.columns import ESTIMATED, REWARD_PREFIX
from deepval.tables.costs import Costs
from deepval.tables.joins import Spill
from deepval.tables.keys import as_text
from deepval.tables.scores import SCORE_PREFIX, Kind, Missing, one_kind, refuse_values
from deepval.tables.values import (
    LARGEST_LOSS,
    chosen_modes,
    integers,
    is_right_or_wrong,
    loss_columns,
    named_units,
    some,
    warn_of_frames,
)

SAMPLE = 1 << 18
"""Largest number of judged inputs in the sample, from which cuts are estimated."""


@dataclass(frozen=True, eq=False)
class ScannedTable:
    """A table of losses that stays in its files.

    Attributes:
        parts: The files.
        modes: Names of the two modes, cheap and full.
        columns: Names of the columns of their losses, or rewards.
        rewards: Whether they are rewards.
        costs: Cost of each mode; None where no costs are available.
        every_unit: Ids of all units, sorted as text.
        unit_ids: Ids of the judged units.
        sizes: Number of inputs of each judged unit.
        units: Index in `every_unit` of each row's unit.
        unit_index: Index in `unit_ids` of every unit; -1 for units that are not judged.
        largest: The largest absolute loss.
        is_right_or_wrong: Whether every judged loss is 0 or 1, or every reward.
        digest: SHA-256 of the judged inputs, equal to that of a table in memory.
        step: Every `step`-th judged input is in the sample.
        sample: Decision values of the sample.
        sample_unit: Units of the sample.
        text: Whether ids are text.
        estimated: Note on how losses were estimated; None where losses were measured.
    """

    parts: Parts
    modes: tuple[str, ...]
    columns: tuple[str, ...]
    rewards: bool
    costs: Costs | None
    every_unit: Shaped[np.ndarray, "every"]
    unit_ids: UnitIds
    sizes: Int[np.ndarray, "unit"]
    units: Spill
    unit_index: Int[np.ndarray, "every"]
    largest: float
    is_right_or_wrong: bool
    digest: str
    step: int
    sample_losses: tuple[Float[np.ndarray, "sampled"], Float[np.ndarray, "sampled"]]
    sample_unit: Int[np.ndarray, "sampled"]
    text: bool
    estimated: str | None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def sample(self) -> Float[np.ndarray, "sampled"]:
        """Decision values of the sampled inputs."""
        return self.sample_losses[0] - self.sample_losses[1]

    def unit(self) -> Iterator[RowInts]:
        """The unit of each row, CHUNK rows at a time; -1 where it is not judged."""
        return (self.unit_index[codes] for codes in self.units.chunks(CHUNK))

    def losses(
        self,
    ) -> Iterator[tuple[PerRow, PerRow]]:
        """Losses of both modes, CHUNK rows at a time."""
        for chunk in self.parts.chunks(*self.columns):
            cheap, full = (
                _loss(as_numbers(chunk[name]), rewards=self.rewards)
                for name in self.columns
            )
            yield cheap, full


def scan_values(
    source: Path,
    *,
    modes: Sequence[str] | None = None,
    costs: Any = None,
    units: Sequence[str] | None = None,
    watch: Watch = unwatched,
) -> ScannedTable:
    """The table in a Parquet file or a folder of them; `units` are judged, or all units
    where None.
    """
    parts = Parts.of(source)
    prefix, available = loss_columns(parts.types, parts.source)
    parts.require("unit", "input")
    selected = chosen_modes(available, modes, parts.source)
    names = tuple(f"{prefix}{mode}" for mode in selected)
    _refuse_what_needs_memory(parts, available, selected)
    ordered = ("order",) if "order" in parts.types else ()
    parts.check_numbers(*names, *ordered)
    every, codes, rows = _units(parts)
    judged = every if units is None else named_units(units, every)
    unit_index = np.searchsorted(judged, every)
    unit_index = np.where(
        judged[np.minimum(unit_index, len(judged) - 1)] == every, unit_index, -1
    )
    sizes = np.bincount(
        unit_index[unit_index >= 0],
        weights=rows[unit_index >= 0],
        minlength=len(judged),
    ).astype(np.int64)
    if not sizes.sum():
        raise InputError(f"Named units must hold inputs; none of {some(judged)} does.")
    text = parts.has_text("input")
    reader = _Hashing(
        parts, codes, unit_index, step=math.ceil(int(sizes.sum()) / SAMPLE)
    )
    digest = hashlib.sha256("\n".join([*selected, *judged, ""]).encode())
    digest = reader.hash_ids(digest, text=text)
    sample_unit = reader.hash_units(digest)
    largest, samples = 0.0, []
    for name in watch(names, "checking losses"):
        size, sample = reader.hash_losses(digest, name, rewards=prefix == REWARD_PREFIX)
        largest, samples = max(largest, size), [*samples, sample]
    graded = reader.grades.are_right_or_wrong
    for name in ordered:
        reader.hash_losses(digest, name)
    if len(every) == len(parts):
        warn_of_frames(every, every, parts.source)
    return ScannedTable(
        parts=parts,
        modes=selected,
        columns=names,
        rewards=prefix == REWARD_PREFIX,
        costs=None if costs is None else Costs.of(costs),
        every_unit=every,
        unit_ids=judged,
        sizes=sizes,
        units=codes,
        unit_index=unit_index,
        largest=largest,
        is_right_or_wrong=graded,
        digest=digest.hexdigest(),
        step=reader.step,
        sample_losses=(samples[0], samples[-1]),
        sample_unit=sample_unit,
        text=text,
        estimated=str(next(iter(parts.chunks(ESTIMATED)))[ESTIMATED][0].as_py())
        if ESTIMATED in parts.types
        else None,
    )


def _refuse_what_needs_memory(
    parts: Parts, available: Sequence[str], selected: Sequence[str]
) -> None:
    """Raise where a table cannot be judged piece by piece."""
    if len(selected) > 2:
        raise InputError(
            f"{parts.source}: more than two modes ({', '.join(selected)}) need the "
            "table in memory: name two, cheap first (modes=[...], --modes), or allow "
            "more memory (--memory)."
        )
    cost_names = [
        name
        for by_mode in input_costs.cost_columns(parts.types, available).values()
        for name in by_mode.values()
    ]
    if cost_names:
        raise InputError(
            f"{parts.source}: costs per input ({cost_names[0]}) need the table in "
            "memory: leave those columns out and give one cost per mode (--costs), or "
            "allow more memory (--memory)."
        )


def _units(
    parts: Parts,
) -> tuple[UnitIds, Spill, Int[np.ndarray, "unit"]]:
    """All units sorted as text, the index of each row's unit among them, and the number
    of rows of each unit.
    """
    number_of: dict[str, int] = {}
    numbered = Spill(np.int32)
    for names, codes in parts.id_codes("unit"):
        number = np.array(
            [number_of.setdefault(name, len(number_of)) for name in names],
            dtype=np.int32,
        )
        numbered.append(number[codes])
    ids = as_text(np.array(list(number_of)))
    order = np.argsort(ids, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    ranked, rows = Spill(np.int32), np.zeros(len(ids), dtype=np.int64)
    for codes in numbered.chunks(CHUNK):
        ranks = rank[codes]
        ranked.append(ranks)
        rows += np.bincount(ranks, minlength=len(ids))
    return ids[order], ranked, rows


@dataclass
class _Grades:
    """Whether all noted losses are 0 or 1, or all of them 0 or -1."""

    are_graded: bool = True
    lowest: float = 0.0
    highest: float = 0.0

    def note(self, losses: PerRow) -> None:
        if not len(losses) or not self.are_graded:
            return
        self.are_graded = is_right_or_wrong(losses)
        self.lowest = min(self.lowest, float(losses.min()))
        self.highest = max(self.highest, float(losses.max()))

    @property
    def are_right_or_wrong(self) -> bool:
        return self.are_graded and (self.lowest == 0 or self.highest == 0)


@dataclass(frozen=True, eq=False)
class _Hashing:
    """Reads columns of a table to hash and check them; rows of units that are not
    judged are only checked.
    """

    parts: Parts
    codes: Spill
    unit_index: Int[np.ndarray, "every"]
    step: int
    grades: _Grades = field(default_factory=_Grades)

    def _chosen_rows(self) -> Iterator[RowValues]:
        return (self.unit_index[codes] >= 0 for codes in self.codes.chunks(CHUNK))

    def hash_ids(self, digest: Any, *, text: bool) -> Any:
        """The digest with the ids added; ids must differ.

        Text ids that spell integers are hashed as integers.

        Whether all ids spell integers is certain only at the end, so both digests are
        computed.
        """
        spelled, all_integers, started, ascending, last = (
            digest.copy(),
            True,
            False,
            True,
            None,
        )
        for ids, judged in zip(
            self.parts.ids("input", text=text), self._chosen_rows(), strict=True
        ):
            ascending = (
                ascending
                and bool(np.all(ids[1:] > ids[:-1]))
                and (last is None or bool(ids[0] > last))
            )
            last = ids[-1]
            judged_ids = ids if judged.all() else ids[judged]
            if not len(judged_ids):
                continue
            numbers = integers(judged_ids) if all_integers else None
            all_integers = numbers is not None
            if numbers is not None:
                digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
            if text:
                spelled.update(
                    (("\n" if started else "") + "\n".join(judged_ids)).encode()
                )
            started = True
        if not ascending:
            groups = joins.partition(
                self.parts,
                text=text,
                partitions=joins.partitions_for(len(self.parts)),
                scores=None,
            )
            joins.refuse_repeated(groups, self.parts)
        return digest if all_integers else spelled

    def hash_units(self, digest: Any) -> Int[np.ndarray, "sampled"]:
        """Add the units of the judged rows to the digest; returns the units of the
        sample.
        """
        first, sample = 0, []
        for codes in self.codes.chunks(CHUNK):
            unit = self.unit_index[codes]
            judged_units = unit[unit >= 0]
            digest.update(judged_units.astype("<i4").data)
            sample.append(thin(judged_units, first, self.step))
            first += len(judged_units)
        return np.concatenate(sample)

    def hash_losses(
        self, digest: Any, name: str, *, rewards: bool = False
    ) -> tuple[float, Float[np.ndarray, "sampled"]]:
        """Add a column of finite numbers to the digest; returns its largest absolute
        value and the sample.
        """
        row, first, largest, sample = 0, 0, 0.0, []
        for column, judged in zip(
            self.parts.numbers(name), self._chosen_rows(), strict=True
        ):
            if not (column.min() >= -LARGEST_LOSS and column.max() <= LARGEST_LOSS):
                bad = np.flatnonzero(~(np.abs(column) <= LARGEST_LOSS))
                value = float(column[bad[0]])
                need = (
                    f"be at most {LARGEST_LOSS:g} in size"
                    if np.isfinite(value)
                    else "be finite"
                )
                raise number_error(self.parts, name, row + int(bad[0]), value, need)
            losses = _loss(column if judged.all() else column[judged], rewards=rewards)
            digest.update(np.ascontiguousarray(losses, dtype="<f8").data)
            self.grades.note(losses)
            largest = max(largest, float(max(column.max(), -column.min())))
            sample.append(thin(losses, first, self.step))
            row, first = row + len(column), first + len(losses)
        return largest, np.concatenate(sample)


def thin(column: RowValues, first: int, step: int) -> Shaped[np.ndarray, "sampled"]:
    """The rows of a piece whose number is a multiple of `step`; the piece starts with
    row `first`.
    """
    return column[-first % step :: step].copy()


def _loss(column: PerRow, *, rewards: bool) -> PerRow:
    return 0.0 - column if rewards else column  # no negative zeros


@dataclass(frozen=True, eq=False)
class ScannedScores:
    """Scores that stay in their files, or in a temporary file in the order of the
    table.

    Attributes:
        name: The allocator's name.
        parts: The files.
        aligned: The scores in the order of the table, NaN where missing; None where the
            files have that order.
        covered: Share of the judged inputs that came with a score.
        digest: SHA-256 of the scores of the judged inputs.
        sample: Scores of the table's sample.
        kind: Whether a vehicle could compute them.
    """

    name: str
    parts: Parts
    aligned: Spill | None
    covered: float
    digest: str
    sample: Float[np.ndarray, "sampled"]
    kind: Kind

    def chunks(self) -> Iterator[PerRow]:
        """The score of each row of the table, CHUNK rows at a time; -inf where it is
        missing.
        """
        if self.aligned is None:
            return self.parts.numbers("score")
        return (_fill(chunk) for chunk in self.aligned.chunks(CHUNK))


def scan_scores(
    table: ScannedTable,
    scores: Mapping[str, Any],
    missing: Missing,
    watch: Watch = unwatched,
) -> list[ScannedScores]:
    """Every allocator's scores in Parquet files, aligned with the table by id."""
    return [
        _scan(table, name, scores[name], missing)
        for name in watch(list(scores), "aligning scores")
    ]


def _scan(
    table: ScannedTable, name: str, source: Any, missing: Missing
) -> ScannedScores:
    if not isinstance(source, str | Path):
        raise InputError(
            f"{name}: scores of a table that is read piece by piece must be a "
            f".parquet file or a folder of them; found {type(source).__name__}. Write "
            "them to a file, or allow more memory (--memory)."
        )
    parts = Parts.of(Path(source), name)
    refuse_values(parts.types, parts.source)
    if "score" not in parts.types and any(
        column.startswith(SCORE_PREFIX) for column in parts.types
    ):
        raise InputError(
            f"{parts.source}: scores per mode ({SCORE_PREFIX}<mode>) need the table "
            "in memory: give one column 'score', or allow more memory (--memory)."
        )
    parts.require("input", "score")
    text = table.text or parts.has_text("input")
    aligned = (
        None
        if _same_order(table, parts, text=text)
        else _aligned_scores(table, parts, text=text)
    )
    digest, lacking, row, first, sample = hashlib.sha256(), _Lacking(table), 0, 0, []
    for score, unit in zip(
        _checked_scores(parts) if aligned is None else aligned.chunks(CHUNK),
        table.unit(),
        strict=True,
    ):
        if aligned is not None:
            lacking.note(score, unit, row)
        judged_scores = _fill(score if (unit >= 0).all() else score[unit >= 0])
        digest.update(np.ascontiguousarray(judged_scores, dtype="<f8").data)
        sample.append(thin(judged_scores, first, table.step))
        row, first = row + len(score), first + len(judged_scores)
    if missing == "error":
        lacking.refuse(name)
    covered = 1 - lacking.number / len(table)
    return ScannedScores(
        name,
        parts,
        aligned,
        covered,
        digest.hexdigest(),
        np.concatenate(sample),
        _kind(parts),
    )


@dataclass
class _Lacking:
    """Judged inputs without a score."""

    table: ScannedTable
    first: int | None = None
    number: int = 0

    def note(self, score: PerRow, unit: RowInts, row: int) -> None:
        absent = np.flatnonzero(np.isnan(score) & (unit >= 0))
        if len(absent) and self.first is None:
            self.first = row + int(absent[0])
        self.number += len(absent)

    def refuse(self, name: str) -> None:
        if self.first is not None:
            raise InputError(
                f"{name}: every input needs a score; input "
                f"{self.table.parts.id_at(self.first)!r} has "
                "none"
                f"{f', nor have {self.number - 1} more' if self.number > 1 else ''}. "
                "Use missing='worst' (--missing worst) to rank them last, or judge on "
                "units that are scored (--units)."
            )


def _fill(scores: PerRow) -> PerRow:
    """The scores with NaN replaced by -inf, which ranks last."""
    absent = np.isnan(scores)
    return np.where(absent, -math.inf, scores) if absent.any() else scores


def _checked_scores(parts: Parts) -> Iterator[PerRow]:
    """The column of scores; raises at the first NaN."""
    first = 0
    for scores in parts.numbers("score"):
        bad = np.flatnonzero(np.isnan(scores))
        if len(bad):
            raise number_error(
                parts, "score", first + int(bad[0]), math.nan, "hold numbers"
            )
        first += len(scores)
        yield scores


def _same_order(table: ScannedTable, parts: Parts, *, text: bool) -> bool:
    """Whether the scores are in the order of the table."""
    if len(parts) != len(table.parts):
        return False
    both = zip(
        table.parts.ids("input", text=text), parts.ids("input", text=text), strict=True
    )
    return all(bool(np.all(own == other)) for own, other in both)


def _aligned_scores(table: ScannedTable, parts: Parts, *, text: bool) -> Spill:
    """The scores in the order of the table, joined by id in temporary files."""
    number = joins.partitions_for(max(len(parts), len(table.parts)))
    values = joins.partition(table.parts, text=text, partitions=number, scores=None)
    scores = joins.partition(
        parts, text=text, partitions=number, scores=_checked_scores(parts)
    )
    return joins.join(values, scores, parts, len(table.parts))


def _kind(parts: Parts) -> Kind:
    """The value of the column `kind`, the same for all inputs; deployable where there
    is no such column.
    """
    if "kind" not in parts.types:
        return "deployable"
    return one_kind(
        (name for names, _ in parts.id_codes("kind") for name in names), parts.source
    )
