"""Detections <-> a cache on disk, one pair of Parquet files per mode and unit, so that
a killed run can go on.

`<mode>/detections/<unit>.parquet` has columns seq, frame, cls, score, x1, y1, x2, y2,
the best score first. `<mode>/frames/<unit>.parquet` lists every frame that was run:
`ok` with 0 boxes is empty, `failed` gives a reason, an absent frame was never run.
`manifest.json` holds the settings that filled the cache, and the hashes of a unit's
files once both are written: a unit that it does not list is not done, and a file that
does not match its hash is never used. A file appears under its name only when complete,
and contains no time and no path of the machine.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.basics.files import reading, writing
from deepval.basics.files.canonical import json_text, plain, read_json, sha256
from deepval.basics.files.reading import check_file_form
from deepval.basics.files.writing import write_atomically
from deepval.driving.perception.running.decoding import FrameDetections
from deepval.judge.tables.columns import native

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FrameRecord:
    """The outcome of one frame in one mode: detections, or None with a reason."""

    frame: int
    image: str
    image_sha256: str | None
    image_hw_px: tuple[int, int] | None
    detections: FrameDetections | None
    reason: str | None = None


@dataclass(frozen=True)
class CachedMode:
    """The detections of a mode (axis det) and every frame that was run (axis input),
    failed or not.
    """

    seq: Shaped[np.ndarray, "det"]
    frame: Int[np.ndarray, "det"]
    classes: Shaped[np.ndarray, "det"]
    scores: Float[np.ndarray, "det"]
    boxes_px: Float[np.ndarray, "det 4"]
    run_seq: Shaped[np.ndarray, "input"]
    run_frame: Int[np.ndarray, "input"]
    run_failed: Shaped[np.ndarray, "input"]


def detections_path(cache: Path, mode: str, unit: str) -> Path:
    """The file of a unit's boxes."""
    return cache / mode / "detections" / f"{quote(unit, safe='')}.parquet"


def frames_path(cache: Path, mode: str, unit: str) -> Path:
    """The file of a unit's frame list."""
    return cache / mode / "frames" / f"{quote(unit, safe='')}.parquet"


def unit_files(
    cache: Path, mode: str, *, unit: str, records: Sequence[FrameRecord]
) -> dict[str, Any]:
    """Write the frames and the detections of a unit, and return its entry for the
    manifest, which marks it as done.

    Several processes may write units of their own; only the process with the lock
    writes the entries.
    """
    records = sorted(records, key=lambda record: record.frame)
    frames, detections = (
        _parquet(_frames_table(unit, records)),
        _parquet(_detections_table(unit, records)),
    )
    write_atomically(frames_path(cache, mode, unit), frames, make_folder=True)
    write_atomically(detections_path(cache, mode, unit), detections, make_folder=True)
    detected = [
        record.detections for record in records if record.detections is not None
    ]
    return {
        "frames": len(records),
        "failed": len(records) - len(detected),
        "boxes": sum(frame_detections.scores.size for frame_detections in detected),
        "detections_sha256": sha256(detections),
        "frames_sha256": sha256(frames),
    }


def enter(cache: Path, entries: Mapping[str, Mapping[str, Any]], *, unit: str) -> None:
    """Write a unit's entry of every mode to the manifest: from then on the unit is
    done.
    """
    manifest = cache_manifest(cache)
    modes = dict(manifest["modes"])
    for mode, entry in entries.items():
        modes[mode] = {**modes.get(mode, {}), unit: dict(entry)}
    _write_manifest(cache, manifest["recipe"], modes)


def check_unit(
    cache: Path,
    mode: str,
    *,
    unit: str,
    frames: Mapping[int, str | None],
    allow_failed: bool,
) -> None:
    """Raise InputError unless a finished unit is unchanged and was run on these frames
    (id to image SHA-256).
    """
    _, table = _tables(cache, mode, unit)
    listed = dict(
        zip(table["frame"].to_pylist(), table["image_sha256"].to_pylist(), strict=True)
    )
    if listed != dict(frames):
        changed = sorted(
            frame
            for frame in listed.keys() | frames.keys()
            if frame not in listed
            or frame not in frames
            or listed[frame] != frames[frame]
        )
        raise InputError(
            f"Unit {unit} of mode {mode} in {cache} was run on other images "
            f"({len(changed)} frames differ, first {changed[0]}): "
            f"use another folder, or delete {detections_path(cache, mode, unit)}."
        )
    failed = [row["frame"] for row in table.to_pylist() if row["status"] == "failed"]
    if failed and not allow_failed:
        raise InputError(
            f"Unit {unit} of mode {mode} in {cache} holds {len(failed)} failed "
            f"frames, first {failed[0]}: record errors, or "
            f"repair the images and delete {detections_path(cache, mode, unit)}."
        )


