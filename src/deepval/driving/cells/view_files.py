"""Files of a cell: views, the data that an allocator may use, outputs of the full mode,
and frames.json to draw.

In the folder view/, frames.parquet has a row per frame of every unit, boxes.parquet one
per box that the cheap mode reports, view.json the cameras and how the report is read,
pictures/<unit>.npy small pictures where they were requested. Where the placing
observes, objects.parquet has a row per object that the planner gets from that report,
frames.parquet also the distance to the next connector, and view.json the sizes of the
vehicles. In the folder outputs/, full.parquet and reference.parquet have the objects of
the most expensive mode and of the reference in the same form.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from deepval.basics.errors import InputError, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    Manifest,
    cell_content,
    json_content,
    json_text,
)
from deepval.basics.files.reading import check_file_form
from deepval.basics.files.writing import AMISS, HEADERS
from deepval.driving.cells.explorer import SCHEMA
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.perception.reported.detections import (
    Calibration,
    Detections,
    ScoreKind,
)
from deepval.driving.views import CheapMode, View, picture, sample_pixels
from deepval.driving.world.objects import Objects, Outputs
from deepval.driving.world.scene import Scene
from deepval.judge.tables.columns import cell_columns, parquet_bytes

CORNERS = tuple((f"x{corner}_m", f"y{corner}_m") for corner in range(1, 5))
VELOCITY = ("vx_mps", "vy_mps")
OBJECT_COLUMNS = {
    "texts": ("cls",),
    "numbers": ("closing_mps", *VELOCITY, *(name for pair in CORNERS for name in pair)),
    "whole": ("row", "track"),
}
"""Columns of objects.parquet by type."""


def object_columns(parts: Sequence[Objects]) -> dict[str, np.ndarray]:
    """Columns of the objects of several units, unit after unit; `row` counts the frames
    of all units.
    """
    begin = np.cumsum([0, *(part.frames for part in parts)])
    corners_m = np.concatenate([part.corners_m for part in parts])
    velocity_mps = np.concatenate([part.velocity_mps for part in parts])
    row = np.concatenate(
        [start + part.frame for start, part in zip(begin, parts, strict=False)]
    )
    columns = {
        "row": row.astype(np.int64),
        "cls": np.concatenate([part.cls.astype(str) for part in parts]),
        "track": np.concatenate([part.track for part in parts]).astype(np.int64),
        "closing_mps": np.concatenate([part.closing_mps for part in parts]),
    }
    columns |= {name: velocity_mps[:, axis] for axis, name in enumerate(VELOCITY)}
    for corner, names in enumerate(CORNERS):
        columns |= {name: corners_m[:, corner, axis] for axis, name in enumerate(names)}
    return columns


def objects_of(columns: Mapping[str, np.ndarray], begin: int, frames: int) -> Objects:
    """The objects of the unit whose frames begin at row `begin`."""
    low, high = np.searchsorted(columns["row"], (begin, begin + frames))
    here = slice(int(low), int(high))
    corners = [
        np.stack([columns[name][here] for name in names], axis=-1) for names in CORNERS
    ]
    return Objects(
        frames=frames,
        frame=columns["row"][here] - begin,
        corners_m=np.stack(corners, axis=1),
        closing_mps=columns["closing_mps"][here],
        cls=columns["cls"][here],
        track=columns["track"][here],
        velocity_mps=np.stack([columns[name][here] for name in VELOCITY], axis=-1),
    )


Row4 = tuple[float, float, float, float]


class ViewCamera(TypedDict):
    """A camera in view.json."""

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    ego_from_cam: tuple[Row4, Row4, Row4, Row4]
    road_z_m: float
    width_px: int | None
    height_px: int | None


class ViewKnots(TypedDict):
    """A calibration in view.json."""

    raw: list[float]
    probability: list[float]


class ViewMode(TypedDict):
    """Settings for reading the cheap mode's report, in view.json."""

    scores: ScoreKind
    threshold: float | None
    calibration: ViewKnots | None
    observes: NotRequired[bool]


