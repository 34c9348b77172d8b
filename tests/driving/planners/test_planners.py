"""IDM and PDM-Closed: what recorded runs of the published planners never exercise, by
hand or against slow twins.
"""

import itertools
import sys

import numpy as np
import pytest
import shapely

from commands import PYTHON, run_process
from deepval.basics.errors import InputError, install_command
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners import routes
from deepval.driving.planners.idm import Idm, Leader
from deepval.driving.planners.observation import PEDESTRIAN, STATIC, VEHICLE, EgoState
from deepval.driving.planners.pdm_closed import PdmClosed, braking_mps, proposals_of
from deepval.driving.planners.roads import LanePath, roads_of
from project import ROOT, SUPPORT
from reference import planners as slow
from road_worlds import lane, others, road, situation, straight, town
from shared import shared_data

sys.path.insert(0, str(ROOT / "tools"))

PLANNERS = [Idm(), PdmClosed()]
NOBODY = others()


def one(planner, here, agents):
    return proposals_of(planner, here, [agents])[0]


# Twins


@pytest.mark.parametrize("seed", range(6))
def test_both_planners_are_their_slow_twins(seed):
    here, agents = town(np.random.default_rng(seed))
    pose, speed = slow.idm(here, agents)
    followed = Idm().plan(here, agents)
    np.testing.assert_allclose(followed.pose[:, :2], pose[:, :2], atol=1e-9)
    np.testing.assert_allclose(followed.speed_mps, speed, atol=1e-9)
    scores, best, brake, pose, speed = slow.pdm(here, agents)
    plan = PdmClosed().plan(here, agents)
    np.testing.assert_allclose(plan.score, scores, atol=1e-9)
    if sum(scores > scores.max() - 1e-9) > 1:
        return  # A tie that rounding decides.
    assert (plan.chosen, plan.emergency_brake) == (best, brake)
    np.testing.assert_allclose(plan.pose[:, :2], pose[:, :2], atol=1e-9)
    np.testing.assert_allclose(plan.speed_mps, speed, atol=1e-9)


@pytest.mark.slow
def test_both_planners_are_their_slow_twins_in_many_towns():
    for seed in range(6, 80):
        test_both_planners_are_their_slow_twins(seed)


def test_branches_are_planned_as_if_each_were_the_only_one():
    for seed in range(3):
        here, agents = town(np.random.default_rng(seed))
        fewer = agents.where(np.arange(len(agents)) % 2 == 0)
        for planner in PLANNERS:
            together = planner.plans(here, [agents, NOBODY, fewer, agents])
            for plan, alone in zip(
                together, [agents, NOBODY, fewer, agents], strict=True
            ):
                expected = planner.plan(here, alone)
                np.testing.assert_array_equal(plan.pose, expected.pose)
                np.testing.assert_array_equal(plan.speed_mps, expected.speed_mps)


# Against recorded runs of the published planners


@pytest.mark.shared
def test_a_sample_of_the_recorded_runs_is_reproduced():
    import check_planners

    reference, scenes = (
        shared_data("planner_reference"),
        shared_data("scenarionet_nuscenes_mini"),
    )
    table = check_planners.summed_up(
        check_planners.compared(reference, scenes, every=13)
    )
    assert set(table["pdm"]) == {"gt", "none", "detA", "detB", "synth"}
    for branches in table.values():
        for branch, row in branches.items():
            assert row["holds"], (branch, row)
    for row in table["idm"].values():
        assert row["same_leads"] == row["runs"]
    for row in table["pdm"].values():
        assert row["scores_alike"] == 1
        assert row["brakes_ours"] == row["brakes_theirs"]


@pytest.mark.slow
@pytest.mark.shared
def test_all_recorded_runs_are_reproduced():
    import check_planners

    reference, scenes = (
        shared_data("planner_reference"),
        shared_data("scenarionet_nuscenes_mini"),
    )
    table = check_planners.summed_up(check_planners.compared(reference, scenes))
    print("\n".join(check_planners.lines(table)))
    assert sum(row["runs"] for row in table["idm"].values()) == 710
    assert sum(row["decided"] for row in table["pdm"].values()) == 580
    assert sum(row["brakes_ours"] for row in table["pdm"].values()) == 20
    for branches in table.values():
        for row in branches.values():
            assert row["holds"]


# Collisions


