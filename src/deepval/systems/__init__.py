"""Downstream systems: decision rules with a loss, one per file."""

from deepval.systems.braking import Braking
from deepval.systems.lateral import LateralCorridor
from deepval.systems.learned import LEARNED, LearnedPlanner
from deepval.systems.receding_horizon import RecedingHorizon
from deepval.systems.system import System

SYSTEMS: dict[str, System] = {
    "braking": Braking(),
    "receding-horizon": RecedingHorizon(),
    "lateral": LateralCorridor(),
}

__all__ = ["LEARNED", "SYSTEMS", "Braking", "LateralCorridor", "LearnedPlanner", "RecedingHorizon", "System"]
