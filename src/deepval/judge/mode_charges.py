"""What each mode costs on each input in all: chosen blindly, or by a score."""

from dataclasses import dataclass, replace

import numpy as np

from deepval.basics.arrays import ModeFloats
from deepval.judge.allowances import Allowance
from deepval.judge.tables.values import ValueTable


@dataclass(frozen=True, eq=False)
class Charged:
    """What each mode costs on each input in all, the cheap pass included.

    Attributes:
        blind: If it was chosen before anything ran.
        after: If it was chosen by a score, which a cascade computes after a cheap pass.
        dearest: Number of the mode that costs most.
        per_input: What it costs per input.
        bases: Modes that may run where a score is low.
    """

    blind: ModeFloats
    after: ModeFloats
    dearest: int
    per_input: float
    bases: tuple[int, ...]

    @classmethod
    def of(cls, table: ValueTable, allowance: Allowance) -> "Charged":
        """The costs under the kind of a budget."""
        after = allowance.prices_on(table)
        blind = after
        bases = (0,)
        if allowance.is_measured:
            if not table.cheap_always_runs:
                budget = replace(allowance.budget, accounting="skipping")
                blind = replace(allowance, budget=budget).prices_on(table)
            cheap = np.full(len(table), allowance.cheap)
            if allowance.per_input:
                assert allowance.convention is not None
                cheap = table.input_costs[allowance.convention][:, 0]
            after = after + cheap[:, None]
            blind = blind + cheap[:, None]
        mean = blind.mean(axis=0)
        # Of modes that cost the same, the last is the full one.
        dearest = int(np.flatnonzero(mean == mean.max())[-1])
        if allowance.is_measured and allowance.is_skipping:
            bases = tuple(m for m in range(len(table.modes)) if m != dearest)
        return cls(blind, after, dearest, float(mean[dearest]), bases)

    def allowed(self, allowance: Allowance) -> float:
        """What a budget of this kind allows per input in all."""
        inputs = len(self.blind)
        if allowance.spent is not None:
            beyond = float(allowance.spent.sum()) / inputs
        elif not allowance.is_measured:
            return int(allowance.slots(inputs)) / inputs
        else:
            beyond = allowance.budget.alpha * allowance.full
        return beyond + float(self.blind[:, 0].mean())
