"""Keep speed, brake, or brake hard for objects in the corridor: docs/definitions.md,
Braking controller.

Action = commanded deceleration (0, 2.5, 6 m/s2). Loss = (a*-a)+^2 + 0.12 (a-a*)+^2 +
0.02 |a-a_prev|
+ 6 [(a*-a)+ >= 8], with a* the deceleration that the reference objects require.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from deepval.driving.planners.controllers import Actions, BrakingRule
from deepval.driving.systems.system import (
    FrameFlags,
    FrameValues,
    System,
    constants,
)
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True)
class Braking(BrakingRule, System):
    """Three decelerations, chosen by two thresholds on the required deceleration."""

    also_called: ClassVar[Mapping[str, str]] = {"corridor_half_width_m": "corridor_m"}
    loss_fields: ClassVar[frozenset[str]] = frozenset(
        {"shortfall_weight", "excess_weight", "change_weight", "collision_weight"}
    )

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Actions | None = None,
    ) -> Actions:
        """The action in each frame."""
        return self.act(self.needs(perceived, scene.ego_speed_mps), scene.ego_speed_mps)

    def terms(
        self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions
    ) -> FrameValues:
        """Loss terms of the actions against the reference objects, before weighting."""
        speed_mps = scene.ego_speed_mps
        return self.loss_terms(
            plans,
            self.needs(truth.objects, speed_mps),
            speed_mps=speed_mps,
            previous=previous,
        )

    @property
    def rule(self) -> BrakingRule:
        """The rule without the reference."""
        return BrakingRule(**constants(self))
