from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.driving.systems import (
    SYSTEMS,
    Braking,
    Driving,
    LateralCorridor,
    RecedingHorizon,
    System,
)
from deepval.driving.systems.outcomes import own_losses, reweight
from deepval.driving.systems.system import previous_plans
from deepval.driving.world.objects import required_deceleration_mps2
from deepval.judge.tables.terms import Terms, composition, weighted_loss
from driving import Ego, acted, known, lost, mirrored, objects, random_objects, scene
from reference import driving as slow
from whole_sets import outcomes, viability

SEEDS = st.integers(0, 2**32 - 1)
NONE = np.full((1, 1), np.nan)


@dataclass(frozen=True)
class Stopper(System):
    """Stops (1) for any perceived object nearer than a limit; loses 1 for each wrong
    answer.
    """

    limit_m: float = 10.0
    wrong_weight: float = 1.0
    loss_fields: ClassVar[frozenset[str]] = frozenset({"wrong_weight"})
    choices = np.array([[0.0], [1.0]])

    def plan(self, perceived, scene, *, starts=None, previous=None):
        near = np.bincount(
            perceived.frame[perceived.near_m < self.limit_m], minlength=perceived.frames
        )
        return (near > 0).astype(float)[:, None]

    def terms(self, plans, scene, truth, *, previous):
        return {"wrong": (plans != self.plan(truth.objects, scene))[:, 0].astype(float)}

    @property
    def weights(self):
        return {"wrong": self.wrong_weight}


ALL = {
    name: system for name, system in SYSTEMS.items() if not isinstance(system, Driving)
} | {"stopper": Stopper()}
"""Systems that need no map; those of planners are in test_driving.py."""


def world(seed, frames=40, units=2):
    rng = np.random.default_rng(seed)
    scenes = [
        scene(frames, unit=f"u{unit}", speed_mps=rng.uniform(0, 18, frames))
        for unit in range(units)
    ]
    reference = [known(random_objects(rng, frames, 3.0), one.unit) for one in scenes]
    perceived = {
        mode: [
            truth.objects.where(rng.random(len(truth)) < share) for truth in reference
        ]
        for mode, share in (("cheap", 0.5), ("middle", 0.7), ("full", 0.9))
    }
    return scenes, reference, perceived


def test_a_system_is_ten_lines_and_takes_part_like_any_other():
    scenes, reference, perceived = world(0)
    found = outcomes(Stopper(), scenes, reference, perceived=perceived)
    assert set(np.unique(found.loss)) == {0.0, 1.0}
    assert found.loss[:, 2].sum() < found.loss[:, 0].sum()


@pytest.mark.parametrize("name", ALL)
def test_every_system_works_in_an_empty_world(name):
    empty = [objects([], 3)]
    found = outcomes(
        ALL[name],
        [scene(3)],
        [known(empty[0])],
        perceived={"cheap": empty, "full": empty},
    )
    assert (found.values == 0).all()
    assert found.input.tolist() == ["0000/000000", "0000/000001", "0000/000002"]


@pytest.mark.parametrize("name", ALL)
def test_units_do_not_touch_each_other(name):
    scenes, reference, perceived = world(2)
    both = outcomes(ALL[name], scenes, reference, perceived=perceived)
    for place in range(2):
        alone = outcomes(
            ALL[name],
            scenes[place : place + 1],
            reference[place : place + 1],
            perceived={
                mode: seen[place : place + 1] for mode, seen in perceived.items()
            },
        )
        np.testing.assert_array_equal(alone.loss, both.loss[both.unit == f"u{place}"])


@pytest.mark.parametrize("name", ALL)
def test_the_value_of_an_input_does_not_depend_on_other_escalations(name):
    """Previous actions come from all-cheap operation: worsening the full mode elsewhere
    changes no other value.
    """
    scenes, reference, perceived = world(3, units=1)
    whole = outcomes(ALL[name], scenes, reference, perceived=perceived)
    full = perceived["full"][0]
    broken = {**perceived, "full": [full.where(full.frame != 7)]}
    changed = outcomes(ALL[name], scenes, reference, perceived=broken)
    others = np.arange(40) != 7
    np.testing.assert_array_equal(changed.loss[others], whole.loss[others])


