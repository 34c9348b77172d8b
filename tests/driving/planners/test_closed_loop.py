from dataclasses import replace

import numpy as np
import pytest
from shapely import LineString, Polygon

from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.replay import perception_at, replay_from
from deepval.driving.geometry.vehicle import ZOE, ground_corners_m
from deepval.driving.planners import closed_loop
from deepval.driving.planners.closed_loop import drive
from deepval.driving.planners.observation import BICYCLE, PEDESTRIAN, STATIC, VEHICLE
from deepval.driving.world.objects import Objects
from drives import PARKED, Cruise, log, others, replay, straight


def test_an_empty_straight_road_is_driven_as_planned():
    driven = drive(Cruise(), replay())
    assert driven.seconds == pytest.approx(6.0)
    np.testing.assert_allclose(driven.pose[:, 0], 10 + 0.5 * np.arange(61), atol=1e-6)
    assert driven.way_m == pytest.approx(30.0)
    assert driven.logged_way_m == pytest.approx(30.0)
    assert driven.deviation_m == pytest.approx(0.0, abs=1e-6)
    assert driven.contacts == ()
    assert np.isinf(driven.clearance_m).all()
    assert driven.comfort == 1.0


@pytest.mark.parametrize(
    ("replan_s", "plans"), [(0.5, 12), (0.1, 60), (0.7, 9), (8.0, 1)]
)
def test_plans_are_made_as_often_as_asked(replan_s, plans):
    planner = Cruise()
    driven = drive(planner, replay(), replan_s=replan_s)
    assert len(planner.asked) == driven.plans == plans
    np.testing.assert_allclose(driven.pose[-1], [40.0, 0, 0], atol=1e-6)


def test_a_plan_must_last_until_the_next():
    with pytest.raises(
        InputError,
        match=r"plans must last 9\.0 s, until the next is made; found one of 8\.0 s",
    ):
        drive(Cruise(), replay(steps=200), replan_s=9.0)


def test_the_drive_ends_with_the_replay_or_as_asked():
    assert drive(Cruise(), replay(), seconds=2.0).seconds == pytest.approx(2.0)
    short = drive(Cruise(), replay(steps=11), seconds=6.0)
    assert short.seconds == pytest.approx(1.0)
    assert np.isnan(short.comfort)
    with pytest.raises(InputError, match="two steps"):
        replay(steps=1)
    with pytest.raises(InputError, match="must last"):
        drive(Cruise(), replay(), seconds=0.0)


def test_roadblocks_that_were_left_are_not_told_again_and_two_remain():
    planner = Cruise(speed_mps=10.0)
    drive(planner, replay(speed=10.0, x=95.0, steps=250), replan_s=0.5)
    routes = [situation.route for situation, _ in planner.asked]
    assert routes[0] == ("rb_a0", "rb_a1", "rb_a2")
    assert routes[2] == ("rb_a1", "rb_a2")
    assert routes[-1] == ("rb_a1", "rb_a2")
    assert [len(r) for r in routes] == sorted((len(r) for r in routes), reverse=True)


def test_what_is_perceived_drives_and_what_was_logged_is_met():
    careful = Cruise(room_m=15.0)
    seen = drive(careful, replay(PARKED))
    blind = drive(careful, replay(PARKED), observed=lambda step: others())
    ghost = drive(careful, replay(), observed=lambda step: others(PARKED))
    assert seen.contacts == ghost.contacts == ()
    assert np.array_equal(seen.states, ghost.states)
    assert 0 < seen.clearance_m.min() < 12
    (hit,) = blind.contacts
    assert (hit.agent, hit.how, hit.at_fault) == ("car", "other stopped", True)
    # The bumper starts 10 + 3.244 m along the road, the car's rear is at 28 m.
    assert hit.time_s == pytest.approx(np.ceil((28 - 13.244) / 0.5) / 10)
    assert blind.clearance_m.min() < 0


