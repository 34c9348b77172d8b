"""Losses and scores in Parquet files larger than memory -> the same checks, digests and
columns, piece by piece.

The checks and digests are those of `values` and `scores`, applied to one column after
the other. Errors count rows over all files. Unit numbers, and scores in another order
than the table, are stored in temporary files.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import (
    Float,
    Int,
    PerRow,
    RowInts,
    RowValues,
    Shaped,
    UnitIds,
)
from deepval.basics.errors import InputError, argument, few
from deepval.basics.progress import Watch, unwatched
from deepval.judge.tables import input_costs, joins
from deepval.judge.tables.chunks import CHUNK, Parts, as_numbers, number_error
from deepval.judge.tables.columns import ESTIMATED, REWARD_PREFIX
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.joins import Spill
from deepval.judge.tables.keys import as_text, positions
from deepval.judge.tables.scores import (
    SCORE_PREFIX,
    Kind,
    Missing,
    one_kind,
    refuse_values,
)
from deepval.judge.tables.values import (
    LARGEST_LOSS,
    chosen_modes,
    integers,
    is_right_or_wrong,
    loss_columns,
    named_units,
    need_of,
    nouns_of,
    warn_of_single_inputs,
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
        unit_ids: Ids of the judged units.
        sizes: Number of inputs of each judged unit.
        units: Number of each row's unit among all units, judged or not.
        unit_index: Index in `unit_ids` of every unit; -1 for units that are not judged.
        largest: The largest absolute loss of a judged input.
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
            cheap, full = [as_numbers(chunk[name]) for name in self.columns]
            if self.rewards:
                cheap, full = 0.0 - cheap, 0.0 - full  # no negative zeros
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
    unit_index = positions(every, judged)
    is_judged = unit_index >= 0
    sizes = np.zeros(len(judged), dtype=np.int64)
    sizes[unit_index[is_judged]] = rows[is_judged]
    inputs = int(sizes.sum())
    if inputs == 0:
        raise InputError(
            f"Named units must hold inputs; none of {few(judged.tolist())} does."
        )
    text = parts.has_text("input")
    is_reward = prefix == REWARD_PREFIX
    reader = _Hashing(
        parts,
        codes,
        unit_index,
        digest=hashlib.sha256("\n".join([*selected, *judged, ""]).encode()),
        step=math.ceil(inputs / SAMPLE),
    )
    reader.hash_ids(text=text)
    sample_unit = reader.hash_units()
    losses = [
        reader.hash_numbers(name, is_reward=is_reward)
        for name in watch(names, "checking losses")
    ]
    for name in ordered:
        reader.hash_numbers(name)
    lowest = min(column.lowest for column in losses)
    highest = max(column.highest for column in losses)
    is_graded = all(column.is_graded for column in losses)
    estimated = None
    if ESTIMATED in parts.types:
        estimated = str(parts.head().data[ESTIMATED][0])
    if len(every) == len(parts):
        warn_of_single_inputs(every, every, parts.source, nouns_of(parts.head()))
    return ScannedTable(
        parts=parts,
        modes=selected,
        columns=names,
        rewards=is_reward,
        costs=None if costs is None else Costs.of(costs),
        unit_ids=judged,
        sizes=sizes,
        units=codes,
        unit_index=unit_index,
        largest=max(highest, -lowest),
        # As in memory: all of them 0 or 1, or all of them 0 or -1.
        is_right_or_wrong=is_graded and (lowest >= 0 or highest <= 0),
        digest=reader.digest.hexdigest(),
        step=reader.step,
        sample_losses=(losses[0].sample, losses[-1].sample),
        sample_unit=sample_unit,
        text=text,
        estimated=estimated,
    )


def _refuse_what_needs_memory(
    parts: Parts, available: Sequence[str], selected: Sequence[str]
) -> None:
    """Raise where a table cannot be judged piece by piece."""
    if len(selected) > 2:
        raise InputError(
            f"{parts.source}: more than two modes ({', '.join(selected)}) need the "
            f"table in memory: name two, cheap first ({argument('modes')}), or allow "
            f"more: {argument('memory', '8GB')}."
        )
    for by_mode in input_costs.cost_columns(parts.types, available).values():
        name = next(iter(by_mode.values()))
        raise InputError(
            f"{parts.source}: costs per input ({name}) need the table in memory: leave "
            f"those columns out and give one cost per mode ({argument('costs')}), or "
            f"allow more: {argument('memory', '8GB')}."
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


class _Numbers(NamedTuple):
    """What is known of a column after one reading, over its judged rows.

    Attributes:
        sample: The numbers in the sample.
        lowest: The lowest number.
        highest: The highest number.
        is_graded: Whether all numbers are 0 or 1, or -1.
    """

    sample: Float[np.ndarray, "sampled"]
    lowest: float
    highest: float
    is_graded: bool


@dataclass(eq=False)
class _Hashing:
    """Reads columns of a table to hash and check them; rows of units that are not
    judged are only checked.
    """

    parts: Parts
    codes: Spill
    unit_index: Int[np.ndarray, "every"]
    digest: Any
    step: int

    def _units(self) -> Iterator[RowInts]:
        return (self.unit_index[codes] for codes in self.codes.chunks(CHUNK))

    def hash_ids(self, *, text: bool) -> None:
        """Add the ids to the digest; they must differ.

        Text ids that spell integers are hashed as integers. Whether all ids do is
        certain only at the end, so both digests are computed.
        """
        spelled = self.digest.copy()
        all_integers = True
        is_ascending = True
        separator = ""
        last = None
        for ids, unit in zip(
            self.parts.ids("input", text=text), self._units(), strict=True
        ):
            follows = last is None or bool(ids[0] > last)
            is_ascending &= follows and bool(np.all(ids[1:] > ids[:-1]))
            last = ids[-1]
            judged = ids[unit >= 0]
            if len(judged) == 0:
                continue
            numbers = integers(judged) if all_integers else None
            if numbers is None:
                all_integers = False
            else:
                self.digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
            if text:
                spelled.update((separator + "\n".join(judged)).encode())
                separator = "\n"
        # Ascending ids differ; others are compared in temporary files.
        if not is_ascending:
            number = joins.partitions_for(len(self.parts))
            ids_by_key = joins.partition(
                self.parts, text=text, partitions=number, scores=None
            )
            joins.refuse_repeated(ids_by_key, self.parts)
        if not all_integers:
            self.digest = spelled

    def hash_units(self) -> Int[np.ndarray, "sampled"]:
        """Add the units of the judged rows to the digest; returns the units of the
        sample.
        """
        first = 0
        sample = []
        for unit in self._units():
            judged = unit[unit >= 0]
            self.digest.update(judged.astype("<i4").data)
            sample.append(thin(judged, first, self.step))
            first += len(judged)
        return np.concatenate(sample)

    def hash_numbers(self, name: str, *, is_reward: bool = False) -> _Numbers:
        """Add a column of finite numbers to the digest."""
        row = first = 0
        lowest = highest = 0.0
        is_graded = True
        sample = []
        for column, unit in zip(self.parts.numbers(name), self._units(), strict=True):
            if not (column.min() >= -LARGEST_LOSS and column.max() <= LARGEST_LOSS):
                bad = int(np.argmin(np.abs(column) <= LARGEST_LOSS))
                value = float(column[bad])
                raise number_error(self.parts, name, row + bad, value, need_of(value))
            row += len(column)
            judged = unit >= 0
            numbers = column if judged.all() else column[judged]
            if is_reward:
                numbers = 0.0 - numbers
            self.digest.update(np.ascontiguousarray(numbers, dtype="<f8").data)
            lowest = float(numbers.min(initial=lowest))
            highest = float(numbers.max(initial=highest))
            is_graded = is_graded and is_right_or_wrong(numbers)
            sample.append(thin(numbers, first, self.step))
            first += len(numbers)
        return _Numbers(np.concatenate(sample), lowest, highest, is_graded)


def thin(column: RowValues, first: int, step: int) -> Shaped[np.ndarray, "sampled"]:
    """The rows of a piece whose number is a multiple of `step`; the piece starts with
    row `first`.
    """
    return column[-first % step :: step].copy()


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
            f"them to a file, or allow more: {argument('memory', '8GB')}."
        )
    parts = Parts.of(Path(source), name)
    refuse_values(parts.types, parts.source)
    if "score" not in parts.types and any(
        column.startswith(SCORE_PREFIX) for column in parts.types
    ):
        raise InputError(
            f"{parts.source}: scores per mode ({SCORE_PREFIX}<mode>) need the table "
            "in memory: give one column 'score', or allow more: "
            f"{argument('memory', '8GB')}."
        )
    parts.require("input", "score")
    text = table.text or parts.has_text("input")
    aligned = None
    chunks = _checked_scores(parts)
    if not _same_order(table, parts, text=text):
        aligned = _aligned_scores(table, parts, text=text)
        chunks = aligned.chunks(CHUNK)
    digest = hashlib.sha256()
    sample = []
    row = first = number_absent = 0
    first_absent = None
    for score, unit in zip(chunks, table.unit(), strict=True):
        judged = unit >= 0
        absent = np.flatnonzero(np.isnan(score) & judged)
        if len(absent) > 0 and first_absent is None:
            first_absent = row + int(absent[0])
        number_absent += len(absent)
        judged_scores = _fill(score if judged.all() else score[judged])
        digest.update(np.ascontiguousarray(judged_scores, dtype="<f8").data)
        sample.append(thin(judged_scores, first, table.step))
        row += len(score)
        first += len(judged_scores)
    if first_absent is not None and missing == "error":
        others = f", nor have {number_absent - 1} more" if number_absent > 1 else ""
        raise InputError(
            f"{name}: every input needs a score; input "
            f"{table.parts.id_at(first_absent)!r} has none{others}. Use "
            f"{argument('missing', 'worst')} to rank them last, or judge on units "
            f"that are scored ({argument('units')})."
        )
    return ScannedScores(
        name=name,
        parts=parts,
        aligned=aligned,
        covered=1 - number_absent / len(table),
        digest=digest.hexdigest(),
        sample=np.concatenate(sample),
        kind=_kind(parts),
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
