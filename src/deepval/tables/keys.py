"""Ids -> where each stands among others, which of them stands twice, and their groups.

An id becomes a whole number of 64 bits: integers are their own, text is hashed. Numbers are sorted and compared much
faster than text, and every match is checked against the ids themselves, so a collision costs time and never a row.
"""

import numpy as np

from deepval.arrays import Int, Shaped

DENSE = 4
"""Integers that fill at least one in so many places of their range are looked up in a table of that range."""
HASHED_AT_ONCE = 1 << 14
"""Ids whose characters are worked on in one go, few enough for the cache."""


def as_text(ids: Shaped[np.ndarray, "input"]) -> Shaped[np.ndarray, "input"]:
    """Ids as text, integers in decimal."""
    return ids if ids.dtype.kind == "U" else ids.astype(str)


def positions(wanted: Shaped[np.ndarray, "wanted"], ids: Shaped[np.ndarray, "input"]) -> Int[np.ndarray, "wanted"]:
    """Row of each wanted id among `ids` (which differ from each other), -1 where it is absent."""
    if wanted.dtype.kind != ids.dtype.kind:
        wanted, ids = as_text(wanted), as_text(ids)
    if len(wanted) == len(ids) and bool(np.all(wanted == ids)):
        return np.arange(len(ids))
    if not len(ids):
        return np.full(len(wanted), -1)
    if _dense(ids):
        return _looked_up(wanted, ids)
    return _matched(wanted, ids)


def repeated(ids: Shaped[np.ndarray, "input"]) -> tuple[int, int] | None:
    """Rows of the first id that stands twice: where it stood before, and where again; None where all differ."""
    if len(ids) < 2 or bool(np.all(ids[1:] > ids[:-1])):
        return None
    if _dense(ids) and np.bincount(ids - ids.min()).max() == 1:
        return None
    keys = np.sort(hashed(ids))
    if bool(np.all(keys[1:] != keys[:-1])):
        return None
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if not len(same):
        return None
    at = same[np.argmin(order[same + 1])]
    return int(order[at]), int(order[at + 1])


def groups(ids: Shaped[np.ndarray, "input"]) -> tuple[Shaped[np.ndarray, "group"], Int[np.ndarray, "input"]]:
    """The different ids sorted as text, and the position of each row's among them."""
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))  # groups mostly stand together
    heads = ids[starts]
    first, of_head = _distinct(heads)
    names = as_text(heads[first])
    order = np.argsort(names, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return names[order], np.repeat(place[of_head], np.diff(np.append(starts, len(ids))))


def _distinct(ids: Shaped[np.ndarray, "row"]) -> tuple[Int[np.ndarray, "group"], Int[np.ndarray, "row"]]:
    """A row of each different id, and which of them each row is the same as."""
    _, first, inverse = np.unique(hashed(ids), return_index=True, return_inverse=True)
    if ids.dtype.kind == "U" and not bool(np.all(ids[first][inverse] == ids)):
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return first, inverse


def _dense(ids: Shaped[np.ndarray, "input"]) -> bool:
    return ids.dtype.kind == "i" and int(ids.max()) - int(ids.min()) < DENSE * len(ids)


def _looked_up(wanted: Int[np.ndarray, "wanted"], ids: Int[np.ndarray, "input"]) -> Int[np.ndarray, "wanted"]:
    """Rows of integers that fill their range."""
    low, high = ids.min(), ids.max()
    row = np.full(int(high) - int(low) + 1, -1)
    row[ids - low] = np.arange(len(ids))
    inside = (wanted >= low) & (wanted <= high)
    if inside.all():
        return row[wanted - low]
    return np.where(inside, row[np.where(inside, wanted, low) - low], -1)


def _matched(wanted: Shaped[np.ndarray, "wanted"], ids: Shaped[np.ndarray, "input"]) -> Int[np.ndarray, "wanted"]:
    """Rows of ids by their keys: both are sorted, so that looking one up in the other goes through memory once."""
    key, known = hashed(wanted), hashed(ids)
    order, ascending = np.argsort(key), np.argsort(known)
    key, known = key[order], known[ascending]
    at = np.minimum(np.searchsorted(known, key), len(ids) - 1)
    found, hit = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted), dtype=bool)
    found[order], hit[order] = ascending[at], known[at] == key
    same = hit if ids.dtype.kind == "i" else ids[found] == wanted
    if not bool(np.all(same == hit)):  # two texts of one hash
        ascending = np.argsort(ids, kind="stable")
        found = ascending[np.minimum(np.searchsorted(ids[ascending], wanted), len(ids) - 1)]
        same = ids[found] == wanted
    return np.where(same, found, -1)


def hashed(ids: Shaped[np.ndarray, "input"], seed: int = 0) -> Int[np.ndarray, "input"]:
    """A number of 64 bits for each id, the same for equal ids whatever the width of their array."""
    if ids.dtype.kind != "U":
        return ids
    width = ids.dtype.itemsize // 4
    characters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), width)
    odd = np.random.default_rng(seed).integers(0, 2**63, width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(ids), dtype=np.uint64)
    for first in range(0, len(ids), HASHED_AT_ONCE):
        part = slice(first, first + HASHED_AT_ONCE)
        keys[part] = characters[part].astype(np.uint64) @ odd
    return keys.view(np.int64)
