"""Scores of several estimators on the validation units -> which of them to follow at each share of escalated inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.judging.ties import inclusion
from deepval.tables.shares import quota

ALPHAS = (0.1, 0.2, 0.3, 0.5)
"""The benchmark's selection budgets."""
TIE = 1e-9
"""Gains this near to each other, relative to the larger, count as equal."""


@dataclass(frozen=True, eq=False)
class Arbiter:
    """The estimator chosen for each share of escalated inputs, and what every estimator gained there.

    It costs what the chosen estimator costs, plus a look-up.
    """

    choice: Mapping[float, str]
    gains: Mapping[float, Mapping[str, float]]

    def chosen(self, alpha: float) -> str:
        """Name of the estimator to follow at share `alpha`, which must be one it was fitted for."""
        if alpha not in self.choice:
            raise InputError(f"The arbiter was fitted for shares {', '.join(map(str, self.choice))}; found {alpha}.")
        return self.choice[alpha]


def arbiter(
    scores: Mapping[str, Float[np.ndarray, "input"]],
    values: Float[np.ndarray, "input"],
    *,
    alphas: Sequence[float] = ALPHAS,
) -> Arbiter:
    """At each share the estimator with the largest expected gain on the validation inputs; the first listed wins ties.

    Args:
        scores: Scores of each estimator on the validation inputs, by its name.
        values: Decision values of those inputs.
        alphas: Shares of inputs that may be escalated.
    """
    if not scores:
        raise InputError("An arbiter needs at least one estimator to choose; found none.")
    for name, column in scores.items():
        if column.shape != values.shape or np.isnan(column).any():
            raise InputError(f"Estimator {name!r} must have a score for each of the {len(values)} validation inputs.")
    gains, choice = {}, {}
    for alpha in alphas:
        slots = int(quota(len(values), alpha))
        gains[alpha] = {name: float(inclusion(column, slots) @ values) for name, column in scores.items()}
        best = max(gains[alpha].values())
        choice[alpha] = next(name for name, gain in gains[alpha].items() if gain >= best - TIE * abs(best))
    return Arbiter(choice, gains)
