"""Named arrays <-> an .npz file without pickles, the same bytes for the same arrays."""

import io
import zipfile
from collections.abc import Mapping

import numpy as np

FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that bytes do not tell when they were written."""


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file with the arrays in their order; not compressed, so that bytes depend on no version of zlib."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", FIRST_DAY), entry.getvalue())
    return out.getvalue()
