"""Ids of two long tables in any order -> the scores of one in the order of the other, in little memory.

Rows go to partitions by a key of their id, so that equal ids meet in one that fits in memory; what is found there goes
to ranges of rows, which are put in order one after the other. The key of an integer is itself; that of a text is two
independent hashes of 64 bits.
"""

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int, Num, Shaped
from deepval.errors import InputError, reason
from deepval.tables.keys import hashed
from deepval.tables.parts import Parts


class Spill:
    """Rows of one type in a temporary file."""

    def __init__(self, dtype: np.dtype | type) -> None:
        self.dtype, self._rows = np.dtype(dtype), 0
        with _told():
            self._file = tempfile.TemporaryFile(prefix="deepval-")  # noqa: SIM115 - it lives as long as this object
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._rows

    def append(self, rows: Shaped[np.ndarray, "row"]) -> int:
        """Write rows behind the others; returns the number of the first."""
        first = self._rows
        with _told():
            self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
            self._file.flush()
        self._rows += len(rows)
        return first

    def read(self, first: int, number: int) -> Shaped[np.ndarray, "row"]:
        """So many rows from the first on."""
        found = np.empty(number, dtype=self.dtype)
        with _told():
            content = found.data.cast("B") if number else memoryview(b"")
            done = 0
            while done < len(content):
                read = os.preadv(self._file.fileno(), [content[done:]], first * self.dtype.itemsize + done)
                if not read:
                    raise OSError("it ends too early")
                done += read
        return found

    def chunks(self, rows: int) -> Iterator[Shaped[np.ndarray, "row"]]:
        """All rows, so many at a time."""
        for first in range(0, self._rows, rows):
            yield self.read(first, min(rows, self._rows - first))


class GroupedSpill:
    """Rows of one type in groups, all in one temporary file."""

    def __init__(self, dtype: np.dtype | type, groups: int) -> None:
        self._rows, self._places = Spill(dtype), [[] for _ in range(groups)]

    def __len__(self) -> int:
        return len(self._places)

    def add(self, group: Num[np.ndarray, "row"], rows: Shaped[np.ndarray, "row"]) -> None:
        """Put rows into the groups with these numbers."""
        first = self._rows.append(rows[np.argsort(group, kind="stable")])
        number = np.bincount(group, minlength=len(self))
        for each in np.flatnonzero(number):
            self._places[each].append((first, int(number[each])))
            first += int(number[each])

    def read(self, *groups: int) -> Shaped[np.ndarray, "row"]:
        """The rows of some groups, one after the other."""
        pieces = [self._rows.read(*place) for group in groups for place in self._places[group]]
        return np.concatenate([np.empty(0, dtype=self._rows.dtype), *pieces])

    def __iter__(self) -> Iterator[Shaped[np.ndarray, "row"]]:
        return (self.read(group) for group in range(len(self)))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{tempfile.gettempdir()}: must have room for temporary files; {reason(error)}. Set TMPDIR to a folder "
            "that has."
        ) from error