class ViewReadings(TypedDict):
    """Content of view.json."""

    mode: ViewMode
    cameras: dict[str, ViewCamera]
    vehicles: NotRequired[dict[str, Vehicle | None]]


PICTURES, OBJECTS = "view/pictures", "view/objects.parquet"
OUTPUTS = tuple(f"outputs/{name}.parquet" for name in Outputs._fields)
BOX_PX = ("x1_px", "y1_px", "x2_px", "y2_px")


def view_files(views: Sequence[View]) -> dict[str, bytes]:
    """Content of each file except pictures, by its name in the cell's folder."""
    files = {
        "view/frames.parquet": parquet_bytes(_frames(views)),
        "view/boxes.parquet": parquet_bytes(_boxes(views)),
        "view/view.json": json_text(
            _readings(views), sort_keys=True, ensure_ascii=True
        ).encode(),
    }
    observed = [view.objects for view in views if view.objects is not None]
    return files | (
        {OBJECTS: parquet_bytes(object_columns(observed))} if observed else {}
    )


def output_files(outputs: Sequence[Outputs]) -> dict[str, bytes]:
    """The objects of the most expensive mode and of the reference as files of a cell's
    folder.
    """
    parts = zip(OUTPUTS, zip(*outputs, strict=True), strict=True)
    return {name: parquet_bytes(object_columns(objects)) for name, objects in parts}


def read_outputs(cell: Manifest, lengths: Sequence[int]) -> tuple[Outputs, ...]:
    """The outputs of a cell's folder, unit by unit, for units with these numbers of
    frames.
    """
    if not set(OUTPUTS) <= cell.files.keys():
        raise InputError(
            f"{cell.folder}: the objects of the full mode and of the reference must "
            "be in outputs/, and are not: an older deepval built "
            "the cell; build it again."
        )
    full, reference = (
        cell_columns(cell, name).of_types(**OBJECT_COLUMNS) for name in OUTPUTS
    )
    units = zip(np.cumsum([0, *lengths]).tolist(), lengths, strict=False)
    return tuple(
        Outputs(*(objects_of(columns, begin, frames) for columns in (full, reference)))
        for begin, frames in units
    )


def picture_files(views: Sequence[View]) -> dict[str, bytes]:
    """Content of one file of pictures per unit, sampled for the image features."""
    return {f"{PICTURES}/{view.scene.unit}.npy": _pictures(view) for view in views}


def read_views(cell: Manifest) -> tuple[View, ...]:
    """The views of a cell's folder, unit by unit."""
    name = "view/view.json"
    content = json_content(cell.content(name), cell.folder / name)
    readings = check_file_form(
        ViewReadings, content, cell.folder / name, "what a view was read with"
    )
    mode, vehicles = _mode(readings["mode"]), readings.get("vehicles", {})
    ways = ("connector_m",) if mode.observes else ()
    frames = cell_columns(cell, "view/frames.parquet").of_types(
        texts=("unit", "frame"),
        numbers=("time_s", "ego_speed_mps", *ways),
        whole=("status",),
    )
    boxes = cell_columns(cell, "view/boxes.parquet").of_types(
        texts=("cls",), numbers=("score", *BOX_PX), whole=("row",)
    )
    objects = (
        cell_columns(cell, OBJECTS).of_types(**OBJECT_COLUMNS) if mode.observes else {}
    )
    ids, first, length = np.unique(
        frames["unit"], return_index=True, return_counts=True
    )
    views = []
    parts = zip(ids.tolist(), first.tolist(), length.tolist(), strict=True)
    for unit, begin, frames_there in sorted(parts, key=lambda part: part[1]):
        rows = slice(begin, begin + frames_there)
        stored = f"{PICTURES}/{unit}.npy"
        scene = Scene(
            unit=unit,
            frame_ids=frames["frame"][rows],
            time_s=frames["time_s"][rows],
            ego_speed_mps=frames["ego_speed_mps"][rows],
            cameras={"front": _camera(cell, readings["cameras"], unit)},
            images=_memory_map(cell, stored) if stored in cell.files else None,
            vehicle=vehicles.get(unit),
        )
        detections = _detections(unit, boxes, begin, frames["status"][rows])
        observed = objects_of(objects, begin, frames_there) if mode.observes else None
        views.append(
            View(
                scene,
                detections,
                mode,
                observed,
                frames["connector_m"][rows] if mode.observes else None,
            )
        )
    return tuple(views)


