"""What decides before escalation: recipes to fit, files that keep what was fitted, and the router that serves it.

A view -> look or glance -> a front's rows -> models -> a score; a streaming policy turns scores into decisions. To add
an allocator: write a Front where it looks at something new, and a row of RECIPES. The pixel router alone goes its own
way, from a picture to a score.
"""

from deepval.allocators.files import FittedAllocator, read_allocator
from deepval.allocators.fronts import FRONTS, Front
from deepval.allocators.learned import Learned, Training
from deepval.allocators.pixel import PixelRecipe, PixelRouter
from deepval.allocators.recipes import RECIPES, Examples, Recipe, fit, recipe_named
from deepval.allocators.router import Router

__all__ = [
    "FRONTS",
    "RECIPES",
    "Examples",
    "FittedAllocator",
    "Front",
    "Learned",
    "PixelRecipe",
    "PixelRouter",
    "Recipe",
    "Router",
    "Training",
    "fit",
    "read_allocator",
    "recipe_named",
]
