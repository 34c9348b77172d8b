"""One unit of a cell -> its most harmed and most helped frame, with objects, plans and
losses, ready to be drawn.

Everything is in the ego frame (x forward, y left, metres) or in pixels of the camera;
undefined is null. Where a scene has a lane map, a frame also has a `road`, the poses of
the plans and the corners of the perceived objects.
"""

import base64
import glob
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError, library, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_packed, plain
from deepval.driving.cells.spec import CellSpec
from deepval.driving.datasets.synthetic import Synthetic, WorldSettings
from deepval.driving.frames import corridor_m, decisive, path_m, poses, words
from deepval.driving.geometry.camera import Camera, image_points_px
from deepval.driving.geometry.vehicle import ground_poses
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.planners.observation import to_ego_m
from deepval.driving.systems.braking import Braking
from deepval.driving.systems.outcomes import Branches, Outcomes
from deepval.driving.systems.system import System
from deepval.driving.world.objects import Objects, object_deceleration_mps2
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.tables.values import ValueTable

REACH_M = 60.0
"""Radius around the vehicle in which the road is drawn."""
DECIMALS = 2
"""Of every length, speed, pixel and score in the file; losses and terms are exact."""
TRUE_TO_M = 0.1
"""Largest error of a drawn line."""


def road(scene: Scene, frame: int, truth: Truth) -> dict[str, Any] | None:
    """Lanes, crosswalks, the vehicle and its logged path; None where the scene has no
    map or pose.
    """
    if scene.lane_map is None or scene.world_from_ego is None or scene.vehicle is None:
        return None
    pose = ground_poses(scene.world_from_ego[frame])
    red = scene.red_lights[frame] if scene.red_lights else frozenset()
    lanes = []
    for lane in scene.lane_map.lanes.values():
        middle = _near_part(to_ego_m(lane.centreline_m, pose))
        outline = _near_part(_closed_outline(to_ego_m(lane.polygon_m, pose)))
        if middle or outline:
            width_m = 0.0 if len(lane.polygon_m) else 2 * lane.half_width_m
            shape = {"centre_m": middle, "outline_m": outline, "width_m": width_m}
            lanes.append(shape | {"connector": lane.connector, "red": lane.id in red})
    return {
        "lanes": lanes,
        "drivable_m": _outlines(scene.lane_map.drivable_m, pose),
        "crosswalks_m": _outlines(scene.lane_map.crosswalks_m, pose),
        "ego_m": _rounded(scene.vehicle.corners_m(np.zeros(3))),
        "driven_m": _driven_path(truth, frame),
    }


def planned(
    system: System, plan: Float[np.ndarray, "*plan"], scene: Scene
) -> dict[str, Any]:
    """The poses of a plan with their times, and the footprint at its end; null where
    the system plans no poses.
    """
    way = poses(system, plan)
    if way is None or scene.vehicle is None:
        return {"poses": None, "footprint_m": None}
    return {
        "poses": _rounded(way),
        "footprint_m": _rounded(scene.vehicle.corners_m(way[-1, 1:])),
    }


def _driven_path(truth: Truth, frame: int) -> list[list[float]]:
    if truth.future is None:
        return []
    return [
        [0.0, 0.0],
        *_rounded(truth.future.pose[frame, truth.future.valid[frame], :2]),
    ]


def _outlines(
    outlines_m: Iterable[Float[np.ndarray, "_ 2"]], pose: Float[np.ndarray, "3"]
) -> list[Any]:
    near = [
        _near_part(_closed_outline(to_ego_m(outline, pose))) for outline in outlines_m
    ]
    return [outline for outline in near if outline]


def _closed_outline(
    outline_m: Float[np.ndarray, "point 2"],
) -> Float[np.ndarray, "more 2"]:
    return np.concatenate([outline_m, outline_m[:1]])


def _near_part(line_m: Float[np.ndarray, "point 2"]) -> list[list[float]]:
    """The part of a line between its first and its last segment near the vehicle,
    thinned.
    """
    if len(line_m) < 2:
        return []
    start, segment = line_m[:-1], np.diff(line_m, axis=0)
    along = -(start * segment).sum(axis=1) / np.maximum((segment**2).sum(axis=1), 1e-12)
    distance_m = np.linalg.norm(
        start + np.clip(along, 0.0, 1.0)[:, None] * segment, axis=1
    )
    near_segments = np.flatnonzero(distance_m <= REACH_M)
    return (
        _rounded(thinned(line_m[near_segments[0] : near_segments[-1] + 2]))
        if len(near_segments)
        else []
    )