def test_a_collision_with_a_static_object_at_fault_halves_the_score():
    here = situation(straight(), speed=9.0)
    barrier = others((STATIC, 18.0, 0.0, 0.0, 0.0, 0.0))
    judged = one(PdmClosed(), here, barrier)
    assert (judged.scores.no_collision == 0.5).all()
    # The barrier is 0.5 m long: its near face is at 17.75 m, the bumper 3.244 m ahead
    # of the rear axle.
    first = [
        int(np.argmax(states[:, 0] + 3.244 >= 17.75)) for states in judged.simulated
    ]
    np.testing.assert_allclose(judged.scores.collision_s, 0.1 * np.array(first))
    standing = one(PdmClosed(), here, others((VEHICLE, 20.0, 0.0, 0.0, 0.0, 0.0)))
    assert (standing.scores.no_collision == 0).all()


def test_nobody_is_at_fault_who_is_run_into_from_behind_or_stands():
    behind = others((VEHICLE, 0.0, 0.0, 0.0, 20.0, 0.0))
    judged = one(PdmClosed(), situation(straight(), x=12.0, speed=2.0), behind)
    assert (judged.scores.no_collision == 1).all()
    assert np.isinf(judged.scores.collision_s).all()
    across = others((PEDESTRIAN, 14.0, -4.0, np.pi / 2, 0.0, 1.5))
    standing = one(
        PdmClosed(speed_shares=(1e-9,)), situation(straight(), speed=0.0), across
    )
    assert (standing.scores.no_collision == 1).all()


def test_leaving_the_road_scores_nothing_and_leaving_the_route_counts_as_oncoming():
    narrow = straight(half_m=1.2)
    judged = one(PdmClosed(), situation(narrow, speed=8.0), NOBODY)
    assert (judged.scores.drivable_area[:5] == 1).all()
    # From 8 m/s the fastest of the side paths are 1 m off the middle within 4 s: 1 +
    # 0.865 m is more than 1.2 m.
    assert (judged.scores.drivable_area[[9, 14]] == 0).all()
    beside = road(
        *straight(half_m=1.0).lanes.values(),
        lane("wrong", (200, 2), (0, 2), half_m=1.5),
    )
    judged = one(PdmClosed(), situation(beside, y=1.05, speed=2.0), NOBODY)
    expected = []
    for states in judged.simulated:
        x, y = (
            states[:, 0] + 1.202 * np.cos(states[:, 2]),
            states[:, 1] + 1.202 * np.sin(states[:, 2]),
        )
        run = longest = 0.0
        for i in range(1, 41):
            run = (
                run + np.hypot(x[i] - x[i - 1], y[i] - y[i - 1])
                if abs(y[i]) >= 1
                else 0.0
            )
            longest = max(longest, run)
        expected.append(1.0 if longest < 2 else 0.5 if longest < 6 else 0.0)
    np.testing.assert_array_equal(judged.scores.driving_direction, expected)
    assert set(expected) == {0.0, 0.5, 1.0}


# Red lights


def test_both_planners_stop_at_a_red_light_of_the_route_and_pass_a_green_one():
    lanes = (
        lane("a", (0, 0), (60, 0), to=["b"]),
        lane("b", (60, 0), (90, 0), to=["c"], connector=True),
        lane("c", (90, 0), (250, 0)),
        lane("other", (60, 0), (80, 20), connector=True),
    )
    route = ("rb_a", "rb_b", "rb_c")
    for planner in PLANNERS:
        red = planner.plan(
            situation(road(*lanes), route=route, red=["b"], speed=10.0), NOBODY
        )
        assert red.pose[-1, 0] + ZOE.front_m < 60.5
        assert abs(red.speed_mps[-1]) < 1.0
        for shut in ([], ["other"]):
            green = planner.plan(
                situation(road(*lanes), route=route, red=shut, speed=10.0), NOBODY
            )
            assert green.pose[-1, 0] > 70
    assert set(
        Idm()
        .plan(situation(road(*lanes), route=route, red=["b"], speed=10.0), NOBODY)
        .lead_id
    ) == {"red_light_b"}
    inside = situation(road(*lanes), route=route, red=["b"], x=70.0, speed=10.0)
    assert PdmClosed().plan(inside, NOBODY).pose[-1, 0] > 110


def test_a_red_light_as_leader_writes_progress_and_nothing_else():
    # Nobody else is there to leave a speed or a rear length in the buffer; what others
    # leave is the twins' matter.
    lanes = (
        lane("a", (0, 0), (60, 0), to=["b"]),
        lane("b", (60, 0), (90, 0), connector=True),
    )
    here = situation(road(*lanes), red=["b"], speed=6.0)
    judged = one(PdmClosed(), here, NOBODY)
    leader = judged.motion.leader
    assert (leader[:, :, :2] == 0).all()
    assert (leader[:, :, 2:, 1:] == 0).all()
    # At index 2 the bumper of index 1 is at 10 + 0.6 + 3.244 m; the lane that is shut
    # starts at 60 m.
    np.testing.assert_allclose(leader[0, :, 2, 0], 10.6 + (60 - 13.844))