def bind(cache: Path, recipe: Mapping[str, Any]) -> None:
    """Store the recipe of a new cache; InputError where an old cache was filled with
    another recipe.
    """
    if not reading.exists(cache / MANIFEST):
        _write_manifest(cache, recipe, {})
        return
    stored = cache_manifest(cache)
    old = {**stored["recipe"], "format": stored["format"]}
    new = {**plain(recipe), "format": FORMAT}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            raise InputError(
                f"The cache {cache} was filled with {key} {_short(old.get(key))}; "
                f"this run has {_short(new.get(key))}: use another "
                "folder, or delete this one."
            )


def finish(cache: Path) -> Path:
    """Remove units whose files have been deleted from the manifest, and return its
    path.
    """
    manifest = cache_manifest(cache)
    done = {
        mode: {unit: units[unit] for unit in units_in(cache, mode)}
        for mode, units in manifest["modes"].items()
    }
    _write_manifest(
        cache,
        manifest["recipe"],
        {mode: units for mode, units in done.items() if units},
    )
    return cache / MANIFEST


def silence(mode: str, images: int) -> str:
    """The note on a mode that reports no box in any image."""
    return (
        f"mode {mode} finds no box in any of {images} images: check the style, the "
        "class names and the resolution, and look at an image."
    )


def modes_in(cache: Path) -> tuple[str, ...]:
    """Names of the modes with at least one unit done, in alphabetical order."""
    return tuple(
        sorted(mode for mode in cache_manifest(cache)["modes"] if units_in(cache, mode))
    )


def units_in(cache: Path, mode: str) -> tuple[str, ...]:
    """Names of the units that are done in a mode, in alphabetical order."""
    listed = cache_manifest(cache)["modes"].get(mode, {})
    path_functions = (detections_path, frames_path)
    return tuple(
        sorted(
            unit
            for unit in listed
            if all(
                reading.exists(path_of(cache, mode, unit)) for path_of in path_functions
            )
        )
    )


def read_mode(cache: Path, mode: str) -> CachedMode:
    """All cached detections and frames of a mode, sorted by unit and frame, best score
    first.
    """
    import pyarrow as pa

    if not reading.exists(cache / MANIFEST):
        raise InputError(
            f"A detection cache must hold a {MANIFEST} with the "
            f"hashes of its files; {cache} has none."
        )
    units = units_in(cache, mode)
    if not units:
        modes = ", ".join(modes_in(cache)) or "none"
        raise InputError(
            f"The cache {cache} holds no unit of mode {mode}; its modes are: {modes}."
        )
    detections, run = map(
        pa.concat_tables,
        zip(*(_tables(cache, mode, unit) for unit in units), strict=True),
    )
    return CachedMode(
        np.array(detections["seq"].to_pylist(), dtype=np.str_),
        detections["frame"].to_numpy(),
        np.array(detections["cls"].to_pylist(), dtype=np.str_),
        detections["score"].to_numpy(),
        np.stack(
            [detections[corner].to_numpy() for corner in ("x1", "y1", "x2", "y2")],
            axis=1,
        ),
        np.array(run["seq"].to_pylist(), dtype=np.str_),
        run["frame"].to_numpy(),
        np.array(run["status"].to_pylist()) == "failed",
    )


