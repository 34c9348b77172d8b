"""Ids are found, counted and grouped by keys as they are by comparing the ids
themselves.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.judge.tables import keys

TEXT = st.lists(st.text(alphabet="ab\u00e901", max_size=4), min_size=1, max_size=30)
WHOLE = st.lists(
    st.integers(-(2**62), 2**62) | st.integers(-5, 20), min_size=1, max_size=30
)


def arrays(values: list) -> np.ndarray:
    return (
        np.array(values)
        if isinstance(values[0], str)
        else np.array(values, dtype=np.int64)
    )


@given(st.one_of(st.tuples(TEXT, TEXT), st.tuples(WHOLE, WHOLE)))
def test_positions_are_those_of_a_dictionary(given_ids):
    wanted, ids = arrays(given_ids[0]), arrays(list(dict.fromkeys(given_ids[1])))
    place = {value: row for row, value in enumerate(ids.tolist())}
    assert keys.positions(wanted, ids).tolist() == [
        place.get(value, -1) for value in wanted.tolist()
    ]


@given(st.one_of(TEXT, WHOLE))
def test_the_first_id_that_stands_twice_is_found(values):
    ids = arrays(values)
    seen, expected = {}, None
    for row, value in enumerate(ids.tolist()):
        if value in seen:
            expected = (seen[value], row)
            break
        seen[value] = row
    assert keys.first_repeat(ids) == expected


@given(st.one_of(TEXT, WHOLE))
def test_groups_are_sorted_as_text(values):
    ids = arrays(values)
    names, place = keys.groups(ids)
    assert names.tolist() == sorted(set(map(str, ids.tolist())))
    assert [names[at] for at in place] == [str(value) for value in ids.tolist()]


def test_integers_and_text_of_one_spelling_are_the_same_id():
    assert keys.positions(np.array(["2", "02", "3"]), np.array([3, 2])).tolist() == [
        1,
        -1,
        0,
    ]


@pytest.fixture
def colliding(monkeypatch):
    """All texts have one key, as if every hash collided."""
    own = keys.keys_of
    monkeypatch.setattr(
        keys,
        "keys_of",
        lambda ids: np.zeros(len(ids), np.int64) if ids.dtype.kind == "U" else own(ids),
    )


@pytest.mark.usefixtures("colliding")
def test_texts_of_one_hash_are_told_apart():
    ids = np.array(["c", "a", "b"])
    assert keys.positions(np.array(["b", "x", "c"]), ids).tolist() == [2, -1, 0]
    assert keys.first_repeat(ids) is None
    assert keys.first_repeat(np.array(["c", "a", "c"])) == (0, 2)
    names, place = keys.groups(np.array(["b", "a", "b"]))
    assert (names.tolist(), place.tolist()) == (["a", "b"], [1, 0, 1])
