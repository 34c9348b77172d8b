"""Built cells, recipes and labels -> each recipe fitted on each label, its scores judged: only the label differs.

Inputs, settings, seed and fit units are the same. A label comes in two forms, numbers for recipes that regress and 0 or
1 for those that classify. An allocator is called `RECIPE on LABEL`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepval.allocators import Recipe, recipe_named
from deepval.cells.case import note
from deepval.cells.fitting import Scored, fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.judging.budgets import Selection
from deepval.judging.draws import seeds_by_units
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, unwatched
from deepval.results import Result
from deepval.targets import TARGETS
from deepval.targets.objectives import Gain, RoutingObjective

ON = " on "


@dataclass(frozen=True)
class Label:
    """What recipes are taught to predict.

    Attributes:
        name: Its name.
        regressed: The target of recipes that regress.
        classified: The target of recipes that classify; None where it has no such form.
    """

    name: str
    regressed: str
    classified: str | None = None

    def target(self, recipe: Recipe) -> str:
        """The form that a recipe takes it in: the kind of its own target."""
        if not TARGETS[recipe.target].classifies:
            return self.regressed
        if self.classified is None:
            raise InputError(f"{recipe.name} classifies, and {self.name} is a number: leave the recipe out.")
        return self.classified

    def lacking(self, cell: BuiltCell) -> str | None:
        """The column that a cell would have to keep for it, None where there is none missing."""
        objective = TARGETS[self.regressed].objective
        wanted = (
            {objective.column}
            if isinstance(objective, RoutingObjective)
            else {f"{mode}_{objective.loss}" for mode in ("cheap", "full")}
            if isinstance(objective, Gain)
            else set()
        )
        return min(wanted - cell.evidence.kept.keys(), default=None)


VALUE = Label("value", "value", "value-binary")
GAINS = tuple(Label(f"gain-{loss}", f"gain-{loss}", f"gain-{loss}-binary") for loss in ("E1", "E5", "E8"))
"""Perception gains: objects missed, errors of all kinds, risk."""
PUBLISHED = tuple(Label(name, f"{name}-cdf", f"{name}-binary") for name in ("oric", "ap-swap"))
"""Objectives of published detector routers, in their published form: shares of the fit values, or whether positive."""
RANK, SIGNED_CDF = (Label(name, name) for name in ("value-rank", "value-signed-cdf"))
"""Decision value under another transform."""
LABELS = (VALUE, *GAINS, *PUBLISHED, RANK, SIGNED_CDF)

GATES = ("gate-ridge", "gate-gbm")
REGRESSORS = ("router-mlp-value", "router-gbm-value")
CLASSIFIERS = ("router-mlp-binary", "router-gbm-binary")


def taught(recipe: str, label: str) -> str:
    """What a recipe fitted on a label is called."""
    return f"{recipe}{ON}{label}"


def recipe_and_label(name: str) -> tuple[str, str] | None:
    """The recipe and the label in a name, None where it has none."""
    recipe, on, label = name.rpartition(ON)
    return (recipe, label) if on and label in {each.name for each in LABELS} else None


def known_labels(cell: BuiltCell, labels: Sequence[Label]) -> list[Label]:
    """The labels that a cell can teach; of the others it says what they lack."""
    found = []
    for label in labels:
        lacking = label.lacking(cell)
        if lacking is None:
            found.append(label)
        else:
            told = f"{cell.folder.name}: {label.name} left out, for the cell keeps no {lacking!r}."
            warnings.warn(InputWarning(told), stacklevel=2)
    return found


def scored_on_labels(
    cell: BuiltCell,
    recipes: Sequence[str | Recipe],
    labels: Sequence[Label],
    *,
    seed: int = 0,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores of the test inputs by every recipe fitted on every label that the fit units can teach it."""
    made = [recipe_named(recipe) if isinstance(recipe, str) else recipe for recipe in recipes]
    pairs = [(recipe, label) for label in known_labels(cell, labels) for recipe in made]
    found = {}
    for recipe, label in watch(pairs, f"fitting on {cell.folder.name}"):
        name = taught(recipe.name, label.name)
        try:
            fitted = fit_on(cell, recipe, target=label.target(recipe), seed=seed)
        except NothingToLearnError as error:
            warnings.warn(InputWarning(f"{cell.folder.name}, {name} left out: {error}"), stacklevel=2)
            continue
        found[name] = replace(score_on(cell, fitted), name=name)
    return found


def judged_on_labels(
    cells: Mapping[str, BuiltCell],
    recipes: Sequence[str | Recipe],
    labels: Sequence[Label],
    *,
    alphas: Sequence[float],
    by: str,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Iterator[tuple[str, Result]]:
    """Cell by cell, the judgement of every recipe on every label, on the test units; the cell's ledger counts it.

    Args:
        cells: Cells by name; those with the same test units share their draws.
        recipes: What is fitted, by name or as recipes.
        labels: What on.
        alphas: Shares of inputs that may be escalated.
        by: Who looks at the test units, for the ledger.
        draws: Number of draws.
        seed: Seed of the draws; fits have seed 0.
        watch: Who is told how far it is.
    """
    seeds = seeds_by_units({name: cell.split.test for name, cell in cells.items()}, seed)
    for name, cell in cells.items():
        scored = scored_on_labels(cell, recipes, labels, watch=watch)
        scores = {each: item.over(cell.table) for each, item in scored.items()}
        units = list(cell.split.test)
        budgets = [Selection(alpha) for alpha in alphas]
        result = evaluate(cell.listed, scores, budgets, units=units, draws=draws, seed=seeds[name], missing="worst")
        note(cell, by=by, units=units, scores=scores)
        yield name, result
