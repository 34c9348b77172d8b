"""Ids -> their rows among other ids, the first repeated id, and groups of equal ids.

Every id has a key, an integer of 64 bits: an integer is its own key, text is hashed. Keys are sorted and compared much
faster than text. Every match is checked against the ids themselves, so a collision costs time but no correctness.
"""

import numpy as np

from deepval.arrays import Int, Shaped

DENSE = 4
"""Integer ids are looked up in a table of their range where the range is smaller than so many times their number."""
HASHED_AT_ONCE = 1 << 14
"""Ids that are hashed at once: few enough for the processor's cache."""


def as_text(ids: Shaped[np.ndarray, "input"]) -> Shaped[np.ndarray, "input"]:
    """Ids as text, integers in decimal."""
    return ids if ids.dtype.kind == "U" else ids.astype(str)


def positions(queries: Shaped[np.ndarray, "query"], ids: Shaped[np.ndarray, "input"]) -> Int[np.ndarray, "query"]:
    """Row of each queried id among `ids`, which must be distinct; -1 where it is absent."""
    if queries.dtype.kind != ids.dtype.kind:
        queries, ids = as_text(queries), as_text(ids)
    if len(queries) == len(ids) and bool(np.all(queries == ids)):
        return np.arange(len(ids))
    if not len(ids):
        return np.full(len(queries), -1)
    if _dense(ids):
        return _rows_by_table(queries, ids)
    return _rows_by_key(queries, ids)


def first_repeat(ids: Shaped[np.ndarray, "input"]) -> tuple[int, int] | None:
    """Rows of the first repeated id, the earlier row first; None where all ids differ."""
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


def groups(ids: Shaped[np.ndarray, "input"]) -> tuple[Shaped[np.ndarray, "group"], Int[np.ndarray, "input"]]:
    """The distinct ids sorted as text, and the index of each row's id among them."""
    starts = np.flatnonzero(
        np.concatenate([[True], ids[1:] != ids[:-1]])
    )  # equal ids are mostly adjacent: one comparison per run
    heads = ids[starts]
    _, first, head_group = np.unique(keys_of(heads), return_index=True, return_inverse=True)
    if ids.dtype.kind == "U" and not bool(np.all(heads[first][head_group] == heads)):  # two texts share a hash
        _, first, head_group = np.unique(heads, return_index=True, return_inverse=True)
    names = as_text(heads[first])
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return names[order], np.repeat(rank[head_group], np.diff(np.append(starts, len(ids))))


def _dense(ids: Shaped[np.ndarray, "input"]) -> bool:
    return ids.dtype.kind == "i" and int(ids.max()) - int(ids.min()) < DENSE * len(ids)


def _rows_by_table(queries: Int[np.ndarray, "query"], ids: Int[np.ndarray, "input"]) -> Int[np.ndarray, "query"]:
    """Row of each queried integer, from a table over the range of `ids`."""
    low, high = ids.min(), ids.max()
    row = np.full(int(high) - int(low) + 1, -1)
    row[ids - low] = np.arange(len(ids))
    inside = (queries >= low) & (queries <= high)
    if inside.all():
        return row[queries - low]
    return np.where(inside, row[np.where(inside, queries, low) - low], -1)


def _rows_by_key(queries: Shaped[np.ndarray, "query"], ids: Shaped[np.ndarray, "input"]) -> Int[np.ndarray, "query"]:
    """Row of each queried id by its key. Both sides are sorted, so the lookup passes through memory once."""
    query_keys, keys = keys_of(queries), keys_of(ids)
    order, ascending = np.argsort(query_keys), np.argsort(keys)
    query_keys, keys = query_keys[order], keys[ascending]
    at = np.minimum(np.searchsorted(keys, query_keys), len(ids) - 1)
    rows, hit = np.empty(len(queries), dtype=np.int64), np.empty(len(queries), dtype=bool)
    rows[order], hit[order] = ascending[at], keys[at] == query_keys
    same = hit if ids.dtype.kind == "i" else ids[rows] == queries
    if not bool(np.all(same == hit)):  # two texts share a hash: search the texts themselves
        ascending = np.argsort(ids, kind="stable")
        rows = ascending[np.minimum(np.searchsorted(ids[ascending], queries), len(ids) - 1)]
        same = ids[rows] == queries
    return np.where(same, rows, -1)


def keys_of(ids: Shaped[np.ndarray, "input"], seed: int = 0) -> Int[np.ndarray, "input"]:
    """Key of each id, an integer of 64 bits; equal ids have equal keys in arrays of any width."""
    if ids.dtype.kind != "U":
        return ids
    width = ids.dtype.itemsize // 4
    characters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), width)
    # Odd multipliers modulo 2^64: padding with NUL adds nothing, so the key does not depend on the width.
    odd = np.random.default_rng(seed).integers(0, 2**63, width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(ids), dtype=np.uint64)
    for first in range(0, len(ids), HASHED_AT_ONCE):
        part = slice(first, first + HASHED_AT_ONCE)
        keys[part] = characters[part].astype(np.uint64) @ odd
    return keys.view(np.int64)
