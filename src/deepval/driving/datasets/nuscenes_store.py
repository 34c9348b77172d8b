"""Large tables of nuScenes, read row by row and stored as Parquet by scene, so that one
scene is in memory at a time.

The full data set has 2.6 million rows in sample_data. Kept are the keyframes of the
LiDAR and of the front camera, their ego poses, and the annotations. The folder of a
store is named by the hash of the tables and can be deleted.
"""

import codecs
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, InputWarning, quote, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, file_digest, json_content

Row = Mapping[str, Any]

TEXTS = {
    "scene": ("token", "name", "first_sample_token", "log_token"),
    "sample": ("token", "next"),
    "sample_data": (
        "token",
        "sample_token",
        "ego_pose_token",
        "calibrated_sensor_token",
        "filename",
    ),
    "ego_pose": ("token",),
    "calibrated_sensor": ("token", "sensor_token"),
    "sensor": ("token", "channel"),
    "sample_annotation": ("token", "sample_token", "instance_token", "prev", "next"),
    "instance": ("token", "category_token"),
    "category": ("token", "name"),
    "log": ("token", "location"),
}
"""Columns of text of each table, checked in every row as it is read; numbers are
checked in the rows that are used.
"""
LARGE = ("sample_data", "ego_pose", "sample_annotation")
"""Tables that grow with the length of the recordings. ego_pose must follow sample_data,
which names its rows.
"""
CHANNELS = ("LIDAR_TOP", "CAM_FRONT")
ENOUGH = 2**26
"""Large tables of fewer bytes in all are read whole."""
BLOCK, LONGEST = 2**20, 2**24
"""Bytes read at a time, and most characters of a row."""
SPACES = frozenset(" \t\r\n")
FILES, BUFFERED = 32, 20_000
"""Number of Parquet files, each with the scenes next to each other by name; rows
written at a time.
"""


def check_record(path: Path, number: int, row: Any) -> None:
    """Raise unless a row of a table is a record with text in the columns of text."""
    if not isinstance(row, dict):
        raise InputError(
            f"the table {path} must be a list of records with tokens; it is not: "
            "repair the file."
        )
    for name in TEXTS[path.stem]:
        if not isinstance(row.get(name), str):
            raise InputError(
                f"the table {path} must be a list of records with text as {name!r}; "
                f"record {number} has {quote(row.get(name))}: repair the file."
            )


def stream_rows(path: Path) -> Iterator[Any]:
    """The rows of a list in a JSON file, of which one block is in memory at a time."""
    what = "a table in JSON"
    with reading.open_file(path, what) as file:
        try:
            yield from _decoded_rows(file)
        except _NoListError:
            check_record(path, 0, None)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: must be {what}; {reason(error)}.") from error


class _NoListError(ValueError):
    """JSON that is no list."""


def _decoded_rows(file: BufferedReader) -> Iterator[Any]:
    decode, decoder = (
        json.JSONDecoder().raw_decode,
        codecs.getincrementaldecoder("utf-8-sig")(),
    )
    text, position, rows, block = "", 0, 0, b" "
    while block:
        block = file.read(BLOCK)
        text, position = text[position:] + decoder.decode(block, final=not block), 0
        while (start := _next_row(text, position, rows)) is not None:
            if text[start] == "]":
                if text[start + 1 :].strip() or any(
                    rest.strip() for rest in iter(lambda: file.read(BLOCK), b"")
                ):
                    raise ValueError("text follows the list")
                return
            try:
                row, position = decode(text, start)
            except json.JSONDecodeError:
                if not block or len(text) - start > LONGEST:
                    raise
                break
            # a number may go on in the next block, a record may not
            if not isinstance(row, dict):
                raise _NoListError
            rows += 1
            yield row
    raise ValueError("the list must end; it does not")


def _next_row(text: str, position: int, rows: int) -> int | None:
    """Position of the next row or of the end of the list; None if that is yet to be
    read.
    """
    start = _skip_space(text, position)
    if start == len(text) or (rows and text[start] == "]"):
        return start if start < len(text) else None
    if text[start] != ("," if rows else "["):
        raise (
            ValueError(f"a comma must follow record {rows - 1}; found {text[start]!r}")
            if rows
            else _NoListError
        )
    after = _skip_space(text, start + 1)
    if rows and text[after : after + 1] == "]":
        raise ValueError("a record must follow the last comma; found ']'")
    return after if after < len(text) else None


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] in SPACES:
        position += 1
    return position


@dataclass(frozen=True)
class SceneStore:
    """A folder of Parquet files with the rows of the large tables by scene.

    Attributes:
        folder: The folder.
        files: Number of its file, for each scene.
    """

    folder: Path
    files: Mapping[str, int]

    def rows(self, scene: str) -> dict[str, list[Row]]:
        """The rows of a scene by table, in the order of the tables."""
        import pyarrow.parquet as pq

        path = self.folder / f"{self.files[scene]:02d}.parquet"
        try:
            stored = pq.read_table(
                path, columns=["table", "row"], filters=[("scene", "=", scene)]
            ).to_pydict()
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{path}: must be a file of stored tables; it cannot be read "
                f"({reason(error)}): delete {self.folder}."
            ) from error
        rows: dict[str, list[Row]] = {name: [] for name in LARGE}
        for name, text in zip(stored["table"], stored["row"], strict=True):
            rows[name].append(
                json_content(text.encode(), path, "a row of a stored table")
            )
        return rows


