"""A folder of images or a data set -> units of numbered frames."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import sha256
from deepval.perception.running.decoding import FrameError
from deepval.world.scene import Scene

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp"})
INT32_MAX = 2**31 - 1

Units = Mapping[str, Sequence[tuple[int, Path]]]
"""Unit name to (frame id, image file)."""


def units_in_folder(folder: Path) -> dict[str, list[tuple[int, Path]]]:
    """Units of a folder: every subfolder with images, or the folder itself where it contains the images.

    A frame's id is the number that its file is named after (`000012.jpg` is 12). Where a file of the unit is
    named otherwise, the unit's frames are numbered from 0 in natural order of the names (`a2` before `a10`).
    """
    if not reading.is_folder(folder):
        raise InputError(f"The images must lie in a folder, and {folder} is none.")
    own = _image_files(folder)
    below = {sub.name: _image_files(sub) for sub in sorted(reading.entries(folder)) if reading.is_folder(sub)}
    below = {name: files for name, files in below.items() if files}
    if own and below:
        raise InputError(f"A folder must hold images or subfolders of images, and {folder} holds both.")
    if not own and not below:
        raise InputError(f"There must be images ({', '.join(sorted(SUFFIXES))}) in {folder}, and there are none.")
    units = below or {reading.resolve(folder).name: own}
    return {name: _number_frames(files) for name, files in units.items()}


def units_of_scenes(scenes: Iterable[Scene]) -> dict[str, list[tuple[int, Path]]]:
    """Units of a data set: a frame's id is its number where frames are numbered, else its index in the unit, from 0."""
    units = {}
    for scene in scenes:
        ids = scene.frame_ids.astype(str)
        numbers = ids.astype(int) if np.char.isdigit(ids).all() else np.arange(len(ids))
        paths = scene.image_paths or (None,) * len(ids)
        lacking = [name for name, path in zip(ids.tolist(), paths, strict=True) if path is None]
        if lacking:
            raise InputError(
                f"unit {scene.unit}: every frame must have its picture below the data set's folder; {len(lacking)} of "
                f"{len(ids)} have none, the first {lacking[0]}: get the pictures, or name other units."
            )
        units[scene.unit] = [(int(n), path) for n, path in zip(numbers, paths, strict=True) if path is not None]
    return units


def check_units(units: Units) -> dict[str, list[tuple[int, Path]]]:
    """The units, frames in order; InputError for a unit without images or a duplicate frame id."""
    if not units:
        raise InputError("At least one unit with images is needed, and there is none.")
    for unit, frames in units.items():
        ids = [frame for frame, _ in frames]
        if not unit or not ids:
            raise InputError(f"Every unit needs a name and images, and unit {unit!r} has {len(ids)} images.")
        if len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) > INT32_MAX:
            raise InputError(f"Frame ids must be different numbers in 0..{INT32_MAX}; those of {unit} are not.")
    return {unit: sorted(frames) for unit, frames in units.items()}


def image_bytes(path: Path) -> bytes:
    """The content of an image file; FrameError where it cannot be read."""
    try:
        return reading.content(path, "an image")
    except InputError as error:
        # No path of the machine, because the cache stores the reasons.
        why = str(error).rpartition("; ")[2].rstrip(".")
        raise FrameError(f"the file cannot be read ({why})") from error


def image_sha256(path: Path) -> str | None:
    """SHA-256 of an image file, None where it cannot be read."""
    try:
        return sha256(image_bytes(path))
    except FrameError:
        return None


def _image_files(folder: Path) -> list[Path]:
    return [path for path in reading.entries(folder) if path.suffix.lower() in SUFFIXES and reading.is_file(path)]


def _number_frames(files: Sequence[Path]) -> list[tuple[int, Path]]:
    if all(re.fullmatch(r"[0-9]+", path.stem) for path in files):
        return sorted((int(path.stem), path) for path in files)
    return list(enumerate(sorted(files, key=_natural)))


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.findall(r"[0-9]+|[^0-9]+", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
