"""A built cell -> what analyses share of it, made once: allocators fitted, scores, results free and charged, kept.

Every part rests on the cell's files, on its own settings and on the code that makes it.
"""

import io
import json
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from deepval.allocators import read_allocator, recipe_named
from deepval.allocators.allocator import SIGNALS, FittedAllocator, Recipe, Training
from deepval.allocators.feature_sets import FEATURE_SETS
from deepval.arrays import Float
from deepval.cells import fitting
from deepval.cells.fitting import Scored, fit_on, fits_kept_by, score_on
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.judgement import judge
from deepval.cells.label_fits import GAINS, PUBLISHED, RANK, SIGNED_CDF, VALUE, Label, taught
from deepval.cells.spec import CellSpec
from deepval.errors import InputWarning, NothingToLearnError
from deepval.features import Sight
from deepval.features.glances import Row
from deepval.files import reading
from deepval.files.canonical import json_canonical, json_content, plain, sha256
from deepval.files.writing import npz_arrays
from deepval.judging.allowances import LEVELS, Latency, Selection
from deepval.paper.analyses.skipping import skippers
from deepval.protocol.store import code_digest, store_result
from deepval.results import Record, Result
from deepval.results.result import samples_path
from deepval.tables.costs import Costs, read_costs
from deepval.tables.scores import Scores

ROWS = "rows.npz"
Keeper = Callable[[str], Mapping[str, Float[np.ndarray, "time column"]]]
"""Gives the rows of a front by unit, as they were kept or made now."""


@dataclass(frozen=True, eq=False)
class KeptSight(Sight):
    """A sight whose rows are asked of somebody who may have them."""

    keeper: Keeper = field(kw_only=True)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """The rows as they were kept; those of no front are made as ever."""
        front = next((entry.name for entry in FEATURE_SETS.values() if entry.row == row), None)
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
        rests_on = {"view": view, "front": front, "code": code_digest("deepval.allocators.feature_sets", __name__)}

        def make() -> dict[str, bytes]:
            file = io.BytesIO()
            np.savez(file, *(FEATURE_SETS[front].rows(sight) for sight in sights))
            return {ROWS: file.getvalue()}

        folder = store_result(self.work / "kept", "rows", rests_on, make)
        arrays = npz_arrays(reading.content(folder / ROWS))
        found = {sight.view.scene.unit: rows for sight, rows in zip(sights, arrays.values(), strict=True)}
        for rows in found.values():
            rows.setflags(write=False)
        return found


def seen_cell(folder: Path, work: Path) -> SeenCell:
    """The cell in a folder, its rows kept in a work folder."""
    found = read_cell(folder)
    return SeenCell(found.manifest, found.digest, work=work)


def as_bytes(rows: Sequence[Any]) -> bytes:
    """Rows, all of one kind, as a file."""
    kind = f"{type(rows[0]).__module__}:{type(rows[0]).__qualname__}" if rows else None
    return json.dumps({"kind": kind, "rows": [plain(row) for row in rows]}, allow_nan=False).encode()


def of_bytes(data: bytes) -> list[Any]:
    """The rows in a file."""
    told = json_content(data, "rows that are kept")
    if told["kind"] is None:
        return []
    module, _, name = told["kind"].partition(":")
    if not module.startswith("deepval."):
        raise ValueError(f"rows must be of deepval; found {module}")
    kind = getattr(import_module(module), name)
    return [_typed(kind, row) for row in told["rows"]]


def _typed(form: Any, content: Any) -> Any:
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, types.UnionType):
        forms = [part for part in parts if part is not types.NoneType]
        return None if content is None else _typed(forms[0], content) if len(forms) == 1 else content
    if isinstance(form, type) and issubclass(form, Record):
        return form.of_columns({name: _typed(of.form, content[name]) for name, of in form.columns().items()})
    if isinstance(form, type) and is_dataclass(form):
        forms = get_type_hints(form)
        return form(**{item.name: _typed(forms[item.name], content[item.name]) for item in fields(form) if item.init})
    if origin is tuple:
        forms = [parts[0]] * len(content) if parts[-1] is Ellipsis else parts
        return tuple(_typed(part, item) for part, item in zip(forms, content, strict=True))
    if origin is frozenset:
        return frozenset(content)
    if origin in (list, Sequence):
        return [_typed(parts[0], item) for item in content]
    if origin in (dict, Mapping):
        return {key: _typed(parts[1], item) for key, item in content.items()}
    return content


