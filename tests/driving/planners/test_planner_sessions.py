"""What a planner keeps over a drive, and what it is told of the vehicle that it
drives.
"""

import numpy as np
import pytest

from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners.closed_loop import drive
from deepval.driving.planners.idm import Idm
from deepval.driving.planners.observation import VEHICLE, EgoState, Situation, observe
from deepval.driving.planners.pdm_closed import PdmClosed, PdmSession, state_of
from deepval.driving.planners.roads import roads_of
from deepval.driving.planners.tracking import (
    AX,
    STEER,
    STEER_RATE,
    VX,
    YAW_ACCELERATION,
)
from drives import PARKED, Cruise, others, replay, straight

ROAD = straight()
ROUTE = ("rb_a0", "rb_a1", "rb_a2")
PLANNERS = [PdmClosed(), Idm()]


def situation(x=10.0, y=0.0, *, speed=5.0, route=ROUTE, red=frozenset()):
    return Situation(EgoState(np.array([x, y, 0.0]), speed, ZOE), ROAD, route, red)


def car(x, *, y=0.0, speed=0.0, name="car"):
    return others((name, VEHICLE, x, y, 0.0, 4.0, 2.0, speed, 0.0))


@pytest.mark.parametrize("planner", PLANNERS, ids=["pdm-closed", "idm"])
def test_a_session_starts_as_the_planner_plans_and_keeps_its_path(planner):
    session = planner.session()
    first = session.plan(situation(), car(40.0))
    np.testing.assert_array_equal(first.pose, planner.plan(situation(), car(40.0)).pose)
    elsewhere = situation(12.0, route=("rb_b0", "rb_b1"))
    assert planner.plan(elsewhere, car(40.0)).pose[-1, 1] > 1.0, (
        "the route is now the lane to the left"
    )
    np.testing.assert_array_equal(
        session.plan(elsewhere, car(40.0)).pose,
        planner.plan(situation(12.0), car(40.0)).pose,
    )


@pytest.mark.parametrize("planner", PLANNERS, ids=["pdm-closed", "idm"])
def test_every_drive_has_a_session_of_its_own(planner):
    one, two = (drive(planner, replay(PARKED), seconds=0.3) for _ in range(2))
    np.testing.assert_array_equal(one.states, two.states)
    assert planner.session() is not planner.session()


def test_pdm_ignores_for_ever_whom_it_has_overlapped():
    session, planner = PdmClosed().session(), PdmClosed()
    session.plan(situation(), car(12.0))
    free = planner.plan(situation(), others())
    np.testing.assert_array_equal(session.plan(situation(), car(25.0)).pose, free.pose)
    assert planner.plan(situation(), car(25.0)).pose[-1, 0] < free.pose[-1, 0] - 5
    other = session.plan(situation(), car(25.0, name="another"))
    np.testing.assert_array_equal(other.pose, planner.plan(situation(), car(25.0)).pose)


def test_a_red_light_that_was_entered_stays_entered():
    roads, ego = roads_of(ROAD), situation(98.5).ego
    shut = [roads.number["a1"]]
    before = observe(others(), ego, roads=roads, shut=shut, radius_m=50.0)
    inside = observe(
        others(), situation(105.0).ego, roads=roads, shut=shut, radius_m=50.0
    )
    after = observe(
        others(),
        ego,
        roads=roads,
        shut=shut,
        radius_m=50.0,
        collided=frozenset({"red_light_a1"}),
    )
    assert [found.collided.tolist() for found in (before, inside, after)] == [
        [False],
        [True],
        [True],
    ]
    session = PdmSession(PdmClosed())
    red = frozenset({"a1"})
    session.plan(situation(105.0, red=red), others())
    assert session.collided == {"red_light_a1"}


def test_a_planner_is_told_how_the_vehicle_that_it_drives_is_steered():
    planner = Cruise()
    driven = drive(planner, replay(y=0.8))
    assert np.abs(driven.states[:, STEER]).max() > 0.02
    for step, (told, _) in enumerate(planner.asked):
        ego, state = told.ego, driven.states[step]
        assert (ego.speed_mps, ego.acceleration_mps2, ego.steering_rad) == tuple(
            state[[VX, AX, STEER]]
        )
        # The proposals are simulated from the very state; of its rates of change
        # nothing is carried on.
        expected = state.copy()
        expected[[STEER_RATE, YAW_ACCELERATION]] = 0.0
        np.testing.assert_allclose(state_of(ego), expected, atol=1e-12)
