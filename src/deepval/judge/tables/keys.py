"""A column of anything -> an array of numbers or ids; ids -> their rows among others,
repeated ids, groups.

Every id has a key, an integer of 64 bits: an integer is its own key, text is hashed.
Keys are sorted and compared much faster than text. Every match is checked against the
ids themselves, so a collision costs time but no correctness.
"""

import math
import re
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from deepval.basics.arrays import Ids, InputFlags, InputFloats, InputInts, Int, Shaped
from deepval.basics.errors import InputError, quote, reason

DENSE = 4
"""Integer ids are looked up in a table of their range where the range is smaller than
so many times their number.
"""
LONGEST_ID, LARGEST_IDS = 1_000, 2**33
"""Most characters of an id, and most bytes of a column of ids: every id takes as much
room as the longest.
"""
HASHED_AT_ONCE = 1 << 14
"""Ids that are hashed at once: few enough for the processor's cache."""


def as_text(ids: Ids) -> Ids:
    """Ids as text, integers in decimal."""
    return ids if ids.dtype.kind == "U" else ids.astype(str)


def positions(
    queries: Shaped[np.ndarray, "query"], ids: Ids
) -> Int[np.ndarray, "query"]:
    """Row of each queried id among `ids`, which must be distinct; -1 where it is
    absent.
    """
    if queries.dtype.kind != ids.dtype.kind:
        queries, ids = as_text(queries), as_text(ids)
    if len(queries) == len(ids) and bool(np.all(queries == ids)):
        return np.arange(len(ids))
    if not len(ids):
        return np.full(len(queries), -1)
    if _dense(ids):
        return _rows_by_table(queries, ids)
    return _rows_by_key(queries, ids)


def first_repeat(ids: Ids) -> tuple[int, int] | None:
    """Rows of the first repeated id, the earlier row first; None where all ids
    differ.
    """
    if len(ids) < 2 or bool(np.all(ids[1:] > ids[:-1])):
        return None
    if _dense(ids) and np.bincount(ids - ids.min()).max() == 1:
        return None
    keys = np.sort(keys_of(ids))
    if bool(np.all(keys[1:] != keys[:-1])):
        return None
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if not len(same):
        return None
    at = same[np.argmin(order[same + 1])]
    return int(order[at]), int(order[at + 1])


def groups(
    ids: Ids,
) -> tuple[Shaped[np.ndarray, "group"], InputInts]:
    """The distinct ids sorted as text, and the index of each row's id among them."""
    starts = np.flatnonzero(
        np.concatenate([[True], ids[1:] != ids[:-1]])
    )  # equal ids are mostly adjacent: one comparison per run
    heads = ids[starts]
    _, first, head_group = np.unique(
        keys_of(heads), return_index=True, return_inverse=True
    )
    # two texts share a hash
    if ids.dtype.kind == "U" and not bool(np.all(heads[first][head_group] == heads)):
        _, first, head_group = np.unique(heads, return_index=True, return_inverse=True)
    names = as_text(heads[first])
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return names[order], np.repeat(
        rank[head_group], np.diff(np.append(starts, len(ids)))
    )


def _dense(ids: Ids) -> bool:
    return ids.dtype.kind == "i" and int(ids.max()) - int(ids.min()) < DENSE * len(ids)


def _rows_by_table(
    queries: Int[np.ndarray, "query"], ids: InputInts
) -> Int[np.ndarray, "query"]:
    """Row of each queried integer, from a table over the range of `ids`."""
    low, high = ids.min(), ids.max()
    row = np.full(int(high) - int(low) + 1, -1)
    row[ids - low] = np.arange(len(ids))
    inside = (queries >= low) & (queries <= high)
    if inside.all():
        return row[queries - low]
    return np.where(inside, row[np.where(inside, queries, low) - low], -1)


def _rows_by_key(
    queries: Shaped[np.ndarray, "query"], ids: Ids
) -> Int[np.ndarray, "query"]:
    """Row of each queried id by its key.

    Both sides are sorted, so the lookup passes through memory once.
    """
    query_keys, keys = keys_of(queries), keys_of(ids)
    order, ascending = np.argsort(query_keys), np.argsort(keys)
    query_keys, keys = query_keys[order], keys[ascending]
    at = np.minimum(np.searchsorted(keys, query_keys), len(ids) - 1)
    rows, hit = (
        np.empty(len(queries), dtype=np.int64),
        np.empty(len(queries), dtype=bool),
    )
    rows[order], hit[order] = ascending[at], keys[at] == query_keys
    same = hit if ids.dtype.kind == "i" else ids[rows] == queries
    # two texts share a hash: search the texts themselves
    if not bool(np.all(same == hit)):
        ascending = np.argsort(ids, kind="stable")
        rows = ascending[
            np.minimum(np.searchsorted(ids[ascending], queries), len(ids) - 1)
        ]
        same = ids[rows] == queries
    return np.where(same, rows, -1)


def keys_of(ids: Ids, seed: int = 0) -> InputInts:
    """Key of each id, an integer of 64 bits; equal ids have equal keys in arrays of any
    width.
    """
    if ids.dtype.kind != "U":
        return ids
    width = ids.dtype.itemsize // 4
    characters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), width)
    # Odd multipliers modulo 2^64: padding with NUL adds nothing, so the key does not
    # depend on the width.
    odd = np.random.default_rng(seed).integers(
        0, 2**63, width, dtype=np.uint64
    ) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(ids), dtype=np.uint64)
    for first in range(0, len(ids), HASHED_AT_ONCE):
        part = slice(first, first + HASHED_AT_ONCE)
        keys[part] = characters[part].astype(np.uint64) @ odd
    return keys.view(np.int64)