BOARD = "jetson-agx-xavier"
BOARD_MODES = ("yolov8s-320", "yolov8s-640")
"""What the cheap and the full mode of a cell without costs are charged as: public detectors have none of their own."""
CODE = "deepval.cells.fitting"
MODEL = "model.json"
RELABELLED: dict[str, tuple[Label, ...]] = {
    "gate-ridge": (VALUE, *GAINS),
    "gate-gbm": (VALUE, *GAINS),
    "router-gbm-value": (VALUE, RANK, SIGNED_CDF, *PUBLISHED),
    "router-gbm-binary": (VALUE, *PUBLISHED),
}
"""What is fitted on which labels; networks are left to `deepval analyse`, for they take ten times as long."""
Role = Literal["fit", "train"]


@dataclass(frozen=True)
class CellAtHand:
    """A cell of a run.

    Attributes:
        label: What the report calls it.
        collection: What the report calls the cells of its data set and units.
        folder: Where it lies.
        spec: Its specification with the data at hand; None where nobody said where they lie.
        work: Folder in which what was made is kept.
        costs: What modes and allocators cost where the cell has no costs: a file, or a shipped profile.
        recipes: What is fitted; all that make sense on the cell where None.
    """

    label: str
    collection: str
    folder: Path
    spec: CellSpec | None
    work: Path
    costs: str = BOARD
    recipes: tuple[str, ...] | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # What was made is kept in files; another process reads it there.
        return {name: value for name, value in vars(self).items() if name not in ("_made", "cell")} | {"_made": {}}

    @cached_property
    def cell(self) -> BuiltCell:
        """The cell."""
        return seen_cell(self.folder, self.work)

    @property
    def identity(self) -> dict[str, Any]:
        """What the cell is, for keys: its id and the hash of its files."""
        return {"id": self.cell.id, "files": self.cell.digest}

    def part(self, name: str) -> Any:
        """One of PARTS, made where it is not kept; None where it makes no sense here."""
        if name not in self._made:
            with warnings.catch_warnings():
                # What a command would remark on, such as a full mode that harms more than it helps, stands in the rows.
                warnings.simplefilter("ignore", InputWarning)
                with self.keeping_fits():
                    self._made[name] = PARTS[name](self)
        return self._made[name]

    @contextmanager
    def keeping_fits(self) -> Iterator[None]:
        """Whatever is fitted meanwhile, on any cell, is kept in the work folder and fitted once."""

        def keeper(
            cell: BuiltCell, recipe: Recipe, training: Training, fit: Callable[[], FittedAllocator]
        ) -> FittedAllocator:
            rests_on = {
                "cell": {"id": cell.id, "files": cell.digest},
                "code": code_digest("deepval.cells.fitting"),
                "recipe": repr(recipe),
                "training": plain(asdict(training)),
            }
            folder = store_result(self.work / "kept", "models", rests_on, lambda: {MODEL: fit().to_json().encode()})
            return read_allocator(folder / MODEL)

        with fits_kept_by(keeper):
            yield

    def kept(self, kind: str, settings: Mapping[str, Any], make: Callable[[], Mapping[str, bytes]]) -> Path:
        """The folder of files that rest on the cell, on these settings and on the code of this module."""
        rests_on = {"cell": self.identity, "code": code_digest(CODE), "settings": dict(settings)}
        return store_result(self.work / "kept", kind, rests_on, make)


