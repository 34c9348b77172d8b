"""A cell's manifest -> the content of the files that it names, each hashed as it is read: what is used is as built.

A file is read once, and the bytes whose hash was compared are those that are parsed, so a reader never has files of two
cells, whoever writes the folder meanwhile. A file that the manifest does not name is no part of the cell.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import read_json, stream_digest
from deepval.files.forms import formed

MANIFEST = "manifest.json"
TOP = frozenset({"values.parquet", "terms.parquet", "evidence.parquet", "frames.json", "split.json", "costs.toml"})
"""Names that belong to a cell in its folder: a file of such a name is the cell's, or nothing."""


@dataclass(frozen=True)
class Manifest:
    """What a cell's folder says of itself.

    Attributes:
        folder: Where it lies.
        id: The cell's id.
        definition: Everything that the cell rests on.
        files: SHA-256 of every file of the cell by name.
    """

    folder: Path
    id: str
    definition: Mapping[str, Any] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)

    def content(self, name: str) -> bytes:
        """What a file holds, which must be what was built."""
        with self.opened(name) as file:
            return file.read()

    def opened(self, name: str, *, in_memory: bool = True) -> io.BufferedIOBase:
        """A file to read, which must hold what was built; one that stays on disk keeps its content when replaced."""
        path = self.folder / name
        altered = InputError(
            f"{path}: must be as it was built, and is not: build the cell again (or wait, if that is being done)."
        )
        try:
            file = io.BytesIO(reading.content(path)) if in_memory else reading.opened(path)
        except InputError as error:
            raise altered from error
        if stream_digest(file) != self.files.get(name):
            file.close()
            raise altered
        file.seek(0)
        return file

    def check(self) -> None:
        """Raise where a file is missing or not what was built."""
        for name in self.files:
            self.opened(name, in_memory=False).close()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a cell's folder."""
    try:
        return _parsed(folder)
    except (InputError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: must be a cell's folder as `deepval build` writes it; {MANIFEST} cannot be read ({error})."
        ) from error


def cell_content(path: Path) -> bytes | None:
    """What a file of a cell holds, given by its path; None where the file is no part of a cell.

    The file must be what the manifest beside it says. A link to a cell's file is that file.
    """
    for place in (path, reading.resolved(path)):
        if not reading.is_file(place.parent / MANIFEST):
            continue
        try:
            manifest = _parsed(place.parent)
        except (KeyError, TypeError):
            continue  # some other program's manifest
        except InputError:
            if place.name in TOP:
                read_manifest(place.parent)
            continue
        if place.name in manifest.files:
            return manifest.content(place.name)
        if place.name in TOP:
            raise InputError(
                f"{path}: must be a file of the cell in its folder, {manifest.id}, and its manifest does not name it: "
                "build the cell with it, or keep it elsewhere."
            )
    return None


def _parsed(folder: Path) -> Manifest:
    content = read_json(folder / MANIFEST, finite=True)
    parts = [content[name] for name in ("id", "definition", "files")]
    for part, form in zip(parts, (str, dict[str, Any], dict[str, str]), strict=True):
        formed(form, part, "a part of it")
    return Manifest(folder, *parts)
