import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.driving.planners.controllers import reachable, worst_clearances_m
from deepval.driving.systems.receding_horizon import RecedingHorizon
from deepval.driving.systems.system import previous_plans
from deepval.judge.tables.terms import weighted_loss
from driving import Ego, acted, lost, mirrored, objects, random_objects
from reference import receding_horizon as slow

SYSTEM = RecedingHorizon()
ACCELERATIONS = np.unique(SYSTEM.choices[:, 0])[::-1].tolist()
SEEDS = st.integers(0, 2**32 - 1)


def drive(rng, frames, *, grid=None, per_frame=4.0):
    first = rng.random(frames) < 0.05
    first[0] = True
    return random_objects(rng, frames, per_frame, grid=grid), Ego(
        rng.uniform(0, 20, frames), first
    )


def frames_of(things):
    rows = np.column_stack([things.near_m, things.far_m, things.lateral_m])
    return [rows[things.frame == frame].tolist() for frame in range(things.frames)]


def test_candidates_come_in_the_order_that_settles_ties():
    assert SYSTEM.choices.shape == (35, 2)
    assert SYSTEM.choices[:6].tolist() == [
        [0, 0],
        [0, -1.5],
        [0, 1.5],
        [0, -3],
        [0, 3],
        [pytest.approx(-8 / 6), 0],
    ]


@pytest.mark.parametrize("grid", [None, 0.5])
def test_the_chain_of_actions_equals_the_plain_loop(grid):
    rng = np.random.default_rng(5)
    things, ego = drive(rng, 1200, grid=grid)
    expected = slow.drive(
        frames_of(things), ego.speed_mps.tolist(), ego.first.tolist(), ACCELERATIONS
    )
    actions = acted(SYSTEM, things, ego)
    np.testing.assert_array_equal(actions, expected)
    assert len(np.unique(actions, axis=0)) >= 10


def test_losses_equal_the_plain_loop():
    rng = np.random.default_rng(6)
    things, ego = drive(rng, 2000, grid=0.5)
    reference = random_objects(rng, 2000, 3.0, grid=0.5)
    cheap = acted(SYSTEM, random_objects(rng, 2000, 2.0), ego)
    previous = previous_plans(cheap, ego.first)
    actions = acted(SYSTEM, things, ego, previous=previous)
    found = weighted_loss(
        lost(SYSTEM, actions, reference, ego=ego, previous=previous), SYSTEM.weights
    )
    frames = frames_of(reference)
    for t in range(2000):
        before = None if np.isnan(previous[t, 0]) else tuple(previous[t])
        expected = slow.loss(frames[t], ego.speed_mps[t], tuple(actions[t]), before)
        assert found[t] == pytest.approx(expected, rel=1e-9)


def test_loss_terms_by_hand():
    wall = objects([(0, 12.0, 13.0, -0.5, 0.5, 0.0)])
    ego = Ego(np.array([10.0]), np.array([False]))
    terms = lost(
        SYSTEM, np.array([[0.0, 0.0]]), wall, ego=ego, previous=np.array([[-4.0, 1.5]])
    )
    found = {name: float(term[0]) for name, term in terms.items()}
    assert found == {
        "collision": 1.0,
        "clearance": min(2.0, 1 + 1.4) ** 2,
        "progress": 0.0,
        "effort": 0.0,
        "offset": 0.0,
        "change": (0 + 4) ** 2 / 4 + (0 - 1.5) ** 2,
    }
    assert weighted_loss(terms, SYSTEM.weights)[0] == pytest.approx(
        10 + 1.5 * 4 + 0.05 * (4 + 2.25)
    )


def test_reference_objects_behind_the_ego_origin_are_left_out_and_perceived_ones_are_not():  # noqa: E501
    behind = objects([(0, -4.0, 0.0, -0.5, 0.5, 0.0)])
    ego = Ego(np.array([0.0]), np.array([True]))
    still = np.full((1, 2), np.nan)
    assert (
        lost(SYSTEM, np.array([[0.0, 0.0]]), behind, ego=ego, previous=still)[
            "collision"
        ][0]
        == 0
    )
    assert worst_clearances_m(SYSTEM, behind, ego.speed_mps)[0, 0] == pytest.approx(
        -1.4
    )


def test_touching_counts_as_overlap_in_x_and_not_as_collision_in_y():
    ego = Ego(np.array([0.0]), np.array([True]))
    none = np.full((1, 2), np.nan)
    touching = objects([(0, 4.5, 6.0, -0.5, 0.5, 0.0)])
    assert (
        lost(SYSTEM, np.zeros((1, 2)), touching, ego=ego, previous=none)["collision"][0]
        == 1
    )
    beside = objects([(0, 2.0, 6.0, 0.9, 2.0, 0.0)])
    terms = lost(SYSTEM, np.zeros((1, 2)), beside, ego=ego, previous=none)
    assert (terms["collision"][0], terms["clearance"][0]) == (0, 1)


@given(SEEDS)
def test_objects_that_no_candidate_can_reach_change_nothing(seed):
    rng = np.random.default_rng(seed)
    things, ego = drive(rng, 12)
    pruned = reachable(SYSTEM, things, ego.speed_mps)
    np.testing.assert_array_equal(
        acted(SYSTEM, pruned, ego), acted(SYSTEM, things, ego)
    )
    far = things.near_m > ego.speed_mps[things.frame] * 3 + 4.5
    wide = (things.lateral_m[:, 0] >= 4.9) | (things.lateral_m[:, 1] <= -4.9)
    np.testing.assert_array_equal(
        acted(SYSTEM, things.where(~(far | wide)), ego), acted(SYSTEM, things, ego)
    )


@given(SEEDS)
def test_mirroring_the_scene_mirrors_the_lateral_action(seed):
    """Exact ties aside: where both sides cost the same, the smaller d wins in both
    worlds.
    """
    rng = np.random.default_rng(seed)
    things, ego = drive(rng, 10)
    ego = ego._replace(first=np.ones(10, dtype=bool))
    cost = SYSTEM.fixed_costs(SYSTEM.needs(things, ego.speed_mps), ego.speed_mps)
    straight, turned = acted(SYSTEM, things, ego), acted(SYSTEM, mirrored(things), ego)
    tied = (np.isclose(cost, cost.min(axis=1, keepdims=True), rtol=0, atol=1e-9)).sum(
        axis=1
    ) > 1
    np.testing.assert_array_equal(turned[~tied], straight[~tied] * [1, -1])
