"""What a planner is: (situation, observed agents) -> where the ego vehicle is to be in the next seconds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.planners.situation import Agents, Situation


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses of the rear axle (x, y, heading) in the world frame and speeds, at the planner's own times, 0 first."""

    times_s: Float[np.ndarray, "step"]
    pose: Float[np.ndarray, "step 3"]
    speed_mps: Float[np.ndarray, "step"]


class Planner(ABC):
    """A planner: a frozen dataclass whose fields are its constants. It keeps nothing from one call to the next.

    What plans one drive step by step may: `session` makes it, a fresh one for each drive.
    """

    @abstractmethod
    def plan(self, situation: Situation, agents: Agents) -> Trajectory:
        """The plan for what is observed."""

    def plans(self, situation: Situation, branches: Sequence[Agents]) -> list[Trajectory]:
        """A plan for each of several observations of one situation, each as if it were the only one."""
        return [self.plan(situation, agents) for agents in branches]

    def session(self) -> "Planner":
        """A planner for one drive, which may keep what its first plan was laid on; itself where nothing is kept."""
        return self
