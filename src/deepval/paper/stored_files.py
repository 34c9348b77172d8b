"""Rows of analyses, fits, scores, results and feature rows of cells <-> files in the
work folder of a reproduction.

What is stored for a cell depends on its files, on settings and on the code that makes
it.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_canonical, json_content, plain, sha256
from deepval.basics.files.writing import npz_arrays
from deepval.deploy.allocators import read_allocator
from deepval.deploy.allocators.allocator import FittedAllocator, Recipe, Training
from deepval.deploy.allocators.feature_sets import FEATURE_SETS
from deepval.deploy.board.store import code_digest, store_result
from deepval.deploy.features import Sight
from deepval.deploy.features.glances import Row
from deepval.deploy.fitting import Scored, fits_kept_by
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.judge.results import Result
from deepval.judge.results.samples import samples_path

CODE = "deepval.deploy.fitting"
MODEL, ROWS, SCORES = "model.json", "rows.npz", "scores.npz"
Keeper = Callable[[str], Mapping[str, Float[np.ndarray, "time column"]]]
"""Returns the feature rows of a feature set by unit: stored rows, or rows computed
now.
"""


@dataclass(frozen=True, eq=False)
class StoredSight(Sight):
    """A sight whose feature rows are read from a store."""

    keeper: Keeper = field(kw_only=True)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """The stored rows; rows that belong to no feature set are computed."""
        front = next(
            (entry.name for entry in FEATURE_SETS.values() if entry.row == row), None
        )
        if front is None or row in self._rows:
            return super().rows(row, columns)
        self._rows[row] = self.keeper(front)[self.view.scene.unit]
        return self._rows[row]


def stored_rows_cell(folder: Path, work: Path) -> BuiltCell:
    """The cell in a folder, with its feature rows stored in a work folder under the
    hash of its view.
    """
    cell = read_cell(folder)
    by_feature_set: dict[str, Mapping[str, np.ndarray]] = {}

    def keeper(front: str) -> Mapping[str, np.ndarray]:
        if front not in by_feature_set:
            by_feature_set[front] = _stored_rows(cell, front, work)
        return by_feature_set[front]

    cell.computed["sights"] = tuple(
        StoredSight(view, keeper=keeper) for view in cell.views
    )
    return cell


def _stored_rows(cell: BuiltCell, front: str, work: Path) -> dict[str, np.ndarray]:
    """The rows of a feature set by unit, read from the work folder or computed."""
    view = {
        name: digest
        for name, digest in cell.manifest.files.items()
        if name.startswith("view/")
    }
    rests_on = {
        "view": view,
        "front": front,
        "code": code_digest("deepval.deploy.allocators.feature_sets", __name__),
    }
    plain = [Sight(view) for view in cell.views]

    def make() -> dict[str, bytes]:
        file = io.BytesIO()
        np.savez(file, *(FEATURE_SETS[front].rows(sight) for sight in plain))
        return {ROWS: file.getvalue()}

    folder = store_result(work / "kept", "rows", rests_on, make)
    arrays = npz_arrays(reading.content(folder / ROWS))
    by_unit = {
        sight.view.scene.unit: rows
        for sight, rows in zip(plain, arrays.values(), strict=True)
    }
    for rows in by_unit.values():
        rows.setflags(write=False)
    return by_unit


def scores_to_bytes(scored: Mapping[str, Scored]) -> bytes:
    """Scores by name as the content of a file."""
    about = [
        {
            "name": s.name,
            "kind": s.kind,
            "modes": list(s.modes),
            "inputs": s.inputs,
            "reason": s.reason,
        }
        for s in scored.values()
    ]
    arrays: dict[str, Any] = {
        f"input{i}": s.input for i, s in enumerate(scored.values())
    }
    arrays |= {f"score{i}": s.score for i, s in enumerate(scored.values())}
    file = io.BytesIO()
    np.savez(
        file,
        about=np.array(json_canonical({"names": list(scored), "about": about})),
        **arrays,
    )
    return file.getvalue()


def scores_from_bytes(data: bytes) -> dict[str, Scored]:
    """The scores in a file, by name."""
    arrays = npz_arrays(data)
    content = json_content(str(arrays["about"]).encode(), "stored scores")
    return {
        name: Scored(
            about["name"],
            about["kind"],
            arrays[f"input{i}"],
            arrays[f"score{i}"],
            tuple(about["modes"]),
            about["inputs"],
            about["reason"],
        )
        for i, (name, about) in enumerate(
            zip(content["names"], content["about"], strict=True)
        )
    }


def identity(cell: BuiltCell) -> dict[str, Any]:
    """The id of a cell and the hash of its files, for keys."""
    return {"id": cell.id, "files": cell.digest}


@contextmanager
def storing_fits(work: Path) -> Iterator[None]:
    """While active, fits are stored in a work folder, and read from there if already
    stored.
    """
    with fits_kept_by(partial(_stored_fit, work)):
        yield


def _stored_fit(
    work: Path,
    cell: BuiltCell,
    recipe: Recipe,
    training: Training,
    fit: Callable[[], FittedAllocator],
) -> FittedAllocator:
    rests_on = {
        "cell": identity(cell),
        "code": code_digest(CODE),
        "recipe": repr(recipe),
        "training": plain(training.content()),
    }
    folder = store_result(
        work / "kept", "models", rests_on, lambda: {MODEL: fit().to_json().encode()}
    )
    return read_allocator(folder / MODEL)


def stored_scores(
    cell: BuiltCell,
    work: Path,
    kind: str,
    settings: Mapping[str, Any],
    make: Callable[[], Mapping[str, Scored]],
) -> dict[str, Scored]:
    """Scores of a cell; made if they are not stored."""
    folder = _stored(
        cell, work, kind, settings, lambda: {SCORES: scores_to_bytes(make())}
    )
    return scores_from_bytes(reading.content(folder / SCORES))


def stored_result(
    cell: BuiltCell,
    work: Path,
    kind: str,
    settings: Mapping[str, Any],
    make: Callable[[], Result],
) -> Result:
    """A result on a cell with its samples; made if it is not stored."""

    def files() -> dict[str, bytes]:
        result = make()
        text = result.to_json().encode()
        samples = result.samples
        own = (
            {}
            if samples is None
            else {samples_path(f"{kind}.json").name: samples.to_bytes(sha256(text))}
        )
        return {f"{kind}.json": text} | own

    folder = _stored(cell, work, "results", {"kind": kind, **settings}, files)
    return Result.load(folder / f"{kind}.json")


def _stored(
    cell: BuiltCell,
    work: Path,
    kind: str,
    settings: Mapping[str, Any],
    make: Callable[[], Mapping[str, bytes]],
) -> Path:
    rests_on = {
        "cell": identity(cell),
        "code": code_digest(CODE),
        "settings": dict(settings),
    }
    return store_result(work / "kept", kind, rests_on, make)
