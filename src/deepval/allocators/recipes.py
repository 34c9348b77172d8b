"""Rows and labels of the fit units -> a fitted allocator, by recipes: what is looked at, predicted and learned."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from deepval.allocators.fronts import FRONTS
from deepval.allocators.learned import Learned, Rule, Training
from deepval.allocators.models import Boosting, Learner, Linear, Mlp, Model, Quantile, Ridge
from deepval.allocators.models.standard import Standard
from deepval.allocators.pixel import PixelRecipe
from deepval.arrays import Float
from deepval.errors import InputError
from deepval.signals import Lost


@dataclass(frozen=True)
class Recipe:
    """How an allocator is made.

    Attributes:
        name: Its name.
        front: What it looks at.
        target: What it predicts unless told otherwise, a name of deepval.targets.
        learner: What fits its models.
        rule: How predictions become a score.
    """

    name: str
    front: str
    target: str
    learner: Learner
    rule: Rule = "value"


CAUTIOUS = Boosting(trees=40, depth=2, learning_rate=0.1, least_per_leaf=80, l2=10.0)
"""Few, shallow, shrunk trees: chosen by cross-validation over the training and validation units of KITTI."""
RECALL = {"lost_required": 1.0, "required": -1.0, "ego_speed_mps": Lost().speed_weight}
"""The untrained signal `lost` as a sum of columns."""

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("gate-ridge", "cheap", "value", Ridge()),
        Recipe("gate-gbm", "cheap", "value", Boosting()),
        Recipe("gate-gbm-memory", "cheap+memory", "value", Boosting()),
        Recipe("gate-multi-fidelity", "cheap", "value", Boosting(), "modes"),
        Recipe("router-mlp-value", "detection-list", "value", Mlp()),
        Recipe("router-mlp-binary", "detection-list", "value-binary", Mlp()),
        Recipe("router-gbm-value", "detection-list", "value", Boosting()),
        Recipe("router-gbm-binary", "detection-list", "value-binary", Boosting()),
        Recipe("router-two-head", "cheap+memory", "value", Boosting(), "difference"),
        Recipe("router-recall", "cheap+memory", "value-signed-cdf", CAUTIOUS, "recall"),
    )
}
"""Every learned allocator but the pixel router, which looks at pictures."""


def recipe_named(name: str) -> Recipe | PixelRecipe:
    """The recipe of this name."""
    if name == PixelRecipe.name:
        return PixelRecipe()
    if name not in RECIPES:
        raise InputError(f"A recipe must be one of {', '.join((*RECIPES, PixelRecipe.name))}; found {name!r}.")
    return RECIPES[name]


@dataclass(frozen=True, eq=False)
class Examples:
    """What an allocator learns from: the front's rows, and the label of each input (of each mode by rule "modes").

    Attributes:
        rows: The front's row of each input.
        labels: The labels.
        classify: Whether they are 0 and 1.
    """

    rows: Float[np.ndarray, "input column"]
    labels: Float[np.ndarray, "input *mode"]
    classify: bool


def fit(recipe: Recipe, examples: Examples, training: Training) -> Learned:
    """The allocator of a recipe, fitted on examples; the same examples and seed give the same bytes."""
    rows, labels = examples.rows, examples.labels
    if not np.isfinite(labels).all():
        raise InputError(
            f"{recipe.name}: every fit input needs a label; {int((~np.isfinite(labels)).sum())} have none."
        )
    heads: tuple[Model, ...]
    if recipe.rule in ("difference", "recall"):
        heads = tuple(_head(recipe, rows, sign * labels, training.seed) for sign in (1.0, -1.0))
        if recipe.rule == "recall":
            columns = FRONTS[recipe.front].columns
            heads += (Quantile.fit(rows, {columns.index(name): weight for name, weight in RECALL.items()}),)
    elif recipe.rule == "modes":
        heads = tuple(
            _model(recipe, rows, column, classify=examples.classify, seed=training.seed) for column in labels.T
        )
    else:
        heads = (_model(recipe, rows, labels, classify=examples.classify, seed=training.seed),)
    settings: dict[str, Any] = {"learner": type(recipe.learner).__name__, **_plain(asdict(recipe.learner))}
    return Learned(recipe.name, FRONTS[recipe.front], heads, recipe.rule, replace(training, settings=settings))


def _model(recipe: Recipe, rows: np.ndarray, labels: np.ndarray, *, classify: bool, seed: int) -> Model:
    if classify and len(np.unique(labels)) < 2:
        raise InputError(
            f"{recipe.name}: a classifier needs fit inputs of both kinds; all {len(labels)} have label {labels[0]:g}."
        )
    return recipe.learner.fit(rows, labels, classify=classify, seed=seed)


def _head(recipe: Recipe, rows: np.ndarray, values: np.ndarray, seed: int) -> Model:
    """P(value > 0), inputs weighted by how much is at stake; inputs without stake weigh as much as a mean one."""
    positive = values > 0
    if not positive.any() or positive.all():
        return Linear(Standard.of(rows), np.zeros(rows.shape[1]), float(positive.all()))
    stake = np.abs(values)
    weights = np.where(stake > 0, stake, stake[stake > 0].mean())
    return recipe.learner.fit(rows, positive.astype(float), classify=True, weights=weights / weights.mean(), seed=seed)


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
