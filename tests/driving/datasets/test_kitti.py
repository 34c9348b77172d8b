from dataclasses import replace

import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.datasets.kitti import read_calibration
from driving import camera, scene
from in_memory import read_dataset
from whole_sets import read_kitti as read

P2 = "720 0 610 72 0 720 173 0 0 0 1 0"
RECT = "1 0 0 0 1 0 0 0 1"
VELO_CAM = "0 -1 0 0 0 0 -1 0 1 0 0 -0.3"
IMU_VELO = "1 0 0 -0.8 0 1 0 0.3 0 0 1 -0.8"
TRACKING = {"P2:": P2, "R_rect": RECT, "Tr_velo_cam": VELO_CAM, "Tr_imu_velo": IMU_VELO}
OBJECT = {
    "P2:": P2,
    "R0_rect:": RECT,
    "Tr_velo_to_cam:": VELO_CAM,
    "Tr_imu_to_velo:": IMU_VELO,
}
LABELS = """0 -1 DontCare -1 -1 -10 0 0 20 20 -1000 -1000 -1000 -10 -1 -1 -1
0 1 Car 0 0 0 600 150 650 200 1.5 1.6 4.0 2.0 1.6 20.0 -1.5707963267948966
1 1 Car 0 1 0 600 150 650 200 1.5 1.6 4.0 2.0 1.6 19.0 -1.5707963267948966
1 2 Person 0 3 0 100 150 120 200 1.2 0.6 0.6 -3.0 1.6 9.0 0.0
"""


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def kitti(tmp_path):
    root = tmp_path / "training"
    write(root, "label_02/0000.txt", LABELS)
    write(
        root,
        "calib/0000.txt",
        "".join(f"{key} {value}\n" for key, value in TRACKING.items()),
    )
    write(
        root,
        "poses/0000.txt",
        "".join(f"1 0 0 0 0 1 0 0 0 0 1 {z}\n" for z in (0, 1.033, 3.099)),
    )
    write(root, "image_02/0000/000000.png", "")
    write(root, "image_02/0000/000000.jpg", "")
    write(root, "image_02/0000/000002.jpg", "")
    return tmp_path


def test_objects_are_moved_to_the_ego_frame(kitti):
    reference = read_dataset("kitti", kitti).truths[0]
    assert reference.cls.tolist() == ["Car", "Car", "Person_sitting"]
    assert reference.occlusion.tolist() == [0, 1, 3]
    # Camera 0 sits 0.3 + 0.8 m ahead of and 0.3 m to the right of the ego origin; ry =
    # -90 degrees points away.
    assert reference.objects.near_m[:2].tolist() == pytest.approx(
        [20 - 2 + 1.1, 19 - 2 + 1.1]
    )
    assert reference.objects.lateral_m[0].tolist() == pytest.approx(
        [-2 - 0.8 - 0.3, -2 + 0.8 - 0.3]
    )
    assert reference.objects.far_m[0] == pytest.approx(20 + 2 + 1.1)
    assert reference.objects.closing_mps.tolist() == pytest.approx([0, 1 / 0.1033, 0])
    assert reference.ignored_box_px.tolist() == [[0, 0, 20, 20]]
    assert reference.judged().tolist() == [True, True, False]


def test_camera_2_sits_beside_camera_0(kitti):
    view = read(kitti / "training").scenes[0].camera
    assert view.ego_from_cam[:3, 3].tolist() == pytest.approx(
        [1.1, -0.3 + 72 / 720, 0.8]
    )
    assert view.height_m == pytest.approx(0.8 + 0.93)
    assert (view.fx_px, view.cx_px, view.cy_px) == (720, 610, 173)


def test_both_spellings_of_the_calibration_are_read(kitti):
    write(
        kitti,
        "object.txt",
        "".join(f"{key} {value}\n" for key, value in OBJECT.items()),
    )
    one, other = (
        read_calibration(kitti / "object.txt"),
        read_calibration(kitti / "training/calib/0000.txt"),
    )
    np.testing.assert_array_equal(one.ego_from_cam0, other.ego_from_cam0)


def test_speed_from_poses_is_a_backward_difference_along_the_earlier_heading(kitti):
    assert read(kitti).scenes[0].ego_speed_mps.tolist() == pytest.approx([10, 10, 20])
    turned = (
        "1 0 0 0 0 1 0 0 0 0 1 0\n0 0 1 0 0 1 0 0 -1 0 0 1\n0 0 1 3 0 1 0 0 -1 0 0 9\n"
    )
    write(kitti, "training/poses/0000.txt", turned)
    assert read(kitti).scenes[0].ego_speed_mps.tolist() == pytest.approx(
        [1 / 0.1033, 1 / 0.1033, 3 / 0.1033]
    )
    write(
        kitti,
        "training/poses/0000.txt",
        "1 0 0 0 0 1 0 0 0 0 1 0\n" + "1 0 0 0 0 1 0 0 0 0 1 -1\n" * 2,
    )
    assert read(kitti).scenes[0].ego_speed_mps.tolist() == [0, 0, 0]


def test_time_stamps_where_they_exist(kitti):
    write(kitti, "training/times/0000.txt", "5.0\n5.1\n5.3\n")
    drive = read(kitti).scenes[0]
    assert drive.dt_s[1:].tolist() == pytest.approx([0.1, 0.2])
    assert drive.ego_speed_mps.tolist() == pytest.approx(
        [1.033 / 0.1, 1.033 / 0.1, 2.066 / 0.2]
    )
    write(kitti, "training/times/0000.txt", "5.0\n")
    with pytest.raises(InputError, match="one per frame"):
        read(kitti)


