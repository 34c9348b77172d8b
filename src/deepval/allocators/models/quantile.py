"""A fixed sum of columns -> its rank among the fit inputs: an untrained signal as a share between 0 and 1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.model import Model
from deepval.arrays import Float


@dataclass(frozen=True, eq=False)
class Quantile(Model):
    """Share of the fit inputs whose sum lies below, ties counting half; a gap anywhere in the sum ranks in the middle.

    Attributes:
        weight: Weight of each column in the sum, by its place; they are added in this order.
        reference: Sorted sums of the fit inputs.
        columns: How many numbers a row must have.
    """

    weight: Mapping[int, float]
    reference: Float[np.ndarray, "fit"]
    columns: int

    @classmethod
    def fit(cls, rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]) -> "Quantile":
        """The model whose reference is the sums of the fit rows, gaps left out."""
        sums = _sums(rows, weight)
        return cls(dict(weight), np.sort(sums[~np.isnan(sums)]), rows.shape[1])

    @property
    def width(self) -> int:
        """How many numbers a row must have."""
        return self.columns

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The share for each row."""
        sums = _sums(rows, self.weight)
        below, upto = (np.searchsorted(self.reference, sums, side=side) for side in ("left", "right"))
        shares = (below + upto) / (2 * max(len(self.reference), 1))
        return np.where(np.isnan(sums), 0.5, shares)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        weight = [[place, value] for place, value in self.weight.items()]
        return {"model": "quantile", "columns": self.columns, "weight": weight, "reference": self.reference.tolist()}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Quantile":
        """The model that plain lists and numbers describe."""
        columns, reference = int(content["columns"]), np.array(content["reference"], float)
        weight = {int(place): float(value) for place, value in content["weight"]}
        if not weight or not all(0 <= place < columns for place in weight) or (np.diff(reference) < 0).any():
            raise ValueError("a quantile needs weights of some of its columns and a sorted reference")
        return cls(weight, reference, columns)


def _sums(rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]) -> Float[np.ndarray, "row"]:
    total = np.zeros(len(rows))
    for place, value in weight.items():
        total = total + value * rows[:, place]
    return total
