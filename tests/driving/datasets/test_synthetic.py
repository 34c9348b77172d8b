"""The synthetic world: seeded, consistent with geometry, in the paper's regime, and
silent about its reference.
"""

import pickle
import types
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.datasets import DATASETS
from deepval.driving.datasets.synthetic import (
    MODES,
    SceneParts,
    Simulated,
    Synthetic,
    WorldSettings,
    boxes_px,
    cuboids,
    in_picture,
    kitti_camera,
    occlusion_level,
    solid_corners_m,
    visible_share,
)
from deepval.driving.datasets.synthetic.bodies import Look, fill_ellipse, fill_polygon
from deepval.driving.datasets.synthetic.render import (
    Pictures,
    pictures_of,
    write_picture,
)
from deepval.driving.datasets.synthetic.traffic import Drive
from deepval.driving.world.truth import Truth
from in_memory import DetectionSet, read_dataset, read_units, read_world

SMALL = WorldSettings(scenes=6, frames=12)
COLUMNS = (
    "objects.frame",
    "objects.cls",
    "objects.track",
    "box_px",
    "occlusion",
    "objects.corners_m",
    "objects.closing_mps",
)


def make_world(seed, *, settings=None, modes=None, units=None):
    """The data set of a seed and, for each mode, the detections on it."""
    settings = settings or WorldSettings()
    data, sets = read_units(Synthetic(seed=seed, settings=settings), units), {}
    for name, size in (modes or MODES).items():
        reader, pairs = (
            Simulated(seed, settings, size),
            zip(data.scenes, data.truths, strict=True),
        )
        detections = {
            scene.unit: reader.detections(scene, truth) for scene, truth in pairs
        }
        sets[name] = DetectionSet(name, "probabilities", detections)
    return types.SimpleNamespace(dataset=data, modes=sets)


@pytest.fixture(scope="module")
def world():
    return make_world(0)


def same(one, other, names):
    for name in names:
        np.testing.assert_array_equal(attrgetter(name)(one), attrgetter(name)(other))


def test_the_default_world_is_what_the_splits_expect(world):
    assert world.dataset.name == "synthetic"
    assert world.dataset.units == tuple(f"scene-{place:02d}" for place in range(48))
    assert {len(scene) for scene in world.dataset.scenes} == {40}
    assert (
        list(world.modes)
        == list(MODES)
        == ["yolov8s-320", "yolov8s-384", "yolov8s-512", "yolov8s-640"]
    )
    for mode in world.modes.values():
        assert mode.scores == "probabilities"
        assert set(mode.units) == set(world.dataset.units)
    scene = world.dataset.scenes[0]
    assert (scene.camera.width_px, scene.camera.height_px) == (1242, 375)
    np.testing.assert_allclose(np.diff(scene.time_s), 0.1)


def test_equal_seeds_make_equal_worlds_and_others_do_not():
    one, again, other = (
        make_world(3, settings=SMALL),
        make_world(3, settings=SMALL),
        make_world(4, settings=SMALL),
    )
    for place in range(SMALL.scenes):
        same(one.dataset.truths[place], again.dataset.truths[place], COLUMNS)
        same(
            one.dataset.scenes[place],
            again.dataset.scenes[place],
            ("ego_speed_mps", "time_s", "frame_ids"),
        )
        for mode in MODES:
            unit = one.dataset.units[place]
            same(
                one.modes[mode][unit],
                again.modes[mode][unit],
                ("frame", "cls", "score", "box_px"),
            )
    np.testing.assert_array_equal(
        one.dataset.scenes[0].images[5], again.dataset.scenes[0].images[5]
    )
    assert not np.array_equal(
        one.dataset.scenes[0].ego_speed_mps, other.dataset.scenes[0].ego_speed_mps
    )


def test_boxes_are_the_projected_cuboids_clipped_to_the_picture():
    part = SceneParts(2, seed=0, settings=WorldSettings())
    truth, camera = part.truth(), part.camera
    height_m = part.drive.actors.size_m[truth.objects.track, 2]
    low = np.full((len(truth), 4, 1), camera.road_z_m)
    points = np.concatenate(
        [
            np.concatenate([truth.objects.corners_m, low], axis=-1),
            np.concatenate([truth.objects.corners_m, low], axis=-1),
        ],
        axis=1,
    )
    points[:, 4:, 2] += height_m[:, None]
    ahead = points[..., 0].min(axis=1) > 2.0
    assert ahead.sum() > 50
    relative = points[ahead] - camera.ego_from_cam[:3, 3]
    u = camera.cx_px - camera.fx_px * relative[..., 1] / relative[..., 0]
    v = camera.cy_px - camera.fy_px * relative[..., 2] / relative[..., 0]
    whole = np.stack(
        [u.min(axis=1), v.min(axis=1), u.max(axis=1), v.max(axis=1)], axis=-1
    )
    np.testing.assert_allclose(
        truth.box_px[ahead],
        np.clip(whole, 0, [1242, 375, 1242, 375]),
        rtol=1e-9,
        atol=1e-9,
    )


