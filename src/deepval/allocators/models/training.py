"""Standardised rows and labels -> the layers of a network, by Adam over shuffled batches.

Bit-equal to scikit-learn's MLPRegressor and MLPClassifier with their own settings, but without their checks and copies
at every step, which add half of the time; tests/allocators/test_models.py compares both. Columns of zeros, frequent in
lists of few detections, are left out of the products; then sums may be rounded differently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.models.model import Learner, Link, Model, Standard, checked_link, linked, one_thread
from deepval.arrays import Float
from deepval.errors import InputError

Layers = tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
BATCH = 200
RATE, FADING, SQUARES_FADING, LEAST = 1e-3, 0.9, 0.999, 1e-8
"""Adam: step, decay of the mean gradient, decay of the mean square, and the summand that keeps the quotient finite."""
TOLERANCE, PATIENCE = 1e-4, 10
"""Training ends after more than PATIENCE consecutive epochs that do not lower the loss by TOLERANCE."""


def trained(
    rows: Float[np.ndarray, "row column"],
    labels: Float[np.ndarray, "row"],
    units: Sequence[int],
    *,
    epochs: int,
    penalty: float,
    classify: bool,
    seed: int,
) -> Layers:
    """Weight and bias of each layer after at most `epochs` epochs; labels of a classifier are 0 and 1."""
    random = np.random.RandomState(seed)
    parameters = _Parameters(rows.shape[1], units)
    parameters.draw(random)
    # Columns of zeros do not change the products: move them last and leave them out.
    live = rows.any(axis=0)
    live_first = np.argsort(~live, kind="stable")
    rows, first_layer = rows[:, live], parameters.parts()[0][0]
    first_layer[:] = first_layer[live_first]
    step = _Gradient(parameters, min(BATCH, len(rows)), rows.shape[1], penalty=penalty, classify=classify)
    order, label_column = np.arange(len(rows)), labels.astype(float)[:, None]
    best, idle = np.inf, 0
    for _ in range(epochs):
        drawn = np.arange(len(rows))
        random.shuffle(drawn)
        order = order[drawn]
        shuffled, targets = rows[order], label_column[order]
        total = 0.0
        for first in range(0, len(rows), BATCH):
            batch, target = shuffled[first : first + BATCH], targets[first : first + BATCH]
            total += step(batch, target) * len(batch)
        loss = total / len(rows)
        idle = idle + 1 if loss > best - TOLERANCE else 0
        best = min(best, loss)
        if idle > PATIENCE:
            break
    first_layer[live_first] = first_layer.copy()
    return tuple((weight.copy(), bias.copy()) for weight, bias in zip(*parameters.parts(), strict=True))


class _Parameters:
    """The weights and biases of all layers in one array, so that a step of Adam is a few passes over it."""

    def __init__(self, columns: int, units: Sequence[int]) -> None:
        self.widths = (columns, *units, 1)
        self.shapes = tuple(zip(self.widths[:-1], self.widths[1:], strict=True))
        self.weights = sum(before * after for before, after in self.shapes)
        self.all = np.zeros(self.weights + sum(self.widths[1:]))

    def parts(self, of: np.ndarray | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Weights and biases, layer by layer, as views of the array or of another array of the same shape."""
        source = self.all if of is None else of
        lengths = [before * after for before, after in self.shapes] + list(self.widths[1:])
        pieces = np.split(source, np.cumsum(lengths)[:-1])
        weights = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=False)]
        return weights, pieces[len(self.shapes) :]

    def draw(self, random: np.random.RandomState) -> None:
        """Draw uniformly about 0, from a narrower range for wider layers (Glorot and Bengio, 2010)."""
        for weight, bias in zip(*self.parts(), strict=True):
            bound = np.sqrt(6.0 / sum(weight.shape))
            weight[:] = random.uniform(-bound, bound, weight.shape)
            bias[:] = random.uniform(-bound, bound, bias.shape)


