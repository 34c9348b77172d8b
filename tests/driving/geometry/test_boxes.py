import numpy as np
import pytest

from deepval.driving.geometry.boxes import (
    area_px2,
    best_partner,
    covered_share,
    frame_pairs,
    iou,
)
from driving import random_boxes
from reference import driving as slow


def box(*corners):
    return np.array([corners], dtype=float)


def test_iou_by_hand():
    assert iou(box(0, 0, 10, 10), box(5, 0, 15, 10)).tolist() == pytest.approx(
        [50 / (100 + 100 - 50)]
    )
    assert covered_share(
        box(0, 0, 10, 10), box(0, 0, 100, 3)
    ).tolist() == pytest.approx([30 / 100])
    assert area_px2(box(3, 3, 2, 9)).tolist() == [0]


def test_iou_equals_the_slow_twin():
    rng = np.random.default_rng(1)
    a, b = random_boxes(rng, 50), random_boxes(rng, 50)
    found = iou(a[:, None], b[None])
    expected = [[slow.iou(x, y) for y in b.tolist()] for x in a.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.size >= 2000


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_frame_pairs_are_all_pairs_at_that_lag(lag):
    rng = np.random.default_rng(2)
    for _ in range(200):
        first = np.sort(rng.integers(0, 6, rng.integers(0, 9)))
        second = np.sort(rng.integers(0, 6, rng.integers(0, 9)))
        pairs = frame_pairs(first, second, lag=lag)
        expected = [
            (i, j)
            for i, f in enumerate(first)
            for j, s in enumerate(second)
            if s == f - lag
        ]
        assert (
            list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
            == expected
        )


def test_best_partner_takes_the_highest_overlap_and_of_equals_the_first():
    pairs = frame_pairs(np.array([0, 0, 1]), np.array([0, 0, 0]))
    best = best_partner(pairs, np.array([0.2, 0.7, 0.7, 0.1, 0.0, 0.3]), 3)
    assert best.place.tolist() == [1, 2, -1]
    assert best.overlap.tolist() == [0.7, 0.3, 0.0]
