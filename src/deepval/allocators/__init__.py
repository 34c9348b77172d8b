"""Allocators, which score inputs before escalation: recipes that fit them, and their files.

A view -> a sight's glances -> rows of a feature set -> models -> a score; `router` turns scores into decisions. To add
an allocator, add a row to RECIPES, and write a FeatureSet if it reads new inputs. To add another kind, such as the
pixel router from a picture to a score, write a FittedAllocator and its Recipe in one file, and add the row.
"""

from pathlib import Path

from deepval.allocators.allocator import (
    Allocator,
    Examples,
    FittedAllocator,
    Recipe,
    Training,
    check_hash,
    file_content,
)
from deepval.allocators.feature_sets import FEATURE_SETS, FeatureSet
from deepval.allocators.models import Boosting, Mlp, Ridge
from deepval.allocators.pixel import PixelRouter
from deepval.allocators.pixel_training import PixelRecipe
from deepval.allocators.row_allocator import Learned, RowRecipe
from deepval.errors import InputError, suggestion

__all__ = [
    "FEATURE_SETS",
    "RECIPES",
    "Allocator",
    "Examples",
    "FeatureSet",
    "FittedAllocator",
    "Learned",
    "PixelRecipe",
    "PixelRouter",
    "Recipe",
    "RowRecipe",
    "Training",
    "read_allocator",
    "recipe_by_name",
]

CAUTIOUS = Boosting(trees=40, depth=2, learning_rate=0.1, least_per_leaf=80, l2=10.0)
"""Few, shallow, shrunk trees: chosen by cross-validation over the training and validation units of KITTI."""

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
        RowRecipe("router-recall", "cheap+memory", "value-signed-cdf", CAUTIOUS, "recall"),
        PixelRecipe(),
    )
}
"""Name -> recipe of every learned allocator."""


def recipe_by_name(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise InputError(f"A recipe must be one of {', '.join(RECIPES)}; found {name!r}{suggestion(name, RECIPES)}")
    return RECIPES[name]


def read_allocator(path: Path | str) -> FittedAllocator:
    """The allocator in a file; files of another format or version and altered or truncated files are refused."""
    content = file_content(path)
    kinds = {name: recipe.makes for recipe in RECIPES.values() for name in recipe.makes.feature_sets()}
    name = str(content.get("front"))
    if name not in kinds:
        raise InputError(f"{path}: 'front' must be one of {', '.join(kinds)}; found {content.get('front')!r}.")
    check_hash(content, str(path))
    try:
        return kinds[name].of(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: must contain {kinds[name].holds}; reading it failed with {error!r}.") from error
