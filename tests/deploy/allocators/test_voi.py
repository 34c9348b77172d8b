"""Tracks of a belief, and allocators that simulate the downstream rule with them."""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from allocator_worlds import (
    HOME,
    built,
    ladder_cell,
    learned,
    material,
    pair_cell,
)
from deepval.basics.errors import InputError
from deepval.deploy.allocators import read_allocator
from deepval.deploy.allocators.belief import COLUMNS, FEATURES, Belief, sightings
from deepval.deploy.allocators.voi import DRAWS, Trail
from deepval.deploy.features import Sight, glance
from deepval.deploy.fitting import fit_on, recipes_for, refit, score_on
from deepval.driving.perception.placing import monocular_objects
from deepval.driving.perception.reported.detection_rows import Source
from deepval.driving.planners.controllers import BrakingRule
from deepval.driving.views import CheapMode, Past, View
from in_memory import read_dataset, read_detections
from reference import belief as slow
from shared import shared_data
from view_worlds import MODES, car_view, glances_of, random_observed, random_view


def things(seen):
    """Sightings as rows of the plain twin."""
    found = seen.obstacles
    return list(
        zip(
            found.near_m,
            seen.y_m,
            seen.half_m,
            seen.kind,
            seen.score,
            seen.height_px,
            strict=True,
        )
    )


def agree(view):
    """Follow a unit by both and compare every track at every frame."""
    fast, plain, most = Belief(), slow.Belief(), 0
    for seen in glances_of(view):
        fast.see(seen)
        frame = seen.frame
        plain.see(
            frame.ego_speed_mps,
            frame.dt_s,
            things(sightings(seen)) if frame.run else None,
        )
        expected = (
            np.array([track.column() for track in plain.tracks], float)
            .reshape(-1, len(COLUMNS))
            .T
        )
        np.testing.assert_allclose(fast.tracks, expected, rtol=1e-9, atol=1e-9)
        most = max(most, fast.tracks.shape[1])
    return most


@pytest.mark.parametrize("seed", range(12))
def test_a_belief_is_what_its_plain_twin_holds(seed):
    rng = np.random.default_rng(seed)
    view = (
        random_observed(rng)
        if seed % 4 == 3
        else random_view(rng, 40, mode=MODES[seed % len(MODES)])
    )
    assert agree(view) > 3


@pytest.mark.shared
def test_on_real_boxes_a_belief_is_what_its_plain_twin_holds():
    kitti = read_dataset("kitti", shared_data("kitti_tracking"))
    scene, _ = kitti.read_unit("0001")
    path = shared_data("kitti_tracking", "detections", "CIWT.parquet")
    report = read_detections(path, [scene], source=Source(scores="raw"))[scene.unit]
    view = View(
        scene.part(slice(120)),
        replace(report.where(report.frame < 120), status=report.status[:120]),
    )
    view = replace(view, mode=CheapMode("raw"))
    lifted = list(monocular_objects(view.detections, view.scene).by_frame())
    for seen, expected in zip(glances_of(view), lifted, strict=True):
        found = sightings(seen).obstacles
        order, other = np.argsort(found.near_m), np.argsort(expected.near_m)
        np.testing.assert_allclose(
            found.lateral_m[order], expected.lateral_m[other], atol=1e-9
        )
        np.testing.assert_allclose(found.far_m[order], expected.far_m[other], atol=1e-9)
    assert agree(view) > 10


def test_a_lost_car_stays_in_mind_and_comes_nearer_by_the_way_travelled():
    rows = [(t, 0.9, 30.0 - t, -1.0, 1.0) for t in range(10)]
    belief = Belief()
    for seen in glances_of(car_view(rows, 20, speed_mps=10.0)):
        belief.see(seen)
    _, (row,) = belief.features(2.5, 8)
    named = dict(zip(FEATURES, row, strict=True))
    assert (named["hits"], named["misses"], named["age"], named["frame"]) == (
        10,
        10,
        20,
        20,
    )
    # 1 m per frame at 10 m/s and 0.1 s: the car stands still, and 10 frames after its
    # last range of 21 m it is at 11 m.
    assert named["range_m"] == pytest.approx(11.0, abs=1.0)
    assert abs(named["own_speed_mps"]) < 1.5
    assert named["demand_mps2"] == pytest.approx(9.0, abs=1.5)


def test_without_tracks_the_score_is_the_prior():
    allocator = learned("router-voi")
    scores = allocator.score(car_view([], 3, speed_mps=8.0))
    assert scores.tolist() == [allocator.prior * 64.0] * 3


