"""A built cell and a recipe -> a fitted allocator; a built cell and an allocator ->
scores of its inputs.

Labels come from training and validation units only: a fit that names a test unit is
refused.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.basics.errors import (
    InputError,
    InputWarning,
    NothingToLearnError,
    suggestion,
)
from deepval.basics.files import reading
from deepval.basics.files.canonical import ALLOCATORS
from deepval.basics.files.reading import check_form
from deepval.basics.progress import Watch, unwatched
from deepval.basics.workers import Map
from deepval.deploy.allocators import (
    OWN_CODE,
    RECIPES,
    Allocator,
    Examples,
    FittedAllocator,
    Learned,
    Recipe,
    Training,
    read_allocator,
    recipe_by_name,
)
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS, unit_folds
from deepval.deploy.features import Sight
from deepval.deploy.labels import TARGETS, labels
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.evidence import RoutingObjective
from deepval.driving.planners.controllers import Rule
from deepval.driving.world.objects import Outputs
from deepval.judge.cases import ScoredInputs
from deepval.judge.tables.keys import positions
from deepval.judge.tables.scores import Fit, Kind, Scores
from deepval.judge.tables.split import units_of
from deepval.judge.tables.values import ValueTable

Keeper = Callable[
    [BuiltCell, Recipe, Training, Callable[[], FittedAllocator]], FittedAllocator
]
"""Returns the stored fit of a recipe on a cell, or fits now."""
_KEEPER: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def fits_kept_by(keeper: Keeper) -> Iterator[None]:
    """While active, every fit is requested from a store of fits first: many analyses
    need the same fits.
    """
    token = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(token)


def _units_with_inputs(cell: BuiltCell, units: Sequence[str]) -> list[str]:
    """The units that have inputs in the cell; a warning names those that have none."""
    here = set(cell.table.unit_ids.tolist())
    empty = [unit for unit in units if unit not in here]
    if len(empty) == len(units):
        raise InputError(
            f"{cell.id}: units must hold inputs; none of {', '.join(empty)} does."
        )
    if empty:
        warnings.warn(
            InputWarning(
                f"{cell.id}: no inputs in "
                f"{', '.join(empty)}; the other {len(units) - len(empty)} are used."
            ),
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
        target: The target to predict, a name in TARGETS; None takes the recipe's own.
        units: The units to fit on, by role or by name; none may be a test unit.
        seed: Seed of the random steps of the fit.
        watch: Shows the progress of a long fit.
    """
    chosen = recipe_by_name(recipe) if isinstance(recipe, str) else recipe
    if cell.split.too_few is not None:
        raise InputError(
            f"{cell.id}: there is nothing to fit on: {cell.split.too_few}, and all "
            "are test units. Build the cell from more units, or score it by a signal "
            "or by an allocator that was fitted on another cell."
        )
    used = units_of(cell.split, units)
    test_units = sorted(set(used) & set(cell.split.test))
    if test_units:
        raise InputError(
            "An allocator is fitted on training and validation units only; of "
            f"{cell.id}, {', '.join(test_units)} are test units: leave them out."
        )
    return _fit_to_target(
        cell, chosen, used, target or chosen.target, seed=seed, watch=watch
    )


def _fit_to_target(
    cell: BuiltCell,
    recipe: Recipe,
    used: Sequence[str],
    target: str,
    *,
    seed: int,
    watch: Watch = unwatched,
) -> FittedAllocator:
    """The allocator of a recipe, fitted to a target on these units, whatever their
    role.
    """
    evidence = cell.evidence.restrict(_units_with_inputs(cell, used))
    table = evidence.table
    allowed = [
        name
        for name, candidate in TARGETS.items()
        if recipe.admits(name, classifies=candidate.classifies)
    ]
    if target not in allowed:
        raise InputError(
            f"{recipe.name}: a target must "
            f"be one of {', '.join(allowed)}; found {target!r}."
        )
    if recipe.per_mode:
        learned, classify = table.mode_values[:, 1:], False
    else:
        objective = TARGETS[target].objective
        if isinstance(objective, RoutingObjective):
            evidence = evidence.from_role(_role(cell, used, target), objective.column)
        target_labels = labels(target, evidence)
        learned, classify = target_labels.values, TARGETS[target].classifies
    fitted_on = tuple(map(str, table.unit_ids))
    training = Training(
        cell.id,
        recipe.name,
        target,
        fitted_on,
        len(table),
        seed,
        cell.table.modes,
        {},
        OWN_CODE.get(recipe.name),
    )

    def fit() -> FittedAllocator:
        sights = _sights(cell, used)
        examples = Examples(sights, _rows(table, sights), learned, classify)
        if recipe.needs_outputs:
            examples = replace(
                examples, outputs=_outputs(cell, used), rule=rule_of(cell)
            )
        return recipe.fit(examples, training, watch=watch)

    keeper = _KEEPER.get()
    return fit() if keeper is None else keeper(cell, recipe, training, fit)


