"""Scores per mode, costs of the modes and a budget per input -> a price, the same for every input.

Scores are estimates of the gain of a mode, so scores up to 0 buy nothing. Along each input's concave hull of score
over cost, every step that is steeper than the price is taken: the fractional optimum of the knapsack in
docs/definitions.md, More than two modes. Steps as steep as the price are ties, taken with one probability.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int, Num
from deepval.errors import InputError
from deepval.judging.knapsack import hull_slopes
from deepval.judging.policies import SLACK, in_time, running_count


class Bought(NamedTuple):
    """The mode of each input without the steps as steep as the price, and with them; 0 is cheap."""

    least: Int[np.ndarray, "input"]
    most: Int[np.ndarray, "input"]


@dataclass(frozen=True)
class Price:
    """Takes the steps that are worth more than a price, and those worth just that with probability p.

    Attributes:
        price: Least score per unit of cost that is bought.
        tie_acceptance: p.
        costs: Cost of each mode above cheap.
    """

    price: float
    tie_acceptance: float
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.price < math.inf or not 0 <= self.tie_acceptance <= 1:
            raise InputError(
                "A price must be a finite number of at least 0 and a tie acceptance lie in [0, 1], got "
                f"{self.price} and {self.tie_acceptance}: calibrate it on validation scores."
            )
        if not self.costs or not all(0 < cost < math.inf for cost in self.costs):
            raise InputError(f"Every mode above cheap must have a positive cost, got {list(self.costs)}.")

    @classmethod
    def calibrate(cls, scores: Float[np.ndarray, "input mode"], costs: Sequence[float], spend: float) -> "Price":
        """The price at which validation inputs spend `spend` on average, in expectation; 0 where they spend less.

        It is the largest slope at which steps that are as steep or steeper cost at least N*spend, and p makes the
        expected spending exactly that. A shortfall of 1e-9 of the dearest mode is float noise.
        """
        asked = cls(0.0, 0.0, tuple(map(float, costs)))
        if scores.ndim != 2 or not scores.size or scores.shape[1] != len(asked.costs):
            raise InputError(
                f"Calibration needs a score per mode above cheap ({len(asked.costs)}) for at least one validation "
                f"input, got shape {scores.shape}."
            )
        levels, values, _ = asked._menu(scores)
        slopes, lengths = hull_slopes(values, levels).ravel(), np.repeat(np.diff(levels), len(scores))
        order = np.argsort(-slopes, kind="stable")
        order = order[slopes[order] > 0]
        target, filled = len(scores) * spend, np.cumsum(lengths[order])
        at = int(np.searchsorted(filled, target - SLACK * levels[-1], side="left"))
        if at == len(order):
            return asked
        price = float(slopes[order[at]])
        above, tied = float(lengths[slopes > price].sum()), float(lengths[slopes == price].sum())
        return cls(price, min(1.0, max(0.0, (target - above) / tied)), asked.costs)

    def bought(self, scores: Float[np.ndarray, "input mode"]) -> Bought:
        """The mode of each input, with ties refused and with ties accepted."""
        levels, values, modes = self._menu(scores)
        slopes = hull_slopes(values, levels)
        worth = slopes > 0
        inputs = np.arange(len(scores))
        least, most = (
            modes[(steep & worth).sum(axis=0), inputs] for steep in (slopes > self.price, slopes >= self.price)
        )
        return Bought(least, most)

    def expected(self, scores: Float[np.ndarray, "input mode"]) -> Float[np.ndarray, "input mode"]:
        """The probability that each input gets each mode above cheap."""
        probability, inputs = np.zeros((len(scores), len(self.costs) + 1)), np.arange(len(scores))
        bought = self.bought(scores)
        probability[inputs, bought.least] += 1 - self.tie_acceptance
        probability[inputs, bought.most] += self.tie_acceptance
        return probability[:, 1:]

    def decide(
        self,
        scores: Float[np.ndarray, "input mode"],
        unit: Int[np.ndarray, "input"],
        order: Num[np.ndarray, "input"],
    ) -> Int[np.ndarray, "input"]:
        """The mode of each input, decided by a stream per unit."""
        rows, first = in_time(unit, order)
        least, most = self.bought(scores)
        tied = (least != most)[rows]
        turn, p = running_count(tied, first), self.tie_acceptance
        accepted = tied & (np.floor(turn * p) > np.floor((turn - 1) * p))
        modes = least.copy()
        modes[rows[accepted]] = most[rows[accepted]]
        return modes

    def start(self) -> "PriceStream":
        """A stream at the beginning of a unit."""
        return PriceStream(self)

    def _menu(
        self, scores: Float[np.ndarray, "input mode"]
    ) -> tuple[Float[np.ndarray, "level"], Float[np.ndarray, "level input"], Int[np.ndarray, "level input"]]:
        """Distinct costs from 0 on, and for each input and cost the best score (at least 0) and its mode."""
        if not (scores < np.inf).all():
            raise InputError("Scores per mode must be numbers that can be added up, got NaN or +inf.")
        costs = np.array(self.costs)
        levels, inputs = np.unique(costs), np.arange(len(scores))
        values, modes = np.zeros((len(levels) + 1, len(scores))), np.zeros((len(levels) + 1, len(scores)), np.int64)
        for level, cost in enumerate(levels, 1):
            equal = np.flatnonzero(costs == cost)
            best = scores[:, equal].argmax(axis=1)
            values[level] = np.maximum(scores[inputs, equal[best]], 0.0)
            modes[level] = 1 + equal[best]
        return np.concatenate([[0.0], levels]), values, modes


@dataclass
class PriceStream:
    """A price within one unit, with the tied inputs seen so far."""

    price: Price
    tied: int = 0

    def decide(self, scores: Sequence[float]) -> int:
        """The mode of the next input; the j-th tied one is accepted iff floor(j*p) > floor((j-1)*p)."""
        least, most = (int(mode[0]) for mode in self.price.bought(np.asarray(scores, float)[None]))
        if least == most:
            return least
        self.tied += 1
        p = self.price.tie_acceptance
        return most if math.floor(self.tied * p) > math.floor((self.tied - 1) * p) else least