def test_still_objects_come_nearer_by_the_way_driven():
    for place in (0, 1, 3):
        part = SceneParts(place, seed=0, settings=WorldSettings())
        truth, drive, still = (
            part.truth(),
            part.drive,
            np.ptp(part.drive.actors.s_m, axis=1) == 0,
        )
        speed = part.scene().ego_speed_mps
        np.testing.assert_allclose(np.diff(drive.s_m), speed[1:] * 0.1, rtol=1e-9)
        centre = truth.objects.corners_m.mean(axis=1)
        for track in np.unique(truth.objects.track[still[truth.objects.track]])[:12]:
            mine = truth.objects.track == track
            steps = np.diff(truth.frame[mine]) == 1
            driven = speed[truth.frame[mine][1:]] * 0.1
            np.testing.assert_allclose(
                -np.diff(centre[mine, 0])[steps], driven[steps], atol=1e-9
            )


def test_closing_speeds_are_differences_of_ranges(world):
    truth = world.dataset.truths[0]
    for track in np.unique(truth.objects.track)[:10]:
        mine = np.flatnonzero(truth.objects.track == track)
        for before, now in pairwise(mine):
            if truth.frame[now] == truth.frame[before] + 1:
                step = (truth.objects.near_m[before] - truth.objects.near_m[now]) / 0.1
                assert truth.objects.closing_mps[now] == pytest.approx(
                    step, rel=1e-9, abs=1e-9
                )


def test_occlusion_grows_with_what_stands_before():
    frame = np.zeros(3, dtype=int)
    box = np.array([[100.0, 100, 220, 220], [100, 100, 220, 220], [100, 100, 220, 220]])
    shares = []
    for right in (100.0, 130, 160, 190, 220):
        box[0, 2] = max(right, 106)
        shares.append(
            visible_share(
                frame[:2], box[:2], distance_m=np.array([5.0, 9.0]), size_px=(1242, 375)
            )[1]
        )
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0
    assert (
        visible_share(
            frame[:2], box[:2], distance_m=np.array([9.0, 5.0]), size_px=(1242, 375)
        )[1]
        == 1
    )
    assert occlusion_level(np.array([1.0, 0.85, 0.6, 0.5, 0.2, 0.05])).tolist() == [
        0,
        0,
        1,
        1,
        2,
        3,
    ]


def test_parts_behind_the_camera_do_not_turn_a_box_inside_out():
    part = SceneParts(0, seed=0, settings=WorldSettings())
    found = cuboids(part.drive, farthest_m=90.0)
    box = boxes_px(solid_corners_m(found, part.camera.road_z_m), part.camera)
    assert np.isfinite(box).all()
    assert (box[:, 2:] > box[:, :2]).all()
    seen = in_picture(found, part.camera)
    assert ((seen.truncation >= -1e-9) & (seen.truncation <= 0.85)).all()
    assert seen.truncation.max() > 0.2


def reachable(start):
    """Every object that attributes, items and closures lead to from `start`, classes
    and modules aside.
    """
    found, waiting = {}, [start]
    while waiting:
        one = waiting.pop()
        if id(one) in found or isinstance(
            one, type | types.ModuleType | str | bytes | int | float
        ):
            continue
        found[id(one)] = one
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += list(one)
        elif isinstance(one, types.FunctionType):
            waiting += [cell.cell_contents for cell in one.__closure__ or ()]
        elif isinstance(one, types.MethodType):
            waiting += [one.__self__, one.__func__]
        waiting += list(getattr(one, "__dict__", {}).values())
        for kind in type(one).__mro__:
            slots = getattr(kind, "__slots__", ())
            waiting += [
                getattr(one, name)
                for name in slots
                if name != "__weakref__" and hasattr(one, name)
            ]
    return list(found.values())


def test_a_scene_leads_to_nothing_of_the_reference(world):
    scene, truth = world.dataset.scenes[0], world.dataset.truths[0]
    scene.images[0]
    things = reachable(scene)
    assert not [
        one
        for one in things
        if isinstance(one, Truth | Drive | Look | SceneParts | np.random.Generator)
    ]
    secret = [truth.box_px, truth.objects.corners_m, truth.objects.near_m]
    arrays = [
        one for one in things if isinstance(one, np.ndarray) and one.dtype.kind == "f"
    ]
    for one in arrays:
        assert not any(
            np.isin(part.ravel(), one.ravel()).mean() > 0.2 for part in secret
        )


