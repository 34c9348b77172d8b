"""Braking controller: keep speed, brake, or brake hard for what is in the corridor. DEFINITIONS section 6.

Action = commanded deceleration (0, 2.5, 6 m/s2). Loss = (a*-a)+^2 + 0.12 (a-a*)+^2 + 0.02 |a-a_prev|
+ 6 [(a*-a)+ >= 8], with a* the deceleration that the reference objects require.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from deepval.arrays import Float, Int
from deepval.geometry.motion import BrakingSettings, object_deceleration_mps2, required_deceleration_mps2
from deepval.geometry.objects import Objects
from deepval.scenes import Ego
from deepval.systems.system import System


@dataclass(frozen=True)
class Braking(System):
    """Three decelerations, chosen by two thresholds on the required deceleration."""

    required: BrakingSettings = field(default_factory=BrakingSettings)
    brake_from_mps2: float = 1.0
    hard_from_mps2: float = 3.5
    brake_mps2: float = 2.5
    hard_mps2: float = 6.0
    collision_from_mps2: float = 8.0
    shortfall_weight: float = 1.0
    excess_weight: float = 0.12
    change_weight: float = 0.02
    collision_weight: float = 6.0

    loss_fields: ClassVar[frozenset[str]] = frozenset(
        {"shortfall_weight", "excess_weight", "change_weight", "collision_weight"}
    )

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return np.array([[0.0], [self.brake_mps2], [self.hard_mps2]])

    def act(
        self, perceived: Objects, ego: Ego, *, previous: Float[np.ndarray, "time act"] | None = None
    ) -> Float[np.ndarray, "time act"]:
        """The action in each frame."""
        needed = required_deceleration_mps2(perceived, ego.speed_mps, settings=self.required)
        some = np.where(needed < self.hard_from_mps2, self.brake_mps2, self.hard_mps2)
        return np.where(needed < self.brake_from_mps2, 0.0, some)[:, None]

    def terms(
        self,
        actions: Float[np.ndarray, "time act"],
        reference: Objects,
        *,
        ego: Ego,
        previous: Float[np.ndarray, "time act"],
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Loss terms of the actions against the reference objects, before weighting."""
        action, before = actions[:, 0], previous[:, 0]
        needed = required_deceleration_mps2(reference, ego.speed_mps, settings=self.required)
        shortfall = np.maximum(needed - action, 0.0)
        return {
            "shortfall": shortfall**2,
            "excess": np.maximum(action - needed, 0.0) ** 2,
            "change": np.where(np.isnan(before), 0.0, np.abs(action - before)),
            "collision": (shortfall >= self.collision_from_mps2).astype(float),
        }

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term."""
        return {
            "shortfall": self.shortfall_weight,
            "excess": self.excess_weight,
            "change": self.change_weight,
            "collision": self.collision_weight,
        }


def most_demanding(objects: Objects, ego: Ego, *, settings: BrakingSettings | None = None) -> Int[np.ndarray, "time"]:
    """Index of the object that requires the most deceleration in each frame, -1 where none requires any."""
    demand = object_deceleration_mps2(objects, ego.speed_mps, settings=settings)
    order = np.lexsort((-demand, objects.frame))
    order = order[demand[order] > 0]
    frame, place = np.unique(objects.frame[order], return_index=True)
    index = np.full(objects.frames, -1)
    index[frame] = order[place]
    return index
