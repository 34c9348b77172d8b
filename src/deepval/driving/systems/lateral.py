"""Stay, or shift the corridor to the right or left: docs/definitions.md, Lateral
corridor controller.

Action = shift (0, -1, +1 m; +1 is left), the first in that order whose corridor is free
of perceived objects within the stopping distance, 0 if none is. Loss = [the chosen
corridor has a reference object within the stopping distance] + 0.1 shift^2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.driving.planners.controllers import Actions
from deepval.driving.systems.system import (
    FrameFlags,
    FrameValues,
    System,
)
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True)
class LateralCorridor(System):
    """Shifts in order of preference, the corridor, and the constants of the stopping
    distance.
    """

    shifts_m: tuple[float, ...] = (0.0, -1.0, 1.0)
    half_width_m: float = 1.2
    deceleration_mps2: float = 6.0
    reaction_s: float = 0.4
    standoff_m: float = 2.0
    blocked_weight: float = 1.0
    shift_weight: float = 0.1

    also_called: ClassVar[Mapping[str, str]] = {"corridor_half_width_m": "half_width_m"}
    loss_fields: ClassVar[frozenset[str]] = frozenset(
        {"blocked_weight", "shift_weight"}
    )

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return np.array(self.shifts_m)[:, None]

    def blocked(
        self, objects: Objects, speed_mps: Float[np.ndarray, "time"]
    ) -> Bool[np.ndarray, "time choice"]:
        """Whether each shifted corridor holds an object with 0 < range <= stopping
        distance.
        """
        stopping_m = (
            speed_mps**2 / (2 * self.deceleration_mps2)
            + self.reaction_s * speed_mps
            + self.standoff_m
        )
        ahead = (objects.near_m > 0) & (objects.near_m <= stopping_m[objects.frame])
        low_m, high_m = objects.lateral_m[:, :1], objects.lateral_m[:, 1:]
        shift_m = np.array(self.shifts_m)
        inside = (high_m > shift_m - self.half_width_m) & (
            low_m < shift_m + self.half_width_m
        )
        count = np.zeros((objects.frames, len(self.shifts_m)), dtype=int)
        np.add.at(count, objects.frame, (inside & ahead[:, None]).astype(int))
        return count > 0

    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Actions | None = None,
    ) -> Actions:
        """The action in each frame."""
        blocked = self.blocked(perceived, scene.ego_speed_mps)
        chosen = self.choices[blocked.argmin(axis=1)]
        return np.where(blocked.all(axis=1, keepdims=True), 0.0, chosen)

    def terms(
        self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions
    ) -> FrameValues:
        """Loss terms of the actions against the reference objects, before weighting."""
        taken = plans == np.array(self.shifts_m)
        blocked = self.blocked(truth.objects, scene.ego_speed_mps)
        return {
            "blocked": (taken & blocked).any(axis=1).astype(float),
            "shift": plans[:, 0] ** 2,
        }