# Speeds


@pytest.mark.parametrize(
    ("limit", "idm_mps", "pdm_mps"),
    [(6.0, 6.0, 6.0), (None, 10.0, 15.0), (20.0, 20.0, 20.0)],
)
def test_speed_limits_are_targets(limit, idm_mps, pdm_mps):
    here = situation(straight(900, speed_limit_mps=limit), speed=3.0)
    judged = one(PdmClosed(), here, NOBODY)
    np.testing.assert_allclose(
        judged.driver.targets_mps,
        [[share * pdm_mps for share in (0.2, 0.4, 0.6, 0.8, 1.0)]] * 3,
    )
    slower = Idm().plan(here, NOBODY).speed_mps
    assert (slower < idm_mps).all()
    gap = (
        1
        - (slower[0] / idm_mps) ** 4
        - ((1 + 1.5 * 3 + 3 * 3 / (2 * 3**0.5)) / (900 - 1 - 11.202 - 2.042)) ** 2
    )
    np.testing.assert_allclose(slower[1], 3 + 0.5 * gap, atol=1e-3)


def test_pdm_speeds_fall_below_0_and_idm_s_do_not():
    oncoming = others((VEHICLE, 20.0, 0.0, np.pi, -30.0, 0.0))
    here = situation(straight(), speed=0.1)
    judged = one(PdmClosed(), here, oncoming)
    assert judged.motion.speed_mps.min() < 0
    # Index 1: the leader at progress 0 leaves a gap of 1 m. Index 2: the gap is 1 m
    # again, the car runs at -30 m/s.
    first = 0.1 + 0.1 * 1.5 * (
        1 - (0.1 / 13) ** 10 - (1 + 0.15 + 0.1 * 0.1 / (2 * 4.5**0.5)) ** 2
    )
    np.testing.assert_allclose(judged.motion.speed_mps[0, 4, 1], first)
    assert (Idm().plan(here, oncoming).speed_mps >= 0).all()
    back = one(PdmClosed(), situation(straight(), x=0.05, speed=-1.0), NOBODY)
    assert back.motion.progress_m.min() < 0
    np.testing.assert_allclose(back.path_states[:, :, 0].min(), 1e-5)


def test_idm_s_acceleration_by_hand():
    # s* = 1 + 1.5 x 10 + 10 x (10 - 6) / (2 x sqrt(3)); s = 30: 1 - (10 / 13)^4 - (s* /
    # s)^2
    wanted = 1 + 15 + 40 / (2 * 3**0.5)
    expected = 1 - (10 / 13) ** 4 - (wanted / 30) ** 2
    assert Idm().acceleration(
        10.0, Leader("", 30.0, 6.0, 0.0), target_mps=13.0
    ) == pytest.approx(expected)
    assert Idm().acceleration(10.0, Leader("", 2.0, 0.0, 1.5), target_mps=13.0) == -3.0


def test_the_brake_s_signed_speed():
    def ego(speed, acceleration=0.0):
        return EgoState(np.zeros(3), speed, ZOE, acceleration)

    assert braking_mps(ego(4.0)) == pytest.approx(1.1 * (4.0 - 4.05))
    assert braking_mps(ego(0.3)) == pytest.approx(1.1 * (0.3 - 3.0))
    assert braking_mps(ego(0.1, 0.5)) == pytest.approx(-4 * 0.1 - 0.5)
    assert braking_mps(ego(0.0, -9.0)) == pytest.approx(2.40)


# Routes


def grid(rng, columns=6, rows=3):
    """Roadblocks of up to three lanes each, lanes linked to the next block at
    random.
    """
    counts = rng.integers(1, rows + 1, columns)
    lanes = []
    for column, count in enumerate(counts):
        for row in range(count):
            after = range(counts[column + 1]) if column + 1 < columns else ()
            to = [f"{column + 1}.{other}" for other in after if rng.random() < 0.6]
            bend = rng.uniform(0, 6)
            points = [
                (20 * column, 4 * row),
                (20 * column + 10, 4 * row + bend),
                (20 * column + 20, 4 * row),
            ]
            lanes.append(lane(f"{column}.{row}", *points, to=to, block=f"rb_{column}"))
    return road(*lanes)


def all_ways(roads, start, target, allowed):
    if roads.block_of(start) == target:
        yield [start]
        return
    for after in roads.after(start):
        if after in allowed:
            for rest in all_ways(roads, after, target, allowed):
                yield [start, *rest]


