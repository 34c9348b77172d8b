"""Parts of a total -> how evenly it is spread over units or inputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Shaped


@dataclass(frozen=True)
class Concentration:
    """How evenly a total is spread, from the positive parts; NaN without a total.

    Attributes:
        top_unit: Id of the unit with the largest part.
        top_share: Its share of the total.
        effective_units: 1 / sum of squared shares: U where all are equal, 1 where one
            unit has everything.
        gini: 0 where all are equal, near 1 where one unit has everything.
        half: Smallest number of units that together have half of the total; 0 where
            there is no total.
        half_share: Their share of the total.
    """

    top_unit: str | None
    top_share: float
    effective_units: float
    gini: float
    half: int = 0
    half_share: float = math.nan

    @classmethod
    def nothing(cls) -> "Concentration":
        """Without a total there is nothing to spread."""
        return cls(None, math.nan, math.nan, math.nan)


def concentration(
    parts: Float[np.ndarray, "part"],
    ids: Shaped[np.ndarray, "part"] | Sequence[str],
    *,
    positive: Float[np.ndarray, "positive"] | None = None,
) -> Concentration:
    """Concentration of non-negative parts of units or inputs.

    Args:
        parts: The parts, such as the oracle's gain in each unit.
        ids: Their names.
        positive: The positive parts in ascending order; sorted here where None.
    """
    total = parts.sum()
    number = len(parts)
    if not total > 0:
        return Concentration.nothing()
    if positive is None:
        positive = np.sort(parts[parts > 0])
    share = positive / total
    top = int(np.argmax(parts))
    # Parts of 0 have the lowest ranks and add nothing.
    rank = np.arange(number - len(share) + 1, number + 1)
    reached = np.cumsum(share[::-1])
    # Two halves that differ by rounding only are both halves.
    half = int(np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12)))
    return Concentration(
        top_unit=str(ids[top]),
        top_share=float(parts[top] / total),
        effective_units=float(1 / (share @ share)),
        gini=float((2 * rank - number - 1) @ share / number),
        half=half + 1,
        half_share=float(reached[half] / reached[-1]),
    )
