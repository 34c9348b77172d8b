"""The route behind a driven path: matched to the lane graph, going on straight, at
least two roadblocks left.
"""

import numpy as np

from deepval.driving.datasets.logs.log import route_of
from deepval.driving.world.lanes import Lane, LaneMap
from log_worlds import straight_map


def lane(key, *points, after=(), roadblock=None):
    return Lane(
        key,
        np.array(points, dtype=float),
        roadblock or f"rb_{key}",
        successors=tuple(after),
    )


def lane_map(*lanes):
    return LaneMap({one.id: one for one in lanes})


def driven(*points, heading=0.0):
    return np.array([(x, y, heading) for x, y in points], dtype=float)


def test_a_straight_road_is_followed_and_goes_on():
    path = driven(*[(x, 0.3) for x in np.arange(40, 65, 0.2)])
    route = route_of(straight_map(9), path, ahead_m=120.0)
    assert route.lanes == ("l0", "l1", "l2", "l3", "l4")
    assert route.roadblocks[0] == "rb_l0"
    assert (np.diff(route.starts) >= 0).all()
    assert route.starts[0] == 0
    assert route.starts[-1] == 1
    # Points are half a metre apart, so the change is seen at most that late.
    assert 50 <= path[np.argmax(route.starts == 1), 0] <= 50.7


def test_two_roadblocks_are_left_while_there_are_two():
    route = route_of(straight_map(), driven(*[(x, 0) for x in np.arange(90, 145, 1.0)]))
    assert route.lanes == ("l1", "l2")
    assert set(route.starts.tolist()) == {0}
    alone = route_of(straight_map(1), driven((10, 0)))
    assert (alone.roadblocks, alone.starts.tolist()) == (("rb_l0",), [0])


def test_the_heading_decides_between_lanes_at_one_place():
    there = lane("there", (0, 0), (50, 0))
    back = lane("back", (50, 0.5), (0, 0.5))
    crossing = lane("crossing", (10, -30), (10, 30))
    roads = lane_map(back, crossing, there)
    assert route_of(roads, driven((10, 0.4))).lanes == ("there",)
    assert route_of(roads, driven((10, 0.4), heading=np.pi)).lanes == ("back",)
    assert route_of(roads, driven((10, 0.4), heading=np.pi / 2)).lanes == ("crossing",)


def test_the_way_driven_is_taken_and_then_the_straightest():
    fork = lane("fork", (0, 0), (20, 0), after=("left", "ahead", "outside"))
    left = lane("left", (20, 0), (25, 1), (28, 5), (28, 12), after=("far",))
    ahead = lane("ahead", (20, 0), (40, 0.5), after=())
    far = lane("far", (28, 12), (28, 60), after=("fork2", "bent"))
    bent = lane("bent", (28, 60), (20, 68))
    fork2 = lane("fork2", (28, 60), (28, 90))
    roads = lane_map(fork, left, ahead, far, bent, fork2)
    assert route_of(roads, driven(*[(x, 0) for x in range(5, 15)])).lanes == (
        "fork",
        "ahead",
    )
    turned = driven((15, 0), (18, 0), (24, 0.8), (27.8, 4.5), (28, 9))
    turned[3:, 2] = 1.5
    assert route_of(roads, turned).lanes == ("fork", "left", "far", "fork2")


def test_changing_lanes_within_a_roadblock_stays_on_it():
    right = lane("right", (0, 0), (50, 0), roadblock="one", after=("right2",))
    left = lane("left", (0, 3.5), (50, 3.5), roadblock="one", after=("left2",))
    right2 = lane("right2", (50, 0), (100, 0), roadblock="two")
    left2 = lane("left2", (50, 3.5), (100, 3.5), roadblock="two")
    path = driven(*[(x, 0 if x < 30 else 3.5) for x in range(5, 80, 2)])
    route = route_of(lane_map(right, left, right2, left2), path)
    assert route.lanes == ("right", "left", "left2")
    assert route.roadblocks == ("one", "two")
    assert route.starts.max() == 0


def test_a_ring_of_lanes_ends():
    round_ = lane_map(
        lane("a", (0, 0), (9, 0), after="b"), lane("b", (9, 0), (0, 0.1), after="a")
    )
    assert route_of(round_, driven((3, 0))).lanes == ("a", "b")
