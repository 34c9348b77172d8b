"""Counts of docs/results-logs.md, Published planners on logged scenes: the planners'
own plans beside ours.
"""

from dataclasses import replace

import numpy as np
import pytest
from test_driving_shared import published, published_plans

from deepval.driving.cells import sources
from deepval.driving.cells.build import built
from deepval.driving.cells.spec import specs
from deepval.driving.cells.unit import objects_by_mode, unit_data
from deepval.driving.datasets import open_dataset
from deepval.driving.systems.driving import pose_terms
from deepval.driving.systems.outcomes import branches, unit_outcomes
from shared import shared_data

__all__ = ["published"]  # a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning"),
]
PLANNERS = ("pdm-closed-safety", "idm-safety")
DETECTED = ("scene-0103", "scene-0916")


def records():
    return open_dataset("scenarionet", shared_data("scenarionet_nuscenes_mini"))


def test_states_on_which_the_published_planners_own_plans_differ(published):
    """Their stored trajectories under our losses: no object against all objects, and
    against detector A.
    """
    source = records()
    changed = dict.fromkeys(("pdm gt", "idm gt", "pdm detA", "idm detA"), 0)
    for unit in source.unit_ids():
        scene, truth = source.read_unit(unit)
        for name in changed:
            planner, full = name.split()
            if full == "gt" or unit in DETECTED:
                plans = [
                    published_plans(published, scene, planner=planner, branch=b)[
                        ..., :3
                    ]
                    for b in ("none", full)
                ]
                terms = [
                    pose_terms(plan, truth, vehicle=scene.vehicle) for plan in plans
                ]
                lost = [
                    10 * each["collision"] + 1.5 * each["shortfall"] for each in terms
                ]
                # NaN where not judged
                changed[name] += int((np.abs(lost[0] - lost[1]) > 1e-9).sum())
    assert changed == {"pdm gt": 34, "idm gt": 16, "pdm detA": 0, "idm detA": 0}


def test_our_plans_differ_on_as_many_states_where_cones_are_left_out_too():
    material = sources.from_files(
        records(), [sources.ModeFile(name, None) for name in ("none", "reference")]
    )
    wanted = specs(material, geometries=["cuboids", "tracks"], systems=PLANNERS)
    found = {
        (cell.spec.geometry, cell.spec.system): cell.table.affected
        for cell in built(wanted)
    }
    assert [found["cuboids", name] for name in PLANNERS] == [34, 16]
    assert [found["tracks", name] for name in PLANNERS] == [30, 16]


def test_detector_a_changes_safety_only_where_the_speed_is_not_the_records():
    """nuScenes has no speed: the way since the keyframe before is 0 at the first, where
    the record says 8.5 m/s.
    """
    pytest.importorskip("shapely", reason="the extra `planners` has shapely")
    source = open_dataset(
        "nuscenes",
        shared_data("nuscenes"),
        maps=shared_data("scenarionet_nuscenes_mini"),
    )
    report = sources.ModeFile(
        "detA", shared_data("nuscenes", "results", "detector_a.json")
    )
    material = sources.from_files(
        source, [sources.ModeFile("none", None), report], units=DETECTED
    )
    wanted = specs(material, geometries=["cuboids", "tracks"], systems=PLANNERS)
    found = {(s.geometry, s.system): [0, 0] for s in wanted}
    for spec in wanted:
        for unit in DETECTED:
            seen = unit_data(spec, unit)
            recorded = replace(
                seen.scene, ego_speed_mps=records().read_unit(unit)[0].ego_speed_mps
            )
            for place, scene in enumerate((seen.scene, recorded)):
                made = branches(spec.rule, scene, objects_by_mode(spec, seen), seen.run)
                values = unit_outcomes(
                    spec.rule, scene, seen.truth, branches=made, run=seen.run
                ).values
                found[spec.geometry, spec.system][place] += int(
                    (np.abs(values) > 1e-9).sum()
                )
    assert [found["cuboids", name] for name in PLANNERS] == [[1, 0], [0, 0]]
    assert [found["tracks", name] for name in PLANNERS] == [[2, 0], [0, 0]]
