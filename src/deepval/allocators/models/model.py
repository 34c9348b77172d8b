"""What every model and every learner has to say."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError, quoted


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
