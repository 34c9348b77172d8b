"""Built cells, recipes and labels -> each recipe fitted on each label, and its scores judged.

Only the label differs: inputs, settings, seed and fit units are the same. A label has two forms, numbers for recipes
that regress and 0 or 1 for those that classify. The allocators are named `RECIPE on LABEL`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepval.allocators import Recipe, recipe_named
from deepval.cells.fitting import Scored, fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.cells.judgement import judge, shared_seeds
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.judging.allowances import Selection
from deepval.progress import Watch, unwatched
from deepval.results import Result
from deepval.targets import TARGETS, Gain, RoutingObjective

ON = " on "


@dataclass(frozen=True)
class Label:
    """A label that recipes learn to predict.

    Attributes:
        name: Name of the label.
        regressed: The target of recipes that regress.
        classified: The target of recipes that classify; None where it has no such form.
    """

    name: str
    regressed: str
    classified: str | None = None

    def target(self, recipe: Recipe) -> str:
        """The form of the label for a recipe: numbers or classes, as the recipe's own target."""
        if not TARGETS[recipe.target].classifies:
            return self.regressed
        if self.classified is None:
            raise InputError(f"{recipe.name} classifies, and {self.name} is a number: leave the recipe out.")
        return self.classified

    def lacking(self, cell: BuiltCell) -> str | None:
        """The first evidence column that the label needs and the cell does not have; None where it has all."""
        objective = TARGETS[self.regressed].objective
        needed = (
            {objective.column}
            if isinstance(objective, RoutingObjective)
            else {f"{mode}_{objective.loss}" for mode in ("cheap", "full")}
            if isinstance(objective, Gain)
            else set()
        )
        return min(needed - cell.evidence.columns.keys(), default=None)


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
    """The name of a recipe fitted on a label."""
    return f"{recipe}{ON}{label}"


def recipe_and_label(name: str) -> tuple[str, str] | None:
    """The recipe and the label in a name, None where it has none."""
    recipe, on, label = name.rpartition(ON)
    return (recipe, label) if on and label in {item.name for item in LABELS} else None


def known_labels(cell: BuiltCell, labels: Sequence[Label]) -> list[Label]:
    """The labels for which a cell has the evidence; a warning names the missing column of each of the others."""
    available = []
    for label in labels:
        lacking = label.lacking(cell)
        if lacking is None:
            available.append(label)
        else:
            message = f"{cell.folder.name}: {label.name} left out, for the cell keeps no {lacking!r}."
            warnings.warn(InputWarning(message), stacklevel=2)
    return available


def scored_on_labels(
    cell: BuiltCell,
    recipes: Sequence[str | Recipe],
    labels: Sequence[Label],
    *,
    seed: int = 0,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores of the test inputs by every recipe fitted on every label that it can learn from the fit units."""
    chosen = [recipe_named(recipe) if isinstance(recipe, str) else recipe for recipe in recipes]
    pairs = [(recipe, label) for label in known_labels(cell, labels) for recipe in chosen]
    scores = {}
    for recipe, label in watch(pairs, f"fitting on {cell.folder.name}"):
        name = taught(recipe.name, label.name)
        try:
            fitted = fit_on(cell, recipe, target=label.target(recipe), seed=seed)
        except NothingToLearnError as error:
            warnings.warn(InputWarning(f"{cell.folder.name}, {name} left out: {error}"), stacklevel=2)
            continue
        scores[name] = replace(score_on(cell, fitted), name=name)
    return scores


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
        recipes: Recipes to fit, by name or as recipes.
        labels: Labels to fit them on.
        alphas: Shares of inputs that may be escalated.
        by: Name of the analysis, for the ledger.
        draws: Number of draws.
        seed: Seed of the draws; fits have seed 0.
        watch: Shows the progress.
    """
    seeds, budgets = shared_seeds(cells, seed), [Selection(alpha) for alpha in alphas]
    for name, cell in cells.items():
        scores = scored_on_labels(cell, recipes, labels, watch=watch)
        yield name, judge(cell, scores, budgets, command=by, draws=draws, seed=seeds[name], missing="worst")
