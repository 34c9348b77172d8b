"""Columns <-> Parquet and CSV files: the same columns give the same bytes.

Apart from `columns`, which only reads; cells and router logs write.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deepval.files.canonical import Manifest
from deepval.tables import columns


def parquet_bytes(content: Mapping[str, np.ndarray]) -> bytes:
    """Content of a Parquet file with these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {k: pa.array(v.tolist(), pa.string()) if v.dtype.kind == "U" else pa.array(v) for k, v in content.items()}
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return out.getvalue()


def parquet_columns(source: Path | columns.Columns) -> dict[str, np.ndarray]:
    """The columns of a Parquet file; text as text, numbers as they are."""
    raw = columns.read(source)
    return {name: raw.ids(name) if column.dtype.kind == "O" else column for name, column in raw.data.items()}


def cell_columns(cell: Manifest, name: str) -> columns.Columns:
    """The columns of one of a cell's Parquet files, as built."""
    return columns.from_parquet(cell.content(name), str(cell.folder / name))


def csv_text(content: Mapping[str, np.ndarray]) -> str:
    """Content of a CSV file with these columns, numbers to the last digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(content)
    cells = [[repr(v) if isinstance(v, float) else v for v in column.tolist()] for column in content.values()]
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()
