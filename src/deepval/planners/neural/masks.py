"""The published JSON or arrays -> masks: the cells that a planned vehicle can be in at each step."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import json_content, sha256
from deepval.files.writing import npz_arrays

Origin = Literal["published", "trained here, not the published weights", "not verified to be the published files"]
PUBLISHED: Origin = "published"
TRAINED_HERE: Origin = "trained here, not the published weights"
UNVERIFIED: Origin = "not verified to be the published files"
BLOBS = {
    "weights": "7e486090566a7f4f1cb7a1910a6598410779982d",
    "masks": "9ebbafd0a0c83bc79211879668ad493e81871762",
}
"""Git's names of the published planner.pt and masks_trainval.json: the SHA-1 of a header and the content."""
GET = (
    "take planner.pt and masks_trainval.json of planning-centric metrics (PKL), or weights.npz and masks.npz that "
    "`deepval train-planner` writes"
)


@dataclass(frozen=True, eq=False)
class PlannerFile:
    """One file, read once: the hashed bytes are the bytes used."""

    path: Path
    data: bytes

    @property
    def sha256(self) -> str:
        """Its SHA-256."""
        return sha256(self.data)

    def is_published(self, kind: Literal["weights", "masks"]) -> bool:
        """Whether it is the published file, byte for byte."""
        blob = hashlib.sha1(b"blob %d\0" % len(self.data) + self.data, usedforsecurity=False)
        return blob.hexdigest() == BLOBS[kind]


def read_file(path: Path | str, kind: Literal["weights", "masks"]) -> PlannerFile:
    """A file of a planner."""
    try:
        return PlannerFile(Path(path), reading.content(path, f"a planner's {kind}"))
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')}: {GET}.") from error


FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the bytes do not depend on the time of writing."""


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file with the arrays in their order; not compressed, so that bytes depend on no version of zlib."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", FIRST_DAY), entry.getvalue())
    return out.getvalue()


STEPS, STEP_S = 16, 0.25
"""Steps of a plan and the time between them: 0.25 to 4 s ahead."""
AHEAD_S = STEP_S * np.arange(1, STEPS + 1)
COARSEST = 64
"""The network halves its grid six times, so that sides are multiples of this."""
BLOCK = 4
"""Logits are constant on blocks of this many cells a side: the network's last step up repeats them."""


@dataclass(frozen=True)
class PlanGrid:
    """`cells` x `cells` cells, index [x forward, y left], over the same ground for any number of cells.

    A point lies in the cell `round((p - low_m) / cell_m)`; a cell stands for the point `low_m + cell_m * cell`.
    """

    cells: int = 256

    def __post_init__(self) -> None:
        if self.cells < COARSEST or self.cells % COARSEST:
            raise InputError(f"a planner's grid must have a multiple of {COARSEST} cells a side; found {self.cells}.")

    @property
    def cell_m(self) -> float:
        """Side of a cell: 0.3 m of the published grid."""
        return 0.3 if self.cells == 256 else 76.8 / self.cells

    @property
    def low_m(self) -> Float[np.ndarray, "2"]:
        """Corner of the grid: 17 m behind the vehicle, 38.5 m to its right."""
        return np.array([-17.0, -38.5])

    def cell_of(self, points_m: Float[np.ndarray, "*batch 2"]) -> Int[np.ndarray, "*batch 2"]:
        """The cell of each point, also outside the grid."""
        return np.round((points_m - self.low_m) / self.cell_m).astype(np.int32)

    def metres(self, cells: Int[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 2"]:
        """The point that each cell stands for."""
        return self.low_m + self.cell_m * cells


@dataclass(frozen=True, eq=False)
class Masks:
    """Possible cells per step, [step, x, y]; every step has at least one."""

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
        """End of every step's cells in `index`."""
        return np.cumsum(self.cells.sum(axis=(1, 2)))

    def within(self, blocks: Float[np.ndarray, "*batch step bx by"]) -> Float[np.ndarray, "*batch cell"]:
        """Values of the cells within the masks, from the values of their blocks."""
        step, x, y = self.index
        return blocks[..., step, x // BLOCK, y // BLOCK]

    def per_step(self, values: Float[np.ndarray, "*batch cell"]) -> list[Float[np.ndarray, "*batch _"]]:
        """Values of the cells within the masks, step by step."""
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
    content = json_content(file.data, file.path, "masks in a JSON list or an .npz file")
    if not isinstance(content, list):
        raise InputError(f"{file.path}: masks must be a JSON list of lists of 0 and 1.")
    return content
