"""Command line, specification file (TOML or JSON) or built cell -> specifications of
cells with their data at hand.

A specification file names data set, root, modes (cheap first, or in pairs), geometry
and system: docs/cells.md. Its paths are relative to the file or, if there is no such
file, to the folder of the data.
"""

import csv
import io
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from deepval.basics import plugins
from deepval.basics.errors import InputError, InputWarning, UnsuitableError, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_text, read_json, read_toml
from deepval.basics.files.writing import write_atomically
from deepval.basics.plugins import Code
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.cells.spec import (
    DEFAULT_MODES,
    DEFAULT_THRESHOLD,
    CellSpec,
    Material,
    ModeSpec,
    changed_constants,
    specs,
)
from deepval.driving.datasets import DATASETS, Dataset, open_dataset, open_own
from deepval.driving.datasets.synthetic import (
    MODES,
    Simulated,
    Synthetic,
    WorldSettings,
)
from deepval.driving.perception.modes import (
    BUILT_IN,
    NAMES,
    FileMode,
    Profiled,
    built_in_mode,
    built_in_name,
)
from deepval.driving.perception.reported.cache import units_in
from deepval.driving.perception.reported.detection_files import is_cache
from deepval.driving.perception.reported.detections import ScoreKind
from deepval.driving.systems import NamedSystem, System, named_own, own_system
from deepval.driving.systems.learned import learned_planners
from deepval.driving.systems.system import constants, with_constants
from deepval.judge.tables.costs import PROFILES, check_modes


@dataclass(frozen=True)
class ModeFile:
    """One mode as a file of detections, or without a file, and how it is used.

    Attributes:
        name: The mode's name.
        path: Detections in any format that `read_detections` reads, or a mode's folder
            in a cache; None for a mode that needs no file, see `perception.modes`.
        threshold: Detections below this score are dropped; None keeps all.
        scores: Kind of the scores; None takes the kind that the file declares.
        classes: Classes of the detections used; None uses all.
        like: Name of the built-in mode that it is; None where `name` is that name.
        seed: Seed of a mode without a file that is random.
        frames_run: Numbers of the frames that it was run on, by unit; None takes those
            of the file.
    """

    name: str
    path: Path | None
    threshold: float | None = None
    scores: ScoreKind | None = None
    classes: tuple[str, ...] | None = None
    like: str | None = None
    seed: int = 0
    frames_run: Mapping[str, Sequence[int]] | None = None


def from_files(
    source: Dataset,
    files: Sequence[ModeFile],
    *,
    units: Sequence[str] | None = None,
    code: Code | None = None,
) -> Material:
    """A data set on disk and its modes, cheap first, each from a file of detections or
    built in; `code` is that of a data set of the user's own.
    """
    _refuse_repeated([file.name for file in files])
    source = source.for_units(units)
    chosen = source.select(units) if units is not None else _cached_units(source, files)
    modes = tuple(_from_file(file, source, chosen) for file in files)
    return Material(source, modes, chosen, code=code)


def _cached_units(source: Dataset, files: Sequence[ModeFile]) -> tuple[str, ...]:
    """The units of a data set that are in a cache of one of the modes; all units where
    no cache has any.
    """
    every = source.select(None)
    caches = [
        file.path for file in files if file.path is not None and is_cache(file.path)
    ]
    cached = {unit for path in caches for unit in units_in(path.parent, path.name)}
    there = tuple(unit for unit in every if unit in cached)
    if not there or len(there) == len(every):
        return every
    note = (
        f"{len(every) - len(there)} of {len(every)} units of {source.name} are in no "
        f"cache: the cell is made of the {len(there)} that are, "
        f"and split among them: {', '.join(there)}."
    )
    warnings.warn(note, InputWarning, stacklevel=3)
    return there


