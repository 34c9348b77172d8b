"""Drives become one unit, and the place on a route goes on with the vehicle."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import log_worlds as worlds
from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.log import holds, route_starts
from deepval.driving.datasets.logs.nuplan_tables import join_drives
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.world.lanes import Lane, LaneMap


def drive(number, *, steps=46, **more):
    time_s = np.arange(steps) * 0.1 + 100.0 * number
    states = np.array([0, 5])
    log = worlds.log(
        [
            worlds.standing(20.0 + number, 0.0, steps),
            worlds.standing(30.0, 3.0, steps, cls="Pedestrian"),
        ],
        steps,
        time_s=time_s,
        states=states,
        frame_ids=tuple(f"{number}-{state}" for state in states),
        **more,
    )
    return unit_of(log)


def test_drives_in_a_row():
    first, second = (
        drive(0, route=("a", "b", "c")),
        drive(1, route=("d", "e"), route_starts=np.ones(46, dtype=int)),
    )
    scene, truth = join_drives([first, second])
    assert scene.frame_ids.tolist() == ["0-0", "0-5", "1-0", "1-5"]
    assert [scene.route_at(frame) for frame in range(4)] == [("a", "b", "c")] * 2 + [
        ("e",)
    ] * 2
    assert truth.objects.track.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert truth.future.objects[3].track.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    for frame in range(4):
        alone = (first, second)[frame // 2][1]
        np.testing.assert_array_equal(
            truth.objects.at(frame).corners_m, alone.objects.at(frame % 2).corners_m
        )
        np.testing.assert_array_equal(
            truth.future.pose[frame], alone.future.pose[frame % 2]
        )
    assert scene.red_lights == (frozenset(),) * 4
    assert scene.ego_acceleration_mps2 is None


def test_no_drive_is_no_unit():
    with pytest.raises(InputError, match="one drive or more"):
        join_drives([])


CORNER = st.tuples(st.integers(-5, 5), st.integers(-5, 5))


@given(
    st.lists(CORNER, min_size=3, max_size=7, unique=True),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_places_are_in_an_outline_as_shapely_has_it(corners, closed, seed):
    shapely = pytest.importorskip("shapely")
    ring = shapely.Polygon(corners)
    if not ring.is_valid:
        return
    outline = np.array([*corners, *corners[: int(closed)]], dtype=float)
    places = np.random.default_rng(seed).uniform(-6, 6, (50, 2))
    lane = Lane("l", np.array([[0.0, 0], [1, 0]]), "rb", polygon_m=outline)
    np.testing.assert_array_equal(
        holds(lane, places), shapely.contains_xy(ring, places)
    )


def test_a_lane_without_an_outline_is_as_wide_as_it_says():
    lane = Lane("l", np.array([[0.0, 0], [10, 0]]), "rb", half_width_m=1.5)
    places = np.array([[5, 1.4], [5, -1.6], [-1.4, 0], [-1.0, -1.2], [10, 0]])
    assert holds(lane, places).tolist() == [True, False, True, False, True]


def test_the_place_on_a_route_goes_on_with_the_vehicle():
    lane_map = worlds.straight_map(4)
    route = tuple(f"rb_l{place}" for place in range(4))
    # On lane 1, beside the road, on lanes 2 and 3, and back: a vehicle does not go back
    # along its route.
    place_m = np.array([[60.0, 0], [80, 9], [110, 0], [160, 0], [60, 0]])
    assert route_starts(lane_map, route, place_m=place_m).tolist() == [1, 1, 2, 2, 2]
    # The last roadblock alone is no route, unless there is no other.
    assert route_starts(lane_map, route[3:], place_m=place_m).tolist() == [0] * 5
    assert route_starts(
        lane_map, ("elsewhere", *route), place_m=place_m[:1]
    ).tolist() == [2]


def test_a_route_that_crosses_itself_is_no_leap():
    straight = worlds.straight_map(1).lanes["l0"]
    lanes = {
        f"l{place}": replace(straight, id=f"l{place}", roadblock=f"rb{place}")
        for place in (0, 6)
    }
    away = replace(straight, centreline_m=straight.centreline_m + 500.0)
    lanes |= {
        f"l{place}": replace(away, id=f"l{place}", roadblock=f"rb{place}")
        for place in range(1, 6)
    }
    route = tuple(f"rb{place}" for place in range(7))
    place_m = np.array([[10.0, 0], [20, 9], [30, 0]])
    assert route_starts(LaneMap(lanes), route, place_m=place_m).tolist() == [0, 0, 0]
