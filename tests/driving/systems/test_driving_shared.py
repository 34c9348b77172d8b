"""PDM-Closed and IDM as downstream systems on real scenes: plans and losses are those
of the published planners.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest

from deepval.driving.cells import build, sources
from deepval.driving.datasets import open_dataset
from deepval.driving.geometry.vehicle import ground_poses
from deepval.driving.perception.modes import built_in_mode
from deepval.driving.perception.placing import PLACINGS
from deepval.driving.planners.observation import to_ego_m
from deepval.driving.systems import SYSTEMS
from deepval.driving.systems.driving import AHEAD_S, pose_terms
from deepval.driving.systems.outcomes import branches, unit_outcomes
from in_memory import read_units
from shared import shared_data
from whole_sets import viability

pytestmark = pytest.mark.shared
BRANCHES = {"none": "none", "reference": "gt"}
"""Modes here and what the reference outputs call them."""


@pytest.fixture(scope="module")
def published():
    pytest.importorskip("shapely", reason="the extra `planners` has shapely")
    return pq.read_table(
        shared_data("planner_reference", "planners.parquet")
    ).to_pydict()


def published_plans(table, scene, *, planner, branch):
    """The published planner's poses and speeds in the ego frame of each frame."""
    name = scene.unit.removeprefix("scene-")
    rows = {}
    for i, unit in enumerate(table["scene"]):
        if (
            str(unit).removeprefix("scene-"),
            table["planner"][i],
            table["branch"][i],
        ) == (name, planner, branch):
            rows[int(table["keyframe_index"][i]), round(table["t_s"][i], 3)] = [
                table[key][i] for key in ("x", "y", "heading", "speed")
            ]
    plans = np.full((len(scene), len(AHEAD_S), 4), np.nan)
    for t, frame_id in enumerate(scene.frame_ids):
        ego = ground_poses(scene.world_from_ego[t])
        told = np.array(
            [rows[int(frame_id) // 5, time_s] for time_s in AHEAD_S.tolist()]
        )
        turn = told[:, 2] - ego[2]
        plans[t] = np.column_stack(
            [
                to_ego_m(told[:, :2], ego),
                np.arctan2(np.sin(turn), np.cos(turn)),
                told[:, 3],
            ]
        )
    return plans


@pytest.mark.parametrize("planner", ["idm", "pdm"])
def test_plans_and_losses_are_those_of_the_published_planner(published, planner):
    scene, truth = open_dataset(
        "scenarionet", shared_data("scenarionet_nuscenes_mini")
    ).read_unit("scene-1077")
    system = SYSTEMS["idm-scalar" if planner == "idm" else "pdm-closed-scalar"]
    place = PLACINGS["tracks"].place
    perceived = {
        mode: place(built_in_mode(mode).detections(scene, truth), scene, truth)
        for mode in BRANCHES
    }
    made = branches(system, scene, perceived)
    found = unit_outcomes(system, scene, truth, branches=made)
    assert len(found.input) > 20
    for m, (mode, branch) in enumerate(BRANCHES.items()):
        expected = published_plans(published, scene, planner=planner, branch=branch)
        np.testing.assert_allclose(made.plans[mode], expected, atol=1e-6)
        terms = pose_terms(expected[..., :3], truth, vehicle=scene.vehicle)
        for name, term in terms.items():
            np.testing.assert_allclose(
                found.terms[name][:, m], term[found.order], atol=1e-5, err_msg=name
            )


@pytest.mark.slow
def test_idm_from_nothing_to_the_reference():
    """The rows of docs/results-logs.md: two losses of one plan, and what constant
    velocity loses.
    """
    pytest.importorskip("shapely", reason="the extra `planners` has shapely")
    source = open_dataset("scenarionet", shared_data("scenarionet_nuscenes_mini"))
    material = sources.from_files(
        source, [sources.ModeFile(name, None) for name in BRANCHES]
    )
    read = read_units(source)
    found = {}
    for cell in build.cells(
        material, geometries=["tracks"], systems=["idm-safety", "idm-scalar"]
    ):
        summary, check = (
            cell.table.summary(),
            viability(cell.outcomes, read.scenes, read.truths),
        )
        assert (summary.inputs, check.trivial) == (196, "constant velocity")
        losses = [round(loss, 3) for loss in (*check.loss.values(), check.trivial_loss)]
        found[cell.spec.system] = (
            summary.affected,
            round(summary.harm_rate, 3),
            losses,
        )
        assert set(check.viable.values()) == {False}
    assert found == {
        "idm-safety": (16, 0.062, [2.589, 2.022, 1.308]),
        "idm-scalar": (85, 0.424, [2.861, 2.356, 1.447]),
    }
