"""Scores per mode, costs and a price -> the mode of each input.

Scores per mode are bought at a price, the same for every input. They are estimates of
the gain of a mode, so scores up to 0 buy nothing. The mode with the largest score -
price * cost runs: along each input's concave hull of score over cost, every step that
is steeper than the price is taken. That is the fractional optimum of the knapsack in
docs/definitions.md, More than two modes. Steps as steep as the price are ties, taken
with one probability.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, InputInts, InputNumbers, ModeFloats
from deepval.basics.errors import InputError
from deepval.judge.mode_plans import steps
from deepval.judge.streaming import SLACK, in_time, running_count

NEVER = -1e200
"""Stands for a score of -inf, which cannot be subtracted from another."""


class Bought(NamedTuple):
    """The mode of each input, without and with the steps that are exactly as steep as
    the price; 0 is cheap.
    """

    least: InputInts
    most: InputInts


@dataclass(frozen=True)
class Price:
    """Takes the steps that are worth more than a price, and steps worth exactly the
    price with probability p.

    Steps lead from the cheapest mode of an input to dearer ones, along the concave hull
    of score over cost.

    Attributes:
        price: Least score per unit of cost that is bought.
        tie_acceptance: p.
        costs: Cost of each mode above cheap, on top of the cheap one; None if every
            input comes with its own costs.
        skipping: Whether costs that come with an input are of calls that replace the
            cheap one.
    """

    price: float
    tie_acceptance: float
    costs: tuple[float, ...] | None
    skipping: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.price < math.inf or not 0 <= self.tie_acceptance <= 1:
            raise InputError(
                "A price must be a finite number of at least 0 and a tie acceptance "
                f"lie in [0, 1], got {self.price} and {self.tie_acceptance}: "
                "calibrate it on validation scores."
            )
        if self.costs is not None and (
            not self.costs or not all(map(math.isfinite, self.costs))
        ):
            raise InputError(
                "Every mode above cheap must have "
                f"a finite cost, got {list(self.costs)}."
            )

    @classmethod
    def calibrate(
        cls,
        scores: ModeFloats,
        costs: Sequence[float] | ModeFloats,
        spend: float,
        *,
        skipping: bool = False,
    ) -> "Price":
        """The price at which validation inputs spend `spend` on average, in
        expectation; 0 if they always spend less.

        Costs are one per mode above cheap, or one per input and mode. The price is the
        largest slope such that all steps at least as steep cost N*spend or more in
        total; p makes the expected spending exactly N*spend. A shortfall of 1e-9 of the
        dearest mode counts as rounding error.
        """
        prices = np.asarray(costs, dtype=np.float64)
        own = None if prices.ndim == 2 else tuple(map(float, prices))
        if (
            scores.ndim != 2
            or not scores.size
            or prices.shape not in (scores.shape, scores.shape[1:])
        ):
            raise InputError(
                f"Calibration needs a score per mode above cheap ({prices.shape[-1]}) "
                f"for at least one validation input, got shape {scores.shape}."
            )
        values, prices = _with_cheap(scores, prices)
        hull = steps(values, prices)
        begun = prices[np.arange(len(scores)), hull.start].sum()
        order = np.argsort(-hull.slope, kind="stable")
        target, filled = len(scores) * spend - begun, np.cumsum(hull.cost[order])
        at = int(np.searchsorted(filled, target - SLACK * prices.max(), side="left"))
        if at == len(order):
            return cls(0.0, 0.0, own, skipping)
        price = float(hull.slope[order[at]])
        above, tied = (
            float(hull.cost[hull.slope > price].sum()),
            float(hull.cost[hull.slope == price].sum()),
        )
        return cls(
            price, min(1.0, max(0.0, float(target - above) / tied)), own, skipping
        )

    def bought(self, scores: ModeFloats, costs: ModeFloats | None = None) -> Bought:
        """The mode of each input, with ties refused and with ties accepted."""
        prices = np.asarray(self.costs) if costs is None else costs
        hull = steps(*_with_cheap(scores, prices))
        least, most = hull.start.copy(), hull.start.copy()
        for modes, steep in (
            (least, hull.slope > self.price),
            (most, hull.slope >= self.price),
        ):
            # the last of an input's steps overwrites the others
            modes[hull.input[steep]] = hull.target[steep]
        return Bought(least, most)

    def expected(
        self, scores: ModeFloats, costs: ModeFloats | None = None
    ) -> ModeFloats:
        """The probability that each input gets each mode above cheap."""
        probability, inputs = (
            np.zeros((len(scores), scores.shape[1] + 1)),
            np.arange(len(scores)),
        )
        bought = self.bought(scores, costs)
        probability[inputs, bought.least] += 1 - self.tie_acceptance
        probability[inputs, bought.most] += self.tie_acceptance
        return probability[:, 1:]

    def decide(
        self,
        scores: ModeFloats,
        unit: InputInts,
        order: InputNumbers,
        costs: ModeFloats | None = None,
    ) -> InputInts:
        """The mode of each input, decided by a stream per unit."""
        rows, first = in_time(unit, order)
        least, most = self.bought(scores, costs)
        tied = (least != most)[rows]
        turn, p = running_count(tied, first), self.tie_acceptance
        accepted = tied & (np.floor(turn * p) > np.floor((turn - 1) * p))
        modes = least.copy()
        modes[rows[accepted]] = most[rows[accepted]]
        return modes

    def start(self) -> "PriceStream":
        """A stream at the beginning of a unit."""
        return PriceStream(self)


def _with_cheap(
    scores: Float[np.ndarray, "input above"], costs: Float[np.ndarray, "*input above"]
) -> tuple[ModeFloats, ModeFloats]:
    """Scores and costs of all modes: 0 for cheap."""
    if not (scores < np.inf).all():
        raise InputError(
            "Scores per mode must be numbers that can be added up, got NaN or +inf."
        )
    cheap = np.zeros((len(scores), 1))
    finite = np.maximum(scores, NEVER)
    return np.hstack([cheap, finite]), np.hstack(
        [cheap, np.broadcast_to(costs, scores.shape)]
    )


@dataclass
class PriceStream:
    """A price within one unit, with the tied inputs seen so far."""

    price: Price
    tied: int = 0

    def decide(
        self, scores: Sequence[float], costs: Sequence[float] | None = None
    ) -> int:
        """The mode of the next input; the j-th tied one is accepted iff floor(j*p) >
        floor((j-1)*p).

        The steps of one input in plain numbers: arrays would take ten times as long.
        """
        price, own = self.price.price, self.price.costs if costs is None else costs
        assert own is not None
        modes = [
            (0.0, 0.0),
            *(
                (max(score, NEVER), cost)
                for score, cost in zip(scores, own, strict=True)
            ),
        ]
        least = 0
        for mode, (score, cost) in enumerate(modes):
            if cost < modes[least][1] or (
                cost == modes[least][1] and score > modes[least][0]
            ):
                least = mode
        most, last = least, math.inf
        while True:
            (value, spent), steepest, length, target = modes[most], 0.0, 0.0, most
            for mode, (score, cost) in enumerate(modes):
                ahead, gain = cost - spent, score - value
                if ahead > 0 and gain > 0:
                    slope = gain / ahead
                    if slope > steepest or (slope == steepest and ahead > length):
                        steepest, length, target = slope, ahead, mode
            steepest = min(steepest, last)
            if target == most or steepest < price:
                break
            most, last = target, steepest
            least = target if steepest > price else least
        if least == most:
            return least
        self.tied += 1
        p = self.price.tie_acceptance
        return (
            most
            if math.floor(self.tied * p) > math.floor((self.tied - 1) * p)
            else least
        )