@pytest.mark.parametrize("name", ALL)
def test_losses_are_the_weighted_sum_of_their_terms(name):
    scenes, reference, perceived = world(4)
    found = outcomes(ALL[name], scenes, reference, perceived=perceived)
    np.testing.assert_array_equal(
        found.loss, weighted_loss(found.terms, ALL[name].weights)
    )
    assert list(found.losses) == ["cheap", "middle", "full"]
    parts = composition(found.values, Terms(found.terms, ALL[name].weights, ()))
    values = found.values
    assert sum(parts.benefit.values()) == pytest.approx(
        values[values > 0].sum(), rel=1e-9
    )
    assert sum(parts.harm.values()) == pytest.approx(
        -values[values < 0].sum(), rel=1e-9
    )


@pytest.mark.parametrize(
    ("system", "variant"),
    [
        (
            Braking(),
            Braking(excess_weight=0.24, collision_weight=3.0, change_weight=0.0),
        ),
        (LateralCorridor(), LateralCorridor(shift_weight=0.5)),
        (Stopper(), Stopper(wrong_weight=7.0)),
    ],
)
def test_recombined_losses_equal_those_built_again(system, variant):
    scenes, reference, perceived = world(5)
    found = reweight(outcomes(system, scenes, reference, perceived=perceived), variant)
    np.testing.assert_array_equal(
        found.loss, outcomes(variant, scenes, reference, perceived=perceived).loss
    )


def test_braking_loss_by_hand():
    ego = Ego(np.array([10.0]), np.array([False]))
    hard = lost(
        Braking(), np.array([[6.0]]), objects([]), ego=ego, previous=np.array([[0.0]])
    )
    assert weighted_loss(hard, Braking().weights)[0] == pytest.approx(
        0.12 * 36 + 0.02 * 6
    )
    crash = lost(
        Braking(),
        np.array([[0.0]]),
        objects([(0, 3, 5, -1, 1, 0)]),
        ego=ego,
        previous=np.array([[2.5]]),
    )
    assert weighted_loss(crash, Braking().weights)[0] == pytest.approx(
        9**2 + 0.02 * 2.5 + 6
    )
    first = lost(Braking(), np.array([[6.0]]), objects([]), ego=ego, previous=NONE)
    assert first["change"][0] == 0


def test_braking_equals_the_slow_twin():
    rng = np.random.default_rng(8)
    frames = 2500
    ego = Ego(rng.uniform(0, 25, frames), rng.random(frames) < 0.05)
    ego.first[0] = True
    seen, reference = random_objects(rng, frames, 2.0), random_objects(rng, frames, 2.0)
    actions = acted(Braking(), seen, ego)
    previous = previous_plans(actions, ego.first)
    found = weighted_loss(
        lost(Braking(), actions, reference, ego=ego, previous=previous),
        Braking().weights,
    )
    needed = required_deceleration_mps2(seen, ego.speed_mps)
    wanted = required_deceleration_mps2(reference, ego.speed_mps)
    for t in range(frames):
        action = slow.brake(needed[t])
        before = None if ego.first[t] else slow.brake(needed[t - 1])
        assert actions[t, 0] == action
        assert found[t] == pytest.approx(
            slow.brake_loss(wanted[t], action, before), rel=1e-9
        )
    assert set(np.unique(actions)) == {0, 2.5, 6}


