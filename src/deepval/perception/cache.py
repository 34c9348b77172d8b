"""Keeps detections on disk, one pair of Parquet files per mode and unit, so that a killed run can go on.

`<mode>/detections/<unit>.parquet` has columns seq, frame, cls, score, x1, y1, x2, y2, the best score first.
`<mode>/frames/<unit>.parquet` lists every frame that was run: `ok` with 0 boxes is empty, `failed` gives a
reason, an absent frame was never run. `manifest.json` says what made them. A file appears under its name only
when complete, frames before detections, and holds no time and no path of the machine.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from deepval import files
from deepval.arrays import Float, Int, Shaped
from deepval.errors import InputError
from deepval.files import write_atomically
from deepval.perception.detector import FrameDetections

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FrameRecord:
    """What became of one frame in one mode: detections, or None with a reason."""

    frame: int
    image: str
    image_sha256: str | None
    image_hw_px: tuple[int, int] | None
    detections: FrameDetections | None
    reason: str | None = None


@dataclass(frozen=True)
class CachedMode:
    """The detections of a mode (axis det) and every frame that was run (axis input), failed or not."""

    seq: Shaped[np.ndarray, "det"]
    frame: Int[np.ndarray, "det"]
    classes: Shaped[np.ndarray, "det"]
    scores: Float[np.ndarray, "det"]
    boxes_px: Float[np.ndarray, "det 4"]
    run_seq: Shaped[np.ndarray, "input"]
    run_frame: Int[np.ndarray, "input"]
    run_failed: Shaped[np.ndarray, "input"]


def detections_path(cache: Path, mode: str, unit: str) -> Path:
    """Where the boxes of a unit lie."""
    return cache / mode / "detections" / f"{quote(unit, safe='')}.parquet"


def frames_path(cache: Path, mode: str, unit: str) -> Path:
    """Where the list of a unit's frames lies."""
    return cache / mode / "frames" / f"{quote(unit, safe='')}.parquet"


def unit_done(cache: Path, mode: str, unit: str) -> bool:
    """Whether both files of the unit are there."""
    return detections_path(cache, mode, unit).exists() and frames_path(cache, mode, unit).exists()


def write_unit(cache: Path, mode: str, *, unit: str, records: Sequence[FrameRecord]) -> None:
    """Write a unit of a mode: first its frames, then its detections, with which it is done."""
    records = sorted(records, key=lambda record: record.frame)
    _write_table(frames_path(cache, mode, unit), _frames_table(unit, records))
    _write_table(detections_path(cache, mode, unit), _detections_table(unit, records))


def check_unit(cache: Path, mode: str, *, unit: str, frames: Mapping[int, str | None], allow_failed: bool) -> None:
    """Raise InputError unless a unit that is done was run on these frames (id to SHA-256 of the image)."""
    path = frames_path(cache, mode, unit)
    table = _read_table(path)
    listed = dict(zip(table["frame"].to_pylist(), table["image_sha256"].to_pylist(), strict=True))
    if listed != dict(frames):
        changed = sorted(
            frame
            for frame in listed.keys() | frames.keys()
            if frame not in listed or frame not in frames or listed[frame] != frames[frame]
        )
        raise InputError(
            f"Unit {unit} of mode {mode} in {cache} was run on other images ({len(changed)} frames differ, "
            f"first {changed[0]}): use another folder, or delete {detections_path(cache, mode, unit)}."
        )
    if _read_table(detections_path(cache, mode, unit)).num_rows != _box_count(table):
        raise InputError(f"{detections_path(cache, mode, unit)} does not fit {path}: delete both and run again.")
    failed = [row["frame"] for row in table.to_pylist() if row["status"] == "failed"]
    if failed and not allow_failed:
        raise InputError(
            f"Unit {unit} of mode {mode} in {cache} holds {len(failed)} failed frames, first {failed[0]}: "
            f"record errors, or repair the images and delete {detections_path(cache, mode, unit)}."
        )


