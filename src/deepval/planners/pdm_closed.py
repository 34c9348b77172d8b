"""PDM-Closed: 15 proposals of IDM on three paths at five speeds, simulated, scored, the best one driven (Dauner 2023).

tuplan_garage's `PDMClosedPlanner` at its released configuration, in our own code. See
docs/definitions.md, PDM-Closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from deepval.arrays import Float
from deepval.planners.planner import Planner, Trajectory
from deepval.planners.situation import Agents, EgoState, Situation

if TYPE_CHECKING:
    from deepval.planners.pdm_judged import JudgedProposals

STEP_S = 0.1
STEPS, PROPOSAL_STEPS = 80, 40
BRAKE_MPS2 = (-4.05, 2.40)


@dataclass(frozen=True, eq=False)
class PdmTrajectory(Trajectory):
    """A plan of PDM-Closed with the scores of its proposals, the one it took, and whether it braked instead."""

    score: Float[np.ndarray, "prop"]
    chosen: int
    emergency_brake: bool


@dataclass(frozen=True)
class PdmClosed(Planner):
    """The planner at its released parameters; a proposal's number is path x speeds + speed.

    Attributes:
        speed_shares: Target speeds as shares of the speed limit.
        left_m: Paths, so far to the left of the centreline.
        fallback_mps: Speed limit where the map has none.
        brake_within_s: The emergency brake acts where the best proposal is at fault in a collision so soon,
        brake_up_to_mps: and the ego is not faster than this.
    """

    speed_shares: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    left_m: tuple[float, ...] = (0.0, -1.0, 1.0)
    fallback_mps: float = 15.0
    min_gap_m: float = 1.0
    headway_s: float = 1.5
    acceleration_mps2: float = 1.5
    deceleration_mps2: float = 3.0
    exponent: float = 10.0
    radius_m: float = 50.0
    brake_within_s: float = 2.0
    brake_up_to_mps: float = 5.0

    def plan(self, situation: Situation, agents: Agents) -> PdmTrajectory:
        """The best proposal's own path for 8 s, not what was simulated of it; or the brake."""
        return self.taken(situation.ego, self.judged(situation, [agents])[0])

    def plans(self, situation: Situation, branches: Sequence[Agents]) -> list[Trajectory]:
        """The plans of several observations, which share map, paths and the simulation of what is the same."""
        return [self.taken(situation.ego, judged) for judged in self.judged(situation, branches)]

    def judged(self, situation: Situation, branches: Sequence[Agents]) -> "list[JudgedProposals]":
        """All proposals of each observation with their simulation and scores."""
        # shapely is loaded by who plans, not by who lists planners.
        from deepval.planners.pdm_judged import judged_branches

        return judged_branches(self, situation, branches)

    def session(self) -> Planner:
        """Its first plan lays the paths for all, and whom it has overlapped once it ignores for ever."""
        from deepval.planners.pdm_session import PdmSession

        return PdmSession(self)

    def taken(self, ego: EgoState, judged: "JudgedProposals") -> PdmTrajectory:
        """The plan: the proposal of the highest score, of several the first, or the brake."""
        best = int(np.argmax(judged.scores.score))
        times_s = STEP_S * np.arange(STEPS + 1)
        soon = judged.scores.collision_s[best] <= self.brake_within_s
        if brake := bool(soon and ego.speed_mps <= self.brake_up_to_mps):
            signed_mps = braking_mps(ego)
            ahead = np.array([np.cos(ego.pose[2]), np.sin(ego.pose[2]), 0.0])
            pose, speed_mps = ego.pose + signed_mps * times_s[:, None] * ahead, np.full(STEPS + 1, signed_mps)
        else:
            pose, speed_mps = judged.unrolled(best)
        return PdmTrajectory(times_s, pose, speed_mps, judged.scores.score, best, brake)


def braking_mps(ego: EgoState) -> float:
    """Signed speed of the published emergency brake: a straight line at constant speed, backwards where below 0."""
    speed = ego.speed_mps
    if speed > 0.2:
        return float(1.1 * (speed + np.clip(-10 * speed, *BRAKE_MPS2)))
    return float(np.clip(-4 * speed - ego.acceleration_mps2, *BRAKE_MPS2))
