"""Both planners drive the real scenes of docs/results-logs.md, Closed loop: from
keyframe 0, and from other starts.
"""

import numpy as np
import pytest

from deepval.driving.datasets.logs.replay import replay_from
from deepval.driving.datasets.logs.scenarionet import ScenarioNet
from deepval.driving.planners.closed_loop import drive
from deepval.driving.planners.idm import Idm
from deepval.driving.planners.pdm_closed import PdmClosed
from shared import shared_data

pytestmark = [pytest.mark.slow, pytest.mark.shared]
SCENES = tuple(
    f"scene-{number}" for number in ("0103", "0553", "0757", "0916", "1077", "1100")
)
BOTH = pytest.mark.parametrize(
    "planner", [PdmClosed(), Idm()], ids=["pdm-closed", "idm"]
)


def logged(scene):
    return ScenarioNet(shared_data("scenarionet_nuscenes_mini")).read_log(scene)


@BOTH
@pytest.mark.parametrize("scene", SCENES)
def test_six_seconds_from_the_first_keyframe_touch_nobody(scene, planner):
    driven = drive(planner, replay_from(logged(scene)), seconds=6.0)
    assert driven.contacts == ()
    assert driven.clearance_m.min() > 0
    assert driven.way_m > 5


@pytest.mark.parametrize("scene", SCENES)
def test_pdm_closed_from_other_starts_is_never_at_fault(scene):
    log = logged(scene)
    driven = {
        start: drive(PdmClosed(), replay_from(log, start), seconds=6.0)
        for start in range(5, 31, 5)
    }
    assert not [
        start
        for start, done in driven.items()
        if any(contact.at_fault for contact in done.contacts)
    ]
    # Pedestrians walk into its side.
    touched = [start for start, done in driven.items() if done.contacts]
    assert touched == {"scene-0553": [10]}.get(scene, [])


@BOTH
def test_whole_drives_touch_who_takes_no_notice(planner):
    for scene in ("scene-0553", "scene-0757"):
        driven = drive(planner, replay_from(logged(scene)))
        assert driven.contacts
        at_fault = [contact for contact in driven.contacts if contact.at_fault]
        # A car that crosses at 10 m/s before the bumper of IDM, which forecasts
        # nothing.
        assert [contact.how for contact in at_fault] == (
            ["ahead"] if (scene, planner) == ("scene-0553", Idm()) else []
        )


def test_who_enters_the_record_a_second_before_is_braked_for_in_vain():
    replay = replay_from(logged("scene-0757"), 8)
    driven = drive(PdmClosed(), replay, seconds=6.0)
    (hit,) = driven.contacts
    assert (hit.how, hit.at_fault) == ("ahead", True)
    there = [step for step in range(61) if hit.agent in replay.agents[step].id]
    assert there[0] == 50
    assert hit.time_s == pytest.approx(6.0)
    assert (np.diff(driven.speed_mps[50:61]) < 0).all()
    assert driven.speed_mps[60] < 2 < 4.8 < driven.speed_mps[50]
