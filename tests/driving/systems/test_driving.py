"""Planners as downstream systems: frames, losses by hand and against a slow twin, plans
made once, trivial plans.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.driving.cells.spec import Material, ModeSpec, specs
from deepval.driving.geometry.vehicle import ZOE, Vehicle
from deepval.driving.planners.observation import (
    BICYCLE,
    PEDESTRIAN,
    STATIC,
    VEHICLE,
    agents_of,
    situation_at,
    to_ego_m,
    to_world_m,
)
from deepval.driving.planners.pdm_closed import PdmClosed
from deepval.driving.systems.driving import AHEAD_S, Driving, pose_terms
from deepval.driving.systems.outcomes import reweight
from deepval.driving.systems.system import constants, settable, with_constants
from driving import Lidar, known, scene
from roads import (
    FRAMES,
    SPEED_MPS,
    TURN_RAD,
    Roads,
    Stopper,
    driven,
    in_world,
    road,
    things,
)
from whole_sets import outcomes

SAFETY = Driving(Stopper())
SCALAR = replace(SAFETY, deviation_weight=0.1)
MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (12.0, 60.0)
)


@pytest.fixture(autouse=True)
def fresh():
    Stopper.made.clear()


def straight(frames, *, speed_mps=SPEED_MPS, left_m=0.0):
    """Poses straight on."""
    pose = np.zeros((frames, 8, 3))
    pose[..., 0], pose[..., 1] = speed_mps * AHEAD_S, left_m
    return pose


def test_the_frames_of_ego_and_world_are_kept_apart():
    drive = road()
    situation = situation_at(drive, 2)
    np.testing.assert_allclose(
        situation.ego.pose, [*in_world([(8.0, 0.0)])[0], TURN_RAD]
    )
    seen = things(
        [(0, 10, 3, 0.5, "Car"), (0, 5, -2, 0.0, "Pedestrian")],
        1,
        velocity_mps=np.array([[2.0, 0], [np.nan] * 2]),
    )
    agents = agents_of(seen, situation.ego.pose)
    np.testing.assert_allclose(
        agents.pose[0], [*in_world([(18.0, 3.0)])[0], TURN_RAD + 0.5]
    )
    np.testing.assert_allclose(agents.size_m, [(4.0, 2.0), (0.8, 0.8)])
    np.testing.assert_allclose(
        agents.velocity_mps, [(2 * np.cos(TURN_RAD), 2 * np.sin(TURN_RAD)), (0, 0)]
    )
    assert agents.id.tolist() == ["0", "1"]
    points = np.random.default_rng(0).normal(0, 30, (9, 2))
    np.testing.assert_allclose(
        to_ego_m(to_world_m(points, situation.ego.pose), situation.ego.pose), points
    )


def test_what_a_planner_is_told():
    red = tuple(frozenset({"own"} if t else ()) for t in range(FRAMES))
    drive = road(
        route=("a", "b", "c"), route_starts=np.array([0, 0, 1, 1, 2, 2]), red_lights=red
    )
    drive = replace(drive, ego_acceleration_mps2=np.linspace(0, 1, FRAMES))
    assert situation_at(drive, 2).route == ("b", "c")
    assert (situation_at(drive, 0).red_lights, situation_at(drive, 3).red_lights) == (
        frozenset(),
        frozenset({"own"}),
    )
    assert situation_at(drive, 5).ego.acceleration_mps2 == 1.0
    assert situation_at(road(), 5).ego.acceleration_mps2 == 0.0
    kinds = things(
        [
            (0, 5, 0, 0, name)
            for name in ("Truck", "Person_sitting", "Cyclist", "Barrier")
        ],
        1,
    )
    assert agents_of(kinds, np.zeros(3)).kind.tolist() == [
        VEHICLE,
        PEDESTRIAN,
        BICYCLE,
        STATIC,
    ]


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({"lane_map": None}, "it has no lane map"),
        ({"world_from_ego": None}, "it has no poses"),
        ({"vehicle": None}, "it has no size of the vehicle"),
        ({"route": (), "lane_map": None}, "it has no lane map and no route"),
    ],
)
def test_a_scene_without_what_a_planner_needs_is_a_sentence(lacks, said):
    with pytest.raises(
        InputError,
        match=f"unit road-0: a planner needs a lane map, .*{said}: take a data set",
    ):
        SAFETY.plan(things([]), road(**lacks))


def test_an_unknown_class_and_a_future_that_was_not_logged_are_sentences():
    with pytest.raises(InputError, match="must be of a known class; found 'Ufo'"):
        SAFETY.plan(things([(0, 9, 0, 0, "Ufo")]), road())
    with pytest.raises(InputError, match="this unit has no logged future:"):
        SAFETY.judged(road(), known(things([])))
    with pytest.raises(
        InputError, match="this unit has no logged future of other objects"
    ):
        SAFETY.judged(road(), known(things([]), future=replace(driven(), objects=())))
    with pytest.raises(
        InputError, match=r"times ahead must include 0\.5, .*; 2\.5 s is not there"
    ):
        SAFETY.judged(
            road(), known(things([]), future=driven(times_s=np.arange(1, 5) * 0.5))
        )
    with pytest.raises(
        InputError, match=r"times ahead must include .*; 0\.5 s is not there"
    ):
        Driving(Stopper(step_s=1.0)).plan(things([]), road())


@pytest.mark.parametrize("step_s", [0.5, 0.1])
def test_a_plan_is_the_planners_own_knots_in_the_ego_frame(step_s):
    plans = Driving(Stopper(step_s=step_s)).plan(things([(3, 20, 0, 0, "Car")]), road())
    assert plans.shape == (FRAMES, 8, 4)
    np.testing.assert_allclose(
        plans[0],
        np.column_stack([8 * AHEAD_S, 0 * AHEAD_S, 0 * AHEAD_S, 8 + 0 * AHEAD_S]),
        atol=1e-9,
    )
    stop_m = 20 - 2 - ZOE.front_m - 3
    np.testing.assert_allclose(
        plans[3, :, 0], np.minimum(8 * AHEAD_S, stop_m), atol=1e-9
    )


def test_losses_by_hand():
    """The ego is 1.73 m wide and drives straight on at 8 m/s; its logged future did so
    too, 2 m/s faster.
    """

    def lost(*rows, pose=None):
        others = [[] for _ in AHEAD_S]
        for k, row in rows:
            others[k].append(row)
        truth = known(things([], 1), future=driven(1, speed_mps=10.0, others=others))
        terms = pose_terms(straight(1) if pose is None else pose, truth, vehicle=ZOE)
        return {name: term[0] for name, term in terms.items()}

    # 2 m/s over 0.5 ... 4 s: 2 * 2.25 = 4.5 m behind on average.
    assert lost() == {"collision": 0, "shortfall": 0, "deviation": pytest.approx(4.5)}
    # A car of 2 m beside it, 0.3 m from side to side: short of 0.7 m.
    beside = (0, (0, 5.0, 0.865 + 0.3 + 1.0, 0.0, "Car"))
    assert lost(beside)["shortfall"] == pytest.approx(0.7**2)
    assert lost(beside)["collision"] == 0
    # Into its rear by 1.5 m at 4 s: the ego's nose is at 32 + 3.244, less than its
    # width deep.
    into = (7, (0, 32 + 3.244 - 1.5 + 2.0, 0.0, 0.0, "Car"))
    assert lost(into) == {
        "collision": 1,
        "shortfall": 4.0,
        "deviation": pytest.approx(4.5),
    }
    shallow = (7, (0, 32 + 3.244 - 0.5 + 2.0, 0.0, 0.0, "Car"))
    assert lost(shallow)["shortfall"] == pytest.approx(1.5**2)
    # The logged ego, at 40 m then, drove through it: left out at that time, not at
    # others.
    ghost = (7, (0, 38.0, 0.0, 0.0, "Car"))
    assert lost(ghost, pose=straight(1, speed_mps=9.0))["collision"] == 0
    assert lost((6, (0, 38.0, 5.0, 0.0, "Car")))["collision"] == 0
    assert lost(ghost, (3, (0, 18.0, -1.5, 0.0, "Pedestrian")))["collision"] == 0


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_losses_are_those_of_a_slow_twin(seed):
    shapely = pytest.importorskip("shapely", reason="the extra `planners` has shapely")
    rng = np.random.default_rng(seed)
    frames = 2
    others = [
        sorted(
            (
                int(rng.integers(frames)),
                *rng.normal([12, 0, 0], [12, 5, 2]),
                rng.choice(["Car", "Pedestrian"]),
            )
            for _ in range(5)
        )
        for _ in AHEAD_S
    ]
    future = driven(frames, speed_mps=float(rng.uniform(0, 12)), others=others)
    pose = rng.normal([12, 0, 0], [8, 2, 0.5], (frames, 8, 3))
    terms = pose_terms(pose, known(things([], frames), future=future), vehicle=ZOE)
    for t in range(frames):
        worst, apart = np.inf, []
        for k in range(8):
            planned, logged = (
                shapely.Polygon(ZOE.corners_m(p[t, k])) for p in (pose, future.pose)
            )
            apart.append(
                np.hypot(
                    *(ZOE.centres_m(pose[t, k]) - ZOE.centres_m(future.pose[t, k]))
                )
            )
            for corners in future.objects[k].corners_m[future.objects[k].frame == t]:
                other = shapely.Polygon(corners)
                if other.intersection(logged).area == 0:
                    worst = min(
                        worst,
                        -1e-9
                        if other.intersection(planned).area
                        else other.distance(planned),
                    )
        assert terms["collision"][t] == float(worst < 0)
        if worst >= 0:
            assert terms["shortfall"][t] == pytest.approx(
                max(0, 1 - worst) ** 2, abs=1e-7
            )
        else:
            assert 1 <= terms["shortfall"][t] <= 4
        assert terms["deviation"][t] == pytest.approx(np.mean(apart))


def test_only_frames_with_a_whole_future_are_judged():
    logged = np.ones((3, 8), dtype=bool)
    logged[1, 7] = False
    truth = known(things([], 3), future=driven(3, logged=logged))
    perceived = {"none": [things([], 3)], "all": [things([(2, 12, 0, 0, "Car")], 3)]}
    found = outcomes(SCALAR, [road(3)], [truth], perceived=perceived)
    assert found.order.tolist() == [0, 2]
    assert found.values[0] == 0
    assert found.values[1] < 0
    assert found.columns["end_speed_mps"].tolist() == [[8.0, 8.0], [8.0, 0.0]]


def test_safety_and_scalar_are_one_plan_weighed_twice():
    drive, truth = Roads().read_unit("road-1")
    near = truth.objects.where(truth.objects.near_m < 12)
    found = outcomes(
        SAFETY, [drive], [truth], perceived={"near": [near], "all": [truth.objects]}
    )
    again = reweight(found, SCALAR)
    np.testing.assert_allclose(again.loss - found.loss, 0.1 * found.terms["deviation"])
    np.testing.assert_allclose(
        found.loss, 10 * found.terms["collision"] + 1.5 * found.terms["shortfall"]
    )
    assert (
        found.terms["collision"].sum(axis=0).tolist()[1]
        == 0
        < found.terms["collision"].sum(axis=0).tolist()[0]
    )
    with pytest.raises(InputError, match="planner changes actions"):
        reweight(found, Driving(Stopper(half_width_m=9.0)))


def material(units=None):
    return Material(Roads(), MODES, Roads().select(units))


def wanted(*systems):
    return specs(material(), geometries=["cuboids"], systems=list(systems))


def test_constants_of_the_planner_are_set_by_name():
    assert settable(SAFETY)["half_width_m"] == ("planner", 1.5)
    wider = with_constants(SAFETY, {"half_width_m": 2.5, "deviation_weight": 0.1})
    assert constants(wider)["planner"] == Stopper(half_width_m=2.5)
    assert wider.weights["deviation"] == 0.1


def test_another_vehicle_has_other_footprints():
    bus = Vehicle(front_m=9.0, rear_m=2.0, width_m=2.5, wheel_base_m=6.0)
    truth = known(
        things([], 1),
        future=driven(
            1, speed_mps=-8.0, others=[[(0, 10.5, 0.0, 0.0, "Car")], *([[]] * 7)]
        ),
    )
    assert pose_terms(straight(1, speed_mps=0.0), truth, vehicle=ZOE)["collision"] == 0
    assert pose_terms(straight(1, speed_mps=0.0), truth, vehicle=bus)["collision"] == 1
    with pytest.raises(InputError, match="its size must be known"):
        SAFETY.terms(np.zeros((3, 8, 4)), scene(3), truth, previous=np.zeros((3, 8, 4)))


def test_tip_of_a_planner_that_scores_proposals_is_the_four_term_formula():
    drive, logged = road(2), np.repeat([[True], [False]], 8, axis=1)
    told = known(
        things([(0, 18.0, 0.0, 0.0, "Car"), (1, 14.0, 0.0, 0.0, "Car")], 2),
        future=driven(2, logged=logged),
    )
    ends = {"cheap": things([], 2), "full": told.objects}
    pdm = Driving(PdmClosed())
    found = pdm.evidence(ends, drive, told)
    here = situation_at(drive, 0)
    p, q = (
        pdm.planner.plan(here, agents_of(seen.at(0), here.ego.pose)).score
        for seen in (told.objects, ends["cheap"])
    )
    best, raised = int(np.argmax(p)), int(np.argmax(q - p))
    assert found["cheap_TIP"][0] == pytest.approx(
        (q[best] - q[raised]) - (p[best] - p[raised])
    )
    assert found["cheap_TIP"][0] < 0 == found["full_TIP"][0]
    assert np.isnan(found["cheap_TIP"][1]), "a frame without a future is not judged"
    again = replace(pdm, deviation_weight=0.1).evidence(ends, drive, told)
    assert again["cheap_TIP"] is found["cheap_TIP"], (
        "other weights ask for the same, and it is not scored again"
    )
    assert not {"cheap_TIP", "full_TIP"} & SAFETY.evidence(ends, drive, told).keys()