def test_the_value_of_a_draw_is_the_loss_of_the_cheap_action_minus_that_of_the_full_one():  # noqa: E501
    allocator = learned("router-voi")
    trail = Trail.start(allocator.rule)
    for seen in Sight(
        car_view([(t, 0.9, 25.0 - t, -1.0, 1.0) for t in range(4)], 5)
    ).glances:
        before, trail = trail.action, trail.moved(seen)
    assert (before.tolist(), trail.action.tolist()) != ([0.0], [6.0])
    chosen, rows = trail.belief.features(2.5, 8)
    drawn = allocator.draw_values(
        trail.belief,
        chosen,
        rows,
        actions=(trail.action, before),
    )
    full, reference = drawn_demands(allocator, trail, chosen, rows)
    expected = [
        braking_loss(trail.action[0], need, before[0])
        - braking_loss(braking(plan), need, before[0])
        for plan, need in zip(full, reference, strict=True)
    ]
    np.testing.assert_allclose(drawn, expected, rtol=1e-12, atol=1e-12)
    assert len(set(np.round(expected, 6))) > 3
    benefit, harm = (
        sum(v for v in expected if v > 0),
        -sum(v for v in expected if v < 0),
    )
    prior = allocator.prior * 100.0 if trail.action[0] == 0 else 0.0
    score = (benefit - 2 * harm) / DRAWS + prior
    assert allocator.value(trail, before) == pytest.approx(score, rel=1e-12)


def drawn_demands(allocator, trail, chosen, rows):
    """The deceleration that each draw of the full mode and of the reference
    requires.
    """
    seen = {}
    rule = allocator.rule

    class Spy(BrakingRule):
        def needs(self, objects, speed_mps):
            seen["needs"] = rule.needs(objects, speed_mps)
            return seen["needs"]

    spying = replace(allocator, rule=Spy())
    spying.draw_values(trail.belief, chosen, rows, actions=(trail.action, trail.action))
    return seen["needs"][:DRAWS], seen["needs"][DRAWS:]


def braking(need):
    return 0.0 if need < 1 else 2.5 if need < 3.5 else 6.0


def braking_loss(action, need, before):
    short, excess = max(need - action, 0.0), max(action - need, 0.0)
    change = 0.0 if math.isnan(before) else abs(action - before)
    return short**2 + 0.12 * excess**2 + 0.02 * change + 6.0 * (short >= 8)


def test_scores_do_not_need_the_outputs_of_the_cell():
    cell = pair_cell()
    files = {
        name: digest
        for name, digest in cell.manifest.files.items()
        if not name.startswith("outputs/")
    }
    bare = replace(cell, manifest=replace(cell.manifest, files=files))
    whole, without = (
        score_on(one, learned("router-voi"), units="all") for one in (cell, bare)
    )
    assert whole.score.tobytes() == without.score.tobytes()
    with pytest.raises(InputError, match="build it again"):
        fit_on(bare, "router-voi")


def test_a_file_is_read_back_and_refitted_to_the_same_bytes(tmp_path):
    allocator = learned("router-voi")
    allocator.save(tmp_path / "a.json")
    again = read_allocator(tmp_path / "a.json")
    assert type(again) is type(allocator)
    assert again.to_json() == allocator.to_json()
    assert refit(ladder_cell(), again).to_json() == allocator.to_json()
    assert (tmp_path / "a.json").stat().st_size < 300_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ["x"]}, "columns must be those of this deepval"),
        ({"errors": [[[[0.0]]]]}, "errors must be .* finite numbers"),
        ({"rule": "lateral"}, "must contain a rule, two models"),
        ({"constants": {"brake_mps2": "much"}}, "constants"),
    ],
)
def test_a_malformed_file_is_refused(change, message, tmp_path):
    from deepval.deploy.allocators.allocator import file_text

    content = json.loads(learned("router-voi").to_json()) | change
    del content["sha256"], content["format"], content["version"]
    (tmp_path / "a.json").write_text(file_text(content))
    with pytest.raises(InputError, match=message):
        read_allocator(tmp_path / "a.json")


@cache
def lateral_cell():
    return built(material(), "lateral-voi", system="lateral", pictures=False)


def test_a_system_without_a_rule_is_refused_in_one_sentence():
    assert "router-voi" not in recipes_for(lateral_cell())
    assert "router-voi" in recipes_for(ladder_cell())
    with pytest.raises(
        InputError, match="only braking and receding-horizon have such a rule"
    ):
        fit_on(lateral_cell(), "router-voi")


def test_receding_horizon_is_simulated_with_its_own_rule():
    cell = built(material(), "receding-voi", system="receding-horizon", pictures=False)
    allocator = fit_on(cell, "router-voi")
    scored = score_on(cell, allocator, units="all")
    assert len(np.unique(scored.score)) > 20
    assert np.isfinite(scored.score).all()
    assert type(allocator.rule) is not type(learned("router-voi").rule)


def test_the_cells_own_constants_are_simulated():
    from deepval.driving.cells.build import built
    from deepval.driving.cells.folder import read_cell, write
    from deepval.driving.cells.spec import specs

    (cell,) = built(specs(material(), changes={"hard_mps2": 7.0}))
    write(cell, HOME / "harder")
    assert fit_on(read_cell(HOME / "harder"), "router-voi").rule == BrakingRule(
        hard_mps2=7.0
    )


def test_a_frame_without_the_memory_of_earlier_ones_is_refused():
    seen = glance(next(glances_of(car_view([], 1))).frame, Past(), mode=CheapMode())
    with pytest.raises(InputError, match="begin each unit with its `past"):
        learned("router-voi").score_frame(seen)