def thinned(line_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "fewer 2"]:
    """The line without the points whose removal moves it by at most `TRUE_TO_M`
    (Douglas and Peucker).
    """
    selected, spans = {0, len(line_m) - 1}, [(0, len(line_m) - 1)]
    while spans:
        first, last = spans.pop()
        between = line_m[first + 1 : last]
        if not len(between):
            continue
        # Distance to the chord as a segment, not as a line: lanes may turn back beyond
        # its ends.
        chord = line_m[last] - line_m[first]
        along = np.clip(
            (between - line_m[first]) @ chord / max(float(chord @ chord), 1e-12),
            0.0,
            1.0,
        )
        off_m = np.linalg.norm(between - line_m[first] - along[:, None] * chord, axis=1)
        # Split at the farthest point, and check both halves again.
        if off_m.max() > TRUE_TO_M:
            middle = first + 1 + int(off_m.argmax())
            selected.add(middle)
            spans += [(first, middle), (middle, last)]
    return line_m[sorted(selected)]


def _rounded(numbers: np.ndarray) -> Any:
    """An array as lists, with None for numbers that are not finite: JSON has no NaN."""
    return np.where(
        np.isfinite(numbers), np.round(numbers, DECIMALS) + 0.0, np.array(None)
    ).tolist()


WIDTH_PX, QUALITY = 720, 70
FOLDERS = ("", "image_02", "training/image_02")
"""Folders inside a data set's folder that may contain the pictures, which lie in
folders of their units.
"""
CAMERAS = (
    "samples/CAM_FRONT",
    "sensor_blobs/*/CAM_F0",
    "nuplan-v1.1/sensor_blobs/*/CAM_F0",
)
"""Patterns of folders inside nuScenes and nuPlan that contain pictures, whose names are
unique in the data set.
"""


def pictures(frames: Mapping[str, Any], *, root: Path | None = None) -> dict[str, str]:
    """A data address per data set and input, for the frames with a picture."""
    drawn = frames.get("pictures")
    images = (
        _drawn_pictures(frames["frames"], drawn)
        if drawn
        else _picture_files(frames["frames"], root)
    )
    return {
        f"{frames['dataset']}/{name}": data_address(image)
        for name, image in images.items()
    }


def _drawn_pictures(
    frames: list[Any], world: Mapping[str, int]
) -> dict[str, np.ndarray]:
    units = sorted({frame["unit"] for frame in frames})
    seed, scenes_there, frames_there = (
        int(world[name]) for name in ("seed", "scenes", "frames")
    )
    if seed < 0:
        raise InputError(
            "pictures of frames must be of a world with a seed "
            f"of 0 or more; found {quote(seed)}."
        )
    source = Synthetic(
        seed=seed, settings=WorldSettings(scenes=scenes_there, frames=frames_there)
    )
    scenes = {unit: source.read_unit(unit)[0] for unit in source.select(units)}
    images = {}
    for frame in frames:
        scene = scenes[frame["unit"]]
        names = scene.frame_ids.tolist()
        if frame["frame"] not in names:
            raise InputError(
                f"pictures of frames must be of the world's own; {scene.unit} has "
                f"{names[0]} to "
                f"{names[-1]}, and none is called {quote(frame['frame'])}."
            )
        picture = scene.image_source(names.index(frame["frame"]))
        if isinstance(picture, np.ndarray):
            images[frame["input"]] = picture
    return images


def _picture_files(frames: list[Any], root: Path | None) -> dict[str, np.ndarray]:
    named = {frame["input"]: frame["image"] for frame in frames if frame["image"]}
    if named and root is None:
        raise InputError(
            "--images of a data set on disk needs --image-root, the folder that its "
            "pictures lie in."
        )
    images = {}
    for name, file_name in named.items():
        path = next(
            (
                path
                for path in _candidates(Path(root or ""), file_name)
                if reading.is_file(path)
            ),
            None,
        )
        if path is None:
            raise InputError(
                f"--image-root must hold the picture {file_name!r}; {root} does not: "
                "give the folder above image_02, samples or sensor_blobs."
            )
        images[name] = reading.picture(path)
    return images


