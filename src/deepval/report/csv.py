"""Result -> CSV: every field of every row and slice, unrounded; undefined values are empty."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from deepval.results import Result, Row

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(result: Result) -> str:
    """The rows as CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Row.__dataclass_fields__)
    for row in (*result.rows, *result.slices):
        writer.writerow([_cell(value) for value in row.values()])
    return out.getvalue()


def records_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Records with the same fields as CSV text; the items of a list are separated by spaces."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(records[0] if records else ())
    for record in records:
        writer.writerow([_cell(_joined(value)) for value in record.values()])
    return out.getvalue()


def _joined(value: Any) -> Any:
    return " ".join("" if item is None else str(item) for item in value) if isinstance(value, list | tuple) else value


def _cell(value: object) -> object:
    """The value; text that a spreadsheet would evaluate as a formula gets a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else "" if value is None else value
