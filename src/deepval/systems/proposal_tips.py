"""PDM-Closed's proposal scores under reference and perceived objects -> TIP, frame by frame.

Definitions, PKL and TIP: the four-term formula over a planner's candidates, here its 15 proposals and their scores.
"""

from collections import deque
from collections.abc import Mapping

import numpy as np

from deepval.arrays import Float
from deepval.planners.neural.metrics import tip_of_utilities
from deepval.planners.observation import Planner, agents_of, situation_at
from deepval.planners.pdm_closed import PdmClosed
from deepval.systems.logged_losses import judged_frames
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth

Asked = tuple[Planner, Scene, tuple[Objects, ...]]
_LATELY: deque[tuple[Asked, dict[str, np.ndarray]]] = deque(maxlen=2)
"""What was asked last: systems that differ in the weights of their loss ask for the same."""


def proposal_tips(
    planner: Planner, ends: Mapping[str, Objects], scene: Scene, truth: Truth
) -> dict[str, Float[np.ndarray, "time"]]:
    """TIP of each end of the ladder where the planner scores proposals, NaN in frames that are not judged."""
    if not isinstance(planner, PdmClosed):
        return {}
    asked = (planner, scene, (truth.objects, *ends.values()))
    for (one, where, objects), known in _LATELY:
        if one == planner and where is scene and _the_same(objects, asked[2]):
            return known
    found = {f"{end}_TIP": np.full(len(scene), np.nan) for end in ends}
    for frame in np.flatnonzero(judged_frames(truth)):
        situation = situation_at(scene, int(frame))
        branches = [agents_of(objects.at(int(frame)), situation.ego.pose) for objects in asked[2]]
        told, *seen = [judged.scores.score for judged in planner.judged(situation, branches)]
        for column, score in zip(found.values(), seen, strict=True):
            column[frame] = tip_of_utilities(told, score)
    _LATELY.append((asked, found))
    return found


def _the_same(one: tuple[Objects, ...], other: tuple[Objects, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
