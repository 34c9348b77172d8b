"""A built cell -> scores of its inputs by every signal and every recipe, and their judgement on its test units."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from deepval.allocators import RECIPES
from deepval.allocators.signals import SIGNALS
from deepval.cells.fitting import Scored, fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.judging.budgets import Budget
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, unwatched
from deepval.results import Result
from deepval.tables.costs import Costs
from deepval.tables.scores import Scores


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