def test_pictures_are_png_or_jpg_and_may_be_missing(kitti):
    drive = read(kitti).scenes[0]
    assert [path and path.name for path in drive.image_paths] == [
        "000000.png",
        None,
        "000002.jpg",
    ]
    assert drive.has_image.tolist() == [True, False, True]
    assert drive.image_source(2) == drive.image_paths[2]
    with pytest.raises(
        InputError, match="frame 000001 of unit 0000 must have an image"
    ):
        drive.image_source(1)
    with pytest.raises(
        InputError, match="frame 000001 of unit 0000 must have an image"
    ):
        read(kitti, require_images=True)
    assert not read(kitti, images="image_03").scenes[0].has_image.any()


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("calib/0000.txt", "P2: 1 2 3\n", "must have 12 numbers"),
        ("calib/0000.txt", f"P2: {P2}\n", "lacks"),
        ("calib/0000.txt", f"P2: {P2.replace('610', 'x')}\n", "must hold numbers"),
        ("label_02/0000.txt", "0 1 Car 0 0\n", "must have 17 columns.*has 5 in line 1"),
        ("label_02/0000.txt", LABELS.replace("Car", "Cow"), "has Cow"),
        ("label_02/0000.txt", LABELS.replace("20.0", "nan"), "finite"),
        (
            "label_02/0000.txt",
            LABELS.replace("1 2 Person", "9 2 Person"),
            "label frames must lie in 0 to 2",
        ),
        ("poses/0000.txt", "1 0 0 0\n", "must have 12 columns"),
        ("oxts/0000.txt", "1 0 0 0\n", "must have 30 columns"),
    ],
)
def test_broken_files_are_named(kitti, name, text, match):
    write(kitti / "training", name, text)
    with pytest.raises(InputError, match=match) as caught:
        read(kitti)
    assert name.split("/")[-1] in str(caught.value)


def oxts(*speeds):
    return "".join(
        " ".join(["0"] * 8 + [str(speed)] + ["0"] * 21) + "\n" for speed in speeds
    )


def poses(*ahead_m):
    return "".join(f"1 0 0 0 0 1 0 0 0 0 1 {z}\n" for z in ahead_m)


def calibration(**changes):
    return "".join(
        f"{key} {changes.get(key.rstrip(':'), value)}\n"
        for key, value in TRACKING.items()
    )


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        (
            "label_02/0000.txt",
            LABELS.replace("1 1 Car", "1.5 1 Car"),
            r"whole numbers; .* in row 3 \(0000/1\.5\)",
        ),
        (
            "label_02/0000.txt",
            LABELS.replace("19.0", "inf"),
            r"finite numbers .* has inf in row 3 \(0000/1\)",
        ),
        (
            "oxts/0000.txt",
            oxts(3, 1e308, 4),
            r"at most 200 m/s; .* gives 1e\+308 m/s in row 2 \(0000/000001\)",
        ),
        ("times/0000.txt", "0\n0.1\ninf\n", "has inf in row 3"),
        (
            "calib/0000.txt",
            calibration(R_rect="0 " * 9),
            "matrices that can be inverted",
        ),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_with_row_and_id(
    kitti, name, text, match
):
    write(kitti / "training", name, text)
    with pytest.raises(InputError, match=match) as caught:
        read(kitti)
    assert name.split("/")[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("calib/0000.txt", "calibration must be at"),
        ("poses/0000.txt", "OXTS data or poses"),
    ],
)
def test_missing_files_are_named(kitti, name, match):
    (kitti / "training" / name).unlink()
    with pytest.raises(InputError, match=match):
        read(kitti)


def test_a_folder_that_is_not_kitti(kitti, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match="must hold label_02"):
        read(empty)
    (empty / "label_02").mkdir()
    with pytest.raises(InputError, match="must hold label files"):
        read(empty)
    with pytest.raises(InputError, match="one of kitti, nuplan"):
        read_dataset("kitty", kitti)


def test_scenes_check_themselves():
    with pytest.raises(InputError, match="times must increase"):
        scene(3, dt_s=0.0)
    with pytest.raises(InputError, match="not negative"):
        scene(3, speed_mps=-1.0)
    for speed in (np.inf, np.nan, 1e308, 200.1):
        with pytest.raises(InputError, match=r"at most 200 m/s; 0000/000001 has "):
            scene(3, speed_mps=[0.0, speed, 200.0])
    with pytest.raises(InputError, match="times must increase"):
        replace(scene(3), time_s=np.array([0.0, 0.1, np.inf]))
    for change in ({"fx_px": np.inf}, {"fy_px": np.nan}):
        with pytest.raises(InputError, match="focal lengths must be positive"):
            replace(camera(), **change)
    for change in ({"cx_px": np.nan}, {"cy_px": np.inf}, {"road_z_m": np.nan}):
        with pytest.raises(InputError, match="must be finite"):
            replace(camera(), **change)
    with pytest.raises(InputError, match="image paths must be 3"):
        scene(3, image_paths=(None,))
    with pytest.raises(InputError, match="images must be 3"):
        scene(3, images=np.zeros((2, 4, 4, 3), dtype=np.uint8))
    held = scene(2, images=np.zeros((2, 4, 4, 3), dtype=np.uint8))
    assert held.has_image.all()
    assert held.image_source(1).shape == (4, 4, 3)
    with pytest.raises(InputError, match="must have an image"):
        scene(2).image_source(0)
