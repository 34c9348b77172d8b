"""A log becomes scenes and truths: the ego frame, image boxes, occlusion, the future;
faults are told.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import driving
from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.log import poses_of
from deepval.driving.datasets.logs.scenarionet_records import CAMERA
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.geometry.camera import (
    cuboid_corners_m,
    image_boxes_px,
    looking_ahead,
    occlusion,
)
from deepval.driving.geometry.vehicle import ZOE, ground_corners_m
from deepval.driving.perception.placing import reference_partners
from deepval.driving.perception.reported.losses import matching
from log_worlds import log, standing, track

ANGLE, PLACE = st.floats(-7, 7), st.floats(-1000, 1000)


@given(
    st.lists(
        st.tuples(PLACE, PLACE, ANGLE, st.floats(-20, 20), st.floats(-20, 20)),
        max_size=4,
    ),
    ANGLE,
    PLACE,
)
def test_corners_and_velocities_lead_back_to_the_log(rows, turn, far):
    pose = np.column_stack(
        [
            np.linspace(far, far + 5, 11),
            np.linspace(3, 9, 11),
            np.linspace(turn, turn + 2, 11),
        ]
    )
    tracks = [track([(5, *row)], key=str(place)) for place, row in enumerate(rows)]
    scene, truth = unit_of(log(tracks, pose=pose))
    assert truth.frame.tolist() == [1] * len(rows)
    back = scene.world_from_ego[1]
    corners = truth.objects.corners_m @ back[:2, :2].T + back[:2, 3]
    told = np.array(rows).reshape(-1, 5)
    logged = ground_corners_m(
        told[:, :2], np.tile([4.0, 2.0], (len(rows), 1)), yaw_rad=told[:, 2]
    )
    assert np.abs(corners - logged).max(initial=0) < 1e-9
    assert (
        np.abs(truth.objects.velocity_mps @ back[:2, :2].T - told[:, 3:]).max(initial=0)
        < 1e-9
    )
    assert truth.objects.track.tolist() == list(range(len(rows)))


def test_states_and_what_is_known_at_them():
    reds = tuple(frozenset({"l1"} if step >= 5 else ()) for step in range(11))
    more = {
        "route_starts": np.arange(11) // 6,
        "red_lights": reds,
        "acceleration_mps2": np.arange(11) / 2,
    }
    scene, truth = unit_of(log([standing(20, 0)], **more))
    assert scene.frame_ids.tolist() == ["000000", "000005", "000010"]
    assert scene.time_s == pytest.approx([0, 0.5, 1.0])
    assert scene.route_starts.tolist() == [0, 0, 1]
    assert [len(shut) for shut in scene.red_lights] == [0, 1, 1]
    assert scene.ego_acceleration_mps2.tolist() == [0, 2.5, 5.0]
    assert (scene.vehicle, len(scene.lane_map.lanes), scene.route) == (
        ZOE,
        3,
        ("rb_l0", "rb_l1"),
    )
    # It stands 20 m ahead of the start with its rear at 18 m, and the ego comes 2.5 m
    # nearer from state to state.
    assert truth.objects.near_m == pytest.approx([18, 15.5, 13])
    assert truth.objects.closing_mps == pytest.approx([0, 5, 5])
    assert scene.frame_ids.dtype.kind == "U"


def test_the_pose_is_made_level():
    tilted = poses_of(np.zeros((11, 3)))
    tilted[:, :3, :3] = [[0.9, 0, 0.1], [0, 1, 0], [-0.1, 0, 0.9]]
    scene, truth = unit_of(log([standing(20, 3)], world_from_ego=tilted))
    assert np.array_equal(scene.world_from_ego[0], np.eye(4))
    assert truth.objects.corners_m[0].mean(axis=0) == pytest.approx([20, 3])


def test_a_hole_in_the_valid_flags_is_simply_not_there():
    gap = track([(step, 20, 0, 0, 0, 0) for step in (0, 10)])
    _, truth = unit_of(log([gap, standing(30, 0, key="other")]))
    assert truth.frame.tolist() == [0, 0, 1, 2, 2]
    assert truth.objects.track.tolist() == [0, 1, 1, 0, 1]
    assert truth.objects.closing_mps == pytest.approx([0, 0, 5, 0, 5])


def test_the_future_is_where_all_went():
    walker = track(
        [(step, 10, step / 10, np.pi / 2, 0, 1) for step in range(60)],
        60,
        cls="Pedestrian",
    )
    brief = track([(5, 7, 7, 0, 0, 0)], 60, key="brief")
    scene, truth = unit_of(log([walker, brief], 60))
    future = truth.future
    assert len(scene) == 12
    assert future.times_s.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert future.valid.all(axis=1).tolist() == [
        step + 40 < 60 for step in range(0, 60, 5)
    ]
    assert future.pose[0, :, 0] == pytest.approx(2.5 * np.arange(1, 9))
    assert np.isnan(future.pose[-1, -1]).all()
    assert future.objects[0].at(0).track.tolist() == [0, 1]
    assert future.objects[1].at(0).track.tolist() == [0]
    # From state 2 (step 10, ego at x = 5) on, 4 s later the walker is at (10, 5).
    ahead = future.objects[7].at(2)
    assert ahead.corners_m[0].mean(axis=0) == pytest.approx([5, 5])
    assert ahead.velocity_mps[0] == pytest.approx([0, 1])
    assert len(future.objects[7].at(4)) == 0


def test_image_boxes():
    pose = looking_ahead(0.0, height_m=1.5)
    camera = replace(
        CAMERA, ego_from_cam=pose, cx_px=800.0, cy_px=450.0, fx_px=1000.0, fy_px=1000.0
    )

    def box(x, y, *, length=4.0, width=2.0, height=1.5):
        ground = ground_corners_m(
            np.array([[x, y]], dtype=float),
            np.array([[length, width]]),
            yaw_rad=np.zeros(1),
        )
        cuboid = cuboid_corners_m(
            ground, bottom_m=np.zeros(1), height_m=np.array([height])
        )
        return image_boxes_px(camera, cuboid)[0]

    # The near face is 20 m away: 2 m and 1.5 m become 100 and 75 px; its foot is 1.5 m
    # below the horizon at 450.
    assert box(22, 0) == pytest.approx([750, 450, 850, 525])
    assert np.isnan(box(-10, 0)).all()
    assert np.isnan(box(82, 0)).all()  # 1.5 m at 80 m are 18.75 px
    assert np.isnan(box(10, 30)).all()
    # From 1 to 5 m ahead, 1.5 to 3.5 m to the left: the left part is cut off.
    beside = box(3, 2.5)
    assert beside == pytest.approx([0, 450, 800 - 1000 * 1.5 / 5, 900])
    # From 1 m behind to 3 m ahead, 0.2 to 2.2 m to the left: only the corners in front
    # of the camera count.
    half = box(1.0, 1.2, length=4.0)
    assert half == pytest.approx([800 - 1000 * 2.2 / 3, 450, 800 - 1000 * 0.2 / 3, 900])


def test_a_camera_without_image_size_is_told():
    with pytest.raises(InputError, match="image size"):
        unit_of(log([standing(20, 0)], camera=driving.camera()))


def test_occlusion_is_by_what_nearer_boxes_cover_together():
    box = np.array(
        [
            [0, 0, 100, 100],
            [0, 0, 10, 100],
            [5, 0, 70, 100],
            [0, 0, 100, 100],
            [np.nan] * 4,
        ],
        dtype=float,
    )
    range_m = np.array([30.0, 10, 20, 5, 1])
    frame = np.array([0, 0, 0, 1, 1])
    assert occlusion(frame, box, range_m=range_m).tolist() == [2, 0, 0, 0, 0]
    assert occlusion(frame, box, range_m=np.array([15.0, 10, 20, 5, 1])).tolist() == [
        0,
        0,
        2,
        0,
        0,
    ]
    assert occlusion(
        frame[:2], np.array([[0, 0, 100, 100.0], [0, 0, 30, 100]]), range_m=range_m[:2]
    ).tolist() == [1, 0]


def test_what_is_not_in_the_image_is_ignored_not_refused():
    scene, truth = unit_of(
        log(
            [
                standing(22, 0),
                standing(-20, 0, key="behind"),
                standing(60, 500, key="far"),
            ]
        )
    )
    assert np.isfinite(truth.height_px).tolist() == [True, False, False] * 3
    assert truth.judged().tolist() == [True, False, False] * 3
    box = truth.box_px[0]
    seen = driving.detections(
        [(0, "Car", 0.9, *box), (1, "Car", 0.9, 0, 0, 50, 50)], len(scene), unit="u"
    )
    found = matching(seen, truth)
    assert found.partner.tolist() == [0, -1]
    assert found.false_positive.tolist() == [False, True]
    assert found.missed.tolist() == [False, False, False] + [True, False, False] * 2
    assert reference_partners(seen, truth).overlap.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"time_s": np.arange(11) * 0.1 + (np.arange(11) > 6)},
            r"from step 6 to 7 there are 1\.1 s",
        ),
        ({"time_s": np.arange(11) * np.nan}, "finite time stamps"),
        ({"speed_mps": np.full(11, np.nan)}, "must be finite"),
        (
            {"tracks": (standing(20, 0, 9),)},
            "rows of track t must be 11, one per step; found 9",
        ),
        ({"states": np.array([0, 11])}, "states must be steps in order"),
        ({"frame_ids": ("a",)}, "frame ids must be 3"),
    ],
)
def test_faults_of_a_log_are_told(more, told):
    with pytest.raises(InputError, match=told):
        log(**more)


def test_steps_that_half_a_second_does_not_hold_are_told():
    with pytest.raises(
        InputError,
        match=r"half a second must be a whole number of steps; its steps are 0\.2 s",
    ):
        unit_of(log(time_s=np.arange(11) * 0.2))
