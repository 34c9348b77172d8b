"""An allocator and a streaming policy -> the mode to run on each frame of a drive, as it arrives."""

from pathlib import Path
from typing import Any

import numpy as np

from deepval.allocators.allocator import Allocator
from deepval.allocators.recipes import read_allocator
from deepval.allocators.signals import SIGNALS
from deepval.arrays import Float
from deepval.errors import InputError
from deepval.features import Glance, glance
from deepval.features.views import CheapMode, Frame, Past
from deepval.judging.policies import CausalCap, Policy, UnitStream


class Router:
    """Decides in a user's own loop: `router.begin()` at each drive, then `router.decide(frame)` frame after frame.

    What is remembered does not grow with time. A frame on which the cheap mode failed has no score; it is not
    escalated and does not count for the policy.
    """

    def __init__(
        self,
        allocator: Allocator,
        policy: Policy,
        *,
        mode: CheapMode | None = None,
        modes: tuple[str, ...] | None = None,
    ) -> None:
        """A router that scores with an allocator and escalates by a policy.

        Args:
            allocator: What scores a frame.
            policy: When a score is enough; calibrate it on validation scores.
            mode: How the cheap mode's report is read.
            modes: Names to answer with, cheap first; the allocator's own if not given.
        """
        self.allocator, self.policy = allocator, policy
        self.mode = CheapMode() if mode is None else mode
        self.modes = allocator.modes if modes is None else modes
        reason = allocator.undefined(self.mode)
        if reason is not None:
            raise InputError(f"{allocator.name} cannot route here: {reason}. Choose another allocator.")
        self.begin()

    @classmethod
    def calibrated(
        cls,
        allocator: Allocator | str | Path,
        validation_scores: Float[np.ndarray, "input *mode"],
        alpha: float,
        **settings: Any,
    ) -> "Router":
        """A router that keeps the rate `alpha` by a causal cap over the threshold of validation scores.

        Args:
            allocator: An allocator, its file, or the name of an untrained signal.
            validation_scores: Its scores on validation inputs, one per mode above cheap where it gives as many.
            alpha: Share of frames to escalate.
            settings: Passed on to Router.
        """
        if isinstance(allocator, str | Path):
            allocator = (
                SIGNALS[allocator] if isinstance(allocator, str) and allocator in SIGNALS else read_allocator(allocator)
            )
        scores = np.asarray(validation_scores, float)
        best = scores.max(axis=1) if scores.ndim == 2 else scores
        return cls(allocator, CausalCap.calibrate(best, alpha), **settings)

    def begin(self) -> None:
        """Start a new drive: forget the frames before and the escalations so far."""
        self._past: Past = Past()
        self._stream: UnitStream = self.policy.start()
        self.score: float = np.nan

    def decide(self, frame: Frame) -> str:
        """The mode to run on the next frame of the drive; `score` then tells why."""
        seen: Glance = glance(frame, self._past, mode=self.mode)
        self._past = seen.after
        found = self.allocator.score_frame(seen)
        self.score, chosen = (max(found), 1 + int(np.argmax(found))) if isinstance(found, tuple) else (found, -1)
        if np.isnan(self.score):
            return self.modes[0]
        return self.modes[chosen] if self._stream.decide(self.score) else self.modes[0]