def _candidates(root: Path, name: str) -> Iterator[Path]:
    """Where a picture unit/name may lie in a data set's folder; never outside."""
    for folder in (reading.resolve(root / folder) for folder in FOLDERS):
        if reading.resolve(folder / name).is_relative_to(folder):
            yield folder / name
    for pattern in CAMERAS:
        yield from reading.find(
            root, f"{pattern}/{glob.escape(PurePosixPath(name).name)}"
        )


def data_address(picture: Shaped[np.ndarray, "height width 3"]) -> str:
    """A picture as a JPEG data address, at most `WIDTH_PX` wide."""
    Image = library("PIL.Image")
    image = Image.fromarray(picture)
    if image.width > WIDTH_PX:
        image = image.resize(
            (WIDTH_PX, round(image.height * WIDTH_PX / image.width)),
            Image.Resampling.BOX,
        )
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")


SCHEMA = "deepval/frames/1"
SIGNS = {"harmed": -1.0, "helped": 1.0}
MOST = 12
"""Largest number of frames of each sign."""


Shown = Mapping[str, dict[str, Any]]
"""Frames of a unit by sign."""


def frames_file(spec: CellSpec, drawn_frames: Sequence[Shown]) -> bytes:
    """The frames of a cell as JSON; the same cell gives the same bytes."""
    return (json_packed(frames(spec, drawn_frames)) + "\n").encode()


def frames(
    spec: CellSpec, drawn_frames: Sequence[Shown], *, most: int = MOST
) -> dict[str, Any]:
    """The most harmed and most helped frames of a cell, one per unit and sign, so that
    no unit dominates the page.
    """
    system = spec.rule
    assert system is not None
    corridor = corridor_m(system)
    chosen = []
    for sign, direction in SIGNS.items():
        candidates = [unit[sign] for unit in drawn_frames if sign in unit]
        chosen += sorted(
            candidates, key=lambda frame, way=direction: -way * frame["value"]
        )[:most]
    return {
        "schema": SCHEMA,
        "cell": spec.id,
        "dataset": spec.dataset,
        "geometry": spec.geometry,
        "system": spec.system,
        "modes": list(spec.order),
        "weights": {name: float(weight) for name, weight in system.weights.items()},
        "corridor_m": None if corridor is None else dict(corridor),
        "brakes_from_mps2": system.brake_from_mps2
        if isinstance(system, Braking)
        else None,
        "pictures": _pictures(spec.definition),
        "frames": chosen,
    }


def extremes(
    spec: CellSpec,
    scene: Scene,
    truth: Truth,
    *,
    used: Mapping[str, Detections],
    objects: Mapping[str, Objects],
    branches: Branches,
    outcomes: Outcomes,
) -> dict[str, dict[str, Any]]:
    """The frames of a unit with the largest harm and the largest benefit, by sign; a
    sign without one has no entry.
    """

    def frame(row: int) -> dict[str, Any]:
        system, t = outcomes.system, int(outcomes.order[row])
        now, previous = scene.part(slice(t, t + 1)), branches.before[t : t + 1]
        reference = truth.objects.at(t)
        reference_plan = system.plan(reference, now, previous=previous)[0]
        here = truth.frame == t
        modes = {}
        for m, mode in enumerate(outcomes.modes):
            perceived, plan = objects[mode].at(t), branches.plans[mode][t]
            path = path_m(system, plan, float(scene.ego_speed_mps[t]))
            modes[mode] = {
                "loss": float(outcomes.loss[row, m]),
                "terms": {
                    term: float(part[row, m]) for term, part in outcomes.terms.items()
                },
                "action": plan.tolist(),
                "does": words(system, plan),
                "path_m": None if path is None else _rounded(path),
                "objects_m": _rounded(
                    np.column_stack(
                        [perceived.near_m, perceived.far_m, perceived.lateral_m]
                    )
                ),
                "decisive": decisive(system, perceived, now, previous),
            }
            modes[mode] |= _motion(system, now, perceived)
            modes[mode] |= _boxes(spec, scene, truth, used[mode], objects[mode], t)
        around = road(scene, t, truth)
        if around is not None:
            for mode, entry in modes.items():
                entry |= planned(system, branches.plans[mode][t], now)
                entry["corners_m"] = _rounded(objects[mode].at(t).corners_m)
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
                "action": reference_plan.tolist(),
                "does": words(system, reference_plan),
                "boxes": _rounded(truth.box_px[here]),
                "classes": [str(name) for name in truth.cls[here]],
                "corners_m": _rounded(truth.objects.corners_m[here]),
                "decisive": decisive(system, reference, now, previous),
            }
            | _motion(system, now, reference)
            | ({} if around is None else planned(system, reference_plan, now)),
        } | ({} if around is None else {"road": around})

    sizes = {sign: direction * outcomes.values for sign, direction in SIGNS.items()}
    rows = {
        sign: int(np.argmax(size))
        for sign, size in sizes.items()
        if len(size) and size.max() > 0
    }
    return {sign: {"sign": sign} | frame(row) for sign, row in rows.items()}


