import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.geometry.boxes import expansion_per_s
from deepval.driving.perception.placing import monocular_objects, oracle_objects
from deepval.driving.perception.reported.detections import persistent
from deepval.driving.world.objects import (
    required_deceleration_mps2,
    time_to_collision_s,
    track_closing_mps,
)
from driving import (
    detections,
    footprints,
    objects,
    random_boxes,
    random_objects,
    scene,
    truth,
)
from reference import driving as slow


def rows_of(things, frame):
    at = things.frame == frame
    return np.column_stack(
        [things.near_m, things.far_m, things.lateral_m, things.closing_mps]
    )[at].tolist()


def test_required_deceleration_by_hand():
    ahead = objects([(0, 22.0, 26.6, -1.0, 1.0, 0.0)])
    assert required_deceleration_mps2(ahead, np.array([10.0]))[0] == pytest.approx(
        100 / (2 * (22 - 2 - 4))
    )
    assert (
        required_deceleration_mps2(objects([(0, 5.9, 9, -1, 1, 0)]), np.array([10.0]))[
            0
        ]
        == 9
    )


@pytest.mark.parametrize(
    "row",
    [
        (0, 0.0, 4, -1, 1, 5),
        (0, 80.01, 85, -1, 1, 5),
        (0, 20, 25, 1.2, 3, 5),
        (0, 20, 25, -3, -1.2, 5),
    ],
)
def test_objects_behind_far_away_or_beside_are_not_considered(row):
    assert required_deceleration_mps2(objects([row]), np.array([20.0]))[0] == 0


def test_required_deceleration_equals_the_slow_twin():
    rng = np.random.default_rng(3)
    things, speed = random_objects(rng, 2500), rng.uniform(-1, 30, 2500)
    found = required_deceleration_mps2(things, speed)
    expected = [
        slow.required_deceleration(rows_of(things, t), speed[t]) for t in range(2500)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(np.unique(found)) > 200


def test_growth_and_persistence_equal_their_slow_twins():
    rng = np.random.default_rng(4)
    checked = 0
    for _ in range(60):
        frame = np.sort(rng.integers(0, 6, 40))
        box, cls = random_boxes(rng, 40), rng.choice(["Car", "Van"], 40)
        per_frame = [
            [(c, b) for f, c, b in zip(frame, cls, box.tolist(), strict=True) if f == t]
            for t in range(6)
        ]
        found = detections(
            [(f, c, 1.0, *b) for f, c, b in zip(frame, cls, box, strict=True)], 6
        )
        rate = expansion_per_s(
            frame, box, class_code=found.class_code, dt_s=np.full(6, 0.1)
        )
        expected = np.concatenate(
            [
                slow.growth(per_frame[t], per_frame[t - 1] if t else [], 0.1)
                for t in range(6)
            ]
        )
        np.testing.assert_allclose(rate, expected, rtol=1e-9, atol=1e-12)
        passes = [
            slow.persists(per_frame, t, c, b) for t in range(6) for c, b in per_frame[t]
        ]
        assert persistent(found).tolist() == passes
        checked += len(frame)
    assert checked >= 2000


def test_a_source_without_image_boxes_cannot_be_lifted():
    nan = float("nan")
    with pytest.raises(InputError, match="needs image boxes"):
        monocular_objects(detections([(0, "Car", 1.0, nan, nan, nan, nan)]), scene())


def test_oracle_geometry_places_matched_detections_and_leaves_others():
    box = (560.0, 125.0, 660.0, 245.0)
    rows = [
        (0, "Car", 1.0, *box),
        (0, "Van", 1.0, *box),
        (0, "Car", 1.0, 100.0, 150.0, 150.0, 200.0),
    ]
    found, drive = detections(rows, 1), scene(1)
    reference = truth(
        [
            (
                0,
                "Pedestrian",
                2,
                3,
                (565.0, 125.0, 665.0, 245.0),
                (-3.0, 1.0, 1.0, 2.0),
                4.0,
            ),
            (
                0,
                "Car",
                1,
                0,
                (500.0, 125.0, 600.0, 245.0),
                (30.0, 34.0, -1.0, 1.0),
                0.0,
            ),
        ],
        1,
    )
    placed, lifted = (
        oracle_objects(found, drive, truth=reference),
        monocular_objects(found, drive),
    )
    assert placed.near_m[:2].tolist() == [-3.0, -3.0]
    assert placed.far_m[:2].tolist() == pytest.approx([-3 + 4.6, -3 + 5.1])
    assert placed.lateral_m[:2].tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert placed.closing_mps[:2].tolist() == [4.0, 4.0]
    assert placed.near_m[2] == lifted.near_m[2]
    assert (
        len(
            oracle_objects(
                found, drive, truth=reference, keep=np.array([True, False, False])
            )
        )
        == 1
    )
    nobody = oracle_objects(found, drive, truth=truth([], 1))
    np.testing.assert_array_equal(nobody.near_m, lifted.near_m)


def test_an_iou_of_exactly_one_half_is_no_oracle_match():
    found = detections([(0, "Car", 1.0, 0.0, 0.0, 10.0, 10.0)], 1)
    half = truth(
        [(0, "Car", 1, 0, (0.0, 0.0, 5.0, 10.0), (7.0, 11.0, 0.0, 1.0), 0.0)], 1
    )
    assert oracle_objects(found, scene(1), truth=half).near_m[0] != 7.0


def test_track_closing_speed_needs_the_track_one_frame_earlier():
    frame, track = np.array([0, 0, 1, 1, 3]), np.array([1, 2, 1, 3, 1])
    range_m = np.array([20.0, 9.0, 19.0, 8.0, 15.0])
    found = track_closing_mps(frame, track, range_m=range_m, dt_s=np.full(4, 0.1))
    assert found.tolist() == pytest.approx([0, 0, 10, 0, 0])
    assert track_closing_mps(
        frame[:0], track[:0], range_m=range_m[:0], dt_s=np.full(4, 0.1)
    ).shape == (0,)


def test_time_to_collision():
    found = time_to_collision_s(
        np.array([20.0, 20.0, -1.0, 500.0]), np.array([5.0, 0.0, 5.0, 1.0])
    )
    assert found.tolist() == [20 / 5, 10, 0, 10]


def test_frames_must_be_sorted_and_in_range():
    column = np.zeros(2)
    for frame in ([1, 0], [0, 2], [-1, 0]):
        with pytest.raises(InputError, match="sorted and lie in 0 to 1"):
            footprints(2, np.array(frame), column, column, np.zeros((2, 2)), column)
