"""Result -> CSV: every field of every row and slice, unrounded; undefined is empty."""

import csv
import io

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


def _cell(value: object) -> object:
    """The value; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else "" if value is None else value
