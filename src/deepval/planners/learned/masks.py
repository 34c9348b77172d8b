"""Masks: the cells that a planned vehicle can be in at each step, from the published JSON or from arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.files.archives import npz_arrays
from deepval.files.canonical import json_content
from deepval.planners.learned.arrays_file import npz_bytes
from deepval.planners.learned.files import PlannerFile
from deepval.planners.learned.grid import BLOCK, COARSEST, STEPS, PlanGrid


@dataclass(frozen=True, eq=False)
class Masks:
    """Cells per step, [step, x, y]; every step has some."""

    cells: Bool[np.ndarray, "step x y"]

    def __post_init__(self) -> None:
        shape = self.cells.shape
        if len(shape) != 3 or shape[0] != STEPS or shape[1] != shape[2] or shape[1] % COARSEST or not shape[1]:
            raise InputError(
                f"a planner's masks must be {STEPS} squares whose side is a multiple of {COARSEST} cells, 16 x 256 x "
                f"256 as published; found {' x '.join(map(str, shape))}: take the masks that belong to the weights."
            )
        empty = np.flatnonzero(~self.cells.any(axis=(1, 2)))
        if len(empty):
            raise InputError(f"a planner's masks must leave a cell at every step; step {empty[0]} has none.")

    @property
    def grid(self) -> PlanGrid:
        """The grid that the masks are on."""
        return PlanGrid(self.cells.shape[1])

    @cached_property
    def index(self) -> Int[np.ndarray, "3 cell"]:
        """Step, x and y of every cell within the masks: by step, then in row-major order."""
        return np.stack(np.nonzero(self.cells))

    @cached_property
    def ends(self) -> Int[np.ndarray, "step"]:
        """Where the cells of each step end in `index`."""
        return np.cumsum(self.cells.sum(axis=(1, 2)))

    def within(self, blocks: Float[np.ndarray, "*batch step bx by"]) -> Float[np.ndarray, "*batch cell"]:
        """The numbers of the cells within the masks, from those of the blocks of cells that they lie in."""
        step, x, y = self.index
        return blocks[..., step, x // BLOCK, y // BLOCK]

    def per_step(self, values: Float[np.ndarray, "*batch cell"]) -> list[Float[np.ndarray, "*batch _"]]:
        """The numbers of cells within the masks, step by step."""
        return np.split(values, self.ends[:-1], axis=-1)


def masks_of(file: PlannerFile) -> Masks:
    """Masks from a nested JSON list of 0 and 1, or from an .npz with the array `masks`."""
    array = _npz(file) if file.path.suffix == ".npz" else _json(file)
    try:
        array = np.asarray(array)
    except ValueError:
        array = np.zeros(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{file.path}: masks must be a table of 0 and 1 with rows of equal length.")
    if not np.isin(array, (0, 1)).all():
        raise InputError(f"{file.path}: masks must hold 0 and 1 only; found {array[~np.isin(array, (0, 1))][0]:g}.")
    try:
        return Masks(array.astype(bool))
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


def masks_bytes(masks: Masks) -> bytes:
    """Masks as an .npz file, the same bytes for the same masks."""
    return npz_bytes({"masks": masks.cells})


def _npz(file: PlannerFile) -> np.ndarray:
    try:
        return npz_arrays(file.data)["masks"]
    except (KeyError, ValueError) as error:
        raise InputError(f"{file.path}: must be an .npz file with the array `masks`; {error}.") from error


def _json(file: PlannerFile) -> list:
    found = json_content(file.data, file.path, "masks in a JSON list or an .npz file")
    if not isinstance(found, list):
        raise InputError(f"{file.path}: masks must be a JSON list of lists of 0 and 1.")
    return found
