"""Downstream systems: decision rules with a loss, one per file."""

from deepval.planners.idm import Idm
from deepval.planners.pdm_closed import PdmClosed
from deepval.systems.braking import Braking
from deepval.systems.driving import Driving
from deepval.systems.lateral import LateralCorridor
from deepval.systems.learned import LEARNED, LearnedPlanner
from deepval.systems.receding_horizon import RecedingHorizon
from deepval.systems.system import System

SYSTEMS: dict[str, System] = {
    "braking": Braking(),
    "receding-horizon": RecedingHorizon(),
    "lateral": LateralCorridor(),
    "pdm-closed-safety": Driving(PdmClosed()),
    "pdm-closed-scalar": Driving(PdmClosed(), deviation_weight=0.1),
    "idm-safety": Driving(Idm()),
    "idm-scalar": Driving(Idm(), deviation_weight=0.1),
}

__all__ = ["LEARNED", "SYSTEMS", "Braking", "Driving", "LateralCorridor", "LearnedPlanner", "RecedingHorizon", "System"]
