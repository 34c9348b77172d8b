"""What a downstream system is: a decision rule with a loss, over the frames of one or more units at once.

(perceived objects, ego) -> actions; (actions, reference objects) -> named loss terms; loss = their weighted
sum. Both branches of an input use the previous action of all-cheap operation; where there is none, change
costs nothing.
"""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.geometry.objects import Objects
from deepval.scenes import Ego


class System(ABC):
    """A decision rule with a loss: a frozen dataclass whose fields are its constants.

    `loss_fields` names the fields that only weigh the loss: changing them changes no action, so that losses
    can be recombined from the terms instead of acting again.
    """

    loss_fields: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action the system can take; each, taken always, is a trivial predictor to beat."""

    @abstractmethod
    def act(
        self, perceived: Objects, ego: Ego, *, previous: Float[np.ndarray, "time act"] | None = None
    ) -> Float[np.ndarray, "time act"]:
        """The action in each frame, given the previous actions (NaN: none).

        `previous=None` means the system's own action of the frame before: the chain of all-cheap operation.
        """

    @abstractmethod
    def terms(
        self,
        actions: Float[np.ndarray, "time act"],
        reference: Objects,
        *,
        ego: Ego,
        previous: Float[np.ndarray, "time act"],
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Loss terms of the actions against the reference objects, before weighting."""

    @property
    @abstractmethod
    def weights(self) -> dict[str, float]:
        """The weight of each loss term."""


def previous_actions(actions: Float[np.ndarray, "time act"], ego: Ego) -> Float[np.ndarray, "time act"]:
    """The action of the frame before, NaN where there is none."""
    shifted = np.full_like(actions, np.nan)
    shifted[1:] = actions[:-1]
    shifted[ego.first] = np.nan
    return shifted


def constants(system: System) -> dict[str, Any]:
    """The constants of a system by name: what a cell's id is made from."""
    if not is_dataclass(system):
        raise InputError(f"a system must be a frozen dataclass; {type(system).__name__} is not: decorate it.")
    return {field.name: getattr(system, field.name) for field in fields(system)}


def same_actions(system: System, variant: System) -> bool:
    """Whether the variant differs from the system in nothing but the weights of its loss."""
    if type(system) is not type(variant):
        return False
    one, other = constants(system), constants(variant)
    return all(one[name] == other[name] for name in one if name not in system.loss_fields)
