"""Views: what they hold and refuse, what counts as used and as probable, and how a unit
becomes frames.
"""

import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from deepval.basics.errors import InputError
from deepval.deploy.features import glance
from deepval.driving.perception.reported.detections import Calibration
from deepval.driving.views import CheapMode, Frame, Past, View, frames_of, picture
from driving import detections, scene
from view_worlds import CALIBRATION, car_px, car_view, random_view, until


def test_a_view_holds_nothing_but_the_scene_the_cheap_mode_and_what_it_observes():
    assert [field.name for field in fields(View)] == [
        "scene",
        "detections",
        "mode",
        "objects",
        "connector_m",
    ]
    names = {field.name for field in fields(Frame)}
    assert names == {
        "ego_speed_mps",
        "dt_s",
        "camera",
        "cls",
        "score",
        "box_px",
        "image",
        "run",
    } | {
        "objects",
        "vehicle",
        "connector_m",
    }


def test_scene_and_detections_must_be_of_one_unit():
    with pytest.raises(InputError, match="of one unit"):
        View(scene(3, unit="a"), detections([], 3, unit="b"))
    with pytest.raises(InputError, match=r"0000 \(3 frames\) and 0000 \(2 frames\)"):
        View(scene(3), detections([], 2))


def test_used_boxes_reach_the_threshold():
    score = np.array([0.1, 0.25, 0.9])
    assert CheapMode("probabilities", 0.25).used(score).tolist() == [False, True, True]
    assert CheapMode("none").used(np.full(3, np.nan)).all()
    with pytest.raises(InputError, match="cannot have a threshold"):
        CheapMode("none", 0.5)


def test_probabilities_are_scores_or_calibrated_raw_scores():
    score = np.array([1.0, 5.0])
    assert CheapMode("probabilities").probability(np.array([0.3])).tolist() == [0.3]
    assert np.isnan(CheapMode("raw").probability(score)).all()
    calibrated = CheapMode("raw", 1.0, CALIBRATION)
    np.testing.assert_allclose(calibrated.probability(score), [(0.2 + 0.7) / 2, 0.95])
    assert calibrated.threshold_probability == pytest.approx((0.2 + 0.7) / 2)
    assert np.isnan(CheapMode("raw", 1.0).threshold_probability)
    assert np.isnan(CheapMode("probabilities").threshold_probability)
    assert [
        CheapMode(kind).has_probabilities for kind in ("probabilities", "raw", "none")
    ] == [True, False, False]
    with pytest.raises(InputError, match="only raw scores are calibrated"):
        CheapMode("probabilities", calibration=Calibration(np.zeros(1), np.zeros(1)))


def test_a_calibrated_threshold_compares_raw_scores():
    flat = Calibration(np.array([0.0, 10.0]), np.array([0.5, 0.5]))
    assert CheapMode("raw", 2.0, flat).used(np.array([1.9, 2.0])).tolist() == [
        False,
        True,
    ]


def test_frames_are_the_unit_as_it_arrives():
    view = car_view(
        [
            (0, 0.9, 20.0, -1.0, 1.0),
            (2, 0.8, 18.0, -1.0, 1.0),
            (2, 0.7, 30.0, 3.0, 5.0),
        ],
        3,
    )
    view = replace(view, scene=scene(3, speed_mps=[8.0, 9.0, 10.0]))
    first, second, third = frames_of(view)
    assert np.isnan(first.dt_s)
    assert (second.ego_speed_mps, second.dt_s, len(second.score)) == (
        9.0,
        pytest.approx(0.1),
        0,
    )
    assert third.cls.tolist() == ["Car", "Car"]
    np.testing.assert_array_equal(third.box_px[1], car_px(30.0, 3.0, 5.0))
    assert first.image is None
    assert all(frame.run for frame in (first, second, third))


def test_the_view_until_a_frame_forgets_what_comes_later():
    view = random_view(np.random.default_rng(3), 9, images=True)
    shorter = until(view, 5)
    assert len(shorter) == len(shorter.scene) == 5
    assert (shorter.detections.frame < 5).all()
    for one, other in zip(frames_of(shorter), frames_of(view), strict=False):
        np.testing.assert_array_equal(one.box_px, other.box_px)
        np.testing.assert_array_equal(one.image, other.image)
    assert len(list(frames_of(until(view, 0)))) == 0


def test_pictures_come_from_memory_or_from_files(tmp_path):
    cv2 = pytest.importorskip("cv2")
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    path = tmp_path / "0.png"
    cv2.imwrite(str(path), image[:, :, ::-1])
    np.testing.assert_array_equal(picture(scene(1, images=image[None]), 0), image)
    np.testing.assert_array_equal(picture(scene(1, image_paths=(path,)), 0), image)
    view = car_view([], 2, image_paths=(None, path))
    assert [frame.image is None for frame in frames_of(view)] == [True, False]
    assert [frame.image is None for frame in frames_of(view, images=False)] == [
        True,
        True,
    ]


def test_a_picture_that_is_none_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "0.png"
    path.write_text("no picture")
    with pytest.raises(InputError, match="must be an image file"):
        picture(scene(1, image_paths=(path,)), 0)
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(
        InputError, match=r"needs cv2, which is not installed: pip install .*\[vision\]"
    ):
        picture(scene(1, image_paths=(path,)), 0)


def test_frames_that_cannot_be_are_refused():
    frame = next(iter(frames_of(car_view([(0, 0.9, 20.0, -1.0, 1.0)]))))
    # With run-time shapes on, the annotation refuses it before the sentence does.
    with pytest.raises(
        (InputError, TypeCheckError),
        match=r"for each detection; found \(0, 1, 1\)|f64\[1\]",
    ):
        replace(frame, cls=np.zeros(0, "<U14"))
    with pytest.raises(InputError, match="boxes must be finite"):
        replace(frame, box_px=np.array([[0.0, 0.0, np.inf, 9.0]]))
    for speed_mps in (-1.0, np.nan, np.inf, 1e308):
        with pytest.raises(InputError, match="finite and not negative"):
            replace(frame, ego_speed_mps=speed_mps)
    with pytest.raises(InputError, match="has no boxes; found 1"):
        replace(frame, run=False)
    after = glance(frame, Past(), mode=CheapMode()).after
    for dt_s in (0.0, -0.1, np.nan):
        with pytest.raises(InputError, match="time must pass"):
            glance(replace(frame, dt_s=dt_s), after, mode=CheapMode())
