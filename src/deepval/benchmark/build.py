"""A data set, two or more modes, geometries and systems -> one folder per cell that an evaluation starts from.

A cell's folder holds values.parquet (losses per input and mode, with columns to slice by), terms.parquet (actions and
loss terms per mode, from which other loss weights recombine), frames.json (frames to look at), split.json, costs.toml
where costs are known, and manifest.json: the definition, the SHA-256 of every file that went in and came out, and the
id that rests on them.
Files are written whole, the manifest last, so a folder without one is not a cell. The same inputs give the same bytes.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from deepval.benchmark.splits import split
from deepval.columns import positions
from deepval.datasets import Dataset
from deepval.errors import InputError
from deepval.files import write_atomically
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
from deepval.terms import weight_columns
from deepval.values import ValueTable
from deepval.version import __version__

Geometry = Literal["monocular", "oracle"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)


@dataclass(frozen=True)
class Mode:
    """One perception mode as a cell uses it.

    Attributes:
        detections: What the downstream system uses of its report, already restricted to classes and thresholds.
        definition: How it was made (file, threshold, classes, what its scores are): part of the cell's id.
        report: All that it reports of those classes, also below the threshold; `detections` if nothing more is known.
    """

    detections: DetectionSet
    definition: Mapping[str, Any] = field(default_factory=dict)
    report: DetectionSet | None = None

    @property
    def reported(self) -> DetectionSet:
        """What an allocator may look at where this mode is the cheap one."""
        return self.detections if self.report is None else self.report


@dataclass(frozen=True)
class Cell:
    """A cell in memory.

    Attributes:
        definition: Everything that it rests on: what its id is the hash of.
        table: The losses to judge on.
        outcomes: Actions and loss terms behind them.
        dataset: Scenes and truths.
        modes: The modes, cheap first.
        perceived: For each mode, the objects that the downstream system was given, unit by unit.
    """

    definition: Mapping[str, Any]
    table: ValueTable
    outcomes: Outcomes
    dataset: Dataset = field(repr=False)
    modes: Mapping[str, Mode] = field(repr=False)
    perceived: Mapping[str, Sequence[Objects]] = field(repr=False)

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
                "dataset": {"name": dataset.name, "files": dict(provenance or {}), "units": list(dataset.units)},
                "modes": {key: dict(mode.definition) for key, mode in modes.items()},
                "geometry": geometry,
                "persistence": persistence,
                "system": {"name": name, "constants": _plain(constants(system))},
            }
            yield Cell(definition, _table(dataset, found, known), found, dataset, modes, perceived)


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


def write(cell: Cell, folder: Path | str, *, costs: Path | None = None) -> Path:
    """Write a cell's folder and return its manifest; a cell that is already there, whole, is left alone."""
    from deepval.benchmark.frames import frames_file

    folder = Path(folder)
    definition = {"deepval": __version__, "id": cell.id, "definition": _plain(cell.definition)}
    manifest = folder / "manifest.json"
    files = {
        "values.parquet": _values_file(cell.table),
        "terms.parquet": _terms_file(cell.outcomes),
        "frames.json": frames_file(cell),
        "split.json": split(cell.definition["dataset"]["name"], cell.definition["dataset"]["units"]).to_json().encode(),
    }
    if costs is not None:
        files["costs.toml"] = costs.read_bytes()
    content = definition | {"files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}}
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    if manifest.is_file() and manifest.read_text(encoding="utf-8") == text and _whole(folder, content["files"]):
        return manifest
    manifest.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomically(folder / name, data)
    write_atomically(manifest, text)
    return manifest


def _whole(folder: Path, files: Mapping[str, str]) -> bool:
    return all((folder / n).is_file() and file_digest(folder / n) == digest for n, digest in files.items())


def _values_file(table: ValueTable) -> bytes:
    columns: dict[str, Any] = {"unit": table.unit_ids[table.unit], "input": table.input}
    if table.order is not None:
        columns["order"] = table.order.astype(np.int64)
    columns |= {f"loss_{mode}": table.losses[:, m] for m, mode in enumerate(table.modes)}
    return _parquet(columns | dict(table.attributes))


def _terms_file(found: Outcomes) -> bytes:
    columns: dict[str, Any] = {"input": found.input}
    for m, mode in enumerate(found.modes):
        for part in range(found.actions.shape[2]):
            columns[f"action{part}_{mode}"] = found.actions[:, m, part]
        columns |= {f"term_{name}_{mode}": term[:, m] for name, term in found.terms.items()}
    free = [name for name in found.terms if {name, f"{name}_weight"} & found.system.loss_fields]
    return _parquet(columns | weight_columns(found.system.weights, free, len(found.input)))


def _parquet(columns: Mapping[str, np.ndarray]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {k: pa.array(v.tolist(), pa.string()) if v.dtype.kind == "U" else pa.array(v) for k, v in columns.items()}
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return out.getvalue()


def file_digest(path: Path | str) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digests(folder: Path | str, patterns: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the files under a folder that match, by their name in it."""
    folder = Path(folder)
    files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def _plain(value: Any) -> Any:
    """Constants as JSON holds them."""
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
