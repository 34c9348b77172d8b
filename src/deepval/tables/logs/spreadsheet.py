"""A CSV file of anybody -> columns: the sign between cells and the decimal sign are
read off the file.
"""

import csv
import io
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError, quote, reason
from deepval.files import reading
from deepval.tables import columns
from deepval.tables.logs import names

SEPARATORS = (",", ";", "\t", "|")
SAMPLED = 2**16
"""Bytes at the beginning of a file that its signs are read off."""
IDENTIFIERS = ("id", "unit", "model", "group")
"""Roles whose columns are read as text, so that 0017 stays 0017."""


def read(path: Path, texts: Collection[str] = ()) -> columns.Columns:
    """The columns of a CSV file; those that are ids or names by their name, or listed
    in `texts`, as text.
    """
    if reading.is_file(path) and not path.stat().st_size:
        raise InputError(
            f"{path}: the file is empty; it must hold a header and at least one row."
        )
    with reading.open_file(path, "a table") as file:
        start = file.read(SAMPLED).decode("utf-8-sig", "replace")
    sep = _separator(start)
    decimal = _decimal(start, sep)
    header = next(csv.reader(io.StringIO(start, newline=""), delimiter=sep), [])
    if not header:
        raise InputError(f"{path}: must be a CSV file with a header; it has none.")
    columns.refuse_equal_names(header, str(path))
    usual = {name for role in IDENTIFIERS for name in names.ROLES[role]}
    as_text = {name for name in header if names.plain(name) in usual or name in texts}
    as_text |= set(columns.ID_COLUMNS)
    table = None
    with suppress(ImportError):
        table = _by_arrow(path, sep, decimal, as_text)
    return _by_python(path, sep, decimal, as_text) if table is None else table


def _separator(start: str) -> str:
    """The sign that is most often in the header, outside of quotes."""
    header = re.sub(r'"[^"]*"', "", start.split("\n", 1)[0])
    return max(SEPARATORS, key=header.count)


def _decimal(start: str, sep: str) -> str:
    """The decimal sign: a comma where other signs separate cells and some hold 0,5."""
    cells = re.split(r"[\r\n" + re.escape(sep) + "]", start)
    has_commas = any(re.fullmatch(r'"?\s*[-+]?\d+,\d+\s*"?', cell) for cell in cells)
    return "," if sep != "," and has_commas else "."


def _by_arrow(
    path: Path, sep: str, decimal: str, as_text: Collection[str]
) -> columns.Columns | None:
    """The columns, read by Arrow; None where Arrow refuses the file."""
    import pyarrow as pa
    import pyarrow.csv as pc

    convert = pc.ConvertOptions(
        decimal_point=decimal,
        column_types=dict.fromkeys(as_text, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=columns.NULLS,
    )
    parse = pc.ParseOptions(delimiter=sep, newlines_in_values=True)
    try:
        with columns.native(path) as file:
            threads = pc.ReadOptions(use_threads=file.size() > columns.BLOCK)
            table = pc.read_csv(file, threads, parse, convert_options=convert)
    except pa.ArrowException:
        return None
    if any(map(pa.types.is_binary, table.schema.types)):
        return None
    return columns.Columns(
        str(path),
        {
            name: _array(column, f"{path}: column {name!r}")
            for name, column in zip(table.column_names, table.columns, strict=True)
        },
    )


def _array(column: Any, what: str) -> np.ndarray:
    """A column of Arrow as NumPy; times as UTC in microseconds."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type) or column.null_count:
        return columns.to_numpy(column, what)
    # Arrow's own way imports pandas where it is installed.
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return columns.to_numpy(micros.cast(pa.int64()), what).view("datetime64[us]")


def _by_python(
    path: Path, sep: str, decimal: str, as_text: Collection[str]
) -> columns.Columns:
    """The columns, read without Arrow, ten times slower."""
    text = reading.text(path, "a table")
    csv.field_size_limit(max(csv.field_size_limit(), min(len(text), 2**31 - 1)))
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=sep)
        rows = [row for row in lines if row]
    except csv.Error as error:
        raise InputError(
            f"{path}: must be a CSV file with a header; it is cut, damaged or of "
            f"another type ({reason(error)})."
        ) from error
    header, *rows = rows
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(
                f"{path}: rows must be equally long; row {number} has {len(row)} "
                f"cells and the header {len(header)}: {quote(sep.join(row))}."
            )
    data = {}
    for at, name in enumerate(header):
        cells = [row[at] for row in rows]
        data[name] = _typed(cells, decimal, text=name in as_text)
    return columns.Columns(str(path), data)


def _typed(cells: Sequence[str], decimal: str, *, text: bool) -> np.ndarray:
    """Cells as integers, truth values, floats or text; empty ones are NaN among floats
    and None elsewhere.
    """
    values = [None if cell in columns.NULLS else cell for cell in cells]
    # Python, unlike others, reads 1_000
    if text or any("_" in cell for cell in cells):
        return np.array(values, dtype=object)
    if None not in values:
        with suppress(ValueError, OverflowError):
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        with suppress(KeyError):
            return np.array([columns.TRUTHS[cell] for cell in cells])
    with suppress(ValueError):
        return np.array(
            [
                np.nan if value is None else float(value.replace(decimal, "."))
                for value in values
            ]
        )
    return np.array(values, dtype=object)
