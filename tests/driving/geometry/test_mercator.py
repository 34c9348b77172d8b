"""The transverse Mercator projection: published points, the meridian's length, and
there and back.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from deepval.driving.datasets.logs.geopackage import (
    FLATTENING,
    SCALE,
    SEMI_MAJOR_M,
    utm_m,
)

PUBLISHED = [
    # Documentation of pyproj's Proj: UTM zone 10, to the millimetre.
    (10, (-120.108, 34.36116666), (765975.641, 3805993.134)),
    (10, (-119.72, 36.77), (792763.863, 4074377.617)),
    (10, (-118.40, 33.93), (925321.537, 3763936.941)),
    (10, (-122.38, 37.62), (554714.301, 4163835.303)),
]


@pytest.mark.parametrize(("zone", "degrees", "metres"), PUBLISHED)
def test_published_points_come_out_to_the_millimetre(zone, degrees, metres):
    np.testing.assert_allclose(
        utm_m(np.array(degrees), zone), metres, atol=5.1e-4, rtol=0
    )


@pytest.mark.parametrize("lat_deg", [0.0, 1.3, 36.1, 42.3, 60.0, 84.0])
def test_on_the_central_meridian_the_northing_is_the_arc(lat_deg):
    e2 = FLATTENING * (2 - FLATTENING)
    arc, _ = quad(
        lambda at: SEMI_MAJOR_M * (1 - e2) / (1 - e2 * np.sin(at) ** 2) ** 1.5,
        0,
        np.radians(lat_deg),
        epsabs=1e-9,
    )
    np.testing.assert_allclose(
        utm_m(np.array([-69.0, lat_deg]), 19), [500_000, SCALE * arc], atol=1e-6, rtol=0
    )


def test_the_south_begins_at_ten_million():
    north, south = (
        utm_m(np.array([104.0, lat]), 48, south=lat < 0) for lat in (1.3, -1.3)
    )
    np.testing.assert_allclose(south, [north[0], 10_000_000 - north[1]], atol=1e-8)


@given(st.floats(-3.0, 3.0), st.floats(0.0, 80.0))
def test_angles_are_kept(off_deg, lat_deg):
    e2 = FLATTENING * (2 - FLATTENING)
    bend = 1 - e2 * np.sin(np.radians(lat_deg)) ** 2
    # A millionth of a radian to the east and to the north, in metres on the ground.
    east = 1e-6 * SEMI_MAJOR_M * np.cos(np.radians(lat_deg)) / np.sqrt(bend)
    north = 1e-6 * SEMI_MAJOR_M * (1 - e2) / bend**1.5
    here = np.array([-69.0 + off_deg, lat_deg])
    east_deg, north_deg = np.degrees(1e-6) * np.eye(2)
    to_east = (utm_m(here + east_deg, 19) - utm_m(here - east_deg, 19)) / (2 * east)
    to_north = (utm_m(here + north_deg, 19) - utm_m(here - north_deg, 19)) / (2 * north)
    np.testing.assert_allclose(to_north, [-to_east[1], to_east[0]], atol=1e-7)
