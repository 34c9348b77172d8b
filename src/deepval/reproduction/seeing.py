"""A cell's folder -> the cell, with rows kept by what they show: cells with one cheap mode have the same, made once."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from deepval.allocators.fronts import FRONTS
from deepval.arrays import Float
from deepval.cells.folder import BuiltCell, read_cell
from deepval.features import Sight
from deepval.features.sights import Row
from deepval.files import reading
from deepval.files.archives import npz_arrays
from deepval.protocol.code_digest import code_digest
from deepval.protocol.keeping import kept

ROWS = "rows.npz"
Keeper = Callable[[str], Mapping[str, Float[np.ndarray, "time column"]]]
"""Gives the rows of a front by unit, as they were kept or made now."""


@dataclass(frozen=True, eq=False)
class KeptSight(Sight):
    """A sight whose rows are asked of somebody who may have them."""

    keeper: Keeper = field(kw_only=True)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """The rows as they were kept; those of no front are made as ever."""
        front = next((each.name for each in FRONTS.values() if each.row == row), None)
        if front is None or row in self._rows:
            return super().rows(row, columns)
        self._rows[row] = self.keeper(front)[self.view.scene.unit]
        return self._rows[row]


@dataclass(frozen=True, eq=False)
class SeenCell(BuiltCell):
    """A cell whose rows are kept in a work folder, under the hash of its view."""

    work: Path = field(kw_only=True)

    @cached_property
    def sights(self) -> tuple[Sight, ...]:
        """What the frames of each unit show; rows are read where they are kept, and only what is asked for."""
        plain = tuple(Sight(view) for view in self.views)
        held: dict[str, Mapping[str, np.ndarray]] = {}

        def keeper(front: str) -> Mapping[str, np.ndarray]:
            if front not in held:
                held[front] = self._rows(front, plain)
            return held[front]

        return tuple(KeptSight(sight.view, sight.images, keeper=keeper) for sight in plain)

    def _rows(self, front: str, sights: tuple[Sight, ...]) -> dict[str, np.ndarray]:
        view = {name: digest for name, digest in self.manifest.files.items() if name.startswith("view/")}
        rests_on = {"view": view, "front": front, "code": code_digest("deepval.allocators.fronts", __name__)}

        def make() -> dict[str, bytes]:
            file = io.BytesIO()
            np.savez(file, *(FRONTS[front].rows(sight) for sight in sights))
            return {ROWS: file.getvalue()}

        folder = kept(self.work / "kept", "rows", rests_on, make)
        arrays = npz_arrays(reading.content(folder / ROWS))
        found = {sight.view.scene.unit: rows for sight, rows in zip(sights, arrays.values(), strict=True)}
        for rows in found.values():
            rows.setflags(write=False)
        return found


def seen_cell(folder: Path, work: Path) -> SeenCell:
    """The cell in a folder, its rows kept in a work folder."""
    found = read_cell(folder)
    return SeenCell(found.manifest, found.digest, work=work)
