"""Downstream systems: decision rules with a loss, one per file."""

from deepval import plugins
from deepval.errors import InputError
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

__all__ = [
    "LEARNED",
    "SYSTEMS",
    "Braking",
    "Driving",
    "LateralCorridor",
    "LearnedPlanner",
    "RecedingHorizon",
    "System",
]


def own_system(word: str) -> System | None:
    """The system that a typed word names, as code or as an installed package's name;
    None for any other word.
    """
    value = plugins.find(word, "systems")
    if value is None:
        return None
    system = plugins.checked(
        word,
        plugins.create(word, value),
        System,
        "a downstream system (deepval.systems.System)",
    )
    if system.called in (*SYSTEMS, *LEARNED):
        raise InputError(
            f"{word}: deepval has a system {system.called!r}: rename the class."
        )
    return system
