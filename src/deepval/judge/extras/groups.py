"""A column of a table -> groups of inputs: by value, between edges, or by quartile.

Text and columns of few distinct numbers are divided by value, other numbers by edges
(`speed:0,5,10`) or by quartiles of the judged inputs.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError, argument, quote
from deepval.judge.group_tables import label_of
from deepval.judge.tables.values import ValueTable

MOST_GROUPS = 24
MOST_DISTINCT_NUMBERS = 8
"""Columns of more distinct numbers are divided by quartiles."""

Group = tuple[str, Bool[np.ndarray, "input"]]
"""Label and members."""


def groups(table: ValueTable, by: str) -> Iterator[Group]:
    """Label and members of every group, in the order of the values."""
    name, _, edges = by.partition(":")
    if name not in table.attributes:
        available = ", ".join(table.attributes) or "no further columns"
        raise InputError(
            f"{argument('by')} needs a column of the table; found {name!r}, the table "
            f"has {available}."
        )
    column = np.asarray(table.attributes[name])
    if edges:
        return _groups_between(name, _numbers(column, name), _edges(edges, name))
    is_number = column.dtype.kind in "fiu"
    if is_number and len(np.unique(column)) > MOST_DISTINCT_NUMBERS:
        numbers = _numbers(column, name)
        # Quartiles of a column with many equal numbers may be equal: fewer groups then.
        quartiles = np.unique(np.quantile(numbers, [0.25, 0.5, 0.75]))
        return _groups_between(name, numbers, quartiles)
    return _groups_by_value(name, column)


def _groups_by_value(name: str, column: np.ndarray) -> Iterator[Group]:
    if column.dtype.kind == "O":
        _refuse_collections(name, column)
    if column.dtype.kind == "f":
        column = column + 0.0  # -0.0 is 0.0
    labels = np.array([label_of(value) for value in column])
    values = labels
    if column.dtype.kind in "iubf":
        # Numbers are ordered as numbers, so that 10 comes after 9.
        values = column
    _, first = np.unique(values, return_index=True)
    if len(first) > MOST_GROUPS:
        raise InputError(
            f"{argument('by', name)}: at most {MOST_GROUPS} groups can be shown; found "
            f"{len(first)} different values."
        )
    for label in labels[first]:
        yield f"{name}={label}", labels == label


def _refuse_collections(name: str, column: np.ndarray) -> None:
    """Raise where a row holds several values."""
    for row, value in enumerate(column):
        if np.ndim(value) or isinstance(value, dict | set):
            raise InputError(
                f"{argument('by', name)}: the column must hold a text or a number in "
                "every row; "
                f"row {row + 1} holds {quote(value)}."
            )


def _groups_between(
    name: str, numbers: Float[np.ndarray, "input"], edges: Float[np.ndarray, "edge"]
) -> Iterator[Group]:
    group = np.searchsorted(edges, numbers, side="right")
    bounds = [f"{edge:g}" for edge in edges]
    labels = [f"{name}<{bounds[0]}"]
    labels += [f"{low}<={name}<{high}" for low, high in pairwise(bounds)]
    labels.append(f"{name}>={bounds[-1]}")
    for index, label in enumerate(labels):
        members = group == index
        # No input lies between some edges, so there is nothing to judge.
        if members.any():
            yield label, members


def _edges(text: str, name: str) -> Float[np.ndarray, "edge"]:
    try:
        edges = np.unique([float(part) for part in text.split(",")])
    except ValueError:
        edges = np.array([np.nan])
    if not np.isfinite(edges).all():
        raise InputError(
            f"{argument('by', name)}: edges must be numbers with commas, "
            f"such as {name}:5,10; found {text!r}."
        )
    return edges


def _numbers(column: np.ndarray, name: str) -> Float[np.ndarray, "input"]:
    is_number = column.dtype.kind in "fiu"
    if not is_number or np.isnan(column.astype(float)).any():
        raise InputError(
            f"{argument('by', name)}: a column that is cut at edges must hold "
            "numbers only."
        )
    return column.astype(float)
