"""The placing `tracks`: what a planner observes under a mode, and the control that
observes everything.
"""

import itertools
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepval.driving.datasets.logs.scenarionet import ScenarioNet
from deepval.driving.geometry.boxes import iou
from deepval.driving.geometry.classes import CLASSES, LENGTH_M, WIDTH_M, super_class
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.perception.modes import EveryReference, Nothing, Profiled
from deepval.driving.perception.placing import PLACINGS, Tracks, monocular_objects
from deepval.driving.perception.reported.detections import Detections, ground_boxes
from deepval.driving.perception.reported.losses import (
    MOST_APART_M,
    OnGround,
    ground_losses,
    ground_matching,
    near_pairs,
)
from deepval.driving.world.objects import Objects
from driving import camera, detections, known, scene, truth
from in_memory import read_detections
from shared import shared_data

KINDS = (*CLASSES, "Traffic_cone", "Barrier")
CAMERA = replace(camera(), width_px=1242, height_px=375)


def random_truth(seed, frames=4, most=12, *, spread_m=40.0):
    """Turned objects all around, some of them (crowded, at times one over the other) in
    the image.
    """
    rng = np.random.default_rng(seed)
    count = rng.integers(0, most * frames)
    frame = np.sort(rng.integers(0, frames, count))
    centre_m = rng.uniform(-spread_m, spread_m, (count, 2)).round(rng.integers(0, 3))
    corners_m = ground_corners_m(
        centre_m,
        rng.uniform(0.3, 8, (count, 2)),
        yaw_rad=rng.uniform(-np.pi, np.pi, count),
    )
    low = np.column_stack(
        [rng.uniform(0, 1100, count), rng.uniform(100, 250, count)]
    ).round(-1)
    box_px = np.column_stack([low, low + rng.uniform(20, 120, (count, 2)).round(-1)])
    box_px[rng.random(count) < 0.4] = np.nan
    things = Objects(
        frames=frames,
        frame=frame,
        corners_m=corners_m,
        closing_mps=rng.normal(0, 5, count),
        cls=rng.choice(np.array(KINDS), count),
        track=rng.permutation(count),
        velocity_mps=rng.normal(0, 5, (count, 2)),
    )
    return replace(known(things), box_px=box_px, occlusion=rng.integers(0, 4, count))


def same(one, other):
    assert one.frames == other.frames
    for f in fields(one):
        if f.name != "frames":
            left, right = getattr(one, f.name), getattr(other, f.name)
            assert left.dtype == right.dtype, f.name
            np.testing.assert_array_equal(left, right, err_msg=f.name)


def as_camera(report):
    """What a report is without its 3D boxes: only what has an image box can be told."""
    seen = report.where(~np.isnan(report.box_px).any(axis=1))
    return replace(seen, cuboid_m=None, velocity_mps=None)


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_mode_that_reports_everything_reproduces_the_reference(seed):
    reference, road = random_truth(seed), scene(4, camera=CAMERA)
    report = EveryReference().detections(road, reference)
    for name, placing in PLACINGS.items():
        if name.startswith("tracks"):
            for told in (report, as_camera(report)):
                same(placing.place(told, road, reference), reference.objects)


@pytest.mark.shared
@pytest.mark.slow
def test_the_control_on_every_state_of_the_logs():
    logs = ScenarioNet(shared_data("scenarionet_nuscenes_mini"))
    states = 0
    for unit in logs.unit_ids():
        road, reference = logs.read_unit(unit)
        report = EveryReference().detections(road, reference)
        assert 0 < np.isnan(report.box_px).any(axis=1).sum() < len(report)
        for name, told in itertools.product(
            ("tracks", "tracks-no-fp", "tracks-iou-05"), (report, as_camera(report))
        ):
            same(PLACINGS[name].place(told, road, reference), reference.objects)
        states += len(road)
    assert states == 244


def test_nothing_reported_leaves_what_is_static_and_what_no_camera_sees():
    reference, road = random_truth(5), scene(4)
    moving = super_class(reference.cls) != "static"
    boxed = np.isfinite(reference.box_px).all(axis=1)
    assert all(
        part.any() for part in (moving & boxed, moving & ~boxed, ~moving & boxed)
    )
    same(
        Tracks().place(Nothing().detections(road, reference), road, reference),
        reference.objects.where(~moving),
    )
    camera_only = Nothing(all_around=False).detections(road, reference)
    same(
        Tracks().place(camera_only, road, reference),
        reference.objects.where(~(moving & boxed)),
    )


