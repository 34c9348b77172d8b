"""What readers said of strangers' folders <-> a file: a folder whose files and cells did not change is not read again.

What was said is kept under the hash of all files of the folder, of what is wanted of it and of the code that reads it,
and only if the reader found the same files; it is believed no more than the reader is. To look a folder up, its files
are listed and hashed within the bounds that hold for reading them, and not decoded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files.canonical import digest_of, json_content
from deepval.files.sealed import sealed_or_none, write_sealed
from deepval.protocol.code_digest import code_digest
from deepval.protocol.submission_child import Limits
from deepval.protocol.submission_files import file_digests
from deepval.protocol.submission_reader import Reader

SCHEMA = "deepval/readings/1"
WHAT = "readings kept by `deepval leaderboard`"
FILE = "submissions.read"
READS = "deepval.protocol.submission_child"


class KeptReadings:
    """Says of folders what was said before, or else asks a reader; `wanted` is plain data that tells what for."""

    def __init__(self, cache: Path, wanted: Any) -> None:
        self._path, self._about = cache / FILE, {"code": code_digest(READS), "wanted": wanted}
        self._before = _read(self._path)
        self._now: dict[str, bytes] = {}

    def said(self, folder: Path, reader: Reader, limits: Limits, most: int) -> bytes:
        """What is said of a folder."""
        try:
            files = file_digests(folder)
        except (InputError, OSError):
            return reader.said(folder, limits, most)  # it says why
        key = digest_of(self._about | {"files": files})
        said = self._before.get(key)
        if said is None:
            said = reader.said(folder, limits, most)
        if _files_of(said) == files:
            self._now[key] = said
        return said

    def write(self) -> None:
        """Keep what was said of the folders that were asked for, and nothing else."""
        if self._now.keys() != self._before.keys():
            lengths = {key: len(said) for key, said in sorted(self._now.items())}
            write_sealed(self._path, SCHEMA, lengths, [self._now[key] for key in lengths])


def _read(path: Path) -> dict[str, bytes]:
    lengths, said = sealed_or_none(path, SCHEMA, WHAT) or ({}, b"")
    found, begin = {}, 0
    for key, length in lengths.items():
        found[key] = said[begin : begin + length]
        begin += length
    return found


def _files_of(said: bytes) -> Mapping[str, str] | None:
    """The hashes of the files that a reader found, None where it says no such thing."""
    try:
        return json_content(said.partition(b"\n")[0], "what a reader said")["files"]
    except (InputError, TypeError, KeyError):
        return None
