"""PDM-Closed over one drive: paths are laid at the first plan, and whom the ego has overlapped is ignored for ever."""

from dataclasses import dataclass

import numpy as np

from deepval.planners.pdm_closed import PdmClosed, PdmTrajectory
from deepval.planners.pdm_judged import Laid, judged_branches, laid
from deepval.planners.planner import Planner
from deepval.planners.situation import Agents, Situation


@dataclass(eq=False)
class PdmSession(Planner):
    """The planner as it was published to be driven; the route is that of the first plan.

    Attributes:
        planner: Its constants.
        on: What the first plan laid.
        collided: Others and red lights that the ego has overlapped at a plan.
    """

    planner: PdmClosed
    on: Laid | None = None
    collided: frozenset[str] = frozenset()

    def plan(self, situation: Situation, agents: Agents) -> PdmTrajectory:
        """The plan from here on, along the paths of the first."""
        self.on = self.on or laid(self.planner, situation)
        (judged,) = judged_branches(self.planner, situation, [agents], on=self.on, collided=self.collided)
        seen = judged.driver.observation
        self.collided |= set(np.asarray(seen.id)[seen.collided].tolist())
        return self.planner.taken(situation.ego, judged)
