"""Plain data <-> text and its hash: JSON, TOML and SHA-256, for every file of
deepval.
"""

import hashlib
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, reason
from deepval.basics.files import reading
from deepval.basics.files.reading import check_form

DEEPEST = 100
"""Largest depth of nested lists and objects in a JSON file."""
BLOCK = 2**20
"""Bytes that are read or checked at once."""
NOT_FINITE = re.compile(r"NaN|Infinity|[eE]\+?\d{3}")
HALF_A_SIGN = re.compile(r"\\u[dD][89a-fA-F]")


def plain(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and mappings as dicts, tuples and arrays as
    lists, numbers as numbers.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def json_text(
    content: Any, *, sort_keys: bool = False, ensure_ascii: bool = False
) -> str:
    """JSON with indentation, for files that people read."""
    return (
        json.dumps(
            content,
            indent=1,
            sort_keys=sort_keys,
            ensure_ascii=ensure_ascii,
            allow_nan=False,
        )
        + "\n"
    )


def json_lines(content: Any) -> str:
    """JSON with sorted keys and one line for each object or list that holds no other:
    long tables stay small.
    """
    return _in_lines(content) + "\n"


def _in_lines(value: Any) -> str:
    parts = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    if not any(isinstance(part, Mapping | list | tuple) for part in parts):
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    if isinstance(value, Mapping):
        lines = [f"{json.dumps(key)}:{_in_lines(value[key])}" for key in sorted(value)]
        return "{\n" + ",\n".join(lines) + "\n}"
    return "[\n" + ",\n".join(map(_in_lines, value)) + "\n]"


def json_packed(content: Any) -> str:
    """JSON without spaces, for HTML pages."""
    return json.dumps(
        content, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def json_canonical(content: Any) -> str:
    """JSON with sorted keys, for hashing: the order of keys does not matter."""
    return json.dumps(content, sort_keys=True, allow_nan=False)


def digest_of(content: Any) -> str:
    """SHA-256 of plain data; the order of its keys does not matter."""
    return sha256(json_canonical(content).encode())


def sha256(data: bytes | memoryview) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def joint_sha256(parts: Iterable[bytes | memoryview]) -> str:
    """SHA-256 of the concatenated parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def file_digest(path: Path | str) -> str:
    """SHA-256 of a file."""
    try:
        with reading.open_file(path) as file:
            return stream_digest(file)
    except OSError as error:
        raise InputError(
            f"{path}: must be a file that can be read; {reason(error)}."
        ) from error


def stream_digest(file: BufferedIOBase) -> str:
    """SHA-256 of the rest of an open file."""
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def folder_digests(folder: Path | str, patterns: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the matching files in a folder, by relative path; hidden files (of
    killed writers) are ignored.
    """
    folder = Path(folder)
    paths = {
        path
        for pattern in patterns
        for path in folder.glob(pattern)
        if reading.is_file(path)
    }
    files = sorted(path for path in paths if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def read_json(
    path: Path | str, what: str = "a JSON file", *, finite: bool = False
) -> Any:
    """The content of a JSON file; see `json_content`."""
    return json_content(reading.content(path, what), path, what, finite=finite)


def json_content(
    data: bytes,
    source: Path | str,
    what: str = "a JSON file",
    *,
    finite: bool = False,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """The content of a JSON file's bytes: UTF-8, nested at most DEEPEST deep; errors
    name the source.

    Where it must be `finite`, NaN, infinity and numbers that become infinite are
    refused, as JSON itself has none. The `object_hook` replaces each object as soon as
    it is read, so that a long file need not be in memory as a whole.
    """
    text = reading.decode(data, source)
    try:
        _check_depth(data)
        content = json.loads(text, object_hook=object_hook)
        # a match within a text is harmless: dumps decides
        if finite and NOT_FINITE.search(text):
            json.dumps(content, allow_nan=False)
        # only strings can match; encoding decides if it is an escape
        if HALF_A_SIGN.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{source}: must be {what}; a text in it contains a lone surrogate."
        ) from error
    except (ValueError, RecursionError) as error:
        why = (
            "it is not JSON"
            if isinstance(error, json.JSONDecodeError) and error.pos == 0
            else reason(error)
        )
        if why == "it is not JSON" and Path(source).suffix.lower() in (".csv", ".tsv"):
            why = "it is a table, which `deepval evaluate` reads"
        raise InputError(f"{source}: must be {what}; {why}.") from error
    return content


def _check_depth(data: bytes) -> None:
    """Raise where lists and objects nest deeper than DEEPEST, so that recursive
    functions on the data are safe.
    """
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return
    import numpy as np

    # Escapes are blanked, so that every remaining quote begins or ends a text.
    plain_data = (
        re.sub(rb"\\.", b"__", data, flags=re.DOTALL) if b"\\" in data else data
    )
    step = np.zeros(256, dtype=np.int8)
    step[[*b"[{"]], step[[*b"]}"]] = 1, -1
    quoted, depth = 0, 0
    for begin in range(0, len(plain_data), BLOCK):
        signs = np.frombuffer(plain_data[begin : begin + BLOCK], dtype=np.uint8)
        in_text = (
            np.bitwise_xor.accumulate((signs == ord('"')).astype(np.uint8)) ^ quoted
        )
        depths = depth + np.cumsum(step[signs] * (in_text == 0), dtype=np.int64)
        if depths.max() > DEEPEST:
            raise ValueError(
                f"lists and objects may nest {DEEPEST} deep; it goes deeper"
            )
        quoted, depth = int(in_text[-1]), int(depths[-1])


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file."""
    return toml_content(reading.content(path, "a TOML file"), path)


def toml_content(data: bytes, source: Path | str) -> dict[str, Any]:
    """The content of a TOML file's bytes; errors name the source."""
    text = reading.decode(data, source)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: must be a TOML file; {reason(error)}.") from error


ALLOCATORS, SCORES = "allocators", "scores"
"""Folders in a cell's folder: allocators fitted on it, and scores of its inputs."""
MANIFEST = "manifest.json"
TOP = frozenset(
    {
        "values.parquet",
        "terms.parquet",
        "evidence.parquet",
        "frames.json",
        "split.json",
        "costs.toml",
    }
)
"""Names reserved for a cell's own files in its folder."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a cell's folder.

    Attributes:
        folder: Path of the folder.
        id: The cell's id.
        definition: All settings and digests that determine the cell.
        files: SHA-256 of every file of the cell by name.
        code: The user's own code behind the cell, by what it is (system, dataset): the
            word that named it and the SHA-256 of its file. Nothing loads it unasked.
        tolerance: Decision values up to this size count as no change.
    """

    folder: Path
    id: str
    definition: Mapping[str, Any] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)
    code: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tolerance: float | None = field(default=None, repr=False)

    def content(self, name: str) -> bytes:
        """Content of a file of the cell, checked against its hash."""
        with self.open(name) as file:
            return file.read()

    def open(self, name: str, *, in_memory: bool = True) -> io.BufferedIOBase:
        """A file of the cell, checked against its hash and open to be read.

        A file that is not read into memory keeps its content while it is open, even if
        its path is replaced.
        """
        path = self.folder / name
        altered = InputError(
            f"{path}: must be as it was built, and is not: build the cell again (or "
            "wait, if that is being done)."
        )
        try:
            file = (
                io.BytesIO(reading.content(path))
                if in_memory
                else reading.open_file(path)
            )
        except InputError as error:
            raise altered from error
        if stream_digest(file) != self.files.get(name):
            file.close()
            raise altered
        file.seek(0)
        return file

    def check(self) -> None:
        """Raise where a file is missing or was changed."""
        for name in self.files:
            self.open(name, in_memory=False).close()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a cell's folder."""
    try:
        return _read_manifest(folder)
    except (InputError, KeyError, TypeError) as error:
        why = (
            "it is a file."
            if reading.is_file(folder)
            else f"{MANIFEST} cannot be read ({error})."
        )
        if reading.is_folder(folder) and not reading.exists(folder / MANIFEST):
            first = min(
                (str(path.parent) for path in reading.find(folder, f"*/{MANIFEST}")),
                default=None,
            )
            why = f"it has no {MANIFEST}" + (
                f", but holds cells: give one of them, such as {first}."
                if first
                else "."
            )
        raise InputError(
            f"{folder}: must be a cell's folder as `deepval build` writes it; {why}"
        ) from error


def cell_content(path: Path) -> bytes | None:
    """Content of a cell's file at a path; None where the file is not part of a cell.

    The file must match the hash in the manifest beside it. A link to a cell's file
    counts as that file.
    """
    for file in (path, reading.resolve(path)):
        if not reading.is_file(file.parent / MANIFEST):
            continue
        try:
            manifest = _read_manifest(file.parent)
        except (KeyError, TypeError):
            continue  # a manifest of another program
        except InputError:
            if file.name in TOP:
                read_manifest(file.parent)
            continue
        if file.name in manifest.files:
            return manifest.content(file.name)
        if file.name in TOP:
            raise InputError(
                f"{path}: must be a file of the cell in its folder, {manifest.id}, "
                "and its manifest does not name it: build the "
                "cell with it, or keep it elsewhere."
            )
    return None


def _read_manifest(folder: Path) -> Manifest:
    content = read_json(folder / MANIFEST, finite=True)
    parts = [content[name] for name in ("id", "definition", "files")]
    for part, form in zip(parts, (str, dict[str, Any], dict[str, str]), strict=True):
        check_form(form, part, "a part of it")
    code = check_form(dict[str, Any], content.get("code", {}), "its code")
    tolerance = check_form(float | None, content.get("tolerance"), "its tolerance")
    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"its tolerance must be 0 or more; found {tolerance:g}")
    return Manifest(folder, *parts, code=code, tolerance=tolerance)
