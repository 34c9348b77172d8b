"""Interface of a downstream system: a decision rule with a loss, over the frames of one
unit.

(perceived objects, scene) -> plans; (plans, scene, truth) -> named loss terms; loss =
their weighted sum. A plan is a row of numbers per frame: an action, a path, a heat map.
Both branches of an input use the previous plan of all-cheap operation; where there is
none, change costs nothing.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError, quote
from deepval.basics.plugins import Code
from deepval.driving.planners.controllers import Rule, loss_weights
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

Plans = Float[np.ndarray, "time *plan"]
FrameValues = dict[str, Float[np.ndarray, "time"]]
"""By name, a number for each frame."""
FrameFlags = Bool[np.ndarray, "time"]


class System(ABC):
    """A decision rule with a loss: a frozen dataclass whose fields are its constants.

    `loss_fields` names the fields that only weigh the loss: changing them changes no
    plan, so that losses can be recombined from the terms instead of planning again. The
    methods that are not abstract fit most systems. A field or property `name` is its
    name in a cell. How plans are described and drawn is in `driving.frames`.
    """

    loss_fields: ClassVar[frozenset[str]] = frozenset()
    tolerance: ClassVar[float] = 0.0
    """Decision values up to this size count as no change: 0 if actions are few, 1e-9 if
    losses are geometric.
    """
    also_called: ClassVar[Mapping[str, str]] = {}
    """Plain names of constants, for a command line."""

    @abstractmethod
    def plan(
        self,
        perceived: Objects,
        scene: Scene,
        *,
        starts: FrameFlags | None = None,
        previous: Plans | None = None,
    ) -> Plans:
        """The plan in each frame, given the previous plans (NaN: none).

        `previous=None` means the system's own plan of the frame before: the chain of
        all-cheap operation, which begins anew where `starts` is True (if None, at the
        first frame only).
        """

    def plan_branches(
        self,
        perceived: Mapping[str, Objects],
        scene: Scene,
        *,
        starts: FrameFlags | None,
    ) -> dict[str, Plans]:
        """The plans of all modes, cheap first, each escalated alone from all-cheap
        operation.

        A system whose plans are expensive may compute all plans of a frame together.
        """
        (cheap, seen), *others = perceived.items()
        plans = {cheap: self.plan(seen, scene, starts=starts)}
        if len(plans[cheap]) != len(scene):
            raise InputError(
                f"a system must have a plan for each of {len(scene)} frames; found "
                f"{len(plans[cheap])}."
            )
        before = previous_plans(
            plans[cheap], first_only(len(scene)) if starts is None else starts
        )
        escalated = {
            mode: self.plan(objects, scene, starts=starts, previous=before)
            for mode, objects in others
        }
        return plans | escalated

    @abstractmethod
    def terms(
        self, plans: Plans, scene: Scene, truth: Truth, *, previous: Plans
    ) -> FrameValues:
        """Loss terms of the plans against the truth, before weighting."""

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term: the constants called TERM_weight, in the order
        of their fields.
        """
        return loss_weights(constants(self))

    @property
    def rule(self) -> Rule | None:
        """What it does about objects, and what that costs if other objects are there;
        None if it is not so simple.
        """
        return None

    def judged(self, scene: Scene, truth: Truth) -> Bool[np.ndarray, "time"]:
        """Frames that the system can judge; the others are no inputs of its cells."""
        return np.ones(len(scene), dtype=bool)

    def evidence(
        self, ends: Mapping[str, Objects], scene: Scene, truth: Truth
    ) -> FrameValues:
        """Evidence that the system adds for diagnostics of perception, by name and
        frame: none.

        `ends` holds the objects of the cheap and the full mode, under "cheap" and
        "full".
        """
        return {}


@dataclass(frozen=True)
class NamedSystem:
    """A downstream system under its name in a cell, with the code of the user's own."""

    name: str
    system: System
    code: Code | None = None

    def __post_init__(self) -> None:
        # it becomes part of the names of folders
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise InputError(
                "the name of a downstream system must consist of letters, digits, "
                f"'.', '-' and '_', and begin with a letter; found {quote(self.name)}."
            )


NAME = re.compile(r"[^\W\d_][\w.-]*")


def default_name(system: System) -> str:
    """The name of a system in a cell: its `name`, else the name of its class."""
    return getattr(system, "name", type(system).__name__)


def first_only(frames: int) -> Bool[np.ndarray, "time"]:
    """Where a chain of plans begins if nothing interrupts it: at the first frame."""
    return np.arange(frames) == 0


def previous_plans(plans: Plans, starts: FrameFlags) -> Plans:
    """The plan of the frame before, NaN where there is none."""
    shifted = np.full_like(plans, np.nan)
    shifted[1:] = plans[:-1]
    shifted[starts] = np.nan
    return shifted


def constants(system: System) -> dict[str, Any]:
    """The constants of a system by name, from which a cell's id is computed.

    Fields that are not compared are no constants: they are paths of files on this
    machine, whose hashes are in other fields.
    """
    if not is_dataclass(system):
        raise InputError(
            "a system must be a frozen "
            f"dataclass; {type(system).__name__} is not: decorate it."
        )
    return {
        field.name: getattr(system, field.name)
        for field in fields(system)
        if field.compare
    }


def with_constants(system: System, changes: Mapping[str, float]) -> System:
    """The system with some constants changed by name, including constants of the
    settings it holds.
    """
    numbers = settable(system)
    for given, value in changes.items():
        name = system.also_called.get(given, given)
        if name not in numbers:
            raise InputError(
                "A constant must "
                f"be one of {', '.join(sorted(numbers))}; found {given!r}."
            )
        if name != given and name in changes:
            raise InputError(
                f"The constant {given} is {name}, which is also "
                "given: leave one of them out."
            )
        holder, before = numbers[name]
        if value * (1 if before >= 0 else -1) < 0:
            raise InputError(
                f"The constant {given} "
                f"must be 0 or {'more' if before >= 0 else 'less'}; found {value:g}."
            )
        if isinstance(before, int) and value != int(value):
            raise InputError(
                f"The constant {given} must be a whole number; found {value:g}."
            )
        inner: Any = system if holder is None else getattr(system, holder)
        inner = replace(inner, **{name: type(before)(value)})
        system = inner if holder is None else replace(system, **{holder: inner})  # pyright: ignore[reportArgumentType]
    return system


def settable(system: System) -> dict[str, tuple[str | None, float]]:
    """The constants that are single numbers, with the settings that hold them (None:
    the system itself).
    """
    found: dict[str, tuple[str | None, float]] = {}
    for name, value in constants(system).items():
        if is_dataclass(value):
            inner = {field.name: getattr(value, field.name) for field in fields(value)}
            found |= {
                key: (name, number)
                for key, number in inner.items()
                if isinstance(number, int | float)
            }
        elif isinstance(value, int | float):
            found[name] = (None, value)
    return found


def same_plans(system: System, variant: System) -> bool:
    """Whether the variant differs from the system in nothing but the weights of its
    loss.
    """
    if type(system) is not type(variant):
        return False
    one, other = constants(system), constants(variant)
    return all(
        one[name] == other[name] for name in one if name not in system.loss_fields
    )