def cache_folder() -> Path:
    """The folder of stored tables: nuscenes in DEEPVAL_CACHE, or in the user's folder
    of caches.
    """
    usual = Path(
        os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "deepval"
    )
    return Path(os.environ.get("DEEPVAL_CACHE") or usual, "nuscenes")


def is_large(folder: Path) -> bool:
    """Whether the large tables of a folder are too large to be read whole."""
    paths = [folder / f"{name}.json" for name in LARGE]
    return sum(path.stat().st_size for path in paths if reading.is_file(path)) > ENOUGH


def scene_store(folder: Path, small: Mapping[str, Sequence[Row]]) -> SceneStore:
    """The store of a folder of tables, which is written if there is none yet; `small`
    are the other tables.
    """
    scenes = sorted(row["name"] for row in small["scene"])
    files = {scene: index * FILES // len(scenes) for index, scene in enumerate(scenes)}
    hashes = {name: file_digest(folder / f"{name}.json") for name in sorted(TEXTS)}
    target = cache_folder() / digest_of(hashes)
    if not reading.is_folder(target):
        note = (
            f"the tables in {folder} are large: they are read once, in a minute or "
            f"two, and stored in {target}."
        )
        warnings.warn(note, InputWarning, stacklevel=4)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(dir=target.parent, prefix="unfinished-"))
            try:
                _write_store(folder, small, work, files)
                # another process may have been faster
                if not reading.is_folder(target):
                    work.rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        except OSError as error:
            if not reading.is_folder(target):
                raise InputError(
                    f"large nuScenes tables are stored by scene in {target.parent}; "
                    f"it must be writable ({reason(error)}): set DEEPVAL_CACHE to "
                    "another folder."
                ) from error
    return SceneStore(target, files)


def _write_store(
    folder: Path,
    small: Mapping[str, Sequence[Row]],
    target: Path,
    files: Mapping[str, int],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = pa.schema(
        [("table", pa.string()), ("scene", pa.string()), ("row", pa.string())]
    )
    rows = _rows_of_scenes(folder, small)
    with ExitStack() as stack:
        paths = {file: target / f"{file:02d}.parquet" for file in set(files.values())}
        writers = {
            file: stack.enter_context(
                pq.ParquetWriter(path, columns, compression="zstd")
            )
            for file, path in paths.items()
        }
        while some := list(islice(rows, BUFFERED)):
            by_file: dict[int, list[tuple[str, str, str]]] = {}
            for table, scene, row in some:
                by_file.setdefault(files[scene], []).append(
                    (table, scene, json.dumps(row))
                )
            for file, lines in by_file.items():
                parts = [
                    pa.array(part, pa.string()) for part in zip(*lines, strict=True)
                ]
                writers[file].write_table(pa.table(parts, schema=columns))


def _rows_of_scenes(
    folder: Path, small: Mapping[str, Sequence[Row]]
) -> Iterator[tuple[str, str, Row]]:
    """The rows to store: table, scene, row."""
    scene_of = _scenes_of_samples(small)
    channels = {row["token"]: row["channel"] for row in small["sensor"]}
    others = {
        row["token"]
        for row in small["calibrated_sensor"]
        if channels.get(row["sensor_token"], CHANNELS[0]) not in CHANNELS
    }
    pose_scenes: dict[str, set[str]] = {}
    for table in LARGE:
        path = folder / f"{table}.json"
        rows = stream_rows(path)
        if table == "sample_data":
            rows = (
                row
                for row in rows
                if not isinstance(row, dict) or row.get("is_key_frame")
            )
        for number, row in enumerate(rows):
            check_record(path, number, row)
            if table == "ego_pose":
                yield from (
                    (table, scene, row) for scene in pose_scenes.get(row["token"], ())
                )
                continue
            scene = scene_of.get(row["sample_token"])
            if scene is None or (
                table == "sample_data" and row["calibrated_sensor_token"] in others
            ):
                continue
            if table == "sample_data":
                pose_scenes.setdefault(row["ego_pose_token"], set()).add(scene)
            yield table, scene, row


def _scenes_of_samples(small: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """The scene of every keyframe, by following `next`; faults in the chain are
    reported when its scene is read.
    """
    following = {row["token"]: row["next"] for row in small["sample"]}
    scene_of: dict[str, str] = {}
    for row in small["scene"]:
        token = row["first_sample_token"]
        while token in following and scene_of.get(token) != row["name"]:
            scene_of[token] = row["name"]
            token = following[token]
    return scene_of
