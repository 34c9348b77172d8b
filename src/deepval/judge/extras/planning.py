"""A spread of today's units -> how many units a difference would need."""

import math
from statistics import NormalDist

from deepval.basics import checks
from deepval.basics.errors import InputError
from deepval.judge.intervals import LEVEL


def units_to_resolve(
    spread: float, units: int, difference: float, *, power: float = 0.8
) -> int:
    """Number of units at which a true difference would be distinguished from 0 with
    probability `power`.

    A planning figure: normal approximation, spread falling with the square root of the
    number of units, U' = U * ((z(0.975) + z(power)) * spread / difference)^2. With
    `power=0.5` the expected bound of the interval just reaches 0.
    """
    spread = checks.number(spread, "spread")
    difference = checks.number(difference, "difference")
    power = checks.number(power, "power")
    units = checks.whole(units, "units", least=1, most=10**12)
    if not difference or not 0 < power < 1:
        raise InputError(
            f"A difference other than 0 and a power in (0, 1) are needed; found "
            f"{difference} and {power}."
        )
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - (1 - LEVEL) / 2) + normal.inv_cdf(power)
    distance = quantiles * spread / abs(difference)
    return max(2, math.ceil(units * distance**2 - 1e-9))