def _role(cell: BuiltCell, used: Sequence[str], target: str) -> str:
    """The role with exactly these units: a target that depends on many frames is stored
    for train and fit only.
    """
    here = set(cell.table.unit_ids.tolist())
    for role, units in (("train", cell.split.train), ("fit", cell.split.fit)):
        if here & set(units) == here & set(used):
            return role
    raise InputError(
        f"The target {target} depends on all frames of a fit at once, so the units "
        f"must be train or fit (train and validation); found {', '.join(used)}: fit "
        "on --units train or fit, or take another target."
    )


def sights_of(cell: BuiltCell) -> tuple[Sight, ...]:
    """The sights of a cell's views: what an allocator may look at, unit by unit.

    They compute features at first use and are shared by all fits on this cell.
    """
    if "sights" not in cell.computed:
        cell.computed["sights"] = tuple(Sight(view) for view in cell.views)
    return cell.computed["sights"]


def _sights(cell: BuiltCell, units: Sequence[str]) -> tuple[Sight, ...]:
    """What allocators may look at (`Sight`) in some units."""
    return tuple(sight for sight in sights_of(cell) if sight.view.scene.unit in units)


def _outputs(cell: BuiltCell, units: Sequence[str]) -> tuple[Outputs, ...]:
    """The objects of the full mode and of the reference in some units."""
    pairs = zip(cell.views, cell.outputs, strict=True)
    return tuple(outputs for view, outputs in pairs if view.scene.unit in units)


def rule_of(cell: BuiltCell) -> Rule | None:
    """What the cell's downstream system does about objects, with the cell's constants;
    None if it has no such rule.
    """
    rule = None if cell.spec.rule is None else cell.spec.rule.rule
    return (
        None
        if rule is None
        else check_form(
            type(rule), cell.spec.constants, f"the constants of {cell.spec.system}"
        )
    )


def _rows(table: ValueTable, sights: Sequence[Sight]) -> Int[np.ndarray, "input"]:
    """Row of each input of a table among the frames of these sights, which follow unit
    after unit.
    """
    frames = np.concatenate(
        [np.zeros(0, dtype=str), *(sight.view.scene.inputs for sight in sights)]
    )
    rows = positions(table.input, frames)
    if (rows < 0).any():
        raise InputError(
            "a cell's view must show every input; it does not show "
            f"{table.input[rows < 0][0]}: build the cell again."
        )
    return rows


def refit(
    cell: BuiltCell, like: FittedAllocator, *, watch: Watch = unwatched
) -> FittedAllocator:
    """The allocator fitted again from the settings in its file: the same bytes on the
    same cell.
    """
    training = like.training
    if training.cell != cell.id:
        raise InputError(
            f"The allocator was fitted on cell {training.cell}; this is {cell.id}: "
            "give that cell."
        )
    recipe = recipe_by_name(training.recipe).like(training.settings)
    return fit_on(
        cell,
        recipe,
        target=training.target,
        units=training.units,
        seed=training.seed,
        watch=watch,
    )


