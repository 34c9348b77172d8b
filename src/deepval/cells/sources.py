"""Names and files from a command line or a specification -> material of cells, with the hashes of all files read."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import DEFAULT_MODES, DEFAULT_THRESHOLD, CellSpec, Material, ModeSpec, specs
from deepval.datasets import Dataset, open_dataset
from deepval.datasets.synthetic import MODES, Simulated, Synthetic, WorldSettings
from deepval.errors import InputError, InputWarning
from deepval.perception.modes import BUILT_IN, NAMES, FileMode, Profiled, built_in_mode
from deepval.perception.reported.cache import units_in
from deepval.perception.reported.detection_files import is_cache
from deepval.perception.reported.detections import ScoreKind
from deepval.systems import System
from deepval.systems.learned import learned_planners


@dataclass(frozen=True)
class ModeFile:
    """One mode as a file of detections, or without a file, and how it is used.

    Attributes:
        name: The mode's name.
        path: Detections in any format that `read_detections` reads, or a mode's folder in a cache; None for a mode
            that needs no file, see `perception.modes`.
        threshold: Detections below this score are dropped; None keeps all.
        scores: Kind of the scores; None takes the kind that the file declares.
        classes: Classes of the detections used; None uses all.
        like: Name of the built-in mode that it is; None where `name` is that name.
        seed: Seed of a mode without a file that is random.
        frames_run: Numbers of the frames that it was run on, by unit; None takes those of the file.
    """

    name: str
    path: Path | None
    threshold: float | None = None
    scores: ScoreKind | None = None
    classes: tuple[str, ...] | None = None
    like: str | None = None
    seed: int = 0
    frames_run: Mapping[str, Sequence[int]] | None = None


def from_files(source: Dataset, files: Sequence[ModeFile], *, units: Sequence[str] | None = None) -> Material:
    """A data set on disk and modes on it, from files of detections or without, cheap first."""
    _refuse_repeated([file.name for file in files])
    chosen = source.chosen(units) if units is not None else _cached_units(source, files)
    return Material(source, tuple(_from_file(file, source, chosen) for file in files), chosen)


def _cached_units(source: Dataset, files: Sequence[ModeFile]) -> tuple[str, ...]:
    """The units of a data set that are in a cache of one of the modes; all units where no cache has any."""
    every = source.chosen(None)
    caches = [file.path for file in files if file.path is not None and is_cache(file.path)]
    cached = {unit for path in caches for unit in units_in(path.parent, path.name)}
    there = tuple(unit for unit in every if unit in cached)
    if not there or len(there) == len(every):
        return every
    note = (
        f"{len(every) - len(there)} of {len(every)} units of {source.name} are in no cache: the cell is made of the "
        f"{len(there)} that are, and split among them: {', '.join(there)}."
    )
    warnings.warn(note, InputWarning, stacklevel=3)
    return there


def _from_file(file: ModeFile, source: Dataset, units: Sequence[str]) -> ModeSpec:
    if file.path is None:
        return _without_file(file)
    reader = FileMode.of(file.path, file.name, file.scores, units, source.classes, frames_run=file.frames_run)
    if file.threshold is not None and reader.scores == "none":
        raise InputError(f"mode {file.name} has no scores; a threshold needs some: leave the threshold out.")
    return ModeSpec(file.name, reader.made, file.threshold, file.classes, reader)


def _without_file(mode: ModeFile) -> ModeSpec:
    reader = built_in_mode(mode.like or mode.name, seed=mode.seed)
    if reader is None:
        raise InputError(f"A mode without a file must be one of {NAMES}; found {mode.name!r}: write {mode.name}=FILE.")
    if mode.scores not in (None, reader.scores):
        raise InputError(f"mode {mode.name} has {reader.scores} for scores; found {mode.scores!r}: leave it out.")
    default = DEFAULT_THRESHOLD if isinstance(reader, Profiled) else None
    threshold = default if mode.threshold is None else mode.threshold
    return ModeSpec(mode.name, reader.made, threshold, mode.classes, reader)


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
        threshold: Detections below this score are dropped; or by mode, the usual one for those not named.
        classes: Classes of the detections used; None uses all.
        units: Units to use; None uses all.
    """
    unknown = [name for name in modes if name not in MODES]
    if unknown:
        raise InputError(f"Modes of the synthetic world must be among {', '.join(MODES)}; found {unknown[0]!r}.")
    _refuse_repeated(modes)
    world = Synthetic(seed=seed, settings=settings or WorldSettings())
    limits = threshold if isinstance(threshold, Mapping) else dict.fromkeys(modes, threshold)
    used_classes = None if classes is None else tuple(classes)
    readers = {name: Simulated(seed, world.settings, MODES[name]) for name in modes}
    mode_specs = [
        ModeSpec(name, r.made, limits.get(name, DEFAULT_THRESHOLD), used_classes, r) for name, r in readers.items()
    ]
    return Material(world, tuple(mode_specs), world.chosen(units))


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("Modes need different names; one is given twice.")


