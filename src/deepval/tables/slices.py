"""A column of a table -> groups of inputs that are judged separately.

Text and columns of few distinct numbers are grouped by value; other numbers by edges (`speed:0,5,10`), or by quartiles
of the judged inputs.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from deepval.arrays import Bool, Float
from deepval.errors import InputError, quote
from deepval.tables.values import ValueTable

MOST_GROUPS = 24
FEW_NUMBERS = 8


def groups(table: ValueTable, by: str) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    """Label and members of every group, in the order of the values."""
    name, _, edges = by.partition(":")
    if name not in table.attributes:
        available = ", ".join(table.attributes) or "no further columns"
        raise InputError(f"--by needs a column of the table; found {name!r}, the table has {available}.")
    column = np.asarray(table.attributes[name])
    if edges:
        yield from _groups_by_edges(name, _numbers(column, name), _edges(edges, name))
    elif column.dtype.kind in "fiu" and len(np.unique(column)) > FEW_NUMBERS:
        numbers = _numbers(column, name)
        yield from _groups_by_edges(name, numbers, np.unique(np.quantile(numbers, [0.25, 0.5, 0.75])))
    else:
        yield from _groups_by_value(name, column)


def _groups_by_value(name: str, column: np.ndarray) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    objects = column if column.dtype.kind == "O" else ()
    odd = next((row for row, value in enumerate(objects) if np.ndim(value) or isinstance(value, dict | set)), None)
    if odd is not None:
        raise InputError(
            f"--by {name}: the column must hold a text or a number in every row; row {odd + 1} holds "
            f"{quote(column[odd])}."
        )
    column = column + 0.0 if column.dtype.kind == "f" else column  # -0.0 is 0.0
    labels = np.array(["(none)" if value is None or value != value else str(value) for value in column])
    _, first = np.unique(column if column.dtype.kind in "iubf" else labels, return_index=True)
    if len(first) > MOST_GROUPS:
        raise InputError(
            f"--by {name}: at most {MOST_GROUPS} groups can be shown; found {len(first)} different values."
        )
    for label in labels[first]:
        yield f"{name}={label}", labels == label


def _groups_by_edges(
    name: str, numbers: Float[np.ndarray, "input"], edges: Float[np.ndarray, "edge"]
) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    bins = np.searchsorted(edges, numbers, side="right")
    bounds = [f"{edge:g}" for edge in edges]
    labels = [
        f"{name}<{bounds[0]}",
        *(f"{a}<={name}<{b}" for a, b in pairwise(bounds)),
        f"{name}>={bounds[-1]}",
    ]
    for index, label in enumerate(labels):
        if np.any(bins == index):
            yield label, bins == index


def _edges(text: str, name: str) -> Float[np.ndarray, "edge"]:
    try:
        edges = np.unique([float(part) for part in text.split(",")])
    except ValueError:
        edges = np.array([np.nan])
    if not np.isfinite(edges).all():
        raise InputError(f"--by {name}: edges must be numbers with commas, such as {name}:5,10; found {text!r}.")
    return edges


def _numbers(column: np.ndarray, name: str) -> Float[np.ndarray, "input"]:
    if column.dtype.kind not in "fiu" or np.isnan(column.astype(float)).any():
        raise InputError(f"--by {name}: a column that is cut at edges must hold numbers only.")
    return column.astype(float)
