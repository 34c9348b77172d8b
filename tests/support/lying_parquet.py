"""A Parquet file of a few kilobytes, written by hand, whose dictionary page holds as
many texts as one likes.

Its footer tells nothing of them: rows, columns, types and sizes are those of a small
honest file.
"""

from typing import Any

import pyarrow as pa

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""
DOUBLE, BYTE_ARRAY, PLAIN, RLE, RLE_DICTIONARY, ZSTD = 5, 6, 0, 3, 8, 6
"""Parquet's numbers for them."""
DATA_PAGE, DICTIONARY_PAGE = 0, 2
FRAME = 16 * 2**20


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def struct(fields: dict[int, tuple[int, Any]]) -> bytes:
    """A struct whose fields have numbers, types and values, all in rising order."""
    out, last = b"", 0
    for number, (kind, value) in fields.items():
        out += bytes([(number - last) << 4 | kind]) + encoded(kind, value)
        last = number
    return out + b"\0"


def encoded(kind: int, value: Any) -> bytes:
    if kind in (I32, I64):
        return varint(value << 1)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        of, items = value
        return bytes([len(items) << 4 | of]) + b"".join(
            encoded(of, item) for item in items
        )
    return value


def page(kind: int, *, size: int, data: bytes, values: int, encoding: int) -> bytes:
    about = {1: (I32, values), 2: (I32, encoding)}
    if kind == DATA_PAGE:
        about |= {3: (I32, RLE), 4: (I32, RLE)}
    header = {
        1: (I32, kind),
        2: (I32, size),
        3: (I32, len(data)),
        (5 if kind == DATA_PAGE else 7): (STRUCT, struct(about)),
    }
    return struct(header) + data


def compressed(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def chunk(
    name: bytes,
    kind: int,
    encoding: int,
    *,
    rows: int,
    start: int,
    size: int,
    data_start: int,
) -> bytes:
    about = {
        1: (I32, kind),
        2: (LIST, (I32, [encoding])),
        3: (LIST, (BINARY, [name])),
        4: (I32, ZSTD),
        5: (I64, rows),
        6: (I64, 8 * rows),
        7: (I64, size),
        9: (I64, data_start),
    } | ({11: (I64, start)} if data_start > start else {})
    return struct({2: (I64, start), 3: (STRUCT, struct(about))})


def lying_parquet(rows: int, frames: int) -> bytes:
    """A file with columns `input` and `score`; its dictionary has 4 Mi empty texts per
    frame.
    """
    # Zstandard's frames follow each other, so that nobody has to hold what they say.
    dictionary = page(
        DICTIONARY_PAGE,
        size=frames * FRAME,
        data=compressed(bytes(FRAME)) * frames,
        values=frames * FRAME // 4,
        encoding=PLAIN,
    )
    indices = b"\x01" + varint(rows << 1) + b"\0"
    ids = page(
        DATA_PAGE,
        size=len(indices),
        data=compressed(indices),
        values=rows,
        encoding=RLE_DICTIONARY,
    )
    zeros = bytes(8 * rows)
    scores = page(
        DATA_PAGE, size=len(zeros), data=compressed(zeros), values=rows, encoding=PLAIN
    )
    first, second = 4, 4 + len(dictionary) + len(ids)
    chunks = [
        chunk(
            b"input",
            BYTE_ARRAY,
            RLE_DICTIONARY,
            rows=rows,
            start=first,
            size=second - first,
            data_start=first + len(dictionary),
        ),
        chunk(
            b"score",
            DOUBLE,
            PLAIN,
            rows=rows,
            start=second,
            size=len(scores),
            data_start=second,
        ),
    ]
    schema = [
        struct({4: (BINARY, b"schema"), 5: (I32, 2)}),
        struct({1: (I32, BYTE_ARRAY), 3: (I32, 0), 4: (BINARY, b"input"), 6: (I32, 0)}),
        struct({1: (I32, DOUBLE), 3: (I32, 0), 4: (BINARY, b"score")}),
    ]
    group = struct({1: (LIST, (STRUCT, chunks)), 2: (I64, 16 * rows), 3: (I64, rows)})
    footer = struct(
        {
            1: (I32, 2),
            2: (LIST, (STRUCT, schema)),
            3: (I64, rows),
            4: (LIST, (STRUCT, [group])),
        }
    )
    return (
        b"PAR1"
        + dictionary
        + ids
        + scores
        + footer
        + len(footer).to_bytes(4, "little")
        + b"PAR1"
    )
