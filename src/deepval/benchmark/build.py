"""A data set, two or more modes, geometries and systems -> cells: losses per input and mode, and all behind them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from deepval.benchmark.material import Material, Mode
from deepval.columns import positions
from deepval.datasets import Dataset
from deepval.errors import InputError
from deepval.geometry.motion import required_deceleration_mps2
from deepval.geometry.objects import Objects
from deepval.perception.detections import DetectionSet, coverage
from deepval.perception.monocular import monocular_objects
from deepval.perception.oracle_geometry import oracle_objects
from deepval.perception.persistence import persistent
from deepval.progress import Watch, unwatched
from deepval.systems import SYSTEMS
from deepval.systems.outcomes import Outcomes, outcomes
from deepval.systems.system import System, constants
from deepval.values import ValueTable

Geometry = Literal["monocular", "oracle"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)


@dataclass(frozen=True)
class Cell:
    """A cell in memory.

    Attributes:
        definition: Everything that it rests on: what its id is the hash of.
        table: The losses to judge on.
        outcomes: Actions and loss terms behind them.
        material: Data set and modes that it was made from.
        perceived: For each mode, the objects that the downstream system was given, unit by unit.
    """

    definition: Mapping[str, Any]
    table: ValueTable
    outcomes: Outcomes
    material: Material = field(repr=False)
    perceived: Mapping[str, Sequence[Objects]] = field(repr=False)

    @property
    def dataset(self) -> Dataset:
        """Scenes and truths."""
        return self.material.dataset

    @property
    def modes(self) -> Mapping[str, Mode]:
        """The modes, cheap first."""
        return self.material.modes

    @property
    def id(self) -> str:
        """Name of the cell with the first digits of the hash of everything that defines it."""
        d = self.definition
        name = "-".join([d["dataset"]["name"], *d["modes"], d["geometry"], d["system"]["name"]])
        return f"{name}-{digest_of(d)[:12]}"


def digest_of(definition: Mapping[str, Any]) -> str:
    """SHA-256 of a definition, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True, allow_nan=False).encode()).hexdigest()


def cells(
    dataset: Dataset,
    modes: Mapping[str, Mode],
    *,
    geometries: Sequence[Geometry] = ("monocular",),
    systems: Sequence[str | System] = ("braking",),
    persistence: bool = False,
    strict: bool = False,
    provenance: Mapping[str, str] | None = None,
    watch: Watch = unwatched,
) -> Iterable[Cell]:
    """Every combination of geometry and system, cheap mode first.

    Args:
        dataset: Scenes and truths.
        modes: Detections of each mode, cheap first, full last.
        geometries: How detections become objects: deployed monocular lift, or oracle geometry.
        systems: Names of downstream systems, or systems.
        persistence: Whether a detection must persist over three frames to pass.
        strict: Whether a unit in which a mode reports nothing is an error.
        provenance: SHA-256 of the data set's files by name.
        watch: Who is told how far long loops are.
    """
    if len(modes) < 2:
        raise InputError(f"A cell needs two modes or more, cheap first; found {len(modes)}.")
    material = Material(dataset, modes, dict(provenance or {}))
    for mode in modes.values():
        coverage(mode.detections, strict=strict)
    run = {name: [mode.detections[unit].run for unit in dataset.units] for name, mode in modes.items()}
    reference = [truth.objects for truth in dataset.truths]
    known = _known_before(dataset, next(iter(modes.values())).detections)
    made = [(name, _system(name)) if isinstance(name, str) else (type(name).__name__, name) for name in systems]
    for geometry in geometries:
        perceived = {
            name: _perceived(dataset, mode.detections, geometry, persistence=persistence, watch=watch)
            for name, mode in modes.items()
        }
        for name, system in made:
            found = outcomes(system, dataset.scenes, reference=reference, perceived=perceived, run=run)
            definition = {
                "dataset": {"name": dataset.name, "files": dict(material.provenance), "units": list(dataset.units)},
                "modes": {key: dict(mode.definition) for key, mode in modes.items()},
                "geometry": geometry,
                "persistence": persistence,
                "system": {"name": name, "constants": plain(constants(system))},
            }
            yield Cell(definition, _table(dataset, found, known), found, material, perceived)


def _system(name: str) -> System:
    if name not in SYSTEMS:
        raise InputError(f"A downstream system must be one of {', '.join(SYSTEMS)}; found {name!r}.")
    return SYSTEMS[name]


def _perceived(
    dataset: Dataset, detections: DetectionSet, geometry: Geometry, *, persistence: bool, watch: Watch
) -> list[Objects]:
    if geometry not in GEOMETRIES:
        raise InputError(f"A geometry must be one of {', '.join(GEOMETRIES)}; found {geometry!r}.")
    objects = []
    pairs = list(zip(dataset.scenes, dataset.truths, strict=True))
    for scene, truth in watch(pairs, f"{geometry} objects of {detections.mode}"):
        found = detections[scene.unit]
        keep = persistent(found) if persistence else None
        if geometry == "monocular":
            objects.append(monocular_objects(found, scene, keep=keep))
        else:
            objects.append(oracle_objects(found, scene, truth=truth, keep=keep))
    return objects


def _table(dataset: Dataset, found: Outcomes, known: Mapping[str, np.ndarray]) -> ValueTable:
    inputs = np.concatenate([scene.inputs for scene in dataset.scenes])
    rows = positions(found.input, inputs)
    return ValueTable.from_columns(
        unit=found.unit,
        input=found.input,
        losses=found.losses,
        order=found.order,
        attributes={name: column[rows] for name, column in known.items()},
    )


def _known_before(dataset: Dataset, cheap: DetectionSet) -> dict[str, np.ndarray]:
    """Columns that are known before escalation, to slice by: ego speed, cheap boxes, what cheap boxes require."""
    speed, boxes, required = [], [], []
    for scene in dataset.scenes:
        found = cheap[scene.unit]
        speed.append(scene.ego_speed_mps)
        boxes.append(np.bincount(found.frame, minlength=len(scene)))
        required.append(required_deceleration_mps2(monocular_objects(found, scene), scene.ego_speed_mps))
    names = ("ego_speed_mps", "cheap_boxes", "cheap_required_mps2")
    return {name: np.concatenate(parts) for name, parts in zip(names, (speed, boxes, required), strict=True)}


def file_digest(path: Path | str) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digests(folder: Path | str, patterns: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the files under a folder that match, by their name in it; hidden ones, which kills leave, do not."""
    folder = Path(folder)
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    files = sorted(path for path in found if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def plain(value: Any) -> Any:
    """Constants as JSON holds them."""
    if hasattr(value, "__dataclass_fields__"):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