@dataclass(frozen=True, eq=False)
class Scored(ScoredInputs):
    """Scores of some inputs of a cell.

    Attributes:
        name: Name of the allocator, signal or diagnostic.
        kind: Whether a vehicle could compute them.
        input: The inputs that have a score.
        score: Score of each input; one per mode above cheap where the allocator scores
            modes.
        modes: Names of the modes that are scored; empty where an input has only one
            score.
        inputs: Number of inputs, with a score or without.
        reason: Why some inputs have no score; None where all have one.
        fit: Which inputs are in units that the allocator was fitted on; None where
            unknown.
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
        more = (
            {"kind": np.full(len(self.input), self.kind)}
            if self.kind == "diagnostic"
            else {}
        )
        more |= {} if self.fit is None else self.fit.columns()
        if not self.modes:
            return {"input": self.input, "score": self.score, **more}
        return {
            "input": self.input,
            **{f"score_{mode}": self.score[:, m] for m, mode in enumerate(self.modes)},
            **more,
        }

    def over(self, table: ValueTable) -> Scores:
        """The scores aligned with a table; inputs without one are marked."""
        rows = positions(table.input, self.input)
        covered = rows >= 0
        values = np.full((len(table), *self.score.shape[1:]), np.nan)
        values[covered] = self.score[rows[covered]]
        fit = (
            None
            if self.fit is None
            else self.fit.keep(rows[covered]).on_table(
                np.flatnonzero(covered), len(table)
            )
        )
        return Scores(self.name, values, covered, self.modes, self.kind, fit)


def allocator_named(
    text: str | Path, cell: Path | None = None, *, others: Sequence[str] = ()
) -> Allocator:
    """A signal by its name, or a fitted allocator by its file or by its name in a
    cell's folder.

    `others` are further words that the caller understands, for the suggestion in the
    message.
    """
    if isinstance(text, str) and text in SIGNALS:
        return SIGNALS[text]
    file = Path(text)
    if cell is not None and file.name == str(text) and not reading.is_file(file):
        beside = fitted_file(cell, file.name)
        file = beside if reading.is_file(beside) else file
    if not reading.exists(file):
        advice = suggestion(
            text, [*SIGNALS, *DIAGNOSTICS, *PLANNING_DIAGNOSTICS, *others, *RECIPES]
        )
        if text in RECIPES:
            advice = (
                ", which is not fitted: `deepval "
                f"fit {cell or 'CELL'} -a {text}` fits it."
            )
        raise InputError(
            f"What scores must be a signal ({', '.join(SIGNALS)}), a diagnostic (such "
            "as gain-E1: docs/allocators.md) or a file that "
            f"`deepval fit` wrote; found {str(text)!r}{advice}"
        )
    return read_allocator(file)


def fitted_file(cell: Path, name: str) -> Path:
    """Default file of an allocator that was fitted on a cell: in the cell's folder."""
    return cell / ALLOCATORS / f"{name}.json"


def score_on(
    cell: BuiltCell,
    allocator: Allocator | str | Path,
    *,
    units: str | Sequence[str] = "test",
) -> Scored:
    """Scores of a cell's inputs by an allocator, a signal or a diagnostic; inputs that
    it cannot score are left out.
    """
    used = _units_with_inputs(cell, units_of(cell.split, units))
    table = cell.table.restrict(used)
    diagnostics = DIAGNOSTICS | PLANNING_DIAGNOSTICS
    if isinstance(allocator, str) and allocator in diagnostics:
        values = diagnostics[allocator].scores(cell.evidence)[
            positions(table.input, cell.table.input)
        ]
        return _defined_scores(
            allocator,
            "diagnostic",
            table,
            values,
            (),
            "the diagnostic is undefined there",
        )
    scorer = (
        allocator_named(allocator, cell.folder)
        if isinstance(allocator, str | Path)
        else allocator
    )
    if scorer.per_mode and scorer.modes != table.modes:
        raise InputError(
            f"{scorer.name} scores the modes {', '.join(scorer.modes)}; the cell has "
            f"{', '.join(table.modes)}: fit it on a cell with these modes."
        )
    sights = _sights(cell, used)
    rows = _rows(table, sights)
    values = np.concatenate([scorer.score(sight) for sight in sights])[rows]
    reason = scorer.undefined(cell.views[0].mode) or "the cheap mode was not run there"
    modes = scorer.modes[1:] if scorer.per_mode else ()
    return _defined_scores(
        scorer.name,
        "deployable",
        table,
        values,
        modes,
        reason,
        _fit_on_units(cell, scorer, table),
    )


def _fit_on_units(cell: BuiltCell, allocator: Allocator, table: ValueTable) -> Fit:
    """Which inputs of a table (all or some of the cell's) are in units that the
    allocator was fitted on.
    """
    units = _fitted_units(cell, allocator)
    number = (
        len(allocator.training.units)
        if isinstance(allocator, FittedAllocator)
        else len(units)
    )
    return Fit(np.full(len(table), number), np.isin(table.unit_ids, units)[table.unit])


def _fitted_units(cell: BuiltCell, allocator: Allocator) -> list[str]:
    """The units of the cell's data set that an allocator was fitted on, on this cell or
    another.
    """
    if not isinstance(allocator, FittedAllocator):
        # A signal that uses probabilities depends on the score calibration, which the
        # build fits on training units.
        calibrated = (
            cell.views[0].mode.calibration is not None
            and "cheap scores" in allocator.uses
        )
        return list(cell.split.train) if calibrated else []
    # A cell's id begins with its data set, and other data sets may use the same names
    # for other units.
    same = allocator.training.cell.startswith(f"{cell.split.dataset}-")
    return list(allocator.training.units) if same else []


