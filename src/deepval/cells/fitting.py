"""A built cell and a recipe -> a fitted allocator; a built cell and an allocator -> scores of its inputs.

Labels come from training and validation units only: a fit that names a test unit is refused.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from deepval.allocators import (
    RECIPES,
    Allocator,
    Examples,
    FittedAllocator,
    Learned,
    Recipe,
    Training,
    read_allocator,
    recipe_named,
)
from deepval.allocators.allocator import SIGNALS
from deepval.arrays import Float, Int, Shaped
from deepval.cells.case import ALLOCATORS
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import units_of
from deepval.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS, unit_folds
from deepval.engines import Map
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.features import Sight
from deepval.files import reading
from deepval.judging.budgets import Budget
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, unwatched
from deepval.results import Result
from deepval.tables.columns import positions
from deepval.tables.costs import Costs
from deepval.tables.scores import Fit, Kind, Scores
from deepval.tables.values import ValueTable
from deepval.targets import TARGETS, labels
from deepval.targets.objectives import RoutingObjective

Keeper = Callable[[BuiltCell, Recipe, Training, Callable[[], FittedAllocator]], FittedAllocator]
"""Gives what was fitted on a cell before, or has it fitted now."""
_KEEPER: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def fits_kept_by(keeper: Keeper) -> Iterator[None]:
    """Whatever is fitted meanwhile is asked of somebody who may have it: many analyses want the same fits."""
    token = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(token)


def _holding(cell: BuiltCell, units: Sequence[str]) -> list[str]:
    """Those of the units that hold inputs in the cell; the others are warned of by name."""
    here = set(cell.table.unit_ids.tolist())
    empty = [unit for unit in units if unit not in here]
    if len(empty) == len(units):
        raise InputError(f"{cell.id}: units must hold inputs; none of {', '.join(empty)} does.")
    if empty:
        warnings.warn(
            InputWarning(f"{cell.id}: no inputs in {', '.join(empty)}; the other {len(units) - len(empty)} are used."),
            stacklevel=3,
        )
    return [unit for unit in units if unit in here]


def fit_on(
    cell: BuiltCell,
    recipe: str | Recipe,
    *,
    target: str | None = None,
    units: str | Sequence[str] = "fit",
    seed: int = 0,
    watch: Watch = unwatched,
) -> FittedAllocator:
    """The allocator of a recipe, fitted on a cell's training and validation units.

    Args:
        cell: The cell.
        recipe: Name of the recipe, or a recipe.
        target: What to predict, a name in TARGETS; the recipe's own if not given.
        units: The units to fit on, by role or by name; none may be a test unit.
        seed: Seed of what is random in the fit.
        watch: Told of every step of a long fit.
    """
    made = recipe_named(recipe) if isinstance(recipe, str) else recipe
    if cell.split.too_few is not None:
        raise InputError(
            f"{cell.id}: there is nothing to fit on: {cell.split.too_few}, and all are test units. Build the cell from "
            "more units, or score it by a signal or by an allocator that was fitted on another cell."
        )
    used = units_of(cell.split, units)
    held = sorted(set(used) & set(cell.split.test))
    if held:
        raise InputError(
            f"An allocator is fitted on training and validation units only; of {cell.id}, {', '.join(held)} are test "
            "units: leave them out."
        )
    return _fitted(cell, made, used, target or made.target, seed=seed, watch=watch)


def _fitted(
    cell: BuiltCell, made: Recipe, used: Sequence[str], wanted: str, *, seed: int, watch: Watch = unwatched
) -> FittedAllocator:
    """The allocator of a recipe, fitted to a target on these units, whatever their role."""
    evidence = cell.evidence.restrict(_holding(cell, used))
    table = evidence.table
    allowed = [name for name, each in TARGETS.items() if made.admits(name, classifies=each.classifies)]
    if wanted not in allowed:
        raise InputError(f"{made.name}: a target must be one of {', '.join(allowed)}; found {wanted!r}.")
    if made.per_mode:
        learned, classify = table.mode_values[:, 1:], False
    else:
        objective = TARGETS[wanted].objective
        if isinstance(objective, RoutingObjective):
            evidence = evidence.found_from(_role(cell, used, wanted), objective.column)
        found = labels(wanted, evidence)
        learned, classify = found.values, TARGETS[wanted].classifies
    fitted_on = tuple(map(str, table.unit_ids))
    training = Training(cell.id, made.name, wanted, fitted_on, len(table), seed, cell.table.modes, {})

    def fit() -> FittedAllocator:
        sights = _sights(cell, used)
        examples = Examples(sights, _rows(table, sights), learned, classify)
        return made.fit(examples, training, watch=watch)

    keeper = _KEEPER.get()
    return fit() if keeper is None else keeper(cell, made, training, fit)


def _role(cell: BuiltCell, used: Sequence[str], target: str) -> str:
    """The role whose units these are; a target whose numbers rest on many frames is kept for these roles only."""
    here = set(cell.table.unit_ids.tolist())
    for role, units in (("train", cell.split.train), ("fit", cell.split.fit)):
        if here & set(units) == here & set(used):
            return role
    raise InputError(
        f"The target {target} rests on all frames of a fit at once, so the units must be train or fit (train and "
        f"validation); found {', '.join(used)}: fit on --units train or fit, or take another target."
    )


def _sights(cell: BuiltCell, units: Sequence[str]) -> tuple[Sight, ...]:
    """What the frames of some units show."""
    return tuple(sight for sight in cell.sights if sight.view.scene.unit in units)


def _rows(table: ValueTable, sights: Sequence[Sight]) -> Int[np.ndarray, "input"]:
    """The place of each input of a table among the frames of sights, unit after unit."""
    frames = np.concatenate([np.zeros(0, dtype=str), *(sight.view.scene.inputs for sight in sights)])
    rows = positions(table.input, frames)
    if (rows < 0).any():
        raise InputError(
            f"a cell's view must show every input; it does not show {table.input[rows < 0][0]}: build the cell again."
        )
    return rows


def refit(cell: BuiltCell, like: FittedAllocator, *, watch: Watch = unwatched) -> FittedAllocator:
    """The allocator fitted again from what its file says: the same bytes on the same cell."""
    told = like.training
    if told.cell != cell.id:
        raise InputError(f"The allocator was fitted on cell {told.cell}; this is {cell.id}: give that cell.")
    recipe = recipe_named(told.recipe).like(told.settings)
    return fit_on(cell, recipe, target=told.target, units=told.units, seed=told.seed, watch=watch)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of some inputs of a cell.

    Attributes:
        name: Name of what scored.
        kind: Whether a vehicle could compute them.
        input: The inputs that have a score.
        score: The score of each; one per mode above cheap where the allocator gives as many.
        modes: Names of those modes, empty for a plain score.
        inputs: How many inputs there are, with a score or without.
        reason: Why inputs are without, None where all have one.
        fit: Which inputs are of units that the allocator behind their scores was fitted on; None where unknown.
    """

    name: str
    kind: Kind
    input: Shaped[np.ndarray, "input"]
    score: Float[np.ndarray, "input *mode"]
    modes: tuple[str, ...]
    inputs: int
    reason: str | None = None
    fit: Fit | None = None

    @property
    def coverage(self) -> float:
        """Share of the inputs that have a score."""
        return len(self.input) / self.inputs

    def columns(self) -> dict[str, np.ndarray]:
        """Columns of a scores file."""
        more = {"kind": np.full(len(self.input), self.kind)} if self.kind == "diagnostic" else {}
        more |= {} if self.fit is None else self.fit.columns()
        if not self.modes:
            return {"input": self.input, "score": self.score, **more}
        return {"input": self.input, **{f"score_{mode}": self.score[:, m] for m, mode in enumerate(self.modes)}, **more}

    def over(self, table: ValueTable) -> Scores:
        """The scores aligned with a table; inputs without one are marked."""
        rows = positions(table.input, self.input)
        covered = rows >= 0
        values = np.full((len(table), *self.score.shape[1:]), np.nan)
        values[covered] = self.score[rows[covered]]
        fit = None if self.fit is None else self.fit.keep(rows[covered]).spread(np.flatnonzero(covered), len(table))
        return Scores(self.name, values, covered, self.modes, self.kind, fit)


