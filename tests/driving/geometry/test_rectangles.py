"""Clearance of rectangles: against shapely where they are apart, against a search over
shifts where they overlap.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.driving.geometry.vehicle import clearance_m, ground_corners_m

shapely = pytest.importorskip("shapely", reason="the extra `planners` has shapely")

place = st.floats(-8, 8, allow_subnormal=False)
size = st.floats(0.2, 6, allow_subnormal=False)
yaw = st.one_of(st.floats(-4, 4), st.sampled_from([0.0, np.pi / 2, np.pi]))
rectangle = st.tuples(place, place, size, size, yaw)


def corners(*rectangles):
    rows = np.array(rectangles, dtype=float)
    return ground_corners_m(rows[:, :2], rows[:, 2:4], yaw_rad=rows[:, 4])


def shapes(corners_m):
    return shapely.polygons(corners_m)


@given(rectangle, rectangle)
def test_distance_is_shapelys_and_overlap_has_a_sign_of_its_own(one, other):
    a, b = corners(one), corners(other)
    found, expected = clearance_m(a, b)[0], shapely.distance(shapes(a), shapes(b))[0]
    assert max(found, 0.0) == pytest.approx(expected, abs=1e-9)
    if shapely.area(shapely.intersection(shapes(a), shapes(b)))[0] > 1e-9:
        assert found < 0


@given(rectangle, rectangle)
def test_penetration_is_the_least_shift_that_parts(one, other):
    """Among shifts in 720 directions none shorter parts them, and the one found
    does.
    """
    a, b = corners(one), corners(other)
    depth = -clearance_m(a, b)[0]
    if depth <= 1e-6:
        return
    angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    ways = np.column_stack([np.cos(angle), np.sin(angle)])
    shorter = a[0] + 0.999 * depth * ways[:, None, :]
    assert shapely.intersects(shapes(shorter), shapes(b)[0]).all()
    sides = np.concatenate([a[0, 1:3] - a[0, :2], b[0, 1:3] - b[0, :2]])
    axes = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    enough = a[0] + 1.001 * depth * np.concatenate([axes, -axes])[:, None, :]
    assert not shapely.intersects(shapes(enough), shapes(b)[0]).all()


@given(rectangle, rectangle)
def test_it_is_the_same_from_both_sides_and_whichever_way_around_the_corners_are(
    one, other
):
    a, b = corners(one), corners(other)
    found = clearance_m(a, b)
    np.testing.assert_allclose(clearance_m(b, a), found, atol=1e-12)
    np.testing.assert_allclose(clearance_m(a[:, ::-1], b), found, atol=1e-12)


def test_by_hand_and_many_at_once():
    still = corners((0, 0, 4, 2, 0))[0]
    others = corners(
        (5, 0, 4, 2, 0),
        (3, 0, 4, 2, 0),
        (4, 0, 4, 2, 0),
        (5, 4, 2, 2, 0),
        (0, 0, 1, 1, 0),
    )
    # Ahead by 1 m, into it by 1 m, touching, diagonal (2, 2), and within: 1.5 m
    # sideways part them.
    np.testing.assert_allclose(
        clearance_m(still, others), [1, -1, 0, np.hypot(2, 2), -1.5]
    )
    assert clearance_m(still[None, None], others[:, None]).shape == (5, 1)
    assert clearance_m(np.zeros((0, 4, 2)), still).shape == (0,)
