import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import savgol_filter

from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners.scoring import comfortable
from deepval.driving.planners.tracking import (
    AX,
    AY,
    HEADING,
    STEER,
    STEER_RATE,
    VX,
    next_state,
    reference,
    simulate,
)
from reference import tracking as slow
from shared import shared_data

TIMES_S = 0.1 * np.arange(41)
BASE_M = ZOE.wheel_base_m


def apart(first, second):
    """Largest difference of states; headings modulo a turn."""
    difference = first - second
    difference[..., HEADING] = (
        np.remainder(difference[..., HEADING] + np.pi, 2 * np.pi) - np.pi
    )
    return np.abs(difference).max()


def still(*pose, speed=0.0):
    return np.array([*pose, speed, *[0.0] * 7])


def road(speeds_mps, *, turn_per_m=0.0, heading=0.0):
    """Poses every 0.1 s along an arc that is driven with the given speeds."""
    way_m = np.concatenate([[0.0], np.cumsum(0.1 * np.asarray(speeds_mps))])
    headings = heading + turn_per_m * way_m
    steps = np.diff(way_m)[:, None] * np.column_stack(
        [np.cos(headings[:-1]), np.sin(headings[:-1])]
    )
    return np.column_stack(
        [np.vstack([np.zeros(2), np.cumsum(steps, axis=0)]), headings]
    )


def with_motion(*, along=0.0, across=0.0, heading=0.0):
    """States of which only what comfort looks at is filled."""
    states = np.zeros((1, 41, 11))
    states[..., AX], states[..., AY], states[..., HEADING] = along, across, heading
    return states


@pytest.mark.parametrize("heading", [0.0, 1.3, -3.1])
def test_a_straight_road_at_constant_speed_is_driven_exactly(heading):
    path = road(np.full(40, 7.0), heading=heading)
    states = simulate(
        path[None], still(0.0, 0.0, heading, speed=7.0), wheel_base_m=BASE_M
    )[0]
    np.testing.assert_allclose(
        states[:, :2],
        7.0 * TIMES_S[:, None] * [np.cos(heading), np.sin(heading)],
        atol=1e-9,
    )
    np.testing.assert_allclose(states[:, HEADING], heading, atol=1e-9)
    np.testing.assert_allclose(states[:, VX], 7.0, atol=1e-9)
    np.testing.assert_allclose(states[:, AX], 0.0, atol=1e-9)
    assert comfortable(states[None]).all()


def test_the_quirk_of_the_speed_fit_pulls_accelerations_to_zero_rather_than_to_each_other():  # noqa: E501
    speeds = reference(road(2.0 + 0.3 * np.arange(40))[None]).speed_mps[0]
    bent = np.abs(np.diff(speeds, 2))
    assert bent[1:-1].max() > 1e-3, (
        "a penalty on differences would leave a constant acceleration alone"
    )


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_batched_tracking_equals_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    paths = np.stack(
        [
            road(
                np.maximum(0, rng.uniform(0, 12) + rng.uniform(-3, 2) * TIMES_S[:40]),
                turn_per_m=bend,
                heading=3.1,
            )
            for bend in rng.uniform(-0.1, 0.1, 3)
        ]
    )
    start = still(
        *rng.normal(0, 0.5, 2), 3.1 + rng.normal(0, 0.2), speed=rng.uniform(0, 12)
    )
    start[AX], start[STEER] = rng.normal(), rng.normal(0, 0.1)
    batched = simulate(paths, start, wheel_base_m=BASE_M)
    twins = np.stack([slow.simulated(path, start, BASE_M) for path in paths])
    assert apart(batched, twins) < 1e-6
    assert np.array_equal(batched[:, 0], np.tile(start, (3, 1)))


def test_a_stopped_vehicle_with_nothing_to_follow_stays_and_does_not_steer():
    start = still(1.0, 0.4, 0.3, speed=0.1)
    states = simulate(np.zeros((1, 41, 3)), start, wheel_base_m=BASE_M)[0]
    assert (states[:, STEER_RATE] == 0).all()
    assert states[1, AX] == pytest.approx(0.1 / 0.3 * -0.5 * 0.1)
    assert 0 <= states[-1, VX] < 0.05
    faster = simulate(
        np.zeros((1, 41, 3)), still(1.0, 0.4, 0.3, speed=0.21), wheel_base_m=BASE_M
    )[0]
    assert faster[1, AX] == pytest.approx(0.1 / 0.3 * -10 * 0.21 / 11)
    assert faster[1, STEER_RATE] != 0