def allocator_named(text: str | Path, cell: Path | None = None) -> Allocator:
    """The untrained signal of this name, or the fitted allocator in this file, or of this name beside a cell."""
    if isinstance(text, str) and text in SIGNALS:
        return SIGNALS[text]
    file = Path(text)
    if cell is not None and file.name == str(text) and not reading.is_file(file):
        beside = fitted_file(cell, file.name)
        file = beside if reading.is_file(beside) else file
    if not reading.exists(file):
        raise InputError(
            f"What scores must be a signal ({', '.join(SIGNALS)}), a diagnostic "
            f"({', '.join(DIAGNOSTICS | PLANNING_DIAGNOSTICS)}) "
            f"or a file that `deepval fit` wrote; found {str(text)!r}."
        )
    return read_allocator(file)


def called(text: str) -> str:
    """What scores and costs of an allocator are called: after its file, or by its name."""
    return Path(text).stem if reading.is_file(Path(text)) else text


def fitted_file(cell: Path, name: str) -> Path:
    """Where an allocator lies that was fitted on a cell and kept nowhere else."""
    return cell / ALLOCATORS / f"{name}.json"


def score_on(cell: BuiltCell, allocator: Allocator | str | Path, *, units: str | Sequence[str] = "test") -> Scored:
    """Scores of a cell's inputs by an allocator, a signal or a diagnostic; inputs that it cannot score are left out."""
    used = _holding(cell, units_of(cell.split, units))
    table = cell.table.restrict(used)
    known = DIAGNOSTICS | PLANNING_DIAGNOSTICS
    if isinstance(allocator, str) and allocator in known:
        values = known[allocator].scores(cell.evidence)[positions(table.input, cell.table.input)]
        return _scored(allocator, "diagnostic", table, values, (), "the diagnostic is undefined there")
    found = allocator_named(allocator, cell.folder) if isinstance(allocator, str | Path) else allocator
    if found.per_mode and found.modes != table.modes:
        raise InputError(
            f"{found.name} scores the modes {', '.join(found.modes)}; the cell has {', '.join(table.modes)}: fit it on "
            "a cell with these modes."
        )
    sights = _sights(cell, used)
    rows = _rows(table, sights)
    values = np.concatenate([found.score(sight) for sight in sights])[rows]
    reason = found.undefined(cell.views[0].mode) or "the cheap mode was not run there"
    modes = found.modes[1:] if found.per_mode else ()
    return _scored(found.name, "deployable", table, values, modes, reason, _fit_on_units(cell, found, table))