def _from_file(file: ModeFile, source: Dataset, units: Sequence[str]) -> ModeSpec:
    if file.path is None:
        return _without_file(file)
    reader = FileMode.of(
        file.path,
        file.name,
        file.scores,
        units,
        source.classes,
        frames_run=file.frames_run,
    )
    if file.threshold is not None and reader.scores == "none":
        raise InputError(
            f"mode {file.name} has no scores; a threshold needs some: leave the "
            "threshold out."
        )
    return ModeSpec(file.name, reader.definition, file.threshold, file.classes, reader)


def _without_file(mode: ModeFile) -> ModeSpec:
    reader = built_in_mode(mode.like or mode.name, seed=mode.seed)
    if reader is None:
        raise InputError(
            "A mode without a file must "
            f"be one of {NAMES}; found {mode.name!r}: write {mode.name}=FILE."
        )
    if mode.scores not in (None, reader.scores):
        raise InputError(
            f"mode {mode.name} has {reader.scores} for "
            f"scores; found {mode.scores!r}: leave it out."
        )
    default = DEFAULT_THRESHOLD if isinstance(reader, Profiled) else None
    threshold = default if mode.threshold is None else mode.threshold
    return ModeSpec(mode.name, reader.definition, threshold, mode.classes, reader)


def synthetic(
    modes: Sequence[str] = DEFAULT_MODES,
    *,
    seed: int = 0,
    settings: WorldSettings | None = None,
    threshold: float | Mapping[str, float] = DEFAULT_THRESHOLD,
    classes: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
) -> Material:
    """The synthetic world of a seed, with the reports of its detector.

    Args:
        modes: Names of its modes, cheap first.
        seed: Seed of the world.
        settings: Its size.
        threshold: Detections below this score are dropped; or by mode, the usual one
            for those not named.
        classes: Classes of the detections used; None uses all.
        units: Units to use; None uses all.
    """
    unknown = [name for name in modes if name not in MODES]
    if unknown:
        raise InputError(
            "Modes of the synthetic world must "
            f"be among {', '.join(MODES)}; found {unknown[0]!r}."
        )
    _refuse_repeated(modes)
    world = Synthetic(seed=seed, settings=settings or WorldSettings())
    limits = (
        threshold if isinstance(threshold, Mapping) else dict.fromkeys(modes, threshold)
    )
    used_classes = None if classes is None else tuple(classes)
    readers = {name: Simulated(seed, world.settings, MODES[name]) for name in modes}
    mode_specs = [
        ModeSpec(
            name, r.definition, limits.get(name, DEFAULT_THRESHOLD), used_classes, r
        )
        for name, r in readers.items()
    ]
    return Material(world, tuple(mode_specs), world.select(units))


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("Modes need different names; one is given twice.")


class PlannerPaths(NamedTuple):
    """Paths of the files of a learned planner on this machine."""

    weights: Path
    masks: Path


PLACES = "read-from.json"
"""File beside a cell's own that says where its data were; it is not of the cell's
id.
"""


