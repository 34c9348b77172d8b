"""A built cell and a recipe -> a fitted allocator; a built cell and an allocator -> scores of its inputs.

Labels come from training and validation units only: a fit that names a test unit is refused.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepval.allocators import (
    Examples,
    FittedAllocator,
    Learned,
    PixelRecipe,
    PixelRouter,
    Recipe,
    Training,
    fit,
    read_allocator,
    recipe_named,
)
from deepval.allocators.pixel import check_picture, picture_of
from deepval.allocators.pixel_training import fit_pixels
from deepval.arrays import Float, Int, Shaped
from deepval.benchmark.folder import BuiltCell
from deepval.benchmark.splits import Split
from deepval.columns import positions
from deepval.diagnostics import DIAGNOSTICS
from deepval.errors import InputError, InputWarning
from deepval.progress import Watch, unwatched
from deepval.scores import Kind, Scores
from deepval.signals import SIGNALS, Signal
from deepval.targets import TARGETS, labels
from deepval.values import ValueTable

SIGNED = ("value", "value-signed-cdf")
"""Targets whose sign tells help from harm."""
ROLES = ("train", "validation", "test", "fit", "all")


def units_of(roles: Split, text: str | Sequence[str]) -> tuple[str, ...]:
    """Units by role (train, validation, test, fit = train and validation, all), by name, or both: "validation,test"."""
    parts = [part.strip() for part in text.split(",")] if isinstance(text, str) else list(text)
    known = set(roles.units)
    by_role = {role: known if role == "all" else getattr(roles, role) for role in ROLES}
    named = [unit for part in parts for unit in by_role.get(part, (part,))]
    unknown = [unit for unit in named if unit not in known]
    if unknown or not named:
        raise InputError(
            f"Units must be {', '.join(ROLES)}, or among those of the cell; found {', '.join(unknown) or 'none'}."
        )
    return tuple(sorted(set(named)))


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
    recipe: str | Recipe | PixelRecipe,
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
    used = units_of(cell.split, units)
    held = sorted(set(used) & set(cell.split.test))
    if held:
        raise InputError(
            f"An allocator is fitted on training and validation units only; of {cell.id}, {', '.join(held)} are test "
            "units: leave them out."
        )
    wanted = target or made.target
    evidence = cell.evidence.restrict(_holding(cell, used))
    table = evidence.table
    allowed = _targets(made)
    if wanted not in allowed:
        raise InputError(f"{made.name}: a target must be one of {', '.join(allowed)}; found {wanted!r}.")
    if made.rule == "modes":
        learned, classify = table.mode_values[:, 1:], False
    else:
        column = TARGETS[wanted].objective.column
        if column is not None:
            evidence = evidence.found_from(_role(cell, used, wanted), column)
        found = labels(wanted, evidence)
        learned, classify = found.values, TARGETS[wanted].classifies
    fitted_on = tuple(map(str, table.unit_ids))
    training = Training(cell.id, made.name, wanted, fitted_on, len(table), seed, cell.table.modes, {})
    chosen = positions(table.input, cell.frames)
    if isinstance(made, PixelRecipe):
        return _fit_pixels(cell, made, chosen, learned, training=training, watch=watch)
    return fit(made, Examples(cell.rows(made.front)[chosen], learned, classify), training)


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


def _fit_pixels(
    cell: BuiltCell,
    recipe: PixelRecipe,
    chosen: Int[np.ndarray, "input"],
    labels: Float[np.ndarray, "input"],
    *,
    training: Training,
    watch: Watch,
) -> PixelRouter:
    frames = [(view, place) for view in cell.views for place in range(len(view))]
    for row in chosen.tolist():
        check_picture(*frames[row])
    return fit_pixels(recipe, lambda row: picture_of(*frames[chosen[row]]), labels, training, watch=watch)


def _targets(recipe: Recipe | PixelRecipe) -> tuple[str, ...]:
    """Targets that a recipe can be fitted on."""
    if isinstance(recipe, PixelRecipe):
        return tuple(name for name, target in TARGETS.items() if target.classifies)
    return {"value": tuple(TARGETS), "modes": ("value",)}.get(recipe.rule, SIGNED)


def refit(cell: BuiltCell, like: FittedAllocator, *, watch: Watch = unwatched) -> FittedAllocator:
    """The allocator fitted again from what its file says: the same bytes on the same cell."""
    told = like.training
    if told.cell != cell.id:
        raise InputError(f"The allocator was fitted on cell {told.cell}; this is {cell.id}: give that cell.")
    recipe = PixelRecipe.of(told.settings) if isinstance(like, PixelRouter) else told.recipe
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
    """

    name: str
    kind: Kind
    input: Shaped[np.ndarray, "input"]
    score: Float[np.ndarray, "input *mode"]
    modes: tuple[str, ...]
    inputs: int
    reason: str | None = None

    @property
    def coverage(self) -> float:
        """Share of the inputs that have a score."""
        return len(self.input) / self.inputs

    def columns(self) -> dict[str, np.ndarray]:
        """Columns of a scores file."""
        kind = {"kind": np.full(len(self.input), self.kind)} if self.kind == "diagnostic" else {}
        if not self.modes:
            return {"input": self.input, "score": self.score, **kind}
        return {"input": self.input, **{f"score_{mode}": self.score[:, m] for m, mode in enumerate(self.modes)}, **kind}

    def over(self, table: ValueTable) -> Scores:
        """The scores aligned with a table; inputs without one are marked."""
        rows = positions(table.input, self.input)
        covered = rows >= 0
        values = np.full((len(table), *self.score.shape[1:]), np.nan)
        values[covered] = self.score[rows[covered]]
        return Scores(self.name, values, covered, self.modes, self.kind)


