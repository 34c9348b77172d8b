"""Observed objects: the 18 features and the 25 nearest tracks by hand and by a slow
twin, and what never matters.
"""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.deploy.allocators import FEATURE_SETS
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.features import TRACKED_NAMES, Sight, glance, tracked_features
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.views import CheapMode, Past, View, connectors_m, frames_of
from deepval.driving.world.lanes import Lane, LaneMap
from driving import scene
from street import ROAD, pose_at
from view_worlds import glances_of, observed, random_observed, shuffled, until

FRONT_M, HALF_M, CENTRE_M = 3.244, 1.73 / 2, (3.244 - 0.84) / 2
CAR = (13.244, 17.244, -0.9, 0.9)
"""A car 10 m ahead of the front."""


def named(view, frame=-1):
    """Features of one frame by name."""
    return dict(
        zip(
            TRACKED_NAMES,
            tracked_features(Sight(view).glances[frame]).tolist(),
            strict=True,
        )
    )


def one(box, velocity=(0.0, 0.0), *, cls="Car", **more):
    """Features of a frame with one object; ego at 10 m/s."""
    return named(observed([(0, cls, 1, box, velocity)], vehicle=ZOE, **more))


def stopping(gap_m, speed):
    return min(speed**2 / (2 * (gap_m - 2.0 - 0.4 * speed)), 9.0)


def test_a_car_ahead_by_hand():
    found = one(CAR, (4.0, 0.0))
    assert found["nearest_m"] == found["corridor_nearest_m"] == pytest.approx(10.0)
    assert found["corridor_closing_mps"] == 10 - 4
    assert found["time_to_collision_s"] == pytest.approx(10 / 6)
    assert found["required"] == pytest.approx(6**2 / (2 * (10 - 2 - 0.4 * 6)))
    assert (found["count_vehicle"], found["speed_mean_mps"]) == (1, 4.0)
    assert (found["within_10"], found["within_20"]) == (0, 1)


def test_a_velocity_that_is_not_known_is_a_standing_object_unless_a_closing_speed_was_reported():  # noqa: E501
    assert one(CAR, (nan, nan))["required"] == pytest.approx(stopping(10.0, 10.0))
    view = observed([(0, "Car", 1, CAR, (nan, nan))], vehicle=ZOE)
    told = replace(view, objects=replace(view.objects, closing_mps=np.array([3.0])))
    assert named(told)["required"] == pytest.approx(stopping(10.0, 3.0))
    assert isnan(named(told)["speed_mean_mps"])


@pytest.mark.parametrize(
    ("box", "ahead", "inside"),
    [
        ((13.244, 17.0, HALF_M, 3.0), 10.0, False),  # touches the corridor's side
        ((13.244, 17.0, HALF_M - 0.01, 3.0), 10.0, True),
        ((13.244, 17.0, -3.0, -HALF_M), 10.0, False),
        ((2.0, 6.0, -0.5, 0.5), 0.0, True),  # across the front
        ((-6.0, FRONT_M, -0.5, 0.5), 80.0, False),  # does not reach beyond the front
        ((83.244, 90.0, -0.5, 0.5), 80.0, True),  # the last that counts
        ((83.3, 90.0, -0.5, 0.5), 80.0, False),
    ],
)
def test_where_the_corridor_ends(box, ahead, inside):
    found = one(box)
    assert found["nearest_m"] == pytest.approx(ahead)
    assert (found["corridor_closing_mps"] == 10.0) == inside


def test_fresh_and_vanished_go_by_track_and_need_a_frame_that_was_run():
    rows = [
        (0, "Car", 1, CAR, (0, 0)),
        (0, "Car", 2, CAR, (0, 0)),
        (0, "Car", -1, CAR, (0, 0)),
    ]
    rows += [(1, "Car", track, CAR, (0, 0)) for track in (2, 3, 4, -1, -1)] + [
        (3, "Car", 4, CAR, (0, 0))
    ]
    view = observed(rows, 5, status=[0, 0, 1, 0, 0])
    found = [
        (named(view, t)["fresh_count"], named(view, t)["vanished_count"])
        for t in range(5)
    ]
    np.testing.assert_array_equal(
        found, [(nan, nan), (2, 1), (nan, nan), (nan, nan), (0, 1)]
    )


ROUTE = {"lane_map": ROAD, "route": ("a", "b", "c")}


@pytest.mark.parametrize(
    ("pose", "start", "way"),
    [
        (pose_at(10.0, 1.0), 0, 30.0),
        (pose_at(-3.0), 0, 40.0),  # before the lane begins, its first point is nearest
        (pose_at(40.0), 0, 0.0),  # where two lanes meet the later counts
        (pose_at(55.0, -2.0, 0.5), 0, 0.0),
        (pose_at(70.0), 0, 80.0),  # none is ahead
        (pose_at(10.0, 1.0), 1, nan),  # 30 m from what is left of the route
        (pose_at(10.0, 6.0), 0, nan),  # off the road
        (pose_at(10.0, 0.0, 3.0), 0, nan),  # the other way
    ],
)
def test_the_way_to_the_next_connector(pose, start, way):
    drive = scene(1, **ROUTE, world_from_ego=pose[None], route_starts=np.array([start]))
    assert connectors_m(drive)[0] == pytest.approx(way, nan_ok=True)


