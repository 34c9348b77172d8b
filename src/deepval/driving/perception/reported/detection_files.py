"""Detection files -> one mode's detections: KITTI text, COCO results JSON, nuScenes
results JSON, Parquet.

A frame that a file does not mention was run and reported nothing, unless the file or
`frames_run` lists it as not run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, read_json
from deepval.basics.files.reading import check_file_form
from deepval.driving.geometry.classes import (
    COCO_CLASSES,
    KITTI_CLASSES,
    KNOWN_CLASSES,
    NUSCENES_CLASSES,
)
from deepval.driving.perception.reported.detection_rows import (
    DetectionFile,
    FramesByUnit,
    Rows,
    Source,
    detection_file,
)
from deepval.driving.world.scene import Scene
from deepval.judge.tables import columns, keys

COCO_IDS = {
    1: "person",
    2: "bicycle",
    3: "car",
    4: "motorcycle",
    6: "bus",
    7: "train",
    8: "truck",
}
PARQUET_COLUMNS = ("frame", "cls", "x1", "y1", "x2", "y2")
CUBOID_COLUMNS = ("X", "Y", "Z", "l", "w", "h", "ry")
KITTI_COLUMNS = (17, 18)
FRAMES = dict[str, list[int] | list[str]]
"""Frames by unit: numbers or ids."""
MALFORMED = (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError)
"""Exceptions that Python raises on content of the wrong form."""


def open_detections(
    path: Path | str,
    *,
    source: Source | None = None,
    annotations: Path | str | None = None,
    units: Sequence[str] | None = None,
) -> DetectionFile:
    """A file of any supported kind, recognised by its name and content, ready to be
    laid over scenes.

    Args:
        path: The file or folder.
        source: How to read it.
        annotations: The COCO annotation file that names the images and categories of a
            COCO results file.
        units: Units to read from a folder of text files; None reads all.
    """
    path, source = Path(path), source or Source()
    if not reading.exists(path):
        raise InputError(
            f"detections must be at {path}; there is nothing there: check the path."
        )
    if is_cache(path):
        return read_cache(path, source)
    if reading.is_folder(path) or path.suffix == ".txt":
        return read_kitti_text(path, source, units)
    if path.suffix == ".parquet":
        return read_parquet(path, source)
    if path.suffix != ".json":
        raise InputError(
            "detections must be .parquet, .json, .txt or a "
            f"folder of .txt files; found {path.name}."
        )
    content = read_json(path)
    if isinstance(content, dict) and "results" in content:
        return nuscenes_detections(content["results"], path, source)
    return coco_detections(content, path, source, annotations=annotations)


def is_cache(path: Path) -> bool:
    """Whether a path is a mode's folder in a cache that `deepval detect` fills."""
    return reading.is_folder(path / "detections") and reading.is_folder(path / "frames")


def read_cache(path: Path, source: Source) -> DetectionFile:
    """Detections of one mode from the cache that `deepval detect` fills: `path` is
    the mode's folder in it.
    """
    from deepval.driving.perception.reported.cache import read_mode

    cached = read_mode(path.parent, path.name)

    def listed(which: np.ndarray) -> dict[str, np.ndarray]:
        return {
            str(unit): cached.run_frame[which & (cached.run_seq == unit)]
            for unit in np.unique(cached.run_seq)
        }

    rows = Rows(
        unit=cached.seq,
        frame=cached.frame.astype(int),
        cls=cached.classes,
        score=cached.scores.astype(float),
        box_px=cached.boxes_px.astype(float),
    )
    source = replace(
        source,
        mode=source.mode or path.name,
        frames_run=source.frames_run or listed(~cached.run_failed),
        frames_failed=source.frames_failed or listed(cached.run_failed),
    )
    return detection_file(rows, path=path, source=source, classes=KNOWN_CLASSES)


def read_parquet(path: Path, source: Source) -> DetectionFile:
    """Detections from columns `unit` or `seq`, `frame`, `cls`, `x1 y1 x2 y2` and others
    where present.

    The others are `score`, `track_id` and `h w l X Y Z ry` (KITTI's bottom-centre
    boxes). File metadata may declare `scores`, `frames_run` and `frames_failed` (JSON:
    unit -> frame ids), which `source` overrides; `frames_processed` (JSON: unit ->
    count) serves where a unit was run in full or not at all.
    """
    table = columns.parquet_table(path, str(path))
    names = {*("unit", "seq", "score", "track_id"), *PARQUET_COLUMNS, *CUBOID_COLUMNS}
    data = columns.of_arrow(table, str(path), only=names)
    unit_name = "unit" if "unit" in data.data else "seq"
    solid = "ry" in data.data
    needed = (unit_name, *PARQUET_COLUMNS, *(CUBOID_COLUMNS if solid else ()))
    missing = [name for name in needed if name not in data.data]
    if missing:
        raise InputError(
            f"a detection file must have columns {', '.join(PARQUET_COLUMNS)} and "
            f"unit or seq; {path} lacks {', '.join(missing)}."
        )
    cuboid = (
        np.stack([data.numbers(name) for name in CUBOID_COLUMNS], axis=-1)
        if solid
        else None
    )
    if cuboid is not None:
        # From the bottom centre to the centre; y points down in camera axes.
        cuboid[:, 1] -= cuboid[:, 5] / 2
    rows = Rows(
        unit=keys.as_text(data.ids(unit_name)),
        frame=data.data["frame"]
        if data.data["frame"].dtype.kind in "iuf"
        else keys.as_text(data.ids("frame")),
        cls=keys.as_text(data.ids("cls")),
        score=data.numbers("score")
        if "score" in data.data
        else np.full(len(data), np.nan),
        box_px=np.stack(
            [data.numbers(name) for name in ("x1", "y1", "x2", "y2")], axis=-1
        ),
        track=data.numbers("track_id") if "track_id" in data.data else None,
        cuboid_m=cuboid,
    )
    source = complete_source(source, table.schema.metadata or {}, path=path)
    return detection_file(rows, path=path, source=source, classes=KNOWN_CLASSES)


