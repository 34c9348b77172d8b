"""Allocator: what scores a frame before escalation, from what it shows and what is remembered of those before it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from deepval.arrays import Float
from deepval.features import Glance, Sight
from deepval.features.views import CheapMode, View

Part = Literal[
    "ego speed", "cheap boxes", "cheap objects", "cheap scores", "calibration", "previous frames", "image", "route"
]
"""Parts of a view; it has boxes to look at or, where the cheap mode observes, objects."""
Score = float | tuple[float, ...]
"""The score of a frame, or one for every mode above cheap."""


class Allocator(ABC):
    """Scores frames; higher means escalate first. Methods with a body are defaults only where they say so.

    Attributes:
        name: Its name.
        uses: The parts of the view that it reads.
    """

    name: str
    uses: frozenset[Part]

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes to choose among, cheap first; by default any two."""
        return "cheap", "full"

    @property
    def per_mode(self) -> bool:
        """Whether there is a score for every mode above cheap; by default there is one for all."""
        return False

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no score for this cheap mode, None where there is; by default by what its views must hold."""
        return unseen(self.uses, mode)

    def score(self, view: View | Sight) -> Float[np.ndarray, "time *mode"]:
        """The score of each frame of a unit; NaN where the cheap mode was not run."""
        sight = Sight(view, images="image" in self.uses) if isinstance(view, View) else view
        if self.undefined(sight.view.mode) is not None:
            return np.full((len(sight), len(self.modes) - 1) if self.per_mode else len(sight), np.nan)
        return self._of_unit(sight)

    def score_frame(self, glance: Glance) -> Score:
        """The score of one frame as it arrives, to the bit that which its unit gives."""
        if not glance.frame.run or self.undefined(glance.mode) is not None:
            return (np.nan,) * (len(self.modes) - 1) if self.per_mode else np.nan
        return self._of_frame(glance)

    def stages(self) -> Mapping[str, Callable[[Any], Any]]:
        """Steps from a glance, or from a list of them, to scores, whose cost is told apart; by default one."""

        def score(seen: Glance | list[Glance]) -> Any:
            return [self.score_frame(each) for each in seen] if isinstance(seen, list) else self.score_frame(seen)

        return {"score": score}

    @abstractmethod
    def _of_frame(self, glance: Glance) -> Score:
        """The score of a frame on which the cheap mode was run."""

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time *mode"]:
        """The scores of a unit; by default those of its frames, one after the other."""
        found = np.array([self.score_frame(seen) for seen in sight.glances], float)
        return found.reshape(len(sight), len(self.modes) - 1) if self.per_mode else found


def unseen(uses: frozenset[Part], mode: CheapMode) -> str | None:
    """Why who reads these parts of a view sees nothing of this cheap mode, None where it does."""
    if {"cheap boxes", "cheap objects"} & uses in (frozenset(), {"cheap boxes", "cheap objects"}):
        return None
    if mode.observes and "cheap boxes" in uses:
        return "it looks at image boxes, and of this cheap mode it is observed objects that are looked at"
    if not mode.observes and "cheap objects" in uses:
        return "it looks at observed objects, and of this cheap mode there are image boxes only"
    return None
