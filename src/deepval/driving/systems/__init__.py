"""Downstream systems: decision rules with a loss, one per file."""

from deepval.basics import plugins
from deepval.basics.errors import InputError
from deepval.basics.plugins import OwnCode
from deepval.driving.planners.idm import Idm
from deepval.driving.planners.observation import Planner
from deepval.driving.planners.pdm_closed import PdmClosed
from deepval.driving.systems.braking import Braking
from deepval.driving.systems.driving import Driving
from deepval.driving.systems.lateral import LateralCorridor
from deepval.driving.systems.learned import LEARNED, LearnedPlanner
from deepval.driving.systems.receding_horizon import RecedingHorizon
from deepval.driving.systems.system import NamedSystem, System, default_name

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
    "NamedSystem",
    "RecedingHorizon",
    "System",
]


def own_system(word: str) -> NamedSystem | None:
    """The system that a typed word names, as code or as an installed package's name;
    None for any other word.
    """
    own = plugins.find(word, "systems")
    return None if own is None else named_own(own)


def own_planner(word: str) -> Planner | None:
    """The planner that a typed word names, as code or as an installed package's name;
    None for any other word.
    """
    own = plugins.find(word, "systems")
    if own is None:
        return None
    value = plugins.create(word, own.value)
    return plugins.checked(
        word,
        value,
        Planner,
        "a planner (deepval.driving.planners.observation.Planner)",
    )


def named_own(own: OwnCode) -> NamedSystem:
    """The downstream system of the user's own code, under its field `name` if it has
    one, else under FILE-NAME; a planner drives, and the safety loss judges it.
    """
    word = own.code.word
    value = plugins.create(word, own.value)
    if isinstance(value, Planner):
        chosen = getattr(value, "name", None)
        system: System = Driving(value)
    else:
        system = plugins.checked(
            word,
            value,
            System,
            "a downstream system (deepval.driving.systems.System) or a planner "
            "(deepval.driving.planners.observation.Planner)",
        )
        # a class that says nothing is called by its own name, which others may have too
        name = default_name(system)
        chosen = None if name == type(system).__name__ else name
    name = own.code.name if chosen is None else chosen
    if name in (*SYSTEMS, *LEARNED):
        raise InputError(
            f"{word}: deepval has a system {name!r}: give it another name."
        )
    return NamedSystem(name, system, own.code)