def _fit_on_units(cell: BuiltCell, allocator: Allocator, table: ValueTable) -> Fit:
    """Which inputs of a part of the cell are of units that the allocator was fitted on."""
    units = _fitted_units(cell, allocator)
    number = len(allocator.training.units) if isinstance(allocator, FittedAllocator) else len(units)
    return Fit(np.full(len(table), number), np.isin(table.unit_ids, units)[table.unit])


def _fitted_units(cell: BuiltCell, allocator: Allocator) -> list[str]:
    """The units of the cell's data set that an allocator was fitted on, on this cell or another."""
    if not isinstance(allocator, FittedAllocator):
        # A signal of probabilities rests on the map from raw scores, which the build fits on training units.
        calibrated = cell.views[0].mode.calibration is not None and "cheap scores" in allocator.uses
        return list(cell.split.train) if calibrated else []
    # A cell's id begins with its data set, and other data sets may use the same names for other units.
    same = allocator.training.cell.startswith(f"{cell.split.dataset}-")
    return list(allocator.training.units) if same else []


def calibration_scores(
    cell: BuiltCell,
    allocator: Allocator | str | Path,
    *,
    units: str | Sequence[str] = "validation,test",
    watch: Watch = unwatched,
) -> Scored:
    """Scores to judge and to calibrate by: no validation input is scored by a fit that used its unit, where avoidable.

    An allocator that was fitted on validation units scores the other units itself. For its validation units the same
    recipe, target and seed are fitted again without them. Where that is impossible (it was fitted on another cell, on
    nothing else, or needs an extra to fit) it scores them itself, and `fit` marks their inputs.
    """
    diagnostics = DIAGNOSTICS | PLANNING_DIAGNOSTICS
    if isinstance(allocator, str) and allocator in diagnostics:
        return score_on(cell, allocator, units=units)
    made = allocator_named(allocator, cell.folder) if isinstance(allocator, str | Path) else allocator
    used = units_of(cell.split, units)
    seen = [unit for unit in used if unit in cell.split.validation and unit in _fitted_units(cell, made)]
    again = _without_validation(cell, made, watch) if seen and isinstance(made, FittedAllocator) else None
    if again is None:
        return score_on(cell, made, units=used)
    others = [unit for unit in used if unit not in seen]
    parts = [score_on(cell, again, units=seen), *([score_on(cell, made, units=others)] if others else [])]
    return _joined(cell, parts)


