"""Laws of closed loop in the synthetic world."""

import numpy as np
import pytest

from deepval.deploy import drives
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.drives import (
    Arm,
    DriveSetting,
    calibrated,
    drive_scene,
    follow_script,
)
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.judge.draws import make_draws
from deepval.judge.routing import Routing
from deepval.judge.streaming import FrozenThreshold

WORLD = WorldSettings(scenes=12, frames=60)
PLAIN = tuple(map(Arm, drives.PLAIN))
BOTH = ("cheap", "full")
STATES = ("s_m", "d_m", "speed_mps", "action", "loss", "clearance_m")


def signal(name, theta):
    return Arm(
        f"{name} {theta}", SIGNALS[name], Routing(FrozenThreshold(theta, 0.0), BOTH)
    )


def course(*arms, system="braking", **settings):
    return DriveSetting(system, arms, settings=WORLD, **settings)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in STATES
    )


@pytest.mark.parametrize("system", drives.CONTROLLERS)
def test_with_perfect_perception_every_arm_drives_alike(system):
    perfect = ((drives.REFERENCE, None),) * 2
    arms = (*PLAIN, signal("criticality", 0.5))
    *driven, reference = drive_scene(
        course(*arms, system=system, modes=perfect), "scene-02"
    )
    assert all(same(drive, reference) for drive in driven)
    assert driven[1].escalated.all()


@pytest.mark.parametrize("system", drives.CONTROLLERS)
def test_escalating_everything_is_the_full_mode_and_nothing_the_cheap_one(system):
    world = course(
        *PLAIN, signal("ego-speed", -1.0), signal("ego-speed", 1e9), system=system
    )
    never, always, random, everything, nothing, _ = drive_scene(world, "scene-02")
    assert same(everything, always)
    assert same(nothing, never)
    assert not same(never, always)
    assert not same(random, never)


def test_a_drive_does_not_depend_on_the_other_arms():
    alone = drive_scene(course(PLAIN[2]), "scene-01")[0]
    assert same(alone, drive_scene(course(*PLAIN, signal("lost", 0.1)), "scene-01")[2])


@pytest.mark.parametrize("system", ["braking", "pdm-closed"])
def test_the_same_seed_gives_the_same_drive_and_another_seed_another(system):
    first, again = (
        drive_scene(course(PLAIN[2], system=system), "scene-02") for _ in range(2)
    )
    assert all(map(same, first, again))
    other = drive_scene(course(PLAIN[2], system=system, seed=7), "scene-02")
    assert not same(first[0], other[0])


def test_the_threshold_escalates_its_share_of_the_calibration_scenes():
    world = course(alpha=0.2)
    along = [follow_script(world, f"scene-{number:02d}") for number in range(4, 10)]
    arm = calibrated(SIGNALS["ego-speed"], world, along, policy="frozen threshold")
    scores = np.concatenate([SIGNALS["ego-speed"].score(part.sight) for part in along])
    assert np.mean(scores >= arm.routing.policy.theta) == pytest.approx(0.2, abs=0.02)


def test_noise_is_shared_by_egos_and_correlated_between_modes():
    ride = course().ride("scene-00")
    low, high = (ride.noise[size].score for size in (320, 640))
    assert 0.15 < np.corrcoef(low, high)[0, 1] < 0.95
    kinds = ride.draw.things.identity
    now = ride.draw.things.frame < ride.frames - 1
    key = {
        pair: row
        for row, pair in enumerate(zip(kinds, ride.draw.things.frame, strict=True))
    }
    later = [
        key.get((who, frame + 1), -1)
        for who, frame in zip(kinds[now], ride.draw.things.frame[now], strict=True)
    ]
    pairs = np.array([(a, b) for a, b in zip(low[now], low[later], strict=True)])[
        np.array(later) >= 0
    ]
    assert np.corrcoef(pairs.T)[0, 1] > 0.15


def test_summaries_pair_the_drives_of_a_unit():
    world = course(*PLAIN)
    rows = [
        row
        for scene in ("scene-02", "scene-04", "scene-06")
        for row in drives.outcomes(
            drive_scene(world, scene), ("a", "b"), drives.Costs.of("jetson-agx-xavier")
        )
    ]
    never, always, *_, perfect = drives.summaries(rows, make_draws(3, "exact"))
    losses = {
        arm: [row["loss"] for row in rows if row["allocator"] == arm]
        for arm in ("never", "always")
    }
    assert always["loss_change"]["mean"] == pytest.approx(
        np.mean(losses["always"]) - np.mean(losses["never"])
    )
    assert never["loss_change"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert always["loss"]["low"] <= always["loss"]["mean"] <= always["loss"]["high"]
    assert perfect["time_lost_s"]["mean"] == 0.0
    assert (never["rate"], always["rate"]) == (0.0, 1.0)
    assert always["compute_ms"] is None
