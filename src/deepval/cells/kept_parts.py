"""A specification and a unit -> all that what a build makes of it rests on, by which that is kept and found again.

A part is named by all that it rests on: files of its unit by their hashes, what each mode reports there, settings.
Whoever keeps it adds the code that makes it. The slot of a part says what it is of, so that old ones can be found.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from deepval.cells.spec import CellSpec
from deepval.cells.unit import Observed, SharedPart, UnitPart
from deepval.cells.view_files import camera_entry, camera_of
from deepval.files.canonical import digest_of, joint_sha256, json_content, json_packed, plain
from deepval.geometry.vehicle import Vehicle
from deepval.perception.reported.ap_swap import GradedFrames
from deepval.perception.reported.detections import Covered, Detections
from deepval.systems.outcomes import Outcomes
from deepval.world.objects import Objects
from deepval.world.scene import Scene

Arrays = Mapping[str, np.ndarray]


class PartStore(ABC):
    """Keeps arrays by what they rest on."""

    @abstractmethod
    def found(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """What is kept, whole; None where nothing is."""

    @abstractmethod
    def keep(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Keep arrays."""


@dataclass(frozen=True)
class KeptPart:
    """Where a part is kept; nowhere without a store, or where nobody can say what it rests on."""

    store: PartStore | None
    slot: str
    rests_on: Mapping[str, Any] | None

    def found(self) -> Arrays | None:
        """The part's arrays; None where they must be made."""
        return None if self.store is None or self.rests_on is None else self.store.found(self.slot, self.rests_on)

    def keep(self, arrays: Arrays) -> None:
        """Keep the part's arrays."""
        if self.store is not None and self.rests_on is not None:
            self.store.keep(self.slot, self.rests_on, arrays)


def slots(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Names for what cells of a data set and its modes share, and for what is one cell's own."""
    shared = {"dataset": definition["dataset"]["name"], "modes": sorted(definition["modes"])}
    own = {**shared, "geometry": definition["geometry"], "system": definition["system"]["name"]}
    return digest_of(shared)[:12], digest_of(own)[:12]


def unit_rests_on(spec: CellSpec, unit: str) -> dict[str, Any] | None:
    """What is read of a unit for cells of a data set and modes; None where that cannot be told without reading it."""
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
                "report": None if mode.reader is None else plain(mode.reader.rests_on(unit)),
                "threshold": mode.threshold,
                "classes": mode.definition["classes"],
            }
            for mode in spec.modes
        ],
    }


def own_settings(spec: CellSpec) -> dict[str, Any]:
    """What a cell's own parts rest on beside what is read of a unit, and whether that is one to show."""
    return {"part": "own", **{name: spec.definition[name] for name in ("geometry", "persistence", "system")}}


def made_of(
    given: Sequence[tuple[np.ndarray, ...]],
    make: Callable[..., Arrays],
    *,
    what: str,
    slot: str,
    store: PartStore | None,
) -> Arrays:
    """What is made of nothing but tuples of arrays, as it was kept or made now."""
    at = KeptPart(store, slot, None if store is None else {"part": what, "of": [_digest(each) for each in given]})
    found = at.found()
    if found is None:
        found = make(*given)
        at.keep(found)
    return found


def _digest(arrays: tuple[np.ndarray, ...]) -> str:
    """SHA-256 of arrays with their kinds and shapes."""
    about = [[array.dtype.str, list(array.shape)] for array in arrays]
    return digest_of([about, joint_sha256(np.ascontiguousarray(array).tobytes() for array in arrays)])


SCENE = ("frame_ids", "time_s", "ego_speed_mps")
REPORT = ("frame", "cls", "score", "box_px", "status")
OUTCOMES = ("input", "order", "loss")
OBJECTS = tuple(field.name for field in fields(Objects) if field.name != "frames")
ENDS = ("weak", "strong")


def shared_arrays(part: SharedPart) -> dict[str, np.ndarray]:
    """What all cells share of a unit."""
    vehicle = part.scene.vehicle
    told = {
        "camera": camera_entry(part.scene.camera),
        "vehicle": None if vehicle is None else vars(vehicle),
        "modes": list(part.covered),
        "graded": part.graded is not None,
    }
    graded = dict(zip(ENDS, part.graded or (), strict=False))
    return {
        "told": _text(told),
        "input": part.inputs,
        "covered": np.array([*part.covered.values()], dtype=float),
        **_below("scene", {name: getattr(part.scene, name) for name in SCENE}),
        **_below("cheap", {name: getattr(part.cheap, name) for name in REPORT}),
        **_below("evidence", part.evidence),
        **_below("on_ground", part.on_ground),
        **{name: column for end, frames in graded.items() for name, column in _below(end, frames._asdict()).items()},
    }


def shared_of(arrays: Arrays, unit: str) -> SharedPart:
    """What all cells share of a unit, as it was kept."""
    told = _told(arrays)
    vehicle = None if told["vehicle"] is None else Vehicle(**told["vehicle"])
    scene = Scene(unit=unit, cameras={"front": camera_of(told["camera"])}, vehicle=vehicle, **_in("scene", arrays))
    covered = {
        mode: Covered(*map(int, row[:4]), *map(float, row[4:]))
        for mode, row in zip(told["modes"], arrays["covered"], strict=True)
    }
    weak, strong = (GradedFrames(**_in(end, arrays)) if told["graded"] else None for end in ENDS)
    return SharedPart(
        scene=scene,
        cheap=Detections(unit=unit, **_in("cheap", arrays)),
        inputs=arrays["input"],
        evidence=_in("evidence", arrays),
        on_ground=_in("on_ground", arrays),
        graded=None if weak is None or strong is None else (weak, strong),
        covered=covered,
    )


def unit_arrays(part: UnitPart) -> dict[str, np.ndarray]:
    """One cell's own part of a unit."""
    found, seen = part.outcomes, part.observed
    return {
        "told": _text({"shown": part.shown, "observed": None if seen is None else seen.objects.frames}),
        **{name: getattr(found, name) for name in OUTCOMES},
        **_below("terms", found.terms),
        **_below("columns", found.columns),
        **_below("known", part.known),
        **_below("evidence", part.evidence),
        **({} if seen is None else _below("objects", {name: getattr(seen.objects, name) for name in OBJECTS})),
        **({} if seen is None else {"connector_m": seen.connector_m}),
    }


def unit_of(arrays: Arrays, spec: CellSpec, unit: str) -> UnitPart:
    """A cell's own part of a unit, as it was kept."""
    told = _told(arrays)
    outcomes = Outcomes(
        system=spec.acting,
        modes=spec.order,
        unit=np.full(len(arrays["input"]), unit),
        **{name: arrays[name] for name in OUTCOMES},
        terms=_in("terms", arrays),
        columns=_in("columns", arrays),
    )
    frames = told["observed"]
    seen = None if frames is None else Observed(Objects(frames=frames, **_in("objects", arrays)), arrays["connector_m"])
    return UnitPart(outcomes, _in("known", arrays), told["shown"], seen, _in("evidence", arrays))


def _below(name: str, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}/{key}": column for key, column in columns.items()}


def _in(name: str, arrays: Arrays) -> dict[str, Any]:
    begins = f"{name}/"
    return {key.removeprefix(begins): column for key, column in arrays.items() if key.startswith(begins)}


def _text(told: Any) -> np.ndarray:
    return np.frombuffer(json_packed(told).encode(), dtype=np.uint8)


def _told(arrays: Arrays) -> Any:
    return json_content(arrays["told"].tobytes(), "a part of a unit")
