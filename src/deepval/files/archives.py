"""Bytes of an .npz file <-> named arrays, bounded before anything is decoded; nothing in them is ever unpickled.

What an archive says of its own size is added up first, and what an array says of its shape must fit what the archive
has of it, so that a small file cannot ask for more memory than it fills.
"""

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

LARGEST = 2**33
"""Bytes of all arrays of an archive."""
MOST = 100_000
"""Arrays of an archive."""
AMISS = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, RuntimeError),
    *(IndexError, AttributeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
"""What the libraries raise on bytes that are no such archive."""
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Content of an .npz file with these arrays, compressed in haste: the same arrays give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return out.getvalue()


def npz_arrays(data: bytes, *, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays in an .npz file by name; a ValueError says what is amiss."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            size = sum(entry.file_size for entry in listed)
            if len(listed) > MOST or size > largest:
                raise ValueError(f"{len(listed)} arrays of {size:,} bytes are more than {MOST:,} of {largest:,}")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in listed}
    except AMISS as error:
        raise ValueError(f"it is no archive of plain arrays ({str(error) or type(error).__name__})") from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{entry.filename} has a header of version {version}")
        shape, fortran, dtype = HEADERS[version](file)
        body = file.read()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(body) or min(shape, default=0) < 0:
        raise ValueError(f"{entry.filename} must hold {shape} plain values; it does not")
    return np.frombuffer(body, dtype).reshape(shape, order="F" if fortran else "C").copy()
