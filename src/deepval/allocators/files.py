"""A file that `deepval fit` wrote -> the fitted allocator in it, whatever it looks at."""

from pathlib import Path

from deepval.allocators.fronts import FRONTS
from deepval.allocators.learned import Learned, file_content, learned_of
from deepval.allocators.pixel import FRONT, PixelRouter, pixel_router_of
from deepval.errors import InputError

FittedAllocator = Learned | PixelRouter
"""What a fit gives: every kind scores a unit or a frame, and saves itself."""


def read_allocator(path: Path | str) -> FittedAllocator:
    """The allocator in a file; a file that is not one, of another version, altered or cut off is refused."""
    content = file_content(path)
    front = content.get("front")
    if front == FRONT:
        return pixel_router_of(content, str(path))
    if str(front) not in FRONTS:
        raise InputError(f"{path}: an allocator looks at one of {', '.join((*FRONTS, FRONT))}; found {front!r}.")
    return learned_of(content, str(path))
