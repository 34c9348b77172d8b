"""Both planners drive the real scenes of docs/results.md, Closed loop: from keyframe 0, and from other starts."""

import pytest

from deepval.datasets.logs.replay import replay_from
from deepval.datasets.logs.scenarionet import ScenarioNet
from deepval.planners.closed_loop import drive
from deepval.planners.idm import Idm
from deepval.planners.pdm_closed import PdmClosed
from shared import shared_data

pytestmark = [pytest.mark.slow, pytest.mark.shared]
SCENES = tuple(f"scene-{number}" for number in ("0103", "0553", "0757", "0916", "1077", "1100"))


def logged(scene):
    return ScenarioNet(shared_data("scenarionet_nuscenes_mini")).read_log(scene)


@pytest.mark.parametrize("planner", [PdmClosed(), Idm()], ids=["pdm-closed", "idm"])
@pytest.mark.parametrize("scene", SCENES)
def test_six_seconds_from_the_first_keyframe_touch_nobody(scene, planner):
    driven = drive(planner, replay_from(logged(scene)), seconds=6.0)
    assert driven.contacts == ()
    assert driven.clearance_m.min() > 0
    assert driven.way_m > 5


@pytest.mark.parametrize("scene", SCENES)
def test_pdm_closed_from_other_starts_is_at_fault_where_the_page_says_so(scene):
    log = logged(scene)
    driven = {start: drive(PdmClosed(), replay_from(log, start), seconds=6.0) for start in range(5, 31, 5)}
    at_fault = [start for start, done in driven.items() if any(contact.at_fault for contact in done.contacts)]
    touched = [start for start, done in driven.items() if done.contacts]
    # A replayed truck that stops beside it is brushed by 4 cm; pedestrians walk into its side.
    assert at_fault == {"scene-0757": [20]}.get(scene, [])
    assert touched == {"scene-0757": [20], "scene-0553": [10]}.get(scene, [])
