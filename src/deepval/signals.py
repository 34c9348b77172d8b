"""View -> score per input by untrained deployable signals: ego speed, uncertainty, criticality, memory, lost objects.

Higher means escalate first. A signal is NaN on frames where the cheap mode was not run, and everywhere where its source
lacks what it needs; `undefined` then says why. Random routing is not a score: its expectation is exact elsewhere.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from deepval.arrays import Float
from deepval.features.cheap import LEAST_PROBABILITY
from deepval.features.glances import Glance, required_mps2
from deepval.features.quantities import BRAKING, PLACE
from deepval.features.segments import segments
from deepval.features.sights import Sight, look
from deepval.features.single import total
from deepval.memory import most
from deepval.views import CheapMode, View

Part = Literal["ego speed", "cheap boxes", "cheap scores", "calibration", "previous frames", "image"]
REQUIRED = PLACE["required"]


class Signal(ABC):
    """A score that needs no training. `uses` names the parts of the view that it reads."""

    name: ClassVar[str]
    uses: ClassVar[frozenset[Part]]

    def undefined(self, mode: CheapMode) -> str | None:
        """Why the signal has no value for this cheap mode, None where it has."""
        del mode

    def score(self, view: View | Sight) -> Float[np.ndarray, "time"]:
        """The score of each frame of a unit."""
        sight = look(view, images=False) if isinstance(view, View) else view
        found = sight.view
        if self.undefined(found.mode) is not None:
            return np.full(len(found), np.nan)
        return np.where(found.detections.run, self._of_unit(sight), np.nan)

    def score_frame(self, glance: Glance) -> float:
        """The score of one frame as it arrives, to the bit that which its unit gives."""
        if self.undefined(glance.mode) is not None or not glance.frame.run:
            return np.nan
        return self._of_frame(glance)

    @abstractmethod
    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]: ...

    @abstractmethod
    def _of_frame(self, glance: Glance) -> float: ...


@dataclass(frozen=True)
class EgoSpeed(Signal):
    """Ego speed in m/s."""

    name: ClassVar[str] = "ego-speed"
    uses: ClassVar[frozenset[Part]] = frozenset({"ego speed"})

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        return sight.view.scene.ego_speed_mps

    def _of_frame(self, glance: Glance) -> float:
        return glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Uncertainty(Signal):
    """Sum of 4 p (1-p) over cheap confidences p >= 0.10; undefined without probabilities."""

    name: ClassVar[str] = "uncertainty"
    uses: ClassVar[frozenset[Part]] = frozenset({"cheap scores"})

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no uncertainty: the mode gives no probabilities."""
        if mode.has_probabilities:
            return None
        return "the cheap mode has no scores" if mode.scores == "none" else "the cheap mode's scores are not calibrated"

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        counted = sight.boxes.probability >= LEAST_PROBABILITY
        p, frame = sight.boxes.probability[counted], sight.boxes.frames.frame[counted]
        return segments(frame, len(sight)).total(4.0 * p * (1.0 - p))

    def _of_frame(self, glance: Glance) -> float:
        p = [box.probability for box in glance.boxes if box.probability >= LEAST_PROBABILITY]
        return total([4.0 * each * (1.0 - each) for each in p])


@dataclass(frozen=True)
class Criticality(Signal):
    """Deceleration that the cheap monocular objects require, in m/s²: DEFINITIONS section 12."""

    name: ClassVar[str] = "criticality"
    uses: ClassVar[frozenset[Part]] = frozenset({"ego speed", "cheap boxes", "calibration", "previous frames"})

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        return sight.ago(0)[:, REQUIRED]

    def _of_frame(self, glance: Glance) -> float:
        return glance.row[REQUIRED]


@dataclass(frozen=True)
class Memory(Signal):
    """What was required a moment ago and no longer is: max over 8 frames of a_req - a_req now + 0.001 ego speed."""

    speed_weight: float = 0.001
    name: ClassVar[str] = "memory"
    uses: ClassVar[frozenset[Part]] = Criticality.uses

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        before = most(sight)[:, REQUIRED] - sight.ago(0)[:, REQUIRED]
        return before + self.speed_weight * sight.view.scene.ego_speed_mps

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
    name: ClassVar[str] = "lost"
    uses: ClassVar[frozenset[Part]] = Criticality.uses

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        missed = sight.lost.required_mps2(BRAKING.corridor_m) - sight.ago(0)[:, REQUIRED]
        return missed + self.speed_weight * sight.view.scene.ego_speed_mps

    def _of_frame(self, glance: Glance) -> float:
        lost = required_mps2(glance.lost, [each.demand_mps2 for each in glance.lost])[0]
        return lost - glance.row[REQUIRED] + self.speed_weight * glance.frame.ego_speed_mps


SIGNALS: dict[str, Signal] = {
    signal.name: signal for signal in (EgoSpeed(), Uncertainty(), Criticality(), Memory(), Lost())
}
"""The untrained deployable signals by name."""