@pytest.mark.parametrize("step_s", [0.1, 0.05, 0.5])
def test_what_a_mode_perceives_is_placed_from_the_logged_vehicle_and_held(step_s):
    steps, every = round(4 / step_s) + 1, round(0.5 / step_s)
    made = replace(log(steps=steps, step_s=step_s), states=np.arange(0, steps, every))
    # The mode sees a car 8 m ahead of the logged vehicle from the third state on.
    corners = ground_corners_m(
        np.tile([8.0, 1.0], (7, 1)),
        np.tile([4.0, 2.0], (7, 1)),
        yaw_rad=np.full(7, 0.2),
    )
    names, frame, track = np.full(7, "Car"), np.arange(2, 9), np.zeros(7, dtype=int)
    perceived = Objects.of(
        9, frame, corners_m=corners, closing_mps=np.zeros(7), names=names, track=track
    )
    observed = perception_at(made, perceived, 1)
    assert [len(observed(step)) for step in range(12)] == [0] * 5 + [1] * 7
    for step, x in (
        (5, 10 + 5 * 1.0),
        (9, 10 + 5 * 1.0),
        (10, 10 + 5 * 1.5),
        (35, 10 + 5 * 4.0),
    ):
        np.testing.assert_allclose(observed(step).pose, [[x + 8, 1.0, 0.2]], atol=1e-9)
        np.testing.assert_allclose(observed(step).size_m, [[4.0, 2.0]])
    driven = drive(Cruise(room_m=9.0), replay_from(made, 1), observed=observed)
    assert driven.way_m < driven.logged_way_m, (
        "it stands before what it perceives, which was not logged"
    )
    loose = perception_at(made, replace(perceived, track=np.full(7, -1)), 1)
    names = {step: loose(step).id.tolist() for step in (5, 9, 10)}
    assert names[5] == names[9] != names[10], (
        "what no track joins is another in each frame"
    )
    with pytest.raises(InputError, match="must span its 9 states; found 3 frames"):
        perception_at(
            made,
            Objects.of(3, track[:0], corners_m=corners[:0], closing_mps=np.zeros(0)),
        )


@pytest.mark.parametrize(
    ("row", "speed", "how", "fault"),
    [
        (
            ("car", VEHICLE, 14.0, 0.0, 0.0, 4.0, 2.0, 0.0, 0.0),
            5.0,
            "other stopped",
            True,
        ),
        (
            ("cone", STATIC, 13.0, 0.0, 0.0, 0.4, 0.4, 1.0, 0.0),
            5.0,
            "other stopped",
            True,
        ),
        (
            ("car", VEHICLE, 14.0, 0.0, 0.0, 4.0, 2.0, 2.0, 0.0),
            0.05,
            "ego stopped",
            False,
        ),
        (("car", VEHICLE, 14.0, 0.0, 0.0, 4.0, 2.0, 2.0, 0.0), 0.051, "ahead", True),
        (
            ("car", VEHICLE, 7.2, 0.0, 0.0, 4.0, 2.0, 9.0, 0.0),
            5.0,
            "from behind",
            False,
        ),
        (
            ("walker", PEDESTRIAN, 11.0, 1.0, 0.0, 0.6, 0.6, 0.0, -1.0),
            5.0,
            "beside",
            False,
        ),
        (("rider", BICYCLE, 13.2, 1.0, 0.0, 1.8, 0.6, 3.0, 0.0), 5.0, "ahead", True),
    ],
)
def test_who_is_at_fault(row, speed, how, fault):
    agents, pose = others(row), np.array([10.0, 0.0, 0.0])
    assert closed_loop.meeting(pose, speed, vehicle=ZOE, agents=agents, place=0) == how
    assert closed_loop.at_fault(how, ZOE.corners_m(pose), lane_map=straight()) is fault


def test_a_vehicle_across_two_lanes_or_off_the_road_is_to_blame_beside():
    road = straight()
    places = {
        "in its lane": 0.0,
        "across": 2.0,
        "in the other": 4.0,
        "off the road": -1.5,
        "far away": 50.0,
    }
    footprints = {
        name: ZOE.corners_m(np.array([30.0, y, 0.0])) for name, y in places.items()
    }
    found = {
        name: closed_loop.astray(footprint, road)
        for name, footprint in footprints.items()
    }
    assert found == {
        "in its lane": False,
        "across": True,
        "in the other": False,
        "off the road": True,
        "far away": True,
    }
    parking = replace(
        road, drivable_m=(np.array([[0, 40.0], [99, 40], [99, 60], [0, 60]]),)
    )
    assert not closed_loop.astray(footprints["far away"], parking)
    for name, footprint in footprints.items():
        assert closed_loop.at_fault("beside", footprint, lane_map=road) is found[name]


def test_a_bumper_touches_where_shapely_says_so():
    rng = np.random.default_rng(5)
    found = []
    for _ in range(300):
        pose, size = rng.normal(0, 0.5, 3), rng.uniform(0.3, 3, 2)
        agents = others(("car", VEHICLE, *rng.normal([3, 0, 0], 1.5), *size, 9.0, 0.0))
        found.append(closed_loop._hit_by_bumper(pose, ZOE, agents=agents, index=0))
        assert found[-1] == LineString(ZOE.corners_m(pose)[:2]).intersects(
            Polygon(closed_loop.footprints_m(agents)[0])
        )
    assert 20 < sum(found) < 280


