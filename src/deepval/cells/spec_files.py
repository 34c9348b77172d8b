"""A specification file (TOML or JSON) -> the specifications of cells, with their data at hand: docs/cells.md.

It names data set, root, modes (cheap first, or in pairs), geometry and system; paths are relative to the file, and
what is not there is looked for in the folder of the data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deepval.cells import sources
from deepval.cells.spec import DEFAULT_MODES, DEFAULT_THRESHOLD, CellSpec, Material, specs
from deepval.datasets import DATASETS, open_dataset
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError, quoted
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
"""What a specification may say, and how."""
MODE_FIELDS = {"file": str, "like": str, "scores": str, "threshold": (int, float)}
NAMED = ("units", "geometry", "system", "classes")
"""Fields whose lists hold texts."""
OF_THE_WORLD = ("seed", "scenes", "frames")
ELSEWHERE = ("root", "maps")


@dataclass(frozen=True)
class Wanted:
    """Cells to build together, which share data set and modes.

    Attributes:
        specs: What they are, with the data at hand.
        costs: Costs to put into each: a file, or a shipped profile; None for none.
    """

    specs: tuple[CellSpec, ...]
    costs: Path | None = None


def is_specification(path: Path) -> bool:
    """Whether a file claims to be a specification: TOML, or JSON that names a data set at its top."""
    if path.suffix != ".json" or not reading.is_file(path):
        return path.suffix == ".toml" and reading.is_file(path)
    try:
        told = read_json(path)
    except InputError:
        return False
    return isinstance(told, dict) and isinstance(told.get("dataset"), str)


@dataclass(frozen=True)
class Places:
    """Folders in which the files of a specification are looked for: its own first."""

    folders: tuple[Path, ...]

    def path(self, name: str) -> Path:
        """Where a file or folder lies; beside the specification where it is nowhere."""
        found = [folder / name for folder in self.folders]
        return next((path for path in found if reading.exists(path)), found[0])


def read_specification(path: Path, data: Path | None = None) -> list[Wanted]:
    """The cells that a file specifies: every combination of its geometries and systems, pair by pair of modes."""
    told = read_json(path) if path.suffix == ".json" else read_toml(path)
    try:
        return _wanted(told, Places((path.parent,) if data is None else (path.parent, data)))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _wanted(told: Mapping[str, Any], places: Places) -> list[Wanted]:
    _check(told, FIELDS, "a specification")
    for needed in ("dataset", "geometry", "system"):
        if needed not in told:
            raise InputError(f"a specification must name its {needed}; found none.")
    if told["dataset"] not in DATASETS:
        raise InputError(f"a data set must be one of {', '.join(DATASETS)}; found {told['dataset']!r}.")
    material = _synthetic(told) if told["dataset"] == "synthetic" else _from_files(told, places)
    costs = told.get("costs")
    costs = None if costs is None else Path(costs) if costs in PROFILES else places.path(costs)
    if costs is not None:
        check_modes(costs, [mode.name for mode in material.modes])
    found = [
        specs(
            pair,
            geometries=_several(told["geometry"]),
            systems=_several(told["system"]),
            persistence=told.get("persistence", False),
            changes=told.get("constants"),
        )
        for pair in _paired(material, told.get("pairs"))
    ]
    return [Wanted(tuple(each), costs) for each in found]


def _paired(material: Material, pairs: Sequence[Any] | None) -> list[Material]:
    """The material with the modes of each pair, or as it is where no pairs are told."""
    if pairs is None:
        return [material]
    modes = {mode.name: mode for mode in material.modes}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not {*map(str, pair)} <= set(modes):
            raise InputError(f"each of pairs must be two of the modes {', '.join(modes)}, cheap first; found {pair!r}.")
    return [replace(material, modes=tuple(modes[name] for name in pair)) for pair in pairs]


def _synthetic(told: Mapping[str, Any]) -> Material:
    _refuse(told, (*ELSEWHERE, "frames_run"), "the synthetic world")
    modes = told.get("modes", {name: {} for name in DEFAULT_MODES})
    for name, mode in modes.items():
        _check(mode, {"threshold": MODE_FIELDS["threshold"]}, f"mode {name} of the synthetic world")
    usual = WorldSettings()
    size = WorldSettings(scenes=told.get("scenes", usual.scenes), frames=told.get("frames", usual.frames))
    return sources.synthetic(
        tuple(modes),
        seed=told.get("seed", 0),
        settings=size,
        threshold={name: float(mode.get("threshold", DEFAULT_THRESHOLD)) for name, mode in modes.items()},
        classes=told.get("classes"),
        units=told.get("units"),
    )


def _from_files(told: Mapping[str, Any], places: Places) -> Material:
    _refuse(told, OF_THE_WORLD[1:], "a data set on disk")
    if "root" not in told or len(told.get("modes", {})) < 2:
        raise InputError(f"data set {told['dataset']} needs root, the folder of its files, and two or more modes.")
    maps = {"maps": places.path(told["maps"])} if "maps" in told else {}
    source = open_dataset(told["dataset"], places.path(told["root"]), **maps)
    classes = tuple(told["classes"]) if "classes" in told else None
    files = [_mode_file(name, mode, places, classes, told.get("seed", 0)) for name, mode in told["modes"].items()]
    files = [replace(file, frames_run=told.get("frames_run")) for file in files]
    return sources.from_files(source, files, units=told.get("units"))


def _mode_file(
    name: str, told: Mapping[str, Any], places: Places, classes: tuple[str, ...] | None, seed: int
) -> sources.ModeFile:
    _check(told, MODE_FIELDS, f"mode {name}")
    limit, kind = told.get("threshold"), told.get("scores")
    if kind not in (None, "probabilities", "raw", "none"):
        raise InputError(f"scores of mode {name} must be probabilities, raw or none; found {kind!r}.")
    return sources.ModeFile(
        name=name,
        path=places.path(told["file"]) if "file" in told else None,
        threshold=None if limit is None else float(limit),
        scores=kind,
        classes=classes,
        like=told.get("like"),
        seed=seed,
    )


def _several(told: str | Sequence[str]) -> list[str]:
    return [told] if isinstance(told, str) else list(told)


def _refuse(told: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in names:
        if name in told:
            raise InputError(f"{name} changes nothing with {what}: leave it out.")


def _check(told: Any, fields: Mapping[str, Any], what: str) -> None:
    """Raise where something is said that nobody reads, or in a form that nobody expects."""
    if not isinstance(told, Mapping):
        raise InputError(f"{what} must be a table; found {quoted(told)}.")
    for name, value in told.items():
        if name not in fields:
            raise InputError(f"{what} may say {', '.join(fields)}; found {name!r}.")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and fields[name] is not bool):
            raise InputError(f"{name} of {what} must be of another kind; found {quoted(value)}.")
        if name in NAMED and isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise InputError(f"{name} of {what} must be a list of texts; found {quoted(value)}.")