def _without_validation(cell: BuiltCell, made: FittedAllocator, watch: Watch) -> FittedAllocator | None:
    """The allocator fitted again without validation units; None where it cannot be."""
    used = made.training
    units = [unit for unit in used.units if unit not in cell.split.validation]
    recipe = recipe_named(used.recipe).like(used.settings)
    if used.cell != cell.id or not units or recipe.extra is not None:
        return None
    try:
        return fit_on(cell, recipe, target=used.target, units=units, seed=used.seed, watch=watch)
    except NothingToLearnError as error:
        note = f"{made.name} scores its validation units itself, as a fit without them has nothing to learn: {error}"
        warnings.warn(InputWarning(note), stacklevel=3)
        return None


def _joined(cell: BuiltCell, parts: Sequence[Scored]) -> Scored:
    """Scores of different units by fits of one recipe, in the order of the cell's table."""
    inputs, scores = (np.concatenate([getattr(part, name) for part in parts]) for name in ("input", "score"))
    fits = [part.fit for part in parts if part.fit is not None]
    fit = Fit(*(np.concatenate([getattr(each, name) for each in fits]) for name in ("units", "inside")))
    rows = np.argsort(positions(inputs, cell.table.input))
    reason = next((part.reason for part in parts if part.reason), None)
    number = sum(part.inputs for part in parts)
    one = parts[0]
    return Scored(one.name, one.kind, inputs[rows], scores[rows], one.modes, number, reason, fit.keep(rows))


def rows_on(cell: BuiltCell, made: Learned, *, units: str | Sequence[str] = "fit") -> Float[np.ndarray, "row column"]:
    """What a learned allocator looks at in the frames of a cell's units, where the cheap mode was run."""
    reason = made.undefined(cell.views[0].mode)
    if reason is not None:
        raise InputError(f"{made.name} cannot score here: {reason}.")
    sights = _sights(cell, _holding(cell, units_of(cell.split, units)))
    return np.concatenate([made.front.rows(sight)[sight.view.detections.run] for sight in sights])


def out_of_fold(cell: BuiltCell, recipe: str | Recipe, *, folds: int = 5, seed: int = 0, map_fits: Map = map) -> Scored:
    """Scores of all inputs, each by an allocator that was fitted on the units of the other folds.

    Units that hold inputs, sorted as text, are dealt out to the folds in turn, test units among them: what is judged
    by these scores is not held out in the sense of the split. `map_fits` says where folds are fitted.
    """
    made = recipe_named(recipe) if isinstance(recipe, str) else recipe
    held = np.unique(unit_folds(cell.table, folds)).tolist()
    parts = list(map_fits(partial(_fold, cell, made, folds, seed), held))
    inputs, scores = (np.concatenate([getattr(part, name) for part in parts]) for name in ("input", "score"))
    reason = next((part.reason for part in parts if part.reason), None)
    return Scored(made.name, "deployable", inputs, scores, parts[0].modes, len(cell.table), reason)