class PlannerPaths(NamedTuple):
    """Paths of the files of a learned planner on this machine."""

    weights: Path
    masks: Path


def located(
    cell: BuiltCell,
    *,
    root: Path | None = None,
    files: Mapping[str, Path] | None = None,
    maps: Path | None = None,
    planner: PlannerPaths | None = None,
) -> CellSpec:
    """The cell's specification with its data set and modes at hand; InputError where they are not those it rests on.

    Args:
        cell: The cell.
        root: Folder of the data set; the synthetic world needs none.
        files: File of each mode's detections; modes without a file need none.
        maps: Folder of lane maps, where the cell was built with one.
        planner: Weights and masks of a learned planner that is to plan again; without them, the specification can
            read the data and cannot plan.
    """
    spec = cell.spec
    material = _synthetic(spec) if spec.dataset == "synthetic" else _from_files(cell, root, files or {}, maps)
    absent = spec.learned is not None and planner is None
    system = _planner(spec.learned, planner) if spec.learned and planner else spec.system
    (local,) = specs(
        material,
        geometries=[spec.geometry],
        systems=["braking" if absent else system],
        persistence=spec.persistence,
        changes=spec.set_constants(),
    )
    if absent:
        local = replace(local, system=spec.system, constants=spec.constants, rule=None)
    if local.id != cell.id:
        differences = local.differences(spec) or ("what it rests on",)
        raise InputError(f"{cell.folder}: the data given must be those that the cell was built from; {differences[0]}.")
    return local


def _planner(name: str, planner: PlannerPaths) -> System:
    return learned_planners([name], weights=planner.weights, masks=planner.masks)[0]


def needs_files(cell: BuiltCell) -> bool:
    """Whether the folder of the cell's data set must be passed to read it again."""
    return cell.spec.dataset != "synthetic"


def _synthetic(spec: CellSpec) -> Material:
    origin, default = spec.modes[0].made, WorldSettings()
    size = {name: origin["settings"][name] for name in (f.name for f in fields(default)) if name != "traffic"}
    limits = {mode.name: float(mode.threshold or 0.0) for mode in spec.modes}
    return synthetic(
        spec.order,
        seed=origin["seed"],
        settings=WorldSettings(**size),
        threshold=limits,
        classes=spec.modes[0].classes,
        units=spec.units,
    )


def _from_files(cell: BuiltCell, root: Path | None, files: Mapping[str, Path], maps: Path | None) -> Material:
    spec = cell.spec
    if root is None:
        raise InputError(f"{cell.folder}: its data set is read again, and nobody said where it lies: give --root.")
    named = [_mode_file(cell, mode, files) for mode in spec.modes]
    source = open_dataset(spec.dataset, root, **({} if maps is None else {"maps": maps}))
    return from_files(source, named, units=spec.units)


def _mode_file(cell: BuiltCell, mode: ModeSpec, files: Mapping[str, Path]) -> ModeFile:
    built_in = mode.made.get("source") == BUILT_IN
    if not built_in and mode.name not in files:
        raise InputError(
            f"{cell.folder}: its modes are read again, and nobody said where {mode.name} lies: give "
            f"--mode {mode.name}=FILE."
        )
    return ModeFile(
        name=mode.name,
        path=None if built_in else files[mode.name],
        threshold=mode.threshold,
        scores=mode.made.get("scores"),
        classes=mode.classes,
        seed=mode.made.get("seed", 0),
    )
