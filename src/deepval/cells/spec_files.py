"""A specification file (TOML or JSON) -> the specifications of cells, with their data at hand: docs/cells.md.

The file names data set, root, modes (cheap first, or in pairs), geometry and system. Paths are relative to the file;
where there is no such file, they are relative to the folder of the data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deepval.cells import sources
from deepval.cells.spec import DEFAULT_MODES, DEFAULT_THRESHOLD, CellSpec, Material, specs
from deepval.datasets import DATASETS, open_dataset
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError, quote
from deepval.files import reading
from deepval.files.canonical import read_json, read_toml
from deepval.tables.costs import PROFILES, check_modes

FIELDS = {
    "dataset": str,
    "root": str,
    "maps": str,
    "units": list,
    "geometry": (str, list),
    "system": (str, list),
    "classes": list,
    "persistence": bool,
    "costs": str,
    "seed": int,
    "scenes": int,
    "frames": int,
    "modes": dict,
    "pairs": list,
    "frames_run": dict,
    "constants": dict,
}
"""Fields of a specification and their types."""
MODE_FIELDS = {"file": str, "like": str, "scores": str, "threshold": (int, float)}
NAMED = ("units", "geometry", "system", "classes")
"""Fields whose lists contain texts only."""
OF_THE_WORLD = ("seed", "scenes", "frames")
ELSEWHERE = ("root", "maps")


@dataclass(frozen=True)
class Wanted:
    """Cells to build together, which share data set and modes.

    Attributes:
        specs: Their specifications, with the data at hand.
        costs: Costs to put into each cell: a file, or a shipped profile; None for none.
    """

    specs: tuple[CellSpec, ...]
    costs: Path | None = None


def is_specification(path: Path) -> bool:
    """Whether a file claims to be a specification: TOML, or JSON that names a data set at its top."""
    if path.suffix != ".json" or not reading.is_file(path):
        return path.suffix == ".toml" and reading.is_file(path)
    try:
        content = read_json(path)
    except InputError:
        return False
    return isinstance(content, dict) and isinstance(content.get("dataset"), str)


@dataclass(frozen=True)
class SearchFolders:
    """Folders in which the files of a specification are searched for: that of the specification first."""

    folders: tuple[Path, ...]

    def path(self, name: str) -> Path:
        """Path of a file or folder in the first search folder that has it; in the first one where none has."""
        paths = [folder / name for folder in self.folders]
        return next((path for path in paths if reading.exists(path)), paths[0])


def read_specification(path: Path, data: Path | None = None) -> list[Wanted]:
    """The cells that a file specifies: every combination of its geometries and systems, pair by pair of modes."""
    fields = read_json(path) if path.suffix == ".json" else read_toml(path)
    try:
        return _cells(fields, SearchFolders((path.parent,) if data is None else (path.parent, data)))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _cells(fields: Mapping[str, Any], folders: SearchFolders) -> list[Wanted]:
    _check_fields(fields, FIELDS, "a specification")
    for name in ("dataset", "geometry", "system"):
        if name not in fields:
            raise InputError(f"a specification must name its {name}; found none.")
    if fields["dataset"] not in DATASETS:
        raise InputError(f"a data set must be one of {', '.join(DATASETS)}; found {fields['dataset']!r}.")
    material = _synthetic(fields) if fields["dataset"] == "synthetic" else _from_files(fields, folders)
    costs = fields.get("costs")
    costs = None if costs is None else Path(costs) if costs in PROFILES else folders.path(costs)
    if costs is not None:
        check_modes(costs, [mode.name for mode in material.modes])
    specs_by_pair = [
        specs(
            pair,
            geometries=_names(fields["geometry"]),
            systems=_names(fields["system"]),
            persistence=fields.get("persistence", False),
            changes=fields.get("constants"),
        )
        for pair in _by_pair(material, fields.get("pairs"))
    ]
    return [Wanted(tuple(pair_specs), costs) for pair_specs in specs_by_pair]


def _by_pair(material: Material, pairs: Sequence[Any] | None) -> list[Material]:
    """One material for each pair of modes, or the material itself where no pairs are listed."""
    if pairs is None:
        return [material]
    modes = {mode.name: mode for mode in material.modes}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not {*map(str, pair)} <= set(modes):
            raise InputError(f"each of pairs must be two of the modes {', '.join(modes)}, cheap first; found {pair!r}.")
    return [replace(material, modes=tuple(modes[name] for name in pair)) for pair in pairs]


def _synthetic(fields: Mapping[str, Any]) -> Material:
    _refuse_fields(fields, (*ELSEWHERE, "frames_run"), "the synthetic world")
    modes = fields.get("modes", {name: {} for name in DEFAULT_MODES})
    for name, mode in modes.items():
        _check_fields(mode, {"threshold": MODE_FIELDS["threshold"]}, f"mode {name} of the synthetic world")
    default = WorldSettings()
    size = WorldSettings(scenes=fields.get("scenes", default.scenes), frames=fields.get("frames", default.frames))
    return sources.synthetic(
        tuple(modes),
        seed=fields.get("seed", 0),
        settings=size,
        threshold={name: float(mode.get("threshold", DEFAULT_THRESHOLD)) for name, mode in modes.items()},
        classes=fields.get("classes"),
        units=fields.get("units"),
    )


def _from_files(fields: Mapping[str, Any], folders: SearchFolders) -> Material:
    _refuse_fields(fields, OF_THE_WORLD[1:], "a data set on disk")
    if "root" not in fields or len(fields.get("modes", {})) < 2:
        raise InputError(f"data set {fields['dataset']} needs root, the folder of its files, and two or more modes.")
    maps = {"maps": folders.path(fields["maps"])} if "maps" in fields else {}
    source = open_dataset(fields["dataset"], folders.path(fields["root"]), **maps)
    classes = tuple(fields["classes"]) if "classes" in fields else None
    files = [_mode_file(name, mode, folders, classes, fields.get("seed", 0)) for name, mode in fields["modes"].items()]
    files = [replace(file, frames_run=fields.get("frames_run")) for file in files]
    return sources.from_files(source, files, units=fields.get("units"))


def _mode_file(
    name: str, fields: Mapping[str, Any], folders: SearchFolders, classes: tuple[str, ...] | None, seed: int
) -> sources.ModeFile:
    _check_fields(fields, MODE_FIELDS, f"mode {name}")
    limit, kind = fields.get("threshold"), fields.get("scores")
    if kind not in (None, "probabilities", "raw", "none"):
        raise InputError(f"scores of mode {name} must be probabilities, raw or none; found {kind!r}.")
    return sources.ModeFile(
        name=name,
        path=folders.path(fields["file"]) if "file" in fields else None,
        threshold=None if limit is None else float(limit),
        scores=kind,
        classes=classes,
        like=fields.get("like"),
        seed=seed,
    )


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _refuse_fields(fields: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in names:
        if name in fields:
            raise InputError(f"{name} changes nothing with {what}: leave it out.")


def _check_fields(table: Any, fields: Mapping[str, Any], what: str) -> None:
    """Raise InputError for a field that is not read, or a value of the wrong type."""
    if not isinstance(table, Mapping):
        raise InputError(f"{what} must be a table; found {quote(table)}.")
    for name, value in table.items():
        if name not in fields:
            raise InputError(f"{what} may say {', '.join(fields)}; found {name!r}.")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and fields[name] is not bool):
            raise InputError(f"{name} of {what} must be of another kind; found {quote(value)}.")
        if name in NAMED and isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise InputError(f"{name} of {what} must be a list of texts; found {quote(value)}.")