def complete_source(
    source: Source, meta: Mapping[bytes, bytes], *, path: Path
) -> Source:
    """The source, completed from the file's metadata where the caller left a field
    open.
    """

    def frames_entry(name: str, form: Any) -> Any:
        location = f"{path}: '{name}' of its metadata"
        return check_file_form(
            form,
            json_content(meta[name.encode()], location),
            location,
            "frames by unit",
        )

    def text_entry(name: str) -> Any:
        return (
            reading.decode(meta[name.encode()], f"{path}: '{name}' of its metadata")
            if name.encode() in meta
            else None
        )

    run, failed = source.frames_run, source.frames_failed
    if run is None and b"frames_run" in meta:
        run = frames_entry("frames_run", FRAMES)
    elif run is None and b"frames_processed" in meta:
        run = FramesByUnit(
            frames_entry("frames_processed", dict[str, int]),
            partial(_all_or_error, path),
        )
    if failed is None and b"frames_failed" in meta:
        failed = frames_entry("frames_failed", FRAMES)
    return Source(
        source.mode or text_entry("mode"),
        source.scores or text_entry("scores"),
        source.classes,
        run,
        failed,
    )


def _all_or_error(path: Path, count: int | None, scene: Scene) -> np.ndarray:
    """The frames of a scene that were run, from a file that gives only their number."""
    count = count or 0
    if count not in (0, len(scene)):
        raise InputError(
            f"{path} was made on {count} of the {len(scene)} frames of unit "
            f"{scene.unit} and does not list them: give frames_run."
        )
    return scene.frame_ids if count else scene.frame_ids[:0]


def read_kitti_text(
    path: Path, source: Source, units: Sequence[str] | None = None
) -> DetectionFile:
    """Detections from KITTI tracking results: `<unit>.txt` or a folder of them; 17
    columns, 18 with score.

    A unit without a file was never run; an empty file means that it was run and
    reported nothing.
    """
    files = [path] if reading.is_file(path) else sorted(reading.find(path, "*.txt"))
    files = [file for file in files if units is None or file.stem in units]
    lines = [
        (file.stem, number, row) for file in files for number, row in kitti_rows(file)
    ]
    words = [row for _, _, row in lines]
    try:
        table = np.array(
            [[*row[:2], *row[3:17]] for row in words], dtype=float
        ).reshape(-1, 16)
        score = np.array(
            [row[17] if len(row) > 17 else "nan" for row in words], dtype=float
        )
    except ValueError as error:
        raise InputError(
            f"KITTI results must hold numbers; {path} does not: {error}."
        ) from error
    # KITTI gives the bottom centre, and y points down: the centre is half a height
    # above it.
    centre = table[:, 12:15] - np.stack(
        [0 * table[:, 9], table[:, 9] / 2, 0 * table[:, 9]], axis=-1
    )
    solid = len(table) > 0 and bool((table[:, 9] > 0).all())
    rows = Rows(
        unit=columns.text_array([unit for unit, _, _ in lines], f"{path}: units"),
        frame=table[:, 0],
        cls=columns.text_array([row[2] for row in words], f"{path}: classes"),
        score=score,
        box_px=table[:, 5:9],
        track=table[:, 1],
        cuboid_m=np.column_stack([centre, table[:, [11, 10, 9]], table[:, 15]])
        if solid
        else None,
        line=np.array([number for _, number, _ in lines], dtype=int),
    )
    if source.frames_run is None:
        source = replace(
            source,
            frames_run=FramesByUnit(
                dict.fromkeys((file.stem for file in files), True), _all_or_none
            ),
        )
    return detection_file(
        rows, path=path, source=source, classes=KITTI_CLASSES | COCO_CLASSES
    )


def _all_or_none(run: Any, scene: Scene) -> np.ndarray:
    """All frames of a scene whose unit was run, none of another."""
    return scene.frame_ids if run else scene.frame_ids[:0]