def _memory_map(cell: Manifest, name: str) -> np.ndarray:
    """An array that stays on disk, mapped from the opened file that was hashed."""
    with cell.open(name, in_memory=False) as file:
        try:
            version = np.lib.format.read_magic(file)
            shape, fortran, dtype = HEADERS[version](file)
            if dtype != np.uint8 or len(shape) != 4 or shape[-1] != 3:
                raise ValueError(
                    "pictures are of 8 bit, as frames, lines, columns "
                    f"and RGB; found {dtype} {shape}"
                )
            order: Literal["F", "C"] = "F" if fortran else "C"
            return np.memmap(
                file,
                dtype=dtype,
                mode="r",
                offset=file.tell(),
                shape=shape,
                order=order,
            )
        except AMISS as error:
            raise InputError(
                f"{cell.folder / name}: must hold pictures; {reason(error)}."
            ) from error


def _frames(views: Sequence[View]) -> dict[str, np.ndarray]:
    ways_m = [view.connector_m for view in views if view.connector_m is not None]
    return {
        "unit": np.concatenate([np.full(len(view), view.scene.unit) for view in views]),
        "frame": np.concatenate([view.scene.frame_ids.astype(str) for view in views]),
        "time_s": np.concatenate([view.scene.time_s for view in views]),
        "ego_speed_mps": np.concatenate([view.scene.ego_speed_mps for view in views]),
        "status": np.concatenate([view.detections.status for view in views]).astype(
            np.int64
        ),
    } | ({"connector_m": np.concatenate(ways_m)} if ways_m else {})


def _boxes(views: Sequence[View]) -> dict[str, np.ndarray]:
    """Boxes with the row of their frame; cuboids of lifted boxes are not part of a
    view.
    """
    begin = np.cumsum([0, *(len(view) for view in views)])
    box_px = np.concatenate([view.detections.box_px for view in views])
    row = np.concatenate(
        [
            start + view.detections.frame
            for start, view in zip(begin, views, strict=False)
        ]
    )
    return {
        "row": row.astype(np.int64),
        "cls": np.concatenate([view.detections.cls.astype(str) for view in views]),
        "score": np.concatenate([view.detections.score for view in views]),
    } | {name: box_px[:, column] for column, name in enumerate(BOX_PX)}


def _detections(
    unit: str, boxes: Mapping[str, np.ndarray], begin: int, status: np.ndarray
) -> Detections:
    low, high = np.searchsorted(boxes["row"], (begin, begin + len(status)))
    part = slice(int(low), int(high))
    return Detections(
        unit=unit,
        frame=boxes["row"][part] - begin,
        cls=boxes["cls"][part],
        score=boxes["score"][part],
        box_px=np.stack([boxes[name][part] for name in BOX_PX], axis=1),
        status=status,
    )


def _readings(views: Sequence[View]) -> dict[str, Any]:
    mode = views[0].mode
    knots = mode.calibration
    vehicles = {
        view.scene.unit: view.scene.vehicle and vars(view.scene.vehicle)
        for view in views
    }
    return {
        "mode": {
            "scores": mode.scores,
            "threshold": mode.threshold,
            "calibration": None
            if knots is None
            else {"raw": knots.raw.tolist(), "probability": knots.probability.tolist()},
        }
        | ({"observes": True} if mode.observes else {}),
        "cameras": {view.scene.unit: camera_entry(view.scene.camera) for view in views},
    } | ({"vehicles": vehicles} if mode.observes else {})


