"""The parts of cells that one unit contributes: what they contain, their keys in a
store, their arrays in its files.

The key of a part lists everything that it depends on: the files of its unit by their
hashes, the report of each mode there, and settings. The store adds the code that
computes the part. The slot of a part names its data set, modes, placing and system, so
that the store can find outdated parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.cells.spec import CellSpec
from deepval.cells.view_files import camera_entry, camera_of
from deepval.files.canonical import (
    digest_of,
    joint_sha256,
    json_content,
    json_packed,
    plain,
)
from deepval.geometry.vehicle import Vehicle
from deepval.perception.reported.ap_swap import GradedFrames
from deepval.perception.reported.detections import Coverage, Detections
from deepval.systems.outcomes import Outcomes
from deepval.world.objects import Objects, Outputs
from deepval.world.scene import Scene

Arrays = Mapping[str, np.ndarray]


class Observed(NamedTuple):
    """The planner's objects from the cheap mode's report, and the distance to the next
    connector at each frame.
    """

    objects: Objects
    connector_m: Float[np.ndarray, "time"]


@dataclass(frozen=True)
class UnitPart:
    """One unit of a cell.

    Attributes:
        outcomes: Loss terms and plans of every mode.
        known: Columns that are available before escalation, per input, to slice by.
        shown: The most harmed and the most helped frame by sign, drawn; empty where the
            unit is no test unit.
        observed: The planner's objects, where the placing observes.
        outputs: The objects of the most expensive mode and of the reference.
        evidence: Columns that the system adds to the evidence for diagnostics, per
            input.
    """

    outcomes: Outcomes
    known: Mapping[str, np.ndarray]
    shown: Mapping[str, dict[str, Any]]
    observed: Observed | None
    outputs: Outputs
    evidence: Mapping[str, Float[np.ndarray, "input"]]


@dataclass(frozen=True)
class SharedPart:
    """The part of one unit that all cells of a data set and its modes share.

    Attributes:
        scene: The data that the vehicle has.
        cheap: The cheap mode's report.
        inputs: Ids of the frames on which the cheapest and the fullest mode were run.
        evidence: Per such frame, perception losses of both modes and the deceleration
            that the reference requires.
        on_ground: Per such frame, perception losses of both modes by their 3D boxes,
            where both report some.
        graded: Detections of both modes from a low probability on, right or wrong; None
            without probabilities.
        covered: Coverage of the unit by each mode.
    """

    scene: Scene
    cheap: Detections
    inputs: Shaped[np.ndarray, "input"]
    evidence: Mapping[str, Float[np.ndarray, "input"]]
    on_ground: Mapping[str, Float[np.ndarray, "input"]]
    graded: tuple[GradedFrames, GradedFrames] | None
    covered: Mapping[str, Coverage]


class PartStore(ABC):
    """Stores arrays under everything that they depend on."""

    @abstractmethod
    def read(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """The stored arrays, complete; None where nothing is stored."""

    @abstractmethod
    def write(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Store arrays."""


@dataclass(frozen=True)
class StoredPart:
    """The entry of a part in a store; empty if there is no store or the part's key
    cannot be listed.
    """

    store: PartStore | None
    slot: str
    rests_on: Mapping[str, Any] | None

    def read(self) -> Arrays | None:
        """The part's arrays; None where they must be computed."""
        return (
            None
            if self.store is None or self.rests_on is None
            else self.store.read(self.slot, self.rests_on)
        )

    def write(self, arrays: Arrays) -> None:
        """Store the part's arrays."""
        if self.store is not None and self.rests_on is not None:
            self.store.write(self.slot, self.rests_on, arrays)


def slots(definition: Mapping[str, Any]) -> tuple[str, str]:
    """The slot of the parts that cells of a data set and its modes share, and the slot
    of one cell's own parts.
    """
    shared = {
        "dataset": definition["dataset"]["name"],
        "modes": sorted(definition["modes"]),
    }
    own = {
        **shared,
        "geometry": definition["geometry"],
        "system": definition["system"]["name"],
    }
    return digest_of(shared)[:12], digest_of(own)[:12]


def unit_rests_on(spec: CellSpec, unit: str) -> dict[str, Any] | None:
    """Everything about a unit that cells of this data set and modes depend on; None if
    unknown until it is read.
    """
    beside = None if spec.source is None else spec.source.beside(unit)
    if spec.source is None or beside is None:
        return None
    return {
        "unit": unit,
        "dataset": spec.dataset,
        "files": {name: spec.files.get(name) for name in spec.source.files(unit)},
        "beside": plain(beside),
        "modes": [
            {
                "name": mode.name,
                "report": None
                if mode.reader is None
                else plain(mode.reader.rests_on(unit)),
                "threshold": mode.threshold,
                "classes": mode.definition["classes"],
            }
            for mode in spec.modes
        ],
    }


def own_settings(spec: CellSpec) -> dict[str, Any]:
    """The settings that a cell's own parts depend on, besides the unit's data and
    whether its frames are drawn.
    """
    left_out = {"left_out": plain(spec.left_out)} if spec.left_out else {}
    return {
        "part": "own",
        **{
            name: spec.definition[name]
            for name in ("geometry", "persistence", "system")
        },
    } | left_out


