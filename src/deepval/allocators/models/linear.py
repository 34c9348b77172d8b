"""Ridge regression -> a weighted sum of standardised columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.model import Learner, Model, Standard, one_thread
from deepval.arrays import Float
from deepval.errors import InputError


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


@dataclass(frozen=True, eq=False)
class Linear(Model):
    """intercept + sum of weight x standardised column."""

    standard: Standard
    weight: Float[np.ndarray, "column"]
    intercept: float

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        return self.intercept + np.einsum("rc,c->r", self.standard.applied(rows), self.weight)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        return {
            "model": "linear",
            "mean": self.standard.mean.tolist(),
            "inverse_spread": self.standard.inverse_spread.tolist(),
            "weight": self.weight.tolist(),
            "intercept": self.intercept,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Linear":
        """The model that plain lists and numbers describe."""
        mean, inverse, weight = (np.array(content[name], float) for name in ("mean", "inverse_spread", "weight"))
        if not mean.shape == inverse.shape == weight.shape or mean.ndim != 1:
            raise ValueError("a linear model needs one mean, spread and weight per column")
        return cls(Standard(mean, inverse), weight, float(content["intercept"]))

    @property
    def width(self) -> int:
        """How many numbers a row must have."""
        return len(self.weight)


@dataclass(frozen=True)
class Ridge(Learner):
    """Ridge regression on standardised columns; the penalty is that of 13 from 1e-2 to 1e4 that leave-one-out likes."""

    least_penalty: float = 1e-2
    largest_penalty: float = 1e4
    penalties: int = 13
    bounds = {"least_penalty": (1e-12, 1e12), "largest_penalty": (1e-12, 1e12), "penalties": (1, 1000)}  # noqa: RUF012

    def fit(
        self,
        rows: Float[np.ndarray, "row column"],
        labels: Float[np.ndarray, "row"],
        *,
        classify: bool,
        weights: Float[np.ndarray, "row"] | None = None,
        seed: int = 0,
    ) -> Linear:
        """The fitted model; nothing in it is random."""
        if classify:
            raise InputError("A ridge gate regresses; a target with labels 0 and 1 needs another allocator.")
        from sklearn.linear_model import RidgeCV

        standard = Standard.of(rows)
        alphas = np.geomspace(self.least_penalty, self.largest_penalty, self.penalties)
        with one_thread():
            model = RidgeCV(alphas=alphas).fit(standard.applied(rows), labels, sample_weight=weights)
        return Linear(standard, np.asarray(model.coef_, float), float(model.intercept_))