def test_the_way_goes_over_roadblocks_up_to_the_first_with_a_connector():
    points = [np.array([[x, 0.0], [x + 10.0, 0.0]]) for x in (0.0, 10.0, 20.0, 30.0)]
    lanes = [
        Lane(name, line, name.upper(), connector=name == "d")
        for name, line in zip("abcd", points, strict=True)
    ]
    told = {
        "lane_map": LaneMap({lane.id: lane for lane in lanes}),
        "world_from_ego": pose_at(4.0)[None],
    }
    assert connectors_m(scene(1, **told, route=("A", "B", "C", "D")))[
        0
    ] == pytest.approx(6 + 10 + 10)
    assert connectors_m(scene(1, **told, route=("A", "elsewhere", "D")))[0] == 80.0
    for missing in ({"lane_map": None}, {"world_from_ego": None}, {"route": ()}):
        assert isnan(
            connectors_m(scene(1, **({"route": ("A", "D")} | told | missing)))[0]
        )


def slow_features(view, frame):
    """The formulas once more, over arrays, from the view itself."""
    things, drive = view.objects.at(frame), view.scene
    speed, body, run = drive.ego_speed_mps, drive.vehicle, view.detections.run
    front, half, centre = (
        (0.0, 1.2, 0.0)
        if body is None
        else (body.front_m, body.width_m / 2, body.centre_m)
    )
    found = dict.fromkeys(TRACKED_NAMES, nan) | {
        "ego_speed_mps": speed[frame],
        "connector_m": view.connector_m[frame],
    }
    if frame:
        found["ego_acceleration_mps2"] = (speed[frame] - speed[frame - 1]) / drive.dt_s[
            frame
        ]
    if not run[frame]:
        return found
    groups = {
        "vehicle": ("Car", "Bus"),
        "person": ("Pedestrian",),
        "cyclist": ("Cyclist",),
        "static": ("Barrier",),
    }
    found |= {
        f"count_{kind}": np.isin(things.cls, names).sum()
        for kind, names in groups.items()
    }
    apart = np.linalg.norm(things.centre_m - [centre, 0.0], axis=1)
    found |= {f"within_{bound}": (apart <= bound).sum() for bound in (10, 20, 40)}
    moving = things.velocity_mps[
        (things.cls != "Barrier") & ~np.isnan(things.velocity_mps[:, 0])
    ]
    found["speed_mean_mps"] = (
        np.linalg.norm(moving, axis=1).mean() if len(moving) else nan
    )
    if frame and run[frame - 1]:
        now, before = (
            {*each.track.tolist()} - {-1}
            for each in (things, view.objects.at(frame - 1))
        )
        found |= {"fresh_count": len(now - before), "vanished_count": len(before - now)}
    gap = np.where(things.far_m > front, np.maximum(things.near_m - front, 0), np.inf)
    closing = speed[frame] - np.nan_to_num(things.velocity_mps[:, 0])
    inside = (
        (things.lateral_m[:, 0] < half) & (things.lateral_m[:, 1] > -half) & (gap <= 80)
    )
    gaps, closing = gap[inside], closing[inside]
    found["nearest_m"] = min(80.0, gap.min(initial=80.0))
    found["corridor_nearest_m"] = gaps.min(initial=80.0)
    found["corridor_closing_mps"] = (
        closing[gaps == gaps.min()].max() if len(gaps) else 0.0
    )
    coming = closing > 0
    found["time_to_collision_s"] = (gaps[coming] / closing[coming]).min(initial=10.0)
    room = gaps[coming] - 2 - 0.4 * closing[coming]
    safe = np.where(room > 0, room, 1.0)
    needed = np.where(room > 0, np.minimum(closing[coming] ** 2 / (2 * safe), 9.0), 9.0)
    return found | {"required": needed.max(initial=0.0)}


def views(count=30):
    rng = np.random.default_rng(11)
    for place in range(count):
        poses = np.array(
            [pose_at(x, y) for x, y in rng.uniform((0, -4), (90, 4), (12, 2))]
        )
        more = {"vehicle": ZOE} | ROUTE | {"world_from_ego": poses} if place % 2 else {}
        yield random_observed(rng, rounded=bool(place % 3), **more)


def test_the_features_are_those_of_a_slow_twin():
    for view in views():
        for frame, found in enumerate(FEATURE_SETS["tracked"].rows(Sight(view))):
            slow = slow_features(view, frame)
            np.testing.assert_allclose(
                found,
                [slow[name] for name in TRACKED_NAMES],
                rtol=1e-12,
                err_msg=str(frame),
            )


SEEING = ("tracked", "track-list")


