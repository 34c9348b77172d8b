"""Rows and labels -> linear models: ridge regression on standardised columns, and quantiles of a weighted sum."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.model import Learner, Model, Standard, Task, one_thread
from deepval.arrays import Float
from deepval.errors import InputError


@dataclass(frozen=True, eq=False)
class Quantile(Model):
    """Share of the fit inputs with a smaller sum, ties counting half; a row with a gap in its sum gets 0.5.

    Attributes:
        weight: Column index -> weight in the sum; the columns are added in this order.
        reference: Sorted sums of the fit inputs.
        columns: The length of a row.
    """

    weight: Mapping[int, float]
    reference: Float[np.ndarray, "fit"]
    columns: int

    @classmethod
    def fit(cls, rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]) -> "Quantile":
        """The model with the sums of the fit rows as reference, without gaps."""
        sums = _sums(rows, weight)
        return cls(dict(weight), np.sort(sums[~np.isnan(sums)]), rows.shape[1])

    @property
    def width(self) -> int:
        """The length of a row."""
        return self.columns

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The share for each row."""
        sums = _sums(rows, self.weight)
        below, upto = (np.searchsorted(self.reference, sums, side=side) for side in ("left", "right"))
        shares = (below + upto) / (2 * max(len(self.reference), 1))
        return np.where(np.isnan(sums), 0.5, shares)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        weight = [[column, value] for column, value in self.weight.items()]
        return {"model": "quantile", "columns": self.columns, "weight": weight, "reference": self.reference.tolist()}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Quantile":
        """The model from plain lists and numbers."""
        columns, reference = int(content["columns"]), np.array(content["reference"], float)
        weight = {int(column): float(value) for column, value in content["weight"]}
        if not weight or not all(0 <= column < columns for column in weight) or (np.diff(reference) < 0).any():
            raise ValueError("a quantile needs weights of some of its columns and a sorted reference")
        return cls(weight, reference, columns)


def _sums(rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]) -> Float[np.ndarray, "row"]:
    total = np.zeros(len(rows))
    for column, value in weight.items():
        total = total + value * rows[:, column]
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
        """The model from plain lists and numbers."""
        mean, inverse, weight = (np.array(content[name], float) for name in ("mean", "inverse_spread", "weight"))
        if not mean.shape == inverse.shape == weight.shape or mean.ndim != 1:
            raise ValueError("a linear model needs one mean, spread and weight per column")
        return cls(Standard(mean, inverse), weight, float(content["intercept"]))

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.weight)


@dataclass(frozen=True)
class Ridge(Learner[Linear]):
    """Ridge regression on standardised columns; leave-one-out chooses the penalty among 13 from 1e-2 to 1e4."""

    least_penalty: float = 1e-2
    largest_penalty: float = 1e4
    penalties: int = 13
    bounds = {"least_penalty": (1e-12, 1e12), "largest_penalty": (1e-12, 1e12), "penalties": (1, 1000)}  # noqa: RUF012

    def _fit(self, task: Task) -> Linear:
        """The fitted model; the fit is deterministic."""
        if task.classify:
            raise InputError("A ridge gate regresses; a target with labels 0 and 1 needs another allocator.")
        from sklearn.linear_model import RidgeCV

        standard = Standard.of(task.rows)
        alphas = np.geomspace(self.least_penalty, self.largest_penalty, self.penalties)
        with one_thread():
            model = RidgeCV(alphas=alphas).fit(standard.applied(task.rows), task.labels, sample_weight=task.weights)
        return Linear(standard, np.asarray(model.coef_, float), float(model.intercept_))
