"""The 65 features: hand arithmetic, the braking rule's demands to the bit, what is
null, and what never matters.
"""

from dataclasses import replace

import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.deploy.allocators import FEATURE_SETS
from deepval.deploy.features import FEATURE_NAMES, FEATURES, Sight, cheap_features
from deepval.driving.perception.placing import monocular_objects
from deepval.driving.perception.reported.detection_rows import Source
from deepval.driving.views import CheapMode, View, grey, image_statistics
from deepval.driving.world.objects import BrakingSettings, required_deceleration_mps2
from in_memory import read_dataset, read_detections
from shared import shared_data
from view_worlds import (
    CALIBRATION,
    MODES,
    car_view,
    glances_of,
    random_view,
    shuffled,
)

FRONT = FEATURE_SETS["cheap+memory"]
WIDTHS_M = {
    "required": 1.2,
    "required_wider_03": 1.5,
    "required_wider_08": 2.0,
    "required_narrower_04": 1.2 - 0.4,
}
IMAGE = (
    "brightness",
    "contrast",
    "edge_density",
    "sharpness",
    "difference_mean",
    "difference_max",
)


def named(view, frame=-1):
    """Features of one frame by name."""
    return dict(
        zip(
            FEATURE_NAMES,
            cheap_features(Sight(view).glances[frame]).tolist(),
            strict=True,
        )
    )


def null(features):
    return {name for name, value in features.items() if np.isnan(value)}


def group(name):
    return {feature.name for feature in FEATURES if feature.group == name}


def stopping(range_m, speed):
    return min(speed**2 / (2 * (range_m - 2.0 - 0.4 * speed)), 9.0)


def same_bits(view, *, images=True):
    """Assert that the unit and its frames one by one give the same features; return
    their number.
    """
    unit = rows(view, images=images)
    single = [FRONT.row(seen) for seen in glances_of(view, images=images)]
    assert unit.tobytes() == np.array(single).reshape(unit.shape).tobytes()
    return len(unit)


def rows(view, *, images=True):
    """Features and memory of each frame of a unit."""
    return FRONT.rows(Sight(view, images=images))


def check_demands(view):
    """Assert that lift, links, closing speeds and demands are to the bit those of the
    braking system's own rule.
    """
    used, run = view.mode.used(view.detections.score), view.detections.run
    objects = monocular_objects(view.detections.where(used), view.scene)
    features = rows(view, images=False)
    for name, corridor_m in WIDTHS_M.items():
        settings = BrakingSettings(corridor_m=corridor_m)
        needed = required_deceleration_mps2(
            objects, view.scene.ego_speed_mps, settings=settings
        )
        np.testing.assert_array_equal(
            features[:, FEATURE_NAMES.index(name)], np.where(run, needed, np.nan)
        )