def bind(cache: Path, recipe: Mapping[str, Any]) -> None:
    """Tie a new cache to the recipe that fills it; InputError where an old one was filled by another."""
    path = cache / MANIFEST
    if not path.exists():
        write_atomically(path, _json({"format": FORMAT, "recipe": recipe, "modes": {}}), alone=True)
        return
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        old = {**stored["recipe"], "format": stored["format"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the manifest of a detection cache: use another folder.") from error
    new = {**json.loads(json.dumps(recipe)), "format": FORMAT}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            raise InputError(
                f"The cache {cache} was filled with {key} {_short(old.get(key))} and is now asked for "
                f"{_short(new.get(key))}: use another folder, or delete this one."
            )


def finish(cache: Path, recipe: Mapping[str, Any]) -> Path:
    """Write the manifest: the recipe, and per mode and unit the frames, failures, boxes and file hashes."""
    modes = {mode: _done(cache, mode) for mode in modes_in(cache)}
    write_atomically(cache / MANIFEST, _json({"format": FORMAT, "recipe": recipe, "modes": modes}), alone=True)
    return cache / MANIFEST


def modes_in(cache: Path) -> tuple[str, ...]:
    """Names of the modes with at least one unit done, in alphabetical order."""
    return tuple(sorted({path.parents[1].name for path in cache.glob("*/detections/*.parquet")}))


def units_in(cache: Path, mode: str) -> tuple[str, ...]:
    """Names of the units that are done in a mode, in alphabetical order."""
    found = (unquote(path.stem) for path in (cache / mode / "detections").glob("*.parquet"))
    return tuple(sorted(unit for unit in found if unit_done(cache, mode, unit)))


def read_mode(cache: Path, mode: str) -> CachedMode:
    """Everything the cache holds of a mode, sorted by unit and frame, best score first."""
    import pyarrow as pa

    units = units_in(cache, mode)
    if not units:
        known = ", ".join(modes_in(cache)) or "none"
        raise InputError(f"The cache {cache} holds no unit of mode {mode}; its modes are: {known}.")
    found = pa.concat_tables([_read_table(detections_path(cache, mode, unit)) for unit in units])
    run = pa.concat_tables([_read_table(frames_path(cache, mode, unit)) for unit in units])
    return CachedMode(
        np.array(found["seq"].to_pylist(), dtype=np.str_),
        found["frame"].to_numpy(),
        np.array(found["cls"].to_pylist(), dtype=np.str_),
        found["score"].to_numpy(),
        np.stack([found[corner].to_numpy() for corner in ("x1", "y1", "x2", "y2")], axis=1),
        np.array(run["seq"].to_pylist(), dtype=np.str_),
        run["frame"].to_numpy(),
        np.array(run["status"].to_pylist()) == "failed",
    )


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Keep a second run out of the same cache; the lock goes with the process, however it ends."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The cache must be a folder to write to, and {cache} is not: {error.strerror}.") from error
    with files.locked(cache, f"Another run is filling the cache {cache}: wait for it, or use another folder."):
        yield


def _frames_table(unit: str, records: Sequence[FrameRecord]) -> Any:
    import pyarrow as pa

    sizes = [record.image_hw_px or (None, None) for record in records]
    found = [record.detections for record in records]
    columns = {
        "seq": pa.array([unit] * len(records), pa.string()),
        "frame": pa.array([record.frame for record in records], pa.int32()),
        "status": pa.array(["failed" if item is None else "ok" for item in found], pa.string()),
        "reason": pa.array([record.reason for record in records], pa.string()),
        "boxes": pa.array([None if item is None else item.scores.size for item in found], pa.int32()),
        "width_px": pa.array([width for _, width in sizes], pa.int32()),
        "height_px": pa.array([height for height, _ in sizes], pa.int32()),
        "image": pa.array([record.image for record in records], pa.string()),
        "image_sha256": pa.array([record.image_sha256 for record in records], pa.string()),
    }
    return pa.table(columns)


def _detections_table(unit: str, records: Sequence[FrameRecord]) -> Any:
    import pyarrow as pa

    found = [(record.frame, record.detections) for record in records if record.detections is not None]
    frames = [frame for frame, item in found for _ in range(item.scores.size)]
    boxes = np.concatenate([np.zeros((0, 4), np.float32), *(item.boxes_px for _, item in found)])
    scores = np.concatenate([np.zeros(0, np.float32), *(item.scores for _, item in found)])
    columns = {
        "seq": pa.array([unit] * len(frames), pa.string()),
        "frame": pa.array(frames, pa.int32()),
        "cls": pa.array([str(name) for _, item in found for name in item.classes], pa.string()),
        "score": pa.array(scores.astype(np.float32), pa.float32()),
    }
    for corner, values in zip(("x1", "y1", "x2", "y2"), boxes.astype(np.float32).T, strict=True):
        columns[corner] = pa.array(np.ascontiguousarray(values), pa.float32())
    return pa.table(columns)


def _write_table(path: Path, table: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes(), make_folder=True, alone=True)


def _read_table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} of the detection cache cannot be read: delete it and run again.") from error


def _done(cache: Path, mode: str) -> dict[str, Any]:
    units = {}
    for unit in units_in(cache, mode):
        detections, frames = detections_path(cache, mode, unit), frames_path(cache, mode, unit)
        run = _read_table(frames)
        units[unit] = {
            "frames": run.num_rows,
            "failed": run["status"].to_pylist().count("failed"),
            "boxes": _box_count(run),
            "detections_sha256": hashlib.sha256(detections.read_bytes()).hexdigest(),
            "frames_sha256": hashlib.sha256(frames.read_bytes()).hexdigest(),
        }
    return units


def _box_count(frames: Any) -> int:
    return sum(boxes or 0 for boxes in frames["boxes"].to_pylist())


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}..."