def test_lateral_controller_equals_the_slow_twin():
    rng = np.random.default_rng(9)
    frames, system = 2500, LateralCorridor()
    ego = Ego(rng.uniform(0, 20, frames), np.zeros(frames, dtype=bool))
    seen, reference = random_objects(rng, frames, 3.0), random_objects(rng, frames, 3.0)
    actions = acted(system, seen, ego)
    terms = lost(system, actions, reference, ego=ego, previous=actions)
    found = weighted_loss(terms, system.weights)

    def rows(things, t):
        at = things.frame == t
        return np.column_stack(
            [things.near_m, things.far_m, things.lateral_m, things.closing_mps]
        )[at].tolist()

    for t in range(frames):
        chosen = slow.shift(rows(seen, t), ego.speed_mps[t])
        assert actions[t, 0] == chosen
        blocked = slow.corridor_blocked(rows(reference, t), ego.speed_mps[t], chosen)
        assert found[t] == pytest.approx(blocked + 0.1 * chosen**2)
    assert set(np.unique(actions)) == {-1, 0, 1}


@given(SEEDS)
def test_mirroring_the_scene_mirrors_the_corridor_shift(seed):
    """Exact ties aside: where both sides are free, the right one is taken in both
    worlds.
    """
    rng = np.random.default_rng(seed)
    system, things = LateralCorridor(), random_objects(rng, 20, 3.0)
    ego = Ego(rng.uniform(0, 20, 20), np.ones(20, dtype=bool))
    blocked = system.blocked(things, ego.speed_mps)
    tied = blocked[:, 0] & ~blocked[:, 1] & ~blocked[:, 2]
    straight, turned = acted(system, things, ego), acted(system, mirrored(things), ego)
    np.testing.assert_array_equal(turned[~tied], -straight[~tied] + 0.0)


def test_viability_against_constant_actions():
    scenes, reference, perceived = world(10, frames=200)
    found = outcomes(Braking(), scenes, reference, perceived=perceived)
    check = viability(found, scenes, reference)
    wanted = np.concatenate(
        [
            required_deceleration_mps2(r.objects, s.ego_speed_mps)
            for r, s in zip(reference, scenes, strict=True)
        ]
    )
    by_hand = {
        a: np.mean([slow.brake_loss(w, a, None) for w in wanted])
        for a in (0.0, 2.5, 6.0)
    }
    assert len(wanted) == sum(map(len, scenes))
    assert check.trivial_loss == pytest.approx(min(by_hand.values()))
    assert check.trivial == f"always {min(by_hand, key=by_hand.__getitem__):g}"
    assert check.viable["full"] == (check.loss["full"] < check.trivial_loss)
    blind = outcomes(
        Braking(),
        scenes,
        reference,
        perceived={"a": [objects([], 200)] * 2, **perceived},
    )
    assert not viability(blind, scenes, reference).viable["a"]


def test_frames_that_a_mode_was_not_run_on_are_no_inputs_and_break_the_chain():
    wall, nothing = [(t, 8.0, 12.0, -1.0, 1.0, 0.0) for t in range(4)], objects([], 4)
    seen = objects(wall[:1], 4)
    run = {
        "cheap": [np.array([True, False, True, True])],
        "full": [np.array([True, True, True, False])],
    }
    found = outcomes(
        Braking(),
        [scene(4)],
        [known(nothing)],
        perceived={"cheap": [seen], "full": [objects(wall, 4)]},
        run=run,
    )
    assert found.order.tolist() == [0, 2]
    assert found.terms["change"].tolist() == [[0, 0], [0, 0]]


def test_own_losses_chain_a_modes_own_actions():
    scenes, reference, perceived = world(11)
    own = own_losses(RecedingHorizon(), scenes, reference, perceived=perceived["full"])
    both = outcomes(
        RecedingHorizon(),
        scenes,
        reference,
        perceived={"a": perceived["full"], "b": perceived["cheap"]},
    )
    np.testing.assert_array_equal(own, both.loss[:, 0])


def test_what_outcomes_refuse():
    scenes, reference, perceived = world(12)
    with pytest.raises(InputError, match="two modes or more"):
        outcomes(Braking(), scenes, reference, perceived={"cheap": perceived["cheap"]})
    with pytest.raises(
        InputError, match="reference objects of unit u0 must span its 40 frames"
    ):
        outcomes(Braking(), scenes, [known(objects([], 39))] * 2, perceived=perceived)
    with pytest.raises(InputError, match="same names"):
        weighted_loss({"a": np.zeros(1)}, {"b": 1.0})
