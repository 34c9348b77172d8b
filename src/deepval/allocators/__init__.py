"""Allocators, which score inputs before escalation: recipes that fit them, their files, and the router that runs them.

A view -> a sight's glances -> a front's rows -> models -> a score; a streaming policy turns scores into decisions. To
add an allocator, add a row to RECIPES, and write a Front if it reads new inputs. To add another kind, such as the pixel
router from a picture to a score, write a FittedAllocator and its Recipe in one file, and add the row.
"""

from deepval.allocators.allocator import Allocator
from deepval.allocators.fitted import Examples, FittedAllocator, Recipe, Training
from deepval.allocators.fronts import FRONTS, Front
from deepval.allocators.learned import Learned, RowRecipe
from deepval.allocators.pixel import PixelRouter
from deepval.allocators.pixel_training import PixelRecipe
from deepval.allocators.recipes import RECIPES, read_allocator, recipe_named
from deepval.allocators.router import Router

__all__ = [
    "FRONTS",
    "RECIPES",
    "Allocator",
    "Examples",
    "FittedAllocator",
    "Front",
    "Learned",
    "PixelRecipe",
    "PixelRouter",
    "Recipe",
    "Router",
    "RowRecipe",
    "Training",
    "read_allocator",
    "recipe_named",
]
