"""Rows of numbers with gaps -> standardised rows without: zero mean and unit spread on the fit rows, 0 for a gap."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and spread of each column on the fit rows; a column that says nothing there becomes 0 everywhere."""

    mean: Float[np.ndarray, "column"]
    inverse_spread: Float[np.ndarray, "column"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "row column"]) -> "Standard":
        """The figures of the fit rows, gaps left out."""
        known = ~np.isnan(rows)
        number = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, rows, 0.0).sum(axis=0) / number
        spread = np.sqrt(np.where(known, (rows - mean) ** 2, 0.0).sum(axis=0) / number)
        # What is left of a constant column by rounding is no spread.
        spoken = spread > 1e-12 * np.maximum(1.0, np.abs(mean))
        return cls(mean, np.divide(1.0, spread, out=np.zeros_like(spread), where=spoken))

    def applied(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row column"]:
        """The standardised rows."""
        # How the rows lie in memory would else decide the order in which a model adds up.
        scaled = (np.ascontiguousarray(rows) - self.mean) * self.inverse_spread
        return np.where(np.isnan(scaled), 0.0, scaled)
