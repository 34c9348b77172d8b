"""Arrays that grow beyond memory -> a temporary file, a piece of which is read at a time.

The file has no name: nothing is left of it when the process ends, however it ends.
"""

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from deepval.arrays import Num, Shaped
from deepval.errors import InputError, reason


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