@dataclass(frozen=True)
class DataPlaces:
    """Where the data of a cell are on this machine.

    Attributes:
        root: Folder of the data set; None where it has none.
        modes: File of each mode's detections; modes without a file are left out.
        maps: Folder of lane maps, where the cell was built with one.
        weights: Weights of the learned planner.
        masks: Masks that belong to the weights.
    """

    root: Path | None = None
    modes: Mapping[str, Path] = field(default_factory=dict)
    maps: Path | None = None
    weights: Path | None = None
    masks: Path | None = None

    @classmethod
    def read(cls, folder: Path) -> "DataPlaces":
        """The places that the file in a cell's folder states; none without a file."""
        if not reading.is_file(folder / PLACES):
            return cls()
        content = read_json(folder / PLACES)

        def path(text: Any) -> Path | None:
            return None if text is None else reading.resolve(folder / str(text))

        try:
            modes = {
                str(name): reading.resolve(folder / str(text))
                for name, text in content["modes"].items()
            }
            return cls(
                root=path(content["root"]),
                modes=modes,
                maps=path(content["maps"]),
                weights=path(content["weights"]),
                masks=path(content["masks"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{folder / PLACES}: must say where the cell's data are, and does not: "
                "build the cell again."
            ) from error

    def write(self, folder: Path) -> None:
        """Write the places into a cell's folder, relative to it: cells and data may
        move together.
        """

        def text(path: Path | None) -> str | None:
            if path is None:
                return None
            target = reading.resolve(path)
            home = reading.resolve(folder)
            if target.drive != home.drive:
                return target.as_posix()
            return Path(os.path.relpath(target, home)).as_posix()

        content = {
            "root": text(self.root),
            "modes": {name: text(path) for name, path in self.modes.items()},
            "maps": text(self.maps),
            "weights": text(self.weights),
            "masks": text(self.masks),
        }
        write_atomically(folder / PLACES, json_text(content))

    @property
    def missing(self) -> Path | None:
        """The first of data set, maps and detections that is no longer there."""
        for path in (self.root, self.maps, *self.modes.values()):
            if path is not None and not reading.exists(path):
                return path
        return None

    @property
    def planner(self) -> PlannerPaths | None:
        """The learned planner, where both of its files are there."""
        if self.weights is None or self.masks is None:
            return None
        if not (reading.exists(self.weights) and reading.exists(self.masks)):
            return None
        return PlannerPaths(self.weights, self.masks)


def located(
    cell: BuiltCell,
    *,
    places: DataPlaces | None = None,
    code: Sequence[str] = (),
) -> CellSpec:
    """The cell's specification with its data set and modes at hand; InputError where
    they are not those of the build.

    Args:
        cell: The cell.
        places: Where the data are; by default where they were when the cell was built.
        code: Words of the user's own code that may be loaded. A data set of the user's
            own cannot be read without its word.

    Without its planner or its code, a system cannot plan again; the specification can
    still read the data.
    """
    spec = cell.spec
    places = places or DataPlaces.read(cell.folder)
    if needs_files(cell):
        material = _from_files(cell, places, code)
    else:
        material = _synthetic(spec)
    rule = _system_again(cell, places.planner, code)
    # Only the data are asked for here: the name of a system may be the user's own.
    (local,) = specs(material, geometries=[spec.geometry], persistence=spec.persistence)
    local = replace(
        local,
        system=spec.system,
        constants=spec.constants if rule is None else constants(rule),
        rule=rule,
        code=spec.code,
    )
    if local.id != cell.id:
        differences = local.differences(spec) or ("its definition differs",)
        raise InputError(
            f"{cell.folder}: the data given must be those that "
            f"the cell was built from; {differences[0]}."
        )
    return local


def check_confirmed(cells: Iterable[BuiltCell], words: Sequence[str]) -> None:
    """Raise where the user confirmed code that none of the cells was built with."""
    recorded = {code.name: code.word for cell in cells for code in cell.code.values()}
    for word in words:
        if plugins.code_name(word) not in recorded:
            names = ", ".join(sorted(recorded.values())) or "none"
            raise InputError(
                f"--code must be code that the cells were built with ({names}); found "
                f"{word!r}."
            )


def _system_again(
    cell: BuiltCell, planner: PlannerPaths | None, words: Sequence[str]
) -> System | None:
    """The cell's downstream system, ready to plan; None where its files, its code or
    this version of deepval cannot.
    """
    spec = cell.spec
    if "system" in cell.code:
        own = plugins.confirmed(cell.code["system"], words, "systems")
        if own is None:
            return None
        system = named_own(own).system
        return with_constants(system, changed_constants(system, spec.constants or {}))
    if spec.learned is not None:
        if planner is None:
            return None
        (learned,) = learned_planners(
            [spec.learned], weights=planner.weights, masks=planner.masks
        )
        return learned
    if spec.rule is None:
        return None
    return with_constants(spec.rule, spec.set_constants())


def needs_files(cell: BuiltCell) -> bool:
    """Whether files or code of a data set are needed to read the cell's data again."""
    return cell.spec.dataset != "synthetic"


def _synthetic(spec: CellSpec) -> Material:
    origin, default = spec.modes[0].made, WorldSettings()
    size = {
        name: origin["settings"][name]
        for name in (f.name for f in fields(default))
        if name != "traffic"
    }
    limits = {mode.name: float(mode.threshold or 0.0) for mode in spec.modes}
    return synthetic(
        spec.order,
        seed=origin["seed"],
        settings=WorldSettings(**size),
        threshold=limits,
        classes=spec.modes[0].classes,
        units=spec.units,
    )


def _from_files(cell: BuiltCell, places: DataPlaces, words: Sequence[str]) -> Material:
    spec = cell.spec
    source = _dataset_again(cell, places, words)
    named = [_mode_file(cell, mode, places) for mode in spec.modes]
    source = source.for_units(
        [name for item in spec.choices.values() for name in item.get("scenes", ())]
        or None
    )
    return replace(from_files(source, named, units=spec.units), left_out=spec.left_out)


BUILD_AGAIN = (
    "name its data set and modes in `deepval build` again, which leaves the cell as it "
    "is and notes where they are"
)


def _dataset_again(
    cell: BuiltCell, places: DataPlaces, words: Sequence[str]
) -> Dataset:
    """The cell's data set, opened again."""
    code = cell.code.get("dataset")
    if code is not None:
        own = plugins.confirmed(code, words, "datasets")
        if own is None:
            raise UnsuitableError(
                f"the data set {cell.spec.dataset} is your own code, which is read "
                f"again when you confirm it: give --code {code.word}."
            )
        return open_own(own, places.root)
    if places.root is None or places.missing is not None:
        where = places.missing or cell.folder / PLACES
        raise UnsuitableError(
            f"{cell.folder}: its data must be read again, and there is no {where}: "
            f"{BUILD_AGAIN}."
        )
    options = {} if places.maps is None else {"maps": places.maps}
    return open_dataset(cell.spec.dataset, places.root, **options)


def _mode_file(cell: BuiltCell, mode: ModeSpec, places: DataPlaces) -> ModeFile:
    built_in = mode.made.get("source") == BUILT_IN
    if not built_in and mode.name not in places.modes:
        raise InputError(
            f"{cell.folder}: its modes must be read again, and {PLACES} has no file of "
            f"{mode.name}: {BUILD_AGAIN}."
        )
    return ModeFile(
        name=mode.name,
        path=None if built_in else places.modes[mode.name],
        threshold=mode.threshold,
        scores=mode.made.get("scores"),
        classes=mode.classes,
        like=built_in_name(mode.made) if built_in else None,
        seed=mode.made.get("seed", 0),
        frames_run=mode.made.get("frames_run"),
    )


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
    "left_out": str,
    "constants": dict,
}
"""Fields of a specification and their types."""
MODE_FIELDS = {"file": str, "like": str, "scores": str, "threshold": float}
NAMED = ("units", "geometry", "system", "classes")
"""Fields whose lists contain texts only."""
OF_THE_WORLD = ("seed", "scenes", "frames")
ELSEWHERE = ("root", "maps")


@dataclass(frozen=True)
class BuildGroup:
    """Cells to build together; they share data set and modes.

    Attributes:
        specs: Their specifications, with the data at hand.
        costs: Costs to put into each cell: a file, or a shipped profile; None for none.
    """

    specs: tuple[CellSpec, ...]
    costs: Path | None = None


def is_specification(path: Path) -> bool:
    """Whether a file claims to be a specification: TOML, or JSON that names a data set
    at its top.
    """
    if path.suffix != ".json" or not reading.is_file(path):
        return path.suffix == ".toml" and reading.is_file(path)
    try:
        content = read_json(path)
    except InputError:
        return False
    return isinstance(content, dict) and isinstance(content.get("dataset"), str)


@dataclass(frozen=True)
class SearchFolders:
    """Folders in which the files of a specification are searched for: the
    specification's own folder first.
    """

    folders: tuple[Path, ...]

    def path(self, name: str) -> Path:
        """Path of a file or folder in the first search folder that has it, or in the
        first folder if none has.
        """
        paths = [folder / name for folder in self.folders]
        return next((path for path in paths if reading.exists(path)), paths[0])


def read_specification(
    path: Path, data: Path | None = None, *, code: Sequence[str] = ()
) -> list[BuildGroup]:
    """The cells that a file specifies: every combination of its geometries and systems,
    for each pair of modes.

    Args:
        path: The file.
        data: Folder in which its files are searched for, too.
        code: Words of the user's own code that the file may name.
    """
    fields = read_json(path) if path.suffix == ".json" else read_toml(path)
    try:
        return _cells(
            fields,
            SearchFolders((path.parent,) if data is None else (path.parent, data)),
            code,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _cells(
    fields: Mapping[str, Any], folders: SearchFolders, words: Sequence[str]
) -> list[BuildGroup]:
    _check_fields(fields, FIELDS, "a specification")
    for name in ("dataset", "geometry", "system"):
        if name not in fields:
            raise InputError(f"a specification must name its {name}; found none.")
    if fields["dataset"] == "synthetic":
        material = _world_material(fields)
    else:
        material = _file_material(fields, folders, words)
    systems = [_specified_system(name, words) for name in _names(fields["system"])]
    costs = fields.get("costs")
    costs = (
        None
        if costs is None
        else Path(costs)
        if costs in PROFILES
        else folders.path(costs)
    )
    if costs is not None:
        check_modes(costs, [mode.name for mode in material.modes])
    specs_by_pair = [
        specs(
            pair,
            geometries=_names(fields["geometry"]),
            systems=systems,
            persistence=fields.get("persistence", False),
            changes=fields.get("constants"),
        )
        for pair in _by_pair(material, fields.get("pairs"))
    ]
    return [BuildGroup(tuple(pair_specs), costs) for pair_specs in specs_by_pair]


def _confirmed(word: str, words: Sequence[str], what: str) -> str:
    """The word that the user typed for code that a specification names."""
    typed = plugins.typed_word(word, words)
    if typed is None:
        raise InputError(
            f"{what} {word} is your own code, which runs when you confirm it: give "
            f"--code {word}."
        )
    return typed


def _specified_system(name: str, words: Sequence[str]) -> str | NamedSystem:
    if not plugins.names_code(name):
        return name
    return own_system(_confirmed(name, words, "the system")) or name


def _specified_dataset(
    fields: Mapping[str, Any], folders: SearchFolders, words: Sequence[str]
) -> tuple[Dataset, Code | None]:
    """The data set of a specification, and its code where it is the user's own."""
    name = fields["dataset"]
    root = folders.path(fields["root"]) if "root" in fields else None
    if plugins.names_code(name):
        own = plugins.find(_confirmed(name, words, "the data set"), "datasets")
        assert own is not None
        return open_own(own, root), own.code
    if name not in DATASETS:
        raise InputError(
            f"a data set must be one of {', '.join(DATASETS)}; found {name!r}."
        )
    if root is None:
        raise InputError(f"data set {name} needs root, the folder of its files.")
    maps = {"maps": folders.path(fields["maps"])} if "maps" in fields else {}
    return open_dataset(name, root, **maps), None


def _by_pair(material: Material, pairs: Sequence[Any] | None) -> list[Material]:
    """One material for each pair of modes, or the material itself where no pairs are
    listed.
    """
    if pairs is None:
        return [material]
    modes = {mode.name: mode for mode in material.modes}
    for pair in pairs:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not {*map(str, pair)} <= set(modes)
        ):
            raise InputError(
                f"each of pairs must be two of the modes {', '.join(modes)}, cheap "
                f"first; found {pair!r}."
            )
    return [
        replace(material, modes=tuple(modes[name] for name in pair)) for pair in pairs
    ]


def _world_material(fields: Mapping[str, Any]) -> Material:
    _refuse_fields(
        fields, (*ELSEWHERE, "frames_run", "left_out"), "the synthetic world"
    )
    modes = fields.get("modes", {name: {} for name in DEFAULT_MODES})
    for name, mode in modes.items():
        _check_fields(
            mode,
            {"threshold": MODE_FIELDS["threshold"]},
            f"mode {name} of the synthetic world",
        )
    default = WorldSettings()
    size = WorldSettings(
        scenes=fields.get("scenes", default.scenes),
        frames=fields.get("frames", default.frames),
    )
    return synthetic(
        tuple(modes),
        seed=fields.get("seed", 0),
        settings=size,
        threshold={
            name: float(mode.get("threshold", DEFAULT_THRESHOLD))
            for name, mode in modes.items()
        },
        classes=fields.get("classes"),
        units=fields.get("units"),
    )


def _file_material(
    fields: Mapping[str, Any], folders: SearchFolders, words: Sequence[str]
) -> Material:
    _refuse_fields(fields, OF_THE_WORLD[1:], "a data set on disk")
    source, code = _specified_dataset(fields, folders, words)
    if len(fields.get("modes", {})) < 2:
        raise InputError(f"data set {fields['dataset']} needs two or more modes.")
    files = [_specified_mode(name, fields, folders) for name in fields["modes"]]
    material = from_files(source, files, units=fields.get("units"), code=code)
    if "left_out" not in fields:
        return material
    path, units = folders.path(fields["left_out"]), source.unit_ids()
    left_out = _listed_frames(path)
    unknown = [unit for unit in left_out if unit not in units]
    if unknown:
        raise InputError(
            f"{path}: units must be those of the data set; found {quote(unknown[0])}: "
            "check the file."
        )
    return replace(
        material,
        left_out={unit: left_out[unit] for unit in material.units if unit in left_out},
    )


def _listed_frames(path: Path) -> dict[str, tuple[int, ...]]:
    """Frame numbers by unit from a CSV file with the columns unit (or seq) and
    frame.
    """
    what = "a CSV file with the columns unit (or seq) and frame"
    frames: dict[str, list[int]] = {}
    for row in csv.DictReader(
        io.StringIO(reading.content(path, what).decode("utf-8", "replace"))
    ):
        unit, number = row.get("unit") or row.get("seq"), row.get("frame") or ""
        if not unit or not number.isdecimal():
            raise InputError(
                f"{path}: must be {what}, a number; found {quote(list(row.values()))}."
            )
        frames.setdefault(unit, []).append(int(number))
    if not frames:
        raise InputError(f"{path}: must be {what}; found no row.")
    return {unit: tuple(sorted(set(numbers))) for unit, numbers in frames.items()}


def _specified_mode(
    name: str, fields: Mapping[str, Any], folders: SearchFolders
) -> ModeFile:
    mode = fields["modes"][name]
    _check_fields(mode, MODE_FIELDS, f"mode {name}")
    limit, kind = mode.get("threshold"), mode.get("scores")
    if kind not in (None, "probabilities", "raw", "none"):
        raise InputError(
            f"scores of mode {name} must be probabilities, raw or none; found {kind!r}."
        )
    return ModeFile(
        name=name,
        path=folders.path(mode["file"]) if "file" in mode else None,
        threshold=None if limit is None else float(limit),
        scores=kind,
        classes=tuple(fields["classes"]) if "classes" in fields else None,
        like=mode.get("like"),
        seed=fields.get("seed", 0),
        frames_run=fields.get("frames_run"),
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
            raise InputError(
                f"{what} may have the fields {', '.join(fields)}; found {name!r}."
            )
        if fields[name] is float:
            reading.check_form(float, value, f"{name} of {what}")
            continue
        if not isinstance(value, fields[name]) or (
            isinstance(value, bool) and fields[name] is not bool
        ):
            raise InputError(
                f"{name} of {what} has the wrong type; found {quote(value)}."
            )
        if (
            name in NAMED
            and isinstance(value, list)
            and not all(isinstance(item, str) for item in value)
        ):
            raise InputError(
                f"{name} of {what} must be a list of texts; found {quote(value)}."
            )
