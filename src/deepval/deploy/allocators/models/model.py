"""The interfaces of models (rows -> predictions) and learners (rows and labels -> a
model).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, library, quote

Link = Literal["identity", "logistic"]


def apply_link(raw: Float[np.ndarray, "*row"], link: Link) -> Float[np.ndarray, "*row"]:
    """The raw output, or 1 / (1 + exp(-raw))."""
    if link == "identity":
        return raw
    # exp of a negative number never overflows.
    small = np.exp(-np.abs(raw))
    return np.where(raw >= 0, 1.0, small) / (1.0 + small)


def apply_link_to_one(raw: float, link: Link) -> float:
    """`apply_link` for one number, bit-equal, without the cost of an array."""
    if link == "identity":
        return raw
    small = float(np.exp(-abs(raw)))
    return (1.0 if raw >= 0 else small) / (1.0 + small)


def link_of(name: str) -> Link:
    """The link of this name; ValueError if there is none."""
    if name not in ("identity", "logistic"):
        raise ValueError(f"a link is identity or logistic, not {name!r}")
    return name


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and spread of each column on the fit rows; a column that is constant there
    becomes 0 everywhere.
    """

    mean: Float[np.ndarray, "column"]
    inverse_spread: Float[np.ndarray, "column"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "row column"]) -> "Standard":
        """Mean and spread of the fit rows, without gaps."""
        present = ~np.isnan(rows)
        number = np.maximum(present.sum(axis=0), 1)
        mean = np.where(present, rows, 0.0).sum(axis=0) / number
        spread = np.sqrt(
            np.where(present, (rows - mean) ** 2, 0.0).sum(axis=0) / number
        )
        # The spread of a constant column is rounding error, which must not be scaled
        # up.
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(mean))
        return cls(
            mean, np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
        )

    def apply(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row column"]:
        """The standardised rows."""
        # Contiguous rows: otherwise the memory layout decides the order of a model's
        # sums, and so the last bits.
        scaled = (np.ascontiguousarray(rows) - self.mean) * self.inverse_spread
        return np.where(np.isnan(scaled), 0.0, scaled)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra and OpenMP to one thread: repeatable, and at these sizes
    also the fastest.
    """
    with library("threadpoolctl").threadpool_limits(1):
        yield


class Model(ABC):
    """Rows of numbers -> one prediction per row; a batch and a single row give the same
    bits.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """The length of a row."""

    @abstractmethod
    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""

    def predict_row(self, row: Float[np.ndarray, "column"]) -> float:
        """The prediction for one row; by default a batch of one."""
        return float(self.predict(row[None])[0])

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers, with its name in MODELS as `model`."""

    @classmethod
    @abstractmethod
    def of(cls, content: Mapping[str, Any]) -> "Model":
        """The model from plain lists and numbers; KeyError, TypeError or ValueError if
        they are malformed.
        """


@dataclass(frozen=True, eq=False)
class Task:
    """The data of one fit.

    Attributes:
        rows: Numbers of each fit input.
        labels: Its label.
        classify: Whether labels are 0 and 1.
        weights: Its weight in the fit; None if all weigh the same.
        seed: Seed of random numbers.
    """

    rows: Float[np.ndarray, "row column"]
    labels: Float[np.ndarray, "row"]
    classify: bool
    weights: Float[np.ndarray, "row"] | None
    seed: int


FittedModel = TypeVar("FittedModel", bound=Model)


@dataclass(frozen=True)
class Learner(ABC, Generic[FittedModel]):
    """Rows and labels -> a fitted model; a frozen dataclass of its settings, which
    model files contain.
    """

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})
    """Least and largest value of each setting; for a tuple they apply to every number
    in it.
    """

    def __post_init__(self) -> None:
        check_settings(self, self.bounds)

    def fit(
        self,
        rows: Float[np.ndarray, "row column"],
        labels: Float[np.ndarray, "row"],
        *,
        classify: bool,
        weights: Float[np.ndarray, "row"] | None = None,
        seed: int = 0,
    ) -> FittedModel:
        """The fitted model; with `classify`, labels are 0 and 1, and the model predicts
        the probability of 1.
        """
        return self._fit(Task(rows, labels, classify, weights, seed))

    @abstractmethod
    def _fit(self, task: Task) -> FittedModel:
        """The model fitted on a task."""


def check_settings(settings: Any, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raise InputError if a field of a dataclass is outside its bounds: a file may
    contain any number.
    """
    for name, (least, largest) in bounds.items():
        value = getattr(settings, name)
        if not all(
            least <= number <= largest
            for number in (value if isinstance(value, tuple) else (value,))
        ):
            raise InputError(
                f"{name} of {type(settings).__name__} must be "
                f"from {least:g} to {largest:g}; found {quote(value)}."
            )