def calibration_scores(
    cell: BuiltCell,
    allocator: Allocator | str | Path,
    *,
    units: str | Sequence[str] = "validation,test",
    watch: Watch = unwatched,
) -> Scored:
    """Scores to judge and to calibrate by: where avoidable, no validation input is
    scored by a fit that used its unit.

    An allocator that was fitted on validation units scores the other units itself. For
    its validation units the same recipe, target and seed are fitted again without them.
    Where that is impossible (it was fitted on another cell or on validation units
    alone, or needs an extra to fit), the allocator scores them itself, and `fit` marks
    their inputs.
    """
    diagnostics = DIAGNOSTICS | PLANNING_DIAGNOSTICS
    if isinstance(allocator, str) and allocator in diagnostics:
        return score_on(cell, allocator, units=units)
    scorer = (
        allocator_named(allocator, cell.folder)
        if isinstance(allocator, str | Path)
        else allocator
    )
    used = units_of(cell.split, units)
    seen = [
        unit
        for unit in used
        if unit in cell.split.validation and unit in _fitted_units(cell, scorer)
    ]
    again = (
        _without_validation(cell, scorer, watch)
        if seen and isinstance(scorer, FittedAllocator)
        else None
    )
    if again is None:
        return score_on(cell, scorer, units=used)
    others = [unit for unit in used if unit not in seen]
    parts = [
        score_on(cell, again, units=seen),
        *([score_on(cell, scorer, units=others)] if others else []),
    ]
    return _combined(cell, parts)


def _without_validation(
    cell: BuiltCell, allocator: FittedAllocator, watch: Watch
) -> FittedAllocator | None:
    """The allocator fitted again without validation units; None where that is
    impossible.
    """
    training = allocator.training
    units = [unit for unit in training.units if unit not in cell.split.validation]
    recipe = recipe_by_name(training.recipe).like(training.settings)
    if training.cell != cell.id or not units or recipe.extra is not None:
        return None
    try:
        return fit_on(
            cell,
            recipe,
            target=training.target,
            units=units,
            seed=training.seed,
            watch=watch,
        )
    except NothingToLearnError as error:
        note = (
            f"{allocator.name} scores its validation units itself, as a fit without "
            f"them has nothing to learn: {error}"
        )
        warnings.warn(InputWarning(note), stacklevel=3)
        return None


def _combined(cell: BuiltCell, parts: Sequence[Scored]) -> Scored:
    """Scores of different units by fits of one recipe, in the order of the cell's
    table.
    """
    inputs, scores = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("input", "score")
    )
    fits = [part.fit for part in parts if part.fit is not None]
    fit = Fit(
        *(
            np.concatenate([getattr(marks, name) for marks in fits])
            for name in ("units", "inside")
        )
    )
    rows = np.argsort(positions(inputs, cell.table.input))
    reason = next((part.reason for part in parts if part.reason), None)
    number = sum(part.inputs for part in parts)
    first = parts[0]
    return Scored(
        first.name,
        first.kind,
        inputs[rows],
        scores[rows],
        first.modes,
        number,
        reason,
        fit.keep(rows),
    )


def rows_on(
    cell: BuiltCell, allocator: Learned, *, units: str | Sequence[str] = "fit"
) -> Float[np.ndarray, "row column"]:
    """Feature rows of a learned allocator for the frames of a cell's units, where the
    cheap mode was run.
    """
    reason = allocator.undefined(cell.views[0].mode)
    if reason is not None:
        raise InputError(f"{allocator.name} cannot score here: {reason}.")
    sights = _sights(cell, _units_with_inputs(cell, units_of(cell.split, units)))
    return np.concatenate(
        [
            allocator.feature_set.rows(sight)[sight.view.detections.run]
            for sight in sights
        ]
    )


def out_of_fold(
    cell: BuiltCell,
    recipe: str | Recipe,
    *,
    folds: int = 5,
    units: str | Sequence[str] = "all",
    map_fits: Map = map,
) -> Scored:
    """Scores of all inputs of some units, each by an allocator that was fitted on the
    units of the other folds.

    Units with inputs, sorted as text, are dealt out to the folds in turn, test units
    too, so a judgement of the scores is not held out in the sense of the split.
    """
    chosen = recipe_by_name(recipe) if isinstance(recipe, str) else recipe
    table = cell.table.restrict(_units_with_inputs(cell, units_of(cell.split, units)))
    fold, unit = unit_folds(table, folds), table.unit_ids[table.unit]
    dealt = [
        sorted(set(unit[fold == number].tolist()))
        for number in np.unique(fold).tolist()
    ]
    pairs = [(sorted(set(unit.tolist()) - set(unseen)), unseen) for unseen in dealt]
    parts = list(map_fits(partial(_fold, cell, chosen, _KEEPER.get()), pairs))
    inputs, scores = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("input", "score")
    )
    reason = next((part.reason for part in parts if part.reason), None)
    return Scored(
        chosen.name, "deployable", inputs, scores, parts[0].modes, len(table), reason
    )


