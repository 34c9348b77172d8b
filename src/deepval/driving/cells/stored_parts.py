"""The parts of cells that one unit contributes, and the file of a finished unit, from
which a stopped build continues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, json_packed
from deepval.basics.files.writing import npz_arrays, npz_bytes, write_atomically
from deepval.driving.cells.spec import CellSpec
from deepval.driving.cells.view_files import camera_entry, camera_of
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.perception.reported.ap_swap import GradedFrames
from deepval.driving.perception.reported.detections import Coverage, Detections
from deepval.driving.systems.outcomes import Outcomes
from deepval.driving.world.objects import Objects, Outputs
from deepval.driving.world.scene import Scene

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


class FinishedUnit(NamedTuple):
    """One unit of a build: the part that its cells share, and each cell's own part."""

    shared: SharedPart
    own: list[UnitPart]


@dataclass(frozen=True)
class UnitFiles:
    """The finished units of a build, a file each.

    A unit that is read back has neither pictures nor lane maps.

    Attributes:
        folder: Folder of this build alone.
        specs: Its cells.
    """

    folder: Path
    specs: Sequence[CellSpec]

    def read(self, number: int) -> FinishedUnit | None:
        """A unit by its place in the list; None unless it is finished and its file
        whole.
        """
        try:
            arrays = npz_arrays(reading.content(self._path(number)))
        except ValueError:
            return None
        unit = self.specs[0].units[number]
        own = [
            unit_of(_unprefixed(f"cell{place}", arrays), spec, unit)
            for place, spec in enumerate(self.specs)
        ]
        return FinishedUnit(shared_of(_unprefixed("shared", arrays), unit), own)

    def write(self, number: int, finished: FinishedUnit) -> None:
        """Write the file of a unit, whole or not at all."""
        arrays = _prefixed("shared", shared_arrays(finished.shared))
        for place, part in enumerate(finished.own):
            arrays |= _prefixed(f"cell{place}", unit_arrays(part))
        data = npz_bytes(arrays)
        write_atomically(self._path(number), data, make_folder=True, durable=False)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


SCENE = ("frame_ids", "time_s", "ego_speed_mps")
REPORT = ("frame", "cls", "score", "box_px", "status")
ROWS = ("input", "order")
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
        "header": _header_array(header),
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
        "header": _header_array(
            {"shown": part.shown, "frames": part.outputs.full.frames}
        ),
        **{name: getattr(outcomes, name) for name in ROWS},
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
        **{name: arrays[name] for name in ROWS},
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
    return json_content(arrays["header"].tobytes(), "a part of a unit")