def test_each_is_touched_once_and_who_overlaps_at_the_start_does_not_count():
    inside = ("inside", VEHICLE, 11.0, 0.0, 0.0, 4.0, 2.0, 5.0, 0.0)
    slow = ("slow", VEHICLE, 22.0, 0.0, 0.0, 4.0, 2.0, 2.0, 0.0)
    driven = drive(Cruise(), replay(inside, slow))
    assert [(c.agent, c.how, c.at_fault) for c in driven.contacts] == [
        ("slow", "ahead", True)
    ]
    assert driven.contacts[0].ego_speed_mps == pytest.approx(5.0, abs=1e-6)
    assert driven.contacts[0].agent_speed_mps == pytest.approx(2.0)


def test_who_is_gone_at_the_next_step_moved_as_it_last_did():
    def car(x, speed, *, name="car"):
        return (name, VEHICLE, x, 0.0, 0.0, 4.0, 2.0, speed, 0.0)

    steps = [
        others(car(0.0, 7.0), car(50.0, 1.0, name="stays")),
        others(car(0.8, 0.0), car(50.1, 1.0, name="stays")),
    ]
    steps += [others(car(50.2, 1.0, name="stays"), car(9.0, 3.0, name="comes"))]
    found = [closed_loop.agents_at(steps, step).velocity_mps[:, 0] for step in range(3)]
    np.testing.assert_allclose(
        found[0], [7.0, 1.0], err_msg="nothing goes before the first step"
    )
    np.testing.assert_allclose(
        found[1], [8.0, 1.0], err_msg="0.8 m in 0.1 s, and who stays as it was told"
    )
    np.testing.assert_allclose(
        found[2], [1.0, 3.0], err_msg="at the end all are gone; one has only come"
    )


def test_a_truck_from_behind_is_none_that_stands_where_its_record_ends():
    made = replay(("truck", VEHICLE, 2.0, 0.0, 0.0, 7.0, 2.5, 9.0, 0.0))
    # It touches the rear bumper (at 9.16 m) in the step that brings its front there;
    # there the record ends, with 0 m/s.
    touch = int(np.ceil((10 - ZOE.rear_m - 5.5) / 0.4))
    ends = replace(made.agents[touch], velocity_mps=np.zeros((1, 2)))
    cut = replace(made, agents=(*made.agents[:touch], ends, *[others()] * (60 - touch)))
    (hit,) = drive(Cruise(), cut).contacts
    assert (hit.time_s, hit.how, hit.at_fault) == (
        pytest.approx(touch / 10),
        "from behind",
        False,
    )
    assert hit.agent_speed_mps == pytest.approx(9.0)


def test_a_log_of_ten_steps_a_second_is_replayed_as_it_is():
    found = replay_from(log(), 2)
    assert len(found.agents) == 31
    assert found.start.pose[0] == pytest.approx(15.0)
    assert found.agents[0].pose[0, 0] == pytest.approx(33.0)
    assert found.agents[-1].pose[0, 0] == pytest.approx(42.0)
    driven = drive(Cruise(), found)
    assert driven.deviation_m == pytest.approx(0.0, abs=1e-6)
    car = ground_corners_m(
        np.array([[42.0, 0.0]]), np.array([[4.0, 2.0]]), yaw_rad=np.array([5.0])
    )[0]
    ego = ZOE.corners_m(np.array([30.0, 0.0, 0.0]))
    assert driven.clearance_m[-1] == pytest.approx(
        Polygon(car).distance(Polygon(ego)), abs=1e-6
    )


@pytest.mark.parametrize(
    ("step_s", "steps"), [(0.05, 81), (0.5, 9), (0.2, 21), (0.25, 17)]
)
def test_logs_of_other_rates_are_replayed_at_ten_steps_a_second(step_s, steps):
    same, found = replay_from(log()), replay_from(log(step_s=step_s, steps=steps))
    assert len(found.agents) == len(same.agents) == 41
    np.testing.assert_allclose(found.logged_pose, same.logged_pose, atol=1e-9)
    for here, there in zip(found.agents, same.agents, strict=True):
        np.testing.assert_allclose(here.pose[:, :2], there.pose[:, :2], atol=1e-9)
        turn = here.pose[:, 2] - there.pose[:, 2]
        np.testing.assert_allclose(np.cos(turn), 1.0, atol=1e-9)


def test_route_and_red_lights_of_a_log_are_cut_at_the_start():
    starts = np.array([0] * 10 + [1] * 31)
    red = tuple(frozenset({str(step)}) for step in range(41))
    found = replay_from(
        log(route_starts=starts, red_lights=red, acceleration_mps2=np.full(41, -0.5)), 2
    )
    assert found.route == ("rb_a1", "rb_a2")
    assert found.red_lights[0] == {"10"}
    assert found.start.acceleration_mps2 == -0.5
