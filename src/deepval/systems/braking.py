"""Keep speed, brake, or brake hard for objects in the corridor: docs/definitions.md, Braking controller.

Action = commanded deceleration (0, 2.5, 6 m/s2). Loss = (a*-a)+^2 + 0.12 (a-a*)+^2 + 0.02 |a-a_prev|
+ 6 [(a*-a)+ >= 8], with a* the deceleration that the reference objects require.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.systems.system import Actions, FrameFlags, FrameValues, System, smooth_path_m
from deepval.world.objects import BrakingSettings, Objects, object_deceleration_mps2, required_deceleration_mps2
from deepval.world.scene import Scene
from deepval.world.truth import Truth


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

    also_called: ClassVar[Mapping[str, str]] = {"corridor_half_width_m": "corridor_m"}
    loss_fields: ClassVar[frozenset[str]] = frozenset(
        {"shortfall_weight", "excess_weight", "change_weight", "collision_weight"}
    )

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return np.array([[0.0], [self.brake_mps2], [self.hard_mps2]])

    def plan(
        self, perceived: Objects, scene: Scene, *, starts: FrameFlags | None = None, previous: Actions | None = None
    ) -> Actions:
        """The action in each frame."""
        needed = required_deceleration_mps2(perceived, scene.ego_speed_mps, settings=self.required)
        some = np.where(needed < self.hard_from_mps2, self.brake_mps2, self.hard_mps2)
        return np.where(needed < self.brake_from_mps2, 0.0, some)[:, None]

    def terms(self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions) -> FrameValues:
        """Loss terms of the actions against the reference objects, before weighting."""
        action, before = plans[:, 0], previous[:, 0]
        needed = required_deceleration_mps2(truth.objects, scene.ego_speed_mps, settings=self.required)
        shortfall = np.maximum(needed - action, 0.0)
        return {
            "shortfall": shortfall**2,
            "excess": np.maximum(action - needed, 0.0) ** 2,
            "change": np.where(np.isnan(before), 0.0, np.abs(action - before)),
            "collision": (shortfall >= self.collision_from_mps2).astype(float),
        }

    def words(self, plan: Float[np.ndarray, "act"]) -> str:
        """Keep speed, brake, or brake hard."""
        wanted = float(plan[0])
        return "keep speed" if not wanted else f"brake{' hard' if wanted == self.hard_mps2 else ''}, {wanted:g} m/s²"

    def path_m(self, plan: Float[np.ndarray, "act"], speed_mps: float) -> Float[np.ndarray, "point 2"]:
        """Straight on, slower."""
        return smooth_path_m(speed_mps, acceleration_mps2=-float(plan[0]), shift_m=0.0)

    @property
    def corridor_m(self) -> Mapping[str, float]:
        """The corridor in which objects are considered."""
        return {"half_width": self.required.corridor_m, "far": self.required.farthest_m}

    def decisive(self, objects: Objects, scene: Scene, *, previous: Float[np.ndarray, "1 act"]) -> int | None:
        """The object that requires the most deceleration, where that is enough to brake."""
        demand = object_deceleration_mps2(objects, scene.ego_speed_mps, settings=self.required)
        brakes = self.plan(objects, scene, previous=previous)[0, 0] > 0
        return int(np.argmax(demand)) if brakes else None
