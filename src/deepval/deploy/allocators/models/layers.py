"""Rows and labels -> models of weighted sums: ridge regression, quantiles of a sum, and
a network of a few layers.

Scikit-learn fits ridge and network; the predictions need NumPy only.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, library
from deepval.deploy.allocators.models.model import (
    Learner,
    Link,
    Model,
    Standard,
    Task,
    apply_link,
    link_of,
    one_thread,
)


@dataclass(frozen=True, eq=False)
class Quantile(Model):
    """Share of the fit inputs with a smaller sum, ties counting half; a row with a gap
    in its sum gets 0.5.

    Attributes:
        weight: Column index -> weight in the sum; the columns are added in this order.
        reference: Sorted sums of the fit inputs.
        columns: The length of a row.
    """

    weight: Mapping[int, float]
    reference: Float[np.ndarray, "fit"]
    columns: int

    @classmethod
    def fit(
        cls, rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]
    ) -> "Quantile":
        """The model with the sums of the fit rows as reference, without gaps."""
        sums = _sums(rows, weight)
        return cls(dict(weight), np.sort(sums[~np.isnan(sums)]), rows.shape[1])

    @property
    def width(self) -> int:
        """The length of a row."""
        return self.columns

    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The share for each row."""
        sums = _sums(rows, self.weight)
        below, upto = (
            np.searchsorted(self.reference, sums, side=side)
            for side in ("left", "right")
        )
        shares = (below + upto) / (2 * max(len(self.reference), 1))
        return np.where(np.isnan(sums), 0.5, shares)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        weight = [[column, value] for column, value in self.weight.items()]
        return {
            "model": "quantile",
            "columns": self.columns,
            "weight": weight,
            "reference": self.reference.tolist(),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Quantile":
        """The model from plain lists and numbers."""
        columns, reference = (
            int(content["columns"]),
            np.array(content["reference"], float),
        )
        weight = {int(column): float(value) for column, value in content["weight"]}
        if (
            not weight
            or not all(0 <= column < columns for column in weight)
            or (np.diff(reference) < 0).any()
        ):
            raise ValueError(
                "a quantile needs weights of some of its columns and a sorted reference"
            )
        return cls(weight, reference, columns)


def _sums(
    rows: Float[np.ndarray, "row column"], weight: Mapping[int, float]
) -> Float[np.ndarray, "row"]:
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

    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        return self.intercept + np.einsum(
            "rc,c->r", self.standard.apply(rows), self.weight
        )

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
        mean, inverse, weight = (
            np.array(content[name], float)
            for name in ("mean", "inverse_spread", "weight")
        )
        if not mean.shape == inverse.shape == weight.shape or mean.ndim != 1:
            raise ValueError(
                "a linear model needs one mean, spread and weight per column"
            )
        return cls(Standard(mean, inverse), weight, float(content["intercept"]))

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.weight)


@dataclass(frozen=True)
class Ridge(Learner[Linear]):
    """Ridge regression on standardised columns; leave-one-out chooses the penalty among
    13 from 1e-2 to 1e4.
    """

    least_penalty: float = 1e-2
    largest_penalty: float = 1e4
    penalties: int = 13
    bounds = {  # noqa: RUF012
        "least_penalty": (1e-12, 1e12),
        "largest_penalty": (1e-12, 1e12),
        "penalties": (1, 1000),
    }

    def _fit(self, task: Task) -> Linear:
        """The fitted model; the fit is deterministic."""
        if task.classify:
            raise InputError(
                "A ridge gate regresses; a target with labels "
                "0 and 1 needs another allocator."
            )
        RidgeCV = library("sklearn.linear_model").RidgeCV
        standard = Standard.of(task.rows)
        alphas = np.geomspace(self.least_penalty, self.largest_penalty, self.penalties)
        with one_thread():
            model = RidgeCV(alphas=alphas).fit(
                standard.apply(task.rows), task.labels, sample_weight=task.weights
            )
        return Linear(standard, np.asarray(model.coef_, float), float(model.intercept_))