@pytest.mark.parametrize("seed", range(30))
def test_ways_through_roadblocks_of_several_lanes_are_the_shortest(seed):
    rng = np.random.default_rng(seed)
    roads = roads_of(grid(rng))
    route = tuple(f"rb_{column}" for column in range(6))
    allowed = set(routes.lanes_of(roads, route))
    start = roads.number["0.0"]
    ways = list(all_ways(roads, start, "rb_5", allowed))
    shortest, fewest = (
        routes.shortest_lanes(roads, route, start),
        routes.breadth_first_lanes(roads, route, start),
    )
    if ways:
        lengths = [sum(roads.length_m[lane] for lane in way[1:]) for way in ways]
        assert sum(roads.length_m[lane] for lane in shortest[1:]) == pytest.approx(
            min(lengths)
        )
        assert fewest in ways
    else:
        for way in (shortest, fewest):
            assert all(
                after in roads.after(before)
                for before, after in itertools.pairwise(way)
            )
    second = roads.number["1.0"]
    if list(all_ways(roads, second, "rb_5", allowed)):
        assert (
            roads.block_of(routes.breadth_first_lanes(roads, route, second)[-1])
            == "rb_5"
        )


def test_a_search_keeps_the_goal_met_first_and_the_parent_met_last():
    graph = {"s": ["p", "q"], "p": ["g", "h"], "q": ["h", "g"], "g": [], "h": []}
    found = routes.breadth_first(
        "s", graph.__getitem__, is_goal=lambda node, _: node in "gh", most_depth=5
    )
    assert found == (["s", "q", "g"], True)
    longest = routes.breadth_first(
        "s", graph.__getitem__, is_goal=lambda node, _: False, most_depth=5
    )
    assert longest == (["s", "q", "h"], False)


def chain_with_detour():
    """x -> a -> b -> c -> d in a row, and a slip road `e` beside a that joins at c."""
    names = "xabcd"
    lanes = [
        lane(name, (40 * n, 0), (40 * n + 40, 0), to=names[n + 1 : n + 2])
        for n, name in enumerate(names)
    ]
    return road(*lanes, lane("e", (40, 10), (80, 10), (120, 2), to=["c"]))


def corrected(lane_map, route, **ego):
    roads = roads_of(lane_map)
    return routes.corrected_route(roads, tuple(route), situation(lane_map, **ego).ego)


def test_route_correction():
    net = chain_with_detour()
    on = ("rb_a", "rb_b", "rb_c", "rb_d")
    assert corrected(net, on, x=50.0) == on
    # Before the route: the way to its first roadblock is put before it.
    assert corrected(net, on[1:], x=10.0) == ("rb_x", *on)
    # Beside it: no way leads back, but one ahead, to one of the first three roadblocks.
    assert corrected(net, on, x=60.0, y=10.0) == ("rb_e", "rb_c", "rb_d")
    assert corrected(net, ("rb_x", "rb_a", "rb_b", "rb_c"), x=60.0, y=10.0) == (
        "rb_x",
        "rb_a",
        "rb_b",
        "rb_c",
    )
    # A gap is filled.
    assert corrected(net, ("rb_a", "rb_d"), x=50.0) == on
    # Against the traffic nothing fits but the nearest.
    assert corrected(net, on, x=50.0, heading=np.pi) == on
    # Far from every lane the nearest lane counts.
    assert corrected(net, on[1:], x=10.0, y=-9.0) == ("rb_x", *on)


def test_a_route_is_cut_where_it_crosses_itself_in_an_intersection():
    lanes = (
        lane("a", (0, 0), (40, 0), to=["b"]),
        lane("b", (40, 0), (60, 0), to=["c"], connector=True),
        lane("c", (60, 0), (90, 0), (90, 30), (50, 30), (50, 12), to=["d"]),
        lane("d", (50, 12), (50, -12), to=["e"], connector=True),
        lane("e", (50, -12), (50, -40)),
    )
    route = tuple(f"rb_{name}" for name in "abcde")
    assert corrected(road(*lanes), route) == route[:3]


def test_the_starting_lane_is_the_best_aligned_under_the_rear_axle():
    fork = road(
        lane("left", (0, 0), (30, 12), to=[]),
        lane("on", (0, 0), (30, 0), to=[]),
        lane("other", (0, 1), (30, 1)),
    )
    roads, route = roads_of(fork), ("rb_left", "rb_on")
    ego = situation(fork, x=3.0, y=0.8).ego
    assert roads.ids[routes.starting_lane(roads, route, ego=ego, farthest_m=50)] == "on"
    ego = situation(fork, x=3.0, y=0.8, heading=0.35).ego
    assert (
        roads.ids[routes.starting_lane(roads, route, ego=ego, farthest_m=50)] == "left"
    )