def _fold(
    cell: BuiltCell,
    recipe: Recipe,
    keeper: Keeper | None,
    units: tuple[list[str], list[str]],
) -> Scored:
    """Scores of the fold `units[1]` by a fit on the others; in a worker, too, fits are
    asked for first.
    """
    with nullcontext() if keeper is None else fits_kept_by(keeper):
        fitted = _fit_to_target(cell, recipe, units[0], recipe.target, seed=0)
    return score_on(cell, fitted, units=units[1])


def fold_scores(
    name: str,
    cell: BuiltCell,
    allocators: Sequence[str],
    *,
    folds: int,
    units: Sequence[str],
    map_fits: Map = map,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores by signals, and out of fold by recipes; a warning names those that cannot
    score or be fitted.
    """
    if folds < 2:
        raise InputError(f"Out-of-fold scores need two folds or more; found {folds}.")
    units = [unit for unit in units if unit in cell.table.unit_ids]
    scored = {
        item: score_on(cell, SIGNALS[item], units=units)
        for item in allocators
        if item in SIGNALS
    }
    reasons = [
        f"{item.name}: {item.reason}" for item in scored.values() if not len(item.input)
    ]
    for recipe in watch(
        [item for item in allocators if item in recipes_for(cell)], f"folds of {name}"
    ):
        try:
            scored[recipe] = out_of_fold(
                cell, recipe, folds=folds, units=units, map_fits=map_fits
            )
        except NothingToLearnError as error:
            reasons.append(str(error))
    for reason in reasons:
        warnings.warn(f"{name}, left out: {reason}", InputWarning, stacklevel=2)
    return {item.name: item for item in scored.values() if len(item.input)}


def _defined_scores(
    name: str,
    kind: Kind,
    table: ValueTable,
    values: np.ndarray,
    modes: tuple[str, ...],
    reason: str,
    fit: Fit | None = None,
) -> Scored:
    defined = ~np.isnan(values if values.ndim == 1 else values.sum(axis=1))
    why = None if defined.all() else reason
    fit = (Fit.none(len(table)) if fit is None else fit).keep(defined)
    return Scored(
        name, kind, table.input[defined], values[defined], modes, len(table), why, fit
    )


def recipes_for(cell: BuiltCell) -> tuple[str, ...]:
    """The recipes that make sense on a cell and need no extra.

    Recipes that choose among modes need more than two, recipes that use image boxes a
    placing that does not observe, and recipes that simulate the downstream system one
    with a rule.
    """
    many, mode = len(cell.table.modes) > 2, cell.views[0].mode
    simulated = rule_of(cell) is not None
    return tuple(
        name
        for name, recipe in RECIPES.items()
        if recipe.undefined(mode) is None
        and recipe.extra is None
        and (many or not recipe.per_mode)
        and (simulated or not recipe.needs_outputs)
    )


def scored_by_all(
    cell: BuiltCell,
    recipes: Iterable[str] | None = None,
    *,
    signals: Iterable[str] = tuple(SIGNALS),
    units: str | Sequence[str] = "fit",
    seed: int = 0,
    calibrating: bool = False,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores of all inputs by signals and by recipes (all suitable ones where None),
    which are fitted on `units`.

    Judge these scores on test units. Recipes that have nothing to learn from the units
    are left out with a warning. With `calibrating`, only validation and test units are
    scored, as by `calibration_scores`.
    """
    scorer, scored_units = (
        (calibration_scores, "validation,test") if calibrating else (score_on, "all")
    )
    scores = {name: scorer(cell, SIGNALS[name], units=scored_units) for name in signals}
    names = list(recipes_for(cell) if recipes is None else recipes)
    for name in watch(names, f"fitting on {cell.folder.name}"):
        try:
            scores[name] = scorer(
                cell, fit_on(cell, name, units=units, seed=seed), units=scored_units
            )
        except NothingToLearnError as error:
            warnings.warn(
                f"{cell.folder.name}, left out: {error}", InputWarning, stacklevel=2
            )
    return scores


def diagnostic_scores(cell: BuiltCell) -> dict[str, Scored]:
    """Scores of all inputs by every diagnostic that the cell defines; none of them is
    deployable.
    """
    scores = {}
    for name in DIAGNOSTICS | PLANNING_DIAGNOSTICS:
        # a cell has only the columns that its modes and its planner define
        with suppress(InputError):
            scores[name] = score_on(cell, name, units="all")
    return scores