def test_steering_stops_at_its_limit():
    start = still(0.0, -3.0, 0.0, speed=5.0)
    start[STEER] = np.pi / 3 - 1e-3
    states = simulate(
        road(np.full(40, 5.0), turn_per_m=0.9)[None], start, wheel_base_m=BASE_M
    )[0]
    assert states[:, STEER].max() == np.pi / 3


def test_single_steps_make_the_simulation():
    path = road(np.full(40, 5.0), turn_per_m=0.03)[None]
    start = still(0.0, 0.3, 0.1, speed=4.0)
    states = simulate(path, start, wheel_base_m=BASE_M)
    second = next_state(start[None], reference(path), index=0, wheel_base_m=BASE_M)
    assert np.array_equal(second, states[:, 1])


def slow_comfort(state):
    def filtered(series, window, order, derivative=0):
        return np.round(
            savgol_filter(series, window, order, deriv=derivative, delta=0.1), 8
        )

    def jerk(series):
        return np.abs(filtered(filtered(series, 8, 2), 41, 2, 1)).max()

    along, across, heading = state[:, AX], state[:, AY], np.unwrap(state[:, HEADING])
    smooth = filtered(along, 41, 2)
    return (
        smooth.min() > -4.05
        and smooth.max() < 2.40
        and np.abs(filtered(across, 41, 2)).max() < 4.89
        and jerk(np.sqrt(along**2 + across**2)) < 8.37
        and jerk(along) < 4.13
        and np.abs(filtered(heading, 5, 3, 2)).max() < 1.93
        and np.abs(filtered(heading, 5, 2, 1)).max() < 0.95
    )


def test_comfort_equals_the_filters_of_scipy():
    rng = np.random.default_rng(3)
    states = np.zeros((200, 41, 11))
    states[..., AX] = rng.uniform(0, 3, (200, 1)) * rng.normal(
        size=(200, 41)
    ) + rng.uniform(-4, 3, (200, 1))
    states[..., AY] = rng.uniform(-5, 5, (200, 1))
    rates = rng.uniform(0, 1, (200, 1)) + rng.uniform(0, 0.05, (200, 1)) * rng.normal(
        size=(200, 41)
    )
    states[..., HEADING] = np.cumsum(0.1 * rates, axis=1) + 3.0
    found = comfortable(states)
    assert found.tolist() == [slow_comfort(state) for state in states]
    assert found.any()
    assert not found.all()


@pytest.mark.parametrize(
    ("motion", "fine"),
    [
        ({"along": 2.3999999}, True),
        ({"along": 2.40}, False),  # rounded to the bound, which is strict
        ({"along": 2.40 - 1e-9}, False),
        ({"along": -4.0499}, True),
        ({"along": -4.05}, False),
        ({"across": 4.88}, True),
        ({"across": -4.89}, False),
        ({"along": 4.12 * (TIMES_S - 3.5)}, False),
        ({"along": 1.0 * (TIMES_S - 2.0)}, True),
        ({"along": 4.14 * (TIMES_S - 2.0) / 4}, True),
        ({"heading": 0.94 * TIMES_S + 3.0}, True),
        ({"heading": -0.951 * TIMES_S}, False),
        ({"heading": 0.1 * TIMES_S**2}, True),
        (
            {"heading": 0.97 * (TIMES_S - 2.0) ** 2 * (np.abs(TIMES_S - 2.0) < 0.45)},
            False,
        ),
    ],
)
def test_each_bound_of_comfort_is_strict(motion, fine):
    assert comfortable(with_motion(**motion)).tolist() == [fine]


@pytest.mark.shared
def test_states_and_comfort_of_the_published_simulator_are_reproduced():
    import pandas as pd

    folder = shared_data("planner_reference")
    arrays = np.load(folder / "pdm_arrays.npz")
    keyframes = pd.read_parquet(folder / "keyframes.parquet").set_index(
        ["scene", "keyframe_index"]
    )
    scores = pd.read_parquet(folder / "pdm_proposals.parquet")
    scores = (
        scores[scores.branch == "gt"]
        .set_index(["scene", "keyframe_index"])
        .sort_values("proposal")
    )
    keys = sorted({name.split("/")[0] for name in arrays.files})
    assert len(keys) == 18
    for key in keys:
        scene, keyframe = key.rsplit("_", 1)
        row = keyframes.loc[(scene, int(keyframe))]
        published = arrays[f"{key}/sim"]
        start = still(row.ego_x, row.ego_y, row.ego_heading, speed=row.ego_speed)
        states = simulate(arrays[f"{key}/path_states"], start, wheel_base_m=BASE_M)
        assert apart(states, published) < 1e-6, key
        assert (
            comfortable(states).tolist()
            == (scores.loc[(scene, int(keyframe))].comfort > 0).tolist()
        ), key
