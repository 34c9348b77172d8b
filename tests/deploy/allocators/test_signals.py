"""Untrained signals: hand arithmetic, where they are undefined, and what never
matters.
"""

import numpy as np
import pytest

from deepval.deploy.allocators.allocator import (
    SIGNALS,
    Criticality,
    Lost,
    Memory,
    Uncertainty,
)
from deepval.deploy.features import Sight
from view_worlds import car_view, glances_of, random_view, shuffled, until


def stopping(range_m, speed):
    return min(speed**2 / (2 * (range_m - 2.0 - 0.4 * speed)), 9.0)


def test_uncertainty_is_the_sum_of_4p_1_minus_p_from_a_tenth_on():
    rows = [
        (0, 0.9, 20.0, -1.0, 1.0),
        (0, 0.2, 30.0, 3.0, 5.0),
        (0, 0.09, 40.0, 6.0, 8.0),
    ]
    assert Uncertainty().score(car_view(rows, 2)) == pytest.approx(
        [4 * (0.9 * 0.1 + 0.2 * 0.8), 0.0]
    )


def test_criticality_is_the_required_deceleration_of_used_boxes():
    rows = [
        (0, 0.9, 30.0, -1.0, 1.0),
        (0, 0.2, 20.0, -1.0, 1.0),
        (1, 0.9, 30.0, 3.0, 5.0),
    ]
    assert Criticality().score(car_view(rows, 2)) == pytest.approx(
        [stopping(30.0, 10.0), 0.0]
    )


def test_memory_is_what_was_required_and_no_longer_is():
    rows = [
        (0, 0.9, 30.0, -1.0, 1.0),
        (2, 0.9, 20.0, -1.0, 1.0),
        (4, 0.9, 30.0, -1.0, 1.0),
    ]
    found = Memory().score(car_view(rows, 13))
    near, far = stopping(20.0, 10.0), stopping(30.0, 10.0)
    assert found - 0.001 * 10.0 == pytest.approx(
        [0, far, 0, near, near - far, *[near] * 5, far, far, 0]
    )
    assert Memory(speed_weight=0.0).score(car_view(rows, 13))[0] == 0.0


def test_lost_is_what_missing_objects_require():
    rows = [(0, 0.9, 30.0, -1.0, 1.0), (2, 0.9, 60.0, -1.0, 1.0)]
    found = Lost().score(car_view(rows, 3))
    assert found == pytest.approx(
        [
            -stopping(30.0, 10.0) + 0.01,
            stopping(30.0 - 1.0, 10.0) + 0.01,
            stopping(30.0 - 2.0, 10.0) - stopping(60.0, 10.0) + 0.01,
        ]
    )


def test_signals_are_null_where_the_cheap_mode_was_not_run():
    view = car_view(
        [(0, 0.9, 20.0, -1.0, 1.0), (2, 0.9, 20.0, -1.0, 1.0)], 3, status=[0, 1, 0]
    )
    for signal in SIGNALS.values():
        assert np.isnan(signal.score(view)).tolist() == [False, True, False], (
            signal.name
        )
    assert Memory().score(view)[2] == pytest.approx(0.01)


@pytest.mark.parametrize("name", SIGNALS)
def test_laws_of_every_signal(name):
    signal, rng = SIGNALS[name], np.random.default_rng(13)
    for _ in range(10):
        view = random_view(rng, rounded=bool(rng.random() < 0.5))
        before = view.detections.box_px.copy()
        whole = signal.score(view)
        assert whole.tobytes() == signal.score(Sight(view)).tobytes()
        assert whole.tobytes() == signal.score(shuffled(view, rng)).tobytes()
        assert (
            whole.tobytes()
            == np.array(
                [signal.score_frame(seen) for seen in glances_of(view)]
            ).tobytes()
        )
        frames = int(rng.integers(1, len(view) + 1))
        assert whole[:frames].tobytes() == signal.score(until(view, frames)).tobytes()
        np.testing.assert_array_equal(view.detections.box_px, before)
