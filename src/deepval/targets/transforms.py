"""Values of the fit units -> a fitted map from values to labels: rank, shares of values, or whether positive."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError


class Transform(ABC):
    """A map that is fitted on some values and applied to any; a frozen dataclass without state of its own."""

    def fit(self, values: Float[np.ndarray, "fit"]) -> "Fitted":
        """The map as these values fix it."""
        if not len(values) or not np.isfinite(values).all():
            raise InputError(
                f"A transform is fitted on one or more finite values; found {len(values)}, "
                f"{np.count_nonzero(~np.isfinite(values))} of them not finite."
            )
        return Fitted(self, np.sort(values))

    @abstractmethod
    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """The labels of `values`, given the sorted values of the fit units."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A transform with the sorted values it was fitted on."""

    transform: Transform
    reference: Float[np.ndarray, "fit"]

    def apply(self, values: Float[np.ndarray, "input"]) -> Float[np.ndarray, "input"]:
        """The labels of values, from the fit units or not."""
        return self.transform.mapped(values, self.reference)


@dataclass(frozen=True)
class Identity(Transform):
    """The values themselves."""

    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """A copy."""
        return values.copy()


@dataclass(frozen=True)
class Binary(Transform):
    """1 where the value is positive, else 0."""

    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """1[value > 0]."""
        return (values > 0).astype(float)


@dataclass(frozen=True)
class Rank(Transform):
    """Mean rank among the fit values, ties sharing theirs, as a share of them."""

    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """(number below + number not above) / 2N, which is (rank - 1/2)/N for a fit value."""
        below = np.searchsorted(reference, values, side="left")
        return (below + np.searchsorted(reference, values, side="right")) / (2 * len(reference))


@dataclass(frozen=True)
class Cdf(Transform):
    """Empirical distribution function of the fit values: the published detector routers' normalisation."""

    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """Share of the fit values that are not above."""
        return np.searchsorted(reference, values, side="right") / len(reference)


@dataclass(frozen=True)
class SignedCdf(Transform):
    """Distribution functions of benefit and harm apart, 0 staying 0: docs/definitions.md, Targets.

    A value whose sign no fit value has is NaN: there is nothing to compare it with.
    """

    def mapped(
        self, values: Float[np.ndarray, "input"], reference: Float[np.ndarray, "fit"]
    ) -> Float[np.ndarray, "input"]:
        """For V > 0 the share of positive fit values <= V; for V < 0 minus the share of negative ones >= V."""
        helped, harmed = reference[reference > 0], reference[reference < 0]
        benefit = np.searchsorted(helped, values, side="right")
        harm = len(harmed) - np.searchsorted(harmed, values, side="left")
        found = np.where(values > 0, benefit / max(len(helped), 1), -harm / max(len(harmed), 1))
        found[values == 0] = 0.0
        found[((values > 0) & (not len(helped))) | ((values < 0) & (not len(harmed)))] = np.nan
        return found
