"""Allocators, which score inputs before escalation: recipes that fit them, and their
files.

A view -> a sight's glances -> rows of a feature set -> models -> a score; `router`
turns scores into decisions. To add an allocator, add a row to RECIPES, and write a
FeatureSet if it reads new inputs. To add another kind, such as the pixel router from a
picture to a score, write a FittedAllocator and its Recipe in one file, and add the row.
"""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepval.basics import plugins
from deepval.basics.errors import InputError, quote, suggestion
from deepval.basics.files import reading
from deepval.deploy.allocators.allocator import (
    SIGNALS,
    Allocator,
    Examples,
    FittedAllocator,
    OwnSignal,
    Recipe,
    Training,
    check_hash,
    file_content,
)
from deepval.deploy.allocators.feature_sets import FEATURE_SETS, FeatureSet
from deepval.deploy.allocators.models import Boosting, Mlp, Ridge
from deepval.deploy.allocators.pixel import PixelRecipe, PixelRouter
from deepval.deploy.allocators.row_allocator import (
    ESTIMATES,
    EstimatorRecipe,
    Learned,
    RowRecipe,
)
from deepval.deploy.allocators.voi import SimulatedValueRecipe

__all__ = [
    "EVERYTHING",
    "FEATURE_SETS",
    "OWN_CODE",
    "PAPER",
    "PAPERS_RECIPES",
    "PAPERS_SIGNALS",
    "RECIPES",
    "Allocator",
    "EstimatorRecipe",
    "Examples",
    "FeatureSet",
    "FittedAllocator",
    "Learned",
    "PixelRecipe",
    "PixelRouter",
    "Recipe",
    "RowRecipe",
    "Training",
    "check_allocators",
    "check_recipes",
    "own_allocator",
    "read_allocator",
    "recipe_by_name",
    "refuse_namesake",
    "typed_names",
]

CAUTIOUS = Boosting(trees=40, depth=2, learning_rate=0.1, least_per_leaf=80, l2=10.0)
"""Few, shallow, shrunk trees: chosen by cross-validation over the training and
validation units of KITTI.
"""

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        RowRecipe("gate-ridge", "cheap", "value", Ridge()),
        RowRecipe("gate-gbm", "cheap", "value", Boosting()),
        RowRecipe("gate-gbm-memory", "cheap+memory", "value", Boosting()),
        RowRecipe("gate-multi-fidelity", "cheap", "value", Boosting(), "modes"),
        RowRecipe("router-mlp-value", "detection-list", "value", Mlp()),
        RowRecipe("router-mlp-binary", "detection-list", "value-binary", Mlp()),
        RowRecipe("router-gbm-value", "detection-list", "value", Boosting()),
        RowRecipe("router-gbm-binary", "detection-list", "value-binary", Boosting()),
        RowRecipe("router-two-head", "cheap+memory", "value", Boosting(), "difference"),
        RowRecipe(
            "router-recall", "cheap+memory", "value-signed-cdf", CAUTIOUS, "recall"
        ),
        SimulatedValueRecipe("router-voi", CAUTIOUS),
        PixelRecipe(),
    )
}
"""Name -> recipe of every learned allocator; a command adds those of the user's own
code.
"""
BUILT_IN = tuple(RECIPES)
OWN_CODE: dict[str, plugins.Code] = {}
"""Name -> the code of every recipe of the user's own that a command added."""


EVERYTHING = "all"
"""Stands for every signal and every recipe that applies to a cell."""
PAPER = "paper"
"""Stands for the allocators of the paper's main table."""
PAPERS_SIGNALS = ("ego-speed", "uncertainty", "criticality")
PAPERS_RECIPES = (
    "gate-ridge",
    "gate-gbm",
    "router-mlp-value",
    "router-mlp-binary",
    "router-gbm-value",
    "router-gbm-binary",
)
"""With `random`, which every judgement has, these are the paper's ten."""


