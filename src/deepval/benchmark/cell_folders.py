"""Folders made by `deepval build` -> cells to judge submissions on: losses, split, costs and their track."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from deepval.benchmark.build import digest_of, file_digest
from deepval.benchmark.splits import Split
from deepval.benchmark.tracks import TrackCell, cell_of
from deepval.errors import InputError
from deepval.values import ValueTable, read_values

LOCAL = "local"
"""The track of cells that no track file describes, and the profile of costs without a name."""


@dataclass(frozen=True, eq=False)
class BuiltCell:
    """A cell on disk.

    Attributes:
        name: Its folder's name: what a submission's score file is called.
        id: Its id, which rests on the hashes of everything that went in.
        table: Losses of all units, with costs where known.
        split: Training, validation and test units.
        profile: Name of its cost profile, None where costs are unknown.
        official: The track's cell that it is, None where no track describes it.
        digest: SHA-256 of its files.
    """

    name: str
    id: str
    table: ValueTable = field(repr=False)
    split: Split = field(repr=False)
    profile: str | None
    official: TrackCell | None = field(repr=False)
    digest: str

    @property
    def track(self) -> str:
        """Name of its track."""
        return LOCAL if self.official is None else self.official.track

    @cached_property
    def scored(self) -> ValueTable:
        """The inputs that a submission must score: those of validation and test units."""
        return self.table.restrict([*self.split.validation, *self.split.test])


def read_cells(folder: Path | str) -> dict[str, BuiltCell]:
    """Every cell in a folder of cell folders, or of folders of them (then named outer-inner), sorted by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: must be a folder of cells made by `deepval build`; there is no such folder.")
    manifests = [*folder.glob("*/manifest.json"), *folder.glob("*/*/manifest.json")]
    found: dict[str, BuiltCell] = {}
    for manifest in sorted(manifests):
        name = "-".join(manifest.parent.relative_to(folder).parts)
        if name in found:
            raise InputError(f"{folder}: cells need different names; two are called {name!r}. Rename a folder.")
        found[name] = read_cell(manifest.parent, name=name)
    if not found:
        raise InputError(f"{folder}: must hold folders made by `deepval build`; no manifest.json lies in any.")
    return dict(sorted(found.items()))


def read_cell(folder: Path, *, name: str | None = None) -> BuiltCell:
    """One cell, checked against the hashes in its manifest."""
    manifest = _json(folder / "manifest.json")
    files, definition = manifest.get("files"), manifest.get("definition")
    if not isinstance(files, dict) or not isinstance(definition, dict) or "id" not in manifest:
        raise InputError(f"{folder / 'manifest.json'}: must be a manifest written by `deepval build`; build it again.")
    for file, digest in files.items():
        if not (folder / file).is_file() or file_digest(folder / file) != digest:
            raise InputError(f"{folder / file}: must be what its manifest says; it is absent or changed. Build again.")
    costs = folder / "costs.toml" if "costs.toml" in files else None
    table = read_values(folder / "values.parquet", costs=costs)
    return BuiltCell(
        name=name or folder.name,
        id=manifest["id"],
        table=table,
        split=_split(folder / "split.json"),
        profile=None if costs is None else _profile(costs),
        official=cell_of(definition, table.modes),
        digest=digest_of(files),
    )


def _split(path: Path) -> Split:
    content = _json(path)
    roles = {role: tuple(map(str, content.get(role, ()))) for role in ("train", "validation", "test")}
    found = Split(str(content.get("dataset")), **roles)
    if found.digest != content.get("sha256"):
        raise InputError(f"{path}: must be a split written by `deepval build`; its hash does not fit. Build again.")
    return found


def _profile(path: Path) -> str:
    name = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("profile", LOCAL)
    if not isinstance(name, str):
        raise InputError(f"{path}: 'profile' must be a name; found {name!r}.")
    return name


def _json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: must be a JSON file that can be read; {error}.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold a JSON object; found {type(content).__name__}.")
    return content
