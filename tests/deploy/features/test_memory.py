"""Memory: hand arithmetic on changes, extremes and lost objects, the definition of
`lost`, and what is forgotten.
"""

from dataclasses import replace

import numpy as np
import pytest

from deepval.deploy.allocators.feature_sets import MEMORY_NAMES, memory_features
from deepval.deploy.features import Sight
from deepval.deploy.features.glances import QUANTITIES
from deepval.driving.views import CheapMode
from reference.lost import lost_objects
from view_worlds import car_view, random_view


def named(view, frame=-1):
    return dict(
        zip(
            MEMORY_NAMES,
            memory_features(Sight(view).glances[frame]).tolist(),
            strict=True,
        )
    )


def stopping(range_m, speed):
    return min(speed**2 / (2 * (range_m - 2.0 - 0.4 * speed)), 9.0)


def test_changes_and_extremes_of_speed_and_count():
    speed = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 3.0])
    view = car_view([(frame, 0.9, 30.0, 3.0, 5.0) for frame in (0, 1, 3, 5)], 6)
    view = replace(view, scene=replace(view.scene, ego_speed_mps=speed))
    found = named(view)
    assert [found[f"ego_speed_mps_change_{lag}"] for lag in (1, 2, 4)] == [
        3 - 16,
        3 - 8,
        3 - 2,
    ]
    assert (found["ego_speed_mps_most"], found["ego_speed_mps_least"]) == (16, 1)
    assert [found[f"count_change_{lag}"] for lag in (1, 2, 4)] == [1 - 0, 1 - 1, 1 - 1]
    assert (found["count_most"], found["count_least"]) == (1, 0)
    early = named(view, 1)
    assert early["count_change_1"] == 0
    assert np.isnan([early["count_change_2"], early["count_change_4"]]).all()
    assert np.isnan(named(view, 0)["ego_speed_mps_change_1"])


def test_the_window_is_eight_frames_long():
    view = car_view([(0, 0.9, 20.0, -1.0, 1.0)], 10)
    required = stopping(20.0, 10.0)
    largest = [named(view, frame)["required_most"] for frame in range(10)]
    assert largest == pytest.approx([required] * 8 + [0, 0])
    assert [
        named(view, frame)["corridor_nearest_m_least"] for frame in (0, 7, 8)
    ] == pytest.approx([20, 20, 80])


def test_an_object_that_is_no_longer_seen_comes_nearer_as_the_way_is_travelled():
    view = car_view(
        [
            (0, 0.9, 30.0, -1.0, 1.0),
            (1, 0.9, 29.0, -1.0, 1.0),
            (1, 0.9, 30.0, 6.0, 8.0),
        ],
        10,
    )
    assert named(view, 1)["lost_required"] == 0
    closing = 29.0 * ((30.0 - 1.1) / (29.0 - 1.1) - 1) / 0.1
    for frame in range(2, 9):
        found = named(view, frame)
        way = 10.0 * 0.1 * (frame - 1)
        assert found["lost_required"] == pytest.approx(
            stopping(29.0 - way, max(10.0, closing))
        )
        assert found["lost_nearest_m"] == pytest.approx(29.0 - way)
        assert (found["lost_count"], found["lost_corridor_count"]) == (2, 1)
        assert (found["lost_for"], found["lost_age"]) == (frame - 1, 2)
    gone = named(view, 9)
    assert (gone["lost_required"], gone["lost_count"], gone["lost_nearest_m"]) == (
        0,
        0,
        80,
    )
    assert np.isnan([gone["lost_for"], gone["lost_age"]]).all()


def test_frames_on_which_the_cheap_mode_was_not_run_are_no_frames_without_boxes():
    rows = [(0, 0.9, 20.0, -1.0, 1.0), (2, 0.9, 20.0, -1.0, 1.0)]
    found = named(car_view(rows, 3, status=[0, 1, 0]))
    assert (found["count_least"], found["count_change_2"]) == (1, 0)
    assert np.isnan(found["count_change_1"])
    between = named(car_view(rows, 3, status=[0, 1, 0]), 1)
    assert np.isnan(between["lost_required"])
    assert between["count_most"] == 1


def test_lost_objects_are_those_of_the_definition():
    rng = np.random.default_rng(2)
    frames = 0
    for _ in range(60):
        view = random_view(rng, 34, mode=CheapMode("probabilities"), failures=False)
        glances = Sight(view).glances
        unit = [[(*each[:4], each.near_m) for each in seen.objects] for seen in glances]
        expected = lost_objects(
            unit, speed_mps=view.scene.ego_speed_mps, dt_s=view.scene.dt_s
        )
        for seen, wanted in zip(glances, expected, strict=True):
            found = sorted((each.near_m, each.missing) for each in seen.lost)
            np.testing.assert_allclose(
                found,
                sorted((near, missing) for near, _, missing in wanted) or [],
                rtol=1e-9,
            )
            frames += 1
    assert frames >= 2000


def test_extremes_and_changes_are_those_of_a_plain_loop():
    rng = np.random.default_rng(4)
    for _ in range(10):
        view = random_view(rng)
        glances = Sight(view).glances
        rows = [seen.row for seen in glances]
        memory = dict(
            zip(
                MEMORY_NAMES,
                np.array([memory_features(seen) for seen in glances]).T,
                strict=True,
            )
        )
        for frame in range(len(view)):
            window = [
                row
                for row in rows[max(0, frame - 7) : frame + 1]
                if not np.isnan(row[0])
            ]
            for place, name in enumerate(QUANTITIES):
                if name != "ego_speed_mps" and window:
                    assert memory[f"{name}_most"][frame] == max(
                        row[place] for row in window
                    )
                    assert memory[f"{name}_least"][frame] == min(
                        row[place] for row in window
                    )
        speed = view.scene.ego_speed_mps
        np.testing.assert_array_equal(
            memory["ego_speed_mps_change_4"][4:], speed[4:] - speed[:-4]
        )