@contextmanager
def lock(cache: Path) -> Iterator[None]:
    """Keep a second run out of the same cache; the lock is released with the process,
    however it ends.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "The cache must be a folder to write "
            f"to, and {cache} is not: {error.strerror}."
        ) from error
    with writing.lock(
        cache,
        f"Another run is filling the cache {cache}: wait for "
        "it, or use another folder.",
    ):
        yield


def _frames_table(unit: str, records: Sequence[FrameRecord]) -> Any:
    import pyarrow as pa

    sizes = [record.image_hw_px or (None, None) for record in records]
    detections = [record.detections for record in records]
    columns = {
        "seq": pa.array([unit] * len(records), pa.string()),
        "frame": pa.array([record.frame for record in records], pa.int32()),
        "status": pa.array(
            [
                "failed" if frame_detections is None else "ok"
                for frame_detections in detections
            ],
            pa.string(),
        ),
        "reason": pa.array([record.reason for record in records], pa.string()),
        "boxes": pa.array(
            [
                None if frame_detections is None else frame_detections.scores.size
                for frame_detections in detections
            ],
            pa.int32(),
        ),
        "width_px": pa.array([width for _, width in sizes], pa.int32()),
        "height_px": pa.array([height for height, _ in sizes], pa.int32()),
        "image": pa.array([record.image for record in records], pa.string()),
        "image_sha256": pa.array(
            [record.image_sha256 for record in records], pa.string()
        ),
    }
    return pa.table(columns)


def _detections_table(unit: str, records: Sequence[FrameRecord]) -> Any:
    import pyarrow as pa

    detected = [
        (record.frame, record.detections)
        for record in records
        if record.detections is not None
    ]
    frames = [
        frame
        for frame, frame_detections in detected
        for _ in range(frame_detections.scores.size)
    ]
    boxes = np.concatenate(
        [
            np.zeros((0, 4), np.float32),
            *(frame_detections.boxes_px for _, frame_detections in detected),
        ]
    )
    scores = np.concatenate(
        [
            np.zeros(0, np.float32),
            *(frame_detections.scores for _, frame_detections in detected),
        ]
    )
    columns = {
        "seq": pa.array([unit] * len(frames), pa.string()),
        "frame": pa.array(frames, pa.int32()),
        "cls": pa.array(
            [
                str(name)
                for _, frame_detections in detected
                for name in frame_detections.classes
            ],
            pa.string(),
        ),
        "score": pa.array(scores.astype(np.float32), pa.float32()),
    }
    for corner, values in zip(
        ("x1", "y1", "x2", "y2"), boxes.astype(np.float32).T, strict=True
    ):
        columns[corner] = pa.array(np.ascontiguousarray(values), pa.float32())
    return pa.table(columns)


def _parquet(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


class _Entry(TypedDict):
    frames: int
    failed: int
    boxes: int
    detections_sha256: str
    frames_sha256: str


class _Manifest(TypedDict):
    format: int
    recipe: dict[str, Any]
    modes: dict[str, dict[str, _Entry]]


def _tables(cache: Path, mode: str, unit: str) -> tuple[Any, Any]:
    """The tables of a finished unit, parsed from the same bytes that were checked
    against the manifest's hashes.
    """
    entry = cache_manifest(cache)["modes"][mode][unit]
    detections = _read_table(
        detections_path(cache, mode, unit), entry["detections_sha256"]
    )
    return detections, _read_table(
        frames_path(cache, mode, unit), entry["frames_sha256"]
    )


def _read_table(path: Path, digest: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = reading.content(path, "a file of the detection cache")
    try:
        if sha256(data) != digest:
            raise InputError(
                f"{path} does not fit its hash in the cache's {MANIFEST}, so it was "
                "changed after it was written: delete it and run "
                "`deepval detect` again."
            )
        return pq.ParquetFile(native(data)).read()
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} of the detection cache cannot be read: delete it and run again."
        ) from error


def cache_manifest(cache: Path) -> dict[str, Any]:
    """The content of the manifest; an empty one where the file is missing."""
    path = cache / MANIFEST
    if not reading.exists(path):
        return {"format": FORMAT, "recipe": {}, "modes": {}}
    what = "the manifest of a detection cache"
    manifest = check_file_form(_Manifest, read_json(path, what), path, what)
    return {name: manifest[name] for name in _Manifest.__required_keys__}


def _write_manifest(
    cache: Path, recipe: Mapping[str, Any], modes: Mapping[str, Mapping[str, Any]]
) -> None:
    content: dict[str, Any] = {"format": FORMAT, "recipe": recipe}
    content["modes"] = {
        mode: dict(sorted(units.items())) for mode, units in sorted(modes.items())
    }
    notes = []
    for mode, units in content["modes"].items():
        images = sum(unit["frames"] - unit["failed"] for unit in units.values())
        if images and not any(unit["boxes"] for unit in units.values()):
            notes.append(silence(mode, images))
    text = json_text(content | ({"notes": notes} if notes else {}))
    write_atomically(cache / MANIFEST, text, make_folder=True)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}..."
