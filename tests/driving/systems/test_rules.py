"""The rule of a system on draws of objects: bit for bit what the system plans and
charges.
"""

from dataclasses import replace

import numpy as np
import pytest

from deepval.driving.planners.controllers import RULES
from deepval.driving.systems import SYSTEMS
from deepval.driving.systems.system import previous_plans
from deepval.driving.world.objects import Outlines, box_objects
from driving import scene, truth


def draws(rng, frames):
    count = 4 * frames
    frame = np.sort(rng.integers(0, frames, count))
    near = rng.uniform(-5, 60, count)
    right = rng.uniform(-4, 3, count)
    lateral = np.column_stack([right, right + rng.uniform(0.4, 2.5, count)])
    return box_objects(
        frames,
        frame,
        near_m=near,
        far_m=near + 4,
        lateral_m=lateral,
        closing_mps=rng.uniform(-2, 9, count),
    )


def obstacles(things):
    return Outlines(
        things.frames,
        things.frame,
        things.near_m,
        things.far_m,
        things.lateral_m,
        closing_mps=things.closing_mps,
    )


@pytest.mark.parametrize("name", RULES)
def test_a_rule_acts_and_charges_as_its_system(name):
    rng, system = np.random.default_rng(3), SYSTEMS[name]
    rule = system.rule
    assert type(rule) is RULES[name]
    assert rule.weights == system.weights
    perceived, reference = draws(rng, 50), draws(rng, 50)
    # A reference object behind the vehicle is no obstacle for either.
    reference = reference.where(reference.far_m > 0)
    speed = rng.uniform(0, 25, 50)
    drive = scene(50, speed_mps=speed)
    before = previous_plans(system.plan(draws(rng, 50), drive), np.arange(50) % 7 == 0)
    plans = system.plan(perceived, drive, previous=before)
    acted = rule.act(rule.needs(obstacles(perceived), speed), speed, previous=before)
    assert acted.tobytes() == plans.tobytes()
    assert len(np.unique(plans, axis=0)) > 2
    terms = system.terms(
        plans, drive, replace(truth([], 50), objects=reference), previous=before
    )
    loss = rule.loss(
        acted, rule.needs(obstacles(reference), speed), speed_mps=speed, previous=before
    )
    assert (
        loss.tobytes()
        == sum(
            weight * terms[term] for term, weight in system.weights.items()
        ).tobytes()
    )
    other = rule.act(rule.needs(draws(rng, 50), speed), speed, previous=before)
    needs = np.stack(
        [rule.needs(obstacles(part), speed) for part in (perceived, reference)]
    )
    difference = rule.loss(other, needs[1], speed_mps=speed, previous=before) - loss
    np.testing.assert_allclose(
        rule.value(other, needs, speed_mps=speed, previous=before),
        difference,
        atol=1e-12,
    )