def derived_arrays(
    sources: Sequence[tuple[np.ndarray, ...]],
    derive: Callable[..., Arrays],
    *,
    what: str,
    slot: str,
    store: PartStore | None,
) -> Arrays:
    """Arrays that depend on nothing but tuples of arrays, read from the store or
    computed now.
    """
    key = (
        None
        if store is None
        else {"part": what, "of": [_digest(arrays) for arrays in sources]}
    )
    stored = StoredPart(store, slot, key)
    derived = stored.read()
    if derived is None:
        derived = derive(*sources)
        stored.write(derived)
    return derived


def _digest(arrays: tuple[np.ndarray, ...]) -> str:
    """SHA-256 of arrays with their types and shapes."""
    about = [[array.dtype.str, list(array.shape)] for array in arrays]
    return digest_of(
        [about, joint_sha256(np.ascontiguousarray(array).tobytes() for array in arrays)]
    )


SCENE = ("frame_ids", "time_s", "ego_speed_mps")
REPORT = ("frame", "cls", "score", "box_px", "status")
OUTCOMES = ("input", "order", "loss")
OBJECTS = tuple(field.name for field in fields(Objects) if field.name != "frames")
ENDS = ("weak", "strong")


def shared_arrays(part: SharedPart) -> dict[str, np.ndarray]:
    """The arrays of the part of a unit that all cells share."""
    vehicle = part.scene.vehicle
    header = {
        "camera": camera_entry(part.scene.camera),
        "vehicle": None if vehicle is None else vars(vehicle),
        "modes": list(part.covered),
        "graded": part.graded is not None,
    }
    graded = dict(zip(ENDS, part.graded or (), strict=False))
    return {
        "told": _header_array(header),
        "input": part.inputs,
        "covered": np.array([*part.covered.values()], dtype=float),
        **_prefixed("scene", {name: getattr(part.scene, name) for name in SCENE}),
        **_prefixed("cheap", {name: getattr(part.cheap, name) for name in REPORT}),
        **_prefixed("evidence", part.evidence),
        **_prefixed("on_ground", part.on_ground),
        **{
            name: column
            for end, frames in graded.items()
            for name, column in _prefixed(end, frames._asdict()).items()
        },
    }


def shared_of(arrays: Arrays, unit: str) -> SharedPart:
    """The part of a unit that all cells share, from its stored arrays."""
    header = _header(arrays)
    vehicle = None if header["vehicle"] is None else Vehicle(**header["vehicle"])
    scene = Scene(
        unit=unit,
        cameras={"front": camera_of(header["camera"])},
        vehicle=vehicle,
        **_unprefixed("scene", arrays),
    )
    covered = {
        mode: Coverage(*map(int, row[:4]), *map(float, row[4:]))
        for mode, row in zip(header["modes"], arrays["covered"], strict=True)
    }
    weak, strong = (
        GradedFrames(**_unprefixed(end, arrays)) if header["graded"] else None
        for end in ENDS
    )
    return SharedPart(
        scene=scene,
        cheap=Detections(unit=unit, **_unprefixed("cheap", arrays)),
        inputs=arrays["input"],
        evidence=_unprefixed("evidence", arrays),
        on_ground=_unprefixed("on_ground", arrays),
        graded=None if weak is None or strong is None else (weak, strong),
        covered=covered,
    )


def unit_arrays(part: UnitPart) -> dict[str, np.ndarray]:
    """The arrays of a cell's own part of a unit."""
    outcomes, observed = part.outcomes, part.observed
    return {
        "told": _header_array(
            {"shown": part.shown, "frames": part.outputs.full.frames}
        ),
        **{name: getattr(outcomes, name) for name in OUTCOMES},
        **_prefixed("terms", outcomes.terms),
        **_prefixed("columns", outcomes.columns),
        **_prefixed("known", part.known),
        **_prefixed("evidence", part.evidence),
        **_object_arrays("full", part.outputs.full),
        **_object_arrays("reference", part.outputs.reference),
        **({} if observed is None else _object_arrays("objects", observed.objects)),
        **({} if observed is None else {"connector_m": observed.connector_m}),
    }


def _object_arrays(name: str, objects: Objects) -> dict[str, np.ndarray]:
    return _prefixed(name, {column: getattr(objects, column) for column in OBJECTS})


def unit_of(arrays: Arrays, spec: CellSpec, unit: str) -> UnitPart:
    """A cell's own part of a unit, from its stored arrays."""
    header = _header(arrays)
    outcomes = Outcomes(
        system=spec.acting,
        modes=spec.order,
        unit=np.full(len(arrays["input"]), unit),
        **{name: arrays[name] for name in OUTCOMES},
        terms=_unprefixed("terms", arrays),
        columns=_unprefixed("columns", arrays),
    )
    observes = "connector_m" in arrays
    full, reference, *seen = (
        Objects(frames=header["frames"], **_unprefixed(name, arrays))
        for name in (*Outputs._fields, *(["objects"] if observes else []))
    )
    observed = Observed(seen[0], arrays["connector_m"]) if observes else None
    known, evidence = (_unprefixed(name, arrays) for name in ("known", "evidence"))
    return UnitPart(
        outcomes, known, header["shown"], observed, Outputs(full, reference), evidence
    )


def _prefixed(name: str, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}/{key}": column for key, column in columns.items()}


def _unprefixed(name: str, arrays: Arrays) -> dict[str, Any]:
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): column
        for key, column in arrays.items()
        if key.startswith(prefix)
    }


def _header_array(header: Any) -> np.ndarray:
    return np.frombuffer(json_packed(header).encode(), dtype=np.uint8)


def _header(arrays: Arrays) -> Any:
    return json_content(arrays["told"].tobytes(), "a part of a unit")