def kitti_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Number and words of each line of a KITTI result file that is not empty."""
    lines = enumerate(reading.text(path).splitlines(), start=1)
    rows = [(number, line.split()) for number, line in lines if line.split()]
    for number, row in rows:
        if len(row) not in KITTI_COLUMNS:
            raise InputError(
                "KITTI results must have 17 or 18 "
                f"columns; {path} has {len(row)} in line {number}."
            )
    return rows


def coco_detections(
    content: Any, path: Path, source: Source, *, annotations: Path | str | None = None
) -> DetectionFile:
    """Detections from COCO results: a list of image_id, category_id, bbox (x, y, width,
    height), score.

    Without annotations an image id must be an input id such as "0002/000010" and
    category ids COCO's own (1 to 90); with them, a file name's folder is the unit and
    its stem the frame id.
    """
    if not isinstance(content, list):
        raise InputError(
            f"COCO results must be a list; {path} holds {type(content).__name__}."
        )
    images, names = (
        ({}, dict(COCO_IDS)) if annotations is None else _coco_names(annotations)
    )
    try:
        files = [
            Path(str(images[row["image_id"]] if images else row["image_id"]))
            for row in content
        ]
        cls = [
            str(names.get(row["category_id"], f"category {row['category_id']}"))
            for row in content
        ]
        box = _numbers([row["bbox"] for row in content], 4)
        score = _numbers([row.get("score", np.nan) for row in content])
    except MALFORMED as error:
        raise InputError(
            "COCO results must have image_id (known to the annotations), category_id, "
            f"bbox and score in each row; {path} does not: {error!r}."
        ) from error
    rows = Rows(
        unit=columns.text_array(
            [file.parent.name for file in files], f"{path}: image_id"
        ),
        frame=columns.text_array([file.stem for file in files], f"{path}: image_id"),
        cls=columns.text_array(cls, f"{path}: category_id"),
        score=score,
        box_px=np.column_stack([box[:, :2], box[:, :2] + box[:, 2:]]),
    )
    return detection_file(rows, path=path, source=source, classes=KNOWN_CLASSES)


def _coco_names(annotations: Path | str) -> tuple[dict[Any, str], dict[Any, str]]:
    """Files of images and names of categories by id."""
    content = read_json(annotations, "COCO annotations")
    try:
        images = {image["id"]: str(image["file_name"]) for image in content["images"]}
        return images, {
            category["id"]: str(category["name"]) for category in content["categories"]
        }
    except MALFORMED as error:
        raise InputError(
            f"{annotations}: COCO annotations must have images (id, file_name) and "
            f"categories (id, name); {error!r}."
        ) from error


def _numbers(values: Sequence[Any], width: int | None = None) -> np.ndarray:
    """The values as numbers, or as rows of `width` numbers; ValueError where they are
    not.
    """
    numbers = (
        np.array(values, dtype=float)
        if len(values)
        else np.zeros((0,) if width is None else (0, width))
    )
    if numbers.shape != ((len(values),) if width is None else (len(values), width)):
        raise ValueError(
            f"{'a number' if width is None else f'{width} numbers'} in each row"
        )
    return numbers


def nuscenes_detections(results: Any, path: Path, source: Source) -> DetectionFile:
    """Detections from nuScenes results: 3D boxes in the world frame per sample token,
    no image boxes.

    The frame ids of the scenes are sample tokens; a token that the file does not list
    was never run.
    """
    try:
        listed = [(token, row) for token, boxes in results.items() for row in boxes]
        turn = _numbers([row["rotation"] for _, row in listed], 4)
        centre = _numbers([row["translation"] for _, row in listed], 3)
        size = _numbers([row["size"] for _, row in listed], 3)
        velocity = _numbers(
            [row.get("velocity", (np.nan, np.nan)) for _, row in listed], 2
        )
        score = _numbers([row["detection_score"] for _, row in listed])
        cls = [str(row["detection_name"]) for _, row in listed]
    except MALFORMED as error:
        raise InputError(
            "nuScenes results must follow the detection "
            f"format; {path} does not: {error!r}."
        ) from error
    w, x, y, z = turn.T
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    rows = Rows(
        unit=None,
        frame=columns.text_array([token for token, _ in listed], f"{path}: tokens"),
        cls=columns.text_array(cls, f"{path}: detection_name"),
        score=score,
        box_px=np.full((len(listed), 4), np.nan),
        cuboid_m=np.column_stack([centre, size[:, [1, 0, 2]], yaw]),
        velocity_mps=velocity,
        cuboid_frame="world",
    )
    if source.frames_run is None:
        source = replace(source, frames_run=partial(_tokens_of, frozenset(results)))
    return detection_file(rows, path=path, source=source, classes=NUSCENES_CLASSES)


def _tokens_of(tokens: frozenset[str], scene: Scene) -> list[str]:
    """The frames of a scene that are among the tokens."""
    return [token for token in scene.frame_ids.tolist() if str(token) in tokens]
