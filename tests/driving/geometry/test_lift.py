import math
from dataclasses import replace

import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.geometry.camera import (
    Camera,
    LiftSettings,
    fused_depth_m,
    ground_cue,
    height_cue,
    image_points_px,
    lift,
    rigid_range_m,
    transform,
)
from deepval.driving.geometry.classes import (
    HEIGHT_M,
    LENGTH_M,
    SUPER_CLASS,
    lookup,
    super_class,
)
from deepval.driving.perception.placing import lift_bias, monocular_objects
from driving import CAMERA_AXES, camera, detections, scene, truth
from reference import driving as slow


def tilted(rng):
    """A camera with a small random rotation."""
    w = rng.normal(0, 0.02, 3)
    turn = np.array([[1, -w[2], w[1]], [w[2], 1, -w[0]], [-w[1], w[0], 1]])
    pose = np.eye(4)
    pose[:3, :3] = turn @ CAMERA_AXES
    pose[:3, 3] = rng.normal((1.1, -0.25, 0.73), 0.1)
    return Camera(
        rng.uniform(500, 900),
        rng.uniform(500, 900),
        rng.uniform(550, 650),
        173.0,
        pose,
        -0.93,
    )


def test_cues_by_hand():
    view, box = camera(), np.array([[560.0, 125.0, 660.0, 245.0]])
    height = height_cue(box, np.array([1.53]), camera=view, settings=LiftSettings())
    assert height.depth_m[0] == pytest.approx(720 * 1.53 / 120)
    ground = ground_cue(box, view, settings=LiftSettings())
    assert ground.depth_m[0] == pytest.approx((0.73 + 0.93) / ((245 - 173) / 720))
    spread_px = math.hypot(2, 720 * math.radians(0.3))
    assert ground.weight[0] == pytest.approx(
        (ground.depth_m[0] ** 2 * spread_px / (720 * 1.66)) ** -2
    )


def test_a_box_above_the_horizon_uses_the_height_cue_alone():
    found = lift(
        np.array([[600.0, 50.0, 620.0, 150.0]]), np.array([1.75]), camera=camera()
    )
    assert found.range_m[0] == pytest.approx(720 * 1.75 / 100 + 1.1)


def test_lift_equals_the_slow_twin():
    rng = np.random.default_rng(0)
    for _ in range(50):
        view = tilted(rng)
        corner = np.column_stack([rng.uniform(-50, 1200, 50), rng.uniform(0, 300, 50)])
        box = np.column_stack([corner, corner + rng.uniform(0.5, 250, (50, 2))])
        height = rng.choice(list(HEIGHT_M.values()), 50)
        found = lift(box, height, camera=view)
        expected = np.array(
            [
                slow.lifted(b, h, view)
                for b, h in zip(box.tolist(), height.tolist(), strict=True)
            ]
        )
        np.testing.assert_allclose(
            np.column_stack([found.range_m, found.lateral_m]),
            expected,
            rtol=1e-9,
            atol=1e-9,
        )


def test_projection_undoes_the_ray_and_hides_what_is_behind():
    view = camera()
    point = transform(view.ego_from_cam, np.array([[2.0, 1.0, 10.0], [0.0, 0.0, -1.0]]))
    pixel = image_points_px(view, point)
    assert pixel[0].tolist() == pytest.approx([610 + 720 * 0.2, 173 + 720 * 0.1])
    assert np.isnan(pixel[1]).all()


def test_classes_have_priors_and_a_super_class():
    assert set(HEIGHT_M) == set(LENGTH_M) == set(SUPER_CLASS)
    assert lookup(np.array(["Car", "Bus", "Car"]), LENGTH_M).tolist() == [
        4.6,
        11.2,
        4.6,
    ]
    assert super_class(np.array(["Person_sitting", "Van"])).tolist() == [
        "person",
        "vehicle",
    ]
    assert (
        lookup(np.array([], dtype=str), LENGTH_M).shape
        == super_class(np.array([], dtype=str)).shape
        == (0,)
    )
    with pytest.raises(InputError, match="found cow"):
        lookup(np.array(["cow"]), HEIGHT_M)


def test_a_camera_must_make_sense():
    with pytest.raises(InputError, match="focal"):
        Camera(0.0, 1.0, 0.0, 0.0, np.eye(4), 0.0)
    with pytest.raises(InputError, match="finite"):
        Camera(1.0, 1.0, 0.0, 0.0, np.full((4, 4), np.nan), 0.0)


def test_lift_bias_per_band_counts_matched_cars_only():
    drive = scene(1)
    box = (560.0, 125.0, 660.0, 245.0)
    found = detections(
        [
            (0, "Car", 1.0, *box),
            (0, "Car", 1.0, 5.0, 5.0, 9.0, 9.0),
            (0, "Van", 1.0, *box),
        ],
        1,
    )
    reference = truth([(0, "Car", 1, 0, box, (10.0, 14.0, -1.0, 1.0), 0.0)], 1)
    near, far = lift_bias(
        {"0000": found},
        [drive],
        truths=[reference],
        bands_m=[(0.0, 15.0), (15.0, 30.0)],
    )
    excess = monocular_objects(found, drive).near_m[0] - 10.0
    assert (near.detections, near.mean_m, near.median_m) == (
        1,
        pytest.approx(excess),
        pytest.approx(excess),
    )
    # A camera without pitch: the axes of camera and vehicle agree, and the whole
    # transform changes nothing.
    assert near.rigid_median_m == pytest.approx(excess)
    assert far.detections == 0
    assert np.isnan(far.mean_m)
    assert np.isnan(far.rigid_median_m)


def test_the_rigid_transform_is_the_product_with_the_whole_matrix():
    pitch = np.deg2rad(4.0)
    level = scene(1).camera
    turn = np.eye(4)
    turn[:3, :3] = [
        [np.cos(pitch), 0, np.sin(pitch)],
        [0, 1, 0],
        [-np.sin(pitch), 0, np.cos(pitch)],
    ]
    camera = replace(level, ego_from_cam=turn @ level.ego_from_cam)
    box, height_m = np.array([[300.0, 150.0, 380.0, 250.0]]), np.array([1.5])
    depth_m = float(fused_depth_m(box, height_m, camera=camera)[0])
    ray = np.array(
        [
            (340.0 - camera.cx_px) / camera.fx_px,
            (250.0 - camera.cy_px) / camera.fy_px,
            1.0,
        ]
    )
    point = camera.ego_from_cam @ np.append(depth_m * ray, 1.0)
    assert rigid_range_m(box, height_m, camera=camera)[0] == pytest.approx(point[0])
    assert abs(point[0] - lift(box, height_m, camera=camera).range_m[0]) > 0.05


def test_a_box_centre_lies_half_a_class_length_behind_the_near_face():
    found = detections(
        [
            (0, "Car", 1.0, 560.0, 180.0, 660.0, 260.0),
            (0, "Bus", 1.0, 560.0, 180.0, 660.0, 260.0),
        ]
    )
    objects = monocular_objects(found, scene())
    assert np.allclose(objects.centre_m[:, 0] - objects.near_m, [4.6 / 2, 11.2 / 2])
    assert np.allclose(objects.centre_m[:, 1], objects.lateral_m.sum(axis=1) / 2)