def _fold(cell: BuiltCell, made: Recipe, folds: int, seed: int, held: int) -> Scored:
    """Scores of the inputs of one fold by a fit on the others."""
    fold, unit = unit_folds(cell.table, folds), cell.table.unit_ids[cell.table.unit]
    seen, unseen = (sorted(set(unit[rows].tolist())) for rows in (fold != held, fold == held))
    return score_on(cell, _fitted(cell, made, seen, made.target, seed=seed), units=unseen)


def _scored(
    name: str,
    kind: Kind,
    table: ValueTable,
    values: np.ndarray,
    modes: tuple[str, ...],
    reason: str,
    fit: Fit | None = None,
) -> Scored:
    scored = ~np.isnan(values if values.ndim == 1 else values.sum(axis=1))
    why = None if scored.all() else reason
    fit = (Fit.none(len(table)) if fit is None else fit).keep(scored)
    return Scored(name, kind, table.input[scored], values[scored], modes, len(table), why, fit)


def recipes_for(cell: BuiltCell) -> tuple[str, ...]:
    """The recipes that make sense on a cell and need no extra.

    Choosing among fidelities needs more than two, and what looks at image boxes needs a placing that does not observe.
    """
    many, mode = len(cell.table.modes) > 2, cell.views[0].mode
    fitting = {name: recipe for name, recipe in RECIPES.items() if recipe.undefined(mode) is None}
    return tuple(name for name, recipe in fitting.items() if recipe.extra is None and (many or not recipe.per_mode))


def scored_by_all(
    cell: BuiltCell,
    recipes: Iterable[str] | None = None,
    *,
    signals: Iterable[str] = tuple(SIGNALS),
    units: str | Sequence[str] = "fit",
    seed: int = 0,
    lenient: bool = False,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores of all inputs by signals and by recipes fitted on `units`, every one unless named; judge on test units.

    Where `lenient`, recipes to which the units have nothing to teach are left out with a warning.
    """
    found = {name: score_on(cell, SIGNALS[name], units="all") for name in signals}
    wanted = list(recipes_for(cell) if recipes is None else recipes)
    for name in watch(wanted, f"fitting on {cell.folder.name}"):
        try:
            found[name] = score_on(cell, fit_on(cell, name, units=units, seed=seed), units="all")
        except NothingToLearnError as error:
            if not lenient:
                raise
            warnings.warn(f"{cell.folder.name}, left out: {error}", InputWarning, stacklevel=2)
    return found


def diagnosed(cell: BuiltCell) -> dict[str, Scored]:
    """Scores of all inputs by every diagnostic that the cell can tell; none of them is deployable."""
    found = {}
    for name in DIAGNOSTICS | PLANNING_DIAGNOSTICS:
        with suppress(InputError):  # a cell keeps what its modes and its planner define
            found[name] = score_on(cell, name, units="all")
    return found


def priced(scored: Mapping[str, Scored], costs: Costs | None) -> dict[str, Scored]:
    """The allocators whose latency a profile knows."""
    known = {} if costs is None else costs.allocators
    return {name: item for name, item in scored.items() if "ms" in known.get(name, {})}


Item = TypeVar("Item", Scored, Scores)


def with_batched(scored: Mapping[str, Item], costs: Costs) -> dict[str, Item]:
    """The scores, and again as `<name>-batched` where a profile says what scoring in batches costs: the same scores."""
    other = {f"{name}-batched": item for name, item in scored.items()}
    again = {name: replace(item, name=name) for name, item in other.items() if name in costs.allocators}
    return {**scored, **{name: item for name, item in again.items() if name not in scored}}


def judged(
    cell: BuiltCell, scored: Mapping[str, Scored], budgets: Sequence[Budget] | None = None, **settings: Any
) -> Result:
    """The judgement of scores on a cell's test units; what scores nothing is left out."""
    scores = {name: item.over(cell.table) for name, item in scored.items() if len(item.input)}
    return evaluate(cell.listed, scores, budgets, units=list(cell.split.test), **settings)
