"""Ids of two long tables in any order -> the scores of one in the order of the other,
in bounded memory.

Rows go to partitions by a key of their id, so that equal ids meet in one partition,
which fits in memory. Matches go to ranges of rows, which are sorted one after the
other. An integer is its own key; the key of a text is two independent hashes of 64
bits.
"""

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Int, Num, PerRow, RowValues, Shaped
from deepval.basics.errors import InputError, reason
from deepval.judge.tables.chunks import Parts
from deepval.judge.tables.keys import keys_of


class Spill:
    """Rows of one type in a temporary file."""

    def __init__(self, dtype: np.dtype | type) -> None:
        self.dtype, self._rows = np.dtype(dtype), 0
        if not hasattr(os, "preadv"):
            raise InputError(
                "Tables are read piece by piece on Linux and macOS alone: allow more "
                "memory, or use those."
            )
        with _temporary_file_errors():
            self._file = tempfile.TemporaryFile(prefix="deepval-")  # noqa: SIM115 - it lives as long as this object
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._rows

    def append(self, rows: RowValues) -> int:
        """Append rows; returns the number of the first one."""
        first = self._rows
        with _temporary_file_errors():
            self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
            self._file.flush()
        self._rows += len(rows)
        return first

    def read(self, first: int, number: int) -> RowValues:
        """`number` rows, starting with row `first`."""
        rows = np.empty(number, dtype=self.dtype)
        with _temporary_file_errors():
            content = rows.data.cast("B") if number else memoryview(b"")
            done = 0
            while done < len(content):
                count = os.preadv(
                    self._file.fileno(),
                    [content[done:]],
                    first * self.dtype.itemsize + done,
                )
                if not count:
                    raise OSError("it ends too early")
                done += count
        return rows

    def chunks(self, rows: int) -> Iterator[RowValues]:
        """All rows, `rows` at a time."""
        for first in range(0, self._rows, rows):
            yield self.read(first, min(rows, self._rows - first))


class GroupedSpill:
    """Rows of one type in groups, all in one temporary file."""

    def __init__(self, dtype: np.dtype | type, groups: int) -> None:
        self._rows, self._segments = Spill(dtype), [[] for _ in range(groups)]

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, group: Num[np.ndarray, "row"], rows: RowValues) -> None:
        """Put rows into the groups with these numbers."""
        first = self._rows.append(rows[np.argsort(group, kind="stable")])
        number = np.bincount(group, minlength=len(self))
        for index in np.flatnonzero(number):
            self._segments[index].append((first, int(number[index])))
            first += int(number[index])

    def read(self, *groups: int) -> RowValues:
        """The rows of some groups, one after the other."""
        pieces = [
            self._rows.read(*segment)
            for group in groups
            for segment in self._segments[group]
        ]
        return np.concatenate([np.empty(0, dtype=self._rows.dtype), *pieces])

    def __iter__(self) -> Iterator[RowValues]:
        return (self.read(group) for group in range(len(self)))


@contextmanager
def _temporary_file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{tempfile.gettempdir()}: must have room for temporary files; "
            f"{reason(error)}. Set TMPDIR to a folder that has."
        ) from error


