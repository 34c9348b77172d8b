"""Losses and scores in Parquet files larger than memory -> the same checks, digests and columns, piece by piece.

What `values` and `scores` say of a table in memory is said here column by column, each read from its file in turn;
complaints count rows over all files. Units and scores that stand in another order lie in temporary files meanwhile.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Float, Int, Shaped
from deepval.errors import InputError
from deepval.progress import Watch, unwatched
from deepval.tables import input_costs, joining
from deepval.tables.columns import as_text
from deepval.tables.costs import Costs
from deepval.tables.joining import Spill
from deepval.tables.parts import CHUNK, Parts, as_numbers, told
from deepval.tables.scores import SCORE_PREFIX, Kind, Missing
from deepval.tables.values import (
    ESTIMATED,
    LARGEST_LOSS,
    LOSS_PREFIX,
    REWARD_PREFIX,
    chosen_modes,
    integers,
    loss_columns,
    named_units,
    some,
    warn_of_frames,
)

SAMPLE = 1 << 18
"""Judged inputs that are looked at beforehand, to know where cuts will fall."""


@dataclass(frozen=True, eq=False)
class ScannedTable:
    """A table of losses that stays in its files.

    Attributes:
        parts: The files.
        modes: Names of the two modes, cheap and full.
        columns: Columns of their losses, or rewards.
        rewards: Whether they are rewards.
        costs: What each mode costs, where known.
        every_unit: Ids of all units, sorted as text.
        unit_ids: Ids of those that are judged.
        sizes: Number of inputs of each of them.
        units: Position in `every_unit` of each row's unit.
        place: Position in `unit_ids` of every unit, -1 of those that are not judged.
        largest: The largest loss in size.
        digest: SHA-256 of what is judged, as that of a table in memory.
        step: One judged input in so many is in the sample.
        sample: Decision values of the sample.
        sample_unit: Units of the sample.
        text: Whether ids are text.
        estimated: How losses were estimated where they were not measured.
    """

    parts: Parts
    modes: tuple[str, ...]
    columns: tuple[str, ...]
    rewards: bool
    costs: Costs | None
    every_unit: Shaped[np.ndarray, "every"]
    unit_ids: Shaped[np.ndarray, "unit"]
    sizes: Int[np.ndarray, "unit"]
    units: Spill
    place: Int[np.ndarray, "every"]
    largest: float
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
        """Decision values of some inputs."""
        return self.sample_losses[0] - self.sample_losses[1]

    def unit(self) -> Iterator[Int[np.ndarray, "row"]]:
        """The unit of each row, CHUNK rows at a time; -1 where it is not judged."""
        return (self.place[codes] for codes in self.units.chunks(CHUNK))

    def losses(self) -> Iterator[tuple[Float[np.ndarray, "row"], Float[np.ndarray, "row"]]]:
        """Losses of both modes, CHUNK rows at a time."""
        for chunk in self.parts.chunks(*self.columns):
            cheap, full = (_loss(as_numbers(chunk[name]), rewards=self.rewards) for name in self.columns)
            yield cheap, full


def scan_values(
    source: Path,
    *,
    modes: Sequence[str] | None = None,
    costs: Any = None,
    units: Sequence[str] | None = None,
    watch: Watch = unwatched,
) -> ScannedTable:
    """The table in a Parquet file or a folder of them, of which these units are judged, or all."""
    parts = Parts.of(source)
    prefix, given = loss_columns(parts.types, parts.source)
    parts.require("unit", "input")
    wanted = chosen_modes(given, modes, parts.source)
    names = tuple(f"{prefix}{mode}" for mode in wanted)
    _refuse_what_needs_memory(parts, given, wanted)
    ordered = ("order",) if "order" in parts.types else ()
    parts.check_numbers(*names, *ordered)
    every, codes, rows = _units(parts)
    judged = every if units is None else named_units(units, every)
    place = np.searchsorted(judged, every)
    place = np.where(judged[np.minimum(place, len(judged) - 1)] == every, place, -1)
    sizes = np.bincount(place[place >= 0], weights=rows[place >= 0], minlength=len(judged)).astype(np.int64)
    if not sizes.sum():
        raise InputError(f"Named units must hold inputs; none of {some(judged)} does.")
    text = parts.has_text("input")
    reader = _Hashing(parts, codes, place, step=math.ceil(int(sizes.sum()) / SAMPLE))
    digest = hashlib.sha256("\n".join([*wanted, *judged, ""]).encode())
    digest = reader.hash_ids(digest, text=text)
    sample_unit = reader.hash_units(digest)
    largest, samples = 0.0, []
    for name in watch(names, "checking losses"):
        size, sample = reader.hash_losses(digest, name, rewards=prefix == REWARD_PREFIX)
        largest, samples = max(largest, size), [*samples, sample]
    for name in ordered:
        reader.hash_losses(digest, name)
    if len(every) == len(parts):
        warn_of_frames(every, every, parts.source)
    return ScannedTable(
        parts=parts,
        modes=wanted,
        columns=names,
        rewards=prefix == REWARD_PREFIX,
        costs=None if costs is None else Costs.of(costs),
        every_unit=every,
        unit_ids=judged,
        sizes=sizes,
        units=codes,
        place=place,
        largest=largest,
        digest=digest.hexdigest(),
        step=reader.step,
        sample_losses=(samples[0], samples[-1]),
        sample_unit=sample_unit,
        text=text,
        estimated=str(next(iter(parts.chunks(ESTIMATED)))[ESTIMATED][0].as_py()) if ESTIMATED in parts.types else None,
    )


def _refuse_what_needs_memory(parts: Parts, given: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise where a table cannot be judged piece by piece."""
    if len(wanted) > 2:
        raise InputError(
            f"{parts.source}: more than two modes ({', '.join(wanted)}) need the table in memory: name two, cheap "
            "first (modes=[...], --modes), or allow more memory (--memory)."
        )
    priced = [name for named in input_costs.found_in(parts.types, given).values() for name in named.values()]
    if priced:
        raise InputError(
            f"{parts.source}: costs per input ({priced[0]}) need the table in memory: leave those columns out and give "
            "one cost per mode (--costs), or allow more memory (--memory)."
        )


