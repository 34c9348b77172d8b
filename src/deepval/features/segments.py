"""Numbers per box, sorted by frame -> one sum, maximum or minimum per frame."""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int


class Segments(NamedTuple):
    """A flat list by frame: row i belongs to `frame[i]`, and frame t has the rows `start[t]` to `start[t + 1]`.

    Rows are added one after the other, so that a plain loop over one frame gives the same bits.
    """

    frame: Int[np.ndarray, "row"]
    start: Int[np.ndarray, "bound"]
    filled: Bool[np.ndarray, "time"]

    @property
    def number(self) -> Int[np.ndarray, "time"]:
        """How many rows each frame has."""
        return np.diff(self.start)

    def total(self, values: np.ndarray) -> Float[np.ndarray, "time"]:
        """Sum over the rows of each frame, 0 where it has none."""
        return np.bincount(self.frame, weights=values, minlength=len(self.filled)).astype(float)

    def mean(self, values: np.ndarray) -> Float[np.ndarray, "time"]:
        """Mean over the rows of each frame, NaN where it has none."""
        return np.where(self.filled, self.total(values) / np.maximum(self.number, 1), np.nan)

    def highest(self, values: np.ndarray, *, empty: float = 0.0) -> Float[np.ndarray, "time"]:
        """Maximum over the rows of each frame, `empty` where it has none."""
        return self._reduced(np.maximum, values, empty)

    def lowest(self, values: np.ndarray, *, empty: float) -> Float[np.ndarray, "time"]:
        """Minimum over the rows of each frame, `empty` where it has none."""
        return self._reduced(np.minimum, values, empty)

    def _reduced(self, ufunc: np.ufunc, values: np.ndarray, empty: float) -> Float[np.ndarray, "time"]:
        result = np.full(len(self.filled), empty)
        if len(values):
            result[self.filled] = ufunc.reduceat(values, self.start[:-1][self.filled])
        return result


def segments(frame: Int[np.ndarray, "row"], frames: int) -> Segments:
    """The segments of a list sorted by frame."""
    start = np.searchsorted(frame, np.arange(frames + 1))
    return Segments(frame, start, start[1:] > start[:-1])