def test_the_second_choice_of_a_starting_lane():
    net = road(
        lane("a", (0, 0), (10, 0), half_m=1.0),
        lane("b", (10.6, 0), (40, 0), half_m=1.0),
        lane("c", (0, 9), (40, 9)),
    )
    roads, route = roads_of(net), ("rb_a", "rb_b", "rb_c")

    def start(**ego):
        return roads.ids[
            routes.starting_lane(
                roads, route, ego=situation(net, **ego).ego, farthest_m=50
            )
        ]

    # The rear axle is between a and b, the centre 1.202 m ahead in b.
    assert start(x=10.3) == "b"
    # Neither is on a lane: 1 m from b's edge the footprint is nearest to b, higher up
    # to c.
    assert start(x=20.0, y=2.9) == "b"
    assert start(x=20.0, y=5.5) == "c"


# Bad and unusual input


@pytest.mark.parametrize("planner", PLANNERS, ids=["idm", "pdm"])
def test_a_route_that_leaves_the_map_is_refused(planner):
    with pytest.raises(
        InputError, match=r"roadblock rb_z \(number 3 of 4\) is not on it"
    ):
        planner.plan(
            situation(straight(), route=("rb_a", "rb_b", "rb_z", "rb_q")), NOBODY
        )
    with pytest.raises(InputError, match="a planner needs a route"):
        planner.plan(situation(straight(), route=()), NOBODY)


@pytest.mark.parametrize("planner", PLANNERS, ids=["idm", "pdm"])
def test_an_ego_off_the_road_goes_back_to_it_or_is_told_how_far_away_it_is(planner):
    plan = planner.plan(situation(straight(), y=8.0, speed=3.0), NOBODY)
    assert abs(plan.pose[-1, 1]) <= 1.0
    # The lane's edge is at 2 m, the vehicle's side 0.865 m nearer than its middle.
    with pytest.raises(
        InputError, match=r"it is 77\.1 m from the nearest lane of the route"
    ):
        planner.plan(situation(straight(), y=80.0), NOBODY)


@pytest.mark.parametrize("planner", PLANNERS, ids=["idm", "pdm"])
@pytest.mark.parametrize("x", [150.0, 180.0, 197.0, 199.9, 205.0])
def test_a_dead_end_is_a_stopped_lead_at_the_path_s_end(planner, x):
    plan = planner.plan(
        situation(straight(200.0), x=x, speed=min(8.0, max(0.0, (200 - x) / 4))), NOBODY
    )
    assert np.isfinite(plan.pose).all()
    assert plan.pose[-1, 0] <= 200.0
    assert abs(plan.speed_mps[-1]) < 1.5


def test_paths_are_interpolated_between_vertices_and_held_to_their_ends():
    way = LanePath.through(
        np.array([[0.0, 0, 0], [3, 4, np.pi], [3, 10, -np.pi + 0.2]])
    )
    np.testing.assert_allclose(
        way.at(np.array([-1.0, 2.5, 8.0, 99.0]))[:, :2],
        [[0, 0], [1.5, 2], [3, 7], [3, 10]],
    )
    np.testing.assert_allclose(way.at(np.array([8.0]))[0, 2], np.pi + 0.1)
    assert way.progress_at_m(np.array([4.0, 7.0])) == 8.0
    assert shapely.length(way.part(2.5, 8.0)) == pytest.approx(5.5)
    assert way.beside(1.0).pose[0, :2] == pytest.approx([0, 1])


def test_who_lists_planners_does_not_load_shapely_and_who_plans_without_it_is_told():
    code = (
        "import sys; sys.modules['shapely'] = None; sys.path.insert(0, "
        f"{str(SUPPORT)!r})\n"
        "from road_worlds import others, situation, straight\n"
        "from deepval.driving.planners.idm import Idm\n"
        "from deepval.driving.planners.pdm_closed import PdmClosed\n"
        "for planner in (Idm(), PdmClosed()):\n"
        "    try: planner.plans(situation(straight()), [others()])\n"
        "    except ValueError as told: print(told)\n"
    )
    done = run_process(code, program=PYTHON)
    assert done.code == 0, done.err
    sentence = (
        "Planning on a lane map needs shapely, which "
        f"is not installed: {install_command('planners')}."
    )
    assert done.out.splitlines() == [sentence] * 2
