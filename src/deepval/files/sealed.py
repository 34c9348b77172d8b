"""Plain data and bytes <-> a file with a hash over itself: whole and of this schema, or as good as none.

A line of JSON names schema and hash, a second one is the plain data, and whatever follows is bytes.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import joint_sha256, json_content, json_packed
from deepval.files.writing import write_atomically


def write_sealed(path: Path, schema: str, data: Any, following: Iterable[bytes | memoryview] = ()) -> None:
    """Write plain data and the bytes that follow."""
    body = [json_packed(data).encode(), b"\n", *following]
    first = json_packed({"schema": schema, "sha256": joint_sha256(body)})
    write_atomically(path, b"".join([first.encode(), b"\n", *body]), make_folder=True)


def read_sealed(path: Path, schema: str, what: str) -> tuple[Any, bytes]:
    """The data and bytes that were written; an InputError where a file is not as it was, or of another schema."""
    first, data, following = (*reading.content(path, what).split(b"\n", 2), b"", b"")[:3]
    told = json_content(first, path, what)
    whole = {"schema": schema, "sha256": joint_sha256([data, b"\n", following])}
    if told != whole:
        raise InputError(f"{path}: must be {what}, and is not as it was written: take it away and run it again.")
    return json_content(data, path, what), following


def sealed_or_none(path: Path, schema: str, what: str) -> tuple[Any, bytes] | None:
    """The same; None where there is no file, or not what was written."""
    try:
        return read_sealed(path, schema, what) if reading.is_file(path) else None
    except InputError:
        return None
