"""A CSV file of anybody -> columns: the sign between cells and the decimal sign are
read off the file.
"""

import csv
import io
import re
from collections.abc import Collection
from pathlib import Path

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.judge.tables import columns
from deepval.judge.tables.logs import names

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
    start = _start(path)
    sep = _separator(start)
    decimal = _decimal(start, sep)
    header = next(csv.reader(io.StringIO(start, newline=""), delimiter=sep), [])
    if not header:
        raise InputError(f"{path}: must be a CSV file with a header; it has none.")
    columns.refuse_equal_names(header, str(path))
    usual = {name for role in IDENTIFIERS for name in names.ROLES[role]}
    as_text = {name for name in header if names.plain(name) in usual or name in texts}
    as_text |= set(columns.ID_COLUMNS)
    return columns.read_csv(path, sep, decimal, as_text)


def separator(path: Path) -> str:
    """The sign between the cells of a CSV file."""
    return _separator(_start(path))


def _start(path: Path) -> str:
    with reading.open_file(path, "a table") as file:
        return file.read(SAMPLED).decode("utf-8-sig", "replace")


def _separator(start: str) -> str:
    """The sign that is most often in the header, outside of quotes."""
    header = re.sub(r'"[^"]*"', "", start.split("\n", 1)[0])
    return max(SEPARATORS, key=header.count)


def _decimal(start: str, sep: str) -> str:
    """The decimal sign: a comma where other signs separate cells and some hold 0,5."""
    cells = re.split(r"[\r\n" + re.escape(sep) + "]", start)
    has_commas = any(re.fullmatch(r'"?\s*[-+]?\d+,\d+\s*"?', cell) for cell in cells)
    return "," if sep != "," and has_commas else "."
