"""What a build computes for labels and diagnostics alone: columns from the reference
and from both modes' full outputs.

No vehicle has this evidence before it decides, so no allocator may see it. Routing
objectives are columns whose value for one frame depends on many frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Float, InputFloats
from deepval.basics.errors import InputError
from deepval.driving.perception.reported.ap_swap import (
    CONTEXT,
    GradedFrames,
    ap_swap,
    context_sample,
    contextual_gains,
    released_gains,
)
from deepval.driving.perception.reported.losses import LOSSES
from deepval.judge.tables import keys
from deepval.judge.tables.values import ValueTable


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data on some inputs that labels and diagnostics may use: losses, and columns
    from reference and outputs.

    Attributes:
        table: The losses.
        columns: Columns by name, one number per input of the table; empty if there are
            only losses.
    """

    table: ValueTable
    columns: Mapping[str, Float[np.ndarray, "input"]] = field(default_factory=dict)

    def restrict(self, units: Sequence[str]) -> "Evidence":
        """The evidence of the named units only."""
        table = self.table.restrict(units)
        rows = keys.positions(table.input, self.table.input)
        return Evidence(
            table, {name: column[rows] for name, column in self.columns.items()}
        )

    def column(self, name: str) -> Float[np.ndarray, "input"]:
        """One of the columns."""
        if not self.columns:
            raise InputError(
                "This diagnostic needs columns from the reference and the detections; "
                "found losses only. Use the evidence of a cell."
            )
        if name not in self.columns:
            raise InputError(
                f"The cell has no column {name!r}: its modes have no probabilities or "
                "image boxes to compute it from, or an earlier version built it (then "
                f"build it again). Its columns are {', '.join(self.columns)}."
            )
        return self.columns[name]

    def from_role(self, role: str, name: str) -> "Evidence":
        """The evidence with the values of a column that were computed from the units of
        a role alone.
        """
        return Evidence(
            self.table, {**self.columns, name: self.column(role_column(name, role))}
        )

    @property
    def losses(
        self,
    ) -> tuple[
        dict[str, Float[np.ndarray, "input"]], dict[str, Float[np.ndarray, "input"]]
    ]:
        """Perception losses of each input, of the cheap and of the full mode: E1 to E8,
        or those that are defined.
        """
        names = [
            name
            for name in LOSSES
            if {f"cheap_{name}", f"full_{name}"} <= self.columns.keys()
        ] or LOSSES
        cheap, full = (
            {name: self.column(f"{mode}_{name}") for name in names}
            for mode in ("cheap", "full")
        )
        return cheap, full


def role_column(name: str, role: str) -> str:
    """The name of a column that was computed from the units of a role."""
    return name if role == "fit" else f"{name}_{role}"


class Objective(ABC):
    """The value of escalating an input, by some measure; a frozen dataclass whose
    fields are its settings.
    """

    @abstractmethod
    def values(self, evidence: Evidence) -> InputFloats:
        """The objective of each input of the evidence's table."""


class RoutingObjective(Objective):
    """An objective whose value for an input depends on many frames; the build computes
    it from the units of a role.
    """

    column: ClassVar[str]

    @abstractmethod
    def frame_values(
        self, weak: GradedFrames, strong: GradedFrames
    ) -> Float[np.ndarray, "time"]:
        """The objective of each frame, from both modes' detections in all frames, each
        marked right or wrong.
        """

    def values(self, evidence: Evidence) -> InputFloats:
        """The values in the cell's evidence."""
        return evidence.column(self.column).copy()


@dataclass(frozen=True)
class OricReward(RoutingObjective):
    """ORIC's offloading reward: gain in contextual mAP@0.5, 101-point, among one seeded
    sample of weak frames.
    """

    column: ClassVar[str] = "oric_reward"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def frame_values(
        self, weak: GradedFrames, strong: GradedFrames
    ) -> Float[np.ndarray, "time"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        rng = np.random.default_rng(self.seed)
        context = context_sample(len(weak.objects), rng=rng, size=self.context)
        return contextual_gains(
            weak.above(self.threshold), strong.above(self.threshold), context=context
        )


@dataclass(frozen=True)
class OricReleased(RoutingObjective):
    """ORIC's reward as in its released code: interpolated AP, among weak frames drawn
    separately for each frame.
    """

    column: ClassVar[str] = "oric_released"
    threshold: float = 0.10
    context: int = CONTEXT
    seed: int = 0

    def frame_values(
        self, weak: GradedFrames, strong: GradedFrames
    ) -> Float[np.ndarray, "time"]:
        """(n + 1) x the change in mAP; 0 where there is nothing to find."""
        rng = np.random.default_rng(self.seed)
        return released_gains(
            weak.above(self.threshold),
            strong.above(self.threshold),
            rng=rng,
            size=self.context,
        )


@dataclass(frozen=True)
class ApSwap(RoutingObjective):
    """Budget-adaptive routing's objective: change in AP@0.5 over all fit frames, one
    curve, all-point.
    """

    column: ClassVar[str] = "ap_swap"
    threshold: float = 0.30

    def frame_values(
        self, weak: GradedFrames, strong: GradedFrames
    ) -> Float[np.ndarray, "time"]:
        """N x the change in AP when this frame alone is swapped."""
        if not weak.objects.any():
            raise InputError(
                "AP-swap needs a reference object to find on the "
                "fit units; there is none."
            )
        return ap_swap(weak.above(self.threshold), strong.above(self.threshold))


ROUTING: tuple[RoutingObjective, ...] = (OricReward(), ApSwap(), OricReleased())
"""Objectives that the build of a cell computes from many frames at once."""