def _mode(entry: Mapping[str, Any]) -> CheapMode:
    knots = entry["calibration"]
    calibration = (
        None
        if knots is None
        else Calibration(np.array(knots["raw"]), np.array(knots["probability"]))
    )
    return CheapMode(
        entry["scores"], entry["threshold"], calibration, entry.get("observes", False)
    )


def camera_entry(camera: Camera) -> dict[str, Any]:
    """A camera as an entry of view.json."""
    entry = dict(vars(camera)) | {"ego_from_cam": camera.ego_from_cam.tolist()}
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in entry.items()
    }


def _camera(
    cell: Manifest, entries: Mapping[str, Mapping[str, Any]], unit: str
) -> Camera:
    if unit not in entries:
        raise InputError(
            f"{cell.folder / 'view/view.json'}: every unit must "
            f"have its camera; {unit} has none."
        )
    return camera_of(entries[unit])


def camera_of(entry: Mapping[str, Any]) -> Camera:
    """The camera of an entry of view.json."""
    values = {name: entry[name] for name in ViewCamera.__required_keys__}
    return Camera(**{**values, "ego_from_cam": np.array(values["ego_from_cam"], float)})


def _pictures(view: View) -> bytes:
    if not view.scene.has_image.all():
        missing = view.scene.inputs[int(np.flatnonzero(~view.scene.has_image)[0])]
        raise InputError(
            f"Pictures are stored for whole units; {missing} has none: build without "
            "them, or add the file."
        )
    out = io.BytesIO()
    np.save(
        out,
        np.stack(
            [sample_pixels(picture(view.scene, frame)) for frame in range(len(view))]
        ),
        allow_pickle=False,
    )
    return out.getvalue()


WHAT = "frames written by deepval build"
MOST = 200
"""Largest number of frames read from a file: half of them the most harmed, half the
most helped.
"""
FRAME_KEYS = frozenset({"value", "modes", "reference", "camera"})
"""Keys by which a frame is recognised while its file is read."""
COLUMNS = (
    "objects_m",
    "boxes",
    "classes",
    "scores",
    "corners_m",
    "closing_mps",
    "needs_mps2",
)
"""Lists with an entry per object."""
Known = float | None
"""A number, or null where it is undefined."""
Point = tuple[float, float]
Corners = tuple[tuple[Known, Known], ...]


class Decided(TypedDict):
    """A decision: the plan in words and as poses, and the objects behind it."""

    action: Any
    does: str
    decisive: int | None
    boxes: list[tuple[Known, Known, Known, Known]]
    classes: list[str]
    closing_mps: NotRequired[list[Known]]
    needs_mps2: NotRequired[list[Known]]
    poses: NotRequired[list[list[float]] | None]
    footprint_m: NotRequired[list[Point] | None]


class ModeForm(Decided):
    """The objects, the decision and the losses of a mode."""

    loss: float
    terms: dict[str, float]
    path_m: list[Point] | None
    scores: list[Known]
    objects_m: list[tuple[Known, Known, Known, Known]]
    corners_m: NotRequired[list[Corners]]


class ReferenceForm(Decided):
    """The reference objects and the decision for them."""

    corners_m: list[Corners]


class LaneForm(TypedDict):
    """A lane."""

    centre_m: list[Point]
    outline_m: list[Point]
    width_m: float
    connector: bool
    red: bool


class RoadForm(TypedDict):
    """The road around the vehicle."""

    lanes: list[LaneForm]
    drivable_m: list[list[Point]]
    crosswalks_m: list[list[Point]]
    ego_m: list[Point]
    driven_m: list[Point]


class CameraForm(TypedDict):
    """Size, horizon and centre of a picture."""

    width_px: int | None
    height_px: int | None
    horizon_px: Known
    centre_px: Point


class ValueForm(TypedDict):
    """The value of a frame, without its other fields."""

    value: float


class FrameForm(TypedDict):
    """One frame."""

    sign: Literal["harmed", "helped"]
    input: str
    unit: str
    frame: str
    value: float
    speed_mps: float
    camera: CameraForm
    image: str | None
    modes: dict[str, ModeForm]
    reference: ReferenceForm
    road: NotRequired[RoadForm]