# Frame 0: a car, a pedestrian beside it, a cone; frame 1: the car again, and another
# car behind the vehicle.
ROWS = [
    (0, "Car", 7, 0, (600, 170, 700, 240), (18.0, 22.0, -2.0, 0.0), 1.0),
    (0, "Pedestrian", 3, 0, (400, 160, 440, 260), (12.0, 12.6, 2.0, 2.6), 0.0),
    (0, "Traffic_cone", 9, 0, (500, 200, 520, 240), (15.0, 15.4, 1.0, 1.4), 0.0),
    (1, "Car", 7, 0, (598, 168, 704, 244), (16.0, 20.0, -2.0, 0.0), 1.0),
    (1, "Van", 8, 0, (np.nan,) * 4, (-20.0, -15.0, -2.0, 0.0), 0.0),
]


def observed(rows, placing=None):
    return (placing or Tracks()).place(
        detections(rows, 2), scene(2, speed_mps=8.0), truth(ROWS, 2)
    )


def test_a_false_positive_stands_on_the_road_with_its_class_size():
    rows = [
        (0, "Car", 0.9, 100, 150, 200, 260),
        (0, "Pedestrian", 0.8, 900, 150, 930, 250),
    ]
    seen = observed(rows)
    false = seen.where(seen.track < 0)
    lifted = monocular_objects(detections(rows, 2), scene(2, speed_mps=8.0))
    assert seen.cls.tolist() == ["Traffic_cone", "Car", "Pedestrian", "Van"]
    np.testing.assert_array_equal(false.near_m, lifted.near_m)
    np.testing.assert_allclose(
        false.far_m - false.near_m, [LENGTH_M["Car"], LENGTH_M["Pedestrian"]]
    )
    np.testing.assert_allclose(
        np.ptp(false.lateral_m, axis=1), [WIDTH_M["Car"], WIDTH_M["Pedestrian"]]
    )
    np.testing.assert_allclose(
        false.lateral_m.mean(axis=1), lifted.lateral_m.mean(axis=1)
    )
    np.testing.assert_array_equal(false.velocity_mps, 0.0)
    np.testing.assert_array_equal(false.closing_mps, 8.0)


@pytest.mark.parametrize(
    ("row", "found", "strictly"),
    [
        ((0, "Car", 0.9, 600, 170, 700, 240), True, True),
        # the same super-class; IoU 0.5 exactly
        ((0, "Bus", 0.9, 600, 170, 650, 240), True, True),
        ((0, "Pedestrian", 0.9, 600, 170, 700, 240), False, False),
        ((0, "Car", 0.9, 600, 170, 630, 240), True, False),  # IoU 0.3 exactly
        ((0, "Car", 0.9, 600, 170, 629, 240), False, False),
        ((1, "Car", 0.9, 600, 170, 700, 240), False, False),  # of the other frame
    ],
)
def test_what_makes_a_detection_a_track(row, found, strictly):
    for placing, answer in (("tracks", found), ("tracks-iou-05", strictly)):
        seen = observed([row], PLACINGS[placing])
        assert (7 in seen.track[seen.frame == 0]) is answer


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), least_iou=st.sampled_from([0.1, 0.3, 0.5]))
def test_observations_follow_from_the_best_of_all_matchings(seed, least_iou):
    """Every way to pair the few cars of a frame, against the placing."""
    rng = np.random.default_rng(seed)
    tracks, found = int(rng.integers(0, 5)), int(rng.integers(0, 5))

    def boxes(count):
        low = rng.uniform(0, 60, (count, 2))
        return np.column_stack([low, low + rng.uniform(30, 60, (count, 2))])

    logged, told = boxes(tracks), boxes(found)
    rows = [
        (0, "Car", t, 0, tuple(box), (10.0, 14.0, 0.0, 1.0), 0.0)
        for t, box in enumerate(logged)
    ]
    report = detections([(0, "Car", 0.5, *box) for box in told], 1)
    seen = Tracks(least_iou=least_iou).place(report, scene(1), truth(rows, 1))
    overlap = iou(told[:, None], logged[None]).reshape(found, tracks)
    overlap[overlap < least_iou] = 0.0
    big = np.zeros((max(found, tracks), max(found, tracks)))
    big[:found, :tracks] = overlap
    ways = (
        sum(big[d, o] for d, o in enumerate(way))
        for way in itertools.permutations(range(len(big)))
    )
    best = max(ways, default=0.0)
    kept = seen.track[seen.track >= 0].tolist()
    assert kept == sorted(kept)
    assert (seen.track < 0).sum() == found - len(kept)
    part = big[:, kept]
    reachable = max(
        (
            sum(part[d, o] for o, d in enumerate(way))
            for way in itertools.permutations(range(len(big)), len(kept))
        ),
        default=0.0,
    )
    assert reachable == pytest.approx(best)


