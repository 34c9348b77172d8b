"""Evidence of the fit units -> an objective per input, before any transform: higher = better to escalate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.diagnostics import Evidence, PerceptionGain
from deepval.errors import InputError
from deepval.perception.ap_swap import CONTEXT, GradedFrames, ap_swap, context_sample, contextual_gains, graded_frames
from deepval.perception.oric_released import released_gains


class Objective(ABC):
    """What escalating an input is worth in some currency; a frozen dataclass whose fields are its settings.

    Attributes:
        column: The column under which a cell's folder keeps it, if each number rests on many frames at once; then the
            units that it is found from are part of its meaning. None where a frame's number is its own.
    """

    column: ClassVar[str | None] = None

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


@dataclass(frozen=True)
class OricReward(Objective):
    """ORIC's offloading reward: gain in contextual mAP@0.5, 101-point, among one seeded sample of weak frames."""

    column: ClassVar[str | None] = "oric_reward"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        kept = evidence.column("oric_reward")
        if kept is not None:
            return kept.copy()
        weak, strong = _graded(evidence, self.threshold)
        rng = np.random.default_rng(self.seed)
        context = context_sample(len(weak.objects), rng=rng, size=self.context)
        return _by_input(contextual_gains(weak, strong, context=context), evidence)


@dataclass(frozen=True)
class OricReleased(Objective):
    """ORIC's reward as its released code has it: interpolated AP, among weak frames drawn anew for each frame."""

    column: ClassVar[str | None] = "oric_released"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        kept = evidence.column("oric_released")
        if kept is not None:
            return kept.copy()
        weak, strong = _graded(evidence, self.threshold)
        rng = np.random.default_rng(self.seed)
        return _by_input(released_gains(weak, strong, rng=rng, size=self.context), evidence)


@dataclass(frozen=True)
class ApSwap(Objective):
    """Budget-adaptive routing's objective: change in AP@0.5 over all fit frames, one curve, all-point."""

    column: ClassVar[str | None] = "ap_swap"
    threshold: float = 0.30

    def values(self, evidence: Evidence) -> Float[np.ndarray, "input"]:
        """N x the change in AP when this frame alone is swapped."""
        kept = evidence.column("ap_swap")
        if kept is not None:
            return kept.copy()
        weak, strong = _graded(evidence, self.threshold)
        if not weak.objects.any():
            raise InputError("AP-swap needs a reference object to find on the fit units; there is none.")
        return _by_input(ap_swap(weak, strong), evidence)


def _graded(evidence: Evidence, threshold: float) -> tuple[GradedFrames, GradedFrames]:
    """Both modes' detections from `threshold` on, right or wrong, in the frames that are inputs."""
    perception = evidence.perceived
    if perception.scored is None:
        raise InputError("Average precision needs scored detections of both modes; this cell has none: leave it out.")
    for mode in perception.scored:
        if mode.scores != "probabilities":
            raise InputError(
                f"Average precision over two modes needs probabilities; the scores of mode {mode.mode} are "
                f"{mode.scores}: calibrate them on the training units first."
            )
    used = [place for place, marks in enumerate(evidence.frames) if marks.any()]
    truths = [perception.dataset.truths[place] for place in used]
    frames = [evidence.frames[place] for place in used]
    weak, strong = (
        graded_frames([mode[truth.unit] for truth in truths], truths, frames=frames)
        for mode in (mode.of_units([truth.unit for truth in truths]).above(threshold) for mode in perception.scored)
    )
    return weak, strong


def _by_input(found: Float[np.ndarray, "time"], evidence: Evidence) -> Float[np.ndarray, "input"]:
    """Numbers of the marked frames, in the order of the table's inputs."""
    return found[np.searchsorted(np.flatnonzero(np.concatenate(evidence.frames)), evidence.place)]
