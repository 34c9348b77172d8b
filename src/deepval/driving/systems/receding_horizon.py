"""The cheapest of 35 short paths past still obstacles: docs/definitions.md,
Receding-horizon controller.

Action = (acceleration a, lateral offset d). Loss = 10 collision + 1.5 c^2 +
progress^2 + 0.01 a^2 T
+ 0.5 d^2 + 0.05 ((a-a_prev)^2/4 + (d-d_prev)^2), c = shortfall of the worst lateral
  clearance below 1 m, at
most 2. The planning cost is the same formula on perceived objects; ties go to the
smaller |a|, then the smaller |d|, then the smaller d.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.driving.planners.controllers import (
    Actions,
    RecedingHorizonRule,
    change_term,
    worst_clearances_m,
)
from deepval.driving.systems.system import (
    FrameFlags,
    FrameValues,
    System,
    constants,
    first_only,
)
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True)
class RecedingHorizon(RecedingHorizonRule, System):
    """Candidates, ego footprint and loss weights; the weights shape the plan too, so
    none is loss-only.
    """

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Actions | None = None,
    ) -> Actions:
        """The action in each frame."""
        speed_mps, choices = scene.ego_speed_mps, self.choices
        needs = self.needs(perceived, speed_mps)
        if previous is not None:
            return self.act(needs, speed_mps, previous=previous)
        fixed = self.fixed_costs(needs, speed_mps)
        starts = first_only(len(scene)) if starts is None else starts
        return choices[
            cheapest_chain(
                fixed,
                self.change_weight * change_term(choices, choices[:, None]),
                starts,
            )
        ]

    def terms(
        self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions
    ) -> FrameValues:
        """Loss terms of the actions against the reference objects, before weighting."""
        needs = reference_clearances_m(self, scene, truth)
        return self.loss_terms(
            plans, needs, speed_mps=scene.ego_speed_mps, previous=previous
        )

    @property
    def rule(self) -> RecedingHorizonRule:
        """The rule without the reference."""
        return RecedingHorizonRule(**constants(self))


def cheapest_chain(
    fixed: Float[np.ndarray, "time choice"],
    change: Float[np.ndarray, "choice choice"],
    first: Bool[np.ndarray, "time"],
) -> Int[np.ndarray, "time"]:
    """Index of the cheapest choice in each frame, where leaving choice i for j costs
    `change[i, j]` more.
    """
    chosen = np.empty(len(fixed), dtype=int)
    at = 0
    for frame, (cost, begins) in enumerate(zip(fixed, first.tolist(), strict=True)):
        at = int((cost if begins else cost + change[at]).argmin())
        chosen[frame] = at
    return chosen


@lru_cache(maxsize=1)
def reference_clearances_m(
    system: RecedingHorizon, scene: Scene, truth: Truth
) -> Float[np.ndarray, "time choice"]:
    """Worst clearances to the reference objects ahead, which are the same for all modes
    of a unit.
    """
    ahead = truth.objects.where(truth.objects.far_m > 0)
    return worst_clearances_m(system, ahead, scene.ego_speed_mps)
