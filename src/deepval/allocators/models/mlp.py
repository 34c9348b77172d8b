"""Rows and labels -> a network of a few layers, fitted by scikit-learn; the predictions need NumPy only."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.model import Learner, Link, Model, Standard, Task, checked_link, linked, one_thread
from deepval.arrays import Float
from deepval.errors import InputError

Layers = tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
BATCH = 200
"""Most rows per step of training."""


@dataclass(frozen=True, eq=False)
class Network(Model):
    """Standardised columns through layers with max(0, x) between them; the last has one output.

    Attributes:
        standard: The standardisation of columns.
        layers: Weight (in, out) and bias of each layer.
        link: The function from the output to the prediction.
        scale: Factor of a linear output: the spread of the labels, which were standardised too.
        shift: Summand after the factor: the mean of the labels.
    """

    standard: Standard
    layers: Layers
    link: Link
    scale: float = 1.0
    shift: float = 0.0

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        signal = self.standard.applied(rows)
        for number, (weight, bias) in enumerate(self.layers):
            # einsum gives a row the same bits in any batch; the blocks of a matrix product depend on the row count.
            signal = np.einsum("ri,io->ro", signal if not number else np.maximum(signal, 0.0), weight) + bias
        return linked(signal[:, 0] * self.scale + self.shift, self.link)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers."""
        return {
            "model": "network",
            "link": self.link,
            "scale": self.scale,
            "shift": self.shift,
            "mean": self.standard.mean.tolist(),
            "inverse_spread": self.standard.inverse_spread.tolist(),
            "layers": [{"weight": weight.tolist(), "bias": bias.tolist()} for weight, bias in self.layers],
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Network":
        """The model from plain lists and numbers."""
        mean, inverse = (np.array(content[name], float) for name in ("mean", "inverse_spread"))
        layers = tuple(
            (np.array(layer["weight"], float), np.array(layer["bias"], float)) for layer in content["layers"]
        )
        width = len(mean)
        for weight, bias in layers:
            if bias.ndim != 1 or weight.shape != (width, len(bias)):
                raise ValueError("each layer of a network needs as many inputs as the one before has outputs")
            width = len(bias)
        if width != 1 or mean.ndim != 1 or mean.shape != inverse.shape:
            raise ValueError("a network needs one output, and one mean and spread per column")
        link = checked_link(content["link"])
        return cls(Standard(mean, inverse), layers, link, float(content["scale"]), float(content["shift"]))

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.standard.mean)


@dataclass(frozen=True)
class Mlp(Learner[Network]):
    """Two layers of 64 units, trained for at most `epochs` epochs, or until the loss stops falling; needs a seed."""

    units: tuple[int, ...] = (64, 64)
    epochs: int = 200
    penalty: float = 1e-4
    bounds = {"units": (1, 4096), "epochs": (1, 100_000), "penalty": (0.0, 1e12)}  # noqa: RUF012

    def _fit(self, task: Task) -> Network:
        """The network fitted by Adam without early stopping; labels of a regression are standardised first."""
        if task.weights is not None:
            raise InputError("A network cannot weight its inputs; choose trees for a weighted target.")
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        standard, labels = Standard.of(task.rows), task.labels
        shift, scale = (0.0, 1.0) if task.classify else (float(labels.mean()), float(labels.std()) or 1.0)
        settings: dict[str, Any] = {
            "hidden_layer_sizes": self.units,
            "max_iter": self.epochs,
            "alpha": self.penalty,
            "batch_size": min(BATCH, len(labels)),
            "random_state": task.seed,
        }
        network = (MLPClassifier if task.classify else MLPRegressor)(**settings)
        with one_thread(), warnings.catch_warnings():
            # `epochs` is a limit: reaching it is no fault.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(standard.applied(task.rows), labels if task.classify else (labels - shift) / scale)
        layers = tuple(zip(network.coefs_, network.intercepts_, strict=True))
        return Network(standard, layers, "logistic" if task.classify else "identity", scale, shift)