def solid(rows, frames=1, *, frame_of="ego"):
    """Rows are (frame, class, x, y, length, width, yaw)."""
    table = np.array([row[2:] for row in rows], float).reshape(-1, 5)
    return Detections(
        unit="0000",
        frame=np.array([row[0] for row in rows], dtype=int),
        cls=np.array([row[1] for row in rows], dtype="<U14"),
        score=np.full(len(rows), 0.9),
        box_px=np.full((len(rows), 4), np.nan),
        status=np.zeros(frames, dtype=int),
        cuboid_m=np.column_stack(
            [
                table[:, :2],
                np.zeros(len(rows)),
                table[:, 2:4],
                np.ones(len(rows)),
                table[:, 4],
            ]
        ),
        velocity_mps=np.full((len(rows), 2), 3.0),
        cuboid_frame=frame_of,
    )


def test_a_detector_with_3d_boxes_is_matched_on_the_ground_all_around():
    rows = [
        (0, "Truck", 21.9, -1.0, 4.0, 2.0, 0.0),  # 1.9 m from the car's centre (20, -1)
        # the cone: it passes once, as logged
        (0, "Traffic_cone", 15.5, 1.2, 0.3, 0.3, 0.0),
        (0, "Barrier", 30.0, 5.0, 0.5, 2.0, 0.5),  # invented, of a static class
        # 2.1 m from the van's centre (-17.5, -1)
        (1, "Car", -15.4, -1.0, 4.5, 2.0, 0.0),
    ]
    seen = Tracks().place(solid(rows, 2), scene(2, speed_mps=8.0), truth(ROWS, 2))
    assert seen.track.tolist() == [7, 9, -1, -1]
    assert seen.cls.tolist() == ["Car", "Traffic_cone", "Barrier", "Car"]
    np.testing.assert_array_equal(seen.velocity_mps[2:], 0.0)
    np.testing.assert_array_equal(seen.closing_mps[2:], 8.0)
    own = ground_boxes(solid(rows, 2), scene(2), wanted_by="this test").corners_m
    np.testing.assert_array_equal(seen.corners_m[2:], own[2:])


def test_cones_and_barriers_of_nuscenes_results_are_observed_in_the_world_frame(
    tmp_path,
):
    """A vehicle at (100, 50) that looks along the world's y axis: 15 m ahead and 1 m to
    the left is (99, 65).
    """
    pose = np.eye(4)
    pose[:2] = [[0, -1, 0, 100], [1, 0, 0, 50]]
    road = scene(1, speed_mps=8.0, world_from_ego=pose[None])

    def row(name, x, y):
        box = {
            "translation": [x, y, 0.5],
            "size": [0.4, 0.6, 1.0],
            "rotation": [1, 0, 0, 0],
            "velocity": [1, 1],
        }
        return {
            "sample_token": "000000",
            "detection_name": name,
            "detection_score": 0.8,
            **box,
        }

    rows = [
        row("traffic_cone", 98.8, 65.2),
        row("barrier", 90, 80),
        row("traffic_cone", 104, 60),
        row("car", 101, 70),
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"000000": rows}}))
    report = read_detections(path, [road])["0000"]
    assert report.cls.tolist() == ["Traffic_cone", "Barrier", "Traffic_cone", "Car"]
    seen = Tracks().place(report, road, truth(ROWS[:3], 1))
    assert seen.cls.tolist() == ["Car", "Traffic_cone", "Barrier", "Traffic_cone"]
    assert seen.track.tolist() == [7, 9, -1, -1]
    np.testing.assert_allclose(seen.centre_m[2:], [[30, 10], [10, -4]], atol=1e-9)
    # its length lies across
    np.testing.assert_allclose(np.ptp(seen.corners_m[2], axis=0), [0.4, 0.6])
    np.testing.assert_array_equal(seen.velocity_mps[2:], 0.0)


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 2**32 - 1))
def test_ground_pairs_are_as_many_as_can_be_and_then_as_near_as_can_be(seed):
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        count = int(rng.integers(0, 12))
        frame = np.sort(rng.integers(0, 2, count))
        sides.append(
            OnGround(
                frame, rng.choice(np.array(KINDS), count), rng.uniform(0, 5, (count, 2))
            )
        )
    one, other = sides
    found = near_pairs(one, other)
    apart = np.linalg.norm(one.centre_m[:, None] - other.centre_m[None], axis=-1)
    may = (one.frame[:, None] == other.frame[None]) & (
        super_class(one.cls)[:, None] == super_class(other.cls)[None]
    )
    cost = np.where(may & (apart <= MOST_APART_M), apart, 1e6)
    rows, columns = linear_sum_assignment(cost)
    good = cost[rows, columns] < 1e6
    assert len(found.first) == good.sum()
    assert found.apart_m.sum() == pytest.approx(cost[rows, columns][good].sum())
    assert len(set(found.first)) == len(set(found.second)) == len(found.first)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), persistent=st.booleans())