AT_ONCE = 1 << 19
"""Rows of a partition, and of a range of rows, about."""
MOST = 4096
"""Partitions."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MISSING = np.nan
FOUND = np.dtype([("row", np.int64), ("score", np.float64)])


class Twice(NamedTuple):
    """Rows of an id that stands twice: where it stood before, and where again."""

    before: int
    again: int


def keyed(
    parts: Parts, *, text: bool, partitions: int, scores: Iterable[Float[np.ndarray, "row"]] | None
) -> GroupedSpill:
    """The ids of a table by their keys, with the number of each row and, where there are some, its score."""
    kind = [("key", np.int64), ("row", np.int64)]
    kind += ([("other", np.int64)] if text else []) + ([] if scores is None else [("score", np.float64)])
    found = GroupedSpill(np.dtype(kind), partitions)
    numbers = iter(()) if scores is None else iter(scores)
    first = 0
    for ids in parts.ids("input", text=text):
        rows = np.empty(len(ids), dtype=kind)
        rows["key"], rows["row"] = hashed(ids), np.arange(first, first + len(ids))
        if text:
            rows["other"] = hashed(ids, seed=1)
        if scores is not None:
            rows["score"] = next(numbers)
        mixed = rows["key"].view(np.uint64) * GOLDEN >> np.uint64(48)
        found.add((mixed % np.uint64(partitions)).astype(np.uint16), rows)
        first += len(ids)
    return found


def partitions_for(rows: int) -> int:
    """Number of partitions of a table."""
    return min(MOST, -(-rows // AT_ONCE))


def refuse_repeated(found: GroupedSpill, parts: Parts) -> None:
    """Raise where an id stands twice, naming both rows."""
    twice = min((pair for part in found if (pair := _twice(part)) is not None), key=lambda p: p.again, default=None)
    if twice is not None:
        raise InputError(
            f"{parts.source}: input ids must differ; {parts.id_at(twice.again)!r} stands in rows {twice.before + 1} "
            f"and {twice.again + 1}."
        )


def joined(values: GroupedSpill, scores: GroupedSpill, parts: Parts, rows: int) -> Spill:
    """The scores of each of so many rows, NaN where there is none; every scored id must be one of theirs."""
    refuse_repeated(scores, parts)
    size = -(-rows // partitions_for(rows))
    ranges, unknown = GroupedSpill(FOUND, -(-rows // size)), []
    for own, given in zip(values, scores, strict=True):
        at = _positions(given, own)
        known = at >= 0
        unknown.append(given["row"][~known])
        found = np.empty(np.count_nonzero(known), dtype=FOUND)
        found["row"], found["score"] = own["row"][at[known]], given["score"][known]
        ranges.add((found["row"] // size).astype(np.uint16), found)
    absent = np.concatenate(unknown)
    if len(absent):
        row = int(absent.min())
        raise InputError(
            f"{parts.source}: every scored input must be in the table; row {row + 1} (input {parts.id_at(row)!r}) is "
            f"not{f', nor are {len(absent) - 1} more' if len(absent) > 1 else ''}."
        )
    aligned = Spill(np.float64)
    for number, part in enumerate(ranges):
        scored = np.full(min(size, rows - number * size), MISSING)
        scored[part["row"] - number * size] = part["score"]
        aligned.append(scored)
    return aligned


def _names(rows: Shaped[np.ndarray, "row"]) -> tuple[str, ...]:
    return rows.dtype.names or ()


def _same(one: Shaped[np.ndarray, "row"], other: Shaped[np.ndarray, "row"]) -> Shaped[np.ndarray, "row"]:
    same = one["key"] == other["key"]
    return same & (one["other"] == other["other"]) if "other" in _names(one) else same


def _twice(rows: Shaped[np.ndarray, "row"]) -> Twice | None:
    """The first id of a partition that stands again."""
    keys = np.sort(np.ascontiguousarray(rows["key"]))
    if bool(np.all(keys[1:] != keys[:-1])):
        return None
    by = ("row", "other", "key") if "other" in _names(rows) else ("row", "key")
    ordered = rows[np.lexsort([rows[name] for name in by])]
    same = np.flatnonzero(_same(ordered[1:], ordered[:-1]))
    if not len(same):
        return None
    at = same[np.argmin(ordered["row"][same + 1])]
    return Twice(int(ordered["row"][at]), int(ordered["row"][at + 1]))


def _positions(wanted: Shaped[np.ndarray, "wanted"], rows: Shaped[np.ndarray, "row"]) -> Int[np.ndarray, "wanted"]:
    """Where each wanted id stands among rows of different ids, -1 where it does not.

    Both are sorted, so that looking one up in the other goes through memory once.
    """
    if not len(rows):
        return np.full(len(wanted), -1)
    key, asked = (np.ascontiguousarray(each["key"]) for each in (rows, wanted))
    order, rising = np.argsort(key), np.argsort(asked)
    key, at, found = key[order], np.empty(len(asked), dtype=np.int64), np.full(len(wanted), -1)
    at[rising] = np.searchsorted(key, asked[rising])
    still = np.flatnonzero(at < len(key))
    while len(still := still[key[at[still]] == asked[still]]):  # once; again only where texts share their first hash
        here = order[at[still]]
        same = np.ones(len(still), dtype=bool)
        if "other" in _names(rows):
            same = rows["other"][here] == wanted["other"][still]
        found[still[same]] = here[same]
        still = still[~same]
        at[still] += 1
        still = still[at[still] < len(key)]
    return found