def _motion(system: System, scene: Scene, objects: Objects) -> dict[str, Any]:
    """Closing speed of each object, and the deceleration it requires, 0 off the
    corridor of the braking controller.
    """
    settings = system.required if isinstance(system, Braking) else None
    needs = object_deceleration_mps2(objects, scene.ego_speed_mps, settings=settings)
    return {"closing_mps": _rounded(objects.closing_mps), "needs_mps2": _rounded(needs)}


def _boxes(
    spec: CellSpec,
    scene: Scene,
    truth: Truth,
    used: Detections,
    objects: Objects,
    t: int,
) -> dict[str, Any]:
    """The reported box, class and score of each object; box and score are null where
    none was reported.
    """
    behind = spec.behind(used, scene, truth)[objects.frame == t]
    reported = behind >= 0
    box_px, score = np.full((len(behind), 4), np.nan), np.full(len(behind), np.nan)
    box_px[reported], score[reported] = (
        used.box_px[behind[reported]],
        used.score[behind[reported]],
    )
    return {
        "boxes": _rounded(box_px),
        "classes": [str(kind) for kind in objects.at(t).cls],
        "scores": _rounded(score),
    }


def _camera(camera: Camera) -> dict[str, Any]:
    far = image_points_px(camera, np.array([1e6, 0.0, camera.road_z_m]))
    return {
        "width_px": camera.width_px,
        "height_px": camera.height_px,
        "horizon_px": None if np.isnan(far[1]) else float(far[1]),
        "centre_px": [camera.cx_px, camera.cy_px],
    }


def _image(scene: Scene, t: int) -> str | None:
    """Path of the picture as unit/name, relative to the data set's folder of
    pictures.
    """
    path = scene.image_paths[t] if scene.image_paths else None
    return None if path is None else f"{scene.unit}/{path.name}"


def _pictures(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """Seed and size from which the pictures of the synthetic world can be drawn again;
    None for other worlds.
    """
    cheap = next(iter(definition["modes"].values()))
    if (
        definition["dataset"]["name"] != "synthetic"
        or cheap.get("source") != "synthetic"
    ):
        return None
    settings = cheap["settings"]
    size = {"scenes": settings["scenes"], "frames": settings["frames"]}
    return (
        {"seed": cheap["seed"], **size}
        if settings == plain(asdict(WorldSettings(**size)))
        else None
    )


def notable_inputs(
    table: ValueTable, scores: Mapping[str, np.ndarray], *, most: int = 20
) -> dict[str, Any]:
    """The inputs with the largest values as a table, with losses, scores and
    attributes; they have no frames.
    """
    rows = np.argsort(-np.abs(table.decision_values), kind="stable")[:most]
    columns = {
        "input": table.input,
        "unit": table.unit_ids[table.unit],
        "value": table.decision_values,
    }
    columns |= {
        f"loss, {mode}": table.losses[:, m] for m, mode in enumerate(table.modes)
    }
    columns |= {f"score, {name}": score for name, score in scores.items()} | dict(
        table.attributes
    )
    listed = [
        [_cell(item) for item in column[rows].tolist()] for column in columns.values()
    ]
    return {
        "cell": "none: a file of values",
        "frames": [],
        "header": [*columns],
        "rows": [*zip(*listed, strict=True)],
    }


def _cell(item: Any) -> float | int | str | bool | None:
    """A cell of the table as JSON has it.

    Missing values are null. Infinite numbers and whatever JSON has no form for, such as
    times, decimals, bytes and lists, are text.
    """
    if item is None or isinstance(item, str | bool | int):
        return item
    if isinstance(item, float):
        if math.isnan(item):
            return None
        return str(item) if math.isinf(item) else item
    # A missing time differs from itself, as NaN does.
    is_missing = np.ndim(item) == 0 and item != item
    return None if is_missing else str(item)