class CorridorForm(TypedDict):
    """The corridor in which objects count."""

    half_width: float
    far: float


class PicturesForm(TypedDict):
    """Seed and size from which the pictures of the synthetic world can be drawn
    again.
    """

    seed: int
    scenes: int
    frames: int


class FramesForm(TypedDict):
    """Content of frames.json."""

    cell: str
    dataset: str
    modes: list[str]
    weights: dict[str, float]
    corridor_m: CorridorForm | None
    brakes_from_mps2: NotRequired[float | None]
    pictures: PicturesForm | None
    frames: list[FrameForm]


def read_frames(path: Path) -> dict[str, Any]:
    """The frames in a file; if there are more than `MOST`, only the most harmed and
    most helped.

    In that case, `frames_in_file` is the number of all frames. A file in a cell's
    folder must be unchanged since the build.
    """
    built = cell_content(path)
    data = reading.content(path, WHAT) if built is None else built
    content = json_content(data, path, WHAT, finite=True, object_hook=_Thinned().add)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(
            f"{path}: must be frames of schema {SCHEMA!r}; it is "
            "not: build the cell again."
        )
    frames = content.get("frames")
    content.pop("frames_in_file", None)
    if isinstance(frames, list) and len(frames) > MOST:
        content |= {"frames": _extremes(frames, path), "frames_in_file": len(frames)}
    check_file_form(FramesForm, content, path, WHAT)
    for number, frame in enumerate(content["frames"]):
        amiss = _amiss(frame, content["modes"])
        if amiss is not None:
            raise InputError(
                f"{path}: must be {WHAT}; frames[{number}] "
                f"{amiss}: build the cell again."
            )
    return content


class _Thinned:
    """Empties frames that cannot be among the most harmed or helped while a file is
    read, to bound the memory.

    An emptied frame keeps only its `value`.
    """

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    def add(self, item: dict[str, Any]) -> dict[str, Any]:
        """The object itself; if it is a frame, it may be emptied later."""
        if item.keys() >= FRAME_KEYS and type(item["value"]) in (int, float):
            self.frames.append(item)
            if len(self.frames) >= 10 * MOST:
                self._thin()
        return item

    def _thin(self) -> None:
        extremes = set(_extreme_rows([frame["value"] for frame in self.frames]))
        for row, frame in enumerate(self.frames):
            if row not in extremes:
                value = frame["value"]
                frame.clear()
                frame["value"] = value
        self.frames = [self.frames[row] for row in sorted(extremes)]


def _extreme_rows(values: list[float]) -> list[int]:
    """Positions of the smallest and of the largest values, in order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return sorted(order[: MOST // 2] + order[-MOST // 2 :])


def _extremes(frames: list[Any], path: Path) -> list[Any]:
    """The frames of the smallest and of the largest values, in the order of the
    file.
    """
    values = check_file_form(list[ValueForm], frames, path, WHAT)
    return [frames[row] for row in _extreme_rows([frame["value"] for frame in values])]


def _amiss(frame: dict[str, Any], modes: list[str]) -> str | None:
    """The first inconsistency in a frame; None where there is none."""
    if len(modes) < 2 or not set(modes) <= frame["modes"].keys():
        return f"must have all modes of the cell, two or more ({', '.join(modes)})"
    for name in modes:
        entry = frame["modes"][name]
        if len({len(entry[key]) for key in COLUMNS if key in entry}) > 1:
            return (
                "must have as many boxes, classes and scores "
                f"as objects in mode {name!r}"
            )
        if entry["decisive"] is not None and not 0 <= entry["decisive"] < len(
            entry["objects_m"]
        ):
            return f"must name one of its objects as decisive in mode {name!r}"
    truth = frame["reference"]
    if len({len(truth[key]) for key in COLUMNS if key in truth}) > 1:
        return "must have as many boxes and classes as objects in its reference"
    if truth["decisive"] is not None and not 0 <= truth["decisive"] < len(
        truth["corners_m"]
    ):
        return "must name one of its objects as decisive in its reference"
    return None
