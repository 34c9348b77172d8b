"""IDM over one drive: path and target speed are those of the first plan."""

from dataclasses import dataclass

from deepval.planners.idm import Idm, IdmTrajectory
from deepval.planners.idm_road import Road
from deepval.planners.planner import Planner
from deepval.planners.situation import Agents, Situation


@dataclass(eq=False)
class IdmSession(Planner):
    """The planner as it was published to be driven; the route is that of the first plan.

    Attributes:
        planner: Its constants.
        laid: Path and target speed of the first plan.
    """

    planner: Idm
    laid: tuple[Road, float] | None = None

    def plan(self, situation: Situation, agents: Agents) -> IdmTrajectory:
        """The plan from here on, along the path of the first."""
        self.laid = self.laid or self.planner.laid(situation)
        return self.planner.followed(*self.laid, situation, agents)
