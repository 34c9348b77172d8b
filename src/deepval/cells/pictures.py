"""Frames of a cell -> their pictures as JPEG data addresses, small enough to stand in a page.

The synthetic world's pictures are drawn again; others are read from the data set's folder of pictures.
"""

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Shaped
from deepval.datasets import synthetic
from deepval.errors import InputError, quoted, reason
from deepval.files import reading
from deepval.files.pixels import check_pixels

WIDTH_PX, QUALITY = 960, 80
FOLDERS = ("", "image_02", "training/image_02")
"""Where a data set's pictures may lie under its folder."""


def pictures(frames: Mapping[str, Any], *, root: Path | None = None) -> dict[str, str]:
    """A data address per data set and input, for the frames whose picture can be had."""
    drawn = frames.get("pictures")
    found = _drawn(frames["frames"], drawn) if drawn else _read(frames["frames"], root)
    return {f"{frames['dataset']}/{name}": data_address(picture) for name, picture in found.items()}


def _drawn(frames: list[Any], world: Mapping[str, int]) -> dict[str, np.ndarray]:
    units = sorted({frame["unit"] for frame in frames})
    seed, scenes_there, frames_there = (int(world[name]) for name in ("seed", "scenes", "frames"))
    if seed < 0:
        raise InputError(f"pictures of frames must be of a world with a seed of 0 or more; found {quoted(seed)}.")
    world_read = synthetic.read(units=units, seed=seed, scenes=scenes_there, frames=frames_there)
    scenes = {scene.unit: scene for scene in world_read.scenes}
    found = {}
    for frame in frames:
        scene = scenes[frame["unit"]]
        names = scene.frame_ids.tolist()
        if frame["frame"] not in names:
            raise InputError(
                f"pictures of frames must be of the world's own; {scene.unit} has {names[0]} to {names[-1]}, and none "
                f"is called {quoted(frame['frame'])}."
            )
        picture = scene.image_source(names.index(frame["frame"]))
        if isinstance(picture, np.ndarray):
            found[frame["input"]] = picture
    return found


def _read(frames: list[Any], root: Path | None) -> dict[str, np.ndarray]:
    from PIL import Image

    named = {frame["input"]: frame["image"] for frame in frames if frame["image"]}
    if named and root is None:
        raise InputError("--images of a data set on disk needs --image-root, the folder that its pictures lie in.")
    found = {}
    for name, image in named.items():
        tried = [reading.resolved(Path(root or "") / folder) for folder in FOLDERS]
        files = [folder / image for folder in tried if reading.resolved(folder / image).is_relative_to(folder)]
        path = next((path for path in files if reading.is_file(path)), None)
        if path is None:
            raise InputError(f"--image-root must hold the picture {image!r}; {root} does not.")
        data = reading.content(path, "a picture")
        check_pixels(data, path)
        try:
            with Image.open(io.BytesIO(data)) as opened:
                found[name] = np.asarray(opened.convert("RGB"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{path}: must be a picture; it cannot be read ({reason(error)}).") from error
    return found


def data_address(picture: Shaped[np.ndarray, "height width 3"]) -> str:
    """A picture as a JPEG data address, at most `WIDTH_PX` wide."""
    from PIL import Image

    image = Image.fromarray(picture)
    if image.width > WIDTH_PX:
        image = image.resize((WIDTH_PX, round(image.height * WIDTH_PX / image.width)), Image.Resampling.BOX)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")
