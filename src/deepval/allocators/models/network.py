"""Multi-layer perceptron -> layers of weights that NumPy multiplies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.fits import one_thread
from deepval.allocators.models.links import Link, checked_link, linked
from deepval.allocators.models.model import Learner, Model
from deepval.allocators.models.standard import Standard
from deepval.allocators.models.training import trained
from deepval.arrays import Float
from deepval.errors import InputError


@dataclass(frozen=True, eq=False)
class Network(Model):
    """Standardised columns through layers with max(0, x) between them; the last has one output.

    Attributes:
        standard: How columns are standardised.
        layers: Weight (in, out) and bias of each layer.
        link: What turns the output into the prediction.
        scale: What a linear output is multiplied by: the spread of the labels, which were standardised too.
        shift: What is added to it then: their mean.
    """

    standard: Standard
    layers: tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
    link: Link
    scale: float = 1.0
    shift: float = 0.0

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        signal = self.standard.applied(rows)
        for number, (weight, bias) in enumerate(self.layers):
            # Unlike a matrix product, whose blocks depend on the number of rows, this gives a row the same bits always.
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
        """The model that plain lists and numbers describe."""
        mean, inverse = (np.array(content[name], float) for name in ("mean", "inverse_spread"))
        layers = tuple((np.array(each["weight"], float), np.array(each["bias"], float)) for each in content["layers"])
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
        """How many numbers a row must have."""
        return len(self.standard.mean)


@dataclass(frozen=True)
class Mlp(Learner):
    """Two layers of 64 units, trained for a number of epochs, or until the loss falls no more; depends on the seed."""

    units: tuple[int, ...] = (64, 64)
    epochs: int = 200
    penalty: float = 1e-4
    bounds = {"units": (1, 4096), "epochs": (1, 100_000), "penalty": (0.0, 1e12)}  # noqa: RUF012

    def fit(
        self,
        rows: Float[np.ndarray, "row column"],
        labels: Float[np.ndarray, "row"],
        *,
        classify: bool,
        weights: Float[np.ndarray, "row"] | None = None,
        seed: int = 0,
    ) -> Network:
        """The fitted network, early stopping off; labels of a regression are standardised first."""
        if weights is not None:
            raise InputError("A network cannot weight its inputs; choose trees for a weighted target.")
        standard = Standard.of(rows)
        shift, scale = (0.0, 1.0) if classify else (float(labels.mean()), float(labels.std()) or 1.0)
        with one_thread():
            layers = trained(
                standard.applied(rows),
                labels if classify else (labels - shift) / scale,
                self.units,
                epochs=self.epochs,
                penalty=self.penalty,
                classify=classify,
                seed=seed,
            )
        return Network(standard, layers, "logistic" if classify else "identity", scale, shift)
