"""What a policy comes to in every resample.

Whatever a policy does, it ends in these three sums: the figures of a row, its intervals
and its verdict all follow from them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, InputFloats, PerResample
from deepval.judging.bootstrap import Bootstrap


@dataclass(frozen=True, eq=False)
class Gains:
    """Sums over the inputs that a policy escalates, in every resample.

    Attributes:
        gain: Sum of decision values, in units of the loss.
        benefit: Sum of their positive parts.
        escalated: Expected number of inputs.
    """

    gain: PerResample
    benefit: PerResample
    escalated: PerResample

    @classmethod
    def of(cls, sums: Float[np.ndarray, "resample amount"]) -> "Gains":
        """The gains of sums of decision values, of benefits and of inputs."""
        gain, benefit, escalated = sums.T
        return cls(gain, benefit, escalated)

    @classmethod
    def nothing(cls, resamples: int) -> "Gains":
        """The gains of escalating nothing."""
        zeros = np.zeros(resamples)
        return cls(zeros, zeros, zeros)


class Cap(NamedTuple):
    """Gain of the causal cap, in units of the loss."""

    gain: float
    benefit: float
    harm: float


def gains_of_choices(bootstrap: Bootstrap, chance: InputFloats) -> Gains:
    """Gains of a policy that escalates every input with a fixed probability."""
    table = bootstrap.table
    return Gains(
        gain=bootstrap.totals(chance * table.decision_values),
        benefit=bootstrap.totals(chance * table.benefits),
        escalated=bootstrap.totals(chance),
    )


def gains_of_share(bootstrap: Bootstrap, share: PerResample) -> Gains:
    """Gains of escalating a random share of the inputs, in exact expectation."""
    return Gains(
        gain=share * bootstrap.full_gain,
        benefit=share * bootstrap.full_benefit,
        escalated=share * bootstrap.inputs,
    )
