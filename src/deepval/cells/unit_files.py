"""Parts of a unit <-> plain arrays, so that they can be kept: all of them that a cell's folder is written from.

Of a scene that is what a view's files hold: no pictures, no lane map.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from deepval.cells.kept_parts import Arrays
from deepval.cells.spec import CellSpec
from deepval.cells.unit import Observed, SharedPart, UnitPart
from deepval.cells.view_files import camera_entry, camera_of
from deepval.files.canonical import json_content, json_packed
from deepval.geometry.vehicle import Vehicle
from deepval.perception.reported.ap_swap import GradedFrames
from deepval.perception.reported.coverage import Covered
from deepval.perception.reported.detections import Detections
from deepval.systems.outcomes import Outcomes
from deepval.world.objects import Objects
from deepval.world.scene import Scene

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
