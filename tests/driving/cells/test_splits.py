"""Splits depend on names alone, and KITTI's comes out as published."""

import hashlib

import pytest

from deepval.basics.errors import InputError
from deepval.judge.tables.split import split

KITTI = [f"{unit:04d}" for unit in range(21)]


def test_kitti_test_units_are_those_of_the_definition():
    found = split("kitti", KITTI)
    assert found.test == ("0003", "0006", "0007", "0012", "0017", "0018")
    assert (len(found.validation), len(found.train)) == (3, 12)


def test_order_and_repetition_of_the_list_do_not_matter():
    assert split("kitti", KITTI[::-1] + KITTI[:3]) == split("kitti", KITTI)


def test_units_are_sorted_by_their_hash():
    found = split("synthetic", [f"scene-{i:02d}" for i in range(48)])
    hashes = {
        u: hashlib.sha256(f"deepval:synthetic:{u}".encode()).hexdigest()
        for u in (*found.fit, *found.test)
    }
    assert max(hashes[u] for u in found.test) < min(hashes[u] for u in found.validation)
    assert max(hashes[u] for u in found.validation) < min(
        hashes[u] for u in found.train
    )
    # 13.68, 7.2, rest
    assert (len(found.test), len(found.validation), len(found.train)) == (14, 7, 27)


def test_the_hash_changes_with_the_split():
    one, other = split("kitti", KITTI), split("kitti", KITTI, test_units=5)
    assert one.digest != other.digest
    assert one.digest in one.to_json()


@pytest.mark.parametrize(
    ("units", "options"),
    [
        ("", {}),
        ("ab", {"test_units": 1}),
        ("abcd", {"test_units": 3}),
        ("abcd", {"test_units": 0}),
    ],
)
def test_a_split_needs_units_of_every_kind(units, options):
    with pytest.raises(InputError, match="A split needs"):
        split("x", units, **options)