def recipe_by_name(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        names = (*RECIPES, *plugins.installed("allocators"))
        near = suggestion(name, names)
        allowed = (
            "those that `deepval fit -h` lists"
            if near.endswith("?")
            else ", ".join(names)
        )
        raise InputError(
            f"A recipe must be one of {allowed}, or "
            f"your own ({plugins.FORM}); found {name!r}{near}"
        )
    return RECIPES[name]


def check_recipes(words: Sequence[str]) -> list[str]:
    """Names of recipes from the words that the user typed, which may be own code."""
    names = typed_names(words)
    for name in names:
        recipe_by_name(name)
    return names


def typed_names(words: Sequence[str]) -> list[str]:
    """Names of allocators from the words that the user typed; own code is loaded, and
    its recipes can be found by their names from then on.
    """
    words_by_name: dict[str, str] = {}
    for word in words:
        name = word
        if word not in (*SIGNALS, *RECIPES, EVERYTHING):
            own = own_allocator(word)
            name = word if own is None else own.name
            if isinstance(own, Allocator):
                raise InputError(
                    f"{word}: needs no fit; `deepval score CELL {word}` writes its "
                    "scores: name a recipe or an estimator here."
                )
        if words_by_name.setdefault(name, word) != word:
            raise InputError(
                f"Allocators need different names; {words_by_name[name]} and {word} "
                f"are both called {name!r}: rename one."
            )
    return list(words_by_name)


def check_allocators(typed: Sequence[str]) -> list[str]:
    """Names of signals and recipes from the words that the user typed, with `all`
    written out.

    Raises:
        InputError: A name is unknown.
    """
    names = typed_names(typed)
    words = (*SIGNALS, *RECIPES)
    unknown = next((name for name in names if name not in (*words, EVERYTHING)), None)
    if unknown is not None:
        raise InputError(
            f"An allocator must be one of {', '.join(words)}, or {EVERYTHING}; found "
            f"{unknown!r}{suggestion(unknown, (*words, EVERYTHING))}"
        )
    return list(
        dict.fromkeys(
            word
            for name in names
            for word in (words if name == EVERYTHING else (name,))
        )
    )


def own_allocator(word: str) -> Allocator | Recipe | None:
    """The allocator or recipe that a typed word names, as code or as an installed
    package's name; None for other words.

    The word may name a function from a glance to a score, an allocator, a recipe, an
    estimator with `fit` and `predict`, or a class or function that returns one of
    these. A recipe becomes a row of RECIPES while the command runs, so that its files
    can be read.
    """
    own = plugins.find(word, "allocators")
    if own is None:
        return None
    value = own.value
    name = word.rpartition(":")[2]
    if isinstance(value, type) and issubclass(value, FittedAllocator):
        raise InputError(
            f"{word}: a fitted allocator is made by its recipe: name the recipe."
        )
    value = plugins.create(word, value)
    if (
        hasattr(value, "fit")
        and not isinstance(value, Recipe)
        and any(hasattr(value, method) for method in ESTIMATES)
    ):
        value = EstimatorRecipe(name, value)
    elif inspect.isroutine(value):
        if plugins.required_parameters(value) != 1:
            raise InputError(
                f"{word}: a function that scores must take one "
                "argument, the view of a frame."
            )
        value = OwnSignal(
            name, value, frozenset(getattr(value, "uses", OwnSignal.uses))
        )
    if not isinstance(value, Allocator | Recipe):
        raise InputError(
            f"{word}: must be a function from a view to a number, an Allocator, a "
            f"Recipe, or an estimator with fit and predict; found {quote(value)}."
        )
    if value.name in (*SIGNALS, *BUILT_IN):
        raise InputError(
            f"{word}: deepval has an allocator {value.name!r}: choose another name."
        )
    if isinstance(value, Recipe):
        RECIPES[value.name] = value
        OWN_CODE[value.name] = own.code
    return value


def read_allocator(path: Path | str) -> FittedAllocator:
    """The allocator in a file; files of another format or version and altered or
    truncated files are refused.
    """
    content = file_content(path)
    kinds = {
        name: recipe.makes
        for recipe in RECIPES.values()
        for name in recipe.makes.feature_sets()
    }
    name = str(content.get("front"))
    if name not in kinds:
        raise InputError(
            f"{path}: 'front' must be one of {', '.join(kinds)}; found "
            f"{content.get('front')!r}. If your own code fitted it, name that code "
            f"({_word_of(content)}) instead of the file."
        )
    check_hash(content, str(path))
    try:
        return kinds[name].of(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path}: must contain {kinds[name].holds}; reading "
            f"it failed with {error!r}."
        ) from error


def _word_of(content: Mapping[str, Any]) -> str:
    """The word of the own code that fitted an allocator, by its file; the form of such
    words where the file states none.
    """
    code = None
    with suppress(InputError, KeyError):
        code = Training.of(content).code
    return plugins.FORM if code is None else code.word


def refuse_namesake(file: Path, recipe: str) -> None:
    """Raise where a file holds an allocator that other code of the user's fitted under
    the same name.
    """
    code = OWN_CODE.get(recipe)
    if code is None or not reading.is_file(file):
        return
    recorded = None
    # whatever else the file is, the fit replaces it
    with suppress(InputError, KeyError):
        recorded = Training.of(file_content(file)).code
    plugins.refuse_namesake(recorded, code, file)