AT_ONCE = 1 << 19
"""Approximate number of rows of a partition, and of a range of rows."""
MOST = 4096
"""Largest number of partitions."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MISSING = np.nan
SCORED = np.dtype([("row", np.int64), ("score", np.float64)])


class Twice(NamedTuple):
    """The two rows of a repeated id, the earlier one first."""

    before: int
    again: int


def partition(
    parts: Parts,
    *,
    text: bool,
    partitions: int,
    scores: Iterable[PerRow] | None,
) -> GroupedSpill:
    """The ids of a table, partitioned by their keys, with the number of each row and,
    optionally, its score.
    """
    kind = [("key", np.int64), ("row", np.int64)]
    kind += ([("other", np.int64)] if text else []) + (
        [] if scores is None else [("score", np.float64)]
    )
    spill = GroupedSpill(np.dtype(kind), partitions)
    numbers = iter(()) if scores is None else iter(scores)
    first = 0
    for ids in parts.ids("input", text=text):
        rows = np.empty(len(ids), dtype=kind)
        rows["key"], rows["row"] = keys_of(ids), np.arange(first, first + len(ids))
        if text:
            rows["other"] = keys_of(ids, seed=1)
        if scores is not None:
            rows["score"] = next(numbers)
        # Fibonacci hashing: the high bits spread consecutive integers evenly over the
        # partitions.
        mixed = rows["key"].view(np.uint64) * GOLDEN >> np.uint64(48)
        spill.add((mixed % np.uint64(partitions)).astype(np.uint16), rows)
        first += len(ids)
    return spill


def partitions_for(rows: int) -> int:
    """Number of partitions of a table."""
    return min(MOST, -(-rows // AT_ONCE))


def refuse_repeated(groups: GroupedSpill, parts: Parts) -> None:
    """Raise where an id is repeated, naming both rows."""
    twice = min(
        (pair for part in groups if (pair := _first_repeat(part)) is not None),
        key=lambda p: p.again,
        default=None,
    )
    if twice is not None:
        raise InputError(
            f"{parts.source}: input ids must differ; {parts.id_at(twice.again)!r} "
            f"stands in rows {twice.before + 1} and {twice.again + 1}."
        )


def join(values: GroupedSpill, scores: GroupedSpill, parts: Parts, rows: int) -> Spill:
    """The score of each of `rows` rows of the table, NaN where missing; every scored id
    must be in the table.
    """
    refuse_repeated(scores, parts)
    size = -(-rows // partitions_for(rows))
    ranges, unknown = GroupedSpill(SCORED, -(-rows // size)), []
    for valued, scored in zip(values, scores, strict=True):
        position = _positions(scored, valued)
        matched = position >= 0
        unknown.append(scored["row"][~matched])
        matches = np.empty(np.count_nonzero(matched), dtype=SCORED)
        matches["row"], matches["score"] = (
            valued["row"][position[matched]],
            scored["score"][matched],
        )
        ranges.add((matches["row"] // size).astype(np.uint16), matches)
    absent = np.concatenate(unknown)
    if len(absent):
        row = int(absent.min())
        raise InputError(
            f"{parts.source}: every scored input must be in the table; row {row + 1} "
            "(input "
            f"{parts.id_at(row)!r}) "
            f"is not{f', nor are {len(absent) - 1} more' if len(absent) > 1 else ''}."
        )
    aligned = Spill(np.float64)
    for number, part in enumerate(ranges):
        column = np.full(min(size, rows - number * size), MISSING)
        column[part["row"] - number * size] = part["score"]
        aligned.append(column)
    return aligned


def _field_names(rows: RowValues) -> tuple[str, ...]:
    return rows.dtype.names or ()


def _equal_ids(one: RowValues, other: RowValues) -> RowValues:
    same = one["key"] == other["key"]
    return (
        same & (one["other"] == other["other"])
        if "other" in _field_names(one)
        else same
    )


def _first_repeat(rows: RowValues) -> Twice | None:
    """The first repeated id of a partition."""
    keys = np.sort(np.ascontiguousarray(rows["key"]))
    if bool(np.all(keys[1:] != keys[:-1])):
        return None
    by = ("row", "other", "key") if "other" in _field_names(rows) else ("row", "key")
    ordered = rows[np.lexsort([rows[name] for name in by])]
    same = np.flatnonzero(_equal_ids(ordered[1:], ordered[:-1]))
    if not len(same):
        return None
    at = same[np.argmin(ordered["row"][same + 1])]
    return Twice(int(ordered["row"][at]), int(ordered["row"][at + 1]))


def _positions(
    queries: Shaped[np.ndarray, "query"], rows: RowValues
) -> Int[np.ndarray, "query"]:
    """Index of each queried id among rows of distinct ids; -1 where it is absent.

    Both sides are sorted, so the lookup passes through memory once.
    """
    if not len(rows):
        return np.full(len(queries), -1)
    key, query_key = (np.ascontiguousarray(side["key"]) for side in (rows, queries))
    order, query_order = np.argsort(key), np.argsort(query_key)
    key, candidate, positions = (
        key[order],
        np.empty(len(query_key), dtype=np.int64),
        np.full(len(queries), -1),
    )
    candidate[query_order] = np.searchsorted(key, query_key[query_order])
    pending = np.flatnonzero(candidate < len(key))
    # A second pass is needed only where different texts share their first hash.
    while len(pending := pending[key[candidate[pending]] == query_key[pending]]):
        match = order[candidate[pending]]
        same = np.ones(len(pending), dtype=bool)
        if "other" in _field_names(rows):
            same = rows["other"][match] == queries["other"][pending]
        positions[pending[same]] = match[same]
        pending = pending[~same]
        candidate[pending] += 1
        pending = pending[candidate[pending] < len(key)]
    return positions
