"""A cell -> the frames that matter most, with all that led to their two decisions: what an explorer draws.

Of the test units, the most harmed and the most helped input of each, the largest first: no scene fills the page alone.
Everything is in the ego frame (x forward, y left, metres) or in pixels of the camera; undefined is null.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.benchmark.build import Cell
from deepval.benchmark.splits import split
from deepval.datasets.synthetic import WorldSettings
from deepval.geometry.camera import Camera, projected_px
from deepval.geometry.objects import Objects
from deepval.perception.detections import Detections
from deepval.perception.persistence import persistent
from deepval.scenes import Ego, Scene
from deepval.systems import Braking, LateralCorridor, RecedingHorizon, System
from deepval.systems.braking import most_demanding
from deepval.systems.receding_horizon import travelled_m

SCHEMA = "deepval/frames/1"
KEYS = frozenset({"cell", "dataset", "modes", "weights", "corridor_m", "pictures", "frames"})
FRAME_KEYS = frozenset(
    {"sign", "input", "unit", "frame", "value", "speed_mps", "camera", "image", "modes", "reference"}
)
MOST = 12
"""Frames of each sign, at most."""
AHEAD_S = np.linspace(0.0, 3.0, 13)
"""Times at which the path of an action is drawn."""


def frames_file(cell: Cell) -> bytes:
    """The frames of a cell as JSON, the same bytes for the same cell."""
    return (json.dumps(frames(cell), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n").encode()


def frames(cell: Cell, *, most: int = MOST, units: Sequence[str] | None = None) -> dict[str, Any]:
    """The most harmed and most helped frames of a cell, at most one per unit for each sign.

    Args:
        cell: The cell.
        most: Frames of each sign, at most.
        units: Units to look in; the test units where None.
    """
    definition, found = cell.definition, cell.outcomes
    wanted = split(definition["dataset"]["name"], definition["dataset"]["units"]).test if units is None else units
    among = np.isin(found.unit, list(wanted))
    chosen = [("harmed", row) for row in _extremes(-found.values, found.unit, among, most=most)]
    chosen += [("helped", row) for row in _extremes(found.values, found.unit, among, most=most)]
    return {
        "schema": SCHEMA,
        "cell": cell.id,
        "dataset": definition["dataset"]["name"],
        "geometry": definition["geometry"],
        "system": definition["system"]["name"],
        "modes": list(found.modes),
        "weights": {name: float(weight) for name, weight in found.system.weights.items()},
        "corridor_m": _corridor_m(found.system),
        "pictures": _pictures(definition),
        "frames": [{"sign": sign} | _frame(cell, row) for sign, row in chosen],
    }


def _extremes(size: Float[np.ndarray, "input"], unit: np.ndarray, among: np.ndarray, *, most: int) -> list[int]:
    """The row of the largest positive size in each unit, the largest first; the earlier row where equal."""
    rows = np.flatnonzero(among & (size > 0))
    rows = rows[np.argsort(-size[rows], kind="stable")]
    _, first = np.unique(unit[rows], return_index=True)
    return rows[np.sort(first)][:most].tolist()


def _frame(cell: Cell, row: int) -> dict[str, Any]:
    found, system = cell.outcomes, cell.outcomes.system
    unit, t = str(found.unit[row]), int(found.order[row])
    place = cell.dataset.units.index(unit)
    scene, truth = cell.dataset.scenes[place], cell.dataset.truths[place]
    ego, previous = _ego(cell, row, scene)
    reference = _at(truth.objects, t)
    wanted = system.act(reference, ego, previous=previous)[0]
    seen = truth.frame == t
    return {
        "input": str(found.input[row]),
        "unit": unit,
        "frame": str(scene.frame_ids[t]),
        "value": float(found.values[row]),
        "speed_mps": float(scene.ego_speed_mps[t]),
        "camera": _camera(scene.camera),
        "image": _image(scene, t),
        "modes": {name: _mode(cell, row, m, ego=ego, previous=previous) for m, name in enumerate(found.modes)},
        "reference": {
            "action": wanted.tolist(),
            "does": action_words(system, wanted),
            "boxes": _numbers(truth.box_px[seen]),
            "classes": [str(name) for name in truth.cls[seen]],
            "corners_m": _numbers(truth.corners_m[seen]),
            "decisive": decisive(system, reference, ego, previous=previous),
        },
    }


def _mode(cell: Cell, row: int, m: int, *, ego: Ego, previous: Float[np.ndarray, "1 act"]) -> dict[str, Any]:
    found, name = cell.outcomes, cell.outcomes.modes[m]
    unit, t = str(found.unit[row]), int(found.order[row])
    place = cell.dataset.units.index(unit)
    boxes: Detections = cell.modes[name].detections[unit]
    if cell.definition["persistence"]:
        boxes = boxes.where(persistent(boxes))
    here = boxes.frame == t
    objects = _at(cell.perceived[name][place], t)
    action = found.actions[row, m]
    return {
        "loss": float(found.loss[row, m]),
        "terms": {term: float(part[row, m]) for term, part in found.terms.items()},
        "action": action.tolist(),
        "does": action_words(found.system, action),
        "path_m": _path_m(found.system, action, float(ego.speed_mps[0])),
        "boxes": _numbers(boxes.box_px[here]),
        "classes": [str(kind) for kind in boxes.cls[here]],
        "scores": _numbers(boxes.score[here]),
        "objects_m": _numbers(np.column_stack([objects.near_m, objects.far_m, objects.lateral_m])),
        "decisive": decisive(found.system, objects, ego, previous=previous),
    }


def decisive(system: System, objects: Objects, ego: Ego, *, previous: Float[np.ndarray, "1 act"]) -> int | None:
    """The object of a single frame that fixes the action; None where the action is that of an empty road.

    Of a braking controller the most demanding one; else the nearest one without which the action is another, and where
    several would do, the nearest one that alone leads to the action.
    """

    def action(keep: np.ndarray) -> tuple[float, ...]:
        return tuple(system.act(objects.where(keep), ego, previous=previous)[0].tolist())

    every = np.ones(len(objects), dtype=bool)
    taken = action(every)
    if taken == action(~every):
        return None
    if isinstance(system, Braking):
        return int(most_demanding(objects, ego, settings=system.required)[0])
    near = np.argsort(objects.near_m, kind="stable")
    needed = [i for i in near if action(np.arange(len(objects)) != i) != taken]
    enough = [i for i in near if action(np.arange(len(objects)) == i) == taken]
    return next((int(i) for i in (*needed, *enough)), None)


def action_words(system: System, action: Float[np.ndarray, "act"]) -> str:
    """An action as a person would say it."""
    first = float(action[0])
    if isinstance(system, Braking):
        return "keep speed" if not first else f"brake{' hard' if first == system.hard_mps2 else ''}, {first:g} m/s²"
    if isinstance(system, RecedingHorizon):
        return ", ".join([f"brake, {-first:.2g} m/s²" if first else "keep speed", _sideways(float(action[1]))])
    if isinstance(system, LateralCorridor):
        return _sideways(first)
    return ", ".join(f"{part:g}" for part in action)


def _sideways(shift_m: float) -> str:
    return f"{abs(shift_m):g} m to the {'left' if shift_m > 0 else 'right'}" if shift_m else "straight on"


def _path_m(system: System, action: Float[np.ndarray, "act"], speed_mps: float) -> list[list[float]] | None:
    """Where the vehicle goes in three seconds, (x, y); None for systems that do not move it."""
    moves = {
        Braking: lambda: (-float(action[0]), 0.0),
        RecedingHorizon: lambda: (float(action[0]), float(action[1])),
        LateralCorridor: lambda: (0.0, float(action[0])),
    }
    if type(system) not in moves:
        return None
    acceleration, shift = moves[type(system)]()
    u = AHEAD_S / AHEAD_S[-1]
    x_m = travelled_m(np.full(len(u), speed_mps), acceleration, AHEAD_S)
    return np.column_stack([x_m, shift * (3 * u**2 - 2 * u**3)]).tolist()


def _corridor_m(system: System) -> dict[str, float] | None:
    """Half the width and the length of the corridor in which objects count."""
    if isinstance(system, Braking):
        return {"half_width": system.required.corridor_m, "far": system.required.farthest_m}
    if isinstance(system, RecedingHorizon | LateralCorridor):
        return {"half_width": system.half_width_m, "far": 80.0}
    return None


def _ego(cell: Cell, row: int, scene: Scene) -> tuple[Ego, Float[np.ndarray, "1 act"]]:
    """The vehicle in one frame, and the all-cheap action of the frame before (NaN: none)."""
    found, t = cell.outcomes, int(cell.outcomes.order[row])
    follows = row > 0 and found.unit[row - 1] == found.unit[row] and found.order[row - 1] == t - 1
    previous = found.actions[row - 1, :1] if follows else np.full((1, found.actions.shape[2]), np.nan)
    return Ego(scene.ego_speed_mps[t : t + 1], np.array([not follows])), previous


def _at(objects: Objects, t: int) -> Objects:
    """The objects of one frame, as if it were the only one."""
    here = objects.where(objects.frame == t)
    return Objects(1, np.zeros(len(here), dtype=int), here.near_m, here.far_m, here.lateral_m, here.closing_mps)


def _camera(camera: Camera) -> dict[str, Any]:
    far = projected_px(camera, np.array([1e6, 0.0, camera.road_z_m]))
    return {
        "width_px": camera.width_px,
        "height_px": camera.height_px,
        "horizon_px": None if np.isnan(far[1]) else float(far[1]),
        "centre_px": [camera.cx_px, camera.cy_px],
    }


def _image(scene: Scene, t: int) -> str | None:
    """The picture's file as unit/name, under the data set's folder of pictures."""
    path = scene.image_paths[t] if scene.image_paths else None
    return None if path is None else f"{scene.unit}/{path.name}"


def _pictures(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the synthetic world's pictures can be drawn from again."""
    cheap = next(iter(definition["modes"].values()))
    if definition["dataset"]["name"] != "synthetic" or cheap.get("source") != "synthetic":
        return None
    settings = cheap["settings"]
    size = {"scenes": settings["scenes"], "frames": settings["frames"]}
    return {"seed": cheap["seed"], **size} if settings == asdict(WorldSettings(**size)) else None


def _numbers(array: np.ndarray) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return plain(array.tolist())
