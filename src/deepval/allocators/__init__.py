"""What decides before escalation: recipes to fit, files that keep what was fitted, and the router that serves it.

A view -> a sight's glances -> a front's rows -> models -> a score; a streaming policy turns scores into decisions. To
add an allocator: write a Front where it looks at something new, and a row of RECIPES. To add a kind that goes its own
way, as the pixel router does from a picture to a score: a FittedAllocator and its Recipe in one file, and the row.
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
