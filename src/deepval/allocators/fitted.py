"""A recipe and examples -> a fitted allocator: what every kind of learned allocator has to say.

To add a kind: a FittedAllocator and a Recipe that makes it, in one file, and a row of RECIPES.
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
from deepval.errors import InputError, quoted
from deepval.features import Sight
from deepval.features.views import CheapMode, View
from deepval.files.reading import formed
from deepval.files.writing import write_atomically
from deepval.progress import Watch, unwatched

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Training:
    """What a model was fitted on, from which it can be fitted again.

    Attributes:
        cell: Id of the cell, which carries the hash of all that it rests on.
        recipe: Name of the recipe.
        target: What was predicted.
        units: The units whose inputs were used.
        inputs: How many inputs there were.
        seed: Seed of what is random in the fit.
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
        """What a file says that its allocator was fitted on; KeyError or InputError where it does not."""
        training: Training = formed(cls, content["training"], "training")
        if not 0 <= training.seed <= LARGEST_SEED:
            raise InputError(f"training.seed must be from 0 to {LARGEST_SEED}; found {quoted(training.seed)}.")
        return training


class FittedAllocator(Allocator):
    """An allocator that a recipe made, and that a file can hold.

    Attributes:
        training: What it was fitted on.
        holds: What its file must hold, in words.
    """

    training: Training
    holds: ClassVar[str]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the cell that it was fitted on."""
        return self.training.modes

    @classmethod
    @abstractmethod
    def fronts(cls) -> tuple[str, ...]:
        """Names for what it looks at, one of which its file has as `front`; no two kinds share one."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What its file holds, in plain lists and numbers: name, training, front, and all that scoring needs."""

    @classmethod
    @abstractmethod
    def of(cls, content: Mapping[str, Any]) -> "FittedAllocator":
        """The allocator that a file's content describes; KeyError, TypeError or ValueError where it describes none."""

    def to_json(self) -> str:
        """The file's text: one line per part, the same for the same allocator."""
        return file_text(self.content())

    def save(self, path: Path | str) -> None:
        """Write the allocator to a file."""
        write_atomically(path, self.to_json())


@dataclass(frozen=True, eq=False)
class Examples:
    """What an allocator learns from: some frames of the fit units, and a label for each.

    Attributes:
        sights: What the fit units show.
        chosen: The place of each input among their frames, unit after unit.
        labels: The label of each input; one for every mode above cheap where the recipe is `per_mode`.
        classify: Whether labels are 0 and 1.
    """

    sights: tuple[Sight, ...]
    chosen: Int[np.ndarray, "input"]
    labels: Float[np.ndarray, "input *mode"]
    classify: bool

    def rows(self, front: Front) -> Float[np.ndarray, "input column"]:
        """What a front shows of each input."""
        return np.concatenate([front.rows(sight) for sight in self.sights])[self.chosen]

    @property
    def frames(self) -> list[tuple[View, int]]:
        """The view of each input's unit, and the place of its frame there."""
        found = [(sight.view, place) for sight in self.sights for place in range(len(sight))]
        return [found[row] for row in self.chosen.tolist()]


class Recipe(ABC):
    """How an allocator is made.

    Attributes:
        name: Its name.
        target: What is predicted unless told otherwise, a name of deepval.targets.
        makes: The kind of allocator.
        extra: The optional extra that a fit needs; such a recipe is fitted only where it is asked for.
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
        """Why it cannot be fitted where the cheap mode is this one, None where it can; by default it always can."""
        del mode

    @abstractmethod
    def admits(self, target: str, *, classifies: bool) -> bool:
        """Whether it can be fitted on a target, whose labels are 0 and 1 where it classifies."""

    @abstractmethod
    def fit(self, examples: Examples, training: Training, *, watch: Watch = unwatched) -> FittedAllocator:
        """The allocator, fitted on examples; the same examples and seed give the same bytes."""

    @abstractmethod
    def like(self, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe with the settings that the training of one of its allocators tells of."""