Layers = tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
BATCH = 200
"""Most rows per step of training."""


@dataclass(frozen=True, eq=False)
class Network(Model):
    """Standardised columns through layers with max(0, x) between them; the last has one
    output.

    Attributes:
        standard: The standardisation of columns.
        layers: Weight (in, out) and bias of each layer.
        link: The function from the output to the prediction.
        scale: Factor of a linear output: the spread of the labels, which were
            standardised too.
        shift: Summand after the factor: the mean of the labels.
    """

    standard: Standard
    layers: Layers
    link: Link
    scale: float = 1.0
    shift: float = 0.0

    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        signal = self.standard.apply(rows)
        for number, (weight, bias) in enumerate(self.layers):
            # einsum gives a row the same bits in any batch; the blocks of a matrix
            # product depend on the row count.
            signal = (
                np.einsum(
                    "ri,io->ro",
                    signal if not number else np.maximum(signal, 0.0),
                    weight,
                )
                + bias
            )
        return apply_link(signal[:, 0] * self.scale + self.shift, self.link)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        return {
            "model": "network",
            "link": self.link,
            "scale": self.scale,
            "shift": self.shift,
            "mean": self.standard.mean.tolist(),
            "inverse_spread": self.standard.inverse_spread.tolist(),
            "layers": [
                {"weight": weight.tolist(), "bias": bias.tolist()}
                for weight, bias in self.layers
            ],
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Network":
        """The model from plain lists and numbers."""
        mean, inverse = (
            np.array(content[name], float) for name in ("mean", "inverse_spread")
        )
        layers = tuple(
            (np.array(layer["weight"], float), np.array(layer["bias"], float))
            for layer in content["layers"]
        )
        width = len(mean)
        for weight, bias in layers:
            if bias.ndim != 1 or weight.shape != (width, len(bias)):
                raise ValueError(
                    "each layer of a network needs as many inputs "
                    "as the one before has outputs"
                )
            width = len(bias)
        if width != 1 or mean.ndim != 1 or mean.shape != inverse.shape:
            raise ValueError(
                "a network needs one output, and one mean and spread per column"
            )
        link = link_of(content["link"])
        return cls(
            Standard(mean, inverse),
            layers,
            link,
            float(content["scale"]),
            float(content["shift"]),
        )

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.standard.mean)


@dataclass(frozen=True)
class Mlp(Learner[Network]):
    """Two layers of 64 units, trained for at most `epochs` epochs, or until the loss
    stops falling; needs a seed.
    """

    units: tuple[int, ...] = (64, 64)
    epochs: int = 200
    penalty: float = 1e-4
    bounds = {"units": (1, 4096), "epochs": (1, 100_000), "penalty": (0.0, 1e12)}  # noqa: RUF012

    def _fit(self, task: Task) -> Network:
        """The network fitted by Adam without early stopping; labels of a regression are
        standardised first.
        """
        if task.weights is not None:
            raise InputError(
                "A network cannot weight its inputs; choose "
                "trees for a weighted target."
            )
        networks, exceptions = (
            library("sklearn.neural_network"),
            library("sklearn.exceptions"),
        )
        standard, labels = Standard.of(task.rows), task.labels
        shift, scale = (
            (0.0, 1.0)
            if task.classify
            else (float(labels.mean()), float(labels.std()) or 1.0)
        )
        settings: dict[str, Any] = {
            "hidden_layer_sizes": self.units,
            "max_iter": self.epochs,
            "alpha": self.penalty,
            "batch_size": min(BATCH, len(labels)),
            "random_state": task.seed,
        }
        network = (networks.MLPClassifier if task.classify else networks.MLPRegressor)(
            **settings
        )
        with one_thread(), warnings.catch_warnings():
            # `epochs` is a limit: reaching it is no fault.
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
            network.fit(
                standard.apply(task.rows),
                labels if task.classify else (labels - shift) / scale,
            )
        layers = tuple(zip(network.coefs_, network.intercepts_, strict=True))
        return Network(
            standard, layers, "logistic" if task.classify else "identity", scale, shift
        )