def _recipes(at: CellAtHand) -> tuple[str, ...]:
    if at.cell.split.too_few is not None:
        return ()
    known = fitting.recipes_for(at.cell)
    return known if at.recipes is None else tuple(name for name in known if name in at.recipes)


def _fitted(at: CellAtHand, role: Role, recipes: tuple[str, ...]) -> dict[str, FittedAllocator]:
    return {recipe: fit_on(at.cell, recipe, units=role) for recipe in recipes}


def _scores(at: CellAtHand, role: Role, recipes: tuple[str, ...]) -> dict[str, Scored]:
    def make() -> dict[str, bytes]:
        allocators = {**SIGNALS, **_fitted(at, role, recipes)}
        return {
            "scores.npz": _packed({name: score_on(at.cell, entry, units="all") for name, entry in allocators.items()})
        }

    folder = at.kept("scores", {"recipes": recipes, "units": role}, make)
    return _unpacked(reading.content(folder / "scores.npz"))


def _diagnosed(at: CellAtHand) -> dict[str, Scored]:
    folder = at.kept("diagnostics", {}, lambda: {"scores.npz": _packed(fitting.diagnosed(at.cell))})
    return _unpacked(reading.content(folder / "scores.npz"))


def _packed(scored: Mapping[str, Scored]) -> bytes:
    about = [
        {"name": s.name, "kind": s.kind, "modes": list(s.modes), "inputs": s.inputs, "reason": s.reason}
        for s in scored.values()
    ]
    arrays: dict[str, Any] = {f"input{i}": s.input for i, s in enumerate(scored.values())}
    arrays |= {f"score{i}": s.score for i, s in enumerate(scored.values())}
    file = io.BytesIO()
    np.savez(file, about=np.array(json_canonical({"names": list(scored), "about": about})), **arrays)
    return file.getvalue()


def _unpacked(data: bytes) -> dict[str, Scored]:
    held = npz_arrays(data)
    told = json_content(str(held["about"]).encode(), "what is kept")
    return {
        name: Scored(
            about["name"], about["kind"], held[f"input{i}"], held[f"score{i}"], tuple(about["modes"]),
            about["inputs"], about["reason"],
        )
        for i, (name, about) in enumerate(zip(told["names"], told["about"], strict=True))
    }  # fmt: skip


def costs_of(at: CellAtHand) -> Costs:
    """The cell's own costs, or those of the run, under the names of the cell's modes."""
    if at.cell.table.costs is not None:
        return at.cell.table.costs
    profile, modes = read_costs(at.costs), at.cell.table.modes
    if all(mode in profile.modes for mode in modes):
        return profile
    return profile.with_modes(dict(zip((modes[0], modes[-1]), BOARD_MODES, strict=True)))


def _judged(at: CellAtHand, kind: str, settings: Mapping[str, Any], make_result: Callable[[], Result]) -> Result:
    def make() -> dict[str, bytes]:
        result = make_result()
        text = result.to_json().encode()
        files = {f"{kind}.json": text}
        if result.samples is not None:
            files[samples_path(f"{kind}.json").name] = result.samples.to_bytes(sha256(text))
        return files

    folder = at.kept("results", {"kind": kind, "alphas": LEVELS, **settings}, make)
    return Result.load(folder / f"{kind}.json")


def _free(at: CellAtHand) -> Result:
    recipes = _recipes(at)

    def result() -> Result:
        scored = at.part("scores")
        return judge(at.cell, scored, command="reproduce free")

    return _judged(at, "free", {"recipes": recipes}, result)


def _priced(at: CellAtHand) -> dict[str, Scored]:
    """The scores whose latency is known, of what scores at all; those served in batches again, under their own name."""
    costs = costs_of(at)
    found = fitting.priced(fitting.with_batched(at.part("scores"), costs), costs)
    return {name: item for name, item in found.items() if len(item.input)}


def _diagnosed_result(at: CellAtHand) -> Result:
    def result() -> Result:
        scored = at.part("diagnostics")
        return judge(at.cell, scored, command="reproduce diagnosed")

    return _judged(at, "diagnosed", {}, result)


