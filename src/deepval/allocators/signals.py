"""View -> score per input by untrained deployable signals: ego speed, uncertainty, criticality, memory, lost objects.

Higher means escalate first. A signal is NaN on frames where the cheap mode was not run, and everywhere where its source
lacks what it needs; `undefined` then says why. Random routing is not a score: its expectation is exact elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from deepval.allocators.allocator import Allocator
from deepval.features import Glance
from deepval.features.cheap import LEAST_PROBABILITY, total
from deepval.features.glances import required_mps2
from deepval.features.quantities import PLACE
from deepval.features.views import CheapMode

REQUIRED = PLACE["required"]


class Signal(Allocator):
    """An allocator that needs no training."""


@dataclass(frozen=True)
class EgoSpeed(Signal):
    """Ego speed in m/s."""

    name = "ego-speed"
    uses = frozenset({"ego speed"})

    def _of_frame(self, glance: Glance) -> float:
        return glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Uncertainty(Signal):
    """Sum of 4 p (1-p) over cheap confidences p >= 0.10; undefined without probabilities."""

    name = "uncertainty"
    uses = frozenset({"cheap scores"})

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no uncertainty: the mode gives no probabilities."""
        if mode.has_probabilities:
            return None
        return "the cheap mode has no scores" if mode.scores == "none" else "the cheap mode's scores are not calibrated"

    def _of_frame(self, glance: Glance) -> float:
        if glance.mode.observes:
            found = sorted(glance.mode.probability(np.asarray(glance.frame.score, float)).tolist(), reverse=True)
        else:
            found = [box.probability for box in glance.boxes]
        return total([4.0 * p * (1.0 - p) for p in found if p >= LEAST_PROBABILITY])


@dataclass(frozen=True)
class Criticality(Signal):
    """Deceleration that the cheap objects require, observed or monocular, in m/s²: docs/definitions.md, Signals."""

    name = "criticality"
    uses = frozenset({"ego speed", "cheap boxes", "cheap objects", "calibration", "previous frames"})

    def _of_frame(self, glance: Glance) -> float:
        return glance.row[REQUIRED]


@dataclass(frozen=True)
class Memory(Signal):
    """What was required a moment ago and no longer is: max over 8 frames of a_req - a_req now + 0.001 ego speed."""

    speed_weight: float = 0.001
    name = "memory"
    uses = Criticality.uses

    def _of_frame(self, glance: Glance) -> float:
        now = glance.row[REQUIRED]
        # A NaN of a frame on which the cheap mode was not run never wins a comparison.
        largest = now
        for row in glance.past.rows:
            if row[REQUIRED] > largest:
                largest = row[REQUIRED]
        return largest - now + self.speed_weight * glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Lost(Signal):
    """What missing objects require: a_req of lost objects, moved on by the way travelled - a_req + 0.001 ego speed.

    An object is lost that was seen in the last 8 frames and whose last box no used box has overlapped since.
    """

    speed_weight: float = 0.001
    name = "lost"
    uses = Criticality.uses - {"cheap objects"}

    def _of_frame(self, glance: Glance) -> float:
        lost = required_mps2(glance.lost, [each.demand_mps2 for each in glance.lost])[0]
        return lost - glance.row[REQUIRED] + self.speed_weight * glance.frame.ego_speed_mps


SIGNALS: dict[str, Signal] = {
    signal.name: signal for signal in (EgoSpeed(), Uncertainty(), Criticality(), Memory(), Lost())
}
"""The untrained deployable signals by name."""