def test_confidence_and_uncertainty_of_three_boxes():
    rows = [
        (0, 0.5, 20.0, -1.0, 1.0),
        (0, 0.9, 30.0, 3.0, 5.0),
        (0, 0.2, 40.0, -6.0, -4.0),
    ]
    found = named(car_view(rows, mode=CheapMode("probabilities", 0.25)))
    mean = (0.9 + 0.5 + 0.2) / 3
    entropy = [-p * np.log(p) - (1 - p) * np.log(1 - p) for p in (0.9, 0.5, 0.2)]
    expected = {
        "confidence_sum": 1.6,
        "confidence_mean": mean,
        "confidence_std": np.sqrt(
            ((0.9 - mean) ** 2 + (0.5 - mean) ** 2 + (0.2 - mean) ** 2) / 3
        ),
        "confidence_min": 0.2,
        "confidence_q25": (0.2 + 0.5) / 2,
        "confidence_q50": 0.5,
        "confidence_q75": (0.5 + 0.9) / 2,
        "confidence_max": 0.9,
        "confidence_second": 0.5,
        "confidence_third": 0.2,
        "confidence_025": 0,
        "confidence_040": 1,
        "confidence_060": 0,
        "confidence_080": 1,
        "entropy_sum": sum(entropy),
        "entropy_mean": sum(entropy) / 3,
        "entropy_max": np.log(2),
        "doubt_sum": 4 * (0.9 * 0.1 + 0.5 * 0.5 + 0.2 * 0.8),
        "low_count": 1,
        "margin_sum": 0.65 + 0.25 + 0.05,
        "margin_mean": (0.65 + 0.25 + 0.05) / 3,
        "margin_min": 0.05,
        "margin_010": 1,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name
    assert {"confidence_fourth", "confidence_fifth"} <= null(found)


def test_counts_areas_and_motion():
    rows = [
        (0, 0.9, 20.0, -1.0, 1.0),
        (0, 0.9, 40.0, 6.0, 8.0),
        (1, 0.9, 19.0, -1.0, 1.0),
    ]
    view = car_view(rows, 2)
    view = replace(
        view, scene=replace(view.scene, ego_speed_mps=np.array([10.0, 11.0]))
    )
    found = named(view)
    width, height = 2.0 / (19.0 - 1.1), 1.53 / (19.0 - 1.1)
    expected = {
        "count": 1,
        "count_car": 1,
        "count_large": 0,
        "count_person": 0,
        "count_cyclist": 0,
        "area_sum": width * height,
        "area_max": width * height,
        "count_change": -1,
        "fresh_count": 0,
        "vanished_count": 1,
        "ego_speed_mps": 11.0,
        "ego_acceleration_mps2": 1.0 / 0.1,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name


def test_classes_are_counted_by_kind():
    view = car_view([(0, 0.9, 20.0, 2.0 * y, 2.0 * y + 1) for y in range(9)])
    names = [
        "Car",
        "Van",
        "Truck",
        "Bus",
        "Tram",
        "Misc",
        "Pedestrian",
        "Person_sitting",
        "Cyclist",
    ]
    found = named(
        replace(view, detections=replace(view.detections, cls=np.array(names)))
    )
    assert [
        found[f"count_{kind}"] for kind in ("car", "large", "person", "cyclist")
    ] == [1, 5, 2, 1]
    with pytest.raises(InputError, match="classes must be among"):
        named(
            replace(
                view, detections=replace(view.detections, cls=np.array(["Boat"] * 9))
            )
        )


def test_criticality_of_three_cars():
    # In the corridor at 30 m; 1.4 to 3 m aside at 19 m; a box that is not used at 15 m
    # in the corridor.
    rows = [
        (0, 0.9, 30.0, -0.5, 1.5),
        (0, 0.8, 19.0, 1.4, 3.0),
        (0, 0.2, 15.0, -1.0, 0.5),
    ]
    found = named(car_view(rows))
    expected = {
        "required": stopping(30.0, 10.0),
        "required_wider_03": stopping(19.0, 10.0),
        "required_wider_08": stopping(19.0, 10.0),
        "required_narrower_04": stopping(30.0, 10.0),
        "required_closing": 0.0,
        "required_reported": stopping(15.0, 10.0),
        "corridor_count": 1,
        "corridor_nearest_m": 30.0,
        "nearest_m": 19.0,
        "side_nearest_m": 19.0,
        "close_count": 1,
        "headway_s": 3.0,
        "time_to_collision_s": 10.0,
        "aside_m": -0.5,
        "proximity": 10 / 40 + 10 / 29,
        "demanding_confidence": 0.9,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


def test_a_box_that_grows_closes_in():
    view = car_view(
        [(0, 0.9, 21.1, -1.0, 1.0), (1, 0.9, 19.1, -1.0, 1.0)], 2, speed_mps=0.0
    )
    found = named(view)
    closing = 19.1 * (20.0 / 18.0 - 1) / 0.1
    assert found["time_to_collision_s"] == pytest.approx(19.1 / closing)
    assert (
        found["required_closing"]
        == found["required"]
        == pytest.approx(stopping(19.1, closing))
    )
    assert found["headway_s"] == 10.0


def test_what_is_null_without_scores_threshold_pictures_or_a_frame_before():
    rows = [(0, 0.9, 30.0 - y, 2.0 * y, 2.0 * y + 1) for y in range(6)]
    rows += [(1, *row[1:]) for row in rows]
    margins = {"margin_sum", "margin_mean", "margin_min", "margin_005", "margin_010"}
    suppression = {"suppression_pairs", "suppression_sum", "suppression_max"}
    on_scores = (
        group("confidence") | group("uncertainty") | {"demanding_confidence"}
    ) - suppression
    before = {"count_change", "fresh_count", "vanished_count", "ego_acceleration_mps2"}
    assert null(named(car_view(rows, 2))) == set(IMAGE)
    assert (
        null(named(car_view(rows, 2, mode=CheapMode("probabilities"))))
        == set(IMAGE) | margins
    )
    assert (
        null(named(car_view(rows, 2, mode=CheapMode("none")))) == set(IMAGE) | on_scores
    )
    assert (
        null(named(car_view(rows, 2, mode=CheapMode("raw", 0.5))))
        == set(IMAGE) | on_scores
    )
    assert null(
        named(car_view(rows, 2, mode=CheapMode("raw", 0.5, CALIBRATION)))
    ) == set(IMAGE)
    assert null(named(car_view(rows, 2), 0)) == set(IMAGE) | before
    pictured = car_view(rows, 2, images=np.zeros((2, 20, 30, 3), np.uint8))
    assert null(named(pictured, 0)) == {"difference_mean", "difference_max"} | before
    assert null(named(pictured)) == set()


def test_pictures_are_sampled_averaged_and_measured():
    flat = np.full((375, 1242, 3), (10, 20, 30), np.uint8)
    level = (77 * 10 + 150 * 20 + 29 * 30) / 256
    small = grey(flat)
    assert small.shape == (75 // 2, 249 // 2)
    assert image_statistics(small, small) == pytest.approx(
        [level, 0, 0, 0, 0, 0], abs=1e-12
    )
    # Left half black, right half 200: one of three columns of pixels is an edge, and
    # the Laplacian is +-200 beside it.
    halves = np.zeros((4, 4))
    halves[:, 2:] = 200.0
    mean, contrast, edges, sharpness, changed, most = image_statistics(
        halves, np.zeros((4, 4))
    )
    assert (mean, contrast, edges, sharpness, changed, most) == (
        100,
        100,
        1 / 3,
        200,
        100,
        200,
    )
    assert np.isnan(image_statistics(halves, np.zeros((2, 4)))[4:]).all()
    assert np.isnan(image_statistics(None, halves)).all()
    for shape in ((1, 1), (2, 5), (1, 9), (3, 3)):
        assert np.isfinite(
            image_statistics(grey(np.zeros((*shape, 3), np.uint8)), None)[:2]
        ).all()
    with pytest.raises(InputError, match="8 bit"):
        grey(np.zeros((4, 4, 3)))


def test_frames_one_by_one_give_the_bits_of_their_unit_and_the_braking_rules_demands():
    rng = np.random.default_rng(11)
    frames = 0
    for _ in range(60):
        rounded, images = rng.random(2) < (0.4, 0.2)
        view = random_view(rng, 34, rounded=bool(rounded), images=bool(images))
        frames += same_bits(view)
        check_demands(view)
    assert frames == 60 * 34
    for mode in MODES:
        assert same_bits(car_view([], 4, mode=mode)) == 4
        assert same_bits(car_view([], 0, mode=mode)) == 0


def test_the_order_of_boxes_never_matters():
    rng = np.random.default_rng(5)
    for _ in range(15):
        view = random_view(rng, rounded=bool(rng.random() < 0.5))
        assert rows(shuffled(view, rng)).tobytes() == rows(view).tobytes()


def test_confidence_statistics_are_those_of_numpy():
    rng = np.random.default_rng(8)
    for _ in range(60):
        p = rng.uniform(0.1, 1, rng.integers(1, 12))
        found = named(
            car_view(
                [(0, each, 20.0 + n, 2.0 * n, 2.0 * n + 1) for n, each in enumerate(p)]
            )
        )
        names = (
            "confidence_min",
            "confidence_q25",
            "confidence_q50",
            "confidence_q75",
            "confidence_max",
        )
        np.testing.assert_allclose(
            [found[name] for name in names],
            np.percentile(p, [0, 25, 50, 75, 100]),
            rtol=1e-9,
        )
        assert found["confidence_std"] == pytest.approx(np.std(p), rel=1e-9, abs=1e-12)


def test_sources_without_image_boxes_are_refused():
    view = car_view([(0, 0.9, 20.0, -1.0, 1.0)])
    blind = replace(
        view, detections=replace(view.detections, box_px=np.full((1, 4), np.nan))
    )
    for looked in (lambda: Sight(blind).glances, lambda: next(glances_of(blind))):
        with pytest.raises(InputError, match="needs image boxes"):
            looked()


@pytest.fixture(scope="module")
def kitti():
    return read_dataset(
        "kitti", shared_data("kitti_tracking"), ["0000", "0002", "0014"]
    )


@pytest.mark.shared
@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ("RRC", CheapMode("probabilities", 0.25)),
        ("PointRCNN", CheapMode("raw", 2.0, CALIBRATION)),
        ("CIWT", CheapMode("raw")),
        ("YOLOv3-SORT", CheapMode("none")),
    ],
)
def test_real_units_give_the_same_bits_and_the_braking_rules_demand(
    kitti, source, mode
):
    path = shared_data("kitti_tracking", "detections", f"{source}.parquet")
    found = read_detections(path, kitti.scenes, source=Source(scores=mode.scores))
    for drive in (each for each in kitti.scenes if each.unit != "0002"):
        view = View(drive, found[drive.unit], mode)
        assert same_bits(view, images=False) == len(drive)
        check_demands(view)