class _Gradient:
    """One step of Adam: a batch of the first `live` columns changes the parameters; buffers are allocated once."""

    def __init__(self, parameters: _Parameters, batch: int, live: int, *, penalty: float, classify: bool) -> None:
        self.parameters, self.penalty, self.classify = parameters, penalty, classify
        self.weights, self.biases = parameters.parts()
        self.penalised = list(self.weights)
        self.gradient, self.mean, self.square, self.spare, self.other = (np.zeros_like(parameters.all) for _ in "gmsop")
        self.of_weights, self.of_biases = parameters.parts(self.gradient)
        self.idle = self.of_weights[0][live:]
        self.weights[0], self.of_weights[0] = self.weights[0][:live], self.of_weights[0][:live]
        self.signals = [np.empty((batch, width)) for width in parameters.widths[1:]]
        self.errors = [np.empty((batch, width)) for width in parameters.widths[1:]]
        self.steps = 0

    def __call__(self, rows: np.ndarray, target: np.ndarray) -> float:
        """Take the step; returns the batch's loss before it."""
        signals = [rows, *(signal[: len(rows)] for signal in self.signals)]
        self._forward(signals)
        loss = self._loss(signals[-1], target)
        self._backward(signals, target)
        self._adam()
        return loss

    def _forward(self, signals: list[np.ndarray]) -> None:
        from scipy.special import expit

        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            signal = np.matmul(signals[layer], weight, out=signals[layer + 1])
            signal += bias
            if layer < len(self.weights) - 1:
                np.maximum(signal, 0.0, out=signal)
            elif self.classify:
                expit(signal, out=signal)

    def _loss(self, output: np.ndarray, target: np.ndarray) -> float:
        """Mean over the batch of half the squared error, or of the log loss, and the penalty on weights."""
        from scipy.special import xlogy

        if self.classify:
            least = np.finfo(float).eps
            p = np.clip(output, least, 1.0 - least)
            loss = -np.mean(xlogy(target, p) + xlogy(1.0 - target, 1.0 - p), axis=0).sum()
        else:
            loss = 0.5 * np.mean((target - output) ** 2, axis=0).mean()
        squares = sum(np.dot(weight.ravel(), weight.ravel()) for weight in self.penalised)
        return float(loss + 0.5 * self.penalty * squares / len(output))

    def _backward(self, signals: list[np.ndarray], target: np.ndarray) -> None:
        number, last = len(target), len(self.weights) - 1
        errors = [error[:number] for error in self.errors]
        np.subtract(signals[-1], target, out=errors[last])
        for layer in range(last, -1, -1):
            np.matmul(signals[layer].T, errors[layer], out=self.of_weights[layer])
            np.sum(errors[layer], axis=0, out=self.of_biases[layer])
            self.of_biases[layer] /= number
            if layer:
                np.matmul(errors[layer], self.weights[layer].T, out=errors[layer - 1])
                errors[layer - 1] *= signals[layer] > 0.0
        self.idle[:] = 0.0
        end = self.parameters.weights
        own = self.gradient[:end]
        own += np.multiply(self.parameters.all[:end], self.penalty, out=self.spare[:end])
        own /= number

    def _adam(self) -> None:
        self.steps += 1
        gradient, spare = self.gradient, self.spare
        self.mean *= FADING
        self.mean += np.multiply(gradient, 1.0 - FADING, out=spare)
        self.square *= SQUARES_FADING
        np.multiply(gradient, gradient, out=spare)
        self.square += np.multiply(spare, 1.0 - SQUARES_FADING, out=spare)
        rate = RATE * np.sqrt(1.0 - SQUARES_FADING**self.steps) / (1.0 - FADING**self.steps)
        np.sqrt(self.square, out=spare)
        spare += LEAST
        change = np.multiply(self.mean, -rate, out=self.other)
        change /= spare
        self.parameters.all += change


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
    layers: tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
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
class Mlp(Learner):
    """Two layers of 64 units, trained for at most `epochs` epochs, or until the loss stops falling; needs a seed."""

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
