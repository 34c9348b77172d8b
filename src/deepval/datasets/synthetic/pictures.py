"""Pictures of a scene on demand, without a way from the Scene to what is in them; and pictures as files.

A Scene holds a `Pictures`: a ticket and a length. What a ticket shows is kept here, in a module that allocators
may not import, and forgotten with the last `Pictures` of that ticket.
"""

import io
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload
from uuid import uuid4

import numpy as np

from deepval.arrays import Shaped
from deepval.datasets.synthetic.look import Look
from deepval.datasets.synthetic.render import painter
from deepval.datasets.synthetic.traffic import Drive
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.writing import write_atomically
from deepval.geometry.camera import Camera
from deepval.world.scene import Scene

ENDINGS = ("jpg", "png")
_painters: dict[str, Callable[[int], np.ndarray]] = {}


class Pictures(Sequence[Any]):
    """Frames as arrays (height, width, RGB, uint8), drawn each time one is asked for."""

    __slots__ = ("__weakref__", "_frames", "_ticket")

    def __init__(self, ticket: str, frames: int) -> None:
        self._ticket, self._frames = ticket, frames

    def __len__(self) -> int:
        return self._frames

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._frames))]
        place = int(index) + (self._frames if index < 0 else 0)
        if not 0 <= place < self._frames:
            raise IndexError(f"a frame must lie in 0 to {self._frames - 1}; found {index}")
        if self._ticket not in _painters:
            raise InputError(
                "pictures drawn on demand can be had only in the process that made the world; "
                "write them to files: read_dataset('synthetic', folder)."
            )
        return _painters[self._ticket](place)


def pictures_of(drive: Drive, look: Look, *, camera: Camera) -> Pictures:
    """A scene's pictures, drawn on demand."""
    ticket = uuid4().hex
    _painters[ticket] = painter(drive, look, camera=camera)
    pictures = Pictures(ticket, len(drive.speed_mps))
    weakref.finalize(pictures, _painters.pop, ticket, None)
    return pictures


def write_picture(picture: Shaped[np.ndarray, "height width 3"], path: Path) -> None:
    """Write a picture as PNG or JPEG (quality 92), whole or not at all."""
    from PIL import Image

    out = io.BytesIO()
    kind, options = ("JPEG", {"quality": 92}) if path.suffix == ".jpg" else ("PNG", {})
    Image.fromarray(picture).save(out, kind, **options)
    write_atomically(path, out.getvalue())


def write_pictures(scene: Scene, folder: Path, *, ending: str = "jpg") -> list[Path]:
    """Write a scene's pictures as folder/<frame id>.<ending>; files that are there already are kept."""
    if ending not in ENDINGS:
        raise InputError(f"pictures are written as {' or '.join(ENDINGS)}; found {ending!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{frame_id}.{ending}" for frame_id in scene.frame_ids]
    for frame, path in enumerate(paths):
        picture = scene.image_source(frame) if not reading.exists(path) else None
        if isinstance(picture, np.ndarray):
            write_picture(picture, path)
    return paths
