"""Name -> recipe of every learned allocator; file -> fitted allocator."""

from pathlib import Path

from deepval.allocators.allocator import check_hash, file_content
from deepval.allocators.fitted import FittedAllocator, Recipe
from deepval.allocators.learned import RowRecipe
from deepval.allocators.models import Boosting, Mlp, Ridge
from deepval.allocators.pixel_training import PixelRecipe
from deepval.errors import InputError

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


def recipe_named(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise InputError(f"A recipe must be one of {', '.join(RECIPES)}; found {name!r}.")
    return RECIPES[name]


def read_allocator(path: Path | str) -> FittedAllocator:
    """The allocator in a file; files of another format or version and altered or truncated files are refused."""
    content = file_content(path)
    kinds = {front: recipe.makes for recipe in RECIPES.values() for front in recipe.makes.fronts()}
    front = str(content.get("front"))
    if front not in kinds:
        raise InputError(f"{path}: an allocator looks at one of {', '.join(kinds)}; found {content.get('front')!r}.")
    check_hash(content, str(path))
    try:
        return kinds[front].of(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: must hold {kinds[front].holds}; {error!r} is in the way.") from error
