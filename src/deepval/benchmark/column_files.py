"""Columns <-> Parquet and CSV files: the same columns give the same bytes."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deepval.errors import InputError


def parquet_bytes(columns: Mapping[str, np.ndarray]) -> bytes:
    """Content of a Parquet file with these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {k: pa.array(v.tolist(), pa.string()) if v.dtype.kind == "U" else pa.array(v) for k, v in columns.items()}
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return out.getvalue()


def parquet_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a Parquet file; text as text, gaps in numbers as NaN."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: must be a Parquet file that can be read; {error}.") from error
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        columns[name] = np.array(column.to_pylist(), dtype=str) if text else column.to_numpy()
    return columns


def csv_text(columns: Mapping[str, np.ndarray]) -> str:
    """Content of a CSV file with these columns, numbers to the last digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    cells = [[repr(v) if isinstance(v, float) else v for v in column.tolist()] for column in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()
