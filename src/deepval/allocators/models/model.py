"""What every model and every learner has to say."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError, quoted

Link = Literal["identity", "logistic"]


def linked(raw: Float[np.ndarray, "*row"], link: Link) -> Float[np.ndarray, "*row"]:
    """The raw output, or 1 / (1 + exp(-raw))."""
    if link == "identity":
        return raw
    # exp of a negative number never overflows.
    small = np.exp(-np.abs(raw))
    return np.where(raw >= 0, 1.0, small) / (1.0 + small)


def linked_one(raw: float, link: Link) -> float:
    """The same of one number, to the bit, without what arrays of one number cost."""
    if link == "identity":
        return raw
    small = float(np.exp(-abs(raw)))
    return (1.0 if raw >= 0 else small) / (1.0 + small)


def checked_link(name: str) -> Link:
    """The link of this name; ValueError where there is none."""
    if name not in ("identity", "logistic"):
        raise ValueError(f"a link is identity or logistic, not {name!r}")
    return name


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold linear algebra and OpenMP to one thread: at these sizes that is also the fastest."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


class Model(ABC):
    """Rows of numbers -> one prediction each; a batch and a single row give the same bits."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers a row must have."""

    @abstractmethod
    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
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
        """The model that plain lists and numbers describe; KeyError, TypeError or ValueError where they do not."""


@dataclass(frozen=True)
class Learner(ABC):
    """Rows and labels -> a fitted model; a frozen dataclass of its settings, which files tell of."""

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})
    """Least and largest value of each setting; for a tuple they apply to every number in it."""

    def __post_init__(self) -> None:
        check_settings(self, self.bounds)

    @abstractmethod
    def fit(
        self,
        rows: Float[np.ndarray, "row column"],
        labels: Float[np.ndarray, "row"],
        *,
        classify: bool,
        weights: Float[np.ndarray, "row"] | None = None,
        seed: int = 0,
    ) -> Model:
        """The fitted model; labels are 0 and 1 where it classifies."""


def check_settings(settings: Any, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raise where a field of a dataclass lies outside its bounds: a file may hold any number."""
    for name, (least, largest) in bounds.items():
        value = getattr(settings, name)
        if not all(least <= number <= largest for number in (value if isinstance(value, tuple) else (value,))):
            raise InputError(
                f"{name} of {type(settings).__name__} must be from {least:g} to {largest:g}; found {quoted(value)}."
            )
