"""Evidence of the fit units -> an objective per input, before any transform: higher = better to escalate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.diagnostics import Evidence, PerceptionGain
from deepval.errors import InputError
from deepval.perception.reported.ap_swap import CONTEXT, GradedFrames, ap_swap, context_sample, contextual_gains
from deepval.perception.reported.oric_released import released_gains


class Objective(ABC):
    """What escalating an input is worth in some currency; a frozen dataclass whose fields are its settings."""

    @abstractmethod
    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """The objective of each input of the evidence's table."""


@dataclass(frozen=True)
class DecisionValue(Objective):
    """V = loss(cheap) - loss(full) of the downstream system."""

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """Decision value of the full mode."""
        return evidence.table.decision_values.copy()


@dataclass(frozen=True)
class Gain(Objective):
    """A perception loss of the cheap mode minus that of the full one: E1 missed, E5 combined, E8 risk."""

    loss: str

    def __post_init__(self) -> None:
        PerceptionGain(self.loss)

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """The gain, positive where the full mode perceives better."""
        return PerceptionGain(self.loss).scores(evidence)


class RoutingObjective(Objective):
    """An objective whose every number rests on many frames at once: found when a cell is built, from a role's units."""

    column: ClassVar[str]

    @abstractmethod
    def found(self, weak: GradedFrames, strong: GradedFrames) -> Float[np.ndarray, "time"]:
        """The objective of each frame, from both modes' detections of all frames, right or wrong."""

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """What the cell keeps of it."""
        return evidence.column(self.column).copy()


@dataclass(frozen=True)
class OricReward(RoutingObjective):
    """ORIC's offloading reward: gain in contextual mAP@0.5, 101-point, among one seeded sample of weak frames."""

    column: ClassVar[str] = "oric_reward"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def found(self, weak: GradedFrames, strong: GradedFrames) -> Float[np.ndarray, "time"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        rng = np.random.default_rng(self.seed)
        context = context_sample(len(weak.objects), rng=rng, size=self.context)
        return contextual_gains(weak.above(self.threshold), strong.above(self.threshold), context=context)


@dataclass(frozen=True)
class OricReleased(RoutingObjective):
    """ORIC's reward as its released code has it: interpolated AP, among weak frames drawn anew for each frame."""

    column: ClassVar[str] = "oric_released"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def found(self, weak: GradedFrames, strong: GradedFrames) -> Float[np.ndarray, "time"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        rng = np.random.default_rng(self.seed)
        return released_gains(weak.above(self.threshold), strong.above(self.threshold), rng=rng, size=self.context)


@dataclass(frozen=True)
class ApSwap(RoutingObjective):
    """Budget-adaptive routing's objective: change in AP@0.5 over all fit frames, one curve, all-point."""

    column: ClassVar[str] = "ap_swap"
    threshold: float = 0.30

    def found(self, weak: GradedFrames, strong: GradedFrames) -> Float[np.ndarray, "time"]:
        """N x the change in AP when this frame alone is swapped."""
        if not weak.objects.any():
            raise InputError("AP-swap needs a reference object to find on the fit units; there is none.")
        return ap_swap(weak.above(self.threshold), strong.above(self.threshold))


ROUTING: tuple[RoutingObjective, ...] = (OricReward(), ApSwap(), OricReleased())
"""What a cell's build finds from many frames at once."""
