"""A recipe and examples -> a fitted allocator: the interface of all learned allocators.

To add a kind, write a FittedAllocator and its Recipe in one file, and add a row to RECIPES.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from deepval.allocators.allocator import Allocator, file_text
from deepval.allocators.fronts import Front
from deepval.arrays import Float, Int
from deepval.errors import InputError, quote
from deepval.features import Sight
from deepval.features.views import CheapMode, View
from deepval.files.reading import check_form
from deepval.files.writing import write_atomically
from deepval.progress import Watch, silent

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Training:
    """The data and settings of a fit, sufficient to repeat it.

    Attributes:
        cell: Id of the cell, which contains the hash of its sources.
        recipe: Name of the recipe.
        target: Name of the target.
        units: The units of the fit inputs.
        inputs: Number of fit inputs.
        seed: Seed of the fit's random numbers.
        modes: Names of the cell's modes, cheap first.
        settings: The learner's settings.
    """

    cell: str
    recipe: str
    target: str
    units: tuple[str, ...]
    inputs: int
    seed: int
    modes: tuple[str, ...]
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Training":
        """The training from a file's content; KeyError or InputError if it is missing or malformed."""
        training: Training = check_form(cls, content["training"], "training")
        if not 0 <= training.seed <= LARGEST_SEED:
            raise InputError(f"training.seed must be from 0 to {LARGEST_SEED}; found {quote(training.seed)}.")
        return training


class FittedAllocator(Allocator):
    """An allocator that a recipe fits, with a file format.

    Attributes:
        training: The data and settings of its fit.
        holds: The required content of its file, in words.
    """

    training: Training
    holds: ClassVar[str]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the cell of its fit."""
        return self.training.modes

    @classmethod
    @abstractmethod
    def fronts(cls) -> tuple[str, ...]:
        """Names of its fronts; its file has one of them as `front`, and no two kinds share a name."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """The content of its file, in plain lists and numbers: name, training, front, and all data for scoring."""

    @classmethod
    @abstractmethod
    def of(cls, content: Mapping[str, Any]) -> "FittedAllocator":
        """The allocator from a file's content; KeyError, TypeError or ValueError if the content is malformed."""

    def to_json(self) -> str:
        """The file's text: one line per part; equal allocators give equal texts."""
        return file_text(self.content())

    def save(self, path: Path | str) -> None:
        """Write the allocator to a file."""
        write_atomically(path, self.to_json())


@dataclass(frozen=True, eq=False)
class Examples:
    """The training data of an allocator: frames of the fit units and their labels.

    Attributes:
        sights: The sights of the fit units.
        chosen: The index of each input among the units' concatenated frames.
        labels: The label of each input; one for every mode above cheap if the recipe is `per_mode`.
        classify: Whether labels are 0 and 1.
    """

    sights: tuple[Sight, ...]
    chosen: Int[np.ndarray, "input"]
    labels: Float[np.ndarray, "input *mode"]
    classify: bool

    def rows(self, front: Front) -> Float[np.ndarray, "input column"]:
        """The front's row of each input."""
        return np.concatenate([front.rows(sight) for sight in self.sights])[self.chosen]

    @property
    def frames(self) -> list[tuple[View, int]]:
        """The view of each input's unit, and the index of its frame in it."""
        frames = [(sight.view, frame) for sight in self.sights for frame in range(len(sight))]
        return [frames[row] for row in self.chosen.tolist()]


class Recipe(ABC):
    """How to fit an allocator.

    Attributes:
        name: Its name.
        target: The default target, a name of deepval.targets.
        makes: The kind of allocator.
        extra: The optional extra that a fit needs; such a recipe is fitted on request only.
    """

    name: str
    target: str
    makes: ClassVar[type[FittedAllocator]]
    extra: ClassVar[str | None] = None

    @property
    def per_mode(self) -> bool:
        """Whether labels are the values of every mode above cheap; by default they are the target's."""
        return False

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason why it cannot be fitted for this cheap mode, or None; by default it always can."""
        del mode

    @abstractmethod
    def admits(self, target: str, *, classifies: bool) -> bool:
        """Whether it can be fitted on a target; the labels are 0 and 1 if `classifies`."""

    @abstractmethod
    def fit(self, examples: Examples, training: Training, *, watch: Watch = silent) -> FittedAllocator:
        """The allocator, fitted on examples; the same examples and seed give the same bytes."""

    @abstractmethod
    def like(self, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe with the settings from the training of one of its allocators."""