def _priced_recipes(at: CellAtHand) -> tuple[str, ...]:
    known = costs_of(at).allocators
    return tuple(recipe for recipe in _recipes(at) if "ms" in known.get(recipe, {}))


def _charged(at: CellAtHand) -> Result:
    costs = costs_of(at)

    def result() -> Result:
        scored = at.part("priced")
        budgets = [*(Selection(a) for a in LEVELS), *(Latency(a, costs) for a in LEVELS)]
        return judge(at.cell, scored, budgets, command="reproduce charged")

    settings = {"recipes": _recipes(at), "costs": costs.to_dict(), "budgets": "free and charged"}
    return _judged(at, "charged", settings, result)


def _relabelled(at: CellAtHand) -> Result | None:
    """Some recipes on other labels than their own too."""
    wanted = {
        taught(recipe, label.name): (recipe, label.target(recipe_named(recipe)))
        for recipe, labels in RELABELLED.items()
        if recipe in _recipes(at)
        for label in labels
        if label.lacking(at.cell) is None
    }
    if not wanted:
        return None

    def result() -> Result:
        scored = {}
        for name, (recipe, target) in wanted.items():
            with suppress(NothingToLearnError):
                scored[name] = replace(score_on(at.cell, fit_on(at.cell, recipe, target=target)), name=name)
        return judge(at.cell, scored, command="reproduce relabelled")

    return _judged(at, "relabelled", {"recipes": wanted}, result)


def _skipping(at: CellAtHand) -> Result | None:
    costs = costs_of(at)
    scored = {name: item for name, item in at.part("priced").items() if name in skippers()}
    if not scored:
        return None

    def result() -> Result:
        budgets = [Latency(a, costs, how) for how in ("cascade", "skipping") for a in LEVELS]
        return judge(at.cell, scored, budgets, command="reproduce skipping")

    return _judged(at, "skipping", {"allocators": list(scored), "costs": costs.to_dict()}, result)


def _causal(at: CellAtHand) -> Result | None:
    costs, held = costs_of(at), list(at.cell.split.validation)
    if not held:
        return None

    def result() -> Result:
        scored = fitting.priced(at.part("train_scores"), costs)
        budgets = [*(Selection(a) for a in LEVELS), *(Latency(a, costs) for a in LEVELS)]
        return judge(at.cell, scored, budgets, command="reproduce causal", calibration=held)

    return _judged(at, "causal", {"recipes": _priced_recipes(at), "costs": costs.to_dict()}, result)


def _aligned(at: CellAtHand) -> list[Scores]:
    return [item.over(at.cell.table) for item in at.part("scores").values() if len(item.input) == item.inputs]


PARTS: dict[str, Callable[[CellAtHand], Any]] = {
    "cells": lambda at: at.cell,
    "located": lambda at: at.spec,
    "costs": costs_of,
    "fitted": lambda at: _fitted(at, "fit", _recipes(at)),
    "scores": lambda at: _scores(at, "fit", _recipes(at)),
    "train_scores": lambda at: _scores(at, "train", _priced_recipes(at)),
    "diagnostics": _diagnosed,
    "aligned": _aligned,
    "priced": _priced,
    "results": _free,
    "diagnosed": _diagnosed_result,
    "charged": _charged,
    "causal": _causal,
    "skipping": _skipping,
    "relabelled": _relabelled,
}
"""What analyses may take of a cell, by name: the cell itself, its specification with the data at hand, what its modes
and allocators cost, allocators fitted on its fit units, scores of all inputs by signals and those allocators, the like
with allocators that have costs fitted on the training units, scores by diagnostics, scores that cover every input
aligned with the table, those whose cost is known, and results on the test units with allocators free, of diagnostics,
with allocators charged beside free, charged under causal policies, (those that need no cheap pass) charged for skipping
it, and free after training on other labels."""

SAME = {"free": "results", "streamed": "causal"}
"""Parts that differ on the command line alone, by the part that a report supplies."""