def _units(parts: Parts) -> tuple[Shaped[np.ndarray, "unit"], Spill, Int[np.ndarray, "unit"]]:
    """All units sorted as text, the position of each row's among them, and the number of rows of each."""
    seen: dict[str, int] = {}
    found = Spill(np.int32)
    for names, codes in parts.grouped("unit"):
        number = np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int32)
        found.append(number[codes])
    ids = as_text(np.array(list(seen)))
    order = np.argsort(ids, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    ranked, rows = Spill(np.int32), np.zeros(len(ids), dtype=np.int64)
    for codes in found.chunks(CHUNK):
        place = rank[codes]
        ranked.append(place)
        rows += np.bincount(place, minlength=len(ids))
    return ids[order], ranked, rows


@dataclass(frozen=True, eq=False)
class _Hashing:
    """Reads columns of a table to hash and check them; rows of units that are not judged are only checked."""

    parts: Parts
    codes: Spill
    place: Int[np.ndarray, "every"]
    step: int

    def judged(self) -> Iterator[Shaped[np.ndarray, "row"]]:
        return (self.place[codes] >= 0 for codes in self.codes.chunks(CHUNK))

    def hash_ids(self, digest: Any, *, text: bool) -> Any:
        """The digest with the ids in it, which must differ; text of whole numbers counts as those."""
        spelled, whole, begun, ascending, last = digest.copy(), True, False, True, None
        for ids, judged in zip(self.parts.ids("input", text=text), self.judged(), strict=True):
            ascending = ascending and bool(np.all(ids[1:] > ids[:-1])) and (last is None or bool(ids[0] > last))
            last = ids[-1]
            kept = ids if judged.all() else ids[judged]
            if not len(kept):
                continue
            numbers = integers(kept) if whole else None
            whole = numbers is not None
            if numbers is not None:
                digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
            if text:
                spelled.update((("\n" if begun else "") + "\n".join(kept)).encode())
            begun = True
        if not ascending:
            keyed = joining.keyed(
                self.parts, text=text, partitions=joining.partitions_for(len(self.parts)), scores=None
            )
            joining.refuse_repeated(keyed, self.parts)
        return digest if whole else spelled

    def hash_units(self, digest: Any) -> Int[np.ndarray, "sampled"]:
        """Add the units of rows to the digest; returns those of the sample."""
        first, sample = 0, []
        for codes in self.codes.chunks(CHUNK):
            unit = self.place[codes]
            kept = unit[unit >= 0]
            digest.update(kept.astype("<i4").data)
            sample.append(thinned(kept, first, self.step))
            first += len(kept)
        return np.concatenate(sample)

    def hash_losses(
        self, digest: Any, name: str, *, rewards: bool = False
    ) -> tuple[float, Float[np.ndarray, "sampled"]]:
        """Add a column to the digest, which must be finite; returns the largest size in it, and the sample."""
        row, first, largest, sample = 0, 0, 0.0, []
        for column, judged in zip(self.parts.numbers(name), self.judged(), strict=True):
            if not (column.min() >= -LARGEST_LOSS and column.max() <= LARGEST_LOSS):
                bad = np.flatnonzero(~(np.abs(column) <= LARGEST_LOSS))
                value = float(column[bad[0]])
                need = f"be at most {LARGEST_LOSS:g} in size" if np.isfinite(value) else "be finite"
                raise told(self.parts, name, row + int(bad[0]), value, need)
            kept = _loss(column if judged.all() else column[judged], rewards=rewards)
            digest.update(np.ascontiguousarray(kept, dtype="<f8").data)
            largest = max(largest, float(max(column.max(), -column.min())))
            sample.append(thinned(kept, first, self.step))
            row, first = row + len(column), first + len(kept)
        return largest, np.concatenate(sample)


def thinned(column: Shaped[np.ndarray, "row"], first: int, step: int) -> Shaped[np.ndarray, "sampled"]:
    """One row in `step` of all, of a piece that starts with row `first`."""
    return column[-first % step :: step].copy()


def _loss(column: Float[np.ndarray, "row"], *, rewards: bool) -> Float[np.ndarray, "row"]:
    return 0.0 - column if rewards else column  # no negative zeros


@dataclass(frozen=True, eq=False)
class ScannedScores:
    """Scores that stay in their files, or in a temporary one in the order of the table.

    Attributes:
        name: The allocator's name.
        parts: The files.
        aligned: The scores in the order of the table, NaN where there is none; None where the files have that order.
        covered: Share of the judged inputs that came with a score.
        digest: SHA-256 of the scores of the judged inputs.
        sample: Those of the table's sample.
        kind: Whether a vehicle could compute them.
    """

    name: str
    parts: Parts
    aligned: Spill | None
    covered: float
    digest: str
    sample: Float[np.ndarray, "sampled"]
    kind: Kind

    def chunks(self) -> Iterator[Float[np.ndarray, "row"]]:
        """The score of each row of the table, CHUNK rows at a time; inputs without one are ranked last."""
        if self.aligned is None:
            return self.parts.numbers("score")
        return (_filled(chunk) for chunk in self.aligned.chunks(CHUNK))


def scan_scores(
    table: ScannedTable, scores: Mapping[str, Any], missing: Missing, watch: Watch = unwatched
) -> list[ScannedScores]:
    """Every allocator's scores in Parquet files, aligned with the table by id."""
    return [_scan(table, name, scores[name], missing) for name in watch(list(scores), "aligning scores")]


def _scan(table: ScannedTable, name: str, source: Any, missing: Missing) -> ScannedScores:
    if not isinstance(source, str | Path):
        raise InputError(
            f"{name}: scores of a table that is read piece by piece must be a .parquet file or a folder of them; found "
            f"{type(source).__name__}. Write them to a file, or allow more memory (--memory)."
        )
    parts = Parts.of(Path(source), name)
    if "score" not in parts.types and any(column.startswith((LOSS_PREFIX, REWARD_PREFIX)) for column in parts.types):
        raise InputError(
            f"{parts.source}: scores are needed here (input, score), and this looks like values: it has "
            f"{', '.join(parts.types)}. Are values and scores exchanged? Values come first, scores after -s."
        )
    if "score" not in parts.types and any(column.startswith(SCORE_PREFIX) for column in parts.types):
        raise InputError(
            f"{parts.source}: scores per mode ({SCORE_PREFIX}<mode>) need the table in memory: give one column "
            "'score', or allow more memory (--memory)."
        )
    parts.require("input", "score")
    text = table.text or parts.has_text("input")
    aligned = None if _same_order(table, parts, text=text) else _joined(table, parts, text=text)
    digest, lacking, row, first, sample = hashlib.sha256(), _Lacking(table), 0, 0, []
    for score, unit in zip(_whole(parts) if aligned is None else aligned.chunks(CHUNK), table.unit(), strict=True):
        if aligned is not None:
            lacking.note(score, unit, row)
        kept = _filled(score if (unit >= 0).all() else score[unit >= 0])
        digest.update(np.ascontiguousarray(kept, dtype="<f8").data)
        sample.append(thinned(kept, first, table.step))
        row, first = row + len(score), first + len(kept)
    if missing == "error":
        lacking.refuse(name)
    covered = 1 - lacking.number / len(table)
    return ScannedScores(name, parts, aligned, covered, digest.hexdigest(), np.concatenate(sample), _kind(parts))


@dataclass
class _Lacking:
    """Judged inputs without a score."""

    table: ScannedTable
    first: int | None = None
    number: int = 0

    def note(self, score: Float[np.ndarray, "row"], unit: Int[np.ndarray, "row"], row: int) -> None:
        absent = np.flatnonzero(np.isnan(score) & (unit >= 0))
        if len(absent) and self.first is None:
            self.first = row + int(absent[0])
        self.number += len(absent)

    def refuse(self, name: str) -> None:
        if self.first is not None:
            raise InputError(
                f"{name}: every input needs a score; input {self.table.parts.id_at(self.first)!r} has none"
                f"{f', nor have {self.number - 1} more' if self.number > 1 else ''}. Use missing='worst' (--missing "
                "worst) to rank them last, or judge on units that are scored (--units)."
            )


def _filled(scores: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
    """Inputs without a score, if any, ranked last."""
    absent = np.isnan(scores)
    return np.where(absent, -math.inf, scores) if absent.any() else scores


def _whole(parts: Parts) -> Iterator[Float[np.ndarray, "row"]]:
    """The column of scores, which must be numbers."""
    first = 0
    for scores in parts.numbers("score"):
        bad = np.flatnonzero(np.isnan(scores))
        if len(bad):
            raise told(parts, "score", first + int(bad[0]), math.nan, "hold numbers")
        first += len(scores)
        yield scores


def _same_order(table: ScannedTable, parts: Parts, *, text: bool) -> bool:
    """Whether scores stand in the order of the table."""
    if len(parts) != len(table.parts):
        return False
    both = zip(table.parts.ids("input", text=text), parts.ids("input", text=text), strict=True)
    return all(bool(np.all(own == given)) for own, given in both)


def _joined(table: ScannedTable, parts: Parts, *, text: bool) -> Spill:
    number = joining.partitions_for(max(len(parts), len(table.parts)))
    values = joining.keyed(table.parts, text=text, partitions=number, scores=None)
    scores = joining.keyed(parts, text=text, partitions=number, scores=_whole(parts))
    return joining.joined(values, scores, parts, len(table.parts))


def _kind(parts: Parts) -> Kind:
    """What a column `kind` says of all inputs; deployable where there is none."""
    if "kind" not in parts.types:
        return "deployable"
    kinds = {name for names, _ in parts.grouped("kind") for name in names}
    if kinds not in ({"deployable"}, {"diagnostic"}):
        raise InputError(
            f"{parts.source}: column 'kind' must say 'deployable' or 'diagnostic', the same for every input; found "
            f"{', '.join(sorted(kinds)[:3])}."
        )
    return "diagnostic" if kinds == {"diagnostic"} else "deployable"
