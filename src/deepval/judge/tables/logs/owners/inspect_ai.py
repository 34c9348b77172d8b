"""Inspect: logs of evaluations, one model each: `.eval` (a zip of JSON) and `.json`.

Of a zip, the header and the summaries of the samples are read. C, P, I and N are 1,
0.5, 0 and 0, as in Inspect.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from deepval.basics.errors import InputError, library, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content
from deepval.judge.tables.logs.owners.owner import Owner, Record

HEADER, SUMMARIES = "header.json", "summaries.json"
MOST_MEMBERS, LARGEST_MEMBER = 1_000_000, 2**28
"""Largest number of members of a zip, and largest size in bytes of one that is read."""
ZSTANDARD = 93
"""Compression of a member that Python 3.13 and older cannot undo."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def _rows(record: Record) -> Iterator[Record]:
    about = record["eval"]
    samples = record.get("samples") or []
    for sample in samples:
        if not isinstance(sample, Mapping):
            continue
        row = {
            "id": sample.get("id"),
            "epoch": sample.get("epoch"),
            "model": about.get("model"),
            "task": about.get("task"),
            "started_at": sample.get("started_at"),
            "cost": _dollars(sample.get("model_usage")),
        }
        scores = sample.get("scores")
        if isinstance(scores, Mapping):
            for name, score in scores.items():
                row |= {f"scores.{n}": v for n, v in _values(name, score)}
        # the first scorer counts unless --right names another one
        row["scored"] = next(
            (v for n, v in row.items() if n.startswith("scores.")), None
        )
        yield row


def _values(name: str, score: Any) -> Iterator[tuple[str, Any]]:
    """The value of a scorer, or its values by name."""
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, Mapping):
        for part, number in value.items():
            yield from _values(f"{name}.{part}", {"value": number})
    elif isinstance(value, str):
        yield name, LETTERS.get(value, value)
    elif isinstance(value, int | float):
        yield name, float(value)


def _dollars(usage: Any) -> float | None:
    """Price of a sample in dollars, where Inspect had prices of all its models."""
    if not isinstance(usage, Mapping) or not usage:
        return None
    costs = [
        part.get("total_cost") if isinstance(part, Mapping) else None
        for part in usage.values()
    ]
    if not all(isinstance(cost, int | float) for cost in costs):
        return None
    return float(sum(cost for cost in costs if cost is not None))


LOGS = Owner(
    name="Inspect",
    has=(frozenset({"eval", "samples"}), frozenset({"eval", "plan"})),
    names={
        "id": ("id",),
        "model": ("model",),
        "reward": ("scored",),
        "cost": ("cost",),
        "order": ("started_at",),
        "group": ("task",),
    },
    advice=(
        "Each log is of one model: give the logs of two or more, or their folder; "
        "{right} names another scorer."
    ),
    rows=_rows,
)


def zip_record(path: Path) -> Record:
    """The record of an .eval file."""
    with reading.open_file(path, "an Inspect log") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {item.filename: item for item in archive.infolist()}
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise InputError(
                f"{path}: must be an Inspect log, a zip file; it is cut, damaged or "
                f"of another type ({reason(error)})."
            ) from error
        if HEADER not in members or SUMMARIES not in members:
            raise InputError(
                f"{path}: must be the log of a finished evaluation, with {HEADER} and "
                f"{SUMMARIES}; it has neither, or only one: run `inspect log convert "
                "--to json`, which repairs it."
            )
        header = _json(file, members[HEADER], path)
        samples = _json(file, members[SUMMARIES], path)
    if not isinstance(header, Mapping) or not isinstance(header.get("eval"), Mapping):
        raise InputError(f"{path}: {HEADER} must state the evaluation; it does not.")
    return {"eval": header["eval"], "samples": samples}


def _json(file: BinaryIO, member: zipfile.ZipInfo, path: Path) -> Any:
    """The content of a member; its declared sizes are limits, which it may not
    exceed.
    """
    source = f"{path}: {member.filename}"
    if max(member.file_size, member.compress_size) > LARGEST_MEMBER:
        raise InputError(
            f"{source}: must be at most {LARGEST_MEMBER:,} bytes; it has "
            f"{max(member.file_size, member.compress_size):,}."
        )
    try:
        file.seek(member.header_offset)
        name_length, extra_length = struct.unpack("<26x2H", file.read(30))
        file.seek(name_length + extra_length, io.SEEK_CUR)
        packed = file.read(member.compress_size)
        data = _unpacked(packed, member)
    except (OSError, ValueError, EOFError, struct.error, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source}: is damaged ({reason(error)}).") from error
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise InputError(f"{source}: is damaged: it is not of the size it declares.")
    return json_content(data, source)


def _unpacked(packed: bytes, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, of which at most one more than declared are read."""
    most = member.file_size + 1
    if member.compress_type == zipfile.ZIP_STORED:
        return packed
    if member.compress_type == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    if member.compress_type != ZSTANDARD:
        raise ValueError(f"compression {member.compress_type} is not known")
    pa = library("pyarrow", purpose="An Inspect log that is compressed by Zstandard")
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return stream.read(most)