def test_pictures_in_another_process_are_refused_with_advice(world):
    scene = world.dataset.scenes[0]
    stray = Pictures("nobody-knows-this", 3)
    assert len(pickle.loads(pickle.dumps(scene)).images) == 40
    with pytest.raises(InputError, match="write them to files"):
        stray[0]


def test_objects_change_the_picture_where_their_boxes_are():
    part = SceneParts(0, seed=0, settings=WorldSettings())
    truth = part.truth()
    nobody = part.drive._replace(
        actors=part.drive.actors._replace(**{"s_m": part.drive.actors.s_m + 1e4}),
    )
    look = Look("cloud", 1.0, 7)
    full, empty = (
        pictures_of(drive, look, camera=part.camera)[20]
        for drive in (part.drive, nobody)
    )
    changed = (full.astype(int) != empty).any(axis=-1)
    inside = np.zeros_like(changed)
    for x1, y1, x2, y2 in truth.box_px[truth.frame == 20]:
        inside[
            max(int(y1) - 3, 0) : int(y2) + 12, max(int(x1) - 12, 0) : int(x2) + 12
        ] = True
    assert changed.sum() > 1000
    assert inside[changed].mean() > 0.97


def test_polygons_and_ellipses_cover_their_area():
    canvas = np.zeros((60, 80), dtype=np.uint32)
    fill_polygon(
        canvas, np.array([[10.0, 5.0], [50.0, 5.0], [50.0, 45.0], [10.0, 45.0]]), 7
    )
    assert (canvas == 7).sum() == 40 * 40
    fill_polygon(
        canvas, np.array([[10.0, 50.0], [20.0, 50.0], [20.0, 55.0], [10.0, 55.0]]), 9
    )
    assert (canvas == 9).sum() == 10 * 5
    fill_ellipse(canvas, (40.0, 30.0), (20.0, 10.0), 3)
    assert (canvas == 3).sum() == pytest.approx(np.pi * 20 * 10, rel=0.02)
    fill_polygon(canvas, np.array([[-90.0, 0.0], [-80.0, 0.0], [-80.0, 9.0]]), 5)
    fill_polygon(canvas, np.array([[0.0, 90.0], [9.0, 90.0], [9.0, 99.0]]), 5)
    fill_ellipse(canvas, (500.0, 500.0), (3.0, 3.0), 5)
    assert not (canvas == 5).any()


def test_pictures_can_be_written_and_found_again(tmp_path):
    from PIL import Image

    world = read_world(
        tmp_path, units=["scene-01"], seed=2, scenes=3, frames=2, picture_format="png"
    )
    (scene,) = world.scenes
    drawn = (
        read_world(None, units=["scene-01"], seed=2, scenes=3, frames=2)
        .scenes[0]
        .images
    )
    assert scene.images is None
    assert scene.has_image.all()
    assert all(path is not None and path.suffix == ".png" for path in scene.image_paths)
    np.testing.assert_array_equal(
        np.asarray(Image.open(scene.image_source(1))), drawn[1]
    )
    stamp = scene.image_paths[0].stat().st_mtime_ns
    again = read_world(
        tmp_path, units=["scene-01"], seed=2, scenes=3, frames=2, picture_format="png"
    ).scenes[0]
    assert again.image_paths[0].stat().st_mtime_ns == stamp
    other = read_world(
        tmp_path, units=["scene-01"], seed=3, scenes=3, frames=2, picture_format="png"
    ).scenes[0]
    assert other.image_paths[0] != scene.image_paths[0]
    write_picture(drawn[0], tmp_path / "one.jpg")
    assert (
        np.abs(
            np.asarray(Image.open(tmp_path / "one.jpg")).astype(int) - drawn[0]
        ).mean()
        < 6
    )
    with pytest.raises(InputError, match="jpg or png"):
        read_world(
            tmp_path, units=["scene-01"], scenes=3, frames=2, picture_format="gif"
        )


def test_the_world_is_in_the_table_of_data_sets():
    assert "synthetic" in DATASETS
    found = read_dataset(
        "synthetic", seed=1, settings=WorldSettings(scenes=2, frames=3)
    )
    assert found.units == ("scene-00", "scene-01")
    with pytest.raises(InputError, match="must be read from a folder"):
        read_dataset("kitti")
    with pytest.raises(InputError, match="scene-00, scene-01; found scene-07"):
        make_world(0, settings=replace(SMALL, scenes=2), units=["scene-07"])
    with pytest.raises(InputError, match="1 scene of 2 frames"):
        WorldSettings(scenes=0)


def test_the_camera_is_mounted_as_on_kitti():
    camera = kitti_camera()
    assert camera.height_m == pytest.approx(1.66)
    assert camera.fx_px == pytest.approx(721.5)
