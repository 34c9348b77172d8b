"""One unit of a cell -> its most harmed and most helped frame, with all that led to their decisions: what is drawn.

Everything is in the ego frame (x forward, y left, metres) or in pixels of the camera; undefined is null. Where a scene
has a lane map, a frame has a `road` too, and what was planned and perceived is told by poses and corners.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.cells.road_view import outlined, planned, road
from deepval.cells.sighting import Sighting
from deepval.cells.spec import CellSpec
from deepval.datasets.synthetic import WorldSettings
from deepval.files.canonical import json_packed, plain
from deepval.geometry.camera import Camera, projected_px
from deepval.perception.placing import PLACINGS
from deepval.perception.reported.persistence import persistent
from deepval.systems.outcomes import Branches, Outcomes
from deepval.systems.system import System
from deepval.world.objects import Objects
from deepval.world.scene import Scene

SCHEMA = "deepval/frames/1"
SIGNS = {"harmed": -1.0, "helped": 1.0}
MOST = 12
"""Frames of each sign, at most."""


Shown = Mapping[str, dict[str, Any]]
"""Frames of a unit by sign."""


def frames_file(spec: CellSpec, shown: Sequence[Shown]) -> bytes:
    """The frames of a cell as JSON, the same bytes for the same cell."""
    return (json_packed(frames(spec, shown)) + "\n").encode()


def frames(spec: CellSpec, shown: Sequence[Shown], *, most: int = MOST) -> dict[str, Any]:
    """The most harmed and most helped frames of a cell, one per unit for each sign: no scene fills the page alone."""
    system = spec.rule
    assert system is not None
    chosen = []
    for sign, direction in SIGNS.items():
        drawn = [unit[sign] for unit in shown if sign in unit]
        chosen += sorted(drawn, key=lambda frame, way=direction: -way * frame["value"])[:most]
    return {
        "schema": SCHEMA,
        "cell": spec.id,
        "dataset": spec.dataset,
        "geometry": spec.geometry,
        "system": spec.system,
        "modes": list(spec.order),
        "weights": {name: float(weight) for name, weight in system.weights.items()},
        "corridor_m": None if system.corridor_m is None else dict(system.corridor_m),
        "pictures": _pictures(spec.definition),
        "frames": chosen,
    }


def extremes(
    spec: CellSpec, seen: Sighting, *, objects: Mapping[str, Objects], branches: Branches, outcomes: Outcomes
) -> dict[str, dict[str, Any]]:
    """The frame of the largest harm and of the largest benefit of a unit by sign, drawn; none where there is none."""
    shown = {}
    for sign, direction in SIGNS.items():
        size = direction * outcomes.values
        if len(size) and size.max() > 0:
            row = int(np.argmax(size))
            shown[sign] = {"sign": sign} | _frame(
                spec, seen, row, objects=objects, branches=branches, outcomes=outcomes
            )
    return shown


def _frame(
    spec: CellSpec,
    seen: Sighting,
    row: int,
    *,
    objects: Mapping[str, Objects],
    branches: Branches,
    outcomes: Outcomes,
) -> dict[str, Any]:
    system, scene, truth = outcomes.system, seen.scene, seen.truth
    t = int(outcomes.order[row])
    now, previous = scene.part(slice(t, t + 1)), branches.before[t : t + 1]
    reference = truth.objects.at(t)
    wanted = system.plan(reference, now, previous=previous)[0]
    here = truth.frame == t
    modes = {}
    for m, mode in enumerate(outcomes.modes):
        losses = {
            "loss": float(outcomes.loss[row, m]),
            "terms": {term: float(part[row, m]) for term, part in outcomes.terms.items()},
        }
        modes[mode] = losses | _decided(system, now, objects[mode].at(t), branches.plans[mode][t], previous=previous)
        modes[mode] |= _boxes(spec, seen, mode, objects[mode], t)
    modes = {mode: {key: entry[key] for key in _MODE_KEYS} for mode, entry in modes.items()}
    around = road(scene, t, truth)
    more = {} if around is None else {"road": around}
    if more:
        for mode, entry in modes.items():
            entry |= planned(system, branches.plans[mode][t], now) | outlined(objects[mode].at(t))
    return {
        "input": str(outcomes.input[row]),
        "unit": scene.unit,
        "frame": str(scene.frame_ids[t]),
        "value": float(outcomes.values[row]),
        "speed_mps": float(scene.ego_speed_mps[t]),
        "camera": _camera(scene.camera),
        "image": _image(scene, t),
        "modes": modes,
        "reference": {
            "action": wanted.tolist(),
            "does": system.words(wanted),
            "boxes": _numbers(truth.box_px[here]),
            "classes": [str(name) for name in truth.cls[here]],
            "corners_m": _numbers(truth.objects.corners_m[here]),
            "decisive": system.decisive(reference, now, previous=previous),
        }
        | (planned(system, wanted, now) if more else {}),
    } | more


_MODE_KEYS = ("loss", "terms", "action", "does", "path_m", "boxes", "classes", "scores", "objects_m", "decisive")


def _decided(
    system: System,
    scene: Scene,
    objects: Objects,
    plan: Float[np.ndarray, "*plan"],
    *,
    previous: Float[np.ndarray, "1 *plan"],
) -> dict[str, Any]:
    path_m = system.path_m(plan, float(scene.ego_speed_mps[0]))
    return {
        "action": plan.tolist(),
        "does": system.words(plan),
        "path_m": None if path_m is None else path_m.tolist(),
        "objects_m": _numbers(np.column_stack([objects.near_m, objects.far_m, objects.lateral_m])),
        "decisive": system.decisive(objects, scene, previous=previous),
    }


def _boxes(spec: CellSpec, seen: Sighting, mode: str, objects: Objects, t: int) -> dict[str, Any]:
    """What was reported of each object: its box and score, null where nothing was."""
    used = seen.used[mode]
    keep = persistent(used) if spec.persistence else None
    behind = PLACINGS[spec.geometry].behind(used, seen.scene, seen.truth, keep=keep)[objects.frame == t]
    reported = behind >= 0
    box_px, score = np.full((len(behind), 4), np.nan), np.full(len(behind), np.nan)
    box_px[reported], score[reported] = used.box_px[behind[reported]], used.score[behind[reported]]
    return {
        "boxes": _numbers(box_px),
        "classes": [str(kind) for kind in objects.at(t).cls],
        "scores": _numbers(score),
    }


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
    return {"seed": cheap["seed"], **size} if settings == plain(asdict(WorldSettings(**size))) else None


def _numbers(array: np.ndarray) -> Any:
    def known(value: Any) -> Any:
        if isinstance(value, list):
            return [known(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return known(array.tolist())