def allocator_named(text: str | Path) -> FittedAllocator | Signal:
    """The untrained signal of this name, or the fitted allocator in this file."""
    if isinstance(text, str) and text in SIGNALS:
        return SIGNALS[text]
    if not Path(text).exists():
        raise InputError(
            f"What scores must be a signal ({', '.join(SIGNALS)}), a diagnostic ({', '.join(DIAGNOSTICS)}) "
            f"or a file that `deepval fit` wrote; found {str(text)!r}."
        )
    return read_allocator(text)


def score_on(
    cell: BuiltCell, allocator: FittedAllocator | Signal | str | Path, *, units: str | Sequence[str] = "test"
) -> Scored:
    """Scores of a cell's inputs by an allocator, a signal or a diagnostic; inputs that it cannot score are left out."""
    used = _holding(cell, units_of(cell.split, units))
    table = cell.table.restrict(used)
    if isinstance(allocator, str) and allocator in DIAGNOSTICS:
        values = DIAGNOSTICS[allocator].scores(cell.evidence)[positions(table.input, cell.table.input)]
        return _scored(allocator, "diagnostic", table, values, (), "the diagnostic is undefined there")
    found = allocator_named(allocator) if isinstance(allocator, str | Path) else allocator
    modes: tuple[str, ...] = ()
    if isinstance(found, Learned):
        values = found.score_rows(cell.rows(found.front.name))
        if found.rule == "modes":
            modes = found.training.modes[1:]
            _check_modes(found, table)
    elif isinstance(found, PixelRouter):
        # Pictures are slow to score: only those that are asked for.
        scores = [found.score(v) if v.scene.unit in used else np.full(len(v), np.nan) for v in cell.views]
        values = np.concatenate(scores)
    else:
        values = np.concatenate([found.score(sight) for sight in cell.sights])
    reason = found.undefined(cell.views[0].mode) or "the cheap mode was not run there"
    return _scored(found.name, "deployable", table, values[positions(table.input, cell.frames)], modes, reason)


def _check_modes(allocator: Learned, table: ValueTable) -> None:
    if allocator.training.modes != table.modes:
        raise InputError(
            f"{allocator.name} scores the modes {', '.join(allocator.training.modes)}; the cell has "
            f"{', '.join(table.modes)}: fit it on a cell with these modes."
        )


def _scored(
    name: str, kind: Kind, table: ValueTable, values: np.ndarray, modes: tuple[str, ...], reason: str
) -> Scored:
    known = ~np.isnan(values if values.ndim == 1 else values.sum(axis=1))
    told = None if known.all() else reason
    return Scored(name, kind, table.input[known], values[known], modes, len(table), told)