def test_the_detection_behind_each_object(seed, persistent):
    reference, road = random_truth(seed), scene(4, camera=CAMERA)
    report = Profiled(320, seed % 1000).detections(road, reference)
    keep = np.random.default_rng(seed).random(len(report)) < 0.7 if persistent else None
    seen, behind, logged, watched = Tracks().observation(
        report, road, reference, keep=keep
    )
    assert len(behind) == len(logged) == len(seen)
    np.testing.assert_array_equal(
        reference.objects.track[logged[logged >= 0]], seen.track[seen.track >= 0]
    )
    assert set(np.flatnonzero(~watched)) <= set(logged)
    told = behind >= 0
    assert (
        len(set(behind[told]))
        == told.sum()
        == (len(report) if keep is None else keep.sum())
    )
    np.testing.assert_array_equal(report.frame[behind[told]], seen.frame[told])
    np.testing.assert_array_equal(
        super_class(report.cls[behind[told]]), super_class(seen.cls[told])
    )
    np.testing.assert_array_equal(
        report.cls[behind[seen.track < 0]], seen.cls[seen.track < 0]
    )
    for frame in range(4):  # the log's order, then the report's
        here = seen.frame == frame
        first = seen.track[here] >= 0
        assert (np.diff(first.astype(int)) <= 0).all()
        places = [
            np.flatnonzero(reference.objects.track == track)[0]
            for track in seen.track[here][first]
        ]
        assert places == sorted(places)
        assert (np.diff(behind[here][~first]) > 0).all()


def test_an_empty_truth_and_an_empty_report():
    nothing, report = truth([], 2), detections([(1, "Car", 0.5, 1, 100, 90, 190)], 2)
    assert not len(Tracks().place(detections([], 2), scene(2), nothing))
    assert Tracks().place(report, scene(2), nothing).frame.tolist() == [1]


def test_ground_losses_by_hand():
    """Of a car, a pedestrian, a cone, and in the next frame a car and a van: see the
    rows above.
    """
    rows = [
        (0, "Car", 20.5, -1.0, 4, 2, 0.0),
        (0, "Car", 20.1, -1.0, 4, 2, 0.0),
        (1, "Car", 40.0, 0.0, 4, 2, 0.0),
    ]
    report, reference, road = solid(rows, 2), truth(ROWS, 2), scene(2)
    match = ground_matching(report, reference, scene=road)
    assert match.partner.tolist() == [-1, 0, -1]
    assert match.missed.tolist() == [False, True, True, True, True]
    losses = ground_losses(report, reference, scene=road)
    assert list(losses) == ["E1", "E2", "E3", "E4", "E7", "E8"]
    assert losses["E1"].tolist() == [2, 2]
    assert losses["E2"].tolist() == [1, 1]
    assert losses["E3"].tolist() == [3, 3]
    np.testing.assert_allclose(losses["E4"], [1 - 2 / 5, 1.0])
    np.testing.assert_allclose(
        losses["E7"], [np.exp(-12 / 30) + np.exp(-15 / 30), np.exp(-16 / 30) + 1.0]
    )
    halted = replace(report.where(report.frame == 0), status=np.array([0, 2]))
    assert np.isnan(ground_losses(halted, reference, scene=road)["E1"]).tolist() == [
        False,
        True,
    ]
    assert not ground_matching(halted, reference, scene=road).missed[3:].any()