def as_array(
    column: Any, what: str, *, axes: int = 1
) -> Shaped[np.ndarray, "input ..."]:
    """A column as an array of one dimension (or up to `axes`); masked entries are
    None.
    """
    if isinstance(column, np.ma.MaskedArray):
        hidden, column = (
            np.ma.getmaskarray(column),
            np.array(np.ma.getdata(column), dtype=object),
        )
        column[hidden] = None
    try:
        array = np.asarray(column)
    except (ValueError, TypeError, RuntimeError, MemoryError) as error:
        raise InputError(
            f"{what} must be an array of one dimension; {reason(error)}."
        ) from error
    if not 1 <= array.ndim <= axes:
        raise InputError(f"{what} must have one dimension; found shape {array.shape}.")
    if (
        array.dtype.kind == "U"
        and isinstance(column, list | tuple)
        and not all(isinstance(v, str) for v in column)
    ):
        # NumPy would convert a NaN among ids to the text "nan"
        array = np.array(column, dtype=object)
    return array


def id_array(column: Any, what: str, *, ids: Any = None) -> Ids:
    """Ids as an array of text or int64; text and integers of the same spelling are the
    same id.
    """
    array = as_array(column, what)
    if array.dtype.kind in "iu":
        fits = array.dtype.kind == "i" or array.max(initial=0) <= np.iinfo(np.int64).max
        return array.astype(np.int64 if fits else str, copy=False)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "OT":
        if set(map(type, array)) != {str}:
            for row, value in enumerate(array):
                if not isinstance(value, str | int | np.integer) or isinstance(
                    value, bool
                ):
                    raise InputError(
                        f"{what} must hold "
                        f"text or integers; {row_name(row, ids)} holds {quote(value)}."
                    )
        _refuse_long(array, what, ids)
        return array.astype(str)
    raise InputError(f"{what} must hold text or integers; found {array.dtype}.")


def _refuse_long(values: Ids, what: str, ids: Any) -> None:
    """Raise where an id is so long that the array of ids would fill the memory."""
    lengths = np.fromiter(
        (len(str(value)) for value in values), dtype=np.int64, count=len(values)
    )
    row = int(np.argmax(lengths)) if len(lengths) else 0
    if len(lengths) and (
        lengths[row] > LONGEST_ID or 4 * int(lengths[row]) * len(values) > LARGEST_IDS
    ):
        most = min(LONGEST_ID, LARGEST_IDS // (4 * len(values)))
        raise InputError(
            f"{what} must hold ids of at most {most:,} characters; "
            f"{row_name(row, None)} holds {lengths[row]:,}, {quote(values[row])}."
        )


def number_array(column: Any, what: str, *, ids: Any = None) -> InputFloats:
    """Numbers as float64; nulls become NaN, and any other value that is not a number is
    an error with its row.
    """
    values = as_array(column, what)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind not in "OUT":
        raise InputError(f"{what} must hold numbers; found {values.dtype}.")
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = _number(value)
        except (TypeError, ValueError, OverflowError):
            comma = isinstance(value, str) and re.fullmatch(
                r"\s*[-+]?\d+,\d+\s*", value
            )
            advice = (
                (f" That is a decimal comma: write {value.strip().replace(',', '.')}.")
                if comma
                else ""
            )
            raise InputError(
                f"{what} must "
                f"hold numbers; {row_name(row, ids)} holds {quote(value)}.{advice}"
            ) from None
    return numbers


RIGHT_OR_WRONG = {
    **dict.fromkeys(("true", "correct", "right", "yes"), 1.0),
    **dict.fromkeys(("false", "incorrect", "wrong", "no"), 0.0),
    **dict.fromkeys(("", "nan", "none"), math.nan),
}
"""Words for right and wrong answers, and for a missing one."""


def quality_array(column: Any, what: str, *, ids: Any = None) -> InputFloats:
    """Rewards as float64: numbers, right and wrong in words, or percentages (85 %)."""
    values = as_array(column, what)
    if values.dtype.kind not in "fiub":
        values = np.array([_quality(value) for value in values.tolist()], dtype=object)
    return number_array(values, what, ids=ids)


def _quality(value: Any) -> Any:
    """A quality as a number, where it is a word or a percentage."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text in RIGHT_OR_WRONG:
        return RIGHT_OR_WRONG[text]
    percent = re.fullmatch(r"([-+]?\d+(?:\.\d+)?)\s*%", text)
    return value if percent is None else float(percent[1]) / 100


def _number(value: Any) -> float:
    if value is None:
        return np.nan
    if not isinstance(value, str | Real | Decimal | np.bool_) or (
        isinstance(value, str) and "_" in value
    ):
        raise TypeError
    return float(value)


def row_name(row: int, ids: Any = None) -> str:
    """Position of a row in messages, such as 'row 3 (input 17)'; data rows are counted
    from 1.
    """
    if ids is None or row >= len(ids):
        return f"row {row + 1}"
    return f"row {row + 1} (input {quote(str(ids[row]))})"


def refuse_rows(
    bad: InputFlags,
    values: Ids,
    requirement: str,
    ids: Any = None,
) -> None:
    """Raise where a value is bad; the error names the first and counts the others."""
    rows = np.flatnonzero(bad)
    if len(rows) == 0:
        return
    more = ""
    if len(rows) > 1:
        more = f", and {len(rows) - 1} more are like it"
    first = int(rows[0])
    raise InputError(
        f"{requirement}; {row_name(first, ids)} holds {quote(values[first])}{more}."
    )