def test_frame_by_frame_gives_the_bits_of_the_unit_and_the_future_does_not_matter():
    for view in views(12):
        early = until(view, 7)
        assert (len(early), early.objects.frames) == (7, 7)
        for name in SEEING:
            whole = FEATURE_SETS[name].rows(Sight(view))
            assert (
                np.array(
                    [FEATURE_SETS[name].row(seen) for seen in glances_of(view)]
                ).tobytes()
                == whole.tobytes()
            )
            assert (
                FEATURE_SETS[name].rows(Sight(early)).tobytes() == whole[:7].tobytes()
            )


@given(seed=st.integers(0, 2**32 - 1), rounded=st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_order_of_objects_is_irrelevant(seed, rounded):
    rng = np.random.default_rng(seed)
    view = random_observed(rng, 6, rounded=rounded)
    other = shuffled(view, rng)
    for name in SEEING:
        assert (
            FEATURE_SETS[name].rows(Sight(view)).tobytes()
            == FEATURE_SETS[name].rows(Sight(other)).tobytes()
        )


def test_the_list_holds_the_25_nearest_padded_by_zeros():
    rows = [
        (0, "Cyclist", 1, (20.0, 22.0, 1.0, 2.0), (nan, nan)),
        (0, "Car", 2, (-9.0, -5.0, -1.0, 1.0), (3.0, -1.0)),
    ]
    (found,) = FEATURE_SETS["track-list"].rows(Sight(observed(rows)))
    columns = FEATURE_SETS["track-list"].columns
    assert len(columns) == len(found) == 25 * 10
    assert columns[:10] == tuple(
        f"track1_{part}"
        for part in (
            "x_m",
            "y_m",
            "length_m",
            "width_m",
            "vx_mps",
            "vy_mps",
            "vehicle",
            "person",
            "cyclist",
            "static",
        )
    )
    np.testing.assert_array_equal(
        found[:10], [-7.0, 0.0, 4.0, 2.0, 3.0, -1.0, 1, 0, 0, 0]
    )
    np.testing.assert_array_equal(
        found[10:20], [21.0, 1.5, 2.0, 1.0, nan, nan, 0, 0, 1, 0]
    )
    assert not found[20:].any()
    crowd = [
        (0, "Car", place, (place, place + 1.0, 5.0, 6.0), (0.0, 0.0))
        for place in range(40)
    ]
    (found,) = FEATURE_SETS["track-list"].rows(Sight(observed(crowd)))
    assert found[::10].tolist() == [place + 0.5 for place in range(25)]


def test_signals_of_observed_objects():
    near = [(t, "Car", 1, (13.244, 17.0, -1.0, 1.0), (4.0, 0.0)) for t in (0, 2)]
    view = observed(near, 4, vehicle=ZOE, status=[0, 0, 0, 1])
    needed = stopping(10.0, 6.0)
    assert SIGNALS["criticality"].score(view) == pytest.approx(
        [needed, 0.0, needed, nan], nan_ok=True
    )
    assert SIGNALS["memory"].score(view) == pytest.approx(
        [0.01, needed + 0.01, 0.01, nan], nan_ok=True
    )
    assert SIGNALS["ego-speed"].score(view) == pytest.approx(
        [10.0, 10.0, 10.0, nan], nan_ok=True
    )
    assert "image boxes" in SIGNALS["lost"].undefined(view.mode)
    assert np.isnan(SIGNALS["lost"].score(view)).all()
    assert "no scores" in SIGNALS["uncertainty"].undefined(view.mode)


def test_a_view_and_a_frame_hold_objects_iff_the_mode_observes():
    view = observed([(0, "Car", 1, CAR, (0, 0))], 2, status=[0, 1])
    (first, second) = frames_of(view)
    assert (len(first.objects), len(second.objects), first.objects.frames) == (1, 0, 1)
    bare = View(view.scene, view.detections)
    assert [frame.objects for frame in frames_of(bare)] == [None, None]
    with pytest.raises(InputError, match="iff its mode observes"):
        replace(bare, mode=view.mode)
    with pytest.raises(InputError, match="iff its mode observes"):
        replace(view, mode=CheapMode("none"))
    for frame, mode in ((first, CheapMode("none")), (next(frames_of(bare)), view.mode)):
        with pytest.raises(
            InputError, match="holds objects iff its cheap mode observes"
        ):
            glance(frame, Past(), mode=mode)


def test_objects_that_cannot_be_are_refused():
    view = observed([(0, "Car", 1, CAR, (0, 0))], 2)
    (first, _) = frames_of(view)
    for name, value, sentence in (
        ("corners_m", view.objects.corners_m * np.inf, "finite corners"),
        ("closing_mps", np.array([nan]), "finite corners"),
        ("velocity_mps", np.array([[np.inf, 0.0]]), "finite velocities"),
        ("frames", 3, "of the same frames"),
    ):
        with pytest.raises(InputError, match=sentence):
            replace(view, objects=replace(view.objects, **{name: value}))
    with pytest.raises(InputError, match="no observed objects"):
        replace(first, run=False)
    strange = replace(view, objects=replace(view.objects, cls=np.array(["Zeppelin"])))
    with pytest.raises(
        InputError, match=r"observed classes must be among .*'Zeppelin'"
    ):
        Sight(strange).glances  # noqa: B018
